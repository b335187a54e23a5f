//! Tables of the kinds: their names, examples and fields.

use super::settings::parse;
use crate::channels::{all_kinds, find_kind};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelSettings, SettingField, SettingFieldType,
};

#[test]
fn kinds_are_found_by_their_names() {
    for kind in all_kinds() {
        assert_eq!(find_kind(kind.name), Some(kind));
    }
    assert_eq!((find_kind("Email"), find_kind("")), (None, None));
}

#[test]
fn keys_of_files_and_patterns_are_told_apart() {
    let webhook = find_kind("webhook").unwrap();
    assert!(webhook.is_key_pattern("header.NAME") && webhook.is_key_prefix("header"));
    for key in ["header.name", "header", "down-url", "NAME"] {
        assert!(!webhook.is_key_pattern(key), "{key}");
    }
    for key in ["header.NAME", "header.", "down-url", "NAME", ""] {
        assert!(!webhook.is_key_prefix(key), "{key}");
    }
    assert!(!find_kind("email").unwrap().is_key_prefix("header"));
    for (key, is_secret, is_known) in [
        ("down-url", false, false),
        ("header.x-key", true, true),
        ("method", false, false),
        ("nonsense", true, false),
    ] {
        assert_eq!(webhook.is_secret(key), is_secret, "{key}");
        assert_eq!(webhook.is_known_secret(key), is_known, "{key}");
    }
    let ntfy = find_kind("ntfy").unwrap();
    assert!(ntfy.has_secret_files() && !find_kind("email").unwrap().has_secret_files());
    assert_eq!(ntfy.secret_key_of_file("token-file"), Some("token"));
    for key in ["token", "topic-file", "-file"] {
        assert_eq!(ntfy.secret_key_of_file(key), None, "{key}");
    }
}

fn all_settings(kind: &'static ChannelKind) -> ChannelSettings {
    let mut settings = parse(kind, kind.example).unwrap();
    for field in kind.fields.iter().chain(kind.common_fields()) {
        if let Ok(more) =
            settings.with_value(&field.key.replace("NAME", "name"), sample_value(field))
        {
            settings = more;
        }
    }
    settings
}

pub(super) fn sample_value(field: &SettingField) -> &'static str {
    match field.field_type {
        SettingFieldType::MailAddresses(_) => "a@b.example",
        SettingFieldType::PhoneNumber => "+37120000000",
        SettingFieldType::Url | SettingFieldType::SecretUrl => "https://example.org/a/b",
        SettingFieldType::Choice(words) | SettingFieldType::Words(words) => words.last().unwrap(),
        SettingFieldType::Flag => "on",
        SettingFieldType::Number(..) | SettingFieldType::NumberOrOff(..) => "1",
        SettingFieldType::Duration(..) => "4h",
        SettingFieldType::TimeRange => "22:00-07:00",
        SettingFieldType::Weekdays => "mon-fri",
        SettingFieldType::TimeZone => "Europe/Riga",
        SettingFieldType::CertificatePin => {
            "sha256:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        }
        SettingFieldType::Secret(_) | SettingFieldType::Header => "hidden",
        SettingFieldType::Line(_)
        | SettingFieldType::List(_)
        | SettingFieldType::Text(_)
        | SettingFieldType::Template(_)
        | SettingFieldType::Label => "value",
    }
}

#[test]
fn examples_are_valid_and_every_field_accepts_a_value() {
    for kind in all_kinds() {
        let example = parse(kind, kind.example).unwrap();
        assert_eq!(example.missing_setting(), None, "{kind:?}");
        assert!(
            example.handles_event(AlertEvent::Test) || kind.class == ChannelClass::Group,
            "{kind:?}"
        );
        let all = all_settings(kind);
        assert_eq!(
            ChannelSettings::from_stored(kind, all.pairs()).as_ref(),
            Ok(&all),
            "{kind:?}"
        );
        // Shown settings may be sent back.
        let masked: Vec<_> = all.masked().collect();
        assert_eq!(
            all.replace_with(masked.iter().map(|(key, value)| (*key, &**value)))
                .as_ref(),
            Ok(&all),
            "{kind:?}"
        );
        for secret in all.secrets() {
            assert!(!masked.iter().any(|(_, value)| value == secret), "{kind:?}");
        }
        for field in kind
            .fields
            .iter()
            .filter(|field| kind.example.iter().all(|(key, _)| *key != field.key))
        {
            let key = field.key.replace("NAME", "name");
            let alone = kind
                .example
                .iter()
                .copied()
                .filter(|(other, _)| *other != key)
                .chain([(key.as_str(), sample_value(field))]);
            match ChannelSettings::from_stored(kind, alone) {
                Ok(_) => {}
                // Only a conflict with another field.
                Err(error) => assert!(
                    error.to_string().contains("; give") && !error.to_string().contains("is no"),
                    "{error}"
                ),
            }
        }
        assert!(
            !kind.instructions().is_empty() && !kind.title.is_empty(),
            "{kind:?}"
        );
        assert!(
            kind.guide.is_empty() || kind.guide.ends_with('.'),
            "{kind:?}"
        );
        for step in kind.steps {
            assert!(!step.is_empty() && !step.ends_with('.'), "{step}");
        }
        assert!(
            all_kinds()
                .filter(|other| other.name == kind.name || other.aliases.contains(&kind.name))
                .count()
                == 1
        );
    }
    assert_eq!(find_kind("pushover").map(|kind| kind.name), Some("po"));
    assert_eq!(find_kind("pagerduty").map(|kind| kind.name), Some("pd"));
    assert_eq!(find_kind("teams").map(|kind| kind.name), Some("msteamsw"));
}

//! Secrets: their masks, their files, and the authors that may set them.

use super::kinds::kind_named;
use super::setting_fields::sample_value;
use super::settings::{Pairs, parse};
use crate::domain::channel::{ChannelSettings, SettingField, SettingFieldType, SettingsAuthor};

#[test]
fn secrets_are_never_shown() {
    let shown = |settings: &ChannelSettings| {
        settings
            .masked()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let webhook = parse(
        kind_named("webhook"),
        &[
            ("down-url", "http://a/"),
            ("header.Authorization", "Bearer b"),
            ("body", "c"),
        ],
    )
    .unwrap();
    assert_eq!(
        shown(&webhook),
        "body=c down-url=http://a/ header.authorization=*** method=POST"
    );
    assert_eq!(
        shown(&parse(kind_named("email"), &[("to", "a@b")]).unwrap()),
        "to=a@b"
    );
    assert_eq!(format!("{webhook:?}"), "ChannelSettings(webhook, ..)");
}

#[test]
fn a_mask_keeps_the_stored_secret() {
    let stored = parse(
        kind_named("webhook"),
        &[
            ("down-url", "http://a/x"),
            ("up-url", "https://b:1"),
            ("header.k", "secret"),
            ("header.l", "l"),
        ],
    )
    .unwrap();
    let masked: Vec<_> = stored.masked().collect();
    let replaced = |pairs: Pairs<'_>| {
        stored
            .replace_with(pairs.iter().copied())
            .map_err(|error| error.to_string())
    };
    let a = ("down-url", "http://a/x");
    let k = ("header.k", "***");
    for (given, wanted) in [
        // All values come back as they were shown.
        (
            masked
                .iter()
                .map(|(key, value)| (*key, &**value))
                .collect::<Vec<_>>(),
            stored.pairs().collect::<Vec<_>>(),
        ),
        (
            vec![a, ("header.K", "***")],
            vec![a, ("header.k", "secret"), ("method", "GET")],
        ),
        (
            vec![a, ("header.k", "other")],
            vec![a, ("header.k", "other"), ("method", "GET")],
        ),
        (vec![a], vec![a, ("method", "GET")]),
        // Another path.
        (
            vec![("down-url", "HTTP://A?y"), k],
            vec![
                ("down-url", "HTTP://A?y"),
                ("header.k", "secret"),
                ("method", "GET"),
            ],
        ),
        // A value that is not secret may look like a mask.
        (
            vec![a, ("body", "***")],
            vec![("body", "***"), a, ("method", "POST")],
        ),
        // A new server gets new secrets.
        (
            vec![("up-url", "http://c"), ("header.k", "new")],
            vec![
                ("header.k", "new"),
                ("method", "GET"),
                ("up-url", "http://c"),
            ],
        ),
    ] {
        assert_eq!(
            replaced(&given).unwrap().pairs().collect::<Vec<_>>(),
            wanted,
            "{given:?}"
        );
    }
    let elsewhere = "settings of kind webhook: up-url names another server, which must not receive \
                     stored secrets; give the value of \"header.k\" instead of ***";
    for (given, message) in [
        (
            vec![a, ("header.m", "***")],
            "\"header.m\" is ***, which stands for a stored value, but none is stored; give the \
             value",
        ),
        (vec![a, ("up-url", "http://c/"), k], elsewhere),
        (vec![("up-url", "https://a/x"), k], elsewhere),
        (vec![("up-url", "http://a:8080/x"), k], elsewhere),
        (vec![("up-url", "http://a.b/x"), k], elsewhere),
        // The servers are swapped: each may know secrets that the other does not.
        (vec![("up-url", "http://a/x"), k], elsewhere),
        (vec![k], "there is no URL"),
    ] {
        let error = replaced(&given).unwrap_err();
        assert!(error.contains(message), "{given:?}: {error}");
    }
    // The only server has already received every secret.
    let one = parse(kind_named("webhook"), &[a, ("down-header.k", "secret")]).unwrap();
    assert!(
        one.replace_with([a, ("up-url", "http://a/y"), ("down-header.k", "***")])
            .is_ok()
    );
    assert!(
        parse(kind_named("webhook"), &[a, k])
            .unwrap_err()
            .contains(r#""header.k" is ***, which stands for a stored value"#)
    );
    // A file with such a value was written before the mask was introduced.
    assert!(ChannelSettings::from_stored(kind_named("webhook"), [a, k]).is_ok());
}

/// Returns settings of a kind: its example, and a value for every other compatible field.

#[test]
fn secrets_can_be_read_from_files_of_the_operator() {
    let gotify = kind_named("gotify");
    let url = ("url", "https://a/");
    let settings = parse(gotify, &[url, ("token-file", "/run/credentials/token")]).unwrap();
    assert_eq!(
        settings.secret_files().collect::<Vec<_>>(),
        [("token", "/run/credentials/token")]
    );
    assert_eq!(
        settings
            .masked()
            .map(|(_, value)| value.into_owned())
            .collect::<Vec<_>>(),
        ["/run/credentials/token", "https://a/"]
    );
    let filled = settings.with_value("token", "secret").unwrap();
    assert_eq!(
        (filled.get("token"), filled.secret_files().count()),
        (Some("secret"), 0)
    );
    assert!(
        parse(gotify, &[url, ("token-file", "token")])
            .unwrap_err()
            .contains("token-file is not an absolute path")
    );
    assert!(
        parse(gotify, &[url, ("url-file", "/a")])
            .unwrap_err()
            .contains("there is no setting \"url-file\"")
    );
    // A header may have this name.
    let webhook = parse(
        kind_named("webhook"),
        &[("down-url", "http://a"), ("header.x-file", "no path")],
    )
    .unwrap();
    assert_eq!(webhook.secret_files().count(), 0);
    // A client with only an API key may not name files of the server.
    let error = settings
        .validate_author(SettingsAuthor::Api)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "settings of kind gotify: token-file may be set only by the operator of the server; leave \
         it out, or use overdue channel set"
    );
    assert!(
        settings.validate_author(SettingsAuthor::Operator).is_ok()
            && filled.validate_author(SettingsAuthor::Api).is_ok()
    );
    let pinned = filled
        .with_value(
            "tls-pin",
            sample_value(&SettingField::optional(
                "",
                SettingFieldType::CertificatePin,
                "",
            )),
        )
        .unwrap();
    assert!(pinned.validate_author(SettingsAuthor::Api).is_err());
    let shell = parse(kind_named("shell"), &[("down-command", "true")]).unwrap();
    assert!(
        shell
            .validate_author(SettingsAuthor::Api)
            .unwrap_err()
            .to_string()
            .contains("only the operator of the server may create such a channel")
    );
}

#[test]
fn a_masked_url_shows_its_server_and_keeps_its_secret_part() {
    let discord = kind_named("discord");
    let stored = parse(
        discord,
        &[("url", "https://discord.com/api/webhooks/1/abc")],
    )
    .unwrap();
    assert_eq!(
        stored.masked().collect::<Vec<_>>(),
        [("url", "https://discord.com/***".into())]
    );
    let replaced = |pairs: Pairs<'_>| {
        stored
            .replace_with(pairs.iter().copied())
            .map_err(|error| error.to_string())
    };
    let kept = replaced(&[("url", "https://discord.com/***"), ("thread", "7")]).unwrap();
    assert_eq!(
        kept.get("url"),
        Some("https://discord.com/api/webhooks/1/abc")
    );
    assert!(
        replaced(&[("url", "https://example.org/***")])
            .unwrap_err()
            .contains(
                "must not receive stored secrets; give the value of \"url\" instead of \
                 https://example.org/***"
            )
    );
    assert_eq!(
        replaced(&[("url", "https://example.org/x")])
            .unwrap()
            .get("url"),
        Some("https://example.org/x")
    );
    assert!(
        parse(discord, &[("url", "https://discord.com/***")])
            .unwrap_err()
            .contains("none is stored")
    );
}

use super::kinds::email::EMAIL;
use super::kinds::sms::SMS;
use super::kinds::webhook::WEBHOOK;
use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn parse(kind: &'static ChannelKind, pairs: Pairs<'_>) -> Result<ChannelSettings, String> {
    ChannelSettings::parse(kind, pairs.iter().copied()).map_err(|error| error.to_string())
}

#[test]
fn kinds_are_found_by_their_names() {
    for kind in ChannelKind::ALL {
        assert_eq!(ChannelKind::from_name(kind.name), Some(kind));
    }
    assert_eq!(
        (ChannelKind::from_name("Email"), ChannelKind::from_name("")),
        (None, None)
    );
}

#[test]
fn valid_settings_are_accepted_and_read_back() {
    let long = format!("https://example.org/{}", "x".repeat(1980));
    let cases: &[(&'static ChannelKind, Pairs<'_>)] = &[
        (&EMAIL, &[("to", "ops@example.org")]),
        (&EMAIL, &[("to", "a.b+c_d/e=f@localhost")]),
        (&EMAIL, &[("to", "a@b,c@d, e@f")]),
        (
            &EMAIL,
            &[
                ("every", "on"),
                ("quiet", "22:00-07:00"),
                ("quiet-days", "fri-mon"),
                ("to", "a@b"),
                ("tz", "Europe/Riga"),
            ],
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://127.0.0.1:9/down"), ("method", "GET")],
        ),
        (
            &WEBHOOK,
            &[
                ("method", "GET"),
                ("up-url", "HTTPS://my_host?x=$STATUS&y=%20"),
            ],
        ),
        (
            &WEBHOOK,
            &[
                ("down-url", "http://[::1]"),
                ("method", "PUT"),
                ("up-url", "http://[2001:db8::1]:65535/"),
            ],
        ),
        (&WEBHOOK, &[("down-url", &long), ("method", "GET")]),
        (
            &WEBHOOK,
            &[
                ("body", "{\n\t\"text\": \"ž\"}"),
                ("down-url", "http://a"),
                ("method", "POST"),
            ],
        ),
        (
            &WEBHOOK,
            &[
                ("down-url", "http://a"),
                ("header.authorization", "Bearer ž; =x"),
                ("header.x-1", ""),
                ("method", "GET"),
            ],
        ),
    ];
    for (kind, pairs) in cases {
        let settings = parse(kind, pairs).unwrap();
        assert_eq!(settings.pairs().collect::<Vec<_>>(), *pairs);
        assert_eq!(
            ChannelSettings::from_stored(kind, settings.pairs()).as_ref(),
            Ok(&settings)
        );
    }
}

#[test]
fn omitted_settings_have_defaults() {
    let url = ("down-url", "http://a/");
    for (short, full) in [
        (vec![url], vec![url, ("method", "GET")]),
        (vec![url, ("body", "")], vec![url, ("method", "GET")]),
        (
            vec![("body", "x"), url],
            vec![("body", "x"), url, ("method", "POST")],
        ),
        (
            vec![url, ("header.X-Key", "a")],
            vec![url, ("header.x-key", "a"), ("method", "GET")],
        ),
    ] {
        assert_eq!(parse(&WEBHOOK, &short), parse(&WEBHOOK, &full), "{short:?}");
    }
}

#[test]
fn invalid_settings_are_rejected_with_their_field_and_a_remedy() {
    let long = "x".repeat(10_001);
    let local = format!("{}@example.org", "x".repeat(65));
    let label = format!("a@{}.org", "x".repeat(64));
    let name = format!("header.{}", "x".repeat(101));
    let value = "x".repeat(1001);
    let url = format!("http://a/{}", "x".repeat(1992));
    let down = ("down-url", "http://a/");
    let cases: &[(&'static ChannelKind, Pairs<'_>, &str)] = &[
        (
            &EMAIL,
            &[],
            "settings of kind email: to is missing; give to=ADDRESS,...",
        ),
        (
            &EMAIL,
            &[("too", "ops@example.org")],
            r#"settings of kind email: there is no setting "too"; use to"#,
        ),
        (
            &EMAIL,
            &[("to", "a@b"), ("to", "a@b")],
            "\"to\" is given twice; give it once",
        ),
        (
            &SMS,
            &[],
            "settings of kind sms: to is missing; give to=NUMBER",
        ),
        (
            &WEBHOOK,
            &[],
            "there is no URL; give down-url=URL, up-url=URL or both",
        ),
        (
            &WEBHOOK,
            &[("url", "http://a")],
            r#"there is no setting "url"; use down-url, up-url, method, body, header.NAME"#,
        ),
        (
            &WEBHOOK,
            &[("header", "x")],
            "there is no setting \"header\"",
        ),
        (&WEBHOOK, &[down, ("up-url", "")], "up-url is not an http"),
        (
            &WEBHOOK,
            &[("down-url", "ftp://a/")],
            "down-url is not an http",
        ),
        (
            &WEBHOOK,
            &[("down-url", "example.org/x")],
            "down-url is not an http",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http:///x")],
            "down-url has no valid host",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://a..b/")],
            "down-url has no valid host",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://[::g]/")],
            "down-url has no valid host",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://::1/")],
            "down-url has no valid host",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://a:0/")],
            "down-url has no valid port",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://a:+80/")],
            "down-url has no valid port",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://a:65536/")],
            "down-url has no valid port",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://a:/")],
            "down-url has no valid port",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://a/x y")],
            "down-url has a character",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://a/\r\nX: y")],
            "down-url has a character",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://ž/")],
            "down-url has a character",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://a/#b")],
            "down-url has a fragment",
        ),
        (
            &WEBHOOK,
            &[("down-url", "http://me:secret@a/")],
            "down-url has a user name; give header.Authorization",
        ),
        (
            &WEBHOOK,
            &[("down-url", &url)],
            "down-url has 2001 bytes; give at most 2000",
        ),
        (
            &WEBHOOK,
            &[down, ("method", "DELETE")],
            "method is not one of GET, POST, PUT",
        ),
        (
            &WEBHOOK,
            &[down, ("method", "post")],
            "method is not one of GET, POST, PUT",
        ),
        (
            &WEBHOOK,
            &[down, ("method", "GET"), ("body", "x")],
            "method GET carries no body",
        ),
        (
            &WEBHOOK,
            &[down, ("body", &long)],
            "body has 10001 bytes; give at most 10000",
        ),
        (
            &WEBHOOK,
            &[down, ("header.", "x")],
            "\"header.\" does not name a header",
        ),
        (
            &WEBHOOK,
            &[down, ("header.a b", "x")],
            "\"header.a b\" does not name a header",
        ),
        (
            &WEBHOOK,
            &[down, ("header.a:", "x")],
            "does not name a header",
        ),
        (
            &WEBHOOK,
            &[down, ("header.Content-Length", "1")],
            r#""header.Content-Length" is set by overdue"#,
        ),
        (
            &WEBHOOK,
            &[down, ("header.A", "x\r\nB: y")],
            "\"header.A\" has a control character",
        ),
        (
            &WEBHOOK,
            &[down, ("header.A", "x"), ("header.a", "x")],
            "\"header.a\" is given twice",
        ),
        (
            &WEBHOOK,
            &[down, (&name, "x")],
            "is too long; a name has at most 100 bytes",
        ),
        (
            &WEBHOOK,
            &[down, ("header.A", &value)],
            "\"header.A\" is too long",
        ),
    ];
    for (kind, pairs, message) in cases {
        let error = parse(kind, pairs).unwrap_err();
        assert!(error.contains(message), "{pairs:?}: {error}");
    }
    for to in [
        "",
        "ops",
        "@a",
        "a@",
        "a@b@c",
        "a b@c",
        "a..b@c",
        ".a@b",
        "a@b\r\n",
        "a@-b",
        "Ops <a@b>",
        "ž@a",
        &local,
        &label,
    ] {
        assert!(
            parse(&EMAIL, &[("to", to)])
                .unwrap_err()
                .contains("to is not one mail address"),
            "{to}"
        );
    }
    assert!(
        parse(&EMAIL, &[("to", "a@b,c")])
            .unwrap_err()
            .contains("to has an item that is not a mail address like ops@example.org")
    );
    assert!(
        parse(&EMAIL, &[("to", &["a@b"; 11].join(","))])
            .unwrap_err()
            .contains("to has 11 addresses; give at most 10")
    );
    for to in [
        "",
        "37120000000",
        "+",
        "+371 2000",
        "+371-20000000",
        "+0371200000",
        "+1234567890123456",
        "+123456",
        "+٣٧١٢٠٠٠٠",
    ] {
        assert!(
            parse(&SMS, &[("to", to)])
                .unwrap_err()
                .contains("to is not a phone number"),
            "{to}"
        );
    }
    let headers = |count| {
        (0..count)
            .map(|number| (format!("header.x{number}"), "y"))
            .chain([(down.0.to_owned(), down.1)])
    };
    let most = ChannelSettings::parse(&WEBHOOK, headers(64)).unwrap();
    assert_eq!(ChannelSettings::parse(&WEBHOOK, most.pairs()), Ok(most));
    let error = ChannelSettings::parse(&WEBHOOK, headers(65)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("header.NAME is given more than 64 times; give fewer"),
        "{error}"
    );
}

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
        &WEBHOOK,
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
    assert_eq!(shown(&parse(&EMAIL, &[("to", "a@b")]).unwrap()), "to=a@b");
    assert_eq!(format!("{webhook:?}"), "ChannelSettings(webhook, ..)");
}

#[test]
fn a_mask_keeps_the_stored_secret() {
    let stored = parse(
        &WEBHOOK,
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
    let one = parse(&WEBHOOK, &[a, ("down-header.k", "secret")]).unwrap();
    assert!(
        one.replace_with([a, ("up-url", "http://a/y"), ("down-header.k", "***")])
            .is_ok()
    );
    assert!(
        parse(&WEBHOOK, &[a, k])
            .unwrap_err()
            .contains(r#""header.k" is ***, which stands for a stored value"#)
    );
    // A file with such a value was written before the mask was introduced.
    assert!(ChannelSettings::from_stored(&WEBHOOK, [a, k]).is_ok());
}

/// Returns settings of a kind: its example, and a value for every other compatible field.
fn all_settings(kind: &'static ChannelKind) -> ChannelSettings {
    let mut settings = parse(kind, kind.example).unwrap();
    for field in kind.fields.iter().chain(kind.common_fields()) {
        if let Ok(more) = settings.with_value(&field.key.replace("NAME", "name"), sample(field)) {
            settings = more;
        }
    }
    settings
}

fn sample(field: &SettingField) -> &'static str {
    match field.field_type {
        FieldType::MailAddresses(_) => "a@b.example",
        FieldType::PhoneNumber => "+37120000000",
        FieldType::Url | FieldType::SecretUrl => "https://example.org/a/b",
        FieldType::Choice(words) => words.last().unwrap(),
        FieldType::Flag => "on",
        FieldType::Number(..) | FieldType::NumberOrOff(..) => "1",
        FieldType::Duration(..) => "4h",
        FieldType::TimeRange => "22:00-07:00",
        FieldType::Weekdays => "mon-fri",
        FieldType::TimeZone => "Europe/Riga",
        FieldType::CertificatePin => {
            "sha256:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        }
        FieldType::Secret(_) | FieldType::Header => "hidden",
        FieldType::Line(_)
        | FieldType::List(_)
        | FieldType::Text(_)
        | FieldType::Template(_)
        | FieldType::Label => "value",
    }
}

#[test]
fn examples_are_valid_and_every_field_accepts_a_value() {
    for kind in ChannelKind::ALL {
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
                .chain([(key.as_str(), sample(field))]);
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
            !kind.guide.is_empty() && kind.guide.ends_with('.') && !kind.title.is_empty(),
            "{kind:?}"
        );
        assert!(
            ChannelKind::ALL
                .iter()
                .filter(|other| other.name == kind.name || other.aliases.contains(&kind.name))
                .count()
                == 1
        );
    }
    assert_eq!(
        ChannelKind::from_name("pushover").map(|kind| kind.name),
        Some("po")
    );
    assert_eq!(
        ChannelKind::from_name("pagerduty").map(|kind| kind.name),
        Some("pd")
    );
    assert_eq!(
        ChannelKind::from_name("teams").map(|kind| kind.name),
        Some("msteamsw")
    );
}

#[test]
fn every_field_type_describes_its_valid_values() {
    let refused = |form: FieldType, value: &str| {
        SettingField::optional("key", form, "")
            .check_value("key", value)
            .unwrap_err()
    };
    for (form, good, bad, message) in [
        (
            FieldType::Number(-3, 2),
            &["-3", "0", "2"][..],
            &["", "3", "+1", "01", "1.5", "9999999999999999999"][..],
            "key is not a whole number in range; give a number from -3 to 2",
        ),
        (
            FieldType::NumberOrOff(1, 9),
            &["off", "9"],
            &["", "0", "on"],
            "give a number from 1 to 9, or off",
        ),
        (
            FieldType::Duration(300, 86_400),
            &["300s", "5m", "1h", "1d"],
            &[
                "",
                "5",
                "4m",
                "2d",
                "-1h",
                "1w",
                "1h30m",
                "9223372036854775807d",
            ],
            "key is not a duration from 5m to 1d; give one like 90s, 30m, 4h or 2d",
        ),
        (
            FieldType::TimeRange,
            &["00:00-23:59", "22:00-07:00"],
            &[
                "",
                "22-7",
                "24:00-07:00",
                "22:60-07:00",
                "+2:00-07:00",
                "22:00",
            ],
            "key is not a time range like 22:00-07:00",
        ),
        (
            FieldType::Weekdays,
            &["mon", "mon-fri", "sat,sun", "fri-mon,wed"],
            &["", "Mon", "mon-", "monday", "mon,,tue"],
            "key is not a list of weekdays like mon-fri",
        ),
        (
            FieldType::TimeZone,
            &["Europe/Riga", "UTC"],
            &["", "Riga", "europe/riga"],
            "key is not a time zone",
        ),
        (
            FieldType::CertificatePin,
            &["sha256:000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"],
            &[
                "",
                "sha256:00",
                "sha256:0001z2030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            ],
            "key is not the SHA-256 of a certificate",
        ),
        (
            FieldType::Flag,
            &["on", "off"],
            &["", "yes", "ON"],
            "key is not one of on, off",
        ),
        (FieldType::List(2), &["a", "a, b"], &["a,", ",", ""], "key "),
        (
            FieldType::Line(3),
            &["a b"],
            &["", " ", "a\nb", "abcd", "\0"],
            "key ",
        ),
    ] {
        let field = SettingField::optional("key", form, "");
        for value in good {
            assert_eq!(field.check_value("key", value), Ok(()), "{value}");
        }
        for value in bad {
            let error = field.check_value("key", value).unwrap_err();
            assert!(
                error.contains(message) && error.contains([';', ':']),
                "{value}: {error}"
            );
        }
    }
    assert_eq!(
        refused(FieldType::List(2), "a,b,c"),
        "key has 3 items; give at most 2"
    );
    assert!(
        SettingField::optional("label.NAME", FieldType::Label, "")
            .check_value("label.0a", "x")
            .unwrap_err()
            .contains("does not name a label")
    );
}

#[test]
fn secrets_can_be_read_from_files_of_the_operator() {
    let gotify = ChannelKind::from_name("gotify").unwrap();
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
        &WEBHOOK,
        &[("down-url", "http://a"), ("header.x-file", "no path")],
    )
    .unwrap();
    assert_eq!(webhook.secret_files().count(), 0);
    // A client with only an API key may not name files of the server.
    let error = settings
        .check_author(SettingsAuthor::Api)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "settings of kind gotify: token-file may be set only by the operator of the server; leave \
         it out, or use overdue channel set"
    );
    assert!(
        settings.check_author(SettingsAuthor::Operator).is_ok()
            && filled.check_author(SettingsAuthor::Api).is_ok()
    );
    let pinned = filled
        .with_value(
            "tls-pin",
            sample(&SettingField::optional("", FieldType::CertificatePin, "")),
        )
        .unwrap();
    assert!(pinned.check_author(SettingsAuthor::Api).is_err());
    let shell = parse(
        ChannelKind::from_name("shell").unwrap(),
        &[("down-command", "true")],
    )
    .unwrap();
    assert!(
        shell
            .check_author(SettingsAuthor::Api)
            .unwrap_err()
            .to_string()
            .contains("only the operator of the server may create such a channel")
    );
}

#[test]
fn a_masked_url_shows_its_server_and_keeps_its_secret_part() {
    let discord = ChannelKind::from_name("discord").unwrap();
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

#[test]
fn a_channel_created_before_a_setting_was_required_stays() {
    let old = ChannelSettings::from_stored(&SMS, [("to", "+37120000000")]).unwrap();
    assert_eq!(
        old.missing_setting().as_deref(),
        Some("account is missing; give account=TEXT")
    );
    assert_eq!(
        parse(&SMS, &[("to", "+37120000000")])
            .unwrap()
            .missing_setting(),
        old.missing_setting(),
        "such a channel can be made, as ever"
    );
    // It may be saved unchanged, but a change must complete it.
    let masked: Vec<_> = old.masked().collect();
    assert_eq!(
        old.replace_with(masked.iter().map(|(key, value)| (*key, &**value)))
            .as_ref(),
        Ok(&old)
    );
    assert!(old.replace_with([("to", "+37120000001")]).is_err());
    let whole = [
        ("to", "+37120000001"),
        ("account", "AC0123456789abcdef0123456789abcdef"),
        ("token", "t"),
        ("from", "+12025550100"),
    ];
    assert_eq!(old.replace_with(whole).unwrap().missing_setting(), None);
    let error = old.replace_with(whole.into_iter().take(3)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the sender is missing; give from=TEXT or service=TEXT"),
        "{error}"
    );
}

#[test]
fn a_channel_that_was_imported_without_settings_cannot_deliver() {
    for (kind, obstacle) in [
        (
            "webhook",
            "there is no URL; give down-url=URL, up-url=URL or both",
        ),
        (
            "shell",
            "there is no command; give down-command=TEXT, up-command=TEXT or both",
        ),
        ("slack", "url is missing; give url=URL"),
    ] {
        let kind = ChannelKind::from_name(kind).unwrap();
        let settings = ChannelSettings::from_incomplete(kind, [("", ""); 0]).unwrap();
        assert_eq!(settings.obstacle(None).as_deref(), Some(obstacle));
        assert_eq!(
            ChannelSettings::parse_any_format(kind, kind.example.iter().copied())
                .unwrap()
                .obstacle(None),
            None
        );
    }
}

#[test]
fn common_settings_are_parsed() {
    let plain = parse(&EMAIL, &[("to", "a@b")]).unwrap();
    let common = plain.common();
    assert_eq!(
        (
            common.alerts_on_down,
            common.alerts_on_up,
            common.all_checks,
            common.group_after,
            common.receives_notices
        ),
        (true, true, false, Some(5), false)
    );
    assert!(
        plain.handles_event(AlertEvent::Down)
            && plain.handles_event(AlertEvent::Up)
            && plain.handles_event(AlertEvent::StillDown)
    );
    assert!(!plain.handles_event(AlertEvent::Notice) && !plain.handles_event(AlertEvent::Closed));
    let set = [
        ("to", "a@b"),
        ("send", "up"),
        ("repeat", "4h"),
        ("repeat-most", "3"),
        ("group-after", "off"),
        ("notices", "on"),
        ("tz", "Europe/Riga"),
        ("quiet", "22:00-07:00"),
    ];
    let set = parse(&EMAIL, &set).unwrap();
    let common = set.common();
    assert_eq!(
        (
            common.alerts_on_down,
            common.alerts_on_up,
            common.reminder_interval,
            common.max_reminders,
            common.group_after
        ),
        (false, true, Some(14_400), Some(3), None)
    );
    assert_eq!(
        common.tz.as_ref().map(|zone| zone.name()),
        Some("Europe/Riga")
    );
    assert!(
        !set.handles_event(AlertEvent::Down)
            && set.handles_event(AlertEvent::Up)
            && set.handles_event(AlertEvent::Notice)
            && set.handles_event(AlertEvent::Test)
    );
    let example = |name: &str| {
        parse(
            ChannelKind::from_name(name).unwrap(),
            ChannelKind::from_name(name).unwrap().example,
        )
        .unwrap()
    };
    assert!(
        example("pd").handles_event(AlertEvent::Closed)
            && !example("pd").handles_event(AlertEvent::StillDown)
            && !example("webhook").handles_event(AlertEvent::Closed)
    );
    assert!(
        example("github").handles_event(AlertEvent::Down)
            && !example("github").handles_event(AlertEvent::Up)
    );
    assert_eq!(
        (
            example("sms").common().daily_limit,
            example("ntfy").common().daily_limit
        ),
        (Some(50), None)
    );
    assert_eq!(example("group").members().count(), 0);
    assert!(
        [AlertEvent::Down, AlertEvent::Up, AlertEvent::Test]
            .into_iter()
            .all(|event| !example("group").handles_event(event))
    );
    let silent = example("ntfy").with_value("priority-up", "0").unwrap();
    assert!(
        silent.handles_event(AlertEvent::Down)
            && !silent.handles_event(AlertEvent::Up)
            && silent.handles_event(AlertEvent::Test)
    );
    assert!(
        parse(
            ChannelKind::from_name("pd").unwrap(),
            &[("key", "k"), ("repeat", "4h")]
        )
        .unwrap_err()
        .contains("there is no setting \"repeat\"")
    );
}

#[test]
fn quiet_hours_end_at_the_right_time() {
    let riga = crate::domain::timezone::Timezone::parse("Europe/Riga").unwrap();
    let moment = |text: &str| {
        crate::domain::timestamp::Timestamp::from_micros(
            text.parse::<jiff::Timestamp>().unwrap().as_microsecond(),
        )
    };
    // 2026-11-20 is a Friday; the zone is two hours ahead, three until 25 October at 04:00.
    for (quiet, days, now, end) in [
        ("22:00-07:00", "mon-sun", "2026-11-20T19:59:59Z", None),
        (
            "22:00-07:00",
            "mon-sun",
            "2026-11-20T20:00:00Z",
            Some("2026-11-21T05:00:00Z"),
        ),
        (
            "22:00-07:00",
            "mon-sun",
            "2026-11-21T04:59:59Z",
            Some("2026-11-21T05:00:00Z"),
        ),
        ("22:00-07:00", "mon-sun", "2026-11-21T05:00:00Z", None),
        (
            "22:00-07:00",
            "fri",
            "2026-11-21T04:00:00Z",
            Some("2026-11-21T05:00:00Z"),
        ),
        ("22:00-07:00", "sat", "2026-11-21T04:00:00Z", None),
        (
            "12:00-13:00",
            "fri",
            "2026-11-20T10:30:00Z",
            Some("2026-11-20T11:00:00Z"),
        ),
        ("12:00-13:00", "sat,sun", "2026-11-20T10:30:00Z", None),
        (
            "00:00-00:00",
            "fri",
            "2026-11-20T10:30:00Z",
            Some("2026-11-20T22:00:00Z"),
        ),
        // The clocks are put back in the first night and forward in the other.
        (
            "22:00-07:00",
            "mon-sun",
            "2026-10-24T20:00:00Z",
            Some("2026-10-25T05:00:00Z"),
        ),
        (
            "22:00-03:30",
            "mon-sun",
            "2026-03-28T22:00:00Z",
            Some("2026-03-29T01:30:00Z"),
        ),
        (
            "22:00-03:30",
            "mon-sun",
            "2026-10-24T20:00:00Z",
            Some("2026-10-25T01:30:00Z"),
        ),
    ] {
        let settings = parse(
            &EMAIL,
            &[("to", "a@b"), ("quiet", quiet), ("quiet-days", days)],
        )
        .unwrap();
        assert_eq!(
            settings
                .common()
                .quiet_hours
                .unwrap()
                .end_after(moment(now), &riga),
            end.map(moment),
            "{quiet} {days} {now}"
        );
    }
}

#[test]
fn values_that_no_service_issues_are_rejected_unless_they_are_stored() {
    let key = "0123456789abcdef0123456789abcdef";
    let token = "token is not one that @BotFather issues; give digits, a colon and letters, like \
                 123456:AbC-dEf_GhI";
    for (kind, pairs, error) in [
        (
            "telegram",
            &[("token", "nonsense"), ("chat", "1")][..],
            token,
        ),
        (
            "telegram",
            &[("token", "1:a"), ("chat", "hello world")],
            "chat is neither the number of a chat nor the name of a channel",
        ),
        (
            "pd",
            &[("key", "short")],
            "key is not an integration key, which has 32 letters and digits",
        ),
        (
            "discord",
            &[("url", "https://discord.com/channels/1/2")],
            "url is not a webhook URL",
        ),
        (
            "ntfy",
            &[("topic", "my topic")],
            "topic is not an ntfy topic",
        ),
    ] {
        let kind = ChannelKind::from_name(kind).unwrap();
        let refused = ChannelSettings::parse(kind, pairs.iter().copied()).unwrap_err();
        assert!(
            refused.problem().starts_with(error) && refused.field().is_some(),
            "{refused}"
        );
        // Values that were created earlier or elsewhere stay, and are kept when another setting
        // changes.
        let stored = ChannelSettings::parse_any_format(kind, pairs.iter().copied()).unwrap();
        assert_eq!(
            ChannelSettings::from_incomplete(kind, stored.pairs()).as_ref(),
            Ok(&stored)
        );
        let changed = stored
            .replace_with(pairs.iter().copied().chain([("send", "down")]))
            .unwrap();
        assert_eq!(changed.get(pairs[0].0), Some(pairs[0].1));
        assert_eq!(
            stored
                .replace_with(
                    stored
                        .masked()
                        .map(|(key, value)| (key, value.into_owned()))
                )
                .as_ref(),
            Ok(&stored)
        );
    }
    let pd = ChannelKind::from_name("pd").unwrap();
    let stored = parse(pd, &[("key", key)]).unwrap();
    assert!(
        stored
            .replace_with([("key", "short")])
            .unwrap_err()
            .problem()
            .starts_with("key is not")
    );
}

#[test]
fn old_connectors_of_teams_cause_a_warning() {
    let teams = ChannelKind::from_name("msteamsw").unwrap();
    let warnings = |url: &str| parse(teams, &[("url", url)]).unwrap().warnings();
    assert_eq!(
        warnings("https://contoso.webhook.office.com/webhookb2/a").len(),
        1
    );
    assert_eq!(
        warnings("https://example.webhook.powerplatform.example/workflows/abc"),
        [""; 0]
    );
}

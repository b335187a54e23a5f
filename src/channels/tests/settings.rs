//! Valid settings, and errors for invalid ones.

use super::kinds::{example, kind_named};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::declared::object_fields::channel_fields;

pub(super) type Pairs<'a> = &'a [(&'a str, &'a str)];

pub(super) fn parse(
    kind: &'static ChannelKind,
    pairs: Pairs<'_>,
) -> Result<ChannelSettings, String> {
    ChannelSettings::parse(kind, pairs.iter().copied()).map_err(|error| error.to_string())
}

#[test]
fn valid_settings_are_accepted_and_read_back() {
    let long = format!("https://example.org/{}", "x".repeat(1980));
    let name = format!("header.{}", "x".repeat(100));
    let value = "x".repeat(1000);
    let cases: &[(&'static ChannelKind, Pairs<'_>)] = &[
        (
            kind_named("webhook"),
            &[
                ("down-url", "http://a/"),
                (&name, &value),
                ("method", "GET"),
            ],
        ),
        (kind_named("email"), &[("to", "ops@example.org")]),
        (kind_named("email"), &[("to", "a.b+c_d/e=f@localhost")]),
        (kind_named("email"), &[("to", "a@b,c@d, e@f")]),
        (
            kind_named("email"),
            &[
                ("every", "on"),
                ("quiet", "22:00-07:00"),
                ("quiet-days", "fri-mon"),
                ("to", "a@b"),
                ("tz", "Europe/Riga"),
            ],
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://127.0.0.1:9/down"), ("method", "GET")],
        ),
        (
            kind_named("webhook"),
            &[
                ("method", "GET"),
                ("up-url", "HTTPS://my_host?x=$STATUS&y=%20"),
            ],
        ),
        (
            kind_named("webhook"),
            &[
                ("down-url", "http://[::1]"),
                ("method", "PUT"),
                ("up-url", "http://[2001:db8::1]:65535/"),
            ],
        ),
        (
            kind_named("webhook"),
            &[("down-url", &long), ("method", "GET")],
        ),
        (
            kind_named("webhook"),
            &[
                ("body", "{\n\t\"text\": \"ž\"}"),
                ("down-url", "http://a"),
                ("method", "POST"),
            ],
        ),
        (
            kind_named("webhook"),
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
        assert_eq!(
            parse(kind_named("webhook"), &short),
            parse(kind_named("webhook"), &full),
            "{short:?}"
        );
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
            kind_named("email"),
            &[],
            "settings of kind email: to is missing; give to=ADDRESS,...",
        ),
        (
            kind_named("email"),
            &[("too", "ops@example.org")],
            r#"settings of kind email: there is no setting "too"; use to"#,
        ),
        (
            kind_named("email"),
            &[("to", "a@b"), ("to", "a@b")],
            "\"to\" is given twice; give it once",
        ),
        (
            kind_named("sms"),
            &[],
            "settings of kind sms: to is missing; give to=NUMBER",
        ),
        (
            kind_named("webhook"),
            &[],
            "there is no URL; give down-url=URL, up-url=URL or both",
        ),
        (
            kind_named("webhook"),
            &[("url", "http://a")],
            r#"there is no setting "url"; use down-url, up-url, method, body, header.NAME"#,
        ),
        (
            kind_named("webhook"),
            &[("header", "x")],
            "there is no setting \"header\"",
        ),
        (
            kind_named("webhook"),
            &[down, ("up-url", "")],
            "up-url is not an http",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "ftp://a/")],
            "down-url is not an http",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "example.org/x")],
            "down-url is not an http",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http:///x")],
            "down-url has no valid host",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://a..b/")],
            "down-url has no valid host",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://[::g]/")],
            "down-url has no valid host",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://::1/")],
            "down-url has no valid host",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://a:0/")],
            "down-url has no valid port",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://a:+80/")],
            "down-url has no valid port",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://a:65536/")],
            "down-url has no valid port",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://a:/")],
            "down-url has no valid port",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://a/x y")],
            "down-url has a character",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://a/\r\nX: y")],
            "down-url has a character",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://ž/")],
            "down-url has a character",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://a/#b")],
            "down-url has a fragment",
        ),
        (
            kind_named("webhook"),
            &[("down-url", "http://me:secret@a/")],
            "down-url has a user name; give header.Authorization",
        ),
        (
            kind_named("webhook"),
            &[("down-url", &url)],
            "down-url has 2001 bytes; give at most 2000",
        ),
        (
            kind_named("webhook"),
            &[down, ("method", "DELETE")],
            "method is not one of GET, POST, PUT",
        ),
        (
            kind_named("webhook"),
            &[down, ("method", "post")],
            "method is not one of GET, POST, PUT",
        ),
        (
            kind_named("webhook"),
            &[down, ("method", "GET"), ("body", "x")],
            "method GET carries no body",
        ),
        (
            kind_named("webhook"),
            &[down, ("body", &long)],
            "body has 10001 bytes; give at most 10000",
        ),
        (
            kind_named("webhook"),
            &[down, ("header.", "x")],
            "\"header.\" does not name a header",
        ),
        (
            kind_named("webhook"),
            &[down, ("header.a b", "x")],
            "\"header.a b\" does not name a header",
        ),
        (
            kind_named("webhook"),
            &[down, ("header.a:", "x")],
            "does not name a header",
        ),
        (
            kind_named("webhook"),
            &[down, ("header.Content-Length", "1")],
            r#""header.Content-Length" is set by overdue"#,
        ),
        (
            kind_named("webhook"),
            &[down, ("header.A", "x\r\nB: y")],
            "\"header.A\" has a control character",
        ),
        (
            kind_named("webhook"),
            &[down, ("header.A", "x"), ("header.a", "x")],
            "\"header.a\" is given twice",
        ),
        (
            kind_named("webhook"),
            &[down, (&name, "x")],
            "is too long; a name has at most 100 bytes",
        ),
        (
            kind_named("webhook"),
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
            parse(kind_named("email"), &[("to", to)])
                .unwrap_err()
                .contains("to is not one mail address"),
            "{to}"
        );
    }
    assert!(
        parse(kind_named("email"), &[("to", "a@b,c")])
            .unwrap_err()
            .contains("to has an item that is not a mail address like ops@example.org")
    );
    assert!(
        parse(kind_named("email"), &[("to", &["a@b"; 11].join(","))])
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
            parse(kind_named("sms"), &[("to", to)])
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
    let most = ChannelSettings::parse(kind_named("webhook"), headers(64)).unwrap();
    assert_eq!(
        ChannelSettings::parse(kind_named("webhook"), most.pairs()),
        Ok(most)
    );
    let error = ChannelSettings::parse(kind_named("webhook"), headers(65)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("header.NAME is given more than 64 times; give fewer"),
        "{error}"
    );
}

#[test]
fn a_channel_created_before_a_setting_was_required_stays() {
    let old = ChannelSettings::from_stored(kind_named("sms"), [("to", "+37120000000")]).unwrap();
    assert_eq!(
        old.missing_setting().as_deref(),
        Some("account is missing; give account=TEXT")
    );
    assert_eq!(
        parse(kind_named("sms"), &[("to", "+37120000000")])
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
    let completed = old.replace_with(whole).unwrap();
    assert_eq!(completed.missing_setting(), None);
    assert!(completed.is_complete() && !old.is_complete());
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
        let kind = kind_named(kind);
        let settings = ChannelSettings::from_incomplete(kind, [("", ""); 0]).unwrap();
        assert_eq!(settings.obstacle(None).as_deref(), Some(obstacle));
        assert!(!settings.is_complete());
        assert_eq!(
            ChannelSettings::parse_any_format(kind, kind.example.iter().copied())
                .unwrap()
                .obstacle(None),
            None
        );
    }
}

#[test]
fn the_destination_of_a_channel_is_not_secret() {
    for (kind, for_writers, for_readers) in [
        (
            "telegram",
            Some("-1001234567890"),
            Some("https://api.telegram.org"),
        ),
        (
            "github",
            Some("example/ops"),
            Some("https://api.github.com"),
        ),
        ("sms", Some("+37120000000"), Some("+37120000000")),
        (
            "matrix",
            Some("https://matrix.example.org"),
            Some("https://matrix.example.org"),
        ),
        ("po", None, None),
        ("pd", None, None),
    ] {
        let settings = example(kind);
        assert_eq!(settings.destination(true).as_deref(), for_writers, "{kind}");
        assert_eq!(
            settings.destination(false).as_deref(),
            for_readers,
            "{kind}"
        );
    }
    let settings = example("po").with_value("device", "desk").unwrap();
    assert_eq!(settings.destination(true).as_deref(), Some("desk"));
    assert_eq!(settings.destination(false), None);
}

#[test]
fn files_leave_out_settings_that_have_their_default_value() {
    let keys = |settings: &ChannelSettings| {
        let fields = channel_fields(settings).into_iter();
        fields.map(|(key, _)| key.to_string()).collect::<Vec<_>>()
    };
    let pushover = example("po");
    assert!(pushover.pairs().any(|pair| pair == ("priority", "0")));
    assert_eq!(keys(&pushover), ["kind", "token", "user"]);
    let urgent = pushover.with_value("priority", "1").unwrap();
    assert_eq!(keys(&urgent), ["kind", "priority", "token", "user"]);
}

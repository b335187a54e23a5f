use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn parse(kind: Kind, pairs: Pairs<'_>) -> Result<Settings, String> {
    Settings::parse(kind, pairs.iter().copied()).map_err(|error| error.to_string())
}

#[test]
fn kinds_have_names() {
    for kind in Kind::ALL {
        assert_eq!(Kind::parse(kind.name()), Some(kind));
    }
    assert_eq!((Kind::parse("Email"), Kind::parse("")), (None, None));
}

#[test]
fn good_settings_are_taken_and_come_back() {
    let long = format!("https://example.org/{}", "x".repeat(1980));
    let cases: &[(Kind, Pairs<'_>)] = &[
        (Kind::Email, &[("to", "ops@example.org")]),
        (Kind::Email, &[("to", "a.b+c_d/e=f@localhost")]),
        (Kind::Sms, &[("to", "+37120000000")]),
        (Kind::Webhook, &[("down-url", "http://127.0.0.1:9/down"), ("method", "GET")]),
        (Kind::Webhook, &[("method", "GET"), ("up-url", "HTTPS://my_host?x=$STATUS&y=%20")]),
        (Kind::Webhook, &[("down-url", "http://[::1]"), ("method", "PUT"), ("up-url", "http://[2001:db8::1]:65535/")]),
        (Kind::Webhook, &[("down-url", &long), ("method", "GET")]),
        (Kind::Webhook, &[("body", "{\n\t\"text\": \"ž\"}"), ("down-url", "http://a"), ("method", "POST")]),
        (Kind::Webhook, &[("down-url", "http://a"), ("header.authorization", "Bearer ž; =x"), ("header.x-1", ""), ("method", "GET")]),
    ];
    for (kind, pairs) in cases {
        let settings = parse(*kind, pairs).unwrap();
        let back = settings.pairs();
        assert_eq!(back.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(), *pairs);
        assert_eq!(Settings::parse(*kind, back), Ok(settings));
    }
}

#[test]
fn what_is_left_out_has_a_default() {
    let url = ("down-url", "http://a/");
    for (short, full) in [
        (vec![url], vec![url, ("method", "GET")]),
        (vec![url, ("body", "")], vec![url, ("method", "GET")]),
        (vec![("body", "x"), url], vec![("body", "x"), url, ("method", "POST")]),
        (vec![url, ("header.X-Key", "a")], vec![url, ("header.x-key", "a"), ("method", "GET")]),
    ] {
        assert_eq!(parse(Kind::Webhook, &short), parse(Kind::Webhook, &full), "{short:?}");
    }
}

#[test]
fn bad_settings_are_refused_with_what_where_and_what_to_do() {
    let long = "x".repeat(10_001);
    let (local, label) = (format!("{}@example.org", "x".repeat(65)), format!("a@{}.org", "x".repeat(64)));
    let (name, value, url) = (format!("header.{}", "x".repeat(101)), "x".repeat(1001), format!("http://a/{}", "x".repeat(1992)));
    let down = ("down-url", "http://a/");
    let cases: &[(Kind, Pairs<'_>, &str)] = &[
        (Kind::Email, &[], "settings of kind email: to is missing; give to=ADDRESS"),
        (Kind::Email, &[("too", "ops@example.org")], "settings of kind email: there is no setting \"too\"; use to"),
        (Kind::Email, &[("to", "a@b"), ("to", "a@b")], "\"to\" is given twice; give it once"),
        (Kind::Sms, &[], "settings of kind sms: to is missing; give to=NUMBER"),
        (Kind::Webhook, &[], "there is no URL; give down-url=URL, up-url=URL or both"),
        (Kind::Webhook, &[("url", "http://a")], "there is no setting \"url\"; use down-url, up-url, method, body, header.NAME"),
        (Kind::Webhook, &[("header", "x")], "there is no setting \"header\""),
        (Kind::Webhook, &[down, ("up-url", "")], "up-url is not an http"),
        (Kind::Webhook, &[("down-url", "ftp://a/")], "down-url is not an http"),
        (Kind::Webhook, &[("down-url", "example.org/x")], "down-url is not an http"),
        (Kind::Webhook, &[("down-url", "http:///x")], "down-url has no valid host"),
        (Kind::Webhook, &[("down-url", "http://a..b/")], "down-url has no valid host"),
        (Kind::Webhook, &[("down-url", "http://[::g]/")], "down-url has no valid host"),
        (Kind::Webhook, &[("down-url", "http://::1/")], "down-url has no valid host"),
        (Kind::Webhook, &[("down-url", "http://a:0/")], "down-url has no valid port"),
        (Kind::Webhook, &[("down-url", "http://a:+80/")], "down-url has no valid port"),
        (Kind::Webhook, &[("down-url", "http://a:65536/")], "down-url has no valid port"),
        (Kind::Webhook, &[("down-url", "http://a:/")], "down-url has no valid port"),
        (Kind::Webhook, &[("down-url", "http://a/x y")], "down-url has a character"),
        (Kind::Webhook, &[("down-url", "http://a/\r\nX: y")], "down-url has a character"),
        (Kind::Webhook, &[("down-url", "http://ž/")], "down-url has a character"),
        (Kind::Webhook, &[("down-url", "http://a/#b")], "down-url has a fragment"),
        (Kind::Webhook, &[("down-url", "http://me:secret@a/")], "down-url has a user name; give header.Authorization"),
        (Kind::Webhook, &[("down-url", &url)], "down-url has 2001 bytes; give at most 2000"),
        (Kind::Webhook, &[down, ("method", "DELETE")], "method is none of GET, POST, PUT"),
        (Kind::Webhook, &[down, ("method", "post")], "method is none of GET, POST, PUT"),
        (Kind::Webhook, &[down, ("method", "GET"), ("body", "x")], "method GET carries no body"),
        (Kind::Webhook, &[down, ("body", &long)], "body has 10001 bytes; give at most 10000"),
        (Kind::Webhook, &[down, ("header.", "x")], "\"header.\" does not name a header"),
        (Kind::Webhook, &[down, ("header.a b", "x")], "\"header.a b\" does not name a header"),
        (Kind::Webhook, &[down, ("header.a:", "x")], "does not name a header"),
        (Kind::Webhook, &[down, ("header.Content-Length", "1")], "\"header.Content-Length\" is set by the sender"),
        (Kind::Webhook, &[down, ("header.A", "x\r\nB: y")], "\"header.A\" has a control character"),
        (Kind::Webhook, &[down, ("header.A", "x"), ("header.a", "x")], "\"header.a\" is given twice"),
        (Kind::Webhook, &[down, (&name, "x")], "is too long; a name has at most 100 bytes"),
        (Kind::Webhook, &[down, ("header.A", &value)], "\"header.A\" is too long"),
    ];
    for (kind, pairs, message) in cases {
        let error = parse(*kind, pairs).unwrap_err();
        assert!(error.contains(message), "{pairs:?}: {error}");
    }
    for to in ["", "ops", "@a", "a@", "a@b@c", "a b@c", "a..b@c", ".a@b", "a@b\r\n", "a@-b", "Ops <a@b>", "a@b,c@d", "ž@a", &local, &label]
    {
        assert!(parse(Kind::Email, &[("to", to)]).unwrap_err().contains("to is not one mail address"), "{to}");
    }
    for to in ["", "37120000000", "+", "+371 2000", "+371-20000000", "+0371200000", "+1234567890123456", "+123456", "+٣٧١٢٠٠٠٠"] {
        assert!(parse(Kind::Sms, &[("to", to)]).unwrap_err().contains("to is not a phone number"), "{to}");
    }
    let many = (0..64).map(|number| (format!("header.x{number}"), "y"));
    let error = Settings::parse(Kind::Webhook, many.chain([(down.0.to_owned(), down.1)])).unwrap_err();
    assert!(error.to_string().contains("more than 64 settings"), "{error}");
}

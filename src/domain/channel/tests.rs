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
        assert_eq!(ChannelKind::named(kind.name), Some(kind));
    }
    assert_eq!((ChannelKind::named("Email"), ChannelKind::named("")), (None, None));
}

#[test]
fn good_settings_are_taken_and_come_back() {
    let long = format!("https://example.org/{}", "x".repeat(1980));
    let cases: &[(&'static ChannelKind, Pairs<'_>)] = &[
        (&EMAIL, &[("to", "ops@example.org")]),
        (&EMAIL, &[("to", "a.b+c_d/e=f@localhost")]),
        (&SMS, &[("to", "+37120000000")]),
        (&WEBHOOK, &[("down-url", "http://127.0.0.1:9/down"), ("method", "GET")]),
        (&WEBHOOK, &[("method", "GET"), ("up-url", "HTTPS://my_host?x=$STATUS&y=%20")]),
        (&WEBHOOK, &[("down-url", "http://[::1]"), ("method", "PUT"), ("up-url", "http://[2001:db8::1]:65535/")]),
        (&WEBHOOK, &[("down-url", &long), ("method", "GET")]),
        (&WEBHOOK, &[("body", "{\n\t\"text\": \"ž\"}"), ("down-url", "http://a"), ("method", "POST")]),
        (&WEBHOOK, &[("down-url", "http://a"), ("header.authorization", "Bearer ž; =x"), ("header.x-1", ""), ("method", "GET")]),
    ];
    for (kind, pairs) in cases {
        let settings = parse(kind, pairs).unwrap();
        assert_eq!(settings.pairs().collect::<Vec<_>>(), *pairs);
        assert_eq!(ChannelSettings::read(kind, settings.pairs()).as_ref(), Ok(&settings));
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
        assert_eq!(parse(&WEBHOOK, &short), parse(&WEBHOOK, &full), "{short:?}");
    }
}

#[test]
fn bad_settings_are_refused_with_what_where_and_what_to_do() {
    let long = "x".repeat(10_001);
    let (local, label) = (format!("{}@example.org", "x".repeat(65)), format!("a@{}.org", "x".repeat(64)));
    let (name, value, url) = (format!("header.{}", "x".repeat(101)), "x".repeat(1001), format!("http://a/{}", "x".repeat(1992)));
    let down = ("down-url", "http://a/");
    let cases: &[(&'static ChannelKind, Pairs<'_>, &str)] = &[
        (&EMAIL, &[], "settings of kind email: to is missing; give to=ADDRESS"),
        (&EMAIL, &[("too", "ops@example.org")], "settings of kind email: there is no setting \"too\"; use to"),
        (&EMAIL, &[("to", "a@b"), ("to", "a@b")], "\"to\" is given twice; give it once"),
        (&SMS, &[], "settings of kind sms: to is missing; give to=NUMBER"),
        (&WEBHOOK, &[], "there is no URL; give down-url=URL, up-url=URL or both"),
        (&WEBHOOK, &[("url", "http://a")], "there is no setting \"url\"; use down-url, up-url, method, body, header.NAME"),
        (&WEBHOOK, &[("header", "x")], "there is no setting \"header\""),
        (&WEBHOOK, &[down, ("up-url", "")], "up-url is not an http"),
        (&WEBHOOK, &[("down-url", "ftp://a/")], "down-url is not an http"),
        (&WEBHOOK, &[("down-url", "example.org/x")], "down-url is not an http"),
        (&WEBHOOK, &[("down-url", "http:///x")], "down-url has no valid host"),
        (&WEBHOOK, &[("down-url", "http://a..b/")], "down-url has no valid host"),
        (&WEBHOOK, &[("down-url", "http://[::g]/")], "down-url has no valid host"),
        (&WEBHOOK, &[("down-url", "http://::1/")], "down-url has no valid host"),
        (&WEBHOOK, &[("down-url", "http://a:0/")], "down-url has no valid port"),
        (&WEBHOOK, &[("down-url", "http://a:+80/")], "down-url has no valid port"),
        (&WEBHOOK, &[("down-url", "http://a:65536/")], "down-url has no valid port"),
        (&WEBHOOK, &[("down-url", "http://a:/")], "down-url has no valid port"),
        (&WEBHOOK, &[("down-url", "http://a/x y")], "down-url has a character"),
        (&WEBHOOK, &[("down-url", "http://a/\r\nX: y")], "down-url has a character"),
        (&WEBHOOK, &[("down-url", "http://ž/")], "down-url has a character"),
        (&WEBHOOK, &[("down-url", "http://a/#b")], "down-url has a fragment"),
        (&WEBHOOK, &[("down-url", "http://me:secret@a/")], "down-url has a user name; give header.Authorization"),
        (&WEBHOOK, &[("down-url", &url)], "down-url has 2001 bytes; give at most 2000"),
        (&WEBHOOK, &[down, ("method", "DELETE")], "method is none of GET, POST, PUT"),
        (&WEBHOOK, &[down, ("method", "post")], "method is none of GET, POST, PUT"),
        (&WEBHOOK, &[down, ("method", "GET"), ("body", "x")], "method GET carries no body"),
        (&WEBHOOK, &[down, ("body", &long)], "body has 10001 bytes; give at most 10000"),
        (&WEBHOOK, &[down, ("header.", "x")], "\"header.\" does not name a header"),
        (&WEBHOOK, &[down, ("header.a b", "x")], "\"header.a b\" does not name a header"),
        (&WEBHOOK, &[down, ("header.a:", "x")], "does not name a header"),
        (&WEBHOOK, &[down, ("header.Content-Length", "1")], "\"header.Content-Length\" is set by the sender"),
        (&WEBHOOK, &[down, ("header.A", "x\r\nB: y")], "\"header.A\" has a control character"),
        (&WEBHOOK, &[down, ("header.A", "x"), ("header.a", "x")], "\"header.a\" is given twice"),
        (&WEBHOOK, &[down, (&name, "x")], "is too long; a name has at most 100 bytes"),
        (&WEBHOOK, &[down, ("header.A", &value)], "\"header.A\" is too long"),
    ];
    for (kind, pairs, message) in cases {
        let error = parse(kind, pairs).unwrap_err();
        assert!(error.contains(message), "{pairs:?}: {error}");
    }
    for to in ["", "ops", "@a", "a@", "a@b@c", "a b@c", "a..b@c", ".a@b", "a@b\r\n", "a@-b", "Ops <a@b>", "a@b,c@d", "ž@a", &local, &label]
    {
        assert!(parse(&EMAIL, &[("to", to)]).unwrap_err().contains("to is not one mail address"), "{to}");
    }
    for to in ["", "37120000000", "+", "+371 2000", "+371-20000000", "+0371200000", "+1234567890123456", "+123456", "+٣٧١٢٠٠٠٠"] {
        assert!(parse(&SMS, &[("to", to)]).unwrap_err().contains("to is not a phone number"), "{to}");
    }
    let headers = |count| (0..count).map(|number| (format!("header.x{number}"), "y")).chain([(down.0.to_owned(), down.1)]);
    let most = ChannelSettings::parse(&WEBHOOK, headers(64)).unwrap();
    assert_eq!(ChannelSettings::parse(&WEBHOOK, most.pairs()), Ok(most));
    let error = ChannelSettings::parse(&WEBHOOK, headers(65)).unwrap_err();
    assert!(error.to_string().contains("header.NAME is given more than 64 times; give fewer"), "{error}");
}

#[test]
fn secrets_are_shown_to_nobody() {
    let shown = |settings: &ChannelSettings| settings.masked().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    let webhook = parse(&WEBHOOK, &[("down-url", "http://a/"), ("header.Authorization", "Bearer b"), ("body", "c")]).unwrap();
    assert_eq!(shown(&webhook), "body=c down-url=http://a/ header.authorization=*** method=POST");
    assert_eq!(shown(&parse(&EMAIL, &[("to", "a@b")]).unwrap()), "to=a@b");
    assert_eq!(format!("{webhook:?}"), "ChannelSettings(webhook, ..)");
}

#[test]
fn a_mask_keeps_what_is_stored() {
    let stored =
        parse(&WEBHOOK, &[("down-url", "http://a/x"), ("up-url", "https://b:1"), ("header.k", "secret"), ("header.l", "l")]).unwrap();
    let replaced = |pairs: Pairs<'_>| stored.replaced(pairs.iter().copied()).map_err(|error| error.to_string());
    let (a, k) = (("down-url", "http://a/x"), ("header.k", "***"));
    for (given, wanted) in [
        // Everything comes back as it was shown.
        (stored.masked().collect::<Vec<_>>(), stored.pairs().collect::<Vec<_>>()),
        (vec![a, ("header.K", "***")], vec![a, ("header.k", "secret"), ("method", "GET")]),
        (vec![a, ("header.k", "other")], vec![a, ("header.k", "other"), ("method", "GET")]),
        (vec![a], vec![a, ("method", "GET")]),
        // Other paths, and the same servers the other way round.
        (vec![("up-url", "HTTP://A?y"), k], vec![("header.k", "secret"), ("method", "GET"), ("up-url", "HTTP://A?y")]),
        // What is no secret may look like a mask.
        (vec![a, ("body", "***")], vec![("body", "***"), a, ("method", "POST")]),
        // A new server gets new secrets.
        (vec![("up-url", "http://c"), ("header.k", "new")], vec![("header.k", "new"), ("method", "GET"), ("up-url", "http://c")]),
    ] {
        assert_eq!(replaced(&given).unwrap().pairs().collect::<Vec<_>>(), wanted, "{given:?}");
    }
    let elsewhere = "settings of kind webhook: up-url names another server, which gets no stored secret; give \"header.k\" anew, not ***";
    for (given, message) in [
        (vec![a, ("header.m", "***")], "\"header.m\" is ***, which stands for a stored value, and none is stored; give the value"),
        (vec![a, ("up-url", "http://c/"), k], elsewhere),
        (vec![("up-url", "https://a/x"), k], elsewhere),
        (vec![("up-url", "http://a:8080/x"), k], elsewhere),
        (vec![("up-url", "http://a.b/x"), k], elsewhere),
        (vec![k], "there is no URL"),
    ] {
        let error = replaced(&given).unwrap_err();
        assert!(error.contains(message), "{given:?}: {error}");
    }
    assert!(parse(&WEBHOOK, &[a, k]).unwrap_err().contains("\"header.k\" is ***, which stands for a stored value"));
    // A file that holds such a value was written before it meant anything.
    assert!(ChannelSettings::read(&WEBHOOK, [a, k]).is_ok());
}

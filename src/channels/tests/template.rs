//! Placeholders, compared with the documented behavior of Healthchecks.

use super::sample::{attempt, backup, down, moment, of_check, ping, up};
use crate::channels::alert::{Alert, CheckFacts};
use crate::channels::template::{TemplateTarget, TemplateTooLong, TemplateValues};
use crate::domain::check::CheckSettings;
use crate::domain::flip::FlipCause;
use crate::domain::ping::PingKind;
use crate::domain::text::{Name, Slug, Tags};

fn named(name: &str, tags: &str) -> CheckFacts {
    let mut check = backup();
    let settings = CheckSettings {
        name: Name::parse(name).unwrap(),
        slug: Slug::parse("slug-1").unwrap(),
        tags: Tags::from_stored(tags),
        ..(*check.settings).clone()
    };
    check.settings = settings.into();
    check.last_ping = None;
    check
}

fn late(check: CheckFacts) -> Alert {
    of_check(check, down("2026-11-20T01:45:00Z", FlipCause::MissedPing))
}

fn fill(alert: &Alert, template: &str, place: TemplateTarget) -> String {
    TemplateValues::for_alert(alert, &attempt())
        .unwrap()
        .fill(template, place)
        .unwrap()
}

#[test]
fn only_the_template_itself_has_placeholders() {
    use TemplateTarget::{Body, Header, Url};
    let many = (1..=12)
        .map(|number| format!("t{number}"))
        .collect::<Vec<_>>()
        .join(" ");
    for (name, tags, template, place, filled) in [
        (
            "",
            "foo",
            "http://host/$$NAMETAG1",
            Url,
            "http://host/$TAG1",
        ),
        (
            "$TAG1",
            "foo",
            "http://host/$NAME",
            Url,
            "http://host/%24TAG1",
        ),
        (
            "a b/ž",
            "",
            "http://host/$NAME?x=$STATUS",
            Url,
            "http://host/a%20b/%C5%BE?x=down",
        ),
        (
            "Foo",
            "",
            "http://host/$BODY/$CODE",
            Url,
            "http://host/$BODY/6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f",
        ),
        ("Foo", "", "$BODY $BODY_JSON", Header, "$BODY $BODY_JSON"),
        (
            "Foo",
            "",
            "<$BODY|$BODY_JSON|$EXITSTATUS>",
            Body,
            "<|\"\"|-1>",
        ),
        ("Foo", "", "$NOW", Body, "2026-11-20T01:45:00+00:00"),
        ("Foo", "", "$NOW", Url, "2026-11-20T01%3A45%3A00%2B00%3A00"),
        (
            "a\"b\\ž🦀\n",
            "",
            "$NAME_JSON",
            Body,
            "\"a\\\"b\\\\\\u017e\\ud83e\\udd80\\n\"",
        ),
        (
            "Foo",
            &many,
            "$TAG1 $TAG10 $TAG12 $TAG13 $TAG0 $TAG01 $TAG",
            Body,
            "t1 t10 t12 $TAG13 $TAG0 $TAG01 $TAG",
        ),
        ("Foo", " a  b ", "[$TAGS]", Body, "[ a  b ]"),
        (
            "Foo",
            "",
            "$SLUG $UNKNOWN $ $$ $name",
            Body,
            "slug-1 $UNKNOWN $ $$ $name",
        ),
        ("Foo", "", "$NAMES $NAME_JSONX", Body, "FooS \"Foo\"X"),
        (
            "Foo",
            "",
            "$PROJECT|$REASON|$DOWNTIME|$TITLE",
            Body,
            "Home|no success signal came in time|18720|Foo is down",
        ),
        ("Foo", "", "$TITLE_JSON", Body, "\"Foo is down\""),
        ("Foo", "", "$JSON", Body, "$JSON"),
    ] {
        assert_eq!(
            fill(&late(named(name, tags)), template, place),
            filled,
            "{template}"
        );
    }
}

#[test]
fn headers_are_latin_1_and_one_line() {
    let header = |name: &str| {
        TemplateValues::for_alert(&late(named(name, "")), &attempt())
            .unwrap()
            .fill_header("x $NAME")
            .unwrap()
    };
    assert_eq!(header("bār"), "x b&#257;r");
    assert_eq!(header("½"), "x ½");
    assert_eq!(header("a\r\nB: c\0"), "x a  B: c ");
}

#[test]
fn the_last_ping_fills_body_and_exit_status() {
    let mut check = named("Foo", "");
    check.last_ping = Some(ping(
        PingKind::Fail,
        "2026-11-20T01:34:05Z",
        Some(3),
        b"a\xff\"\n$NAME",
    ));
    check.json = Some("{\"name\":\"Foo\"}".into());
    let alert = late(check);
    assert_eq!(
        fill(&alert, "$BODY|$EXITSTATUS|$JSON", TemplateTarget::Body),
        "a\u{fffd}\"\n$NAME|3|{\"name\":\"Foo\"}"
    );
    assert_eq!(
        fill(&alert, "$BODY_JSON", TemplateTarget::Body),
        "\"a\\ufffd\\\"\\n$NAME\""
    );
    let alert = of_check(
        backup(),
        up(
            "2026-11-20T01:45:00Z",
            "2026-11-20T01:55:00Z",
            FlipCause::MissedPing,
            true,
        ),
    );
    assert_eq!(
        fill(&alert, "$STATUS $DOWNTIME", TemplateTarget::Body),
        "up 600"
    );
}

#[test]
fn the_event_json_contains_no_secret_that_allows_pings() {
    let alert = late(backup());
    let text = fill(&alert, "$EVENT_JSON", TemplateTarget::Body);
    assert!(!text.contains("6f3a0f6e"), "{text}");
    let event: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(event["id"], "0a1b2c3d-1042");
    assert_eq!(
        (&event["event"], &event["cause"], &event["status"]),
        (&"down".into(), &"late".into(), &"down".into())
    );
    assert_eq!(event["check"]["expected"], "every day at 03:30");
    assert_eq!(event["check"]["tags"], serde_json::json!(["prod", "db"]));
    assert_eq!(
        event["downtime"],
        serde_json::json!({ "from": "2026-11-20T01:45:00+00:00", "until": null, "seconds": 18_720 })
    );
    assert_eq!(event["last_ping"]["duration"], 252);
    assert_eq!(moment("2026-11-20T01:45:00Z"), alert.at);
}

#[test]
fn a_filled_template_never_exceeds_its_limit() {
    let attempt = attempt();
    let mut check = named(&"n".repeat(100), "");
    check.last_ping = Some(ping(
        PingKind::Fail,
        "2026-11-20T01:34:05Z",
        None,
        &vec![b'x'; 100_000],
    ));
    check.json = Some("j".repeat(60_000));
    let alert = late(check);
    let values = TemplateValues::for_alert(&alert, &attempt).unwrap();
    let too_long = |most| Err(TemplateTooLong { max_bytes: most });
    assert_eq!(
        values
            .fill(&"$BODY".repeat(10), TemplateTarget::Body)
            .map(|body| body.len()),
        Ok(1_000_000)
    );
    for (template, place, most) in [
        ("$BODY".repeat(11), TemplateTarget::Body, 1 << 20),
        ("$BODY_JSON".repeat(1_000), TemplateTarget::Body, 1 << 20),
        ("http://host/$JSON".to_owned(), TemplateTarget::Url, 8 << 10),
        (
            format!("http://host/{}", "$NAME".repeat(82)),
            TemplateTarget::Url,
            8 << 10,
        ),
    ] {
        assert_eq!(values.fill(&template, place), too_long(most), "{template}");
    }
    // The text after the last placeholder counts as well.
    assert!(
        values
            .fill(
                &format!("{}{}", "$NAME".repeat(81), "x".repeat(92)),
                TemplateTarget::Url
            )
            .is_ok()
    );
    assert_eq!(
        values.fill(
            &format!("{}{}", "$NAME".repeat(81), "x".repeat(93)),
            TemplateTarget::Url
        ),
        too_long(8 << 10)
    );
    assert_eq!(values.fill_header("$JSON"), too_long(8 << 10));
    assert!(values.fill_header(&"x".repeat(8 << 10)).is_ok());
    // Characters outside Latin-1 become longer.
    let alert = late(named(&"\u{101}".repeat(100), ""));
    let values = TemplateValues::for_alert(&alert, &attempt).unwrap();
    assert!(values.fill_header(&"$NAME".repeat(13)).is_ok());
    assert_eq!(values.fill_header(&"$NAME".repeat(14)), too_long(8 << 10));
}

#[test]
fn a_command_gets_its_values_as_environment_variables() {
    let attempt = attempt();
    let mut check = named("a'; $(reboot) \"`x`\" \0", "one two");
    let body = format!("{}\0{}", "a".repeat(200_000), "ž".repeat(100));
    check.last_ping = Some(ping(
        PingKind::Fail,
        "2026-11-20T01:34:05Z",
        None,
        body.as_bytes(),
    ));
    let alert = late(check);
    let variables: std::collections::BTreeMap<_, _> = TemplateValues::for_alert(&alert, &attempt)
        .unwrap()
        .environment_variables()
        .collect();
    let names: Vec<_> = variables.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "BODY", "CODE", "NAME", "NOW", "STATUS", "TAG1", "TAG2", "TAGS"
        ]
    );
    assert_eq!(variables["NAME"], "a'; $(reboot) \"`x`\" ");
    assert_eq!(
        (variables["TAGS"].as_str(), variables["TAG2"].as_str()),
        ("one two", "two")
    );
    assert!(
        variables["BODY"].len() <= 100 << 10
            && variables["BODY"].ends_with(&format!("a{}", "ž".repeat(100)))
    );
    assert!(variables.values().all(|value| !value.contains('\0')));

    // Imported values may be longer than the limits here.
    let mut check = named("a", "");
    let settings = CheckSettings {
        tags: Tags::from_stored(&"tag ".repeat(100_000)),
        ..(*check.settings).clone()
    };
    check.settings = settings.into();
    let alert = late(check);
    let values = TemplateValues::for_alert(&alert, &attempt).unwrap();
    let bytes: usize = values
        .environment_variables()
        .map(|(name, value)| name.len() + value.len() + 2 + 8)
        .sum();
    assert!(
        bytes < 256 << 10
            && values
                .environment_variables()
                .all(|(_, value)| value.len() <= 16 << 10),
        "{bytes}"
    );
}

#[test]
fn fuzz_templates() {
    use TemplateTarget::{Body, Header, Url};
    const EXAMPLES: &[&str] = &[
        "http://host/$NAME?x=$TAG1&y=$TAG12&z=$STATUS",
        "{\"text\": \"$NAME_JSON is $STATUS: $BODY_JSON\", \"t\": \"$NOW\"}",
        "$CODE $$CODE $CODE$CODE $EXITSTATUS $JSON",
        "\u{17e} $BODY $TAGS",
    ];
    let alert = late(named("a\"b $NAME", "x $TAG1"));
    let attempt = attempt();
    let values = TemplateValues::for_alert(&alert, &attempt).unwrap();
    crate::util::fuzzing::fuzz_text(EXAMPLES, |template| {
        for target in [Url, Header, Body] {
            let filled = values.fill(template, target);
            assert!(filled.is_err() || template.contains('$') || filled.unwrap() == template);
        }
    });
}

//! Tables of request bodies, with the parsed fields or the error.

use proptest::prelude::*;

use super::*;
use crate::domain::check_edit::ChannelSelection;

fn parsed(body: &[u8], version: ApiVersion) -> Result<CheckFields, String> {
    RequestDocument::parse(body)
        .and_then(|document| CheckFields::parse(&document, version, &CheckSettings::default()))
        .map_err(|error| error.to_string())
}

fn refusal(body: &str) -> String {
    match parsed(body.as_bytes(), ApiVersion::V3) {
        Err(message) => message
            .strip_prefix("json validation error: ")
            .unwrap_or(&message)
            .to_owned(),
        Ok(fields) => panic!("{body} is taken as {fields:?}"),
    }
}

fn taken(body: &str) -> CheckFields {
    parsed(body.as_bytes(), ApiVersion::V3).unwrap_or_else(|message| panic!("{body}: {message}"))
}

fn applied(body: &str) -> CheckSettings {
    taken(body).edit.apply_to(&CheckSettings::default(), None)
}

const SYNTAX: &str = "could not parse request body";

#[test]
fn a_body_is_one_json_object_or_empty() {
    let deep = |count: usize| format!("{}{}", "[".repeat(count), "]".repeat(count));
    for body in [
        "",
        "{}",
        " {\r\n}\t",
        r#"{"x": null, "": [1, {}]}"#,
        r#"{"x": 1e400, "y": -0, "z": 123456789012345678901234567890}"#,
    ] {
        assert_eq!(taken(body), CheckFields::default(), "{body}");
    }
    for (body, taken) in [
        (format!(r#"{{"x": {}}}"#, deep(127)), true),
        (format!(r#"{{"x": {}}}"#, deep(128)), false),
        (format!(r#"{{"x": {}}}"#, deep(200_000)), false),
        (
            format!(r#"{{"x": "{}\" {}"}}"#, "[".repeat(200), "{".repeat(200)),
            true,
        ),
        (format!(r#"{{"x": [{}1]}}"#, "[[], {}], ".repeat(200)), true),
    ] {
        assert_eq!(
            parsed(body.as_bytes(), ApiVersion::V3).map_err(|error| error == SYNTAX),
            if taken {
                Ok(CheckFields::default())
            } else {
                Err(true)
            }
        );
    }
    for body in ["[]", "1", "\"{}\"", "null", "true", "1e400", &deep(128)] {
        assert_eq!(refusal(body), "value is not an object", "{body:.20}");
    }
    for body in [
        " ",
        "{",
        "}",
        "{]",
        "{}{}",
        "{} x",
        "{'name': 1}",
        "{\"name\": NaN}",
        "{\"x\": Infinity}",
        "{\"x\": -Infinity}",
        "{\"x\": 01}",
        "{\"x\": +1}",
        "{\"x\": 1.}",
        "{\"x\": \"a\tb\"}",
        "{\"x\": \"\\x\"}",
        "{\"x\": nul}",
        "{\"x\": 1,}",
        "{\"\\ud800\": 1}",
        "{\"x\" 1}",
        "// \n{}",
        "NaN",
        "\u{feff}{}",
        &"[".repeat(200_000),
        &format!(r#"{{"x": {}"#, deep(200_000)),
    ] {
        assert_eq!(refusal(body), SYNTAX, "{body:.20}");
    }
    for body in [
        b"{\"x\": \"\xff\"}".as_slice(),
        b"\xff",
        b"\xfe\xff\0{\0}",
        b"{\"name\": \"\xed\xa0\x80\"}",
    ] {
        assert_eq!(
            parsed(body, ApiVersion::V3),
            Err(SYNTAX.to_owned()),
            "{body:?}"
        );
    }
}

#[test]
fn null_and_an_empty_array_count_as_no_body_where_clients_send_them() {
    let parsed =
        |body: &[u8]| RequestDocument::parse_lenient(body).map(|document| document.api_key());
    for nothing in [" null\n", "[]", "\t[ ] "] {
        assert_eq!(parsed(nothing.as_bytes()), Ok(None), "{nothing}");
    }
    assert_eq!(parsed(br#"{"api_key": "k"}"#), Ok(Some("k".to_owned())));
    assert_eq!(parsed(b"nullx"), Err(FieldError::Syntax));
    assert_eq!(
        parsed(b"\x0cnull"),
        Err(FieldError::Syntax),
        "no white space of JSON"
    );
    for other in ["[null]", "[[]]", "0", "true"] {
        assert_eq!(
            parsed(other.as_bytes()),
            Err(FieldError::NotAnObject),
            "{other}"
        );
    }
    assert_eq!(parsed(b"[] x"), Err(FieldError::Syntax));
}

#[test]
fn a_key_is_a_string_or_the_digits_of_a_number() {
    for (value, key) in [
        (r#""abc""#, Some("abc")),
        (r#""""#, Some("")),
        (r#""\u0061""#, Some("a")),
        (
            "12345678901234567890123456789012",
            Some("12345678901234567890123456789012"),
        ),
        ("-1", Some("-1")),
        ("null", None),
        ("true", None),
        ("[]", None),
        (r#"{"a": 1}"#, None),
        (r#""\ud800""#, None),
        (r#"1, "api_key": "last""#, Some("last")),
    ] {
        let body = format!(r#"{{"api_key": {value}}}"#);
        assert_eq!(
            RequestDocument::parse(body.as_bytes())
                .unwrap()
                .api_key()
                .as_deref(),
            key,
            "{value}"
        );
    }
}

/// Values of every type, one array for each type.
const NUMBERS: [&str; 5] = ["0", "60", "-1", "1.5", "1e400"];
const OTHERS: [&str; 4] = ["null", "[]", "{}", r#"["a"]"#];
const BOOLEANS: [&str; 2] = ["true", "false"];

#[test]
fn types_are_not_converted() {
    let refused = |name: &str, value: &str| refusal(&format!(r#"{{"{name}": {value}}}"#));
    for name in [
        "channels",
        "desc",
        "failure_kw",
        "name",
        "schedule",
        "slug",
        "start_kw",
        "subject",
        "subject_fail",
        "success_kw",
        "tags",
        "tz",
    ] {
        for value in NUMBERS.iter().chain(&OTHERS).chain(&BOOLEANS) {
            assert_eq!(
                refused(name, value),
                format!("{name} is not a string"),
                "{value}"
            );
        }
        assert_eq!(refused(name, r#""\ud800""#), SYNTAX);
    }
    for name in [
        "filter_subject",
        "filter_body",
        "filter_http_body",
        "filter_default_fail",
        "manual_resume",
    ] {
        for value in NUMBERS.iter().chain(&OTHERS).chain(&["\"true\"", "\"\""]) {
            assert_eq!(
                refused(name, value),
                format!("{name} is not a boolean"),
                "{value}"
            );
        }
    }
    for name in ["timeout", "grace"] {
        for value in OTHERS
            .iter()
            .chain(&BOOLEANS)
            .chain(&["\"60\"", "60.0", "6e1", "60E0", "1e400", "-1.5"])
        {
            assert_eq!(
                refused(name, value),
                format!("{name} is not a number"),
                "{value}"
            );
        }
    }
    for value in NUMBERS.iter().chain(&OTHERS).chain(&BOOLEANS).chain(&[
        "\"GET\"",
        "\"post\"",
        "\"POST \"",
        r#""\ud800""#,
    ]) {
        assert_eq!(
            refused("methods", value),
            "methods has unexpected value",
            "{value}"
        );
    }
    for value in NUMBERS
        .iter()
        .chain(&BOOLEANS)
        .chain(&["null", "{}", "\"name\""])
    {
        assert_eq!(
            refused("unique", value),
            "unique is not an array",
            "{value}"
        );
    }
    for value in [
        "[1]",
        "[null]",
        r#"["Name"]"#,
        r#"["name", "desc"]"#,
        r#"[["name"]]"#,
        r#"["\ud800"]"#,
    ] {
        assert_eq!(
            refused("unique", value),
            "an item in 'unique' has unexpected value",
            "{value}"
        );
    }
}

#[test]
fn values_have_bounds() {
    let huge = "9".repeat(400);
    for name in ["timeout", "grace"] {
        for (value, problem) in [
            ("59", "small"),
            ("0", "small"),
            ("-0", "small"),
            ("-1", "small"),
            ("-9223372036854775809", "small"),
            ("31536001", "large"),
            ("9223372036854775808", "large"),
            (&huge, "large"),
        ] {
            assert_eq!(
                refusal(&format!(r#"{{"{name}": {value}}}"#)),
                format!("{name} is too {problem}"),
                "{value}"
            );
        }
    }
    assert_eq!(
        refusal(&format!(r#"{{"timeout": -{huge}}}"#)),
        "timeout is too small"
    );
    let settings = applied(r#"{"timeout": 60, "grace": 31536000}"#);
    assert_eq!(
        (settings.timeout.get(), settings.grace.get()),
        (60, 31_536_000)
    );
    for (name, most) in [
        ("name", 100),
        ("desc", 16_384),
        ("tags", 500),
        ("slug", 100),
        ("schedule", 100),
        ("start_kw", 200),
        ("success_kw", 200),
        ("failure_kw", 200),
        ("subject", 200),
        ("subject_fail", 200),
    ] {
        // The length is tested before the pattern of a slug and the grammar of a schedule.
        let body = |count: usize| format!(r#"{{"{name}": "{}"}}"#, "Ž".repeat(count));
        assert_eq!(refusal(&body(most + 1)), format!("{name} is too long"));
        match name {
            "slug" => assert_eq!(refusal(&body(most)), "slug does not match pattern"),
            "schedule" => assert_eq!(
                refusal(&body(most)),
                "schedule is not a valid cron or OnCalendar expression"
            ),
            _ => assert_ne!(taken(&body(most)), CheckFields::default(), "{name}"),
        }
    }
    for slug in ["A", "a b", "a\\n", "ä", "a.b", "a/b"] {
        assert_eq!(
            refusal(&format!(r#"{{"slug": "{slug}"}}"#)),
            "slug does not match pattern",
            "{slug}"
        );
    }
    for tz in ["", "utc", "GMT+5", "Europe/riga", "Mars/Phobos"] {
        assert_eq!(
            refusal(&format!(r#"{{"tz": "{tz}"}}"#)),
            "tz is not a valid timezone",
            "{tz}"
        );
    }
    assert_eq!(
        refusal(r#"{"schedule": ""}"#),
        "schedule is not a valid cron or OnCalendar expression"
    );
}

#[test]
fn the_first_of_several_errors_is_reported() {
    let order = [
        ("channels", "1"),
        ("desc", "1"),
        ("failure_kw", "1"),
        ("filter_subject", "1"),
        ("filter_body", "1"),
        ("filter_http_body", "1"),
        ("filter_default_fail", "1"),
        ("grace", "1"),
        ("manual_resume", "1"),
        ("methods", "1"),
        ("name", "1"),
        ("schedule", "1"),
        ("slug", "1"),
        ("start_kw", "1"),
        ("subject", "1"),
        ("subject_fail", "1"),
        ("success_kw", "1"),
        ("tags", "1"),
        ("timeout", "1"),
        ("tz", "1"),
        ("unique", "[1]"),
    ];
    for (place, (first, _)) in order.iter().enumerate() {
        let members: Vec<_> = order
            .iter()
            .skip(place)
            .rev()
            .map(|(name, value)| format!(r#""{name}": {value}"#))
            .collect();
        let message = refusal(&format!("{{{}}}", members.join(",")));
        assert!(
            message
                .split(' ')
                .any(|word| word.trim_matches('\'') == *first),
            "{message} instead of {first}"
        );
    }
}

#[test]
fn the_last_of_equal_names_counts() {
    assert_eq!(
        applied(r#"{"name": 1, "name": "a", "n\u0061me": "b"}"#)
            .name
            .as_str(),
        "b"
    );
    assert_eq!(
        refusal(r#"{"name": "a", "name": null}"#),
        "name is not a string"
    );
    assert_eq!(taken(r#"{"unique": ["name"], "unique": []}"#).unique_on, []);
}

#[test]
fn every_field_is_read() {
    let body = r#"{"name": "N\n\u00e4", "slug": "s-1_", "tags": " a  b ", "desc": "\ud83d\ude00",
        "timeout": 61, "grace": 62, "tz": "Europe/Kiev", "manual_resume": true, "methods": "POST",
        "start_kw": "s", "success_kw": "ok", "failure_kw": "f", "filter_subject": true,
        "filter_body": true, "filter_http_body": true, "filter_default_fail": true,
        "unique": ["grace", "name", "name", "tags"], "channels": "a, b,,a"}"#;
    let CheckFields {
        edit,
        unique_on: unique,
    } = taken(body);
    assert_eq!(
        unique,
        [UniqueField::Grace, UniqueField::Name, UniqueField::Tags]
    );
    let listed = |items: &[&str]| {
        Some(ChannelSelection::Listed(
            items.iter().map(|item| Box::from(*item)).collect(),
        ))
    };
    assert_eq!(edit.channels, listed(&["a", " b", ""]));
    let settings = edit.apply_to(&CheckSettings::default(), None);
    let texts = [
        settings.name.as_str(),
        settings.slug.as_str(),
        settings.tags.as_str(),
        settings.desc.as_str(),
        settings.tz.name(),
    ];
    assert_eq!(texts, ["N\nä", "s-1_", " a  b ", "😀", "Europe/Kyiv"]);
    assert_eq!((settings.timeout.get(), settings.grace.get()), (61, 62));
    assert!(settings.manual_resume && settings.post_only && settings.schedule.is_none());
    assert_eq!(
        [
            settings.start_kw.as_str(),
            settings.success_kw.as_str(),
            settings.failure_kw.as_str()
        ],
        ["s", "ok", "f"]
    );
    let filters = settings.filters;
    assert!(filters.subject && filters.body && filters.http_body && filters.default_fail);
    assert_eq!(
        applied(r#"{"schedule": " * * * * * ", "timeout": 60}"#)
            .schedule
            .unwrap()
            .text(),
        " * * * * * "
    );
    assert_eq!(taken(r#"{"channels": ""}"#).edit.channels, listed(&[]));
    assert_eq!(
        taken(r#"{"channels": "*"}"#).edit.channels,
        Some(ChannelSelection::All)
    );
    assert_eq!(
        taken(r#"{"channels": "*,*"}"#).edit.channels,
        listed(&["*"])
    );
    assert!(!applied(r#"{"methods": ""}"#).post_only);
}

#[test]
fn older_versions_derive_the_slug_from_a_name_that_is_sent() {
    let slug = |body: &str, version| {
        parsed(body.as_bytes(), version)
            .unwrap()
            .edit
            .slug
            .map(|slug| slug.as_str().to_owned())
    };
    for version in [ApiVersion::V1, ApiVersion::V2] {
        assert_eq!(
            slug(r#"{"name": "My Check!"}"#, version).as_deref(),
            Some("my-check")
        );
        assert_eq!(
            slug(r#"{"name": "My Check!", "slug": ""}"#, version).as_deref(),
            Some("")
        );
        assert_eq!(slug(r#"{"tags": "a"}"#, version), None);
        let unique = |body: &str| parsed(body.as_bytes(), version).unwrap().unique_on;
        assert_eq!(
            unique(r#"{"name": "a", "unique": ["name", "slug"]}"#),
            [],
            "a derived slug was not sent and matches nothing"
        );
        assert_eq!(
            unique(r#"{"name": "a", "slug": "a", "unique": ["slug"]}"#),
            [UniqueField::Slug]
        );
    }
    assert_eq!(slug(r#"{"name": "My Check!"}"#, ApiVersion::V3), None);
}

/// Pattern of texts that are nearly a request.
const REQUEST_PATTERN: &str = concat!(
    r#"\{("(name|timeout|unique|channels|schedule|tz|api_key|x)": ?"#,
    r#"("[^"]{0,8}"|-?[0-9.eE]{1,25}|null|true|\[["a-z,]{0,9}\]|\{\}),?){0,6}\}"#
);

proptest! {
    /// Bytes that are nearly a request.
    #[test]
    fn any_body_is_parsed_or_refused(
        mut body in REQUEST_PATTERN.prop_map(String::into_bytes),
        at in any::<prop::sample::Index>(),
        byte: u8,
        change: bool,
    ) {
        if change && !body.is_empty() {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _ = parsed(&body, ApiVersion::V1);
        // Any value that serde_json parses, unless an integer is too large for it, is a document
        // here too.
        if let Ok(value) = serde_json::from_slice::<serde_json::Value>(&body) {
            prop_assert_eq!(RequestDocument::parse(&body).is_ok(), value.is_object());
        }
    }
}

#[test]
fn fuzz_request_bodies() {
    const EXAMPLES: &[&str] = &[
        r#"{"name": "a", "slug": "a-b", "tags": "x y", "desc": "", "timeout": 3600, "grace": 60}"#,
        r#"{"schedule": "*/5 * * * *", "tz": "Europe/Riga", "unique": ["name", "tags"]}"#,
        r#"{"channels": "*", "manual_resume": true, "methods": "POST", "api_key": "x"}"#,
        r#"{"start_kw": "a,b", "filter_body": true, "failure_kw": "\u00e9", "success_kw": ""}"#,
    ];
    crate::util::fuzzing::fuzz(EXAMPLES, |body| {
        for version in ApiVersion::ALL {
            let _ = parsed(body, version);
        }
        if let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) {
            assert_eq!(RequestDocument::parse(body).is_ok(), value.is_object());
        }
    });
}

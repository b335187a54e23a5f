use proptest::prelude::*;
use serde_json::json;

use super::super::tests::{RowCollector, row};
use super::*;

fn read_all(text: &[u8]) -> Result<Vec<SourceRow>, String> {
    let mut everything = RowCollector::default();
    read_dump(text, &mut everything).map(|()| everything.rows)
}

#[test]
fn objects_become_rows_with_the_columns_of_a_database() {
    let text = json!([
        { "model": "contenttypes.contenttype", "pk": 1, "fields": { "model": "x" } },
        {
            "model": "api.check",
            "pk": 7,
            "fields": {
                "name": "a", "project": 3, "manual_resume": true, "last_ping": null, "x": [1],
                "y": 1.5,
            },
        },
        { "model": "api.channel", "pk": 2, "fields": { "kind": "email", "checks": [7, 8] } },
    ]);
    let int = SourceValue::Integer;
    let text_of = |text: &str| SourceValue::Text(text.into());
    let wanted = [
        row(
            SourceTable::Check,
            &[
                "id",
                "last_ping",
                "manual_resume",
                "name",
                "project_id",
                "x",
                "y",
            ],
            vec![
                int(7),
                SourceValue::Null,
                SourceValue::Bool(true),
                text_of("a"),
                int(3),
                SourceValue::Other,
                SourceValue::Other,
            ],
        ),
        row(
            SourceTable::Channel,
            &["id", "kind"],
            vec![int(2), text_of("email")],
        ),
        row(
            SourceTable::Assignment,
            &["channel_id", "check_id"],
            vec![int(2), int(7)],
        ),
        row(
            SourceTable::Assignment,
            &["channel_id", "check_id"],
            vec![int(2), int(8)],
        ),
    ];
    let pretty = serde_json::to_string_pretty(&text).unwrap();
    assert_eq!(read_all(text.to_string().as_bytes()).unwrap(), wanted);
    assert_eq!(
        read_all(format!("\n{pretty}\n").as_bytes()).unwrap(),
        wanted
    );
    let mut first = RowCollector {
        most: 1,
        ..RowCollector::default()
    };
    assert_eq!(read_dump(pretty.as_bytes(), &mut first), Ok(()));
    assert_eq!(
        first.rows,
        wanted[..1],
        "nothing is read that is no longer wanted"
    );
}

#[test]
fn invalid_dumps_are_rejected_with_the_position() {
    for (text, part) in [
        ("", "byte 1: it is truncated"),
        (" {}", "byte 2: expected '['"),
        ("[", "byte 2: it is truncated"),
        (
            "[{\"model\": \"a\", \"fields\": {}}",
            "byte 30: it is truncated",
        ),
        (
            "[{\"model\": \"a\", \"fields\": {}} {}",
            "byte 31: expected ',' or ']'",
        ),
        ("[{\"model\": \"a\", \"fields\": {}},]", "byte 31: "),
        (
            "[{\"model\": \"api.check\"}]",
            "byte 2: missing field `fields`",
        ),
        (
            r#"[{"model": "api.check", "pk": 1, "fields": []}]"#,
            "invalid type: sequence",
        ),
        ("[1]", "invalid type: integer"),
        ("[] x", "byte 4: unexpected data after the end of the array"),
        (
            r#"[{"model": "api.check", "pk": 1, "fields": {"a": ""#,
            "byte 2: it is truncated",
        ),
    ] {
        let problem = read_all(text.as_bytes()).unwrap_err();
        assert!(
            problem.contains(part),
            "{text}: {problem:?} has no {part:?}"
        );
    }
    let long = std::io::Cursor::new(r#"[{"model": "api.ping", "fields": {"a": ""#)
        .chain(std::io::repeat(b'x'));
    assert!(
        read_dump(long, &mut RowCollector::default())
            .unwrap_err()
            .contains("an object is larger than 64 MiB")
    );
    let quoted = read_all(format!("[{:?}]", "x".repeat(1 << 20)).as_bytes()).unwrap_err();
    assert!(
        quoted.starts_with("byte 2: invalid type: string \"xxx") && quoted.len() < 300,
        "{quoted}"
    );
    let deep = format!(
        r#"[{{"model": "api.ping", "fields": {{"a": {}"#,
        "[".repeat(100_000)
    );
    assert!(read_all(deep.as_bytes()).is_err());
}

#[test]
fn objects_may_span_buffers() {
    let sizes: Vec<_> = (0..2000)
        .chain([BUFFER_BYTES - 60, BUFFER_BYTES, 3 * BUFFER_BYTES, 7])
        .collect();
    let objects: Vec<_> = sizes
        .iter()
        .map(|size| json!({ "model": "api.ping", "fields": { "ua": "x".repeat(*size) } }))
        .collect();
    let text = |size: &usize| {
        row(
            SourceTable::Ping,
            &["id", "ua"],
            vec![SourceValue::Null, SourceValue::Text("x".repeat(*size))],
        )
    };
    assert!(
        read_all(json!(objects).to_string().as_bytes()) == Ok(sizes.iter().map(text).collect())
    );
}

#[test]
fn a_buffer_may_end_anywhere_within_an_object() {
    let other =
        r#"{"model":"a.b","pk":-12.5e-1,"x":[-1,1.5,2e-05,true,null],"fields":{"n":-3.25E+7}}"#;
    let ours = concat!(
        r#"{"model":"api.ping","pk":-12,"#,
        r#""fields":{"a":-1,"b":1.5e-05,"c":true,"d":null,"e":"\ud83d\ude00ü"}}"#
    );
    let wanted = vec![
        SourceValue::Integer(-12),
        SourceValue::Integer(-1),
        SourceValue::Other,
        SourceValue::Bool(true),
        SourceValue::Null,
        SourceValue::Text("😀ü".into()),
    ];
    let wanted = [row(
        SourceTable::Ping,
        &["id", "a", "b", "c", "d", "e"],
        wanted,
    )];
    let objects = format!("{other},{ours}");
    for held in 0..=objects.len() {
        let text = format!("[{}{objects}]", " ".repeat(BUFFER_BYTES - 1 - held));
        assert_eq!(
            read_all(text.as_bytes()).as_deref(),
            Ok(&wanted[..]),
            "{held}"
        );
    }
}

#[test]
fn the_size_of_an_object_is_limited_like_that_of_a_row() {
    let before = r#"[{"model":"api.x","fields":""#;
    for (spaces, more, is_read) in [
        (0, 0, true),
        (0, 1, false),
        (BUFFER_BYTES - 7, 0, true),
        (BUFFER_BYTES - 7, 1, false),
    ] {
        let body = "x".repeat(MAX_ROW_BYTES - (before.len() - 1) - 2 + more);
        let text = format!("{}{before}{body}\"}}]", " ".repeat(spaces));
        assert_eq!(
            read_all(text.as_bytes()).is_ok(),
            is_read,
            "{spaces} {more}"
        );
    }
}

proptest! {
    #[test]
    fn any_texts_come_back(texts in prop::collection::vec(any::<String>(), 0..8)) {
        let object =
            |text: &String| json!({ "model": "api.ping", "pk": 1, "fields": { "ua": text } });
        let objects: Vec<_> = texts.iter().map(object).collect();
        let rows = texts.iter().map(|text| {
            row(
                SourceTable::Ping,
                &["id", "ua"],
                vec![SourceValue::Integer(1), SourceValue::Text(text.clone())],
            )
        });
        prop_assert_eq!(read_all(json!(objects).to_string().as_bytes()), Ok(rows.collect()));
    }

    #[test]
    fn damage_is_an_error_or_other_rows(
        texts in prop::collection::vec(".*", 1..8),
        at in any::<prop::sample::Index>(),
        byte: u8,
        cut: bool,
    ) {
        let object = |text: &String| {
            let fields = json!({ "name": text, "checks": [1] });
            json!({ "model": "api.channel", "pk": 1, "fields": fields })
        };
        let objects: Vec<_> = texts.iter().map(object).collect();
        let mut bytes = json!(objects).to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(if cut { at } else { bytes.len() });
        // Any result is fine as long as reading ends.
        let _ = read_all(&bytes);
    }
}

#[test]
fn fuzz_dumps() {
    const EXAMPLES: &[&str] = &[
        concat!(
            r#"[{"model": "api.check", "pk": 7, "fields": "#,
            r#"{"name": "a", "project": 3, "x": [1], "y": 1.5, "z": null}}]"#,
        ),
        concat!(
            r#"[{"model": "api.channel", "pk": 2, "fields": {"kind": "email", "#,
            r#""checks": [7, 8]}}, {"model": "x.y", "fields": {}}]"#,
        ),
    ];
    crate::util::fuzzing::fuzz(EXAMPLES, |dump| {
        let _ = read_all(dump);
    });
}

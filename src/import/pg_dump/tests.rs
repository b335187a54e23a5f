use proptest::prelude::*;

use super::super::tests::{RowCollector, row};
use super::*;

fn read_all(text: &[u8]) -> Result<Vec<SourceRow>, String> {
    let mut everything = RowCollector::default();
    read_dump(text, &mut everything).map(|()| everything.rows)
}

/// Returns a value as `COPY table TO` writes it.
fn written(value: Option<&String>) -> String {
    let Some(text) = value else {
        return "\\N".into();
    };
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out += "\\\\",
            '\u{8}' => out += "\\b",
            '\u{c}' => out += "\\f",
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            '\u{b}' => out += "\\v",
            c => out.push(c),
        }
    }
    out
}

fn dump(rows: &[Vec<Option<String>>]) -> String {
    let lines: String = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|value| written(value.as_ref()))
                .collect::<Vec<_>>()
                .join("\t")
                + "\n"
        })
        .collect();
    format!(
        "--\n-- PostgreSQL database dump\n--\nSET client_encoding = 'UTF8';\nCREATE TABLE \
         public.api_check (id bigint);\nCOPY public.other (id) FROM stdin;\nCOPY public.api_check \
         (id) FROM stdin;\n\\.\n\nCOPY public.api_check (id, \"desc\", tz) FROM \
         stdin;\n{lines}\\.\n\n-- PostgreSQL database dump complete\n"
    )
}

fn wanted(rows: &[Vec<Option<String>>]) -> Vec<SourceRow> {
    let value = |value: &Option<String>| value.clone().map_or(SourceValue::Null, SourceValue::Text);
    rows.iter()
        .map(|values| {
            row(
                SourceTable::Check,
                &["id", "desc", "tz"],
                values.iter().map(value).collect(),
            )
        })
        .collect()
}

#[test]
fn values_are_unescaped() {
    let rows = [
        vec![
            Some("1".into()),
            Some("a\tb\\c\nd\r\u{8}\u{b}\u{c}ž".into()),
            None,
        ],
        vec![Some("2".into()), Some(String::new()), Some("\\N".into())],
        vec![
            Some("\\.".into()),
            Some("COPY public.api_check (id) FROM stdin;".into()),
            Some("\\x00".into()),
        ],
    ];
    assert_eq!(read_all(dump(&rows).as_bytes()), Ok(wanted(&rows)));
    assert_eq!(
        read_all(dump(&rows).replace('\n', "\r\n").as_bytes()),
        Ok(wanted(&rows)),
        "written on Windows"
    );
    assert_eq!(
        read_all(b"COPY api_check (id, \"desc\", tz) FROM stdin;\n1\t\\N\tUTC\n\\.\n")
            .map(|rows| rows.len()),
        Ok(1)
    );
}

#[test]
fn incomplete_dumps_are_rejected_with_the_line() {
    let whole = dump(&[vec![Some("1".into()), None, None]]);
    for (text, part) in [
        (String::new(), "it has no rows in the format of pg_dump"),
        (
            "-- MySQL dump 10.19\nINSERT INTO `api_check` VALUES (1);\n".into(),
            "for MySQL use the output of manage.py dumpdata",
        ),
        (
            whole.replace("1\t\\N\t\\N", "1\t\\N"),
            "line 11: 2 values for 3 columns of api_check",
        ),
        (
            whole.split_inclusive('\n').take(11).collect(),
            "line 11: it is truncated within the rows of api_check",
        ),
        (
            whole.split_inclusive('\n').take(12).collect(),
            r#"it is truncated: the line "PostgreSQL database dump complete" is missing"#,
        ),
    ] {
        let problem = read_all(text.as_bytes()).unwrap_err();
        assert!(problem.contains(part), "{problem:?} has no {part:?}");
    }
    let mut bytes = whole.into_bytes();
    let at = bytes
        .windows(5)
        .position(|part| part == b"1\t\\N\t")
        .unwrap();
    bytes[at] = 0xff;
    assert_eq!(
        read_all(&bytes),
        Err("line 11: a text in api_check is not UTF-8".into())
    );
    let mut long = b"COPY api_check (id) FROM stdin;\n".to_vec();
    long.resize(MAX_ROW_BYTES + 100, b'x');
    assert_eq!(
        read_all(&long),
        Err("line 2: it is longer than 64 MiB".into())
    );
}

/// Generates rows of three columns.
fn rows(
    text: impl Strategy<Value = String>,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Vec<Option<String>>>> {
    prop::collection::vec(prop::collection::vec(prop::option::of(text), 3), count)
}

proptest! {
    #[test]
    fn any_rows_come_back(
        rows in rows(any::<String>().prop_map(|text| text.replace('\0', "")), 0..8)
    ) {
        prop_assert_eq!(read_all(dump(&rows).as_bytes()), Ok(wanted(&rows)));
    }

    #[test]
    fn damage_is_an_error_or_other_rows(
        rows in rows(".*", 0..8),
        at in any::<prop::sample::Index>(),
        byte: u8,
        cut: bool,
    ) {
        let mut bytes = dump(&rows).into_bytes();
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
            "SET x = 1;\nCOPY public.api_check (id, name, project_id) FROM stdin;\n",
            "1\ta\\nb\t\\N\n\\.\n\n",
        ),
        "COPY public.\"api_channel\" (id, kind) FROM stdin;\n2\temail\n\\.\n-- end\n",
        "INSERT INTO public.api_check VALUES (1, 'a''b', NULL, true);\n",
    ];
    crate::util::fuzzing::fuzz(EXAMPLES, |dump| {
        let _ = read_all(dump);
    });
}

//! Standard output: tables for people, JSON for programs.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

use crate::admin::CreatedObject;
use crate::channels::render::sanitize::is_bidi_control;

/// Returns text that is safe for a terminal, on one line. Names, user agents and errors may
/// contain control characters, which a terminal interprets. Tabs stay.
pub(super) fn sanitize(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c != '\t' && is_interpreted(c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// True if a terminal interprets the character instead of showing it.
fn is_interpreted(c: char) -> bool {
    c.is_control() || is_bidi_control(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Returns a value as JSON on one line. Characters that a terminal interprets are escaped.
pub(super) fn to_json(value: &(impl Serialize + ?Sized)) -> io::Result<String> {
    let mut json = String::new();
    for c in serde_json::to_string(value)?.chars() {
        if is_interpreted(c) {
            // The character is within a string, and none needs two escapes.
            let _ = write!(json, "\\u{:04x}", u32::from(c));
        } else {
            json.push(c);
        }
    }
    Ok(json)
}

/// Writes the lines to standard output.
pub(super) fn print_lines(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all((lines.join("\n") + "\n").as_bytes())?;
    out.flush()
}

/// Prints a created object, on a line of its own. The user must see it, so a closed pipe is an
/// error.
pub(super) fn print_created(text: &str, row: &impl Serialize, json: bool) -> io::Result<()> {
    print_lines(&[if json { to_json(row)? } else { sanitize(text) }])
}

/// Prints the UUID of a created object.
pub(super) fn print_uuid(object: &CreatedObject, json: bool) -> io::Result<()> {
    print_created(&object.uuid.to_string(), object, json)
}

/// Prints all fields of a row: as a JSON object, or as a table.
pub(super) fn print_record(row: &impl Serialize, json: bool) -> io::Result<()> {
    if json {
        return ignore_closed_pipe(print_lines(&[to_json(row)?]));
    }
    let serde_json::Value::Object(fields) = serde_json::to_value(row)? else {
        return Ok(());
    };
    let cells = |(name, value): (String, serde_json::Value)| match value {
        serde_json::Value::String(text) => [name, text],
        serde_json::Value::Null => [name, String::new()],
        other => [name, other.to_string()],
    };
    ignore_closed_pipe(print_lines(&format_table(
        &["FIELD", "VALUE"],
        fields.into_iter().map(cells),
    )))
}

/// Prints a list: as one JSON array, or as a table under these headings.
pub(super) fn print_list<R: Serialize, const N: usize>(
    rows: &[R],
    json: bool,
    headings: &[&str; N],
    cells: impl Fn(&R) -> [String; N],
) -> io::Result<()> {
    let text = if json {
        vec![to_json(rows)?]
    } else {
        format_table(headings, rows.iter().map(cells))
    };
    ignore_closed_pipe(print_lines(&text))
}

/// Ignores a closed pipe: the reader has seen enough.
fn ignore_closed_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Formats a table. Columns are as wide as their widest cell, and empty columns are omitted. Cells
/// are sanitized.
pub(super) fn format_table<const N: usize>(
    headings: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Vec<String> {
    let rows: Vec<_> = rows.map(|row| row.map(|cell| sanitize(&cell))).collect();
    let widths = |column: usize| {
        rows.iter()
            .filter_map(move |row| row.get(column))
            .map(|cell| cell.chars().count())
    };
    let columns: Vec<_> = (0..N)
        .map(|column| widths(column).max().unwrap_or(1))
        .collect();
    let line = |cells: Vec<&str>| {
        let cells = cells
            .into_iter()
            .zip(headings)
            .zip(&columns)
            .filter(|(_, widest)| **widest > 0);
        let padded = cells.map(|((cell, heading), widest)| {
            format!("{cell:<width$}", width = heading.len().max(*widest))
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let heading = line(headings.to_vec());
    std::iter::once(heading)
        .chain(
            rows.iter()
                .map(|row| line(row.iter().map(String::as_str).collect())),
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_columns_are_omitted() {
        let rows = [["Žofie ☎", "", "1"], ["b", "", "22"]].map(|row| row.map(String::from));
        assert_eq!(
            format_table(&["NAME", "KEY", "N"], rows.into_iter()),
            ["NAME     N", "Žofie ☎  1", "b        22"]
        );
        assert_eq!(
            format_table(&["NAME", "N"], std::iter::empty()),
            ["NAME  N"]
        );
    }

    #[test]
    fn a_cell_is_one_line_without_control_characters() {
        for (text, shown) in [
            ("\u{1b}]0;title\u{7}x", "�]0;title�x"),
            ("\u{9b}2J", "�2J"),
            ("a\r\nb\u{2028}c\u{7f}", "a��b�c�"),
            ("x\u{202e}gpj.exe\u{2066}", "x�gpj.exe�"),
            ("a\tb ž☎", "a\tb ž☎"),
        ] {
            assert_eq!(sanitize(text), shown, "{text:?}");
        }
        assert_eq!(
            format_table(&["NAME"], std::iter::once(["a\nb  up".to_owned()])),
            ["NAME", "a�b  up"]
        );
        let text = "\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{2028}\ta ž☎";
        let json = to_json(&[text]).unwrap();
        assert_eq!(json, r#"["\u001b[2J\u009b2J\u007f\u202e\u2028\ta ž☎"]"#);
        assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [text]);
    }
}

//! Planned or applied changes of files, as text for people and as JSON.

use serde_json::{Value, json};

use super::table::sanitize;
use crate::admin::config::{ChangeRow, ChangedFieldRow};

/// Tense of the output: planned or applied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffTense {
    Planned,
    Applied,
}

/// Returns the style of an operation: its sign, the colour of that, and the words for the summary.
fn operation_style(op: &str) -> (char, &'static str, [&'static str; 2]) {
    match op {
        "add" => ('+', "32", ["to add", "added"]),
        "change" => ('~', "33", ["to change", "changed"]),
        "adopt" => ('a', "36", ["to adopt", "adopted"]),
        "delete" => ('-', "31", ["to delete", "deleted"]),
        _ => ('?', "35", ["left over", "left over"]),
    }
}

/// Operations in the order of the summary.
const OPERATIONS: [&str; 5] = ["change", "add", "adopt", "delete", "leave"];

/// Returns the lines for people.
pub(super) fn text_lines(rows: &[ChangeRow], tense: DiffTense, colours: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let widest = rows
        .iter()
        .map(|row| object_label(row).chars().count())
        .max()
        .unwrap_or(0)
        .min(40);
    let mut last: Option<Option<&str>> = None;
    for row in rows {
        let project = row.project.as_deref();
        if last != Some(project) {
            lines.push(project.map_or_else(
                || "users".into(),
                |project| format!("project {}", sanitize(project)),
            ));
            last = Some(project);
        }
        let (sign, colour, _) = operation_style(&row.op);
        let sign = if colours {
            format!("\u{1b}[{colour}m{sign}\u{1b}[0m")
        } else {
            sign.to_string()
        };
        let name = object_label(row);
        let details = detail_lines(row, tense);
        let mut details = details.iter();
        lines.push(
            format!(
                "  {sign} {name:<widest$}  {}",
                details.next().map_or("", String::as_str)
            )
            .trim_end()
            .to_owned(),
        );
        lines.extend(details.map(|more| format!("    {:widest$}  {more}", "")));
        if let Some(link) = &row.link {
            lines.push(format!(
                "    {:widest$}  chooses a password at {}",
                "",
                link.url.as_deref().unwrap_or(&link.path)
            ));
        }
    }
    lines.push(summary_line(rows, tense));
    lines
}

/// Returns the kind of an object and its name. The key of a project's `ping-key` has no name.
fn object_label(row: &ChangeRow) -> String {
    match (row.kind.as_str(), row.id.as_str()) {
        ("project", _) => "project".into(),
        ("key", "") => "ping-key".into(),
        (kind, id) => format!("{kind} {}", sanitize(id)),
    }
}

/// Returns the text about one object, a line or more.
fn detail_lines(row: &ChangeRow, tense: DiffTense) -> Vec<String> {
    let value = |value: &Option<String>| {
        value
            .as_deref()
            .map_or_else(|| "(default)".into(), sanitize)
    };
    match (row.op.as_str(), tense) {
        ("add", _) => {
            let fields = row
                .fields
                .iter()
                .map(|field| format!("{} {}", sanitize(&field.name), value(&field.to)));
            let fields = fields.collect::<Vec<_>>().join(", ");
            let mut details = if fields.is_empty() {
                Vec::new()
            } else {
                vec![fields]
            };
            details.extend(row.url.clone());
            details
        }
        ("change", _) => {
            let widest = row
                .fields
                .iter()
                .map(|field| field.name.len())
                .max()
                .unwrap_or(0);
            let line = |ChangedFieldRow { name, from, to }: &ChangedFieldRow| match to.as_deref() {
                Some("(changed)") => format!("{:<widest$}  (changed)", sanitize(name)),
                _ => format!(
                    "{:<widest$}  {} → {}",
                    sanitize(name),
                    value(from),
                    value(to)
                ),
            };
            row.fields.iter().map(line).collect()
        }
        ("adopt", DiffTense::Planned) => {
            vec!["matches the file, and will belong to its source".into()]
        }
        ("adopt", DiffTense::Applied) => {
            vec!["matches the file, and now belongs to its source".into()]
        }
        ("leave", _) => vec!["is no longer declared; kept, --prune would delete it".into()],
        _ => Vec::new(),
    }
}

/// Returns a line with the number of objects for each operation.
fn summary_line(rows: &[ChangeRow], tense: DiffTense) -> String {
    let counted = OPERATIONS.iter().filter_map(|op| {
        let count = rows.iter().filter(|row| row.op == *op).count();
        let [would, did] = operation_style(op).2;
        (count > 0).then(|| {
            format!(
                "{count} {}",
                if tense == DiffTense::Planned {
                    would
                } else {
                    did
                }
            )
        })
    });
    let counted: Vec<_> = counted.collect();
    match (counted.is_empty(), tense) {
        (false, _) => counted.join(", "),
        (true, DiffTense::Planned) => "nothing to do".into(),
        (true, DiffTense::Applied) => "no changes".into(),
    }
}

/// Returns the JSON for programs.
pub(super) fn json_document(rows: &[ChangeRow]) -> Value {
    let count = |op: &&str| {
        (
            (*op).to_owned(),
            json!(rows.iter().filter(|row| row.op == **op).count()),
        )
    };
    let counts: serde_json::Map<_, _> = OPERATIONS.iter().map(count).collect();
    json!({ "changes": rows, "counts": counts })
}

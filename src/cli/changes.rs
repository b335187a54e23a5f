//! What files change, as text for people and as JSON.

use serde_json::{Value, json};

use super::table::clean;
use crate::admin::declared::{ChangeRow, FieldRow};

/// Whether something is only looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    Would,
    Did,
}

/// How an operation is shown: its sign, the colour of that, and the words for how many.
fn sign(op: &str) -> (char, &'static str, [&'static str; 2]) {
    match op {
        "add" => ('+', "32", ["to add", "added"]),
        "change" => ('~', "33", ["to change", "changed"]),
        "adopt" => ('a', "36", ["to adopt", "adopted"]),
        "delete" => ('-', "31", ["to delete", "deleted"]),
        _ => ('?', "35", ["left over", "left over"]),
    }
}

/// The operations in the order in which they are counted.
const OPS: [&str; 5] = ["change", "add", "adopt", "delete", "leave"];

/// Lines for people.
pub(super) fn lines(rows: &[ChangeRow], tense: Tense, colours: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let widest = rows.iter().map(|row| named(row).chars().count()).max().unwrap_or(0).min(40);
    let mut last: Option<Option<&str>> = None;
    for row in rows {
        let project = row.project.as_deref();
        if last != Some(project) {
            lines.push(project.map_or_else(|| "users".into(), |project| format!("project {}", clean(project))));
            last = Some(project);
        }
        let (sign, colour, _) = sign(&row.op);
        let sign = if colours { format!("\u{1b}[{colour}m{sign}\u{1b}[0m") } else { sign.to_string() };
        let name = named(row);
        let told = told(row, tense);
        let mut told = told.iter();
        lines.push(format!("  {sign} {name:<widest$}  {}", told.next().map_or("", String::as_str)).trim_end().to_owned());
        lines.extend(told.map(|more| format!("    {:widest$}  {more}", "")));
        if let Some(link) = &row.link {
            lines.push(format!("    {:widest$}  chooses a password at {}", "", link.url.as_deref().unwrap_or(&link.path)));
        }
    }
    lines.push(counted(rows, tense));
    lines
}

/// The kind of an object and its name. The key of a project's `ping-key` has none.
fn named(row: &ChangeRow) -> String {
    match (row.kind.as_str(), row.id.as_str()) {
        ("project", _) => "project".into(),
        ("key", "") => "ping-key".into(),
        (kind, id) => format!("{kind} {}", clean(id)),
    }
}

/// What is said of one object, a line or more.
fn told(row: &ChangeRow, tense: Tense) -> Vec<String> {
    let value = |value: &Option<String>| value.as_deref().map_or_else(|| "(default)".into(), clean);
    match (row.op.as_str(), tense) {
        ("add", _) => {
            let fields = row.fields.iter().map(|field| format!("{} {}", clean(&field.name), value(&field.to)));
            let fields = fields.collect::<Vec<_>>().join(", ");
            let mut told = if fields.is_empty() { Vec::new() } else { vec![fields] };
            told.extend(row.url.clone());
            told
        }
        ("change", _) => {
            let widest = row.fields.iter().map(|field| field.name.len()).max().unwrap_or(0);
            let line = |FieldRow { name, from, to }: &FieldRow| match to.as_deref() {
                Some("(changed)") => format!("{:<widest$}  (changed)", clean(name)),
                _ => format!("{:<widest$}  {} → {}", clean(name), value(from), value(to)),
            };
            row.fields.iter().map(line).collect()
        }
        ("adopt", Tense::Would) => vec!["is as declared, and will belong to the source".into()],
        ("adopt", Tense::Did) => vec!["is as declared, and belongs to the source now".into()],
        ("leave", _) => vec!["is no longer declared: it stays, --prune would delete it".into()],
        _ => Vec::new(),
    }
}

/// How many of each there are, in one line.
fn counted(rows: &[ChangeRow], tense: Tense) -> String {
    let counted = OPS.iter().filter_map(|op| {
        let count = rows.iter().filter(|row| row.op == *op).count();
        let [would, did] = sign(op).2;
        (count > 0).then(|| format!("{count} {}", if tense == Tense::Would { would } else { did }))
    });
    let counted: Vec<_> = counted.collect();
    match (counted.is_empty(), tense) {
        (false, _) => counted.join(", "),
        (true, Tense::Would) => "nothing to do".into(),
        (true, Tense::Did) => "no changes".into(),
    }
}

/// The same for programs.
pub(super) fn document(rows: &[ChangeRow]) -> Value {
    let count = |op: &&str| ((*op).to_owned(), json!(rows.iter().filter(|row| row.op == **op).count()));
    json!({ "changes": rows, "counts": OPS.iter().map(count).collect::<serde_json::Map<_, _>>() })
}

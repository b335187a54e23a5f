//! Edits of lines as a unified diff, and as the whole edited text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Number of lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// Returns the text with some lines, counted from 0, replaced.
pub fn apply_edits(text: &str, lines: &BTreeMap<usize, String>) -> String {
    let mut changed: String = text
        .lines()
        .enumerate()
        .map(|(number, line)| lines.get(&number).map_or(line, |line| line).to_owned() + "\n")
        .collect();
    if !text.ends_with('\n') {
        changed.pop();
    }
    changed
}

/// Returns the name of a file for the header of a diff. A name with characters that would end the
/// name or the line is quoted with octal escapes, as GNU patch reads it.
fn header_name(name: &str) -> String {
    if !name.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\')) {
        return name.into();
    }
    let mut quoted = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_ascii_control() => drop(write!(quoted, "\\{:03o}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Returns a unified diff that creates a file.
pub fn new_file_diff(name: &str, text: &str) -> String {
    let added: String = text.lines().map(|line| format!("+{line}\n")).collect();
    format!(
        "--- /dev/null\n+++ {}\n@@ -0,0 +1,{} @@\n{added}",
        header_name(name),
        text.lines().count()
    )
}

/// Returns the edits as a unified diff of a file of this name; empty if there are none.
pub fn unified_diff(name: &str, text: &str, lines: &BTreeMap<usize, String>) -> String {
    let old: Vec<_> = text.lines().collect();
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for number in lines.keys() {
        let from = number.saturating_sub(CONTEXT_LINES);
        let to = (number + CONTEXT_LINES + 1).min(old.len());
        match hunks.last_mut() {
            Some((_, end)) if *end >= from => *end = to,
            _ => hunks.push((from, to)),
        }
    }
    let mut diff = String::new();
    if !hunks.is_empty() {
        let name = header_name(name);
        let _ = write!(diff, "--- {name}\n+++ {name}\n");
    }
    let has_end = text.ends_with('\n');
    for (from, to) in hunks {
        let count = to - from;
        let _ = writeln!(diff, "@@ -{0},{count} +{0},{count} @@", from + 1);
        for (number, line) in old.iter().enumerate().take(to).skip(from) {
            let end = if number + 1 == old.len() && !has_end {
                "\n\\ No newline at end of file"
            } else {
                ""
            };
            match lines.get(&number) {
                Some(new) => drop(writeln!(diff, "-{line}{end}\n+{new}{end}")),
                None => drop(writeln!(diff, " {line}{end}")),
            }
        }
    }
    diff
}

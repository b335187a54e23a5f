//! Several files are one document: tables that hold other things are joined, and a thing that two files say is told with both places.

use super::document::{Node, Problem, Value};

/// Whether what lies at a path only holds other things, so that several files may add to it.
fn holds_others(path: &[String]) -> bool {
    match path.first().map(String::as_str) {
        None => true,
        Some("project") => path.len() < 3 || path.len() == 3 && path.last().is_some_and(|last| PARTS.contains(&last.as_str())),
        Some("user" | "defaults") => path.len() == 1,
        Some(_) => false,
    }
}

/// The parts of a project that hold objects.
pub(super) const PARTS: [&str; 4] = ["channel", "check", "window", "key"];

/// What every file may say.
const OF_EVERY_FILE: [&str; 2] = ["version", "source"];

/// Adds what one file says to what the others do.
pub(super) fn merge(into: &mut Node, from: Node, path: &mut Vec<String>, problems: &mut Vec<Problem>) {
    let (Value::Table(entries), Value::Table(more)) = (&mut into.value, from.value) else { return };
    for (key, place, node) in more {
        let Some((_, first, there)) = entries.iter_mut().find(|(name, ..)| *name == key) else {
            entries.push((key, place, node));
            continue;
        };
        path.push(key.clone());
        let both_tables = matches!((&there.value, &node.value), (Value::Table(_), Value::Table(_)));
        if holds_others(path) && both_tables {
            merge(there, node, path, problems);
        } else if !(path.len() == 1 && OF_EVERY_FILE.contains(&key.as_str()) && there.value == node.value) {
            let reason = "it is defined twice; this is the first, the second follows";
            problems.push(Problem { at: Some(first.clone()), path: path.clone(), reason: reason.into() });
            problems.push(Problem { at: Some(place), path: path.clone(), reason: "it is defined here for the second time".into() });
        }
        path.pop();
    }
}

//! Merges several files to one document. Tables that contain other tables are joined. An object
//! that two files define is reported with both locations.

use super::document::{ConfigNode, ConfigProblem, ConfigValue};

/// True if the table at a path only contains other tables, so that several files may add to it.
fn is_container(path: &[String]) -> bool {
    match path.first().map(String::as_str) {
        None => true,
        Some("project") => {
            path.len() < 3
                || path.len() == 3
                    && path
                        .last()
                        .is_some_and(|last| OBJECT_TABLES.contains(&last.as_str()))
        }
        Some("user" | "defaults") => path.len() == 1,
        Some(_) => false,
    }
}

/// Parts of a project that contain objects.
pub(super) const OBJECT_TABLES: [&str; 4] = ["channel", "check", "window", "key"];

/// Keys that every file may set.
const SHARED_KEYS: [&str; 2] = ["version", "source"];

/// Merges the contents of one file into the document.
pub(super) fn merge_nodes(
    into: &mut ConfigNode,
    from: ConfigNode,
    path: &mut Vec<String>,
    problems: &mut Vec<ConfigProblem>,
) {
    let (ConfigValue::Table(entries), ConfigValue::Table(more)) = (&mut into.value, from.value)
    else {
        return;
    };
    for (key, location, node) in more {
        let Some((_, first, existing)) = entries.iter_mut().find(|(name, ..)| *name == key) else {
            entries.push((key, location, node));
            continue;
        };
        path.push(key.clone());
        let both_tables = matches!(
            (&existing.value, &node.value),
            (ConfigValue::Table(_), ConfigValue::Table(_))
        );
        if is_container(path) && both_tables {
            merge_nodes(existing, node, path, problems);
        } else if !(path.len() == 1
            && SHARED_KEYS.contains(&key.as_str())
            && existing.value == node.value)
        {
            let reason =
                "it is defined twice; this is the first definition, the second one follows";
            problems.push(ConfigProblem {
                location: Some(first.clone()),
                path: path.clone(),
                reason: reason.into(),
            });
            problems.push(ConfigProblem {
                location: Some(location),
                path: path.clone(),
                reason: "it is defined here for the second time".into(),
            });
        }
        path.pop();
    }
}

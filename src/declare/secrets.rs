//! Secrets that files only refer to: `{ env = "NAME" }`, `{ credential = "NAME" }` and, of keys, `{ file = "PATH" }` become the text itself.
//! The file of a channel's setting stays a path, which is read whenever something is sent.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::document::{Document, Node, Problem, Value};
use crate::domain::channel::ChannelKind;

/// Bytes of a secret.
const MOST_BYTES: u64 = 64 << 10;
/// The keys of a reference.
const REFERENCES: [&str; 3] = ["env", "file", "credential"];

/// Where secrets are read.
pub struct Secrets<'a> {
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// The kind and the name of a reference, if a value is one.
pub(super) fn reference(node: &Node) -> Option<(&str, &str)> {
    match node.entries() {
        [(kind, _, Node { value: Value::Text(name), .. })] if REFERENCES.contains(&kind.as_str()) => Some((kind, name)),
        _ => None,
    }
}

impl Secrets<'_> {
    /// Fills in what the document refers to.
    pub fn fill(&self, document: &mut Document) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.fill_in(&mut document.root, &mut Vec::new(), &mut problems);
        problems
    }

    fn fill_in(&self, node: &mut Node, path: &mut Vec<String>, problems: &mut Vec<Problem>) {
        let of_channel = path.get(2).is_some_and(|part| part == "channel");
        if path.len() > 2
            && let Some((kind, name)) = reference(node)
        {
            let filled = match kind {
                "file" if of_channel => return,
                "file" => read(Path::new(name)),
                "env" => self.env(name),
                _ => self.credential(name),
            };
            match filled {
                Ok(text) => node.value = Value::Text(text),
                Err(reason) => problems.push(Problem { at: Some(node.at.clone()), path: path.clone(), reason }),
            }
            return;
        }
        let Value::Table(entries) = &mut node.value else { return };
        for (key, _, inner) in entries {
            path.push(key.clone());
            self.fill_in(inner, path, problems);
            path.pop();
        }
    }

    fn env(&self, name: &str) -> Result<String, String> {
        let value = (self.variable)(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("the variable {name} is not set; set it where this is run"))
    }

    fn credential(&self, name: &str) -> Result<String, String> {
        let directory = (self.variable)("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let directory =
            directory.ok_or("there are no credentials: CREDENTIALS_DIRECTORY is not set; systemd sets it for LoadCredential=")?;
        if name.is_empty() || name.contains('/') || name == ".." || name == "." {
            return Err("the name of a credential has no slash".into());
        }
        read(&directory.join(name))
    }
}

/// The text of a file without the end of its line.
fn read(path: &Path) -> Result<String, String> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) if text.len() as u64 > MOST_BYTES => Err(format!("{} has more than {MOST_BYTES} bytes", path.display())),
        Ok(text) => {
            let line = text.strip_suffix('\n').unwrap_or(&text);
            Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
        }
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// Whether a secret stands in the document itself.
pub(super) fn holds_secrets(document: &Document) -> bool {
    let is_text = |node: Option<&Node>| matches!(node, Some(Node { value: Value::Text(_), .. }));
    let part = |project: &Node, part: &str| project.get(part).map(Node::entries).unwrap_or_default().to_vec();
    let of_channel = |channel: &Node| {
        let kind = match channel.get("kind") {
            Some(Node { value: Value::Text(kind), .. }) => ChannelKind::named(kind),
            _ => None,
        };
        let holds = |key: &str, node: &Node| match kind {
            Some(kind) if kind.begins_keys(key) => true,
            Some(kind) => kind.has_secret(key) && is_text(Some(node)),
            None => false,
        };
        channel.entries().iter().any(|(key, _, node)| holds(key, node))
    };
    let of_project = |project: &Node| {
        is_text(project.get("ping-key"))
            || part(project, "key").iter().any(|(_, _, key)| is_text(key.get("value")))
            || part(project, "channel").iter().any(|(_, _, channel)| of_channel(channel))
    };
    let users = document.root.get("user").map(Node::entries).unwrap_or_default();
    let projects = document.root.get("project").map(Node::entries).unwrap_or_default();
    users.iter().any(|(_, _, user)| is_text(user.get("password-hash"))) || projects.iter().any(|(_, _, project)| of_project(project))
}

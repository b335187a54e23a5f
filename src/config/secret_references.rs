//! References to secrets in files: `{ env = "NAME" }`, `{ credential = "NAME" }` and, for keys,
//! `{ file = "PATH" }` are replaced by the text itself. A file in a channel's setting stays a path,
//! and is read whenever a message is sent.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::channels;

use super::document::{ConfigDocument, ConfigNode, ConfigProblem, ConfigValue, SourceLocation};

/// Maximum bytes of a secret.
const MAX_SECRET_BYTES: u64 = 64 << 10;
/// Keys of a reference.
const REFERENCE_KEYS: [&str; 3] = ["env", "file", "credential"];

/// Sources of secrets.
pub struct SecretResolver<'a> {
    /// Function that reads an environment variable.
    pub read_variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Returns the kind and the name of a reference, if a value is one.
pub(super) fn secret_reference(node: &ConfigNode) -> Option<(&str, &str)> {
    match node.entries() {
        [
            (
                kind,
                _,
                ConfigNode {
                    value: ConfigValue::Text(name),
                    ..
                },
            ),
        ] if REFERENCE_KEYS.contains(&kind.as_str()) => Some((kind, name)),
        _ => None,
    }
}

impl SecretResolver<'_> {
    /// Replaces the references of a document by their secrets. Returns the problems.
    pub fn resolve(&self, document: &mut ConfigDocument) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        self.resolve_node(&mut document.root, &mut Vec::new(), &mut problems);
        problems
    }

    fn resolve_node(
        &self,
        node: &mut ConfigNode,
        path: &mut Vec<String>,
        problems: &mut Vec<ConfigProblem>,
    ) {
        let of_channel = path.get(2).is_some_and(|part| part == "channel");
        if path.len() > 2
            && let Some((kind, name)) = secret_reference(node)
        {
            let filled = match kind {
                "file" if of_channel => return,
                "file" => read_secret_file(Path::new(name)),
                "env" => self.read_env(name),
                _ => self.read_credential(name),
            };
            match filled {
                Ok(text) => node.value = ConfigValue::Text(text),
                Err(reason) => problems.push(ConfigProblem {
                    location: Some(node.location.clone()),
                    path: path.clone(),
                    reason,
                }),
            }
            return;
        }
        let ConfigValue::Table(entries) = &mut node.value else {
            return;
        };
        for (key, _, inner) in entries {
            path.push(key.clone());
            self.resolve_node(inner, path, problems);
            path.pop();
        }
    }

    fn read_env(&self, name: &str) -> Result<String, String> {
        let value = (self.read_variable)(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("the environment variable {name} is not set"))
    }

    fn read_credential(&self, name: &str) -> Result<String, String> {
        let directory = (self.read_variable)("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let directory = directory.ok_or(
            "there are no credentials: CREDENTIALS_DIRECTORY is not set; systemd sets it for \
             services with LoadCredential=",
        )?;
        if name.is_empty() || name.contains('/') || name == ".." || name == "." {
            return Err("the name of a credential must not be empty or contain a slash".into());
        }
        read_secret_file(&directory.join(name))
    }
}

/// Replaces the references of a document by empty texts. Returns their paths and locations.
pub(super) fn blank_references(
    document: &mut ConfigDocument,
) -> Vec<(Vec<String>, SourceLocation)> {
    fn blank(
        node: &mut ConfigNode,
        path: &mut Vec<String>,
        blanks: &mut Vec<(Vec<String>, SourceLocation)>,
    ) {
        if path.len() > 2 && secret_reference(node).is_some() {
            node.value = ConfigValue::Text(String::new());
            blanks.push((path.clone(), node.location.clone()));
            return;
        }
        if let ConfigValue::Table(entries) = &mut node.value {
            for (key, _, inner) in entries {
                path.push(key.clone());
                blank(inner, path, blanks);
                path.pop();
            }
        }
    }
    let mut blanks = Vec::new();
    blank(&mut document.root, &mut Vec::new(), &mut blanks);
    blanks
}

/// Returns the text of a file without its trailing line end.
fn read_secret_file(path: &Path) -> Result<String, String> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?
            .take(MAX_SECRET_BYTES + 1)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) if text.len() as u64 > MAX_SECRET_BYTES => Err(format!(
            "{} has more than {MAX_SECRET_BYTES} bytes",
            path.display()
        )),
        Ok(text) => {
            let line = text.strip_suffix('\n').unwrap_or(&text);
            Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
        }
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// True if the document itself contains a secret.
pub(super) fn has_inline_secrets(document: &ConfigDocument) -> bool {
    let is_text = |node: Option<&ConfigNode>| {
        matches!(
            node,
            Some(ConfigNode {
                value: ConfigValue::Text(_),
                ..
            })
        )
    };
    let part = |project: &ConfigNode, part: &str| {
        project
            .get(part)
            .map(ConfigNode::entries)
            .unwrap_or_default()
            .to_vec()
    };
    let of_channel = |channel: &ConfigNode| {
        let kind = match channel.get("kind") {
            Some(ConfigNode {
                value: ConfigValue::Text(kind),
                ..
            }) => channels::find_kind(kind),
            _ => None,
        };
        let holds = |key: &str, node: &ConfigNode| match kind {
            Some(kind) if kind.is_key_prefix(key) => true,
            Some(kind) => kind.is_known_secret(key) && is_text(Some(node)),
            None => false,
        };
        channel
            .entries()
            .iter()
            .any(|(key, _, node)| holds(key, node))
    };
    let of_project = |project: &ConfigNode| {
        is_text(project.get("ping-key"))
            || part(project, "key")
                .iter()
                .any(|(_, _, key)| is_text(key.get("value")))
            || part(project, "channel")
                .iter()
                .any(|(_, _, channel)| of_channel(channel))
    };
    let users = document
        .root
        .get("user")
        .map(ConfigNode::entries)
        .unwrap_or_default();
    let projects = document
        .root
        .get("project")
        .map(ConfigNode::entries)
        .unwrap_or_default();
    users
        .iter()
        .any(|(_, _, user)| is_text(user.get("password-hash")))
        || projects.iter().any(|(_, _, project)| of_project(project))
}

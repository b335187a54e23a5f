//! Keys of projects and users of a file.

use super::{ConfigObject, ConfigReader, FieldNode, child_path};
use crate::config::document::{ConfigNode, ConfigValue};
use crate::config::fields;
use crate::domain::declared::{DeclaredGrant, DeclaredKey, DeclaredUser};
use crate::domain::project::{
    KeyAccess, KeyLabel, KeySecret, PingKey, ProjectKey, ProjectName, SecretHash,
};
use crate::domain::user::{Membership, UserName};
use crate::util::password;

impl ConfigReader {
    pub(super) fn read_key(
        &mut self,
        key: &str,
        node: &ConfigNode,
        path: Vec<String>,
    ) -> Option<DeclaredKey> {
        let object = ConfigObject::new(node, None, path, fields::KEY_FIELDS, &[]);
        self.reject_unknown_keys(&object, &[]);
        let label = KeyLabel::parse(key)
            .map_err(|reason| self.add_problem(node, &object.path, reason))
            .ok()?;
        if key.is_empty() {
            return self.reject(
                node,
                &object.path,
                "the key of the table is the label, which must not be empty; for a ping key \
                 without a label, use ping-key of the project",
            );
        }
        let access = self
            .read_choice(&object, "access")
            .and_then(KeyAccess::parse);
        if access.is_none() && !object.has_own("access") {
            self.add_problem(
                node,
                &object.path,
                r#"access is missing; give access = "read-only", "read-write" or "ping""#,
            );
        }
        if !object.has_own("value") {
            return self.reject(
                node,
                &object.path,
                r#"the value is missing; give value = { env = "NAME" } or { file = "PATH" }"#,
            );
        }
        let access = access?;
        let (secret, hint) = self.read_parsed(&object, "value", |text| {
            parse_key_secret(access, text).map(|secret| (secret, key_hint(text)))
        })?;
        Some(DeclaredKey {
            label,
            secret,
            hint,
        })
    }

    pub(super) fn read_user(
        &mut self,
        name: &str,
        node: &ConfigNode,
        path: Vec<String>,
    ) -> Option<DeclaredUser> {
        let object = ConfigObject::new(node, None, path, fields::USER_FIELDS, &[]);
        self.reject_unknown_keys(&object, &[]);
        let name = UserName::parse(name)
            .map_err(|reason| self.add_problem(node, &object.path, reason))
            .ok()?;
        let disabled = self.read_bool(&object, "disabled");
        let not_a_hash =
            || "it is not an Argon2 hash in PHC format, or its cost is too high".to_owned();
        let password = self.read_parsed(&object, "password-hash", |text| {
            password::parse(text).ok_or_else(not_a_hash)
        });
        let owner = self.read_bool(&object, "owner").unwrap_or_default();
        let mut projects = Vec::new();
        if let Some(FieldNode { node, path }) = object.field_node("projects") {
            if owner {
                self.add_problem(
                    node,
                    &path,
                    "an owner already has access to all projects; remove this line",
                );
            }
            for (project, _, access) in node.entries() {
                let path = child_path(&path, project);
                let kind = match &access.value {
                    ConfigValue::Text(text) => Membership::parse(text),
                    _ => None,
                };
                match (ProjectName::parse(project), kind) {
                    (Ok(project), Some(kind)) => projects.push((project, kind)),
                    (Err(reason), _) => self.add_problem(access, &path, reason),
                    (_, None) => self.add_problem(access, &path, "give member or read-only"),
                }
            }
            if !matches!(node.value, ConfigValue::Table(_)) {
                self.add_problem(
                    node,
                    &path,
                    format!(
                        r#"it is {}; give a table such as {{ Home = "member" }}"#,
                        node.type_name()
                    ),
                );
            }
        }
        let grant = if owner {
            DeclaredGrant::Owner
        } else {
            DeclaredGrant::Projects(projects)
        };
        Some(DeclaredUser {
            name,
            grant,
            password,
            disabled,
        })
    }
}

pub(super) fn key_hint(key: &str) -> Box<str> {
    key.chars()
        .take(ProjectKey::HINT_LENGTH)
        .collect::<String>()
        .into()
}

pub(super) fn parse_ping_key(text: &str) -> Result<KeySecret, String> {
    let wrong = || {
        let max_length = PingKey::MAX_LENGTH;
        format!(
            "a ping key has 1 to {max_length} characters (A-Z, a-z, 0-9, hyphen, underscore) and \
             is not a UUID"
        )
    };
    PingKey::parse(text).map(KeySecret::Ping).ok_or_else(wrong)
}

fn parse_key_secret(access: KeyAccess, text: &str) -> Result<KeySecret, String> {
    let is_key =
        text.len() == KeySecret::KEY_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic());
    let api_key = || {
        let hash = SecretHash::of(text.as_bytes());
        if is_key {
            Ok(hash)
        } else {
            Err(format!(
                "an API key has {} random characters without spaces",
                KeySecret::KEY_LENGTH
            ))
        }
    };
    match access {
        KeyAccess::ReadWrite => api_key().map(KeySecret::ReadWrite),
        KeyAccess::ReadOnly => api_key().map(KeySecret::ReadOnly),
        KeyAccess::Ping => parse_ping_key(text),
    }
}

//! API keys and ping keys.

use std::net::IpAddr;

use hyper::Method;
use serde::{Deserialize, Serialize};

use super::context::AdminContext;
use super::error::AdminError;
use super::request::AdminRequest;
use super::{field_format, format_timestamp};
use crate::domain::ids::KeyId;
use crate::domain::project::{KeyAccess, KeyLabel, KeySecret};
use crate::operations::key;

/// A new key. An API key cannot be shown again.
#[derive(Serialize, Deserialize)]
pub struct CreatedKeyRow {
    /// Number that `key revoke` takes.
    pub id: u64,
    /// The key in clear text.
    pub key: String,
}

/// A key in a list.
#[derive(Serialize, Deserialize)]
pub struct KeyRow {
    /// Number that `key revoke` takes.
    pub id: u64,
    /// Name of its project.
    pub project: String,
    /// Access, as the command line writes it.
    pub access: String,
    /// Label, may be empty.
    pub label: String,
    /// First characters of the key; empty for a key of release 0.1.
    pub hint: String,
    /// Creation time, RFC 3339.
    pub created: String,
    /// Time of the last use, RFC 3339. Updated at most once an hour.
    pub used: Option<String>,
    /// Note about the key: it was imported from another server and has not been used since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Address from which it was used then.
    pub used_from: Option<IpAddr>,
    /// The key itself, if it is a ping key and the request asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Lists the keys of a project or of all, oldest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListKeys {
    /// Project to list; `None` for all.
    pub project: Option<String>,
    /// True to include ping keys in clear text.
    #[serde(default)]
    pub show_ping_keys: bool,
}

impl AdminRequest for ListKeys {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/keys";
    type Output = Vec<KeyRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<KeyRow>, AdminError> {
        let project = context.project_filter(self.project.as_deref())?;
        let rows = key::list(context.handle(), project)
            .into_iter()
            .map(|(project, key)| KeyRow {
                id: key.id.0,
                project: project.name.as_str().into(),
                access: key.secret.access().name().into(),
                label: key.label.as_str().into(),
                hint: key.hint.as_ref().into(),
                created: format_timestamp(key.created),
                used: key.last_use.map(|used| format_timestamp(used.at)),
                used_from: key.last_use.map(|used| used.from),
                note: key
                    .is_unused_since_import()
                    .then(|| "not used since the import".into()),
                key: match &key.secret {
                    KeySecret::Ping(key) if self.show_ping_keys => Some(key.as_str().into()),
                    _ => None,
                },
            });
        Ok(rows.collect())
    }
}

/// Creates a key.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// Project of the key; `None` if there is only one project.
    pub project: Option<String>,
    /// Access that the key gives.
    #[serde(with = "field_format::access")]
    pub access: KeyAccess,
    /// Label, may be empty.
    #[serde(default, with = "field_format::key_label")]
    pub label: KeyLabel,
}

impl AdminRequest for CreateKey {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/keys";
    type Output = CreatedKeyRow;

    async fn run(self, context: &AdminContext) -> Result<CreatedKeyRow, AdminError> {
        let project = context.target_project(self.project.as_deref())?;
        let (KeyId(id), key) =
            key::create(context.handle(), project, self.access, self.label).await?;
        Ok(CreatedKeyRow { id, key })
    }
}

/// Deletes a key.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeKey {
    /// Number of the key.
    #[serde(with = "field_format::number")]
    pub id: u64,
}

impl AdminRequest for RevokeKey {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/keys/{id}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        Ok(key::revoke(context.handle(), self.id).await?)
    }
}

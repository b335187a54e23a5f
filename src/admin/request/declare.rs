//! Declared configuration on the socket: changes, made or planned, and conflicts.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::user::LinkRow;

/// A change of an object.
#[derive(Serialize, Deserialize)]
pub struct ChangeRow {
    /// `add`, `change`, `adopt`, `delete` or `leave`.
    pub op: String,
    /// Name of its project; `None` for users.
    pub project: Option<String>,
    /// Kind of the object: `project`, `channel`, `check`, `window`, `key` or `user`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Identifier of the object in the file.
    pub id: String,
    /// Fields that change.
    pub fields: Vec<ChangedFieldRow>,
    /// UUID of the object, if it has one already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Ping URL of a new check, if a server runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Link by which a new user chooses a password. It cannot be shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkRow>,
}

/// A field that changes; secrets are masked.
#[derive(Serialize, Deserialize)]
pub struct ChangedFieldRow {
    /// Key of the field.
    pub name: String,
    /// Value before; `None` if it had none, or its default.
    pub from: Option<String>,
    /// Value after.
    pub to: Option<String>,
}

/// Reason why the declared configuration cannot be applied.
#[derive(Serialize, Deserialize)]
pub struct ConflictRow {
    /// Keys that lead to the object or the field in the file.
    pub path: Vec<String>,
    /// A sentence: what is wrong, and what to do.
    pub reason: String,
}

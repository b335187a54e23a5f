//! What files declare, as it stands on the socket: what would change or has changed, and what stands in the way.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::user::LinkRow;

/// What becomes of an object.
#[derive(Serialize, Deserialize)]
pub struct ChangeRow {
    /// `add`, `change`, `adopt`, `delete` or `leave`.
    pub op: String,
    /// The name of its project; nothing of users.
    pub project: Option<String>,
    /// What it is: `project`, `channel`, `check`, `window`, `key` or `user`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How the file names it.
    pub id: String,
    /// What of it changes.
    pub fields: Vec<ChangedFieldRow>,
    /// Its UUID, if it has one by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Where a new check is pinged, if a server runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// By which a new user chooses a password. It cannot be shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkRow>,
}

/// A field that changes; secrets are masked.
#[derive(Serialize, Deserialize)]
pub struct ChangedFieldRow {
    /// Its key.
    pub name: String,
    /// Its value before; nothing: it had none, or its default.
    pub from: Option<String>,
    /// Its value after.
    pub to: Option<String>,
}

/// Why what files declare cannot be.
#[derive(Serialize, Deserialize)]
pub struct ConflictRow {
    /// The keys that lead to the object or the field in the file.
    pub path: Vec<String>,
    /// A sentence: what is wrong, and what to do.
    pub reason: String,
}

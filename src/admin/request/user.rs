//! Requests about users on the socket, and the rows of their list. Passwords are sent as hashes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::form;
use crate::domain::user::{Membership, PasswordHash, UserName};

/// Permissions of a user; projects by name or UUID.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GrantRow {
    /// All permissions.
    Owner,
    /// Permissions in these projects only.
    Projects(Vec<ProjectGrantRow>),
}

/// Permissions of a user in a project.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectGrantRow {
    /// Name or UUID of the project; in a list its name.
    pub project: String,
    /// Permissions of the user there.
    #[serde(with = "form::membership")]
    pub access: Membership,
}

/// Action on one user.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UserAction {
    /// Changes the user; `None` leaves a field as it is.
    Set {
        /// New name.
        #[serde(default, with = "form::optional_user_name")]
        name: Option<UserName>,
        /// New permissions.
        grant: Option<GrantRow>,
        /// True to disable sign-in.
        disabled: Option<bool>,
    },
    /// Sets the password. All sessions of the user end.
    Password(#[serde(with = "form::password_hash")] PasswordHash),
    /// Removes the second factor.
    ResetTotp,
    /// Deletes the user.
    Delete,
    /// Ends all sessions of the user.
    SignOut,
    /// Creates the link by which the user chooses a password.
    Link,
}

/// A new link. It cannot be shown again.
#[derive(Serialize, Deserialize)]
pub struct LinkRow {
    /// User that the link is for; `None` if there is no user yet.
    pub user: Option<Uuid>,
    /// Path of the page, below the address of the service.
    pub path: String,
    /// Full URL, if a server runs.
    pub url: Option<String>,
    /// Time at which it expires, RFC 3339.
    pub expires: String,
}

/// A user in a list.
#[derive(Serialize, Deserialize)]
pub struct UserRow {
    /// UUID, by which commands may name it.
    pub uuid: Uuid,
    /// Name of the user.
    pub name: String,
    /// Permissions of the user.
    pub grant: GrantRow,
    /// `active`, `invited` (it has no password yet) or `disabled`.
    pub status: String,
    /// True if sign-in requires a second factor beside the password.
    #[serde(default)]
    pub second_factor: bool,
    /// Number of open sessions.
    pub sessions: usize,
    /// Time of the last activity in a session, RFC 3339. Updated at most once an hour.
    pub seen: Option<String>,
    /// Creation time, RFC 3339.
    pub created: String,
}

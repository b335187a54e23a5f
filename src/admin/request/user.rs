//! Users as they stand on the socket: what is asked of them, and the rows of their list. Passwords come as hashes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::form;
use crate::domain::user::{Membership, PasswordHash, UserName};

/// What a user may do; projects by name or UUID.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GrantRow {
    /// Everything.
    Owner,
    /// This, in these projects.
    Projects(Vec<ProjectGrantRow>),
}

/// What a user may do in a project.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectGrantRow {
    /// Its name or UUID; in a list its name.
    pub project: String,
    /// What the user may do there.
    #[serde(with = "form::membership")]
    pub access: Membership,
}

/// What is asked about one user.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UserAction {
    /// A change; what is `None` stays.
    Set {
        /// Its new name.
        #[serde(default, with = "form::optional_user_name")]
        name: Option<UserName>,
        /// What it may do.
        grant: Option<GrantRow>,
        /// Whether it may sign in no more.
        disabled: Option<bool>,
    },
    /// That it has this password; all its sessions end.
    Password(#[serde(with = "form::password_hash")] PasswordHash),
    /// That it has no second factor from now on.
    ResetTotp,
    /// That it is removed.
    Delete,
    /// That all its sessions end.
    SignOut,
    /// The link by which it chooses its password.
    Link,
}

/// A link that was made. It cannot be shown again.
#[derive(Serialize, Deserialize)]
pub struct LinkRow {
    /// Of the user, if there is one yet.
    pub user: Option<Uuid>,
    /// Where the page lies, below the address of the service.
    pub path: String,
    /// The whole address, if a server runs.
    pub url: Option<String>,
    /// When it stops working, RFC 3339.
    pub expires: String,
}

/// A user in a list.
#[derive(Serialize, Deserialize)]
pub struct UserRow {
    /// What commands may name it by.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub grant: GrantRow,
    /// `active`, `invited` (it has no password yet) or `disabled`.
    pub status: String,
    /// Whether it is asked for a second factor beside its password.
    #[serde(default)]
    pub second_factor: bool,
    /// How many sessions are open.
    pub sessions: usize,
    /// When it was last seen in one of them, RFC 3339, told once in every hour.
    pub seen: Option<String>,
    /// When it was made, RFC 3339.
    pub created: String,
}

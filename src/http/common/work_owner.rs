//! Owners of concurrent work. They share threads and memory, and each leaves a part to the others.

use crate::domain::ids::{ProjectId, UserId};

/// Owner of concurrent work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum WorkOwner {
    /// Requests about a project.
    Project(ProjectId),
    /// Other requests of a user.
    User(UserId),
    /// Pages for visitors who are not signed in.
    Visitors,
    /// Hashes of passwords.
    Passwords,
    /// Health, metrics and the instance key.
    Server,
    /// All other requests of clients without a key or session.
    Other,
}

impl From<Option<ProjectId>> for WorkOwner {
    fn from(project: Option<ProjectId>) -> Self {
        project.map_or(Self::Other, Self::Project)
    }
}

//! Users as rows, and actions on one user.

use super::format_timestamp;
use crate::admin::request::AdminReply;
use crate::admin::request::user::{GrantRow, LinkRow, ProjectGrantRow, UserAction, UserRow};
use crate::domain::user::{Grant, PasswordHash, ProjectMemberships, User, UserName};
use crate::engine::Handle;
use crate::engine::command::user::{SessionSelection, UserChanges};
use crate::engine::state::State;
use crate::operations::user::{self, CreatedLink};
use crate::operations::{OperationError, project};

/// Creates a user. A user without a password gets a link to choose one.
pub(super) async fn create(
    handle: &Handle,
    name: UserName,
    password: Option<PasswordHash>,
    grant: GrantRow,
) -> Result<AdminReply, OperationError> {
    let user = user::create(handle, name, password, resolve_grant(handle, grant)?).await?;
    tracing::info!(user = user.name.as_str(), "the command line created a user");
    if user.password.is_some() {
        Ok(AdminReply::Made(user.uuid))
    } else {
        create_link(handle, Some(&user)).await
    }
}

/// Handles an action on one user.
pub(super) async fn handle_action(
    handle: &Handle,
    user: &User,
    what: UserAction,
) -> Result<AdminReply, OperationError> {
    let done = match what {
        UserAction::Set { .. } => "changed a user",
        UserAction::Password(_) => "changed the password of a user",
        UserAction::ResetTotp => "removed the second factor of a user",
        UserAction::Delete => "deleted a user",
        UserAction::SignOut => "signed a user out",
        UserAction::Link => "",
    };
    match what {
        UserAction::Set {
            name,
            grant,
            disabled,
        } => {
            let grant = grant
                .map(|grant| resolve_grant(handle, grant))
                .transpose()?;
            let changes = UserChanges {
                name,
                grant,
                disabled,
                ..UserChanges::default()
            };
            user::update(handle, user.id, changes, None)
                .await
                .map(drop)?;
        }
        UserAction::Password(hash) => {
            let changes = UserChanges {
                password: Some(hash),
                ..UserChanges::default()
            };
            user::update(handle, user.id, changes, None)
                .await
                .map(drop)?;
        }
        UserAction::ResetTotp => {
            let changes = UserChanges {
                second_factor: Some(None),
                ..UserChanges::default()
            };
            user::update(handle, user.id, changes, None)
                .await
                .map(drop)?;
        }
        UserAction::Delete => user::delete(handle, user.id).await?,
        UserAction::SignOut => user::end_sessions(handle, user.id, SessionSelection::All).await?,
        UserAction::Link => return create_link(handle, Some(user)).await,
    }
    tracing::info!(user = user.name.as_str(), "the command line {done}");
    Ok(AdminReply::Done)
}

/// Creates a link for a user, or for the initial setup.
pub(super) async fn create_link(
    handle: &Handle,
    user: Option<&User>,
) -> Result<AdminReply, OperationError> {
    let link: CreatedLink = user::create_link(handle, user).await?;
    tracing::info!(
        user = user.map(|user| user.name.as_str()),
        "the command line created a link: {}",
        link.kind.name()
    );
    let expires = format_timestamp(handle.now().plus_secs(link.lifetime_secs));
    Ok(AdminReply::MadeLink(LinkRow {
        user: user.map(|user| user.uuid),
        path: link.path(),
        url: None,
        expires,
    }))
}

pub(super) fn list(handle: &Handle) -> AdminReply {
    let now = handle.now();
    handle.with_state(|state| {
        let row = |user: &User| {
            let seen: Vec<_> = state
                .users
                .sessions_of(user.id, now)
                .map(|session| session.last_used)
                .collect();
            UserRow {
                uuid: user.uuid,
                name: user.name.as_str().into(),
                grant: grant_row(state, &user.grant),
                status: if user.disabled {
                    "disabled"
                } else if user.password.is_none() {
                    "invited"
                } else {
                    "active"
                }
                .into(),
                second_factor: user.second_factor.is_some(),
                sessions: seen.len(),
                seen: seen.into_iter().max().map(format_timestamp),
                created: format_timestamp(user.created),
            }
        };
        AdminReply::Users(state.users.iter().map(|user| row(user)).collect())
    })
}

fn resolve_grant(handle: &Handle, granted: GrantRow) -> Result<Grant, OperationError> {
    let found = |ProjectGrantRow { project, access }| {
        project::find(handle, &project).map(|project| (project.id, access))
    };
    match granted {
        GrantRow::Owner => Ok(Grant::Owner),
        GrantRow::Projects(projects) => {
            let projects: Result<Vec<_>, _> = projects.into_iter().map(found).collect();
            Ok(Grant::Projects(ProjectMemberships::new(projects?)))
        }
    }
}

fn grant_row(state: &State, grant: &Grant) -> GrantRow {
    match grant {
        Grant::Owner => GrantRow::Owner,
        Grant::Projects(projects) => {
            let row = |(id, access)| {
                Some(ProjectGrantRow {
                    project: state.project(id)?.project.name.as_str().into(),
                    access,
                })
            };
            GrantRow::Projects(projects.iter().filter_map(row).collect())
        }
    }
}

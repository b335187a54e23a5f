//! Users as rows, and what is asked about one of them.

use super::written;
use crate::admin::request::Reply;
use crate::admin::request::user::{Granted, GrantedProject, LinkRow, OfUser, UserRow};
use crate::domain::user::{Grant, PasswordHash, Projects, User, UserName};
use crate::engine::Handle;
use crate::engine::command::user::{Closing, UserChanges};
use crate::engine::state::State;
use crate::manage::user::{self, MadeLink};
use crate::manage::{ManageError, project};

/// Makes a user. Whoever gets no password gets a link.
pub(super) async fn create(handle: &Handle, name: UserName, password: Option<PasswordHash>, grant: Granted) -> Result<Reply, ManageError> {
    let user = user::create(handle, name, password, granted(handle, grant)?).await?;
    tracing::info!(user = user.name.as_str(), "the command line made a user");
    if user.password.is_some() { Ok(Reply::Made(user.uuid)) } else { link(handle, Some(&user)).await }
}

/// What is asked about one user.
pub(super) async fn answer(handle: &Handle, user: &User, what: OfUser) -> Result<Reply, ManageError> {
    let done = match what {
        OfUser::Set { .. } => "changed a user",
        OfUser::Password(_) => "gave a user another password",
        OfUser::ResetTotp => "took the second factor of a user",
        OfUser::Delete => "deleted a user",
        OfUser::SignOut => "signed a user out",
        OfUser::Link => "",
    };
    match what {
        OfUser::Set { name, grant, disabled } => {
            let grant = grant.map(|grant| granted(handle, grant)).transpose()?;
            let changes = UserChanges { name, grant, disabled, ..UserChanges::default() };
            user::set(handle, user.id, changes, None).await.map(drop)?;
        }
        OfUser::Password(hash) => {
            let changes = UserChanges { password: Some(hash), ..UserChanges::default() };
            user::set(handle, user.id, changes, None).await.map(drop)?;
        }
        OfUser::ResetTotp => {
            let changes = UserChanges { second: Some(None), ..UserChanges::default() };
            user::set(handle, user.id, changes, None).await.map(drop)?;
        }
        OfUser::Delete => user::delete(handle, user.id).await?,
        OfUser::SignOut => user::sign_out(handle, user.id, Closing::All).await?,
        OfUser::Link => return link(handle, Some(user)).await,
    }
    tracing::info!(user = user.name.as_str(), "the command line {done}");
    Ok(Reply::Done)
}

/// A link for a user, or to set up.
pub(super) async fn link(handle: &Handle, user: Option<&User>) -> Result<Reply, ManageError> {
    let made: MadeLink = user::link(handle, user).await?;
    tracing::info!(user = user.map(|user| user.name.as_str()), "the command line made a link: {}", made.kind.name());
    let expires = written(handle.now().plus_secs(made.secs));
    Ok(Reply::MadeLink(LinkRow { user: user.map(|user| user.uuid), path: made.path(), url: None, expires }))
}

pub(super) fn list(handle: &Handle) -> Reply {
    let now = handle.now();
    handle.with_state(|state| {
        let row = |user: &User| {
            let seen: Vec<_> = state.users.sessions_of(user.id, now).map(|session| session.seen).collect();
            UserRow {
                uuid: user.uuid,
                name: user.name.as_str().into(),
                grant: shown(state, &user.grant),
                status: if user.disabled {
                    "disabled"
                } else if user.password.is_none() {
                    "invited"
                } else {
                    "active"
                }
                .into(),
                second_factor: user.second.is_some(),
                sessions: seen.len(),
                seen: seen.into_iter().max().map(written),
                created: written(user.created),
            }
        };
        Reply::Users(state.users.iter().map(|user| row(user)).collect())
    })
}

fn granted(handle: &Handle, granted: Granted) -> Result<Grant, ManageError> {
    let found = |GrantedProject { project, access }| project::find(handle, &project).map(|project| (project.id, access));
    match granted {
        Granted::Owner => Ok(Grant::Owner),
        Granted::Projects(projects) => {
            let projects: Result<Vec<_>, _> = projects.into_iter().map(found).collect();
            Ok(Grant::Projects(Projects::new(projects?)))
        }
    }
}

fn shown(state: &State, grant: &Grant) -> Granted {
    match grant {
        Grant::Owner => Granted::Owner,
        Grant::Projects(projects) => {
            let row = |(id, access)| Some(GrantedProject { project: state.project(id)?.project.name.as_str().into(), access });
            Granted::Projects(projects.iter().filter_map(row).collect())
        }
    }
}

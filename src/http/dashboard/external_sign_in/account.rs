//! Account of a user whom a provider has confirmed: found, connected or created, with the
//! permissions of the user's groups.

use std::sync::Arc;

use super::provider::ConfirmedUser;
use crate::domain::audit::{Actor, ActorKind};
use crate::domain::ids::ProjectId;
use crate::domain::user::external_identity::IdentityProvider;
use crate::domain::user::{Grant, ProjectMemberships, User, UserName};
use crate::engine::Handle;
use crate::engine::command::user::{UserChanges, UserCommandError};
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::proxy_auth::find_confusable_name;
use crate::operations::{self, OperationError};

/// The account, or the reason for refusing the user.
pub(super) type AccountResult = Result<Arc<User>, String>;

/// Returns the account of a user, with permissions by groups if the provider has them.
pub(super) async fn find_or_create(
    request: &PageRequest,
    provider: &IdentityProvider,
    confirmed: &ConfirmedUser,
) -> Result<AccountResult, PageError> {
    let handle = &request.dashboard.handle;
    let grant = if provider.roles.is_empty() {
        None
    } else {
        let grant = provider
            .roles
            .grant(&confirmed.groups, |word| projects_of(handle, word));
        if grant == Grant::Projects(ProjectMemberships::default()) {
            let text = format!("Your groups at {} give no access here.", provider.name);
            return Ok(Err(text));
        }
        Some(grant)
    };
    let known = handle.with_state(|state| state.users.by_identity(&confirmed.identity).cloned());
    let user = match known {
        Some(user) => user,
        None => match connect_or_create(request, provider, confirmed, grant.as_ref()).await? {
            Ok(user) => user,
            Err(reason) => return Ok(Err(reason)),
        },
    };
    if user.disabled {
        return Ok(Err("Your account is disabled. Ask an owner.".into()));
    }
    let Some(grant) = grant.filter(|grant| *grant != user.grant) else {
        return Ok(Ok(user));
    };
    let changes = UserChanges {
        grant: Some(grant),
        ..UserChanges::default()
    };
    let actor = actor(request, &user.name);
    match operations::user::update(&handle.with_actor(actor), user.id, changes, None).await {
        Ok(user) => Ok(Ok(Arc::new(*user))),
        Err(OperationError::User(UserCommandError::LastOwner)) => {
            tracing::warn!(
                user = user.name.as_str(),
                "the groups of the last owner no longer make an owner; the permissions stay"
            );
            Ok(Ok(user))
        }
        Err(error) => Err(error.into()),
    }
}

/// Connects the identity with an invited user of this name, or creates a user.
async fn connect_or_create(
    request: &PageRequest,
    provider: &IdentityProvider,
    confirmed: &ConfirmedUser,
    grant: Option<&Grant>,
) -> Result<AccountResult, PageError> {
    let Some(sent_name) = &confirmed.name else {
        return Ok(Err(format!(
            "{} sends no claim {:?}, which is the name of a user.",
            provider.name, provider.name_claim
        )));
    };
    let Ok(name) = UserName::parse(sent_name) else {
        let text = format!("{} sends a name that no user can have.", provider.name);
        return Ok(Err(text));
    };
    let handle = request.dashboard.handle.with_actor(actor(request, &name));
    let (found, has_users) = handle.with_state(|state| {
        let found = state.users.by_name(&name).cloned();
        (found, !state.users.is_empty())
    });
    let user = match found {
        // Another system may distinguish names that are equal here.
        Some(user) if user.name.as_str() == sent_name && is_unclaimed(&user) => user,
        Some(_) => {
            return Ok(Err(format!(
                "An account with the name {} exists. Sign in to it by its password, and connect it \
                 with {} on the account page.",
                name.as_str(),
                provider.name
            )));
        }
        None if provider.creates_users && has_users => {
            if let Some(reason) = find_confusable_name(&request.dashboard, &name) {
                let text = format!(
                    "No account is created for the name {}: {reason}. Ask an owner.",
                    name.as_str()
                );
                return Ok(Err(text));
            }
            let grant = grant.cloned();
            let grant = grant.unwrap_or_else(|| Grant::Projects(ProjectMemberships::default()));
            let user = operations::user::create(&handle, name.clone(), None, grant).await?;
            tracing::info!(
                user = name.as_str(),
                issuer = &*provider.issuer,
                "created a user of a provider"
            );
            Arc::new(*user)
        }
        None => {
            return Ok(Err(format!(
                "{} has no account here. Ask an owner for an invitation.",
                name.as_str()
            )));
        }
    };
    let changes = UserChanges {
        identity: Some(Some(confirmed.identity.clone())),
        ..UserChanges::default()
    };
    let user = operations::user::update(&handle, user.id, changes, None).await?;
    Ok(Ok(Arc::new(*user)))
}

/// True if an owner has created the user and the user has never signed in.
fn is_unclaimed(user: &User) -> bool {
    user.password.is_none() && user.passkeys.is_empty() && user.identity.is_none()
}

fn actor(request: &PageRequest, name: &UserName) -> Actor {
    Actor {
        kind: ActorKind::User,
        name: name.as_str().into(),
        address: Some(request.origin.client.addr),
    }
}

/// Projects with this name or UUID, or all.
fn projects_of(handle: &Handle, word: Option<&str>) -> Vec<ProjectId> {
    handle.with_state(|state| {
        let projects = state.projects().map(|project_state| &project_state.project);
        projects
            .filter(|project| {
                word.is_none_or(|word| {
                    project.name.as_str() == word || project.uuid.to_string() == word
                })
            })
            .map(|project| project.id)
            .collect()
    })
}

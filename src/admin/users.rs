//! Users of the dashboard. Passwords are sent as hashes.

use hyper::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::context::AdminContext;
use super::error::AdminError;
use super::request::AdminRequest;
use super::{field_format, format_timestamp};
use crate::domain::mail_address::MailAddress;
use crate::domain::user::Membership;
use crate::domain::user::summary::{SummaryInterval, SummarySettings};
use crate::domain::user::{Grant, PasswordHash, ProjectMemberships, User, UserName};
use crate::engine::command::user::{PasskeyChange, SessionSelection, UserChanges};
use crate::engine::state::State;
use crate::operations::OperationError;
use crate::operations::user::{self, CreatedLink};

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
    #[serde(with = "field_format::membership")]
    pub access: Membership,
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
    /// Number of passkeys.
    #[serde(default)]
    pub passkeys: usize,
    /// URL of the provider at which the user signs in.
    #[serde(default)]
    pub issuer: Option<String>,
    /// `weekly` or `monthly` if the user gets summaries by mail.
    #[serde(default)]
    pub summary: Option<String>,
    /// Number of open sessions.
    pub sessions: usize,
    /// Time of the last activity in a session, RFC 3339. Updated at most once an hour.
    pub seen: Option<String>,
    /// Creation time, RFC 3339.
    pub created: String,
}

/// Lists all users, oldest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListUsers {}

impl AdminRequest for ListUsers {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/users";
    type Output = Vec<UserRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<UserRow>, AdminError> {
        let handle = context.handle();
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
                    passkeys: user.passkeys.len(),
                    issuer: user
                        .identity
                        .as_ref()
                        .map(|identity| identity.issuer().into()),
                    summary: user
                        .summary
                        .as_ref()
                        .map(|subscription| subscription.settings.interval.name().into()),
                    sessions: seen.len(),
                    seen: seen.into_iter().max().map(format_timestamp),
                    created: format_timestamp(user.created),
                }
            };
            Ok(state.users.iter().map(|user| row(user)).collect())
        })
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

/// A new user.
#[derive(Serialize, Deserialize)]
pub struct CreatedUser {
    /// UUID of the user.
    pub uuid: Uuid,
    /// Link by which a user without a password chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkRow>,
}

/// Creates a user. Without a password it gets a link to choose one.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// Name of the user.
    #[serde(with = "field_format::user_name")]
    pub name: UserName,
    /// Hash of the password.
    #[serde(default, with = "field_format::optional_password_hash")]
    pub password: Option<PasswordHash>,
    /// Permissions of the user.
    pub grant: GrantRow,
}

impl AdminRequest for CreateUser {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/users";
    type Output = CreatedUser;

    async fn run(self, context: &AdminContext) -> Result<CreatedUser, AdminError> {
        let grant = resolve_grant(context, self.grant)?;
        let user = user::create(context.handle(), self.name, self.password, grant).await?;
        tracing::info!(user = user.name.as_str(), "the command line created a user");
        let link = match user.password {
            Some(_) => None,
            None => Some(create_link(context, Some(&user)).await?),
        };
        Ok(CreatedUser {
            uuid: user.uuid,
            link,
        })
    }
}

/// Changes a user; `None` leaves a field as it is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateUser {
    /// Name or UUID of the user.
    pub user: String,
    /// New name.
    #[serde(default, with = "field_format::optional_user_name")]
    pub name: Option<UserName>,
    /// New permissions.
    pub grant: Option<GrantRow>,
    /// True to disable the user, false to enable it.
    pub disabled: Option<bool>,
    /// New interval of summaries by mail: `weekly`, `monthly` or `off`.
    #[serde(default)]
    pub summary: Option<String>,
    /// Mail address for summaries. By default the present one, or the name of the user if that is
    /// an address.
    #[serde(default)]
    pub summary_to: Option<String>,
}

impl AdminRequest for UpdateUser {
    const METHOD: Method = Method::PATCH;
    const PATH: &'static str = "/users/{user}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let grant = self
            .grant
            .map(|grant| resolve_grant(context, grant))
            .transpose()?;
        let user = user::find(context.handle(), &self.user)?;
        let summary = parse_summary(&user, self.summary.as_deref(), self.summary_to.as_deref())
            .map_err(AdminError::invalid)?;
        let changes = UserChanges {
            name: self.name,
            grant,
            disabled: self.disabled,
            summary,
            ..UserChanges::default()
        };
        update(context, &self.user, changes, "changed a user").await
    }
}

/// Returns the new settings of summaries; `None` if neither argument is given.
fn parse_summary(
    user: &User,
    interval: Option<&str>,
    address: Option<&str>,
) -> Result<Option<Option<SummarySettings>>, String> {
    let before = user
        .summary
        .as_ref()
        .map(|subscription| &subscription.settings);
    let interval = match (interval, before) {
        (None, _) if address.is_none() => return Ok(None),
        (Some("off"), _) => return Ok(Some(None)),
        (Some(word), _) => SummaryInterval::parse(word)
            .ok_or("the interval of summaries is weekly, monthly or off")?,
        (None, Some(settings)) => settings.interval,
        (None, None) => return Err("the user gets no summaries; give --summary too".into()),
    };
    let address = match (address, before) {
        (Some(text), _) => MailAddress::parse(text)?,
        (None, Some(settings)) => settings.address.clone(),
        (None, None) => MailAddress::parse(user.name.as_str())
            .map_err(|_| "give the mail address with --summary-to")?,
    };
    Ok(Some(Some(SummarySettings {
        interval,
        address,
        projects: before.map_or_else(Default::default, |settings| settings.projects.clone()),
    })))
}

/// Changes a user, and logs that.
async fn update(
    context: &AdminContext,
    user: &str,
    changes: UserChanges,
    action: &str,
) -> Result<(), AdminError> {
    let user = user::find(context.handle(), user)?;
    user::update(context.handle(), user.id, changes, None).await?;
    log_action(&user, action);
    Ok(())
}

fn log_action(user: &User, action: &str) {
    tracing::info!(user = user.name.as_str(), "the command line {action}");
}

/// Sets the password of a user. All sessions of the user end.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPassword {
    /// Name or UUID of the user.
    pub user: String,
    /// Hash of the new password.
    #[serde(with = "field_format::password_hash")]
    pub password: PasswordHash,
}

impl AdminRequest for SetPassword {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/users/{user}/password";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let changes = UserChanges {
            password: Some(self.password),
            ..UserChanges::default()
        };
        let action = "changed the password of a user";
        update(context, &self.user, changes, action).await
    }
}

/// Removes the second factor of a user.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveSecondFactor {
    /// Name or UUID of the user.
    pub user: String,
}

impl AdminRequest for RemoveSecondFactor {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/users/{user}/second-factor";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let changes = UserChanges {
            second_factor: Some(None),
            ..UserChanges::default()
        };
        let action = "removed the second factor of a user";
        update(context, &self.user, changes, action).await
    }
}

/// Removes all passkeys of a user.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovePasskeys {
    /// Name or UUID of the user.
    pub user: String,
}

impl AdminRequest for RemovePasskeys {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/users/{user}/passkeys";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let changes = UserChanges {
            passkeys: Some(PasskeyChange::RemoveAll),
            ..UserChanges::default()
        };
        let action = "removed the passkeys of a user";
        update(context, &self.user, changes, action).await
    }
}

/// Disconnects a user from the provider at which the user signs in.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveIdentity {
    /// Name or UUID of the user.
    pub user: String,
}

impl AdminRequest for RemoveIdentity {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/users/{user}/identity";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let changes = UserChanges {
            identity: Some(None),
            ..UserChanges::default()
        };
        let action = "disconnected a user from a provider";
        update(context, &self.user, changes, action).await
    }
}

/// Deletes a user.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteUser {
    /// Name or UUID of the user.
    pub user: String,
}

impl AdminRequest for DeleteUser {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/users/{user}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let user = user::find(context.handle(), &self.user)?;
        user::delete(context.handle(), user.id).await?;
        log_action(&user, "deleted a user");
        Ok(())
    }
}

/// Ends all sessions of a user.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndSessions {
    /// Name or UUID of the user.
    pub user: String,
}

impl AdminRequest for EndSessions {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/users/{user}/sessions";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let user = user::find(context.handle(), &self.user)?;
        user::end_sessions(context.handle(), user.id, SessionSelection::All).await?;
        log_action(&user, "signed a user out");
        Ok(())
    }
}

/// Creates the link by which a user chooses a password.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateLink {
    /// Name or UUID of the user.
    pub user: String,
}

impl AdminRequest for CreateLink {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/users/{user}/link";
    type Output = LinkRow;

    async fn run(self, context: &AdminContext) -> Result<LinkRow, AdminError> {
        let user = user::find(context.handle(), &self.user)?;
        create_link(context, Some(&user)).await
    }
}

/// Creates the link by which the first owner is created.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateSetupLink {}

impl AdminRequest for CreateSetupLink {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/setup-link";
    type Output = LinkRow;

    async fn run(self, context: &AdminContext) -> Result<LinkRow, AdminError> {
        create_link(context, None).await
    }
}

/// Creates a link for a user, or for the initial setup.
pub(super) async fn create_link(
    context: &AdminContext,
    user: Option<&User>,
) -> Result<LinkRow, AdminError> {
    let handle = context.handle();
    let link: CreatedLink = user::create_link(handle, user).await?;
    tracing::info!(
        user = user.map(|user| user.name.as_str()),
        "the command line created a link: {}",
        link.kind.name()
    );
    let path = link.path();
    Ok(LinkRow {
        user: user.map(|user| user.uuid),
        url: context.page_url(&path),
        path,
        expires: format_timestamp(handle.now().plus_secs(link.lifetime_secs)),
    })
}

fn resolve_grant(context: &AdminContext, granted: GrantRow) -> Result<Grant, OperationError> {
    let GrantRow::Projects(projects) = granted else {
        return Ok(Grant::Owner);
    };
    let membership = |ProjectGrantRow { project, access }| {
        context.project(&project).map(|project| (project, access))
    };
    let memberships: Result<Vec<_>, _> = projects.into_iter().map(membership).collect();
    Ok(Grant::Projects(ProjectMemberships::new(memberships?)))
}

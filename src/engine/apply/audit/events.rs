//! Events of the audit log: the action of each command, with the kind and the name of its object.

use super::super::super::command::Command;
use super::super::super::command::import::ImportStep;
use super::super::super::command::user::{UserChanges, UserCommand};
use super::super::WorkingState;
use crate::channels::alert_text::check_display_name;
use crate::domain::audit::{AuditAction, AuditEvent, AuditObject, AuditScope};
use crate::domain::check::Check;
use crate::domain::declared::{ChangeOperation, ObjectKind, PlannedChange};
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId};
use crate::domain::project::key_display_name;
use crate::domain::user::one_time_link::LinkPurpose;

impl WorkingState {
    /// Returns the event of a command, by its fields and the objects that it names. `None` if it is
    /// not logged, or its event follows from its outcome.
    pub(super) fn event_of(&self, command: &Command) -> Option<AuditEvent> {
        use AuditAction as Action;
        match command {
            Command::PauseCheck(id, _) => self.event_of_check(*id, Action::Paused),
            Command::ResumeCheck(id) => self.event_of_check(*id, Action::Resumed),
            Command::RestoreCheck(restoration) => {
                self.event_of_check(restoration.check, Action::Restored)
            }
            Command::DeleteCheck(id) => self.event_of_check(*id, Action::Deleted),
            Command::UpdateAlertSettings { check, .. } => {
                self.event_of_check(*check, Action::Changed)
            }
            Command::RetryDelivery { delivery, .. } => {
                self.event_of_check(delivery.check, Action::Retried)
            }
            Command::CreateKey(request) => {
                let name = key_display_name(&request.label, &request.hint);
                Some(project_event(
                    request.project,
                    Action::Created,
                    AuditObject::Key,
                    name,
                ))
            }
            Command::RenameKey(id, _) => self.event_of_key(*id, Action::Changed),
            Command::RevokeKey(id) => self.event_of_key(*id, Action::Deleted),
            Command::CreateChannel(request) => {
                let name = channel_name(request.name.as_str(), request.settings.kind().title);
                let object = AuditObject::Channel;
                Some(project_event(
                    request.project,
                    Action::Created,
                    object,
                    name,
                ))
            }
            Command::UpdateChannel { channel, .. } => {
                self.event_of_channel(*channel, Action::Changed)
            }
            Command::DeleteChannel(id) => self.event_of_channel(*id, Action::Deleted),
            Command::EnableChannel(id) => self.event_of_channel(*id, Action::Enabled),
            Command::DisableChannel { channel, .. } => {
                self.event_of_channel(*channel, Action::Disabled)
            }
            Command::AssignChannel { channel, .. } => {
                self.event_of_channel(*channel, Action::Assigned)
            }
            Command::User(command) => self.event_of_user_command(command),
            _ => self.event_of_project_command(command),
        }
    }

    /// Returns the event of a command about a project, its windows and its status pages.
    fn event_of_project_command(&self, command: &Command) -> Option<AuditEvent> {
        use AuditAction as Action;
        let of_server = |action, name| AuditEvent {
            scope: AuditScope::Server,
            action,
            object: AuditObject::Project,
            name,
        };
        let pages = |project| {
            let project = &self.state.project(project)?.project;
            Some(&project.status_pages)
        };
        let (project, action, object, name) = match command {
            Command::CreateProject(request) => {
                return Some(of_server(Action::Created, request.name.as_str().into()));
            }
            Command::DeleteProject(id) => {
                return Some(of_server(Action::Deleted, self.project_name(*id)));
            }
            Command::UpdateProject { project, .. } => {
                let name = self.project_name(*project);
                (*project, Action::Changed, AuditObject::Project, name)
            }
            Command::Import(step) => match **step {
                ImportStep::EndTrial(id) => {
                    let name = self.project_name(id);
                    (id, Action::Released, AuditObject::Project, name)
                }
                _ => return None,
            },
            Command::CreateWindow(request) => {
                let name = request.name.as_str().into();
                (request.project, Action::Created, AuditObject::Window, name)
            }
            Command::DeleteWindow(project, id) => {
                let window = self.state.project(*project)?.windows.get(id)?;
                let name = window.name.as_str().into();
                (*project, Action::Deleted, AuditObject::Window, name)
            }
            Command::PutStatusPage(project, page) => {
                let is_stored = pages(*project)?.iter().any(|old| old.uuid == page.uuid);
                let action = match is_stored {
                    true => Action::Changed,
                    false => Action::Created,
                };
                let name = page.title.as_str().into();
                (*project, action, AuditObject::StatusPage, name)
            }
            Command::DeleteStatusPage(project, uuid) => {
                let page = pages(*project)?.iter().find(|page| page.uuid == *uuid)?;
                let name = page.title.as_str().into();
                (*project, Action::Deleted, AuditObject::StatusPage, name)
            }
            _ => return None,
        };
        Some(project_event(project, action, object, name))
    }

    /// Returns the event of a command about users. Display preferences are not logged.
    fn event_of_user_command(&self, command: &UserCommand) -> Option<AuditEvent> {
        let (action, name) = match command {
            UserCommand::Create(user) => (AuditAction::Created, user.name.as_str().into()),
            UserCommand::Update { user, changes, .. } => {
                (action_of_changes(changes)?, self.user_name(*user))
            }
            UserCommand::Delete(user) => (AuditAction::Deleted, self.user_name(*user)),
            UserCommand::CreateLink {
                purpose: LinkPurpose::Password(user),
                ..
            } => (AuditAction::Linked, self.user_name(*user)),
            UserCommand::CloseSessions { user, .. } => {
                (AuditAction::SignedOut, self.user_name(*user))
            }
            UserCommand::CreateLink { .. }
            | UserCommand::RedeemLink(_)
            | UserCommand::SignIn(_)
            | UserCommand::RecordSessionUse(_)
            | UserCommand::RecordSummary { .. }
            | UserCommand::RepeatSummary { .. }
            | UserCommand::RemoveExpired => return None,
        };
        Some(AuditEvent {
            scope: AuditScope::Server,
            action,
            object: AuditObject::User,
            name,
        })
    }

    /// Returns the events of an applied configuration, equal ones together.
    pub(super) fn config_events(&self, changes: &[PlannedChange]) -> Vec<AuditEvent> {
        let event = |change: &PlannedChange| {
            let action = match change.operation {
                ChangeOperation::Add => AuditAction::Created,
                ChangeOperation::Change => AuditAction::Changed,
                ChangeOperation::Delete => AuditAction::Deleted,
                ChangeOperation::Adopt | ChangeOperation::Keep => return None,
            };
            let path = &change.object;
            let project = self
                .state
                .projects()
                .find(|found| path.project.as_deref() == Some(found.project.name.as_str()));
            let object = match path.kind {
                ObjectKind::Project => AuditObject::Project,
                ObjectKind::Channel => AuditObject::Channel,
                ObjectKind::Check => AuditObject::Check,
                ObjectKind::Window => AuditObject::Window,
                ObjectKind::Key => AuditObject::Key,
                ObjectKind::User => AuditObject::User,
            };
            let scope = match (object, action, project) {
                (AuditObject::Project, AuditAction::Created, _) | (.., None) => AuditScope::Server,
                (.., Some(found)) => AuditScope::Project(found.project.id),
            };
            let name = path.name.clone();
            Some(AuditEvent {
                scope,
                action,
                object,
                name,
            })
        };
        let mut events: Vec<_> = changes.iter().filter_map(event).collect();
        events.sort_by_key(|event| (event.scope, event.object.number(), event.action.number()));
        events
    }

    fn event_of_check(&self, id: CheckId, action: AuditAction) -> Option<AuditEvent> {
        self.state.check(id).map(|check| check_event(check, action))
    }

    fn event_of_channel(&self, id: ChannelId, action: AuditAction) -> Option<AuditEvent> {
        let channel = self.state.channel(id)?;
        let name = channel_name(channel.name.as_str(), channel.settings.kind().title);
        Some(project_event(
            channel.project,
            action,
            AuditObject::Channel,
            name,
        ))
    }

    fn event_of_key(&self, id: KeyId, action: AuditAction) -> Option<AuditEvent> {
        let key = self.state.key(id)?;
        let name = key.display_name();
        Some(project_event(key.project, action, AuditObject::Key, name))
    }

    /// Name of a project. Empty if it does not exist.
    pub(super) fn project_name(&self, id: ProjectId) -> Box<str> {
        let found = self.state.project(id);
        found.map_or_else(Box::default, |found| found.project.name.as_str().into())
    }

    /// Name of a user. Empty if it does not exist.
    pub(super) fn user_name(&self, id: UserId) -> Box<str> {
        let user = self.state.users.get(id);
        user.map_or_else(Box::default, |user| user.name.as_str().into())
    }
}

/// Returns the action of a change of a user. `None` if only display preferences change.
fn action_of_changes(changes: &UserChanges) -> Option<AuditAction> {
    let UserChanges {
        name,
        password,
        second_factor,
        passkeys,
        identity,
        grant,
        preferences: _,
        summary: _,
        disabled,
    } = changes;
    let is_account_changed = name.is_some()
        || second_factor.is_some()
        || passkeys.is_some()
        || identity.is_some()
        || grant.is_some()
        || disabled.is_some();
    match (is_account_changed, password) {
        (true, _) => Some(AuditAction::Changed),
        (false, Some(_)) => Some(AuditAction::PasswordSet),
        (false, None) => None,
    }
}

fn project_event(
    project: ProjectId,
    action: AuditAction,
    object: AuditObject,
    name: Box<str>,
) -> AuditEvent {
    AuditEvent {
        scope: AuditScope::Project(project),
        action,
        object,
        name,
    }
}

/// Returns the event of an action on a check.
pub(super) fn check_event(check: &Check, action: AuditAction) -> AuditEvent {
    let name = check_display_name(&check.settings).into();
    project_event(check.project, action, AuditObject::Check, name)
}

/// Name of a channel, or the title of its kind.
fn channel_name(name: &str, kind: &str) -> Box<str> {
    if name.is_empty() { kind } else { name }.into()
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::working_state;
    use super::*;
    use crate::domain::user::{Grant, PasswordHash, UserName, UserPreferences};
    use crate::engine::command::user::NewUser;

    #[test]
    fn changes_of_accounts_are_logged_and_preferences_are_not() {
        let account_changes = [
            UserChanges {
                name: UserName::parse("Ann").ok(),
                ..UserChanges::default()
            },
            UserChanges {
                second_factor: Some(None),
                ..UserChanges::default()
            },
            UserChanges {
                identity: Some(None),
                ..UserChanges::default()
            },
            UserChanges {
                grant: Some(Grant::Owner),
                ..UserChanges::default()
            },
            UserChanges {
                disabled: Some(true),
                ..UserChanges::default()
            },
        ];
        for changes in account_changes {
            assert_eq!(action_of_changes(&changes), Some(AuditAction::Changed));
        }
        let password = UserChanges {
            password: Some(PasswordHash::new("x")),
            ..UserChanges::default()
        };
        assert_eq!(action_of_changes(&password), Some(AuditAction::PasswordSet));
        let preferences = UserChanges {
            preferences: Some(UserPreferences::default()),
            ..UserChanges::default()
        };
        assert_eq!(action_of_changes(&preferences), None);
    }

    #[test]
    fn a_created_user_is_logged_with_the_name() {
        let new = NewUser {
            uuid: uuid::Uuid::from_u128(1),
            name: UserName::parse("Ann").unwrap(),
            password: None,
            grant: Grant::Owner,
        };
        let command = Command::User(Box::new(UserCommand::Create(new)));
        let event = working_state().event_of(&command).unwrap();
        assert_eq!(event.action, AuditAction::Created);
        assert_eq!(event.object, AuditObject::User);
        assert_eq!(&*event.name, "Ann");
    }
}

//! Writes the audit log: an entry for each command of an actor, together with its changes.

mod events;

use std::sync::Arc;

use super::super::command::user::UserCommand;
use super::super::command::{Command, CommandOutcome};
use super::super::state::Change;
use super::{ApplyResult, WorkingState};
use crate::domain::audit::{
    Actor, ActorKind, AuditAction, AuditEntry, AuditEvent, AuditObject, AuditScope,
};
use crate::domain::check::CheckSettings;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::one_time_link::LinkPurpose;
use events::check_event;

/// Audit of a command that is being applied.
struct PendingAudit {
    actor: Actor,
    /// Event, as far as it follows from the command and the state before it.
    event: Option<AuditEvent>,
    /// Settings before the command of the check that it updates.
    settings_before: Option<Arc<CheckSettings>>,
}

impl WorkingState {
    /// Applies a command, and logs it if it has an author and was not refused.
    pub(super) fn apply_audited(&mut self, command: Command, now: Timestamp) -> ApplyResult {
        let pending = self.prepare_audit(&command, now);
        let changes_before = self.effects.changes.len();
        let imported_before = self.effects.imported_projects.len();
        let result = self.dispatch(command, now);
        if let (Some(pending), Ok(outcome)) = (pending, &result)
            && self.effects.changes.len() > changes_before
        {
            for event in self.audited_events(&pending, outcome, imported_before) {
                self.record_audit_event(&pending.actor, event, now);
            }
        }
        result
    }

    fn prepare_audit(&mut self, command: &Command, now: Timestamp) -> Option<PendingAudit> {
        // The browser may already have a session of another user.
        if let Command::User(command) = command.unattributed()
            && let Some(pending) = self.prepare_sign_in_audit(command, now)
        {
            return Some(pending);
        }
        match command {
            Command::Attributed(actor, command) => Some(PendingAudit {
                actor: Actor::clone(actor),
                event: self.event_of(command),
                settings_before: self.settings_before(command),
            }),
            _ => None,
        }
    }

    /// Prepares the audit of a sign-in, whose author is the user.
    fn prepare_sign_in_audit(&self, command: &UserCommand, now: Timestamp) -> Option<PendingAudit> {
        let (session, name, action) = match command {
            UserCommand::SignIn(sign_in) => (
                &sign_in.session,
                self.user_name(sign_in.user),
                AuditAction::SignedIn,
            ),
            UserCommand::RedeemLink(redemption) => {
                let link = self.state.users.link(&redemption.hash, now);
                match (&redemption.first_user, link.map(|link| link.purpose)) {
                    (Some(first_user), _) => (
                        &redemption.session,
                        first_user.name.as_str().into(),
                        AuditAction::Created,
                    ),
                    (None, Some(LinkPurpose::Password(user))) => (
                        &redemption.session,
                        self.user_name(user),
                        AuditAction::PasswordSet,
                    ),
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(PendingAudit {
            actor: Actor {
                kind: ActorKind::User,
                name: name.clone(),
                address: Some(session.address),
            },
            event: Some(AuditEvent {
                scope: AuditScope::Server,
                action,
                object: AuditObject::User,
                name,
            }),
            settings_before: None,
        })
    }

    /// Returns the settings of the check that a command updates, if it exists.
    fn settings_before(&mut self, command: &Command) -> Option<Arc<CheckSettings>> {
        let id = match command {
            Command::UpdateCheck(id, _) => *id,
            Command::CreateCheck(request) if !request.unique.is_empty() => {
                let mut unique = request.unique.clone();
                unique.sort_unstable();
                unique.dedup();
                self.state
                    .check_by_unique(request.project, &request.edit, &unique)?
            }
            _ => return None,
        };
        self.state
            .check(id)
            .map(|check| Arc::clone(&check.settings))
    }

    /// Returns the events of a command that was applied.
    fn audited_events(
        &self,
        pending: &PendingAudit,
        outcome: &CommandOutcome,
        imported_before: usize,
    ) -> Vec<AuditEvent> {
        match outcome {
            CommandOutcome::ConfigApplied(applied) => self.config_events(&applied.changes),
            // Clients that apply their configuration again and again change nothing.
            CommandOutcome::Check(check)
                if pending
                    .settings_before
                    .as_ref()
                    .is_some_and(|before| *before == check.settings) =>
            {
                Vec::new()
            }
            CommandOutcome::Check(check) if pending.settings_before.is_some() => {
                vec![check_event(check, AuditAction::Changed)]
            }
            CommandOutcome::CheckCreated(check) => vec![check_event(check, AuditAction::Created)],
            CommandOutcome::Import(_) => {
                let imported = self.effects.imported_projects.iter().skip(imported_before);
                imported
                    .map(|id| AuditEvent {
                        scope: AuditScope::Server,
                        action: AuditAction::Imported,
                        object: AuditObject::Project,
                        name: self.project_name(*id),
                    })
                    .collect()
            }
            _ => pending.event.iter().cloned().collect(),
        }
    }

    /// Adds an event to its log: to the newest entry if that is about equal actions, or as a new
    /// entry.
    fn record_audit_event(&mut self, actor: &Actor, event: AuditEvent, now: Timestamp) {
        let (number, newest) = self.state.newest_audit_entry(event.scope);
        let merged = newest.and_then(|newest| newest.merged(actor, &event, now));
        let is_merged = merged.is_some();
        let entry =
            merged.unwrap_or_else(|| AuditEntry::new(number + 1, actor.clone(), event, now));
        // A command with thousands of events writes each entry once.
        if is_merged
            && let Some(Change::Audit(last)) = self.effects.changes.last()
            && last.scope == entry.scope
            && last.number == entry.number
        {
            self.effects.changes.pop();
        }
        self.record_change(Change::Audit(Arc::new(entry)));
    }
}

//! Applies pings: finds the check, classifies the ping, and logs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::command::import::ImportStep;
use super::super::command::{
    CheckCreation, Command, CommandError, CommandOutcome, PingRequest, PingSignal, PingTarget,
};
use super::super::state::Change;
use super::{ApplyResult, WorkingState};
use crate::domain::alert::NotificationState;
use crate::domain::check::{CheckSettings, CheckState};
use crate::domain::check_edit::ChannelSelection;
use crate::domain::flip::Flip;
use crate::domain::ids::{Arrival, CheckId};
use crate::domain::ping::{Ping, PingMeaning, PingMethod};
use crate::domain::status::Status;
use crate::domain::text::Name;
use crate::domain::timestamp::Timestamp;

/// Maximum number of checks that pings create in a project without a check limit, since a ping key
/// is easily copied. See [limits](crate::docs::limits).
const MAX_CHECKS_BY_PINGS: usize = 10_000;
/// Number of bytes at the beginning of an HTTP body that are searched for keywords: see
/// [limits](crate::docs::limits).
pub const KEYWORD_SEARCH_BYTES: usize = 10_000;

impl WorkingState {
    /// Body to write before a command: that of a ping, a mail or an imported ping, if it adds more
    /// than `upload_threshold_bytes` to the log.
    pub fn body_to_upload(&self, command: &Command) -> Option<Bytes> {
        match command {
            Command::Ping(request) => self.ping_body_to_upload(std::slice::from_ref(request)),
            Command::Mail(pings) => self.ping_body_to_upload(pings),
            Command::Import(command) => match &**command {
                ImportStep::Log { pings, .. } => self.imported_body_to_upload(pings),
                _ => None,
            },
            _ => None,
        }
    }

    fn ping_body_to_upload(&self, pings: &[PingRequest]) -> Option<Bytes> {
        let stored = self.stored_body(pings.first()?);
        (stored.len().saturating_mul(pings.len()) > self.upload_threshold_bytes).then_some(stored)
    }

    /// Part of a body that is stored.
    fn stored_body(&self, request: &PingRequest) -> Bytes {
        let limit = match request.signal {
            PingSignal::Http(_) | PingSignal::Exit(_) => self.ping_body_limit,
            PingSignal::Email { .. } => usize::MAX,
        };
        request.body.slice(..request.body.len().min(limit))
    }

    pub(super) fn apply_ping(&mut self, request: PingRequest, now: Timestamp) -> ApplyResult {
        let sharers = self
            .ping_body_to_upload(std::slice::from_ref(&request))
            .map_or(0, |_| 1);
        self.log_ping(request, sharers, now)
    }

    pub(super) fn apply_mail(&mut self, pings: Vec<PingRequest>, now: Timestamp) -> CommandOutcome {
        let is_uploaded = self.ping_body_to_upload(&pings).is_some();
        let mut pings_by_check = BTreeMap::new();
        for ping in pings {
            if let Ok(Some(check)) = self.state.find_ping_target(&ping.target) {
                pings_by_check.entry(check).or_insert(ping);
            }
        }
        let sharers = if is_uploaded {
            pings_by_check.len() as u32
        } else {
            0
        };
        for (_, ping) in pings_by_check {
            // The check was just found, so the ping is not refused.
            let _ = self.log_ping(ping, sharers, now);
        }
        CommandOutcome::Completed
    }

    /// Logs a ping. `body_sharers` is the number of pings that share a body already written, or 0
    /// if the body is written with the ping.
    fn log_ping(&mut self, request: PingRequest, body_sharers: u32, now: Timestamp) -> ApplyResult {
        let stored = self.stored_body(&request);
        let PingRequest {
            target,
            signal,
            origin,
            rid,
            body,
        } = request;
        let key = match &target {
            PingTarget::Slug { key, .. } => self.state.key_by_ping_key(key).map(|key| key.id),
            PingTarget::Uuid(_) => None,
        };
        let (id, created) = self.find_or_create_target(target, now)?;
        self.evaluate_if_due(id, now);
        let check = self.state.check(id).ok_or(CommandError::NotFound)?;
        let settings = Arc::clone(&check.settings);
        let mut state = check.state;
        let meaning = if state.status == Status::Paused && settings.manual_resume {
            PingMeaning::Ignored
        } else {
            classify_signal(&settings, &signal, origin.method, &body)
        };
        let exit_status = if let PingSignal::Exit(status) = signal {
            Some(status)
        } else {
            None
        };
        let mut flips = Vec::new();
        let due_at = |state: &CheckState| {
            let times = [
                state.deadline(&settings),
                state.next_warning(&settings, now),
            ];
            times.into_iter().flatten().min()
        };
        let due_before = due_at(&state);
        state.apply_ping(&settings, meaning, rid, now, &mut flips);
        let arrival = Arrival(self.numbers.arrival);
        self.numbers.arrival += 1;
        // Bodies are far smaller than 4 GiB: the receiving code limits them.
        let body_len = stored.len() as u32;
        let n = state.n_pings;
        let previous = state.last_arrival;
        let kind = meaning.kind();
        let ping = Ping {
            check: id,
            n,
            previous,
            at: now,
            kind,
            origin,
            rid,
            exit_status,
            body_len,
            body_sharers,
        };
        self.numbers.body_bytes += ping.excess_body_bytes();
        state.last_arrival = arrival;
        if let (Some(key), Some(from)) = (key, ping.origin.remote_addr) {
            self.record_key_use(key, now, from);
        }
        self.effects.pings.push((arrival, ping, stored));
        let is_due_earlier =
            due_at(&state).is_some_and(|new| due_before.is_none_or(|old| new < old));
        self.apply_ping_effects(id, state, is_due_earlier, arrival, &flips, now);
        if meaning == PingMeaning::Success
            && let Some(warning) = state.short_run_warning(&settings, now)
        {
            self.give_short_run_warning(id, warning, now);
        }
        Ok(if created {
            CommandOutcome::PingedNewCheck
        } else {
            CommandOutcome::Pinged
        })
    }

    /// Applies the state of a check after a ping. The notification state is stored only in the row
    /// of the check, so a change of it writes the row.
    fn apply_ping_effects(
        &mut self,
        id: CheckId,
        state: CheckState,
        is_due_earlier: bool,
        arrival: Arrival,
        flips: &[Flip],
        now: Timestamp,
    ) {
        let is_held = matches!(state.notification, NotificationState::Pending { .. });
        let check = if flips.is_empty() && !is_held {
            None
        } else {
            self.state.check(id).cloned()
        };
        let Some(mut check) = check else {
            return self.record_change(Change::CheckState {
                id,
                state,
                is_due_earlier,
            });
        };
        check.state = state;
        self.record_flips(&mut check, arrival, flips, now);
        self.reconsider_held_alert(&mut check, false, now);
        let is_notification_changed = check.state.notification != state.notification;
        let project = check.project;
        self.record_change(if is_notification_changed {
            Change::Check(Box::new(check))
        } else {
            Change::CheckState {
                id,
                state: check.state,
                is_due_earlier,
            }
        });
        self.release_children(project, id, now);
    }

    /// Finds or creates the check for a ping. The flag is true if it was created.
    fn find_or_create_target(
        &mut self,
        target: PingTarget,
        now: Timestamp,
    ) -> Result<(CheckId, bool), CommandError> {
        if let Some(id) = self.state.find_ping_target(&target)? {
            return Ok((id, false));
        }
        let PingTarget::Slug {
            key,
            slug,
            create: Some(CheckCreation { uuids, edit }),
        } = target
        else {
            return Err(CommandError::NotFound);
        };
        if !slug.is_within_limit() {
            return Err(CommandError::NotFound);
        }
        let project = self
            .state
            .project_by_ping_key(&key)
            .ok_or(CommandError::NotFound)?;
        // Pings may create twice as many checks as the API.
        let max_checks = |limit: Option<usize>| {
            Some(limit.map_or(MAX_CHECKS_BY_PINGS, |limit| limit.saturating_mul(2)))
        };
        if self.ensure_check_limit(project, max_checks).is_err() {
            // The response does not reveal the reason.
            if self.projects_at_check_limit.insert(project) {
                self.effects.projects_at_check_limit.push(project);
            }
            return Err(CommandError::NotFound);
        }
        let settings = CheckSettings {
            name: Name::from_stored(slug.as_str()),
            slug,
            channels: self.resolve_channel_selection(project, &ChannelSelection::All)?,
            ..CheckSettings::default()
        };
        let is_allowed = self
            .state
            .project(project)
            .is_some_and(|found| found.project.allows_ping_settings);
        let settings = match edit.filter(|_| is_allowed) {
            Some(mut edit) => {
                let channels = self.resolve_edited_channels(project, &mut edit)?;
                edit.apply_to(&settings, channels)
            }
            None => settings,
        };
        self.projects_at_check_limit.remove(&project);
        Ok((self.insert_check(project, uuids, settings, now).id, true))
    }
}

/// Classifies a ping by the settings of its check.
fn classify_signal(
    settings: &CheckSettings,
    signal: &PingSignal,
    method: PingMethod,
    body: &Bytes,
) -> PingMeaning {
    let meaning = match signal {
        PingSignal::Http(kind) => PingMeaning::from(*kind),
        PingSignal::Exit(status) => PingMeaning::from_exit_status(*status),
        PingSignal::Email {
            subject,
            text,
            precomputed,
        } => {
            let meaning = precomputed
                .as_ref()
                .filter(|precomputed| precomputed.settings.classifies_same_as(settings))
                .map(|precomputed| precomputed.meaning);
            return meaning.unwrap_or_else(|| settings.classify_mail(subject, text));
        }
    };
    if settings.post_only && method != PingMethod::Post {
        return PingMeaning::Ignored;
    }
    if settings.filters.http_body {
        // Bytes that are not UTF-8 are replaced, not refused.
        return settings.classify(&String::from_utf8_lossy(
            body.get(..KEYWORD_SEARCH_BYTES).unwrap_or(body),
        ));
    }
    meaning
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::super::command::{CheckCreation, CheckUuids, Command, NewKey};
    use super::super::fixture;
    use super::*;
    use crate::domain::ping::{PingKind, PingOrigin, PingScheme};
    use crate::domain::project::{KeyLabel, KeySecret, PingKey};
    use crate::domain::text::Slug;

    #[test]
    fn a_full_project_is_reported_once_until_a_ping_creates_a_check() {
        let mut working = fixture::working_state();
        let now = fixture::NOW;
        let project = fixture::MAIN_PROJECT;
        let key = PingKey::parse("aZ09-_aZ09-_aZ09-_aZ09").unwrap();
        let new = NewKey {
            project,
            secret: KeySecret::Ping(key.clone()),
            label: KeyLabel::default(),
            hint: "aZ09".into(),
        };
        working
            .apply(Command::CreateKey(Box::new(new)), now)
            .unwrap();
        let mut ping_new_slug = |number: u128, limit: u32| {
            let set = Command::UpdateProject {
                project,
                name: None,
                check_limit: Some(Some(limit)),
                ping_log_limit: None,
                allows_ping_settings: None,
            };
            working.apply(set, now).unwrap();
            let uuids = CheckUuids {
                uuid: Uuid::from_u128(number),
                badge: Uuid::from_u128(number),
            };
            let target = PingTarget::Slug {
                key: key.clone(),
                slug: Slug::parse(&format!("s{number}")).unwrap(),
                create: Some(CheckCreation { uuids, edit: None }),
            };
            let origin = PingOrigin {
                scheme: PingScheme::Http,
                method: PingMethod::Get,
                remote_addr: None,
                user_agent: "".into(),
            };
            let ping = PingRequest {
                target,
                signal: PingSignal::Http(PingKind::Success),
                origin,
                rid: None,
                body: Bytes::new(),
            };
            let is_created = working.apply(Command::Ping(Box::new(ping)), now).is_ok();
            (
                is_created,
                std::mem::take(&mut working.effects.projects_at_check_limit),
            )
        };
        // Pings may create twice as many as the limit allows.
        let results = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 1)]
            .map(|(number, limit)| ping_new_slug(number, limit));
        let expected = [
            (true, 0),
            (true, 0),
            (false, 1),
            (false, 0),
            (true, 0),
            (false, 1),
        ];
        assert_eq!(
            results,
            expected.map(|(is_created, times)| (is_created, vec![project; times]))
        );
    }
}

//! Content of messages, gathered when they are sent, so that no outdated facts are sent.

use std::collections::HashMap;
use std::sync::Arc;

use super::scheduler::{Message, MessageItem};
use super::sender::MessageSender;
use crate::channels::alert::{
    self, AlertFacts, CheckEvent, CheckFacts, CheckSummary, CloseReason, EventContext, MailText,
    PingFacts, WarningOutlook,
};
use crate::channels::alert_text;
use crate::domain::alert::{AlertEvent, Outage, OutboxRow};
use crate::domain::check::{Check, Warning, WarningKind};
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::ids::{Arrival, CheckId, FlipNumber, ProjectId};
use crate::domain::ping::{Ping, PingKind, PingScheme};
use crate::domain::project::{Channel, KeySecret, PingKey};
use crate::domain::recent_outcomes::RunOutcome;
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use crate::engine::state::State;
use crate::mail::SearchableMail;
use crate::store::BodyPart;

/// Maximum number of pings that are read to find the last success and the start of a run.
const MAX_PINGS_READ: u64 = 30;
/// Maximum number of bytes from the end of a body that may appear in a message. Mails up to this
/// length are read whole.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Maximum number of other checks that are named.
const MAX_NAMED_CHECKS: usize = 10;
/// Number of checks that are read while the state is locked.
const CHECKS_PER_LOCK: usize = 64;
/// Maximum number of checks of a digest that are looked up individually. The rest is counted.
const MAX_LOOKUPS: usize = 100;

impl MessageSender {
    /// Content of a message.
    pub(super) fn gather_facts(&self, message: &Message) -> AlertFacts {
        match message.items.as_slice() {
            [item] if item.row.event == AlertEvent::StillDown => {
                AlertFacts::StillDown(self.still_down(&message.channel))
            }
            [item] => self.single_facts(&message.channel, item),
            items => self.digest_facts(items),
        }
    }

    /// Checks that are still down after an alert to this channel.
    fn still_down(&self, channel: &Channel) -> Vec<CheckSummary> {
        let down = self.notified_down_checks(channel);
        let summary = |(index, check): (usize, &Check)| {
            let flip = if index < MAX_LOOKUPS {
                self.read_flip(check.state.last_flip)
            } else {
                None
            };
            CheckSummary {
                name: alert_text::check_display_name(&check.settings),
                project: self.project_name(check.project),
                project_uuid: self.project_uuid(check.project),
                since: check.state.changed,
                cause: flip.map_or(FlipCause::Unknown, |flip| flip.cause),
                last_success: self.last_success(check, index < MAX_LOOKUPS),
            }
        };
        down.iter().enumerate().map(summary).collect()
    }

    /// Checks that are down and about which this channel was notified, directly or as a member of a
    /// group.
    pub(super) fn notified_down_checks(&self, channel: &Channel) -> Vec<Check> {
        let mut down = Vec::new();
        self.for_each_notified(channel, |check| down.push(check.clone()));
        down
    }

    /// Ids of these checks.
    pub(super) fn notified_down_ids(&self, channel: &Channel) -> Vec<CheckId> {
        let mut down = Vec::new();
        self.for_each_notified(channel, |check| down.push(check.id));
        down
    }

    fn for_each_notified(&self, channel: &Channel, mut visit: impl FnMut(&Check)) {
        let membership = self
            .handle
            .with_state(|state| state.audience_membership(channel));
        self.for_each_notified_in(channel.project, |check| {
            if membership.includes(check) {
                visit(check);
            }
        });
    }

    /// Calls `visit` for the checks of a project that are down and whose alert was delivered,
    /// oldest first. A project on trial sends no reminders.
    pub(super) fn for_each_notified_in(&self, project: ProjectId, mut visit: impl FnMut(&Check)) {
        let notified_checks = |state: &State| {
            state
                .project(project)
                .filter(|project_state| !project_state.project.is_on_trial())
                .map(|project_state| {
                    project_state
                        .notified_downtimes()
                        .iter()
                        .copied()
                        .collect::<Vec<_>>()
                })
        };
        let notified_checks = self.handle.with_state(notified_checks).unwrap_or_default();
        // The lock is held for a few at a time.
        for chunk in notified_checks.chunks(CHECKS_PER_LOCK) {
            self.handle.with_state(|state| {
                chunk
                    .iter()
                    .filter_map(|id| state.check(*id))
                    .filter(|check| check.state.notification.is_notified())
                    .for_each(&mut visit);
            });
        }
    }

    fn single_facts(&self, channel: &Channel, item: &MessageItem) -> AlertFacts {
        let MessageItem {
            row,
            unnotified_down,
            skipped,
            skipped_since: since,
            up_since,
            delay,
        } = item;
        // Unreadable facts are omitted.
        let logged = self.handle.flip(row.flip).ok().flatten();
        let flip = logged.map_or_else(|| unknown_flip(row), |logged| logged.flip);
        let check = self
            .handle
            .with_state(|state| state.check(row.check).cloned());
        let context = EventContext {
            delay: *delay,
            up_since: *up_since,
            unreported_changes: (*skipped > 0)
                .then(|| (u16::try_from(*skipped).unwrap_or(u16::MAX), *since)),
            outage: if row.during_outage {
                self.own_outage(check.as_ref(), row, Some(flip))
            } else {
                None
            },
            window: check
                .as_ref()
                .and_then(|check| self.window_name(check, row)),
        };
        let event = match row.event {
            AlertEvent::Up => {
                let down = self.down_flip(row, unnotified_down.as_deref());
                CheckEvent::Up {
                    flip,
                    down,
                    was_notified: unnotified_down.is_none(),
                    context,
                }
            }
            AlertEvent::Closed => {
                let reason = match flip.to {
                    _ if row.deleted_check.is_some() => CloseReason::Deleted,
                    Status::Down => CloseReason::Unassigned,
                    _ => CloseReason::Paused,
                };
                CheckEvent::Closed { at: row.at, reason }
            }
            AlertEvent::Warning(kind) => warning_event(kind, row, check.as_ref(), *skipped),
            _ => CheckEvent::Down { flip, context },
        };
        let facts = match (&check, &row.deleted_check) {
            (Some(check), _) if row.event.is_warning() => {
                self.check_facts(channel, check, row.at, None)
            }
            (Some(check), _) => {
                self.check_facts(channel, check, flip.at, logged.map(|logged| logged.arrival))
            }
            (None, Some(deleted)) => CheckFacts::for_deleted_check(
                deleted.labels.clone(),
                deleted.unique_key,
                &self.project_name(channel.project),
            ),
            (None, None) => CheckFacts::new(&self.project_name(channel.project)),
        };
        let facts = CheckFacts {
            alerted_labels: row.alerted_labels.clone(),
            ..facts
        };
        AlertFacts::Check(Box::new(facts), event)
    }

    /// Flip at which the downtime began that has now ended.
    fn down_flip(&self, up: &OutboxRow, unnotified_down: Option<&OutboxRow>) -> Flip {
        let number = match unnotified_down {
            Some(down) => Some(down.flip),
            None => self
                .handle
                .flip(up.flip)
                .ok()
                .flatten()
                .map(|logged| logged.previous),
        };
        number
            .and_then(|number| self.read_flip(number))
            .unwrap_or_else(|| unknown_flip(unnotified_down.unwrap_or(up)))
    }

    fn read_flip(&self, number: FlipNumber) -> Option<Flip> {
        // Unreadable facts are omitted.
        self.handle
            .flip(number)
            .ok()
            .flatten()
            .map(|logged| logged.flip)
    }

    /// Outage of this server in which the ping of this check may have been lost. It is either
    /// recorded here or preceded the import of the project.
    fn own_outage(
        &self,
        check: Option<&Check>,
        row: &OutboxRow,
        flip: Option<Flip>,
    ) -> Option<(Timestamp, Timestamp)> {
        let check = check?;
        let expected = flip
            .and_then(|flip| flip.awaited_since)
            .unwrap_or(row.at.plus_secs(-check.settings.grace.get()));
        self.handle.with_state(|state| {
            let import_outage = state
                .project(check.project)
                .and_then(|project_state| project_state.project.import.as_ref()?.outage);
            let outages = import_outage
                .iter()
                .chain(state.outages.iter().rev())
                .copied();
            Outage::find_responsible(outages, expected, row.at)
                .map(|outage| (outage.from, outage.to))
        })
    }

    /// Maintenance window in which a check went down, if it still exists.
    fn window_name(&self, check: &Check, row: &OutboxRow) -> Option<String> {
        self.handle.with_state(|state| {
            let mut windows = state.project(check.project)?.windows.values();
            let window_at = windows.find(|window| {
                window.applies_to(&check.settings.tags)
                    && window.open_until(row.at).is_some_and(|to| to <= row.queued)
            });
            window_at
                .filter(|_| row.event == AlertEvent::Down)
                .map(|window| window.name.as_str().to_owned())
        })
    }

    fn project_uuid(&self, project: ProjectId) -> Option<uuid::Uuid> {
        self.handle.with_state(|state| {
            state
                .project(project)
                .map(|project_state| project_state.project.uuid)
        })
    }

    fn project_name(&self, project: ProjectId) -> String {
        self.handle.with_state(|state| {
            state
                .project(project)
                .map_or_else(String::new, |project_state| {
                    project_state.project.name.as_str().into()
                })
        })
    }

    /// Facts about a check as of its flip at `at`. `arrival`: position in the log of the ping that
    /// caused it, if it is still logged.
    fn check_facts(
        &self,
        channel: &Channel,
        check: &Check,
        at: Timestamp,
        arrival: Option<Arrival>,
    ) -> CheckFacts {
        let cause = arrival.filter(|arrival| *arrival != Arrival(0));
        let pings =
            match cause.map(|arrival| self.handle.pings_up_to(check, arrival, MAX_PINGS_READ)) {
                Some(Ok(pings)) if !pings.is_empty() => pings,
                _ => self
                    .handle
                    .newest_pings(check, MAX_PINGS_READ)
                    .unwrap_or_default(),
            };
        let before = || pings.iter().filter(|ping| ping.at <= at);
        let (other_count, other_names) = self.others_down(check);
        CheckFacts {
            uuid: check.uuid,
            unique_key: crate::domain::ids::UniqueKey::of_check(check.uuid),
            project: self.project_name(check.project),
            settings: Arc::clone(&check.settings),
            n_pings: check.state.n_pings,
            failures: check.state.failures,
            last_ping: before()
                .next()
                .map(|ping| self.ping_facts(check, ping, &pings)),
            last_success: before()
                .find(|ping| ping.kind == PingKind::Success)
                .map(|ping| ping.at),
            other_down_names: other_names,
            other_down_count: other_count,
            ping_keys: self.ping_keys(check.project),
            json: alert::uses_check_json(&channel.settings).then(|| (self.render_check)(check)),
            alerted_labels: None,
        }
    }

    fn ping_facts(&self, check: &Check, ping: &Ping, pings: &[Ping]) -> PingFacts {
        let started = pings.iter().find(|other| {
            other.n < ping.n && other.kind == PingKind::Start && other.rid == ping.rid
        });
        let is_end = matches!(ping.kind, PingKind::Success | PingKind::Fail);
        let part = |part| {
            self.handle
                .part_of_body(check, ping.n, part)
                .ok()
                .flatten()
                .unwrap_or_default()
        };
        let is_long = ping.body_len as usize > MAX_BODY_BYTES;
        let body = match is_long {
            true => part(BodyPart::Last(MAX_BODY_BYTES)),
            false => self
                .handle
                .body(check, ping.n)
                .ok()
                .flatten()
                .unwrap_or_default(),
        };
        // The header fields with the encoding are at its beginning.
        let mail = (ping.origin.scheme == PingScheme::Email).then(|| match is_long {
            true => SearchableMail::parse(&part(BodyPart::First(MAX_BODY_BYTES))),
            false => SearchableMail::parse(&body),
        });
        PingFacts {
            at: ping.at,
            kind: ping.kind,
            scheme: ping.origin.scheme,
            exit_status: ping.exit_status,
            from: ping.origin.remote_addr,
            run_duration: started
                .filter(|_| is_end)
                .map(|start| ping.at.micros_since(start.at))
                .filter(|micros| *micros >= 0),
            body,
            mail: mail.map(|SearchableMail { subject, text }| MailText { subject, text }),
        }
    }

    fn ping_keys(&self, project: ProjectId) -> Vec<PingKey> {
        self.handle.with_state(|state| {
            let keys = state.keys().filter(|key| key.project == project);
            keys.filter_map(|key| {
                if let KeySecret::Ping(key) = &key.secret {
                    Some(key.clone())
                } else {
                    None
                }
            })
            .collect()
        })
    }

    /// Number of other checks of the project that are down, and the names of some.
    fn others_down(&self, check: &Check) -> (usize, Vec<String>) {
        let now = self.handle.clock().uptime();
        let mut cache = self.down_checks.borrow_mut();
        let down = cache.get(check.project, now, || {
            let mut down = Vec::new();
            self.handle.for_each_check(check.project, |check| {
                if check.state.status == Status::Down {
                    down.push((check.id, check.settings));
                }
            });
            down.into()
        });
        let others = || down.iter().filter(|(id, _)| *id != check.id);
        (
            others().count(),
            others()
                .take(MAX_NAMED_CHECKS)
                .map(|(_, settings)| alert_text::check_display_name(settings))
                .collect(),
        )
    }

    /// Time of the last success of a check: from the state, or from its last pings if `look_up`.
    fn last_success(&self, check: &Check, look_up: bool) -> Option<Timestamp> {
        match check
            .state
            .outcomes
            .newest_first()
            .find(|outcome| *outcome != RunOutcome::Missed)
        {
            Some(RunOutcome::Success) => check.state.last_ping,
            _ if look_up => {
                let pings = self
                    .handle
                    .newest_pings(check, MAX_PINGS_READ)
                    .unwrap_or_default();
                pings
                    .iter()
                    .find(|ping| ping.kind == PingKind::Success)
                    .map(|ping| ping.at)
            }
            _ => None,
        }
    }

    fn digest_facts(&self, items: &[MessageItem]) -> AlertFacts {
        let mut down = Vec::new();
        let mut up = Vec::new();
        let mut warned = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let summary = self.check_summary(item, index < MAX_LOOKUPS);
            match item.row.event {
                AlertEvent::Up => up.push(summary),
                AlertEvent::Warning(kind) => warned.push((summary, kind, item.row.at)),
                _ => down.push(summary),
            }
        }
        let is_outage = up.is_empty() && items.iter().all(|item| item.row.during_outage);
        let first = items.first().filter(|_| is_outage).map(|item| &item.row);
        let check_of = |row: &OutboxRow| {
            self.handle
                .with_state(|state| state.check(row.check).cloned())
        };
        match first
            .and_then(|row| self.own_outage(check_of(row).as_ref(), row, self.read_flip(row.flip)))
        {
            Some((from, until)) => AlertFacts::ServerOutage {
                from,
                until,
                checks: down,
            },
            None => AlertFacts::Digest { down, up, warned },
        }
    }

    fn check_summary(&self, item: &MessageItem, look_up: bool) -> CheckSummary {
        let row = &item.row;
        let flip = if look_up {
            self.read_flip(row.flip)
        } else {
            None
        }
        .unwrap_or_else(|| unknown_flip(row));
        let check = self
            .handle
            .with_state(|state| state.check(row.check).cloned());
        let name = match (&check, &row.deleted_check) {
            (Some(check), _) => alert_text::check_display_name(&check.settings),
            (None, Some(deleted)) => {
                alert_text::check_display_name(&deleted.labels.clone().into_settings())
            }
            (None, None) => String::new(),
        };
        CheckSummary {
            name,
            project: check
                .as_ref()
                .map_or_else(String::new, |check| self.project_name(check.project)),
            project_uuid: check
                .as_ref()
                .and_then(|check| self.project_uuid(check.project)),
            since: flip.at,
            cause: flip.cause,
            last_success: check
                .as_ref()
                .and_then(|check| self.last_success(check, look_up)),
        }
    }
}

/// Warning of a row, and what has happened since.
fn warning_event(
    kind: WarningKind,
    row: &OutboxRow,
    check: Option<&Check>,
    skipped: usize,
) -> CheckEvent {
    let secs = match kind {
        WarningKind::Late => WarningKind::LATE_SECS,
        WarningKind::RanShort => 0,
        WarningKind::NotStarted | WarningKind::RanLong => row.limit.secs().unwrap_or_default(),
    };
    let outlook = check
        .filter(|_| kind != WarningKind::RanShort)
        .map_or(WarningOutlook::Unknown, |check| {
            warning_outlook(check, row.at)
        });
    CheckEvent::Warning {
        warning: Warning {
            kind,
            from: row.at.plus_secs(-secs),
            at: row.at,
            limit: row.limit,
        },
        skipped,
        outlook,
    }
}

/// State of a check after a warning at `at`.
fn warning_outlook(check: &Check, at: Timestamp) -> WarningOutlook {
    let state = &check.state;
    let is_since = |time: &Timestamp| *time > at;
    let reported = state.last_ping.filter(is_since);
    let started = state.run.map(|run| run.start).filter(is_since);
    match (reported, started, state.deadline(&check.settings)) {
        (Some(at), ..) => WarningOutlook::Reported(at),
        (None, Some(at), _) => WarningOutlook::Started(at),
        (None, None, Some(at)) => WarningOutlook::Deadline(at),
        (None, None, None) => WarningOutlook::Unknown,
    }
}

/// Flip with only the data of the row in the outbox.
fn unknown_flip(row: &OutboxRow) -> Flip {
    let (from, to) = if row.event == AlertEvent::Up {
        (Status::Down, Status::Up)
    } else {
        (Status::Up, Status::Down)
    };
    Flip {
        at: row.at,
        from,
        to,
        cause: FlipCause::Unknown,
        awaited_since: None,
    }
}

/// Cache of the checks that are down, by project, valid for a short time: without it, each of ten
/// thousand messages would count ten thousand checks.
#[derive(Default)]
pub(super) struct DownChecksCache(HashMap<ProjectId, (std::time::Duration, Arc<[DownCheck]>)>);

type DownCheck = (CheckId, Arc<crate::domain::check::CheckSettings>);

impl DownChecksCache {
    fn get(
        &mut self,
        project: ProjectId,
        now: std::time::Duration,
        count: impl FnOnce() -> Arc<[DownCheck]>,
    ) -> Arc<[DownCheck]> {
        const MAX_AGE: std::time::Duration = std::time::Duration::from_millis(500);
        self.0
            .retain(|_, (at, _)| now.saturating_sub(*at) < MAX_AGE);
        Arc::clone(&self.0.entry(project).or_insert_with(|| (now, count())).1)
    }
}

#[cfg(test)]
mod tests;

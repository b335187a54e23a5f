//! Rows of checks: a checkpoint of the state that the engine holds in memory. A row is written when
//! its check is edited, and from time to time in rotation.

use std::sync::Arc;

use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError, outbox};
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::check::{
    Check, CheckSettings, CheckState, KeywordFilters, OngoingRun, PauseEnd, RunLimit, RunLimits,
    WarningSet,
};
use crate::domain::ids::{Arrival, ChannelId, CheckId, FlipNumber, ProjectId};
use crate::domain::number::{FailureThreshold, Seconds};
use crate::domain::parents::Parents;
use crate::domain::recent_outcomes::RecentOutcomes;
use crate::domain::schedule::Schedule;
use crate::domain::status::Status;
use crate::domain::text::{Description, Keywords, Name, Slug, Tags};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;

/// `checks`: check id -> `CheckRecord`. A row includes every ping of its check up to its
/// `last_arrival`.
pub(super) const CHECKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("checks");

#[derive(Serialize, Deserialize)]
struct CheckRecord<'a> {
    uuid: Uuid,
    badge: Uuid,
    project: u64,
    name: &'a str,
    slug: &'a str,
    tags: &'a str,
    desc: &'a str,
    timeout: u32,
    grace: u32,
    schedule: Option<&'a str>,
    tz: &'a str,
    manual_resume: bool,
    post_only: bool,
    start_kw: &'a str,
    success_kw: &'a str,
    failure_kw: &'a str,
    /// Filters for subject, body and http_body, and default_fail.
    filters: [bool; 4],
    channels: Vec<u64>,
    /// 0 new, 1 up, 2 down, 3 paused
    status: u8,
    changed: i64,
    last_ping: Option<i64>,
    run: Option<(i64, Option<Uuid>)>,
    last_duration: Option<i64>,
    n_pings: u64,
    last_arrival: u64,
    last_flip: u64,
    /// Since version 2.
    #[serde(default)]
    outcomes: u64,
    #[serde(default)]
    failures: u16,
    /// Since version 3. 0 not needed, 1 notified, 2 server outage, 3 below threshold. Since
    /// version 4: 4 parent pending, 5 parent down, 6 undelivered, 7 window. Since version 5: 8
    /// trial.
    #[serde(default)]
    notification: u8,
    /// Time of the next decision, for 2 to 5, 7 and 8.
    #[serde(default)]
    notification_at: i64,
    #[serde(default = "one")]
    after: u8,
    /// Since version 4.
    #[serde(default)]
    parents: Vec<u64>,
    /// Parent whose downtime holds the alert, for 5.
    #[serde(default)]
    down_parent: u64,
    /// Since version 5.
    #[serde(default)]
    unused_since_import: bool,
    /// Since version 6. Number of imported pings. Ignored for a check that is unused since its
    /// import: all its pings are imported. For other checks, version 5 did not store the number.
    #[serde(default)]
    imported_pings: u64,
    /// Since version 7. Name, slug and tags in the alert about the current downtime, if they have
    /// changed since.
    #[serde(borrow, default)]
    alerted_labels: Option<(&'a str, &'a str, &'a str)>,
    /// Since version 8. End of the pause, and the status that the check then has.
    #[serde(default)]
    pause_end: Option<(i64, u8)>,
    #[serde(default)]
    expected_from: Option<i64>,
    /// Since version 9. Latest start, longest run and shortest run in seconds; 0 for none.
    #[serde(default)]
    limits: [u32; 3],
    #[serde(default)]
    given_warnings: u8,
}

impl<'a> Record<'a> for CheckRecord<'a> {
    const TABLE: &'static str = "checks";
    const VERSION: u8 = 9;
}

/// Returns the stored number of a status.
pub(super) fn status_number(status: Status) -> u8 {
    match status {
        Status::New => 0,
        Status::Up => 1,
        Status::Down => 2,
        Status::Paused => 3,
    }
}

/// Returns the status of a stored number.
pub(super) fn status_from_number(number: u8) -> Option<Status> {
    Some(match number {
        0 => Status::New,
        1 => Status::Up,
        2 => Status::Down,
        3 => Status::Paused,
        _ => return None,
    })
}

fn one() -> u8 {
    1
}

/// Returns the stored form of a notification state: its kind, the time of the next decision, and
/// the parent whose downtime holds the alert.
fn notification_state_numbers(notification: NotificationState) -> (u8, i64, u64) {
    match notification {
        NotificationState::NotNeeded => (0, 0, 0),
        NotificationState::Notified => (1, 0, 0),
        NotificationState::Undelivered => (6, 0, 0),
        NotificationState::Pending {
            at,
            reason: HoldReason::ServerOutage,
        } => (2, at.micros(), 0),
        NotificationState::Pending {
            at,
            reason: HoldReason::BelowThreshold,
        } => (3, at.micros(), 0),
        NotificationState::Pending {
            at,
            reason: HoldReason::ParentPending,
        } => (4, at.micros(), 0),
        NotificationState::Pending {
            at,
            reason: HoldReason::ParentDown(CheckId(parent)),
        } => (5, at.micros(), parent),
        NotificationState::Pending {
            at,
            reason: HoldReason::MaintenanceWindow,
        } => (7, at.micros(), 0),
        NotificationState::Pending {
            at,
            reason: HoldReason::Trial,
        } => (8, at.micros(), 0),
    }
}

fn notification_state_from_numbers(number: u8, at: i64, parent: u64) -> Option<NotificationState> {
    let pending = |reason| NotificationState::Pending {
        at: Timestamp::from_micros(at),
        reason,
    };
    Some(match number {
        0 => NotificationState::NotNeeded,
        1 => NotificationState::Notified,
        2 => pending(HoldReason::ServerOutage),
        3 => pending(HoldReason::BelowThreshold),
        4 => pending(HoldReason::ParentPending),
        5 => pending(HoldReason::ParentDown(CheckId(parent))),
        6 => NotificationState::Undelivered,
        7 => pending(HoldReason::MaintenanceWindow),
        8 => pending(HoldReason::Trial),
        _ => return None,
    })
}

impl<'a> From<&'a Check> for CheckRecord<'a> {
    fn from(check: &'a Check) -> Self {
        let Check {
            settings, state, ..
        } = check;
        let filters = settings.filters;
        let (notification, notification_at, down_parent) =
            notification_state_numbers(state.notification);
        Self {
            uuid: check.uuid,
            badge: check.badge,
            project: check.project.0,
            name: settings.name.as_str(),
            slug: settings.slug.as_str(),
            tags: settings.tags.as_str(),
            desc: settings.desc.as_str(),
            timeout: settings.timeout.get() as u32,
            grace: settings.grace.get() as u32,
            schedule: settings.schedule.as_ref().map(|schedule| schedule.text()),
            tz: settings.tz.name(),
            manual_resume: settings.manual_resume,
            post_only: settings.post_only,
            start_kw: settings.start_kw.as_str(),
            success_kw: settings.success_kw.as_str(),
            failure_kw: settings.failure_kw.as_str(),
            filters: [
                filters.subject,
                filters.body,
                filters.http_body,
                filters.default_fail,
            ],
            channels: settings.channels.iter().map(|channel| channel.0).collect(),
            status: status_number(state.status),
            changed: state.changed.micros(),
            last_ping: state.last_ping.map(Timestamp::micros),
            run: state.run.map(|run| (run.start.micros(), run.rid)),
            last_duration: state.last_duration,
            n_pings: state.n_pings,
            last_arrival: state.last_arrival.0,
            last_flip: state.last_flip.0,
            outcomes: state.outcomes.bits(),
            failures: state.failures,
            notification,
            notification_at,
            after: settings.failure_threshold.get(),
            parents: settings
                .parents
                .ids()
                .iter()
                .map(|parent| parent.0)
                .collect(),
            down_parent,
            unused_since_import: state.unused_since_import,
            imported_pings: state.imported_pings,
            alerted_labels: check.alerted_labels.as_ref().map(|names| {
                (
                    names.name.as_str(),
                    names.slug.as_str(),
                    names.tags.as_str(),
                )
            }),
            pause_end: state
                .pause_end
                .map(|end| (end.at.micros(), status_number(end.status))),
            expected_from: state.expected_from.map(Timestamp::micros),
            limits: [
                settings.limits.latest_start.number(),
                settings.limits.longest_run.number(),
                settings.limits.shortest_run.number(),
            ],
            given_warnings: state.given_warnings.bits(),
        }
    }
}

impl CheckRecord<'_> {
    /// Returns the check, or the name of a field whose value no release can have written.
    fn check(&self, id: CheckId) -> Result<Check, &'static str> {
        let [subject, body, http_body, default_fail] = self.filters;
        let [latest_start, longest_run, shortest_run] = self.limits;
        let limit = |number: u32| RunLimit::parse(number.into()).map_err(|_| "limits");
        let settings = CheckSettings {
            name: Name::from_stored(self.name),
            slug: Slug::from_stored(self.slug),
            tags: Tags::from_stored(self.tags),
            desc: Description::from_stored(self.desc),
            timeout: Seconds::parse(i64::from(self.timeout)).map_err(|_| "timeout")?,
            grace: Seconds::parse(i64::from(self.grace)).map_err(|_| "grace")?,
            schedule: self
                .schedule
                .map(Schedule::parse)
                .transpose()
                .map_err(|_| "schedule")?
                .map(Arc::new),
            tz: Timezone::parse(self.tz).map_err(|_| "tz")?,
            manual_resume: self.manual_resume,
            post_only: self.post_only,
            start_kw: Keywords::from_stored(self.start_kw),
            success_kw: Keywords::from_stored(self.success_kw),
            failure_kw: Keywords::from_stored(self.failure_kw),
            filters: KeywordFilters {
                subject,
                body,
                http_body,
                default_fail,
            },
            channels: self.channels.iter().map(|id| ChannelId(*id)).collect(),
            failure_threshold: FailureThreshold::parse(self.after.into()).map_err(|_| "after")?,
            parents: Parents::new(self.parents.iter().map(|id| CheckId(*id)).collect())
                .map_err(|_| "parents")?,
            limits: RunLimits {
                latest_start: limit(latest_start)?,
                longest_run: limit(longest_run)?,
                shortest_run: limit(shortest_run)?,
            },
        };
        let mut state = CheckState {
            status: status_from_number(self.status).ok_or("status")?,
            changed: Timestamp::from_micros(self.changed),
            last_ping: self.last_ping.map(Timestamp::from_micros),
            run: self.run.map(|(start, rid)| OngoingRun {
                start: Timestamp::from_micros(start),
                rid,
            }),
            last_duration: self.last_duration,
            grace_start: None,
            n_pings: self.n_pings,
            last_arrival: Arrival(self.last_arrival),
            last_flip: FlipNumber(self.last_flip),
            outcomes: RecentOutcomes::from_bits(self.outcomes),
            failures: self.failures,
            notification: notification_state_from_numbers(
                self.notification,
                self.notification_at,
                self.down_parent,
            )
            .ok_or("notification")?,
            unused_since_import: self.unused_since_import,
            imported_pings: if self.unused_since_import {
                self.n_pings
            } else {
                self.imported_pings
            },
            pause_end: match self.pause_end {
                Some((at, status)) => Some(
                    status_from_number(status)
                        .and_then(|status| PauseEnd::new(Timestamp::from_micros(at), status))
                        .ok_or("pause_end")?,
                ),
                None => None,
            },
            expected_from: self.expected_from.map(Timestamp::from_micros),
            given_warnings: WarningSet::from_bits(self.given_warnings),
        };
        state.update_grace_start(&settings);
        let alerted_labels = self
            .alerted_labels
            .map(|names| Arc::new(outbox::labels_from_stored(names)));
        Ok(Check {
            id,
            uuid: self.uuid,
            badge: self.badge,
            project: ProjectId(self.project),
            settings: Arc::new(settings),
            state,
            alerted_labels,
        })
    }
}

/// Creates the table so that readers can open it.
pub(super) fn create_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(CHECKS)?;
    Ok(())
}

impl Batch {
    /// Writes the rows of checks and returns the number of bytes written. Ordered by id, the writes
    /// touch the fewest pages.
    pub fn put_checks<'a>(
        &self,
        checks: impl IntoIterator<Item = &'a Check>,
    ) -> Result<u64, StoreError> {
        let mut table = self.table(CHECKS)?;
        let mut bytes = Vec::new();
        let mut written = 0;
        for check in checks {
            record::encode(&CheckRecord::from(check), &mut bytes)?;
            table.insert(check.id.0, bytes.as_slice())?;
            written += bytes.len() as u64;
        }
        Ok(written)
    }

    /// Removes the rows of checks.
    pub fn remove_checks(
        &self,
        checks: impl IntoIterator<Item = CheckId>,
    ) -> Result<(), StoreError> {
        let mut table = self.table(CHECKS)?;
        for id in checks {
            table.remove(id.0)?;
        }
        Ok(())
    }
}

/// Reads the check in a row.
pub(super) fn read_check(id: u64, bytes: &[u8]) -> Result<Check, StoreError> {
    let row: CheckRecord<'_> = record::decode(bytes)?;
    row.check(CheckId(id)).map_err(|field| {
        record::invalid_row::<CheckRecord<'_>>(&format_args!("`{field}` of check {id}"))
    })
}

/// Returns the reason why a row cannot be read, and a replacement row: a check that is paused until
/// a user corrects it, with a note about the problem. There is no replacement if no part of the row
/// can be read.
pub(super) fn unreadable_check_row(id: u64, bytes: &[u8]) -> Option<(StoreError, Option<Vec<u8>>)> {
    let mut row: CheckRecord<'_> = match record::decode(bytes) {
        Ok(row) => row,
        Err(error) => return Some((error, None)),
    };
    let mut fields = Vec::new();
    // Each field is replaced at most once. If it is still invalid, the row cannot be repaired.
    while let Err(field) = row.check(CheckId(id)) {
        if fields.contains(&field) {
            return Some((
                record::invalid_row::<CheckRecord<'_>>(&format_args!("`{field}` of check {id}")),
                None,
            ));
        }
        fields.push(field);
        match field {
            "name" => row.name = "",
            "slug" => row.slug = "",
            "timeout" => row.timeout = Seconds::DAY.get() as u32,
            "grace" => row.grace = Seconds::HOUR.get() as u32,
            "schedule" => row.schedule = None,
            "tz" => row.tz = "UTC",
            "start_kw" => row.start_kw = "",
            "success_kw" => row.success_kw = "",
            "failure_kw" => row.failure_kw = "",
            "notification" => row.notification = 0,
            "after" => row.after = 1,
            "parents" => row.parents.clear(),
            "pause_end" => row.pause_end = None,
            "limits" => row.limits = [0; 3],
            _ => row.status = status_number(Status::Paused),
        }
    }
    if fields.is_empty() {
        return None;
    }
    let names = fields.join(", ");
    let desc = format!(
        "This check is paused: this release cannot read its {names}. Correct it and resume \
         it.\n\n{}",
        row.desc
    );
    (row.desc, row.status, row.run, row.manual_resume) =
        (&desc, status_number(Status::Paused), None, true);
    if let Some(NotificationState::Pending { .. }) =
        notification_state_from_numbers(row.notification, row.notification_at, row.down_parent)
    {
        row.notification = 0;
    }
    let error = record::invalid_row::<CheckRecord<'_>>(&format_args!("{names} of check {id}"));
    let mut replacement = Vec::new();
    let encoded = record::encode(&row, &mut replacement);
    Some((error, encoded.ok().map(|()| replacement)))
}

impl Snapshot {
    /// Returns every check as of its row, oldest first.
    pub fn checks(
        &self,
    ) -> Result<impl Iterator<Item = Result<Check, StoreError>> + use<>, StoreError> {
        let table = self.transaction.open_table(CHECKS)?;
        Ok(table.range::<u64>(..)?.map(|row| {
            let (id, bytes) = row?;
            read_check(id.value(), bytes.value())
        }))
    }
}

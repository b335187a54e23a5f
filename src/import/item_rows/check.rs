//! Rows of checks of an import.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{parse_source, parse_status, source_text};
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::check::{
    CheckSettings, CheckState, KeywordFilters, OngoingRun, PauseEnd, RunLimit, RunLimits,
};
use crate::domain::ids::CheckId;
use crate::domain::import_contents::ImportedCheck;
use crate::domain::number::{FailureThreshold, Seconds};
use crate::domain::recent_outcomes::{RecentOutcomes, RunOutcome};
use crate::domain::schedule::Schedule;
use crate::domain::text::{Description, Keywords, Name, Slug, Tags};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;

/// A check that is imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::import_contents::ImportedCheck`")]
pub struct ImportCheckRow {
    uuid: Uuid,
    badge: Option<Uuid>,
    channels: Vec<Uuid>,
    parents: Vec<Uuid>,
    managed: Option<String>,
    name: String,
    slug: String,
    tags: String,
    desc: String,
    timeout: i64,
    grace: i64,
    schedule: Option<String>,
    tz: String,
    manual_resume: bool,
    post_only: bool,
    start_kw: String,
    success_kw: String,
    failure_kw: String,
    /// Filters for subject, body and http_body, and default_fail.
    filters: [bool; 4],
    /// Number of consecutive failures until an alert is sent.
    after: u8,
    status: String,
    changed: i64,
    last_ping: Option<i64>,
    run: Option<(i64, Option<Uuid>)>,
    last_duration: Option<i64>,
    n_pings: u64,
    failures: u16,
    /// Results of the last runs, the newest last: `s` success, `f` fail, `m` missed.
    outcomes: String,
    #[serde(rename = "telling")]
    notification: NotificationStateRow,
    /// End of the pause, and the status that the check then has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pause_end: Option<(i64, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expected_from: Option<i64>,
    /// Latest start, longest run and shortest run in seconds; 0 for none.
    #[serde(default, skip_serializing_if = "has_no_limits")]
    limits: [u32; 3],
}

fn has_no_limits(limits: &[u32; 3]) -> bool {
    *limits == [0; 3]
}

/// Notification state of a check.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum NotificationStateRow {
    #[serde(rename = "quiet")]
    NotNeeded,
    #[serde(rename = "due")]
    Pending {
        at: i64,
        #[serde(rename = "held")]
        reason: String,
        /// UUID of the parent that suppresses the alert.
        #[serde(rename = "behind")]
        down_parent: Option<Uuid>,
    },
    #[serde(rename = "told")]
    Notified,
    #[serde(rename = "unheard")]
    Undelivered,
}

/// Reasons for holding an alert.
const HOLD_REASONS: [HoldReason; 6] = [
    HoldReason::ServerOutage,
    HoldReason::BelowThreshold,
    HoldReason::ParentPending,
    HoldReason::ParentDown(CheckId(0)),
    HoldReason::MaintenanceWindow,
    HoldReason::Trial,
];

fn outcomes_text(outcomes: RecentOutcomes) -> String {
    let letters = outcomes.newest_first().map(|outcome| match outcome {
        RunOutcome::Success => 's',
        RunOutcome::Fail => 'f',
        RunOutcome::Missed => 'm',
    });
    letters.collect::<Vec<_>>().into_iter().rev().collect()
}

fn parse_outcomes(text: &str) -> Option<RecentOutcomes> {
    let mut outcomes = RecentOutcomes::default();
    for letter in text.chars() {
        outcomes.push(match letter {
            's' => RunOutcome::Success,
            'f' => RunOutcome::Fail,
            'm' => RunOutcome::Missed,
            _ => return None,
        });
    }
    Some(outcomes)
}

impl NotificationStateRow {
    fn new(state: NotificationState, down_parent: Option<Uuid>) -> Self {
        match state {
            NotificationState::NotNeeded => Self::NotNeeded,
            NotificationState::Pending { at, reason } => Self::Pending {
                at: at.micros(),
                reason: reason.name().into(),
                down_parent,
            },
            NotificationState::Notified => Self::Notified,
            NotificationState::Undelivered => Self::Undelivered,
        }
    }

    /// Returns the notification state, and the parent that suppresses the alert.
    fn into_state(self) -> Option<(NotificationState, Option<Uuid>)> {
        Some(match self {
            Self::NotNeeded => (NotificationState::NotNeeded, None),
            Self::Pending {
                at,
                reason,
                down_parent,
            } => {
                let reason = HOLD_REASONS
                    .into_iter()
                    .find(|known| known.name() == reason)?;
                let at = Timestamp::from_micros(at);
                (NotificationState::Pending { at, reason }, down_parent)
            }
            Self::Notified => (NotificationState::Notified, None),
            Self::Undelivered => (NotificationState::Undelivered, None),
        })
    }
}

impl From<ImportedCheck> for ImportCheckRow {
    fn from(check: ImportedCheck) -> Self {
        let ImportedCheck {
            uuid,
            badge,
            created: _,
            settings,
            channels,
            parents,
            state,
            down_parent,
            managed_by: source,
        } = check;
        let filters = settings.filters;
        Self {
            uuid,
            badge,
            channels: channels.into(),
            parents: parents.into(),
            managed: source_text(source.as_ref()),
            name: settings.name.as_str().into(),
            slug: settings.slug.as_str().into(),
            tags: settings.tags.as_str().into(),
            desc: settings.desc.as_str().into(),
            timeout: settings.timeout.get(),
            grace: settings.grace.get(),
            schedule: settings
                .schedule
                .as_ref()
                .map(|schedule| schedule.text().into()),
            tz: settings.tz.name().into(),
            manual_resume: settings.manual_resume,
            post_only: settings.post_only,
            start_kw: settings.start_kw.as_str().into(),
            success_kw: settings.success_kw.as_str().into(),
            failure_kw: settings.failure_kw.as_str().into(),
            filters: [
                filters.subject,
                filters.body,
                filters.http_body,
                filters.default_fail,
            ],
            after: settings.failure_threshold.get(),
            status: state.status.name().into(),
            changed: state.changed.micros(),
            last_ping: state.last_ping.map(Timestamp::micros),
            run: state.run.map(|run| (run.start.micros(), run.rid)),
            last_duration: state.last_duration,
            n_pings: state.n_pings,
            failures: state.failures,
            outcomes: outcomes_text(state.outcomes),
            notification: NotificationStateRow::new(state.notification, down_parent),
            pause_end: state
                .pause_end
                .map(|end| (end.at.micros(), end.status.name().into())),
            expected_from: state.expected_from.map(Timestamp::micros),
            limits: [
                settings.limits.latest_start.number(),
                settings.limits.longest_run.number(),
                settings.limits.shortest_run.number(),
            ],
        }
    }
}

impl ImportCheckRow {
    /// Converts the row to a check. The error is the name of the invalid field.
    pub(super) fn into_check(self) -> Result<ImportedCheck, &'static str> {
        let [subject, body, http_body, default_fail] = self.filters;
        let [latest_start, longest_run, shortest_run] = self.limits;
        let limit = |number: u32| RunLimit::parse(number.into()).map_err(|_| "limits");
        let settings = CheckSettings {
            name: Name::from_stored(&self.name),
            slug: Slug::from_stored(&self.slug),
            tags: Tags::from_stored(&self.tags),
            desc: Description::from_stored(&self.desc),
            timeout: Seconds::parse(self.timeout).map_err(|_| "timeout")?,
            grace: Seconds::parse(self.grace).map_err(|_| "grace")?,
            schedule: self
                .schedule
                .map(|text| Schedule::parse(&text))
                .transpose()
                .map_err(|_| "schedule")?
                .map(Arc::new),
            tz: Timezone::parse(&self.tz).map_err(|_| "tz")?,
            manual_resume: self.manual_resume,
            post_only: self.post_only,
            start_kw: Keywords::from_stored(&self.start_kw),
            success_kw: Keywords::from_stored(&self.success_kw),
            failure_kw: Keywords::from_stored(&self.failure_kw),
            filters: KeywordFilters {
                subject,
                body,
                http_body,
                default_fail,
            },
            failure_threshold: FailureThreshold::parse(self.after.into()).map_err(|_| "after")?,
            limits: RunLimits {
                latest_start: limit(latest_start)?,
                longest_run: limit(longest_run)?,
                shortest_run: limit(shortest_run)?,
            },
            ..CheckSettings::default()
        };
        let moment = Timestamp::from_micros;
        let (notification, down_parent) = self.notification.into_state().ok_or("telling")?;
        // The number is incremented later.
        i64::try_from(self.n_pings).map_err(|_| "n_pings")?;
        let pause_end = |(at, status): (i64, String)| {
            let status = parse_status(&status).ok();
            status.and_then(|status| PauseEnd::new(moment(at), status))
        };
        let state = CheckState {
            status: parse_status(&self.status).map_err(|_| "status")?,
            changed: moment(self.changed),
            last_ping: self.last_ping.map(moment),
            run: self.run.map(|(start, rid)| OngoingRun {
                start: moment(start),
                rid,
            }),
            last_duration: self.last_duration,
            n_pings: self.n_pings,
            failures: self.failures,
            outcomes: parse_outcomes(&self.outcomes).ok_or("outcomes")?,
            notification,
            pause_end: match self.pause_end {
                Some(end) => Some(pause_end(end).ok_or("pause_end")?),
                None => None,
            },
            expected_from: self.expected_from.map(moment),
            ..CheckState::new(moment(self.changed))
        };
        Ok(ImportedCheck {
            uuid: self.uuid,
            badge: self.badge,
            // The row has no creation time. A check without events was last changed at its
            // creation.
            created: moment(self.changed),
            settings,
            channels: self.channels.into(),
            parents: self.parents.into(),
            state,
            down_parent,
            managed_by: parse_source(self.managed.as_deref()).map_err(|_| "managed")?,
        })
    }
}

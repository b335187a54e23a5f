//! What its owner has set of a check, and when it is expected by that.

use std::sync::Arc;

use uuid::Uuid;

use crate::domain::formatting::format_duration;
use crate::domain::ids::ChannelId;
use crate::domain::parents::Parents;
use crate::domain::schedule::Schedule;
use crate::domain::text::{Description, FailureThreshold, Keywords, Name, Seconds, Slug, Tags};
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::domain::timezone::Timezone;

/// When keyword filtering is on, and what no match means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeywordFilters {
    /// Search the subjects of mails.
    pub subject: bool,
    /// Search the bodies of mails.
    pub body: bool,
    /// Search the first 10 kB of HTTP bodies.
    pub http_body: bool,
    /// No match means failure; otherwise the ping is ignored.
    pub default_fail: bool,
}

/// What its owner has set of a check.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckSettings {
    /// Its name.
    pub name: Name,
    /// Its slug.
    pub slug: Slug,
    /// Its tags.
    pub tags: Tags,
    /// Its description.
    pub desc: Description,
    /// The period of a Simple check; kept, though unused, while there is a schedule.
    pub timeout: Seconds,
    /// How late it may be.
    pub grace: Seconds,
    /// The schedule of a Cron or OnCalendar check; `None`: Simple.
    pub schedule: Option<Arc<Schedule>>,
    /// The zone in which the schedule is read; kept, though unused, without one.
    pub tz: Timezone,
    /// Whether a paused check ignores pings.
    pub manual_resume: bool,
    /// Whether only POST counts as a ping.
    pub post_only: bool,
    /// Keywords that mean a start.
    pub start_kw: Keywords,
    /// Keywords that mean success.
    pub success_kw: Keywords,
    /// Keywords that mean failure.
    pub failure_kw: Keywords,
    /// Where keywords are searched.
    pub filters: KeywordFilters,
    /// The notification channels assigned, each once.
    pub channels: Box<[ChannelId]>,
    /// How often in a row it has to fail, or to miss a deadline, until that is told.
    pub failure_threshold: FailureThreshold,
    /// The checks without which it cannot report: while one of them is down, it says nothing new that it is missing.
    pub parents: Parents,
}

impl Default for CheckSettings {
    /// A new check that names nothing: see [protocol](crate::docs::protocol).
    fn default() -> Self {
        Self {
            name: Name::default(),
            slug: Slug::default(),
            tags: Tags::default(),
            desc: Description::default(),
            timeout: Seconds::DAY,
            grace: Seconds::HOUR,
            schedule: None,
            tz: Timezone::utc(),
            manual_resume: false,
            post_only: false,
            start_kw: Keywords::default(),
            success_kw: Keywords::default(),
            failure_kw: Keywords::default(),
            filters: KeywordFilters::default(),
            channels: Box::default(),
            failure_threshold: FailureThreshold::ONE,
            parents: Parents::default(),
        }
    }
}

impl CheckSettings {
    /// What people call a check with these settings: its name, or its slug, or its UUID.
    pub fn display_name(&self, uuid: Uuid) -> String {
        let names = [self.name.as_str(), self.slug.as_str()];
        names.into_iter().find(|name| !name.is_empty()).map_or_else(|| uuid.to_string(), str::to_owned)
    }

    /// When it is expected, in words: `every 5 minutes`, `every day at 03:30`.
    pub fn describe_schedule(&self) -> String {
        let period = || format_duration(Timestamp::from_secs(self.timeout.get()).micros());
        // Of one hour or one day the number is not said.
        let every = |period: String| match period.strip_prefix("1 ") {
            Some(unit) if !unit.contains(' ') => format!("every {unit}"),
            _ => format!("every {period}"),
        };
        self.schedule.as_ref().map_or_else(|| every(period()), |schedule| schedule.describe())
    }

    /// When the check that was last pinged then is expected again: for a schedule its first moment strictly later.
    /// `None` when the schedule has ended.
    pub fn next_ping_after(&self, last_ping: Timestamp) -> Option<Timestamp> {
        match &self.schedule {
            None => Some(last_ping.plus_secs(self.timeout.get())),
            Some(schedule) => schedule.next_after(last_ping, &self.tz),
        }
    }

    /// The first moment after `now` by which a check that has reported nothing since `last_ping` has missed one more ping, grace included.
    /// `None` when none is expected any more.
    pub fn next_miss_after(&self, last_ping: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let from = now.plus_secs(-self.grace.get());
        let expected = match &self.schedule {
            Some(schedule) => schedule.next_after(from.max(last_ping), &self.tz)?,
            None => {
                let period = self.timeout.get() * MICROS_PER_SEC;
                let periods = from.micros_since(last_ping).max(0) / period + 1;
                last_ping.plus_micros(periods.saturating_mul(period))
            }
        };
        Some(expected.plus_secs(self.grace.get()))
    }
}

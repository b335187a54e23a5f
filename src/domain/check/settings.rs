//! Settings of a check, and the times at which they expect a ping.

use std::sync::Arc;

use uuid::Uuid;

use super::warnings::RunLimits;
use crate::domain::formatting::format_duration;
use crate::domain::ids::ChannelId;
use crate::domain::number::{FailureThreshold, Seconds};
use crate::domain::parents::Parents;
use crate::domain::schedule::Schedule;
use crate::domain::text::{Description, Keywords, Name, Slug, Tags, is_visible};
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::domain::timezone::Timezone;

/// Keyword filters, and the meaning of a text without a match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeywordFilters {
    /// True to search the subjects of mails.
    pub subject: bool,
    /// True to search the bodies of mails.
    pub body: bool,
    /// True to search the first 10 kB of HTTP bodies.
    pub http_body: bool,
    /// True if no match means failure; otherwise such a ping is ignored.
    pub default_fail: bool,
}

/// Settings of a check.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckSettings {
    /// Name of the check.
    pub name: Name,
    /// Slug of the check.
    pub slug: Slug,
    /// Tags of the check.
    pub tags: Tags,
    /// Description of the check.
    pub desc: Description,
    /// Period of a Simple check. Kept but unused while there is a schedule.
    pub timeout: Seconds,
    /// Grace time.
    pub grace: Seconds,
    /// Schedule of a Cron or OnCalendar check; `None`: Simple.
    pub schedule: Option<Arc<Schedule>>,
    /// Time zone of the schedule. Kept but unused without a schedule.
    pub tz: Timezone,
    /// True if a paused check ignores pings.
    pub manual_resume: bool,
    /// True if only POST counts as a ping.
    pub post_only: bool,
    /// Keywords that mean a start.
    pub start_kw: Keywords,
    /// Keywords that mean success.
    pub success_kw: Keywords,
    /// Keywords that mean failure.
    pub failure_kw: Keywords,
    /// Texts that are searched for keywords.
    pub filters: KeywordFilters,
    /// Assigned notification channels, each once.
    pub channels: Box<[ChannelId]>,
    /// Number of failures or missed deadlines in a row before channels are notified.
    pub failure_threshold: FailureThreshold,
    /// Checks that this check depends on. While one of them is down, alerts about this check are
    /// held back.
    pub parents: Parents,
    /// Limits for runs, which cause warnings.
    pub limits: RunLimits,
}

impl Default for CheckSettings {
    /// Settings of a new check for which a request names none: see
    /// [protocol](crate::docs::protocol).
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
            limits: RunLimits::default(),
        }
    }
}

impl CheckSettings {
    /// Name of the check for people: its name, or its slug, or its UUID.
    pub fn display_name(&self, uuid: Uuid) -> String {
        let names = [self.name.as_str(), self.slug.as_str()];
        names
            .into_iter()
            .find(|name| is_visible(name))
            .map_or_else(|| uuid.to_string(), str::to_owned)
    }

    /// Describes the expected times in words: `every 5 minutes`, `every day at 03:30`.
    pub fn describe_schedule(&self) -> String {
        let period = || format_duration(Timestamp::from_secs(self.timeout.get()).micros());
        // For one hour or one day the number is left out.
        let every = |period: String| match period.strip_prefix("1 ") {
            Some(unit) if !unit.contains(' ') => format!("every {unit}"),
            _ => format!("every {period}"),
        };
        self.schedule
            .as_ref()
            .map_or_else(|| every(period()), |schedule| schedule.describe())
    }

    /// Time of the next expected ping after a ping at `last_ping`: for a schedule the first time
    /// strictly later. `None` if the schedule has ended.
    pub fn next_ping_after(&self, last_ping: Timestamp) -> Option<Timestamp> {
        match &self.schedule {
            None => Some(last_ping.plus_secs(self.timeout.get())),
            Some(schedule) => schedule.next_after(last_ping, &self.tz),
        }
    }

    /// First time after `now` at which a check without reports since `last_ping` misses another
    /// ping, grace included. `None` if no further ping is expected.
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

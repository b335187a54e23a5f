//! Crontabs and timers are read, and checks for their jobs are proposed, with the edit that makes each job report. Nothing is edited here.

mod crontab;
mod patch;
mod shell_command;
mod timers;

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::domain::check::CheckSettings;
use crate::domain::schedule::Schedule;
use crate::domain::text::{Name, Seconds, Slug};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
pub use crontab::{Crontab, CrontabOwner, propose_for_crontab};
pub use patch::{apply_edits, unified_diff};
pub use timers::{LIST_TIMERS_ARGS, SystemdTimer, TIMER_PROPERTIES, parse_timer_list, parse_timers, propose_for_timers};

/// Seconds of grace: the least and the most.
const GRACE_RANGE_SECS: (i64, i64) = (300, 3_600);
/// Runs whose gaps are looked at.
const SAMPLED_RUNS: usize = 10;

/// How jobs are to report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reporter {
    /// By `curl`, behind the job.
    Curl,
    /// By `overdue run`, which sends the start and the end of the output as well.
    Run,
}

/// What proposals are made with.
pub struct CheckProposer<'a> {
    /// What ping URLs begin with, without a slash at its end.
    pub base_url: &'a str,
    /// The name of this machine, which slugs begin with.
    pub host: &'a str,
    /// The zone of schedules that name none.
    pub zone: Timezone,
    /// How jobs are to report.
    pub reporter: Reporter,
    /// Whether whole directories of jobs get a check, too.
    pub run_parts: bool,
    /// The time now.
    pub now: Timestamp,
    /// Draws a UUID.
    pub draw_uuid: &'a dyn Fn() -> Uuid,
    /// Slugs that are given.
    used_slugs: BTreeSet<String>,
}

/// A job and the check that is proposed for it.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckProposal {
    /// The check's slug.
    pub slug: Slug,
    /// Its UUID, which stands in the edit.
    pub uuid: Uuid,
    /// When it is expected.
    pub settings: CheckSettings,
    /// Where the job was found.
    pub location: String,
    /// What makes it report.
    pub edit: JobEdit,
}

/// What makes a job report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobEdit {
    /// This line, counted from 0, becomes that.
    Line(usize, String),
    /// This file is to be made.
    DropIn {
        /// Where.
        path: String,
        /// What stands in it.
        text: String,
    },
}

/// A job for which nothing is proposed, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedJob {
    /// Where it was found.
    pub location: String,
    /// The job.
    pub job: String,
    /// A sentence.
    pub reason: String,
    /// Somebody should look at it.
    pub needs_manual_edit: bool,
}

/// What was found in one place.
#[derive(Default, Debug)]
pub struct DiscoveryResult {
    /// Jobs with checks.
    pub proposals: Vec<CheckProposal>,
    /// Jobs without.
    pub skipped: Vec<SkippedJob>,
}

impl CheckProposal {
    /// Gives the check another UUID, in the edit too.
    pub fn set_uuid(&mut self, uuid: Uuid) {
        let (old, new) = (self.uuid.to_string(), uuid.to_string());
        let (JobEdit::Line(_, text) | JobEdit::DropIn { text, .. }) = &mut self.edit;
        *text = text.replace(&old, &new);
        self.uuid = uuid;
    }
}

impl<'a> CheckProposer<'a> {
    /// One that has proposed nothing yet.
    pub fn new(base_url: &'a str, host: &'a str, zone: Timezone, now: Timestamp, uuid: &'a dyn Fn() -> Uuid) -> Self {
        Self { base_url, host, zone, reporter: Reporter::Curl, run_parts: false, now, draw_uuid: uuid, used_slugs: BTreeSet::new() }
    }

    fn ping_url(&self, uuid: Uuid) -> String {
        format!("{}/ping/{uuid}", self.base_url)
    }

    /// Whether a command tells a server already.
    fn already_reports(&self, command: &str) -> bool {
        let own = format!("{}/ping/", self.base_url);
        [own.as_str(), "hc-ping.com", "runitor", "/ping/", "overdue run", "overdue ping"].iter().any(|part| command.contains(part))
    }

    /// A slug that no other proposal has.
    fn unique_slug(&mut self, name: &str) -> Slug {
        let wanted = Name::parse(&format!("{} {name}", self.host)).map(|name| Slug::from_name(&name)).unwrap_or_default();
        let wanted: String = if wanted.is_empty() { "job".into() } else { wanted.as_str().chars().take(90).collect() };
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let free = std::iter::once(wanted.clone()).chain(numbered).find(|slug| !self.used_slugs.contains(slug)).unwrap_or(wanted);
        self.used_slugs.insert(free.clone());
        Slug::parse(&free).unwrap_or_default()
    }

    /// What a check for a schedule is set to. `late`: seconds by which its job may begin late without anything being wrong.
    fn schedule_settings(&self, schedule: Schedule, zone: Option<Timezone>, late: i64) -> CheckSettings {
        let tz = zone.unwrap_or_else(|| self.zone.clone());
        let runs: Vec<_> = schedule.occurrences(self.now, &tz).take(SAMPLED_RUNS).collect();
        let gaps = runs.iter().zip(runs.iter().skip(1)).map(|(one, next)| next.micros_since(*one) / 1_000_000).filter(|gap| *gap > 0);
        let grace = self.grace_for_gap(gaps.min(), late);
        CheckSettings { schedule: Some(std::sync::Arc::new(schedule)), tz, grace, ..CheckSettings::default() }
    }

    /// The grace for jobs with such a gap between runs.
    fn grace_for_gap(&self, gap: Option<i64>, late: i64) -> Seconds {
        let (least, most) = GRACE_RANGE_SECS;
        let secs = gap.map_or(least, |gap| (gap / 10).clamp(least, most)) + late.max(0);
        Seconds::parse(secs).unwrap_or(Seconds::HOUR)
    }
}

#[cfg(test)]
mod tests;

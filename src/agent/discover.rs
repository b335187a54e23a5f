//! Reads crontabs and timers, and proposes checks for their jobs, with the edit that makes each job
//! report. Nothing is edited here.

mod crontab;
mod patch;
mod shell_command;
mod timers;

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::domain::check::CheckSettings;
use crate::domain::number::Seconds;
use crate::domain::schedule::Schedule;
use crate::domain::text::{Name, Slug};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
pub use crontab::{Crontab, CrontabOwner, propose_for_crontab};
pub use patch::{apply_edits, new_file_diff, unified_diff};
pub use timers::{
    LIST_TIMERS_ARGS, SystemdTimer, TIMER_PROPERTIES, parse_timer_list, parse_timers,
    propose_for_timers,
};

/// Minimum and maximum grace in seconds.
const GRACE_RANGE_SECS: (i64, i64) = (300, 3_600);
/// Number of runs whose gaps are examined.
const SAMPLED_RUNS: usize = 10;

/// Program by which jobs report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reporter {
    /// `curl`, after the job.
    Curl,
    /// `overdue run`, which also reports the start and sends the end of the output.
    Run,
}

/// Generator of proposals, with its options.
pub struct CheckProposer<'a> {
    /// Base of ping URLs, without a trailing slash.
    pub base_url: &'a str,
    /// Name of this machine, with which slugs begin.
    pub host: &'a str,
    /// Time zone of schedules that name none.
    pub zone: Timezone,
    /// Program by which jobs report.
    pub reporter: Reporter,
    /// True to also propose a check for whole directories of jobs.
    pub run_parts: bool,
    /// Current time.
    pub now: Timestamp,
    /// Generator of UUIDs.
    pub generate_uuid: &'a dyn Fn() -> Uuid,
    /// Slugs that are taken, each with the number to try next for another job of this name.
    used_slugs: BTreeMap<String, usize>,
}

/// A job and the check that is proposed for it.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckProposal {
    /// Slug of the check.
    pub slug: Slug,
    /// UUID of the check, which is part of the edit.
    pub uuid: Uuid,
    /// Schedule and other settings of the check.
    pub settings: CheckSettings,
    /// Location of the job.
    pub location: String,
    /// Edit that makes it report.
    pub edit: JobEdit,
}

/// Edit that makes a job report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobEdit {
    /// Replaces a line of a crontab.
    Line {
        /// Index of the line, counted from 0.
        number: usize,
        /// Line before the edit.
        old: String,
        /// Line that makes the job report.
        new: String,
    },
    /// Creates this file.
    DropIn {
        /// Path of the file.
        path: String,
        /// Content of the file.
        text: String,
    },
}

/// A job without a proposal, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedJob {
    /// Location of the job.
    pub location: String,
    /// Name or command of the job.
    pub job: String,
    /// Reason as a sentence.
    pub reason: String,
    /// True if a person should examine it.
    pub needs_manual_edit: bool,
}

/// Result for one source.
#[derive(Default, Debug)]
pub struct DiscoveryResult {
    /// Jobs with checks.
    pub proposals: Vec<CheckProposal>,
    /// Jobs without checks.
    pub skipped: Vec<SkippedJob>,
}

impl CheckProposal {
    /// Gives the check another UUID, in the edit too.
    pub fn set_uuid(&mut self, uuid: Uuid) {
        let old = self.uuid.to_string();
        let new = uuid.to_string();
        let (JobEdit::Line { new: text, .. } | JobEdit::DropIn { text, .. }) = &mut self.edit;
        *text = text.replace(&old, &new);
        self.uuid = uuid;
    }
}

impl<'a> CheckProposer<'a> {
    /// Creates a generator without proposals.
    pub fn new(
        base_url: &'a str,
        host: &'a str,
        zone: Timezone,
        now: Timestamp,
        uuid: &'a dyn Fn() -> Uuid,
    ) -> Self {
        Self {
            base_url,
            host,
            zone,
            reporter: Reporter::Curl,
            run_parts: false,
            now,
            generate_uuid: uuid,
            used_slugs: BTreeMap::new(),
        }
    }

    fn ping_url(&self, uuid: Uuid) -> String {
        format!("{}/ping/{uuid}", self.base_url)
    }

    /// True if a command already reports to a server.
    fn already_reports(&self, command: &str) -> bool {
        let base = format!("{}/ping/", self.base_url);
        [
            base.as_str(),
            "hc-ping.com",
            "runitor",
            "/ping/",
            "overdue run",
            "overdue ping",
        ]
        .iter()
        .any(|part| command.contains(part))
    }

    /// Returns a slug that no other proposal has.
    fn unique_slug(&mut self, name: &str) -> Slug {
        let slug = Name::parse(&format!("{} {name}", self.host))
            .map(|name| Slug::from_name(&name))
            .unwrap_or_default();
        let stem: String = if slug.is_empty() {
            "job".into()
        } else {
            slug.as_str().chars().take(90).collect()
        };
        let mut unused = stem.clone();
        if let Some(mut number) = self.used_slugs.get(&stem).copied() {
            while self.used_slugs.contains_key(&unused) {
                unused = format!("{stem}-{number}");
                number += 1;
            }
            self.used_slugs.insert(stem, number);
        }
        self.used_slugs.insert(unused.clone(), 2);
        Slug::parse(&unused).unwrap_or_default()
    }

    /// Returns the settings of a check for a schedule. `max_delay_secs`: maximum
    /// delay of its job in normal operation.
    fn schedule_settings(
        &self,
        schedule: Schedule,
        zone: Option<Timezone>,
        max_delay_secs: i64,
    ) -> CheckSettings {
        let tz = zone.unwrap_or_else(|| self.zone.clone());
        let runs: Vec<_> = schedule
            .occurrences(self.now, &tz)
            .take(SAMPLED_RUNS)
            .collect();
        let gaps = runs
            .iter()
            .zip(runs.iter().skip(1))
            .map(|(run, next)| next.micros_since(*run) / 1_000_000)
            .filter(|gap| *gap > 0);
        let grace = self.grace_for_gap(gaps.min(), max_delay_secs);
        CheckSettings {
            schedule: Some(std::sync::Arc::new(schedule)),
            tz,
            grace,
            ..CheckSettings::default()
        }
    }

    /// Returns the grace for jobs with this gap between runs.
    fn grace_for_gap(&self, gap: Option<i64>, max_delay_secs: i64) -> Seconds {
        let (min, max) = GRACE_RANGE_SECS;
        let secs = gap.map_or(min, |gap| (gap / 10).clamp(min, max)) + max_delay_secs.max(0);
        Seconds::parse(secs).unwrap_or(Seconds::HOUR)
    }
}

#[cfg(test)]
mod tests;

//! Crontabs and timers are read, and checks for their jobs are proposed, with the edit that makes each job report. Nothing is edited here.

mod crontab;
mod patch;
mod timers;
mod words;

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::domain::check::Settings;
use crate::domain::moment::Moment;
use crate::domain::schedule::Schedule;
use crate::domain::text::{Name, Seconds, Slug};
use crate::domain::timezone::Timezone;
pub use crontab::{Crontab, Whose, crontab};
pub use patch::{changed, diff};
pub use timers::{LIST, PROPERTIES, Timer, listed, proposed, timers};

/// Seconds of grace: the least and the most.
const GRACE: (i64, i64) = (300, 3_600);
/// Runs whose gaps are looked at.
const RUNS: usize = 10;

/// How jobs are to report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reporter {
    /// By `curl`, behind the job.
    Curl,
    /// By `overdue run`, which sends the start and the end of the output as well.
    Run,
}

/// What proposals are made with.
pub struct Maker<'a> {
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
    pub now: Moment,
    /// Draws a UUID.
    pub uuid: &'a dyn Fn() -> Uuid,
    /// Slugs that are given.
    slugs: BTreeSet<String>,
}

/// A job and the check that is proposed for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// The check's slug.
    pub slug: Slug,
    /// Its UUID, which stands in the edit.
    pub uuid: Uuid,
    /// When it is expected.
    pub settings: Settings,
    /// Where the job was found.
    pub place: String,
    /// What makes it report.
    pub edit: Edit,
}

/// What makes a job report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
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
pub struct Skipped {
    /// Where it was found.
    pub place: String,
    /// The job.
    pub job: String,
    /// A sentence.
    pub reason: String,
    /// Somebody should look at it.
    pub by_hand: bool,
}

/// What was found in one place.
#[derive(Default, Debug)]
pub struct Discovered {
    /// Jobs with checks.
    pub proposals: Vec<Proposal>,
    /// Jobs without.
    pub skipped: Vec<Skipped>,
}

impl Proposal {
    /// Gives the check another UUID, in the edit too.
    pub fn set_uuid(&mut self, uuid: Uuid) {
        let (old, new) = (self.uuid.to_string(), uuid.to_string());
        let (Edit::Line(_, text) | Edit::DropIn { text, .. }) = &mut self.edit;
        *text = text.replace(&old, &new);
        self.uuid = uuid;
    }
}

impl<'a> Maker<'a> {
    /// One that has proposed nothing yet.
    pub fn new(base_url: &'a str, host: &'a str, zone: Timezone, now: Moment, uuid: &'a dyn Fn() -> Uuid) -> Self {
        Self { base_url, host, zone, reporter: Reporter::Curl, run_parts: false, now, uuid, slugs: BTreeSet::new() }
    }

    fn url(&self, uuid: Uuid) -> String {
        format!("{}/ping/{uuid}", self.base_url)
    }

    /// Whether a command tells a server already.
    fn reports(&self, command: &str) -> bool {
        let own = format!("{}/ping/", self.base_url);
        [own.as_str(), "hc-ping.com", "runitor", "/ping/", "overdue run", "overdue ping"].iter().any(|part| command.contains(part))
    }

    /// A slug that no other proposal has.
    fn slug(&mut self, name: &str) -> Slug {
        let wanted = Name::parse(&format!("{} {name}", self.host)).map(|name| Slug::derived(&name)).unwrap_or_default();
        let wanted: String = if wanted.is_empty() { "job".into() } else { wanted.as_str().chars().take(90).collect() };
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let free = std::iter::once(wanted.clone()).chain(numbered).find(|slug| !self.slugs.contains(slug)).unwrap_or(wanted);
        self.slugs.insert(free.clone());
        Slug::parse(&free).unwrap_or_default()
    }

    /// What a check for a schedule is set to. `late`: seconds by which its job may begin late without anything being wrong.
    fn scheduled(&self, schedule: Schedule, zone: Option<Timezone>, late: i64) -> Settings {
        let tz = zone.unwrap_or_else(|| self.zone.clone());
        let runs: Vec<_> = schedule.series(self.now, &tz).take(RUNS).collect();
        let gaps = runs.iter().zip(runs.iter().skip(1)).map(|(one, next)| next.micros_since(*one) / 1_000_000).filter(|gap| *gap > 0);
        let grace = self.grace(gaps.min(), late);
        Settings { schedule: Some(std::sync::Arc::new(schedule)), tz, grace, ..Settings::default() }
    }

    /// The grace for jobs with such a gap between runs.
    fn grace(&self, gap: Option<i64>, late: i64) -> Seconds {
        let (least, most) = GRACE;
        let secs = gap.map_or(least, |gap| (gap / 10).clamp(least, most)) + late.max(0);
        Seconds::parse(secs).unwrap_or(Seconds::HOUR)
    }
}

#[cfg(test)]
mod tests;

//! Row of the list of checks: everything that is shown about a check on one line.

use std::fmt::Write as _;

use super::query::DisplayStatus;
use crate::domain::check::{Check, CheckSettings, CheckState};
use crate::domain::explanation::summarize_status;
use crate::domain::flip::Flip;
use crate::domain::formatting::{TimeFormatter, format_duration};
use crate::domain::recent_outcomes::{RecentOutcomes, RunOutcome};
use crate::domain::text::is_visible;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::http::dashboard::time_display::DisplayTime;

/// Row of the list of checks.
pub(crate) struct CheckListRow {
    pub(crate) id: u64,
    /// URL of the page of the check.
    pub(crate) page: String,
    pub(crate) shown: DisplayStatus,
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    /// Reason why alerts about the check reach no recipient.
    pub(crate) unnotified: Option<&'static str>,
    pub(crate) strip: OutcomeStrip,
    /// Description of the schedule.
    pub(crate) schedule_description: String,
    /// Schedule as configured, if the description does not contain all of it.
    pub(crate) configured_schedule: String,
    pub(crate) last: Option<DisplayTime>,
    pub(crate) took: Option<String>,
    /// Reason for the status, unless the check is up.
    pub(crate) reason: Option<RowReason>,
    pub(crate) next: Next<DisplayTime>,
    /// True if the viewer has pinned the check.
    pub(crate) is_pinned: bool,
    /// True if the viewer may change the check.
    pub(crate) is_selectable: bool,
    /// Heading of the group that begins with this row.
    pub(crate) heading: Option<String>,
    /// Project of the check, in a list of all projects.
    pub(crate) project: Option<RowProject>,
}

/// Project of a check in a row.
pub(crate) struct RowProject {
    pub(crate) name: String,
    /// URL of its list of checks.
    pub(crate) page: String,
}

/// Reason for the status of a check in a row.
pub(crate) struct RowReason {
    pub(crate) words: String,
    pub(crate) since: Option<DisplayTime>,
    /// Next change without a report, and its time.
    pub(crate) then: Option<(&'static str, DisplayTime)>,
    /// Reason for holding back the alert.
    pub(crate) held: Option<&'static str>,
}

/// Next event that a check waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next<At> {
    Nothing,
    /// A ping is expected at this time.
    Expected(At),
    /// A ping was expected at this time.
    Overdue(At),
    /// A run has been in progress since this time.
    Running(At),
}

impl Next<Timestamp> {
    /// Next event of a check with this display status. While it is down, the next run of its
    /// schedule.
    pub(crate) fn of(shown: DisplayStatus, check: &Check, now: Timestamp) -> Self {
        let settings = &check.settings;
        let next_run = || settings.schedule.as_ref()?.next_after(now, &settings.tz);
        match (shown, check.state.run, check.state.next_ping()) {
            (DisplayStatus::Late, _, Some(at)) => Self::Overdue(at),
            (_, Some(run), _) => Self::Running(run.start),
            (DisplayStatus::Up, None, Some(at)) => Self::Expected(at),
            (DisplayStatus::Down, None, _) => next_run().map_or(Self::Nothing, Self::Expected),
            _ => Self::Nothing,
        }
    }
}

impl<At> Next<At> {
    fn map<To>(self, to: impl FnOnce(At) -> To) -> Next<To> {
        match self {
            Self::Nothing => Next::Nothing,
            Self::Expected(at) => Next::Expected(to(at)),
            Self::Overdue(at) => Next::Overdue(to(at)),
            Self::Running(at) => Next::Running(to(at)),
        }
    }
}

/// Duration of the last run as text. `None` if it was not measured.
pub(crate) fn last_run_duration(state: &CheckState) -> Option<String> {
    state.last_duration.map(|took| {
        if took < MICROS_PER_SEC {
            "under 1 s".into()
        } else {
            format_duration(took)
        }
    })
}

/// Name of a check in a list: its name, or its slug if the name cannot be
/// seen.
pub(crate) fn visible_name(settings: &CheckSettings) -> &str {
    let names = [settings.name.as_str(), settings.slug.as_str()];
    names
        .into_iter()
        .find(|name| is_visible(name))
        .unwrap_or("unnamed")
}

impl CheckListRow {
    pub(super) fn new(
        check: &Check,
        page: String,
        last_flip: Option<Flip>,
        unnotified: Option<&'static str>,
        times: &TimeFormatter<'_>,
    ) -> Self {
        let settings = &*check.settings;
        let state = &check.state;
        let status = state.visible_status(settings, times.now);
        let shown = DisplayStatus::from_status(status, state.run.is_some());
        let when = |at| DisplayTime::relative(at, times);
        let configured_schedule = settings
            .schedule
            .as_ref()
            .map(|schedule| format!("{}, {}", schedule.text(), settings.tz.name()));
        Self {
            id: check.id.0,
            page,
            shown,
            name: visible_name(settings).to_owned(),
            tags: settings.tags.iter().map(str::to_owned).collect(),
            unnotified,
            strip: OutcomeStrip::new(state.outcomes),
            schedule_description: settings.describe_schedule(),
            configured_schedule: configured_schedule.unwrap_or_default(),
            last: state.last_ping.map(when),
            took: last_run_duration(state),
            reason: summarize_status(check, last_flip, times.now).map(|summary| RowReason {
                words: summary.reason,
                since: summary.since.map(|at| DisplayTime::elapsed(at, times)),
                then: summary.then.map(|(words, at)| (words, when(at))),
                held: summary.held,
            }),
            next: Next::of(shown, check, times.now).map(when),
            is_pinned: false,
            is_selectable: false,
            heading: None,
            project: None,
        }
    }
}

/// Last outcomes as bars: short for success, tall for failure, tall and hollow for a missed run.
/// One path for each kind.
#[derive(Default)]
pub(crate) struct OutcomeStrip {
    pub(crate) good: String,
    pub(crate) failed: String,
    pub(crate) missed: String,
    /// Description of the outcomes as text.
    pub(crate) words: String,
}

impl OutcomeStrip {
    fn new(outcomes: RecentOutcomes) -> Self {
        let mut strip = Self::default();
        let mut good = 0;
        let mut failed = 0;
        let mut missed = 0;
        let newest = i64::from(RecentOutcomes::CAPACITY) * 4;
        for (place, outcome) in (1_i64..).zip(outcomes.newest_first()) {
            let (path, count, bar) = match outcome {
                RunOutcome::Success => (&mut strip.good, &mut good, " 11v4"),
                RunOutcome::Fail => (&mut strip.failed, &mut failed, " 1v14"),
                RunOutcome::Missed => (&mut strip.missed, &mut missed, " 1.5h2v13h-2z"),
            };
            *count += 1;
            // Writing to memory does not fail.
            let _ = write!(path, "M{}.5{bar}", newest - place * 4);
        }
        let all = good + failed + missed;
        let of = |number: u32, what: &str| {
            if number == 0 {
                String::new()
            } else {
                format!(", {number} {what}")
            }
        };
        if all > 0 {
            strip.words = format!(
                "last {all}: {good} on time{}{}",
                of(failed, "failed"),
                of(missed, "missed")
            );
        }
        strip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strip_has_a_text_description() {
        let mut outcomes = RecentOutcomes::default();
        assert_eq!(OutcomeStrip::new(outcomes).words, "");
        for outcome in [
            RunOutcome::Missed,
            RunOutcome::Fail,
            RunOutcome::Success,
            RunOutcome::Success,
        ] {
            outcomes.push(outcome);
        }
        let strip = OutcomeStrip::new(outcomes);
        assert_eq!(strip.words, "last 4: 2 on time, 1 failed, 1 missed");
        assert_eq!(
            strip.good, "M124.5 11v4M120.5 11v4",
            "the newest stands at the right"
        );
        assert_eq!(
            (strip.failed.as_str(), strip.missed.as_str()),
            ("M116.5 1v14", "M112.5 1.5h2v13h-2z")
        );
        for _ in 0..40 {
            outcomes.push(RunOutcome::Success);
        }
        assert_eq!(OutcomeStrip::new(outcomes).words, "last 32: 32 on time");
    }
}

//! One row of the list of checks: all that is said about a check on one line.

use std::fmt::Write as _;

use super::query::Shown;
use crate::domain::check::{Check, CheckState};
use crate::domain::moment::{MICROS, Moment};
use crate::domain::outcomes::{Outcomes, RunOutcome};
use crate::domain::words::{Times, duration};
use crate::web::when::When;

/// See the module.
pub(crate) struct Row {
    pub(crate) id: u64,
    /// Where its page is.
    pub(crate) page: String,
    pub(crate) shown: Shown,
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    /// It tells nobody when it goes down.
    pub(crate) is_untold: bool,
    pub(crate) strip: Strip,
    /// When it is expected, in words.
    pub(crate) plan: String,
    /// The same as it was given, if the words are not all of it.
    pub(crate) given: String,
    pub(crate) last: Option<When>,
    pub(crate) took: Option<String>,
    pub(crate) next: Next<When>,
}

/// What a check waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next<At> {
    Nothing,
    /// A ping is expected.
    Expected(At),
    /// It was expected.
    Overdue(At),
    /// A run is going on since.
    Running(At),
}

impl Next<Moment> {
    /// What a check that is shown like this waits for.
    pub(crate) fn of(shown: Shown, state: &CheckState) -> Self {
        match (shown, state.run, state.next_ping()) {
            (Shown::Late, _, Some(at)) => Self::Overdue(at),
            (_, Some(run), _) => Self::Running(run.start),
            (Shown::Up, None, Some(at)) => Self::Expected(at),
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

/// How long the last run took, in words; `None`: it was not measured.
pub(crate) fn took(state: &CheckState) -> Option<String> {
    state.last_duration.map(|took| if took < MICROS { "under 1 s".into() } else { duration(took) })
}

impl Row {
    pub(super) fn of(check: &Check, page: String, is_untold: bool, times: &Times<'_>) -> Self {
        let (settings, state) = (&*check.settings, &check.state);
        let status = state.visible_status(settings, times.now);
        let shown = Shown::of(status, state.run.is_some());
        let when = |at| When::of(at, times);
        let given = settings.schedule.as_ref().map(|schedule| format!("{}, {}", schedule.text(), settings.tz.name()));
        Self {
            id: check.id.0,
            page,
            shown,
            name: settings.name.as_str().to_owned(),
            tags: settings.tags.iter().map(str::to_owned).collect(),
            is_untold,
            strip: Strip::of(state.outcomes),
            plan: settings.in_words(),
            given: given.unwrap_or_default(),
            last: state.last_ping.map(when),
            took: took(state),
            next: Next::of(shown, state).map(when),
        }
    }
}

/// The last outcomes as bars: a low one was on time, a tall one failed, a tall hollow one was missed. One path for each kind.
#[derive(Default)]
pub(crate) struct Strip {
    pub(crate) good: String,
    pub(crate) failed: String,
    pub(crate) missed: String,
    /// The same in words.
    pub(crate) words: String,
}

impl Strip {
    fn of(outcomes: Outcomes) -> Self {
        let (mut strip, mut good, mut failed, mut missed) = (Self::default(), 0, 0, 0);
        let newest = i64::from(Outcomes::KEPT) * 4;
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
        let of = |number: u32, what: &str| if number == 0 { String::new() } else { format!(", {number} {what}") };
        if all > 0 {
            strip.words = format!("last {all}: {good} on time{}{}", of(failed, "failed"), of(missed, "missed"));
        }
        strip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strip_says_in_words_what_it_shows() {
        let mut outcomes = Outcomes::default();
        assert_eq!(Strip::of(outcomes).words, "");
        for outcome in [RunOutcome::Missed, RunOutcome::Fail, RunOutcome::Success, RunOutcome::Success] {
            outcomes.push(outcome);
        }
        let strip = Strip::of(outcomes);
        assert_eq!(strip.words, "last 4: 2 on time, 1 failed, 1 missed");
        assert_eq!(strip.good, "M124.5 11v4M120.5 11v4", "the newest stands at the right");
        assert_eq!((strip.failed.as_str(), strip.missed.as_str()), ("M116.5 1v14", "M112.5 1.5h2v13h-2z"));
        for _ in 0..40 {
            outcomes.push(RunOutcome::Success);
        }
        assert_eq!(Strip::of(outcomes).words, "last 32: 32 on time");
    }
}

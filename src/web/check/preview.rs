//! What a schedule comes to, shown while it is typed: in words, its next moments, and what changes of the clocks do to it.

use askama::Template;

use super::fields::{Fields, Length};
use super::matches;
use crate::domain::check::Settings;
use crate::domain::clock_changes::surprises;
use crate::domain::moment::Moment;
use crate::domain::schedule::Schedule;
use crate::domain::timezone::Timezone;
use crate::domain::words::{Times, duration};
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::visit::Visit;

/// Moments that are shown.
const RUNS: usize = 5;

/// A moment of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Next {
    /// In the zone of the check.
    pub(super) at: String,
    /// How far away it is.
    pub(super) away: String,
    /// On the viewer's clock, if that shows another time.
    pub(super) yours: Option<String>,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Preview {
    /// What it comes to, or what is wrong.
    pub(super) words: Result<String, String>,
    pub(super) next: Vec<Next>,
    pub(super) surprises: Vec<String>,
    /// When it is late and when down.
    pub(super) end: String,
}

/// The block alone, for who types.
#[derive(Template)]
#[template(path = "_typed.html", config = "src/web/askama.toml")]
struct Block {
    preview: Preview,
    /// What the words would have made of the last pings.
    matches: String,
}

/// The block.
pub(crate) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let fields = Fields::read(&visit.query);
    let yours = Times { now: visit.now, zone: &visit.viewer.zone };
    let matches = matches::edited(visit).map_or_else(|| Ok(String::new()), |check| matches::sentence(visit, &check, &fields))?;
    Ok(Html::of(&Block { preview: Preview::of(&fields, &yours), matches }).into())
}

impl Preview {
    /// What the fields come to, for a viewer with this clock.
    pub(super) fn of(fields: &Fields, yours: &Times<'_>) -> Self {
        match fields.schedule() {
            Err(wrong) => Self { words: Err(wrong), next: Vec::new(), surprises: Vec::new(), end: String::new() },
            Ok((words, None)) => {
                Self { end: in_turn(&fields.period, &fields.grace), words: Ok(words), next: Vec::new(), surprises: Vec::new() }
            }
            Ok((words, Some((schedule, zone)))) => {
                let first = schedule.next_after(yours.now, &zone);
                Self {
                    words: Ok(format!("{words} in {}", zone.name())),
                    next: next_runs(&schedule, &zone, RUNS, yours),
                    surprises: surprises(&schedule, &zone, yours.now),
                    end: first
                        .map_or_else(|| "It has ended: nothing is expected any more.".into(), |first| late(first, &zone, fields, yours)),
                }
            }
        }
    }
}

/// The next moments of a schedule.
pub(super) fn next_runs(schedule: &Schedule, zone: &Timezone, most: usize, yours: &Times<'_>) -> Vec<Next> {
    let own = Times { zone, ..*yours };
    let next = |at: Moment| Next {
        at: own.with_offset(at),
        away: own.relative(at),
        yours: Some(yours.at(at)).filter(|_| own.at(at) != yours.at(at)),
    };
    schedule.series(yours.now, zone).take(most).map(next).collect()
}

/// When the first moment is missed.
fn late(first: Moment, zone: &Timezone, fields: &Fields, yours: &Times<'_>) -> String {
    let own = Times { zone, ..*yours };
    match fields.grace.seconds() {
        Ok(grace) => format!("Late from {}, down at {}.", own.at(first), own.at(first.plus_secs(grace.get()))),
        Err(_) => format!("Late from {}.", own.at(first)),
    }
}

/// What a period and a grace time come to.
fn in_turn(period: &Length, grace: &Length) -> String {
    let words = |length: &Length| length.seconds().map(|seconds| duration(Moment::from_secs(seconds.get()).micros()));
    match (words(period), words(grace)) {
        (Ok(period), Ok(grace)) => format!("Late {period} after its last ping, down {grace} later."),
        (Ok(period), Err(_)) => format!("Late {period} after its last ping."),
        _ => String::new(),
    }
}

impl Fields {
    /// When the check is expected, in words, with its schedule and zone if it has one; or what is wrong.
    fn schedule(&self) -> Result<(String, Option<(Schedule, Timezone)>), String> {
        let settings = self.expectation()?.applied(&Settings::default(), None);
        let words = settings.in_words();
        Ok((words, settings.schedule.map(|schedule| ((*schedule).clone(), settings.tz))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::visit::Query;

    fn preview(pairs: &[(&str, &str)]) -> Preview {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let zone = Timezone::parse("Europe/Berlin").unwrap();
        let now = Moment::from_micros("2026-11-20T11:30:00Z".parse::<jiff::Timestamp>().unwrap().as_microsecond());
        Preview::of(&Fields::read(&Query(pairs.collect())), &Times { now, zone: &zone })
    }

    #[test]
    fn a_schedule_is_shown_on_both_clocks() {
        let shown = preview(&[("expects", "cron"), ("cron", "30 3 * * *"), ("tz", "Europe/Riga"), ("grace", "15"), ("grace_unit", "min")]);
        assert_eq!(shown.words, Ok("every day at 03:30 in Europe/Riga".into()));
        assert_eq!(shown.next.len(), 5);
        let first = Next { at: "Sat 21 Nov 03:30 +02".into(), away: "in 14 h".into(), yours: Some("tomorrow 02:30".into()) };
        assert_eq!(shown.next[0], first);
        assert_eq!(shown.surprises, ["Clocks go forward on 28 Mar 2027: the run of 03:30 comes at 04:00."]);
        assert_eq!(shown.end, "Late from tomorrow 03:30, down at tomorrow 03:45.");
        let same = preview(&[("expects", "oncalendar"), ("oncalendar", "daily"), ("tz", "Europe/Berlin")]);
        assert_eq!((same.next[0].yours.as_deref(), same.end.as_str()), (None, "Late from tomorrow 00:00."));
    }

    #[test]
    fn what_is_wrong_is_said_in_its_own_words() {
        for (pairs, words) in [
            (&[("expects", "cron"), ("cron", "")][..], Err("Give an expression.")),
            (&[("expects", "cron"), ("cron", "daily"), ("tz", "UTC")], Err("This is no cron expression; choose OnCalendar for it.")),
            (
                &[("expects", "cron"), ("cron", "0 0 * * *"), ("tz", "Nowhere")],
                Err("Not a time zone: give an IANA name in its exact spelling, such as Europe/Riga or UTC."),
            ),
            (&[("expects", "period"), ("period", "0"), ("period_unit", "d")], Err("Between 1 minute and 365 days.")),
            (&[("expects", "period"), ("period", "12"), ("period_unit", "h")], Ok("every 12 hours")),
        ] {
            assert_eq!(preview(pairs).words, words.map(str::to_owned).map_err(str::to_owned), "{pairs:?}");
        }
        let in_turn = preview(&[("period", "1"), ("period_unit", "d"), ("grace", "90"), ("grace_unit", "min")]);
        assert_eq!((in_turn.words, in_turn.end), (Ok("every day".into()), "Late 1 day after its last ping, down 1 h 30 min later.".into()));
        let ended = preview(&[("expects", "oncalendar"), ("oncalendar", "2026-01-01"), ("tz", "UTC")]);
        assert_eq!((ended.next, ended.end.as_str()), (vec![], "It has ended: nothing is expected any more."));
    }
}

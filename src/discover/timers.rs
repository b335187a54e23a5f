//! Timers of systemd: what `systemctl` says of them, and the drop-ins by which their services report.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Discovered, Edit, Maker, Proposal, Skipped};
use crate::domain::check::Settings;
use crate::domain::schedule::Schedule;
use crate::domain::text::Seconds;

/// What `systemctl` is given to list timers.
pub const LIST: [&str; 4] = ["list-timers", "--all", "--output=json", "--no-pager"];
/// The properties that are asked for.
pub const PROPERTIES: &str = "Id,Unit,FragmentPath,TimersCalendar,TimersMonotonic,RandomizedDelayUSec,AccuracyUSec";

/// Where distributions keep their units.
const OF_DISTRIBUTION: [&str; 2] = ["/usr/lib/systemd/", "/lib/systemd/"];

#[derive(Deserialize)]
struct Row {
    unit: Option<String>,
}

/// The names of timers in the output of [`LIST`].
///
/// # Errors
/// When it is something else.
pub fn listed(json: &str) -> Result<Vec<String>, String> {
    let rows: Vec<Row> = serde_json::from_str(json).map_err(|error| format!("systemctl list-timers gave no JSON: {error}"))?;
    Ok(rows.into_iter().filter_map(|row| row.unit).filter(|unit| unit.ends_with(".timer")).collect())
}

/// A timer as `systemctl show` describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timer {
    id: String,
    unit: String,
    path: String,
    calendar: Vec<String>,
    /// Seconds after its service was last started.
    after_active: Option<i64>,
    /// Seconds by which it may be late.
    late: i64,
}

/// The timers in the output of `systemctl show -p PROPERTIES UNIT…`.
pub fn timers(shown: &str) -> Vec<Timer> {
    shown.split("\n\n").map(timer).filter(|timer| !timer.id.is_empty()).collect()
}

fn timer(shown: &str) -> Timer {
    let mut timer = Timer::default();
    for (name, value) in shown.lines().filter_map(|line| line.split_once('=')) {
        match name {
            "Id" => timer.id = value.into(),
            "Unit" => timer.unit = value.into(),
            "FragmentPath" => timer.path = value.into(),
            "TimersCalendar" => timer.calendar.extend(entry(value, "OnCalendar").map(String::from)),
            "TimersMonotonic" => {
                let active = ["OnUnitActiveUSec", "OnUnitInactiveUSec"].into_iter().find_map(|name| entry(value, name));
                timer.after_active = active.and_then(span).or(timer.after_active);
            }
            "RandomizedDelayUSec" | "AccuracyUSec" => timer.late += span(value).unwrap_or(0),
            _ => {}
        }
    }
    timer
}

/// The value in `{ NAME=value ; next_elapse=… }`.
fn entry<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let parts = text.trim().strip_prefix('{')?.split(';');
    parts
        .filter_map(|part| part.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.trim().trim_end_matches('}').trim())
}

/// A time span of systemd, `1h 30min`, in seconds.
fn span(text: &str) -> Option<i64> {
    let units = BTreeMap::from([
        ("us", 0),
        ("ms", 0),
        ("s", 1),
        ("min", 60),
        ("h", 3_600),
        ("d", 86_400),
        ("w", 604_800),
        ("month", 2_629_800),
        ("y", 31_557_600),
    ]);
    let part = |part: &str| {
        let digits = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
        let (number, unit) = part.split_at_checked(digits)?;
        let whole: i64 = number.split('.').next()?.parse().ok()?;
        whole.checked_mul(*units.get(if unit.is_empty() { "s" } else { unit })?)
    };
    text.split_whitespace().map(part).try_fold(0_i64, |sum, secs| sum.checked_add(secs?))
}

/// Checks for timers. Those of the distribution are left out unless `all`; `directory` holds the units of whoever runs them.
pub fn proposed(maker: &mut Maker<'_>, timers: &[Timer], directory: &str, all: bool) -> Discovered {
    let mut found = Discovered::default();
    for timer in timers {
        let mut skip = |reason: String, by_hand| {
            found.skipped.push(Skipped { place: timer.id.clone(), job: timer.unit.clone(), reason, by_hand });
        };
        if !all && OF_DISTRIBUTION.iter().any(|path| timer.path.starts_with(path)) {
            skip("it came with the distribution: --all makes checks of such timers, too".into(), false);
            continue;
        }
        let settings = match (timer.calendar.as_slice(), timer.after_active) {
            ([], None) => {
                skip("it is run after the machine starts, and has no schedule".into(), false);
                continue;
            }
            ([], Some(secs)) => match Seconds::parse(secs) {
                Ok(timeout) => Settings { timeout, grace: maker.grace(Some(secs), timer.late), ..Settings::default() },
                Err(_) => {
                    skip(format!("it is run every {secs} seconds; a period has {} to {}", Seconds::LEAST, Seconds::MOST), true);
                    continue;
                }
            },
            (calendar, _) => match Schedule::parse(&calendar.join("\n")) {
                Ok(schedule) => maker.scheduled(schedule, None, timer.late),
                Err(error) => {
                    skip(error.to_string(), true);
                    continue;
                }
            },
        };
        let name = timer.unit.strip_suffix(".service").unwrap_or(&timer.unit);
        let (slug, uuid) = (maker.slug(name), (maker.uuid)());
        let path = format!("{directory}/{}.d/overdue.conf", timer.unit);
        let edit = Edit::DropIn { path, text: drop_in(&maker.url(uuid)) };
        found.proposals.push(Proposal { slug, uuid, settings, place: timer.id.clone(), edit });
    }
    found
}

/// A file beside a service that has it report.
fn drop_in(url: &str) -> String {
    let curl = "curl -fsS -m 10 --retry 5 -o /dev/null";
    format!(
        "[Service]\nExecStartPre=-/bin/sh -c '{curl} {url}/start'\n\
         ExecStopPost=-/bin/sh -c 'if [ \"$$SERVICE_RESULT\" = success ]; then what=; else what=/fail; fi; {curl} {url}$$what'\n"
    )
}

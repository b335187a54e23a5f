//! Timers of systemd: parses the output of `systemctl`, and generates drop-ins by which their
//! services report.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{CheckProposal, CheckProposer, DiscoveryResult, JobEdit, SkippedJob};
use crate::domain::check::CheckSettings;
use crate::domain::number::Seconds;
use crate::domain::schedule::Schedule;

/// Arguments of `systemctl` that list timers.
pub const LIST_TIMERS_ARGS: [&str; 4] = ["list-timers", "--all", "--output=json", "--no-pager"];
/// Properties to query.
pub const TIMER_PROPERTIES: &str =
    "Id,Unit,FragmentPath,TimersCalendar,TimersMonotonic,RandomizedDelayUSec,AccuracyUSec";

/// Directories of units from distributions.
const DISTRIBUTION_UNIT_DIRECTORIES: [&str; 2] = ["/usr/lib/systemd/", "/lib/systemd/"];

#[derive(Deserialize)]
struct TimerListRow {
    unit: Option<String>,
}

/// Returns the names of timers in the output of [`LIST_TIMERS_ARGS`].
///
/// # Errors
/// If the output has another format.
pub fn parse_timer_list(json: &str) -> Result<Vec<String>, String> {
    let rows: Vec<TimerListRow> = serde_json::from_str(json)
        .map_err(|error| format!("systemctl list-timers printed no JSON: {error}"))?;
    Ok(rows
        .into_iter()
        .filter_map(|row| row.unit)
        .filter(|unit| unit.ends_with(".timer"))
        .collect())
}

/// A timer as `systemctl show` describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SystemdTimer {
    id: String,
    unit: String,
    path: String,
    calendar: Vec<String>,
    /// Seconds after the last start of its service.
    period_secs: Option<i64>,
    /// Seconds by which it may be late.
    max_delay_secs: i64,
}

/// Parses the timers in the output of `systemctl show -p PROPERTIES UNIT…`.
pub fn parse_timers(shown: &str) -> Vec<SystemdTimer> {
    shown
        .split("\n\n")
        .map(parse_timer)
        .filter(|timer| !timer.id.is_empty())
        .collect()
}

fn parse_timer(shown: &str) -> SystemdTimer {
    let mut timer = SystemdTimer::default();
    for (name, value) in shown.lines().filter_map(|line| line.split_once('=')) {
        match name {
            "Id" => timer.id = value.into(),
            "Unit" => timer.unit = value.into(),
            "FragmentPath" => timer.path = value.into(),
            "TimersCalendar" => timer
                .calendar
                .extend(entry_value(value, "OnCalendar").map(String::from)),
            "TimersMonotonic" => {
                let active = ["OnUnitActiveUSec", "OnUnitInactiveUSec"]
                    .into_iter()
                    .find_map(|name| entry_value(value, name));
                timer.period_secs = active.and_then(parse_time_span).or(timer.period_secs);
            }
            "RandomizedDelayUSec" | "AccuracyUSec" => {
                timer.max_delay_secs += parse_time_span(value).unwrap_or(0);
            }
            _ => {}
        }
    }
    timer
}

/// Returns the value in `{ NAME=value ; next_elapse=… }`.
fn entry_value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let parts = text.trim().strip_prefix('{')?.split(';');
    parts
        .filter_map(|part| part.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.trim().trim_end_matches('}').trim())
}

/// Parses a time span of systemd, `1h 30min`, to seconds.
fn parse_time_span(text: &str) -> Option<i64> {
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
        let digits = part
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(part.len());
        let (number, unit) = part.split_at_checked(digits)?;
        let whole: i64 = number.split('.').next()?.parse().ok()?;
        whole.checked_mul(*units.get(if unit.is_empty() { "s" } else { unit })?)
    };
    text.split_whitespace()
        .map(part)
        .try_fold(0_i64, |sum, secs| sum.checked_add(secs?))
}

/// Proposes checks for timers. Timers of the distribution are left out unless `all`; `directory` is
/// the directory for the units of the same owner.
pub fn propose_for_timers(
    proposer: &mut CheckProposer<'_>,
    timers: &[SystemdTimer],
    directory: &str,
    all: bool,
) -> DiscoveryResult {
    let mut found = DiscoveryResult::default();
    for timer in timers {
        let mut skip = |reason: String, needs_manual_edit| {
            found.skipped.push(SkippedJob {
                location: timer.id.clone(),
                job: timer.unit.clone(),
                reason,
                needs_manual_edit,
            });
        };
        if !all
            && DISTRIBUTION_UNIT_DIRECTORIES
                .iter()
                .any(|path| timer.path.starts_with(path))
        {
            skip(
                "it belongs to the distribution; --all includes such timers".into(),
                false,
            );
            continue;
        }
        let settings = match (timer.calendar.as_slice(), timer.period_secs) {
            ([], None) => {
                skip(
                    "it has no schedule: it runs after the machine starts".into(),
                    false,
                );
                continue;
            }
            ([], Some(secs)) => match Seconds::parse(secs) {
                Ok(timeout) => CheckSettings {
                    timeout,
                    grace: proposer.grace_for_gap(Some(secs), timer.max_delay_secs),
                    ..CheckSettings::default()
                },
                Err(_) => {
                    skip(
                        format!(
                            "it runs every {secs} seconds; the period of a check is {} to {} \
                             seconds",
                            Seconds::MIN,
                            Seconds::MAX
                        ),
                        true,
                    );
                    continue;
                }
            },
            (calendar, _) => match Schedule::parse(&calendar.join("\n")) {
                Ok(schedule) => proposer.schedule_settings(schedule, None, timer.max_delay_secs),
                Err(error) => {
                    skip(error.to_string(), true);
                    continue;
                }
            },
        };
        let name = timer.unit.strip_suffix(".service").unwrap_or(&timer.unit);
        let slug = proposer.unique_slug(name);
        let uuid = (proposer.generate_uuid)();
        let path = format!("{directory}/{}.d/overdue.conf", timer.unit);
        let edit = JobEdit::DropIn {
            path,
            text: drop_in(&proposer.ping_url(uuid)),
        };
        found.proposals.push(CheckProposal {
            slug,
            uuid,
            settings,
            location: timer.id.clone(),
            edit,
        });
    }
    found
}

/// Returns the drop-in file that makes a service report.
fn drop_in(url: &str) -> String {
    let curl = "curl -fsS -m 10 --retry 5 -o /dev/null";
    format!(
        "[Service]\nExecStartPre=-/bin/sh -c '{curl} {url}/start'\nExecStopPost=-/bin/sh -c 'if [ \
         \"$$SERVICE_RESULT\" = success ]; then what=; else what=/fail; fi; {curl} {url}$$what'\n"
    )
}

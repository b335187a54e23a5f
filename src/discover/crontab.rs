//! Lines of crontabs: which jobs they hold, and how each would report.

use super::words::{ends_shell, hides_status, is_compound, name, quoted, trouble};
use super::{Discovered, Edit, Maker, Proposal, Reporter, Skipped};
use crate::domain::schedule::Schedule;
use crate::domain::timezone::Timezone;

/// Whose crontab it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The system's: a user stands before each command.
    System,
    /// A user's.
    User,
}

/// A crontab.
#[derive(Clone, Debug)]
pub struct Crontab {
    /// How messages call it: a path, or `crontab`.
    pub name: String,
    /// What stands in it.
    pub text: String,
    /// Whose it is.
    pub whose: Whose,
}

/// Words that stand for five fields.
const WORDS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// A line with a job: what stands before the command, when it is run, and the command.
struct Line<'a> {
    before: &'a str,
    when: &'a str,
    command: &'a str,
}

/// Parts a line after so many words.
fn parted(line: &str, words: usize) -> Option<(&str, &str)> {
    let (mut at, mut rest) = (0, line);
    for _ in 0..words {
        let blank = rest.len() - rest.trim_start().len();
        let word = rest.trim_start().split([' ', '\t']).next().filter(|word| !word.is_empty())?;
        at += blank + word.len();
        rest = line.get(at..)?;
    }
    let blank = rest.len() - rest.trim_start().len();
    line.split_at_checked(at + blank)
}

fn job(line: &str, whose: Whose) -> Option<Line<'_>> {
    let of_time = if line.trim_start().starts_with('@') { 1 } else { 5 };
    let (when, _) = parted(line, of_time)?;
    let (before, command) = parted(line, of_time + usize::from(whose == Whose::System))?;
    (!command.is_empty()).then(|| Line { before, when: when.trim(), command })
}

/// The name and the value of a line that sets a variable.
fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim().trim_matches('"'), value.trim());
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.starts_with(|c: char| c.is_ascii_digit());
    (!name.is_empty() && is_name).then(|| (name, value.trim_matches(['"', '\''])))
}

/// The jobs of a crontab.
pub fn crontab(maker: &mut Maker<'_>, crontab: &Crontab) -> Discovered {
    let mut found = Discovered::default();
    let mut zone: Result<Option<Timezone>, String> = Ok(None);
    for (number, line) in crontab.text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = variable(trimmed) {
            // TZ is for the commands alone (crontab(5)).
            if name == "CRON_TZ" {
                zone = Timezone::parse(value).map(Some).map_err(|error| format!("its time zone, {value}, is {error}"));
            }
            continue;
        }
        let place = format!("{}:{}", crontab.name, number + 1);
        let mut skip = |reason: &str, by_hand| {
            found.skipped.push(Skipped { place: place.clone(), job: trimmed.into(), reason: reason.into(), by_hand });
        };
        let Some(Line { before, when, command }) = job(line, crontab.whose) else {
            skip("it is no line of a crontab", true);
            continue;
        };
        if when == "@reboot" {
            skip("it has no schedule: it is run when the machine starts", false);
        } else if maker.reports(command) {
            skip("it reports already", false);
        } else if command.contains("run-parts") && !maker.run_parts {
            skip("it runs all jobs of a directory: --run-parts makes one check of them", false);
        } else if let Some(reason) = trouble(command) {
            skip(reason, true);
        } else if let Some(last) = hides_status(command) {
            let reason = format!(
                "its exit status is that of {last}, so that its check could not fail: let bash set -o pipefail, or write the output to a file"
            );
            skip(&reason, true);
        } else {
            let when = WORDS.iter().find(|(word, _)| *word == when).map_or(when, |(_, fields)| fields);
            let schedule = Schedule::parse(&when.split_whitespace().collect::<Vec<_>>().join(" ")).map_err(|error| error.to_string());
            match schedule.and_then(|schedule| Ok((schedule, zone.clone()?))) {
                Ok((schedule, zone)) => {
                    let settings = maker.scheduled(schedule, zone, 0);
                    let (slug, uuid) = (maker.slug(&name(command)), (maker.uuid)());
                    let edit = Edit::Line(number, format!("{before}{}", edited(maker, command.trim_end(), &maker.url(uuid))));
                    found.proposals.push(Proposal { slug, uuid, settings, place, edit });
                }
                Err(reason) => skip(&reason, true),
            }
        }
    }
    found
}

/// A command that reports as well.
fn edited(maker: &Maker<'_>, command: &str, url: &str) -> String {
    match maker.reporter {
        Reporter::Curl if is_compound(command) || ends_shell(command) => {
            format!("( {command} ); curl -fsS -m 10 --retry 5 -o /dev/null {url}/$?")
        }
        Reporter::Curl => format!("{command}; curl -fsS -m 10 --retry 5 -o /dev/null {url}/$?"),
        Reporter::Run => format!("overdue run {url} -- sh -c {}", quoted(command)),
    }
}

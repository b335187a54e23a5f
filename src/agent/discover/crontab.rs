//! Jobs in the lines of crontabs, and edits that make them report.

use super::shell_command::{
    ends_shell, find_edit_obstacle, find_program_hiding_status, is_compound, job_name, shell_quote,
};
use super::{CheckProposal, CheckProposer, DiscoveryResult, JobEdit, Reporter, SkippedJob};
use crate::domain::schedule::Schedule;
use crate::domain::timezone::Timezone;

/// Owner of a crontab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrontabOwner {
    /// The system: each command is preceded by a user.
    System,
    /// A user.
    User,
}

/// A crontab.
#[derive(Clone, Debug)]
pub struct Crontab {
    /// Name in messages: a path, or `crontab`.
    pub name: String,
    /// Content of the crontab.
    pub text: String,
    /// Owner of the crontab.
    pub owner: CrontabOwner,
}

/// Words that replace the five fields.
const SCHEDULE_NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// A line with a job: the text before the command, the schedule, and the command.
struct CrontabLine<'a> {
    prefix: &'a str,
    schedule: &'a str,
    command: &'a str,
}

/// Splits a line after this number of words.
fn split_after_words(line: &str, words: usize) -> Option<(&str, &str)> {
    let mut at = 0;
    let mut rest = line;
    for _ in 0..words {
        let blank = rest.len() - rest.trim_start().len();
        let word = rest
            .trim_start()
            .split([' ', '\t'])
            .next()
            .filter(|word| !word.is_empty())?;
        at += blank + word.len();
        rest = line.get(at..)?;
    }
    let blank = rest.len() - rest.trim_start().len();
    line.split_at_checked(at + blank)
}

fn parse_job_line(line: &str, owner: CrontabOwner) -> Option<CrontabLine<'_>> {
    let schedule_words = if line.trim_start().starts_with('@') {
        1
    } else {
        5
    };
    let (schedule, _) = split_after_words(line, schedule_words)?;
    let (prefix, command) = split_after_words(
        line,
        schedule_words + usize::from(owner == CrontabOwner::System),
    )?;
    (!command.is_empty()).then(|| CrontabLine {
        prefix,
        schedule: schedule.trim(),
        command,
    })
}

/// Returns the name and the value of a line that sets a variable.
fn parse_variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim().trim_matches('"');
    let value = value.trim();
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    (!name.is_empty() && is_name).then(|| (name, value.trim_matches(['"', '\''])))
}

/// Proposes checks for the jobs of a crontab.
pub fn propose_for_crontab(proposer: &mut CheckProposer<'_>, crontab: &Crontab) -> DiscoveryResult {
    let mut found = DiscoveryResult::default();
    let mut zone: Result<Option<Timezone>, String> = Ok(None);
    for (number, line) in crontab.text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = parse_variable(trimmed) {
            // TZ is for the commands alone (crontab(5)).
            if name == "CRON_TZ" {
                zone = Timezone::parse(value)
                    .map(Some)
                    .map_err(|error| format!("its time zone, {value}, is {error}"));
            }
            continue;
        }
        let location = format!("{}:{}", crontab.name, number + 1);
        let mut skip = |reason: &str, needs_manual_edit| {
            found.skipped.push(SkippedJob {
                location: location.clone(),
                job: trimmed.into(),
                reason: reason.into(),
                needs_manual_edit,
            });
        };
        let Some(CrontabLine {
            prefix,
            schedule: schedule_text,
            command,
        }) = parse_job_line(line, crontab.owner)
        else {
            skip("it is not a line of a crontab", true);
            continue;
        };
        if schedule_text == "@reboot" {
            skip("it has no schedule: it runs when the machine starts", false);
        } else if proposer.already_reports(command) {
            skip("it already reports", false);
        } else if command.contains("run-parts") && !proposer.run_parts {
            skip(
                "it runs all jobs of a directory; --run-parts proposes one check for them",
                false,
            );
        } else if let Some(reason) = find_edit_obstacle(command) {
            skip(reason, true);
        } else if let Some(last) = find_program_hiding_status(command) {
            let reason = format!(
                "its exit status is that of {last}, which hides failures of the job: use set -o \
                 pipefail in bash, or write the output to a file"
            );
            skip(&reason, true);
        } else {
            let cron_fields = SCHEDULE_NICKNAMES
                .iter()
                .find(|(word, _)| *word == schedule_text)
                .map_or(schedule_text, |(_, fields)| fields);
            let schedule =
                Schedule::parse(&cron_fields.split_whitespace().collect::<Vec<_>>().join(" "))
                    .map_err(|error| error.to_string());
            match schedule.and_then(|schedule| Ok((schedule, zone.clone()?))) {
                Ok((schedule, zone)) => {
                    let settings = proposer.schedule_settings(schedule, zone, 0);
                    let slug = proposer.unique_slug(&job_name(command));
                    let uuid = (proposer.generate_uuid)();
                    let new = format!(
                        "{prefix}{}",
                        reporting_command(proposer, command.trim_end(), &proposer.ping_url(uuid))
                    );
                    let edit = JobEdit::Line {
                        number,
                        old: line.into(),
                        new,
                    };
                    found.proposals.push(CheckProposal {
                        slug,
                        uuid,
                        settings,
                        location,
                        edit,
                    });
                }
                Err(reason) => skip(&reason, true),
            }
        }
    }
    found
}

/// Returns a command that also reports.
fn reporting_command(proposer: &CheckProposer<'_>, command: &str, url: &str) -> String {
    match proposer.reporter {
        Reporter::Curl if is_compound(command) || ends_shell(command) => {
            format!("( {command} ); curl -fsS -m 10 --retry 5 -o /dev/null {url}/$?")
        }
        Reporter::Curl => format!("{command}; curl -fsS -m 10 --retry 5 -o /dev/null {url}/$?"),
        Reporter::Run => format!("overdue run {url} -- sh -c {}", shell_quote(command)),
    }
}

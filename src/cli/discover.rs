//! `overdue discover`: its flags, and the output of the proposals.

mod earlier_checks;
mod system;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf, absolute};

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::CliError;
use super::common_args::{JsonFlag, read_limited};
use super::config_files::replace_private_file;
use super::table::{self, sanitize};
use crate::agent::discover::{
    self, CheckProposal, CheckProposer, Crontab, CrontabOwner, DiscoveryResult, JobEdit, Reporter,
};
use crate::config;
use crate::domain::check::CheckSettings;
use crate::domain::formatting::{format_count, shell_word};
use crate::domain::project::ProjectName;
use crate::domain::text::Name;
use crate::domain::timezone::Timezone;
use crate::http::BaseUrl;
use crate::server::{DEFAULT_LISTEN, machine_timezone};
use crate::store::path_access::make_own_directory;
use crate::util::clock::Clock;
use crate::util::random::Random;
use earlier_checks::EarlierChecks;

/// Name of the file with the checks, for `apply`.
const CHECKS_FILE: &str = "overdue.toml";
/// Name of the file with the edits of crontabs and units, for `patch`.
const PATCH_FILE: &str = "overdue.patch";
/// Name of the file with the edited crontab of the current user.
const CRONTAB_FILE: &str = "crontab";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReporterArg {
    Curl,
    Run,
}

#[derive(Args)]
pub(super) struct DiscoverArgs {
    /// URL at which clients reach the server [default: that of a server on this machine]
    #[arg(long, env = "OVERDUE_BASE_URL", value_name = "URL")]
    base_url: Option<BaseUrl>,

    /// Name of the project for the checks
    #[arg(
        long,
        env = "OVERDUE_PROJECT",
        value_name = "NAME",
        default_value = "default",
        value_parser = ProjectName::parse
    )]
    project: ProjectName,

    /// Read this crontab instead of the crontabs and timers of the machine; may be given several
    /// times, with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_CRONTAB",
        value_name = "FILE",
        value_delimiter = ','
    )]
    crontab: Vec<PathBuf>,

    /// These crontabs have a user before each command, as /etc/crontab does
    #[arg(
        long,
        env = "OVERDUE_USER_COLUMN",
        requires = "crontab",
        value_parser = FalseyValueParser::new()
    )]
    user_column: bool,

    /// Program by which jobs report: curl after the job, or overdue run, which also sends the start
    /// and the output
    #[arg(long, env = "OVERDUE_WITH", value_enum, default_value = "curl")]
    with: ReporterArg,

    /// Prefix of slugs [default: the name of this machine]
    #[arg(long, env = "OVERDUE_HOST", value_name = "NAME")]
    host: Option<String>,

    /// Time zone of schedules without a time zone [default: that of the machine]
    #[arg(long, env = "OVERDUE_TIME_ZONE", value_name = "ZONE")]
    time_zone: Option<String>,

    /// Also propose checks for timers of the distribution
    #[arg(long, env = "OVERDUE_ALL", value_parser = FalseyValueParser::new())]
    all: bool,

    /// Propose one check for each directory of jobs, such as /etc/cron.daily
    #[arg(long, env = "OVERDUE_RUN_PARTS", value_parser = FalseyValueParser::new())]
    run_parts: bool,

    /// Write overdue.toml, overdue.patch and an edited crontab to this directory. Other users must
    /// not have write access to it
    #[arg(long, env = "OVERDUE_WRITE", value_name = "DIR")]
    write: Option<PathBuf>,

    #[command(flatten)]
    json: JsonFlag,
}

/// Proposals from one source, and the text whose lines are edited.
struct DiscoverySource {
    crontab: Option<Crontab>,
    discovered: DiscoveryResult,
}

impl DiscoverySource {
    fn line_edits(&self) -> BTreeMap<usize, String> {
        let line = |proposal: &CheckProposal| match &proposal.edit {
            JobEdit::Line { number, new, .. } => Some((*number, new.clone())),
            JobEdit::DropIn { .. } => None,
        };
        self.discovered.proposals.iter().filter_map(line).collect()
    }
}

impl DiscoverArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let zone = self
            .time_zone
            .as_deref()
            .map_or_else(|| Ok(machine_timezone()), Timezone::parse)
            .map_err(CliError::usage)?;
        let base_url = self.base_url.as_ref().map_or_else(
            || format!("http://{DEFAULT_LISTEN}"),
            |url| url.as_str().to_owned(),
        );
        let host = self.host.clone().unwrap_or_else(system::host_name);
        let random = Random::System;
        let draw = || random.uuid();
        let mut proposer = CheckProposer::new(&base_url, &host, zone, Clock::System.now(), &draw);
        proposer.reporter = if self.with == ReporterArg::Run {
            Reporter::Run
        } else {
            Reporter::Curl
        };
        proposer.run_parts = self.run_parts;
        let sources = self.discover_sources(&mut proposer)?;
        for skipped in sources.iter().flat_map(|source| &source.discovered.skipped) {
            let kind = if skipped.needs_manual_edit {
                "edit manually"
            } else {
                "skipped"
            };
            let message = format!(
                "{kind}: {}: {}: {}",
                skipped.location, skipped.reason, skipped.job
            );
            let _ = writeln!(io::stderr(), "overdue: {}", sanitize(&message));
        }
        if let Some(directory) = &self.write {
            return self.write_files(directory, sources);
        }
        let text = if self.json.json {
            table::to_json(&to_json(&sources)).map_err(CliError::output_failed)?
        } else {
            self.to_toml(&sources)
        };
        match table::print_lines(&[text.trim_end().to_owned()]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(CliError::output_failed),
        }
    }

    fn discover_sources(
        &self,
        proposer: &mut CheckProposer<'_>,
    ) -> Result<Vec<DiscoverySource>, CliError> {
        let mut crontabs = Vec::new();
        for file in &self.crontab {
            let text = read_limited(file, system::MAX_CRONTAB_BYTES).map_err(|error| {
                CliError::other(format!(
                    "cannot read {}: {error}",
                    sanitize(&file.display().to_string())
                ))
            })?;
            let owner = if self.user_column {
                CrontabOwner::System
            } else {
                CrontabOwner::User
            };
            crontabs.push(Crontab {
                name: file.display().to_string(),
                text: String::from_utf8_lossy(&text).into_owned(),
                owner,
            });
        }
        let is_foreign = !crontabs.is_empty();
        if !is_foreign {
            crontabs = system::read_crontabs();
        }
        let mut sources: Vec<_> = crontabs
            .into_iter()
            .map(|crontab| DiscoverySource {
                discovered: discover::propose_for_crontab(proposer, &crontab),
                crontab: Some(crontab),
            })
            .collect();
        if !is_foreign {
            for (timers, directory) in system::query_timers() {
                let discovered =
                    discover::propose_for_timers(proposer, &timers, &directory, self.all);
                sources.push(DiscoverySource {
                    crontab: None,
                    discovered,
                });
            }
        }
        Ok(sources)
    }

    /// Returns the checks as a file that `apply` reads.
    fn to_toml(&self, sources: &[DiscoverySource]) -> String {
        let objects = sources
            .iter()
            .flat_map(|source| &source.discovered.proposals)
            .map(|proposal| {
                let CheckProposal {
                    slug,
                    uuid,
                    settings,
                    ..
                } = proposal;
                let name = Name::parse(slug.as_str()).unwrap_or_default();
                let settings = CheckSettings {
                    slug: slug.clone(),
                    name,
                    ..settings.clone()
                };
                config::export_proposed_check(
                    self.project.as_str(),
                    *uuid,
                    &settings,
                    proposal_comments(proposal),
                )
            });
        let objects: Vec<_> = objects.collect();
        config::to_toml(
            &objects,
            &[
                "Checks for jobs of this machine: `overdue apply` creates them, the edits make \
                 the jobs report.",
            ],
        )
    }

    /// Writes files that only their owner can read: crontabs may contain secrets, and ping URLs are
    /// secrets. In a directory of another user, that user could replace them before they are
    /// applied. Jobs that an earlier run wrote there keep their URLs.
    fn write_files(
        &self,
        directory: &Path,
        mut sources: Vec<DiscoverySource>,
    ) -> Result<(), CliError> {
        let checks: usize = sources
            .iter()
            .map(|source| source.discovered.proposals.len())
            .sum();
        if checks == 0 {
            // The files of an earlier run may still be of use.
            let _ = writeln!(
                io::stderr(),
                "overdue: no job was found for which a check can be proposed; nothing was written"
            );
            return Ok(());
        }
        let failed = |error: &dyn Error| {
            CliError::other(format!("cannot write to {}: {error}", directory.display()))
        };
        make_own_directory(directory).map_err(|error| failed(&error))?;
        let directory = &absolute(directory).map_err(|error| failed(&error))?;
        let file = |name: &str| directory.join(name);
        let earlier = EarlierChecks::read(&file(CHECKS_FILE)).map_err(|error| failed(&error))?;
        let mut earlier =
            earlier.without_reporting(sources.iter().flat_map(|source| &source.discovered.skipped));
        sources
            .iter_mut()
            .flat_map(|source| &mut source.discovered.proposals)
            .for_each(|proposal| earlier.restore(proposal));
        let write = |name: &str, text: &str| {
            let written =
                replace_private_file(&file(name), |file| Ok(file.write_all(text.as_bytes())?));
            written.map_err(|error| failed(&*error))
        };
        let mut patch = String::new();
        let mut has_crontab = false;
        for source in &sources {
            let lines = source.line_edits();
            match &source.crontab {
                Some(crontab) if crontab.name == system::OWN_CRONTAB_NAME && !lines.is_empty() => {
                    write(CRONTAB_FILE, &discover::apply_edits(&crontab.text, &lines))?;
                    has_crontab = true;
                }
                Some(crontab) => {
                    patch += &discover::unified_diff(
                        crontab.name.trim_start_matches('/'),
                        &crontab.text,
                        &lines,
                    );
                }
                None => {}
            }
            for proposal in &source.discovered.proposals {
                let JobEdit::DropIn { path, text } = &proposal.edit else {
                    continue;
                };
                patch += &discover::new_file_diff(path.trim_start_matches('/'), text);
            }
        }
        write(CHECKS_FILE, &self.to_toml(&sources))?;
        write(PATCH_FILE, &patch)?;
        let word = |name: &str| shell_word(&file(name).to_string_lossy());
        // Paths of crontabs on the command line may be relative.
        let cd = if self.crontab.iter().any(|path| path.is_relative()) {
            ""
        } else {
            "cd / && "
        };
        let edits = [
            (!patch.is_empty()).then(|| {
                format!(
                    "in {} ({cd}patch -p0 < {})",
                    file(PATCH_FILE).display(),
                    word(PATCH_FILE)
                )
            }),
            has_crontab.then(|| {
                format!(
                    "for your own crontab in {} (crontab {})",
                    file(CRONTAB_FILE).display(),
                    word(CRONTAB_FILE)
                )
            }),
        ];
        let edits = edits
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" and ");
        if !has_crontab && file(CRONTAB_FILE).symlink_metadata().is_ok() {
            let message = format!(
                "{} was not written by this run",
                file(CRONTAB_FILE).display()
            );
            let _ = writeln!(io::stderr(), "overdue: {}", sanitize(&message));
        }
        let message = format!(
            "wrote {} to {}; the edits are {edits}",
            format_count(checks, "check"),
            file(CHECKS_FILE).display()
        );
        let _ = writeln!(io::stderr(), "overdue: {}", sanitize(&message));
        Ok(())
    }
}

/// Returns the comments of a check: the location of its job, and the edit that makes it report.
/// [`EarlierChecks`] reads them again. Comments of TOML may contain the same characters as a
/// terminal line.
fn proposal_comments(proposal: &CheckProposal) -> Vec<String> {
    let comments = match &proposal.edit {
        JobEdit::Line { old, new, .. } => {
            vec![
                format!("{}:", proposal.location),
                old.trim().into(),
                "becomes:".into(),
                new.trim().into(),
            ]
        }
        JobEdit::DropIn { path, .. } => {
            vec![format!("{}: {path} makes it report", proposal.location)]
        }
    };
    comments.iter().map(|comment| sanitize(comment)).collect()
}

/// Returns the result as JSON for programs.
fn to_json(sources: &[DiscoverySource]) -> serde_json::Value {
    let proposal = |proposal: &CheckProposal| {
        let CheckProposal {
            slug,
            uuid,
            settings,
            location,
            edit,
        } = proposal;
        let schedule = settings.schedule.as_ref();
        let (line, becomes, file, content) = match edit {
            JobEdit::Line { number, new, .. } => (Some(number + 1), Some(new), None, None),
            JobEdit::DropIn { path, text } => (None, None, Some(path), Some(text)),
        };
        json!({
            "slug": slug.as_str(),
            "uuid": uuid,
            "place": location,
            "schedule": schedule.map(|schedule| schedule.text()),
            "tz": schedule.map(|_| settings.tz.name()),
            "timeout": schedule.is_none().then(|| settings.timeout.get()),
            "grace": settings.grace.get(),
            "line": line,
            "becomes": becomes,
            "file": file,
            "content": content,
        })
    };
    let skipped = |skipped: &discover::SkippedJob| {
        json!({
            "place": skipped.location,
            "job": skipped.job,
            "reason": skipped.reason,
            "by_hand": skipped.needs_manual_edit,
        })
    };
    let checks: Vec<_> = sources
        .iter()
        .flat_map(|source| &source.discovered.proposals)
        .map(proposal)
        .collect();
    let skipped_jobs: Vec<_> = sources
        .iter()
        .flat_map(|source| &source.discovered.skipped)
        .map(skipped)
        .collect();
    json!({ "checks": checks, "skipped": skipped_jobs })
}

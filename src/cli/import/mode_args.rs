//! Flags that every import has, and their effects: dry run, replacement of projects, and the final
//! state.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{ArgGroup, Args};

use super::super::common_args::JsonFlag;
use super::super::{CliError, table};
use super::upload::{self, ImportUpload, import_refused};
use crate::domain::formatting::format_count;
use crate::domain::import_contents::ImportContents;
use crate::domain::project::ProjectName;
use crate::engine::command::import::LocalChanges;
use crate::import::{ImportReport, ProjectSelection};

#[derive(Args)]
#[command(
    group = ArgGroup::new("mode").args(["dry_run", "trial", "live"]).required(true).multiple(false)
)]
pub(super) struct ImportModeArgs {
    /// Show what would be imported, and change nothing
    #[arg(long, env = "OVERDUE_DRY_RUN", value_parser = FalseyValueParser::new())]
    dry_run: bool,

    /// Import on trial: the projects work as usual, but send no alerts until `overdue project
    /// release`
    #[arg(long, env = "OVERDUE_TRIAL", value_parser = FalseyValueParser::new())]
    trial: bool,

    /// Import, and send alerts from now on
    #[arg(long, env = "OVERDUE_LIVE", value_parser = FalseyValueParser::new())]
    live: bool,

    /// Import only the project with this name or UUID, under the new name if one is given; may be
    /// given several times, with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_PROJECT",
        value_name = "OLD[=NEW]",
        value_delimiter = ',',
        value_parser = parse_project_mapping
    )]
    pub(super) project: Vec<ProjectSelection>,

    /// Also replace projects whose checks were pinged or changed here since the last import.
    /// Changes and logs made here are lost
    #[arg(long, env = "OVERDUE_REPLACE", value_parser = FalseyValueParser::new())]
    replace: bool,

    /// Do not ask for confirmation; required if the command does not run on a terminal
    #[arg(long, env = "OVERDUE_YES", value_parser = FalseyValueParser::new())]
    yes: bool,

    #[command(flatten)]
    json: JsonFlag,
}

fn parse_project_mapping(text: &str) -> Result<ProjectSelection, &'static str> {
    let (old, new) = text
        .split_once('=')
        .map_or((text, None), |(old, new)| (old, Some(new)));
    Ok(ProjectSelection {
        source_name: old.to_owned(),
        new_name: new.map(ProjectName::parse).transpose()?,
    })
}

impl ImportModeArgs {
    /// Returns an error if no mode was given; a variable may also say no.
    pub(super) fn require_mode(&self) -> Result<(), CliError> {
        if self.dry_run || self.trial || self.live {
            Ok(())
        } else {
            Err(CliError::usage("give --dry-run, --trial or --live"))
        }
    }

    /// True if nothing may be changed.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Compares with the state of a running server, and shows the result of a dry run.
    pub(super) fn finish_dry_run(
        &self,
        data: impl FnOnce() -> Result<PathBuf, CliError>,
        imported: ImportContents,
        report: ImportReport,
        next: &[&str],
    ) -> Result<(), CliError> {
        let summary = "nothing was changed: this was a dry run";
        // A database without a running server is not opened: that could migrate it to the layout of
        // this release.
        let preview = data()
            .map_or(Ok(None), |directory| upload::connect_to_server(&directory))
            .and_then(|server| {
                let Some(server) = server else {
                    return Ok(None);
                };
                let mut upload = upload::begin(server, &imported)?;
                let preview = upload
                    .send_objects(imported)
                    .and_then(|()| upload.dry_run(self.live));
                preview.map(Some).map_err(import_refused)
            });
        match preview {
            Ok(None) => self.print_report(
                &report,
                next,
                &format!("{summary}; no server is running here to compare with"),
            ),
            Ok(Some((replaced, lost))) if self.replace || lost == LocalChanges::default() => {
                self.print_report(&report.with_replacement(replaced, lost), next, summary)
            }
            // The error comes last, because nothing else may be done before it is resolved.
            Ok(Some((replaced, lost))) => self
                .print_report(&report.with_replacement(replaced, lost), &[], summary)
                .and(Err(upload::replace_required(&lost))),
            Err(failure) => self.print_report(&report, &[], summary).and(Err(failure)),
        }
    }

    /// Sends the remaining objects and finishes the import. Returns a message with the result.
    pub(super) fn finish(
        &self,
        mut upload: ImportUpload,
        imported: ImportContents,
    ) -> Result<String, CliError> {
        let projects = imported.projects.len();
        upload.send_objects(imported).map_err(import_refused)?;
        let (replaced, lost) = upload::finish(&mut upload, self.live, self.replace, self.yes)?;
        let mode = if self.trial {
            "is on trial and sends no alerts until `overdue project release`"
        } else {
            "sends alerts from now on"
        };
        let replacement = if replaced > 0 {
            format!(", {replaced} of them in place of an earlier import")
        } else {
            String::new()
        };
        let affected = if projects == 1 {
            "the project"
        } else {
            "each project"
        };
        let mut summary = format!(
            "{} imported{replacement}: {affected} {mode}",
            format_count(projects, "project")
        );
        if upload.target().has_empty_default() {
            summary += r#"; the empty project "default" is unchanged"#;
        }
        if lost != LocalChanges::default() {
            summary += &format!("; {lost}: these changes are lost");
        }
        Ok(summary)
    }

    /// Prints the result of each item, and the next steps.
    pub(super) fn print_report(
        &self,
        report: &ImportReport,
        next: &[&str],
        summary: &str,
    ) -> Result<(), CliError> {
        let mut lines = report.lines();
        lines.extend(next.iter().map(|line| (*line).to_owned()));
        let lines = if self.json.json {
            vec![table::to_json(report).map_err(CliError::other)?]
        } else {
            lines.iter().map(|line| table::sanitize(line)).collect()
        };
        match table::print_lines(&lines) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(CliError::output_failed),
        }?;
        if !self.json.json {
            // For the person, not for a program that reads the report.
            let _ = writeln!(io::stderr(), "overdue: {summary}");
        }
        Ok(())
    }
}

//! The flags that every import has, and what follows from them: whether it is only looked at, whose place it takes, how it ends.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{ArgGroup, Args};

use super::super::shared::Json;
use super::super::{Failure, table};
use super::handover::{self, Ending, Handover};
use crate::domain::imported::Imported;
use crate::domain::project::ProjectName;
use crate::domain::words::count;
use crate::engine::command::stage::Lost;
use crate::import::{Chosen, Report};

#[derive(Args)]
#[command(group = ArgGroup::new("mode").args(["dry_run", "trial", "live"]).required(true).multiple(false))]
pub(super) struct How {
    /// Show what would become of everything, and change nothing
    #[arg(long, env = "OVERDUE_DRY_RUN", value_parser = FalseyValueParser::new())]
    dry_run: bool,

    /// Bring everything here, but tell nobody: projects are served and pinged, and go down in silence until they are released
    #[arg(long, env = "OVERDUE_TRIAL", value_parser = FalseyValueParser::new())]
    trial: bool,

    /// Bring everything here, and tell from now on
    #[arg(long, env = "OVERDUE_LIVE", value_parser = FalseyValueParser::new())]
    live: bool,

    /// Take only the project of this name or UUID, under another name if one is given; may be given several times, with commas in the variable
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "OLD[=NEW]", value_delimiter = ',', value_parser = chosen)]
    pub(super) project: Vec<Chosen>,

    /// Take the place of projects whose checks were pinged or changed here since the last import, too: what was done and logged is lost
    #[arg(long, env = "OVERDUE_REPLACE", value_parser = FalseyValueParser::new())]
    replace: bool,

    /// Do not ask whether that is meant; needed where nobody can be asked
    #[arg(long, env = "OVERDUE_YES", value_parser = FalseyValueParser::new())]
    yes: bool,

    #[command(flatten)]
    json: Json,
}

fn chosen(text: &str) -> Result<Chosen, &'static str> {
    let (old, new) = text.split_once('=').map_or((text, None), |(old, new)| (old, Some(new)));
    Ok(Chosen { old: old.to_owned(), new: new.map(ProjectName::parse).transpose()? })
}

impl How {
    /// Refuses to go on while nothing is said; a variable may say no.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.dry_run || self.trial || self.live { Ok(()) } else { Err(Failure::usage("say --dry-run, --trial or --live")) }
    }

    /// Nothing is to be changed.
    pub(super) fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// Compares with what a server that runs has, and shows what would become of everything.
    pub(super) fn look(
        &self,
        data: impl FnOnce() -> Result<PathBuf, Failure>,
        imported: Imported,
        report: Report,
        next: &[&str],
    ) -> Result<(), Failure> {
        let done = "nothing was changed: this was a dry run";
        // A database that nobody serves is left alone: to open it may mean to bring it to the layout of this release.
        let looked = data().map_or(Ok(None), |directory| handover::server(&directory)).and_then(|server| {
            let Some(server) = server else { return Ok(None) };
            let mut handover = Handover::begin(server, &imported)?;
            let ending = self.hand_over(&mut handover, imported)?;
            handover.look(&ending).map(Some)
        });
        match looked {
            Ok(None) => self.show(&report, next, &format!("{done}; no server answers here to compare it with")),
            Ok(Some((replaced, lost))) if self.replace || lost == Lost::default() => self.show(&report.beside(replaced, lost), next, done),
            // What is wrong comes last, and nothing is to be done before it is put right.
            Ok(Some((replaced, lost))) => self.show(&report.beside(replaced, lost), &[], done).and(Err(handover::needs_replace(&lost))),
            Err(failure) => self.show(&report, &[], done).and(Err(failure)),
        }
    }

    /// Hands over what is left; how it is to end.
    fn hand_over(&self, handover: &mut Handover, imported: Imported) -> Result<Ending, Failure> {
        let (newest, secrets, signing) = (imported.newest, imported.secrets.clone(), imported.signing);
        handover.objects(imported)?;
        Ok(Ending { live: self.live, newest, secrets, signing, replace: self.replace, yes: self.yes })
    }

    /// Hands over what is left, and has all of it shown; what has come of that.
    pub(super) fn finish(&self, mut handover: Handover, imported: Imported) -> Result<String, Failure> {
        let projects = imported.projects.len();
        let ending = self.hand_over(&mut handover, imported)?;
        let (replaced, lost) = handover.finish(&ending)?;
        let mode = if self.trial { "is on trial and tells nobody; `overdue project release` ends that" } else { "tells from now on" };
        let again = if replaced > 0 { format!(", {replaced} of them in the place of what was imported before") } else { String::new() };
        let what = if projects == 1 { "the project" } else { "each project" };
        let mut done = format!("{} imported{again}: {what} {mode}", count(projects, "project"));
        if handover.has_empty_default() {
            done += "; the empty project \"default\" stays as it is";
        }
        if lost != Lost::default() {
            done += &format!("; {lost}: that is lost");
        }
        Ok(done)
    }

    /// Shows what has become of everything, and what there is to do next.
    pub(super) fn show(&self, report: &Report, next: &[&str], done: &str) -> Result<(), Failure> {
        let mut lines = report.lines();
        lines.extend(next.iter().map(|line| (*line).to_owned()));
        let lines = if self.json.json {
            vec![serde_json::to_string(report).map_err(Failure::other)?]
        } else {
            lines.iter().map(|line| table::clean(line)).collect()
        };
        match table::lines(&lines) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            shown => shown.map_err(Failure::unwritten),
        }?;
        if !self.json.json {
            // For whoever reads it, not for what reads the report.
            let _ = writeln!(io::stderr(), "overdue: {done}");
        }
        Ok(())
    }
}

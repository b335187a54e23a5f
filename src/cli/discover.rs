//! `overdue discover`: its flags, and how what was found is written.

mod earlier;
mod system;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf, absolute};

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::Failure;
use super::declare::replace_for_owner;
use super::shared::{Json, read_at_most};
use super::table::{self, clean};
use crate::clock::Clock;
use crate::declare;
use crate::discover::{self, Crontab, Discovered, Edit, Maker, Proposal, Reporter, Whose};
use crate::domain::check::Settings;
use crate::domain::project::ProjectName;
use crate::domain::text::Name;
use crate::domain::timezone::Timezone;
use crate::domain::words::{count, shell_word};
use crate::http::BaseUrl;
use crate::random::Random;
use crate::serve::{DEFAULT_LISTEN, machine_zone};
use crate::store::access::make_own_directory;
use earlier::Earlier;

/// The file with the checks, for `apply`.
const CHECKS: &str = "overdue.toml";
/// The file with the edits of crontabs and units, for `patch`.
const PATCH: &str = "overdue.patch";
/// The file with the edited crontab of the user who asks.
const CRONTAB: &str = "crontab";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum With {
    Curl,
    Run,
}

#[derive(Args)]
pub(super) struct DiscoverArgs {
    /// URL under which the server is reached [default: that of a server on this machine]
    #[arg(long, env = "OVERDUE_BASE_URL", value_name = "URL")]
    base_url: Option<BaseUrl>,

    /// Name of the project that the checks are to belong to
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "NAME", default_value = "default", value_parser = ProjectName::parse)]
    project: ProjectName,

    /// Read this crontab in place of all that the machine has; may be given several times, with commas in the variable
    #[arg(long, env = "OVERDUE_CRONTAB", value_name = "FILE", value_delimiter = ',')]
    crontab: Vec<PathBuf>,

    /// In these crontabs a user stands before each command, as in /etc/crontab
    #[arg(long, env = "OVERDUE_USER_COLUMN", requires = "crontab", value_parser = FalseyValueParser::new())]
    user_column: bool,

    /// What jobs report with: curl behind the job, or overdue run, which also sends the start and the output
    #[arg(long, env = "OVERDUE_WITH", value_enum, default_value = "curl")]
    with: With,

    /// What slugs begin with [default: the name of this machine]
    #[arg(long, env = "OVERDUE_HOST", value_name = "NAME")]
    host: Option<String>,

    /// Time zone of schedules that name none [default: the machine's]
    #[arg(long, env = "OVERDUE_TIME_ZONE", value_name = "ZONE")]
    time_zone: Option<String>,

    /// Make checks also of timers that came with the distribution
    #[arg(long, env = "OVERDUE_ALL", value_parser = FalseyValueParser::new())]
    all: bool,

    /// Make one check of each directory of jobs, such as /etc/cron.daily
    #[arg(long, env = "OVERDUE_RUN_PARTS", value_parser = FalseyValueParser::new())]
    run_parts: bool,

    /// Write overdue.toml, overdue.patch and an edited crontab into this directory, to which nobody else may write
    #[arg(long, env = "OVERDUE_WRITE", value_name = "DIR")]
    write: Option<PathBuf>,

    #[command(flatten)]
    json: Json,
}

/// What was found, and the text in which lines are to be edited.
struct Place {
    crontab: Option<Crontab>,
    found: Discovered,
}

impl Place {
    fn lines(&self) -> BTreeMap<usize, String> {
        let line = |proposal: &Proposal| match &proposal.edit {
            Edit::Line(number, line) => Some((*number, line.clone())),
            Edit::DropIn { .. } => None,
        };
        self.found.proposals.iter().filter_map(line).collect()
    }
}

impl DiscoverArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let zone = self.time_zone.as_deref().map_or_else(|| Ok(machine_zone()), Timezone::parse).map_err(Failure::usage)?;
        let base_url = self.base_url.as_ref().map_or_else(|| format!("http://{DEFAULT_LISTEN}"), |url| url.as_str().to_owned());
        let host = self.host.clone().unwrap_or_else(system::host_name);
        let random = Random::System;
        let draw = || random.uuid();
        let mut maker = Maker::new(&base_url, &host, zone, Clock::System.now(), &draw);
        maker.reporter = if self.with == With::Run { Reporter::Run } else { Reporter::Curl };
        maker.run_parts = self.run_parts;
        let places = self.places(&mut maker)?;
        for skipped in places.iter().flat_map(|place| &place.found.skipped) {
            let kind = if skipped.by_hand { "by hand" } else { "left out" };
            let said = format!("{kind}: {}: {}: {}", skipped.place, skipped.reason, skipped.job);
            let _ = writeln!(io::stderr(), "overdue: {}", clean(&said));
        }
        if let Some(directory) = &self.write {
            return self.write(directory, places);
        }
        let text = if self.json.json { table::to_json(&list(&places)).map_err(Failure::unwritten)? } else { self.toml(&places) };
        match table::lines(&[text.trim_end().to_owned()]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            shown => shown.map_err(Failure::unwritten),
        }
    }

    fn places(&self, maker: &mut Maker<'_>) -> Result<Vec<Place>, Failure> {
        let mut crontabs = Vec::new();
        for file in &self.crontab {
            let text = read_at_most(file, system::MOST_BYTES)
                .map_err(|error| Failure::other(format!("cannot read {}: {error}", clean(&file.display().to_string()))))?;
            let whose = if self.user_column { Whose::System } else { Whose::User };
            crontabs.push(Crontab { name: file.display().to_string(), text: String::from_utf8_lossy(&text).into_owned(), whose });
        }
        let is_foreign = !crontabs.is_empty();
        if !is_foreign {
            crontabs = system::crontabs();
        }
        let mut places: Vec<_> =
            crontabs.into_iter().map(|crontab| Place { found: discover::crontab(maker, &crontab), crontab: Some(crontab) }).collect();
        if !is_foreign {
            for (timers, directory) in system::timers() {
                let found = discover::proposed(maker, &timers, &directory, self.all);
                places.push(Place { crontab: None, found });
            }
        }
        Ok(places)
    }

    /// The checks as a file that `apply` reads.
    fn toml(&self, places: &[Place]) -> String {
        let objects = places.iter().flat_map(|place| &place.found.proposals).map(|proposal| {
            let Proposal { slug, uuid, settings, .. } = proposal;
            let name = Name::parse(slug.as_str()).unwrap_or_default();
            let settings = Settings { slug: slug.clone(), name, ..settings.clone() };
            declare::proposed(self.project.as_str(), *uuid, &settings, comments(proposal))
        });
        let objects: Vec<_> = objects.collect();
        declare::toml(&objects, &["Checks for jobs of this machine: `overdue apply` makes them, the edits make the jobs report."])
    }

    /// Writes files that only their owner can read: crontabs hold secrets, and the URLs of pings are some. In a directory of others, somebody
    /// could replace them before they are applied. Jobs that an earlier run wrote there keep their URLs.
    fn write(&self, directory: &Path, mut places: Vec<Place>) -> Result<(), Failure> {
        let checks: usize = places.iter().map(|place| place.found.proposals.len()).sum();
        if checks == 0 {
            // The files of an earlier run may still be of use.
            let _ = writeln!(io::stderr(), "overdue: no job was found for which a check can be proposed; nothing was written");
            return Ok(());
        }
        let failed = |error: &dyn Error| Failure::other(format!("cannot write to {}: {error}", directory.display()));
        make_own_directory(directory).map_err(|error| failed(&error))?;
        let directory = &absolute(directory).map_err(|error| failed(&error))?;
        let file = |name: &str| directory.join(name);
        let earlier = Earlier::read(&file(CHECKS)).map_err(|error| failed(&error))?;
        let mut earlier = earlier.without_reporting(places.iter().flat_map(|place| &place.found.skipped));
        places.iter_mut().flat_map(|place| &mut place.found.proposals).for_each(|proposal| earlier.restore(proposal));
        let write = |name: &str, text: &str| {
            let written = replace_for_owner(&file(name), |file| Ok(file.write_all(text.as_bytes())?));
            written.map_err(|error| failed(&*error))
        };
        let (mut patch, mut has_crontab) = (String::new(), false);
        for place in &places {
            let lines = place.lines();
            match &place.crontab {
                Some(crontab) if crontab.name == system::OWN && !lines.is_empty() => {
                    write(CRONTAB, &discover::changed(&crontab.text, &lines))?;
                    has_crontab = true;
                }
                Some(crontab) => patch += &discover::diff(crontab.name.trim_start_matches('/'), &crontab.text, &lines),
                None => {}
            }
            for proposal in &place.found.proposals {
                let Edit::DropIn { path, text } = &proposal.edit else { continue };
                let added: String = text.lines().map(|line| format!("+{line}\n")).collect();
                patch += &format!("--- /dev/null\n+++ {}\n@@ -0,0 +1,{} @@\n{added}", path.trim_start_matches('/'), text.lines().count());
            }
        }
        write(CHECKS, &self.toml(&places))?;
        write(PATCH, &patch)?;
        let word = |name: &str| shell_word(&file(name).to_string_lossy());
        // Paths of crontabs that were named may be relative.
        let cd = if self.crontab.iter().any(|path| path.is_relative()) { "" } else { "cd / && " };
        let edits = [
            (!patch.is_empty()).then(|| format!("in {} ({cd}patch -p0 < {})", file(PATCH).display(), word(PATCH))),
            has_crontab.then(|| format!("of your own crontab in {} (crontab {})", file(CRONTAB).display(), word(CRONTAB))),
        ];
        let edits = edits.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        let is = if checks == 1 { "is" } else { "are" };
        let said = format!("{} {is} in {}; the edits are {edits}", count(checks, "check"), file(CHECKS).display());
        let _ = writeln!(io::stderr(), "overdue: {}", clean(&said));
        Ok(())
    }
}

/// Comments of a check: where its job was found, and what makes it report. A comment of TOML takes what a terminal takes.
fn comments(proposal: &Proposal) -> Vec<String> {
    let comments = match &proposal.edit {
        Edit::Line(_, line) => vec![format!("{} becomes:", proposal.place), line.clone()],
        Edit::DropIn { path, .. } => vec![format!("{}: {path} makes it report", proposal.place)],
    };
    comments.iter().map(|comment| clean(comment)).collect()
}

/// What was found, for programs.
fn list(places: &[Place]) -> serde_json::Value {
    let proposal = |proposal: &Proposal| {
        let Proposal { slug, uuid, settings, place, edit } = proposal;
        let schedule = settings.schedule.as_ref();
        let (line, becomes, file, content) = match edit {
            Edit::Line(number, line) => (Some(number + 1), Some(line), None, None),
            Edit::DropIn { path, text } => (None, None, Some(path), Some(text)),
        };
        json!({
            "slug": slug.as_str(),
            "uuid": uuid,
            "place": place,
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
    let skipped = |skipped: &discover::Skipped| json!({ "place": skipped.place, "job": skipped.job, "reason": skipped.reason, "by_hand": skipped.by_hand });
    json!({
        "checks": places.iter().flat_map(|place| &place.found.proposals).map(proposal).collect::<Vec<_>>(),
        "skipped": places.iter().flat_map(|place| &place.found.skipped).map(skipped).collect::<Vec<_>>(),
    })
}

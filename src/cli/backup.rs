//! `overdue backup`, `overdue restore` and `overdue verify`.

use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::data::as_owner;
use super::shared::{Json, number};
use super::{Failure, table};
use crate::admin;
use crate::backup::{self, About, BackupError, BackupFile, Intervals};
use crate::domain::words::count;
use crate::engine::{Beside, Pace};
use crate::random::Random;
use crate::store::{FILE_NAME, Findings, Inspection, Medium, Progress, Store, StoreError, TableSize};

#[derive(Args)]
pub(super) struct BackupArgs {
    /// File to write, compressed if its name ends with .zst; `-` for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The flags of a server that makes backups by itself.
#[derive(Args)]
#[command(next_help_heading = "Backups")]
pub(super) struct BackupFlags {
    /// Directory in which the server makes backups by itself, which has to be there. The packaged service may write to /var/backups/overdue; another one has to stand in ReadWritePaths= of its unit (systemctl edit overdue) [default: none are made]
    #[arg(long, env = "OVERDUE_BACKUP_TO", value_name = "DIR")]
    backup_to: Option<PathBuf>,

    /// Time from one backup to the next, in minutes, hours or days: 30m, 12h, 1d
    #[arg(long, env = "OVERDUE_BACKUP_EVERY", value_name = "TIME", default_value = "1d", value_parser = interval, requires = "backup_to")]
    backup_every: Duration,

    /// How many backups are kept, the newest
    #[arg(long, env = "OVERDUE_BACKUP_KEEP", value_name = "N", default_value_t = 7, value_parser = number::<u32>(1..=100_000), allow_negative_numbers = true, requires = "backup_to")]
    backup_keep: u32,
}

/// A number of minutes, hours or days: at least a minute, at most a year.
fn interval(text: &str) -> Result<Duration, &'static str> {
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).unwrap_or_default();
    let unit = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 0,
    };
    let secs = number.parse::<u32>().ok().map(|number| u64::from(number) * unit).filter(|secs| (60..=366 * 86_400).contains(secs));
    secs.map(Duration::from_secs).ok_or("give minutes, hours or days, as in 30m, 12h or 1d, from a minute to a year")
}

impl BackupFlags {
    pub(super) fn intervals(self) -> Option<Intervals> {
        let directory = self.backup_to?;
        Some(Intervals { directory, every: self.backup_every, keep: self.backup_keep as usize })
    }
}

#[derive(Args)]
pub(super) struct RestoreArgs {
    /// Backup to read, compressed or not; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace the database that is there
    #[arg(long, env = "OVERDUE_FORCE", value_parser = clap::builder::FalseyValueParser::new())]
    force: bool,
}

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// Backup to look at, compressed or not; `-` for standard input [default: the database]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    json: Json,
}

/// Whether it stands for standard input or output.
fn is_stream(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// What went wrong with a file.
fn of_file(file: &Path) -> impl Fn(BackupError) -> Failure {
    move |error| Failure::other(format!("{}: {error}", if is_stream(file) { "the backup".into() } else { file.display().to_string() }))
}

fn open(file: &Path) -> Result<Box<dyn Read>, Failure> {
    let opened = if is_stream(file) { backup::read(io::stdin()) } else { backup::open(file) };
    opened.map_err(|error| of_file(file)(error.into()))
}

/// Has the server, or the database if none runs, write a backup.
fn taken(data: &Path, out: impl io::Write) -> Result<(), Failure> {
    let _owner = as_owner(data)?;
    backup::give_way();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::other)?;
    runtime.block_on(admin::backup(data, out)).map_err(|error| Failure::other(format!("no backup was made: {error}")))
}

impl BackupArgs {
    /// Makes a backup.
    pub(super) fn run(&self, data: &Path) -> Result<(), Failure> {
        let file = &*self.file;
        if is_stream(file) {
            if io::stdout().is_terminal() {
                return Err(Failure::usage("a backup is not for a terminal: send it to a file or a pipe"));
            }
            return taken(data, io::stdout().lock());
        }
        let mut out = BackupFile::create(file).map_err(|error| of_file(file)(error.into()))?;
        taken(data, &mut out)?;
        let beside = if admin::is_served(data) { Beside::Another } else { Beside::Nobody };
        let (bytes, rows) = out.keep(&mut Pace::new(beside)).map_err(of_file(file))?;
        // The work is done, whether or not anybody reads about it.
        let _ = writeln!(io::stderr(), "overdue: a backup of {rows} rows is in {}: {bytes} bytes", file.display());
        Ok(())
    }
}

impl RestoreArgs {
    /// Makes a backup the database.
    pub(super) fn run(&self, data: &Path) -> Result<(), Failure> {
        if admin::is_served(data) {
            return Err(Failure::other(StoreError::InUse(data.join(FILE_NAME))));
        }
        let backup = open(&self.file)?;
        let _owner = as_owner(data)?;
        let restored = backup::restore(data, self.force, backup, &Random::System);
        let About { made, .. } = restored.map_err(|error| match error {
            BackupError::Store(error) => Failure::other(error),
            error => of_file(&self.file)(error),
        })?;
        let _ = writeln!(io::stderr(), "overdue: {} was restored from the backup of {made}", data.join(FILE_NAME).display());
        Ok(())
    }
}

impl VerifyArgs {
    /// Looks at all of a backup or of the database.
    pub(super) fn run(&self, data: &Path) -> Result<(), Failure> {
        let verified = match &self.file {
            Some(file) => {
                let (about, findings) = backup::inspect(open(file)?).map_err(of_file(file))?;
                Verified { path: file.clone(), about: Some(about), sound_pages: true, findings }
            }
            None => {
                let path = data.join(FILE_NAME);
                let (sound_pages, findings) = inspect_database(data, &path)?;
                Verified { path, about: None, sound_pages, findings }
            }
        };
        let shown = if self.json.json { table::lines(&[verified.json()]) } else { verified.show() };
        shown.map_err(Failure::unwritten)?;
        verified.judge()
    }
}

/// What was looked at, and what was found.
struct Verified {
    path: PathBuf,
    /// `None`: it is the database.
    about: Option<About>,
    sound_pages: bool,
    findings: Findings,
}

impl Verified {
    fn bytes_of_rows(&self) -> u64 {
        self.findings.tables.values().map(|size| size.bytes).sum()
    }

    /// Bytes of the file, unless it was standard input.
    fn bytes(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|file| file.len())
    }

    fn json(&self) -> String {
        let Findings { schema, tables, sound_bodies, dead_pings, put_aside, wrong, told } = &self.findings;
        let size = |TableSize { rows, bytes }: &TableSize| serde_json::json!({ "rows": rows, "bytes": bytes });
        let tables: serde_json::Map<_, _> = tables.iter().map(|(name, table)| (name.clone(), size(table))).collect();
        serde_json::json!({
            "path": self.path, "made": self.about.as_ref().map(|about| &about.made),
            "release": self.about.as_ref().map(|about| &about.release), "schema": schema, "sound": self.judge().is_ok(),
            "bytes": self.bytes(), "bytes_of_rows": self.bytes_of_rows(), "tables": tables, "sound_bodies": sound_bodies,
            "dead_pings": dead_pings, "put_aside": put_aside, "wrong": wrong, "told": told,
        })
        .to_string()
    }

    fn show(&self) -> io::Result<()> {
        let Findings { schema, tables, sound_bodies, dead_pings, put_aside, told, .. } = &self.findings;
        let cells = |(name, size): (&String, &TableSize)| [name.clone(), size.rows.to_string(), size.bytes.to_string()];
        table::lines(&table::table(&["TABLE", "ROWS", "BYTES"], tables.iter().map(cells)))?;
        let made = self.about.as_ref().map_or(String::new(), |About { made, release }| format!(", made {made} by release {release}"));
        let bytes = self.bytes().map_or(String::new(), |bytes| format!(" in a file of {bytes} bytes"));
        let mut words = vec![
            format!("{}{made}: layout {schema}, {} bytes of rows{bytes}", self.path.display(), self.bytes_of_rows()),
            match sound_bodies {
                1 => "1 body of a ping matches its checksum".into(),
                bodies => format!("{bodies} bodies of pings match their checksums"),
            },
        ];
        if *dead_pings > 0 {
            let pings = count(usize::try_from(*dead_pings).unwrap_or(usize::MAX), "ping");
            words.push(format!("{pings} beyond the log limits, which a server removes by and by"));
        }
        if *put_aside > 0 {
            let is = if *put_aside == 1 { "row is" } else { "rows are" };
            words.push(format!("{put_aside} {is} put aside, which a release could not read"));
        }
        if self.judge().is_ok() {
            words.push("all of it can be read, and nothing is damaged".into());
        }
        for words in words.iter().chain(told) {
            writeln!(io::stderr(), "overdue: {words}")?;
        }
        Ok(())
    }

    fn judge(&self) -> Result<(), Failure> {
        let path = self.path.display();
        match (self.findings.wrong, self.sound_pages) {
            (0, true) => Ok(()),
            (0, false) => Err(Failure::other(format!("{path} has pages that make no sense"))),
            (1, _) => Err(Failure::other(format!("{path} has 1 row that is damaged"))),
            (wrong, _) => Err(Failure::other(format!("{path} has {wrong} rows that are damaged"))),
        }
    }
}

/// Looks at the database: all of its pages if no server runs, else the rows that the server gives.
fn inspect_database(data: &Path, path: &Path) -> Result<(bool, Findings), Failure> {
    let _owner = as_owner(data)?;
    if matches!(path.try_exists(), Ok(false)) {
        return Err(Failure::other(admin::AskError::NoDatabase(data.into())));
    }
    let mut inspection = Inspection::default();
    let inspected = match Store::inspect(&Medium::Directory(data.into()), &Progress::default(), &mut inspection) {
        // A snapshot of a file system.
        Err(error) if error.is_read_only() => {
            Medium::unchanged(data).and_then(|medium| Store::inspect(&medium, &Progress::default(), &mut inspection))
        }
        inspected => inspected,
    };
    match inspected {
        Ok(sound) => return Ok((sound, inspection.end())),
        Err(StoreError::InUse(_)) => {}
        Err(error) => return Err(Failure::other(error)),
    }
    let (reader, writer) = io::pipe().map_err(Failure::other)?;
    std::thread::scope(|scope| {
        let inspected = scope.spawn(move || backup::inspect(io::BufReader::new(reader)));
        let taken = taken(data, writer);
        let inspected = inspected.join().map_err(|_| Failure::other("the rows could not be looked at"))?;
        taken?;
        inspected.map(|(_, findings)| (true, findings)).map_err(Failure::other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_minutes_hours_or_days() {
        for (text, secs) in [("1m", 60), ("90m", 5400), ("12h", 43_200), ("1d", 86_400), ("366d", 366 * 86_400)] {
            assert_eq!(interval(text), Ok(Duration::from_secs(secs)), "{text}");
        }
        for text in ["", "d", "1", "0d", "-1d", "1.5h", "30s", "367d", "1 d", "1w", "999999999d", "1ž"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}

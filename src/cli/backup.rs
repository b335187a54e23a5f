//! `overdue backup`, `overdue restore` and `overdue verify`.

use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::common_args::{JsonFlag, number_parser};
use super::data_directory::assume_owner;
use super::session::this_program;
use super::{CliError, table};
use crate::admin;
use crate::admin::backup::Backup;
use crate::backup::{self, BackupError, BackupFileWriter, BackupHook, BackupInfo, BackupSchedule};
use crate::domain::formatting::format_count;
use crate::engine::{ServerLocation, Throttle};
use crate::store::{
    FILE_NAME, Inspection, InspectionReport, Medium, ProgressReporter, Store, StoreError, TableSize,
};
use crate::util::random::Random;

#[derive(Args)]
pub(super) struct BackupArgs {
    /// File to write, compressed if its name ends with .zst; `-` for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Flags for scheduled backups by the server.
#[derive(Args)]
#[command(next_help_heading = "Backups")]
pub(super) struct BackupFlags {
    /// Existing directory for scheduled backups by the server. The packaged service may write to
    /// /var/backups/overdue; add another directory to ReadWritePaths= of its unit (systemctl edit
    /// overdue) [default: no scheduled backups]
    #[arg(long, env = "OVERDUE_BACKUP_TO", value_name = "DIR")]
    backup_to: Option<PathBuf>,

    /// Time between two scheduled backups, in minutes, hours or days, as in 30m, 12h or 1d
    #[arg(
        long,
        env = "OVERDUE_BACKUP_EVERY",
        value_name = "TIME",
        default_value = "1d",
        value_parser = parse_interval,
        requires = "backup_to"
    )]
    backup_every: Duration,

    /// Number of scheduled backups to keep; older ones are deleted
    #[arg(
        long,
        env = "OVERDUE_BACKUP_KEEP",
        value_name = "N",
        default_value_t = 7,
        value_parser = number_parser::<u32>(1..=100_000),
        allow_negative_numbers = true,
        requires = "backup_to"
    )]
    backup_keep: u32,

    /// Shell command that runs after each scheduled backup, with its path in BACKUP_FILE, such as
    /// one that copies it to another machine. If it fails, it is run again after ten minutes
    #[arg(
        long,
        env = "OVERDUE_BACKUP_COMMAND",
        value_name = "COMMAND",
        requires = "backup_to"
    )]
    backup_command: Option<String>,
}

/// Parses a number of minutes, hours or days: at least a minute, at most a year.
fn parse_interval(text: &str) -> Result<Duration, &'static str> {
    let (number, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .unwrap_or_default();
    let unit = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 0,
    };
    let secs = number
        .parse::<u32>()
        .ok()
        .map(|number| u64::from(number) * unit)
        .filter(|secs| (60..=366 * 86_400).contains(secs));
    secs.map(Duration::from_secs)
        .ok_or("give minutes, hours or days, as in 30m, 12h or 1d, from a minute to a year")
}

impl BackupFlags {
    pub(super) fn backup_schedule(self) -> Option<BackupSchedule> {
        let directory = self.backup_to?;
        Some(BackupSchedule {
            directory,
            interval: self.backup_every,
            keep_newest: self.backup_keep as usize,
            hook: self.backup_command.map(|command| BackupHook {
                command,
                launcher: this_program(),
            }),
        })
    }
}

#[derive(Args)]
pub(super) struct RestoreArgs {
    /// Backup to read, compressed or not; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace an existing database
    #[arg(long, env = "OVERDUE_FORCE", value_parser = clap::builder::FalseyValueParser::new())]
    force: bool,
}

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// Backup to verify, compressed or not; `-` for standard input [default: the database]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    json: JsonFlag,
}

/// True for standard input or output.
fn is_stream(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Adds the file to an error.
fn file_error(file: &Path) -> impl Fn(BackupError) -> CliError {
    move |error| {
        CliError::other(format!(
            "{}: {error}",
            if is_stream(file) {
                "the backup".into()
            } else {
                file.display().to_string()
            }
        ))
    }
}

fn open_backup(file: &Path) -> Result<Box<dyn Read>, CliError> {
    let opened = if is_stream(file) {
        backup::read_backup(io::stdin())
    } else {
        backup::open_backup(file)
    };
    opened.map_err(|error| file_error(file)(error.into()))
}

/// Writes a backup, by the server or, if none runs, from the database.
fn write_backup(data: &Path, out: impl io::Write) -> Result<(), CliError> {
    let _owner = assume_owner(data)?;
    backup::lower_thread_priority();
    super::new_runtime()?
        .block_on(admin::receive_stream(data, Backup {}, out))
        .map_err(|error| CliError::other(format!("no backup was made: {error}")))
}

impl BackupArgs {
    /// Creates a backup.
    pub(super) fn run(&self, data: &Path) -> Result<(), CliError> {
        let file = &*self.file;
        if is_stream(file) {
            if io::stdout().is_terminal() {
                return Err(CliError::usage(
                    "a backup cannot be written to a terminal: redirect it to a file or a pipe",
                ));
            }
            return write_backup(data, io::stdout().lock());
        }
        let mut out =
            BackupFileWriter::create(file).map_err(|error| file_error(file)(error.into()))?;
        write_backup(data, &mut out)?;
        let server = if admin::is_server_running(data) {
            ServerLocation::OtherProcess
        } else {
            ServerLocation::NotRunning
        };
        let (bytes, rows) = out
            .verify_and_rename(&mut Throttle::new(server))
            .map_err(file_error(file))?;
        // The backup exists, even if this message cannot be written.
        let _ = writeln!(
            io::stderr(),
            "overdue: a backup of {rows} rows is in {}: {bytes} bytes",
            file.display()
        );
        Ok(())
    }
}

impl RestoreArgs {
    /// Restores a backup as the database.
    pub(super) fn run(&self, data: &Path) -> Result<(), CliError> {
        if admin::is_server_running(data) {
            return Err(CliError::other(StoreError::InUse(data.join(FILE_NAME))));
        }
        let backup = open_backup(&self.file)?;
        let _owner = assume_owner(data)?;
        let restored = backup::restore(data, self.force, backup, &Random::System);
        let BackupInfo { begun, .. } = restored.map_err(|error| match error {
            BackupError::Store(error) => CliError::other(error),
            error => file_error(&self.file)(error),
        })?;
        let _ = writeln!(
            io::stderr(),
            "overdue: {} was restored from the backup of {begun}",
            data.join(FILE_NAME).display()
        );
        Ok(())
    }
}

impl VerifyArgs {
    /// Verifies all of a backup or of the database.
    pub(super) fn run(&self, data: &Path) -> Result<(), CliError> {
        let report = match &self.file {
            Some(file) => {
                let (info, findings) =
                    backup::inspect(open_backup(file)?).map_err(file_error(file))?;
                VerifyReport {
                    path: file.clone(),
                    backup_info: Some(info),
                    pages_are_sound: true,
                    findings,
                }
            }
            None => {
                let path = data.join(FILE_NAME);
                let (sound_pages, findings) = inspect_database(data, &path)?;
                VerifyReport {
                    path,
                    backup_info: None,
                    pages_are_sound: sound_pages,
                    findings,
                }
            }
        };
        let printed = if self.json.json {
            table::print_lines(&[report.to_json()])
        } else {
            report.print()
        };
        printed.map_err(CliError::output_failed)?;
        report.to_result()
    }
}

/// Report of a verification.
struct VerifyReport {
    path: PathBuf,
    /// `None` for the database.
    backup_info: Option<BackupInfo>,
    pages_are_sound: bool,
    findings: InspectionReport,
}

impl VerifyReport {
    fn row_bytes(&self) -> u64 {
        self.findings.tables.values().map(|size| size.bytes).sum()
    }

    /// Returns the size of the file in bytes, unless it was standard input.
    fn file_bytes(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|file| file.len())
    }

    fn to_json(&self) -> String {
        let InspectionReport {
            schema,
            tables,
            intact_bodies,
            dead_pings,
            quarantined_rows,
            problem_count,
            problems,
        } = &self.findings;
        let size = |size: &TableSize| serde_json::json!({ "rows": size.rows, "bytes": size.bytes });
        let tables: serde_json::Map<_, _> = tables
            .iter()
            .map(|(name, table)| (name.clone(), size(table)))
            .collect();
        serde_json::json!({
            "path": self.path,
            "made": self.backup_info.as_ref().map(|info| &info.begun),
            "release": self.backup_info.as_ref().map(|info| &info.release),
            "schema": schema,
            "sound": self.to_result().is_ok(),
            "bytes": self.file_bytes(),
            "bytes_of_rows": self.row_bytes(),
            "tables": tables,
            "sound_bodies": intact_bodies,
            "dead_pings": dead_pings,
            "put_aside": quarantined_rows,
            "wrong": problem_count,
            "told": problems,
        })
        .to_string()
    }

    fn print(&self) -> io::Result<()> {
        let InspectionReport {
            schema,
            tables,
            intact_bodies,
            dead_pings,
            quarantined_rows,
            problems,
            ..
        } = &self.findings;
        let cells = |(name, size): (&String, &TableSize)| {
            [name.clone(), size.rows.to_string(), size.bytes.to_string()]
        };
        table::print_lines(&table::format_table(
            &["TABLE", "ROWS", "BYTES"],
            tables.iter().map(cells),
        ))?;
        let origin = self
            .backup_info
            .as_ref()
            .map_or(String::new(), |BackupInfo { begun, release }| {
                format!(", made {begun} by release {release}")
            });
        let bytes = self.file_bytes().map_or(String::new(), |bytes| {
            format!(" in a file of {bytes} bytes")
        });
        let mut words = vec![
            format!(
                "{}{origin}: layout {schema}, {} bytes of rows{bytes}",
                self.path.display(),
                self.row_bytes()
            ),
            match intact_bodies {
                1 => "1 body of a ping matches its checksum".into(),
                bodies => format!("{bodies} bodies of pings match their checksums"),
            },
        ];
        if *dead_pings > 0 {
            let pings = format_count(usize::try_from(*dead_pings).unwrap_or(usize::MAX), "ping");
            words.push(format!(
                "{pings} beyond the log limits, which a server removes gradually"
            ));
        }
        if *quarantined_rows > 0 {
            let rows_are = if *quarantined_rows == 1 {
                "row is"
            } else {
                "rows are"
            };
            words.push(format!(
                "{quarantined_rows} {rows_are} put aside, because a release could not read them"
            ));
        }
        if self.to_result().is_ok() {
            words.push("everything can be read, and nothing is damaged".into());
        }
        for line in words.iter().chain(problems) {
            writeln!(io::stderr(), "overdue: {line}")?;
        }
        Ok(())
    }

    fn to_result(&self) -> Result<(), CliError> {
        let path = self.path.display();
        match (self.findings.problem_count, self.pages_are_sound) {
            (0, true) => Ok(()),
            (0, false) => Err(CliError::other(format!("{path} has damaged pages"))),
            (1, _) => Err(CliError::other(format!("{path} has 1 damaged row"))),
            (count, _) => Err(CliError::other(format!("{path} has {count} damaged rows"))),
        }
    }
}

/// Verifies the database: all of its pages if no server runs, else the rows that the server sends.
fn inspect_database(data: &Path, path: &Path) -> Result<(bool, InspectionReport), CliError> {
    let _owner = assume_owner(data)?;
    if matches!(path.try_exists(), Ok(false)) {
        return Err(CliError::other(admin::AdminClientError::NoDatabase(
            data.into(),
        )));
    }
    let mut inspection = Inspection::default();
    let inspected = match Store::inspect(
        &Medium::Directory(data.into()),
        &ProgressReporter::default(),
        &mut inspection,
    ) {
        // A snapshot of a file system.
        Err(error) if error.is_read_only() => Medium::read_only(data).and_then(|medium| {
            Store::inspect(&medium, &ProgressReporter::default(), &mut inspection)
        }),
        inspected => inspected,
    };
    match inspected {
        Ok(sound) => return Ok((sound, inspection.finish())),
        Err(StoreError::InUse(_)) => {}
        Err(error) => return Err(CliError::other(error)),
    }
    let (reader, writer) = io::pipe().map_err(CliError::other)?;
    std::thread::scope(|scope| {
        let inspected = scope.spawn(move || backup::inspect(io::BufReader::new(reader)));
        let written = write_backup(data, writer);
        let inspected = inspected
            .join()
            .map_err(|_| CliError::other("the verification of the rows panicked"))?;
        written?;
        inspected
            .map(|(_, findings)| (true, findings))
            .map_err(CliError::other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_minutes_hours_or_days() {
        for (text, secs) in [
            ("1m", 60),
            ("90m", 5400),
            ("12h", 43_200),
            ("1d", 86_400),
            ("366d", 366 * 86_400),
        ] {
            assert_eq!(
                parse_interval(text),
                Ok(Duration::from_secs(secs)),
                "{text}"
            );
        }
        for text in [
            "",
            "d",
            "1",
            "0d",
            "-1d",
            "1.5h",
            "30s",
            "367d",
            "1 d",
            "1w",
            "999999999d",
            "1ž",
        ] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}

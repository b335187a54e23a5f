//! `overdue backup`, `overdue backups`, `overdue restore` and `overdue verify`.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::backup_flags::{
    BackupSourceFlags, BucketFlags, OpenedBackup, file_error, in_bucket, is_stream,
};
use super::common_args::JsonFlag;
use super::data_directory::assume_owner;
use super::{CliError, table};
use crate::admin;
use crate::admin::backup::Backup;
use crate::backup::{
    self, BackupError, BackupFileWriter, BackupInfo, BackupRecipient, EncryptedOutput,
};
use crate::domain::formatting::format_count;
use crate::domain::timestamp::Timestamp;
use crate::engine::{ServerLocation, Throttle};
use crate::store::{
    FILE_NAME, Inspection, InspectionReport, Medium, ProgressReporter, Store, StoreError, TableSize,
};
use crate::util::random::Random;

#[derive(Args)]
pub(super) struct BackupArgs {
    /// File to write, compressed if its name ends with .zst or .zst.age; `-` for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Public key to encrypt the backup for, as age-keygen prints it; may be given several times,
    /// with commas in the variable
    #[arg(
        long,
        env = "OVERDUE_ENCRYPT_FOR",
        value_name = "KEY",
        value_delimiter = ','
    )]
    encrypt_for: Vec<BackupRecipient>,
}

#[derive(Args)]
pub(super) struct BackupsArgs {
    #[command(flatten)]
    bucket: BucketFlags,

    #[command(flatten)]
    json: JsonFlag,
}

impl BackupsArgs {
    /// Lists the backups in a bucket.
    pub(super) fn run(self) -> Result<(), CliError> {
        let Some((config, bucket)) = self.bucket.connect()? else {
            return Err(CliError::usage("give a bucket by --bucket FILE"));
        };
        let backups = bucket.list().map_err(in_bucket(&config))?;
        let time = |at: Timestamp| {
            let mut text = String::new();
            at.write_rfc3339_secs(&mut text);
            text
        };
        let lines = if self.json.json {
            let object = |backup: &backup::StoredBackup| {
                serde_json::json!({
                    "name": backup.name,
                    "made": time(backup.at),
                    "bytes": backup.bytes,
                })
                .to_string()
            };
            backups.iter().map(object).collect()
        } else {
            let cells = |backup: &backup::StoredBackup| {
                [
                    time(backup.at),
                    backup.bytes.to_string(),
                    backup.name.clone(),
                ]
            };
            table::format_table(&["MADE", "BYTES", "NAME"], backups.iter().map(cells))
        };
        table::print_lines(&lines).map_err(CliError::output_failed)
    }
}

#[derive(Args)]
pub(super) struct RestoreArgs {
    /// Backup to read, compressed or not; `-` for standard input. With --bucket, the name of one in
    /// it [default: the newest in the bucket]
    #[arg(value_name = "FILE", required_unless_present = "bucket")]
    file: Option<PathBuf>,

    #[command(flatten)]
    source: BackupSourceFlags,

    /// Replace an existing database
    #[arg(long, env = "OVERDUE_FORCE", value_parser = clap::builder::FalseyValueParser::new())]
    force: bool,
}

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// Backup to verify, compressed or not; `-` for standard input. With --bucket, the name of one
    /// in it [default: the database, or the newest in the bucket]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    source: BackupSourceFlags,

    #[command(flatten)]
    json: JsonFlag,
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
            let (mut out, _) = EncryptedOutput::begin(io::stdout().lock(), &self.encrypt_for)
                .map_err(CliError::output_failed)?;
            write_backup(data, &mut out)?;
            return out.finish().map(drop).map_err(CliError::output_failed);
        }
        let is_named_encrypted = file.extension().is_some_and(|extension| extension == "age");
        if is_named_encrypted && self.encrypt_for.is_empty() {
            return Err(CliError::usage(
                "the name ends with .age: give a public key by --encrypt-for, or another name",
            ));
        }
        let mut out = BackupFileWriter::create(file, &self.encrypt_for)
            .map_err(|error| file_error(file)(error.into()))?;
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
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        if admin::is_server_running(data) {
            return Err(CliError::other(StoreError::InUse(data.join(FILE_NAME))));
        }
        let Some(backup) = self.source.open(self.file)? else {
            return Err(CliError::usage("give a backup"));
        };
        let _owner = assume_owner(data)?;
        let restored = backup::restore(data, self.force, backup.input, &Random::System);
        let BackupInfo { begun, .. } = restored.map_err(|error| match error {
            BackupError::Store(error) => CliError::other(error),
            error => file_error(&backup.name)(error),
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
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let report = match self.source.open(self.file)? {
            Some(OpenedBackup { name, bytes, input }) => {
                let (info, findings) = backup::inspect(input).map_err(file_error(&name))?;
                VerifyReport {
                    path: name,
                    file_bytes: bytes,
                    backup_info: Some(info),
                    pages_are_sound: true,
                    findings,
                }
            }
            None => {
                let path = data.join(FILE_NAME);
                let (sound_pages, findings) = inspect_database(data, &path)?;
                VerifyReport {
                    file_bytes: std::fs::metadata(&path).ok().map(|file| file.len()),
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
    /// Size of the file in bytes, unless it was standard input.
    file_bytes: Option<u64>,
    /// `None` for the database.
    backup_info: Option<BackupInfo>,
    pages_are_sound: bool,
    findings: InspectionReport,
}

impl VerifyReport {
    fn row_bytes(&self) -> u64 {
        self.findings.tables.values().map(|size| size.bytes).sum()
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
            "bytes": self.file_bytes,
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
        let bytes = self.file_bytes.map_or(String::new(), |bytes| {
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

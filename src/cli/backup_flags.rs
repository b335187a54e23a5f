//! Flags for backups: of the server, and of the commands that read backups.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::CliError;
use super::common_args::number_parser;
use super::session::this_program;
use super::settings_file::read_settings_file;
use crate::backup::{
    self, BackupBucket, BackupError, BackupHook, BackupKeys, BackupRecipient, BackupSchedule,
    BucketConfig,
};
use crate::outbound::{Outbound, OutboundConfig};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Maximum bytes of a file with keys that are read: see [limits](crate::docs::limits).
const MAX_KEY_FILE_BYTES: u64 = 1 << 20;

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

    /// Public key that scheduled backups are encrypted for, as age-keygen prints it; may be given
    /// several times, with commas in the variable [default: not encrypted]
    #[arg(
        long,
        env = "OVERDUE_BACKUP_ENCRYPT_FOR",
        value_name = "KEY",
        value_delimiter = ',',
        requires = "backup_to"
    )]
    backup_encrypt_for: Vec<BackupRecipient>,

    /// TOML file with a bucket of S3-compatible storage to which each scheduled backup is copied;
    /// see the chapter on operations
    #[arg(
        long,
        env = "OVERDUE_BACKUP_BUCKET",
        value_name = "FILE",
        value_parser = read_bucket,
        requires = "backup_to"
    )]
    backup_bucket: Option<BucketConfig>,

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
            recipients: self.backup_encrypt_for,
            bucket: self.backup_bucket,
            hook: self.backup_command.map(|command| BackupHook {
                command,
                launcher: this_program(),
            }),
        })
    }
}

fn read_bucket(path: &str) -> Result<BucketConfig, String> {
    read_settings_file(path, backup::parse_bucket)
}

/// Bucket of a command.
#[derive(Args)]
pub(super) struct BucketFlags {
    /// TOML file with the bucket that has the backup: see serve --backup-bucket
    #[arg(long, env = "OVERDUE_BUCKET", value_name = "FILE", value_parser = read_bucket)]
    bucket: Option<BucketConfig>,

    /// PEM file with certificate authorities to trust for the bucket in addition to the system's
    #[arg(long, env = "OVERDUE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl BucketFlags {
    /// Connects to the bucket, if there is one.
    pub(super) fn connect(self) -> Result<Option<(BucketConfig, BackupBucket)>, CliError> {
        let Some(config) = self.bucket else {
            return Ok(None);
        };
        let outbound = OutboundConfig {
            ca_file: self.ca_file,
            mentions_tls_pin: false,
            ..OutboundConfig::default()
        };
        let outbound =
            Outbound::new(outbound, &Clock::System, Random::System).map_err(CliError::usage)?;
        let bucket = BackupBucket::connect(&config, outbound).map_err(in_bucket(&config))?;
        Ok(Some((config, bucket)))
    }
}

/// True for standard input or output.
pub(super) fn is_stream(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Adds the file to an error.
pub(super) fn file_error(file: &Path) -> impl Fn(BackupError) -> CliError {
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

/// Adds the bucket to an error.
pub(super) fn in_bucket(config: &BucketConfig) -> impl Fn(BackupError) -> CliError {
    move |error| CliError::other(format!("{config}: {error}"))
}

/// Place of a backup that a command reads.
#[derive(Args)]
pub(super) struct BackupSourceFlags {
    #[command(flatten)]
    bucket: BucketFlags,

    /// File with the secret key of an encrypted backup, as age-keygen writes it
    #[arg(long, env = "OVERDUE_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// A backup that was opened.
pub(super) struct OpenedBackup {
    /// File, or name in the bucket.
    pub(super) name: PathBuf,
    /// Size in bytes, unless it is standard input.
    pub(super) bytes: Option<u64>,
    pub(super) input: Box<dyn Read>,
}

impl BackupSourceFlags {
    /// Opens a file, standard input, or a backup of the bucket: by its name or the newest. `None`:
    /// no backup is given.
    pub(super) fn open(self, file: Option<PathBuf>) -> Result<Option<OpenedBackup>, CliError> {
        let keys = read_keys(self.key_file.as_deref())?;
        if let Some((config, bucket)) = self.bucket.connect()? {
            let name = file.as_deref().map(Path::to_string_lossy);
            let backup = bucket.find(name.as_deref()).map_err(in_bucket(&config))?;
            let name = PathBuf::from(format!("{config}/{}", backup.name));
            let bytes = Some(backup.bytes);
            let input =
                backup::read_backup(bucket.open(backup), &keys).map_err(file_error(&name))?;
            return Ok(Some(OpenedBackup { name, bytes, input }));
        }
        let Some(name) = file else {
            return Ok(None);
        };
        let opened = if is_stream(&name) {
            backup::read_backup(io::stdin(), &keys)
        } else {
            backup::open_backup(&name, &keys)
        };
        let bytes = std::fs::metadata(&name).ok().map(|file| file.len());
        let input = opened.map_err(file_error(&name))?;
        Ok(Some(OpenedBackup { name, bytes, input }))
    }
}

fn read_keys(file: Option<&Path>) -> Result<BackupKeys, CliError> {
    let Some(file) = file else {
        return Ok(BackupKeys::default());
    };
    let opened = std::fs::File::open(file).map_err(|error| error.to_string());
    opened
        .and_then(|opened| BackupKeys::read(io::BufReader::new(opened.take(MAX_KEY_FILE_BYTES))))
        .map_err(|reason| CliError::usage(format!("{}: {reason}", file.display())))
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

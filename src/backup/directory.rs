//! Names of scheduled backups, and the directory that holds them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;

use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;

/// Format of the time in the name of a backup, in UTC. Names sort by time.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%SZ";
/// Length of a time in this format, in bytes.
const TIME_BYTES: usize = "20270115T080000Z".len();
/// Suffix after the time.
const SUFFIX: &str = ".backup.zst";
/// Suffix of encrypted backups, after the other one.
const ENCRYPTED_SUFFIX: &str = ".age";

/// Name of a scheduled backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BackupName {
    /// First part, the same for all backups of a database.
    pub(super) prefix: String,
    /// Start time of the backup.
    pub(super) at: Timestamp,
    /// True if the file is encrypted.
    pub(super) is_encrypted: bool,
}

impl BackupName {
    /// Parses a name. Returns `None` for the names of other files.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let plain = text.strip_suffix(ENCRYPTED_SUFFIX);
        let stem = plain.unwrap_or(text).strip_suffix(SUFFIX)?;
        let (prefix, time) = stem.split_at_checked(stem.len().checked_sub(TIME_BYTES)?)?;
        prefix.strip_prefix("overdue-")?.strip_suffix('-')?;
        Some(Self {
            prefix: prefix.into(),
            at: parse_time(time)?,
            is_encrypted: plain.is_some(),
        })
    }

    /// Returns the text of the name.
    pub(super) fn format(&self) -> String {
        let encrypted = if self.is_encrypted {
            ENCRYPTED_SUFFIX
        } else {
            ""
        };
        format!("{}{}{SUFFIX}{encrypted}", self.prefix, format_time(self.at))
    }
}

/// Returns the first part of the names of backups of this database.
pub(super) fn name_prefix(handle: &Handle) -> String {
    // The instance ID is drawn when a database is opened for the first time, and by a restore.
    let instance =
        u32::from_be_bytes(handle.with_state(|state| state.instance_id.unwrap_or_default()));
    format!("overdue-{instance:08x}-")
}

/// Sorts backups by their time, oldest first. Backups with a time in the future, made while the
/// clock was ahead, count as the oldest.
pub(super) fn sort_oldest_first<T>(backups: &mut [(Timestamp, T)], now: Timestamp) {
    backups.sort_by_key(|(at, _)| (!at.is_ahead_of(now), *at));
}

/// Backup files of this database in a directory. Files of other databases are left alone.
pub(super) struct BackupDirectory {
    pub(super) prefix: String,
    finished: Vec<(Timestamp, PathBuf)>,
    pub(super) partial: Vec<PathBuf>,
}

impl BackupDirectory {
    pub(super) fn list(handle: &Handle, directory: &Path) -> io::Result<Self> {
        let mut files = Self {
            prefix: name_prefix(handle),
            finished: Vec::new(),
            partial: Vec::new(),
        };
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let whole = name.strip_suffix(".partial");
            let Some(parsed) = BackupName::parse(whole.unwrap_or(name))
                .filter(|parsed| parsed.prefix == files.prefix)
            else {
                continue;
            };
            match whole {
                Some(_) => files.partial.push(path),
                None => files.finished.push((parsed.at, path)),
            }
        }
        Ok(files)
    }

    /// Returns the finished backups, oldest first: see [`sort_oldest_first`].
    pub(super) fn oldest_first(mut self, now: Timestamp) -> Vec<(Timestamp, PathBuf)> {
        sort_oldest_first(&mut self.finished, now);
        self.finished
    }

    pub(super) fn newest_time(self, now: Timestamp) -> Option<Timestamp> {
        self.oldest_first(now)
            .pop()
            .map(|(at, _)| at)
            .filter(|at| !at.is_ahead_of(now))
    }
}

fn format_time(at: Timestamp) -> String {
    // The clock can show a time that is not a valid date.
    jiff::Timestamp::from_second(at.secs())
        .unwrap_or_default()
        .strftime(TIME_FORMAT)
        .to_string()
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let time = DateTime::strptime(TIME_FORMAT, text)
        .ok()?
        .to_zoned(jiff::tz::TimeZone::UTC)
        .ok()?;
    Some(Timestamp::from_secs(time.timestamp().as_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for is_encrypted in [false, true] {
            let name = BackupName {
                prefix: "overdue-00c0ffee-".into(),
                at: Timestamp::from_secs(1_800_000_000),
                is_encrypted,
            };
            assert_eq!(BackupName::parse(&name.format()), Some(name));
        }
        for text in [
            "",
            "overdue-00c0ffee-20270115T080000Z.backup",
            "overdue-00c0ffee-20270115T080000Z.backup.zst.partial",
            "overdue-00c0ffee-20270115T080000Z.backup.age",
            "overdue-00c0ffee-20271315T080000Z.backup.zst",
            "overdue-00c0ffee20270115T080000Z.backup.zst",
            "other-00c0ffee-20270115T080000Z.backup.zst",
            "20270115T080000Z.backup.zst",
            "€20270115T080000.backup.zst",
        ] {
            assert_eq!(BackupName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn times_in_names_are_read_back() {
        for secs in [0, 1_800_000_000, 1_799_999_999] {
            assert_eq!(
                parse_time(&format_time(Timestamp::from_secs(secs))),
                Some(Timestamp::from_secs(secs))
            );
        }
        assert_eq!(
            format_time(Timestamp::from_secs(1_800_000_000)),
            "20270115T080000Z"
        );
        for text in [
            "",
            "20270115",
            "20270115T080000",
            "20271315T080000Z",
            "20270115T080000Zx",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}

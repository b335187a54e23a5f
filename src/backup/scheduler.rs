//! Scheduled backups: the server makes one after each interval and keeps the newest.

use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use super::directory::{BackupDirectory, BackupName, name_prefix, sort_oldest_first};
use super::{
    BackupBucket, BackupError, BackupFileWriter, BackupHook, BackupRecipient, BucketConfig,
    lower_thread_priority, write_backup,
};
use crate::domain::timestamp::Timestamp;
use crate::engine::{Handle, ServerLocation, Throttle};
use crate::outbound::{Outbound, OutboundConfig};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Delay before the next attempt after a failure, unless the interval is shorter.
const RETRY_DELAY: Duration = Duration::from_secs(600);
/// Interval at which the clock is read. The clock may be set at any time.
const CLOCK_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Directory, interval and number of scheduled backups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupSchedule {
    /// Directory for the backups, which must exist.
    pub directory: PathBuf,
    /// Time between two backups.
    pub interval: Duration,
    /// Number of newest backups to keep, at least 1.
    pub keep_newest: usize,
    /// Public keys that backups are encrypted for. Empty: they are not encrypted.
    pub recipients: Vec<BackupRecipient>,
    /// Bucket to which each backup is copied.
    pub bucket: Option<BucketConfig>,
    /// Command that runs after each backup, and after its copy.
    pub hook: Option<BackupHook>,
}

/// Handle to the thread that makes scheduled backups. The thread ends soon after the handle is
/// dropped.
pub struct BackupScheduler {
    control: BackupControl,
}

/// Access to the scheduled backups of a running server.
#[derive(Clone)]
pub struct BackupControl {
    schedule: Arc<BackupSchedule>,
    wake: Sender<()>,
    is_requested: Arc<AtomicBool>,
}

impl fmt::Debug for BackupControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schedule.fmt(f)
    }
}

/// A finished backup in the directory of scheduled backups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupFile {
    /// Name of the file.
    pub name: String,
    /// Start time of the backup.
    pub at: Timestamp,
    /// Size in bytes.
    pub bytes: u64,
}

impl BackupControl {
    /// Schedule of the backups.
    pub fn schedule(&self) -> &BackupSchedule {
        &self.schedule
    }

    /// Starts a backup now, or after the one that is being made.
    pub fn request_backup(&self) {
        self.is_requested.store(true, Ordering::Release);
        // The receiver is gone once the server has stopped.
        let _ = self.wake.send(());
    }

    /// Finished backups of this database, newest first.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn files(&self, handle: &Handle) -> io::Result<Vec<BackupFile>> {
        let listed = BackupDirectory::list(handle, &self.schedule.directory)?;
        let mut files = Vec::new();
        for (at, path) in listed.oldest_first(handle.now()).into_iter().rev() {
            // A file may be removed meanwhile.
            let Ok(found) = fs::metadata(&path) else {
                continue;
            };
            let name = path.file_name().unwrap_or_default();
            files.push(BackupFile {
                name: name.to_string_lossy().into_owned(),
                at,
                bytes: found.len(),
            });
        }
        Ok(files)
    }
}

impl BackupScheduler {
    /// Starts the thread. Results are reported in the metrics.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread. A missing directory is reported at
    /// every attempt, because it may be mounted later.
    pub fn start(
        handle: Handle,
        schedule: BackupSchedule,
        outbound: OutboundConfig,
    ) -> io::Result<Self> {
        let made = BackupDirectory::list(&handle, &schedule.directory);
        let newest = made.ok().and_then(|made| made.newest_time(handle.now()));
        handle.metrics().enable_backups(newest);
        let (wake, woken) = mpsc::channel();
        let wake_on_move = wake.clone();
        let control = BackupControl {
            schedule: Arc::new(schedule.clone()),
            wake,
            is_requested: Arc::default(),
        };
        let is_requested = Arc::clone(&control.is_requested);
        handle.clock().on_move(move || {
            // The receiver is gone once the server has stopped.
            let _ = wake_on_move.send(());
        });
        std::thread::Builder::new()
            .name("backups".into())
            .spawn(move || {
                lower_thread_priority();
                let mut progress = BackupProgress {
                    newest,
                    not_before: Timestamp::default(),
                    unfinished: None,
                    outbound,
                };
                loop {
                    let now = handle.now();
                    let next = progress.next_attempt(&schedule, now);
                    handle.metrics().plan_backup(next);
                    let wait = next.micros_since(now);
                    let is_requested = is_requested.swap(false, Ordering::AcqRel);
                    if !is_requested && wait > 0 {
                        match woken.recv_timeout(
                            CLOCK_POLL_INTERVAL.min(Duration::from_micros(wait.unsigned_abs())),
                        ) {
                            Err(RecvTimeoutError::Disconnected) => return,
                            Ok(()) | Err(RecvTimeoutError::Timeout) => continue,
                        }
                    }
                    progress.run(&handle, &schedule, is_requested, now);
                }
            })?;
        Ok(Self { control })
    }

    /// Access to the backups, for as long as the server runs.
    pub fn control(&self) -> BackupControl {
        self.control.clone()
    }
}

/// Progress of the scheduled backups.
struct BackupProgress {
    /// Start time of the newest backup.
    newest: Option<Timestamp>,
    /// Earliest time of the next attempt after a failure.
    not_before: Timestamp,
    /// Backup whose copy or command has not succeeded yet. Only these are repeated for it, so that
    /// a failure that lasts replaces no older backup.
    unfinished: Option<UnfinishedBackup>,
    /// Connections to the bucket.
    outbound: OutboundConfig,
}

/// A backup with what is left to do for it.
struct UnfinishedBackup {
    path: PathBuf,
    is_copied: bool,
}

impl BackupProgress {
    /// Time at which the next backup is due, by the interval alone.
    fn next_backup(&self, schedule: &BackupSchedule, now: Timestamp) -> Timestamp {
        self.newest
            .filter(|at| !at.is_ahead_of(now))
            .map_or(now, |at| at.plus_micros(to_micros(schedule.interval)))
    }

    /// Time of the next attempt.
    fn next_attempt(&self, schedule: &BackupSchedule, now: Timestamp) -> Timestamp {
        let due = self.next_backup(schedule, now);
        match self.unfinished {
            Some(_) => self.not_before.min(due.max(now)),
            None => due.max(self.not_before),
        }
    }

    /// Makes a backup if one is due or requested, copies it, and runs the command. Results are
    /// reported in the metrics and in the log.
    fn run(
        &mut self,
        handle: &Handle,
        schedule: &BackupSchedule,
        is_requested: bool,
        now: Timestamp,
    ) {
        handle.metrics().record_backup_start(now);
        let is_due = is_requested || self.next_backup(schedule, now) <= now;
        let made = match self.unfinished.take().filter(|_| !is_due) {
            Some(unfinished) => Ok(unfinished),
            None => run_attempt(|| create_backup(handle, schedule, now)).map(|path| {
                self.newest = Some(now);
                UnfinishedBackup {
                    path,
                    is_copied: false,
                }
            }),
        };
        let finished = made.and_then(|mut backup| {
            run_attempt(|| self.process(handle, schedule, &mut backup))
                .inspect_err(|_| self.unfinished = Some(backup))
        });
        let newest = self.newest.unwrap_or(now);
        match finished {
            Ok(()) => handle.metrics().record_backup(newest),
            Err(error) => {
                // The command may have taken hours.
                let delay = to_micros(RETRY_DELAY.min(schedule.interval));
                self.not_before = handle.now().plus_micros(delay);
                let reason = failure_reason(&error);
                let directory = schedule.directory.display();
                if self.unfinished.is_some() {
                    handle.metrics().record_backup(newest);
                    tracing::error!("the backup in {directory} was not processed: {reason}");
                } else {
                    tracing::error!("NO BACKUP: writing to {directory} failed: {reason}");
                }
                handle.metrics().record_backup_failure(now, reason);
            }
        }
    }

    /// Copies a backup to the bucket, unless that is done, and runs the command.
    fn process(
        &self,
        handle: &Handle,
        schedule: &BackupSchedule,
        backup: &mut UnfinishedBackup,
    ) -> Result<(), BackupError> {
        if let Some(bucket) = schedule.bucket.as_ref().filter(|_| !backup.is_copied) {
            copy_to_bucket(handle, bucket, &self.outbound, &backup.path)?;
            backup.is_copied = true;
        }
        match &schedule.hook {
            None => Ok(()),
            Some(hook) => hook.run(&backup.path),
        }
    }
}

/// Copies a backup to the bucket and deletes the oldest copies beyond the limit.
fn copy_to_bucket(
    handle: &Handle,
    config: &BucketConfig,
    outbound: &OutboundConfig,
    path: &Path,
) -> Result<(), BackupError> {
    let failed =
        |error: BackupError| BackupError::Bucket(format!("copying it to {config} failed: {error}"));
    // Its connections end with the copy, and the file with authorities is read again.
    let outbound = Outbound::new(outbound.clone(), &Clock::System, Random::System)
        .map_err(|error| failed(BackupError::Bucket(error.to_string())))?;
    let bucket = BackupBucket::connect(config, outbound).map_err(failed)?;
    bucket.upload(path).map_err(failed)?;
    tracing::info!("copied backup {} to {config}", path.display());
    if let Some(keep) = config.keep_newest
        && let Err(error) = delete_old_copies(handle, &bucket, keep)
    {
        // The copy exists. The next one deletes these too.
        tracing::warn!("old backups in {config} were not deleted: {error}");
    }
    Ok(())
}

fn delete_old_copies(
    handle: &Handle,
    bucket: &BackupBucket,
    keep: usize,
) -> Result<(), BackupError> {
    let prefix = name_prefix(handle);
    let mut copies: Vec<_> = bucket
        .list()?
        .into_iter()
        .filter(|copy| copy.prefix == prefix)
        .map(|copy| (copy.at, copy))
        .collect();
    sort_oldest_first(&mut copies, handle.now());
    copies
        .iter()
        .rev()
        .skip(keep)
        .try_for_each(|(_, copy)| bucket.delete(copy))
}

/// Makes or processes a backup. A panic ends this attempt only; the next one follows on
/// schedule.
fn run_attempt<T>(make: impl FnOnce() -> Result<T, BackupError>) -> Result<T, BackupError> {
    // A panic leaves a partial file, which the next attempt removes.
    catch_unwind(AssertUnwindSafe(make)).unwrap_or(Err(BackupError::Panicked))
}

fn to_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the reason for a failure, with a remedy if one is known.
fn failure_reason(error: &BackupError) -> String {
    match error {
        BackupError::Io(io) if io.kind() == io::ErrorKind::ReadOnlyFilesystem => format!(
            "{error}; a systemd service can write only to directories that its unit allows: add \
             the directory to ReadWritePaths= (systemctl edit overdue)"
        ),
        _ => error.to_string(),
    }
}

/// Makes a backup and removes the oldest ones beyond the limit. Returns its path.
fn create_backup(
    handle: &Handle,
    schedule: &BackupSchedule,
    now: Timestamp,
) -> Result<PathBuf, BackupError> {
    let files = BackupDirectory::list(handle, &schedule.directory)?;
    for partial in &files.partial {
        // Partial files of a server that was killed. This server makes one backup at a time.
        fs::remove_file(partial)?;
    }
    let name = BackupName {
        prefix: files.prefix,
        at: now,
        is_encrypted: !schedule.recipients.is_empty(),
    };
    let path = schedule.directory.join(name.format());
    let mut file = BackupFileWriter::create(&path, &schedule.recipients)?;
    write_backup(handle, &mut file)?;
    let (bytes, rows) =
        file.verify_and_rename(&mut Throttle::new(ServerLocation::InProcess(handle)))?;
    tracing::info!(
        "wrote backup {}: {rows} rows, {bytes} bytes",
        path.display()
    );
    for (_, old) in BackupDirectory::list(handle, &schedule.directory)?
        .oldest_first(now)
        .iter()
        .rev()
        .skip(schedule.keep_newest)
    {
        fs::remove_file(old)?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_file_system_is_explained() {
        assert!(
            failure_reason(&io::Error::from(io::ErrorKind::ReadOnlyFilesystem).into())
                .contains("ReadWritePaths=")
        );
        assert!(
            !failure_reason(&io::Error::from(io::ErrorKind::StorageFull).into())
                .contains("ReadWritePaths=")
        );
    }

    #[test]
    fn a_panic_fails_one_attempt_and_ends_no_thread() {
        let failed = run_attempt(|| -> Result<(), _> { panic!("on purpose") });
        assert!(matches!(failed, Err(BackupError::Panicked)), "{failed:?}");
        assert!(run_attempt(|| Ok(())).is_ok());
    }
}

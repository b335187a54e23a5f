//! Restore of a database from rows that were stored elsewhere. It replaces the database in the data
//! directory only once it is complete.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::log::{JOURNAL_NAME, journal_number, remove_journal_file};
use super::medium::{create_private_directory, open_database_file};
use super::{
    Batch, FILE_NAME, Medium, MetaKey, ProgressReporter, Store, StoreError, TableRows, meta,
    migrations,
};
use crate::domain::alert::OutboxRow;

/// Directory within the data directory in which the new database is created.
const WORK_DIRECTORY: &str = "restoring";

/// Restore in progress. No other process can open the database of the directory, or create one
/// there, until it ends.
pub struct DatabaseRestore {
    directory: PathBuf,
    /// `None` at the end.
    database: Option<(Store, Batch)>,
    /// Locked directory, and the locked database that is to be replaced.
    locks: (File, Option<File>),
    /// Number of the log whose journal lies beside the database that is to be replaced; 0 if there
    /// is none.
    replaced_log: u64,
}

impl DatabaseRestore {
    /// Begins a restore. A missing directory is created.
    ///
    /// # Errors
    /// Returns an error if a database exists and `force` is false, if another process has it open,
    /// or if the system refuses an operation.
    pub fn begin(directory: &Path, force: bool) -> Result<Self, StoreError> {
        let path = directory.join(FILE_NAME);
        let directory_error = |error| StoreError::Path(directory.into(), error);
        create_private_directory(directory).map_err(directory_error)?;
        let locked = File::open(directory).map_err(directory_error)?;
        lock(&locked, &path)?;
        let journal = directory.join(JOURNAL_NAME);
        if !force && fs::symlink_metadata(&journal).is_ok() {
            return Err(StoreError::Occupied(journal));
        }
        let replaced_log = journal_number(&journal)?;
        let replaced = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::Path(path, error)),
            Ok(_) if !force => return Err(StoreError::Occupied(path)),
            Ok(found) if found.is_symlink() => {
                let reason = "it is a link: give the directory that it leads to with --data".into();
                return Err(StoreError::File { path, reason });
            }
            Ok(_) => {
                let file = open_database_file(&path)
                    .map_err(|error| StoreError::Path(path.clone(), error))?;
                lock(&file, &path)?;
                Some(file)
            }
        };
        let work_directory = directory.join(WORK_DIRECTORY);
        // An existing directory is left from a restore that did not end.
        clear_work_directory(&work_directory).map_err(directory_error)?;
        // A link of this name would be followed.
        DirBuilder::new()
            .mode(0o700)
            .create(&work_directory)
            .map_err(directory_error)?;
        let store = Store::open_unmigrated(
            &Medium::Directory(work_directory),
            &ProgressReporter::default(),
        )?;
        let batch = store.batch()?;
        Ok(Self {
            directory: directory.into(),
            database: Some((store, batch)),
            locks: (locked, replaced),
            replaced_log,
        })
    }

    /// Adds rows. They come in the order of the list of tables and of their keys.
    ///
    /// # Errors
    /// Returns an error if the rows are malformed, belong to the layout of a newer release, or
    /// cannot be written.
    pub fn add(&mut self, rows: &TableRows<'_>) -> Result<(), StoreError> {
        let Some((_, batch)) = &self.database else {
            return Ok(());
        };
        super::catch_panic(|| batch.add_rows(rows))?;
        match meta::schema(batch.unrecorded())? {
            found if found > migrations::SCHEMA => Err(StoreError::TooNew {
                found,
                known: migrations::SCHEMA,
            }),
            _ => Ok(()),
        }
    }

    /// Makes the added rows the database of the directory, unchanged: a copy for another machine of
    /// the same cluster.
    ///
    /// # Errors
    /// Returns an error if something cannot be written. The old database is then unchanged.
    pub fn finish_copy(mut self) -> Result<(), StoreError> {
        if let Some((store, batch)) = self.database.take() {
            if self.replaced_log != 0 {
                batch.set_meta_value(MetaKey::ReplacedLog, self.replaced_log)?;
            }
            batch.commit()?;
            drop(store);
            self.replace_database()?;
        }
        Ok(())
    }

    /// Makes the new database that of the directory.
    fn replace_database(&self) -> Result<(), StoreError> {
        let from = self.directory.join(WORK_DIRECTORY).join(FILE_NAME);
        let to = self.directory.join(FILE_NAME);
        // The journal belongs to the database that is replaced. If this process is killed before it
        // is removed, the next start recognises it by its number.
        fs::rename(&from, &to)
            .and_then(|()| self.locks.0.sync_all())
            .and_then(|()| remove_journal_file(&self.directory))
            .map_err(|error| StoreError::Path(to, error))
    }

    /// Makes the added rows the database of the directory. It gets the layout of this release and a
    /// new `instance`, because the original database may have sent alerts since the backup and may
    /// continue. For the same reason, messages in the outbox are marked as possible repeats.
    /// Sessions and links are removed: a user who ended one since the backup does not expect it to
    /// return.
    ///
    /// # Errors
    /// Returns an error if something cannot be written. The old database is then unchanged.
    pub fn finish(mut self, instance: [u8; 4]) -> Result<(), StoreError> {
        let Some((store, batch)) = self.database.take() else {
            return Ok(());
        };
        batch.commit()?;
        let work_directory = self.directory.join(WORK_DIRECTORY);
        let store = store.migrate(&Medium::Directory(work_directory.clone()))?;
        let snapshot = store.snapshot()?;
        let batch = store.batch()?;
        batch.set_instance(instance)?;
        // The log of the original belongs to that one alone.
        for key in [
            MetaKey::LogDatabase,
            MetaKey::LogPlace,
            MetaKey::LogChain,
            MetaKey::IsClustered,
        ] {
            batch.set_meta_value(key, 0)?;
        }
        batch.set_meta_value(MetaKey::ReplacedLog, self.replaced_log)?;
        batch.remove_sessions_and_links()?;
        for row in snapshot.outbox()? {
            match row {
                Ok(row) => batch.put_outbox_rows([&OutboxRow {
                    may_be_duplicate: true,
                    ..row
                }])?,
                // The first startup moves it to quarantine.
                Err(StoreError::InvalidRow { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        drop(snapshot);
        batch.commit()?;
        drop(store);
        self.replace_database()
    }
}

impl Drop for DatabaseRestore {
    fn drop(&mut self) {
        self.database = None;
        if let Err(error) = clear_work_directory(&self.directory.join(WORK_DIRECTORY)) {
            tracing::warn!(
                "{} cannot be removed: {error}",
                self.directory.join(WORK_DIRECTORY).display()
            );
        }
    }
}

/// Takes a lock that an open database takes, too.
fn lock(file: &File, path: &Path) -> Result<(), StoreError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StoreError::InUse(path.into()),
        TryLockError::Error(error) => StoreError::Path(path.into(), error),
    })
}

/// Removes the leftovers of a killed restore from the directory of an open database: a copy of a
/// database with its secrets. No restore can be in progress, since it would hold the lock of the
/// database.
pub fn remove_leftovers(medium: &Medium) {
    let Medium::Directory(directory) = medium else {
        return;
    };
    let work_directory = directory.join(WORK_DIRECTORY);
    if fs::symlink_metadata(&work_directory).is_err() {
        return;
    }
    match clear_work_directory(&work_directory) {
        Ok(()) => tracing::warn!(
            "{} was left by an unfinished restore and was removed",
            work_directory.display()
        ),
        Err(error) => tracing::warn!(
            "{} was left by an unfinished restore and cannot be removed: {error}",
            work_directory.display()
        ),
    }
}

fn clear_work_directory(work_directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(work_directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

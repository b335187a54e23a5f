//! What the database lies on: a directory of its own, or storage that a test brings.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{Builder, Database, StorageBackend};

use super::StoreError;

/// The name of the database file within the data directory.
pub const FILE_NAME: &str = "overdue.redb";

/// Bytes of pages that redb keeps in memory.
const CACHE_BYTES: usize = 16 << 20;

/// Bytes that are written again at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// What the database lies on.
#[derive(Clone)]
pub enum Medium {
    /// A file in this directory.
    Directory(PathBuf),
    /// Storage that a test brings: in memory, failing on demand, losing what was not synced.
    Backend(Arc<dyn StorageBackend>),
}

impl Medium {
    /// Storage in memory.
    pub fn memory() -> Self {
        Self::Backend(Arc::new(InMemoryBackend::new()))
    }

    /// Opens the database, or makes it.
    pub(super) fn open(&self) -> Result<Database, StoreError> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        match self {
            Self::Backend(storage) => Ok(builder.create_with_backend(Brought(Arc::clone(storage)))?),
            Self::Directory(directory) => {
                let path = directory.join(FILE_NAME);
                let told = |error| StoreError::Directory(path.clone(), error);
                make_private_directory(directory).map_err(|error| StoreError::Directory(directory.clone(), error))?;
                if is_empty(&path) {
                    make_file(&builder, directory, &path).map_err(told)?;
                }
                match builder.create_file(open_file(&path).map_err(told)?) {
                    Err(redb::DatabaseError::DatabaseAlreadyOpen) => Err(StoreError::InUse(path)),
                    opened => Ok(opened?),
                }
            }
        }
    }

    /// Whether the medium takes a small durable write: asked before a failed database is dropped and reopened.
    pub fn probe(&self) -> io::Result<()> {
        let Self::Directory(directory) = self else { return Ok(()) };
        let path = directory.join("probe");
        // More than one block, so that a full disk says so.
        let written = File::create(&path).and_then(|mut file| file.write_all(&[0; 1 << 16]).and_then(|()| file.sync_all()));
        let removed = std::fs::remove_file(&path);
        written.and(removed)
    }

    /// Writes the whole closed file again in its own place, and syncs it.
    ///
    /// After a failed `fsync` the kernel marks dirty pages as clean although they never reached the disk (Linux does, on most file
    /// systems). They can still be read, but no later `fsync` writes them. A power cut then loses them, and with them everything
    /// that was committed on top of them.
    pub(super) fn write_again(&self) -> io::Result<()> {
        match self {
            Self::Backend(storage) => write_again(&**storage),
            Self::Directory(directory) => {
                let file = open_file(&directory.join(FILE_NAME))?;
                // Nobody else may open it meanwhile.
                file.try_lock()?;
                write_again(&FileBackend::new(file).map_err(io::Error::other)?)
            }
        }
    }
}

fn write_again(storage: &dyn StorageBackend) -> io::Result<()> {
    let len = storage.len()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for offset in (0..len).step_by(CHUNK_BYTES) {
        chunk.resize(CHUNK_BYTES.min(usize::try_from(len - offset).unwrap_or(CHUNK_BYTES)), 0);
        storage.read(offset, &mut chunk)?;
        // What has never been written takes no space, and should not begin to.
        if chunk.iter().any(|byte| *byte != 0) {
            storage.write(offset, &chunk)?;
        }
    }
    storage.sync_data()
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Makes a directory, and those above it, that only its owner can enter.
fn make_private_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() { Ok(()) } else { DirBuilder::new().recursive(true).mode(0o700).create(directory) }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |found| found.len() == 0)
}

/// Makes an empty database under another name first: half of one, which a power cut would leave, could never be opened again.
fn make_file(builder: &Builder, directory: &Path, path: &Path) -> io::Result<()> {
    let locked = File::open(directory)?;
    locked.lock()?;
    // Another process may have been quicker.
    if is_empty(path) {
        let new = path.with_extension("new");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        give_to_owner(&file, &locked)?;
        drop(builder.create_file(file).map_err(io::Error::other)?);
        std::fs::rename(&new, path)?;
        // The name must be as durable as what is going to be in the file.
        locked.sync_all()?;
    }
    Ok(())
}

/// Gives a new file to the owner of its directory: what root makes there must not be closed to the service. Only root can.
fn give_to_owner(file: &File, directory: &File) -> io::Result<()> {
    let (owner, own) = (directory.metadata()?, file.metadata()?);
    if owner.uid() == own.uid() {
        return Ok(());
    }
    match fchown(file, Some(owner.uid()), Some(owner.gid())) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        given => given,
    }
}

/// Storage that outlives the database on it.
#[derive(Debug)]
struct Brought(Arc<dyn StorageBackend>);

impl StorageBackend for Brought {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

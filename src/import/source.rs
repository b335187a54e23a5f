//! A file or standard input that another program's data is read from, twice: what it is follows from its first bytes.

mod database_copy;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{RowVisitor, dumpdata, pg_dump};
use crate::random::Random;

/// Bytes by which a source is recognised.
const SIGNATURE_BYTES: usize = 64;

/// What a source is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceFormat {
    /// A database file.
    Sqlite,
    /// What `pg_dump` writes as text.
    PgDump,
    /// What `manage.py dumpdata` writes.
    Dumpdata,
    /// What an API shows, kept as a dump would have it.
    Api,
}

impl SourceFormat {
    /// The word for it in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::PgDump => "pg_dump",
            Self::Dumpdata => "dumpdata",
            Self::Api => "api",
        }
    }

    /// What begins with these bytes.
    ///
    /// # Errors
    /// When it is none of them; the message says what to do.
    fn from_signature(head: &[u8]) -> Result<Self, &'static str> {
        let text = head.trim_ascii_start();
        match () {
            () if head.starts_with(b"SQLite format 3\0") => Ok(Self::Sqlite),
            () if text.starts_with(b"[") => Ok(Self::Dumpdata),
            () if head.starts_with(b"PGDMP") => {
                Err("it is in PostgreSQL's own format: pg_restore -f - FILE | overdue import healthchecks -")
            }
            () if head.starts_with(b"\x1f\x8b") => Err("it is compressed: gunzip -c FILE | overdue import healthchecks -"),
            () if head.starts_with(b"\x28\xb5\x2f\xfd") => Err("it is compressed: zstd -dc FILE | overdue import healthchecks -"),
            () if head.is_empty() => Err("it is empty"),
            () if [&b"--"[..], b"COPY ", b"SET ", b"\\"].iter().any(|start| text.starts_with(start)) => Ok(Self::PgDump),
            () => Err("it is neither a SQLite file, nor what pg_dump or manage.py dumpdata writes"),
        }
    }
}

/// Something that another program's data is read from.
pub struct ImportSource {
    /// What errors and reports call it.
    name: String,
    data: SourceData,
}

enum SourceData {
    #[cfg(feature = "sqlite")]
    Sqlite(super::sqlite::SqliteDatabase),
    Text(SourceFormat, File),
}

impl ImportSource {
    /// Opens a file, or standard input for `-`. What cannot be read twice, and a database, is copied into a private directory below that
    /// for temporary files, so that nothing is written beside the source.
    ///
    /// # Errors
    /// When it cannot be read or is nothing that is known; the message names it.
    pub fn open(path: &Path, random: &Random) -> Result<Self, String> {
        let is_input = path.as_os_str() == "-";
        let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
        let opened = if is_input { SourceData::from_stream(io::stdin().lock(), random) } else { SourceData::open(path, random) };
        match opened {
            Ok(data) => Ok(Self { name, data }),
            Err(problem) => Err(format!("{name}: {problem}")),
        }
    }

    /// What errors and reports call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    pub fn format(&self) -> SourceFormat {
        match &self.data {
            #[cfg(feature = "sqlite")]
            SourceData::Sqlite(_) => SourceFormat::Sqlite,
            SourceData::Text(form, _) => *form,
        }
    }

    /// How much there is to read, in what [`Visit::at`] counts.
    pub(super) fn total_progress(&self) -> u64 {
        match &self.data {
            #[cfg(feature = "sqlite")]
            SourceData::Sqlite(database) => database.max_log_rows(),
            SourceData::Text(_, file) => file.metadata().map_or(0, |file| file.len()),
        }
    }

    /// Reads the tables that are wanted, from the beginning.
    ///
    /// # Errors
    /// When it cannot be read; the message names the place.
    pub(super) fn read_tables(&mut self, visit: &mut dyn RowVisitor) -> Result<(), String> {
        let read = match &mut self.data {
            #[cfg(feature = "sqlite")]
            SourceData::Sqlite(database) => database.read_tables(visit),
            SourceData::Text(form, file) => file.rewind().map_err(|error| error.to_string()).and_then(|()| match form {
                SourceFormat::Dumpdata | SourceFormat::Api => dumpdata::read_dump(file, visit),
                SourceFormat::PgDump | SourceFormat::Sqlite => pg_dump::read_dump(BufReader::with_capacity(1 << 16, file), visit),
            }),
        };
        read.map_err(|problem| format!("{}: {problem}", self.name))
    }
}

impl SourceData {
    fn open(path: &Path, random: &Random) -> Result<Self, String> {
        let mut file = File::open(path).map_err(|error| error.to_string())?;
        if !file.metadata().map_err(|error| error.to_string())?.is_file() {
            return Self::from_stream(file, random);
        }
        match detect_format(&mut file)? {
            SourceFormat::Sqlite => {
                let directory = PrivateDirectory::create(random)?;
                let copy = directory.0.join("copy");
                database_copy::copy_database(path, &copy)?;
                Self::database(&copy)
            }
            form => Ok(Self::Text(form, file)),
        }
    }

    fn from_stream(mut from: impl io::Read, random: &Random) -> Result<Self, String> {
        let mut head = Vec::with_capacity(SIGNATURE_BYTES);
        (&mut from).take(SIGNATURE_BYTES as u64).read_to_end(&mut head).map_err(|error| error.to_string())?;
        let form = SourceFormat::from_signature(&head)?;
        let from = head.chain(from);
        if form != SourceFormat::Sqlite {
            return Ok(Self::Text(form, spool_unnamed(from, random)?));
        }
        let (_directory, path, mut file) = create_private_file(random)?;
        copy_into(&mut file, from)?;
        Self::database(&path)
    }

    #[cfg(feature = "sqlite")]
    fn database(path: &Path) -> Result<Self, String> {
        super::sqlite::SqliteDatabase::open(path).map(Self::Sqlite)
    }

    #[cfg(not(feature = "sqlite"))]
    fn database(_: &Path) -> Result<Self, String> {
        Err("this program was built without SQLite: give what manage.py dumpdata writes".into())
    }
}

/// An empty file in a directory of its own. When the directory is dropped the file has no name any more, and goes when it is closed.
fn create_private_file(random: &Random) -> Result<(PrivateDirectory, PathBuf, File), String> {
    let directory = PrivateDirectory::create(random)?;
    let path = directory.0.join("copy");
    let file = create_owner_only(&path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok((directory, path, file))
}

fn copy_into(file: &mut File, mut from: impl io::Read) -> Result<(), String> {
    let kept = io::copy(&mut from, file);
    kept.map(drop).map_err(|error| format!("cannot be kept in a file below {}: {error}", std::env::temp_dir().display()))
}

/// What cannot be read twice, in a file that can. It has no name while it is filled, so that nothing stays if the process is killed.
fn spool_unnamed(from: impl io::Read, random: &Random) -> Result<File, String> {
    let (directory, _, mut file) = create_private_file(random)?;
    drop(directory);
    copy_into(&mut file, from)?;
    Ok(file)
}

/// A file, or standard input for `-`, that can be read more than once, and what errors call it.
///
/// # Errors
/// When it cannot be read, or not be kept; the message names it.
pub(super) fn open_rereadable(path: &Path, random: &Random) -> Result<(String, File), String> {
    let is_input = path.as_os_str() == "-";
    let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
    let open = || {
        if is_input {
            return spool_unnamed(io::stdin().lock(), random);
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        let is_file = file.metadata().map_err(|error| error.to_string())?.is_file();
        if is_file { Ok(file) } else { spool_unnamed(file, random) }
    };
    open().map(|file| (name.clone(), file)).map_err(|problem| format!("{name}: {problem}"))
}

fn detect_format(file: &mut File) -> Result<SourceFormat, String> {
    let mut head = Vec::with_capacity(SIGNATURE_BYTES);
    let read = file.rewind().and_then(|()| file.take(SIGNATURE_BYTES as u64).read_to_end(&mut head));
    read.map_err(|error| error.to_string())?;
    Ok(SourceFormat::from_signature(&head)?)
}

/// A new file that nobody else can read.
fn create_owner_only(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// A file that nobody sees, of objects as `manage.py dumpdata` writes them. Several may write at once.
pub(super) struct DumpFile(Mutex<(BufWriter<File>, bool)>);

impl DumpFile {
    /// # Errors
    /// When it cannot be made.
    pub(super) fn new(random: &Random) -> Result<Self, String> {
        let (_, _, file) = create_private_file(random)?;
        Ok(Self(Mutex::new((BufWriter::new(file), false))))
    }

    /// Adds an object.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write_object(&self, model: &str, pk: u64, fields: &serde_json::Value) -> Result<(), String> {
        let (file, begun) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let object = serde_json::json!({ "model": model, "pk": pk, "fields": fields });
        let before = if std::mem::replace(begun, true) { ",\n" } else { "[" };
        write!(file, "{before}{object}").map_err(write_error_text)
    }

    /// All of it as a source of this name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn into_source(self, name: String) -> Result<ImportSource, String> {
        let (mut file, _) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        write!(file, "]").map_err(write_error_text)?;
        let file = file.into_inner().map_err(|error| write_error_text(error.into_error()))?;
        Ok(ImportSource { name, data: SourceData::Text(SourceFormat::Api, file) })
    }
}

#[allow(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
fn write_error_text(error: io::Error) -> String {
    format!("a file below {} cannot be written: {error}", std::env::temp_dir().display())
}

/// A directory that only we see. It is removed with all that is in it.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    fn create(random: &Random) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("overdue-import-{}", random.uuid()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map(|()| Self(path.clone())).map_err(|error| format!("cannot make {}: {error}", path.display()))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // Whoever empties the directory for temporary files finds what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;

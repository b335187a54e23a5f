//! Source of an import: a file or standard input, which is read twice. The format is detected by
//! the first bytes.

mod database_copy;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::{RowVisitor, dumpdata, pg_dump};
use crate::util::random::Random;
use crate::util::sync::{Mutex, ignore_poison, lock};

/// Number of bytes that are examined to detect the format.
const SIGNATURE_BYTES: usize = 64;

/// Format of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceFormat {
    /// SQLite database file.
    Sqlite,
    /// Text output of `pg_dump`.
    PgDump,
    /// Output of `manage.py dumpdata`.
    Dumpdata,
    /// Responses of an API, stored in the format of a dump.
    Api,
}

impl SourceFormat {
    /// Name of the format in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::PgDump => "pg_dump",
            Self::Dumpdata => "dumpdata",
            Self::Api => "api",
        }
    }

    /// Detects the format by the first bytes.
    ///
    /// # Errors
    /// Returns an error if the format is unknown. The message includes a remedy.
    fn from_signature(head: &[u8]) -> Result<Self, &'static str> {
        let text = head.trim_ascii_start();
        match () {
            () if head.starts_with(b"SQLite format 3\0") => Ok(Self::Sqlite),
            () if text.starts_with(b"[") => Ok(Self::Dumpdata),
            () if head.starts_with(b"PGDMP") => Err(
                "it is in PostgreSQL's custom format; use: pg_restore -f - FILE | overdue import \
                 healthchecks -",
            ),
            () if head.starts_with(b"\x1f\x8b") => {
                Err("it is compressed; use: gunzip -c FILE | overdue import healthchecks -")
            }
            () if head.starts_with(b"\x28\xb5\x2f\xfd") => {
                Err("it is compressed; use: zstd -dc FILE | overdue import healthchecks -")
            }
            () if head.is_empty() => Err("it is empty"),
            () if [&b"--"[..], b"COPY ", b"SET ", b"\\"]
                .iter()
                .any(|start| text.starts_with(start)) =>
            {
                Ok(Self::PgDump)
            }
            () => Err("it is neither a SQLite file nor output of pg_dump or manage.py dumpdata"),
        }
    }
}

/// Source of an import.
pub struct ImportSource {
    /// Name of the source in errors and reports.
    name: String,
    data: SourceData,
}

enum SourceData {
    #[cfg(feature = "sqlite")]
    Sqlite(super::sqlite::SqliteDatabase),
    Text(SourceFormat, File),
}

impl ImportSource {
    /// Opens a file, or standard input for `-`. A database, and input that cannot be read twice, is
    /// copied into a private temporary directory, so that nothing is written next to the source.
    ///
    /// # Errors
    /// Returns an error if the source cannot be read or its format is unknown. The message names
    /// the source.
    pub fn open(path: &Path, random: &Random) -> Result<Self, String> {
        let is_input = path.as_os_str() == "-";
        let name = if is_input {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let opened = if is_input {
            SourceData::from_stream(io::stdin().lock(), random)
        } else {
            SourceData::open(path, random)
        };
        match opened {
            Ok(data) => Ok(Self { name, data }),
            Err(problem) => Err(format!("{name}: {problem}")),
        }
    }

    /// Opens a file that has no path, under this name. A database is copied.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub(super) fn from_file(name: &str, mut file: File, random: &Random) -> Result<Self, String> {
        let data = match detect_format(&mut file) {
            Ok(SourceFormat::Sqlite) => file
                .rewind()
                .map_err(|error| error.to_string())
                .and_then(|()| SourceData::from_stream(file, random)),
            Ok(format) => Ok(SourceData::Text(format, file)),
            Err(problem) => Err(problem),
        };
        let data = data.map_err(|problem| format!("{name}: {problem}"))?;
        Ok(Self {
            name: name.to_owned(),
            data,
        })
    }

    /// Name of the source in errors and reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Format of the source.
    pub fn format(&self) -> SourceFormat {
        match &self.data {
            #[cfg(feature = "sqlite")]
            SourceData::Sqlite(_) => SourceFormat::Sqlite,
            SourceData::Text(form, _) => *form,
        }
    }

    /// Total amount to read, in the unit of [`RowVisitor::report_progress`].
    pub(super) fn total_progress(&self) -> u64 {
        match &self.data {
            #[cfg(feature = "sqlite")]
            SourceData::Sqlite(database) => database.max_log_rows(),
            SourceData::Text(_, file) => file.metadata().map_or(0, |file| file.len()),
        }
    }

    /// Reads the needed tables from the beginning.
    ///
    /// # Errors
    /// Returns an error if the source cannot be read. The message names the position.
    pub(super) fn read_tables(&mut self, visit: &mut dyn RowVisitor) -> Result<(), String> {
        let read = match &mut self.data {
            #[cfg(feature = "sqlite")]
            SourceData::Sqlite(database) => database.read_tables(visit),
            SourceData::Text(form, file) => file
                .rewind()
                .map_err(|error| error.to_string())
                .and_then(|()| match form {
                    SourceFormat::Dumpdata | SourceFormat::Api => dumpdata::read_dump(file, visit),
                    SourceFormat::PgDump | SourceFormat::Sqlite => {
                        pg_dump::read_dump(BufReader::with_capacity(1 << 16, file), visit)
                    }
                }),
        };
        read.map_err(|problem| format!("{}: {problem}", self.name))
    }
}

impl SourceData {
    fn open(path: &Path, random: &Random) -> Result<Self, String> {
        let mut file = File::open(path).map_err(|error| error.to_string())?;
        if !file
            .metadata()
            .map_err(|error| error.to_string())?
            .is_file()
        {
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
        (&mut from)
            .take(SIGNATURE_BYTES as u64)
            .read_to_end(&mut head)
            .map_err(|error| error.to_string())?;
        let format = SourceFormat::from_signature(&head)?;
        let from = head.chain(from);
        if format != SourceFormat::Sqlite {
            return Ok(Self::Text(format, spool_unnamed(from, random)?));
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
        Err(
            "this program was built without SQLite support: use the output of manage.py dumpdata"
                .into(),
        )
    }
}

/// Creates an empty file in its own directory. When the directory is dropped, the file loses its
/// name; it is removed when it is closed.
fn create_private_file(random: &Random) -> Result<(PrivateDirectory, PathBuf, File), String> {
    let directory = PrivateDirectory::create(random)?;
    let path = directory.0.join("copy");
    let file = create_owner_only(&path)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok((directory, path, file))
}

fn copy_into(file: &mut File, mut from: impl io::Read) -> Result<(), String> {
    let copied = io::copy(&mut from, file);
    copied.map(drop).map_err(|error| {
        format!(
            "cannot be copied to a file in {}: {error}",
            std::env::temp_dir().display()
        )
    })
}

/// Copies input that cannot be read twice into a file. The file has no name while it is written, so
/// that nothing remains if the process is killed.
fn spool_unnamed(from: impl io::Read, random: &Random) -> Result<File, String> {
    let mut file = create_unnamed_file(random)?;
    copy_into(&mut file, from)?;
    Ok(file)
}

/// Creates an empty temporary file without a name, which is removed when it is closed.
///
/// # Errors
/// Returns an error if the file cannot be created.
pub fn create_unnamed_file(random: &Random) -> Result<File, String> {
    let (_directory, _, file) = create_private_file(random)?;
    Ok(file)
}

/// Opens a file, or standard input for `-`, so that it can be read more than once. Returns its name
/// for errors as well.
///
/// # Errors
/// Returns an error if the input cannot be read or copied. The message names it.
pub(super) fn open_rereadable(path: &Path, random: &Random) -> Result<(String, File), String> {
    let is_input = path.as_os_str() == "-";
    let name = if is_input {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let open_file = || {
        if is_input {
            return spool_unnamed(io::stdin().lock(), random);
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        let is_file = file
            .metadata()
            .map_err(|error| error.to_string())?
            .is_file();
        if is_file {
            Ok(file)
        } else {
            spool_unnamed(file, random)
        }
    };
    open_file()
        .map(|file| (name.clone(), file))
        .map_err(|problem| format!("{name}: {problem}"))
}

fn detect_format(file: &mut File) -> Result<SourceFormat, String> {
    let mut head = Vec::with_capacity(SIGNATURE_BYTES);
    let read = file
        .rewind()
        .and_then(|()| file.take(SIGNATURE_BYTES as u64).read_to_end(&mut head));
    read.map_err(|error| error.to_string())?;
    Ok(SourceFormat::from_signature(&head)?)
}

/// Creates a new file that only its owner can read.
fn create_owner_only(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// An unnamed file of objects in the format of `manage.py dumpdata`. Several threads may write at
/// the same time.
pub(super) struct DumpFile(Mutex<(BufWriter<File>, bool)>);

impl DumpFile {
    /// Creates the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub(super) fn new(random: &Random) -> Result<Self, String> {
        let file = create_unnamed_file(random)?;
        Ok(Self(Mutex::new((BufWriter::new(file), false))))
    }

    /// Appends an object.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(super) fn write_object(
        &self,
        model: &str,
        pk: u64,
        fields: &serde_json::Value,
    ) -> Result<(), String> {
        let (file, begun) = &mut *lock(&self.0);
        let object = serde_json::json!({ "model": model, "pk": pk, "fields": fields });
        let before = if std::mem::replace(begun, true) {
            ",\n"
        } else {
            "["
        };
        write!(file, "{before}{object}").map_err(write_error_text)
    }

    /// Finishes the file and returns it as a source with this name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(super) fn into_source(self, name: String) -> Result<ImportSource, String> {
        let (mut file, _) = ignore_poison(self.0.into_inner());
        write!(file, "]").map_err(write_error_text)?;
        let file = file
            .into_inner()
            .map_err(|error| write_error_text(error.into_error()))?;
        Ok(ImportSource {
            name,
            data: SourceData::Text(SourceFormat::Api, file),
        })
    }
}

#[allow(clippy::needless_pass_by_value, reason = "used with map_err")]
fn write_error_text(error: io::Error) -> String {
    format!(
        "cannot write a file in {}: {error}",
        std::env::temp_dir().display()
    )
}

/// A temporary directory that only this user can access. It is removed with its contents on drop.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    fn create(random: &Random) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("overdue-import-{}", random.uuid()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created
            .map(|()| Self(path.clone()))
            .map_err(|error| format!("cannot create {}: {error}", path.display()))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // The error is ignored: the system cleans its temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;

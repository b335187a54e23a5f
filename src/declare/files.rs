//! Files that declare: found, read within bounds, and joined.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::document::{Document, Problem};
use super::secrets::{Secrets, holds_secrets};
use super::{MOST_BYTES, read};
use crate::domain::wanted::Wanted;

/// Why files cannot be read.
#[derive(Debug)]
pub enum FilesError {
    /// The system refused one.
    Unreadable(PathBuf, io::Error),
    /// A directory without a file that is meant.
    Empty(PathBuf),
    /// Together they are too long.
    TooLong,
    /// It is no UTF-8.
    NotText(PathBuf),
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Empty(path) => write!(f, "the directory {} has no file that ends in .toml", path.display()),
            Self::TooLong => write!(f, "the files have more than {MOST_BYTES} bytes together"),
            Self::NotText(path) => write!(f, "{} is no text (UTF-8)", path.display()),
        }
    }
}

impl std::error::Error for FilesError {}

/// Files that were read, and nothing is wrong in them.
pub struct Prepared {
    /// All files as one, secrets filled in.
    pub document: Document,
    /// What they want there to be.
    pub wanted: Wanted,
    /// Sentences for the person who wrote them.
    pub warnings: Vec<String>,
}

/// Why there is nothing to be made of files.
#[derive(Debug)]
pub enum PrepareError {
    /// They cannot be read.
    Files(FilesError),
    /// What is wrong in them, a line or more for each.
    Problems(String),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(error) => error.fmt(f),
            Self::Problems(told) => f.write_str(told.trim_end()),
        }
    }
}

impl std::error::Error for PrepareError {}

/// Reads files, fills in their secrets, and says what they want.
///
/// # Errors
/// When they cannot be read, and everything that is wrong in them.
pub fn prepare(paths: &[PathBuf], secrets: &Secrets<'_>) -> Result<Prepared, PrepareError> {
    let Read { mut document, mut problems, open } = documents(paths).map_err(PrepareError::Files)?;
    let warning = (!open.is_empty() && holds_secrets(&document)).then(|| {
        let open: Vec<_> = open.iter().map(|path| path.display().to_string()).collect();
        format!("others can read secrets in {}: run chmod 600, or write {{ env = \"NAME\" }} or {{ file = \"PATH\" }}", open.join(", "))
    });
    if problems.is_empty() {
        problems = secrets.fill(&mut document);
    }
    let read = if problems.is_empty() { read::read(&document) } else { Err(problems) };
    match read {
        Ok(wanted) => {
            let warnings = warning.into_iter().chain(of_channels(&wanted)).collect();
            Ok(Prepared { document, wanted, warnings })
        }
        Err(problems) => Err(PrepareError::Problems(document.told(&problems))),
    }
}

/// Returns what should be known of the channels of files.
fn of_channels(wanted: &Wanted) -> impl Iterator<Item = String> {
    let channels = wanted.projects.iter().flat_map(|project| &project.channels);
    channels.flat_map(|channel| {
        channel.settings.warnings().into_iter().map(move |warning| format!("channel {:?}: {warning}", channel.name.as_str()))
    })
}

/// What was read.
struct Read {
    document: Document,
    problems: Vec<Problem>,
    /// Files that others than their owner can read.
    open: Vec<PathBuf>,
}

/// Reads files, of directories those that end in `.toml`, in the order of their names; `-` is standard input.
fn documents(paths: &[PathBuf]) -> Result<Read, FilesError> {
    let mut read = Read { document: Document::empty(), problems: Vec::new(), open: Vec::new() };
    let mut room = MOST_BYTES;
    for path in paths {
        let unreadable = |error| FilesError::Unreadable(path.clone(), error);
        if path.as_os_str() == "-" {
            let text = limited(io::stdin().lock(), path, &mut room)?;
            read.problems.extend(read.document.add("standard input", text));
            continue;
        }
        let files =
            if fs::metadata(path).map_err(unreadable)?.is_dir() { of_directory(path).map_err(unreadable)? } else { vec![path.clone()] };
        if files.is_empty() {
            return Err(FilesError::Empty(path.clone()));
        }
        for file in files {
            let opened = File::open(&file).map_err(|error| FilesError::Unreadable(file.clone(), error))?;
            let is_open = opened.metadata().is_ok_and(|there| there.permissions().mode() & 0o044 != 0);
            let text = limited(opened, &file, &mut room)?;
            read.problems.extend(read.document.add(&file.to_string_lossy(), text));
            read.open.extend(is_open.then_some(file));
        }
    }
    Ok(read)
}

fn of_directory(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "toml") && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn limited(from: impl io::Read, path: &Path, room: &mut usize) -> Result<String, FilesError> {
    let mut bytes = Vec::new();
    from.take(*room as u64 + 1).read_to_end(&mut bytes).map_err(|error| FilesError::Unreadable(path.into(), error))?;
    *room = room.checked_sub(bytes.len()).ok_or(FilesError::TooLong)?;
    String::from_utf8(bytes).map_err(|_| FilesError::NotText(path.into()))
}

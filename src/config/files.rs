//! Declared files: found, read within limits, and merged.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::document::{ConfigDocument, ConfigProblem};
use super::secret_references::{SecretResolver, blank_references, has_inline_secrets};
use super::{MAX_BYTES, reader};
use crate::domain::declared::DeclaredConfig;

/// Reason why files cannot be read.
#[derive(Debug)]
pub enum ConfigFilesError {
    /// The system refused to read a file.
    Unreadable(PathBuf, io::Error),
    /// A directory contains no matching file.
    EmptyDirectory(PathBuf),
    /// Together the files are too long.
    TooLong,
    /// A file is not UTF-8.
    NotUtf8(PathBuf),
}

impl fmt::Display for ConfigFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::EmptyDirectory(path) => {
                write!(f, "the directory {} has no .toml file", path.display())
            }
            Self::TooLong => write!(f, "the files have more than {MAX_BYTES} bytes in total"),
            Self::NotUtf8(path) => write!(f, "{} is not UTF-8 text", path.display()),
        }
    }
}

impl std::error::Error for ConfigFilesError {}

/// Loaded and valid files.
pub struct LoadedConfig {
    /// All files merged, with secrets filled in.
    pub document: ConfigDocument,
    /// Declared configuration.
    pub declared: DeclaredConfig,
    /// Warnings for the author of the files.
    pub warnings: Vec<String>,
}

/// Reason why files cannot be loaded.
#[derive(Debug)]
pub enum ConfigLoadError {
    /// They cannot be read.
    Files(ConfigFilesError),
    /// Problems in them, a line or more for each.
    Problems(String),
}

impl fmt::Display for ConfigLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(error) => error.fmt(f),
            Self::Problems(problems) => f.write_str(problems.trim_end()),
        }
    }
}

impl std::error::Error for ConfigLoadError {}

/// Reads files, fills in their secrets, and returns the declared configuration.
///
/// # Errors
/// If they cannot be read, or have problems.
pub fn load_config(
    paths: &[PathBuf],
    secrets: &SecretResolver<'_>,
) -> Result<LoadedConfig, ConfigLoadError> {
    let ConfigFileContents {
        mut document,
        mut problems,
        readable_by_others: exposed_files,
    } = read_files(paths).map_err(ConfigLoadError::Files)?;
    let warning = (!exposed_files.is_empty() && has_inline_secrets(&document)).then(|| {
        let exposed_files: Vec<_> = exposed_files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        format!(
            "other users can read the secrets in {}: run chmod 600, or write {{ env = \"NAME\" }} \
             or {{ file = \"PATH\" }} instead",
            exposed_files.join(", ")
        )
    });
    if problems.is_empty() {
        problems = secrets.resolve(&mut document);
    }
    let read = if problems.is_empty() {
        reader::read_config(&document)
    } else {
        Err(problems)
    };
    match read {
        Ok(declared) => {
            let warnings = warning
                .into_iter()
                .chain(channel_warnings(&declared))
                .collect();
            Ok(LoadedConfig {
                document,
                declared,
                warnings,
            })
        }
        Err(problems) => Err(ConfigLoadError::Problems(
            document.render_problems(&problems),
        )),
    }
}

/// Checks files without the secrets that they refer to. Problems of a channel as a whole are not
/// reported if it refers to a secret: its text might solve them.
///
/// # Errors
/// If they cannot be read, or have problems.
pub fn check_without_secrets(paths: &[PathBuf]) -> Result<(), ConfigLoadError> {
    let ConfigFileContents {
        mut document,
        mut problems,
        ..
    } = read_files(paths).map_err(ConfigLoadError::Files)?;
    if problems.is_empty() {
        let blanks = blank_references(&mut document);
        problems = reader::read_config(&document).err().unwrap_or_default();
        problems.retain(|problem| {
            let is_of_channel = problem.path.len() == OBJECT_PATH_LENGTH;
            !blanks.iter().any(|(path, location)| {
                problem.location.as_ref() == Some(location)
                    || (is_of_channel && path.starts_with(&problem.path))
            })
        });
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ConfigLoadError::Problems(
            document.render_problems(&problems),
        ))
    }
}

/// Length of the path of a channel or key: `project`, its name, `channel`, its name.
const OBJECT_PATH_LENGTH: usize = 4;

/// Returns warnings about the declared channels.
fn channel_warnings(declared: &DeclaredConfig) -> impl Iterator<Item = String> {
    let channels = declared
        .projects
        .iter()
        .flat_map(|project| &project.channels);
    channels.flat_map(|channel| {
        channel
            .settings
            .warnings()
            .into_iter()
            .map(move |warning| format!("channel {:?}: {warning}", channel.name.as_str()))
    })
}

/// Contents of the files.
struct ConfigFileContents {
    document: ConfigDocument,
    problems: Vec<ConfigProblem>,
    /// Files that other users than their owner can read.
    readable_by_others: Vec<PathBuf>,
}

/// Reads files. Of a directory it reads files that end in `.toml`, in the order of their names; `-`
/// is standard input.
fn read_files(paths: &[PathBuf]) -> Result<ConfigFileContents, ConfigFilesError> {
    let mut read = ConfigFileContents {
        document: ConfigDocument::empty(),
        problems: Vec::new(),
        readable_by_others: Vec::new(),
    };
    let mut remaining_bytes = MAX_BYTES;
    for path in paths {
        let unreadable = |error| ConfigFilesError::Unreadable(path.clone(), error);
        if path.as_os_str() == "-" {
            let text = read_limited(io::stdin().lock(), path, &mut remaining_bytes)?;
            read.problems
                .extend(read.document.add_file("standard input", text));
            continue;
        }
        let files = if fs::metadata(path).map_err(unreadable)?.is_dir() {
            files_in_directory(path).map_err(unreadable)?
        } else {
            vec![path.clone()]
        };
        if files.is_empty() {
            return Err(ConfigFilesError::EmptyDirectory(path.clone()));
        }
        for file in files {
            let opened = File::open(&file)
                .map_err(|error| ConfigFilesError::Unreadable(file.clone(), error))?;
            let is_open = opened
                .metadata()
                .is_ok_and(|metadata| metadata.permissions().mode() & 0o044 != 0);
            let text = read_limited(opened, &file, &mut remaining_bytes)?;
            read.problems
                .extend(read.document.add_file(&file.to_string_lossy(), text));
            read.readable_by_others.extend(is_open.then_some(file));
        }
    }
    Ok(read)
}

fn files_in_directory(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "toml")
            && file.is_file()
        {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn read_limited(
    from: impl io::Read,
    path: &Path,
    remaining_bytes: &mut usize,
) -> Result<String, ConfigFilesError> {
    let mut bytes = Vec::new();
    from.take(*remaining_bytes as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ConfigFilesError::Unreadable(path.into(), error))?;
    *remaining_bytes = remaining_bytes
        .checked_sub(bytes.len())
        .ok_or(ConfigFilesError::TooLong)?;
    String::from_utf8(bytes).map_err(|_| ConfigFilesError::NotUtf8(path.into()))
}

//! Copy of the file before a newer release migrates its layout. It allows a return to the release
//! that wrote the file.

use std::fs::{self, File};
use std::io::{self, Read as _, copy as copy_bytes};
use std::path::{Path, PathBuf};

use super::medium::{create_file, open_database_file};
use super::{FILE_NAME, Medium, ProgressReporter};

/// Number of bytes that are copied between two progress reports.
const PROGRESS_BYTES: u64 = 64 << 20;

/// Prefix of the names of copies; the version of the layout follows.
const COPY_PREFIX: &str = "overdue.redb.schema-";

/// Copies the closed file, which has this older layout, next to itself, and removes the copy of an
/// earlier upgrade. A failure is logged and does not stop the start: a server that does not start
/// accepts no pings.
pub(super) fn copy_before_upgrade(medium: &Medium, schema: u64, progress: &ProgressReporter) {
    let Medium::Directory(directory) = medium else {
        return;
    };
    match create_copy(directory, schema, progress) {
        Ok(path) => tracing::info!(
            "the file has the layout {schema} of an older release: it was copied to {}",
            path.display()
        ),
        Err(error) => tracing::error!(
            "the file is upgraded to a newer layout without a copy of the old one, since the copy \
            failed: {error}"
        ),
    }
}

fn create_copy(directory: &Path, schema: u64, progress: &ProgressReporter) -> io::Result<PathBuf> {
    let name = format!("{COPY_PREFIX}{schema}");
    let mut from = open_database_file(&directory.join(FILE_NAME))?;
    let path = directory.join(&name);
    let partial = directory.join(format!("{name}.partial"));
    let written = (|| {
        let mut to = create_file(&partial)?;
        let mut done = 0;
        let len = from.metadata()?.len();
        while done < len {
            progress.report("copying the database before it is upgraded", done, len);
            match copy_bytes(&mut (&mut from).take(PROGRESS_BYTES), &mut to)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => done += bytes,
            }
        }
        to.sync_all()?;
        fs::rename(&partial, &path)
    })();
    if let Err(error) = written {
        // The rest of the copy would only take space.
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    for other in fs::read_dir(directory)? {
        let other = other?.file_name();
        if other
            .to_str()
            .is_some_and(|other| other.starts_with(COPY_PREFIX) && other != name)
        {
            fs::remove_file(directory.join(other))?;
        }
    }
    File::open(directory)?.sync_all()?;
    Ok(path)
}

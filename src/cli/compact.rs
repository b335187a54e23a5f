//! `overdue compact`: shrinks the database file to the size of its contents.

use std::io::{self, Write as _};
use std::path::Path;

use super::{CliError, table};
use crate::engine;
use crate::store::path_access::explain_path_error;
use crate::store::{FILE_NAME, Medium, Store};

/// Compacts the database of this directory and prints the result.
pub(super) fn run(directory: &Path, json: bool) -> Result<(), CliError> {
    let _owner = super::data_directory::assume_owner(directory)?;
    let path = directory.join(FILE_NAME);
    let size = || std::fs::metadata(&path).map(|metadata| metadata.len());
    let before = size().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CliError::other(format!(
            "there is no database at {}: give its directory with --data",
            path.display()
        )),
        _ => CliError::other(explain_path_error(&path, &error)),
    })?;
    let medium = Medium::Directory(directory.into());
    let (_, writer) = engine::open(engine::EngineConfig::without_pings(medium.clone()))
        .map_err(CliError::other)?;
    writer.run_all_housekeeping().map_err(CliError::other)?;
    let mut store = Store::open(&medium).map_err(CliError::other)?;
    store.compact().map_err(CliError::other)?;
    drop(store);
    let after = size().map_err(CliError::other)?;
    if json {
        let row = serde_json::json!({ "path": path, "bytes": after, "before": before });
        return table::print_lines(&[row.to_string()]).map_err(CliError::output_failed);
    }
    // The work is done, even if this message cannot be written.
    let _ = writeln!(
        io::stderr(),
        "overdue: {} has {after} bytes, {} less than before",
        path.display(),
        before.saturating_sub(after)
    );
    Ok(())
}

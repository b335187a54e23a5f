//! `overdue compact`: makes the database file as small as what it holds.

use std::io::{self, Write as _};
use std::path::Path;

use super::{Failure, table};
use crate::engine;
use crate::store::access::refusal;
use crate::store::{FILE_NAME, Medium, Store};

/// Compacts the database of this directory and says what was gained.
pub(super) fn run(directory: &Path, json: bool) -> Result<(), Failure> {
    let _owner = super::data::as_owner(directory)?;
    let path = directory.join(FILE_NAME);
    let size = || std::fs::metadata(&path).map(|there| there.len());
    let before = size().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::other(format!("there is no database at {}: give its directory with --data", path.display())),
        _ => Failure::other(refusal(&path, &error)),
    })?;
    let medium = Medium::Directory(directory.into());
    let (_, writer) = engine::open(engine::Config::without_pings(medium.clone())).map_err(Failure::other)?;
    writer.tidy().map_err(Failure::other)?;
    let mut store = Store::open(&medium).map_err(Failure::other)?;
    store.compact().map_err(Failure::other)?;
    drop(store);
    let after = size().map_err(Failure::other)?;
    if json {
        let row = serde_json::json!({ "path": path, "bytes": after, "before": before });
        return table::lines(&[row.to_string()]).map_err(Failure::unwritten);
    }
    // The work is done, whether or not anybody reads about it.
    let _ = writeln!(io::stderr(), "overdue: {} has {after} bytes, {} less than before", path.display(), before.saturating_sub(after));
    Ok(())
}

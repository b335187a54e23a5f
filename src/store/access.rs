//! Why the system refuses a path of the data directory, told so that one knows whose it is and what to do: mostly a command runs as
//! another user than the service.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What to tell of an error on this path.
pub fn refusal(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => denied(path, error),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            format!("cannot use {shown}: it is not a directory; --data names the directory of the database")
        }
        ErrorKind::ReadOnlyFilesystem => {
            format!("cannot write {shown}: its file system is read-only; make it writable, or choose another directory with --data")
        }
        _ => format!("cannot use {shown}: {error}"),
    }
}

/// The innermost part of the path that can be looked at is what refuses.
fn denied(path: &Path, error: &io::Error) -> String {
    let part = path.ancestors().find_map(|part| Some((part, std::fs::metadata(part).ok()?)));
    let Some((part, metadata)) = part else { return format!("cannot use {}: {error}", path.display()) };
    let (owner, own) = (user(metadata.uid()), user(rustix::process::geteuid().as_raw()));
    format!(
        "cannot use {}: {error}; {} belongs to {owner}, and this runs as {own}: run it as {owner}, or change the owner with chown",
        path.display(),
        part.display()
    )
}

/// The name of a user, if the system's list has it. Users that a supervisor makes up are in no list.
fn user(id: u32) -> String {
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id.to_string()).then_some(name)
    });
    named.map_or_else(|| format!("user {id}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_path_and_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let owner = user(std::fs::metadata(directory.path()).unwrap().uid());
        let (there, path) = (directory.path().display().to_string(), directory.path().join("a/overdue.redb"));
        for (kind, part) in [
            (ErrorKind::PermissionDenied, format!("; {there} belongs to {owner}, and this runs as {owner}: ")),
            (ErrorKind::NotADirectory, "it is not a directory; --data names".into()),
            (ErrorKind::ReadOnlyFilesystem, "choose another directory with --data".into()),
            (ErrorKind::StorageFull, "no storage space".into()),
        ] {
            let told = refusal(&path, &kind.into());
            assert!(told.contains(&part) && told.contains(&path.display().to_string()), "{told}");
        }
        assert_eq!((user(0).as_str(), user(u32::MAX).as_str()), ("root", "user 4294967295"));
    }
}

//! Explanations of path errors in the data directory: they name the owner of a path and a remedy.
//! Mostly a command runs as a user other than that of the service.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::{geteuid, getuid};

use crate::passwd::{self, Entry};

/// Data directory of the service that a package installs.
pub const SERVICE_DIRECTORY: &str = "/var/lib/overdue";

/// Returns the message for an error on this path.
pub fn explain_path_error(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => explain_denied_path(path, error),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            format!("cannot use {shown}: it is not a directory; --data names the directory of the database")
        }
        ErrorKind::ReadOnlyFilesystem => {
            format!("cannot write {shown}: its file system is read-only; make it writable, or choose another directory with --data")
        }
        _ => format!("cannot use {shown}: {error}"),
    }
}

/// Explains a denied path. The innermost part of the path that can be examined is the one that
/// denies access.
fn explain_denied_path(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    if let Some(about) = explain_denied_link(path) {
        return format!("cannot use {shown}: {error}; {about}");
    }
    let part = path.ancestors().find_map(|part| Some((part, std::fs::metadata(part).ok()?)));
    let Some((part, metadata)) = part else { return format!("cannot use {shown}: {error}") };
    let own = geteuid().as_raw();
    let about = permission_advice(part, &metadata, own, |id| passwd_entry(id).map(|entry| entry.name));
    format!("cannot use {shown}: {error}; {} {about}", part.display())
}

/// Returns an explanation if the path or its parent directory is a link to a place that this
/// process may not access. Returns `None` if there is no such link, if the link belongs to another
/// user, or if its target belongs to this one.
fn explain_denied_link(path: &Path) -> Option<String> {
    let own = geteuid().as_raw();
    let (link, target) = path.ancestors().take(2).find_map(|part| Some((part, std::fs::read_link(part).ok()?)))?;
    let is_own = is_root_as_another() || link.symlink_metadata().is_ok_and(|found| found.uid() == own);
    let owner = std::fs::metadata(link).ok().map(|found| found.uid());
    if !is_own || owner.is_some_and(|owner| owner == own) {
        return None;
    }
    let whose = owner.map_or_else(|| "cannot be reached".into(), |owner| format!("belongs to {}", user_name(owner)));
    let (link, target, own) = (link.display(), target.display(), user_name(own));
    Some(format!("{link} is a link to {target}, which {whose}, and this runs as {own}: have it lead to what {own} may use, or remove it"))
}

/// True if root runs this process and has assumed the ids of the owner of the directory.
fn is_root_as_another() -> bool {
    getuid().is_root() && !geteuid().is_root()
}

/// Explains what is wrong with the owner or the mode of a path for a process of this user, and
/// gives a remedy.
fn permission_advice(part: &Path, metadata: &Metadata, own: u32, name: impl Fn(u32) -> Option<String>) -> String {
    let called = |id: u32| name(id).unwrap_or_else(|| format!("user {id}"));
    let (owner, shown) = (metadata.uid(), part.display());
    if owner == own {
        let (mode, right) = if metadata.is_dir() { (metadata.mode() & 0o7777, "700") } else { (metadata.mode() & 0o7777, "600") };
        return format!("has mode {mode:04o}: run chmod {right} {shown}");
    }
    let whose = format!("belongs to {}, and this runs as {}", called(owner), called(own));
    match name(owner) {
        Some(_) if owner == 0 && is_root_as_another() => format!("{whose}: run chown {} {shown}", called(own)),
        Some(_) if owner == 0 => format!("{whose}: run it with sudo"),
        Some(name) => format!("{whose}: run it with sudo -u {name}"),
        // A container has no list of the users outside of it.
        None => format!("{whose}: run it as user {owner}, or, if nothing else uses it, run chown -R {own} {shown}"),
    }
}

/// True if a file belongs to the user that this process runs as.
pub fn is_owned_by_process(found: &Metadata) -> bool {
    found.uid() == geteuid().as_raw()
}

/// Opens a directory in which only this user controls the files.
///
/// # Errors
/// Returns an error if the path is a link, does not exist, belongs to another user, or is writable
/// by others. The message includes a remedy.
pub fn open_own_directory(path: &Path) -> io::Result<File> {
    // A path with a trailing slash would follow a link.
    let path: PathBuf = path.components().collect();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => io::Error::other("it is a link; give the directory that it leads to"),
        _ => error.into(),
    })?;
    let directory = File::from(opened);
    let found = directory.metadata()?;
    if !is_owned_by_process(&found) {
        let reason =
            format!("it belongs to user {}, and this runs as user {}; give a directory of its own", found.uid(), geteuid().as_raw());
        return Err(io::Error::other(reason));
    }
    if found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others can write to it; run chmod go-w on it"));
    }
    Ok(directory)
}

/// Creates a directory for this user only, with its missing parents, or accepts an existing one.
///
/// # Errors
/// Returns an error if [`open_own_directory`] refuses the directory, or if another user could
/// replace it because of the permissions of its parent.
pub fn make_own_directory(path: &Path) -> io::Result<()> {
    // A path with a trailing slash would follow a link.
    let path: PathBuf = path.components().collect();
    if path.symlink_metadata().is_err() {
        let above = path.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
        expect_safe_to_make_in(above.unwrap_or(Path::new(".")))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    }
    open_own_directory(&path).map(drop)
}

/// Refuses a directory in which a user other than root can rename files of this user. The sticky
/// bit prevents that.
fn expect_safe_to_make_in(directory: &Path) -> io::Result<()> {
    let shown = directory.display();
    for found in [directory.symlink_metadata()?, directory.metadata()?] {
        if !is_owned_by_process(&found) && found.uid() != 0 {
            let (owner, own) = (found.uid(), geteuid().as_raw());
            let reason = format!("{shown} belongs to user {owner}, and this runs as user {own}; give a directory of its own");
            return Err(io::Error::other(reason));
        }
        if found.is_dir() && found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 {
            return Err(io::Error::other(format!("others can write to {shown}; run chmod go-w on it")));
        }
    }
    Ok(())
}

fn passwd_entry(id: u32) -> Option<Entry> {
    passwd::entries().into_iter().find(|entry| entry.uid == id)
}

/// Returns the name of a user from the system's user list, or a text with the user id.
pub(super) fn user_name(id: u32) -> String {
    passwd_entry(id).map_or_else(|| format!("user {id}"), |entry| entry.name)
}

/// Returns the primary group of a user, if the system's user list has the user.
pub(super) fn primary_group(id: u32) -> Option<u32> {
    passwd_entry(id).map(|entry| entry.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_path_and_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
        let (there, path) = (directory.path().display().to_string(), directory.path().join("a/overdue.redb"));
        for (kind, part) in [
            (ErrorKind::PermissionDenied, format!("; {there} has mode 0500: run chmod 700 {there}")),
            (ErrorKind::NotADirectory, "it is not a directory; --data names".into()),
            (ErrorKind::ReadOnlyFilesystem, "choose another directory with --data".into()),
            (ErrorKind::StorageFull, "no storage space".into()),
        ] {
            let told = explain_path_error(&path, &kind.into());
            assert!(told.contains(&part) && told.contains(&path.display().to_string()), "{told}");
        }
        assert_eq!((user_name(0).as_str(), user_name(u32::MAX).as_str()), ("root", "user 4294967295"));
    }

    #[test]
    fn advice_depends_on_who_owns_what() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("overdue.redb");
        std::fs::write(&file, b"").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
        let owner = std::fs::metadata(directory.path()).unwrap().uid();
        let of_directory = std::fs::metadata(directory.path()).unwrap();
        let shown = directory.path().display();
        let told = |own: u32, name: Option<&str>| permission_advice(directory.path(), &of_directory, own, |_| name.map(str::to_owned));
        assert_eq!(told(owner, None), format!("has mode 0500: run chmod 700 {shown}"));
        let of_file = permission_advice(&file, &std::fs::metadata(&file).unwrap(), owner, |_| None);
        assert_eq!(of_file, format!("has mode 0400: run chmod 600 {}", file.display()));
        // Changing the owner of a running service's directory would stop that service.
        let named = told(owner + 1, Some("overdue"));
        let cure = if owner == 0 { "run it with sudo" } else { "run it with sudo -u overdue" };
        assert!(named.ends_with(cure) && !named.contains("chown"), "{named}");
        let unnamed = told(owner + 1, None);
        assert!(
            unnamed.contains(&format!("as user {owner}, or")) && unnamed.contains(&format!("chown -R {} {shown}", owner + 1)),
            "{unnamed}"
        );
    }
}

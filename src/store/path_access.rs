//! Explanations of path errors in the data directory: they name the owner of a path and a remedy.
//! Mostly a command runs as a user other than that of the service.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf, absolute};

use rustix::fs::{Mode, OFlags};
use rustix::process::{geteuid, getuid};

use crate::domain::formatting::shell_word;
use crate::util::system_users::{self, SystemUser};

/// Data directory of the service that a package installs.
pub const SERVICE_DIRECTORY: &str = "/var/lib/overdue";

/// Maximum number of links on the way to a directory, as in Linux.
const MAX_LINKS: u32 = 40;
/// Bit of a mode: in the directory, users can rename and remove only their own files.
const STICKY: u32 = 0o1000;

/// Returns the message for an error on this path.
pub fn explain_path_error(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => explain_denied_path(path, error),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            format!(
                "cannot use {shown}: it is not a directory; --data must name the directory of the \
                database"
            )
        }
        ErrorKind::ReadOnlyFilesystem => {
            format!(
                "cannot write {shown}: its file system is read-only; make it writable, or choose \
                 another directory with --data"
            )
        }
        _ => format!("cannot use {shown}: {error}"),
    }
}

/// Explains a denied path. The innermost part of the path that can be examined is the one that
/// denies access.
fn explain_denied_path(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    if let Some(advice) = explain_denied_link(path) {
        return format!("cannot use {shown}: {error}; {advice}");
    }
    let part = path
        .ancestors()
        .find_map(|part| Some((part, std::fs::metadata(part).ok()?)));
    let Some((part, metadata)) = part else {
        return format!("cannot use {shown}: {error}");
    };
    let uid = geteuid().as_raw();
    let advice = permission_advice(part, &metadata, uid, |id| {
        passwd_entry(id).map(|entry| entry.name)
    });
    format!("cannot use {shown}: {error}; {} {advice}", part.display())
}

/// Returns an explanation if the path or its parent directory is a link to a place that this
/// process may not access. Returns `None` if there is no such link, if the link belongs to another
/// user, or if its target belongs to this one.
fn explain_denied_link(path: &Path) -> Option<String> {
    let uid = geteuid().as_raw();
    let (link, target) = path
        .ancestors()
        .take(2)
        .find_map(|part| Some((part, std::fs::read_link(part).ok()?)))?;
    let is_own = is_root_as_another()
        || link
            .symlink_metadata()
            .is_ok_and(|found| found.uid() == uid);
    let owner = std::fs::metadata(link).ok().map(|found| found.uid());
    if !is_own || owner.is_some_and(|owner| owner == uid) {
        return None;
    }
    let target_owner = owner.map_or_else(
        || "cannot be reached".into(),
        |owner| format!("belongs to {}", user_name(owner)),
    );
    let link = link.display();
    let target = target.display();
    let user = user_name(uid);
    Some(format!(
        "{link} is a link to {target}, which {target_owner}, and this runs as {user}: change it to \
        a path that {user} can access, or remove it"
    ))
}

/// True if root runs this process and has assumed the ids of the owner of the directory.
fn is_root_as_another() -> bool {
    getuid().is_root() && !geteuid().is_root()
}

/// Explains what is wrong with the owner or the mode of a path for a process of this user, and
/// gives a remedy.
fn permission_advice(
    part: &Path,
    metadata: &Metadata,
    uid: u32,
    name: impl Fn(u32) -> Option<String>,
) -> String {
    let display_name = |id: u32| name(id).unwrap_or_else(|| format!("user {id}"));
    let owner = metadata.uid();
    let shown = part.display();
    if owner == uid {
        let (mode, right) = if metadata.is_dir() {
            (metadata.mode() & 0o7777, "700")
        } else {
            (metadata.mode() & 0o7777, "600")
        };
        return format!("has mode {mode:04o}: run chmod {right} {shown}");
    }
    let ownership = format!(
        "belongs to {}, and this runs as {}",
        display_name(owner),
        display_name(uid)
    );
    match name(owner) {
        Some(_) if owner == 0 && is_root_as_another() => {
            format!("{ownership}: run chown {} {shown}", display_name(uid))
        }
        Some(_) if owner == 0 => format!("{ownership}: run it with sudo"),
        Some(name) => format!("{ownership}: run it with sudo -u {name}"),
        // A container has no list of the users outside of it.
        None => format!(
            "{ownership}: run it as user {owner}, or, if nothing else uses it, run chown -R {uid} \
             {shown}"
        ),
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
    let opened = rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| {
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                io::Error::other("it is a link; give the directory that it leads to")
            }
            _ => error.into(),
        }
    })?;
    let directory = File::from(opened);
    let found = directory.metadata()?;
    if !is_owned_by_process(&found) {
        let reason = format!(
            "it belongs to user {}, and this runs as user {}; give a directory of its own",
            found.uid(),
            geteuid().as_raw()
        );
        return Err(io::Error::other(reason));
    }
    expect_not_writable_by_others(&path, &found)?;
    Ok(directory)
}

/// Creates a directory for this user only, with its missing parents, or accepts an existing one.
///
/// # Errors
/// Returns an error if [`open_own_directory`] refuses the directory, or if another user could
/// replace it because of the permissions of a directory above it.
pub fn make_own_directory(path: &Path) -> io::Result<()> {
    // A path with a trailing slash would follow a link.
    let path: PathBuf = absolute(path)?.components().collect();
    if let Some(parent) = path.parent() {
        expect_safe_ancestors(parent, &mut 0)?;
    }
    if path.symlink_metadata().is_err() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
    }
    open_own_directory(&path).map(drop)
}

/// Refuses a path if a user other than root can replace a part of it. Each directory and each link
/// on the way, also on the way of the target of a link, has to belong to root or to this user, and
/// others may write only to directories with the sticky bit. Missing parts are ignored.
fn expect_safe_ancestors(path: &Path, links: &mut u32) -> io::Result<()> {
    let mut parts: Vec<_> = path.ancestors().collect();
    parts.reverse();
    for part in parts {
        let found = match part.symlink_metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(io::Error::new(
                    error.kind(),
                    format!("{}: {error}", part.display()),
                ));
            }
        };
        if !is_owned_by_process(&found) && found.uid() != 0 {
            let shown = resolved_path(part);
            let owner = found.uid();
            let uid = geteuid().as_raw();
            let reason = format!(
                "{} belongs to user {owner}, and this runs as user {uid}; give a directory of its \
                 own",
                shown.display()
            );
            return Err(io::Error::other(reason));
        }
        if found.is_symlink() {
            *links += 1;
            if *links > MAX_LINKS {
                return Err(io::Error::other(format!(
                    "{}: too many links",
                    part.display()
                )));
            }
            let target = part.read_link()?;
            expect_safe_ancestors(&part.parent().unwrap_or(part).join(target), links)?;
        } else if found.mode() & STICKY == 0 {
            expect_not_writable_by_others(part, &found)?;
        }
    }
    Ok(())
}

/// Refuses a directory that others can write to.
fn expect_not_writable_by_others(path: &Path, found: &Metadata) -> io::Result<()> {
    if !others_can_write(found.mode(), found.gid(), geteuid().as_raw()) {
        return Ok(());
    }
    let shown = resolved_path(path);
    let word = shell_word(&shown.to_string_lossy());
    Err(io::Error::other(format!(
        "others can write to {}; run chmod go-w {word}",
        shown.display()
    )))
}

/// Returns the absolute path of a file or a link, with the links in the directories above it
/// resolved if possible.
fn resolved_path(path: &Path) -> PathBuf {
    let resolved = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => parent.canonicalize().map(|parent| parent.join(name)),
        _ => path.canonicalize(),
    };
    resolved
        .or_else(|_| absolute(path))
        .unwrap_or_else(|_| path.into())
}

/// True if other users can write to a file of this mode and group. A group with the same id as a
/// user is the private group of that user, by convention.
fn others_can_write(mode: u32, group: u32, uid: u32) -> bool {
    let is_private_group = uid != 0 && group == uid;
    mode & if is_private_group { 0o002 } else { 0o022 } != 0
}

fn passwd_entry(id: u32) -> Option<SystemUser> {
    system_users::read_system_users()
        .into_iter()
        .find(|entry| entry.uid == id)
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
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};

    use super::*;
    use crate::store::owner::{ForeignOwner, become_user};

    /// User and group who own nothing.
    const OTHER_USER: ForeignOwner = ForeignOwner {
        uid: 65534,
        gid: 65534,
    };

    #[test]
    fn refusals_name_the_path_and_a_remedy() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(
            directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o500),
        )
        .unwrap();
        let shown = directory.path().display().to_string();
        let path = directory.path().join("a/overdue.redb");
        for (kind, part) in [
            (
                ErrorKind::PermissionDenied,
                format!("; {shown} has mode 0500: run chmod 700 {shown}"),
            ),
            (
                ErrorKind::NotADirectory,
                "it is not a directory; --data must name".into(),
            ),
            (
                ErrorKind::ReadOnlyFilesystem,
                "choose another directory with --data".into(),
            ),
            (ErrorKind::StorageFull, "no storage space".into()),
        ] {
            let message = explain_path_error(&path, &kind.into());
            assert!(
                message.contains(&part) && message.contains(&path.display().to_string()),
                "{message}"
            );
        }
        assert_eq!(
            (user_name(0).as_str(), user_name(u32::MAX).as_str()),
            ("root", "user 4294967295")
        );
    }

    #[test]
    fn advice_depends_on_the_owner_of_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("overdue.redb");
        std::fs::write(&file, b"").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o400))
            .unwrap();
        std::fs::set_permissions(
            directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o500),
        )
        .unwrap();
        let owner = std::fs::metadata(directory.path()).unwrap().uid();
        let of_directory = std::fs::metadata(directory.path()).unwrap();
        let shown = directory.path().display();
        let advice = |uid: u32, name: Option<&str>| {
            permission_advice(directory.path(), &of_directory, uid, |_| {
                name.map(str::to_owned)
            })
        };
        assert_eq!(
            advice(owner, None),
            format!("has mode 0500: run chmod 700 {shown}")
        );
        let of_file = permission_advice(&file, &std::fs::metadata(&file).unwrap(), owner, |_| None);
        assert_eq!(
            of_file,
            format!("has mode 0400: run chmod 600 {}", file.display())
        );
        // Changing the owner of a running service's directory would stop that service.
        let named = advice(owner + 1, Some("overdue"));
        let remedy = if owner == 0 {
            "run it with sudo"
        } else {
            "run it with sudo -u overdue"
        };
        assert!(
            named.ends_with(remedy) && !named.contains("chown"),
            "{named}"
        );
        let unnamed = advice(owner + 1, None);
        assert!(
            unnamed.contains(&format!("as user {owner}, or"))
                && unnamed.contains(&format!("chown -R {} {shown}", owner + 1)),
            "{unnamed}"
        );
    }

    #[test]
    fn a_link_of_this_user_to_a_place_of_another_is_explained() {
        if !geteuid().is_root() {
            eprintln!("skipped: this takes root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let other = format!("belongs to {}", user_name(OTHER_USER.uid));
        for (name, target_owner, link_owner, explained) in [
            ("a", Some(OTHER_USER.uid), 0, Some(other.as_str())),
            ("b", None, 0, Some("cannot be reached")),
            ("c", Some(0), 0, None),
            ("d", Some(OTHER_USER.uid), OTHER_USER.uid, None),
        ] {
            let target = directory.path().join(format!("{name}-target"));
            if let Some(owner) = target_owner {
                std::fs::create_dir(&target).unwrap();
                chown(&target, Some(owner), None).unwrap();
            }
            let link = directory.path().join(name);
            symlink(&target, &link).unwrap();
            lchown(&link, Some(link_owner), None).unwrap();
            let expected = explained.map(|whose| {
                format!(
                    "{} is a link to {}, which {whose}, and this runs as root: change it to a \
                     path that root can access, or remove it",
                    link.display(),
                    target.display()
                )
            });
            for path in [link.clone(), link.join("overdue.redb")] {
                assert_eq!(explain_denied_link(&path), expected, "{name}");
            }
        }
    }

    /// Returns a directory that all users can enter, with the links in its path resolved.
    fn open_directory() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        set_mode(&path, 0o755);
        (directory, path)
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_is_made_only_where_others_cannot_replace_it() {
        let (_directory, top) = open_directory();
        let made = top.join("a/b/c");
        make_own_directory(&made).unwrap();
        assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o700);
        for (mode, is_safe) in [(0o755, true), (0o777, false), (0o1777, true)] {
            set_mode(&top.join("a"), mode);
            for below in ["a/b/c", "a/b/d"] {
                let result = make_own_directory(&top.join(below));
                assert_eq!(result.is_ok(), is_safe, "{mode:o} {below}: {result:?}");
            }
        }
    }

    #[test]
    fn a_directory_is_made_behind_as_many_links_as_the_system_follows() {
        let (_directory, top) = open_directory();
        let link = |number: u32| top.join(format!("link-{number}"));
        symlink(&top, link(1)).unwrap();
        (1..=MAX_LINKS).for_each(|number| symlink(link(number), link(number + 1)).unwrap());
        let result = |number| expect_safe_ancestors(&link(number), &mut 0);
        result(MAX_LINKS).unwrap();
        let error = result(MAX_LINKS + 1).unwrap_err().to_string();
        assert!(error.ends_with("too many links"), "{error}");
    }

    #[test]
    fn a_directory_is_made_only_below_directories_of_root_and_of_this_user() {
        if !geteuid().is_root() {
            eprintln!("skipped: this takes root");
            return;
        }
        let (_directory, top) = open_directory();
        let of_other = top.join("other");
        std::fs::create_dir(&of_other).unwrap();
        chown(&of_other, Some(OTHER_USER.uid), None).unwrap();
        let refused = make_own_directory(&of_other.join("data")).unwrap_err();
        let reason = format!(
            "{} belongs to user {}, and this runs as user 0; give a directory of its own",
            of_other.display(),
            OTHER_USER.uid
        );
        assert_eq!(refused.to_string(), reason);
        // Other threads keep their ids.
        let made = std::thread::spawn(move || {
            become_user(OTHER_USER).unwrap();
            make_own_directory(&of_other.join("data"))
        });
        made.join().unwrap().unwrap();
    }

    #[test]
    fn the_private_group_of_a_user_may_write() {
        for (mode, group, uid, expected) in [
            (0o40755, 1000, 1000, false),
            (0o40775, 1000, 1000, false),
            (0o40777, 1000, 1000, true),
            (0o40775, 100, 1000, true),
            (0o40775, 0, 0, true),
            (0o40775, 1000, 0, true),
            (0o41777, 1000, 1000, true),
        ] {
            assert_eq!(
                others_can_write(mode, group, uid),
                expected,
                "{mode:o} {group} {uid}"
            );
        }
    }
}

//! Owner of a data directory. If root acts in the directory of another user, it does so with the
//! ids of that user. A link that the user placed there then leads only to places that the user can
//! access anyway.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Gid, Uid, geteuid};

use super::medium::FILE_NAME;
use super::path_access;

/// Name of the socket for commands in a data directory.
pub const SOCKET_NAME: &str = "admin.sock";

/// Group for a user who is not in the system's user list and whose directory belongs to the group
/// of root.
const NO_GROUP: u32 = 65534;

/// Owner of a data directory, if root has to act as that user in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForeignOwner {
    /// User id, which is not that of root.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl ForeignOwner {
    /// Returns the owner of a directory if this process runs as root and one of these belongs to
    /// another user: the directory, a link to it, or the database or the socket in it. `None` for a
    /// directory that does not exist yet.
    pub fn of_directory(directory: &Path) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        // A path with a trailing slash would follow a link.
        let directory: PathBuf = directory.components().collect();
        let inside =
            [FILE_NAME, SOCKET_NAME].map(|name| fs::symlink_metadata(directory.join(name)).ok());
        let mut found = [
            fs::symlink_metadata(&directory).ok(),
            fs::metadata(&directory).ok(),
        ]
        .into_iter()
        .chain(inside)
        .flatten();
        let found = found.find(|found| found.uid() != 0)?;
        Some(Self {
            uid: found.uid(),
            gid: Self::group(found.uid(), found.gid()),
        })
    }

    /// Returns the primary group of a user. If it is unknown, returns the group of the directory,
    /// unless that is root's.
    fn group(uid: u32, directory_group: u32) -> u32 {
        let group = path_access::primary_group(uid).unwrap_or(directory_group);
        if group == 0 { NO_GROUP } else { group }
    }
}

/// Effective ids of the owner of a data directory in place of root's. They apply to this thread
/// until the value is dropped; threads started meanwhile keep them. The value is empty and changes
/// nothing unless [`ForeignOwner::of_directory`] finds an owner.
#[must_use]
pub struct AssumedOwner {
    /// Group and supplementary groups of root, which are restored on drop.
    original_groups: Option<(Gid, Vec<Gid>)>,
    /// The ids belong to one thread.
    _thread: PhantomData<*const ()>,
}

impl AssumedOwner {
    /// Assumes the ids of the owner of this directory.
    ///
    /// # Errors
    /// Returns an error if the system refuses, as in a container without the capabilities for it.
    pub fn assume(directory: &Path) -> io::Result<Self> {
        let mut assumed = Self {
            original_groups: None,
            _thread: PhantomData,
        };
        let Some(owner) = ForeignOwner::of_directory(directory) else {
            return Ok(assumed);
        };
        assumed.original_groups = Some((rustix::process::getegid(), rustix::process::getgroups()?));
        // After an error, the drop reverts all earlier changes.
        let gid = Gid::from_raw(owner.gid);
        let result = set_ids(Uid::from_raw(owner.uid), gid, &[gid]);
        result.map_err(|error| explain_refusal(owner, directory, &error))?;
        Ok(assumed)
    }
}

/// Gives this thread, and threads that it starts, the ids of the owner of this directory
/// permanently, if [`ForeignOwner::of_directory`] finds one. Real, effective and saved ids are set,
/// so that no program that the thread runs can become root again.
///
/// # Errors
/// Returns an error if the system refuses.
pub fn become_owner(directory: &Path) -> io::Result<()> {
    let Some(owner) = ForeignOwner::of_directory(directory) else {
        return Ok(());
    };
    become_user(owner).map_err(|error| explain_refusal(owner, directory, &error))
}

/// Gives this thread, and threads that it starts, the ids of this user permanently. Other processes
/// of that user cannot trace this one, which may have the terminal of root.
///
/// # Errors
/// Returns an error if the system refuses.
pub fn become_user(owner: ForeignOwner) -> io::Result<()> {
    set_all_ids(Uid::from_raw(owner.uid), Gid::from_raw(owner.gid))
}

impl Drop for AssumedOwner {
    fn drop(&mut self) {
        let Some((gid, groups)) = self.original_groups.take() else {
            return;
        };
        if let Err(error) = restore_ids(gid, &groups) {
            tracing::error!("the rights of root cannot be restored: {error}");
        }
    }
}

/// Explains why root cannot act as the owner.
pub fn explain_refusal(owner: ForeignOwner, directory: &Path, error: &io::Error) -> io::Error {
    let user = path_access::user_name(owner.uid);
    let directory = directory.display();
    io::Error::new(
        error.kind(),
        format!(
            "{directory} belongs to {user}, and root cannot act as that user ({error}): run it as \
             {user}"
        ),
    )
}

#[cfg(target_os = "linux")]
fn set_ids(uid: Uid, gid: Gid, groups: &[Gid]) -> io::Result<()> {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    // The last call gives up the privilege for the others.
    set_thread_groups(groups)?;
    set_thread_res_gid(None, gid, None)?;
    Ok(set_thread_res_uid(None, uid, None)?)
}

#[cfg(target_os = "linux")]
fn set_all_ids(uid: Uid, gid: Gid) -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    // A change of ids does the same, unless `fs.suid_dumpable` says otherwise.
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(target_os = "linux")]
fn restore_ids(gid: Gid, groups: &[Gid]) -> io::Result<()> {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    set_thread_res_uid(None, Uid::ROOT, None)?;
    set_thread_res_gid(None, gid, None)?;
    Ok(set_thread_groups(groups)?)
}

#[cfg(not(target_os = "linux"))]
fn set_ids(_: Uid, _: Gid, _: &[Gid]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn set_all_ids(_: Uid, _: Gid) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn restore_ids(_: Gid, _: &[Gid]) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn root_acts_as_the_owner_and_is_root_again() {
        if !geteuid().is_root() {
            eprintln!("skipped: this takes root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let data = directory.path().join("data");
        assert_eq!(ForeignOwner::of_directory(&data), None);
        fs::create_dir(&data).unwrap();
        assert_eq!(ForeignOwner::of_directory(&data), None);
        chown(&data, Some(65534), Some(0)).unwrap();
        // Other tests run in other threads, which keep their ids.
        let link = directory.path().join("link");
        let secret = directory.path().join("secret");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert_eq!(ForeignOwner::of_directory(&link), None);
        std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
        assert_eq!(
            ForeignOwner::of_directory(&link).map(|owner| owner.uid),
            Some(65534)
        );
        let through_link = directory.path().join("link/");
        assert_eq!(
            ForeignOwner::of_directory(&through_link).map(|owner| owner.uid),
            Some(65534),
            "a slash at the end hides no link"
        );
        let shared = directory.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::write(shared.join("overdue.redb"), b"").unwrap();
        assert_eq!(ForeignOwner::of_directory(&shared), None);
        chown(shared.join("overdue.redb"), Some(65534), Some(65534)).unwrap();
        assert_eq!(
            ForeignOwner::of_directory(&shared).map(|owner| owner.uid),
            Some(65534),
            "the database of another user"
        );
        fs::write(&secret, b"of root").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let before = rustix::process::getgroups().unwrap();
        let assumed = AssumedOwner::assume(&data).unwrap();
        assert!(
            fs::read(&secret).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        );
        fs::write(data.join("made"), b"").unwrap();
        let started = std::thread::spawn(geteuid);
        drop(assumed);
        let made = fs::metadata(data.join("made")).unwrap();
        assert_eq!((made.uid(), made.gid() == 0), (65534, false));
        assert_eq!(started.join().unwrap().as_raw(), 65534);
        assert!(fs::read(&secret).is_ok() && geteuid().is_root());
        assert_eq!(rustix::process::getgroups().unwrap(), before);
    }

    #[test]
    fn root_that_becomes_the_owner_is_never_root_again() {
        if !geteuid().is_root() {
            eprintln!("skipped: this takes root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        chown(directory.path(), Some(65534), Some(0)).unwrap();
        // Other threads keep their ids.
        let of_thread = std::thread::spawn({
            let path = directory.path().to_owned();
            move || {
                become_owner(&path).unwrap();
                let back = set_all_ids(Uid::ROOT, Gid::ROOT);
                (
                    back.is_err(),
                    rustix::process::getuid().as_raw(),
                    geteuid().as_raw(),
                    rustix::process::getgroups().unwrap().contains(&Gid::ROOT),
                )
            }
        });
        assert_eq!(of_thread.join().unwrap(), (true, 65534, 65534, false));
        assert!(geteuid().is_root());
    }
}

//! Tests of operations on a whole database and its files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use rustix::process::geteuid;

use super::*;
use crate::store::medium::{create_private_directory, lock_holder_pid};
use crate::util::random::Random;

/// User and group who own nothing.
const OTHER_USER: owner::ForeignOwner = owner::ForeignOwner {
    uid: 65534,
    gid: 65534,
};

fn open(directory: &Path) -> Result<Store, StoreError> {
    Store::open(&Medium::Directory(directory.into()))
}

/// True if a commit is in the log and not in the synced file.
fn commits_to_log(store: &Store) -> bool {
    write(store, |batch| batch.put_project(&project()));
    store.is_log_ahead()
}

#[test]
fn an_inspection_opens_the_database_and_reads_pages_and_rows() {
    let medium = Medium::memory();
    let store = Store::open(&medium).unwrap();
    write(&store, |batch| batch.put_project(&project()));
    drop(store);
    let mut inspection = Inspection::default();
    let is_sound = Store::inspect(&medium, &ProgressReporter::default(), &mut inspection);
    assert!(is_sound.unwrap());
    let found = inspection.finish();
    assert_eq!(
        (found.problem_count, found.tables["projects"].rows),
        (0, 1),
        "{found:?}"
    );
}

#[test]
fn a_complete_rewrite_removes_the_mark_of_lost_writes_if_there_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let medium = Medium::Directory(directory.path().into());
    drop(Store::open(&medium).unwrap());
    let before = fs::read(directory.path().join(FILE_NAME)).unwrap();
    let mark = directory.path().join("overdue.rewrite");
    for is_marked in [true, false] {
        if is_marked {
            fs::write(&mark, b"").unwrap();
        }
        assert!(Store::rewrite(&medium, &ProgressReporter::default()).unwrap());
        assert!(!mark.exists());
    }
    assert_eq!(fs::read(directory.path().join(FILE_NAME)).unwrap(), before);
    // A mark that cannot be removed stays, and so does the need for it.
    fs::create_dir(&mark).unwrap();
    Store::rewrite(&medium, &ProgressReporter::default()).unwrap_err();
}

#[test]
fn a_compaction_returns_freed_space() {
    let mut store = store();
    let body = vec![7; 100_000];
    let long = |n| Ping {
        body_len: 100_000,
        ..ping(1, n, n - 1)
    };
    let pings: Vec<_> = (1..=100).map(|n| (Arrival(n), long(n), &body)).collect();
    write(&store, |batch| batch.append_pings(&pings, None));
    write(&store, |batch| {
        let range = (Arrival(0), Arrival(100));
        batch
            .sweep_pings(range, (usize::MAX, u64::MAX), |_, _| false)
            .map(drop)
    });
    let before = store.file_bytes();
    assert!(store.compact().unwrap());
    assert!(
        store.file_bytes() < before / 4,
        "{before} {}",
        store.file_bytes()
    );
}

#[test]
fn a_paused_log_takes_no_batch_until_it_is_used_again() {
    let medium = Medium::memory();
    let mut store = Store::open(&medium).unwrap();
    store.begin_log(&medium, &Random::seeded(1), false).unwrap();
    assert!(commits_to_log(&store));
    for is_paused in [true, false] {
        store.sync().unwrap();
        store.set_log_paused(is_paused);
        assert_eq!(commits_to_log(&store), !is_paused);
    }
    // The log has no copy of these rows.
    store.synced_batch().unwrap().commit().unwrap();
    assert!(!store.is_log_ahead());
    assert!(commits_to_log(&store));
    // Without a reservation of disk space, only a sync shows if there is enough.
    store.sync().unwrap();
    store.grow_sparsely();
    assert!(!commits_to_log(&store));
}

#[test]
fn a_database_that_left_its_cluster_is_opened_alone() {
    let medium = Medium::memory();
    Store::create_cluster(&medium, 5).unwrap();
    let refusal = Store::open(&medium).err().unwrap().to_string();
    assert!(refusal.contains("it belongs to a cluster"), "{refusal}");
    let store = Store::open_of_cluster(&medium, &ProgressReporter::default()).unwrap();
    store.leave_cluster().unwrap();
    drop(store);
    assert!(!Store::open(&medium).unwrap().is_clustered().unwrap());
    let refusal = FollowerStore::open(&medium, &ProgressReporter::default());
    assert!(refusal.is_err());
}

#[test]
fn a_database_that_cannot_follow_says_why() {
    for (error, part) in [
        (
            FollowError::OtherHistory("the log has no record 7".into()),
            "does not belong to the log of the cluster: the log has no record 7; move the data \
             directory away",
        ),
        (
            FollowError::NewerLayout,
            "a newer release has migrated the database of this machine",
        ),
        (
            StoreError::Reopening.into(),
            "the database failed and is being reopened",
        ),
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn only_a_read_only_file_system_is_one() {
    use std::io::ErrorKind;
    let failed = |kind: ErrorKind| StoreError::Path("/data".into(), kind.into());
    assert!(failed(ErrorKind::ReadOnlyFilesystem).is_read_only());
    assert!(!failed(ErrorKind::PermissionDenied).is_read_only());
    assert!(!StoreError::Reopening.is_read_only());
}

#[test]
fn the_process_that_has_locked_a_file_is_found() {
    if !Path::new("/proc/locks").exists() {
        eprintln!("skipped: the system lists no locks");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let locked = fs::File::create(path("locked")).unwrap();
    fs::write(path("unlocked"), b"").unwrap();
    locked.lock().unwrap();
    assert_eq!(
        ["locked", "unlocked", "missing"].map(|name| lock_holder_pid(&path(name))),
        [Some(std::process::id()), None, None]
    );
}

#[test]
fn a_directory_is_created_where_its_parent_cannot_be_read() {
    if !geteuid().is_root() {
        eprintln!("skipped: this takes root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o300)).unwrap();
    chown(directory.path(), Some(OTHER_USER.uid), None).unwrap();
    let data = directory.path().join("data");
    // Other threads keep their ids.
    let created = std::thread::spawn({
        let data = data.clone();
        move || {
            owner::become_user(OTHER_USER).unwrap();
            create_private_directory(&data)
        }
    });
    created.join().unwrap().unwrap();
    assert_eq!(
        fs::metadata(data).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn a_link_to_a_database_is_followed_only_for_the_owner_of_its_directory() {
    if !geteuid().is_root() {
        eprintln!("skipped: this takes root");
        return;
    }
    let real = tempfile::tempdir().unwrap();
    drop(open(real.path()).unwrap());
    let linked = tempfile::tempdir().unwrap();
    symlink(real.path().join(FILE_NAME), linked.path().join(FILE_NAME)).unwrap();
    open(linked.path()).unwrap();
    chown(linked.path(), Some(OTHER_USER.uid), None).unwrap();
    let refusal = open(linked.path()).err().unwrap().to_string();
    assert!(
        refusal.contains("links are followed only for the owner of their directory"),
        "{refusal}"
    );
}

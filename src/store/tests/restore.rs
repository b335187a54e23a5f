//! Tests of restoring rows of older layouts and rows of the outbox.

use super::*;
use crate::domain::alert::{AlertEvent, OutboxRow};
use crate::domain::ids::DeliveryNumber;

/// Restores every row of a store as the database of a directory.
fn restore(store: &Store, directory: &std::path::Path) -> Result<(), StoreError> {
    let mut restoration = DatabaseRestore::begin(directory, false)?;
    let mut added = Ok(());
    store.snapshot()?.visit_table_rows(|rows| {
        added = restoration.add(rows);
        added.is_ok()
    })?;
    added?;
    restoration.finish([9; 4])
}

#[test]
fn a_backup_of_an_older_layout_goes_through_the_same_migrations() {
    for layout in ["1", "2"] {
        let old = tempfile::tempdir().unwrap();
        let new = tempfile::tempdir().unwrap();
        let file = format!(
            "{}/tests/layouts/{layout}/{FILE_NAME}",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::copy(file, old.path().join(FILE_NAME)).unwrap();
        let old = Medium::Directory(old.path().into());
        let new = new.path();
        let as_it_is = Store::open_unmigrated(&old, &ProgressReporter::default()).unwrap();
        restore(&as_it_is, new).unwrap();
        drop(as_it_is);
        let migrated = Store::open(&old).unwrap();
        let restored = Store::open(&Medium::Directory(new.into())).unwrap();
        let rows = |store: &Store| {
            let mut found = Vec::new();
            let collect = |rows: &TableRows<'_>| {
                found.push((rows.table().to_owned(), rows.bytes().to_owned()));
                true
            };
            store.snapshot().unwrap().visit_table_rows(collect).unwrap();
            // The instance ID differs.
            found.retain(|(table, _)| table != "meta");
            found
        };
        assert_eq!(rows(&restored), rows(&migrated), "layout {layout}");
        assert_eq!(
            restored.snapshot().unwrap().instance().unwrap(),
            Some([9; 4])
        );
        assert!(
            !new.join(format!("{FILE_NAME}.schema-{layout}")).exists(),
            "there is nothing to go back to"
        );
    }
}

#[test]
fn queued_messages_may_be_duplicates_after_a_restore() {
    let store = store();
    let number = DeliveryNumber(3);
    let at = Timestamp::from_secs(5);
    let row = OutboxRow::new(
        number,
        ChannelId(1),
        CheckId(2),
        FlipNumber(4),
        AlertEvent::Down,
        at,
        at,
    );
    assert!(!row.may_be_duplicate);
    write(&store, |batch| batch.put_outbox_rows([&row]));
    let directory = tempfile::tempdir().unwrap();
    restore(&store, directory.path()).unwrap();
    let restored = Store::open(&Medium::Directory(directory.path().into())).unwrap();
    let rows: Vec<_> = restored
        .snapshot()
        .unwrap()
        .outbox()
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        rows,
        [OutboxRow {
            may_be_duplicate: true,
            ..row
        }]
    );
}

#[test]
fn no_user_is_signed_in_after_a_restore() {
    let store = users::with_users();
    let directory = tempfile::tempdir().unwrap();
    restore(&store, directory.path()).unwrap();
    let restored = Store::open(&Medium::Directory(directory.path().into()))
        .unwrap()
        .snapshot()
        .unwrap();
    let before = store.snapshot().unwrap();
    assert_eq!(
        (
            before.sessions().unwrap().len(),
            before.links().unwrap().len()
        ),
        (1, 2)
    );
    assert_eq!(
        (
            restored.sessions().unwrap().len(),
            restored.links().unwrap().len()
        ),
        (0, 0)
    );
    assert_eq!(restored.users().unwrap(), before.users().unwrap());
}

#[test]
fn a_backup_of_a_newer_layout_is_refused() {
    let store = store();
    write(&store, |batch| meta::set_schema(batch.unrecorded(), 999));
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(
        restore(&store, directory.path()),
        Err(StoreError::TooNew { found: 999, .. })
    ));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn an_inspection_finds_altered_rows() {
    let store = store();
    let bodies = ["one", "two", "three"].map(str::as_bytes);
    let ping = |n, body: &[u8]| Ping {
        body_len: body.len() as u32,
        ..ping(1, n, n - 1)
    };
    let pings: Vec<_> = (1..=3)
        .zip(bodies)
        .map(|(n, body)| (Arrival(n), ping(n, body), body))
        .collect();
    write(&store, |batch| batch.append_pings(&pings, None));
    assert_eq!(inspect(&filled()).dead_pings, 0);
    let found = inspect(&store);
    // The checks of these pings do not exist.
    assert_eq!(
        (
            found.problem_count,
            found.intact_bodies,
            found.dead_pings,
            found.tables["bodies"].bytes
        ),
        (0, 3, 3, 35)
    );
    write(&store, |batch| {
        let mut bodies = batch.unrecorded().open_table(table("bodies"))?;
        bodies.insert(1, b"0ne".as_slice())?;
        bodies.remove(2)?;
        bodies.insert(9, b"more".as_slice())?;
        batch
            .unrecorded()
            .open_table(table("flips"))?
            .insert(1, b"x".as_slice())?;
        Ok(())
    });
    let found = inspect(&store);
    assert_eq!(
        (found.problem_count, found.intact_bodies),
        (4, 1),
        "{found:?}"
    );
    for part in ["ping 1 of check", "ping 2 of check", "Log(9)", "`flips`"] {
        assert!(
            found.problems.iter().any(|text| text.contains(part)),
            "{part}: {found:?}"
        );
    }
}

#[test]
fn an_inspection_joins_chunks() {
    let store = store();
    let shared = |n| Ping {
        body_len: 6,
        body_sharers: 2,
        ..ping(1, n, n - 1)
    };
    write(&store, |batch| {
        let upload = batch.begin_upload()?;
        batch.put_chunk(upload, 0, b"one")?;
        batch.put_chunk(upload, 1, b"two")?;
        batch.append_pings(
            &[1, 2].map(|n| (Arrival(n), shared(n), b"onetwo")),
            Some(upload),
        )?;
        // An upload in progress.
        let next = batch.begin_upload()?;
        batch.put_chunk(next, 0, b"more")
    });
    assert_eq!(
        (inspect(&store).problem_count, inspect(&store).intact_bodies),
        (0, 1)
    );
    write(&store, |batch| batch.put_chunk(1, 1, b"tvo"));
    assert_eq!(
        (inspect(&store).problem_count, inspect(&store).intact_bodies),
        (1, 0)
    );
}

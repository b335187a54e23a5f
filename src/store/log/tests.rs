use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::journal::{Journal, OpenedJournal};
use super::{
    ChangeLog, LeaderLog, LogError, LogMark, MemoryLog, RowChange, RowChanges, SharedLog, StoreLog,
};
use crate::store::table_rows::TableRows;

const DATABASE: u64 = 77;
const JOURNAL_BYTES: u64 = 128 << 10;
const SECTOR: u64 = 4096;

/// Storage in memory whose chosen sectors cannot be read, and whose writes fail on demand.
#[derive(Debug, Default)]
struct FaultyStorage {
    bytes: InMemoryBackend,
    unreadable: crate::util::sync::Mutex<Option<std::ops::Range<u64>>>,
    fails_writes: AtomicBool,
    fails_syncs: AtomicBool,
}

fn fail_if(fails: &AtomicBool) -> std::io::Result<()> {
    if fails.load(Ordering::Relaxed) {
        return Err(std::io::Error::other("input/output error"));
    }
    Ok(())
}

impl StorageBackend for FaultyStorage {
    fn len(&self) -> std::io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let unreadable = self.unreadable.lock().unwrap();
        if unreadable
            .as_ref()
            .is_some_and(|range| offset < range.end && range.start < offset + out.len() as u64)
        {
            return Err(std::io::Error::other("input/output error"));
        }
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.bytes.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        fail_if(&self.fails_syncs)?;
        self.bytes.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        fail_if(&self.fails_writes)?;
        self.bytes.write(offset, data)
    }
}

fn new_journal() -> (Arc<FaultyStorage>, Journal) {
    let storage = Arc::new(FaultyStorage::default());
    let journal = Journal::create(storage.clone(), DATABASE, JOURNAL_BYTES).unwrap();
    (storage, journal)
}

fn reopen(storage: &Arc<FaultyStorage>) -> Journal {
    match Journal::open(storage.clone()).unwrap() {
        OpenedJournal::Journal(journal) => journal,
        OpenedJournal::Missing => panic!("there is no journal"),
    }
}

/// Appends records and returns the mark after each.
fn append(log: &mut dyn ChangeLog, mut mark: LogMark, records: &[&[u8]]) -> Vec<LogMark> {
    records
        .iter()
        .map(|changes| {
            mark = log.append(mark, changes).unwrap();
            mark
        })
        .collect()
}

fn changes_after(log: &dyn ChangeLog, mark: LogMark) -> Vec<Vec<u8>> {
    let records = log.records_after(mark).unwrap();
    records.into_iter().map(|record| record.changes).collect()
}

/// Runs a test for each kind of log.
fn for_each_log(test: impl Fn(&mut dyn ChangeLog)) {
    test(&mut new_journal().1);
    let memory = MemoryLog::default();
    memory.create(DATABASE);
    test(&mut memory.clone());
}

#[test]
fn a_log_returns_the_records_after_a_mark() {
    for_each_log(|log| {
        assert_eq!(log.database(), DATABASE);
        assert_eq!(
            changes_after(log, LogMark::default()),
            Vec::<Vec<u8>>::new()
        );
        let long = vec![7; 20_000];
        let marks = append(log, LogMark::default(), &[b"one", b"", &long, b"four"]);
        assert_eq!(
            changes_after(log, LogMark::default()),
            [b"one".to_vec(), Vec::new(), long.clone(), b"four".to_vec()]
        );
        assert_eq!(changes_after(log, marks[1]), [long, b"four".to_vec()]);
        assert_eq!(changes_after(log, marks[3]), Vec::<Vec<u8>>::new());
        assert_eq!(marks[3].place, 4);
    });
}

#[test]
fn a_withdrawn_record_is_gone_and_its_place_is_used_again() {
    for_each_log(|log| {
        let marks = append(log, LogMark::default(), &[b"one", b"two"]);
        log.withdraw().unwrap();
        assert_eq!(changes_after(log, LogMark::default()), [b"one".to_vec()]);
        append(log, marks[0], &[b"other"]);
        assert_eq!(
            changes_after(log, LogMark::default()),
            [b"one".to_vec(), b"other".to_vec()]
        );
    });
}

#[test]
fn a_released_log_has_room_again_and_forgets_its_records() {
    for_each_log(|log| {
        let mut mark = LogMark::default();
        for _ in 0..3 {
            let mut count = 0;
            while log.has_room_for(4000) {
                mark = log.append(mark, &[1; 4000]).unwrap();
                count += 1;
            }
            assert!(count > 5, "{count}");
            log.release();
            assert_eq!(changes_after(log, mark), Vec::<Vec<u8>>::new());
        }
        mark = log.append(mark, b"next").unwrap();
        assert!(mark.place > 15);
        assert!(!log.has_room_for(1 << 20));
    });
}

#[test]
fn a_journal_is_used_up_to_its_end() {
    let (storage, mut journal) = new_journal();
    let most = (JOURNAL_BYTES - SECTOR) as usize - super::record::HEADER_BYTES;
    assert!(journal.has_room_for(most) && !journal.has_room_for(most + 1));
    append(&mut journal, LogMark::default(), &[&vec![6; most]]);
    assert!(!journal.has_room_for(0));
    assert_eq!(
        changes_after(&reopen(&storage), LogMark::default()),
        [vec![6; most]]
    );
}

#[test]
fn a_journal_is_read_after_it_was_reopened() {
    let (storage, mut journal) = new_journal();
    let marks = append(&mut journal, LogMark::default(), &[b"one", b"two"]);
    drop(journal);
    let mut journal = reopen(&storage);
    assert_eq!(journal.database(), DATABASE);
    assert_eq!(changes_after(&journal, marks[0]), [b"two".to_vec()]);
    // Records of the earlier use lie behind the new one.
    journal.release();
    append(&mut journal, marks[1], &[b"three"]);
    drop(journal);
    assert_eq!(
        changes_after(&reopen(&storage), marks[1]),
        [b"three".to_vec()]
    );
}

#[test]
fn a_torn_record_at_the_end_was_never_acknowledged_and_is_left_out() {
    let (storage, mut journal) = new_journal();
    append(&mut journal, LogMark::default(), &[b"one", &[5; 16_000]]);
    for sector in 0..4 {
        let at = 2 * SECTOR + SECTOR * sector;
        let mut kept = [0; 4096];
        storage.read(at, &mut kept).unwrap();
        storage.write(at, &[0; 4096]).unwrap();
        assert_eq!(
            changes_after(&reopen(&storage), LogMark::default()),
            [b"one".to_vec()],
            "sector {sector}"
        );
        storage.write(at, &kept).unwrap();
    }
    assert_eq!(
        changes_after(&reopen(&storage), LogMark::default()).len(),
        2
    );
}

#[test]
fn a_torn_first_record_leaves_the_log_of_the_earlier_use_behind_it() {
    let (storage, mut journal) = new_journal();
    let marks = append(&mut journal, LogMark::default(), &[b"one", b"two"]);
    journal.release();
    append(&mut journal, marks[1], &[b"three"]);
    storage.write(SECTOR, &[0; 4096]).unwrap();
    assert_eq!(
        changes_after(&reopen(&storage), marks[1]),
        Vec::<Vec<u8>>::new()
    );
}

#[test]
fn a_damaged_record_before_a_whole_one_is_an_error() {
    let (storage, mut journal) = new_journal();
    append(
        &mut journal,
        LogMark::default(),
        &[b"one", b"two", b"three"],
    );
    storage.write(2 * SECTOR + 60, &[0xff]).unwrap();
    // A byte in the padding is not part of a record.
    let damaged = |journal: &Journal| match journal.records_after(LogMark::default()) {
        Err(LogError::Damaged(reason)) => Some(reason),
        Ok(_) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(damaged(&journal), None);
    storage.write(2 * SECTOR + 49, &[0xff]).unwrap();
    assert_eq!(
        damaged(&journal).unwrap(),
        "record 2 at byte 8192 is unreadable, although record 3 at byte 12288 was written after it"
    );
}

#[test]
fn a_record_that_cannot_be_read_is_an_error_and_an_unused_sector_is_none() {
    let (storage, mut journal) = new_journal();
    append(&mut journal, LogMark::default(), &[b"one", &[3; 12_000]]);
    let result = |unreadable| {
        *storage.unreadable.lock().unwrap() = Some(unreadable);
        reopen(&storage).records_after(LogMark::default())
    };
    for at in (1..5).map(|sector| SECTOR * sector) {
        let found = result(at..at + 1);
        assert!(
            matches!(&found, Err(LogError::Damaged(_))),
            "{at}: {found:?}"
        );
    }
    // The sector where the next record would begin may have contained one.
    let found = result(5 * SECTOR..5 * SECTOR + 1);
    assert!(matches!(found, Err(LogError::Damaged(_))), "{found:?}");
    assert_eq!(result(9 * SECTOR..9 * SECTOR + 1).unwrap().len(), 2);
}

#[test]
fn a_record_whose_header_has_another_hash_is_none() {
    let (storage, mut journal) = new_journal();
    append(&mut journal, LogMark::default(), &[b"one"]);
    let mut record = vec![0; SECTOR as usize];
    storage.read(SECTOR, &mut record).unwrap();
    assert!(super::record::decode(DATABASE, &record).is_some());
    // The last byte of the hash.
    record[super::record::HEADER_BYTES - 1] ^= 1;
    assert_eq!(super::record::decode(DATABASE, &record), None);
    record[super::record::HEADER_BYTES - 8..super::record::HEADER_BYTES].fill(0);
    assert_eq!(super::record::decode(DATABASE, &record), None);
}

#[test]
fn a_journal_of_another_state_of_the_database_is_foreign() {
    let (_, mut journal) = new_journal();
    let marks = append(&mut journal, LogMark::default(), &[b"one", b"two"]);
    journal.release();
    append(&mut journal, marks[1], &[b"three"]);
    // The database was replaced by an older copy.
    assert!(matches!(
        journal.records_after(marks[0]),
        Err(LogError::Foreign(_))
    ));
    // By one with the same number of records.
    let other = LogMark {
        chain: marks[1].chain ^ 1,
        ..marks[1]
    };
    assert!(matches!(
        journal.records_after(other),
        Err(LogError::Foreign(_))
    ));
    // By a newer one, which contains all of it.
    let newer = LogMark { place: 9, chain: 1 };
    assert_eq!(journal.records_after(newer).unwrap(), []);
}

#[test]
fn bytes_that_a_client_sends_are_never_taken_for_a_record() {
    let (storage, mut journal) = new_journal();
    // The record of another server, which the client runs itself.
    let foreign = {
        let storage = Arc::new(InMemoryBackend::new());
        let mut journal = Journal::create(storage.clone(), DATABASE + 1, JOURNAL_BYTES).unwrap();
        let mark = LogMark {
            place: 500,
            chain: 1,
        };
        journal.append(mark, b"forged").unwrap();
        let mut sector = vec![0; 4096];
        storage.read(SECTOR, &mut sector).unwrap();
        sector
    };
    let body: Vec<u8> = [vec![0; 4096 - 48], foreign.clone(), foreign].concat();
    let marks = append(&mut journal, LogMark::default(), &[&body]);
    journal.release();
    append(&mut journal, marks[0], &[b"short"]);
    assert_eq!(
        changes_after(&reopen(&storage), marks[0]),
        [b"short".to_vec()]
    );
}

#[test]
fn a_header_that_is_damaged_truncated_or_newer_is_told_apart() {
    let (storage, _) = new_journal();
    let mut header = [0; 4096];
    storage.read(0, &mut header).unwrap();
    storage.set_len(JOURNAL_BYTES - 1).unwrap();
    assert!(matches!(
        Journal::open(storage.clone()),
        Err(LogError::Damaged(reason)) if reason == "it was truncated from 131072 to 131071 bytes"
    ));
    storage.set_len(JOURNAL_BYTES).unwrap();
    storage.write(20, &[9]).unwrap();
    assert!(matches!(
        Journal::open(storage.clone()),
        Err(LogError::Damaged(_))
    ));
    let mut newer = header;
    newer[16] = 2;
    let checksum = crc32fast::hash(&newer[..36]);
    newer[36..40].copy_from_slice(&checksum.to_le_bytes());
    storage.write(0, &newer).unwrap();
    assert!(matches!(
        Journal::open(storage.clone()),
        Err(LogError::TooNew)
    ));
    Journal::erase(&*storage).unwrap();
    assert!(matches!(Journal::open(storage), Ok(OpenedJournal::Missing)));
}

/// Returns the log of an open database, with one confirmed record.
fn open_store_log() -> (Arc<FaultyStorage>, StoreLog) {
    let (storage, journal) = new_journal();
    let mut log = StoreLog::new(DATABASE, LogMark::default());
    log.replace(Some(Box::new(journal)), None);
    assert!(log.append(b"one").unwrap());
    log.confirm();
    (storage, log)
}

/// Changes that a start would apply to a database without any of them.
fn replayed(storage: &Arc<FaultyStorage>) -> Vec<Vec<u8>> {
    changes_after(&reopen(storage), LogMark::default())
}

#[test]
fn a_batch_that_failed_or_panicked_leaves_no_record() {
    for panicked in [false, true] {
        let (storage, mut log) = open_store_log();
        assert!(log.append(b"failed").unwrap());
        if !panicked {
            log.withdraw();
            assert_eq!(replayed(&storage), [b"one"]);
        }
        assert!(log.append(b"two").unwrap());
        log.confirm();
        assert_eq!(replayed(&storage), [b"one", b"two"]);
        assert!(log.is_ahead() && !log.has_failed());
    }
}

#[test]
fn after_a_failed_append_each_batch_is_synced_and_the_record_belongs_to_the_past() {
    for fails_write in [true, false] {
        let (storage, mut log) = open_store_log();
        let fault = if fails_write {
            &storage.fails_writes
        } else {
            &storage.fails_syncs
        };
        fault.store(true, Ordering::Relaxed);
        log.append(b"in doubt").unwrap_err();
        fault.store(false, Ordering::Relaxed);
        assert!(log.has_failed());
        assert!(!log.append(b"two").unwrap(), "the database is synced");
        let mark = log.mark_of_sync();
        log.record_synced(mark);
        assert!(!log.is_ahead());
        // The record may be there, but no start applies it.
        assert_eq!(replayed(&storage).len(), if fails_write { 1 } else { 2 });
        assert!(changes_after(&reopen(&storage), mark).is_empty());
    }
}

#[test]
fn a_record_that_cannot_be_withdrawn_belongs_to_the_past_after_a_sync() {
    let (storage, mut log) = open_store_log();
    assert!(log.append(b"failed").unwrap());
    storage.fails_writes.store(true, Ordering::Relaxed);
    log.withdraw();
    assert!(log.has_failed());
    assert_eq!(replayed(&storage), [b"one".as_slice(), b"failed"]);
    let mark = log.mark_of_sync();
    log.record_synced(mark);
    assert!(changes_after(&reopen(&storage), mark).is_empty());
}

#[test]
fn a_paused_or_missing_log_appends_nothing() {
    let (storage, mut log) = open_store_log();
    log.set_paused(true);
    assert!(!log.append(b"two").unwrap());
    log.set_paused(false);
    let mark = log.mark_of_sync();
    log.record_synced(mark);
    log.replace(None, None);
    assert!(!log.append(b"two").unwrap());
    assert_eq!(replayed(&storage), [b"one"]);
}

/// Log of a cluster that takes every record and keeps none.
struct DiscardingLog;

impl SharedLog for DiscardingLog {
    fn append(&mut self, _: u64, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_leader_whose_batch_failed_after_its_record_was_appended_appends_no_more() {
    let log = LeaderLog::new(DATABASE, 1, Box::new(DiscardingLog));
    let mut log = StoreLog::leading(log, LogMark::default());
    assert!(log.append(b"one").unwrap());
    log.confirm();
    assert!(log.append(b"failed").unwrap());
    log.withdraw();
    assert!(log.has_failed());
    log.append(b"two").unwrap_err();
}

#[test]
fn changes_are_decoded_as_they_were_added() {
    let mut changes = RowChanges::default();
    changes.add(RowChange::Put, "pings", b"a", b"row");
    changes.add(RowChange::Put, "pings", b"b", b"");
    changes.add(RowChange::Put, "bodies", b"a", &[9; 70_000]);
    changes.add(RowChange::RemoveRange, "bodies", b"a", b"c");
    changes.add(RowChange::Remove, "meta", b"name", b"");
    let bytes = changes.as_bytes();
    let decoded = RowChanges::decode(bytes).unwrap();
    let runs: Vec<_> = decoded
        .iter()
        .map(|(change, rows): &(RowChange, TableRows<'_>)| {
            (*change, rows.table(), rows.iter().count())
        })
        .collect();
    assert_eq!(
        runs,
        [
            (RowChange::Put, "pings", 2),
            (RowChange::Put, "bodies", 1),
            (RowChange::RemoveRange, "bodies", 1),
            (RowChange::Remove, "meta", 1),
        ]
    );
    for len in 1..bytes.len() {
        // Cut between two runs, the rest is still whole.
        let cut = RowChanges::decode(&bytes[..len]);
        assert!(cut.is_none_or(|runs| runs.len() < decoded.len()), "{len}");
    }
}

#[test]
fn fuzz_journals() {
    let (storage, mut journal) = new_journal();
    let mark = journal
        .append(LogMark::default(), b"first changes")
        .unwrap();
    journal.append(mark, &[7; 300]).unwrap();
    // Without the zeros at the end, which the target adds again.
    let mut written = vec![0; 3 * SECTOR as usize];
    storage.read(0, &mut written).unwrap();
    crate::util::fuzzing::fuzz(&[written], |bytes| {
        let storage = Arc::new(FaultyStorage::default());
        storage.set_len(JOURNAL_BYTES).unwrap();
        storage.write(0, bytes).unwrap();
        if let Ok(OpenedJournal::Journal(journal)) = Journal::open(storage) {
            let records = journal.records_after(LogMark::default());
            records.into_iter().flatten().for_each(|record| {
                let _ = RowChanges::decode(&record.changes);
            });
        }
        let _ = super::record::decode(DATABASE, bytes);
        let _ = RowChanges::decode(bytes);
    });
}

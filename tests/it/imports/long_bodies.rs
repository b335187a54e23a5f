//! Long bodies of an import: they are written in chunks before their pings, and are removed with
//! them.

use overdue::admin::imports::{AddLongPing, BeginImport};
use overdue::admin::{AdminContext, AdminRequest as _};
use overdue::domain::ping::MAX_BODY_BYTES;
use overdue::import::item_rows::ImportPingRow;
use redb::{
    ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, TableDefinition,
};

use super::*;
use crate::support::server::TestServer;

/// Bodies of more than 100 bytes are split into chunks of at most 64.
fn in_pieces() -> HousekeepingLimits {
    HousekeepingLimits {
        upload_threshold_bytes: 100,
        chunk_bytes: 64,
        ..HousekeepingLimits::default()
    }
}

/// Rows of a stopped engine: chunks, references to uploads, and uploads without references.
pub(super) fn chunk_count(disk: &Disk) -> [u64; 3] {
    let database = redb::Builder::new()
        .create_with_backend(disk.database())
        .unwrap();
    let transaction = database.begin_read().unwrap();
    let pieces = transaction
        .open_table(TableDefinition::<(u64, u64), &[u8]>::new("pieces"))
        .unwrap()
        .len()
        .unwrap();
    let uploads = transaction
        .open_table(TableDefinition::<u64, u64>::new("uploads"))
        .unwrap();
    let referring = uploads
        .iter()
        .unwrap()
        .map(|row| row.unwrap().1.value())
        .sum();
    let unreferred = transaction
        .open_table(TableDefinition::<u64, ()>::new("unreferred"))
        .unwrap()
        .len()
        .unwrap();
    [pieces, referring, unreferred]
}

/// A body without repetition.
fn body(len: usize) -> Vec<u8> {
    (0..len)
        .map(|place| (place % 251) as u8 ^ (place / 251) as u8)
        .collect()
}

/// Uploads the source, and one long body separately.
fn upload_with_body(engine: &mut TestEngine, source: &ImportFixture, len: usize) -> u64 {
    let first = source.upload(engine);
    let long = NumberedPing {
        body: body(len).into(),
        ..staged_ping(CheckId(first + 3), 6)
    };
    // It replaces the ping with this number.
    step(
        engine,
        ImportStep::Log {
            import: ImportId(first),
            pings: vec![long],
            flips: Vec::new(),
        },
    )
    .unwrap();
    first
}

fn finish(engine: &mut TestEngine, source: &ImportFixture, first: u64) {
    let mut expected = source.counts(first);
    expected.pings += 1;
    let options = ImportFinishOptions {
        mode: LIVE,
        legacy_secrets: Vec::new(),
        badge_secret: None,
        expected_counts: expected,
        replace: false,
    };
    step(
        engine,
        ImportStep::Finish {
            import: ImportId(first),
            options,
        },
    )
    .unwrap();
}

#[test]
fn a_long_body_is_imported_completely_and_removed_with_its_ping() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), in_pieces());
    let source = ImportFixture::new();
    let first = upload_with_body(&mut engine, &source, 1000);
    finish(&mut engine, &source, first);
    assert_eq!(
        engine
            .handle
            .body(&check_by_uuid(&engine, 21), 6)
            .unwrap()
            .unwrap(),
        body(1000)
    );
    idle(&mut engine);
    drop(engine);
    assert_eq!(chunk_count(&disk), [16, 1, 0]);
    let mut engine = TestEngine::open(disk.medium(), in_pieces());
    assert_eq!(
        engine
            .handle
            .body(&check_by_uuid(&engine, 21), 6)
            .unwrap()
            .unwrap(),
        body(1000)
    );
    // The replacement has a body of 6 bytes.
    source.import(&mut engine, LIVE).unwrap();
    assert_eq!(
        engine
            .handle
            .body(&check_by_uuid(&engine, 21), 6)
            .unwrap()
            .unwrap(),
        b"body 6"
    );
    idle(&mut engine);
    drop(engine);
    assert_eq!(chunk_count(&disk), [0; 3]);
}

#[test]
fn a_ping_that_is_uploaded_again_leaves_no_chunks() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), in_pieces());
    let source = ImportFixture::new();
    let first = upload_with_body(&mut engine, &source, 1000);
    let log = |pings| ImportStep::Log {
        import: ImportId(first),
        pings,
        flips: Vec::new(),
    };
    let shorter = NumberedPing {
        body: body(200).into(),
        ..staged_ping(CheckId(first + 3), 6)
    };
    step(&mut engine, log(vec![shorter])).unwrap();
    idle(&mut engine);
    drop(engine);
    assert_eq!(chunk_count(&disk), [4, 1, 0]);
    let mut engine = TestEngine::open(disk.medium(), in_pieces());
    let first = upload_with_body(&mut engine, &source, 1000);
    let log = |pings| ImportStep::Log {
        import: ImportId(first),
        pings,
        flips: Vec::new(),
    };
    step(&mut engine, log(vec![staged_ping(CheckId(first + 3), 6)])).unwrap();
    // The first import ended with its engine.
    idle(&mut engine);
    drop(engine);
    assert_eq!(chunk_count(&disk), [0; 3]);
}

#[test]
fn an_abandoned_or_unknown_import_leaves_no_chunks() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), in_pieces());
    let first = upload_with_body(&mut engine, &ImportFixture::new(), 1000);
    let import = ImportId(first);
    step(&mut engine, ImportStep::Abandon { import }).unwrap();
    let long = NumberedPing {
        body: body(1000).into(),
        ..staged_ping(CheckId(first + 3), 6)
    };
    let log = ImportStep::Log {
        import,
        pings: vec![long],
        flips: Vec::new(),
    };
    assert_eq!(step(&mut engine, log), Err(ImportStepError::UnknownImport));
    idle(&mut engine);
    drop(engine);
    assert_eq!(chunk_count(&disk), [0; 3]);
}

#[test]
fn the_longest_body_is_written_one_chunk_a_commit() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    let first = source.upload(&mut engine);
    let long = NumberedPing {
        body: body(MAX_BODY_BYTES).into(),
        ..staged_ping(CheckId(first + 3), 6)
    };
    let log = ImportStep::Log {
        import: ImportId(first),
        pings: vec![long],
        flips: Vec::new(),
    };
    let mut answer = engine.handle.submit(stage(log)).unwrap();
    let steps = (1..100).find(|_| {
        assert_eq!(engine.writer.step(false), Ok(true));
        answer
            .try_recv()
            .is_ok_and(|answer| answer.unwrap().is_ok())
    });
    // Chunks of 1 MiB, including overhead.
    assert_eq!(steps, Some(MAX_BODY_BYTES.div_ceil((1 << 20) - 1024)));
    finish(&mut engine, &source, first);
    assert_eq!(
        engine
            .handle
            .body(&check_by_uuid(&engine, 21), 6)
            .unwrap()
            .unwrap(),
        body(MAX_BODY_BYTES)
    );
}

#[tokio::test]
async fn a_body_is_stored_as_it_arrives_up_to_the_limit() {
    let server = TestServer::start().await;
    let admin = AdminContext::new(&server.handle, None);
    let begin = BeginImport { ids: 3, checks: 1 };
    let import = begin.run(&admin).await.unwrap().import;
    let long = |bytes: usize| {
        let ping = NumberedPing {
            body: Vec::new().into(),
            ..staged_ping(CheckId(import + 1), 1)
        };
        AddLongPing {
            import,
            ping: ImportPingRow::from(ping),
            body: body(bytes),
        }
    };
    let counts = || {
        server
            .handle
            .with_state(|state| state.imports.get(ImportId(import)).unwrap().counts)
    };
    let refused = long(MAX_BODY_BYTES + 1).run(&admin).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("a step has too many log entries or bytes"),
        "{refused}"
    );
    assert_eq!(counts(), ImportItemCounts::default());
    long(1000).run(&admin).await.unwrap();
    assert_eq!(counts().pings, 1);
    server.stop().await;
}

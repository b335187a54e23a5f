//! Long bodies of what is imported: they are written in pieces ahead of their pings, and leave the file with them.

use overdue::admin::import::ImportRequest;
use overdue::admin::{Reply, Request, perform};
use overdue::domain::ping::LONGEST_BODY;
use overdue::import::staged::StagedPingRow;
use redb::{ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, TableDefinition};

use super::*;
use crate::support::server::Server;

/// Bodies of more than 100 bytes go in pieces of at most 64.
fn in_pieces() -> Thresholds {
    Thresholds { large: 100, piece: 64, ..Thresholds::default() }
}

/// Pieces in the file of a stopped engine, what refers to uploads, and what nothing refers to.
pub(super) fn pieces(disk: &Disk) -> [u64; 3] {
    let database = redb::Builder::new().create_with_backend(disk.clone()).unwrap();
    let transaction = database.begin_read().unwrap();
    let pieces = transaction.open_table(TableDefinition::<(u64, u64), &[u8]>::new("pieces")).unwrap().len().unwrap();
    let uploads = transaction.open_table(TableDefinition::<u64, u64>::new("uploads")).unwrap();
    let referring = uploads.iter().unwrap().map(|row| row.unwrap().1.value()).sum();
    let unreferred = transaction.open_table(TableDefinition::<u64, ()>::new("unreferred")).unwrap().len().unwrap();
    [pieces, referring, unreferred]
}

/// A body that differs from place to place.
fn body(len: usize) -> Vec<u8> {
    (0..len).map(|place| (place % 251) as u8 ^ (place / 251) as u8).collect()
}

/// The source with one long body, handed over by itself.
fn hand_over(engine: &mut Engine, source: &Source, len: usize) -> u64 {
    let first = source.hand_over(engine);
    let long = StagedPing { body: body(len).into(), ..staged_ping(CheckId(first + 3), 6) };
    // It takes the place of the one with this number.
    step(engine, StageCommand::Log { import: ImportId(first), pings: vec![long], flips: Vec::new() }).unwrap();
    first
}

fn finish(engine: &mut Engine, source: &Source, first: u64) {
    let mut expected = source.counts(first);
    expected.pings += 1;
    let ending = Ending { mode: LIVE, secrets: Vec::new(), signing: None, expected, replace: false };
    step(engine, StageCommand::Finish { import: ImportId(first), ending }).unwrap();
}

#[test]
fn a_long_body_comes_whole_and_goes_with_its_ping() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), in_pieces());
    let source = Source::new();
    let first = hand_over(&mut engine, &source, 1000);
    finish(&mut engine, &source, first);
    assert_eq!(engine.handle.body(&found(&engine, 21), 6).unwrap().unwrap(), body(1000));
    idle(&mut engine);
    drop(engine);
    assert_eq!(pieces(&disk), [16, 1, 0]);
    let mut engine = Engine::open(disk.medium(), in_pieces());
    assert_eq!(engine.handle.body(&found(&engine, 21), 6).unwrap().unwrap(), body(1000));
    // What takes its place has a body of 6 bytes.
    source.import(&mut engine, LIVE).unwrap();
    assert_eq!(engine.handle.body(&found(&engine, 21), 6).unwrap().unwrap(), b"body 6");
    idle(&mut engine);
    drop(engine);
    assert_eq!(pieces(&disk), [0; 3]);
}

#[test]
fn a_ping_that_is_handed_over_again_leaves_no_pieces() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), in_pieces());
    let source = Source::new();
    let first = hand_over(&mut engine, &source, 1000);
    let log = |pings| StageCommand::Log { import: ImportId(first), pings, flips: Vec::new() };
    let shorter = StagedPing { body: body(200).into(), ..staged_ping(CheckId(first + 3), 6) };
    step(&mut engine, log(vec![shorter])).unwrap();
    idle(&mut engine);
    drop(engine);
    assert_eq!(pieces(&disk), [4, 1, 0]);
    let mut engine = Engine::open(disk.medium(), in_pieces());
    let first = hand_over(&mut engine, &source, 1000);
    let log = |pings| StageCommand::Log { import: ImportId(first), pings, flips: Vec::new() };
    step(&mut engine, log(vec![staged_ping(CheckId(first + 3), 6)])).unwrap();
    // The first import ended with its engine.
    idle(&mut engine);
    drop(engine);
    assert_eq!(pieces(&disk), [0; 3]);
}

#[test]
fn an_import_that_is_abandoned_or_unknown_leaves_no_pieces() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), in_pieces());
    let first = hand_over(&mut engine, &Source::new(), 1000);
    let import = ImportId(first);
    step(&mut engine, StageCommand::Abandon { import }).unwrap();
    let long = StagedPing { body: body(1000).into(), ..staged_ping(CheckId(first + 3), 6) };
    let log = StageCommand::Log { import, pings: vec![long], flips: Vec::new() };
    assert_eq!(step(&mut engine, log), Err(StageRefusal::Unknown));
    idle(&mut engine);
    drop(engine);
    assert_eq!(pieces(&disk), [0; 3]);
}

#[test]
fn the_longest_body_goes_in_commits_of_a_piece() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let source = Source::new();
    let first = source.hand_over(&mut engine);
    let long = StagedPing { body: body(LONGEST_BODY).into(), ..staged_ping(CheckId(first + 3), 6) };
    let log = StageCommand::Log { import: ImportId(first), pings: vec![long], flips: Vec::new() };
    let mut answer = engine.handle.submit(stage(log)).unwrap();
    let steps = (1..100).find(|_| {
        assert_eq!(engine.writer.step(false), Ok(true));
        answer.try_recv().is_ok_and(|answer| answer.unwrap().is_ok())
    });
    // Pieces of 1 MiB, less what belongs to them.
    assert_eq!(steps, Some(LONGEST_BODY.div_ceil((1 << 20) - 1024)));
    finish(&mut engine, &source, first);
    assert_eq!(engine.handle.body(&found(&engine, 21), 6).unwrap().unwrap(), body(LONGEST_BODY));
}

#[tokio::test]
async fn a_body_of_which_parts_are_missing_or_too_many_is_refused() {
    let server = Server::start().await;
    let ask = async |request, document| perform(&server.handle, Request::Import(request), document).await.0;
    let Reply::ImportBegun(import) = ask(ImportRequest::Begin { ids: 3, checks: 1 }, Vec::new()).await else { panic!("it begins") };
    let long = |bytes: usize| {
        let ping = StagedPing { body: Vec::new().into(), ..staged_ping(CheckId(import + 1), 1) };
        ImportRequest::LongPing { import, ping: StagedPingRow::from(ping), bytes }
    };
    for (bytes, came) in [(1000, 999), (1000, 1001), (1000, 0)] {
        let Reply::Invalid(reason) = ask(long(bytes), body(came)).await else { panic!("{came} of {bytes} bytes are taken") };
        assert_eq!(reason, format!("{came} bytes of a body came that has 1000: begin again"));
    }
    let Reply::Refused(reason) = ask(long(LONGEST_BODY + 1), body(LONGEST_BODY + 1)).await else { panic!("it is too long") };
    assert!(reason.contains("more entries of logs came at once"), "{reason}");
    assert_eq!(server.handle.with_state(|state| state.stagings.get(ImportId(import)).unwrap().counts), StagedCounts::default());
    assert!(matches!(ask(long(1000), body(1000)).await, Reply::Done));
    assert_eq!(server.handle.with_state(|state| state.stagings.get(ImportId(import)).unwrap().counts.pings), 1);
    server.stop().await;
}

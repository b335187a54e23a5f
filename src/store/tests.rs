use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use redb::{ReadableTable as _, ReadableTableMetadata as _, TableDefinition};
use uuid::Uuid;

use super::*;
use crate::domain::check::{Check, CheckState, Run, Settings};
use crate::domain::flip::{Flip, LoggedFlip};
use crate::domain::ids::{Arrival, ChannelId, CheckId, FlipNumber, KeyId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::ping::{Kind, Method, Origin, Ping, Scheme};
use crate::domain::project::{Channel, Key, KeyHash, PingKey, Project, ProjectName, Secret};
use crate::domain::schedule::Schedule;
use crate::domain::status::Status;
use crate::domain::text::{Keywords, Name, Slug, Tags};

fn store() -> Store {
    Store::open(&Medium::memory()).unwrap()
}

fn write(store: &Store, work: impl FnOnce(&Batch) -> Result<(), StoreError>) {
    let batch = store.batch().unwrap();
    work(&batch).unwrap();
    batch.commit().unwrap();
}

fn table(name: &'static str) -> TableDefinition<'static, u64, &'static [u8]> {
    TableDefinition::new(name)
}

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(number << 64 | number)
}

fn project() -> Project {
    let name = ProjectName::parse("Zuhause").unwrap();
    Project { id: ProjectId(1), uuid: uuid(1), name, check_limit: Some(20), ping_log_limit: 100, badge_key: "badge".into() }
}

fn keys() -> [Key; 3] {
    let key = |id, secret| Key { id: KeyId(id), project: ProjectId(1), secret, created: Moment::from_secs(5) };
    [
        key(2, Secret::ReadWrite(KeyHash([200; 32]))),
        key(3, Secret::ReadOnly(KeyHash([3; 32]))),
        key(4, Secret::Ping(PingKey::parse("abcdefghijklmnopqrstuv").unwrap())),
    ]
}

fn channel() -> Channel {
    let settings = Box::new([("to".into(), "root@example.org".into())]);
    Channel { id: ChannelId(5), uuid: uuid(5), project: ProjectId(1), name: "mail".into(), kind: "email".into(), settings }
}

fn check() -> Check {
    let settings = Settings {
        name: Name::parse("nightly").unwrap(),
        slug: Slug::parse("n").unwrap(),
        tags: Tags::new("a b"),
        desc: "what".into(),
        schedule: Some(Arc::new(Schedule::parse("0 3 * * *").unwrap())),
        manual_resume: true,
        failure_kw: Keywords::parse("ERR").unwrap(),
        channels: Box::new([ChannelId(5)]),
        ..Settings::default()
    };
    let state = CheckState {
        status: Status::Down,
        last_ping: Some(Moment::from_secs(100)),
        run: Some(Run { start: Moment::from_secs(90), rid: Some(uuid(9)) }),
        last_duration: Some(7),
        n_pings: 2,
        last_arrival: Arrival(8),
        last_flip: FlipNumber(1),
        ..CheckState::new(Moment::from_secs(50))
    };
    Check { id: CheckId(6), uuid: uuid(6), badge: uuid(7), project: ProjectId(1), settings: Arc::new(settings), state }
}

fn ping(check: u64, n: u64, previous: u64) -> Ping {
    let origin = Origin { scheme: Scheme::Https, method: Method::Post, remote_addr: IpAddr::from([192, 0, 2, 1]), ua: "curl".into() };
    let (check, previous, at) = (CheckId(check), Arrival(previous), Moment::from_secs(60));
    Ping { check, n, previous, at, kind: Kind::Fail, origin, rid: Some(uuid(9)), body_len: 2 }
}

fn flip(check: u64, previous: u64, at: i64) -> LoggedFlip {
    let flip = Flip { at: Moment::from_secs(at), from: Status::Up, to: Status::Down };
    LoggedFlip { check: CheckId(check), previous: FlipNumber(previous), flip }
}

/// A store with a row of every kind.
fn filled() -> Store {
    filled_with(&[(Arrival(3), ping(6, 1, 0), b"".as_slice()), (Arrival(8), ping(6, 2, 3), b"ok")])
}

/// The same with other pings.
fn filled_with(pings: &[(Arrival, Ping, &[u8])]) -> Store {
    let store = store();
    write(&store, |batch| {
        batch.put_project(&project())?;
        keys().iter().try_for_each(|key| batch.put_key(key))?;
        batch.put_channel(&channel())?;
        batch.put_checks([&check()])?;
        batch.append_pings(pings)?;
        batch.append_flips(&[(FlipNumber(1), flip(6, 0, 50))])
    });
    store
}

/// Reads everything that can be read; the first error.
fn read(store: &Store) -> Result<(), StoreError> {
    let snapshot = store.snapshot()?;
    snapshot.projects()?;
    snapshot.keys()?;
    snapshot.channels()?;
    snapshot.checks()?.try_for_each(|check| check.map(drop))?;
    snapshot.pings_after(Arrival(0))?.try_for_each(|ping| ping.map(drop))?;
    snapshot.newest_ping()?;
    snapshot.pings_of(CheckId(6), 2, Arrival(8), 1)?;
    snapshot.body_of(CheckId(6), 2, Arrival(8), 1)?;
    snapshot.flips_after(FlipNumber(0))?.try_for_each(|flip| flip.map(drop))?;
    snapshot.flips_of(CheckId(6), FlipNumber(1))?.try_for_each(|flip| flip.map(drop))
}

/// Every table of rows with a row in it.
const ROWS: [(&str, u64); 8] =
    [("projects", 1), ("keys", 2), ("keys", 3), ("keys", 4), ("channels", 5), ("checks", 6), ("pings", 8), ("flips", 1)];

fn row(store: &Store, (name, id): (&'static str, u64)) -> Vec<u8> {
    store.batch().unwrap().transaction.open_table(table(name)).unwrap().get(id).unwrap().unwrap().value().to_vec()
}

fn put_row(store: &Store, (name, id): (&'static str, u64), bytes: &[u8]) {
    write(store, |batch| {
        batch.transaction.open_table(table(name))?.insert(id, bytes)?;
        Ok(())
    });
}

fn expect_all(store: &Store) {
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.projects().unwrap(), [project()]);
    assert_eq!(snapshot.keys().unwrap(), keys());
    assert_eq!(snapshot.channels().unwrap(), [channel()]);
    assert_eq!(snapshot.checks().unwrap().map(Result::unwrap).collect::<Vec<_>>(), [check()]);
    let pings: Vec<_> = snapshot.pings_after(Arrival(3)).unwrap().map(Result::unwrap).collect();
    assert_eq!(pings, [(Arrival(8), ping(6, 2, 3))]);
    let flips: Vec<_> = snapshot.flips_after(FlipNumber(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(flips, [(FlipNumber(1), flip(6, 0, 50))]);
}

#[test]
fn what_is_written_is_read() {
    expect_all(&filled());
}

/// Files hold these bytes: whoever changes how a row is written gives it a new version, and goes on reading this one.
#[test]
fn rows_of_version_1_are_read_and_written() {
    let old = store();
    for (place, row) in ROWS.iter().zip(VERSION_1) {
        let bytes: Vec<_> = (0..row.len()).step_by(2).map(|at| u8::from_str_radix(&row[at..at + 2], 16).unwrap()).collect();
        put_row(&old, *place, &bytes);
    }
    expect_all(&old);
    let new = filled();
    ROWS.iter().for_each(|place| assert_eq!(row(&new, *place), row(&old, *place), "{place:?}"));
}

const VERSION_1: [&str; 8] = [
    "0195c41000000000000000010000000000000001a75a7568617573651464a56261646765",
    "01930181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ce004c4b40",
    "01930181a8526561644f6e6c79dc00200303030303030303030303030303030303030303030303030303030303030303ce004c4b40",
    "01930181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40",
    "0195c4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f6f74406578616d706c652e6f7267",
    "01dc001ac41000000000000000060000000000000006c4100000000000000007000000000000000701a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa3555443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c4100000000000000009000000000000000907020801",
    "019b060203ce0393870002010381a2563494ccc0000201a46375726cc4100000000000000009000000000000000902",
    "01950600ce02faf0800102",
];

#[test]
fn a_row_of_an_unknown_version_is_an_error_that_names_table_and_version() {
    for place in ROWS {
        let store = filled();
        for version in [0, 2, 255] {
            let mut bytes = row(&store, place);
            bytes[0] = version;
            put_row(&store, place, &bytes);
            let error = read(&store).unwrap_err();
            assert!(matches!(&error, StoreError::Corrupt { table, .. } if *table == place.0), "{place:?}: {error}");
            let sentence = format!("the table `{}` holds a row that cannot be read: version {version} is not known", place.0);
            assert_eq!(error.to_string(), sentence);
        }
    }
}

#[test]
fn rows_that_do_not_lead_back_are_errors() {
    for (arrival, row) in [(8, ping(6, 2, 8)), (8, ping(6, 2, 0)), (8, ping(7, 2, 3)), (8, ping(6, 9, 3)), (3, ping(6, 2, 8))] {
        let mut pings = [(Arrival(3), ping(6, 1, 0), b"".as_slice()), (Arrival(8), ping(6, 2, 3), b"")];
        let replaced = pings.iter_mut().find(|(own, ..)| own.0 == arrival).unwrap();
        replaced.1 = row.clone();
        let store = filled_with(&pings);
        let snapshot = store.snapshot().unwrap();
        let pings = snapshot.pings_of(CheckId(6), 2, Arrival(8), 1).map(|pings| pings.len());
        // A chain that ends early is one that was swept.
        assert!(matches!(pings, Ok(1) | Err(StoreError::Corrupt { table: "pings", .. })), "{row:?}: {pings:?}");
        assert!(matches!(snapshot.body_of(CheckId(6), 2, Arrival(8), 1), Ok(None) | Err(StoreError::Corrupt { table: "pings", .. })));
    }
    let store = filled();
    write(&store, |batch| batch.append_flips(&[(FlipNumber(1), flip(6, 1, 50))]));
    let flips: Vec<_> = store.snapshot().unwrap().flips_of(CheckId(6), FlipNumber(1)).unwrap().collect();
    assert!(matches!(flips[..], [Err(StoreError::Corrupt { table: "flips", .. })]), "{flips:?}");
}

#[test]
fn single_values_of_another_size_are_errors() {
    const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
    let put = |name: &str, bytes: &[u8]| {
        let store = filled();
        write(&store, |batch| {
            batch.transaction.open_table(META)?.insert(name, bytes)?;
            Ok(())
        });
        store
    };
    let marks = [(Mark::NextId, "next_id"), (Mark::CheckpointArrival, "checkpoint_arrival"), (Mark::CheckpointFlip, "checkpoint_flip")];
    for (mark, name) in marks {
        assert_eq!(put(name, &7_u64.to_le_bytes()).snapshot().unwrap().mark(mark).unwrap(), 7);
        let error = put(name, &[7; 9]).snapshot().unwrap().mark(mark).unwrap_err();
        assert_eq!(error.to_string(), format!("the table `meta` holds a row that cannot be read: `{name}` has 9 bytes, not 8"));
    }
    assert!(matches!(put("badge_secret", &[7; 31]).snapshot().unwrap().badge_secret(), Err(StoreError::Corrupt { table: "meta", .. })));
}

#[test]
fn a_newer_schema_is_refused_with_what_to_do() {
    let medium = Medium::memory();
    let set_schema = |schema: u64| {
        let store = Store { database: medium.open().unwrap() };
        write(&store, |batch| {
            batch.transaction.open_table(TableDefinition::<&str, &[u8]>::new("meta"))?.insert("schema", schema.to_le_bytes().as_slice())?;
            Ok(())
        });
    };
    drop(Store::open(&medium).unwrap());
    set_schema(meta::SCHEMA + 1);
    let sentence = "the database has schema version 2, this release knows up to 1: install the release that wrote it, or a newer one";
    assert_eq!(Store::open(&medium).err().unwrap().to_string(), sentence);
    set_schema(meta::SCHEMA);
    assert!(Store::open(&medium).is_ok());
}

#[test]
fn a_file_is_there_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let medium = Medium::Directory(directory.path().join("data"));
    let path = directory.path().join("data").join(FILE_NAME);
    drop(Store::open(&medium).unwrap());
    let whole = std::fs::read(&path).unwrap();
    // What a power cut during the first start may leave: nothing, an empty file, half a new file beside it.
    for (old, new) in [(None, Some(&whole[..1000])), (Some(&[][..]), Some(&[0; 5000][..])), (Some(&[][..]), None)] {
        for (path, left) in [(path.clone(), old), (path.with_extension("new"), new)] {
            let _ = std::fs::remove_file(&path);
            left.iter().for_each(|bytes| std::fs::write(&path, bytes).unwrap());
        }
        let store = Store::open(&medium).unwrap();
        assert!(matches!(Store::open(&medium), Err(StoreError::InUse(in_use)) if in_use == path));
        read(&store).unwrap();
        assert!(!path.with_extension("new").exists());
    }
    // Anything else is not ours to replace.
    std::fs::write(&path, &whole[1..]).unwrap();
    assert!(Store::open(&medium).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), &whole[1..]);
}

/// What happens to a log.
#[derive(Clone, Debug)]
enum Step {
    /// A ping of a check, with so many bytes of body.
    Append(u64, u8),
    /// A sweep of so many entries, up to a share of all that ever arrived.
    Sweep(usize, u8),
    /// A look at so many kept entries.
    Prune(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u64, prop_oneof![Just(0_u8), 1..9_u8]).prop_map(|(check, len)| Step::Append(check, len)),
        2 => (1..8_usize, 0..=100_u8).prop_map(|(most, share)| Step::Sweep(most, share)),
        1 => (1..5_usize).prop_map(Step::Prune),
    ]
}

/// Pings within the limit of each check.
const LIMITS: [u64; 3] = [1, 3, 10];

proptest! {
    #[test]
    fn damaged_rows_are_errors_or_other_values_never_panics(at in 0..ROWS.len(), cut in 0..200_usize, flips in prop::collection::vec((0..200_usize, any::<u8>()), 0..6)) {
        let store = filled();
        let place = ROWS[at];
        let mut bytes = row(&store, place);
        bytes.truncate(cut.max(1));
        for (at, byte) in flips {
            if let Some(place) = bytes.get_mut(at) {
                *place ^= byte;
            }
        }
        put_row(&store, place, &bytes);
        match read(&store) {
            Ok(()) => {}
            Err(StoreError::Corrupt { table, .. }) => prop_assert_eq!(table, place.0),
            Err(error) => prop_assert!(false, "{}", error),
        }
        put_row(&store, place, &[]);
        prop_assert!(read(&store).is_err());
    }

    #[test]
    fn a_log_gives_back_what_is_within_the_limits_however_it_is_swept(steps in prop::collection::vec(step(), 1..120)) {
        let store = store();
        // Bodies of each check by n, and where its newest ping lies.
        let mut model: BTreeMap<u64, (Vec<Vec<u8>>, u64)> = BTreeMap::new();
        let mut arrivals = 0;
        let mut cursor = PingCursor::default();
        for step in steps {
            let newest: BTreeMap<_, _> = model.iter().map(|(check, (bodies, _))| (*check, bodies.len() as u64)).collect();
            let live = |check: CheckId, n: u64| n + LIMITS[check.0 as usize] > newest[&check.0];
            let snapshot = store.snapshot().unwrap();
            let (log_len, kept_len) = (snapshot.log_len().unwrap(), snapshot.kept_len().unwrap());
            write(&store, |batch| {
                match step {
                    Step::Append(check, len) => {
                        let (bodies, last) = model.entry(check).or_default();
                        arrivals += 1;
                        let body = vec![arrivals as u8; usize::from(len)];
                        let n = bodies.len() as u64 + 1;
                        batch.append_pings(&[(Arrival(arrivals), ping(check, n, *last), &body)])?;
                        bodies.push(body);
                        *last = arrivals;
                    }
                    Step::Sweep(most, share) => {
                        let up_to = Arrival(arrivals * u64::from(share) / 100);
                        let swept = batch.sweep_pings(up_to, most, live)?;
                        assert!(swept.removed <= most && swept.kept <= swept.removed && swept.removed as u64 <= log_len);
                    }
                    Step::Prune(most) => {
                        let pruned = batch.prune_kept_pings(cursor, most, live)?;
                        assert!(pruned.removed <= most && pruned.removed as u64 <= kept_len);
                        cursor = pruned.next.unwrap_or_default();
                    }
                }
                Ok(())
            });
            let snapshot = store.snapshot().unwrap();
            for (check, (bodies, last)) in &model {
                let (id, n, last) = (CheckId(*check), bodies.len() as u64, Arrival(*last));
                let down_to = n.saturating_sub(LIMITS[*check as usize]) + 1;
                let pings = snapshot.pings_of(id, n, last, down_to).unwrap();
                prop_assert_eq!(pings.iter().map(|ping| ping.n).collect::<Vec<_>>(), (down_to..=n).rev().collect::<Vec<_>>());
                for wanted in down_to..=n {
                    let body = snapshot.body_of(id, n, last, wanted).unwrap().unwrap_or_default();
                    prop_assert_eq!(&body, &bodies[wanted as usize - 1]);
                }
                prop_assert_eq!(snapshot.body_of(id, n, last, n + 1).unwrap(), None);
            }
        }
        // Once everything is swept and looked at, nothing but what is within the limits is left.
        let newest: BTreeMap<_, _> = model.iter().map(|(check, (bodies, _))| (*check, bodies.len() as u64)).collect();
        let live = |check: CheckId, n: u64| n + LIMITS[check.0 as usize] > newest[&check.0];
        write(&store, |batch| batch.sweep_pings(Arrival(arrivals), usize::MAX, live).map(drop));
        write(&store, |batch| batch.prune_kept_pings(PingCursor::default(), usize::MAX, live).map(drop));
        let within: u64 = newest.iter().map(|(check, n)| (*n).min(LIMITS[*check as usize])).sum();
        let snapshot = store.snapshot().unwrap();
        prop_assert_eq!((snapshot.log_len().unwrap(), snapshot.kept_len().unwrap()), (0, within));
        let bodies = |name: &'static str| store.batch().unwrap().transaction.open_table(table(name)).unwrap().len().unwrap();
        prop_assert_eq!(bodies("bodies"), 0);
    }

    #[test]
    fn flips_are_read_back_to_where_they_were_pruned(
        flips in prop::collection::vec((0..3_u64, 0..50_i64), 1..80),
        prunings in prop::collection::vec((0..60_i64, 1..9_usize), 0..12),
    ) {
        let store = store();
        let mut log: Vec<(FlipNumber, LoggedFlip)> = Vec::new();
        let mut last = [0; 3];
        for (check, at) in flips {
            let number = log.len() as u64 + 1;
            log.push((FlipNumber(number), flip(check, std::mem::replace(&mut last[check as usize], number), at)));
        }
        write(&store, |batch| batch.append_flips(&log));
        let mut first = 0;
        for (before, most) in prunings {
            let before = Moment::from_secs(before);
            let old = log[first..].iter().take(most).take_while(|(_, logged)| logged.flip.at < before).count();
            write(&store, |batch| {
                assert_eq!(batch.prune_flips(before, most)?, old);
                Ok(())
            });
            first += old;
        }
        let snapshot = store.snapshot().unwrap();
        prop_assert_eq!(snapshot.flips_after(FlipNumber(0)).unwrap().map(Result::unwrap).collect::<Vec<_>>(), &log[first..]);
        for (check, last) in (0..).zip(last) {
            let found: Vec<_> = snapshot.flips_of(CheckId(check), FlipNumber(last)).unwrap().map(Result::unwrap).collect();
            let expected = log[first..].iter().rev().filter(|(_, logged)| logged.check.0 == check).map(|(_, logged)| *logged);
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}

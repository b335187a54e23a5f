use std::num::NonZeroU8;
use std::sync::Arc;

use redb::{ReadableTable as _, ReadableTableMetadata as _, TableDefinition};
use uuid::Uuid;

mod deliveries;
mod logs;
mod restore;
mod users;
mod versions;

use super::*;
use crate::domain::alert::{
    ChannelHealth, DeliveryProof, HoldReason, NotificationState, Outage, RefusedRecipient,
};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::check::{Check, CheckSettings, CheckState, NameSet, OngoingRun};
use crate::domain::flip::{Flip, FlipCause, LoggedFlip};
use crate::domain::ids::{Arrival, ChannelId, CheckId, FlipNumber, KeyId, ProjectId};
use crate::domain::import_item::ProjectImport;
use crate::domain::legacy_keys::{LegacyBadgeKey, LegacyKey, LegacyKeyDigest};
use crate::domain::parents::Parents;
use crate::domain::ping::{Ping, PingKind, PingMethod, PingOrigin, PingScheme};
use crate::domain::project::{
    Channel, ChannelName, KeyHash, KeyLabel, KeySecret, KeyUse, PingKey, Project, ProjectKey,
    ProjectName,
};
use crate::domain::recent_outcomes::RecentOutcomes;
use crate::domain::schedule::Schedule;
use crate::domain::status::Status;
use crate::domain::text::{Description, Keywords, Name, Slug, Tags};
use crate::domain::timestamp::Timestamp;

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
    let id = ProjectId(1);
    let uuid = uuid(1);
    let badge_key = "badge".into();
    let old_badge = Some(LegacyBadgeKey([200; 20]));
    let away = Some(Outage {
        from: Timestamp::from_secs(50),
        to: Timestamp::from_secs(60),
    });
    let import = Some(ProjectImport {
        id_range: 2..9,
        is_on_trial: true,
        outage: away,
    });
    Project {
        id,
        uuid,
        name,
        check_limit: Some(20),
        ping_log_limit: 100,
        badge_key,
        legacy_badge: old_badge,
        import,
    }
}

fn keys() -> Vec<ProjectKey> {
    let used = Some(KeyUse {
        at: Timestamp::from_secs(7200),
        from: [192, 0, 2, 9].into(),
    });
    let label = KeyLabel::parse("CI").unwrap();
    let key = |id, secret| {
        let label = label.clone();
        let hint = "abcd".into();
        ProjectKey {
            id: KeyId(id),
            project: ProjectId(1),
            secret,
            label,
            hint,
            created: Timestamp::from_secs(5),
            last_use: used,
        }
    };
    vec![
        key(2, KeySecret::ReadWrite(KeyHash([200; 32]))),
        key(3, KeySecret::ReadOnly(KeyHash([3; 32]))),
        key(
            4,
            KeySecret::Ping(PingKey::parse("abcdefghijklmnopqrstuv").unwrap()),
        ),
        key(
            7,
            KeySecret::Legacy(LegacyKey {
                read_only: true,
                secret_number: 2,
                digest: LegacyKeyDigest([9; 32]),
            }),
        ),
    ]
}

fn channel() -> Channel {
    let name = ChannelName::parse("mail").unwrap();
    let kind = ChannelKind::from_name("email").unwrap();
    let settings = ChannelSettings::parse(kind, [("to", "root@example.org")]).unwrap();
    let health = ChannelHealth {
        disabled: Some((Timestamp::from_secs(70), "gone".into())),
        failing: Some((Timestamp::from_secs(60), "busy".into())),
        proof: DeliveryProof::TestFailed("no".into()),
        unsubscribed: vec!["ann@b".into()],
        refused: vec![RefusedRecipient {
            address: "eve@b".into(),
            since: Timestamp::from_secs(65),
            reason: "550".into(),
        }],
    };
    Channel {
        id: ChannelId(5),
        uuid: uuid(5),
        project: ProjectId(1),
        name,
        settings,
        set_by_operator: false,
        health,
    }
}

fn names() -> NameSet {
    NameSet {
        name: Name::from_stored("o"),
        slug: Slug::from_stored("s"),
        tags: Tags::from_stored("t"),
    }
}

fn check() -> Check {
    let settings = CheckSettings {
        name: Name::parse("nightly").unwrap(),
        slug: Slug::parse("n").unwrap(),
        tags: Tags::from_stored("a b"),
        desc: Description::from_stored("what"),
        schedule: Some(Arc::new(Schedule::parse("0 3 * * *").unwrap())),
        manual_resume: true,
        failure_kw: Keywords::parse("ERR").unwrap(),
        channels: Box::new([ChannelId(5)]),
        parents: Parents::new(vec![CheckId(4)]).unwrap(),
        ..CheckSettings::default()
    };
    let state = CheckState {
        status: Status::Down,
        last_ping: Some(Timestamp::from_secs(100)),
        run: Some(OngoingRun {
            start: Timestamp::from_secs(90),
            rid: Some(uuid(9)),
        }),
        last_duration: Some(7),
        n_pings: 2,
        last_arrival: Arrival(8),
        last_flip: FlipNumber(1),
        outcomes: RecentOutcomes::from_bits(0b10_01),
        failures: 3,
        notification: NotificationState::Pending {
            at: Timestamp::from_secs(110),
            reason: HoldReason::ParentDown(CheckId(4)),
        },
        unused_since_import: true,
        imported_pings: 2,
        ..CheckState::new(Timestamp::from_secs(50))
    };
    Check {
        id: CheckId(6),
        uuid: uuid(6),
        badge: uuid(7),
        project: ProjectId(1),
        settings: Arc::new(settings),
        state,
        alerted_names: Some(Arc::new(names())),
    }
}

fn ping(check: u64, n: u64, previous: u64) -> Ping {
    let origin = PingOrigin {
        scheme: PingScheme::Https,
        method: PingMethod::Post,
        remote_addr: Some([192, 0, 2, 1].into()),
        user_agent: "curl".into(),
    };
    let check = CheckId(check);
    let previous = Arrival(previous);
    let at = Timestamp::from_secs(60);
    Ping {
        check,
        n,
        previous,
        at,
        kind: PingKind::Fail,
        origin,
        rid: Some(uuid(9)),
        exit_status: Some(0),
        body_len: 2,
        body_sharers: 0,
    }
}

fn without_body(ping: Ping) -> Ping {
    Ping {
        body_len: 0,
        ..ping
    }
}

fn flip(check: u64, previous: u64, at: i64) -> LoggedFlip {
    let flip = Flip {
        at: Timestamp::from_secs(at),
        from: Status::Up,
        to: Status::Down,
        cause: FlipCause::ExitStatus(NonZeroU8::MAX),
        awaited_since: Some(Timestamp::from_secs(40)),
    };
    LoggedFlip {
        check: CheckId(check),
        previous: FlipNumber(previous),
        arrival: Arrival(8),
        flip,
    }
}

/// Returns a store with a row of every kind.
fn filled() -> Store {
    filled_with(&[
        (Arrival(3), without_body(ping(6, 1, 0)), b"".as_slice()),
        (Arrival(8), ping(6, 2, 3), b"ok"),
    ])
}

/// Returns a store with a row of every kind and these pings.
fn filled_with(pings: &[(Arrival, Ping, &[u8])]) -> Store {
    let store = store();
    write(&store, |batch| {
        batch.put_project(&project())?;
        keys().iter().try_for_each(|key| batch.put_key(key))?;
        batch.put_channel(&channel())?;
        batch.put_checks([&check()])?;
        batch.append_pings(pings, None)?;
        batch.append_flips(&[(FlipNumber(1), flip(6, 0, 50))])
    });
    store
}

/// Reads every kind of row and returns the first error.
fn read(store: &Store) -> Result<(), StoreError> {
    let snapshot = store.snapshot()?;
    snapshot.projects()?;
    snapshot.keys()?;
    snapshot.channels()?;
    snapshot.checks()?.try_for_each(|check| check.map(drop))?;
    snapshot
        .pings_after(Arrival(0))?
        .try_for_each(|ping| ping.map(drop))?;
    snapshot.newest_ping()?;
    snapshot.pings_of(CheckId(6), 2, Arrival(8), 1)?;
    snapshot.body_of(CheckId(6), 2, Arrival(8), 1)?;
    snapshot
        .flips_after(FlipNumber(0))?
        .try_for_each(|flip| flip.map(drop))?;
    snapshot
        .flips_of(CheckId(6), FlipNumber(1))?
        .try_for_each(|flip| flip.map(drop))
}

/// Every table with the ID of a row in it.
const ROWS: [(&str, u64); 9] = [
    ("projects", 1),
    ("keys", 2),
    ("keys", 3),
    ("keys", 4),
    ("channels", 5),
    ("checks", 6),
    ("pings", 8),
    ("flips", 1),
    ("keys", 7),
];

fn row(store: &Store, (name, id): (&'static str, u64)) -> Vec<u8> {
    store
        .batch()
        .unwrap()
        .transaction
        .open_table(table(name))
        .unwrap()
        .get(id)
        .unwrap()
        .unwrap()
        .value()
        .to_vec()
}

fn put_row(store: &Store, (name, id): (&'static str, u64), bytes: &[u8]) {
    write(store, |batch| {
        batch
            .transaction
            .open_table(table(name))?
            .insert(id, bytes)?;
        Ok(())
    });
}

/// Contents of a store as domain types.
#[derive(PartialEq, Debug)]
struct Contents {
    project: Project,
    keys: Vec<ProjectKey>,
    channel: Channel,
    check: Check,
    ping: Ping,
    flip: LoggedFlip,
}

/// Contents that [`filled`] writes.
fn written() -> Contents {
    Contents {
        project: project(),
        keys: keys(),
        channel: channel(),
        check: check(),
        ping: ping(6, 2, 3),
        flip: flip(6, 0, 50),
    }
}

fn contents(store: &Store) -> Contents {
    fn only<T>(mut all: Vec<T>) -> T {
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
    let snapshot = store.snapshot().unwrap();
    let (arrival, ping) = only(
        snapshot
            .pings_after(Arrival(3))
            .unwrap()
            .map(Result::unwrap)
            .collect(),
    );
    let (number, flip) = only(
        snapshot
            .flips_after(FlipNumber(0))
            .unwrap()
            .map(Result::unwrap)
            .collect(),
    );
    assert_eq!((arrival, number), (Arrival(8), FlipNumber(1)));
    Contents {
        project: only(snapshot.projects().unwrap()),
        keys: snapshot.keys().unwrap(),
        channel: only(snapshot.channels().unwrap()),
        check: only(snapshot.checks().unwrap().map(Result::unwrap).collect()),
        ping,
        flip,
    }
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(contents(&filled()), written());
}

#[test]
fn a_row_of_an_unknown_version_is_an_error_that_names_table_and_version() {
    for place in ROWS {
        let store = filled();
        for version in [0, 8, 255] {
            let mut bytes = row(&store, place);
            bytes[0] = version;
            put_row(&store, place, &bytes);
            let error = read(&store).unwrap_err();
            assert!(
                matches!(&error, StoreError::Corrupt { table, .. } if *table == place.0),
                "{place:?}: {error}"
            );
            let sentence = format!(
                "the table `{}` holds a row that cannot be read: version {version} is not known",
                place.0
            );
            assert_eq!(error.to_string(), sentence);
        }
    }
}

#[test]
fn a_channel_that_its_kind_would_not_take_is_an_error() {
    for (good, bad, reason) in [
        ("\u{a5}email", "\u{a5}fmail", "not a kind of channel"),
        (
            "root@",
            "root ",
            "settings of kind email: to is not one mail address",
        ),
        (
            "\u{a4}mail",
            "\u{a4}m\til",
            "a channel's name has no control characters",
        ),
    ] {
        let store = filled();
        let latin = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<_>>();
        let mut bytes = row(&store, ROWS[4]);
        let good = latin(good);
        let at = bytes
            .windows(good.len())
            .position(|part| part == good)
            .unwrap();
        bytes[at..at + good.len()].copy_from_slice(&latin(bad));
        put_row(&store, ROWS[4], &bytes);
        let error = read(&store).unwrap_err().to_string();
        assert!(
            error.contains("the table `channels` holds a row that cannot be read")
                && error.contains(reason),
            "{error}"
        );
    }
}

#[test]
fn rows_that_do_not_lead_back_are_errors() {
    for (arrival, row) in [
        (8, ping(6, 2, 8)),
        (8, ping(6, 2, 0)),
        (8, ping(7, 2, 3)),
        (8, ping(6, 9, 3)),
        (3, ping(6, 2, 8)),
    ] {
        let mut pings = [
            (Arrival(3), without_body(ping(6, 1, 0)), b"".as_slice()),
            (Arrival(8), without_body(ping(6, 2, 3)), b""),
        ];
        let replaced = pings.iter_mut().find(|(own, ..)| own.0 == arrival).unwrap();
        replaced.1 = without_body(row.clone());
        let store = filled_with(&pings);
        let snapshot = store.snapshot().unwrap();
        let pings = snapshot
            .pings_of(CheckId(6), 2, Arrival(8), 1)
            .map(|pings| pings.len());
        // A chain that ends early counts as swept.
        assert!(
            matches!(
                pings,
                Ok(1) | Err(StoreError::Corrupt { table: "pings", .. })
            ),
            "{row:?}: {pings:?}"
        );
        assert!(matches!(
            snapshot.body_of(CheckId(6), 2, Arrival(8), 1),
            Ok(None) | Err(StoreError::Corrupt { table: "pings", .. })
        ));
    }
    let store = filled();
    write(&store, |batch| {
        batch.append_flips(&[(FlipNumber(1), flip(6, 1, 50))])
    });
    let flips: Vec<_> = store
        .snapshot()
        .unwrap()
        .flips_of(CheckId(6), FlipNumber(1))
        .unwrap()
        .collect();
    assert!(
        matches!(flips[..], [Err(StoreError::Corrupt { table: "flips", .. })]),
        "{flips:?}"
    );
}

#[test]
fn a_flip_that_cannot_be_read_or_lies_in_the_future_keeps_no_other_in_the_file() {
    let store = filled();
    write(&store, |batch| {
        batch.append_flips(
            &[(2, 9_999_999), (3, 50), (5, 60), (6, 100)]
                .map(|(n, at)| (FlipNumber(n), flip(6, 0, at))),
        )
    });
    write(&store, |batch| {
        batch
            .transaction
            .open_table(table("flips"))?
            .insert(4, b"what".as_slice())?;
        Ok(())
    });
    let mut pruned = crate::store::FlipPruneResult::default();
    write(&store, |batch| {
        pruned = batch.prune_flips(
            FlipNumber(2),
            FlipNumber(9),
            9,
            |logged| logged.flip.at < Timestamp::from_secs(99),
            |_| true,
        )?;
        Ok(())
    });
    assert!(matches!(
        pruned.damaged,
        Some(StoreError::Corrupt { table: "flips", .. })
    ));
    assert_eq!((pruned.removed, pruned.next), (2, None));
    let batch = store.batch().unwrap();
    let flips = batch.transaction.open_table(table("flips")).unwrap();
    let left: Vec<_> = flips
        .range(2..)
        .unwrap()
        .map(|row| row.unwrap().0.value())
        .collect();
    assert_eq!(left, [2, 4, 6]);
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
    let marks = [
        (MetaKey::NextId, "next_id"),
        (MetaKey::CheckpointArrival, "checkpoint_arrival"),
        (MetaKey::CheckpointFlip, "checkpoint_flip"),
    ];
    for (mark, name) in marks {
        assert_eq!(
            put(name, &7_u64.to_le_bytes())
                .snapshot()
                .unwrap()
                .meta_value(mark)
                .unwrap(),
            7
        );
        let error = put(name, &[7; 9])
            .snapshot()
            .unwrap()
            .meta_value(mark)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the table `meta` holds a row that cannot be read: `{name}` has 9 bytes, not 8"
            )
        );
    }
    for cut in [
        &b"\x01"[..],
        b"\x01\x03\x00ab",
        b"\x09\x01\x00a",
        b"\x01\x00\x00",
        b"\x01\x01\x00\xff",
        b"\x01\x01\x00a\x01\x01\x00b",
    ] {
        let store = put("adopted", cut);
        let error = store
            .snapshot()
            .unwrap()
            .legacy_secrets()
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("the table `meta` holds a row that cannot be read: `adopted`: "),
            "{error}"
        );
        let mut seen = Inspection::default();
        store
            .snapshot()
            .unwrap()
            .for_each_rows(|rows| seen.inspect_rows(rows).is_ok())
            .unwrap();
        assert_eq!(seen.finish().problems, [error]);
    }
    assert!(matches!(
        put("badge_secret", &[7; 31])
            .snapshot()
            .unwrap()
            .badge_secret(),
        Err(StoreError::Corrupt { table: "meta", .. })
    ));
}

#[test]
fn a_newer_schema_is_refused_with_what_to_do() {
    let medium = Medium::memory();
    let set_schema = |schema: u64| {
        let OpenedDatabase {
            database,
            storage,
            file,
        } = medium.open(&ProgressReporter::default()).unwrap();
        let store = Store {
            database,
            storage,
            file,
        };
        write(&store, |batch| {
            batch
                .transaction
                .open_table(TableDefinition::<&str, &[u8]>::new("meta"))?
                .insert("schema", schema.to_le_bytes().as_slice())?;
            Ok(())
        });
    };
    drop(Store::open(&medium).unwrap());
    set_schema(migrations::SCHEMA + 1);
    let sentence = "the database has schema version 16, this release knows up to 15: install the \
                    release that wrote it, or a newer one";
    assert_eq!(Store::open(&medium).err().unwrap().to_string(), sentence);
    set_schema(migrations::SCHEMA);
    assert!(Store::open(&medium).is_ok());
}

#[test]
fn a_file_is_there_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let medium = Medium::Directory(directory.path().join("data"));
    let path = directory.path().join("data").join(FILE_NAME);
    drop(Store::open(&medium).unwrap());
    let whole = std::fs::read(&path).unwrap();
    // A power cut during the first start may leave nothing or half a new file.
    for left in [&whole[..1000], &[0; 5000][..], &[]] {
        let _ = std::fs::remove_file(&path);
        std::fs::write(path.with_extension("new"), left).unwrap();
        let store = Store::open(&medium).unwrap();
        assert!(matches!(Store::open(&medium), Err(StoreError::InUse(in_use)) if in_use == path));
        read(&store).unwrap();
        assert!(!path.with_extension("new").exists());
    }
    // Any other file is not replaced. Each is refused with one sentence.
    let refused = |reason: &str| {
        let told = Store::open(&medium)
            .err()
            .expect("it is refused")
            .to_string();
        assert!(
            told.starts_with(&format!("{} cannot be opened: {reason}", path.display()))
                && !told.contains('\n'),
            "{told}"
        );
    };
    let mut altered = whole.clone();
    altered[4096..].iter_mut().for_each(|byte| *byte ^= 0xff);
    let damaged = [
        (&whole[1..], "it is no database of overdue"),
        (&[][..], "it is empty"),
        (&[0; 9999][..], "it is no database of overdue"),
        (&whole[..whole.len() / 2], ""),
        (&altered[..], ""),
    ];
    for (bytes, reason) in damaged {
        std::fs::write(&path, bytes).unwrap();
        refused(reason);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{reason}");
    }
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(directory.path().join("unmounted"), &path).unwrap();
    refused("it is a link to a file that is not there");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused("it is a directory");
}

#[test]
fn an_altered_or_lost_body_is_an_error_in_the_log_and_among_the_kept() {
    for kept in [false, true] {
        let store = filled();
        let place = (CheckId(6), 2, Arrival(8));
        if kept {
            write(&store, |batch| {
                batch
                    .sweep_pings((Arrival(0), Arrival(8)), (9, u64::MAX), |_, _| true)
                    .map(drop)
            });
        }
        let body = |store: &Store| {
            store
                .snapshot()
                .unwrap()
                .body_of(place.0, place.1, place.2, 2)
        };
        assert_eq!(body(&store).unwrap().as_deref(), Some(&b"ok"[..]));
        for altered in [Some(b"oj".as_slice()), Some(b"okk"), Some(b"o"), None] {
            write(&store, |batch| {
                let mut bodies = batch.transaction.open_table(table("bodies"))?;
                let mut kept_bodies =
                    batch
                        .transaction
                        .open_table(TableDefinition::<(u64, u64), &[u8]>::new("kept_bodies"))?;
                match (kept, altered) {
                    (true, Some(altered)) => drop(kept_bodies.insert((6, 2), altered)?),
                    (true, None) => drop(kept_bodies.remove((6, 2))?),
                    (false, Some(altered)) => drop(bodies.insert(8, altered)?),
                    (false, None) => drop(bodies.remove(8)?),
                }
                Ok(())
            });
            let error = body(&store).unwrap_err().to_string();
            assert_eq!(
                error,
                "the table `pings` holds a row that cannot be read: the body of ping 2 has been \
                 altered"
            );
        }
    }
}

use std::num::NonZeroU8;
use std::sync::Arc;

use redb::{ReadableTable as _, ReadableTableMetadata as _, TableDefinition};
use uuid::Uuid;

mod audit;
mod damage;
mod deliveries;
mod logs;
mod medium;
mod restore;
mod users;
mod versions;

use super::*;
use crate::channels;
use crate::domain::alert::{
    ChannelHealth, DeliveryProof, HoldReason, NotificationState, Outage, RefusedRecipient,
};
use crate::domain::channel::ChannelSettings;
use crate::domain::check::{
    Check, CheckLabels, CheckSettings, CheckState, OngoingRun, PauseEnd, RunLimit, RunLimits,
    WarningSet,
};
use crate::domain::flip::{Flip, FlipCause, LoggedFlip};
use crate::domain::ids::{Arrival, ChannelId, CheckId, FlipNumber, KeyId, ProjectId};
use crate::domain::import_item::ProjectImport;
use crate::domain::legacy_keys::{LegacyBadgeKey, LegacyKey, LegacyKeyDigest};
use crate::domain::parents::Parents;
use crate::domain::ping::{Ping, PingKind, PingMethod, PingOrigin, PingScheme};
use crate::domain::project::{
    Channel, ChannelName, KeyLabel, KeySecret, KeyUse, PingKey, Project, ProjectKey, ProjectName,
    SecretHash,
};
use crate::domain::recent_outcomes::RecentOutcomes;
use crate::domain::schedule::Schedule;
use crate::domain::status::Status;
use crate::domain::status_page::{
    StatusPage, StatusPageAddress, StatusPageDomain, StatusPageTitle,
};
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

fn status_page() -> StatusPage {
    StatusPage {
        uuid: uuid(3),
        address: StatusPageAddress::parse("zuhause").unwrap(),
        title: StatusPageTitle::parse("Alles ž").unwrap(),
        tags: Tags::parse("prod db").unwrap(),
        domain: Some(StatusPageDomain::parse("status.example.org").unwrap()),
    }
}

fn project() -> Project {
    let name = ProjectName::parse("Zuhause").unwrap();
    let id = ProjectId(1);
    let uuid = uuid(1);
    let badge_key = "badge".into();
    let legacy_badge = Some(LegacyBadgeKey([200; 20]));
    let outage = Some(Outage {
        from: Timestamp::from_secs(50),
        to: Timestamp::from_secs(60),
    });
    let import = Some(ProjectImport {
        id_range: 2..9,
        is_on_trial: true,
        outage,
    });
    Project {
        id,
        uuid,
        name,
        check_limit: Some(20),
        ping_log_limit: 100,
        allows_ping_settings: true,
        badge_key,
        legacy_badge,
        import,
        status_pages: vec![status_page()],
    }
}

fn keys() -> Vec<ProjectKey> {
    let last_use = Some(KeyUse {
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
            last_use,
        }
    };
    vec![
        key(2, KeySecret::ReadWrite(SecretHash([200; 32]))),
        key(3, KeySecret::ReadOnly(SecretHash([3; 32]))),
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
    let kind = channels::find_kind("email").unwrap();
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

fn names() -> CheckLabels {
    CheckLabels {
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
        limits: RunLimits {
            latest_start: RunLimit::parse(600).unwrap(),
            longest_run: RunLimit::parse(3600).unwrap(),
            shortest_run: RunLimit::parse(5).unwrap(),
        },
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
        pause_end: PauseEnd::new(Timestamp::from_secs(120), Status::Up),
        expected_from: Some(Timestamp::from_secs(40)),
        given_warnings: WarningSet::from_bits(1),
        ..CheckState::new(Timestamp::from_secs(50))
    };
    Check {
        id: CheckId(6),
        uuid: uuid(6),
        badge: uuid(7),
        project: ProjectId(1),
        settings: Arc::new(settings),
        state,
        alerted_labels: Some(Arc::new(names())),
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
        .unrecorded()
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
            .unrecorded()
            .open_table(table(name))?
            .insert(id, bytes)?;
        Ok(())
    });
}

/// Inspects every row of a store.
fn inspect(store: &Store) -> InspectionReport {
    let mut inspection = Inspection::default();
    store
        .snapshot()
        .unwrap()
        .visit_table_rows(|rows| inspection.inspect_rows(rows).is_ok())
        .unwrap();
    inspection.finish()
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
fn written_rows_are_read_back() {
    assert_eq!(contents(&filled()), written());
}

#[test]
fn a_newer_schema_is_refused_with_a_remedy() {
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
            log: None,
            shared_places: None,
        };
        write(&store, |batch| {
            batch
                .unrecorded()
                .open_table(TableDefinition::<&str, &[u8]>::new("meta"))?
                .insert("schema", schema.to_le_bytes().as_slice())?;
            Ok(())
        });
    };
    drop(Store::open(&medium).unwrap());
    set_schema(migrations::SCHEMA + 1);
    let sentence = "the database has schema version 19, this release knows up to 18: install the \
                    release that wrote it, or a newer one";
    assert_eq!(Store::open(&medium).err().unwrap().to_string(), sentence);
    set_schema(migrations::SCHEMA);
    assert!(Store::open(&medium).is_ok());
}

#[test]
fn a_database_file_is_complete_or_missing() {
    let directory = tempfile::tempdir().unwrap();
    let medium = Medium::Directory(directory.path().join("data"));
    let path = directory.path().join("data").join(FILE_NAME);
    drop(Store::open(&medium).unwrap());
    let whole = std::fs::read(&path).unwrap();
    // A power cut during the first startup may leave nothing or half a new file.
    for partial in [&whole[..1000], &[0; 5000][..], &[]] {
        let _ = std::fs::remove_file(&path);
        std::fs::write(path.with_extension("new"), partial).unwrap();
        let store = Store::open(&medium).unwrap();
        assert!(matches!(Store::open(&medium), Err(StoreError::InUse(in_use)) if in_use == path));
        read(&store).unwrap();
        assert!(!path.with_extension("new").exists());
    }
    // Any other file is not replaced. Each is refused with one sentence.
    let expect_refusal = |reason: &str| {
        let message = Store::open(&medium)
            .err()
            .expect("it is refused")
            .to_string();
        assert!(
            message.starts_with(&format!("{} cannot be opened: {reason}", path.display()))
                && !message.contains('\n'),
            "{message}"
        );
    };
    let mut altered = whole.clone();
    altered[4096..].iter_mut().for_each(|byte| *byte ^= 0xff);
    let damaged = [
        (&whole[1..], "it is not an overdue database"),
        (&[][..], "it is empty"),
        (&[0; 9999][..], "it is not an overdue database"),
        (&whole[..whole.len() / 2], ""),
        (&altered[..], ""),
    ];
    for (bytes, reason) in damaged {
        std::fs::write(&path, bytes).unwrap();
        expect_refusal(reason);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{reason}");
    }
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(directory.path().join("unmounted"), &path).unwrap();
    expect_refusal("it is a link to a file that does not exist");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    expect_refusal("it is a directory");
}

//! Tests of rows of every version, as files contain them.

mod rows;

use super::*;
use crate::channels;
use crate::domain::alert::{DeliveryRecord, DeliveryResult};
use rows::{
    NEWEST, SCHEMA_1, SCHEMA_2, SCHEMA_3, SCHEMA_9, SCHEMA_10, SCHEMA_11, SCHEMA_12, SCHEMA_13,
    SCHEMA_14, SCHEMA_16, SCHEMA_17,
};

/// The part of `written` that rows of schema 17 hold.
fn written_by_schema_17() -> Contents {
    let mut contents = written();
    Arc::make_mut(&mut contents.check.settings).limits = RunLimits::default();
    contents.check.state.given_warnings = WarningSet::default();
    contents.project.status_pages = Vec::new();
    contents.project.allows_ping_settings = false;
    contents
}

/// The part of `written` that rows of schema 16 hold.
fn written_by_schema_16() -> Contents {
    let mut contents = written_by_schema_17();
    (
        contents.check.state.pause_end,
        contents.check.state.expected_from,
    ) = (None, None);
    contents
}

/// The part of `written` that rows of schema 14 hold.
fn written_by_schema_14() -> Contents {
    let mut contents = written_by_schema_16();
    contents.channel.health.refused = Vec::new();
    contents
}

/// The part of `written` that rows of schema 13 hold.
fn written_by_schema_13() -> Contents {
    let mut contents = written_by_schema_14();
    (
        contents.check.alerted_labels,
        contents.flip.flip.awaited_since,
    ) = (None, None);
    contents
}

/// The part of `written` that rows of schemas 11 and 12 hold.
fn written_by_schema_12() -> Contents {
    let mut contents = written_by_schema_13();
    (
        contents.channel.health.proof,
        contents.channel.health.unsubscribed,
    ) = (DeliveryProof::None, Vec::new());
    contents
}

/// The part of `written` that rows of schema 10 hold.
fn written_by_schema_10() -> Contents {
    let mut contents = written_by_schema_12();
    contents.project.import = None;
    (
        contents.check.state.unused_since_import,
        contents.check.state.imported_pings,
    ) = (false, 0);
    contents
}

/// The part of `written` that rows of schema 9 hold.
fn written_by_schema_9() -> Contents {
    let mut contents = written_by_schema_10();
    contents.project.legacy_badge = None;
    contents.keys.retain(|key| !key.is_unused_since_import());
    contents
}

/// The part of `written` that rows of schema 3 hold.
fn written_by_schema_3() -> Contents {
    let mut contents = written_by_schema_9();
    contents.check.state.notification = NotificationState::Notified;
    Arc::make_mut(&mut contents.check.settings).parents = Parents::default();
    contents
}

/// The part of `written` that rows of schema 2 hold.
fn written_by_schema_2() -> Contents {
    let mut contents = written_by_schema_3();
    contents.check.state.notification = NotificationState::NotNeeded;
    (contents.channel.set_by_operator, contents.channel.health) = (true, ChannelHealth::default());
    contents
}

/// The part of `written` that rows of schema 1 hold.
fn written_by_schema_1() -> Contents {
    let mut contents = written_by_schema_2();
    for key in &mut contents.keys {
        (key.label, key.hint, key.last_use) = (KeyLabel::default(), "".into(), None);
    }
    (contents.check.state.outcomes, contents.check.state.failures) = (RecentOutcomes::default(), 0);
    contents.ping.exit_status = None;
    (contents.flip.arrival, contents.flip.flip.cause) = (Arrival(0), FlipCause::Unknown);
    contents
}

fn from_hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

fn store_of(rows: &[&str]) -> Store {
    let store = store();
    for (place, row) in ROWS.iter().zip(rows) {
        put_row(&store, *place, &from_hex(row));
    }
    store
}

/// Files contain these bytes. A change to the format of a row needs a new version, and the old
/// versions must stay readable.
#[test]
fn rows_of_every_version_are_read() {
    assert_eq!(contents(&store_of(&SCHEMA_1)), written_by_schema_1());
    assert_eq!(contents(&store_of(&SCHEMA_2)), written_by_schema_2());
    assert_eq!(contents(&store_of(&SCHEMA_3)), written_by_schema_3());
    assert_eq!(contents(&store_of(&SCHEMA_9)), written_by_schema_9());
    assert_eq!(contents(&store_of(&SCHEMA_10)), written_by_schema_10());
    assert_eq!(contents(&store_of(&SCHEMA_11)), written_by_schema_12());
    assert_eq!(contents(&store_of(&SCHEMA_12)), written_by_schema_12());
    assert_eq!(contents(&store_of(&SCHEMA_13)), written_by_schema_13());
    assert_eq!(contents(&store_of(&SCHEMA_14)), written_by_schema_14());
    assert_eq!(contents(&store_of(&SCHEMA_16)), written_by_schema_16());
    assert_eq!(contents(&store_of(&SCHEMA_17)), written_by_schema_17());
    let newest = store_of(&NEWEST);
    let new = filled();
    for place in ROWS {
        let hex: String = row(&new, place)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(row(&new, place), row(&newest, place), "{place:?}: {hex}");
    }
    assert_eq!(contents(&newest), written());
}

/// A file of layout 12: a group lists its members by name. Two channels have that name, and one of
/// them has delivered.
#[test]
fn groups_of_layout_12_get_the_uuids_of_their_members() {
    let store = store();
    let group = |id: u64, members: &str| {
        let name = ChannelName::parse("group").unwrap();
        let kind = channels::find_kind("group").unwrap();
        let settings = ChannelSettings::parse(kind, [("channels", members)]).unwrap();
        Channel {
            id: ChannelId(id),
            uuid: uuid(id.into()),
            name,
            settings,
            health: ChannelHealth::default(),
            ..channel()
        }
    };
    let members = format!("mail,gone,{}", uuid(5));
    let mail = Channel {
        health: ChannelHealth::default(),
        ..channel()
    };
    let elsewhere = Channel {
        id: ChannelId(4),
        uuid: uuid(4),
        project: ProjectId(9),
        ..mail.clone()
    };
    let namesake = Channel {
        id: ChannelId(6),
        uuid: uuid(6),
        ..mail.clone()
    };
    write(&store, |batch| {
        [&elsewhere, &mail, &namesake, &group(8, &members)]
            .into_iter()
            .try_for_each(|channel| batch.put_channel(channel))?;
        batch.append_deliveries(&[DeliveryRecord {
            channel: ChannelId(5),
            result: DeliveryResult::Delivered,
            ..deliveries::delivery(1, 1)
        }])?;
        meta::set_schema(batch.unrecorded(), 12)
    });
    migrations::migrate(&store).unwrap();
    let channels = store.snapshot().unwrap().channels().unwrap();
    let listed: Vec<_> = channels[3]
        .settings
        .pairs()
        .map(|(_, value)| value)
        .collect();
    assert_eq!(listed, [format!("{},{},gone", uuid(5), uuid(6))]);
    let proofs: Vec<_> = channels
        .iter()
        .map(|channel| &channel.health.proof)
        .collect();
    assert_eq!(
        proofs,
        [
            &DeliveryProof::None,
            &DeliveryProof::Delivered,
            &DeliveryProof::None,
            &DeliveryProof::None
        ]
    );
}

#[test]
fn fuzz_rows_of_every_version() {
    let schemas: [&[&str]; 12] = [
        &SCHEMA_1, &SCHEMA_2, &SCHEMA_3, &SCHEMA_9, &SCHEMA_10, &SCHEMA_11, &SCHEMA_12, &SCHEMA_13,
        &SCHEMA_14, &SCHEMA_16, &SCHEMA_17, &NEWEST,
    ];
    let rows: Vec<Vec<u8>> = schemas
        .iter()
        .flat_map(|rows| rows.iter())
        .map(|row| from_hex(row))
        .collect();
    crate::util::fuzzing::fuzz(&rows, |row| {
        let _ = super::project::read_project(1, row);
        let _ = super::project::read_key(1, row);
        let _ = super::project::read_channel(1, row);
        let _ = super::check::read_check(1, row);
        let _ = super::flip::read_flip(row);
        let _ = super::window::read_window(1, row);
        let _ = super::user::read_user(1, row);
        let _ = super::user::read_session(1, row);
        let _ = super::user::read_link(1, row);
        let _ = super::outbox::read_outbox_row(1, row);
        let _ = super::outbox::read_delivery(1, row);
        let _ = super::declared::read_source(1, row);
    });
}

//! Tests of rows of every version, as files contain them.

use super::*;
use crate::channels;
use crate::domain::alert::{DeliveryRecord, DeliveryResult};

/// The part of `written` that rows of schema 16 hold.
fn written_by_schema_16() -> Contents {
    let mut contents = written();
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

fn store_of(rows: &[&str]) -> Store {
    let store = store();
    for (place, row) in ROWS.iter().zip(rows) {
        let bytes: Vec<_> = (0..row.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&row[at..at + 2], 16).unwrap())
            .collect();
        put_row(&store, *place, &bytes);
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

const SCHEMA_1: [&str; 8] = [
    "0195c41000000000000000010000000000000001a75a7568617573651464a56261646765",
    concat!(
        "01930181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40",
    ),
    concat!(
        "01930181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40",
    ),
    "01930181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40",
    concat!(
        "0195c4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267",
    ),
    concat!(
        "01dc001ac41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801",
    ),
    concat!(
        "019b060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "00000000000902",
    ),
    "01950600ce02faf0800102",
];

/// Version 2 of keys, checks, pings and flips.
const SCHEMA_2: [&str; 8] = [
    "0195c41000000000000000010000000000000001a75a7568617573651464a56261646765",
    concat!(
        "02960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "02960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "02960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "0195c4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267",
    ),
    concat!(
        "02dc001cc41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "000000090000000000000009070208010903",
    ),
    concat!(
        "029d060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47",
    ),
    "02980600ce02faf08001020805ccff",
];

/// Version 3 of checks, version 2 of channels.
const SCHEMA_3: [&str; 8] = [
    "0195c41000000000000000010000000000000001a75a7568617573651464a56261646765",
    concat!(
        "02960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "02960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "02960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "0298c4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379",
    ),
    concat!(
        "03dc001fc41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "000000090000000000000009070208010903010001",
    ),
    concat!(
        "029d060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47",
    ),
    "02980600ce02faf08001020805ccff",
];

/// Version 4 of checks, version 3 of pings, version 2 of channels.
const SCHEMA_9: [&str; 8] = [
    "0195c41000000000000000010000000000000001a75a7568617573651464a56261646765",
    concat!(
        "02960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "02960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "02960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "0298c4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379",
    ),
    concat!(
        "04dc0021c41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801090305ce068e778001910404",
    ),
    concat!(
        "039e060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47c0",
    ),
    "02980600ce02faf08001020805ccff",
];

/// Version 2 of projects, version 3 of keys.
const SCHEMA_10: [&str; 9] = [
    concat!(
        "0296c41000000000000000010000000000000001a75a7568617573651464a56261646765dc0014cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8",
    ),
    concat!(
        "03960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "03960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "03960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "0298c4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379",
    ),
    concat!(
        "04dc0021c41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801090305ce068e778001910404",
    ),
    concat!(
        "039e060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47c0",
    ),
    "02980600ce02faf08001020805ccff",
    concat!(
        "03960181a648617368656493c302dc00200909090909090909090909090909090909090909090909",
        "090909090909090909ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc000",
        "0209",
    ),
];

/// Version 3 of projects, version 5 of checks.
const SCHEMA_11: [&str; 9] = [
    concat!(
        "0397c41000000000000000010000000000000001a75a7568617573651464a56261646765dc0014cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc894",
        "0209c392ce02faf080ce03938700",
    ),
    concat!(
        "03960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "03960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "03960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "0298c4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379",
    ),
    concat!(
        "05dc0022c41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801090305ce068e778001910404c3",
    ),
    concat!(
        "039e060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47c0",
    ),
    "02980600ce02faf08001020805ccff",
    concat!(
        "03960181a648617368656493c302dc00200909090909090909090909090909090909090909090909",
        "090909090909090909ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc000",
        "0209",
    ),
];

/// Version 6 of checks.
const SCHEMA_12: [&str; 9] = [
    concat!(
        "0397c41000000000000000010000000000000001a75a7568617573651464a56261646765dc0014cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc894",
        "0209c392ce02faf080ce03938700",
    ),
    concat!(
        "03960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "03960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "03960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "0298c4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379",
    ),
    concat!(
        "06dc0023c41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801090305ce068e778001910404c302",
    ),
    concat!(
        "039e060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47c0",
    ),
    "02980600ce02faf08001020805ccff",
    concat!(
        "03960181a648617368656493c302dc00200909090909090909090909090909090909090909090909",
        "090909090909090909ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc000",
        "0209",
    ),
];

/// Version 3 of channels.
const SCHEMA_13: [&str; 9] = [
    concat!(
        "0397c41000000000000000010000000000000001a75a7568617573651464a56261646765dc0014cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc894",
        "0209c392ce02faf080ce03938700",
    ),
    concat!(
        "03960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "03960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "03960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "039bc4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379c2a26e",
        "6f91a5616e6e4062",
    ),
    concat!(
        "06dc0023c41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801090305ce068e778001910404c302",
    ),
    concat!(
        "039e060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47c0",
    ),
    "02980600ce02faf08001020805ccff",
    concat!(
        "03960181a648617368656493c302dc00200909090909090909090909090909090909090909090909",
        "090909090909090909ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc000",
        "0209",
    ),
];

/// Version 7 of checks, version 3 of flips.
const SCHEMA_14: [&str; 9] = [
    concat!(
        "0397c41000000000000000010000000000000001a75a7568617573651464a56261646765dc0014cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc894",
        "0209c392ce02faf080ce03938700",
    ),
    concat!(
        "03960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "03960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "03960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "039bc4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379c2a26e",
        "6f91a5616e6e4062",
    ),
    concat!(
        "07dc0024c41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801090305ce068e778001910404c30293a16fa173a174",
    ),
    concat!(
        "039e060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47c0",
    ),
    "03990600ce02faf08001020805ccffce02625a00",
    concat!(
        "03960181a648617368656493c302dc00200909090909090909090909090909090909090909090909",
        "090909090909090909ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc000",
        "0209",
    ),
];

/// Version 4 of channels.
const SCHEMA_16: [&str; 9] = [
    concat!(
        "0397c41000000000000000010000000000000001a75a7568617573651464a56261646765dc0014cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc894",
        "0209c392ce02faf080ce03938700",
    ),
    concat!(
        "03960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "03960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "03960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "049cc4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379c2a26e",
        "6f91a5616e6e40629193a56576654062ce03dfd240a3353530",
    ),
    concat!(
        "07dc0024c41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801090305ce068e778001910404c30293a16fa173a174",
    ),
    concat!(
        "039e060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47c0",
    ),
    "03990600ce02faf08001020805ccffce02625a00",
    concat!(
        "03960181a648617368656493c302dc00200909090909090909090909090909090909090909090909",
        "090909090909090909ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc000",
        "0209",
    ),
];

const NEWEST: [&str; 9] = [
    concat!(
        "0397c41000000000000000010000000000000001a75a7568617573651464a56261646765dc0014cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc894",
        "0209c392ce02faf080ce03938700",
    ),
    concat!(
        "03960181a9526561645772697465dc0020ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8ccc8cc",
        "c8ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "03960181a8526561644f6e6c79dc0020030303030303030303030303030303030303030303030303",
        "0303030303030303ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc00002",
        "09",
    ),
    concat!(
        "03960181a450696e67b66162636465666768696a6b6c6d6e6f70717273747576ce004c4b40a24349",
        "a46162636492cf00000001ad27480081a2563494ccc0000209",
    ),
    concat!(
        "049cc4100000000000000005000000000000000501a46d61696ca5656d61696c9192a2746fb0726f",
        "6f74406578616d706c652e6f7267c292ce042c1d80a4676f6e6592ce03938700a462757379c2a26e",
        "6f91a5616e6e40629193a56576654062ce03dfd240a3353530",
    ),
    concat!(
        "08dc0026c41000000000000000060000000000000006c41000000000000000070000000000000007",
        "01a76e696768746c79a16ea3612062a477686174ce00015180cd0e10a9302033202a202a202aa355",
        "5443c3c2a0a0a345525294c2c2c2c2910502ce02faf080ce05f5e10092ce055d4a80c41000000000",
        "00000009000000000000000907020801090305ce068e778001910404c30293a16fa173a17492ce07",
        "270e0001ce02625a00",
    ),
    concat!(
        "039e060203ce0393870002010381a2563494ccc0000201a46375726cc41000000000000000090000",
        "0000000000090200ce79dcdd47c0",
    ),
    "04990600ce02faf08001020805ccffce02625a00",
    concat!(
        "03960181a648617368656493c302dc00200909090909090909090909090909090909090909090909",
        "090909090909090909ce004c4b40a24349a46162636492cf00000001ad27480081a2563494ccc000",
        "0209",
    ),
];

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

use super::super::super::tests::{NOW, options, row, texts};
use super::*;
use crate::import::source_row::{SourceTable, SourceValue};

fn ping(n: i64, more: &[(&str, &str)]) -> SourceRow {
    let n = n.to_string();
    let given = [
        ("id", "1"),
        ("n", n.as_str()),
        ("created", "2024-06-01 12:00:00"),
        ("scheme", "http"),
    ];
    // If two columns have the same name, the first counts.
    texts(SourceTable::Ping, &[more, &given].concat())
}

/// Returns the counts of pings and bodies, and the notes, after converting `rows` of a check with
/// `n_pings` pings and this limit.
fn counted(
    n_pings: u64,
    limit: u32,
    rows: &[SourceRow],
    options: &ImportOptions,
) -> serde_json::Value {
    let mut log = CheckLog::new(Uuid::nil(), n_pings, limit);
    let mut tally = ImportTally::default();
    for row in rows {
        log.convert_ping(row, options, NOW, &mut tally);
    }
    log.tally_pings(options.logs, &mut tally);
    tally.json()
}

#[test]
fn the_newest_pings_up_to_a_gap_are_imported() {
    let run =
        |numbers: &mut dyn Iterator<Item = i64>| numbers.map(|n| ping(n, &[])).collect::<Vec<_>>();
    for (n_pings, limit, rows, carried, dropped) in [
        (
            150,
            100,
            run(&mut (1..=150)),
            100,
            &[("older than the log limit", 50)][..],
        ),
        (
            150,
            100,
            run(&mut (31..=150).rev()),
            100,
            &[("older than the log limit", 20)],
        ),
        (150, 1_000, run(&mut (1..=150)), 150, &[]),
        (
            150,
            1_000,
            run(&mut (1..=150).filter(|n| *n != 86)),
            64,
            &[("before a gap in their numbers", 85)],
        ),
        (
            150,
            1_000,
            run(&mut (1..=150).filter(|n| *n != 87)),
            63,
            &[("before a gap in their numbers", 86)],
        ),
        (
            200,
            1_000,
            run(&mut (1..=10).chain(150..=200)),
            51,
            &[("before a gap in their numbers", 10)],
        ),
        (
            2,
            100,
            run(&mut [1, 2, 3, 2].into_iter()),
            2,
            &[
                ("logged while the dump was being written", 1),
                ("with the number of another ping", 1),
            ],
        ),
        (
            2,
            0,
            run(&mut (1..=2)),
            0,
            &[("older than the log limit", 2)],
        ),
        (
            2,
            100,
            run(&mut [0, -1, 1].into_iter()),
            0,
            &[
                ("without a number", 2),
                ("before a gap in their numbers", 1),
            ],
        ),
        (
            u64::MAX,
            u32::MAX,
            run(&mut [1, i64::MAX].into_iter()),
            0,
            &[("older than the log limit", 2)],
        ),
    ] {
        let counts = counted(n_pings, limit, &rows, &options());
        let notes: Vec<_> = counts["pings"]["notes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|note| {
                (
                    note["text"].as_str().unwrap(),
                    note["count"].as_i64().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            (counts["pings"]["carried"].as_i64().unwrap_or(0), &notes[..]),
            (carried, dropped),
            "{n_pings} {limit}"
        );
    }
}

#[test]
fn pings_are_converted_completely() {
    let mut log = CheckLog::new(Uuid::nil(), 1, 100);
    let mut tally = ImportTally::default();
    let full = ping(
        1,
        &[
            ("kind", "fail"),
            ("scheme", "https"),
            ("method", "PUT"),
            ("remote_addr", "2001:db8::1"),
            ("ua", "curl"),
            ("body_raw", "\\x6869"),
            ("exitstatus", "255"),
            ("rid", "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f"),
        ],
    );
    let read = log
        .convert_ping(&full, &options(), NOW, &mut tally)
        .unwrap();
    let origin = PingOrigin {
        scheme: PingScheme::Https,
        method: PingMethod::Put,
        remote_addr: Some("2001:db8::1".parse().unwrap()),
        user_agent: "curl".into(),
    };
    let at = Timestamp::from_secs(1_717_243_200);
    let rid = Uuid::try_parse("6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f").ok();
    assert_eq!(
        read,
        ImportedPing {
            check: Uuid::nil(),
            n: 1,
            at,
            kind: PingKind::Fail,
            origin,
            rid,
            exit_status: Some(255),
            body: Bytes::from_static(b"hi")
        }
    );
}

/// Healthchecks stores what a proxy sends unverified. No such value may end an import or leave a
/// gap in the log.
#[test]
fn unusual_details_of_pings_are_kept_as_far_as_possible() {
    let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    let none = || (PingScheme::Http, None, PingKind::Success);
    for (column, value, wanted) in [
        ("kind", "what", (PingScheme::Http, None, PingKind::Log)),
        ("scheme", "ftp", none()),
        (
            "scheme",
            "https,http",
            (PingScheme::Https, None, PingKind::Success),
        ),
        ("scheme", "http, https", none()),
        (
            "scheme",
            "HTTPS",
            (PingScheme::Https, None, PingKind::Success),
        ),
        (
            "scheme",
            "wss",
            (PingScheme::Https, None, PingKind::Success),
        ),
        ("remote_addr", "unknown", none()),
        ("remote_addr", "_hidden", none()),
        (
            "remote_addr",
            "\"[2001:db8::1]:80\"",
            (PingScheme::Http, address("2001:db8::1"), PingKind::Success),
        ),
        (
            "remote_addr",
            "[2001:db8::1]",
            (PingScheme::Http, address("2001:db8::1"), PingKind::Success),
        ),
        (
            "remote_addr",
            "192.0.2.1:8080",
            (PingScheme::Http, address("192.0.2.1"), PingKind::Success),
        ),
        ("exitstatus", "256", none()),
        ("exitstatus", "x", none()),
        ("body_raw", "\\x6", none()),
        ("rid", "1", none()),
    ] {
        let mut log = CheckLog::new(Uuid::nil(), 1, 100);
        let mut tally = ImportTally::default();
        let read = log
            .convert_ping(&ping(1, &[(column, value)]), &options(), NOW, &mut tally)
            .unwrap();
        assert_eq!(
            (read.origin.scheme, read.origin.remote_addr, read.kind),
            wanted,
            "{column} {value}"
        );
        assert_eq!(
            (read.exit_status, read.rid, read.body.len()),
            (None, None, 0)
        );
        log.tally_pings(PingLogSelection::All, &mut tally);
        let counts = tally.json();
        assert_eq!(
            (
                counts["pings"]["carried"].as_u64(),
                counts["pings"]["changed"].as_u64()
            ),
            (Some(1), Some(1)),
            "{column} {value}"
        );
        assert_eq!(counts["pings"]["notes"].as_array().unwrap().len(), 1);
    }
    let counts = counted(1, 100, &[ping(1, &[("created", "never")])], &options());
    assert_eq!(counts["pings"]["notes"][0]["text"], "with an invalid time");
}

#[test]
fn dropped_bodies_methods_and_times_are_counted() {
    let rows = [
        ping(
            1,
            &[("body", "old text"), ("created", "2030-01-01 00:00:00")],
        ),
        ping(2, &[("body_raw", "\\x"), ("method", "PROPFIND")]),
        ping(3, &[("object_size", "500")]),
        ping(4, &[("body_raw", "\\x00"), ("object_size", "0")]),
    ];
    let counts = counted(4, 100, &rows, &options());
    assert_eq!(
        (
            counts["pings"]["carried"].as_u64(),
            counts["pings"]["changed"].as_u64()
        ),
        (Some(4), Some(2))
    );
    assert_eq!(
        (
            counts["bodies"]["carried"].as_u64(),
            counts["bodies"]["dropped"].as_u64()
        ),
        (Some(2), Some(1))
    );
    let heads = counted(
        4,
        100,
        &rows,
        &ImportOptions {
            logs: PingLogSelection::WithoutBodies,
            ..options()
        },
    );
    assert_eq!(
        (
            heads["bodies"]["carried"].as_u64(),
            heads["bodies"]["dropped"].as_u64()
        ),
        (Some(0), Some(3))
    );
    let none = counted(
        4,
        100,
        &rows,
        &ImportOptions {
            logs: PingLogSelection::None,
            ..options()
        },
    );
    assert_eq!(none["pings"]["dropped"].as_u64(), Some(4));
}

#[test]
fn the_newest_flip_gives_the_time_of_the_status_and_whether_it_was_notified() {
    let flip = |id: i64, created: &str, is_told: bool, old: &str, new: &str| {
        let text = |text: &str| SourceValue::Text(text.into());
        let processed = if is_told {
            text(created)
        } else {
            SourceValue::Null
        };
        let columns = [
            "id",
            "created",
            "processed",
            "old_status",
            "new_status",
            "reason",
        ];
        row(
            SourceTable::Flip,
            &columns,
            vec![
                SourceValue::Integer(id),
                text(created),
                processed,
                text(old),
                text(new),
                text("timeout"),
            ],
        )
    };
    let mut log = CheckLog::new(Uuid::nil(), 1, 100);
    let mut tally = ImportTally::default();
    assert_eq!(log.last_flip(), None);
    let at = |secs| Timestamp::from_secs(secs);
    let last = |secs, from, is_told| LastFlip {
        at: at(secs),
        from,
        cause: FlipCause::MissedPing,
        is_notified: is_told,
    };
    for (row, carried, last) in [
        (
            flip(1, "2024-05-31 23:59:59", true, "new", "up"),
            None,
            last(1_717_199_999, Status::New, true),
        ),
        (
            flip(2, "2024-08-01 00:00:00", false, "up", "down"),
            Some(at(1_722_470_400)),
            last(1_722_470_400, Status::Up, false),
        ),
        // The flip number decides, not the time: a flip may have an earlier time than its
        // predecessor.
        (
            flip(9, "2024-07-01 00:00:00", true, "down", "up"),
            Some(at(1_719_792_000)),
            last(1_722_470_400, Status::Down, true),
        ),
        (
            flip(3, "2024-08-01 00:00:00", true, "up", "down"),
            Some(at(1_722_470_400)),
            last(1_722_470_400, Status::Down, true),
        ),
        (
            flip(10, "2031-01-01 00:00:00", true, "up", "down"),
            Some(at(1_924_992_000)),
            last(1_722_470_400, Status::Up, true),
        ),
    ] {
        let read = log.convert_flip(&row, NOW, &mut tally);
        assert_eq!(
            (read.as_ref().map(|flip| flip.flip.at), log.last_flip()),
            (carried, Some(last))
        );
        assert!(read.is_none_or(|flip| flip.flip.cause == FlipCause::MissedPing));
    }
    let counts = tally.json();
    assert_eq!(
        (
            counts["flips"]["carried"].as_u64(),
            counts["flips"]["dropped"].as_u64(),
            counts["flips"]["changed"].as_u64()
        ),
        (Some(4), Some(1), Some(1))
    );
    assert_eq!(
        log.convert_flip(
            &flip(5, "2024-08-01 00:00:00", true, "up", "gone"),
            NOW,
            &mut tally
        ),
        None
    );
    assert_eq!(tally.json()["flips"]["dropped"].as_u64(), Some(2));
}

//! Tests of the logs of pings and flips against models: after any sweeps and pruning, all rows
//! within the limits can be read.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Operation on a log.
#[derive(Clone, Debug)]
enum LogOperation {
    /// A ping of a check, with the length of its body in bytes.
    Append(u64, u8),
    /// A sweep of at most this many entries and bytes, from a share of all arrivals in percent up
    /// to another. Rows before are left, as after an unreadable page.
    Sweep(usize, u64, (u8, u8)),
    /// A scan of this many kept entries.
    Prune(usize),
}

fn step() -> impl Strategy<Value = LogOperation> {
    prop_oneof![
        6 => (0..3_u64, prop_oneof![Just(0_u8), 1..9_u8])
            .prop_map(|(check, len)| LogOperation::Append(check, len)),
        2 => (1..8_usize, 1..40_u64, (prop_oneof![Just(0_u8), 0..=100_u8], 0..=100_u8))
            .prop_map(|(limit, bytes, shares)| LogOperation::Sweep(limit, bytes, shares)),
        1 => (1..5_usize).prop_map(LogOperation::Prune),
    ]
}

/// Ping limit of each check.
const LIMITS: [u64; 3] = [1, 3, 10];

proptest! {
    #[test]
    fn damaged_rows_are_errors_or_other_values_but_never_panics(
        at in 0..ROWS.len(),
        cut in 0..200_usize,
        flips in prop::collection::vec((0..200_usize, any::<u8>()), 0..6),
    ) {
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
            Err(StoreError::InvalidRow { table, .. }) => prop_assert_eq!(table, place.0),
            Err(error) => prop_assert!(false, "{}", error),
        }
        put_row(&store, place, &[]);
        prop_assert!(read(&store).is_err());
    }

    #[test]
    fn pings_within_the_limits_survive_any_sweep(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let store = store();
        // Bodies of each check by n, and the arrival of its newest ping.
        let mut model: BTreeMap<u64, (Vec<Vec<u8>>, u64)> = BTreeMap::new();
        let mut arrivals = 0;
        let mut cursor = KeptPingCursor::default();
        for step in steps {
            let newest: BTreeMap<_, _> = model
                .iter()
                .map(|(check, (bodies, _))| (*check, bodies.len() as u64))
                .collect();
            let live = |check: CheckId, n: u64| n + LIMITS[check.0 as usize] > newest[&check.0];
            let snapshot = store.snapshot().unwrap();
            let log_len = snapshot.log_len().unwrap();
            let kept_len = snapshot.kept_len().unwrap();
            write(&store, |batch| {
                match step {
                    LogOperation::Append(check, len) => {
                        let (bodies, last) = model.entry(check).or_default();
                        arrivals += 1;
                        let body = vec![arrivals as u8; usize::from(len)];
                        let n = bodies.len() as u64 + 1;
                        let ping = Ping { body_len: len.into(), ..ping(check, n, *last) };
                        batch.append_pings(&[(Arrival(arrivals), ping, &body)], None)?;
                        bodies.push(body);
                        *last = arrivals;
                    }
                    LogOperation::Sweep(limit, max_bytes, (from, up_to)) => {
                        let arrival = |share| Arrival(arrivals * u64::from(share) / 100);
                        let range = (arrival(from.min(up_to)), arrival(up_to));
                        let swept = batch.sweep_pings(range, (limit, max_bytes), live)?;
                        assert!(swept.removed <= limit && swept.removed as u64 <= log_len);
                        assert!(swept.kept <= swept.removed);
                    }
                    LogOperation::Prune(limit) => {
                        let pruned = batch.prune_kept_pings(cursor, (limit, u64::MAX), live)?;
                        assert!(pruned.removed <= limit && pruned.removed as u64 <= kept_len);
                        cursor = pruned.next.unwrap_or_default();
                    }
                }
                Ok(())
            });
            let snapshot = store.snapshot().unwrap();
            for (check, (bodies, last)) in &model {
                let id = CheckId(*check);
                let n = bodies.len() as u64;
                let last = Arrival(*last);
                let down_to = n.saturating_sub(LIMITS[*check as usize]) + 1;
                let pings = snapshot.pings_of(id, n, last, down_to).unwrap();
                let numbers: Vec<_> = pings.iter().map(|ping| ping.n).collect();
                prop_assert_eq!(numbers, (down_to..=n).rev().collect::<Vec<_>>());
                for number in down_to..=n {
                    let body = snapshot.body_of(id, n, last, number).unwrap().unwrap_or_default();
                    prop_assert_eq!(&body, &bodies[number as usize - 1]);
                }
                for ping in pings {
                    prop_assert_eq!(snapshot.ping_of(id, n, last, ping.n).unwrap(), Some(ping));
                }
                prop_assert_eq!(snapshot.body_of(id, n, last, n + 1).unwrap(), None);
                prop_assert_eq!(snapshot.ping_of(id, n, last, n + 1).unwrap(), None);
            }
        }
        // Once everything is swept and pruned, only pings within the limits remain.
        let newest: BTreeMap<_, _> = model
            .iter()
            .map(|(check, (bodies, _))| (*check, bodies.len() as u64))
            .collect();
        let live = |check: CheckId, n: u64| n + LIMITS[check.0 as usize] > newest[&check.0];
        let range = (Arrival(0), Arrival(arrivals));
        let no_limit = (usize::MAX, u64::MAX);
        write(&store, |batch| batch.sweep_pings(range, no_limit, live).map(drop));
        write(&store, |batch| {
            batch
                .prune_kept_pings(KeptPingCursor::default(), no_limit, live)
                .map(drop)
        });
        let within: u64 = newest.iter().map(|(check, n)| (*n).min(LIMITS[*check as usize])).sum();
        let snapshot = store.snapshot().unwrap();
        prop_assert_eq!((snapshot.log_len().unwrap(), snapshot.kept_len().unwrap()), (0, within));
        let batch = store.batch().unwrap();
        let bodies = batch.unrecorded().open_table(table("bodies")).unwrap();
        prop_assert_eq!(bodies.len().unwrap(), 0);
    }

    #[test]
    fn flips_are_read_back_to_the_first_pruned_one(
        flips in prop::collection::vec((0..3_u64, 0..50_i64), 1..80),
        prunings in prop::collection::vec((0..60_i64, 1..9_usize, 0..90_u64), 0..12),
    ) {
        let store = store();
        let mut log: Vec<(FlipNumber, LoggedFlip)> = Vec::new();
        let mut last = [0; 3];
        for (check, at) in flips {
            let number = log.len() as u64 + 1;
            let previous = std::mem::replace(&mut last[check as usize], number);
            log.push((FlipNumber(number), flip(check, previous, at)));
        }
        write(&store, |batch| batch.append_flips(&log));
        for (before, limit, up_to) in prunings {
            let before = Timestamp::from_secs(before);
            let future = Timestamp::from_secs(45);
            // Prunes in steps of `limit`, up to the flip from which a replay needs all flips,
            // whatever their age.
            let mut next = Some(FlipNumber(0));
            // A flip is removed if its previous flip is not kept, or if that flip lies in the
            // future.
            let mut remaining = Vec::<(FlipNumber, LoggedFlip)>::new();
            for (number, logged) in &log {
                let is_held = remaining
                    .iter()
                    .any(|(number, older)| *number == logged.previous && older.flip.at < future);
                if number.0 > up_to || logged.flip.at >= before || is_held {
                    remaining.push((*number, *logged));
                }
            }
            let mut removed = 0;
            while let Some(from) = next {
                write(&store, |batch| {
                    let is_before =
                        |end: Timestamp| move |logged: &LoggedFlip| logged.flip.at < end;
                    let pruned = batch.prune_flips(
                        from,
                        FlipNumber(up_to),
                        limit,
                        is_before(before),
                        is_before(future),
                    )?;
                    assert!(pruned.removed <= limit && pruned.unreadable_row.is_none());
                    removed += pruned.removed;
                    next = pruned.next;
                    Ok(())
                });
            }
            prop_assert_eq!(removed, log.len() - remaining.len());
            log = remaining;
        }
        let snapshot = store.snapshot().unwrap();
        let flips = snapshot.flips_after(FlipNumber(0)).unwrap().map(Result::unwrap);
        prop_assert_eq!(flips.collect::<Vec<_>>(), &log[..]);
        for (check, last) in (0..).zip(last) {
            let found = snapshot.flips_of(CheckId(check), FlipNumber(last)).unwrap();
            let found: Vec<_> = found.map(Result::unwrap).collect();
            // A chain ends where a flip is removed.
            let check_flips = log.iter().rev().filter(|(_, logged)| logged.check.0 == check);
            let mut next = last;
            let unbroken = check_flips.take_while(|(number, logged)| {
                number.0 == std::mem::replace(&mut next, logged.previous.0)
            });
            prop_assert_eq!(found, unbroken.map(|(_, logged)| *logged).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_sweep_and_a_pruning_end_once_they_reach_their_limit_of_bytes() {
    let store = store();
    // Each body counts for 2,000 bytes.
    let body = vec![7; 3_024];
    let long = |n| Ping {
        body_len: 3_024,
        ..ping(1, n, n - 1)
    };
    let pings: Vec<_> = (1..=6).map(|n| (Arrival(n), long(n), &body)).collect();
    write(&store, |batch| {
        let counted = |up_to| ping::count_bytes(batch.unrecorded(), Arrival(up_to));
        batch.append_pings(&pings, None)?;
        assert_eq!((counted(2)?, counted(6)?), ((4_000, 0), (12_000, 0)));
        for (most, removed, is_byte_limit_reached) in [(4_000, 2, true), (9_000, 4, false)] {
            let swept = batch.sweep_pings((Arrival(0), Arrival(6)), (9, most), |_, n| n > 1)?;
            let first = u64::from(is_byte_limit_reached);
            let expected = SweepResult {
                removed,
                removed_bytes: removed as u64 * 2_000,
                is_byte_limit_reached,
                kept: removed - first as usize,
                kept_bytes: (removed as u64 - first) * 2_000,
                checks: (0..first).map(|_| CheckId(1)).collect(),
                ..SweepResult::default()
            };
            assert_eq!(swept, expected, "{most}");
        }
        assert_eq!(counted(6)?, (0, 10_000));
        let start = KeptPingCursor::default();
        for (limit, most, removed, is_byte_limit_reached, next) in [
            (9, 4_000, 2, true, Some(4)),
            (1, 9_000, 1, false, Some(5)),
            (9, 4_001, 2, false, None),
        ] {
            let pruned = batch.prune_kept_pings(start, (limit, most), |_, _| false)?;
            let left = batch.prune_kept_pings(start, (0, 0), |_, _| true)?;
            assert_eq!(pruned.next, left.next, "{limit} {most}");
            let expected = KeptPruneResult {
                removed,
                removed_bytes: removed as u64 * 2_000,
                has_new_unreferenced: false,
                is_byte_limit_reached,
                next: pruned.next,
            };
            assert_eq!((pruned, pruned.next.is_some()), (expected, next.is_some()));
        }
        Ok(())
    });
}

#[test]
fn a_chain_leads_from_kept_pings_back_to_the_log() {
    let logged = |n| (Arrival(n), without_body(ping(1, n, n - 1)), b"".as_slice());
    let store = store();
    write(&store, |batch| {
        batch.append_pings(&[1, 2, 3].map(logged), None)?;
        // The first row is left, as after an unreadable page.
        let swept = batch.sweep_pings((Arrival(2), Arrival(3)), (9, u64::MAX), |_, _| true)?;
        assert_eq!(swept.kept, 2);
        Ok(())
    });
    let snapshot = store.snapshot().unwrap();
    for down_to in 1..=3 {
        let pings = snapshot
            .pings_of(CheckId(1), 3, Arrival(3), down_to)
            .unwrap();
        let numbers: Vec<_> = pings.iter().map(|ping| ping.n).collect();
        assert_eq!(numbers, (down_to..=3).rev().collect::<Vec<_>>());
    }
}

#[test]
fn only_pings_that_share_an_upload_refer_to_it() {
    for is_kept in [false, true] {
        let store = store();
        let shared = Ping {
            body_len: 6,
            body_sharers: 1,
            ..ping(1, 1, 0)
        };
        let own = ping(2, 1, 0);
        write(&store, |batch| {
            let upload = batch.begin_upload()?;
            batch.put_chunk(upload, 0, b"shared")?;
            let alone = without_body(ping(3, 1, 0));
            if is_kept {
                batch.put_kept_pings(&[(alone, b"")], Some(upload))?;
            } else {
                batch.append_pings(&[(Arrival(1), alone, b"")], Some(upload))?;
            }
            assert_eq!(batch.first_unreferenced(0, None)?, Some(upload));
            if is_kept {
                let pings = [(shared, b"shared".as_slice()), (own, b"ok")];
                batch.put_kept_pings(&pings, Some(upload))?;
            } else {
                let pings = [
                    (Arrival(2), shared, b"shared".as_slice()),
                    (Arrival(3), own, b"ok"),
                ];
                batch.append_pings(&pings, Some(upload))?;
            }
            let is_live = |check: CheckId, _| check == CheckId(2);
            let has_new_unreferenced = if is_kept {
                let start = KeptPingCursor::default();
                let pruned = batch.prune_kept_pings(start, (9, u64::MAX), is_live)?;
                pruned.has_new_unreferenced
            } else {
                let range = (Arrival(0), Arrival(3));
                let swept = batch.sweep_pings(range, (9, u64::MAX), is_live)?;
                swept.has_new_unreferenced
            };
            assert!(has_new_unreferenced, "{is_kept}");
            assert_eq!(batch.first_unreferenced(0, None)?, Some(upload));
            Ok(())
        });
        let body = store
            .snapshot()
            .unwrap()
            .body_of(CheckId(2), 1, Arrival(3), 1);
        assert_eq!(body.unwrap().as_deref(), Some(b"ok".as_slice()));
    }
}

#[test]
fn chunks_are_removed_one_after_another_up_to_a_number_of_bytes() {
    let store = store();
    write(&store, |batch| {
        let upload = batch.begin_upload()?;
        (0..6).try_for_each(|index| batch.put_chunk(upload, index, &[7; 100]))?;
        for (max_bytes, removed, is_left) in [
            (0, 1, true),
            (200, 2, true),
            (201, 3, true),
            (100, 0, false),
        ] {
            assert_eq!(
                batch.remove_chunks(upload, max_bytes)?,
                removed,
                "{max_bytes}"
            );
            let left = batch.first_unreferenced(0, None)?;
            assert_eq!(left, is_left.then_some(upload), "{max_bytes}");
        }
        Ok(())
    });
}

#[test]
fn a_part_of_a_long_body_reads_only_the_chunks_that_contain_it() {
    let store = store();
    let body = b"onetwothree";
    let logged = Ping {
        body_len: body.len() as u32,
        body_sharers: 1,
        ..ping(1, 1, 0)
    };
    let short = Ping {
        body_len: 5,
        ..ping(2, 1, 0)
    };
    write(&store, |batch| {
        let upload = batch.begin_upload()?;
        for (place, piece) in [b"one".as_slice(), b"two", b"three"]
            .into_iter()
            .enumerate()
        {
            batch.put_chunk(upload, place as u64, piece)?;
        }
        batch.append_pings(&[(Arrival(1), logged, body.as_slice())], Some(upload))?;
        batch.append_pings(&[(Arrival(2), short, b"short".as_slice())], None)
    });
    let part = |check: u64, part| {
        let found = store
            .snapshot()
            .unwrap()
            .part_of_body(CheckId(check), (1, Arrival(check)), 1, part)
            .unwrap();
        String::from_utf8(found.unwrap()).unwrap()
    };
    for (most, first, last) in [
        (2, "on", "ee"),
        (6, "onetwo", "othree"),
        (99, "onetwothree", "onetwothree"),
    ] {
        assert_eq!(
            (
                part(1, BodyPart::First(most)),
                part(1, BodyPart::Last(most))
            ),
            (first.to_owned(), last.to_owned())
        );
    }
    assert_eq!(
        (part(2, BodyPart::First(2)), part(2, BodyPart::Last(99))),
        ("sh".to_owned(), "short".to_owned())
    );
    // The other chunks are not even looked up.
    write(&store, |batch| {
        let mut pieces = batch.unrecorded().open_table(chunks::CHUNKS)?;
        pieces.remove((1, 0))?;
        Ok(())
    });
    assert_eq!(part(1, BodyPart::Last(8)), "twothree");
}

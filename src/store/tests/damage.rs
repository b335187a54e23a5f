//! Tests of damaged rows: reading them is an error that names the table, and other rows stay
//! readable.

use super::*;

#[test]
fn a_row_of_an_unknown_version_is_an_error_that_names_table_and_version() {
    for place in ROWS {
        let store = filled();
        for version in [0, 10, 255] {
            let mut bytes = row(&store, place);
            bytes[0] = version;
            put_row(&store, place, &bytes);
            let error = read(&store).unwrap_err();
            assert!(
                matches!(&error, StoreError::InvalidRow { table, .. } if *table == place.0),
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
fn a_channel_that_its_kind_refuses_is_an_error() {
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
fn rows_that_break_their_chain_are_errors() {
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
                Ok(1) | Err(StoreError::InvalidRow { table: "pings", .. })
            ),
            "{row:?}: {pings:?}"
        );
        assert!(matches!(
            snapshot.body_of(CheckId(6), 2, Arrival(8), 1),
            Ok(None) | Err(StoreError::InvalidRow { table: "pings", .. })
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
        matches!(
            flips[..],
            [Err(StoreError::InvalidRow { table: "flips", .. })]
        ),
        "{flips:?}"
    );
}

#[test]
fn an_unreadable_or_future_flip_does_not_stop_the_pruning_of_others() {
    let store = filled();
    write(&store, |batch| {
        batch.append_flips(
            &[(2, 9_999_999), (3, 50), (5, 60), (6, 100)]
                .map(|(n, at)| (FlipNumber(n), flip(6, 0, at))),
        )
    });
    write(&store, |batch| {
        batch
            .unrecorded()
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
        pruned.unreadable_row,
        Some(StoreError::InvalidRow { table: "flips", .. })
    ));
    assert_eq!((pruned.removed, pruned.next), (2, None));
    let batch = store.batch().unwrap();
    let flips = batch.unrecorded().open_table(table("flips")).unwrap();
    let left: Vec<_> = flips
        .range(2..)
        .unwrap()
        .map(|row| row.unwrap().0.value())
        .collect();
    assert_eq!(left, [2, 4, 6]);
}

#[test]
fn meta_values_of_a_wrong_size_are_errors() {
    const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
    let put = |name: &str, bytes: &[u8]| {
        let store = filled();
        write(&store, |batch| {
            batch.unrecorded().open_table(META)?.insert(name, bytes)?;
            Ok(())
        });
        store
    };
    let keys = [
        (MetaKey::NextId, "next_id"),
        (MetaKey::CheckpointArrival, "checkpoint_arrival"),
        (MetaKey::CheckpointFlip, "checkpoint_flip"),
    ];
    for (key, name) in keys {
        assert_eq!(
            put(name, &7_u64.to_le_bytes())
                .snapshot()
                .unwrap()
                .meta_value(key)
                .unwrap(),
            7
        );
        let error = put(name, &[7; 9])
            .snapshot()
            .unwrap()
            .meta_value(key)
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
        assert_eq!(inspect(&store).problems, [error]);
    }
    assert!(matches!(
        put("badge_secret", &[7; 31])
            .snapshot()
            .unwrap()
            .badge_secret(),
        Err(StoreError::InvalidRow { table: "meta", .. })
    ));
}

#[test]
fn an_altered_or_missing_body_is_an_error_in_the_log_and_among_kept_pings() {
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
                let mut bodies = batch.unrecorded().open_table(table("bodies"))?;
                let mut kept_bodies =
                    batch
                        .unrecorded()
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

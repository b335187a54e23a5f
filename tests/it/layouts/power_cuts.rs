//! Power cuts at every point of the migrations of a file of an earlier release.

use super::*;
use crate::imports::visible_state;
use crate::support::disk::Disk;
use crate::support::engine::TestEngine;
use crate::support::seeded_rng::SeededRng;

/// Layouts with a database alone. Migrations write no journal.
const LAYOUTS_WITHOUT_JOURNAL: [&str; 4] = ["1", "2", "11", "12"];

/// Opens a database, which migrates it. `None` if the power fails meanwhile.
fn open_at(disk: &Disk, now: overdue::domain::timestamp::Timestamp) -> Option<TestEngine> {
    let clock = ManualClock::at(now);
    let opened = open(disk.medium(), &clock, |_| {});
    match opened {
        Ok((handle, writer)) => Some(TestEngine {
            handle,
            writer,
            clock,
        }),
        Err(error) => {
            assert!(disk.has_lost_power(), "{error}");
            None
        }
    }
}

fn disk_with(bytes: &[u8]) -> Disk {
    let disk = Disk::default();
    disk.replace_bytes(bytes.to_vec());
    disk
}

#[test]
fn a_migration_survives_a_power_cut_at_any_point() {
    let rng = SeededRng::seeded(1);
    for layout in LAYOUTS_WITHOUT_JOURNAL {
        let directory = Path::new(LAYOUTS).join(layout);
        let bytes = std::fs::read(directory.join(FILE_NAME)).unwrap();
        let answers = std::fs::read_to_string(directory.join("answers.jsonl")).unwrap();
        let now = answers.lines().next().unwrap().parse().unwrap();
        let now = overdue::domain::timestamp::Timestamp::from_micros(now);
        let expected = visible_state(&open_at(&disk_with(&bytes), now).unwrap());
        let mut cuts = 0;
        loop {
            let disk = disk_with(&bytes);
            disk.lose_power_after(cuts);
            drop(open_at(&disk, now));
            if !disk.has_lost_power() {
                break;
            }
            disk.power_on(&rng);
            let engine = open_at(&disk, now).unwrap();
            assert_eq!(
                visible_state(&engine),
                expected,
                "layout {layout}, power cut after {cuts} changes"
            );
            cuts += 1;
        }
        println!("layout {layout}: {cuts} power cuts");
        // A migration is a transaction of several writes and syncs.
        assert!(cuts > 20, "layout {layout}: only {cuts} power cuts");
    }
}

//! Power cuts at every point of the migrations of a file of an earlier release.

use super::*;
use crate::imports::visible_state;
use crate::support::disk::Disk;
use crate::support::engine::TestEngine;
use crate::support::seeded_rng::SeededRng;

/// Layouts that are migrated: all but the newest.
const OLD_LAYOUTS: [&str; 6] = ["1", "2", "11", "12", "16", "17"];

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

/// Disk of a killed server: its database, and its journal if it had one.
fn disk_of(directory: &Path) -> Disk {
    let disk = Disk::default();
    disk.replace_bytes(std::fs::read(directory.join(FILE_NAME)).unwrap());
    if let Ok(journal) = std::fs::read(directory.join(JOURNAL_NAME)) {
        disk.replace_journal(journal);
    }
    disk
}

#[test]
fn a_migration_survives_a_power_cut_at_any_point() {
    let rng = SeededRng::seeded(1);
    let newest = std::fs::read_dir(LAYOUTS).unwrap().count() - 1;
    assert_eq!(newest, OLD_LAYOUTS.len(), "a layout is not migrated here");
    for layout in OLD_LAYOUTS {
        let layout_directory = Path::new(LAYOUTS).join(layout);
        let directory = tempfile::tempdir().unwrap();
        copy_layout(&layout_directory, directory.path());
        let answers = std::fs::read_to_string(layout_directory.join("answers.jsonl")).unwrap();
        let now = answers.lines().next().unwrap().parse().unwrap();
        let now = overdue::domain::timestamp::Timestamp::from_micros(now);
        let expected = visible_state(&open_at(&disk_of(directory.path()), now).unwrap());
        let mut cuts = 0;
        loop {
            let disk = disk_of(directory.path());
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

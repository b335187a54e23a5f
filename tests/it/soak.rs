//! Accelerated operation for many days: memory and files stay flat, and every answer equals that of
//! a model.
//!
//! - The clock is moved by hand, ten minutes at a time. Nothing waits.
//! - `jobs` decides the times at which each job reports. Some of them flap: they fail, are silent
//!   for a while and come back, or do not end a run. Some have long output.
//! - `world` sends the pings, delivers the alerts, deletes and creates checks, replaces projects by
//!   their exports (`import`), and makes and verifies backups.
//! - `model` is a model of a check, independent of the engine.
//! - `figures` compares the last quarter of the time with the second one: in the first quarter, the
//!   logs become full.
//!
//! `cargo test` runs a few days with few checks. `.ci/soak` runs a year with 10,000 checks.

mod figures;
mod import;
mod jobs;
mod model;
mod world;

use std::process::Command;

use crate::simulation::env_number;
use figures::{FlatFigure, resident_bytes};
use world::SoakWorld;

/// Variable that is set in the process whose memory is measured.
const PROCESS_VARIABLE: &str = "OVERDUE_SOAK_PROCESS";
/// Minimum number of days: figures of quarters of the time are compared.
const MIN_DAYS: u64 = 5;
const DEFAULT_SIZE: SoakSize = SoakSize {
    days: 12,
    checks: 60,
};

/// Duration and number of checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SoakSize {
    days: u64,
    checks: usize,
}

impl SoakSize {
    /// Reads the environment.
    fn from_env() -> Self {
        let size = Self {
            days: env_number("OVERDUE_SOAK_DAYS").unwrap_or(DEFAULT_SIZE.days),
            checks: env_number("OVERDUE_SOAK_CHECKS")
                .map_or(DEFAULT_SIZE.checks, |checks| checks as usize),
        };
        let min = MIN_DAYS;
        assert!(size.days >= min, "OVERDUE_SOAK_DAYS is less than {min}");
        size
    }

    /// Days between two imports: at least one import is in each quarter.
    fn import_interval(self) -> u64 {
        (self.days / 12).max(1)
    }

    /// Days between two backups.
    fn backup_interval(self) -> u64 {
        (self.days / 16).max(1)
    }
}

#[test]
fn memory_and_files_stay_flat_and_answers_equal_the_model() {
    let size = SoakSize::from_env();
    if std::env::var_os(PROCESS_VARIABLE).is_some() {
        return soak(size);
    }
    // A process of its own, since other tests use memory at the same time.
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.env(PROCESS_VARIABLE, "1").args([
        "--exact",
        "soak::memory_and_files_stay_flat_and_answers_equal_the_model",
        "--nocapture",
    ]);
    if size != DEFAULT_SIZE {
        assert!(process.status().unwrap().success(), "see above");
        return;
    }
    let output = process.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    println!("{text}");
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

#[allow(clippy::print_stdout, reason = "it prints its progress and figures")]
fn soak(size: SoakSize) {
    let mut world = SoakWorld::new(size);
    let mut memory = FlatFigure::new("resident memory");
    // The database doubles its length when it is too short. A backup has its contents without free
    // space, and so shows dead data earlier.
    let mut files = FlatFigure::new("the length of the files");
    let mut contents = FlatFigure::new("the contents of the database");
    for day in 1..=size.days {
        world.pass_day();
        world.replace_checks();
        if day % size.import_interval() == 0 {
            world.import_project();
        }
        if day % size.backup_interval() == 0 {
            contents.push(world.back_up());
            println!("day {day}: {:?}", world.counts);
        }
        world.compare_sample();
        memory.push(resident_bytes());
        files.push(world.file_bytes());
    }
    world.compare_all();
    world.compare_restored_backup();
    println!("{:?}", world.counts);
    let figures = [memory, files, contents];
    for figure in &figures {
        println!("{figure}");
    }
    figures.iter().for_each(FlatFigure::assert_flat);
    let counts = world.counts;
    let enough = [
        counts.long_bodies,
        counts.flips.up_again,
        counts.deletions,
        counts.imports,
        counts.backups,
    ];
    assert!(enough.iter().all(|count| *count > 4), "{counts:?}");
}

//! Simulations of the engine: thousands of commands on a disk that fails and loses power, compared
//! with a model.
//!
//! - What is simulated: the whole engine and its file, with a clock that goes forward and back.
//!   There are no threads and no doors.
//! - One seed decides everything: commands, times, failures and what a power cut leaves. The same
//!   seed gives the same file.
//! - The model recomputes every check from its whole history whenever it is asked. It shares no
//!   code with the engine.
//! - `commands` makes up commands, mostly valid ones, in worlds so small that they meet each other.
//! - `world` carries them out, moves the clock, stops and starts the engine, lets the disk fail,
//!   cuts the power.
//! - `model` says what each command answers and keeps the plain tables: projects, keys, channels,
//!   and each check's history.
//! - `model_clock` says what time it is for the engine, which does not believe every clock.
//! - `replay` tells what the history of one check comes to: status, run, deadline, log and flips.
//! - `delivery_tracker` stands for those who send what is told, and follows every flip until its
//!   delivery.
//! - `alerts` states for whom each alert is, in a world of its own, and compares all of them.
//!   `deadline_noticing` plays stories twice.
//! - `users` does all of that for users, their sessions and links.
//! - `imports` hands over projects with their logs, which are seen all at once or not at all.
//! - `config_documents` has documents carried out that say what there is to be.
//! - `verify` compares engine and model, in memory and in the file: after every restart, and in
//!   between.
//! - After a failure a batch may be on disk or not. The model keeps both versions until the engine
//!   shows which one it is.
//!
//! `OVERDUE_SEED=<seed> cargo test --test it simulation` repeats one simulation;
//! `OVERDUE_SIMULATIONS=<count>` asks for more of them. Both together begin with that seed.
//! `.ci/oracle/simulation` goes on for an hour.

mod alerts;
mod commands;
mod config_documents;
mod deadline_noticing;
mod delivery_tracker;
mod imports;
mod model;
mod model_clock;
mod replay;
mod users;
mod verify;
mod world;

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};

use overdue::domain::timestamp::Timestamp;

use crate::support::disk::{Disk, SyncMode};
use world::{SimulatedWorld, SimulationCounts};

/// Simulations of a test run, and what happens in each.
const SIMULATION_COUNT: u64 = 20;
const STEPS_PER_SIMULATION: u32 = 300;

fn env_number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")),
    )
}

/// The seeds of a test that runs so many simulations unless it is asked for others.
fn seeds(usual: u64) -> RangeInclusive<u64> {
    let count = env_number("OVERDUE_SIMULATIONS");
    match env_number("OVERDUE_SEED") {
        Some(first) => first..=first + count.unwrap_or(1) - 1,
        None => 1..=count.unwrap_or(usual),
    }
}

/// True if these are the seeds that a test runs by default. Only then does it check how often each
/// case occurred: other seeds differ.
fn are_default_seeds(seeds: &RangeInclusive<u64>, usual: u64) -> bool {
    *seeds == (1..=usual)
}

/// Runs one simulation; the error says at which step it went wrong and how.
fn simulate(seed: u64, disk: Disk) -> Result<SimulationCounts, String> {
    let mut at = 0;
    let run = AssertUnwindSafe(|| {
        let mut world = SimulatedWorld::new(seed, disk)?;
        for step in 0..STEPS_PER_SIMULATION {
            at = step;
            world.step()?;
        }
        world.finish()?;
        Ok(world.tally)
    });
    let result = catch_unwind(run).unwrap_or_else(|_| Err("something panicked".to_owned()));
    result.map_err(|difference| format!("seed {seed}, step {at}: {difference}"))
}

/// The disk that a simulation leaves, and what time it is then.
pub(crate) fn disk_after(seed: u64) -> (Disk, Timestamp) {
    let disk = Disk::default();
    let run = || {
        let mut world = SimulatedWorld::new(seed, disk.clone())?;
        (0..STEPS_PER_SIMULATION).try_for_each(|_| world.step())?;
        world.stop_at()
    };
    let now = run().unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
    (disk, now)
}

#[test]
fn simulations_agree_with_the_model() {
    let seeds = seeds(SIMULATION_COUNT);
    let mut total = SimulationCounts::default();
    for seed in seeds.clone() {
        let tally = simulate(seed, Disk::default()).unwrap_or_else(|failure| {
            panic!(
                "{failure}\nto see it again: OVERDUE_SEED={seed} cargo test --test it simulation"
            )
        });
        println!("seed {seed}: {tally:?}");
        total.add(&tally);
    }
    println!("all: {total:?}");
    let SimulationCounts {
        cuts,
        failures,
        missing,
        checkpoints,
        swept,
        kept_entries: kept,
        interrupted: half_written,
        notified: told,
        ..
    } = total;
    let enough = cuts >= 1000
        && told >= 50
        && half_written >= 5
        && [failures, missing, checkpoints, swept, kept]
            .iter()
            .all(|count| *count > 0);
    assert!(
        enough || !are_default_seeds(&seeds, SIMULATION_COUNT),
        "too little has happened: {total:?}"
    );
}

#[test]
fn a_seed_gives_the_same_file_every_time() {
    for seed in 1..=4 {
        let file = || {
            let disk = Disk::default();
            simulate(seed, disk.clone()).unwrap();
            disk.bytes()
        };
        assert!(
            file() == file(),
            "seed {seed}: the file depends on something else than times and commands"
        );
    }
}

#[test]
fn simulations_notice_a_disk_that_does_not_sync() {
    for syncs in [SyncMode::Ignored, SyncMode::Delayed] {
        for seed in 1..=3 {
            let failure = simulate(seed, Disk::with_sync_mode(syncs))
                .expect_err("what was lost should have been noticed");
            println!("{syncs:?}: {failure}");
        }
    }
}

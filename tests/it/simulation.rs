//! Simulations of the engine: random commands on a disk that fails and loses power, compared with a
//! model.
//!
//! - The whole engine and its file are simulated, with a clock that moves forward and back. There
//!   are no threads and no network.
//! - One seed decides everything: commands, times, failures and the data left by a power cut. The
//!   same seed produces the same file.
//! - The model recomputes each check from its whole history at each query. It shares no code with
//!   the engine.
//! - `commands` generates random commands, most of them valid. The sets of names and objects are
//!   small, so that commands interact.
//! - `world` executes the commands, moves the clock, restarts the engine, and injects disk failures
//!   and power cuts.
//! - `cluster` does all of this on three machines that share a log.
//! - `file_faults` lets one file fail while the other one works.
//! - `model` predicts the answer to each command and keeps plain tables: projects, keys, channels,
//!   and the history of each check.
//! - `model_clock` predicts the time of the engine, which does not trust every clock.
//! - `replay` computes the state of one check from its history: status, run, deadline, log and
//!   flips.
//! - `delivery_tracker` acts as the sender of messages, and follows each flip until its delivery.
//! - `alerts` predicts the recipients of each alert, in a simulation of its own, and compares all
//!   of them. `deadline_noticing` plays each script twice.
//! - `users` is the model of users, their sessions and links.
//! - `imports` imports projects with their logs, which become visible all at once or not at all.
//! - `config_documents` applies configuration documents.
//! - `verify` compares engine and model, in memory and in the file, after each restart and at
//!   random times in between.
//! - After a failure, a batch may be on disk or not. The model keeps both versions until the engine
//!   shows which one is true.
//!
//! `OVERDUE_SEED=<seed> cargo test --test it simulation` repeats one simulation;
//! `OVERDUE_SIMULATIONS=<count>` sets the number of simulations. Both together start with that
//! seed. `.ci/oracle/simulation` runs simulations for an hour.

mod alerts;
mod cluster;
mod commands;
mod config_documents;
mod deadline_noticing;
mod delivery_tracker;
mod file_faults;
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
use file_faults::FaultScope;
use world::{SimulatedWorld, SimulationCounts};

/// Number of simulations in a test run, and of steps in each.
const SIMULATION_COUNT: u64 = 20;
const STEPS_PER_SIMULATION: u32 = 300;
/// Number of simulations in a test run whose faults concern one file at a time.
const FILE_FAULT_SIMULATION_COUNT: u64 = 8;
/// Seeds that found faults, in addition to the first ones: a database that refuses writes after a
/// commit that met an unreadable page, and a wait that kept an earlier grace.
const SEEDS_OF_FOUND_FAULTS: [u64; 5] = [730_365, 731_532, 731_654, 731_716, 761_121];

/// Returns the number in an environment variable, if it is set.
pub(crate) fn env_number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}, which is not a number")),
    )
}

/// Returns the seeds of a test that runs `default_count` simulations unless the environment sets
/// others.
fn seeds(default_count: u64) -> RangeInclusive<u64> {
    let count = env_number("OVERDUE_SIMULATIONS");
    match env_number("OVERDUE_SEED") {
        Some(first) => first..=first + count.unwrap_or(1) - 1,
        None => 1..=count.unwrap_or(default_count),
    }
}

/// True if these are the seeds that a test runs by default. Only then does it check the number of
/// occurrences of each case: other seeds differ.
fn are_default_seeds(seeds: &RangeInclusive<u64>, default_count: u64) -> bool {
    *seeds == (1..=default_count)
}

/// Runs one simulation. The error contains the step and the first difference.
fn simulate(seed: u64, disk: Disk, faults: FaultScope) -> Result<SimulationCounts, String> {
    let mut failed_step = 0;
    let run = AssertUnwindSafe(|| {
        let mut world = SimulatedWorld::new(seed, disk, faults)?;
        for step in 0..STEPS_PER_SIMULATION {
            failed_step = step;
            world.step()?;
        }
        world.finish()?;
        Ok(world.tally)
    });
    let result = catch_unwind(run).unwrap_or_else(|_| Err("something panicked".to_owned()));
    result.map_err(|difference| format!("seed {seed}, step {failed_step}: {difference}"))
}

/// Returns the disk after a simulation, and the time of its end.
pub(crate) fn disk_after(seed: u64) -> (Disk, Timestamp) {
    let disk = Disk::default();
    let run = || {
        let mut world = SimulatedWorld::new(seed, disk.clone(), FaultScope::WholeDisk)?;
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
    let found_faults = SEEDS_OF_FOUND_FAULTS
        .into_iter()
        .filter(|_| are_default_seeds(&seeds, SIMULATION_COUNT));
    for seed in seeds.clone().chain(found_faults) {
        let tally =
            simulate(seed, Disk::default(), FaultScope::WholeDisk).unwrap_or_else(|failure| {
                panic!(
                    "{failure}\nto reproduce: OVERDUE_SEED={seed} cargo test --test it simulation"
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
        kept_entries,
        interrupted,
        notified,
        ..
    } = total;
    let enough = cuts >= 1000
        && notified >= 30
        && interrupted >= 1
        && [failures, missing, checkpoints, swept, kept_entries]
            .iter()
            .all(|count| *count > 0);
    assert!(
        enough || !are_default_seeds(&seeds, SIMULATION_COUNT),
        "too few cases: {total:?}"
    );
}

#[test]
fn simulations_with_faults_of_one_file_agree_with_the_model() {
    let seeds = seeds(FILE_FAULT_SIMULATION_COUNT);
    let mut total = SimulationCounts::default();
    for seed in seeds.clone() {
        let tally =
            simulate(seed, Disk::default(), FaultScope::SingleFile).unwrap_or_else(|failure| {
                panic!(
                    "{failure}\nto reproduce: OVERDUE_SEED={seed} cargo test --test it \
                     simulations_with_faults_of_one_file"
                )
            });
        println!("seed {seed}: {tally:?}");
        total.add(&tally);
    }
    println!("all: {total:?}");
    let SimulationCounts {
        journal_failures,
        refused_steps,
        refused_starts,
        ..
    } = total;
    let has_enough = [journal_failures, refused_steps, refused_starts]
        .iter()
        .all(|count| *count >= 10);
    assert!(
        has_enough || !are_default_seeds(&seeds, FILE_FAULT_SIMULATION_COUNT),
        "too few cases: {total:?}"
    );
}

#[test]
fn a_seed_gives_the_same_file_every_time() {
    for seed in 1..=4 {
        let file = || {
            let disk = Disk::default();
            simulate(seed, disk.clone(), FaultScope::WholeDisk).unwrap();
            disk.bytes()
        };
        assert!(
            file() == file(),
            "seed {seed}: the file depends on more than times and commands"
        );
    }
}

#[test]
fn simulations_notice_a_disk_that_does_not_sync() {
    for syncs in [SyncMode::Ignored, SyncMode::Delayed] {
        for seed in 1..=3 {
            let failure = simulate(seed, Disk::with_sync_mode(syncs), FaultScope::WholeDisk)
                .expect_err("the simulation should detect the lost data");
            println!("{syncs:?}: {failure}");
        }
    }
}

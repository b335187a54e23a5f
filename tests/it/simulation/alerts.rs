//! Simulation of alerts. Its model predicts the outbox row or the delivery of each flip and each
//! warning for each channel.
//!
//! - `rules` states the recipients of alerts and the reasons for holding alerts back, and applies
//!   them to the histories that the model of checks keeps.
//! - `rules::holding` has the reasons for holding an alert back, `rules::audiences` the channels of
//!   an alert, `rules::warnings` the warnings about checks that are not down.
//! - `message_log` keeps the resulting rows and applies the reports of the sender.
//! - `random_events` generates events: pings exactly at a deadline, windows, parents, groups, new
//!   and deleted channels.
//! - `scenario` lets time pass continuously, since holding alerts back depends on time. In between
//!   the server restarts, the machine sleeps, and the power fails. After each event, all rows of
//!   the engine are compared with the model.
//!
//! In the engine, several events can notice a passed deadline. The model notices it at once.

mod message_log;
mod random_events;
mod rules;
mod scenario;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{are_default_seeds, seeds};
use scenario::AlertScenario;

/// Number of scenarios in a test run, and of steps in each.
const SCENARIO_COUNT: u64 = 25;
const STEPS_PER_SCENARIO: u32 = 150;

/// Number of occurrences of each case in a scenario.
type CaseCounts = BTreeMap<String, u32>;

fn run_scenario(seed: u64) -> Result<CaseCounts, String> {
    let mut failed_step = 0;
    let run = AssertUnwindSafe(|| {
        let mut scenario = AlertScenario::new(seed)?;
        for step in 0..STEPS_PER_SCENARIO {
            failed_step = step;
            scenario.step()?;
        }
        let [cuts, in_doubt, missing] = scenario.cuts;
        let counts = [
            ("rows", scenario.rows()),
            ("power cuts", cuts),
            ("batches in doubt", in_doubt),
            ("lost batches", missing),
        ];
        Ok(scenario
            .cases()
            .chain(counts.map(|(name, count)| (name.to_owned(), count)))
            .collect())
    });
    let result = catch_unwind(run).unwrap_or_else(|_| Err("something panicked".to_owned()));
    result.map_err(|difference| format!("seed {seed}, step {failed_step}: {difference}"))
}

/// Minimum number of occurrences of each case in a test run.
const REQUIRED_CASES: [(&str, u32); 44] = [
    ("Closed", 5),
    ("Deleted", 5),
    ("EveryCheck", 50),
    ("Held(Outage)", 50),
    ("Held(HiddenBehind)", 20),
    ("Held(Failures)", 50),
    ("Held(Parent)", 3),
    ("Held(Window)", 30),
    ("Joined", 20),
    ("Left", 30),
    ("NoRecipient", 3),
    ("EndedUnannounced(Outage)", 3),
    ("EndedUnannounced(HiddenBehind)", 5),
    ("EndedUnannounced(Failures)", 5),
    ("EndedUnannounced(Parent)", 1),
    ("EndedUnannounced(Window)", 10),
    ("Released", 10),
    ("Reopened", 1),
    ("Reminded", 2),
    ("Superseded", 20),
    ("ThroughAGroup", 50),
    ("AnnouncedAfter(Outage)", 20),
    ("AnnouncedAfter(HiddenBehind)", 1),
    ("AnnouncedAfter(Failures)", 20),
    ("AnnouncedAfter(Parent)", 5),
    ("AnnouncedAfter(Window)", 10),
    ("EndWithoutStart", 50),
    ("NoRecipientReached", 2),
    ("Warned(Late)", 200),
    ("Warned(NotStarted)", 100),
    ("Warned(RanLong)", 20),
    ("Warned(RanShort)", 10),
    ("WarnedLater", 1),
    ("WarningLeftOut(LostPing)", 5),
    ("WarningLeftOut(Parent)", 20),
    ("WarningLeftOut(Window)", 20),
    ("WarningSuperseded", 50),
    ("WarningTooOld", 2),
    ("WarningUnwanted", 100),
    ("UncertainWarning", 2),
    ("power cuts", 50),
    ("batches in doubt", 20),
    ("lost batches", 10),
    ("rows", 3000),
];

#[test]
fn each_alert_is_there_once_for_whom_it_is() {
    let seeds = seeds(SCENARIO_COUNT);
    let mut total = CaseCounts::new();
    for seed in seeds.clone() {
        let cases = run_scenario(seed).unwrap_or_else(|failure| {
            panic!(
                "{failure}\nto reproduce: OVERDUE_SEED={seed} cargo test --test it \
                 simulation::alerts"
            );
        });
        cases
            .into_iter()
            .for_each(|(case, count)| *total.entry(case).or_default() += count);
    }
    println!("{total:#?}");
    let rare: Vec<_> = REQUIRED_CASES
        .iter()
        .filter(|(case, minimum)| total.get(*case).is_none_or(|count| count < minimum))
        .collect();
    assert!(
        rare.is_empty() || !are_default_seeds(&seeds, SCENARIO_COUNT),
        "too few cases: {rare:?} in {total:#?}"
    );
}

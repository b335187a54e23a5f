//! Which alerts are to be there: a model of its own says for each flip and each channel what waits
//! or what has become of it.
//!
//! - `rules` states who is notified and what holds an alert back, and applies that to the histories
//!   that the model of checks keeps.
//! - `rules::held` and `rules::notified` are parts of that: what holds an alert back, and which
//!   channels it is for.
//! - `log` keeps the rows that follow from it, and what those who send report.
//! - `random_events` makes up what happens: pings at the very moment of a deadline, windows,
//!   parents, groups, channels that come and go.
//! - `scenario` lets time pass without a gap, since what holds an alert back depends on it; the
//!   server stops, sleeps and loses power in between. After each moment at which something happens,
//!   all rows of the engine are compared with the model.
//!
//! A deadline that has passed may be noticed by whatever comes first: the model notices it at once.

mod message_log;
mod random_events;
mod rules;
mod scenario;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{are_default_seeds, seeds};
use scenario::AlertScenario;

/// Stories of a test run, and what happens in each.
const SCENARIO_COUNT: u64 = 15;
const STEPS_PER_SCENARIO: u32 = 150;

/// What happened in a story, and how often.
type CaseCounts = BTreeMap<String, u32>;

fn run_scenario(seed: u64) -> Result<CaseCounts, String> {
    let mut at = 0;
    let run = AssertUnwindSafe(|| {
        let mut scenario = AlertScenario::new(seed)?;
        for step in 0..STEPS_PER_SCENARIO {
            at = step;
            scenario.step()?;
        }
        let [cuts, in_doubt, missing] = scenario.cuts;
        let counts = [
            ("rows", scenario.rows()),
            ("power cuts", cuts),
            ("batches in doubt", in_doubt),
            ("batches that were lost", missing),
        ];
        Ok(scenario
            .cases()
            .chain(counts.map(|(name, count)| (name.to_owned(), count)))
            .collect())
    });
    let result = catch_unwind(run).unwrap_or_else(|_| Err("something panicked".to_owned()));
    result.map_err(|difference| format!("seed {seed}, step {at}: {difference}"))
}

/// What has to have happened in a test run, and how often at the least.
const REQUIRED_CASES: [(&str, u32); 32] = [
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
    ("Nobody", 3),
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
    ("UnawareAtTheEnd", 50),
    ("NobodyReached", 2),
    ("power cuts", 50),
    ("batches in doubt", 20),
    ("batches that were lost", 10),
    ("rows", 3000),
];

#[test]
fn each_alert_is_there_once_for_whom_it_is() {
    let seeds = seeds(SCENARIO_COUNT);
    let mut total = CaseCounts::new();
    for seed in seeds.clone() {
        let cases = run_scenario(seed).unwrap_or_else(|failure| {
            panic!(
                "{failure}\nto see it again: OVERDUE_SEED={seed} cargo test --test it \
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
        .filter(|(case, least)| total.get(*case).is_none_or(|count| count < least))
        .collect();
    assert!(
        rare.is_empty() || !are_default_seeds(&seeds, SCENARIO_COUNT),
        "too seldom: {rare:?} in {total:#?}"
    );
}

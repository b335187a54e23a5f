//! Round trip of simulated databases: any result of commands, failures and power cuts is imported
//! completely, and a second import changes nothing.

use std::collections::BTreeMap;

use overdue::domain::project::{KeyLabel, KeySecret, KeyUse, SecretHash};
use overdue::engine::command::{Command, CommandOutcome, NewKey};
use serde_json::Value;

use super::{answers, assert_same, empty_server_at, export_lines, import, lines_between};
use crate::simulation::disk_after;
use crate::support::server::TestServer;

/// Number of simulations whose final state is exported and imported.
const SIMULATIONS: u64 = 8;

/// Counts what the simulations contained, so that the property is not vacuous.
#[derive(Default, Debug)]
struct RoundtripCounts {
    answers: usize,
    kinds: BTreeMap<String, usize>,
}

#[tokio::test]
async fn the_final_state_of_a_simulation_is_imported() {
    let mut totals = RoundtripCounts::default();
    for seed in 1..=SIMULATIONS {
        println!("seed {seed}");
        roundtrip(seed, &mut totals).await;
    }
    println!("{totals:?}");
    for kind in [
        "project", "key", "channel", "window", "check", "flip", "ping", "user",
    ] {
        assert!(
            totals.kinds.get(kind).is_some_and(|count| *count > 0),
            "{kind}: {totals:?}"
        );
    }
    assert!(totals.answers > 1000, "{totals:?}");
}

/// Removes deliveries, which are not exported.
fn without_deliveries(mut answers: Vec<(String, u16, String)>) -> Vec<(String, u16, String)> {
    for (path, _, text) in &mut answers {
        if path == "/api/overdue/v1/channels" {
            let mut channels: Value = serde_json::from_str(text).unwrap();
            for channel in channels["channels"].as_array_mut().into_iter().flatten() {
                (channel["last_delivered"], channel["waiting"]) = (Value::Null, 0.into());
            }
            *text = channels.to_string();
        }
    }
    answers
}

async fn roundtrip(seed: u64, totals: &mut RoundtripCounts) {
    let (disk, now) = disk_after(seed);
    let one = TestServer::start_at(disk.medium(), now).await;
    let projects: Vec<_> = one.handle.with_state(|state| {
        state
            .projects()
            .map(|project_state| project_state.project.id)
            .collect()
    });
    let mut keys = Vec::new();
    for &project in &projects {
        for access in [KeySecret::ReadWrite, KeySecret::ReadOnly] {
            let text = one.handle.random().url_safe::<32>();
            let secret = access(SecretHash::of(text.as_bytes()));
            let key = NewKey {
                project,
                secret,
                label: KeyLabel::default(),
                hint: "".into(),
            };
            let CommandOutcome::Key(key) = one
                .handle
                .call(Command::CreateKey(Box::new(key)))
                .await
                .unwrap()
                .unwrap()
            else {
                panic!("no key")
            };
            // Within the hour no further use is stored.
            let last_use = KeyUse {
                at: now,
                from: [127, 0, 0, 1].into(),
            };
            one.handle
                .call(Command::RecordKeyUses(vec![(key.id, last_use)]))
                .await
                .unwrap()
                .unwrap();
            keys.push(text);
        }
    }
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let projects = projects.len();
    let answers_before = without_deliveries(answers(&one, &keys).await);
    let lines = export_lines(&one.handle, true);
    let other = empty_server_at(now).await;
    for replaced in [0, projects] {
        assert_eq!(
            import(&other.handle, &lines).await,
            Ok(replaced),
            "seed {seed}"
        );
        assert_same(
            &without_deliveries(answers(&other, &keys).await),
            &answers_before,
        );
        assert_same(
            &lines_between(&export_lines(&other.handle, true)),
            &lines_between(&lines),
        );
    }
    totals.answers += answers_before.len();
    for line in lines_between(&lines) {
        let kind = line.trim_start_matches("{\"").split('"').next().unwrap();
        *totals.kinds.entry(kind.to_owned()).or_default() += 1;
    }
    one.stop().await;
    other.stop().await;
}

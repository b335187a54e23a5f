//! Variables that no flag reads. Settings of a service are variables, and one that is misspelt would be lost without a word.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::Command;

/// What our variables begin with.
const PREFIX: &str = "OVERDUE_";
/// Likeness of two names, from 0 to 1, above which one is taken for the other misspelt.
const ALIKE: f64 = 0.85;

/// Returns a sentence about each variable in the environment that looks like ours and is none.
pub(super) fn unknown(tree: &Command, environment: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut known = BTreeSet::new();
    collect(tree, &mut known);
    let names = environment.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(PREFIX) && !known.contains(name));
    let likeness = |name: &str, known: &String| strsim::jaro_winkler(name.trim_start_matches(PREFIX), known.trim_start_matches(PREFIX));
    let sentence = |name: String| {
        let nearest = known.iter().map(|known| (likeness(&name, known), known)).max_by(|(a, _), (b, _)| a.total_cmp(b));
        let hint = nearest.filter(|(alike, _)| *alike >= ALIKE).map_or(String::new(), |(_, known)| format!("; {known} is meant, perhaps"));
        format!("the variable {name} is unknown and changes nothing{hint}")
    };
    names.map(sentence).collect()
}

fn collect(command: &Command, known: &mut BTreeSet<String>) {
    known.extend(command.get_arguments().filter_map(|flag| flag.get_env()?.to_str().map(str::to_owned)));
    command.get_subcommands().for_each(|command| collect(command, known));
}

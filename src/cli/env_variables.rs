//! Environment variables in place of flags: finds unknown ones, and names the variables whose
//! values an error is about. A service is configured by variables, and a misspelt one would
//! otherwise be ignored silently.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use clap::Command;

use super::server_config_file::ServerConfigFile;

/// Prefix of our variables.
const PREFIX: &str = "OVERDUE_";
/// Similarity of two names, from 0 to 1, above which one is taken for a misspelling of the other.
pub(super) const MIN_SIMILARITY: f64 = 0.85;

/// Variable that Kubernetes sets in each pod beside a service called `overdue`, together with those
/// of [`is_kubernetes_variable`].
const SERVICE_HOST: &str = "OVERDUE_SERVICE_HOST";

/// Returns a warning about each variable in the environment that has our prefix but belongs to no
/// flag.
pub(super) fn unknown_variable_warnings(
    tree: &Command,
    environment: impl Iterator<Item = OsString>,
) -> Vec<String> {
    let mut flag_variables = BTreeSet::new();
    collect_names(tree, &mut flag_variables);
    let names: Vec<String> = environment
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(PREFIX) && !flag_variables.contains(name))
        .collect();
    let is_in_pod = names.iter().any(|name| name == SERVICE_HOST);
    let names = names
        .into_iter()
        .filter(|name| !(is_in_pod && is_kubernetes_variable(name)));
    let similarity = |name: &str, candidate: &String| {
        strsim::jaro_winkler(
            name.trim_start_matches(PREFIX),
            candidate.trim_start_matches(PREFIX),
        )
    };
    let sentence = |name: String| {
        let nearest = flag_variables
            .iter()
            .map(|candidate| (similarity(&name, candidate), candidate))
            .max_by(|(a, _), (b, _)| a.total_cmp(b));
        let hint = nearest
            .filter(|(score, _)| *score >= MIN_SIMILARITY)
            .map_or(String::new(), |(_, candidate)| {
                format!("; did you mean {candidate}?")
            });
        format!("the variable {name} is unknown and is ignored{hint}")
    };
    names.map(sentence).collect()
}

/// True if Kubernetes sets the variable for a service called `overdue`: `OVERDUE_PORT`,
/// `OVERDUE_SERVICE_PORT_HTTP`, `OVERDUE_PORT_8000_TCP_ADDR` and the like.
fn is_kubernetes_variable(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    let of_port = |rest: &str| {
        rest.strip_prefix("PORT")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    of_port(rest)
        || rest
            .strip_prefix("SERVICE_")
            .is_some_and(|rest| rest == "HOST" || of_port(rest))
}

/// Returns the command line in which each flag ignores its variable if that is empty.
pub(super) fn ignore_empty_variables(
    command: clap::Command,
    variable: impl Fn(&OsStr) -> Option<OsString> + Copy,
) -> clap::Command {
    let is_empty = |flag: &clap::Arg| {
        flag.get_env()
            .and_then(variable)
            .is_some_and(|value| value.is_empty())
    };
    let command = command.mut_args(|flag| {
        if is_empty(&flag) {
            flag.env(clap::builder::Resettable::Reset)
        } else {
            flag
        }
    });
    command.mut_subcommands(|command| ignore_empty_variables(command, variable))
}

/// Returns an error message in which each flag whose value came from a variable or from the
/// configuration file is followed by the name of the variable or of the file.
pub(super) fn annotate_sources(
    message: &str,
    words: &[OsString],
    variable: impl Fn(&OsStr) -> Option<OsString>,
    file: Option<&ServerConfigFile>,
) -> String {
    let is_on_command_line = |flag: &str| {
        words
            .iter()
            .filter_map(|word| word.to_str())
            .take_while(|word| *word != "--")
            .any(|word| word.split('=').next() == Some(flag))
    };
    let mut text = String::new();
    let mut rest = message;
    let mut named = BTreeSet::new();
    while let Some(at) = rest.find("--") {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let (flag, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        text.push_str(flag);
        rest = after;
        let name = format!(
            "{PREFIX}{}",
            flag.trim_start_matches('-')
                .replace('-', "_")
                .to_uppercase()
        );
        let is_set = variable(OsStr::new(&name)).is_some_and(|value| !value.is_empty());
        let source = match file.and_then(|file| file.path_of_flag(flag)) {
            Some(path) => Some(format!("in {}", path.display())),
            None => (is_set && !is_on_command_line(flag)).then(|| format!("by {name}")),
        };
        if let Some(source) = source.filter(|_| flag.len() > 2 && named.insert(name.clone())) {
            // `'--listen <ADDR:PORT>'` stays in one piece.
            let quoted = rest
                .strip_prefix(" <")
                .and_then(|value| value.find(">'"))
                .map(|end| end + 4);
            let (value, after) = rest.split_at(quoted.unwrap_or(0));
            text.push_str(&format!("{value} (set {source})"));
            rest = after;
        }
    }
    text + rest
}

fn collect_names(command: &Command, names: &mut BTreeSet<String>) {
    names.extend(
        command
            .get_arguments()
            .filter_map(|flag| flag.get_env()?.to_str().map(str::to_owned)),
    );
    command
        .get_subcommands()
        .for_each(|command| collect_names(command, names));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_kubernetes_cause_no_warning() {
        let of_kubernetes = [
            "OVERDUE_SERVICE_HOST",
            "OVERDUE_SERVICE_PORT",
            "OVERDUE_SERVICE_PORT_HTTP",
            "OVERDUE_PORT",
            "OVERDUE_PORT_8000_TCP_ADDR",
        ];
        let unknown_of = |names: &[&str]| {
            unknown_variable_warnings(&Command::new("overdue"), names.iter().map(OsString::from))
                .len()
        };
        assert_eq!(unknown_of(&of_kubernetes), 0);
        assert_eq!(
            unknown_of(&[&of_kubernetes[..], &["OVERDUE_PORTS", "OVERDUE_SERVICE"]].concat()),
            2
        );
        assert_eq!(unknown_of(&of_kubernetes[1..]), 4);
    }
}

mod chapters;
mod packaging;

use std::collections::BTreeSet;

use super::*;

/// Returns every subcommand, including the root command.
fn all_commands(command: &clap::Command) -> Vec<&clap::Command> {
    std::iter::once(command)
        .chain(command.get_subcommands().flat_map(all_commands))
        .collect()
}

#[test]
fn the_definition_of_the_command_line_is_valid() {
    Cli::command().debug_assert();
}

#[test]
fn every_flag_has_a_variable_and_help() {
    let mut tree = Cli::command();
    tree.build();
    let mut names = BTreeSet::new();
    for command in all_commands(&tree) {
        for flag in command
            .get_arguments()
            .filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()))
        {
            assert!(
                flag.get_help().is_some(),
                "{} {}",
                command.get_name(),
                flag.get_id()
            );
            let Some(name) = flag.get_long() else {
                continue;
            };
            let variable = format!("OVERDUE_{}", name.replace('-', "_").to_uppercase());
            assert_eq!(
                flag.get_env().and_then(|env| env.to_str()),
                Some(variable.as_str()),
                "{} --{name}",
                command.get_name()
            );
            if matches!(flag.get_action(), clap::ArgAction::Append) {
                let help = flag.get_help().unwrap().to_string();
                assert!(
                    help.contains("may be given several times") && help.contains("variable"),
                    "{} --{name}: {help}",
                    command.get_name()
                );
            }
            names.insert(name.to_owned());
        }
    }
    assert!(
        ["data", "listen", "set-file", "ping-log-limit"]
            .iter()
            .all(|name| names.contains(*name)),
        "{names:?}"
    );
}

#[test]
fn errors_are_one_line() {
    for (words, line) in [
        (
            &["serve", "--listen", "x"][..],
            "invalid value 'x' for '--listen <ADDR:PORT>': give an IP address and a port, as in \
             127.0.0.1:8000 or [::]:8000 (see --help)",
        ),
        (
            &["serve", "--smtp-listen", "[::]:25"],
            "the following required arguments were not provided: --ping-email-domain <DOMAIN> \
             (see --help)",
        ),
        (
            &[
                "serve",
                "--smtp-listen",
                "[::]:25",
                "--ping-email-domain",
                "a@b",
            ],
            "invalid value 'a@b' for '--ping-email-domain <DOMAIN>': the domain of ping addresses \
             is a host name such as ping.example.org (see --help)",
        ),
        (
            &["serve", "--liste", "x"],
            "unexpected argument '--liste' found; a similar argument exists: '--listen' (see \
             --help)",
        ),
        (
            &["key", "create"],
            "the following required arguments were not provided: --access <ACCESS> (see --help)",
        ),
        (
            &["project", "set", "a"],
            "the following required arguments were not provided: <--check-limit \
             <N|none>|--ping-log-limit <N>|--ping-settings <yes|no>> (see --help)",
        ),
        (
            &["project", "create", ""],
            "invalid value '' for '<NAME>': a project's name cannot be empty (see --help)",
        ),
        (
            &["project", "create", "a", "--check-limit", "-1"],
            "invalid value '-1' for '--check-limit <N|none>': give a number of checks, or none \
             for no limit (see --help)",
        ),
        (
            &["key", "revoke", "-1"],
            "invalid value '-1' for '<ID>': give a whole number from 1 to 18446744073709551615 \
             (see --help)",
        ),
        (
            &["project", "create", "a", "--ping-log-limit", "many"],
            "invalid value 'many' for '--ping-log-limit <N>': give a whole number from 0 to \
             4294967295 (see --help)",
        ),
        (
            &["serve", "--api-rate", "-1"],
            "invalid value '-1' for '--api-rate <N>': give a whole number from 0 to 4294967295 \
             (see --help)",
        ),
        (
            &["serve", "--api-burst", "1.5"],
            "invalid value '1.5' for '--api-burst <N>': give a whole number from 0 to 4294967295 \
             (see --help)",
        ),
        (
            &["serve", "--ping-body-limit", "10000001"],
            "invalid value '10000001' for '--ping-body-limit <BYTES>': give a whole number from 0 \
             to 10000000 (see --help)",
        ),
        (
            &["schedule", "daily", "--count", "-1"],
            "invalid value '-1' for '--count <N>': give a whole number from 0 to 65535 (see \
             --help)",
        ),
        (
            &["schedule", "* * * *"],
            "invalid value '* * * *' for '[EXPR]': 4 fields: cron has five, namely minute, hour, \
             day of month, month and weekday (see --help)",
        ),
    ] {
        let error = Cli::try_parse_from(["overdue"].iter().chain(words))
            .err()
            .unwrap();
        assert_eq!(one_line_message(&error.render().to_string()), line);
        assert_eq!(help_or_usage(&error).err().unwrap().status, 2);
    }
}

#[test]
fn the_journal_is_turned_off_by_a_value() {
    for (words, uses_journal) in [
        (&["serve"][..], true),
        (&["serve", "--journal", "on"], true),
        (&["serve", "--journal", "off"], false),
        (&["serve", "--journal=off"], false),
    ] {
        let matches = Cli::command()
            .try_get_matches_from(["overdue"].iter().chain(words))
            .unwrap();
        let serve = matches.subcommand_matches("serve").unwrap();
        assert_eq!(serve.get_one("journal"), Some(&uses_journal), "{words:?}");
    }
}

#[test]
fn an_unknown_command_names_the_most_similar_one() {
    for (name, hint) in [
        ("prject", "; a similar command exists: 'project'"),
        ("servee", "; a similar command exists: 'serve'"),
        ("version", "; `overdue --version` prints the version"),
        ("xyzzy", ""),
    ] {
        let error = Cli::try_parse_from(["overdue", name]).err().unwrap();
        let failure = help_or_usage(&error).err().unwrap();
        assert_eq!(
            (failure.status, failure.message),
            (
                2,
                format!("there is no command '{name}'{hint} (see --help)")
            )
        );
    }
}

#[test]
fn an_error_names_the_variable_that_a_value_came_from() {
    let variable = |name: &OsStr| {
        ["OVERDUE_LISTEN", "OVERDUE_TRIAL"]
            .iter()
            .any(|set| *set == name)
            .then(|| OsString::from("x"))
    };
    for (words, message, expected) in [
        (
            "serve",
            "invalid value 'x' for '--listen <ADDR:PORT>': give",
            "invalid value 'x' for '--listen <ADDR:PORT>' (set by OVERDUE_LISTEN): give",
        ),
        (
            "serve --listen=x",
            "invalid value 'x' for '--listen <ADDR:PORT>': give",
            "invalid value 'x' for '--listen <ADDR:PORT>': give",
        ),
        ("serve --listen x", "--listen is taken", "--listen is taken"),
        (
            "run URL -- job --listen",
            "--listen is taken; see --listen",
            "--listen (set by OVERDUE_LISTEN) is taken; see --listen",
        ),
        (
            "import",
            "'--live' cannot be used with '--trial'",
            "'--live' cannot be used with '--trial (set by OVERDUE_TRIAL)'",
        ),
        (
            "serve",
            "--smtp-listen needs --ping-email-domain -- a -",
            "--smtp-listen needs --ping-email-domain -- a -",
        ),
    ] {
        let words: Vec<_> = words.split(' ').map(OsString::from).collect();
        assert_eq!(
            env_variables::annotate_sources(message, &words, variable, None),
            expected
        );
    }
}

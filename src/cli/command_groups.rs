//! Help of the program: its commands in groups. clap shows one list of all commands.

use clap::Command;

/// Width of the help in columns.
const WIDTH: usize = 80;
/// Columns before the description of a command.
const INDENT: usize = 15;

/// Commands by group, the most used first.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Server", &["serve", "status", "health", "cluster"]),
    (
        "Checks and alerts",
        &[
            "check",
            "channel",
            "deliveries",
            "mute",
            "window",
            "schedule",
        ],
    ),
    ("Projects and access", &["project", "key", "user", "audit"]),
    ("Jobs", &["run", "ping", "discover"]),
    (
        "Configuration as files",
        &["export", "diff", "apply", "schema", "import"],
    ),
    (
        "Backup",
        &["backup", "backups", "restore", "verify", "compact"],
    ),
    ("Other", &["completions", "man", "docs", "help"]),
];

/// Returns the command line with its commands in groups.
pub(super) fn with_groups(root: Command) -> Command {
    let mut list = String::new();
    for (group, names) in GROUPS {
        list.push_str(&format!("{group}:\n"));
        for name in names {
            let about = match root.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print this message or the help of a command".into(),
            };
            list.push_str(&entry(name, &about));
        }
        list.push('\n');
    }
    root.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}"
    ))
}

/// Returns the lines of a command.
fn entry(name: &str, about: &str) -> String {
    let mut text = String::new();
    let mut line = format!("  {name:<width$}", width = INDENT - 3);
    for word in about.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(INDENT - 1);
        }
        line.push(' ');
        line.push_str(word);
    }
    text + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        grouped.sort_unstable();
        let root = Cli::command();
        let mut all: Vec<_> = root
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .chain(["help"])
            .collect();
        all.sort_unstable();
        assert_eq!(grouped.into_iter().copied().collect::<Vec<_>>(), all);
    }

    #[test]
    fn help_lists_commands_under_their_groups() {
        let help = with_groups(Cli::command()).render_help().to_string();
        for part in [
            "\nServer:\n  serve        Run the server\n  status ",
            "\nBackup:\n  backup ",
            "\n  help         Print this message or the help of a command\n\nOptions:\n",
        ] {
            assert!(help.contains(part), "{part}: {help}");
        }
        let list = help.split("\nOptions:").next().unwrap();
        assert!(list.lines().all(|line| line.chars().count() <= WIDTH));
    }
}

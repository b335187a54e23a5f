//! Channels that run a command on the server.

use crate::domain::alert::AlertEvent;
use crate::domain::channel::shell_lint::lint_command;
use crate::domain::channel::{ChannelClass, ChannelKind, ChannelSettings, FieldType, SettingField};

pub(in crate::domain::channel) static SHELL: ChannelKind = ChannelKind {
    name: "shell",
    title: "Shell command",
    class: ChannelClass::Machine,
    fields: &[
        SettingField::optional(
            "down-command",
            FieldType::Template(10_000),
            "run by sh -c when a check goes down",
        ),
        SettingField::optional(
            "up-command",
            FieldType::Template(10_000),
            "run by sh -c when it is up again",
        ),
    ],
    operator_only: true,
    guide: "The server must be started with --allow-shell. NAME, STATUS, TAGS, \
            OVERDUE_ALERT_REASON and others are environment variables of the command, not \
            placeholders: write \"$NAME\" in double quotes, since single quotes prevent its \
            expansion. Standard input has all data of the event as JSON. The command must end \
            within 60 seconds. Exit status 75 means: try again later.",
    example: &[("down-command", "logger -t overdue \"$NAME is $STATUS\"")],
    validate: |settings| match settings.get("down-command").or(settings.get("up-command")) {
        None => Err("there is no command; give down-command=TEXT, up-command=TEXT or both"),
        Some(_) => Ok(()),
    },
    warnings,
    ignores_event: |settings, event| {
        settings
            .get(if event == AlertEvent::Up {
                "up-command"
            } else {
                "down-command"
            })
            .is_none()
            && event != AlertEvent::Test
    },
    ..ChannelKind::DEFAULTS
};

/// Returns variables that a command would not expand, and variables whose values it would execute.
fn warnings(settings: &ChannelSettings) -> Vec<String> {
    let commands = ["down-command", "up-command"]
        .into_iter()
        .filter_map(|key| Some((key, lint_command(settings.get(key)?))));
    let warnings = commands.flat_map(|(key, found)| {
        let unexpanded = found.unexpanded.into_iter().map(move |name| {
            format!(
                "{key}: ${name} is in single quotes, where the shell does not expand it; write \
                 \"${name}\" in double quotes"
            )
        });
        let run = found.executed.into_iter().map(move |name| {
            format!(
                "{key}: the value of ${name} is executed as code, and other people choose that \
                 value; pass it as data, as in sh -c 'logger \"${name}\"' with single quotes, or \
                 on standard input"
            )
        });
        unexpanded.chain(run)
    });
    warnings.collect()
}

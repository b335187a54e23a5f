//! Commands on this machine.

use crate::channels::kinds::shell_lint::lint_command;
use crate::channels::kinds::{KindDefinition, SendContext};
use crate::channels::send_step::{SendStep, ShellInvocation};
use crate::channels::template::{TemplateValues, environment_value};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelSettings, SettingField, SettingFieldType, Transport,
};
use crate::domain::flip::FlipCause;

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "shell",
        title: "Shell command",
        class: ChannelClass::Machine,
        transport: Transport::Command,
        fields: &[
            SettingField::optional(
                "down-command",
                SettingFieldType::Template(10_000),
                "run by sh -c when a check goes down",
            ),
            SettingField::optional(
                "up-command",
                SettingFieldType::Template(10_000),
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
    },
    has_plain_form: false,
    send,
    ..KindDefinition::DEFAULTS
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

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let keys = if alert.is_up() {
        ["up-command", "down-command"]
    } else {
        ["down-command", "up-command"]
    };
    let max_commands = if alert.event == AlertEvent::Test {
        2
    } else {
        1
    };
    let command = keys
        .into_iter()
        .take(max_commands)
        .find_map(|key| context.get(key));
    let (Some(command), Some(values)) =
        (command, TemplateValues::for_alert(alert, context.attempt))
    else {
        return Vec::new();
    };
    let alerted_check = alert.check.as_ref();
    let exit = match alerted_check.map(|alerted_check| alerted_check.cause) {
        Some(FlipCause::ExitStatus(status)) => status.to_string(),
        _ => String::new(),
    };
    let setting = |get: fn(&crate::domain::check::CheckSettings) -> &str| {
        alerted_check
            .map(|alerted_check| get(&alerted_check.facts.settings).to_owned())
            .unwrap_or_default()
    };
    let variables = [
        ("EVENT", alert.event.name().to_owned()),
        ("EVENT_ID", context.attempt.id.clone()),
        ("STATUS", alert.status().to_owned()),
        ("NAME", setting(|settings| settings.name.as_str())),
        ("SLUG", setting(|settings| settings.slug.as_str())),
        ("TAGS", setting(|settings| settings.tags.as_str())),
        (
            "PROJECT",
            alerted_check
                .map(|alerted_check| alerted_check.facts.project.clone())
                .unwrap_or_default(),
        ),
        ("REASON", alert.reason.clone()),
        ("EXIT_STATUS", exit),
        ("DOWNTIME", values.downtime_seconds().to_string()),
        ("TITLE", alert.title.clone()),
        ("TEXT", alert.summary.clone()),
        (
            "POSSIBLE_DUPLICATE",
            context.attempt.may_be_duplicate.to_string(),
        ),
    ];
    let alert_variables = variables
        .into_iter()
        .map(|(name, value)| (format!("OVERDUE_ALERT_{name}"), environment_value(&value)));
    vec![SendStep::Command(ShellInvocation {
        // No placeholders: the shell would parse a name or a tag, so that a user who names a check
        // could run commands.
        command: command.to_owned(),
        environment: values
            .environment_variables()
            .chain(alert_variables)
            .collect(),
        input: values.event_json().to_string().into_bytes(),
    })]
}

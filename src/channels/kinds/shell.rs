//! Commands on this machine.

use crate::channels::kinds::{ChannelSender, SendContext};
use crate::channels::send_step::{SendStep, ShellInvocation};
use crate::channels::template::{TemplateValues, environment_value};
use crate::domain::alert::AlertEvent;
use crate::domain::flip::FlipCause;

pub(super) const SHELL: ChannelSender = ChannelSender {
    name: "shell",
    has_plain_form: false,
    send,
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let alert = call.alert;
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
        .find_map(|key| call.get(key));
    let (Some(command), Some(values)) = (command, TemplateValues::for_alert(alert, call.attempt))
    else {
        return Vec::new();
    };
    let subject = alert.check.as_ref();
    let exit = match subject.map(|subject| subject.cause) {
        Some(FlipCause::ExitStatus(status)) => status.to_string(),
        _ => String::new(),
    };
    let setting = |get: fn(&crate::domain::check::CheckSettings) -> &str| {
        subject
            .map(|subject| get(&subject.facts.settings).to_owned())
            .unwrap_or_default()
    };
    let variables = [
        ("EVENT", alert.event.name().to_owned()),
        ("EVENT_ID", call.attempt.id.clone()),
        ("STATUS", alert.status().to_owned()),
        ("NAME", setting(|settings| settings.name.as_str())),
        ("SLUG", setting(|settings| settings.slug.as_str())),
        ("TAGS", setting(|settings| settings.tags.as_str())),
        (
            "PROJECT",
            subject
                .map(|subject| subject.facts.project.clone())
                .unwrap_or_default(),
        ),
        ("REASON", alert.reason.clone()),
        ("EXIT_STATUS", exit),
        ("DOWNTIME", values.downtime_seconds().to_string()),
        ("TITLE", alert.title.clone()),
        ("TEXT", alert.lead.clone()),
        (
            "POSSIBLE_DUPLICATE",
            call.attempt.may_be_duplicate.to_string(),
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

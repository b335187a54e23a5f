//! Commands on this machine.

use crate::channel::kinds::{Call, Sender};
use crate::channel::outgoing::{Shell, Step};
use crate::channel::template::{Values, variable};
use crate::domain::alert::Event;
use crate::domain::flip::Cause;

pub(super) const SHELL: Sender = Sender { name: "shell", has_plain_form: false, send, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let keys = if alert.is_up() { ["up-command", "down-command"] } else { ["down-command", "up-command"] };
    let tried = if alert.event == Event::Test { 2 } else { 1 };
    let command = keys.into_iter().take(tried).find_map(|key| call.get(key));
    let (Some(command), Some(values)) = (command, Values::of(alert, call.attempt)) else { return Vec::new() };
    let subject = alert.check.as_ref();
    let exit = match subject.map(|subject| subject.cause) {
        Some(Cause::Exit(status)) => status.to_string(),
        _ => String::new(),
    };
    let setting = |get: fn(&crate::domain::check::Settings) -> &str| {
        subject.map(|subject| get(&subject.facts.settings).to_owned()).unwrap_or_default()
    };
    let variables = [
        ("EVENT", alert.event.name().to_owned()),
        ("EVENT_ID", call.attempt.id.clone()),
        ("STATUS", alert.status().to_owned()),
        ("NAME", setting(|settings| settings.name.as_str())),
        ("SLUG", setting(|settings| settings.slug.as_str())),
        ("TAGS", setting(|settings| settings.tags.as_str())),
        ("PROJECT", subject.map(|subject| subject.facts.project.clone()).unwrap_or_default()),
        ("REASON", alert.reason.clone()),
        ("EXIT_STATUS", exit),
        ("DOWNTIME", values.downtime_seconds().to_string()),
        ("TITLE", alert.title.clone()),
        ("TEXT", alert.lead.clone()),
        ("POSSIBLE_DUPLICATE", call.attempt.doubtful.to_string()),
    ];
    let own = variables.into_iter().map(|(name, value)| (format!("OVERDUE_ALERT_{name}"), variable(&value)));
    vec![Step::Command(Shell {
        // Nothing is filled in: a name or a tag would be parsed by the shell, and whoever names a check could run commands.
        command: command.to_owned(),
        environment: values.variables().chain(own).collect(),
        input: values.event_json().to_string().into_bytes(),
    })]
}

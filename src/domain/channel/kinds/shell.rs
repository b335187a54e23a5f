//! Channels that run a command on the server.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, Class, Field, Form};

pub(in crate::domain::channel) static SHELL: ChannelKind = ChannelKind {
    name: "shell",
    title: "Shell command",
    class: Class::Machine,
    fields: &[
        Field::optional("down-command", Form::Template(10_000), "run by sh -c when a check goes down"),
        Field::optional("up-command", Form::Template(10_000), "run by sh -c when it is up again"),
    ],
    operators_only: true,
    guide: "The server must be started with --allow-shell. The command gets OVERDUE_ALERT_STATUS, OVERDUE_ALERT_NAME and others in its \
        environment and all there is to know as JSON on standard input; it has 60 seconds. Exit status 75 means: try again later.",
    example: &[("down-command", "logger -t overdue $STATUS")],
    rule: |settings| match settings.get("down-command").or(settings.get("up-command")) {
        None => Err("there is no command; give down-command=TEXT, up-command=TEXT or both"),
        Some(_) => Ok(()),
    },
    off: |settings, event| settings.get(if event == Event::Up { "up-command" } else { "down-command" }).is_none() && event != Event::Test,
    ..ChannelKind::BASE
};

//! Channels that publish to a topic of ntfy.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, ChannelSettings, Field, Form, shape};

pub(in crate::domain::channel) static NTFY: ChannelKind = ChannelKind {
    name: "ntfy",
    title: "ntfy",
    fields: &[
        Field::preset("url", Form::Url, "https://ntfy.sh", "server, without the topic"),
        Field::required("topic", Form::Line(64), "topic, which is also its password on a public server").shaped(shape::ntfy_topic),
        Field::optional("token", Form::Secret(200), "access token (tk_...)"),
        Field::optional("user", Form::Line(200), "user name, in place of a token"),
        Field::optional("password", Form::Secret(200), "its password"),
        Field::preset("priority", Form::Number(0, 5), "3", "1 to 5 for down; 0: do not send"),
        Field::preset("priority-up", Form::Number(0, 5), "3", "the same for up"),
        Field::optional("markdown", Form::Flag, "on: messages are Markdown, which apps for phones show as it is written; off if left out"),
    ],
    guide: "Make up a topic that nobody guesses, or make one on your own server, and subscribe to it in the app. On a server with \
        accounts: Account, Access tokens, Create access token.",
    example: &[("topic", "backups-x7Qm2")],
    rule,
    off: |settings, event| settings.number(if event == Event::Up { "priority-up" } else { "priority" }) == Some(0) && event != Event::Test,
    ..ChannelKind::BASE
};

fn rule(settings: &ChannelSettings) -> Result<(), &'static str> {
    let (token, user) = (settings.has_key("token"), settings.has_key("user"));
    match () {
        () if token && user => Err("there are a token and a user; give one of them"),
        () if user != settings.has_key("password") => Err("user and password belong together; give both or none"),
        () if settings.get("topic").is_some_and(|topic| topic.contains(['/', ',', '?', '#'])) => {
            Err("topic is a name, not a URL; give the server as url=URL and the name alone as topic")
        }
        () => Ok(()),
    }
}

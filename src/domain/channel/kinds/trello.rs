//! Channels that add a card to a list of Trello.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, Class, Field, Form, shape};

pub(in crate::domain::channel) static TRELLO: ChannelKind = ChannelKind {
    name: "trello",
    title: "Trello",
    class: Class::Machine,
    fields: &[
        Field::required("key", Form::Secret(100), "API key"),
        Field::required("token", Form::Secret(200), "token"),
        Field::required("list", Form::Line(64), "id of the list").shaped(shape::trello_list),
    ],
    guide: "At https://trello.com/power-ups/admin: New, API key; the link beside the key gives a token. The id of a list is in the \
        board's page with .json at the end of its URL.",
    example: &[("key", "abc"), ("token", "def"), ("list", "0123456789abcdef01234567")],
    off: |_, event| event == Event::Up,
    ..ChannelKind::BASE
};

//! `/kinds`: the tables of the kinds of channel, for programs that show forms.

use super::OwnCall;
use crate::domain::channel::{ChannelKind, Class, Field, Form, Need};
use crate::http::api::json::{Object, write_array, write_text};
use crate::wire::reply::{self, Fault, Reply};

pub(super) async fn list(call: &OwnCall<'_>) -> Result<Reply, Fault> {
    Ok(reply::json(call.door.outgoing.whole(false, || Ok(written())).await?))
}

fn written() -> String {
    let mut out = String::new();
    let mut object = Object::begin(&mut out);
    object.with("kinds", |out| write_array(out, ChannelKind::ALL, write_kind));
    object.end();
    out
}

fn write_kind(kind: &ChannelKind, out: &mut String) {
    let class = match kind.class {
        Class::People => "people",
        Class::Machine => "machine",
        Class::Incident => "incident",
        Class::Group => "group",
    };
    let mut object = Object::begin(out);
    object.text("name", kind.name).text("title", kind.title).text("class", class).text("guide", kind.guide);
    object.boolean("operators_only", kind.operators_only);
    object.with("fields", |out| write_array(out, kind.fields.iter().chain(kind.common_fields()), write_field));
    object.end();
}

fn write_field(field: &Field, out: &mut String) {
    let (need, default) = match field.need {
        Need::Required | Need::ToDeliver => ("required", None),
        Need::Optional => ("optional", None),
        Need::Default(value) => ("default", Some(value)),
        Need::Derived { words, .. } => ("derived", Some(words)),
    };
    let mut object = Object::begin(out);
    object.text("key", field.key);
    write_form(&mut object, &field.form);
    object.text("need", need).with("default", |out| match default {
        Some(text) => write_text(out, text),
        None => out.push_str("null"),
    });
    object.text("help", field.help).boolean("secret", field.is_secret()).boolean("operators_only", field.is_operators());
    object.end();
}

/// A word for the form, and how much it takes: bytes of texts, parts of lists, seconds of times, values of numbers.
fn write_form(object: &mut Object<'_>, form: &Form) {
    let (word, least, most) = match *form {
        Form::MailAddresses(most) => ("mail-addresses", Some(1), Some(most as i64)),
        Form::Phone => ("phone", None, None),
        Form::Url => ("url", None, None),
        Form::SecretUrl => ("secret-url", None, None),
        Form::Choice(_) => ("choice", None, None),
        Form::Flag => ("flag", None, None),
        Form::Number(least, most) => ("number", Some(least), Some(most)),
        Form::NumberOrOff(least, most) => ("number-or-off", Some(least), Some(most)),
        Form::Duration(least, most) => ("duration", Some(least), Some(most)),
        Form::Hours => ("hours", None, None),
        Form::Days => ("days", None, None),
        Form::Zone => ("zone", None, None),
        Form::Pin => ("pin", None, None),
        Form::Line(most) => ("line", Some(1), Some(most as i64)),
        Form::Secret(most) => ("secret", Some(1), Some(most as i64)),
        Form::List(most) => ("list", Some(1), Some(most as i64)),
        Form::Text(most) => ("text", None, Some(most as i64)),
        Form::Template(most) => ("template", None, Some(most as i64)),
        Form::Header => ("header", None, None),
        Form::Label => ("label", None, None),
    };
    object.text("form", word);
    if let Form::Choice(words) = form {
        object.with("choices", |out| write_array(out, *words, |word, out| write_text(out, word)));
    }
    for (name, number) in [("least", least), ("most", most)] {
        if let Some(number) = number {
            object.number(name, number);
        }
    }
}

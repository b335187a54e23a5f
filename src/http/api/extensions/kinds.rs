//! `/kinds`: tables of the kinds of channel, for programs that show forms.

use crate::channels;
use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, Requirement, SettingField};
use crate::http::api::ApiCall;
use crate::http::api::json::{JsonObject, write_array, write_string};
use crate::http::common::reply::{self, HttpError, HttpReply};

pub(crate) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    Ok(reply::json(
        call.server
            .response_writer
            .write_whole(false, || Ok(kinds_json()))
            .await?,
    ))
}

fn kinds_json() -> String {
    let mut out = String::new();
    let mut object = JsonObject::begin(&mut out);
    object.member("kinds", |out| {
        write_array(out, channels::all_kinds(), write_kind);
    });
    object.end();
    out
}

fn write_kind(kind: &ChannelKind, out: &mut String) {
    let class = match kind.class {
        ChannelClass::People => "people",
        ChannelClass::Machine => "machine",
        ChannelClass::Incident => "incident",
        ChannelClass::Group => "group",
    };
    let mut object = JsonObject::begin(out);
    object
        .text("name", kind.name)
        .text("title", kind.title)
        .text("class", class)
        .text("guide", kind.guide);
    object.boolean("operators_only", kind.operator_only);
    object.member("fields", |out| {
        write_array(
            out,
            kind.fields.iter().chain(kind.common_fields()),
            write_field,
        );
    });
    object.end();
}

fn write_field(field: &SettingField, out: &mut String) {
    let (need, default) = match field.requirement {
        Requirement::Required | Requirement::RequiredToDeliver => ("required", None),
        Requirement::Optional => ("optional", None),
        Requirement::Default(value) => ("default", Some(value)),
        Requirement::Derived {
            description: words, ..
        } => ("derived", Some(words)),
    };
    let mut object = JsonObject::begin(out);
    object.text("key", field.key);
    write_form(&mut object, &field.field_type);
    object
        .text("need", need)
        .member("default", |out| match default {
            Some(text) => write_string(out, text),
            None => out.push_str("null"),
        });
    object
        .text("help", field.help)
        .boolean("secret", field.is_secret())
        .boolean("operators_only", field.is_operator_only());
    object.end();
}

/// Writes the type of a field and its limits: bytes of texts, items of lists, seconds of times,
/// values of numbers.
fn write_form(object: &mut JsonObject<'_>, field_type: &FieldType) {
    let (word, least, most) = match *field_type {
        FieldType::MailAddresses(most) => ("mail-addresses", Some(1), Some(most as i64)),
        FieldType::PhoneNumber => ("phone", None, None),
        FieldType::Url => ("url", None, None),
        FieldType::SecretUrl => ("secret-url", None, None),
        FieldType::Choice(_) => ("choice", None, None),
        FieldType::Flag => ("flag", None, None),
        FieldType::Number(least, most) => ("number", Some(least), Some(most)),
        FieldType::NumberOrOff(least, most) => ("number-or-off", Some(least), Some(most)),
        FieldType::Duration(least, most) => ("duration", Some(least), Some(most)),
        FieldType::TimeRange => ("hours", None, None),
        FieldType::Weekdays => ("days", None, None),
        FieldType::TimeZone => ("zone", None, None),
        FieldType::CertificatePin => ("pin", None, None),
        FieldType::Line(most) => ("line", Some(1), Some(most as i64)),
        FieldType::Secret(most) => ("secret", Some(1), Some(most as i64)),
        FieldType::List(most) => ("list", Some(1), Some(most as i64)),
        FieldType::Text(most) => ("text", None, Some(most as i64)),
        FieldType::Template(most) => ("template", None, Some(most as i64)),
        FieldType::Header => ("header", None, None),
        FieldType::Label => ("label", None, None),
    };
    object.text("form", word);
    if let FieldType::Choice(words) = field_type {
        object.member("choices", |out| {
            write_array(out, *words, |word, out| write_string(out, word));
        });
    }
    for (name, number) in [("least", least), ("most", most)] {
        if let Some(number) = number {
            object.number(name, number);
        }
    }
}

//! `/kinds`: tables of the kinds of channel, for programs that show forms.

use crate::channels;
use crate::domain::channel::{
    ChannelClass, ChannelKind, Requirement, SettingField, SettingFieldType,
};
use crate::http::api::ApiCall;
use crate::http::api::json::{JsonObject, write_array, write_string};
use crate::http::common::reply::{self, HttpError, HttpReply};

pub(crate) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    Ok(reply::json(
        call.response_writer()
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
        .text("guide", &kind.instructions());
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
    write_field_type(&mut object, &field.field_type);
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
fn write_field_type(object: &mut JsonObject<'_>, field_type: &SettingFieldType) {
    let (word, least, most) = match *field_type {
        SettingFieldType::MailAddresses(most) => ("mail-addresses", Some(1), Some(most as i64)),
        SettingFieldType::PhoneNumber => ("phone", None, None),
        SettingFieldType::Url => ("url", None, None),
        SettingFieldType::SecretUrl => ("secret-url", None, None),
        SettingFieldType::Choice(_) => ("choice", None, None),
        SettingFieldType::Words(words) => ("words", Some(1), Some(words.len() as i64)),
        SettingFieldType::Flag => ("flag", None, None),
        SettingFieldType::Number(least, most) => ("number", Some(least), Some(most)),
        SettingFieldType::NumberOrOff(least, most) => ("number-or-off", Some(least), Some(most)),
        SettingFieldType::Duration(least, most) => ("duration", Some(least), Some(most)),
        SettingFieldType::TimeRange => ("hours", None, None),
        SettingFieldType::Weekdays => ("days", None, None),
        SettingFieldType::TimeZone => ("zone", None, None),
        SettingFieldType::CertificatePin => ("pin", None, None),
        SettingFieldType::Line(most) => ("line", Some(1), Some(most as i64)),
        SettingFieldType::Secret(most) => ("secret", Some(1), Some(most as i64)),
        SettingFieldType::List(most) => ("list", Some(1), Some(most as i64)),
        SettingFieldType::Text(most) => ("text", None, Some(most as i64)),
        SettingFieldType::Template(most) => ("template", None, Some(most as i64)),
        SettingFieldType::Header => ("header", None, None),
        SettingFieldType::Label => ("label", None, None),
    };
    object.text("form", word);
    if let SettingFieldType::Choice(words) | SettingFieldType::Words(words) = field_type {
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

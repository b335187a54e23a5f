//! `/channels`: channels with their settings and their health. Creates, changes, deletes, tests and
//! enables them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::timeout;
use uuid::Uuid;

use crate::channels;
use crate::domain::alert::{AlertEvent, RefusedRecipient};
use crate::domain::channel::{ChannelKind, ChannelSettings, SettingsAuthor, SettingsUpdate};
use crate::domain::ids::{ChannelId, write_uuid};
use crate::domain::project::{Channel, ChannelName};
use crate::domain::timestamp::Timestamp;
use crate::engine::ChannelTestResult;
use crate::engine::Handle;
use crate::http::api::ApiCall;
use crate::http::api::check_fields::{FieldError, FieldProblem, RequestDocument};
use crate::http::api::json::{JsonObject, write_array, write_string};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::operations::channel;
use crate::operations::channel::{ChannelStatus, TEST_TIMEOUT};
use crate::operations::delivery::last_delivered;

pub(crate) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    let handle = call.handle().clone();
    let project = call.caller.project;
    let body = call.response_writer().write_whole(false, move || {
        let channels: Vec<_> = handle.with_state(|state| {
            state
                .project(project)
                .into_iter()
                .flat_map(|project_state| project_state.channels.values().cloned())
                .collect()
        });
        let last = last_delivered(&handle, &channels)?;
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        object.member("channels", |out| {
            write_array(out, &channels, |channel, out| {
                write_channel(out, channel, &handle, &last);
            });
        });
        object.end();
        Ok(out)
    });
    Ok(reply::json(body.await?))
}

pub(crate) async fn get(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let channel = call.find_channel(uuid)?;
    channel_reply(call, channel).await
}

pub(crate) async fn create(call: &mut ApiCall<'_>) -> Result<HttpReply, HttpError> {
    let document = std::mem::take(&mut call.document);
    let (name, settings) = call
        .server
        .run_sized(call.body_length, call.owner(), move || {
            parse_new_channel(&document)
        })
        .await??;
    let project = call.caller.project;
    let author = SettingsAuthor::Api;
    let channel = channel::create(call.handle(), project, name, settings, author).await?;
    let mut out = String::new();
    write_channel(&mut out, &channel, call.handle(), &BTreeMap::new());
    Ok(reply::created_json(out))
}

pub(crate) async fn change(call: &mut ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let channel = call.find_channel(uuid)?;
    let document = std::mem::take(&mut call.document);
    let ChannelFields {
        kind,
        name,
        settings,
    } = call
        .server
        .run_sized(call.body_length, call.owner(), move || {
            ChannelFields::parse(&document)
        })
        .await??;
    if kind.is_some_and(|kind| kind != channel.settings.kind()) {
        let kind = channel.settings.kind().name;
        return Err(HttpError::BadRequest(
            format!(
                "the kind of the channel is {kind} and cannot be changed; create another channel"
            )
            .into(),
        ));
    }
    let settings = settings.map(SettingsUpdate::replace_all);
    let author = SettingsAuthor::Api;
    let channel = channel::update(call.handle(), channel.id, name, settings, author).await?;
    channel_reply(call, Arc::from(channel)).await
}

pub(crate) async fn delete(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let channel = call.find_channel(uuid)?;
    // The reply shows the channel as it was before it was deleted.
    let reply = channel_reply(call, Arc::clone(&channel)).await?;
    channel::delete(call.handle(), channel.id).await?;
    Ok(reply)
}

pub(crate) async fn enable(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let channel = call.find_channel(uuid)?;
    let channel = channel::enable(call.handle(), channel.id).await?;
    channel_reply(call, Arc::from(channel)).await
}

/// Sends a test, and waits for its result.
pub(crate) async fn test(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let channel = call.find_channel(uuid)?;
    let event = |word: &str| match word {
        "down" => Some(false),
        "up" => Some(true),
        _ => None,
    };
    let up = call.document.choice("event", event)?.unwrap_or(false);
    if !channel.settings.handles_event(AlertEvent::Test) {
        return Err(HttpError::BadRequest(
            "a group itself cannot be tested; test its channels".into(),
        ));
    }
    let result = call.handle().request_channel_test(channel.id, up)?;
    let result = timeout(TEST_TIMEOUT, result)
        .await
        .map_err(|_| HttpError::Unavailable)?;
    // No notifier runs, or the channel is gone.
    let ChannelTestResult {
        duration: took,
        status,
        error: failed,
        missed,
    } = result.map_err(|_| HttpError::Unavailable)?;
    let mut out = String::new();
    let mut object = JsonObject::begin(&mut out);
    object
        .boolean("delivered", failed.is_none())
        .number("millis", took.as_millis());
    object
        .member("status", |out| write_status(status, out))
        .member("error", |out| match failed.as_ref().or(missed.as_ref()) {
            Some(error) => write_string(out, error),
            None => out.push_str("null"),
        });
    object.end();
    Ok(reply::json(out))
}

/// Writes the status of a response; null if there was none, or the kind has no status.
pub(super) fn write_status(status: u16, out: &mut String) {
    match status {
        0 => out.push_str("null"),
        status => out.push_str(&status.to_string()),
    }
}

/// Fields of a channel in a request.
struct ChannelFields {
    kind: Option<&'static ChannelKind>,
    name: Option<ChannelName>,
    settings: Option<Vec<(String, String)>>,
}

impl ChannelFields {
    /// Parses all fields. If several are invalid, the error names the first in this order.
    fn parse(document: &RequestDocument) -> Result<Self, HttpError> {
        let kind = document.choice("kind", channels::find_kind)?;
        let name = document
            .string("name")?
            .map(|name| ChannelName::parse(&name))
            .transpose();
        let name = name.map_err(|reason| HttpError::BadRequest(reason.into()))?;
        Ok(Self {
            kind,
            name,
            settings: document.string_map("settings")?,
        })
    }
}

/// Parses the fields of a request to create a channel.
fn parse_new_channel(
    document: &RequestDocument,
) -> Result<(ChannelName, ChannelSettings), HttpError> {
    let ChannelFields {
        kind,
        name,
        settings,
    } = ChannelFields::parse(document)?;
    let kind = kind.ok_or(FieldError::Field("kind", FieldProblem::Missing))?;
    let settings = ChannelSettings::parse(kind, settings.unwrap_or_default())?;
    settings.validate_author(SettingsAuthor::Api)?;
    // An empty name is allowed.
    let name = name
        .map_or_else(|| ChannelName::parse(""), Ok)
        .map_err(|reason| HttpError::BadRequest(reason.into()))?;
    Ok((name, settings))
}

async fn channel_reply(call: &ApiCall<'_>, channel: Arc<Channel>) -> Result<HttpReply, HttpError> {
    let handle = call.handle().clone();
    let body = call.response_writer().write_whole(false, move || {
        let last = last_delivered(&handle, std::slice::from_ref(&channel))?;
        let mut out = String::new();
        write_channel(&mut out, &channel, &handle, &last);
        Ok(out)
    });
    Ok(reply::json(body.await?))
}

/// Writes a channel. All keys that may request it may write, so errors are shown in full.
fn write_channel(
    out: &mut String,
    channel: &Channel,
    handle: &Handle,
    last_delivered: &BTreeMap<ChannelId, Timestamp>,
) {
    let (status, waiting, shown) = handle.with_state(|state| {
        let status = ChannelStatus::compute(state, channel, handle.transports());
        (
            status,
            state.outbox.rows_of_channel(channel.id).count(),
            state.display_settings(channel).into_owned(),
        )
    });
    let mut object = JsonObject::begin(out);
    object
        .unescaped("id", |out| write_uuid(channel.uuid, out))
        .text("name", channel.name.as_str())
        .text("kind", channel.settings.kind().name);
    object.member("settings", |out| {
        let mut settings = JsonObject::begin(out);
        // No key contains a character that JSON escapes.
        for (key, value) in shown.masked() {
            settings.text(key, &value);
        }
        settings.end();
    });
    object.member("warnings", |out| {
        write_array(out, &channel.settings.warnings(), |warning, out| {
            write_string(out, warning);
        });
    });
    object.member("unsubscribed", |out| {
        write_array(out, &channel.health.unsubscribed, |recipient, out| {
            write_string(out, recipient);
        });
    });
    object.member("refused", |out| {
        write_array(out, &channel.health.refused, write_refused);
    });
    object
        .text("status", status.name())
        .member("last_error", |out| match status.reason(true).1 {
            Some(error) => write_string(out, error),
            None => out.push_str("null"),
        });
    object.unescaped_or_null(
        "failing_since",
        channel.health.failing.as_ref().map(|(since, _)| *since),
        Timestamp::write_rfc3339_secs,
    );
    object.unescaped_or_null(
        "last_delivered",
        last_delivered.get(&channel.id).copied(),
        Timestamp::write_rfc3339_secs,
    );
    object
        .number("waiting", waiting)
        .boolean("operator", channel.set_by_operator);
    object.end();
}

fn write_refused(refused: &RefusedRecipient, out: &mut String) {
    let mut object = JsonObject::begin(out);
    object
        .text("recipient", &refused.address)
        .unescaped("since", |out| refused.since.write_rfc3339_secs(out))
        .text("error", &refused.reason);
    object.end();
}

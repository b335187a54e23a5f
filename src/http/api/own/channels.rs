//! `/channels`: channels with their settings and their health; made, changed, removed, tested and enabled.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::timeout;
use uuid::Uuid;

use super::OwnCall;
use crate::domain::alert::{Event, RefusedRecipient};
use crate::domain::channel::{ChannelKind, ChannelSettings, GivenSettings, Maker};
use crate::domain::ids::{ChannelId, write_uuid};
use crate::domain::moment::Moment;
use crate::domain::project::{Channel, ChannelName};
use crate::engine::Handle;
use crate::engine::Tried;
use crate::engine::command::{Command, NewChannel, Outcome};
use crate::http::api::check_fields::{Document, FieldError, Problem};
use crate::http::api::json::{Object, write_array, write_text};
use crate::manage::channel::{ChannelStatus, TEST_TIME};
use crate::manage::delivery::last_delivered;
use crate::wire::reply::{self, Fault, Reply};

pub(super) async fn list(call: &OwnCall<'_>) -> Result<Reply, Fault> {
    let (handle, project) = (call.handle().clone(), call.caller.project);
    let body = call.door.outgoing.whole(false, move || {
        let channels: Vec<_> = handle.with_state(|state| {
            state.project(project).into_iter().flat_map(|project_state| project_state.channels.values().cloned()).collect()
        });
        let last = last_delivered(&handle, &channels)?;
        let mut out = String::new();
        let mut object = Object::begin(&mut out);
        object.with("channels", |out| write_array(out, &channels, |channel, out| write(out, channel, &handle, &last)));
        object.end();
        Ok(out)
    });
    Ok(reply::json(body.await?))
}

pub(super) async fn get(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let channel = call.channel(uuid)?;
    shown(call, channel).await
}

pub(super) async fn create(mut call: OwnCall<'_>) -> Result<Reply, Fault> {
    let document = std::mem::take(&mut call.document);
    let (name, settings) = call.door.work_on(call.length, move || new_channel(&document)).await??;
    let (uuid, project) = (call.handle().random().uuid(), call.caller.project);
    let channel = changed(&call, Command::CreateChannel(Box::new(NewChannel { uuid, project, name, settings, operator: false }))).await?;
    let mut out = String::new();
    write(&mut out, &channel, call.handle(), &BTreeMap::new());
    Ok(reply::created_json(out))
}

pub(super) async fn change(mut call: OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let channel = call.channel(uuid)?;
    let document = std::mem::take(&mut call.document);
    let Fields { kind, name, settings } = call.door.work_on(call.length, move || Fields::read(&document)).await??;
    if kind.is_some_and(|kind| kind != channel.settings.kind()) {
        let kind = channel.settings.kind().name;
        return Err(Fault::BadRequest(format!("the channel is of kind {kind} and stays so; make another channel").into()));
    }
    let settings = settings.map(GivenSettings::new);
    let channel = changed(&call, Command::SetChannel { channel: channel.id, name, settings, maker: Maker::Api }).await?;
    shown(&call, channel).await
}

pub(super) async fn delete(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let channel = call.channel(uuid)?;
    // As it was just before.
    let reply = shown(call, Arc::clone(&channel)).await?;
    call.handle().call(Command::DeleteChannel(channel.id)).await??;
    Ok(reply)
}

pub(super) async fn enable(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let channel = call.channel(uuid)?;
    let channel = changed(call, Command::EnableChannel(channel.id)).await?;
    shown(call, channel).await
}

/// Has a test sent, and waits for what comes of it.
pub(super) async fn test(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let channel = call.channel(uuid)?;
    let event = |word: &str| match word {
        "down" => Some(false),
        "up" => Some(true),
        _ => None,
    };
    let up = call.document.choice("event", event)?.unwrap_or(false);
    if !channel.settings.takes(Event::Test) {
        return Err(Fault::BadRequest("nothing is sent to a group itself; test the channels in it".into()));
    }
    let tried = call.handle().try_channel(channel.id, up)?;
    let tried = timeout(TEST_TIME, tried).await.map_err(|_| Fault::Unavailable)?;
    // Nobody sends any more, or the channel is gone.
    let Tried { took, status, failed, missed } = tried.map_err(|_| Fault::Unavailable)?;
    let mut out = String::new();
    let mut object = Object::begin(&mut out);
    object.boolean("delivered", failed.is_none()).number("millis", took.as_millis());
    object.with("status", |out| write_status(status, out)).with("error", |out| match failed.as_ref().or(missed.as_ref()) {
        Some(error) => write_text(out, error),
        None => out.push_str("null"),
    });
    object.end();
    Ok(reply::json(out))
}

/// The status of an answer; null: there was none, or the kind has no such thing.
pub(super) fn write_status(status: u16, out: &mut String) {
    match status {
        0 => out.push_str("null"),
        status => out.push_str(&status.to_string()),
    }
}

/// Has a command carried out that leaves a channel to show.
async fn changed(call: &OwnCall<'_>, command: Command) -> Result<Arc<Channel>, Fault> {
    match call.handle().call(command).await?? {
        Outcome::Channel(channel) => Ok(Arc::from(channel)),
        // No command of this file comes to anything else.
        _ => Err(Fault::Unavailable),
    }
}

/// What a request says of a channel.
struct Fields {
    kind: Option<&'static ChannelKind>,
    name: Option<ChannelName>,
    settings: Option<Vec<(String, String)>>,
}

impl Fields {
    /// Reads all of them. If several are wrong, the error names the first in this order.
    fn read(document: &Document) -> Result<Self, Fault> {
        let kind = document.choice("kind", ChannelKind::named)?;
        let name = document.string("name")?.map(|name| ChannelName::parse(&name)).transpose();
        let name = name.map_err(|reason| Fault::BadRequest(reason.into()))?;
        Ok(Self { kind, name, settings: document.strings("settings")? })
    }
}

/// What a request to make a channel asks for.
fn new_channel(document: &Document) -> Result<(ChannelName, ChannelSettings), Fault> {
    let Fields { kind, name, settings } = Fields::read(document)?;
    let kind = kind.ok_or(FieldError::Field("kind", Problem::Missing))?;
    let settings = ChannelSettings::parse(kind, settings.unwrap_or_default())?;
    settings.allowed_by(Maker::Api)?;
    // An empty name is a name.
    let name = name.map_or_else(|| ChannelName::parse(""), Ok).map_err(|reason| Fault::BadRequest(reason.into()))?;
    Ok((name, settings))
}

async fn shown(call: &OwnCall<'_>, channel: Arc<Channel>) -> Result<Reply, Fault> {
    let handle = call.handle().clone();
    let body = call.door.outgoing.whole(false, move || {
        let last = last_delivered(&handle, std::slice::from_ref(&channel))?;
        let mut out = String::new();
        write(&mut out, &channel, &handle, &last);
        Ok(out)
    });
    Ok(reply::json(body.await?))
}

/// Writes a channel. All keys that may ask for it may write, and are shown errors whole.
fn write(out: &mut String, channel: &Channel, handle: &Handle, last_delivered: &BTreeMap<ChannelId, Moment>) {
    let (status, waiting, shown) = handle.with_state(|state| {
        let status = ChannelStatus::of(state, channel, handle.transports());
        (status, state.outbox.of_channel(channel.id).count(), state.shown_settings(channel).into_owned())
    });
    let mut object = Object::begin(out);
    object.plain("id", |out| write_uuid(channel.uuid, out)).text("name", channel.name.as_str()).text("kind", channel.settings.kind().name);
    object.with("settings", |out| {
        let mut settings = Object::begin(out);
        // No key has a character that JSON escapes.
        for (key, value) in shown.masked() {
            settings.text(key, &value);
        }
        settings.end();
    });
    object.with("warnings", |out| write_array(out, &channel.settings.warnings(), |warning, out| write_text(out, warning)));
    object.with("unsubscribed", |out| write_array(out, &channel.health.unsubscribed, |recipient, out| write_text(out, recipient)));
    object.with("refused", |out| write_array(out, &channel.health.refused, write_refused));
    object.text("status", status.name()).with("last_error", |out| match status.reason(true).1 {
        Some(error) => write_text(out, error),
        None => out.push_str("null"),
    });
    object.plain_or_null("failing_since", channel.health.failing.as_ref().map(|(since, _)| *since), Moment::write_seconds);
    object.plain_or_null("last_delivered", last_delivered.get(&channel.id).copied(), Moment::write_seconds);
    object.number("waiting", waiting).boolean("operator", channel.operator);
    object.end();
}

fn write_refused(refused: &RefusedRecipient, out: &mut String) {
    let mut object = Object::begin(out);
    object.text("recipient", &refused.address).plain("since", |out| refused.since.write_seconds(out)).text("error", &refused.reason);
    object.end();
}

//! `/windows`: maintenance windows, made, shown and removed.

use std::sync::Arc;

use uuid::Uuid;

use super::OwnCall;
use crate::domain::ids::write_uuid;
use crate::domain::moment::Moment;
use crate::domain::text::{Name, Tags};
use crate::domain::window::{GivenTimes, Window, WindowTimes};
use crate::engine::command::{Command, NewWindow, Outcome};
use crate::http::api::json::{Object, write_array, write_display, write_text};
use crate::wire::reply::{self, Fault, Reply};

pub(super) fn list(call: &OwnCall<'_>) -> Reply {
    let windows = call
        .handle()
        .with_state(|state| state.project(call.caller.project).map(|found| found.windows.values().cloned().collect::<Vec<_>>()));
    let mut out = String::new();
    let mut object = Object::begin(&mut out);
    object.with("windows", |out| write_array(out, windows.iter().flatten(), |window, out| write(out, window, call.now)));
    object.end();
    reply::json(out)
}

pub(super) fn get(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    Ok(reply::json(written(&*found(call, uuid)?, call.now)))
}

/// `minutes` alone is a window from now on.
pub(super) async fn create(call: &OwnCall<'_>) -> Result<Reply, Fault> {
    let document = &call.document;
    let name = document.text("name", Name::parse)?.unwrap_or_default();
    let tags = document.text("tags", Tags::parse)?.unwrap_or_default();
    let times = GivenTimes {
        from: document.string("from")?,
        to: document.string("to")?,
        schedule: document.string("schedule")?,
        minutes: document.whole("minutes")?,
        tz: document.string("tz")?,
    };
    let times = times.read(call.now).map_err(|error| Fault::BadRequest(error.to_string().into()))?;
    let (uuid, project) = (call.handle().random().uuid(), call.caller.project);
    match call.handle().call(Command::CreateWindow(Box::new(NewWindow { uuid, project, name, tags, times }))).await?? {
        Outcome::Window(window) => Ok(reply::created_json(written(&window, call.now))),
        // That command comes to nothing else.
        _ => Err(Fault::Unavailable),
    }
}

/// Answers it as it was.
pub(super) async fn delete(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let window = found(call, uuid)?;
    call.handle().call(Command::DeleteWindow(window.project, window.id)).await??;
    Ok(reply::json(written(&window, call.now)))
}

fn found(call: &OwnCall<'_>, uuid: Uuid) -> Result<Arc<Window>, Fault> {
    call.handle().with_state(|state| {
        let mut windows = state.project(call.caller.project).into_iter().flat_map(|project_state| project_state.windows.values());
        windows.find(|window| window.uuid == uuid).map(Arc::clone).ok_or(Fault::NotFound)
    })
}

fn written(window: &Window, now: Moment) -> String {
    let mut out = String::new();
    write(&mut out, window, now);
    out
}

fn write(out: &mut String, window: &Window, now: Moment) {
    let (once, recurring) = match &window.times {
        WindowTimes::Once { from, to } => (Some((*from, *to)), None),
        WindowTimes::Recurring { schedule, tz, minutes } => (None, Some((schedule, tz, *minutes))),
    };
    let mut object = Object::begin(out);
    object.plain("id", |out| write_uuid(window.uuid, out)).text("name", window.name.as_str()).text("tags", window.tags.as_str());
    object.plain_or_null("from", once.map(|(from, _)| from), Moment::write_seconds);
    object.plain_or_null("to", once.map(|(_, to)| to), Moment::write_seconds);
    object.with("schedule", |out| or_null(out, recurring, |(schedule, ..), out| write_text(out, schedule.text())));
    object.with("minutes", |out| or_null(out, recurring, |(.., minutes), out| write_display(minutes, out)));
    object.with("tz", |out| or_null(out, recurring, |(_, tz, _), out| write_text(out, tz.name())));
    object.plain_or_null("until", window.open_until(now), Moment::write_seconds);
    object.end();
}

fn or_null<T>(out: &mut String, value: Option<T>, write: impl FnOnce(T, &mut String)) {
    match value {
        Some(value) => write(value, out),
        None => out.push_str("null"),
    }
}

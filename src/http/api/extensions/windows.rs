//! `/windows`: creates, shows and deletes maintenance windows.

use std::sync::Arc;

use uuid::Uuid;

use crate::domain::ids::write_uuid;
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimes, WindowTimesInput};
use crate::domain::text::{Name, Tags};
use crate::domain::timestamp::Timestamp;
use crate::http::api::ApiCall;
use crate::http::api::json::{JsonObject, write_array, write_display, write_string};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::operations::window;

pub(crate) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    let windows = call.handle().with_state(|state| {
        state
            .project(call.caller.project)
            .map(|found| found.windows.values().cloned().collect::<Vec<_>>())
    });
    let mut out = String::new();
    let mut object = JsonObject::begin(&mut out);
    object.member("windows", |out| {
        write_array(out, windows.iter().flatten(), |window, out| {
            write_window(out, window, call.now);
        });
    });
    object.end();
    Ok(reply::json(out))
}

pub(crate) async fn get(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    Ok(reply::json(window_json(
        &*find_window(call, uuid)?,
        call.now,
    )))
}

/// Creates a window. With `minutes` alone it begins now.
pub(crate) async fn create(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    let document = &call.document;
    let name = document
        .parsed_string("name", Name::parse)?
        .unwrap_or_default();
    let tags = document
        .parsed_string("tags", Tags::parse)?
        .unwrap_or_default();
    let times = WindowTimesInput {
        from: document.string("from")?,
        to: document.string("to")?,
        schedule: document.string("schedule")?,
        minutes: document.unsigned("minutes")?,
        tz: document.string("tz")?,
    };
    let handle = call.handle();
    let window = window::create(handle, call.caller.project, name, tags, times).await?;
    Ok(reply::created_json(window_json(&window, handle.now())))
}

/// Deletes a window. The reply shows it as it was.
pub(crate) async fn delete(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let window = find_window(call, uuid)?;
    window::delete(call.handle(), &window).await?;
    Ok(reply::json(window_json(&window, call.now)))
}

fn find_window(call: &ApiCall<'_>, uuid: Uuid) -> Result<Arc<MaintenanceWindow>, HttpError> {
    call.handle().with_state(|state| {
        let mut windows = state
            .project(call.caller.project)
            .into_iter()
            .flat_map(|project_state| project_state.windows.values());
        windows
            .find(|window| window.uuid == uuid)
            .map(Arc::clone)
            .ok_or(HttpError::NotFound)
    })
}

fn window_json(window: &MaintenanceWindow, now: Timestamp) -> String {
    let mut out = String::new();
    write_window(&mut out, window, now);
    out
}

fn write_window(out: &mut String, window: &MaintenanceWindow, now: Timestamp) {
    let (once, recurring) = match &window.times {
        WindowTimes::Once { from, to } => (Some((*from, *to)), None),
        WindowTimes::Recurring {
            schedule,
            tz,
            minutes,
        } => (None, Some((schedule, tz, *minutes))),
    };
    let mut object = JsonObject::begin(out);
    object
        .unescaped("id", |out| write_uuid(window.uuid, out))
        .text("name", window.name.as_str())
        .text("tags", window.tags.as_str());
    object.unescaped_or_null(
        "from",
        once.map(|(from, _)| from),
        Timestamp::write_rfc3339_secs,
    );
    object.unescaped_or_null("to", once.map(|(_, to)| to), Timestamp::write_rfc3339_secs);
    object.member("schedule", |out| {
        write_or_null(out, recurring, |(schedule, ..), out| {
            write_string(out, schedule.text());
        });
    });
    object.member("minutes", |out| {
        write_or_null(out, recurring, |(.., minutes), out| {
            write_display(minutes, out);
        });
    });
    object.member("tz", |out| {
        write_or_null(out, recurring, |(_, tz, _), out| {
            write_string(out, tz.name());
        });
    });
    object.unescaped_or_null(
        "until",
        window.open_until(now),
        Timestamp::write_rfc3339_secs,
    );
    object.end();
}

fn write_or_null<T>(out: &mut String, value: Option<T>, write: impl FnOnce(T, &mut String)) {
    match value {
        Some(value) => write(value, out),
        None => out.push_str("null"),
    }
}

//! Maintenance windows as rows.

use super::format_timestamp;
use crate::admin::request::AdminReply;
use crate::admin::request::window::WindowRow;
use crate::domain::ids::ProjectId;
use crate::domain::maintenance_window::WindowTimes;
use crate::engine::Handle;
use crate::operations;

/// Lists the windows of a project or of all.
pub(super) fn list(handle: &Handle, project: Option<ProjectId>) -> AdminReply {
    let now = handle.now();
    let rows = operations::window::list(handle, project)
        .into_iter()
        .map(|(project, window)| {
            let (once, recurring) = match &window.times {
                WindowTimes::Once { from, to } => (Some((*from, *to)), None),
                WindowTimes::Recurring {
                    schedule,
                    tz,
                    minutes,
                } => (None, Some((schedule, tz, *minutes))),
            };
            WindowRow {
                uuid: window.uuid,
                project: project.name.as_str().into(),
                name: window.name.as_str().into(),
                tags: window.tags.as_str().into(),
                from: once.map(|(from, _)| format_timestamp(from)),
                to: once.map(|(_, to)| format_timestamp(to)),
                schedule: recurring.map(|(schedule, ..)| schedule.text().into()),
                minutes: recurring.map(|(.., minutes)| minutes),
                tz: recurring.map(|(_, tz, _)| tz.name().into()),
                until: window.open_until(now).map(format_timestamp),
            }
        });
    AdminReply::Windows(rows.collect())
}

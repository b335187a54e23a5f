//! Pages of a check: its status with the explanation, its log, and its settings.

mod actions;
mod compare_runs;
mod delete;
mod edit;
mod form_fields;
mod form_parts;
pub(super) mod history;
mod keyword_preview;
mod log;
mod log_entries;
mod notifications;
mod overview;
mod parent_names;
mod ping_details;
mod plot;
mod schedule_preview;
mod timeline;
mod unique_key_redirect;

use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_routes::Page;
use crate::channels::alert_text;
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::formatting::TimeFormatter;
use crate::domain::timezone::Timezone;

pub(super) use actions::{copy, pause, ping, resume, set_channels, set_zone};
pub(super) use compare_runs::show as show_comparison;
pub(super) use delete::{delete_check, show as show_delete};
pub(super) use edit::{show_add, show_edit, submit_new_check, update_check};
pub(super) use log::show as show_log;
pub(super) use overview::show as show_detail;
pub(super) use ping_details::{download_body as show_body, show as show_ping};
pub(super) use schedule_preview::show as show_preview;
pub(super) use unique_key_redirect::redirect_from_key;

/// Header of each page of a check.
struct CheckHeader {
    name: String,
    /// URL of the list of its project.
    list: String,
    /// URL of its overview page.
    page_url: String,
}

impl CheckHeader {
    fn new(request: &PageRequest) -> Result<Self, PageError> {
        let check = request.check()?;
        Ok(Self {
            name: alert_text::check_display_name(&check.settings),
            list: request
                .list_return()
                .list_url(&request.page_url(&Page::Checks(request.project()?.uuid))),
            page_url: request.page_url_with_return(&Page::Check(check.uuid)),
        })
    }
}

/// Time zone for times of a check: that of its schedule, otherwise that of the viewer.
fn display_zone<'a>(check: &'a Check, request: &'a PageRequest) -> &'a Timezone {
    if check.settings.schedule.is_some() {
        &check.settings.tz
    } else {
        &request.viewer.zone
    }
}

/// Formatter for times of a check.
fn check_time_formatter<'a>(check: &'a Check, request: &'a PageRequest) -> TimeFormatter<'a> {
    TimeFormatter {
        now: request.now,
        zone: display_zone(check, request),
    }
}

/// Flips of a check that pages show, newest first.
fn recent_flips(request: &PageRequest, check: &Check) -> Result<Vec<Flip>, PageError> {
    Ok(history::recent_flips(request.handle(), check, request.now)?)
}

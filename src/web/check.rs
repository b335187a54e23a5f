//! The pages of a check: how it is and why, what it has logged, and its settings.

mod actions;
mod cloaked;
mod delete;
mod edit;
mod form_fields;
mod history;
mod keyword_preview;
mod log;
mod log_entries;
mod notifications;
mod overview;
mod parent_names;
mod ping_details;
mod plot;
mod schedule_preview;

use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_routes::Page;
use crate::channel::alert_text;
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::formatting::TimeFormatter;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::uptime::MAX_FLIPS;

pub(super) use actions::{copy, pause, ping, resume, set_channels, set_zone};
pub(super) use cloaked::redirect_from_key;
pub(super) use delete::{delete_check, show as show_remove};
pub(super) use edit::{show_add, show_edit, submit_new_check, update_check};
pub(super) use log::show as show_log;
pub(super) use overview::show as show_detail;
pub(super) use ping_details::{download_body as show_body, show as show_ping};
pub(super) use schedule_preview::show as show_preview;

/// Months beside that of now whose flips are kept.
const FLIP_MONTHS: i64 = 2;

/// What stands at the top of each page of a check.
struct CheckHeader {
    name: String,
    /// The list of its project.
    list: String,
    /// Its own page.
    here: String,
}

impl CheckHeader {
    fn new(visit: &PageRequest) -> Result<Self, PageError> {
        let check = visit.check()?;
        Ok(Self {
            name: alert_text::check_display_name(&check.settings),
            list: visit.list_return().list_url(&visit.page_url(&Page::Checks(visit.project()?.uuid))),
            here: visit.page_url_with_return(&Page::Check(check.uuid)),
        })
    }
}

/// The zone in which times of a check are told: that of its schedule, or the viewer's.
fn display_zone<'a>(check: &'a Check, visit: &'a PageRequest) -> &'a Timezone {
    if check.settings.schedule.is_some() { &check.settings.tz } else { &visit.viewer.zone }
}

/// The clock by which a check is told about.
fn check_time_formatter<'a>(check: &'a Check, visit: &'a PageRequest) -> TimeFormatter<'a> {
    TimeFormatter { now: visit.now, zone: display_zone(check, visit) }
}

/// The flips of a check that pages show, newest first.
fn recent_flips(visit: &PageRequest, check: &Check) -> Result<Vec<Flip>, PageError> {
    // The first of a month begins up to half a day earlier in some zones.
    let from: Timestamp = visit.now.start_of_month(FLIP_MONTHS).plus_secs(-86_400);
    Ok(visit.handle().newest_flips(check, from, MAX_FLIPS)?)
}

//! The pages of a check: how it is and why, what it has logged, and its settings.

mod actions;
mod cloaked;
mod detail;
mod edit;
mod entries;
mod fields;
mod history;
mod log;
mod matches;
mod one_ping;
mod parents;
mod plot;
mod preview;
mod remove;
mod told;

use super::error::Trouble;
use super::route::Page;
use super::visit::Visit;
use crate::channel::words;
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::moment::Moment;
use crate::domain::timezone::Timezone;
use crate::domain::uptime::MOST_FLIPS;
use crate::domain::words::Times;

pub(super) use actions::{copy, pause, ping, resume, set_channels, set_zone};
pub(super) use cloaked::find;
pub(super) use detail::show as show_detail;
pub(super) use edit::{add, save, show_add, show_edit};
pub(super) use log::show as show_log;
pub(super) use one_ping::{body as show_body, show as show_ping};
pub(super) use preview::show as show_preview;
pub(super) use remove::{remove, show as show_remove};

/// Months beside that of now whose flips are kept.
const FLIP_MONTHS: i64 = 2;

/// What stands at the top of each page of a check.
struct Top {
    name: String,
    /// The list of its project.
    list: String,
    /// Its own page.
    here: String,
}

impl Top {
    fn of(visit: &Visit) -> Result<Self, Trouble> {
        let check = visit.check()?;
        Ok(Self {
            name: words::name(&check.settings),
            list: visit.back().list(&visit.link(&Page::Checks(visit.project()?.uuid))),
            here: visit.onward(&Page::Check(check.uuid)),
        })
    }
}

/// The zone in which times of a check are told: that of its schedule, or the viewer's.
fn zone_of<'a>(check: &'a Check, visit: &'a Visit) -> &'a Timezone {
    if check.settings.schedule.is_some() { &check.settings.tz } else { &visit.viewer.zone }
}

/// The clock by which a check is told about.
fn times_of<'a>(check: &'a Check, visit: &'a Visit) -> Times<'a> {
    Times { now: visit.now, zone: zone_of(check, visit) }
}

/// The flips of a check that pages show, newest first.
fn flips(visit: &Visit, check: &Check) -> Result<Vec<Flip>, Trouble> {
    // The first of a month begins up to half a day earlier in some zones.
    let from: Moment = visit.now.start_of_month(FLIP_MONTHS).plus_secs(-86_400);
    Ok(visit.handle().newest_flips(check, from, MOST_FLIPS)?)
}

//! What the checks of a Healthchecks are here: settings through the parsers that the API has, status and times as they stand.

use std::sync::Arc;

use crate::domain::check::{CheckState, Filters, Run, Settings};
use crate::domain::given;
use crate::domain::imported::ImportedCheck;
use crate::domain::moment::{MICROS, Moment};
use crate::domain::schedule::{Kind, Schedule};
use crate::domain::status::Status;
use crate::domain::text::{Description, Keywords, Name, Seconds, Slug, Tags};
use crate::domain::timezone::Timezone;
use crate::import::Options;
use crate::import::rows::{Complaint, Row};

use super::log::status;

/// A check as it stands in its row. What its log says of it comes later.
pub(super) struct ReadCheck {
    pub(super) check: ImportedCheck,
    /// A time of it lay in the future.
    pub(super) is_changed: bool,
    /// Remarks for the report.
    pub(super) notes: Vec<&'static str>,
}

/// What people call a check: its name, its slug or its UUID.
pub(super) fn called(row: &Row) -> Result<String, Complaint> {
    let named = [row.text("name")?, row.text("slug")?].into_iter().find(|text| !text.is_empty()).map(str::to_owned);
    named.map_or_else(|| row.need("code", row.uuid("code")).map(|uuid| uuid.to_string()), Ok)
}

/// Whether somebody means it by this word.
pub(super) fn is_meant(row: &Row, word: &str) -> Result<bool, Complaint> {
    let uuid = row.need("code", row.uuid("code"))?.to_string();
    Ok([row.text("name")?, row.text("slug")?, &uuid].contains(&word))
}

/// Reads a row of the table of checks. A complaint names the way out.
pub(super) fn check(row: &Row, options: &Options, now: Moment) -> Result<ReadCheck, Complaint> {
    let read = || {
        let mut notes = Vec::new();
        let settings = settings(row, options, &mut notes)?;
        let created = row.need("created", row.moment("created"))?;
        let (state, is_changed) = state(row, created, &settings, now, &mut notes)?;
        let uuid = row.need("code", row.uuid("code"))?;
        let badge = row.uuid("badge_key")?;
        let created = created.min(now);
        let (channels, parents, behind, managed) = (Box::default(), Box::default(), None, None);
        let check = ImportedCheck { uuid, badge, created, settings, channels, parents, state, behind, managed };
        Ok(ReadCheck { check, is_changed, notes })
    };
    let name = called(row)?;
    read().map_err(|complaint: Complaint| complaint.of(&name).or_skip())
}

fn settings(row: &Row, options: &Options, notes: &mut Vec<&'static str>) -> Result<Settings, Complaint> {
    // Stored texts may be over the limits of today.
    let name = Name::stored(row.text("name")?);
    // Releases before 2021 had no slugs, and the next one made them so.
    let slug = match row.has("slug") {
        true => Slug::stored(row.text("slug")?),
        false => Slug::derived(&name),
    };
    let mut seconds = |column: &'static str, default: Seconds| {
        let Some(micros) = row.micros(column)? else { return Ok(default) };
        let nearest = Seconds::nearest(micros / MICROS);
        if nearest.get().checked_mul(MICROS) != Some(micros) {
            notes.push("with a period or grace that checks do not have here: it becomes the nearest one");
        }
        Ok(nearest)
    };
    let (timeout, grace) = (seconds("timeout", Seconds::DAY)?, seconds("grace", Seconds::HOUR)?);
    let (success_kw, failure_kw) = (first(row, &["success_kw", "subject"])?, first(row, &["failure_kw", "subject_fail"])?);
    let [start_kw, success_kw, failure_kw] = [row.text("start_kw")?, success_kw, failure_kw].map(Keywords::stored);
    let fit = name.fits() && slug.fits() && [&start_kw, &success_kw, &failure_kw].into_iter().all(Keywords::fits);
    if !fit {
        notes.push("with a name, slug or words that are over a limit of today: they are kept");
    }
    let flag = |column: &str| Ok(row.flag(column)?.unwrap_or(false));
    // Before there was a flag, keywords alone turned the search in subjects on.
    let has_keywords = !success_kw.is_empty() || !failure_kw.is_empty();
    let subject = row.flag("filter_subject")?.unwrap_or(has_keywords);
    let post_only = match row.text("methods")? {
        "" => false,
        "POST" => true,
        _ => return Err(row.wrong("methods is neither empty nor POST")),
    };
    Ok(Settings {
        name,
        slug,
        tags: Tags::stored(row.text("tags")?),
        desc: Description::stored(row.text("desc")?),
        timeout,
        grace,
        schedule: schedule(row)?,
        tz: zone(row, options)?,
        manual_resume: flag("manual_resume")?,
        post_only,
        start_kw,
        success_kw,
        failure_kw,
        filters: Filters {
            subject,
            body: flag("filter_body")?,
            http_body: flag("filter_http_body")?,
            default_fail: flag("filter_default_fail")?,
        },
        ..Settings::default()
    })
}

/// The text of the first column that there is.
fn first<'a>(row: &'a Row, columns: &[&str]) -> Result<&'a str, Complaint> {
    columns.iter().find(|column| row.has(column)).map_or(Ok(""), |column| row.text(column))
}

fn schedule(row: &Row) -> Result<Option<Arc<Schedule>>, Complaint> {
    let wanted = match row.text("kind")? {
        "simple" => return Ok(None),
        "cron" => Kind::Cron,
        "oncalendar" => Kind::OnCalendar,
        kind => return Err(row.wrong(format!("kind {kind:?} is unknown"))),
    };
    let refused = |problem: &str| row.wrong(format!("schedule: {problem}; leave the check behind with --skip, or change it there"));
    let schedule = given::schedule(row.text("schedule")?).map_err(|problem| refused(&problem))?;
    if schedule.kind() == wanted { Ok(Some(schedule)) } else { Err(refused("it is of the other kind here")) }
}

fn zone(row: &Row, options: &Options) -> Result<Timezone, Complaint> {
    let name = match row.text("tz")? {
        "" => "UTC",
        name => name,
    };
    if let Some((_, zone)) = options.zones.iter().find(|(old, _)| old == name) {
        return Ok(zone.clone());
    }
    Timezone::parse(name).map_err(|error| row.wrong(format!("tz {name:?} is {error}; say --tz {name}=NEW, or --skip the check")))
}

/// What has become of it, and whether times had to be changed for that.
fn state(
    row: &Row,
    created: Moment,
    settings: &Settings,
    now: Moment,
    notes: &mut Vec<&'static str>,
) -> Result<(CheckState, bool), Complaint> {
    let is_future = std::cell::Cell::new(created > now);
    let past = |at: Moment| {
        is_future.set(is_future.get() || at > now);
        at.min(now)
    };
    let mut state = CheckState::new(created.min(now));
    state.status = status(row.text("status")?).ok_or_else(|| row.wrong("status is none of new, up, down, paused"))?;
    state.last_ping = row.moment("last_ping")?.map(past);
    let rid = row.uuid("last_start_rid")?;
    state.run = row.moment("last_start")?.map(|start| Run { start: past(start), rid });
    state.last_duration = row.micros("last_duration")?.filter(|micros| *micros >= 0);
    let n_pings = row.integer("n_pings")?.unwrap_or(0);
    // Its column is an integer of 32 bits.
    state.n_pings = u32::try_from(n_pings).map_err(|_| row.wrong("n_pings is negative or too large"))?.into();
    if state.status == Status::Up && state.last_ping.is_none() {
        notes.push("up without a ping: they are new");
        state.status = Status::New;
    }
    state.failures = u16::from(state.status == Status::Down);
    state.expect(settings);
    Ok((state, is_future.get()))
}

#[cfg(test)]
mod tests;

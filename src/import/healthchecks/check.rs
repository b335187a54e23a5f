//! Conversion of checks: settings with the parsers of the API, status and times unchanged.

use std::sync::Arc;

use crate::domain::check::{CheckSettings, CheckState, KeywordFilters, OngoingRun};
use crate::domain::check_input;
use crate::domain::import_contents::ImportedCheck;
use crate::domain::number::Seconds;
use crate::domain::schedule::{Schedule, ScheduleKind};
use crate::domain::status::Status;
use crate::domain::text::{Description, Keywords, Name, Slug, Tags};
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::domain::timezone::Timezone;
use crate::import::ImportOptions;
use crate::import::source_row::{RowError, SourceRow};

use super::log::parse_status;

/// A converted check, without the facts from its log.
pub(super) struct ConvertedCheck {
    pub(super) check: ImportedCheck,
    /// True if a time was in the future.
    pub(super) has_adjusted_times: bool,
    /// Notes for the report.
    pub(super) notes: Vec<&'static str>,
}

/// Returns the display name of a check: its name, its slug or its UUID.
pub(super) fn display_name(row: &SourceRow) -> Result<String, RowError> {
    let identifiers = [row.text("name")?, row.text("slug")?]
        .into_iter()
        .find(|text| !text.is_empty())
        .map(str::to_owned);
    identifiers.map_or_else(
        || {
            row.require("code", row.uuid("code"))
                .map(|uuid| uuid.to_string())
        },
        Ok,
    )
}

/// True if the word is the name, the slug or the UUID of the check.
pub(super) fn matches_identifier(row: &SourceRow, word: &str) -> Result<bool, RowError> {
    let uuid = row.require("code", row.uuid("code"))?.to_string();
    Ok([row.text("name")?, row.text("slug")?, &uuid].contains(&word))
}

/// Converts a row of the table of checks. Errors include a hint about `--skip`.
pub(super) fn convert_check(
    row: &SourceRow,
    options: &ImportOptions,
    now: Timestamp,
) -> Result<ConvertedCheck, RowError> {
    let read = || {
        let mut notes = Vec::new();
        let settings = read_settings(row, options, &mut notes)?;
        let created = row.require("created", row.timestamp("created"))?;
        let (state, is_changed) = read_state(row, created, &settings, now, &mut notes)?;
        let uuid = row.require("code", row.uuid("code"))?;
        let badge = row.uuid("badge_key")?;
        let created = created.min(now);
        let channels = Box::default();
        let parents = Box::default();
        let down_parent = None;
        let managed = None;
        let check = ImportedCheck {
            uuid,
            badge,
            created,
            settings,
            channels,
            parents,
            state,
            down_parent,
            managed_by: managed,
        };
        Ok(ConvertedCheck {
            check,
            has_adjusted_times: is_changed,
            notes,
        })
    };
    let name = display_name(row)?;
    read().map_err(|error: RowError| error.with_name(&name).with_skip_hint())
}

fn read_settings(
    row: &SourceRow,
    options: &ImportOptions,
    notes: &mut Vec<&'static str>,
) -> Result<CheckSettings, RowError> {
    // Stored texts may exceed the current limits.
    let name = Name::from_stored(row.text("name")?);
    // Releases before 2021 had no slugs. The next release derived them like this.
    let slug = match row.has_column("slug") {
        true => Slug::from_stored(row.text("slug")?),
        false => Slug::from_name(&name),
    };
    let mut seconds = |column: &'static str, default: Seconds| {
        let Some(micros) = row.duration_micros(column)? else {
            return Ok(default);
        };
        let nearest = Seconds::clamped(micros / MICROS_PER_SEC);
        if nearest.get().checked_mul(MICROS_PER_SEC) != Some(micros) {
            notes.push("with a period or grace out of range, changed to the nearest valid one");
        }
        Ok(nearest)
    };
    let timeout = seconds("timeout", Seconds::DAY)?;
    let grace = seconds("grace", Seconds::HOUR)?;
    let success_kw = first_text(row, &["success_kw", "subject"])?;
    let failure_kw = first_text(row, &["failure_kw", "subject_fail"])?;
    let [start_kw, success_kw, failure_kw] =
        [row.text("start_kw")?, success_kw, failure_kw].map(Keywords::from_stored);
    let fit = name.is_within_limit()
        && slug.is_within_limit()
        && [&start_kw, &success_kw, &failure_kw]
            .into_iter()
            .all(Keywords::is_within_limit);
    if !fit {
        notes.push("with a name, slug or keywords over the current limits, kept unchanged");
    }
    let flag = |column: &str| Ok(row.boolean(column)?.unwrap_or(false));
    // Before the flag existed, keywords alone enabled the search in subjects.
    let has_keywords = !success_kw.is_empty() || !failure_kw.is_empty();
    let subject = row.boolean("filter_subject")?.unwrap_or(has_keywords);
    let post_only = match row.text("methods")? {
        "" => false,
        "POST" => true,
        _ => return Err(row.error("methods is neither empty nor POST")),
    };
    Ok(CheckSettings {
        name,
        slug,
        tags: Tags::from_stored(row.text("tags")?),
        desc: Description::from_stored(row.text("desc")?),
        timeout,
        grace,
        schedule: read_schedule(row)?,
        tz: read_timezone(row, options)?,
        manual_resume: flag("manual_resume")?,
        post_only,
        start_kw,
        success_kw,
        failure_kw,
        filters: KeywordFilters {
            subject,
            body: flag("filter_body")?,
            http_body: flag("filter_http_body")?,
            default_fail: flag("filter_default_fail")?,
        },
        ..CheckSettings::default()
    })
}

/// Returns the text of the first column that exists.
fn first_text<'a>(row: &'a SourceRow, columns: &[&str]) -> Result<&'a str, RowError> {
    columns
        .iter()
        .find(|column| row.has_column(column))
        .map_or(Ok(""), |column| row.text(column))
}

fn read_schedule(row: &SourceRow) -> Result<Option<Arc<Schedule>>, RowError> {
    let kind = match row.text("kind")? {
        "simple" => return Ok(None),
        "cron" => ScheduleKind::Cron,
        "oncalendar" => ScheduleKind::OnCalendar,
        kind => return Err(row.error(format!("kind {kind:?} is unknown"))),
    };
    let refused = |problem: &str| {
        row.error(format!(
            "schedule: {problem}; change it on the old server, or skip the check with --skip"
        ))
    };
    let schedule =
        check_input::parse_schedule(row.text("schedule")?).map_err(|problem| refused(&problem))?;
    if schedule.kind() == kind {
        Ok(Some(schedule))
    } else {
        Err(refused("overdue reads it as a schedule of the other kind"))
    }
}

fn read_timezone(row: &SourceRow, options: &ImportOptions) -> Result<Timezone, RowError> {
    let name = match row.text("tz")? {
        "" => "UTC",
        name => name,
    };
    if let Some((_, zone)) = options.timezone_map.iter().find(|(old, _)| old == name) {
        return Ok(zone.clone());
    }
    Timezone::parse(name).map_err(|error| {
        row.error(format!(
            "tz {name:?} is {error}; replace it with --tz {name}=NEW, or skip the check with --skip"
        ))
    })
}

/// Converts the state of a check. The flag is true if a time had to be changed.
fn read_state(
    row: &SourceRow,
    created: Timestamp,
    settings: &CheckSettings,
    now: Timestamp,
    notes: &mut Vec<&'static str>,
) -> Result<(CheckState, bool), RowError> {
    let is_future = std::cell::Cell::new(created > now);
    let past = |at: Timestamp| {
        is_future.set(is_future.get() || at > now);
        at.min(now)
    };
    let mut state = CheckState::new(created.min(now));
    state.status = parse_status(row.text("status")?)
        .ok_or_else(|| row.error("status is none of new, up, down, paused"))?;
    state.last_ping = row.timestamp("last_ping")?.map(past);
    let rid = row.uuid("last_start_rid")?;
    state.run = row.timestamp("last_start")?.map(|start| OngoingRun {
        start: past(start),
        rid,
    });
    state.last_duration = row
        .duration_micros("last_duration")?
        .filter(|micros| *micros >= 0);
    let n_pings = row.integer("n_pings")?.unwrap_or(0);
    // The column is an integer of 32 bits.
    state.n_pings = u32::try_from(n_pings)
        .map_err(|_| row.error("n_pings is negative or too large"))?
        .into();
    if state.status == Status::Up && state.last_ping.is_none() {
        notes.push("up without a ping, changed to new");
        state.status = Status::New;
    }
    state.failures = u16::from(state.status == Status::Down);
    state.update_grace_start(settings);
    Ok((state, is_future.get()))
}

#[cfg(test)]
mod tests;

//! Preview of a schedule, shown while a user edits it: a description, its next runs, and the
//! effects of clock changes.

use askama::Template;

use super::form_fields::{CheckFormError, CheckFormFields, DurationInput};
use super::keyword_preview;
use crate::domain::check::CheckSettings;
use crate::domain::dst_changes::dst_warnings;
use crate::domain::formatting::{TimeFormatter, format_duration};
use crate::domain::schedule::Schedule;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};

/// Number of runs shown.
const UPCOMING_RUNS: usize = 5;

/// A run of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct UpcomingRun {
    /// Time in the zone of the check.
    pub(super) at: String,
    /// Relative time.
    pub(super) relative: String,
    /// Time in the zone of the viewer, if it differs.
    pub(super) viewer_time: Option<String>,
}

/// Preview of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SchedulePreview {
    /// Description of the schedule, or the error.
    pub(super) words: Result<String, String>,
    pub(super) next: Vec<UpcomingRun>,
    pub(super) clock_changes: Vec<String>,
    /// Times at which the check becomes late and down.
    pub(super) end: String,
}

/// The preview alone, for the script of the form.
#[derive(Template)]
#[template(
    path = "_form_previews.html",
    config = "src/http/dashboard/askama.toml"
)]
struct PreviewFragment {
    preview: SchedulePreview,
    /// Summary of the keyword filters, tried on the last pings.
    keyword_summary: String,
}

/// Renders the preview.
pub(crate) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let fields = CheckFormFields::from_query(&request.query);
    let viewer_times = TimeFormatter {
        now: request.now,
        zone: &request.viewer.zone,
    };
    let keyword_summary = keyword_preview::edited_check(request).map_or_else(
        || Ok(String::new()),
        |check| keyword_preview::keyword_summary(request, &check, &fields),
    )?;
    Ok(HtmlPage::from_template(&PreviewFragment {
        preview: SchedulePreview::new(&fields, &viewer_times),
        keyword_summary,
    })
    .into())
}

impl SchedulePreview {
    /// Leaves out an error that the form shows beside its field.
    pub(super) fn without_errors_of(mut self, errors: &[CheckFormError]) -> Self {
        if let Err(text) = &mut self.words
            && errors.iter().any(|error| error.text == *text)
        {
            text.clear();
        }
        self
    }

    /// Preview of the fields for a viewer with this formatter.
    pub(super) fn new(fields: &CheckFormFields, viewer_times: &TimeFormatter<'_>) -> Self {
        match fields.describe_schedule() {
            Err(error) => Self {
                words: Err(error),
                next: Vec::new(),
                clock_changes: Vec::new(),
                end: String::new(),
            },
            Ok((words, None)) => Self {
                end: period_text(&fields.period, &fields.grace),
                words: Ok(words),
                next: Vec::new(),
                clock_changes: Vec::new(),
            },
            Ok((words, Some((schedule, zone)))) => {
                let first = schedule.next_after(viewer_times.now, &zone);
                Self {
                    words: Ok(format!("{words} in {}", zone.name())),
                    next: upcoming_runs(&schedule, &zone, UPCOMING_RUNS, viewer_times),
                    clock_changes: dst_warnings(&schedule, &zone, viewer_times.now),
                    end: first.map_or_else(
                        || "The schedule has ended: no more pings are expected.".into(),
                        |first| late_text(first, &zone, fields, viewer_times),
                    ),
                }
            }
        }
    }
}

/// Next runs of a schedule.
pub(super) fn upcoming_runs(
    schedule: &Schedule,
    zone: &Timezone,
    most: usize,
    viewer_times: &TimeFormatter<'_>,
) -> Vec<UpcomingRun> {
    let check_times = TimeFormatter {
        zone,
        ..*viewer_times
    };
    let next = |at: Timestamp| UpcomingRun {
        at: check_times.with_offset(at),
        relative: check_times.relative(at),
        viewer_time: Some(viewer_times.at(at))
            .filter(|_| check_times.at(at) != viewer_times.at(at)),
    };
    schedule
        .occurrences(viewer_times.now, zone)
        .take(most)
        .map(next)
        .collect()
}

/// Times at which the check is late and down if it misses the first run.
fn late_text(
    first: Timestamp,
    zone: &Timezone,
    fields: &CheckFormFields,
    viewer_times: &TimeFormatter<'_>,
) -> String {
    let check_times = TimeFormatter {
        zone,
        ..*viewer_times
    };
    match fields.grace.parse_seconds() {
        Ok(grace) => format!(
            "Late from {}, down {}.",
            check_times.at(first),
            check_times.at_phrase(first.plus_secs(grace.get()))
        ),
        Err(_) => format!("Late from {}.", check_times.at(first)),
    }
}

/// Description of a period and a grace time.
fn period_text(period: &DurationInput, grace: &DurationInput) -> String {
    let words = |length: &DurationInput| {
        length
            .parse_seconds()
            .map(|seconds| format_duration(Timestamp::from_secs(seconds.get()).micros()))
    };
    match (words(period), words(grace)) {
        (Ok(period), Ok(grace)) => {
            format!("Late {period} after its last ping, down {grace} later.")
        }
        (Ok(period), Err(_)) => format!("Late {period} after its last ping."),
        _ => String::new(),
    }
}

impl CheckFormFields {
    /// Description of the schedule, with the schedule and time zone if there is one, or the error.
    fn describe_schedule(&self) -> Result<(String, Option<(Schedule, Timezone)>), String> {
        let settings = self
            .to_schedule_edit()?
            .apply_to(&CheckSettings::default(), None);
        let words = settings.describe_schedule();
        Ok((
            words,
            settings
                .schedule
                .map(|schedule| ((*schedule).clone(), settings.tz)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::dashboard::page_request::Query;

    fn preview(pairs: &[(&str, &str)]) -> SchedulePreview {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let zone = Timezone::parse("Europe/Berlin").unwrap();
        let now = Timestamp::from_micros(
            "2026-11-20T11:30:00Z"
                .parse::<jiff::Timestamp>()
                .unwrap()
                .as_microsecond(),
        );
        SchedulePreview::new(
            &CheckFormFields::from_query(&Query(pairs.collect())),
            &TimeFormatter { now, zone: &zone },
        )
    }

    #[test]
    fn a_schedule_is_shown_in_both_time_zones() {
        let shown = preview(&[
            ("expects", "cron"),
            ("cron", "30 3 * * *"),
            ("tz", "Europe/Riga"),
            ("grace", "15"),
            ("grace_unit", "min"),
        ]);
        assert_eq!(shown.words, Ok("every day at 03:30 in Europe/Riga".into()));
        assert_eq!(shown.next.len(), 5);
        let first = UpcomingRun {
            at: "Sat 21 Nov 03:30 +02".into(),
            relative: "in 14 h".into(),
            viewer_time: Some("tomorrow 02:30".into()),
        };
        assert_eq!(shown.next[0], first);
        assert_eq!(
            shown.clock_changes,
            ["Clocks go forward on 28 Mar 2027: the run at 03:30 is moved to 04:00."]
        );
        assert_eq!(
            shown.end,
            "Late from tomorrow 03:30, down tomorrow at 03:45."
        );
        let same = preview(&[
            ("expects", "oncalendar"),
            ("oncalendar", "daily"),
            ("tz", "Europe/Berlin"),
        ]);
        assert_eq!(
            (same.next[0].viewer_time.as_deref(), same.end.as_str()),
            (None, "Late from tomorrow 00:00.")
        );
    }

    #[test]
    fn each_invalid_schedule_has_its_own_error() {
        for (pairs, words) in [
            (
                &[("expects", "cron"), ("cron", "")][..],
                Err("Enter an expression."),
            ),
            (
                &[("expects", "cron"), ("cron", "daily"), ("tz", "UTC")],
                Err("This is not a cron expression. Choose OnCalendar."),
            ),
            (
                &[
                    ("expects", "cron"),
                    ("cron", "0 0 * * *"),
                    ("tz", "Nowhere"),
                ],
                Err(
                    "Not a time zone: give an IANA name in its exact spelling, such as \
                     Europe/Riga or UTC.",
                ),
            ),
            (
                &[("expects", "period"), ("period", "0"), ("period_unit", "d")],
                Err("Between 1 minute and 365 days."),
            ),
            (
                &[
                    ("expects", "period"),
                    ("period", "12"),
                    ("period_unit", "h"),
                ],
                Ok("every 12 hours"),
            ),
        ] {
            assert_eq!(
                preview(pairs).words,
                words.map(str::to_owned).map_err(str::to_owned),
                "{pairs:?}"
            );
        }
        let in_turn = preview(&[
            ("period", "1"),
            ("period_unit", "d"),
            ("grace", "90"),
            ("grace_unit", "min"),
        ]);
        assert_eq!(
            (in_turn.words, in_turn.end),
            (
                Ok("every day".into()),
                "Late 1 day after its last ping, down 1 h 30 min later.".into()
            )
        );
        let ended = preview(&[
            ("expects", "oncalendar"),
            ("oncalendar", "2026-01-01"),
            ("tz", "UTC"),
        ]);
        assert_eq!(
            (ended.next, ended.end.as_str()),
            (
                vec![],
                "The schedule has ended: no more pings are expected."
            )
        );
    }
}

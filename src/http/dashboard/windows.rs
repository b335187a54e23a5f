//! Page with the maintenance windows of a project: what they cover, when they are open, and forms
//! that create and end them.

use askama::Template;
use uuid::Uuid;

use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, RequiredRight};
use super::time_display::DisplayTime;
use crate::domain::formatting::{format_count, format_duration};
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimes, WindowTimesInput};
use crate::domain::text::{Name, Tags};
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::domain::timezone::Timezone;
use crate::operations::{OperationError, window};

/// Choices for the duration of a mute: minutes, and words.
const MUTE_DURATIONS: [(&str, &str); 7] = [
    ("30", "30 minutes"),
    ("60", "1 hour"),
    ("120", "2 hours"),
    ("480", "8 hours"),
    ("1440", "1 day"),
    ("4320", "3 days"),
    ("10080", "7 days"),
];

#[derive(Template)]
#[template(path = "windows.html", config = "src/http/dashboard/askama.toml")]
struct WindowsPage {
    layout: Layout,
    page_url: String,
    may_write: bool,
    windows: Vec<WindowListItem>,
    /// Input of the form that was refused.
    input: WindowInput,
    error: Option<String>,
    mute_durations: [(&'static str, &'static str); 7],
    /// Time zone of the viewer, for the times of the forms.
    zone: String,
}

struct WindowListItem {
    name: String,
    /// Number of checks and the tags that select them.
    checks: String,
    /// Times at which it is open.
    times: String,
    open_until: Option<DisplayTime>,
    is_over: bool,
    /// Target of the form that ends or deletes it.
    end: String,
}

/// Form of a new window, as entered.
#[derive(Default)]
struct WindowInput {
    /// `mute`, `once` or `recurring`.
    form: String,
    name: String,
    tags: String,
    minutes: String,
    from: String,
    to: String,
    schedule: String,
    zone: String,
}

/// Window that is open now.
pub(super) struct OpenWindow {
    pub(super) name: String,
    /// Name of its project.
    pub(super) project: String,
    pub(super) until: DisplayTime,
    /// URL of the page of the windows of its project.
    pub(super) page: String,
    /// True if it covers every check.
    pub(super) is_for_all: bool,
}

/// Returns the open windows of the projects of the page. `tags`: tags of a check that they must
/// cover.
pub(super) fn open_windows(request: &PageRequest, tags: Option<&Tags>) -> Vec<OpenWindow> {
    let times = request.time_formatter();
    let projects = request.shown_projects();
    let windows = projects
        .iter()
        .flat_map(|project| window::list(request.handle(), Some(project.id)));
    let is_covered = |window: &MaintenanceWindow| tags.is_none_or(|tags| window.applies_to(tags));
    windows
        .filter(|(_, window)| is_covered(window))
        .filter_map(|(project, window)| {
            Some(OpenWindow {
                until: DisplayTime::clock_time(window.open_until(request.now)?, &times),
                name: window.name.as_str().to_owned(),
                project: project.name.as_str().to_owned(),
                page: request.page_url(&Page::Windows(project.uuid)),
                is_for_all: window.tags.iter().next().is_none(),
            })
        })
        .collect()
}

/// Renders the page.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, WindowInput::default(), None)?.into())
}

fn render_page(
    request: &PageRequest,
    input: WindowInput,
    error: Option<String>,
) -> Result<HtmlPage, PageError> {
    let is_refused = error.is_some();
    let project = request.project()?;
    let windows: Vec<_> = window::list(request.handle(), Some(project.id))
        .into_iter()
        .map(|(_, window)| window)
        .collect();
    let mut covered = vec![0; windows.len()];
    request.handle().for_each_check(project.id, |check| {
        for (window, count) in windows.iter().zip(&mut covered) {
            *count += usize::from(window.applies_to(&check.settings.tags));
        }
    });
    let mut rows: Vec<_> = windows
        .iter()
        .zip(covered)
        .map(|(window, count)| WindowListItem::new(request, project.uuid, window, count))
        .collect();
    // Open ones are first.
    rows.sort_by_key(|row| (row.open_until.is_none(), row.is_over));
    let html = HtmlPage::from_template(&WindowsPage {
        layout: request.layout("Maintenance windows"),
        page_url: request.page_url(&Page::Windows(project.uuid)),
        may_write: request.is_allowed(RequiredRight::Write),
        windows: rows,
        input,
        error,
        mute_durations: MUTE_DURATIONS,
        zone: request.viewer.zone.name().to_owned(),
    });
    Ok(if is_refused {
        html.with_invalid_form()
    } else {
        html
    })
}

/// Creates a window.
pub(super) async fn create(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let text = |name: &str| form.get(name).trim().to_owned();
    let input = WindowInput {
        form: text("form"),
        name: text("name"),
        tags: text("tags"),
        minutes: text("minutes"),
        from: text("from"),
        to: text("to"),
        schedule: text("schedule"),
        zone: text("zone"),
    };
    let project = request.project()?;
    let (name, tags, times) = match input.parse(&request.viewer.zone) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(render_page(request, input, Some(error))?.into()),
    };
    match window::create(request.handle(), project.id, name, tags, times).await {
        Err(error @ OperationError::Times(_)) => {
            Ok(render_page(request, input, Some(error.to_string()))?.into())
        }
        created => {
            created?;
            Ok(PageResponse::Redirect(
                Page::Windows(project.uuid),
                FlashMessage::from_code("window-made"),
            ))
        }
    }
}

/// Ends a window, or deletes one that recurs.
pub(super) async fn end(request: &PageRequest, uuid: Uuid) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let window = window::find(request.handle(), Some(project.id), &uuid.to_string())
        .map_err(|_| PageError::not_found())?;
    window::delete(request.handle(), &window).await?;
    Ok(PageResponse::Redirect(
        Page::Windows(project.uuid),
        FlashMessage::from_code("window-deleted"),
    ))
}

impl WindowListItem {
    fn new(
        request: &PageRequest,
        project: Uuid,
        window: &MaintenanceWindow,
        covered: usize,
    ) -> Self {
        let formatter = request.time_formatter();
        let times = match &window.times {
            WindowTimes::Once { from, to } => formatter.span(*from, *to),
            WindowTimes::Recurring {
                schedule,
                tz,
                minutes,
            } => format!(
                "{} for {} ({})",
                schedule.describe(),
                format_duration(i64::from(*minutes) * 60 * MICROS_PER_SEC),
                tz.name()
            ),
        };
        let count = format_count(covered, "check");
        let tags: Vec<_> = window.tags.iter().collect();
        Self {
            name: window.name.as_str().to_owned(),
            checks: match tags.as_slice() {
                [] => format!("all checks ({covered})"),
                tags => format!("{count} with {}", tags.join(" ")),
            },
            times,
            open_until: window
                .open_until(request.now)
                .map(|until| DisplayTime::clock_time(until, &formatter)),
            is_over: window.ended_before(request.now),
            end: request.page_url(&Page::EndWindow(project, window.uuid)),
        }
    }
}

impl WindowInput {
    /// Parses the input, with times in this zone, or returns what is wrong.
    fn parse(&self, zone: &Timezone) -> Result<(Name, Tags, WindowTimesInput), String> {
        let minutes = || {
            self.minutes
                .parse()
                .map_err(|_| "the duration is not a whole number of minutes".to_owned())
        };
        let times = match self.form.as_str() {
            "mute" => WindowTimesInput {
                minutes: Some(minutes()?),
                ..WindowTimesInput::default()
            },
            "recurring" => WindowTimesInput {
                schedule: Some(self.schedule.clone()),
                minutes: Some(minutes()?),
                tz: Some(self.zone.clone()),
                ..WindowTimesInput::default()
            },
            _ => WindowTimesInput {
                from: Some(local_time(&self.from, zone, "start")?),
                to: Some(local_time(&self.to, zone, "end")?),
                ..WindowTimesInput::default()
            },
        };
        let name = if self.form == "mute" {
            MaintenanceWindow::MUTE_NAME
        } else {
            &self.name
        };
        let name = Name::parse(name)
            .map_err(|_| format!("a name has at most {} characters", Name::MAX_CHARS))?;
        let tags = Tags::parse(&self.tags)
            .map_err(|_| format!("tags have at most {} characters in total", Tags::MAX_CHARS))?;
        Ok((name, tags, times))
    }
}

/// Converts the local time of an input to RFC 3339.
fn local_time(text: &str, zone: &Timezone, what: &str) -> Result<String, String> {
    let time: Timestamp = zone
        .parse_local_time(text)
        .ok_or_else(|| format!("enter the {what} as in 2026-11-20 22:00"))?;
    let mut written = String::new();
    time.write_rfc3339_secs(&mut written);
    Ok(written)
}

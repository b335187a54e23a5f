//! Page of the scheduled backups: the schedule, the files, and a button that makes one.

use askama::Template;

use super::layout::Layout;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::system::BackupSummary;
use super::time_display::DisplayTime;
use crate::backup::BackupControl;
use crate::docs::CHAPTERS;
use crate::domain::formatting::{format_count, format_duration, format_size};

/// Maximum number of files that are listed: see [limits](crate::docs::limits).
const MAX_FILES: usize = 200;

#[derive(Template)]
#[template(path = "backups.html", config = "src/http/dashboard/askama.toml")]
struct BackupsPage {
    layout: Layout,
    page_url: String,
    backups: BackupSummary,
    /// `None`: automatic backups are off.
    schedule: Option<ScheduleFacts>,
    /// URL of the chapter about backups.
    operations: String,
}

/// Schedule with its files.
struct ScheduleFacts {
    directory: String,
    interval: String,
    keep: usize,
    /// Description of the encryption; empty: none.
    encryption: String,
    /// Address of the bucket that gets copies; empty: none.
    copies: String,
    running: Option<DisplayTime>,
    next: Option<DisplayTime>,
    files: Vec<BackupListItem>,
    /// Reason why the files are not known.
    unreadable: Option<String>,
}

struct BackupListItem {
    name: String,
    at: DisplayTime,
    size: String,
}

/// Renders the page.
pub(super) fn show(request: &PageRequest) -> PageResponse {
    let status = request.handle().metrics().backup_status();
    let control = request.dashboard.config.backups.as_ref();
    let chapter = CHAPTERS.iter().find(|chapter| chapter.slug == "operations");
    HtmlPage::from_template(&BackupsPage {
        layout: request.layout("Backups"),
        page_url: request.page_url(&Page::Backups()),
        backups: BackupSummary::from_status(status, &request.time_formatter()),
        schedule: control.map(|control| ScheduleFacts::new(request, control)),
        operations: chapter.map_or_else(String::new, |chapter| {
            request.page_url(&Page::Chapter(chapter))
        }),
    })
    .into()
}

/// Starts a backup. Without a schedule, the page says how to get one.
pub(super) fn start(request: &PageRequest) -> PageResponse {
    let control = request.dashboard.config.backups.as_ref();
    let flash = control.and_then(|control| {
        control.request_backup();
        tracing::info!(
            user = request.user_name(),
            address = %request.origin.client.addr,
            "requested a backup"
        );
        FlashMessage::from_code("backup-started")
    });
    PageResponse::Redirect(Page::Backups(), flash)
}

impl ScheduleFacts {
    fn new(request: &PageRequest, control: &BackupControl) -> Self {
        let times = request.time_formatter();
        let status = request
            .handle()
            .metrics()
            .backup_status()
            .unwrap_or_default();
        let schedule = control.schedule();
        let interval = i64::try_from(schedule.interval.as_micros()).unwrap_or(i64::MAX);
        let (files, unreadable) = match control.files(request.handle()) {
            Ok(files) => (files, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let item = |file: crate::backup::BackupFile| BackupListItem {
            name: file.name,
            at: DisplayTime::clock_time(file.at, &times),
            size: format_size(file.bytes),
        };
        Self {
            directory: schedule.directory.display().to_string(),
            interval: format!("every {}", format_duration(interval)),
            keep: schedule.keep_newest,
            encryption: match schedule.recipients.len() {
                0 => String::new(),
                count => format!("age, for {}", format_count(count, "public key")),
            },
            copies: schedule
                .bucket
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            running: status
                .running
                .map(|since| DisplayTime::relative(since, &times)),
            next: status
                .next
                .map(|next| DisplayTime::clock_time(next, &times)),
            files: files.into_iter().take(MAX_FILES).map(item).collect(),
            unreadable,
        }
    }
}

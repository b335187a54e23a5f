//! Page about the server for owners: its data, the state of the writer, and the route of the
//! current request.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;

use super::browser_security::is_private_address;
use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::project_settings::needs_password;
use super::sign_in::has_confirmed_password;
use super::time_display::DisplayTime;
use crate::backup;
use crate::domain::formatting::{TimeFormatter, format_count, format_duration, format_size};
use crate::http::common::client_address::is_trusted;
use crate::http::common::reply::HttpError;
use crate::http::common::response_body::ResponseBody;
use crate::metrics::BackupStatus;

#[derive(Template)]
#[template(path = "system.html", config = "src/http/dashboard/askama.toml")]
struct SystemPage {
    layout: Layout,
    uptime_text: String,
    is_writable: bool,
    contents: String,
    /// Duration of the last commit as text. `None`: no commit yet.
    last_commit: Option<String>,
    /// URL at which a script tests if events arrive without delay. `None` if there is no project.
    events: Option<String>,
    /// URL of the page about the machines; `None` without a cluster.
    machines: Option<String>,
    /// URL of the audit log of the server.
    audit: String,
    /// URL of the page to import a file.
    import: String,
    waiting: usize,
    /// Size of the database file as text. `None`: the file is being reopened.
    file: Option<String>,
    /// Number of commands that wait for the writer, and its maximum.
    queue: (u64, usize),
    backup: String,
    /// URL of the list of backups.
    all_backups: String,
    backups: BackupSummary,
    asks_password: bool,
    backup_error: Option<&'static str>,
    base_url: String,
    /// Value that `--base-url` should have, judging by the request.
    other: Option<String>,
    host: String,
    peer: String,
    address: String,
    is_proxied: bool,
    is_peer_trusted: bool,
    is_secure: bool,
    /// Single address that the sessions of all users seem to come from.
    shared_address: Option<IpAddr>,
}

/// Status of automatic backups.
pub(super) enum BackupSummary {
    Off,
    /// No backup was due yet.
    Pending,
    Succeeded(DisplayTime),
    /// Start of the failures, last reason, and time of the newest backup.
    Failing(DisplayTime, String, Option<DisplayTime>),
}

impl BackupSummary {
    pub(super) fn from_status(status: Option<BackupStatus>, times: &TimeFormatter<'_>) -> Self {
        let when = |at| DisplayTime::relative(at, times);
        match status {
            None => Self::Off,
            Some(BackupStatus {
                newest,
                failing: Some((since, reason)),
                ..
            }) => Self::Failing(when(since), reason, newest.map(when)),
            Some(BackupStatus {
                newest,
                failing: None,
                ..
            }) => newest.map_or(Self::Pending, |newest| Self::Succeeded(when(newest))),
        }
    }
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, None).into())
}

fn render_page(request: &PageRequest, backup_error: Option<&'static str>) -> HtmlPage {
    let origin = &request.origin;
    let base_url = request.base_url();
    let uptime = request.handle().clock().uptime().as_micros();
    let (projects, checks, users, waiting, first) = request.handle().with_state(|state| {
        let first = state.projects().next().map(|found| found.project.uuid);
        (
            state.projects().count(),
            state.check_count(),
            state.users.len(),
            state.outbox.len(),
            first,
        )
    });
    let pings = usize::try_from(count_pings(request)).unwrap_or(usize::MAX);
    let contents = [
        (projects, "project"),
        (checks, "check"),
        (pings, "ping"),
        (users, "user"),
        (request.dashboard.live_updates.stream_count(), "stream"),
    ];
    let system = SystemPage {
        layout: request.layout("System"),
        uptime_text: format_duration(i64::try_from(uptime).unwrap_or(i64::MAX)),
        is_writable: request.handle().is_writable(),
        last_commit: request.handle().metrics().last_commit().map(format_millis),
        events: first.map(|project| request.page_url(&Page::Events(project))),
        contents: contents
            .map(|(number, what)| format_count(number, what))
            .join(" · "),
        machines: request
            .handle()
            .metrics()
            .cluster()
            .map(|_| request.page_url(&Page::Machines())),
        waiting,
        file: request.handle().file_bytes().map(format_size),
        queue: request.handle().queue_depth(),
        audit: request.page_url(&Page::Audit()),
        import: request.page_url(&Page::Import()),
        backup: request.page_url(&Page::Backup()),
        all_backups: request.page_url(&Page::Backups()),
        backups: BackupSummary::from_status(
            request.handle().metrics().backup_status(),
            &request.time_formatter(),
        ),
        asks_password: needs_password(request),
        backup_error,
        base_url: base_url.as_str().into(),
        other: origin.mismatched_address(base_url),
        host: origin.host.as_ref().into(),
        peer: origin.peer.to_string(),
        address: origin.client.addr.to_string(),
        is_proxied: origin.is_proxied,
        is_peer_trusted: is_trusted(origin.peer, &request.dashboard.trusted_proxies),
        is_secure: origin.is_secure(base_url),
        shared_address: find_shared_address(request),
    };
    let html = HtmlPage::from_template(&system);
    if backup_error.is_some() {
        html.with_invalid_form()
    } else {
        html
    }
}

/// Private address that all sessions of several users come from, unless it belongs to a trusted
/// proxy. Behind a proxy that is not configured as trusted, all users appear as one client, and
/// their wrong passwords are counted together.
fn find_shared_address(request: &PageRequest) -> Option<IpAddr> {
    let addresses: Vec<BTreeSet<IpAddr>> = request.handle().with_state(|state| {
        let addresses = |user| {
            state
                .users
                .sessions_of(user, request.now)
                .map(|session| session.address)
                .collect()
        };
        state.users.iter().map(|user| addresses(user.id)).collect()
    });
    let user_count = addresses
        .iter()
        .filter(|addresses| !addresses.is_empty())
        .count();
    let mut all = addresses.into_iter().flatten();
    let shared = all
        .next()
        .filter(|shared| user_count > 1 && all.all(|address| address == *shared))?;
    (is_private_address(shared) && !is_trusted(shared, &request.dashboard.trusted_proxies))
        .then_some(shared)
}

/// Formats a short duration: `0.4 ms`.
fn format_millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// Number of pings in the logs of all checks.
fn count_pings(request: &PageRequest) -> u64 {
    let projects: Vec<_> = request.handle().with_state(|state| {
        state
            .projects()
            .map(|found| (found.project.id, found.project.ping_log_limit))
            .collect()
    });
    let mut pings = 0;
    for (project, limit) in projects {
        request.handle().for_each_check(project, |check| {
            pings += check.state.n_pings.min(limit.into());
        });
    }
    pings
}

/// Sends a backup of the whole database.
pub(super) async fn send_backup(
    request: PageRequest,
    form: FormData,
) -> Result<PageResponse, PageError> {
    // A backup contains every secret of the server.
    if !has_confirmed_password(&request, form.get("password")).await? {
        let writer = request.response_writer();
        return Ok(writer
            .run_blocking(move || render_page(&request, Some("enter your password")))
            .await?
            .into());
    }
    let permit = Arc::clone(&request.dashboard.backup_permit)
        .try_acquire_owned()
        .map_err(|_| {
            let text = "A backup is already in progress. Wait until it ends, or cancel it.";
            PageError::new(HttpError::Unavailable, "Backup in progress", text)
        })?;
    let chunks = backup::backup_chunks(request.handle().clone(), true)
        .map_err(|_| HttpError::Unavailable)?;
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        "downloaded a backup"
    );
    let mut now = String::new();
    request.now.write_rfc3339_secs(&mut now);
    let time: String = now
        .chars()
        .take_while(|c| *c != '+')
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    Ok(PageResponse::Stream {
        name: format!("overdue-{time}Z.backup.zst"),
        content: ResponseBody::from_channel(chunks, permit),
    })
}

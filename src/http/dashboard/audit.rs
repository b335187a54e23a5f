//! Pages with the audit logs: that of the server and that of a project.

use askama::Template;

use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::time_display::DisplayTime;
use crate::domain::audit::{AuditEntry, AuditScope};

/// Maximum number of entries on a page: see [limits](crate::docs::limits).
const ENTRIES_PER_PAGE: usize = 100;

#[derive(Template)]
#[template(path = "audit.html", config = "src/http/dashboard/askama.toml")]
struct AuditPage {
    layout: Layout,
    /// Page that the log belongs to: its title and URL.
    parent: (&'static str, String),
    lead: &'static str,
    entries: Vec<AuditListItem>,
    /// URL of the page with older entries.
    older: Option<String>,
    /// URL of the page with the newest entries, unless it is this page.
    newest: Option<String>,
}

struct AuditListItem {
    at: DisplayTime,
    actor: String,
    address: String,
    description: String,
}

/// Renders the page.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let (scope, parent, lead) = match request.page {
        Page::AuditOfProject(uuid) => (
            AuditScope::Project(request.project()?.id),
            ("Settings", request.page_url(&Page::Settings(uuid))),
            "Changes of the project and of its checks, channels, keys, windows and status pages.",
        ),
        _ => (
            AuditScope::Server,
            ("System", request.page_url(&Page::System())),
            "Sign-ins, and changes of users and of the list of projects. Each project has a log of \
             its own in its settings.",
        ),
    };
    let before = request.query.get("before").parse().ok();
    let found =
        request
            .handle()
            .audit_entries(scope, before.unwrap_or(u64::MAX), ENTRIES_PER_PAGE + 1)?;
    let (shown, rest) = found.split_at(found.len().min(ENTRIES_PER_PAGE));
    let page_url = request.page_url(&request.page);
    let older = shown
        .last()
        .filter(|_| !rest.is_empty())
        .map(|last| format!("{page_url}?before={}", last.number));
    Ok(HtmlPage::from_template(&AuditPage {
        layout: request.layout("Audit log"),
        parent,
        lead,
        entries: shown
            .iter()
            .map(|entry| AuditListItem::new(request, entry))
            .collect(),
        older,
        newest: before.map(|_| page_url),
    })
    .into())
}

impl AuditListItem {
    fn new(request: &PageRequest, entry: &AuditEntry) -> Self {
        let address = entry.actor.address;
        Self {
            at: DisplayTime::relative(entry.at, &request.time_formatter()),
            actor: entry.actor.to_string(),
            address: address.map_or_else(String::new, |address| address.to_string()),
            description: entry.description(),
        }
    }
}

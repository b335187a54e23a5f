//! Import of a file from the browser: the file is uploaded and previewed, and imported once the
//! user has seen the report. There is one import at a time.

mod job;
mod upload;

use std::sync::Arc;

use askama::Template;
use uuid::Uuid;

use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use crate::docs::CHAPTERS;
use crate::domain::formatting::format_count;
pub(super) use job::ImportSlot;
use job::{ImportDecision, ImportJob, ImportStage};
pub(super) use upload::receive;

#[derive(Template)]
#[template(path = "import.html", config = "src/http/dashboard/askama.toml")]
struct ImportPage {
    layout: Layout,
    page_url: String,
    /// Maximum size of a file, as text.
    max_size: String,
    /// Reason why the file was not accepted.
    error: Option<String>,
    /// URL of the page of the import that is open.
    open_import: Option<String>,
    /// URL of the chapter about imports.
    chapter: String,
}

#[derive(Template)]
#[template(path = "import_job.html", config = "src/http/dashboard/askama.toml")]
struct ImportJobPage {
    layout: Layout,
    page_url: String,
    /// URL of the page to upload a file.
    new_import: String,
    file: String,
    /// True if the page is to be loaded again.
    is_working: bool,
    stage: ImportStageView,
}

/// Stage of an import as the page shows it.
enum ImportStageView {
    /// The work that is being done, and its progress in percent.
    Working(&'static str, u8),
    Previewed(PreviewView),
    /// Sentence with the result.
    Finished(String),
    /// Reason in lines.
    Failed(Vec<String>),
    Discarded,
}

/// Report of the dry run.
struct PreviewView {
    rows: Vec<CountRow>,
    /// Remarks, each with the lines that belong to it.
    remarks: Vec<(String, Vec<String>)>,
    /// Local changes that an import would lose.
    lost: Option<String>,
}

/// Row of the table of counts.
struct CountRow {
    kind: &'static str,
    is_part: bool,
    counts: [String; 4],
    notes: Vec<String>,
}

/// Renders the form for a file.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_form(request, None).into())
}

fn render_form(request: &PageRequest, error: Option<String>) -> HtmlPage {
    let chapter = CHAPTERS.iter().find(|chapter| chapter.slug == "moving");
    let open_import = request.dashboard.import_slot.open_job();
    HtmlPage::from_template(&ImportPage {
        layout: request.layout("Import"),
        page_url: request.page_url(&Page::Import()),
        max_size: format!("{} GB", upload::MAX_UPLOAD_BYTES / 1_000_000_000),
        error,
        open_import: open_import.map(|job| request.page_url(&Page::ImportJob(job.id))),
        chapter: chapter.map_or_else(String::new, |chapter| {
            request.page_url(&Page::Chapter(chapter))
        }),
    })
}

/// Renders the page of an import.
pub(super) fn show_job(request: &PageRequest, id: Uuid) -> Result<PageResponse, PageError> {
    let job = find_job(request, id)?;
    let stage = job.with_stage(|stage| match stage {
        ImportStage::Previewing => {
            ImportStageView::Working("Reading the file", job.progress_percent())
        }
        ImportStage::Importing => ImportStageView::Working("Importing", job.progress_percent()),
        ImportStage::Previewed { report, lost } => ImportStageView::Previewed(PreviewView {
            rows: report
                .count_rows()
                .map(|(kind, counts, notes)| CountRow {
                    kind: kind.trim_start(),
                    is_part: kind.starts_with(' '),
                    counts,
                    notes,
                })
                .collect(),
            remarks: group_remarks(report.remark_lines()),
            lost: lost.map(|lost| lost.to_string()),
        }),
        ImportStage::Finished {
            project_count,
            is_live,
        } => {
            let effect = match is_live {
                true => "Alerts are sent from now on.",
                false => {
                    "They are on trial and send no alerts until overdue project release or an \
                     import that sends alerts."
                }
            };
            let projects = format_count(*project_count, "project");
            ImportStageView::Finished(format!("{projects} imported. {effect}"))
        }
        ImportStage::Failed(reason) => {
            ImportStageView::Failed(reason.lines().map(str::to_owned).collect())
        }
        ImportStage::Discarded => ImportStageView::Discarded,
    });
    Ok(HtmlPage::from_template(&ImportJobPage {
        layout: request.layout("Import"),
        page_url: request.page_url(&request.page),
        new_import: request.page_url(&Page::Import()),
        file: job.file_name.clone(),
        is_working: matches!(stage, ImportStageView::Working(..)),
        stage,
    })
    .into())
}

/// Groups indented lines under the line before them.
fn group_remarks(lines: Vec<String>) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        match groups.last_mut() {
            Some((_, details)) if line.starts_with(' ') => details.push(line.trim().to_owned()),
            _ => groups.push((line, Vec::new())),
        }
    }
    groups
}

/// Imports the file, or discards it.
pub(super) fn decide(
    request: &PageRequest,
    id: Uuid,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let job = find_job(request, id)?;
    let decision = match form.get("action") {
        "trial" | "live" => ImportDecision::Import {
            is_live: form.get("action") == "live",
            replaces_changed: form.has("replace"),
        },
        "discard" => ImportDecision::Discard,
        _ => return Err(PageError::bad_request("choose how to import")),
    };
    job.decide(decision).map_err(PageError::bad_request)?;
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        file = job.file_name,
        ?decision,
        "decided about an import"
    );
    Ok(PageResponse::Redirect(Page::ImportJob(id), None))
}

fn find_job(request: &PageRequest, id: Uuid) -> Result<Arc<ImportJob>, PageError> {
    let job = request.dashboard.import_slot.job();
    job.filter(|job| job.id == id)
        .ok_or_else(PageError::not_found)
}

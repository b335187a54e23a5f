//! Undoing of pauses, resumptions and other actions on checks, for a short time after them.

use std::collections::VecDeque;
use std::time::Duration;

use super::check_list;
use super::check_list::BulkAction;
use super::page_error::PageError;
use super::page_request::{ClientId, PageRequest};
use super::page_response::PageResponse;
use super::page_routes::Page;
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::engine::command::CheckRestoration;
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Time for which an action can be undone.
pub(super) const UNDO_TIME: Duration = Duration::from_secs(30);
/// Maximum number of checks in all actions that can be undone: see [limits](crate::docs::limits).
/// Above it the oldest actions can no longer be undone.
const MAX_CHECKS: usize = 50_000;

/// Steps that undo an action.
#[derive(Clone, Debug)]
pub(super) enum UndoSteps {
    /// Returns checks to their states before a pause or resumption.
    Restore(Vec<CheckRestoration>),
    /// Applies the opposite action to the checks that the action has changed.
    Reverse(BulkAction, Vec<CheckId>),
}

/// Action that can be undone.
struct UndoableAction {
    number: u64,
    client: ClientId,
    /// Project of the checks. `None`: the action was done in the list of all projects.
    project: Option<ProjectId>,
    /// Uptime at which it was done.
    at: Duration,
    steps: UndoSteps,
    page: ResultPage,
}

/// URL of the page that shows the result of an action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ResultPage {
    /// List of checks.
    List(String),
    /// Page of the check.
    Check(String),
}

/// Actions that can be undone, oldest first. In memory only: after a restart nothing can be undone.
#[derive(Default)]
pub(super) struct UndoHistory(Mutex<UndoQueue>);

#[derive(Default)]
struct UndoQueue {
    last_number: u64,
    actions: VecDeque<UndoableAction>,
}

impl UndoSteps {
    /// Number of checks.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Restore(checks) => checks.len(),
            Self::Reverse(_, checks) => checks.len(),
        }
    }

    /// Step that undoes a pause or resumption: the check before it and after it. `None` if it was
    /// pinged in between.
    pub(super) fn restoration(before: &Check, after: &Check) -> Option<CheckRestoration> {
        (before.state.last_arrival == after.state.last_arrival).then_some(CheckRestoration {
            check: before.id,
            earlier: before.state,
            newest: (after.state.last_arrival, after.state.last_flip),
        })
    }
}

impl UndoHistory {
    /// Records an action of this request. Returns its number, or `None` if it changed nothing or
    /// too many checks.
    pub(super) fn record(
        &self,
        request: &PageRequest,
        steps: UndoSteps,
        page: ResultPage,
    ) -> Option<u64> {
        if !(1..=MAX_CHECKS).contains(&steps.len()) {
            return None;
        }
        let now = request.handle().clock().uptime();
        let mut queue = self.current(now);
        queue.last_number += 1;
        let action = UndoableAction {
            number: queue.last_number,
            client: request.client_id(),
            project: project_of(request),
            at: now,
            steps,
            page,
        };
        queue.actions.push_back(action);
        let checks = |queue: &UndoQueue| -> usize {
            queue.actions.iter().map(|action| action.steps.len()).sum()
        };
        while checks(&queue) > MAX_CHECKS {
            queue.actions.pop_front();
        }
        Some(queue.last_number)
    }

    /// URL that undoes the action in the query of this request, if it still can be undone.
    pub(super) fn url(&self, request: &PageRequest) -> Option<String> {
        let number = request.query.get("undo").parse().ok()?;
        let queue = self.current(request.handle().clock().uptime());
        queue.position(number, request.client_id(), project_of(request))?;
        Some(request.page_url(&match request.project() {
            Ok(project) => Page::Undo(project.uuid, number),
            Err(_) => Page::UndoOfAll(number),
        }))
    }

    fn take(&self, number: u64, request: &PageRequest) -> Result<UndoableAction, PageError> {
        let project = project_of(request);
        let mut queue = self.current(request.handle().clock().uptime());
        queue
            .position(number, request.client_id(), project)
            .and_then(|index| queue.actions.remove(index))
            .ok_or_else(|| {
                PageError::bad_request("an action can be undone once, within 30 seconds")
            })
    }

    /// Actions that can be undone at this uptime.
    fn current(&self, now: Duration) -> MutexGuard<'_, UndoQueue> {
        let mut queue = lock(&self.0);
        queue.actions.retain(|action| now < action.at + UNDO_TIME);
        queue
    }
}

impl UndoQueue {
    /// Only the client that did an action finds it.
    fn position(&self, number: u64, client: ClientId, project: Option<ProjectId>) -> Option<usize> {
        self.actions.iter().position(|action| {
            (action.number, action.client, action.project) == (number, client, project)
        })
    }
}

fn project_of(request: &PageRequest) -> Option<ProjectId> {
    request.project().ok().map(|project| project.id)
}

/// Adds the code of a message to the URL of a page, and the number of an action that can be undone.
pub(super) fn with_message(mut url: String, code: &str, number: Option<u64>) -> String {
    url.push(if url.contains('?') { '&' } else { '?' });
    url.push_str("m=");
    url.push_str(code);
    if let Some(number) = number {
        url.push_str(&format!("&undo={number}"));
    }
    url
}

/// Undoes an action, and redirects to the page that showed its result.
pub(super) async fn undo(request: &PageRequest, number: u64) -> Result<PageResponse, PageError> {
    let action = request.dashboard.undo_history.take(number, request)?;
    let result = check_list::undo_steps(request, action.steps).await?;
    let (page, message) = match action.page {
        ResultPage::List(page) => (page, format!("undo&{}", result.to_query())),
        ResultPage::Check(page) if result.has_changes() => (page, "undone".into()),
        ResultPage::Check(page) => (page, "not-undone".into()),
    };
    Ok(PageResponse::RedirectToUrl(with_message(
        page, &message, None,
    )))
}

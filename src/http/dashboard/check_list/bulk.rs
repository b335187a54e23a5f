//! Bulk actions on checks of the list.

use std::collections::HashSet;
use std::sync::Arc;

use super::bulk_confirmation::confirmation_page;
use super::query::{CheckListFilter, CheckListQuery};
use super::scan::alerting_channels;
use crate::domain::check::Check;
use crate::domain::check_edit::CheckEdit;
use crate::domain::formatting::format_count;
use crate::domain::ids::{ChannelId, CheckId};
use crate::domain::status::Status;
use crate::domain::text::Tags;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::CommandError;
use crate::http::common::reply::HttpError;
use crate::http::dashboard::form_data::FormData;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_messages::Banner;
use crate::http::dashboard::page_request::{PageRequest, Query};
use crate::http::dashboard::page_response::PageResponse;
use crate::http::dashboard::page_routes::RequiredRight;
use crate::http::dashboard::pause_length::PauseLength;
use crate::http::dashboard::undo::{ResultPage, UndoSteps, with_message};
use crate::operations::check::CheckChange;
use crate::operations::{channel, check};

/// Number of commands queued before their results are awaited, so that pings are processed in
/// between. See [limits](crate::docs::limits).
const COMMANDS_PER_BATCH: usize = 500;
/// Maximum number of checks that can be selected one by one: see [limits](crate::docs::limits).
const MAX_SELECTED: usize = 1_000;

/// Input of the form below the list.
pub(super) struct BulkFormInput {
    /// Ids of the ticked checks.
    pub(super) selected: HashSet<u64>,
    /// True if all checks that match the filter are selected.
    pub(super) is_all: bool,
    pub(super) tag: String,
    /// UUID of a channel.
    pub(super) channel: String,
}

/// Action on the selected checks.
#[derive(Clone, Debug)]
pub(crate) enum BulkAction {
    /// Pauses checks, until this time if there is one.
    Pause(Option<Timestamp>),
    Resume,
    AddTag(String),
    RemoveTag(String),
    Assign(ChannelId, bool),
    Delete,
}

/// Result of a bulk action, as numbers of checks.
#[derive(Clone, Copy, Default)]
pub(crate) struct BulkResult {
    changed: usize,
    unchanged: usize,
    deleted: usize,
    refused: usize,
}

impl BulkResult {
    /// Numbers as parameters of a URL, for the message about the result.
    pub(crate) fn to_query(self) -> String {
        let Self {
            changed,
            unchanged,
            deleted,
            refused,
        } = self;
        format!("changed={changed}&same={unchanged}&gone={deleted}&refused={refused}")
    }

    /// True if a check was changed.
    pub(crate) fn has_changes(self) -> bool {
        self.changed > 0
    }

    /// Counts the result of a change of one check.
    fn count<T>(&mut self, outcome: &Result<T, CommandError>) {
        let number = match outcome {
            Ok(_) => &mut self.changed,
            Err(CommandError::NotFound) => &mut self.deleted,
            Err(CommandError::NotPaused) => &mut self.unchanged,
            Err(_) => &mut self.refused,
        };
        *number += 1;
    }
}

impl BulkAction {
    /// Parses the action of a form, or returns a message about missing input.
    fn from_form(request: &PageRequest, form: &FormData) -> Result<Self, &'static str> {
        let tag = || {
            let tag = form.get("new_tag").trim();
            let is_one = Tags::parse(tag).is_ok_and(|tags| tags.iter().count() == 1);
            is_one
                .then(|| tag.to_owned())
                .ok_or("Enter one tag, without spaces, next to the button.")
        };
        let channel = || {
            let uuid = form.get("channel");
            // A channel belongs to the project of its checks.
            let project = request.project().ok().map(|project| project.id);
            request.handle().with_state(|state| {
                let channels = project
                    .and_then(|project| state.project(project))
                    .into_iter()
                    .flat_map(|project| project.channels.values());
                let mut found = channels.filter(|channel| channel.uuid.to_string() == uuid);
                found
                    .next()
                    .map(|channel| channel.id)
                    .ok_or("Choose a channel next to the button.")
            })
        };
        Ok(match form.get("action") {
            "pause" => Self::Pause(pause_end(request, form)?),
            "resume" => Self::Resume,
            "add-tag" => Self::AddTag(tag()?),
            "remove-tag" => Self::RemoveTag(tag()?),
            "assign" => Self::Assign(channel()?, true),
            "unassign" => Self::Assign(channel()?, false),
            "delete" => Self::Delete,
            _ => return Err("Press one of the buttons below the list."),
        })
    }

    /// Name of the action in forms and URLs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pause(_) => "pause",
            Self::Resume => "resume",
            Self::AddTag(_) => "add-tag",
            Self::RemoveTag(_) => "remove-tag",
            Self::Assign(_, true) => "assign",
            Self::Assign(_, false) => "unassign",
            Self::Delete => "delete",
        }
    }

    /// The action on these checks, such as `Pause 5 checks`.
    pub(super) fn phrase(&self, checks: &str) -> String {
        match self {
            Self::Pause(_) => format!("Pause {checks}"),
            Self::Resume => format!("Resume {checks}"),
            Self::AddTag(tag) => format!("Add the tag {tag} to {checks}"),
            Self::RemoveTag(tag) => format!("Remove the tag {tag} from {checks}"),
            Self::Assign(_, true) => format!("Assign {checks} to the channel"),
            Self::Assign(_, false) => format!("Remove {checks} from the channel"),
            Self::Delete => format!("Delete {checks}"),
        }
    }

    /// Effects of the action that its name does not show.
    pub(super) fn consequence(&self) -> &'static str {
        match self {
            Self::Pause(None) => {
                "Paused checks send no alerts. A check that is down does not return to that status \
                 when it is resumed."
            }
            Self::Pause(Some(_)) => {
                "Paused checks send no alerts. After the pause each check has its former status."
            }
            Self::Resume => "Each check is monitored again from its next ping.",
            Self::Delete => {
                "Their logs are deleted too. Pings to their URLs are then answered with 404. This \
                 cannot be undone."
            }
            Self::AddTag(_) | Self::RemoveTag(_) | Self::Assign(..) => "",
        }
    }

    /// Action that undoes this one for the checks that it has changed. `None` if no action does.
    fn opposite(&self) -> Option<Self> {
        Some(match self {
            Self::AddTag(tag) => Self::RemoveTag(tag.clone()),
            Self::RemoveTag(tag) => Self::AddTag(tag.clone()),
            Self::Assign(channel, assigned) => Self::Assign(*channel, !assigned),
            Self::Pause(_) | Self::Resume | Self::Delete => return None,
        })
    }

    /// Step of the action for one check.
    fn step_for(&self, check: &Check) -> BulkStep {
        let tags = &check.settings.tags;
        let tagged = |tags: Tags| {
            let edit = CheckEdit {
                tags: Some(tags),
                ..CheckEdit::default()
            };
            BulkStep::Change(CheckChange::Update(check.id, Box::new(edit)))
        };
        match self {
            Self::Pause(until)
                if check.state.status == Status::Paused
                    && check.state.pause_end.map(|end| end.at) == *until =>
            {
                BulkStep::Unchanged
            }
            Self::Pause(until) => BulkStep::Change(CheckChange::Pause(check.id, *until)),
            Self::Resume => BulkStep::Change(CheckChange::Resume(check.id)),
            Self::AddTag(tag) if tags.contains(tag) => BulkStep::Unchanged,
            Self::AddTag(tag) => Tags::parse(format!("{} {tag}", tags.as_str()).trim())
                .map_or(BulkStep::TooManyTags, tagged),
            Self::RemoveTag(tag) if !tags.contains(tag) => BulkStep::Unchanged,
            // The remaining tags may still exceed a limit.
            Self::RemoveTag(tag) => tagged(Tags::from_stored(
                &tags
                    .iter()
                    .filter(|other| other != tag)
                    .collect::<Vec<_>>()
                    .join(" "),
            )),
            Self::Delete => BulkStep::Change(CheckChange::Delete(check.id)),
            // Assignments use one command for many checks.
            Self::Assign(..) => BulkStep::Unchanged,
        }
    }
}

/// End of the pause that a form asks for.
fn pause_end(request: &PageRequest, form: &FormData) -> Result<Option<Timestamp>, &'static str> {
    let missing = "Choose a length next to the button.";
    let length = PauseLength::parse(form.get("for")).map_err(|_| missing)?;
    let input = length.input(request.now, &request.viewer.zone);
    input.parse(request.now).map_err(|_| missing)
}

/// Step for one check.
enum BulkStep {
    Change(CheckChange),
    /// The check already has the requested state.
    Unchanged,
    /// The check has the maximum number of tags.
    TooManyTags,
}

/// Parsed form, before anything is executed.
enum BulkRequest {
    /// A page that asks for confirmation, or reports missing input.
    Respond(PageResponse),
    Execute(Box<BulkSelection>),
}

/// Action, the checks that it applies to, and the number of selected checks that no longer exist.
struct BulkSelection {
    request: PageRequest,
    query: CheckListQuery,
    action: BulkAction,
    checks: Vec<Check>,
    deleted: usize,
}

/// Executes the action, or asks for confirmation first.
pub(crate) async fn apply_bulk_action(
    request: PageRequest,
    form: FormData,
) -> Result<PageResponse, PageError> {
    let dashboard = Arc::clone(&request.dashboard);
    let BulkSelection {
        request,
        query,
        action,
        checks,
        deleted: already_deleted,
    } = match dashboard
        .run_blocking(request.owner(), move || parse_request(request, &form))
        .await??
    {
        BulkRequest::Respond(response) => return Ok(response),
        BulkRequest::Execute(selection) => *selection,
    };
    let (result, undo) = execute(&request, &action, &checks).await?;
    let result = BulkResult {
        deleted: result.deleted + already_deleted,
        ..result
    };
    let list = request.page_url(&super::list_page(&request));
    let page = format!("{list}{}", query.to_query_string());
    let number = match undo {
        Some(steps) => {
            let page = ResultPage::List(page.clone());
            dashboard.undo_history.record(&request, steps, page)
        }
        None => None,
    };
    let message = format!("{}&{}", action.name(), result.to_query());
    Ok(PageResponse::RedirectToUrl(with_message(
        page, &message, number,
    )))
}

/// Applies the steps that undo an action.
pub(crate) async fn undo_steps(
    request: &PageRequest,
    steps: UndoSteps,
) -> Result<BulkResult, PageError> {
    match steps {
        UndoSteps::Restore(checks) => {
            let mut result = BulkResult::default();
            for some in checks.chunks(COMMANDS_PER_BATCH) {
                let changes = some
                    .iter()
                    .map(|check| CheckChange::Restore(Box::new(*check)));
                for outcome in check::change_all(request.handle(), changes).await? {
                    result.count(&outcome);
                }
            }
            Ok(result)
        }
        UndoSteps::Reverse(action, ids) => {
            let checks = existing_checks(request, &ids);
            let (result, _) = execute(request, &action, &checks).await?;
            Ok(BulkResult {
                deleted: result.deleted + ids.len() - checks.len(),
                ..result
            })
        }
    }
}

fn parse_request(request: PageRequest, form: &FormData) -> Result<BulkRequest, PageError> {
    let query = CheckListQuery::parse(&form.fields().0, request.viewer.list_preferences);
    let action = match BulkAction::from_form(&request, form) {
        Ok(action) => action,
        Err(missing) => {
            return redisplay_list(request, query, form, missing).map(BulkRequest::Respond);
        }
    };
    if request.writable_projects().is_empty() {
        return Err(PageError::forbidden(RequiredRight::Write));
    }
    let (checks, already_deleted) = select_checks(&request, form, &query)?;
    if checks.is_empty() && already_deleted == 0 {
        return redisplay_list(
            request,
            query,
            form,
            "Select checks first, with the boxes next to their names.",
        )
        .map(BulkRequest::Respond);
    }
    if let Some(page) = confirmation_page(&request, form, &action, &checks, &query)? {
        return Ok(BulkRequest::Respond(page.into()));
    }
    Ok(BulkRequest::Execute(Box::new(BulkSelection {
        request,
        query,
        action,
        checks,
        deleted: already_deleted,
    })))
}

/// Renders the list again, with the submitted input and a message about missing input.
fn redisplay_list(
    mut request: PageRequest,
    query: CheckListQuery,
    form: &FormData,
    missing: &str,
) -> Result<PageResponse, PageError> {
    let submitted = BulkFormInput {
        selected: form
            .get_all("check")
            .filter_map(|id| id.parse().ok())
            .collect(),
        is_all: form.has("all"),
        tag: form.get("new_tag").to_owned(),
        channel: form.get("channel").to_owned(),
    };
    request.page = super::list_page(&request);
    Ok(super::render_list(
        &request,
        query,
        Some(Banner::error(missing)),
        Some(submitted),
    )?
    .with_invalid_form()
    .into())
}

/// Checks that a form selects, or all that match the filter, in the projects that the viewer may
/// change. Also returns the number of selected checks that no longer exist.
fn select_checks(
    request: &PageRequest,
    form: &FormData,
    query: &CheckListQuery,
) -> Result<(Vec<Check>, usize), PageError> {
    if form.has("all") {
        let mut checks = Vec::new();
        let filter = CheckListFilter::new(query);
        for project in request.writable_projects() {
            let alerting = alerting_channels(request, project.id);
            request.handle().for_each_check(project.id, |check| {
                let status = check.state.visible_status(&check.settings, request.now);
                let is_unnotified = !alerting.reach_recipient_of(&check.settings);
                if filter.matches(&check, status, is_unnotified) {
                    checks.push(check);
                }
            });
        }
        return Ok((checks, 0));
    }
    let ids: Vec<_> = form
        .get_all("check")
        .filter_map(|id| id.parse().ok())
        .map(CheckId)
        .collect();
    if ids.len() > MAX_SELECTED {
        return Err(HttpError::BadRequest(
            "at most 1,000 checks can be selected; select all that match instead".into(),
        )
        .into());
    }
    let checks = existing_checks(request, &ids);
    let already_deleted = ids.len() - checks.len();
    Ok((checks, already_deleted))
}

/// Checks with these ids in the projects that the viewer may change.
fn existing_checks(request: &PageRequest, ids: &[CheckId]) -> Vec<Check> {
    let projects = request.writable_projects();
    let projects: HashSet<_> = projects.iter().map(|project| project.id).collect();
    request.handle().with_state(|state| {
        let checks = ids.iter().filter_map(|id| state.check(*id));
        let writable = checks.filter(|check| projects.contains(&check.project));
        writable.cloned().collect()
    })
}

/// Executes an action. Returns its result, and the steps that undo it.
async fn execute(
    request: &PageRequest,
    action: &BulkAction,
    checks: &[Check],
) -> Result<(BulkResult, Option<UndoSteps>), PageError> {
    let mut result = BulkResult::default();
    let mut changed_checks = Vec::new();
    let mut restorations = Vec::new();
    for some in checks.chunks(COMMANDS_PER_BATCH) {
        if let BulkAction::Assign(channel, assigned) = *action {
            let ids: Vec<_> = some.iter().map(|check| check.id).collect();
            let changed = channel::assign_checks(request.handle(), channel, &ids, assigned).await?;
            result.changed += changed;
            result.unchanged += some.len() - changed;
            let differ = |check: &&Check| check.settings.channels.contains(&channel) != assigned;
            changed_checks.extend(some.iter().filter(differ).map(|check| check.id));
            continue;
        }
        let mut before = Vec::new();
        let mut changes = Vec::new();
        for check in some {
            match action.step_for(check) {
                BulkStep::Change(change) => {
                    before.push(check);
                    changes.push(change);
                }
                BulkStep::Unchanged => result.unchanged += 1,
                BulkStep::TooManyTags => result.refused += 1,
            }
        }
        let outcomes = check::change_all(request.handle(), changes).await?;
        for (before, outcome) in before.into_iter().zip(outcomes) {
            result.count(&outcome);
            if let Ok(after) = outcome {
                restorations.extend(UndoSteps::restoration(before, &after));
                changed_checks.push(after.id);
            }
        }
    }
    let undo = match action {
        BulkAction::Pause(_) | BulkAction::Resume => Some(UndoSteps::Restore(restorations)),
        action => action
            .opposite()
            .map(|opposite| UndoSteps::Reverse(opposite, changed_checks)),
    };
    Ok((result, undo))
}

/// Message about the result, from the action and the numbers in the URL.
pub(super) fn result_banner(query: &Query) -> Option<Banner> {
    let number = |name: &str| query.get(name).parse::<usize>().ok().unwrap_or_default();
    let changed = format_count(number("changed"), "check");
    let done = match query.get("m") {
        "pause" => format!("Paused {changed}"),
        "resume" => format!("Resumed {changed}"),
        "add-tag" => format!("Added the tag to {changed}"),
        "remove-tag" => format!("Removed the tag from {changed}"),
        "assign" => format!("Assigned {changed} to the channel"),
        "unassign" => format!("Removed {changed} from the channel"),
        "delete" => format!("Deleted {changed}"),
        "undo" => format!("Undone for {changed}"),
        _ => return None,
    };
    let refused = match query.get("m") {
        "undo" => "not, because they have changed since",
        _ => "not changed because of too many tags",
    };
    let other_results = [
        ("same", "unchanged"),
        ("gone", "already deleted"),
        ("refused", refused),
    ];
    let others = other_results
        .map(|(name, words)| (number(name), words))
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"));
    let parts: Vec<_> = std::iter::once(done).chain(others).collect();
    Some(Banner::info(format!("{}.", parts.join(", "))))
}

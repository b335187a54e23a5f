//! What is done to many checks of the list at once.

use std::collections::HashSet;
use std::sync::Arc;

use askama::Template;

use super::query::{Filter, Wanted};
use crate::channel::words;
use crate::domain::check::Check;
use crate::domain::edit::Edit;
use crate::domain::ids::{ChannelId, CheckId, ProjectId};
use crate::domain::status::Status;
use crate::domain::text::Tags;
use crate::domain::words::count;
use crate::engine::command::{Command, Outcome, Refusal};
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::form::Form;
use crate::web::frame::Frame;
use crate::web::notice::Note;
use crate::web::route::Page;
use crate::web::visit::{Query, Visit};
use crate::wire::reply::Fault;

/// Commands that are handed over before their answers are waited for: pings find room between them. See [limits](crate::docs::limits).
const AT_ONCE: usize = 500;
/// Checks that may be named one by one: see [limits](crate::docs::limits).
const MOST_NAMED: usize = 1_000;
/// Names that the page that asks shows.
const FEW_NAMES: usize = 50;

/// What was ticked and typed in the form below the list.
pub(super) struct Given {
    /// The numbers of checks.
    pub(super) ticked: HashSet<u64>,
    /// All that match.
    pub(super) is_all: bool,
    pub(super) tag: String,
    /// The UUID of a channel.
    pub(super) channel: String,
}

/// What is to be done.
enum Action {
    Pause,
    Resume,
    AddTag(String),
    RemoveTag(String),
    Assign(ChannelId, bool),
    Delete,
}

/// What has come of it, in numbers of checks.
#[derive(Clone, Copy, Default)]
struct Tally {
    changed: usize,
    same: usize,
    gone: usize,
    refused: usize,
}

#[derive(Template)]
#[template(path = "bulk_delete.html", config = "src/web/askama.toml")]
struct AskDelete {
    frame: Frame,
    path: String,
    list: String,
    ids: Vec<u64>,
    kept: Vec<(&'static str, String)>,
    names: Vec<String>,
    more: usize,
    all: String,
    wanted: String,
    is_wrong: bool,
}

impl Action {
    /// What the form asks for, or what is missing in it.
    fn read(visit: &Visit, project: ProjectId, form: &Form) -> Result<Self, &'static str> {
        let tag = || {
            let tag = form.get("new_tag").trim();
            let is_one = Tags::parse(tag).is_ok_and(|tags| tags.iter().count() == 1);
            is_one.then(|| tag.to_owned()).ok_or("Type one tag, without spaces, beside the button.")
        };
        let channel = || {
            let uuid = form.get("channel");
            visit.handle().with_state(|state| {
                let channels = state.project(project).into_iter().flat_map(|project| project.channels.values());
                let mut found = channels.filter(|channel| channel.uuid.to_string() == uuid);
                found.next().map(|channel| channel.id).ok_or("Choose an integration beside the button.")
            })
        };
        Ok(match form.get("action") {
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "add-tag" => Self::AddTag(tag()?),
            "remove-tag" => Self::RemoveTag(tag()?),
            "assign" => Self::Assign(channel()?, true),
            "unassign" => Self::Assign(channel()?, false),
            "delete" => Self::Delete,
            _ => return Err("Press one of the buttons below the list."),
        })
    }

    /// What it means for one check.
    fn step(&self, check: &Check) -> Step {
        let own = &check.settings.tags;
        let tagged = |tags: Tags| Step::Do(Command::UpdateCheck(check.id, Box::new(Edit { tags: Some(tags), ..Edit::default() })));
        match self {
            Self::Pause if check.state.status == Status::Paused => Step::Same,
            Self::Pause => Step::Do(Command::Pause(check.id)),
            Self::Resume => Step::Do(Command::Resume(check.id)),
            Self::AddTag(tag) if own.contains(tag) => Step::Same,
            Self::AddTag(tag) => Tags::parse(format!("{} {tag}", own.as_str()).trim()).map_or(Step::Refused, tagged),
            Self::RemoveTag(tag) if !own.contains(tag) => Step::Same,
            // Fewer tags than are stored may be over a limit still.
            Self::RemoveTag(tag) => tagged(Tags::stored(&own.iter().filter(|own| own != tag).collect::<Vec<_>>().join(" "))),
            Self::Delete => Step::Do(Command::DeleteCheck(check.id)),
            // Many are assigned by one command.
            Self::Assign(..) => Step::Same,
        }
    }
}

/// What is to be done with a check.
enum Step {
    Do(Command),
    /// It is so already.
    Same,
    /// It has too many tags for one more.
    Refused,
}

/// What a form comes to before anything is done.
enum Asked {
    /// A page that asks, or says what is missing.
    Page(Done),
    Act(Box<Chosen>),
}

/// What is to be done to which checks of a list, and how many of those that were named are gone.
struct Chosen {
    visit: Visit,
    wanted: Wanted,
    action: Action,
    checks: Vec<Check>,
    gone: usize,
}

/// Does it, or asks first.
pub(crate) async fn act(visit: Visit, form: Form) -> Result<Done, Trouble> {
    let site = Arc::clone(&visit.site);
    let Chosen { visit, wanted, action, checks, gone } = match site.make(move || asked(visit, &form)).await?? {
        Asked::Page(done) => return Ok(done),
        Asked::Act(chosen) => *chosen,
    };
    let tally = carry_out(&visit, &action, &checks).await?;
    let Tally { changed, same, gone, refused } = Tally { gone: tally.gone + gone, ..tally };
    let sign = if wanted.write().is_empty() { '?' } else { '&' };
    let query = format!("{}{sign}m=bulk&changed={changed}&same={same}&gone={gone}&refused={refused}", wanted.write());
    Ok(Done::To(format!("{}{query}", visit.link(&Page::Checks(visit.project()?.uuid)))))
}

fn asked(visit: Visit, form: &Form) -> Result<Asked, Trouble> {
    let wanted = Wanted::read(&form.fields().0, visit.viewer.list);
    let action = match Action::read(&visit, visit.project()?.id, form) {
        Ok(action) => action,
        Err(missing) => return again(visit, wanted, form, missing).map(Asked::Page),
    };
    let (checks, gone) = chosen(&visit, form, &wanted)?;
    if checks.is_empty() && gone == 0 {
        return again(visit, wanted, form, "Choose some checks first, by the boxes before their names.").map(Asked::Page);
    }
    if matches!(action, Action::Delete) && form.get("confirm").trim() != format!("delete {}", checks.len()) {
        let is_wrong = form.has("confirm");
        let html = Html::of(&AskDelete::of(&visit, &checks, &wanted, is_wrong)?);
        return Ok(Asked::Page(if is_wrong { html.refused() } else { html }.into()));
    }
    Ok(Asked::Act(Box::new(Chosen { visit, wanted, action, checks, gone })))
}

/// The list once more, with what was ticked and typed, and what is missing.
fn again(mut visit: Visit, wanted: Wanted, form: &Form, missing: &str) -> Result<Done, Trouble> {
    let given = Given {
        ticked: form.all("check").filter_map(|id| id.parse().ok()).collect(),
        is_all: form.has("all"),
        tag: form.get("new_tag").to_owned(),
        channel: form.get("channel").to_owned(),
    };
    visit.page = Page::Checks(visit.project()?.uuid);
    Ok(super::page_of(&visit, wanted, Some(Note::down(missing)), Some(given))?.refused().into())
}

/// The checks of the project that a form names, or all that fit the filter; and how many of those that it names are gone.
fn chosen(visit: &Visit, form: &Form, wanted: &Wanted) -> Result<(Vec<Check>, usize), Trouble> {
    let project = visit.project()?.id;
    if form.has("all") {
        let (mut checks, filter) = (Vec::new(), Filter::new(wanted));
        let channels: HashSet<_> = visit
            .handle()
            .with_state(|state| state.project(project).into_iter().flat_map(|found| found.channels.keys().copied()).collect());
        visit.handle().each_check(project, |check| {
            let status = check.state.visible_status(&check.settings, visit.now);
            let is_untold = !check.settings.channels.iter().any(|channel| channels.contains(channel));
            if filter.fits(&check, status, is_untold) {
                checks.push(check);
            }
        });
        return Ok((checks, 0));
    }
    let ids: Vec<_> = form.all("check").filter_map(|id| id.parse().ok()).map(CheckId).collect();
    if ids.len() > MOST_NAMED {
        return Err(Fault::BadRequest("at most 1,000 checks can be named; choose all that match instead".into()).into());
    }
    visit.handle().with_state(|state| {
        let checks: Vec<_> = ids.iter().filter_map(|id| state.check(*id)).filter(|check| check.project == project).cloned().collect();
        let gone = ids.len() - checks.len();
        Ok((checks, gone))
    })
}

async fn carry_out(visit: &Visit, action: &Action, checks: &[Check]) -> Result<Tally, Trouble> {
    let mut tally = Tally::default();
    for some in checks.chunks(AT_ONCE) {
        if let Action::Assign(channel, assigned) = *action {
            let command = Command::AssignChannel { channel, checks: some.iter().map(|check| check.id).collect(), assigned };
            if let Outcome::Assigned(changed) = visit.handle().call(command).await?? {
                (tally.changed, tally.same) = (tally.changed + changed, tally.same + some.len() - changed);
            }
            continue;
        }
        let mut answers = Vec::with_capacity(some.len());
        for check in some {
            match action.step(check) {
                Step::Do(command) => answers.push(visit.handle().submit(command)),
                Step::Same => tally.same += 1,
                Step::Refused => tally.refused += 1,
            }
        }
        for answer in answers {
            // A writer that is gone has not answered.
            match answer?.await.map_err(|_| Fault::Unavailable)?? {
                Ok(_) => tally.changed += 1,
                Err(Refusal::NotFound) => tally.gone += 1,
                Err(Refusal::NotPaused) => tally.same += 1,
                Err(_) => tally.refused += 1,
            }
        }
    }
    Ok(tally)
}

/// What the list says after it, from the numbers in its URL.
pub(super) fn told(query: &Query) -> Option<Note> {
    let number = |name: &str| query.get(name).parse::<usize>().ok().unwrap_or_default();
    if query.get("m") != "bulk" {
        return None;
    }
    let mut parts = vec![format!("{} changed", number("changed"))];
    parts.extend(
        Some(number("same")).filter(|same| *same > 0).map(|same| format!("{same} {} so already", if same == 1 { "was" } else { "were" })),
    );
    parts.extend(
        Some(number("gone"))
            .filter(|gone| *gone > 0)
            .map(|gone| format!("{gone} {} deleted meanwhile", if gone == 1 { "was" } else { "were" })),
    );
    parts.extend(Some(number("refused")).filter(|refused| *refused > 0).map(|refused| format!("{refused} would have had too many tags")));
    Some(Note::plain(format!("{}.", parts.join(", "))))
}

impl AskDelete {
    fn of(visit: &Visit, checks: &[Check], wanted: &Wanted, is_wrong: bool) -> Result<Self, Trouble> {
        let project = visit.project()?.uuid;
        Ok(Self {
            frame: visit.frame("Delete checks"),
            path: visit.link(&Page::Bulk(project)),
            list: format!("{}{}", visit.link(&Page::Checks(project)), wanted.write()),
            ids: checks.iter().map(|check| check.id.0).collect(),
            kept: wanted.pairs(),
            names: checks.iter().take(FEW_NAMES).map(|check| words::name(&check.settings)).collect(),
            more: checks.len().saturating_sub(FEW_NAMES),
            all: count(checks.len(), "check"),
            wanted: format!("delete {}", checks.len()),
            is_wrong,
        })
    }
}

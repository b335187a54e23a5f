//! `/checks/`: checks listed, read, created, changed, paused, resumed and deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::Uri;
use uuid::Uuid;

use super::check_fields::CheckFields;
use super::etag::List;
use super::json::{Object, write_array};
use super::view::{Channels, Members};
use super::{Call, CheckRef};
use crate::domain::check::Check;
use crate::domain::ids::ProjectId;
use crate::domain::moment::Moment;
use crate::domain::text::Slug;
use crate::engine::Handle;
use crate::engine::command::{CheckNames, Command, CreateCheck, Outcome};
use crate::engine::state::State;
use crate::wire::outgoing::PIECE;
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::request;

/// About how many bytes a check takes in an answer.
const CHECK_BYTES: usize = 1024;
/// Checks of a list that is read and written at once, which takes about a millisecond.
pub(super) const FEW_CHECKS: usize = 1200;
/// Tags that a list may be filtered by: each is looked for in every check. See [limits](crate::docs::limits).
const MOST_TAGS: usize = 20;

pub(super) async fn list(call: &Call<'_>) -> Result<List, Fault> {
    let (handle, project, now) = (call.handle().clone(), call.caller.project, call.now);
    let filter = Filter::of(&call.head.uri)?;
    let looked_at = handle.with_state(|state| state.project(project).map_or(0, |project_state| project_state.checks.len()));
    let room = call.door.api.listed.take(project, looked_at).await?;
    let is_short = looked_at <= FEW_CHECKS;
    let (checks, channels, until) = call
        .door
        .outgoing
        .short_or_not(is_short, move || {
            // Copies, so that no ping waits for the answer to be written.
            let checks = filter.checks(&handle, project, looked_at);
            let until = checks.iter().filter_map(|check| check.state.next_change(&check.settings, now)).min();
            // Read after the checks, so that every channel that they name is there. One that was deleted meanwhile is left out.
            (checks, handle.with_state(|state| channels(state, project)), until)
        })
        .await?;
    let view = call.view();
    // Texts that were stored before their limits may be long.
    let texts: usize = checks.iter().map(|check| check.settings.desc.as_str().len() + check.settings.tags.as_str().len()).sum();
    let body = if checks.len() + texts / CHECK_BYTES <= FEW_CHECKS {
        let write = move || {
            let _room = &room;
            let mut out = String::with_capacity(CHECK_BYTES * (checks.len() + 1));
            let mut object = Object::begin(&mut out);
            object.with("checks", |out| {
                write_array(out, &checks, |check, out| view.write_check(out, check, Members::Read, &channels, now));
            });
            object.end();
            Ok(out)
        };
        call.door.outgoing.whole(is_short, write).await?
    } else {
        let (mut checks, mut begun) = (checks.into_iter(), false);
        let write = move |out: &mut String| {
            let _room = &room;
            if !begun {
                out.push_str("{\"checks\":[");
            }
            for check in checks.by_ref() {
                if std::mem::replace(&mut begun, true) {
                    out.push(',');
                }
                view.write_check(out, &check, Members::Read, &channels, now);
                if out.len() >= PIECE {
                    return Ok(true);
                }
            }
            out.push_str("]}");
            Ok(false)
        };
        call.door.outgoing.clone().pieces(write).await?
    };
    Ok(List { body, until })
}

/// Which checks a list is to have.
#[derive(Default, PartialEq)]
struct Filter {
    /// `Some(None)`: a slug that no check can have.
    slug: Option<Option<Slug>>,
    /// A check must have all of these. `None` stands for a tag that no check can have.
    tags: BTreeSet<Option<String>>,
}

impl Filter {
    /// Reads the query. An empty slug filters nothing. Of several slugs the last counts. A check must have every tag.
    ///
    /// # Errors
    /// More tags than [`MOST_TAGS`], repeated ones included.
    fn of(uri: &Uri) -> Result<Self, Fault> {
        let (mut filter, mut tags) = (Self::default(), 0);
        for (name, value) in request::query(uri) {
            match name.as_deref() {
                Some("slug") if value.as_deref() == Some("") => filter.slug = None,
                Some("slug") => filter.slug = Some(value.map(|slug| Slug::stored(&slug))),
                Some("tag") => {
                    tags += 1;
                    filter.tags.insert(value);
                }
                _ => {}
            }
        }
        if tags > MOST_TAGS { Err(Fault::BadRequest("too many tags".into())) } else { Ok(filter) }
    }

    /// The checks of a project that fit, oldest first. The project has about `count`.
    fn checks(&self, handle: &Handle, project: ProjectId, count: usize) -> Vec<Check> {
        if *self == Self::default() {
            // A list that grows leaves pieces of memory behind, and copying each check twice takes a tenth of the time of a list.
            return handle.all_checks(project, count);
        }
        let mut checks = Vec::new();
        // Tags are compared while nobody waits for the state.
        let mut take = |check: Check| {
            if self.tags.iter().all(|tag| tag.as_ref().is_some_and(|tag| check.settings.tags.contains(tag))) {
                checks.push(check);
            }
        };
        match &self.slug {
            None => handle.each_check(project, take),
            Some(None) => {}
            Some(Some(slug)) => {
                let of_slug: Vec<Check> = handle
                    .with_state(|state| state.checks_by_slug(project, slug).iter().filter_map(|id| state.check(*id)).cloned().collect());
                of_slug.into_iter().for_each(&mut take);
            }
        }
        checks
    }
}

pub(super) async fn get(call: &Call<'_>, check: CheckRef) -> Result<Reply, Fault> {
    Ok(reply::json(written(call, &call.check(check).await?, Members::Read, call.now)))
}

pub(super) async fn create(mut call: Call<'_>) -> Result<Reply, Fault> {
    let CheckFields { edit, unique } = call.fields(None).await?;
    let random = call.handle().random();
    let names = CheckNames { uuid: random.uuid(), badge: random.uuid() };
    change(&call, Command::CreateCheck(Box::new(CreateCheck { project: call.caller.project, edit, unique, names }))).await
}

pub(super) async fn update(mut call: Call<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let check = call.check(CheckRef::Uuid(uuid)).await?;
    let CheckFields { edit, .. } = call.fields(Some(Arc::clone(&check.settings))).await?;
    change(&call, Command::UpdateCheck(check.id, Box::new(edit))).await
}

pub(super) async fn pause(call: Call<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    change(&call, Command::Pause(call.check(CheckRef::Uuid(uuid)).await?.id)).await
}

pub(super) async fn resume(call: Call<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    change(&call, Command::Resume(call.check(CheckRef::Uuid(uuid)).await?.id)).await
}

pub(super) async fn delete(call: Call<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    change(&call, Command::DeleteCheck(call.check(CheckRef::Uuid(uuid)).await?.id)).await
}

/// Has a command carried out that leaves a check to show.
async fn change(call: &Call<'_>, command: Command) -> Result<Reply, Fault> {
    let outcome = call.handle().call(command).await??;
    let now = call.handle().now();
    match outcome {
        Outcome::Created(check) => Ok(reply::created_json(written(call, &check, Members::Changed, now))),
        Outcome::Check(check) => Ok(reply::json(written(call, &check, Members::Changed, now))),
        // No command of this file comes to these.
        Outcome::Pinged
        | Outcome::PingedNew
        | Outcome::Project(_)
        | Outcome::Key(_)
        | Outcome::User(_)
        | Outcome::Session(_)
        | Outcome::Channel(_)
        | Outcome::Begun(_)
        | Outcome::Window(_)
        | Outcome::Assigned(_)
        | Outcome::Queued(_)
        | Outcome::Declared(_)
        | Outcome::Stage(_)
        | Outcome::Done => Err(Fault::Unavailable),
    }
}

fn written(call: &Call<'_>, check: &Check, members: Members, now: Moment) -> String {
    let mut out = String::with_capacity(CHECK_BYTES);
    let channels = call.handle().with_state(|state| channels(state, check.project));
    call.view().write_check(&mut out, check, members, &channels, now);
    out
}

fn channels(state: &State, project: ProjectId) -> Channels {
    state.project(project).map(|project_state| project_state.channels.clone()).unwrap_or_default()
}

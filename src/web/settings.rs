//! The settings of a project: its name, its keys, who sees it, its limits, its end.

use std::net::IpAddr;

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::frame::Frame;
use super::notice::Notice;
use super::route::{Need, Page};
use super::sign_in::is_confirmed;
use super::visit::Visit;
use super::when::When;
use crate::domain::ids::KeyId;
use crate::domain::project::{Access, Key, KeyLabel, Project, ProjectName, Secret};
use crate::engine::command::{Command, Refusal};
use crate::manage::{self, ManageError, project::Changes};

#[derive(Template)]
#[template(path = "settings.html", config = "src/web/askama.toml")]
struct Settings {
    frame: Frame,
    name: String,
    name_is_wrong: Option<String>,
    may_write: bool,
    is_owner: bool,
    api_keys: Vec<KeyRow>,
    ping_keys: Vec<KeyRow>,
    /// A key that was just made.
    made: Option<String>,
    /// What was typed as the label of a new key, and of a new ping key.
    label: String,
    label_is_wrong: Option<&'static str>,
    ping_label: String,
    ping_label_is_wrong: Option<&'static str>,
    is_read_only: bool,
    people: Vec<PersonRow>,
    ping_log_limit: String,
    check_limit: String,
    limit_is_wrong: Option<&'static str>,
    checks: usize,
    asks_password: bool,
    delete_is_wrong: Option<&'static str>,
    own: String,
}

/// A key in a list.
pub(super) struct KeyRow {
    id: u64,
    access: &'static str,
    label: String,
    hint: String,
    made: When,
    used: Option<(When, IpAddr)>,
    is_unused_since_import: bool,
    /// A ping key itself, which may be shown again.
    text: Option<String>,
}

struct PersonRow {
    name: String,
    may: &'static str,
}

/// What is wrong with what was typed into one of the forms.
#[derive(Default)]
struct Wrong {
    name: Option<(String, String)>,
    label: Option<(String, Access, &'static str)>,
    limits: Option<(String, String, &'static str)>,
    delete: Option<&'static str>,
}

/// The page.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, Wrong::default())?.into())
}

fn page(visit: &Visit, wrong: Wrong) -> Result<Html, Trouble> {
    let project = visit.project()?;
    let (may_write, is_owner) = (visit.may(Need::Write), visit.may(Need::Owner));
    let path = Page::Settings(project.uuid).to_string();
    let made = if may_write { visit.site.shown_once.take(visit, &path) } else { None };
    let keys: Vec<_> = if may_write { manage::key::list(visit.handle(), Some(project.id)) } else { Vec::new() };
    let (ping_keys, api_keys): (Vec<_>, Vec<_>) = keys.iter().map(|(_, key)| row(visit, key)).partition(|row| row.text.is_some());
    let is_secret = made.is_some() || !ping_keys.is_empty();
    let limit = project.check_limit.map(|limit| limit.to_string()).unwrap_or_default();
    let is_refused = wrong.name.is_some() || wrong.label.is_some() || wrong.limits.is_some() || wrong.delete.is_some();
    let (name, name_is_wrong) = wrong.name.unzip();
    let access = wrong.label.as_ref().map(|(_, access, _)| *access);
    let (ping, own): (Vec<_>, Vec<_>) = wrong.label.into_iter().partition(|(_, access, _)| *access == Access::Ping);
    let of = |label: Vec<(String, Access, &'static str)>| label.into_iter().next().map(|(label, _, reason)| (label, reason)).unzip();
    let (label, label_is_wrong): (Option<String>, _) = of(own);
    let (ping_label, ping_label_is_wrong): (Option<String>, _) = of(ping);
    let (pings, checks, limit_is_wrong) = wrong
        .limits
        .map_or_else(|| (project.ping_log_limit.to_string(), limit, None), |(pings, checks, reason)| (pings, checks, Some(reason)));
    let settings = Settings {
        frame: visit.frame("Settings"),
        name: name.unwrap_or_else(|| project.name.as_str().into()),
        name_is_wrong,
        may_write,
        is_owner,
        api_keys,
        ping_keys,
        made,
        label: label.unwrap_or_default(),
        label_is_wrong,
        ping_label: ping_label.unwrap_or_default(),
        ping_label_is_wrong,
        is_read_only: access == Some(Access::ReadOnly),
        people: people(visit, project),
        ping_log_limit: pings,
        check_limit: checks,
        limit_is_wrong,
        checks: visit.handle().with_state(|state| state.project(project.id).map_or(0, |found| found.checks.len())),
        asks_password: asks_password(visit),
        delete_is_wrong: wrong.delete,
        own: visit.link(&Page::Settings(project.uuid)),
    };
    let html = Html::of(&settings);
    let html = if is_secret { html.secret() } else { html };
    Ok(if is_refused { html.refused() } else { html })
}

/// Whether what is grave asks for the password.
pub(super) fn asks_password(visit: &Visit) -> bool {
    let person = visit.viewer.person.as_ref();
    let session = person.filter(|person| person.user.password.is_some()).and_then(|person| person.session.as_ref());
    session.is_some_and(|session| !session.is_confirmed(visit.now))
}

fn row(visit: &Visit, key: &Key) -> KeyRow {
    KeyRow {
        id: key.id.0,
        access: match key.secret.access() {
            Access::ReadWrite => "Read-write",
            Access::ReadOnly => "Read-only",
            Access::Ping => "Ping",
        },
        label: key.label.as_str().into(),
        hint: key.hint.as_ref().into(),
        made: When::of(key.created, &visit.times()),
        used: key.used.map(|used| (When::of(used.at, &visit.times()), used.from)),
        is_unused_since_import: key.is_unused_since_import(),
        text: if let Secret::Ping(key) = &key.secret { Some(key.as_str().into()) } else { None },
    }
}

fn people(visit: &Visit, project: &Project) -> Vec<PersonRow> {
    visit.handle().with_state(|state| {
        let mut people: Vec<_> = state
            .users
            .iter()
            .filter(|user| !user.disabled)
            .filter_map(|user| {
                let may = if user.grant.is_owner() { "owner" } else { user.grant.in_project(project.id)?.name() };
                Some(PersonRow { name: user.name.as_str().into(), may })
            })
            .collect();
        people.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        people
    })
}

/// Gives the project another name.
pub(super) async fn rename(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (project, typed) = (visit.project()?, typed.get("name"));
    let refused = |reason: &str| Ok(page(visit, Wrong { name: Some((typed.into(), reason.into())), ..Wrong::default() })?.into());
    let name = match ProjectName::parse(typed) {
        Ok(name) => Some(name),
        Err(reason) => return refused(reason),
    };
    match manage::project::set(visit.handle(), project.id, Changes { name, ..Changes::default() }).await {
        Err(error @ ManageError::ProjectNameTaken) => refused(&error.to_string()),
        done => saved(visit, done),
    }
}

/// Sets the limits.
pub(super) async fn limit(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (pings, checks) = (typed.get("pings").trim(), typed.get("checks").trim());
    let check_limit = if checks.is_empty() { Some(None) } else { checks.parse().ok().map(Some) };
    let (Ok(ping_log_limit), Some(check_limit)) = (pings.parse(), check_limit) else {
        let reason = "give whole numbers; without one there is no limit of checks";
        return Ok(page(visit, Wrong { limits: Some((pings.into(), checks.into(), reason)), ..Wrong::default() })?.into());
    };
    let changes = Changes { check_limit: Some(check_limit), ping_log_limit: Some(ping_log_limit), ..Changes::default() };
    saved(visit, manage::project::set(visit.handle(), visit.project()?.id, changes).await)
}

fn saved(visit: &Visit, done: Result<(), ManageError>) -> Result<Done, Trouble> {
    done?;
    Ok(Done::Go(Page::Settings(visit.project()?.uuid), Notice::of("saved")))
}

/// Makes a key.
pub(super) async fn make_key(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (project, label) = (visit.project()?, typed.get("label"));
    let access = Access::parse(typed.get("access")).ok_or_else(Trouble::nothing_here)?;
    let label = match KeyLabel::parse(label.trim()) {
        Ok(label) => label,
        Err(reason) => return Ok(page(visit, Wrong { label: Some((label.into(), access, reason)), ..Wrong::default() })?.into()),
    };
    let (id, key) = manage::key::create(visit.handle(), project.id, access, label).await?;
    tracing::info!(user = visit.user_name(), address = %visit.came.client.addr, key = id.0, "made a key");
    let settings = Page::Settings(project.uuid);
    if access == Access::Ping {
        return Ok(Done::Go(settings, Notice::of("ping-key-made")));
    }
    visit.site.shown_once.keep(visit, &settings.to_string(), key);
    Ok(Done::Go(settings, None))
}

#[derive(Template)]
#[template(path = "revoke.html", config = "src/web/askama.toml")]
struct Revoke {
    frame: Frame,
    key: KeyRow,
    label: String,
    label_is_wrong: Option<&'static str>,
    own: String,
    back: String,
}

/// What would stop without this key, and the question whether it is meant.
pub(super) fn show_key(visit: &Visit, id: u64) -> Result<Done, Trouble> {
    let key = row(visit, &key(visit, id)?);
    let label = key.label.clone();
    Ok(key_page(visit, id, key, label, None)?.into())
}

fn key_page(visit: &Visit, id: u64, key: KeyRow, label: String, label_is_wrong: Option<&'static str>) -> Result<Html, Trouble> {
    let project = visit.project()?.uuid;
    let (own, back) = (visit.link(&Page::Key(project, id)), visit.link(&Page::Settings(project)));
    Ok(Html::of(&Revoke { frame: visit.frame("Key"), key, label, label_is_wrong, own, back }))
}

/// Revokes it, or calls it something else.
pub(super) async fn post_key(visit: &Visit, id: u64, typed: &Form) -> Result<Done, Trouble> {
    let key = key(visit, id)?;
    if typed.has("label") {
        let typed = typed.get("label").trim();
        let label = match KeyLabel::parse(typed) {
            Ok(label) => label,
            Err(reason) => return Ok(key_page(visit, id, row(visit, &key), typed.into(), Some(reason))?.refused().into()),
        };
        visit.handle().call(Command::SetKey(key.id, label)).await??;
        return Ok(Done::Go(Page::Settings(visit.project()?.uuid), Notice::of("saved")));
    }
    manage::key::revoke(visit.handle(), id).await?;
    tracing::info!(user = visit.user_name(), address = %visit.came.client.addr, key = id, "revoked a key");
    Ok(Done::Go(Page::Settings(visit.project()?.uuid), Notice::of("key-revoked")))
}

/// A key of this project.
fn key(visit: &Visit, id: u64) -> Result<Key, Trouble> {
    let project = visit.project()?.id;
    visit.handle().with_state(|state| {
        state.key(KeyId(id)).filter(|key| key.project == project).map(|key| Key::clone(key)).ok_or_else(Trouble::nothing_here)
    })
}

/// Removes the project.
pub(super) async fn remove(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let project = visit.project()?;
    let refused = |reason| Ok(page(visit, Wrong { delete: Some(reason), ..Wrong::default() })?.into());
    if typed.get("name") != project.name.as_str() {
        return refused("type the name of the project exactly");
    }
    if !is_confirmed(visit, typed.get("password")).await? {
        return refused("type your password");
    }
    manage::project::delete(visit.handle(), project.id).await?;
    tracing::info!(user = visit.user_name(), address = %visit.came.client.addr, project = project.name.as_str(), "deleted a project");
    Ok(Done::Go(Page::Projects(), Notice::of("project-deleted")))
}

impl From<ManageError> for Trouble {
    fn from(error: ManageError) -> Self {
        match error {
            ManageError::Unavailable(unavailable) => unavailable.into(),
            ManageError::Unreadable(error) => error.into(),
            ManageError::Refused(refusal) => refusal.into(),
            ManageError::Gone => Refusal::NotFound.into(),
            error => Self::not_possible(&error.to_string()),
        }
    }
}

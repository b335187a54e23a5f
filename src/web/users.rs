//! Who may sign in: inviting people, saying what they may do, and taking it back. For owners.

use std::sync::Arc;

use askama::Template;
use uuid::Uuid;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::frame::Frame;
use super::notice::Notice;
use super::route::Page;
use super::settings::asks_password;
use super::sign_in::is_confirmed;
use super::visit::Visit;
use super::when::When;
use crate::domain::user::{Grant, Membership, Projects, User, UserName};
use crate::engine::command::user::{Closing, UserChanges, UserRefusal};
use crate::manage::{self, ManageError};

/// Users that are listed, and projects among which a user's are chosen.
const MOST_LISTED: usize = 1000;

#[derive(Template)]
#[template(path = "users.html", config = "src/web/askama.toml")]
struct Users {
    frame: Frame,
    users: Vec<UserRow>,
    /// There are more.
    are_more: bool,
    /// A link that was just made.
    made: Option<String>,
    name: String,
    name_is_wrong: Option<String>,
    granted: Granted,
    asks_password: bool,
    password_is_wrong: Option<&'static str>,
}

struct UserRow {
    name: String,
    link: String,
    may: String,
    status: &'static str,
    seen: Option<When>,
}

/// What a form lets choose.
struct Granted {
    is_owner: bool,
    projects: Vec<Choice>,
}

/// What may be done in a project.
struct Choice {
    uuid: Uuid,
    name: String,
    may: &'static str,
}

/// The users.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, "", NotInvited::default(), &Grant::Projects(Projects::default())).into())
}

/// Why somebody is not invited.
#[derive(Default)]
struct NotInvited {
    name: Option<String>,
    password: Option<&'static str>,
}

fn page(visit: &Visit, name: &str, wrong: NotInvited, grant: &Grant) -> Html {
    let made = visit.site.shown_once.take(visit, &Page::Users().to_string());
    let is_secret = made.is_some();
    let all: Vec<_> = visit.handle().with_state(|state| state.users.iter().take(MOST_LISTED + 1).cloned().collect());
    let is_refused = wrong.name.is_some() || wrong.password.is_some();
    let users = Users {
        frame: visit.frame("Users"),
        are_more: all.len() > MOST_LISTED,
        users: all.iter().take(MOST_LISTED).map(|user| row(visit, user)).collect(),
        made,
        name: name.into(),
        name_is_wrong: wrong.name,
        granted: granted(visit, grant),
        asks_password: asks_password(visit),
        password_is_wrong: wrong.password,
    };
    let html = Html::of(&users);
    let html = if is_secret { html.secret() } else { html };
    if is_refused { html.refused() } else { html }
}

fn row(visit: &Visit, user: &User) -> UserRow {
    visit.handle().with_state(|state| {
        let may = match &user.grant {
            Grant::Owner => "owner".into(),
            Grant::Projects(projects) => {
                let one = |(id, kind): (_, Membership)| Some(format!("{}: {}", state.project(id)?.project.name.as_str(), kind.name()));
                let all: Vec<_> = projects.iter().filter_map(one).collect();
                if all.is_empty() { "no project".into() } else { all.join(", ") }
            }
        };
        let seen = state.users.sessions_of(user.id, visit.now).map(|session| session.seen).max();
        UserRow {
            name: user.name.as_str().into(),
            link: visit.link(&Page::User(user.uuid)),
            may,
            status: status(user),
            seen: seen.map(|seen| When::of(seen, &visit.times())),
        }
    })
}

fn status(user: &User) -> &'static str {
    match user {
        User { disabled: true, .. } => "disabled",
        User { password: None, .. } => "invited",
        _ => "active",
    }
}

fn granted(visit: &Visit, grant: &Grant) -> Granted {
    visit.handle().with_state(|state| {
        let projects = state.projects().take(MOST_LISTED).map(|found| &found.project);
        let may = |id| if grant.is_owner() { None } else { grant.in_project(id) };
        let choice = |project: &Arc<crate::domain::project::Project>| Choice {
            uuid: project.uuid,
            name: project.name.as_str().into(),
            may: may(project.id).map_or("", Membership::name),
        };
        Granted { is_owner: grant.is_owner(), projects: projects.map(choice).collect() }
    })
}

/// What was chosen: `role`, and for each project a field of its UUID.
fn chosen(visit: &Visit, typed: &Form, before: &Grant) -> Grant {
    if typed.get("role") == "owner" {
        return Grant::Owner;
    }
    visit.handle().with_state(|state| {
        // Of what the form did not show nothing was said.
        let unseen = state.projects().skip(MOST_LISTED).filter(|_| !before.is_owner());
        let unseen = unseen.filter_map(|found| Some((found.project.id, before.in_project(found.project.id)?)));
        let seen = state.projects().take(MOST_LISTED);
        let seen = seen.filter_map(|found| Some((found.project.id, Membership::parse(typed.get(&found.project.uuid.to_string()))?)));
        Grant::Projects(Projects::new(seen.chain(unseen)))
    })
}

/// Invites somebody.
pub(super) async fn invite(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (text, grant) = (typed.get("name"), chosen(visit, typed, &Grant::Owner));
    let name = match UserName::parse(text) {
        Ok(name) => name,
        Err(reason) => return Ok(page(visit, text, NotInvited { name: Some(reason.into()), ..NotInvited::default() }, &grant).into()),
    };
    if grant.is_owner() && !is_confirmed(visit, typed.get("password")).await? {
        return Ok(page(visit, text, NotInvited { password: Some(OWN_PASSWORD), ..NotInvited::default() }, &grant).into());
    }
    let user = match manage::user::create(visit.handle(), name, None, grant.clone()).await {
        Err(error @ ManageError::User(UserRefusal::NameTaken | UserRefusal::TooMany)) => {
            return Ok(page(visit, text, NotInvited { name: Some(error.to_string()), ..NotInvited::default() }, &grant).into());
        }
        made => made?,
    };
    told(visit, "invited", &user);
    make_link(visit, &user, &Page::Users()).await?;
    Ok(Done::Go(Page::Users(), Notice::of("invited")))
}

async fn make_link(visit: &Visit, user: &User, at: &Page) -> Result<(), Trouble> {
    let link = manage::user::link(visit.handle(), Some(user)).await?;
    told(visit, "made a link for", user);
    visit.site.shown_once.keep(visit, &at.to_string(), format!("{}{}", visit.base_url().as_str(), link.path()));
    Ok(())
}

fn told(visit: &Visit, did: &str, whom: &User) {
    tracing::info!(user = visit.user_name(), address = %visit.came.client.addr, whom = whom.name.as_str(), "{did} a user");
}

#[derive(Template)]
#[template(path = "user.html", config = "src/web/askama.toml")]
struct OneUser {
    frame: Frame,
    own: String,
    title: String,
    name: String,
    status: &'static str,
    wrong: Wrong,
    granted: Granted,
    sessions: usize,
    made: Option<String>,
    is_oneself: bool,
    /// Letting them sign in again makes an owner.
    is_disabled_owner: bool,
    has_second_factor: bool,
    asks_password: bool,
}

/// What is wrong with what was sent.
#[derive(PartialEq, Eq, Default)]
struct Wrong {
    name: Option<String>,
    /// With the password that making an owner asks for.
    password: Option<&'static str>,
    /// With the password that the buttons ask for.
    button: Option<&'static str>,
    /// With what they may do, or with a button.
    grant: Option<String>,
    delete: Option<&'static str>,
}

/// A user.
pub(super) fn show_user(visit: &Visit, uuid: Uuid) -> Result<Done, Trouble> {
    let user = find(visit, uuid)?;
    Ok(user_page(visit, &user, user.name.as_str(), &user.grant, Wrong::default()).into())
}

fn user_page(visit: &Visit, user: &User, name: &str, grant: &Grant, wrong: Wrong) -> Html {
    let at = Page::User(user.uuid);
    let is_refused = wrong != Wrong::default();
    let made = visit.site.shown_once.take(visit, &at.to_string());
    let is_secret = made.is_some();
    let one = OneUser {
        frame: visit.frame(user.name.as_str()),
        own: visit.link(&at),
        title: user.name.as_str().into(),
        name: name.into(),
        status: status(user),
        wrong,
        granted: granted(visit, grant),
        sessions: visit.handle().with_state(|state| state.users.sessions_of(user.id, visit.now).count()),
        made,
        is_oneself: is_oneself(visit, user),
        is_disabled_owner: user.disabled && user.grant.is_owner(),
        has_second_factor: user.second.is_some(),
        asks_password: asks_password(visit),
    };
    let html = Html::of(&one);
    let html = if is_secret { html.secret() } else { html };
    if is_refused { html.refused() } else { html }
}

fn find(visit: &Visit, uuid: Uuid) -> Result<Arc<User>, Trouble> {
    visit.handle().with_state(|state| state.users.by_uuid(uuid).cloned().ok_or_else(Trouble::nothing_here))
}

fn is_oneself(visit: &Visit, user: &User) -> bool {
    visit.viewer.person.as_ref().is_some_and(|person| person.user.id == user.id)
}

/// What a page says to those who asked for something grave and did not type their own password.
const OWN_PASSWORD: &str = "type your own password";

/// Why something is not done, or `None`: each of these would turn a session that was left open into an account for good, so they ask for the
/// viewer's own password, and the account page has what concerns the viewer.
async fn held_back(visit: &Visit, user: &User, typed: &Form) -> Result<Option<Wrong>, Trouble> {
    let does = typed.get("do");
    let is_button = matches!(does, "link" | "reset-totp");
    if is_button && is_oneself(visit, user) {
        let reason = "your own password and second factor are changed on the page of your account";
        return Ok(Some(Wrong { button: Some(reason), ..Wrong::default() }));
    }
    let makes_owner = match does {
        "save" => typed.get("role") == "owner" && !user.grant.is_owner(),
        "enable" => user.grant.is_owner() && user.disabled,
        _ => false,
    };
    if (!is_button && !makes_owner) || is_confirmed(visit, typed.get("password")).await? {
        return Ok(None);
    }
    Ok(Some(match does != "save" {
        true => Wrong { button: Some(OWN_PASSWORD), ..Wrong::default() },
        false => Wrong { password: Some(OWN_PASSWORD), ..Wrong::default() },
    }))
}

/// What one of the buttons does.
pub(super) async fn post_user(visit: &Visit, uuid: Uuid, typed: &Form) -> Result<Done, Trouble> {
    let user = find(visit, uuid)?;
    let by = visit.viewer.person.as_ref().and_then(|person| person.session.as_ref()).map(|session| session.id);
    let at = Page::User(uuid);
    if let Some(wrong) = held_back(visit, &user, typed).await? {
        return Ok(refused(visit, &user, typed, wrong));
    }
    let changes = match typed.get("do") {
        "save" => {
            let grant = Some(chosen(visit, typed, &user.grant));
            match UserName::parse(typed.get("name")) {
                Ok(name) => UserChanges { name: Some(name), grant, ..UserChanges::default() },
                Err(reason) => return Ok(refused(visit, &user, typed, Wrong { name: Some(reason.into()), ..Wrong::default() })),
            }
        }
        "disable" => UserChanges { disabled: Some(true), ..UserChanges::default() },
        "reset-totp" => UserChanges { second: Some(None), ..UserChanges::default() },
        "enable" => UserChanges { disabled: Some(false), ..UserChanges::default() },
        "link" => {
            make_link(visit, &user, &at).await?;
            return Ok(Done::Go(at, None));
        }
        "sign-out" => {
            manage::user::sign_out(visit.handle(), user.id, Closing::All).await?;
            told(visit, "signed out", &user);
            return Ok(Done::Go(at, Notice::of("signed-out")));
        }
        "delete" => return delete(visit, &user, typed).await,
        _ => return Err(Trouble::nothing_here()),
    };
    match manage::user::set(visit.handle(), user.id, changes, by).await {
        Err(error @ ManageError::User(UserRefusal::NameTaken)) => {
            return Ok(refused(visit, &user, typed, Wrong { name: Some(error.to_string()), ..Wrong::default() }));
        }
        Err(error @ ManageError::User(_)) => {
            return Ok(refused(visit, &user, typed, Wrong { grant: Some(error.to_string()), ..Wrong::default() }));
        }
        done => done?,
    };
    told(visit, if typed.get("do") == "reset-totp" { "took the second factor of" } else { "changed" }, &user);
    Ok(Done::Go(at, Notice::of("saved")))
}

/// The page once more, with what was typed if that was about name and grant.
fn refused(visit: &Visit, user: &User, typed: &Form, wrong: Wrong) -> Done {
    let typed = Some(typed).filter(|typed| typed.get("do") == "save");
    let (name, grant) = match typed {
        Some(typed) => (typed.get("name"), chosen(visit, typed, &user.grant)),
        None => (user.name.as_str(), user.grant.clone()),
    };
    user_page(visit, user, name, &grant, wrong).into()
}

async fn delete(visit: &Visit, user: &User, typed: &Form) -> Result<Done, Trouble> {
    if !is_confirmed(visit, typed.get("password")).await? {
        return Ok(refused(visit, user, typed, Wrong { delete: Some(OWN_PASSWORD), ..Wrong::default() }));
    }
    match manage::user::delete(visit.handle(), user.id).await {
        Err(error @ ManageError::User(_)) => {
            return Ok(refused(visit, user, typed, Wrong { grant: Some(error.to_string()), ..Wrong::default() }));
        }
        done => done?,
    }
    told(visit, "deleted", user);
    Ok(Done::Go(Page::Users(), Notice::of("user-deleted")))
}

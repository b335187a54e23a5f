//! One's own account: how pages look, password, sessions. The name is shown; owners change names on the page of a user.

use std::net::IpAddr;
use std::sync::Arc;

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::frame::Frame;
use super::notice::Notice;
use super::route::Page;
use super::settings::asks_password;
use super::sign_in::{is_confirmed, remain_known};
use super::visit::Visit;
use super::when::When;
use crate::domain::ids::SessionId;
use crate::domain::timezone::Timezone;
use crate::domain::user::session::Session;
use crate::domain::user::taste::{By, ListTaste, Order};
use crate::domain::user::{Password, Taste, Theme, User};
use crate::engine::command::user::{Closing, UserChanges};
use crate::manage;
use crate::wire::reply::Fault;

#[derive(Template)]
#[template(path = "account.html", config = "src/web/askama.toml")]
struct Account {
    frame: Frame,
    own: String,
    name: String,
    /// The page on which the name is changed; `None`: the viewer is no owner.
    user_page: Option<String>,
    zone: String,
    zone_is_wrong: Option<String>,
    themes: [(&'static str, bool); 3],
    shortcuts: bool,
    orders: Vec<(String, &'static str, bool)>,
    sizes: [(usize, bool); 3],
    totp: String,
    /// How many codes for a lost app are left; `None`: there is no second factor.
    recovery_codes: Option<usize>,
    asks_password: bool,
    password_is_wrong: Option<&'static str>,
    has_password: bool,
    sessions: Vec<SessionRow>,
}

struct SessionRow {
    id: u64,
    browser: String,
    address: IpAddr,
    seen: When,
    is_this: bool,
}

/// What is wrong with what was typed, and what it was.
#[derive(Default)]
struct Wrong<'f> {
    /// What was typed about zone and looks.
    typed: Option<&'f Form>,
    zone: Option<String>,
    password: Option<&'static str>,
}

/// The page.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, Wrong::default())?.into())
}

/// Whose account it is, and the session.
pub(super) fn whose(visit: &Visit) -> Result<(&Arc<User>, Option<SessionId>), Trouble> {
    let text = "This server runs without sign-in, so nobody has an account. Start it with --auth password to give people accounts.";
    let person = visit.viewer.person.as_ref().ok_or_else(|| Trouble::new(Fault::NotFound, "No accounts", text))?;
    Ok((&person.user, person.session.as_ref().map(|session| session.id)))
}

fn page(visit: &Visit, wrong: Wrong<'_>) -> Result<Html, Trouble> {
    let (user, this) = whose(visit)?;
    let is_refused = wrong.zone.is_some() || wrong.password.is_some();
    let own = |field: &str, stored: &str| wrong.typed.map_or_else(|| stored.to_owned(), |typed| typed.get(field).to_owned());
    let taste = wrong.typed.map_or_else(|| user.taste.clone(), |typed| taste(typed, &user.taste));
    let mut sessions: Vec<_> = visit.handle().with_state(|state| state.users.sessions_of(user.id, visit.now).cloned().collect());
    sessions.sort_unstable_by_key(|session| std::cmp::Reverse((Some(session.id) == this, session.seen)));
    let account = Account {
        frame: visit.frame("Account"),
        own: visit.link(&Page::Account()),
        name: user.name.as_str().into(),
        user_page: user.grant.is_owner().then(|| visit.link(&Page::User(user.uuid))),
        zone: own("zone", visit.viewer.zone.name()),
        zone_is_wrong: wrong.zone,
        themes: Theme::ALL.map(|theme| (theme.name(), theme == taste.theme)),
        shortcuts: taste.shortcuts,
        orders: orders(taste.list.order),
        sizes: ListTaste::SIZES.map(|size| (size, size == taste.list.rows)),
        totp: visit.link(&Page::AccountTotp()),
        recovery_codes: user.second.as_ref().map(|second| second.recovery.len()),
        asks_password: asks_password(visit),
        password_is_wrong: wrong.password,
        has_password: user.password.is_some(),
        sessions: sessions.iter().map(|session| row(visit, session, this)).collect(),
    };
    let html = Html::of(&account);
    Ok(if is_refused { html.refused() } else { html })
}

/// What lists may be sorted by: value, words, whether it is so.
fn orders(chosen: Order) -> Vec<(String, &'static str, bool)> {
    let words = |by| match by {
        By::Status => "the most urgent first",
        By::Name => "name",
        By::Last => "last ping",
        By::Next => "next ping",
        By::Created => "the oldest first",
    };
    let mut orders: Vec<_> = By::ALL.map(|by| Order { by, is_reversed: false }).into();
    // The opposite of one is chosen in the list itself, and stays.
    orders.extend(Some(chosen).filter(|order| order.is_reversed));
    let words = |order: Order| if order.is_reversed { "as in the list now" } else { words(order.by) };
    orders.into_iter().map(|order| (order.name(), words(order), order == chosen)).collect()
}

/// How pages are to look, as a form says it; its zone is another matter.
fn taste(typed: &Form, before: &Taste) -> Taste {
    let theme = Theme::parse(typed.get("theme")).unwrap_or(before.theme);
    Taste { zone: before.zone.clone(), theme, shortcuts: typed.has("shortcuts"), list: list_taste(typed, before.list) }
}

/// How lists are to be shown, as far as a form says it.
fn list_taste(typed: &Form, before: ListTaste) -> ListTaste {
    let order = Order::parse(typed.get("sort")).unwrap_or(before.order);
    ListTaste { order, rows: ListTaste::parse_rows(typed.get("rows")).unwrap_or(before.rows) }
}

/// Remembers how a list was sorted and how many rows it had.
pub(super) async fn remember(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (user, by) = whose(visit)?;
    let list = list_taste(typed, user.taste.list);
    if list != user.taste.list {
        let taste = Some(Taste { list, ..user.taste.clone() });
        manage::user::set(visit.handle(), user.id, UserChanges { taste, ..UserChanges::default() }, by).await?;
    }
    Ok(Done::Go(Page::Account(), Notice::of("saved")))
}

fn row(visit: &Visit, session: &Session, this: Option<SessionId>) -> SessionRow {
    SessionRow {
        id: session.id.0,
        browser: browser(&session.agent),
        address: session.address,
        seen: When::of(session.seen, &visit.times()),
        is_this: this == Some(session.id),
    }
}

/// What people call a browser, as far as its own name for itself says.
fn browser(agent: &str) -> String {
    let first = |words: &[(&str, &'static str)]| words.iter().find(|(part, _)| agent.contains(part)).map(|(_, word)| *word);
    let name = first(&[("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari")]);
    let system = first(&[
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ]);
    match (name, system) {
        (Some(name), Some(system)) => format!("{name} on {system}"),
        (Some(name), None) => name.into(),
        (None, _) if agent.is_empty() => "unknown browser".into(),
        (None, _) => agent.chars().take(40).collect(),
    }
}

/// Saves zone and looks. A name is an identity that proxies and files refer to, so nobody changes it here.
pub(super) async fn save(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (user, by) = whose(visit)?;
    let zone = match Timezone::parse(typed.get("zone").trim()) {
        Ok(zone) => zone,
        Err(error) => {
            let wrong = Wrong { typed: Some(typed), zone: Some(error.to_string()), ..Wrong::default() };
            return Ok(page(visit, wrong)?.into());
        }
    };
    let taste = Some(Taste { zone: Some(zone), ..taste(typed, &user.taste) });
    manage::user::set(visit.handle(), user.id, UserChanges { taste, ..UserChanges::default() }, by).await?;
    Ok(Done::Go(Page::Account(), Notice::of("saved")))
}

/// Sets another password.
pub(super) async fn set_password(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (user, by) = whose(visit)?;
    let refused = |reason| Ok(page(visit, Wrong { password: Some(reason), ..Wrong::default() })?.into());
    let password = match Password::parse(typed.get("new"), &user.name) {
        Ok(password) => password,
        Err(reason) => return refused(reason),
    };
    if !is_confirmed(visit, typed.get("password")).await? {
        return refused("the password that you have now is another one");
    }
    let password = Some(visit.site.hashing.hash(password).await?);
    manage::user::set(visit.handle(), user.id, UserChanges { password, ..UserChanges::default() }, by).await?;
    tracing::info!(user = user.name.as_str(), address = %visit.came.client.addr, "changed their password");
    Ok(remain_known(visit, user, Page::Account(), "password"))
}

/// Ends one session, or all but this one.
pub(super) async fn sign_out(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (user, this) = whose(visit)?;
    let which = match typed.get("session").parse() {
        Ok(id) => Closing::One(SessionId(id)),
        Err(_) => this.map_or(Closing::All, Closing::AllBut),
    };
    manage::user::sign_out(visit.handle(), user.id, which).await?;
    tracing::info!(user = user.name.as_str(), address = %visit.came.client.addr, "ended {}", which.in_words());
    Ok(remain_known(visit, user, Page::Account(), "signed-out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_called_what_people_call_them() {
        for (agent, wanted) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0 Safari/537.36 Edg/150.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 (KHTML, like Gecko) Version/19 Safari/604.1",
                "Safari on iPhone",
            ),
            (
                "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            ("curl/8.5.0", "curl/8.5.0"),
            ("", "unknown browser"),
        ] {
            assert_eq!(browser(agent), wanted, "{agent}");
        }
    }
}

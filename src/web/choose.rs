//! Choosing a password by a link: the first owner's, that of somebody who was invited, and another one for a lost one.

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::frame::Frame;
use super::notice::Notice;
use super::route::{Link, Page};
use super::sign_in::{new_mark, new_session};
use super::visit::Visit;
use crate::domain::ids::UserId;
use crate::domain::timezone::Timezone;
use crate::domain::user::link::{LinkCode, Purpose};
use crate::domain::user::{Password, Taste, UserName};
use crate::engine::command::user::{FirstUser, UserCommand, UserRefusal};
use crate::engine::command::{Command, Outcome, Refusal};
use crate::wire::reply::Fault;

#[derive(Template)]
#[template(path = "choose.html", config = "src/web/askama.toml")]
struct Choose<'a> {
    frame: Frame,
    /// The first owner gives a code and a name, too.
    is_setup: bool,
    /// Whoever was invited has had no password.
    is_first: bool,
    code: &'a str,
    code_is_wrong: bool,
    name: &'a str,
    name_is_wrong: Option<&'static str>,
    password_is_wrong: Option<&'static str>,
    is_in_the_clear: bool,
}

/// What is wrong with what was typed.
#[derive(Default)]
struct Wrong {
    code: bool,
    name: Option<&'static str>,
    password: Option<&'static str>,
}

impl Wrong {
    fn is_something(&self) -> bool {
        self.code || self.name.is_some() || self.password.is_some()
    }
}

/// The form for the first owner. The code may be part of the address.
pub(super) fn show_setup(visit: &Visit, code: Option<&LinkCode>) -> Result<Done, Trouble> {
    if !visit.handle().with_state(|state| state.users.is_empty()) || !visit.viewer.is_nobody() {
        return Ok(Done::Go(Page::Login(), None));
    }
    let code = code.map(ToString::to_string).unwrap_or_default();
    Ok(setup_form(visit, &code, "", &Wrong::default()).into())
}

fn setup_form(visit: &Visit, code: &str, name: &str, wrong: &Wrong) -> Html {
    form(visit, true, true, (code, name), wrong)
}

fn form(visit: &Visit, is_setup: bool, is_first: bool, (code, name): (&str, &str), wrong: &Wrong) -> Html {
    let title = if is_first { "Welcome" } else { "Another password" };
    let choose = Choose {
        frame: visit.frame(title),
        is_setup,
        is_first,
        code,
        code_is_wrong: wrong.code,
        name,
        name_is_wrong: wrong.name,
        password_is_wrong: wrong.password,
        is_in_the_clear: visit.came.is_in_the_clear(&visit.site.base_url),
    };
    let html = Html::of(&choose).secret();
    if wrong.is_something() { html.refused() } else { html }
}

/// Makes the first owner.
pub(super) async fn post_setup(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (code, name) = (LinkCode::parse(typed.get("code")), UserName::parse(typed.get("name")));
    let is_good = |code: &LinkCode| {
        visit.handle().with_state(|state| state.users.link(&code.hash(), visit.now).is_some_and(|link| link.purpose == Purpose::Setup))
    };
    let code = code.filter(is_good);
    // Of a name that is none nothing can be said about the password.
    let password = name.as_ref().map_or(Ok(None), |name| Password::parse(typed.get("password"), name).map(Some));
    let wrong = Wrong { code: code.is_none(), name: name.as_ref().err().copied(), password: password.as_ref().err().copied() };
    let (Some(code), Ok(name), Ok(Some(password))) = (code, name, password) else {
        return Ok(setup_form(visit, typed.get("code"), typed.get("name"), &wrong).into());
    };
    // What the browser says of its zone, if it says anything that is known here.
    let zone = Timezone::parse(typed.get("zone")).ok();
    let first = FirstUser { uuid: visit.handle().random().uuid(), name, taste: Taste { zone, ..Taste::default() } };
    redeem(visit, &code, Some(first), password).await
}

/// The form for somebody who is there already.
pub(super) fn show(visit: &Visit, code: &LinkCode) -> Result<Done, Trouble> {
    let (_, name, is_first) = whose(visit, code)?;
    Ok(form(visit, false, is_first, ("", name.as_str()), &Wrong::default()).into())
}

/// Gives the user of a link another password.
pub(super) async fn post(visit: &Visit, code: &LinkCode, typed: &Form) -> Result<Done, Trouble> {
    let (_, name, is_first) = whose(visit, code)?;
    match Password::parse(typed.get("password"), &name) {
        Ok(password) => redeem(visit, code, None, password).await,
        Err(reason) => {
            let wrong = Wrong { password: Some(reason), ..Wrong::default() };
            Ok(form(visit, false, is_first, ("", name.as_str()), &wrong).into())
        }
    }
}

/// Whose link it is, and whether it is for a first password.
fn whose(visit: &Visit, code: &LinkCode) -> Result<(UserId, UserName, bool), Trouble> {
    visit.handle().with_state(|state| {
        let of = |purpose| if let Purpose::Password(user) = purpose { state.users.get(user) } else { None };
        let user = state.users.link(&code.hash(), visit.now).and_then(|link| of(link.purpose));
        user.map(|user| (user.id, user.name.clone(), user.password.is_none())).ok_or_else(spent)
    })
}

async fn redeem(visit: &Visit, code: &LinkCode, setup: Option<FirstUser>, password: Password) -> Result<Done, Trouble> {
    let password = visit.site.hashing.hash(password).await?;
    let (token, session) = new_session(visit);
    let redeem = UserCommand::RedeemLink { hash: code.hash(), setup, password, session };
    let session = match visit.handle().call(Command::User(Box::new(redeem))).await? {
        Ok(Outcome::Session(session)) => session,
        Ok(Outcome::User(user)) => {
            tracing::info!(user = user.name.as_str(), address = %visit.came.client.addr, "chose a password by a link");
            return Ok(Done::Go(Page::Login(), Notice::of("chosen")));
        }
        // Somebody else was faster.
        Err(Refusal::User(UserRefusal::LinkSpent)) => return Err(spent()),
        Err(refusal) => return Err(refusal.into()),
        Ok(_) => return Err(Fault::Unavailable.into()),
    };
    let user = visit.handle().with_state(|state| state.users.get(session.user).cloned());
    let (name, mark) = user.map(|user| (user.name.clone(), new_mark(visit, &user))).unzip();
    let address = visit.came.client.addr;
    tracing::info!(user = name.as_ref().map(UserName::as_str), %address, "chose a password by a link, and signed in");
    let to = Link { base: &visit.site.base_url, page: &Page::Projects() }.to_string();
    Ok(Done::Enter { token, mark: mark.flatten(), to })
}

fn spent() -> Trouble {
    Trouble::new(
        Fault::NotFound,
        "Not any more",
        "This link has been used or has expired. Ask an owner for another one; on the server, `overdue user link NAME` prints one.",
    )
}

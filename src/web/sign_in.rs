//! Signing in and out, and typing one's password once more.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use hyper::Uri;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::forward::Forward;
use super::frame::Frame;
use super::notice::Notice;
use super::route::{Link, Need, Page, Target};
use super::throttle::{Attempt, By};
use super::visit::Visit;
use super::who::Person;
use super::{Site, second_step};
use crate::accept::network;
use crate::domain::project::KeyHash;
use crate::domain::user::second_factor::Proof;
use crate::domain::user::session::Session;
use crate::domain::user::{Password, PasswordHash, User, UserName};
use crate::domain::words::{Times, count};
use crate::engine::command::user::{Closing, NewSession, UserCommand, UserRefusal};
use crate::engine::command::{Command, Outcome, Refusal};
use crate::log_limit::LogLimit;
use crate::password::Checked;
use crate::wire::browser_mark;
use crate::wire::reply::Fault;

/// Bytes of the address of a page to go on to.
const LONGEST_NEXT: usize = 2000;

static FAILED: LogLimit = LogLimit::new();
static THROTTLED: LogLimit = LogLimit::new();

#[derive(Template)]
#[template(path = "login.html", config = "src/web/askama.toml")]
struct SignIn<'a> {
    frame: Frame,
    /// What was typed.
    name: &'a str,
    next: &'a str,
    wrong: Option<&'static str>,
    is_in_the_clear: bool,
}

/// The form, or where whoever needs none goes.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let next = visit.query.get("next");
    if !visit.viewer.is_nobody() {
        return Ok(Done::To(next_or_projects(&visit.site, next)));
    }
    if visit.handle().with_state(|state| state.users.is_empty()) {
        return Ok(Done::Go(Page::Setup(), None));
    }
    Ok(form(visit, "", next, None).into())
}

fn form(visit: &Visit, name: &str, next: &str, wrong: Option<&'static str>) -> Html {
    let next = if next_page(&visit.site, next).is_some() { next } else { "" };
    let is_in_the_clear = visit.came.is_in_the_clear(&visit.site.base_url);
    Html::of(&SignIn { frame: visit.frame("Sign in"), name, next, wrong, is_in_the_clear }).secret()
}

/// Signs in.
pub(super) async fn post(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (site, shown) = (&visit.site, typed.get("name"));
    let name = UserName::parse(shown).ok();
    let attempt = attempt(visit, name.as_ref())?;
    let found = name.as_ref().and_then(|name| visit.handle().with_state(|state| state.users.by_name(name).cloned()));
    let user = found.filter(|user| !user.disabled);
    let hash = user.as_ref().and_then(|user| user.password.clone());
    let checked = site.hashing.check(typed.get("password"), hash.clone()).await?;
    let refused = || {
        if let Some(left_out) = FAILED.admit(visit.now) {
            tracing::warn!(name = shown_name(name.as_ref()), address = %visit.came.client.addr, "a sign-in failed{left_out}");
        }
        Ok(form(visit, shown, typed.get("next"), Some("Wrong name or password.")).refused().into())
    };
    let (Checked::Right { old }, Some(user), Some(hash)) = (checked, user, hash) else { return refused() };
    let renewed = if old { renewed(site, typed.get("password"), &user).await? } else { None };
    if user.second.is_some() {
        // The attempt counts as one that failed until the code is right, too.
        return Ok(second_step::begin(visit, user.id, hash, renewed, typed.get("next")));
    }
    let entering = Entering { checked: hash, renewed, second: None, is_code_counted: false };
    enter(visit, &user, entering, attempt, typed.get("next")).await?.map_or_else(refused, Ok)
}

/// What somebody has shown who is about to be signed in.
pub(super) struct Entering {
    /// What the password was checked against.
    pub(super) checked: PasswordHash,
    /// The same password hashed anew, with the parameters of today.
    pub(super) renewed: Option<PasswordHash>,
    /// The second factor.
    pub(super) second: Option<Proof>,
    /// Its code was counted as wrong until now.
    pub(super) is_code_counted: bool,
}

/// Signs in whoever has shown what it takes. `None`: somebody has changed the password or the second factor, or has removed the user, since
/// it was looked up.
pub(super) async fn enter(visit: &Visit, user: &User, entering: Entering, attempt: Attempt, next: &str) -> Result<Option<Done>, Trouble> {
    let Entering { checked, renewed, second, is_code_counted } = entering;
    let (token, session) = new_session(visit);
    let open = UserCommand::OpenSession { user: user.id, checked: Some(checked), renewed, second, session };
    let session = match visit.handle().call(Command::User(Box::new(open))).await? {
        Ok(Outcome::Session(session)) => session,
        Err(Refusal::User(UserRefusal::NotAllowed) | Refusal::NotFound) => return Ok(None),
        Err(refusal) => return Err(refusal.into()),
        Ok(_) => return Err(Fault::Unavailable.into()),
    };
    visit.site.throttle.succeeded(attempt);
    tracing::info!(user = user.name.as_str(), address = %visit.came.client.addr, "signed in");
    let is_known = known_browser(visit, user).is_some();
    if let Some(wrong) = visit.site.wrong_codes.succeeded(user.id, is_known, is_code_counted) {
        let zone = user.taste.zone.as_ref().unwrap_or(&visit.viewer.zone);
        let (codes, since) = (count(wrong.codes as usize, "wrong code"), Times { now: visit.now, zone }.at(wrong.since));
        let text = format!(
            "{codes} of your second factor since {since}. They come after your password: if it was not you who typed them, choose another one."
        );
        visit.site.shown_once.keep_for(visit, (user.id, session.id), &Page::SecondStep().to_string(), text);
    }
    Ok(Some(Done::Enter { token, mark: new_mark(visit, user), to: next_or_projects(&visit.site, next) }))
}

/// The mark of a browser in which a user has just signed in.
pub(super) fn new_mark(visit: &Visit, user: &User) -> Option<String> {
    let nonce = visit.handle().random().url_safe::<{ browser_mark::NONCE_LENGTH }>();
    visit.handle().badge_secret().map(|secret| browser_mark::mark(&secret, user.uuid, user.browsers_since, &nonce))
}

/// The hash of the browser's mark, if the user has signed in there before.
pub(super) fn known_browser(visit: &Visit, user: &User) -> Option<KeyHash> {
    let (mark, secret) = (visit.came.mark.as_deref()?, visit.handle().badge_secret()?);
    browser_mark::is_of(&secret, user.uuid, user.browsers_since, mark).then(|| KeyHash::of(mark.as_bytes()))
}

/// Leads back to a page after a change that ended the marks of the user's browsers. The browser that asked gets a new one if it had one.
pub(super) fn remain_known(visit: &Visit, before: &User, page: Page, notice: &'static str) -> Done {
    let user = visit.handle().with_state(|state| state.users.get(before.id).cloned());
    let mark = user.filter(|_| known_browser(visit, before).is_some()).and_then(|user| new_mark(visit, &user));
    Done::Remain { page, notice: Notice::of(notice), mark }
}

/// The first step once more, and why.
pub(super) fn again(visit: &Visit, why: &'static str) -> Done {
    form(visit, "", "", Some(why)).refused().into()
}

async fn renewed(site: &Site, typed: &str, user: &User) -> Result<Option<PasswordHash>, Fault> {
    match Password::parse(typed, &user.name) {
        Ok(password) => site.hashing.hash(password).await.map(Some),
        // It was chosen under other rules.
        Err(_) => Ok(None),
    }
}

/// Signs out.
pub(super) async fn leave(visit: &Visit) -> Result<Done, Trouble> {
    if let Some(Person { user, session: Some(session) }) = &visit.viewer.person {
        let close = UserCommand::CloseSessions { user: user.id, which: Closing::One(session.id) };
        visit.handle().call(Command::User(Box::new(close))).await??;
        tracing::info!(user = user.name.as_str(), address = %visit.came.client.addr, "signed out");
    }
    let by_proxy = matches!(&visit.viewer.person, Some(Person { session: None, .. }));
    let away = visit.site.config.forward.as_ref().and_then(Forward::logout).filter(|_| by_proxy);
    Ok(Done::Leave(away.map_or_else(|| visit.link(&Page::Login()), |logout| logout.url.as_ref().into())))
}

/// Whether whoever asks for something grave has typed the password a short while ago, or has done so just now.
pub(super) async fn is_confirmed(visit: &Visit, typed: &str) -> Result<bool, Trouble> {
    let Some(Person { user, session: Some(session) }) = &visit.viewer.person else { return Ok(true) };
    let (false, Some(hash)) = (session.is_confirmed(visit.now), user.password.clone()) else { return Ok(true) };
    if typed.is_empty() {
        return Ok(false);
    }
    let attempt = begin(visit, Some(&user.name), By::Session(session.id))?;
    if visit.site.hashing.check(typed, Some(hash.clone())).await? == Checked::Wrong {
        return Ok(false);
    }
    visit.site.throttle.succeeded(attempt);
    visit.handle().call(touch(visit.site.idle_secs(), session, visit.came.client.addr, Some(hash))).await??;
    Ok(true)
}

/// Has the use of a session written down.
pub(super) fn touch(idle_secs: i64, session: &Session, address: IpAddr, checked: Option<PasswordHash>) -> Command {
    Command::User(Box::new(UserCommand::TouchSession { session: session.id, address, idle_secs, checked }))
}

/// The token of a session that is to begin, and what is kept of it.
pub(super) fn new_session(visit: &Visit) -> (String, NewSession) {
    let token = visit.handle().random().url_safe::<{ Session::TOKEN_LENGTH }>();
    let (agent, address) = (Session::agent_of(&visit.came.agent), visit.came.client.addr);
    let session = NewSession { hash: KeyHash::of(token.as_bytes()), agent, address, idle_secs: visit.site.idle_secs() };
    (token, session)
}

/// Counts an attempt, or says how long to wait.
pub(super) fn attempt(visit: &Visit, name: Option<&UserName>) -> Result<Attempt, Trouble> {
    begin(visit, name, by(visit, name))
}

fn begin(visit: &Visit, name: Option<&UserName>, by: By) -> Result<Attempt, Trouble> {
    let folded = name.map(UserName::folded).unwrap_or_default();
    let (address, uptime) = (visit.came.client.addr, visit.handle().clock().uptime());
    visit.site.throttle.begin(&folded, address, by, uptime).map_err(|wait| {
        if let Some(left_out) = THROTTLED.admit(visit.now) {
            tracing::warn!(name = shown_name(name), %address, "a sign-in has to wait{left_out}");
        }
        too_many(wait)
    })
}

/// Who tries to sign in by this name.
fn by(visit: &Visit, name: Option<&UserName>) -> By {
    let address = network(visit.came.client.addr);
    let found = name.and_then(|name| {
        visit.handle().with_state(|state| {
            let user = Arc::clone(state.users.by_name(name)?);
            let is_near = state.users.sessions_of(user.id, visit.now).any(|session| network(session.address) == address);
            Some((user, is_near))
        })
    });
    let Some((user, is_near)) = found else { return By::Stranger { is_user: false, is_near: false } };
    known_browser(visit, &user).map_or(By::Stranger { is_user: true, is_near }, |mark| By::Browser { user: user.id, mark, is_near })
}

fn shown_name(name: Option<&UserName>) -> &str {
    name.map_or("", UserName::as_str)
}

pub(super) fn too_many(wait: Duration) -> Trouble {
    let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let time = match secs {
        ..60 => format!("{secs} seconds"),
        60..=90 => "a minute".into(),
        _ => format!("{} minutes", secs.div_ceil(60)),
    };
    let fault = Fault::TooManyRequests(secs.cast_signed());
    Trouble::new(fault, "Too many attempts", format!("Too many attempts. Try again in {time}."))
}

/// Where somebody who has to sign in first is sent, and comes back from.
pub(super) fn way(site: &Site, page: &Page, query: Option<&str>) -> String {
    let login = Link { base: &site.base_url, page: &Page::Login() };
    if page.get().is_none() || *page == Page::Projects() && query.is_none() {
        return login.to_string();
    }
    let page = Link { base: &site.base_url, page };
    let next = query.map_or_else(|| page.to_string(), |query| format!("{page}?{query}"));
    let next = percent_encoding::utf8_percent_encode(&next, percent_encoding::NON_ALPHANUMERIC);
    format!("{login}?next={next}")
}

fn next_or_projects(site: &Site, next: &str) -> String {
    next_page(site, next).unwrap_or_else(|| Link { base: &site.base_url, page: &Page::Projects() }.to_string())
}

/// The address of a page of ours that can be seen, if a text is one. Whoever made the text may want to lead elsewhere, so the path is
/// written anew.
pub(super) fn next_page(site: &Site, next: &str) -> Option<String> {
    let uri: Uri = next.parse().ok().filter(|_| next.starts_with('/') && !next.starts_with("//") && next.len() <= LONGEST_NEXT)?;
    if uri.scheme().is_some() || uri.authority().is_some() {
        return None;
    }
    let Some(Target::Page(page)) = Target::parse(site.base_url.inner_path(uri.path())) else { return None };
    page.get().filter(|need| *need != Need::Nothing)?;
    let link = Link { base: &site.base_url, page: &page };
    Some(uri.query().map_or_else(|| link.to_string(), |query| format!("{link}?{query}")))
}

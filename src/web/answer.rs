//! The one road of every request to a page: guard, who, access, form, the page's own function, and what browsers are told.

use std::sync::Arc;

use askama::Template;
use flate2::Compression;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, HeaderMap, HeaderName, REFERER, SET_COOKIE, VARY,
};
use hyper::{Method, Request, Uri};

use super::cookie::Jar;
use super::error::Trouble;
use super::form::Form;
use super::guard::{Came, guarded};
use super::list::Back;
use super::notice::Notice;
use super::route::{Link, Need, Page, Scope, Target};
use super::visit::{Asked, Query, Visit};
use super::{
    Site, account, add_project, again, assets, badges, chapters, check, choose, export, integrations, list, live, projects, second_step,
    settings, sign_in, system, totp, users, who,
};
use crate::wire::body::{Arriving, BodyBudget};
use crate::wire::client::Peer;
use crate::wire::outgoing::Content;
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::request;

/// Names the part of a page that a script asks for alone.
const FRAGMENT: HeaderName = HeaderName::from_static("x-fragment");
/// Bytes of a page that is sent as it is.
const SMALL: usize = 2 << 10;
/// Has a browser forget what it keeps of us.
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

/// What a page's function gives.
pub(crate) enum Done {
    /// A page.
    Show(Html),
    /// Another page, which says what was done.
    Go(Page, Option<Notice>),
    /// The same, and the browser gets this mark in place of one that has ended.
    Remain {
        /// The page.
        page: Page,
        /// What was done.
        notice: Option<Notice>,
        /// The mark; `None`: the browser gets none.
        mark: Option<String>,
    },
    /// An address of ours, which [`Target::parse`] has read.
    To(String),
    /// Whoever asked is signed in from now on, by this token, and goes on to an address of ours.
    Enter {
        /// What the cookie holds.
        token: String,
        /// The mark by which the browser is recognised from now on.
        mark: Option<String>,
        /// Path and query.
        to: String,
    },
    /// Whoever asked is signed out, and goes on to an address of ours or to where the proxy signs them out.
    Leave(String),
    /// A file for the browser to keep, which is made as it is sent.
    Stream {
        /// Its name: letters, digits, hyphens and dots.
        name: String,
        /// Its content.
        content: Content,
    },
    /// A file for the browser to keep, of whose content nothing is known.
    Download {
        /// Its name: letters, digits, hyphens and a dot.
        name: String,
        /// Its content.
        content: Vec<u8>,
    },
}

/// A page that has been made.
pub(crate) struct Html {
    text: String,
    /// Why what the form asks for was not done.
    fault: Option<Fault>,
    /// No cache may keep it.
    is_secret: bool,
}

impl Html {
    /// A page from its template.
    pub(crate) fn of(template: &impl Template) -> Self {
        // It only formats; that does not fail.
        Self { text: template.render().unwrap_or_default(), fault: None, is_secret: false }
    }

    /// The same for a form in which something is wrong.
    pub(crate) fn refused(self) -> Self {
        self.with_fault(Fault::Invalid)
    }

    /// The same for a form that is not carried out for this reason.
    pub(crate) fn with_fault(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// The same for what no cache may keep.
    pub(crate) fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }
}

impl From<Html> for Done {
    fn from(html: Html) -> Self {
        Self::Show(html)
    }
}

/// What is shown at a page.
fn show(visit: &Visit) -> Result<Done, Trouble> {
    match &visit.page {
        Page::Login() => sign_in::show(visit),
        Page::SecondStep() => Ok(second_step::show()),
        Page::Setup() => choose::show_setup(visit, None),
        Page::SetupCode(code) => choose::show_setup(visit, Some(code)),
        Page::Invite(code) | Page::Reset(code) => choose::show(visit, code),
        Page::Logout() => Err(Trouble::nothing_here()),
        Page::Projects() => projects::show(visit),
        Page::AddProject() => add_project::show(visit),
        Page::Settings(_) => settings::show(visit),
        Page::Export(_) => export::show(visit),
        Page::Key(_, key) => settings::show_key(visit, *key),
        Page::Badges(_) => badges::show(visit),
        Page::System() => system::show(visit),
        Page::Users() => users::show(visit),
        Page::User(user) => users::show_user(visit, *user),
        Page::Account() => account::show(visit),
        Page::AccountTotp() => totp::show(visit),
        // The road ends elsewhere for events.
        Page::Events(_)
        | Page::SettingsName(_)
        | Page::SettingsKeys(_)
        | Page::SettingsLimits(_)
        | Page::RemoveProject(_)
        | Page::AccountPassword()
        | Page::AccountList()
        | Page::Backup()
        | Page::AccountSessions() => Err(Trouble::nothing_here()),
        Page::Checks(_) => list::show(visit),
        Page::Chapters() => chapters::show_all(visit),
        Page::Chapter(chapter) => chapters::show(visit, chapter),
        Page::AddCheck(_) => check::show_add(visit),
        Page::Check(_) => check::show_detail(visit),
        Page::Log(_) => check::show_log(visit),
        Page::Ping(..) => check::show_ping(visit),
        Page::Body(..) => check::show_body(visit),
        Page::EditCheck(_) => check::show_edit(visit),
        Page::RemoveCheck(_) => check::show_remove(visit),
        Page::Preview() => check::show_preview(visit),
        Page::Cloaked(key) => check::find(visit, *key),
        Page::Integrations(_) => integrations::show(visit),
        Page::AddIntegration(..) => integrations::show_add(visit),
        Page::EditIntegration(_) => integrations::show_edit(visit),
        Page::RemoveIntegration(_) => integrations::show_remove(visit),
        // There is nothing to be seen: the table says so.
        Page::Bulk(_)
        | Page::ChecksOfIntegration(_)
        | Page::TestIntegration(_)
        | Page::EnableIntegration(_)
        | Page::PauseCheck(_)
        | Page::ResumeCheck(_)
        | Page::PingCheck(_)
        | Page::ChannelsOfCheck(_)
        | Page::ZoneOfCheck(_)
        | Page::CopyCheck(_) => Err(Trouble::nothing_here()),
    }
}

/// What the form of a page does.
async fn post(visit: Visit, form: Form) -> Result<Done, Trouble> {
    match &visit.page {
        Page::Login() => sign_in::post(&visit, &form).await,
        Page::SecondStep() => second_step::post(&visit, &form).await,
        Page::Logout() => sign_in::leave(&visit).await,
        Page::Setup() => choose::post_setup(&visit, &form).await,
        Page::Invite(code) | Page::Reset(code) => choose::post(&visit, code, &form).await,
        Page::AddProject() => add_project::post(&visit, &form).await,
        Page::SettingsName(_) => settings::rename(&visit, &form).await,
        Page::SettingsKeys(_) => settings::make_key(&visit, &form).await,
        Page::Key(_, key) => settings::post_key(&visit, *key, &form).await,
        Page::SettingsLimits(_) => settings::limit(&visit, &form).await,
        Page::RemoveProject(_) => settings::remove(&visit, &form).await,
        Page::Users() => users::invite(&visit, &form).await,
        Page::User(user) => users::post_user(&visit, *user, &form).await,
        Page::Account() => account::save(&visit, &form).await,
        Page::AccountTotp() => totp::post(&visit, &form).await,
        Page::AccountList() => account::remember(&visit, &form).await,
        Page::AccountPassword() => account::set_password(&visit, &form).await,
        Page::AccountSessions() => account::sign_out(&visit, &form).await,
        Page::Backup() => system::back_up(visit, form).await,
        Page::AddCheck(_) => check::add(visit, form).await,
        Page::EditCheck(_) => check::save(visit, form).await,
        Page::PauseCheck(_) => check::pause(&visit).await,
        Page::ResumeCheck(_) => check::resume(&visit).await,
        Page::PingCheck(_) => check::ping(&visit, &form).await,
        Page::ChannelsOfCheck(_) => check::set_channels(&visit, &form).await,
        Page::ZoneOfCheck(_) => check::set_zone(&visit, &form).await,
        Page::CopyCheck(_) => check::copy(&visit).await,
        Page::RemoveCheck(_) => check::remove(&visit).await,
        Page::Bulk(_) => list::act(visit, form).await,
        Page::AddIntegration(..) => integrations::add(visit, form).await,
        Page::EditIntegration(_) => integrations::save(visit, form).await,
        Page::ChecksOfIntegration(_) => integrations::assign(&visit, &form).await,
        Page::TestIntegration(_) => integrations::test(visit).await,
        Page::EnableIntegration(_) => integrations::enable(&visit).await,
        Page::RemoveIntegration(_) => integrations::remove(&visit).await,
        // They have no form: the table says so.
        Page::Badges(_)
        | Page::System()
        | Page::Settings(_)
        | Page::Export(_)
        | Page::SetupCode(_)
        | Page::Chapters()
        | Page::Chapter(_)
        | Page::Projects()
        | Page::Checks(_)
        | Page::Events(_)
        | Page::Check(_)
        | Page::Log(_)
        | Page::Ping(..)
        | Page::Body(..)
        | Page::Preview()
        | Page::Cloaked(_)
        | Page::Integrations(_) => Err(Trouble::nothing_here()),
    }
}

/// Answers a request to what the path names in this room.
pub(crate) async fn answer(site: &Arc<Site>, budget: &BodyBudget, target: Target, request: Request<Arriving<'_>>, peer: Peer) -> Reply {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let came = Came::of(request.headers(), peer, site);
    let before = before(site, &request);
    let reply = match target {
        Target::File(_) | Target::Favicon | Target::Robots if !is_read => Trouble::wrong_method("GET, HEAD").reply(site, None),
        Target::File(file) => sent(file, request.headers()),
        // The address of the picture changes with it, so this is asked again.
        Target::Favicon => private(reply::moved(&format!("{}/{}", site.base_url.path(), assets::path("favicon-up.svg")))),
        Target::Robots => private(reply::text("User-agent: *\nDisallow: /\n")),
        Target::Moved(page) => reply::moved(&moved(site, &page, request.uri().query())),
        Target::Page(page) => paged(site, budget, page, request, peer).await.unwrap_or_else(|trouble| private(trouble.reply(site, before))),
    };
    guarded(site, &came, reply)
}

/// The page of ours that a form was sent from, whatever host the browser names.
fn before(site: &Site, request: &Request<Arriving<'_>>) -> Option<String> {
    let from = request.headers().get(REFERER).filter(|_| *request.method() == Method::POST)?;
    let from = from.to_str().ok()?.parse::<Uri>().ok()?;
    sign_in::next_page(site, from.path_and_query()?.as_str())
}

/// What a browser is told where there is nothing; `None`: it was no browser that asked.
pub(crate) fn not_found(site: &Site, headers: &HeaderMap, peer: Peer) -> Option<Reply> {
    let reads = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|accept| accept.contains("text/html"));
    reads.then(|| guarded(site, &Came::of(headers, peer, site), private(Trouble::nothing_here().reply(site, None))))
}

async fn paged(site: &Arc<Site>, budget: &BodyBudget, page: Page, request: Request<Arriving<'_>>, peer: Peer) -> Result<Reply, Trouble> {
    let (head, body) = request.into_parts();
    let (need, is_form) = match head.method {
        Method::GET | Method::HEAD => (page.get(), false),
        Method::POST => (page.post(), true),
        _ => (None, false),
    };
    let need = need.ok_or_else(|| Trouble::wrong_method(methods(&page)))?;
    let came = Came::of(&head.headers, peer, site);
    if is_form {
        came.is_from_ours(&site.base_url)?;
    }
    let viewer = who::viewer(site, &came, &head.headers, peer.address).await?;
    if viewer.is_nobody() && need != Need::Nothing {
        if head.headers.contains_key(FRAGMENT) {
            return Err(Trouble::signed_out());
        }
        if matches!(page, Page::Events(_)) {
            return Ok(live::over());
        }
        if is_form && page != Page::Logout() {
            let form = Form::read(body, budget, &site.outgoing).await?;
            let (asked, path) = (Arc::clone(site), moved(site, &page, head.uri.query()));
            return written(site, site.outgoing.run(move || again::page(&asked, &path, &form)).await?, false).await;
        }
        return Ok(private(reply::see_other(&sign_in::way(site, &page, head.uri.query()))));
    }
    let jar = Jar { is_secure: came.is_secure(&site.base_url), base_path: site.base_url.path() };
    let zips = takes_gzip(&head.headers) && !came.is_seen_by_others();
    let query = Query(request::query(&head.uri).filter_map(|(name, value)| name.zip(value)).collect());
    let fragment = head.headers.get(&FRAGMENT).and_then(|value| value.to_str().ok()).unwrap_or_default().into();
    let visit = Visit::find(site, Asked { page, viewer, came, query, fragment }, need)?;
    if matches!(visit.page, Page::Events(_)) {
        return live::answer(visit, &head.headers).await;
    }
    let back = visit.back();
    let done = if is_form {
        let form = Form::read(body, budget, &site.outgoing).await?;
        post(visit, form).await?
    } else {
        match visit.viewer.is_nobody() {
            true => site.make_for_stranger(move || show(&visit)).await??,
            false => site.make(move || show(&visit)).await??,
        }
    };
    match done {
        Done::To(address) => Ok(private(reply::see_other(&address))),
        Done::Enter { token, mark, to } => {
            let mut reply = with_cookie(reply::see_other(&to), &jar.set(&token));
            if let Some(mark) = mark {
                reply::add(&mut reply, SET_COOKIE, &jar.set_mark(&mark));
            }
            Ok(reply)
        }
        Done::Leave(to) => {
            let mut reply = with_cookie(reply::see_other(&to), &jar.clear());
            reply::set(&mut reply, CLEAR_SITE_DATA, "\"cache\"");
            Ok(reply)
        }
        Done::Go(page, notice) => Ok(private(reply::see_other(&gone(site, &page, notice, &back)))),
        Done::Remain { page, notice, mark } => {
            let reply = private(reply::see_other(&gone(site, &page, notice, &back)));
            Ok(match mark {
                Some(mark) => with_cookie(reply, &jar.set_mark(&mark)),
                None => reply,
            })
        }
        Done::Show(html) => written(site, html, zips).await,
        Done::Download { name, content } => Ok(kept(&name, site.outgoing.made(content).await?)),
        Done::Stream { name, content } => Ok(kept(&name, content)),
    }
}

/// A file that the browser keeps and does not show.
fn kept(name: &str, content: Content) -> Reply {
    let mut reply = reply::content("application/octet-stream", content);
    reply::set(&mut reply, CONTENT_DISPOSITION, &format!("attachment; filename=\"{name}\""));
    reply::never_cached(reply)
}

fn with_cookie(mut reply: Reply, cookie: &str) -> Reply {
    reply::set(&mut reply, SET_COOKIE, cookie);
    reply::never_cached(reply)
}

/// Sends a page.
async fn written(site: &Site, html: Html, zips: bool) -> Result<Reply, Trouble> {
    let Html { text, fault, is_secret } = html;
    let zips = zips && text.len() > SMALL;
    let bytes =
        if zips { site.outgoing.run(move || assets::zipped(text.as_bytes(), Compression::fast())).await? } else { text.into_bytes() };
    let content = site.outgoing.made(bytes).await?;
    let mut reply = match fault {
        Some(fault) => fault.page(content),
        None => reply::page(content),
    };
    if zips {
        reply::set(&mut reply, CONTENT_ENCODING, "gzip");
    }
    reply::set(&mut reply, VARY, "Accept-Encoding, Sec-Fetch-Site, X-Fragment");
    Ok(if is_secret { reply::never_cached(reply) } else { private(reply) })
}

/// A file. Its URL changes with it, so it may be kept for good.
fn sent(file: &'static assets::File, headers: &HeaderMap) -> Reply {
    let zips = takes_gzip(headers);
    let (plain, zipped) = file.sent();
    let mut reply = reply::content(file.kind, if zips { zipped } else { plain });
    if zips {
        reply::set(&mut reply, CONTENT_ENCODING, "gzip");
    }
    reply::set(&mut reply, VARY, "Accept-Encoding");
    reply::set(&mut reply, CACHE_CONTROL, "public, max-age=31536000, immutable");
    reply
}

/// A browser asks again each time.
fn private(mut reply: Reply) -> Reply {
    reply::set(&mut reply, CACHE_CONTROL, "private, no-cache");
    reply
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).flat_map(|line| line.split(','));
    codings.map(|coding| coding.replace(' ', "")).any(|coding| coding == "gzip" || coding.starts_with("gzip;q=") && !coding.ends_with("=0"))
}

/// The methods of a page, as `Allow` lists them.
fn methods(page: &Page) -> &'static str {
    match (page.get(), page.post()) {
        (Some(_), Some(_)) => "GET, HEAD, POST",
        (None, _) => "POST",
        _ => "GET, HEAD",
    }
}

fn moved(site: &Site, page: &Page, query: Option<&str>) -> String {
    let link = Link { base: &site.base_url, page };
    query.map_or_else(|| link.to_string(), |query| format!("{link}?{query}"))
}

/// Where a form leads when it is done: among the pages of checks it stays known on which list somebody was.
fn gone(site: &Site, page: &Page, notice: Option<Notice>, back: &Back) -> String {
    let link = Link { base: &site.base_url, page }.to_string();
    let link = match page {
        Page::Checks(_) => back.list(&link),
        page if matches!(page.scope(), Scope::Check(_)) => back.along(&link),
        _ => link,
    };
    let mark = if link.contains('?') { '&' } else { '?' };
    notice.map_or_else(|| link.clone(), |notice| format!("{link}{mark}m={}", notice.code))
}

//! Handles every request to a page: security checks, viewer, access, form, and function of the
//! page.

use std::sync::Arc;

use hyper::header::{ACCEPT, HeaderMap, HeaderName, REFERER};
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};

use super::browser_security::{RequestOrigin, with_security_headers};
use super::cookie::CookieJar;
use super::form_data::FormData;
use super::page_error::PageError;
use super::page_reply::{PageReplies, accepts_gzip, asset_reply, html_reply, with_private_caching};
use super::page_request::{PageRequest, PendingRequest, Query};
use super::page_response::PageResponse;
use super::page_routes::{DashboardTarget, Page, PageLink, RequiredRight};
use super::{
    DashboardState, account, account_lists, add_project, assets, audit, backups, badges, channels,
    chapters, check, check_list, choose_password, deliveries, export_project, external_sign_in,
    import, live_updates, machines, passkeys, project_list, project_settings, public_status,
    search, second_step, session_expired, sign_in, status_pages, summary_settings, system, totp,
    undo, users, viewer, windows,
};
use crate::http::common::client_address::Peer;
use crate::http::common::reply::{self, HttpReply};
use crate::http::common::request;
use crate::http::common::request_body::{BodyBudget, IncomingBody};
use crate::http::common::work_owner::WorkOwner;

/// Name of the fragment of a page that a script requests.
const FRAGMENT_HEADER: HeaderName = HeaderName::from_static("x-fragment");

/// Calls the function of a page for GET.
fn dispatch_get(request: &PageRequest) -> Result<PageResponse, PageError> {
    match &request.page {
        Page::Login() => sign_in::show(request),
        Page::SecondStep() => Ok(second_step::show()),
        Page::LoginPasskey() => passkeys::sign_in::show_options(request),
        Page::Setup() => choose_password::show_setup(request, None),
        Page::SetupCode(code) => choose_password::show_setup(request, Some(code)),
        Page::Invite(code) | Page::Reset(code) => choose_password::show(request, code),
        Page::Projects() => project_list::show(request),
        Page::AddProject() => add_project::show(request),
        Page::Settings(_) => project_settings::show(request),
        Page::Export(_) => export_project::show(request),
        Page::Key(_, key) => project_settings::show_key(request, *key),
        Page::Badges(_) => badges::show(request),
        Page::StatusPages(_) => status_pages::show(request),
        Page::EditStatusPage(_, page) => status_pages::show_edit(request, *page),
        Page::Windows(_) => windows::show(request),
        Page::Deliveries(_) => deliveries::show(request),
        Page::System() => system::show(request),
        Page::Machines() => machines::show(request),
        Page::Import() => import::show(request),
        Page::ImportJob(import) => import::show_job(request, *import),
        Page::Audit() | Page::AuditOfProject(_) => audit::show(request),
        Page::Backups() => Ok(backups::show(request)),
        Page::Users() => users::show(request),
        Page::User(user) => users::user_page::show(request, *user),
        Page::Search() => search::show(request),
        Page::Account() => account::show(request),
        Page::AccountTotp() => totp::show(request),
        Page::AccountSummary() => summary_settings::show(request),
        Page::AccountPasskeys() => passkeys::show(request),
        Page::AccountPasskeyOptions() => passkeys::show_options(request),
        Page::Checks(_) | Page::AllChecks() => check_list::show(request),
        Page::Chapters() => chapters::show_list(request),
        Page::Chapter(chapter) => chapters::show(request, chapter),
        Page::AddCheck(_) => check::show_add(request),
        Page::Check(_) => check::show_detail(request),
        Page::Log(_) => check::show_log(request),
        Page::Ping(..) => check::show_ping(request),
        Page::CompareRuns(_, n) => check::show_comparison(request, *n),
        Page::Body(..) => check::show_body(request),
        Page::EditCheck(_) => check::show_edit(request),
        Page::DeleteCheck(_) => check::show_delete(request),
        Page::Preview() => check::show_preview(request),
        Page::UniqueKeyRedirect(key) => check::redirect_from_key(request, *key),
        Page::Channels(_) => channels::show(request),
        Page::AddChannel(..) => channels::show_add(request),
        Page::EditChannel(_) => channels::show_edit(request),
        Page::DeleteChannel(_) => channels::show_delete(request),
        // `handle_page` answers these.
        Page::Events(_)
        | Page::PublicStatus(_)
        | Page::LoginProvider(_)
        | Page::LoginCallback() => Err(PageError::not_found()),
        // These pages have no GET, as the table of routes states.
        Page::Logout()
        | Page::SettingsName(_)
        | Page::SettingsKeys(_)
        | Page::SettingsLimits(_)
        | Page::DeleteProject(_)
        | Page::AccountPassword()
        | Page::AccountIdentity()
        | Page::AccountList()
        | Page::AccountPins()
        | Page::AccountFilters()
        | Page::Backup()
        | Page::AccountSessions()
        | Page::Bulk(_)
        | Page::BulkOfAll()
        | Page::Undo(..)
        | Page::UndoOfAll(_)
        | Page::EndWindow(..)
        | Page::DeleteStatusPage(..)
        | Page::RetryDelivery(..)
        | Page::ChecksOfChannel(_)
        | Page::TestChannel(_)
        | Page::EnableChannel(_)
        | Page::PauseCheck(_)
        | Page::ResumeCheck(_)
        | Page::PingCheck(_)
        | Page::ChannelsOfCheck(_)
        | Page::ZoneOfCheck(_)
        | Page::CopyCheck(_) => Err(PageError::not_found()),
    }
}

/// Calls the function of a page for POST.
async fn dispatch_post(request: PageRequest, form: FormData) -> Result<PageResponse, PageError> {
    match &request.page {
        Page::Login() => sign_in::post(&request, &form).await,
        Page::SecondStep() => second_step::post(&request, &form).await,
        Page::LoginPasskey() => passkeys::sign_in::post(&request, &form).await,
        Page::Logout() => sign_in::sign_out(&request).await,
        Page::Setup() => choose_password::post_setup(&request, &form).await,
        Page::Invite(code) | Page::Reset(code) => {
            choose_password::post(&request, code, &form).await
        }
        Page::AddProject() => add_project::post(&request, &form).await,
        Page::SettingsName(_) => project_settings::rename_project(&request, &form).await,
        Page::SettingsKeys(_) => project_settings::create_key(&request, &form).await,
        Page::Key(_, key) => project_settings::post_key(&request, *key, &form).await,
        Page::SettingsLimits(_) => project_settings::set_limits(&request, &form).await,
        Page::DeleteProject(_) => project_settings::delete_project(&request, &form).await,
        Page::Users() => users::invite_user(&request, &form).await,
        Page::User(user) => users::user_page::post(&request, *user, &form).await,
        Page::Account() => account::save_preferences(&request, &form).await,
        Page::AccountTotp() => totp::post(&request, &form).await,
        Page::AccountSummary() => summary_settings::save(&request, &form).await,
        Page::AccountIdentity() => external_sign_in::disconnect(&request, &form).await,
        Page::AccountPasskeys() => passkeys::post(&request, &form).await,
        Page::AccountList() => account_lists::save_list_preferences(&request, &form).await,
        Page::AccountPins() => account_lists::pin_check(&request, &form).await,
        Page::AccountFilters() => account_lists::save_filter(&request, &form).await,
        Page::AccountPassword() => account::set_password(&request, &form).await,
        Page::AccountSessions() => account::end_sessions(&request, &form).await,
        Page::Backup() => system::send_backup(request, form).await,
        Page::Backups() => Ok(backups::start(&request)),
        Page::ImportJob(import) => import::decide(&request, *import, &form),
        Page::AddCheck(_) => check::submit_new_check(request, form).await,
        Page::EditCheck(_) => check::update_check(request, form).await,
        Page::PauseCheck(_) => check::pause(&request, &form).await,
        Page::ResumeCheck(_) => check::resume(&request).await,
        Page::PingCheck(_) => check::ping(&request, &form).await,
        Page::ChannelsOfCheck(_) => check::set_channels(&request, &form).await,
        Page::ZoneOfCheck(_) => check::set_zone(&request, &form).await,
        Page::CopyCheck(_) => check::copy(&request).await,
        Page::DeleteCheck(_) => check::delete_check(&request).await,
        Page::Bulk(_) | Page::BulkOfAll() => check_list::apply_bulk_action(request, form).await,
        Page::Undo(_, number) | Page::UndoOfAll(number) => undo::undo(&request, *number).await,
        Page::StatusPages(_) => status_pages::create(&request, &form).await,
        Page::EditStatusPage(_, page) => status_pages::update(&request, *page, &form).await,
        Page::DeleteStatusPage(_, page) => status_pages::delete(&request, *page).await,
        Page::Windows(_) => windows::create(&request, &form).await,
        Page::EndWindow(_, window) => windows::end(&request, *window).await,
        Page::RetryDelivery(_, number) => deliveries::retry(&request, *number).await,
        Page::AddChannel(..) => channels::create_channel(request, form).await,
        Page::EditChannel(_) => channels::update_channel(request, form).await,
        Page::ChecksOfChannel(_) => channels::set_checks(&request, &form).await,
        Page::TestChannel(_) => channels::send_test(request).await,
        Page::EnableChannel(_) => channels::enable_channel(&request).await,
        Page::DeleteChannel(_) => channels::delete_channel(&request).await,
        // `handle_page` answers it.
        Page::Import() => Err(PageError::not_found()),
        // These pages have no form, as the table of routes states.
        Page::Badges(_)
        | Page::Deliveries(_)
        | Page::System()
        | Page::Machines()
        | Page::Audit()
        | Page::AuditOfProject(_)
        | Page::Settings(_)
        | Page::Export(_)
        | Page::SetupCode(_)
        | Page::Chapters()
        | Page::Chapter(_)
        | Page::Projects()
        | Page::Checks(_)
        | Page::AllChecks()
        | Page::Search()
        | Page::Events(_)
        | Page::AccountPasskeyOptions()
        | Page::LoginProvider(_)
        | Page::LoginCallback()
        | Page::PublicStatus(_)
        | Page::Check(_)
        | Page::Log(_)
        | Page::Ping(..)
        | Page::CompareRuns(..)
        | Page::Body(..)
        | Page::Preview()
        | Page::UniqueKeyRedirect(_)
        | Page::Channels(_) => Err(PageError::not_found()),
    }
}

/// Answers a request to a target of the dashboard.
pub(crate) async fn handle_request(
    dashboard: &Arc<DashboardState>,
    budget: &BodyBudget,
    target: DashboardTarget,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> HttpReply {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let origin = RequestOrigin::from_headers(request.headers(), peer, dashboard);
    let before = referring_page(dashboard, &request);
    let target = public_status::target_at_host(dashboard, &origin, target);
    let reply = match target {
        DashboardTarget::Asset(_) | DashboardTarget::Favicon | DashboardTarget::Robots
            if !is_read =>
        {
            PageError::method_not_allowed("GET, HEAD").reply(dashboard, None)
        }
        DashboardTarget::Asset(file) => asset_reply(file, request.headers()),
        // The URL of the favicon changes with its content, so this redirect is not cached without
        // revalidation.
        DashboardTarget::Favicon => with_private_caching(reply::moved_permanently(&format!(
            "{}/{}",
            dashboard.base_url.path(),
            assets::asset_path("favicon-up.svg")
        ))),
        DashboardTarget::Robots => {
            with_private_caching(reply::text("User-agent: *\nDisallow: /\n"))
        }
        DashboardTarget::Redirect(page) => {
            reply::moved_permanently(&url_with_query(dashboard, &page, request.uri().query()))
        }
        DashboardTarget::Page(page) => handle_page(dashboard, budget, page, request, peer)
            .await
            .unwrap_or_else(|error| with_private_caching(error.reply(dashboard, before))),
    };
    with_security_headers(dashboard, &origin, reply)
}

/// URL of the page of this server that sent the request. The host in its `Referer` is ignored.
fn referring_page(
    dashboard: &DashboardState,
    request: &Request<IncomingBody<'_>>,
) -> Option<String> {
    let from = request
        .headers()
        .get(REFERER)
        .filter(|_| *request.method() == Method::POST)?;
    let from = from.to_str().ok()?.parse::<Uri>().ok()?;
    sign_in::parse_next_url(dashboard, from.path_and_query()?.as_str())
}

/// Error page for an unknown path. `None` if the client is not a browser.
pub(crate) fn not_found_page(
    dashboard: &DashboardState,
    headers: &HeaderMap,
    peer: Peer,
) -> Option<HttpReply> {
    let reads = headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    reads.then(|| {
        with_security_headers(
            dashboard,
            &RequestOrigin::from_headers(headers, peer, dashboard),
            with_private_caching(PageError::not_found().reply(dashboard, None)),
        )
    })
}

async fn handle_page(
    dashboard: &Arc<DashboardState>,
    budget: &BodyBudget,
    page: Page,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> Result<HttpReply, PageError> {
    let (head, body) = request.into_parts();
    let (need, is_form) = match head.method {
        Method::GET | Method::HEAD => (page.get(), false),
        Method::POST => (page.post(), true),
        _ => (None, false),
    };
    let need = need.ok_or_else(|| PageError::method_not_allowed(allowed_methods(&page)))?;
    if let Page::PublicStatus(address) = &page {
        return public_status::respond(dashboard, address, &head.headers).await;
    }
    let origin = RequestOrigin::from_headers(&head.headers, peer, dashboard);
    if is_form {
        origin.require_same_origin(&dashboard.base_url)?;
    }
    let viewer = viewer::identify_viewer(dashboard, &origin, &head.headers, peer.address).await?;
    if viewer.is_anonymous() && need != RequiredRight::Public {
        return request_sign_in(dashboard, budget, page, &head, body).await;
    }
    let jar = CookieJar {
        is_secure: origin.is_secure(&dashboard.base_url),
        base_path: dashboard.base_url.path(),
    };
    let is_compressed = accepts_gzip(&head.headers) && !origin.is_cross_site();
    let request = PageRequest::authorize(
        dashboard,
        PendingRequest {
            page,
            viewer,
            origin,
            query: read_query(&head.uri),
            fragment: read_fragment(&head.headers),
        },
        need,
    )?;
    if matches!(request.page, Page::Events(_)) {
        return live_updates::handle_request(request, &head.headers).await;
    }
    let replies = PageReplies {
        dashboard,
        jar,
        writer: request.response_writer(),
        back: request.list_return(),
        is_compressed,
        is_external_sign_in: is_external_sign_in(&request.page),
    };
    let response = if is_form {
        respond_to_form(request, budget, &head, body).await?
    } else if replies.is_external_sign_in {
        external_sign_in::respond(&request, &head.headers, jar).await?
    } else if request.viewer.is_anonymous() {
        let show = move || dispatch_get(&request);
        dashboard.run_blocking_anonymous(show).await??
    } else {
        let owner = request.owner();
        let show = move || dispatch_get(&request);
        dashboard.run_blocking(owner, show).await??
    };
    replies.reply(response).await
}

/// True for pages that the browser visits on the way to and from a provider of identities.
fn is_external_sign_in(page: &Page) -> bool {
    matches!(page, Page::LoginProvider(_) | Page::LoginCallback())
}

fn read_query(uri: &Uri) -> Query {
    let pairs = request::query(uri).filter_map(|(name, value)| name.zip(value));
    Query(pairs.collect())
}

fn read_fragment(headers: &HeaderMap) -> Box<str> {
    let name = headers.get(&FRAGMENT_HEADER);
    name.and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .into()
}

/// Reply to a client that must sign in first. The page keeps the fields of a form meanwhile.
async fn request_sign_in(
    dashboard: &Arc<DashboardState>,
    budget: &BodyBudget,
    page: Page,
    head: &Parts,
    body: IncomingBody<'_>,
) -> Result<HttpReply, PageError> {
    if head.headers.contains_key(FRAGMENT_HEADER) {
        return Err(PageError::session_expired());
    }
    if matches!(page, Page::Events(_)) {
        return Ok(live_updates::session_ended_reply());
    }
    if head.method != Method::POST || page == Page::Logout() {
        let url = sign_in::sign_in_url(dashboard, &page, head.uri.query());
        return Ok(with_private_caching(reply::see_other(&url)));
    }
    let form = match page {
        // A file is not kept for the time of signing in.
        Page::Import() => FormData::default(),
        _ => {
            let quota = budget.of(WorkOwner::Other);
            FormData::read(body, quota, &dashboard.response_writer).await?
        }
    };
    let shared_dashboard = Arc::clone(dashboard);
    let path = url_with_query(dashboard, &page, head.uri.query());
    let render = move || session_expired::render_page(&shared_dashboard, &path, &form);
    let html = dashboard.run_blocking_anonymous(render).await?;
    html_reply(&dashboard.response_writer, html, false).await
}

async fn respond_to_form(
    request: PageRequest,
    budget: &BodyBudget,
    head: &Parts,
    body: IncomingBody<'_>,
) -> Result<PageResponse, PageError> {
    if matches!(request.page, Page::Import()) {
        return import::receive(request, &head.headers, body).await;
    }
    let writer = request.response_writer();
    let form = FormData::read(body, budget.of(request.owner()), &writer).await?;
    dispatch_post(request, form).await
}

/// Methods of a page, for the `Allow` header.
fn allowed_methods(page: &Page) -> &'static str {
    match (page.get(), page.post()) {
        (Some(_), Some(_)) => "GET, HEAD, POST",
        (None, _) => "POST",
        _ => "GET, HEAD",
    }
}

fn url_with_query(dashboard: &DashboardState, page: &Page, query: Option<&str>) -> String {
    let link = PageLink {
        base_url: &dashboard.base_url,
        page,
    };
    query.map_or_else(|| link.to_string(), |query| format!("{link}?{query}"))
}

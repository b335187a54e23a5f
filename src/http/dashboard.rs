//! The dashboard: pages rendered by the server, on the same commands and reads as the API.
//!
//! Every page works without script. The modules in `static` update pages in place, at the same
//! URLs.
//!
//! # How a request is processed
//!
//! `http` calls `DashboardTarget::parse` to find the page that a path names, and then calls
//! `page_handler`. Every request passes the same steps: `browser_security` (the origin of the
//! request and, for a form, of the page that sent it) → `viewer` (the `Viewer`) → [`Page::scope`]
//! and the objects that it requires (`page_request`: 404 for an object that the viewer may not see)
//! → `form_data` → the function of the page → 303, or a page.
//!
//! # How to add a page
//!
//! 1. `page_routes.rs`: add a row to the table. The row states the path, the object that the page
//!    belongs to, and the rights that its viewer needs.
//! 2. Add a file with `show(&PageRequest) -> Result<PageResponse, PageError>` for GET and, if the
//!    page takes forms, `post(&PageRequest, &FormData) -> Result<PageResponse, PageError>`. `show`
//!    runs on a thread that may block. `post` submits commands and waits for them.
//! 3. `page_handler.rs`: add an arm to `dispatch_get` or `dispatch_post`. The compiler reports a
//!    missing one.
//! 4. Add a template in `pages`. It begins with `{% extends "layout.html" %}` and gets its `Layout`
//!    from `PageRequest::layout`.
//!
//! # Invariants
//!
//! GET and HEAD change nothing. Pages, and all reads that request every check, run outside the
//! threads of connections (`DashboardState::run_blocking`); only short forms that are shown again
//! run there. Nothing is rendered while the lock of the state is held. Access is decided once,
//! before a row is read. Templates escape all values. URLs come from `page_routes`, time and
//! randomness from the handle of the engine. Every list is bounded.

mod account;
mod account_lists;
mod add_project;
mod assets;
mod audit;
mod backups;
mod badges;
mod browser_security;
mod challenges;
mod channels;
mod chapters;
mod check;
mod check_list;
mod choose_password;
mod cookie;
mod deliveries;
mod docs_site;
mod export_project;
mod external_sign_in;
mod form_data;
mod import;
mod layout;
mod live_updates;
mod machines;
mod one_time_texts;
mod page_error;
mod page_handler;
mod page_messages;
mod page_reply;
mod page_request;
mod page_response;
mod page_routes;
mod passkeys;
mod password_hasher;
mod pause_length;
mod ping_urls;
mod project_list;
mod project_settings;
mod proxy_auth;
mod public_status;
mod search;
mod second_factor_limit;
mod second_step;
mod session_expired;
mod sign_in;
mod sign_in_limit;
mod snippet;
mod status_pages;
mod summary_settings;
mod system;
mod time_display;
mod totp;
mod undo;
mod untrusted_text;
mod users;
mod viewer;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::Semaphore;

use crate::backup::BackupControl;
use crate::domain::timezone::Timezone;
use crate::domain::user::external_identity::IdentityProvider;
use crate::engine::Handle;
use crate::http::common::reply::HttpError;
use crate::http::common::request::BaseUrl;
use crate::http::common::response_body::ResponseWriter;
use crate::http::common::work_owner::WorkOwner;
use crate::outbound::Outbound;
use challenges::SignInChallenges;
use external_sign_in::ExternalSignIn;
use import::ImportSlot;
use one_time_texts::OneTimeTexts;
use password_hasher::PasswordHasher;
use public_status::StatusPageCache;
use second_factor_limit::SecondFactorLimit;
use second_step::PendingSignIns;
use sign_in_limit::SignInLimit;
use undo::UndoHistory;

pub use docs_site::write_docs_site;
pub(crate) use external_sign_in::respond_to_logout;
pub(crate) use page_handler::{handle_request, not_found_page};
pub(crate) use page_routes::DashboardTarget;
pub use page_routes::{Page, RequiredRight, Scope};
pub use proxy_auth::{LogoutUrl, ProxyAuth};

/// Maximum number of tasks of the dashboard that run at the same time. Pings do not wait for them.
const MAX_TASKS: usize = 3;
/// Maximum number of tasks that run at the same time for clients that are not signed in. Signed-in
/// users do not wait for them.
const MAX_ANONYMOUS_TASKS: usize = 1;
/// Maximum time that a task waits for a permit.
const TASK_QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Access to the dashboard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthMode {
    /// Users sign in with a password.
    Password,
    /// Every client on this machine and behind trusted proxies has the rights of an owner.
    None,
}

/// Settings of the dashboard, fixed at start.
#[derive(Clone, Debug)]
pub struct DashboardConfig {
    /// Access to the dashboard.
    pub auth: AuthMode,
    /// True if the dashboard is served.
    pub is_enabled: bool,
    /// Days after which an unused session ends.
    pub session_days: u32,
    /// Proxy that authenticates users.
    pub proxy_auth: Option<ProxyAuth>,
    /// Providers at which users sign in.
    pub providers: Vec<IdentityProvider>,
    /// Sender of requests to providers. `None`: no provider is asked.
    pub outbound: Option<Outbound>,
    /// Time zone for users who have chosen none.
    pub default_zone: Timezone,
    /// Scheduled backups. `None`: there are none.
    pub backups: Option<BackupControl>,
    /// Domain for which mail is accepted. `None`: no mail is accepted.
    pub mail_domain: Option<Box<str>>,
}

impl DashboardConfig {
    /// Settings with sessions of 30 days and times in UTC.
    pub fn new(auth: AuthMode) -> Self {
        Self {
            auth,
            is_enabled: true,
            session_days: 30,
            proxy_auth: None,
            providers: Vec::new(),
            outbound: None,
            default_zone: Timezone::utc(),
            backups: None,
            mail_domain: None,
        }
    }

    /// True if users sign in with passwords.
    pub fn uses_passwords(&self) -> bool {
        self.is_enabled && self.auth == AuthMode::Password
    }
}

/// State that pages are rendered from.
pub(crate) struct DashboardState {
    pub(crate) handle: Handle,
    response_writer: ResponseWriter,
    config: DashboardConfig,
    base_url: BaseUrl,
    trusted_proxies: Box<[IpNet]>,
    task_permits: Arc<Semaphore>,
    anonymous_task_permits: Arc<Semaphore>,
    password_hasher: PasswordHasher,
    sign_in_limit: SignInLimit,
    pending_sign_ins: PendingSignIns,
    second_factor_limit: SecondFactorLimit,
    sign_in_challenges: SignInChallenges,
    /// `None`: users sign in here alone.
    external_sign_in: Option<ExternalSignIn>,
    one_time_texts: OneTimeTexts,
    undo_history: UndoHistory,
    status_pages: StatusPageCache,
    live_updates: Arc<live_updates::LiveUpdates>,
    /// Import from the browser.
    import_slot: ImportSlot,
    /// Allows one upload at a time.
    upload_permit: Semaphore,
    /// Allows one backup at a time.
    backup_permit: Arc<Semaphore>,
}

impl DashboardState {
    /// Creates the dashboard of this engine. `response_writer` runs slow work and writes responses.
    pub(crate) fn new(
        handle: Handle,
        response_writer: ResponseWriter,
        config: DashboardConfig,
        base_url: BaseUrl,
        trusted_proxies: &[IpNet],
    ) -> Arc<Self> {
        let task_permits = Arc::new(Semaphore::new(MAX_TASKS));
        let sign_in_limit = SignInLimit::default();
        let pending_sign_ins = PendingSignIns::default();
        let one_time_texts = OneTimeTexts::default();
        let sign_in_challenges = SignInChallenges::new(handle.random());
        let external_sign_in = config
            .outbound
            .clone()
            .filter(|_| config.uses_passwords() && !config.providers.is_empty())
            .map(|outbound| ExternalSignIn::new(config.providers.clone(), outbound));
        let backup_permit = Arc::new(Semaphore::new(1));
        let password_hasher = PasswordHasher::new(&response_writer, handle.random().clone());
        let trusted_proxies = trusted_proxies.into();
        let live_updates = live_updates::LiveUpdates::new(handle.clone(), response_writer.clone());
        Arc::new(Self {
            handle,
            response_writer,
            config,
            base_url,
            trusted_proxies,
            task_permits,
            anonymous_task_permits: Arc::new(Semaphore::new(MAX_ANONYMOUS_TASKS)),
            password_hasher,
            sign_in_limit,
            pending_sign_ins,
            second_factor_limit: SecondFactorLimit::default(),
            sign_in_challenges,
            external_sign_in,
            one_time_texts,
            undo_history: UndoHistory::default(),
            status_pages: StatusPageCache::default(),
            live_updates,
            import_slot: ImportSlot::default(),
            upload_permit: Semaphore::new(1),
            backup_permit,
        })
    }

    /// Runs slow work outside the threads of connections, which answer pings. At most `MAX_TASKS`
    /// run at a time.
    ///
    /// # Errors
    /// Fails if no permit is free within [`TASK_QUEUE_TIMEOUT`].
    async fn run_blocking<T: Send + 'static>(
        &self,
        owner: WorkOwner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        self.response_writer
            .for_owner(owner)
            .run_with_permit(&self.task_permits, TASK_QUEUE_TIMEOUT, work)
            .await
    }

    /// Like `run_blocking`, with a separate limit for clients that are not signed in.
    ///
    /// # Errors
    /// Fails if no permit is free within [`TASK_QUEUE_TIMEOUT`].
    async fn run_blocking_anonymous<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        self.response_writer
            .for_owner(WorkOwner::Visitors)
            .run_with_permit(&self.anonymous_task_permits, TASK_QUEUE_TIMEOUT, work)
            .await
    }

    /// Seconds after which an unused session ends.
    fn session_idle_secs(&self) -> i64 {
        i64::from(self.config.session_days) * 86_400
    }
}

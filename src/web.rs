//! The dashboard: pages for people, made by the server, on the same commands and reads as the API.
//!
//! A page is shown and used without script; modules in `static` make it live on the same URLs.
//!
//! # The way of a request
//!
//! `http` asks `Target::parse` what a path names and calls `page_handler`. Every request to a page walks this one road: `browser_security` (where it came
//! by, and from which page a form was sent) → `who` (the `Viewer`) → [`Page::scope`] and what it needs
//! (`page_request`: 404 for what is not the viewer's) → `form_data` → the page's own function → 303, or a page.
//!
//! # How a page is added
//!
//! 1. `route.rs`: its row in the table. The row says its path, what it belongs to, and what its viewer may have to do there.
//! 2. A file with `show(&Visit) -> Result<Html, Trouble>` for GET, and `post(Visit, Form) -> Result<Done, Trouble>` if it takes forms. `show`
//!    runs on a thread that may block; `post` submits commands and waits for them.
//! 3. Its arm in `show` or `post` of `answer.rs`. The compiler asks for it.
//! 4. Its template in `pages`, which begins with `{% extends "layout.html" %}` and gets a `layout` from `Visit::layout`.
//!
//! # What always holds
//!
//! GET and HEAD change nothing. Pages, and whatever looks at all checks, are made away from the threads of connections (`Site::run_blocking`), but
//! for short forms that are shown once more; nothing is made under the lock of the state. Access is decided once,
//! before a row is read. Templates escape everything. URLs come from `page_routes`, times and chance from the engine's handle. Every list is
//! bounded.

mod account;
mod add_project;
mod assets;
mod badges;
mod browser_security;
mod channels;
mod chapters;
mod check;
mod check_list;
mod choose_password;
mod cookie;
mod export_project;
mod form_data;
mod layout;
mod live_updates;
mod one_time_secrets;
mod page_error;
mod page_handler;
mod page_messages;
mod page_request;
mod page_routes;
mod password_hasher;
mod ping_urls;
mod project_list;
mod project_settings;
mod proxy_auth;
mod second_factor_throttle;
mod second_step;
mod session_expired;
mod sign_in;
mod sign_in_throttle;
mod snippet;
mod system;
mod time_display;
mod totp;
mod untrusted_text;
mod users;
mod viewer;

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::domain::timezone::Timezone;
use crate::engine::Handle;
use crate::wire::reply::HttpError;
use crate::wire::request::BaseUrl;
use crate::wire::response_body::ResponseWriter;
use one_time_secrets::OneTimeSecrets;
use password_hasher::PasswordHasher;
use second_factor_throttle::SecondFactorThrottle;
use second_step::PendingSignIns;
use sign_in_throttle::SignInThrottle;

pub(crate) use page_handler::{handle_request, not_found_page};
pub(crate) use page_routes::DashboardTarget;
pub use page_routes::{Need, Page, Scope};
pub use proxy_auth::{LogoutUrl, ProxyAuth};

/// Pages that are made at the same time. Whoever pings waits for none of them.
const MAX_TASKS: usize = 2;
/// Pages that are made at the same time for those who have not signed in. People who have wait for none of them.
const MAX_ANONYMOUS_TASKS: usize = 1;
/// How long a page waits until others are made.
const TASK_QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Who sees the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthMode {
    /// Whoever signs in with a password.
    Password,
    /// Everybody on this machine and behind trusted proxies, as an owner.
    None,
}

/// What the pages are told once, at start.
#[derive(Clone, Debug)]
pub struct DashboardConfig {
    /// Who sees them.
    pub auth: AuthMode,
    /// Whether there are any.
    pub is_enabled: bool,
    /// Days for which a session lasts without a use.
    pub session_days: u32,
    /// A proxy that says who asks.
    pub proxy_auth: Option<ProxyAuth>,
    /// The zone of times for whoever has chosen none.
    pub default_zone: Timezone,
    /// The domain for which mail is taken; `None`: none is.
    pub mail_domain: Option<Box<str>>,
}

impl DashboardConfig {
    /// Pages with sessions of 30 days and times in UTC.
    pub fn new(auth: AuthMode) -> Self {
        Self { auth, is_enabled: true, session_days: 30, proxy_auth: None, default_zone: Timezone::utc(), mail_domain: None }
    }

    /// Whether people sign in with passwords.
    pub fn uses_passwords(&self) -> bool {
        self.is_enabled && self.auth == AuthMode::Password
    }
}

/// What pages are made from.
pub(crate) struct DashboardState {
    pub(crate) handle: Handle,
    outgoing: ResponseWriter,
    config: DashboardConfig,
    base_url: BaseUrl,
    trusted_proxies: Box<[IpNet]>,
    task_permits: Semaphore,
    anonymous_task_permits: Semaphore,
    password_hasher: PasswordHasher,
    sign_in_throttle: SignInThrottle,
    pending_sign_ins: PendingSignIns,
    second_factor_throttle: SecondFactorThrottle,
    one_time_secrets: OneTimeSecrets,
    live_updates: Arc<live_updates::LiveUpdates>,
    /// One backup at a time.
    backup_permit: Arc<Semaphore>,
}

impl DashboardState {
    /// The pages of this engine; answers go out by `response_body`.
    pub(crate) fn new(
        handle: Handle,
        outgoing: ResponseWriter,
        config: DashboardConfig,
        base_url: BaseUrl,
        trusted_proxies: &[IpNet],
    ) -> Arc<Self> {
        let (making, throttle, attempts) = (Semaphore::new(MAX_TASKS), SignInThrottle::default(), PendingSignIns::default());
        let (shown_once, backing_up) = (OneTimeSecrets::default(), Arc::new(Semaphore::new(1)));
        let hashing = PasswordHasher::new(outgoing.clone(), handle.random().clone());
        let (trusted_proxies, live) = (trusted_proxies.into(), live_updates::LiveUpdates::new(handle.clone(), outgoing.clone()));
        Arc::new(Self {
            handle,
            outgoing,
            config,
            base_url,
            trusted_proxies,
            task_permits: making,
            anonymous_task_permits: Semaphore::new(MAX_ANONYMOUS_TASKS),
            password_hasher: hashing,
            sign_in_throttle: throttle,
            pending_sign_ins: attempts,
            second_factor_throttle: SecondFactorThrottle::default(),
            one_time_secrets: shown_once,
            live_updates: live,
            backup_permit: backing_up,
        })
    }

    /// Does what takes long away from the threads of connections, which answer pings; a few at a time.
    ///
    /// # Errors
    /// When its turn does not come within ten seconds.
    async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, HttpError> {
        self.run_with_permit(&self.task_permits, work).await
    }

    /// Does the same for somebody who has not signed in, in a place of their own.
    ///
    /// # Errors
    /// When its turn does not come within ten seconds.
    async fn run_blocking_anonymous<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, HttpError> {
        self.run_with_permit(&self.anonymous_task_permits, work).await
    }

    async fn run_with_permit<T: Send + 'static>(
        &self,
        places: &Semaphore,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        let turn = timeout(TASK_QUEUE_TIMEOUT, places.acquire()).await;
        let _turn = turn.map_err(|_| HttpError::Unavailable)?.map_err(|_| HttpError::Unavailable)?;
        self.outgoing.run_blocking(work).await
    }

    /// Seconds for which a session lasts without a use.
    fn session_idle_secs(&self) -> i64 {
        i64::from(self.config.session_days) * 86_400
    }
}

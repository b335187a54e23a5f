//! The dashboard: pages for people, made by the server, on the same commands and reads as the API.
//!
//! A page is shown and used without script; modules in `static` make it live on the same URLs.
//!
//! # The way of a request
//!
//! `http` asks `Target::parse` what a path names and calls `answer`. Every request to a page walks this one road: `guard` (where it came
//! by, and from which page a form was sent) → `who` (the `Viewer`) → [`Page::scope`] and what it needs
//! (`visit`: 404 for what is not the viewer's) → `form` → the page's own function → 303, or a page.
//!
//! # How a page is added
//!
//! 1. `route.rs`: its row in the table. The row says its path, what it belongs to, and what its viewer may have to do there.
//! 2. A file with `show(&Visit) -> Result<Html, Trouble>` for GET, and `post(Visit, Form) -> Result<Done, Trouble>` if it takes forms. `show`
//!    runs on a thread that may block; `post` submits commands and waits for them.
//! 3. Its arm in `show` or `post` of `answer.rs`. The compiler asks for it.
//! 4. Its template in `pages`, which begins with `{% extends "layout.html" %}` and gets a `frame` from `Visit::frame`.
//!
//! # What always holds
//!
//! GET and HEAD change nothing. Pages, and whatever looks at all checks, are made away from the threads of connections (`Site::make`), but
//! for short forms that are shown once more; nothing is made under the lock of the state. Access is decided once,
//! before a row is read. Templates escape everything. URLs come from `route`, times and chance from the engine's handle. Every list is
//! bounded.

mod account;
mod add_project;
mod address;
mod again;
mod answer;
mod assets;
mod badges;
mod chapters;
mod check;
mod choose;
mod cookie;
mod error;
mod export;
mod form;
mod forward;
mod frame;
mod guard;
mod hashing;
mod hostile;
mod integrations;
mod list;
mod live;
mod notice;
mod projects;
mod route;
mod second_step;
mod settings;
mod shown_once;
mod sign_in;
mod snippet;
mod system;
mod throttle;
mod totp;
mod users;
mod visit;
mod when;
mod who;
mod wrong_codes;

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::domain::timezone::Timezone;
use crate::engine::Handle;
use crate::wire::outgoing::Outgoing;
use crate::wire::reply::Fault;
use crate::wire::request::BaseUrl;
use hashing::Hashing;
use second_step::Attempts;
use shown_once::ShownOnce;
use throttle::Throttle;
use wrong_codes::WrongCodes;

pub(crate) use answer::{answer, not_found};
pub use forward::{Forward, Logout};
pub(crate) use route::Target;
pub use route::{Need, Page, Scope};

/// Pages that are made at the same time. Whoever pings waits for none of them.
const MADE_AT_ONCE: usize = 2;
/// Pages that are made at the same time for those who have not signed in. People who have wait for none of them.
const MADE_FOR_STRANGERS: usize = 1;
/// How long a page waits until others are made.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who sees the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Auth {
    /// Whoever signs in with a password.
    Password,
    /// Everybody on this machine and behind trusted proxies, as an owner.
    None,
}

/// What the pages are told once, at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who sees them.
    pub auth: Auth,
    /// Whether there are any.
    pub is_on: bool,
    /// Days for which a session lasts without a use.
    pub session_days: u32,
    /// A proxy that says who asks.
    pub forward: Option<Forward>,
    /// The zone of times for whoever has chosen none.
    pub zone: Timezone,
    /// The domain for which mail is taken; `None`: none is.
    pub mail_domain: Option<Box<str>>,
}

impl Config {
    /// Pages with sessions of 30 days and times in UTC.
    pub fn new(auth: Auth) -> Self {
        Self { auth, is_on: true, session_days: 30, forward: None, zone: Timezone::utc(), mail_domain: None }
    }

    /// Whether people sign in with passwords.
    pub fn asks_for_passwords(&self) -> bool {
        self.is_on && self.auth == Auth::Password
    }
}

/// What pages are made from.
pub(crate) struct Site {
    pub(crate) handle: Handle,
    outgoing: Outgoing,
    config: Config,
    base_url: BaseUrl,
    trusted_proxies: Box<[IpNet]>,
    making: Semaphore,
    making_for_strangers: Semaphore,
    hashing: Hashing,
    throttle: Throttle,
    attempts: Attempts,
    wrong_codes: WrongCodes,
    shown_once: ShownOnce,
    live: Arc<live::Live>,
    /// One backup at a time.
    backing_up: Arc<Semaphore>,
}

impl Site {
    /// The pages of this engine; answers go out by `outgoing`.
    pub(crate) fn new(handle: Handle, outgoing: Outgoing, config: Config, base_url: BaseUrl, trusted_proxies: &[IpNet]) -> Arc<Self> {
        let (making, throttle, attempts) = (Semaphore::new(MADE_AT_ONCE), Throttle::default(), Attempts::default());
        let (shown_once, backing_up) = (ShownOnce::default(), Arc::new(Semaphore::new(1)));
        let hashing = Hashing::new(outgoing.clone(), handle.random().clone());
        let (trusted_proxies, live) = (trusted_proxies.into(), live::Live::new(handle.clone(), outgoing.clone()));
        Arc::new(Self {
            handle,
            outgoing,
            config,
            base_url,
            trusted_proxies,
            making,
            making_for_strangers: Semaphore::new(MADE_FOR_STRANGERS),
            hashing,
            throttle,
            attempts,
            wrong_codes: WrongCodes::default(),
            shown_once,
            live,
            backing_up,
        })
    }

    /// Does what takes long away from the threads of connections, which answer pings; a few at a time.
    ///
    /// # Errors
    /// When its turn does not come within ten seconds.
    async fn make<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        self.make_in(&self.making, work).await
    }

    /// Does the same for somebody who has not signed in, in a place of their own.
    ///
    /// # Errors
    /// When its turn does not come within ten seconds.
    async fn make_for_stranger<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        self.make_in(&self.making_for_strangers, work).await
    }

    async fn make_in<T: Send + 'static>(&self, places: &Semaphore, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        let turn = timeout(PATIENCE, places.acquire()).await;
        let _turn = turn.map_err(|_| Fault::Unavailable)?.map_err(|_| Fault::Unavailable)?;
        self.outgoing.run(work).await
    }

    /// Seconds for which a session lasts without a use.
    fn idle_secs(&self) -> i64 {
        i64::from(self.config.session_days) * 86_400
    }
}

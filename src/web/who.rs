//! Who looks at a page, and what they may do.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::header::HeaderMap;

use super::cookie::Jar;
use super::error::Trouble;
use super::guard::Came;
use super::route::Need;
use super::{Auth, Site, forward, sign_in};
use crate::domain::ids::ProjectId;
use crate::domain::timezone::Timezone;
use crate::domain::user::session::Session;
use crate::domain::user::taste::ListTaste;
use crate::domain::user::{Grant, Membership, Taste, Theme, User};
use crate::engine::Handle;
use crate::wire::client::is_trusted;

/// Whoever looks at a page.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    /// The zone of the times that they see.
    pub(crate) zone: Timezone,
    /// How pages look.
    pub(crate) theme: Theme,
    /// Whether single keys do something.
    pub(crate) shortcuts: bool,
    /// How lists of checks are shown where an address does not say it.
    pub(crate) list: ListTaste,
    /// Who they are, if anybody had to say.
    pub(crate) person: Option<Person>,
    grant: Option<Grant>,
}

/// Somebody who is known by name.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    /// The user.
    pub(crate) user: Arc<User>,
    /// The session that they have signed in to.
    pub(crate) session: Option<Arc<Session>>,
}

impl Viewer {
    fn new(site: &Site, taste: Taste, grant: Option<Grant>, person: Option<Person>) -> Self {
        let zone = taste.zone.unwrap_or_else(|| site.config.zone.clone());
        Self { zone, theme: taste.theme, shortcuts: taste.shortcuts, list: taste.list, person, grant }
    }

    /// Whether they have not signed in.
    pub(crate) fn is_nobody(&self) -> bool {
        self.grant.is_none()
    }

    /// Whether they may do what something of this project needs; `None`: what belongs to no project.
    pub(crate) fn may(&self, need: Need, project: Option<ProjectId>) -> bool {
        let Some(grant) = &self.grant else { return need == Need::Nothing };
        let within = |least| project.map_or(grant.is_owner(), |project| grant.in_project(project) >= Some(least));
        match need {
            Need::Nothing | Need::Person => true,
            Need::Read => within(Membership::ReadOnly),
            Need::Write => within(Membership::Member),
            Need::Owner => grant.is_owner(),
        }
    }
}

impl Viewer {
    /// Whether they may still see a project. Sessions end, people are let out of projects, and projects go.
    pub(crate) fn may_still_read(&self, handle: &Handle, project: ProjectId) -> bool {
        let now = handle.now();
        handle.with_state(|state| {
            if state.project(project).is_none() {
                return false;
            }
            let Some(Person { user, session }) = &self.person else { return self.may(Need::Read, Some(project)) };
            let user = match session {
                Some(session) => state.users.session(&session.hash, now).map(|(_, user)| user),
                None => state.users.get(user.id).filter(|user| !user.disabled),
            };
            user.is_some_and(|user| user.grant.in_project(project) >= Some(Membership::ReadOnly))
        })
    }
}

/// Finds out who asks.
///
/// # Errors
/// When the server has no sign-in, and they are not on its machine; or when a proxy names somebody who may not come in.
pub(super) async fn viewer(site: &Site, came: &Came, headers: &HeaderMap, peer: SocketAddr) -> Result<Viewer, Trouble> {
    match site.config.auth {
        Auth::Password => {
            // Whom the proxy names is who asks, whatever cookie there is.
            let named = forward::person(site, came, headers, peer).await?;
            let person = named.or_else(|| by_cookie(site, came, headers));
            let (taste, grant) = person.as_ref().map(|person| (person.user.taste.clone(), person.user.grant.clone())).unzip();
            Ok(Viewer::new(site, taste.unwrap_or_default(), grant, person))
        }
        Auth::None => {
            let peer = peer.ip().to_canonical();
            if !peer.is_loopback() && !is_trusted(peer, &site.trusted_proxies) {
                return Err(Trouble::from_elsewhere());
            }
            if !came.is_by_known_host(site) {
                return Err(Trouble::by_unknown_host(came));
            }
            Ok(Viewer::new(site, Taste::default(), Some(Grant::Owner), None))
        }
    }
}

fn by_cookie(site: &Site, came: &Came, headers: &HeaderMap) -> Option<Person> {
    let jar = Jar { is_secure: came.is_secure(&site.base_url), base_path: site.base_url.path() };
    let now = site.handle.now();
    let person = site.handle.with_state(|state| {
        let mut found = jar.tokens(headers).filter_map(|token| state.users.session(&token, now));
        found.next().map(|(session, user)| Person { user: Arc::clone(user), session: Some(Arc::clone(session)) })
    });
    if let Some(session) = person.as_ref().and_then(|person| person.session.as_ref()).filter(|session| session.is_stale(now)) {
        // Nobody waits for it. If it is not written, the next request asks for it again.
        drop(site.handle.submit(sign_in::touch(site.idle_secs(), session, came.client.addr, None)));
    }
    person
}

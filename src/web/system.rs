//! The server as its owners see it: what it holds, whether it writes, and how this very request came to it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::frame::Frame;
use super::guard::is_near;
use super::route::Page;
use super::settings::asks_password;
use super::sign_in::is_confirmed;
use super::visit::Visit;
use super::when::When;
use crate::backup;
use crate::domain::words::{Times, count, duration, size};
use crate::metrics::BackupStatus;
use crate::wire::client::is_trusted;
use crate::wire::outgoing::Content;
use crate::wire::reply::Fault;

#[derive(Template)]
#[template(path = "system.html", config = "src/web/askama.toml")]
struct System {
    frame: Frame,
    runs_for: String,
    is_writable: bool,
    holds: String,
    /// How long the last commit took, in words; `None`: there was none yet.
    last_commit: Option<String>,
    /// Where a script looks whether events come through at once; `None`: there is no project.
    events: Option<String>,
    waiting: usize,
    /// Bytes of the file, in words; `None`: it is being opened anew.
    file: Option<String>,
    /// Commands that wait for the writer, and how many may.
    queue: (u64, usize),
    backup: String,
    backups: Backups,
    asks_password: bool,
    backup_is_wrong: Option<&'static str>,
    base_url: String,
    /// What `--base-url` should be, if the request says so.
    other: Option<String>,
    host: String,
    peer: String,
    address: String,
    is_relayed: bool,
    is_peer_trusted: bool,
    is_secure: bool,
    /// The one address that the sessions of all people seem to come from.
    shared_address: Option<IpAddr>,
}

/// How the backups go that the server makes by itself.
enum Backups {
    Off,
    /// None was due yet.
    Begun,
    Made(When),
    /// Since when, the last reason, and when the newest was begun.
    Failing(When, String, Option<When>),
}

impl Backups {
    fn of(status: Option<BackupStatus>, times: &Times<'_>) -> Self {
        let when = |at| When::of(at, times);
        match status {
            None => Self::Off,
            Some(BackupStatus { newest, failing: Some((since, reason)) }) => Self::Failing(when(since), reason, newest.map(when)),
            Some(BackupStatus { newest, failing: None }) => newest.map_or(Self::Begun, |newest| Self::Made(when(newest))),
        }
    }
}

/// The page.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, None).into())
}

fn page(visit: &Visit, backup_is_wrong: Option<&'static str>) -> Html {
    let (came, base_url) = (&visit.came, visit.base_url());
    let uptime = visit.handle().clock().uptime().as_micros();
    let (projects, checks, users, waiting, first) = visit.handle().with_state(|state| {
        let first = state.projects().next().map(|found| found.project.uuid);
        (state.projects().count(), state.check_count(), state.users.len(), state.outbox.len(), first)
    });
    let pings = usize::try_from(pings(visit)).unwrap_or(usize::MAX);
    let holds = [(projects, "project"), (checks, "check"), (pings, "ping"), (users, "user"), (visit.site.live.streams(), "stream")];
    let system = System {
        frame: visit.frame("System"),
        runs_for: duration(i64::try_from(uptime).unwrap_or(i64::MAX)),
        is_writable: visit.handle().is_writable(),
        last_commit: visit.handle().metrics().last_commit().map(millis),
        events: first.map(|project| visit.link(&Page::Events(project))),
        holds: holds.map(|(number, what)| count(number, what)).join(" · "),
        waiting,
        file: visit.handle().file_bytes().map(size),
        queue: visit.handle().waiting(),
        backup: visit.link(&Page::Backup()),
        backups: Backups::of(visit.handle().metrics().backups(), &visit.times()),
        asks_password: asks_password(visit),
        backup_is_wrong,
        base_url: base_url.as_str().into(),
        other: came.other_address(base_url),
        host: came.host.as_ref().into(),
        peer: came.peer.to_string(),
        address: came.client.addr.to_string(),
        is_relayed: came.is_relayed,
        is_peer_trusted: is_trusted(came.peer, &visit.site.trusted_proxies),
        is_secure: came.is_secure(base_url),
        shared_address: shared_address(visit),
    };
    let html = Html::of(&system);
    if backup_is_wrong.is_some() { html.refused() } else { html }
}

/// Returns the private address that all sessions of several people come from, unless it is that of a trusted proxy: a proxy that nobody has
/// named makes everybody one client, and wrong passwords are counted for all of them together.
fn shared_address(visit: &Visit) -> Option<IpAddr> {
    let addresses: Vec<BTreeSet<IpAddr>> = visit.handle().with_state(|state| {
        let addresses = |user| state.users.sessions_of(user, visit.now).map(|session| session.address).collect();
        state.users.iter().map(|user| addresses(user.id)).collect()
    });
    let people = addresses.iter().filter(|addresses| !addresses.is_empty()).count();
    let mut all = addresses.into_iter().flatten();
    let shared = all.next().filter(|shared| people > 1 && all.all(|address| address == *shared))?;
    (is_near(shared) && !is_trusted(shared, &visit.site.trusted_proxies)).then_some(shared)
}

/// A short time in words: `0.4 ms`.
fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// Pings that are in the logs of all checks.
fn pings(visit: &Visit) -> u64 {
    let projects: Vec<_> =
        visit.handle().with_state(|state| state.projects().map(|found| (found.project.id, found.project.ping_log_limit)).collect());
    let mut pings = 0;
    for (project, limit) in projects {
        visit.handle().each_check(project, |check| pings += check.state.n_pings.min(limit.into()));
    }
    pings
}

/// Sends a backup of all that there is.
pub(super) async fn back_up(visit: Visit, typed: Form) -> Result<Done, Trouble> {
    // Whoever has it has every secret of the server.
    if !is_confirmed(&visit, typed.get("password")).await? {
        let site = Arc::clone(&visit.site);
        return Ok(site.outgoing.run(move || page(&visit, Some("type your password"))).await?.into());
    }
    let turn = Arc::clone(&visit.site.backing_up).try_acquire_owned().map_err(|_| {
        let text = "A backup is being made already. Wait until it has come, or stop its download.";
        Trouble::new(Fault::Unavailable, "One at a time", text)
    })?;
    let pieces = backup::pieces(visit.handle().clone(), true).map_err(|_| Fault::Unavailable)?;
    tracing::info!(user = visit.user_name(), address = %visit.came.client.addr, "takes a backup");
    let mut now = String::new();
    visit.now.write_seconds(&mut now);
    let time: String = now.chars().take_while(|c| *c != '+').filter(|c| c.is_ascii_alphanumeric()).collect();
    Ok(Done::Stream { name: format!("overdue-{time}Z.backup.zst"), content: Content::made_elsewhere(pieces, turn) })
}

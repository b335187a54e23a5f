//! Checks, pings and flips as rows. A list of checks is made page by page, so that neither the server nor a line holds all of it.

use super::{Answer, Rest, written};
use crate::admin::request::check::{AlertingRow, CheckRow, FlipRow, PingRow};
use crate::admin::request::{OfCheck, Reply};
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::ids::ProjectId;
use crate::domain::moment::{MICROS, Moment};
use crate::domain::ping::{self, Origin, Ping};
use crate::domain::status::Status;
use crate::engine::Handle;
use crate::manage::check::{Found, Place, page};
use crate::manage::{self, ManageError};

/// Checks that are looked at for a piece of a list: pings of others wait for so many.
const PAGE: usize = 256;

/// A list of checks under way.
pub struct Listing {
    project: Option<ProjectId>,
    /// Tags that a check must have.
    tags: Vec<String>,
    /// Statuses of which it must have one; none: any.
    statuses: Vec<String>,
    after: Option<Place>,
}

impl Listing {
    /// A list of the checks of a project or of all, before its first piece.
    pub(super) fn new(project: Option<ProjectId>, tags: Vec<String>, statuses: Vec<String>) -> Self {
        Self { project, tags, statuses, after: None }
    }

    /// The next piece.
    pub(super) fn page(self, handle: &Handle) -> Answer {
        let Self { project, tags, statuses, after } = self;
        let (found, after) = page(handle, project, after, PAGE);
        let now = handle.now();
        let wanted = |found: &&Found| tags.iter().all(|tag| found.check.settings.tags.contains(tag));
        let rows = found.iter().filter(wanted).map(|found| row(found, now));
        let reply = Reply::Checks(rows.filter(|row| statuses.is_empty() || statuses.contains(&row.status)).collect());
        (reply, after.map(|after| Rest::Checks(Self { project, tags, statuses, after: Some(after) })))
    }
}

/// What is asked about one check.
pub(super) async fn answer(handle: &Handle, check: Check, what: OfCheck) -> Result<Reply, ManageError> {
    use manage::check::{delete, flips, found, pause, pings, resume, set, set_alerting};
    let done = match what {
        OfCheck::Show => {
            let found = found(handle, check).ok_or(ManageError::Gone)?;
            let ping_url = Some(format!("/ping/{}", found.check.uuid));
            return Ok(Reply::Checks(vec![CheckRow { ping_url, ..row(&found, handle.now()) }]));
        }
        OfCheck::Pings => return Ok(ping_rows(&pings(handle, check).await?)),
        OfCheck::Flips => return Ok(flip_rows(&flips(handle, check).await?)),
        OfCheck::Alerting { after: None, parents: None } => return Ok(alerting(handle, &check)),
        OfCheck::Alerting { after, parents } => return Ok(alerting(handle, &*set_alerting(handle, &check, after, parents).await?)),
        OfCheck::Set(edit) => set(handle, check.id, *edit).await,
        OfCheck::Pause => pause(handle, check.id).await,
        OfCheck::Resume => resume(handle, check.id).await,
        OfCheck::Delete => delete(handle, check.id).await,
    };
    done.map(|()| Reply::Done)
}

/// A check as it is at `now`.
fn row(found: &Found, now: Moment) -> CheckRow {
    let Found { check, project, channels } = found;
    let (settings, life, filters) = (&*check.settings, &check.state, check.settings.filters);
    let mut uuids: Vec<_> = channels.iter().map(|channel| channel.uuid.to_string()).collect();
    uuids.sort_unstable();
    CheckRow {
        uuid: check.uuid,
        project: project.name.as_str().into(),
        name: settings.name.as_str().into(),
        slug: settings.slug.as_str().into(),
        tags: settings.tags.as_str().into(),
        desc: settings.desc.as_str().into(),
        status: life.visible_status(settings, now).name().into(),
        started: life.run.is_some(),
        n_pings: life.n_pings,
        last_ping: life.last_ping.map(written),
        next_ping: life.next_ping().map(written),
        last_duration: life.last_duration.map(|micros| micros.max(0) / MICROS),
        timeout: settings.schedule.is_none().then(|| settings.timeout.get()),
        schedule: settings.schedule.as_ref().map(|schedule| schedule.text().into()),
        tz: settings.schedule.is_some().then(|| settings.tz.name().into()),
        grace: settings.grace.get(),
        manual_resume: settings.manual_resume,
        methods: if settings.post_only { "POST" } else { "" }.into(),
        start_kw: settings.start_kw.as_str().into(),
        success_kw: settings.success_kw.as_str().into(),
        failure_kw: settings.failure_kw.as_str().into(),
        filter_subject: filters.subject,
        filter_body: filters.body,
        filter_http_body: filters.http_body,
        filter_default_fail: filters.default_fail,
        channels: uuids.join(","),
        ping_url: None,
    }
}

fn alerting(handle: &Handle, check: &Check) -> Reply {
    let Check { settings, state, .. } = check;
    let waits = state.telling.waits();
    handle.with_state(|checks| {
        let parents: Vec<_> = settings.parents.ids().iter().filter_map(|id| Some(checks.check(*id)?.uuid.to_string())).collect();
        Reply::Alerting(AlertingRow {
            after: settings.after.get(),
            parents: parents.join(","),
            failures: state.failures,
            telling: state.telling.name().into(),
            until: waits.map(|(at, _)| written(at)),
            why: waits.map(|(_, why)| why.into()),
            unnotified: manage::channel::unnotified(checks, check, handle.transports()).map(Into::into),
        })
    })
}

/// Pings, given newest first.
fn ping_rows(newest_first: &[Ping]) -> Reply {
    let rows = newest_first.iter().zip(ping::durations(newest_first)).map(|(ping, duration)| {
        let Origin { scheme, method, remote_addr, ua } = &ping.origin;
        let mut date = String::new();
        ping.at.write_micros(&mut date);
        PingRow {
            n: ping.n,
            kind: ping.kind.name().into(),
            date,
            scheme: scheme.name().into(),
            method: method.name().into(),
            remote_addr: *remote_addr,
            ua: ua.as_ref().into(),
            rid: ping.rid,
            // Whole hundredths, like in the API.
            duration: duration.map(|micros| ((micros.max(0) + MICROS / 200) / (MICROS / 100)) as f64 / 100.0),
            exit: ping.exit,
            body_bytes: ping.body_len,
        }
    });
    Reply::Pings(rows.collect())
}

/// Flips, given newest first.
fn flip_rows(newest_first: &[Flip]) -> Reply {
    let name = |status: Status| status.name().to_owned();
    let rows = newest_first.iter().map(|flip| FlipRow { timestamp: written(flip.at), from: name(flip.from), to: name(flip.to) });
    Reply::Flips(rows.collect())
}

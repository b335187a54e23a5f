//! Checks, pings and flips as rows. A list of checks is built page by page, so that neither the
//! server nor a line holds all of it.

use super::{AdminResponse, ReplyStream, format_timestamp};
use crate::admin::request::check::{AlertingRow, CheckRow, FieldMembers, FlipRow, PingRow};
use crate::admin::request::{AdminReply, CheckAction};
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::ids::ProjectId;
use crate::domain::ping::{self, Ping, PingOrigin};
use crate::domain::status::Status;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::engine::Handle;
use crate::operations::check::{CheckDetails, CheckListCursor, list_page};
use crate::operations::{self, OperationError};

/// Number of checks examined for one page of a list. Pings of others wait for one page at most.
const CHECKS_PER_PAGE: usize = 256;

/// State of a list of checks that is being sent.
pub struct CheckListing {
    project: Option<ProjectId>,
    /// Tags that a check must have.
    tags: Vec<String>,
    /// Statuses that match; empty for any.
    statuses: Vec<String>,
    cursor: Option<CheckListCursor>,
}

impl CheckListing {
    /// Starts a list of the checks of a project or of all.
    pub(super) fn new(
        project: Option<ProjectId>,
        tags: Vec<String>,
        statuses: Vec<String>,
    ) -> Self {
        Self {
            project,
            tags,
            statuses,
            cursor: None,
        }
    }

    /// Returns the next page.
    pub(super) fn next_page(self, handle: &Handle) -> AdminResponse {
        let Self {
            project,
            tags,
            statuses,
            cursor: after,
        } = self;
        let (found, after) = list_page(handle, project, after, CHECKS_PER_PAGE);
        let now = handle.now();
        let is_listed = |found: &&CheckDetails| {
            tags.iter()
                .all(|tag| found.check.settings.tags.contains(tag))
        };
        let rows = found
            .iter()
            .filter(is_listed)
            .map(|found| check_row(found, now));
        let reply = AdminReply::Checks(
            rows.filter(|row| statuses.is_empty() || statuses.contains(&row.status))
                .collect(),
        );
        (
            reply,
            after.map(|after| {
                ReplyStream::Checks(Self {
                    project,
                    tags,
                    statuses,
                    cursor: Some(after),
                })
            }),
        )
    }
}

/// Handles an action on one check.
pub(super) async fn handle_action(
    handle: &Handle,
    check: Check,
    what: CheckAction,
) -> Result<AdminReply, OperationError> {
    use operations::check::{
        delete, find_parents, flips, load_details, pause, pings, resume, set_alerting, update,
    };
    let done = match what {
        CheckAction::Show => {
            let found = load_details(handle, check).ok_or(OperationError::Removed)?;
            let ping_url = Some(format!("/ping/{}", found.check.uuid));
            return Ok(AdminReply::Checks(vec![CheckRow {
                ping_url,
                ..check_row(&found, handle.now())
            }]));
        }
        CheckAction::Pings => return Ok(pings_reply(&pings(handle, check).await?)),
        CheckAction::Flips => return Ok(flips_reply(&flips(handle, check).await?)),
        CheckAction::Alerting {
            after: None,
            parents: None,
        } => return Ok(alerting_reply(handle, &check)),
        CheckAction::Alerting { after, parents } => {
            let parents = parents
                .map(|requested| find_parents(handle, check.project, &requested))
                .transpose()?;
            let check = set_alerting(handle, check.id, after, parents).await?;
            return Ok(alerting_reply(handle, &check));
        }
        CheckAction::Set(edit) => update(handle, check.id, *edit).await,
        CheckAction::Pause => pause(handle, check.id).await,
        CheckAction::Resume => resume(handle, check.id).await,
        CheckAction::Delete => delete(handle, check.id).await,
    };
    done.map(|_| AdminReply::Done)
}

/// Returns the row of a check at `now`.
fn check_row(found: &CheckDetails, now: Timestamp) -> CheckRow {
    let CheckDetails {
        check,
        project,
        channels,
    } = found;
    let settings = &*check.settings;
    let life = &check.state;
    let mut uuids: Vec<_> = channels
        .iter()
        .map(|channel| channel.uuid.to_string())
        .collect();
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
        last_ping: life.last_ping.map(format_timestamp),
        next_ping: life.next_ping().map(format_timestamp),
        last_duration: life
            .last_duration
            .map(|micros| micros.max(0) / MICROS_PER_SEC),
        settings: FieldMembers::from_settings(settings),
        channels: uuids.join(","),
        ping_url: None,
    }
}

fn alerting_reply(handle: &Handle, check: &Check) -> AdminReply {
    let Check {
        settings, state, ..
    } = check;
    let waits = state.notification.pending_decision();
    handle.with_state(|checks| {
        let parents: Vec<_> = settings
            .parents
            .ids()
            .iter()
            .filter_map(|id| Some(checks.check(*id)?.uuid.to_string()))
            .collect();
        AdminReply::Alerting(AlertingRow {
            after: settings.failure_threshold.get(),
            parents: parents.join(","),
            failures: state.failures,
            telling: state.notification.name().into(),
            until: waits.map(|(at, _)| format_timestamp(at)),
            why: waits.map(|(_, why)| why.into()),
            unnotified: operations::channel::unnotified_reason(checks, check, handle.transports())
                .map(Into::into),
        })
    })
}

/// Returns a reply with pings, given newest first.
fn pings_reply(newest_first: &[Ping]) -> AdminReply {
    let rows = newest_first
        .iter()
        .zip(ping::run_durations(newest_first))
        .map(|(ping, duration)| {
            let PingOrigin {
                scheme,
                method,
                remote_addr,
                user_agent: ua,
            } = &ping.origin;
            let mut date = String::new();
            ping.at.write_rfc3339_micros(&mut date);
            PingRow {
                n: ping.n,
                kind: ping.kind.name().into(),
                date,
                scheme: scheme.name().into(),
                method: method.name().into(),
                remote_addr: *remote_addr,
                ua: ua.as_ref().into(),
                rid: ping.rid,
                // Whole hundredths, as in the API.
                duration: duration.map(|micros| {
                    ((micros.max(0) + MICROS_PER_SEC / 200) / (MICROS_PER_SEC / 100)) as f64 / 100.0
                }),
                exit: ping.exit_status,
                body_bytes: ping.body_len,
            }
        });
    AdminReply::Pings(rows.collect())
}

/// Returns a reply with flips, given newest first.
fn flips_reply(newest_first: &[Flip]) -> AdminReply {
    let name = |status: Status| status.name().to_owned();
    let rows = newest_first.iter().map(|flip| FlipRow {
        timestamp: format_timestamp(flip.at),
        from: name(flip.from),
        to: name(flip.to),
    });
    AdminReply::Flips(rows.collect())
}

//! Checks, their pings and flips. Fields have the names of the API. A list of checks is read page
//! by page, so that the server does not hold all of it.

use std::net::IpAddr;

use hyper::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::check_edit_form::{self, FieldMembers};
use super::context::AdminContext;
use super::error::AdminError;
use super::field_format;
use super::format_timestamp;
use super::reply::RowStream;
use super::request::AdminRequest;
use crate::domain::check::{Check, PauseInput};
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::flip::Flip;
use crate::domain::ids::ProjectId;
use crate::domain::number::FailureThreshold;
use crate::domain::ping::{self, Ping, PingOrigin};
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::engine::Handle;
use crate::operations::check::{self, CheckDetails, CheckListCursor};
use crate::operations::{self, OperationError};

/// Number of checks examined for one page of a list. Pings of others wait for one page at most.
const CHECKS_PER_PAGE: usize = 256;

/// A check in a list.
#[derive(Serialize, Deserialize)]
#[allow(missing_docs, reason = "the members of a check in the API")]
pub struct CheckRow {
    pub uuid: Uuid,
    /// Name of its project.
    pub project: String,
    pub name: String,
    pub slug: String,
    pub tags: String,
    pub desc: String,
    pub status: String,
    pub started: bool,
    pub n_pings: u64,
    pub last_ping: Option<String>,
    pub next_ping: Option<String>,
    /// End of the pause, if it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<String>,
    /// Duration in whole seconds.
    pub last_duration: Option<i64>,
    /// Its other settings.
    #[serde(flatten)]
    pub settings: FieldMembers,
    /// UUIDs of its channels, separated by commas.
    pub channels: String,
    /// Ping URL, omitted from lists. Only the path if no server runs, because the server knows the
    /// address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_url: Option<String>,
}

/// A ping in a list.
#[derive(Serialize, Deserialize)]
#[allow(missing_docs, reason = "the members of a ping in the API")]
pub struct PingRow {
    pub n: u64,
    #[serde(rename = "type")]
    pub kind: String,
    pub date: String,
    pub scheme: String,
    pub method: String,
    pub remote_addr: Option<IpAddr>,
    pub ua: String,
    pub rid: Option<Uuid>,
    /// Duration in seconds.
    pub duration: Option<f64>,
    /// Exit status that was reported.
    pub exit: Option<u8>,
    /// Bytes of the stored body.
    pub body_bytes: u32,
}

/// A flip in a list: any change of the status, including changes that the API does not show.
#[derive(Serialize, Deserialize)]
pub struct FlipRow {
    /// Time, RFC 3339.
    pub timestamp: String,
    /// Status before.
    pub from: String,
    /// Status after.
    pub to: String,
}

/// Alert settings and alert state of a check.
#[derive(Serialize, Deserialize)]
pub struct AlertingRow {
    /// Number of consecutive failures before an alert is sent.
    pub after: u8,
    /// UUIDs of the checks that it depends on, separated by commas.
    pub parents: String,
    /// Current number of consecutive failures.
    pub failures: u16,
    /// State of the alert. `quiet`: nothing to send; `due`: the check is down and the alert is not
    /// sent yet; `told`: sent; `unheard`: sent, but no channel accepted it.
    #[serde(rename = "telling")]
    pub notification: String,
    /// Time at which the decision to alert is made again, RFC 3339.
    pub until: Option<String>,
    /// Reason why the alert is held back, in words.
    pub why: Option<String>,
    /// Reason why no alert of the check reaches a recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnotified: Option<Box<str>>,
}

impl AlertingRow {
    /// Returns the row as a table shows it.
    pub fn with_labels(mut self) -> Self {
        if let Some(unnotified) = self.unnotified.take() {
            self.notification = format!("nobody is notified: {unnotified}");
        }
        self
    }
}

/// Lists the checks of a project or of all that have all of these tags and, if any is given, one of
/// these statuses, oldest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListChecks {
    /// Project to list; `None` for all.
    pub project: Option<String>,
    /// Tags that a check must have.
    #[serde(default)]
    pub tag: Vec<String>,
    /// Statuses to list; empty for all.
    #[serde(default)]
    pub status: Vec<String>,
}

impl AdminRequest for ListChecks {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/checks";
    type Output = RowStream<CheckRow>;

    async fn run(self, context: &AdminContext) -> Result<RowStream<CheckRow>, AdminError> {
        Ok(RowStream::new(CheckPages {
            handle: context.handle().clone(),
            project: context.project_filter(self.project.as_deref())?,
            filter: self,
            next: Some(None),
        }))
    }
}

/// Pages of a list of checks.
struct CheckPages {
    handle: Handle,
    project: Option<ProjectId>,
    filter: ListChecks,
    /// Position of the next page: `Some(None)` for the first, `None` after the last.
    next: Option<Option<CheckListCursor>>,
}

impl Iterator for CheckPages {
    type Item = Vec<CheckRow>;

    fn next(&mut self) -> Option<Vec<CheckRow>> {
        let position = self.next.take()?;
        let (found, next) = check::list_page(&self.handle, self.project, position, CHECKS_PER_PAGE);
        self.next = next.map(Some);
        let now = self.handle.now();
        let ListChecks { tag, status, .. } = &self.filter;
        let is_listed = |found: &&CheckDetails| {
            tag.iter()
                .all(|tag| found.check.settings.tags.contains(tag))
        };
        let rows = found
            .iter()
            .filter(is_listed)
            .map(|found| check_row(found, now))
            .filter(|row| status.is_empty() || status.contains(&row.status));
        Some(rows.collect())
    }
}

/// Returns the row of a check at `now`.
fn check_row(found: &CheckDetails, now: Timestamp) -> CheckRow {
    let CheckDetails {
        check,
        project,
        channels,
    } = found;
    let settings = &*check.settings;
    let state = &check.state;
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
        status: state.visible_status(settings, now).name().into(),
        started: state.run.is_some(),
        n_pings: state.n_pings,
        last_ping: state.last_ping.map(format_timestamp),
        next_ping: state.next_ping().map(format_timestamp),
        paused_until: state.pause_end.map(|end| format_timestamp(end.at)),
        last_duration: state
            .last_duration
            .map(|micros| micros.max(0) / MICROS_PER_SEC),
        settings: FieldMembers::from_settings(settings),
        channels: uuids.join(","),
        ping_url: None,
    }
}

/// Creates a check, or changes the one that matches on all fields of `unique`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateCheck {
    /// Project of the check; `None` if there is only one project.
    pub project: Option<String>,
    /// Settings of the check.
    #[serde(with = "check_edit_form::edit")]
    pub edit: Box<CheckEdit>,
    /// Fields by which an existing check is matched.
    #[serde(default, with = "check_edit_form::unique")]
    pub unique: Vec<UniqueField>,
}

/// A check that was created or matched.
#[derive(Serialize, Deserialize)]
pub struct CreatedCheck {
    /// UUID of the check.
    pub uuid: Uuid,
    /// Ping URL. Only the path if no server runs.
    #[serde(default)]
    pub ping_url: String,
}

/// Returns the ping URL of a check; its path if no server runs.
fn ping_url(context: &AdminContext, check: Uuid) -> String {
    let path = format!("/ping/{check}");
    context.service_url(&path).unwrap_or(path)
}

impl AdminRequest for CreateCheck {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/checks";
    type Output = CreatedCheck;

    async fn run(self, context: &AdminContext) -> Result<CreatedCheck, AdminError> {
        let project = context.target_project(self.project.as_deref())?;
        let saved = check::create(context.handle(), project, *self.edit, self.unique).await?;
        Ok(CreatedCheck {
            uuid: saved.check.uuid,
            ping_url: ping_url(context, saved.check.uuid),
        })
    }
}

/// Returns a check with all its fields.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowCheck {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
}

impl AdminRequest for ShowCheck {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/checks/{check}";
    type Output = CheckRow;

    async fn run(self, context: &AdminContext) -> Result<CheckRow, AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        let found = check::load_details(context.handle(), check).ok_or(OperationError::Removed)?;
        Ok(CheckRow {
            ping_url: Some(ping_url(context, found.check.uuid)),
            ..check_row(&found, context.handle().now())
        })
    }
}

/// Changes a check; missing fields stay as they are.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateCheck {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
    /// New settings.
    #[serde(with = "check_edit_form::edit")]
    pub edit: Box<CheckEdit>,
}

impl AdminRequest for UpdateCheck {
    const METHOD: Method = Method::PATCH;
    const PATH: &'static str = "/checks/{check}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        check::update(context.handle(), check.id, *self.edit).await?;
        Ok(())
    }
}

/// Deletes a check with all its log entries.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteCheck {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
}

impl AdminRequest for DeleteCheck {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/checks/{check}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        check::delete(context.handle(), check.id).await?;
        Ok(())
    }
}

/// Pauses a check.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseCheck {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
    /// End of the pause, as RFC 3339.
    pub until: Option<String>,
    /// Duration of the pause in minutes.
    pub minutes: Option<u64>,
}

impl AdminRequest for PauseCheck {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/checks/{check}/pause";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        let times = PauseInput {
            until: self.until,
            minutes: self.minutes,
        };
        check::pause(context.handle(), check.id, times).await?;
        Ok(())
    }
}

/// Resumes a check.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeCheck {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
}

impl AdminRequest for ResumeCheck {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/checks/{check}/resume";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        check::resume(context.handle(), check.id).await?;
        Ok(())
    }
}

/// Lists the pings of a check, newest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListPings {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
}

impl AdminRequest for ListPings {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/checks/{check}/pings";
    type Output = Vec<PingRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<PingRow>, AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        Ok(ping_rows(&check::pings(context.handle(), check).await?))
    }
}

/// Lists the flips of a check, newest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListFlips {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
}

impl AdminRequest for ListFlips {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/checks/{check}/flips";
    type Output = Vec<FlipRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<FlipRow>, AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        let flips = check::flips(context.handle(), check).await?;
        Ok(flips.iter().map(flip_row).collect())
    }
}

/// Returns the rows of pings, given newest first.
fn ping_rows(newest_first: &[Ping]) -> Vec<PingRow> {
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
    rows.collect()
}

fn flip_row(flip: &Flip) -> FlipRow {
    FlipRow {
        timestamp: format_timestamp(flip.at),
        from: flip.from.name().into(),
        to: flip.to.name().into(),
    }
}

/// Returns the alert settings and the alert state of a check.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowAlerting {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
}

impl AdminRequest for ShowAlerting {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/checks/{check}/alerting";
    type Output = AlertingRow;

    async fn run(self, context: &AdminContext) -> Result<AlertingRow, AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        Ok(alerting_row(context.handle(), &check))
    }
}

/// Changes the alert settings of a check, and returns them; `None` leaves a field as it is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateAlerting {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the check, or its slug or name if only one has it.
    pub check: String,
    /// Number of consecutive failures before an alert is sent.
    #[serde(default, with = "field_format::optional_threshold")]
    pub after: Option<FailureThreshold>,
    /// UUIDs, slugs or names of the checks that it depends on.
    pub parents: Option<Vec<String>>,
}

impl AdminRequest for UpdateAlerting {
    const METHOD: Method = Method::PATCH;
    const PATH: &'static str = "/checks/{check}/alerting";
    type Output = AlertingRow;

    async fn run(self, context: &AdminContext) -> Result<AlertingRow, AdminError> {
        let check = context.check(self.project.as_deref(), &self.check)?;
        let handle = context.handle();
        let parents = self
            .parents
            .map(|requested| check::find_parents(handle, check.project, &requested))
            .transpose()?;
        let check = check::update_alert_settings(handle, check.id, self.after, parents).await?;
        Ok(alerting_row(handle, &check))
    }
}

fn alerting_row(handle: &Handle, check: &Check) -> AlertingRow {
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
        AlertingRow {
            after: settings.failure_threshold.get(),
            parents: parents.join(","),
            failures: state.failures,
            notification: state.notification.name().into(),
            until: waits.map(|(at, _)| format_timestamp(at)),
            why: waits.map(|(_, why)| why.into()),
            unnotified: operations::channel::unnotified_reason(checks, check, handle.transports())
                .map(Into::into),
        }
    })
}

//! The API of another server as a source, for a user without access to its files. The responses are
//! stored in the format of a dump and read like one.
//!
//! The API shows less than a dump: times of flips and checks only in whole seconds, only the names
//! of channels, and no exit statuses.

mod client;
mod dumpdata_rows;
mod flips;

use std::sync::Arc;

use serde_json::Value as Json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::PingLogSelection;
use super::source::{DumpFile, ImportSource};
use crate::domain::project::ProjectName;
use crate::domain::timestamp::Timestamp;
use crate::outbound::Outbound;
use crate::util::clock::Clock;
use crate::util::random::Random;
use client::SourceApiClient;
use dumpdata_rows::CheckLogSummary;

/// Maximum number of checks whose logs are requested at the same time: see
/// [limits](crate::docs::limits).
const CONCURRENT_CHECKS: usize = 8;

/// A project that is read through the API. Its keys are given here, because the API does not show
/// them.
pub struct ApiSource {
    /// Address of the server.
    pub url: String,
    /// Read-write key. Only this kind of key gets UUIDs in responses.
    pub key: String,
    /// Read-only key to import, if there is one.
    pub read_only_key: Option<String>,
    /// Ping key to import, if there is one.
    pub ping_key: Option<String>,
    /// Name of the project on this server. The API does not show its name.
    pub project: ProjectName,
    /// Pings to import.
    pub logs: PingLogSelection,
}

impl ApiSource {
    /// Returns the maximum number of requests per minute, if the server has such a limit, and the
    /// approximate number of requests for this number of checks.
    pub fn request_estimate(&self, checks: u64) -> (Option<u32>, u64) {
        let each = if self.logs == PingLogSelection::None {
            1
        } else {
            2
        };
        (client::requests_per_minute(&self.url), 3 + each * checks)
    }
}

/// Fetches the project. Calls `on_progress` with the number of complete checks and their total.
///
/// # Errors
/// Returns an error if the server cannot be reached, refuses a request, or sends an invalid
/// response. The message names the problem and the URL.
pub async fn fetch_project(
    api: &ApiSource,
    outbound: &Outbound,
    clock: &Clock,
    random: &Random,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<ImportSource, String> {
    let mut client = SourceApiClient::new(api, outbound.clone(), clock.clone())?;
    let checks = dumpdata_rows::list_items(&client.get_newest_version("checks/").await?, "checks")?;
    let client = Arc::new(client);
    let uuids = checks
        .iter()
        .map(dumpdata_rows::check_uuid)
        .collect::<Result<Vec<_>, _>>()?;
    let channels = dumpdata_rows::list_items(&client.get_json("channels/").await?, "channels")?;
    // Releases of 2021 and before do not list badges.
    let badges = client.get_optional_json("badges/").await?;
    let dump = Arc::new(DumpFile::new(random)?);
    let mut summaries: Vec<CheckLogSummary> =
        uuids.iter().map(|_| CheckLogSummary::default()).collect();
    let mut tasks = JoinSet::new();
    let mut done = 0;
    let total = uuids.len() as u64;
    let mut remaining = uuids.into_iter().enumerate();
    on_progress(done, total);
    loop {
        while tasks.len() < CONCURRENT_CHECKS
            && let Some((index, uuid)) = remaining.next()
        {
            let check = checks.get(index).cloned().unwrap_or_default();
            tasks.spawn(fetch_check_log(
                Arc::clone(&client),
                Arc::clone(&dump),
                (index, uuid, check),
                api.logs,
            ));
        }
        let Some(joined) = tasks.join_next().await else {
            break;
        };
        let (index, summary) = joined.map_err(|error| error.to_string())??;
        if let Some(entry) = summaries.get_mut(index) {
            *entry = summary;
        }
        done += 1;
        on_progress(done, total);
    }
    let limit = summaries
        .iter()
        .map(|summary| summary.ping_count)
        .max()
        .unwrap_or(0);
    for (model, fields) in dumpdata_rows::project_rows(api, badges.as_ref(), limit)? {
        dump.write_object(model, 1, &fields)?;
    }
    // The order of checks is that of the list, so all get the same age.
    let oldest = summaries
        .iter()
        .filter_map(|summary| summary.oldest)
        .min()
        .unwrap_or_else(|| clock.now());
    for (index, (check, summary)) in checks.iter().zip(&summaries).enumerate() {
        dump.write_object(
            "api.check",
            row_id(index),
            &dumpdata_rows::check_row(check, summary, oldest)?,
        )?;
    }
    for (index, channel) in channels.iter().enumerate() {
        dump.write_object(
            "api.channel",
            row_id(index),
            &dumpdata_rows::channel_row(channel, &checks, oldest)?,
        )?;
    }
    Arc::into_inner(dump)
        .ok_or("a request is still in progress")?
        .into_source(api.url.clone())
}

/// Returns the row number for a position in a list.
fn row_id(index: usize) -> u64 {
    index as u64 + 1
}

/// Fetches and stores the flips and the pings of a check.
async fn fetch_check_log(
    client: Arc<SourceApiClient>,
    dump: Arc<DumpFile>,
    (index, uuid, check): (usize, Uuid, Json),
    logs: PingLogSelection,
) -> Result<(usize, CheckLogSummary), String> {
    let mut summary = CheckLogSummary::default();
    let owner = row_id(index);
    let path = |rest: &str| format!("checks/{uuid}/{rest}/");
    let flips = client.get_json(&path("flips")).await?;
    let pings = if logs == PingLogSelection::None {
        Vec::new()
    } else {
        dumpdata_rows::list_items(&client.get_json(&path("pings")).await?, "pings")?
    };
    for (at, ping) in pings.iter().enumerate() {
        // Pings of old releases have no number and no URL of a body.
        let n = ping
            .get("n")
            .and_then(Json::as_u64)
            .filter(|_| ping.get("body_url").is_some_and(Json::is_string));
        let body = match n.filter(|_| logs == PingLogSelection::All) {
            Some(n) => {
                client
                    .get_ping_body(&format!("checks/{uuid}/pings/{n}/body"))
                    .await?
            }
            None => None,
        };
        dump.write_object(
            "api.ping",
            row_id(at),
            &dumpdata_rows::ping_row(owner, ping, body, &mut summary)?,
        )?;
    }
    for (at, fields) in flips::flip_rows(&flips, &check, owner, &mut summary)?
        .iter()
        .enumerate()
    {
        dump.write_object("api.flip", row_id(at), fields)?;
    }
    summary.drop_times();
    Ok((index, summary))
}

/// Formats a timestamp as in a row.
fn timestamp_json(at: Timestamp) -> Json {
    let mut text = String::new();
    at.write_rfc3339_micros(&mut text);
    text.into()
}

#[cfg(test)]
mod tests;

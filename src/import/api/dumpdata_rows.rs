//! Converts API responses to rows as `manage.py dumpdata` would write them, as far as their values
//! are known.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{ApiSource, timestamp_json};
use crate::domain::check_input;
use crate::domain::ids::parse_hyphenated_uuid;
use crate::domain::project::DEFAULT_PING_LOG_LIMIT;
use crate::domain::schedule::ScheduleKind;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::import::source_row::parse_timestamp;

/// Facts about a check from its log.
#[derive(Clone, Default)]
pub(super) struct CheckLogSummary {
    /// Oldest time that is known of the check.
    pub(super) oldest: Option<Timestamp>,
    /// Time of the newest ping that reported the end of a run.
    last_end: Option<Timestamp>,
    /// Newest start: its number, its time and its run ID.
    newest_start: Option<(u64, Json, Json)>,
    /// Status after the newest flip.
    pub(super) status: Option<&'static str>,
    /// Number of listed pings.
    pub(super) ping_count: u64,
    /// Seconds in which the end of a run was reported, and the subset of seconds with a failure.
    pub(super) end_secs: BTreeSet<i64>,
    pub(super) failure_secs: BTreeSet<i64>,
    /// Seconds in which a run began.
    pub(super) start_secs: BTreeSet<i64>,
}

impl CheckLogSummary {
    /// Frees the data that is needed only while flips are read.
    pub(super) fn drop_times(&mut self) {
        (self.end_secs, self.failure_secs, self.start_secs) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    }

    /// Parses the time of an entry and records the oldest one.
    pub(super) fn record_time(&mut self, at: &Json) -> Result<Timestamp, String> {
        let at = at
            .as_str()
            .and_then(parse_timestamp)
            .ok_or("a log entry has no time")?;
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
        Ok(at)
    }
}

/// Returns the items of a list.
pub(super) fn list_items(answer: &Json, member: &str) -> Result<Vec<Json>, String> {
    answer
        .get(member)
        .and_then(Json::as_array)
        .cloned()
        .ok_or_else(|| format!("the response has no list \"{member}\""))
}

/// Returns the UUID of a check.
pub(super) fn check_uuid(check: &Json) -> Result<Uuid, String> {
    let of = |name: &str| check.get(name).and_then(Json::as_str);
    // Releases before 2024 show the UUID only in URLs.
    let in_url = || of("update_url").and_then(|url| url.rsplit('/').next());
    let uuid = of("uuid").or_else(in_url).and_then(parse_hyphenated_uuid);
    uuid.ok_or_else(|| "the response has no UUIDs: give a read-write key with --key-file".into())
}

/// Returns the project, and the profile of its owner with the log limit.
pub(super) fn project_rows(
    api: &ApiSource,
    badges: Option<&Json>,
    pings: u64,
) -> Result<[(&'static str, Json); 2], String> {
    let url = badges.and_then(|badges| badges.get("badges")?.get("*")?.get("svg")?.as_str());
    let rest = url.and_then(|url| Some(url.split_once("/badge/")?.1));
    let badge_key = rest
        .and_then(|rest| rest.split('/').next())
        .filter(|key| !key.is_empty());
    if badges.is_some() && badge_key.is_none() {
        return Err("the response has no badge for the whole project".into());
    }
    let signature = rest.and_then(|rest| {
        rest.split('/')
            .nth(1)?
            .split('.')
            .next()?
            .strip_suffix("-2")
    });
    // The API does not show the UUID of the project. This one is the same for each import.
    let identity = badge_key.map_or_else(
        || format!("{} {}", api.url.trim_end_matches('/'), api.project.as_str()),
        str::to_owned,
    );
    let digest: [u8; 32] = Sha256::digest(identity).into();
    let uuid = uuid::Builder::from_random_bytes(digest.first_chunk().copied().unwrap_or_default())
        .into_uuid();
    let project = json!({
        "code": uuid.to_string(), "name": api.project.as_str(), "owner": 1, "badge_key": badge_key,
        "badge_signature": signature,
        "api_key": api.key, "api_key_readonly": api.read_only_key, "ping_key": api.ping_key,
    });
    let limit = pings.max(DEFAULT_PING_LOG_LIMIT.into());
    Ok([
        ("accounts.project", project),
        (
            "accounts.profile",
            json!({ "user": 1, "ping_log_limit": limit }),
        ),
    ])
}

/// Returns the row of a check.
pub(super) fn check_row(
    check: &Json,
    summary: &CheckLogSummary,
    created: Timestamp,
) -> Result<Json, String> {
    let mut fields = Map::new();
    let get = |name: &str| check.get(name).cloned().unwrap_or_default();
    let same = [
        "name",
        "slug",
        "tags",
        "desc",
        "tz",
        "schedule",
        "manual_resume",
        "methods",
        "start_kw",
        "success_kw",
        "failure_kw",
    ];
    let switches = [
        "filter_subject",
        "filter_body",
        "filter_http_body",
        "filter_default_fail",
        "n_pings",
    ];
    // A field that a release does not show is not in its database either.
    let exists = |name: &&str| check.get(*name).is_some();
    for name in same.into_iter().chain(switches).filter(exists) {
        fields.insert(name.into(), get(name));
    }
    for (old, new) in [("subject", "success_kw"), ("subject_fail", "failure_kw")] {
        if check.get(new).is_none() && check.get(old).is_some() {
            fields.insert(old.into(), get(old));
        }
    }
    // Durations are in microseconds in rows and in seconds in the API.
    for name in ["timeout", "grace", "last_duration"] {
        let micros = |seconds: Json| {
            seconds
                .as_i64()
                .and_then(|seconds| seconds.checked_mul(MICROS_PER_SEC))
                .map_or(seconds, Json::from)
        };
        fields.insert(name.into(), micros(get(name)));
    }
    let kind = match get("schedule").as_str().map(check_input::parse_schedule) {
        None => "simple",
        Some(Ok(schedule)) if schedule.kind() == ScheduleKind::OnCalendar => "oncalendar",
        // An invalid schedule is reported when the row is read.
        Some(_) => "cron",
    };
    let status = match get("status").as_str() {
        Some("grace") => "up".into(),
        // Version 1 shows this in place of the status.
        Some("started") => match summary.status {
            Some(status) => status.into(),
            None if get("last_ping").is_null() => "new".into(),
            None => "up".into(),
        },
        _ => get("status"),
    };
    let badge = get("badge_url").as_str().and_then(|url| {
        url.rsplit('/')
            .next()?
            .split('.')
            .next()
            .and_then(parse_hyphenated_uuid)
    });
    let displayed = get("last_ping").as_str().and_then(parse_timestamp);
    // The list shows whole seconds.
    let exact = summary
        .last_end
        .filter(|exact| displayed.is_some_and(|displayed| displayed.secs() == exact.secs()));
    let is_started = get("started") == Json::Bool(true) || get("status") == "started";
    let (start, rid) = match &summary.newest_start {
        Some((_, start, rid)) if is_started => (start.clone(), rid.clone()),
        _ => (Json::Null, Json::Null),
    };
    for (name, value) in [
        ("code", check_uuid(check)?.to_string().into()),
        ("project", 1.into()),
        ("created", timestamp_json(created)),
        ("kind", kind.into()),
        ("status", status),
        ("badge_key", badge.map(|badge| badge.to_string()).into()),
        (
            "last_ping",
            exact.or(displayed).map_or(Json::Null, timestamp_json),
        ),
        ("last_start", start),
        ("last_start_rid", rid),
    ] {
        fields.insert(name.into(), value);
    }
    Ok(fields.into())
}

/// Returns the row of a channel without settings, with the numbers of its checks.
pub(super) fn channel_row(
    channel: &Json,
    checks: &[Json],
    created: Timestamp,
) -> Result<Json, String> {
    let get = |name: &str| channel.get(name).cloned().unwrap_or_default();
    let id = get("id")
        .as_str()
        .and_then(parse_hyphenated_uuid)
        .ok_or("a channel has no ID")?
        .to_string();
    let has = |check: &Json| {
        check
            .get("channels")
            .and_then(Json::as_str)
            .is_some_and(|ids| ids.split(',').any(|listed_id| listed_id == id))
    };
    let assigned: Vec<_> = checks
        .iter()
        .enumerate()
        .filter(|(_, check)| has(check))
        .map(|(index, _)| super::row_id(index))
        .collect();
    Ok(json!({
        "code": id,
        "project": 1,
        "name": get("name"),
        "kind": get("kind"),
        "created": timestamp_json(created),
        "checks": assigned,
    }))
}

/// Returns the row of a ping of the check with this number.
pub(super) fn ping_row(
    owner: u64,
    ping: &Json,
    body: Option<Vec<u8>>,
    summary: &mut CheckLogSummary,
) -> Result<Json, String> {
    let get = |name: &str| ping.get(name).cloned().unwrap_or_default();
    let at = summary.record_time(&get("date"))?;
    let n = get("n").as_u64();
    summary.ping_count += 1;
    let kind = match get("type").as_str() {
        Some("success") => {
            summary.last_end = summary.last_end.max(Some(at));
            summary.end_secs.insert(at.secs());
            "".into()
        }
        Some("fail") => {
            summary.last_end = summary.last_end.max(Some(at));
            summary.end_secs.insert(at.secs());
            summary.failure_secs.insert(at.secs());
            get("type")
        }
        Some("start") => {
            summary.start_secs.insert(at.secs());
            if summary
                .newest_start
                .as_ref()
                .is_none_or(|(newest, ..)| Some(*newest) < n)
            {
                summary.newest_start = n
                    .map(|n| (n, get("date"), get("rid")))
                    .or(summary.newest_start.take());
            }
            get("type")
        }
        _ => get("type"),
    };
    Ok(json!({
        "owner": owner,
        "n": n,
        "created": get("date"),
        "kind": kind,
        "scheme": get("scheme"),
        "remote_addr": get("remote_addr"),
        "method": get("method"),
        "ua": get("ua"),
        "rid": get("rid"),
        "body_raw": body.map(|body| BASE64_STANDARD.encode(body)),
    }))
}

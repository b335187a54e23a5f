//! What the API shows as what `manage.py dumpdata` would write of it, as far as it is known.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{Api, written};
use crate::domain::given;
use crate::domain::ids::hyphenated_uuid;
use crate::domain::moment::{MICROS, Moment};
use crate::domain::project::DEFAULT_PING_LOG_LIMIT;
use crate::domain::schedule::Kind;
use crate::import::rows::moment;

/// What its log tells of a check.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// The first thing that is known of it.
    pub(super) oldest: Option<Moment>,
    /// When the newest ping came that said how a run ended.
    last_end: Option<Moment>,
    /// The newest start: its number, its time, its run.
    start: Option<(u64, Json, Json)>,
    /// The status after the newest flip that was taken.
    status: Option<&'static str>,
    /// How many pings are listed.
    pub(super) pings: u64,
}

impl Seen {
    fn note(&mut self, at: &Json) -> Result<Moment, String> {
        let at = at.as_str().and_then(moment).ok_or("an entry of a log has no time")?;
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
        Ok(at)
    }
}

/// The items of a list.
pub(super) fn list(answer: &Json, member: &str) -> Result<Vec<Json>, String> {
    answer.get(member).and_then(Json::as_array).cloned().ok_or_else(|| format!("the server shows no list of {member}"))
}

/// The UUID of a check.
pub(super) fn uuid(check: &Json) -> Result<Uuid, String> {
    let uuid = check.get("uuid").and_then(Json::as_str).and_then(hyphenated_uuid);
    uuid.ok_or_else(|| "the server shows no UUIDs: give a key that may write with --key-file".into())
}

/// The project and the profile of its owner, which holds the log limit.
pub(super) fn project(api: &Api, badges: &Json, pings: u64) -> Result<[(&'static str, Json); 2], String> {
    let url = badges.get("badges").and_then(|badges| badges.get("*")?.get("svg")?.as_str());
    let badge_key = url.and_then(|url| url.split_once("/badge/")?.1.split('/').next()).filter(|key| !key.is_empty());
    let badge_key = badge_key.ok_or("the server shows no badge of the whole project")?;
    // The API does not tell the UUID of the project: this one is the same whenever it is read.
    let digest: [u8; 32] = Sha256::digest(badge_key).into();
    let uuid = uuid::Builder::from_random_bytes(digest.first_chunk().copied().unwrap_or_default()).into_uuid();
    let project = json!({
        "code": uuid.to_string(), "name": api.project.as_str(), "owner": 1, "badge_key": badge_key,
        "api_key": api.key, "api_key_readonly": api.read_only_key, "ping_key": api.ping_key,
    });
    let limit = pings.max(DEFAULT_PING_LOG_LIMIT.into());
    Ok([("accounts.project", project), ("accounts.profile", json!({ "user": 1, "ping_log_limit": limit }))])
}

/// A check.
pub(super) fn check(check: &Json, seen: &Seen, created: Moment) -> Result<Json, String> {
    let mut fields = Map::new();
    let get = |name: &str| check.get(name).cloned().unwrap_or_default();
    let same = ["name", "slug", "tags", "desc", "tz", "schedule", "manual_resume", "methods", "start_kw", "success_kw", "failure_kw"];
    let switches = ["filter_subject", "filter_body", "filter_http_body", "filter_default_fail", "n_pings"];
    for name in same.into_iter().chain(switches) {
        fields.insert(name.into(), get(name));
    }
    // Lengths of time are microseconds there, and seconds here.
    for name in ["timeout", "grace", "last_duration"] {
        let micros = |seconds: Json| seconds.as_i64().and_then(|seconds| seconds.checked_mul(MICROS)).map_or(seconds, Json::from);
        fields.insert(name.into(), micros(get(name)));
    }
    let kind = match get("schedule").as_str().map(given::schedule) {
        None => "simple",
        Some(Ok(schedule)) if schedule.kind() == Kind::OnCalendar => "oncalendar",
        // What cannot be read is told when the row is.
        Some(_) => "cron",
    };
    let status = match get("status").as_str() {
        Some("grace") => "up".into(),
        _ => get("status"),
    };
    let badge = get("badge_url").as_str().and_then(|url| url.rsplit('/').next()?.split('.').next().and_then(hyphenated_uuid));
    let shown = get("last_ping").as_str().and_then(moment);
    // The list shows whole seconds.
    let exact = seen.last_end.filter(|exact| shown.is_some_and(|shown| shown.secs() == exact.secs()));
    let is_started = get("started") == Json::Bool(true);
    let (start, rid) = match &seen.start {
        Some((_, start, rid)) if is_started => (start.clone(), rid.clone()),
        _ => (Json::Null, Json::Null),
    };
    for (name, value) in [
        ("code", uuid(check)?.to_string().into()),
        ("project", 1.into()),
        ("created", written(created)),
        ("kind", kind.into()),
        ("status", status),
        ("badge_key", badge.map(|badge| badge.to_string()).into()),
        ("last_ping", exact.or(shown).map_or(Json::Null, written)),
        ("last_start", start),
        ("last_start_rid", rid),
    ] {
        fields.insert(name.into(), value);
    }
    Ok(fields.into())
}

/// A channel, which lacks its settings, with the numbers of its checks.
pub(super) fn channel(channel: &Json, checks: &[Json], created: Moment) -> Result<Json, String> {
    let get = |name: &str| channel.get(name).cloned().unwrap_or_default();
    let id = get("id").as_str().and_then(hyphenated_uuid).ok_or("a channel has no id")?.to_string();
    let has = |check: &Json| check.get("channels").and_then(Json::as_str).is_some_and(|ids| ids.split(',').any(|own| own == id));
    let assigned: Vec<_> = checks.iter().enumerate().filter(|(_, check)| has(check)).map(|(place, _)| super::number(place)).collect();
    Ok(json!({ "code": id, "project": 1, "name": get("name"), "kind": get("kind"), "created": written(created), "checks": assigned }))
}

/// Flips, oldest first.
pub(super) fn flips(answer: &Json) -> Result<Vec<Json>, String> {
    let mut flips = answer.as_array().cloned().ok_or("the server shows no list of flips")?;
    flips.reverse();
    Ok(flips)
}

/// A flip of the check of this number, which comes after those that were taken. Only flips up and down are shown.
pub(super) fn flip(owner: u64, flip: &Json, seen: &mut Seen) -> Result<Json, String> {
    let at = flip.get("timestamp").cloned().unwrap_or_default();
    seen.note(&at)?;
    let (before, after) = match flip.get("up").and_then(Json::as_u64) {
        Some(1) => ("down", "up"),
        Some(0) => ("up", "down"),
        _ => return Err("a flip goes neither up nor down".into()),
    };
    // It was told there, if anybody was to be told.
    let old = seen.status.replace(after).unwrap_or(before);
    Ok(json!({ "owner": owner, "created": at, "processed": at, "old_status": old, "new_status": after, "reason": "" }))
}

/// A ping of the check of this number.
pub(super) fn ping(owner: u64, ping: &Json, body: Option<Vec<u8>>, seen: &mut Seen) -> Result<Json, String> {
    let get = |name: &str| ping.get(name).cloned().unwrap_or_default();
    let (at, n) = (seen.note(&get("date"))?, get("n").as_u64().unwrap_or(0));
    seen.pings += 1;
    let kind = match get("type").as_str() {
        Some("success") => {
            seen.last_end = seen.last_end.max(Some(at));
            "".into()
        }
        Some("fail") => {
            seen.last_end = seen.last_end.max(Some(at));
            get("type")
        }
        Some("start") => {
            if seen.start.as_ref().is_none_or(|(newest, ..)| *newest < n) {
                seen.start = Some((n, get("date"), get("rid")));
            }
            get("type")
        }
        _ => get("type"),
    };
    Ok(json!({
        "owner": owner, "n": n, "created": get("date"), "kind": kind, "scheme": get("scheme"), "remote_addr": get("remote_addr"),
        "method": get("method"), "ua": get("ua"), "rid": get("rid"), "body_raw": body.map(|body| BASE64_STANDARD.encode(body)),
    }))
}

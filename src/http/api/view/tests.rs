//! JSON of checks, pings and channels.

use serde_json::{Value, json};

use super::*;
use crate::channels;
use crate::domain::channel::ChannelSettings;
use crate::domain::check::{CheckSettings, CheckState, KeywordFilters};
use crate::domain::ids::{Arrival, CheckId, ProjectId};
use crate::domain::ping::{PingKind, PingMethod, PingScheme};
use crate::domain::project::ChannelName;
use crate::domain::schedule::Schedule;
use crate::domain::status::Status;
use crate::domain::text::{Description, Keywords, Name, Slug, Tags};
use crate::domain::timezone::Timezone;

const NOON: Timestamp = Timestamp::from_micros(1_795_176_000_900_000);
fn view() -> ApiView {
    ApiView {
        base_url: "http://h/sub".parse().unwrap(),
        version: ApiVersion::V3,
        is_read_only: false,
    }
}

fn check(settings: CheckSettings, state: CheckState) -> Check {
    let uuid = Uuid::from_u128(0xabcd << 112 | 1);
    let badge = Uuid::from_u128(2);
    Check {
        id: CheckId(1),
        uuid,
        badge,
        project: ProjectId(1),
        settings: Arc::new(settings),
        state,
        alerted_labels: None,
    }
}

fn shown(
    view: &ApiView,
    check: &Check,
    members: CheckMembers,
    channels: &ChannelMap,
    now: Timestamp,
) -> Value {
    let mut out = String::new();
    view.write_check(&mut out, check, members, channels, now);
    serde_json::from_str(&out).unwrap()
}

fn channel(id: u64, uuid: u128) -> (ChannelId, Arc<Channel>) {
    let name = ChannelName::parse("On \"call\"").unwrap();
    let settings = ChannelSettings::from_stored(
        channels::find_kind("sms").unwrap(),
        [("to", "+37120000000")],
    )
    .unwrap();
    let id = ChannelId(id);
    (
        id,
        Arc::new(Channel {
            id,
            uuid: Uuid::from_u128(uuid),
            project: ProjectId(1),
            name,
            settings,
            set_by_operator: true,
            health: Default::default(),
        }),
    )
}

fn full() -> CheckSettings {
    CheckSettings {
        name: Name::parse("Nightly \"backup\"\u{1}").unwrap(),
        slug: Slug::parse("nightly").unwrap(),
        tags: Tags::from_stored("prod db"),
        desc: Description::from_stored("line\nline"),
        start_kw: Keywords::parse("s").unwrap(),
        success_kw: Keywords::parse("ok").unwrap(),
        failure_kw: Keywords::parse("f").unwrap(),
        filters: KeywordFilters {
            subject: true,
            ..KeywordFilters::default()
        },
        channels: [ChannelId(1), ChannelId(9), ChannelId(2)].into(),
        ..CheckSettings::default()
    }
}

#[test]
fn a_simple_check_has_every_member() {
    let state = CheckState {
        n_pings: 7,
        last_duration: Some(2_999_999),
        ..CheckState::new(NOON)
    };
    let channels = ChannelMap::from([channel(1, 0xb), channel(2, 0xa)]);
    let wanted = json!({
        "name": "Nightly \"backup\"\u{1}", "slug": "nightly", "tags": "prod db",
        "desc": "line\nline", "grace": 3600, "n_pings": 7, "status": "new", "started": false,
        "last_ping": null, "next_ping": null, "last_duration": 2, "manual_resume": false,
        "methods": "", "subject": "ok", "subject_fail": "f", "start_kw": "s", "success_kw": "ok",
        "failure_kw": "f", "filter_subject": true, "filter_body": false,
        "filter_http_body": false, "filter_default_fail": false,
        "badge_url": "http://h/sub/b/2/00000000-0000-0000-0000-000000000002.svg",
        "uuid": "abcd0000-0000-0000-0000-000000000001",
        "ping_url": "http://h/sub/ping/abcd0000-0000-0000-0000-000000000001",
        "update_url": "http://h/sub/api/v3/checks/abcd0000-0000-0000-0000-000000000001",
        "pause_url": "http://h/sub/api/v3/checks/abcd0000-0000-0000-0000-000000000001/pause",
        "resume_url": "http://h/sub/api/v3/checks/abcd0000-0000-0000-0000-000000000001/resume",
        "channels": "00000000-0000-0000-0000-00000000000a,00000000-0000-0000-0000-00000000000b",
        "timeout": 86400,
    });
    assert_eq!(
        shown(
            &view(),
            &check(full(), state),
            CheckMembers::Changed,
            &channels,
            NOON
        ),
        wanted
    );
}

#[test]
fn lists_have_no_subjects_and_read_only_keys_see_no_uuid() {
    let check = check(full(), CheckState::new(NOON));
    let names = |view, members| {
        shown(&view, &check, members, &ChannelMap::new(), NOON)
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let all = names(view(), CheckMembers::Changed);
    let less = |gone: &[&str]| {
        all.iter()
            .filter(|name| !gone.contains(&name.as_str()))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(view(), CheckMembers::Read),
        less(&["subject", "subject_fail"])
    );
    let mut read_only = less(&[
        "subject",
        "subject_fail",
        "uuid",
        "ping_url",
        "update_url",
        "pause_url",
        "resume_url",
        "channels",
    ]);
    read_only.push("unique_key".to_owned());
    read_only.sort();
    let view = ApiView {
        is_read_only: true,
        ..view()
    };
    assert_eq!(names(view.clone(), CheckMembers::Read), read_only);
    let value = shown(&view, &check, CheckMembers::Read, &ChannelMap::new(), NOON);
    // printf abcd000000000000 | sha1sum
    assert_eq!(
        value["unique_key"],
        "bb18d1ecfb16e272a796718616e96a594db896ce"
    );
    assert!(!value.to_string().contains("abcd0000-0000"));
}

#[test]
fn subjects_are_the_keywords_if_the_subject_filter_is_on() {
    let settings = CheckSettings {
        filters: KeywordFilters::default(),
        ..full()
    };
    let value = shown(
        &view(),
        &check(settings, CheckState::new(NOON)),
        CheckMembers::Changed,
        &ChannelMap::new(),
        NOON,
    );
    assert_eq!(
        (
            &value["subject"],
            &value["subject_fail"],
            &value["success_kw"]
        ),
        (&json!(""), &json!(""), &json!("ok"))
    );
}

#[test]
fn a_schedule_replaces_the_period() {
    let schedule = Some(Arc::new(Schedule::parse("0 5 * * *").unwrap()));
    let settings = CheckSettings {
        schedule,
        tz: Timezone::parse("Europe/Riga").unwrap(),
        post_only: true,
        ..CheckSettings::default()
    };
    let value = shown(
        &view(),
        &check(settings, CheckState::new(NOON)),
        CheckMembers::Read,
        &ChannelMap::new(),
        NOON,
    );
    assert_eq!(
        (&value["schedule"], &value["tz"], &value["methods"]),
        (&json!("0 5 * * *"), &json!("Europe/Riga"), &json!("POST"))
    );
    assert_eq!(value.get("timeout"), None);
}

#[test]
fn version_1_says_when_a_check_is_running() {
    let run = Some(OngoingRun {
        start: NOON,
        rid: None,
    });
    let overdue = NOON.plus_secs(3600);
    for status in [Status::New, Status::Up, Status::Down, Status::Paused] {
        let check = check(
            CheckSettings::default(),
            CheckState {
                status,
                run,
                ..CheckState::new(NOON)
            },
        );
        let seen = |version, now| {
            let value = shown(
                &ApiView { version, ..view() },
                &check,
                CheckMembers::Read,
                &ChannelMap::new(),
                now,
            );
            assert_eq!(value["started"], true);
            value["status"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            seen(ApiVersion::V1, overdue.plus_micros(-1)),
            "started",
            "{status:?}"
        );
        assert_ne!(seen(ApiVersion::V2, NOON), "started", "{status:?}");
        for version in [ApiVersion::V1, ApiVersion::V2, ApiVersion::V3] {
            assert_eq!(seen(version, overdue), "down", "{status:?}");
        }
    }
}

#[test]
fn urls_lead_to_the_requested_version() {
    let value = shown(
        &ApiView {
            version: ApiVersion::V1,
            ..view()
        },
        &check(full(), CheckState::new(NOON)),
        CheckMembers::Read,
        &ChannelMap::new(),
        NOON,
    );
    assert_eq!(
        value["pause_url"],
        "http://h/sub/api/v1/checks/abcd0000-0000-0000-0000-000000000001/pause"
    );
    assert_eq!(
        value["ping_url"],
        "http://h/sub/ping/abcd0000-0000-0000-0000-000000000001"
    );
}

#[test]
fn pings_show_what_was_logged() {
    let ping = |n, kind, at, body_len| Ping {
        check: CheckId(1),
        n,
        previous: Arrival(0),
        at,
        kind,
        origin: PingOrigin {
            scheme: PingScheme::Https,
            method: PingMethod::Post,
            remote_addr: Some([192, 0, 2, 7].into()),
            user_agent: "curl \"8\"".into(),
        },
        rid: (n < 3).then(|| Uuid::from_u128(0xe)),
        exit_status: None,
        body_len,
        body_sharers: 0,
    };
    let done = NOON.plus_micros(1_005_000);
    let pings = [
        ping(3, PingKind::Log, done, 0),
        ping(2, PingKind::Fail, done, 5),
        ping(1, PingKind::Start, NOON, 0),
    ];
    let mut out = String::new();
    view().write_pings(&mut out, Uuid::from_u128(1), &pings);
    let entry = |n: u64| {
        json!({
            "n": n, "scheme": "https", "method": "POST", "remote_addr": "192.0.2.7",
            "ua": "curl \"8\"", "body_url": null, "rid": null,
        })
    };
    let mut wanted = [entry(3), entry(2), entry(1)];
    let rid = "00000000-0000-0000-0000-00000000000e";
    let body_url = "http://h/sub/api/v3/checks/00000000-0000-0000-0000-000000000001/pings/2/body";
    for (place, members) in [
        json!({"type": "log", "date": "2026-11-20T12:00:01.905000+00:00"}),
        json!({
            "type": "fail", "date": "2026-11-20T12:00:01.905000+00:00", "rid": rid,
            "duration": 1.01, "body_url": body_url,
        }),
        json!({"type": "start", "date": "2026-11-20T12:00:00.900000+00:00", "rid": rid}),
    ]
    .into_iter()
    .enumerate()
    {
        wanted[place]
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
    }
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), json!(wanted));
}

#[test]
fn channels_do_not_show_their_settings() {
    let mut out = String::new();
    write_channel(&mut out, &channel(1, 3).1);
    let wanted =
        json!({"id": "00000000-0000-0000-0000-000000000003", "name": "On \"call\"", "kind": "sms"});
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), wanted);
}

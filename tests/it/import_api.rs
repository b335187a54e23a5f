//! A project read through the API of a server, which is ours or one that misbehaves.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use overdue::channels;
use overdue::domain::channel::{ChannelSettings, SettingsAuthor};
use overdue::domain::check::CheckSettings;
use overdue::domain::import_contents::{ImportContents, ImportedKeySecret};
use overdue::domain::number::Seconds;
use overdue::domain::project::{ChannelName, KeySecret, PingKey, ProjectName, SecretHash};
use overdue::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use overdue::import::api::{ApiSource, fetch_project};
use overdue::import::environment::ServerEnvironment;
use overdue::import::{
    ImportLogEntry, ImportOptions, PingLogSelection, ProjectSelection, SourceReader, dry_run,
};
use overdue::operations::channel;
use overdue::outbound::{Outbound, OutboundConfig, ProxyChoice};
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;
use serde_json::{Value, json};

use crate::support::receiver::{Receiver, Reply, ResponseAction};
use crate::support::server::{START, TestServer};

const KEY: &str = "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww";

fn api(url: &str, key: &str, logs: PingLogSelection) -> ApiSource {
    let project = ProjectName::parse("Moved").unwrap();
    ApiSource {
        url: url.into(),
        key: key.into(),
        read_only_key: None,
        ping_key: None,
        project,
        logs,
    }
}

async fn preview(api: &ApiSource, clock: &Clock) -> Result<(ImportContents, Value), String> {
    let config = OutboundConfig {
        proxy: ProxyChoice::None,
        ..OutboundConfig::default()
    };
    let outbound = Outbound::new(config, clock, Random::seeded(7)).unwrap();
    let mut notices = Vec::new();
    let mut source = fetch_project(
        api,
        &outbound,
        clock,
        &Random::System,
        &mut |done, total| notices.push((done, total)),
    )
    .await?;
    assert!(
        notices
            .iter()
            .enumerate()
            .all(|(place, (done, total))| *done == place as u64 && done <= total),
        "{notices:?}"
    );
    let projects = vec![ProjectSelection {
        source_name: "Moved".into(),
        new_name: None,
    }];
    let skip = Vec::new();
    let zones = Vec::new();
    let options = ImportOptions {
        projects,
        skipped_checks: skip,
        timezone_map: zones,
        logs: api.logs,
        with_users: false,
        environment: ServerEnvironment::default(),
    };
    let preview =
        dry_run(&mut source, &options, clock.now(), &mut |_| {}).map_err(|error| error.to_string());
    preview.map(|(imported, report)| (imported, serde_json::to_value(&report).unwrap()))
}

/// A server with checks of every kind, with and without history.
async fn filled_server() -> TestServer {
    let server = TestServer::start().await;
    let settings = ChannelSettings::from_stored(
        channels::find_kind("email").unwrap(),
        vec![("to", "ops@example.org")],
    )
    .unwrap();
    channel::create(
        &server.handle,
        server.main.id,
        ChannelName::parse("ops").unwrap(),
        settings,
        SettingsAuthor::Operator,
    )
    .await
    .unwrap();
    let mut uuids = Vec::new();
    for body in [
        json!({
            "name": "Ünïcode", "slug": "one", "tags": "a b/c", "desc": "two\nlines", "timeout": 120,
            "grace": 60, "channels": "*",
        }),
        json!({
            "name": "Report", "slug": "report", "schedule": "30 3 * * 1-5", "tz": "Europe/Riga",
            "manual_resume": true,
        }),
        json!({ "schedule": "Mon..Fri *-*-* 10:00", "tz": "UTC", "methods": "POST" }),
        json!({
            "slug": "words", "start_kw": "BEGIN", "failure_kw": "error", "filter_http_body": true,
            "filter_default_fail": true,
        }),
        json!({ "slug": "down", "timeout": 60, "grace": 60 }),
        json!({ "slug": "paused" }),
        json!({ "slug": "running" }),
        json!({}),
    ] {
        uuids.push(
            server.create_check(body).await["uuid"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
        server.clock.advance_secs(1);
    }
    let rid = "123e4567-e89b-42d3-a456-426614174000";
    for (check, action) in [
        (0, "/start"),
        (0, ""),
        (0, "/fail"),
        (0, ""),
        (1, ""),
        (2, "/log"),
        (4, ""),
        (6, ""),
        (6, &format!("/start?rid={rid}")),
    ] {
        server.clock.advance_secs(3);
        let answer = server
            .send(
                "POST",
                &format!("/ping/{}{action}", uuids[check]),
                &[],
                b"some output",
            )
            .await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(
        server
            .api("POST", &format!("/checks/{}/pause", uuids[5]), "")
            .await
            .status,
        200
    );
    server.get(&format!("/ping/{}/fail", uuids[4])).await;
    server
}

#[tokio::test]
async fn a_project_read_through_the_api_is_equal() {
    let server = filled_server().await;
    let clock = Clock::Manual(Arc::clone(&server.clock));
    for logs in [
        PingLogSelection::All,
        PingLogSelection::WithoutBodies,
        PingLogSelection::None,
    ] {
        let api = ApiSource {
            read_only_key: Some(server.main.read_only_key.clone()),
            ping_key: Some(server.main.ping_key.clone()),
            ..api(
                &format!("{}/", server.base),
                &server.main.read_write_key,
                logs,
            )
        };
        let (imported, report) = preview(&api, &clock).await.unwrap();
        assert_eq!(report["source"]["form"], "api");
        let [project] = &imported.projects[..] else {
            panic!("one project")
        };
        let hash = |key: &str| SecretHash::of(key.as_bytes());
        let keys: Vec<_> = project.keys.iter().map(|key| key.secret.clone()).collect();
        let expected_keys = [
            KeySecret::ReadWrite(hash(&server.main.read_write_key)),
            KeySecret::ReadOnly(hash(&server.main.read_only_key)),
            KeySecret::Ping(PingKey::parse(&server.main.ping_key).unwrap()),
        ];
        assert_eq!(keys, expected_keys.map(ImportedKeySecret::Native));
        server.handle.with_state(|state| {
            let stored_project = state.project(server.main.id).unwrap();
            assert_eq!(
                (project.name.as_str(), &project.badge_key),
                ("Moved", &stored_project.project.badge_key)
            );
            let channels: Vec<_> = stored_project
                .channels
                .values()
                .map(|channel| (channel.uuid, channel.name.clone()))
                .collect();
            assert_eq!(
                project
                    .channels
                    .iter()
                    .map(|channel| (channel.uuid, channel.name.clone()))
                    .collect::<Vec<_>>(),
                channels
            );
            assert!(
                project
                    .channels
                    .iter()
                    .all(|channel| channel.health.disabled.is_some())
            );
            assert_eq!(project.checks.len(), stored_project.checks.len());
            for (imported, check) in project.checks.iter().zip(state.checks_of(server.main.id)) {
                let name = check.settings.slug.as_str();
                assert_eq!(
                    (imported.uuid, imported.badge),
                    (check.uuid, Some(check.badge)),
                    "{name}"
                );
                // Fields that the API does not show have their defaults, and channels are named by
                // their UUIDs.
                let mut settings = CheckSettings {
                    channels: Box::default(),
                    ..(*check.settings).clone()
                };
                match &settings.schedule {
                    Some(_) => settings.timeout = Seconds::DAY,
                    None => settings.tz = imported.settings.tz.clone(),
                }
                assert_eq!(imported.settings, settings, "{name}");
                let assigned: Vec<_> = state
                    .channels_of(check)
                    .map(|channel| channel.uuid)
                    .collect();
                assert_eq!(imported.channels.to_vec(), assigned, "{name}");
                let found = &imported.state;
                let expected = &check.state;
                assert_eq!(
                    (found.status, found.n_pings),
                    (expected.status, expected.n_pings),
                    "{name}"
                );
                assert_eq!(
                    found.last_duration,
                    expected
                        .last_duration
                        .map(|micros| micros / MICROS_PER_SEC * MICROS_PER_SEC),
                    "{name}"
                );
                assert_eq!(
                    found.last_ping.map(|at| at.secs()),
                    expected.last_ping.map(|at| at.secs()),
                    "{name}"
                );
                if logs != PingLogSelection::None {
                    assert_eq!(
                        (found.last_ping, found.run),
                        (expected.last_ping, expected.run),
                        "{name}"
                    );
                }
            }
            let count = |what: &str| report["counts"][what]["carried"].as_u64().unwrap_or(0);
            let (pings, bodies) = match logs {
                PingLogSelection::All => (10, 9),
                PingLogSelection::WithoutBodies => (10, 0),
                PingLogSelection::None => (0, 0),
            };
            assert_eq!(
                (count("pings"), count("bodies"), count("checks")),
                (pings, bodies, 8),
                "{report}"
            );
        });
    }
    let refused = preview(
        &api(
            &server.base,
            &server.main.read_only_key,
            PingLogSelection::WithoutBodies,
        ),
        &clock,
    )
    .await
    .unwrap_err();
    assert_eq!(
        refused,
        "the response has no UUIDs: give a read-write key with --key-file"
    );
    let refused = preview(
        &api(&server.base, KEY, PingLogSelection::WithoutBodies),
        &clock,
    )
    .await
    .unwrap_err();
    assert!(
        refused.contains("/api/v3/checks/: the server rejected the key (401)")
            && !refused.contains(KEY),
        "{refused}"
    );
    server.stop().await;
}

fn answer(status: u16, headers: Vec<(&'static str, String)>, body: &Value) -> ResponseAction {
    ResponseAction::Answer(Reply {
        status,
        headers,
        body: body.to_string().into_bytes(),
        ..Reply::default()
    })
}

#[tokio::test]
async fn a_request_is_repeated_when_a_server_asks_to_wait() {
    let clock = Clock::Manual(ManualClock::at(START));
    let badges = json!({ "badges": { "*": { "svg": "http://h/badge/bk-1/AAAAAAAA-2.svg" } } });
    let wait = || answer(429, vec![("Retry-After", "0".into())], &json!({}));
    let server = Receiver::start([
        wait(),
        wait(),
        answer(200, Vec::new(), &json!({ "checks": [] })),
        wait(),
        answer(200, Vec::new(), &json!({ "channels": [] })),
        answer(200, Vec::new(), &badges),
    ])
    .await;
    let (imported, _) = preview(&api(&server.url(""), KEY, PingLogSelection::All), &clock)
        .await
        .unwrap();
    assert_eq!(
        (imported.projects.len(), imported.projects[0].checks.len()),
        (1, 0)
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 6);
    assert!(
        requests
            .iter()
            .all(|request| request.method == "GET" && request.header("x-api-key") == Some(KEY))
    );
    let server = Receiver::start([wait()]).await;
    let refused = preview(&api(&server.url(""), KEY, PingLogSelection::All), &clock)
        .await
        .unwrap_err();
    assert!(
        refused.ends_with("the server still limits requests (429); try again later"),
        "{refused}"
    );
    assert_eq!(server.requests().len(), 21);
}

#[tokio::test]
async fn a_server_without_this_api_is_reported_at_once() {
    let clock = Clock::Manual(ManualClock::at(START));
    let server = Receiver::start([ResponseAction::status(404)]).await;
    let refused = preview(&api(&server.url(""), KEY, PingLogSelection::All), &clock)
        .await
        .unwrap_err();
    assert!(
        refused.ends_with("/api/v3/checks/: not found (404)"),
        "{refused}"
    );
    let targets: Vec<_> = server
        .requests()
        .into_iter()
        .map(|seen| seen.target)
        .collect();
    assert_eq!(
        targets,
        ["v3", "v2", "v1"].map(|version| format!("/api/{version}/checks/"))
    );
    for (act, part) in [
        (
            ResponseAction::redirect(301, "https://elsewhere.example/"),
            "the server redirects to another address (301)",
        ),
        (
            ResponseAction::status(418),
            "the server responded with status 418",
        ),
        (answer(200, Vec::new(), &json!([1])), "no list \"checks\""),
        (
            ResponseAction::Answer(Reply {
                status: 200,
                body: b"<html>".to_vec(),
                ..Reply::default()
            }),
            "the response is not JSON",
        ),
    ] {
        let server = Receiver::start([act]).await;
        let refused = preview(&api(&server.url(""), KEY, PingLogSelection::All), &clock)
            .await
            .unwrap_err();
        assert!(
            refused.contains(part) && !refused.contains(KEY),
            "{refused}"
        );
        assert_eq!(server.requests().len(), 1);
    }
    for (url, key, part) in [
        ("ftp://h", KEY, "--api: "),
        (
            "https://me:secret@h",
            KEY,
            "--api: give only the address of the server",
        ),
        (
            "https://h",
            "short",
            "--key-file: an API key has 32 characters",
        ),
    ] {
        let refused = preview(&api(url, key, PingLogSelection::All), &clock)
            .await
            .unwrap_err();
        assert!(
            refused.contains(part) && !refused.contains("secret"),
            "{refused}"
        );
    }
}

/// Answers like a recorded release of Healthchecks, with 404 for unknown paths.
async fn recorded_server(recorded: &str) -> Receiver {
    let recorded: BTreeMap<String, (u16, Value)> = serde_json::from_str(recorded).unwrap();
    Receiver::start_with_route(move |seen| match recorded.get(&seen.target) {
        Some((status, body)) => answer(*status, Vec::new(), body),
        None if seen.target.ends_with("/body") => ResponseAction::Answer(Reply {
            status: 200,
            body: b"done".to_vec(),
            ..Reply::default()
        }),
        None => ResponseAction::status(404),
    })
    .await
}

#[tokio::test]
async fn all_supported_releases_of_healthchecks_can_be_read() {
    let clock = Clock::Manual(ManualClock::at(Timestamp::from_secs(1_795_420_800)));
    let old: [&str; 4] = [
        "Job 2 ž up 1: new-up",
        "Job 3 ž new 3: ",
        "Job 30 ž down 9: new-up up-down down-up up-down",
        "Job 6 ž paused 3: new-up up-down",
    ];
    let cases: [(&str, &str, &[&str], u64, u64); 4] = [
        (
            include_str!("../healthchecks/api/1.20.json"),
            "v1",
            &old,
            0,
            3,
        ),
        (
            include_str!("../healthchecks/api/2.10.json"),
            "v1",
            &[
                "Job 0 ž up 130: up-down down-up up-down down-up up-down down-up",
                "Job 3 ž new 3: ",
                "Job 6 ž paused 3: new-up up-down down-paused",
                "Job 7 ž paused 0: up-paused",
            ],
            0,
            3,
        ),
        (
            include_str!("../healthchecks/api/3.10.json"),
            "v1",
            &[
                "Job 1 ž up 130: up-down down-up up-down down-up up-down down-up",
                "Job 26 ž up 12: new-up up-down down-up",
                "Job 3 ž new 3: ",
                "Job 6 ž paused 3: new-up up-down down-paused",
            ],
            0,
            3,
        ),
        (
            include_str!("../healthchecks/api/4.4.json"),
            "v3",
            &[
                "<script>alert(1)</script> up 70: new-up",
                "Old pings without n up 6: ",
                "Paused by API paused 1: new-up up-paused",
                "Paused with a run down 3: new-up up-down down-paused paused-down",
                "Resumed and up up 2: new-up up-paused paused-new new-up",
                "Resumed new 1: new-up up-paused paused-new",
                "db-dump nas 28 up 69: up-down down-up up-down down-up up-down down-up",
            ],
            3,
            4,
        ),
    ];
    for (recorded, version, expected, guessed, badges) in cases {
        let server = recorded_server(recorded).await;
        let api = api(&server.url(""), KEY, PingLogSelection::All);
        let config = OutboundConfig {
            proxy: ProxyChoice::None,
            ..OutboundConfig::default()
        };
        let outbound = Outbound::new(config, &clock, Random::seeded(7)).unwrap();
        let mut source = fetch_project(&api, &outbound, &clock, &Random::System, &mut |_, _| {})
            .await
            .unwrap();
        let projects = vec![ProjectSelection {
            source_name: "Moved".into(),
            new_name: None,
        }];
        let skip = Vec::new();
        let zones = Vec::new();
        let options = ImportOptions {
            projects,
            skipped_checks: skip,
            timezone_map: zones,
            logs: api.logs,
            with_users: false,
            environment: ServerEnvironment::default(),
        };
        let mut reading =
            SourceReader::read_objects(&mut source, &options, clock.now(), &mut |_| {}).unwrap();
        let mut flips: BTreeMap<_, Vec<String>> = BTreeMap::new();
        let mut take = |entry| {
            if let ImportLogEntry::Flip(own, _) = entry {
                flips.entry(own.check).or_default().push(format!(
                    "{}-{}",
                    own.flip.from.name(),
                    own.flip.to.name()
                ));
            }
            ControlFlow::Continue(())
        };
        reading.read_logs(&mut |_| {}, &mut take).unwrap();
        let (imported, report) = reading.finish();
        let report = serde_json::to_value(&report).unwrap();
        let project = &imported.projects[0];
        let checks = project.checks.iter().map(|check| {
            let own = flips
                .get(&check.uuid)
                .map(|flips| flips.join(" "))
                .unwrap_or_default();
            format!(
                "{} {} {}: {own}",
                check.settings.name.as_str(),
                check.state.status.name(),
                check.state.n_pings
            )
        });
        let mut checks: Vec<_> = checks.collect();
        checks.sort();
        assert_eq!(checks, expected);
        let notes = report["counts"]["flips"]["notes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let pauses: u64 = notes
            .iter()
            .filter(|note| note["text"].as_str().unwrap().contains("pauses"))
            .map(|note| note["count"].as_u64().unwrap())
            .sum();
        assert_eq!(pauses, guessed, "{report}");
        // All channels are imported except discontinued kinds.
        assert!(
            project
                .channels
                .iter()
                .all(|channel| channel.health.disabled.is_some())
        );
        assert_eq!(
            report["counts"]["channels"]["dropped"].as_u64().unwrap(),
            u64::from(version == "v1"),
            "{report}"
        );
        // Badges of projects and tags are signed with a secret that no API shows.
        assert_eq!(
            report["counts"]["badges"]["dropped"].as_u64().unwrap_or(0),
            badges,
            "{report}"
        );
        assert!(
            project
                .checks
                .iter()
                .all(|check| check.settings.slug.is_within_limit()
                    && !check.settings.slug.as_str().is_empty()
                    || version == "v3")
        );
        assert!(
            server
                .requests()
                .iter()
                .any(|seen| seen.target == format!("/api/{version}/badges/"))
        );
    }
}

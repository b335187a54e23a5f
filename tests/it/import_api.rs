//! A project read through the API of a server, which is one of ours, or one that misbehaves.

use std::sync::Arc;

use overdue::clock::{Clock, ManualClock};
use overdue::domain::channel::{ChannelKind, ChannelSettings};
use overdue::domain::check::Settings;
use overdue::domain::imported::{Imported, ImportedSecret};
use overdue::domain::moment::MICROS;
use overdue::domain::project::{ChannelName, KeyHash, PingKey, ProjectName, Secret};
use overdue::domain::text::Seconds;
use overdue::import::api::{Api, fetch};
use overdue::import::environment::Environment;
use overdue::import::{Chosen, Logs, Options, look};
use overdue::manage::channel;
use overdue::outbound::{Outbound, OutboundConfig, ProxyChoice};
use overdue::random::Random;
use serde_json::{Value, json};

use crate::support::receiver::{Act, Receiver, Reply};
use crate::support::server::{START, Server};

const KEY: &str = "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww";

fn api(url: &str, key: &str, logs: Logs) -> Api {
    let project = ProjectName::parse("Moved").unwrap();
    Api { url: url.into(), key: key.into(), read_only_key: None, ping_key: None, project, logs }
}

async fn looked(api: &Api, clock: &Clock) -> Result<(Imported, Value), String> {
    let config = OutboundConfig { proxy: ProxyChoice::None, ..OutboundConfig::default() };
    let outbound = Outbound::new(config, clock, Random::seeded(7)).unwrap();
    let mut told = Vec::new();
    let mut source = fetch(api, &outbound, clock, &Random::System, &mut |done, total| told.push((done, total))).await?;
    assert!(told.iter().enumerate().all(|(place, (done, total))| *done == place as u64 && done <= total), "{told:?}");
    let (projects, skip, zones) = (vec![Chosen { old: "Moved".into(), new: None }], Vec::new(), Vec::new());
    let options = Options { projects, skip, zones, logs: api.logs, users: false, environment: Environment::default() };
    let looked = look(&mut source, &options, clock.now(), &mut |_| {}).map_err(|error| error.to_string());
    looked.map(|(imported, report)| (imported, serde_json::to_value(&report).unwrap()))
}

/// A server with checks of every kind, with and without a past.
async fn filled() -> Server {
    let server = Server::start().await;
    let settings = ChannelSettings::read(ChannelKind::named("email").unwrap(), vec![("to", "ops@example.org")]).unwrap();
    channel::create(&server.handle, server.main.id, ChannelName::parse("ops").unwrap(), settings).await.unwrap();
    let mut uuids = Vec::new();
    for body in [
        json!({ "name": "Ünïcode", "slug": "one", "tags": "a b/c", "desc": "two\nlines", "timeout": 120, "grace": 60, "channels": "*" }),
        json!({ "name": "Report", "slug": "report", "schedule": "30 3 * * 1-5", "tz": "Europe/Riga", "manual_resume": true }),
        json!({ "schedule": "Mon..Fri *-*-* 10:00", "tz": "UTC", "methods": "POST" }),
        json!({ "slug": "words", "start_kw": "BEGIN", "failure_kw": "error", "filter_http_body": true, "filter_default_fail": true }),
        json!({ "slug": "down", "timeout": 60, "grace": 60 }),
        json!({ "slug": "paused" }),
        json!({ "slug": "running" }),
        json!({}),
    ] {
        uuids.push(server.check(body).await["uuid"].as_str().unwrap().to_owned());
        server.clock.advance_secs(1);
    }
    let rid = "123e4567-e89b-42d3-a456-426614174000";
    for (check, action) in
        [(0, "/start"), (0, ""), (0, "/fail"), (0, ""), (1, ""), (2, "/log"), (4, ""), (6, ""), (6, &format!("/start?rid={rid}"))]
    {
        server.clock.advance_secs(3);
        let answer = server.send("POST", &format!("/ping/{}{action}", uuids[check]), &[], b"some output").await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(server.api("POST", &format!("/checks/{}/pause", uuids[5]), "").await.status, 200);
    server.get(&format!("/ping/{}/fail", uuids[4])).await;
    server
}

#[tokio::test]
async fn a_project_is_the_same_when_it_is_read_through_the_api() {
    let server = filled().await;
    let clock = Clock::Manual(Arc::clone(&server.clock));
    for logs in [Logs::All, Logs::Heads, Logs::None] {
        let api = Api {
            read_only_key: Some(server.main.ro.clone()),
            ping_key: Some(server.main.ping.clone()),
            ..api(&format!("{}/", server.base), &server.main.rw, logs)
        };
        let (imported, report) = looked(&api, &clock).await.unwrap();
        assert_eq!(report["source"]["form"], "api");
        let [project] = &imported.projects[..] else { panic!("one project") };
        let hash = |key: &str| KeyHash::of(key.as_bytes());
        let keys: Vec<_> = project.keys.iter().map(|key| key.secret.clone()).collect();
        let own = [
            Secret::ReadWrite(hash(&server.main.rw)),
            Secret::ReadOnly(hash(&server.main.ro)),
            Secret::Ping(PingKey::parse(&server.main.ping).unwrap()),
        ];
        assert_eq!(keys, own.map(ImportedSecret::Own));
        let state = server.handle.state();
        let there = state.project(server.main.id).unwrap();
        assert_eq!((project.name.as_str(), &project.badge_key), ("Moved", &there.project.badge_key));
        let channels: Vec<_> = there.channels.values().map(|channel| (channel.uuid, channel.name.clone())).collect();
        assert_eq!(project.channels.iter().map(|channel| (channel.uuid, channel.name.clone())).collect::<Vec<_>>(), channels);
        assert!(project.channels.iter().all(|channel| channel.health.disabled.is_some()));
        assert_eq!(project.checks.len(), there.checks.len());
        for (own, check) in project.checks.iter().zip(state.checks_of(server.main.id)) {
            let name = check.settings.slug.as_str();
            assert_eq!((own.uuid, own.badge), (check.uuid, Some(check.badge)), "{name}");
            // What is not shown has its default, and channels are named by their UUIDs.
            let mut settings = Settings { channels: Box::default(), ..(*check.settings).clone() };
            match &settings.schedule {
                Some(_) => settings.timeout = Seconds::DAY,
                None => settings.tz = own.settings.tz.clone(),
            }
            assert_eq!(own.settings, settings, "{name}");
            let assigned: Vec<_> = state.channels_of(check).map(|channel| channel.uuid).collect();
            assert_eq!(own.channels.to_vec(), assigned, "{name}");
            let (found, wanted) = (&own.state, &check.state);
            assert_eq!((found.status, found.n_pings), (wanted.status, wanted.n_pings), "{name}");
            assert_eq!(found.last_duration, wanted.last_duration.map(|micros| micros / MICROS * MICROS), "{name}");
            assert_eq!(found.last_ping.map(|at| at.secs()), wanted.last_ping.map(|at| at.secs()), "{name}");
            if logs != Logs::None {
                assert_eq!((found.last_ping, found.run), (wanted.last_ping, wanted.run), "{name}");
            }
        }
        let count = |what: &str| report["counts"][what]["carried"].as_u64().unwrap_or(0);
        let (pings, bodies) = match logs {
            Logs::All => (10, 9),
            Logs::Heads => (10, 0),
            Logs::None => (0, 0),
        };
        assert_eq!((count("pings"), count("bodies"), count("checks")), (pings, bodies, 8), "{report}");
    }
    let refused = looked(&api(&server.base, &server.main.ro, Logs::Heads), &clock).await.unwrap_err();
    assert_eq!(refused, "the server shows no UUIDs: give a key that may write with --key-file");
    let refused = looked(&api(&server.base, KEY, Logs::Heads), &clock).await.unwrap_err();
    assert!(refused.contains("/api/v3/checks/: the server refuses the key: 401") && !refused.contains(KEY), "{refused}");
    server.stop().await;
}

fn answer(status: u16, headers: Vec<(&'static str, String)>, body: &Value) -> Act {
    Act::Answer(Reply { status, headers, body: body.to_string().into_bytes(), ..Reply::default() })
}

#[tokio::test]
async fn a_server_that_asks_to_wait_is_asked_again() {
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
    let (imported, _) = looked(&api(&server.url(""), KEY, Logs::All), &clock).await.unwrap();
    assert_eq!((imported.projects.len(), imported.projects[0].checks.len()), (1, 0));
    let seen = server.seen();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|seen| seen.method == "GET" && seen.header("x-api-key") == Some(KEY)));
    let server = Receiver::start([wait()]).await;
    let refused = looked(&api(&server.url(""), KEY, Logs::All), &clock).await.unwrap_err();
    assert!(refused.ends_with("the server goes on asking to wait: 429"), "{refused}");
    assert_eq!(server.seen().len(), 21);
}

#[tokio::test]
async fn what_is_no_such_api_is_told_at_once() {
    let clock = Clock::Manual(ManualClock::at(START));
    for (act, part) in [
        (Act::redirect(301, "https://elsewhere.example/"), "the server answers 301, as if it were elsewhere"),
        (Act::status(404), "it is not there: 404"),
        (Act::status(418), "the server answers 418"),
        (answer(200, Vec::new(), &json!([1])), "no list of checks"),
        (Act::Answer(Reply { status: 200, body: b"<html>".to_vec(), ..Reply::default() }), "the answer is not JSON"),
    ] {
        let server = Receiver::start([act]).await;
        let refused = looked(&api(&server.url(""), KEY, Logs::All), &clock).await.unwrap_err();
        assert!(refused.contains(part) && !refused.contains(KEY), "{refused}");
        assert_eq!(server.seen().len(), 1);
    }
    for (url, key, part) in [
        ("ftp://h", KEY, "--api: "),
        ("https://me:secret@h", KEY, "--api: give the address of the server alone"),
        ("https://h", "short", "--key-file: an API key has 32 characters"),
    ] {
        let refused = looked(&api(url, key, Logs::All), &clock).await.unwrap_err();
        assert!(refused.contains(part) && !refused.contains("secret"), "{refused}");
    }
}

//! Database files of earlier releases. Every run opens each of them and compares its answers with
//! the recorded ones.

mod imported_data;
mod power_cuts;

use std::path::Path;
use std::sync::Arc;

use overdue::channels;
use overdue::domain::alert::NotificationState;
use overdue::domain::channel::{ChannelSettings, SettingsAuthor};
use overdue::domain::ping::{PingMethod, PingOrigin, PingScheme};
use overdue::domain::project::ChannelName;
use overdue::domain::status::Status;
use overdue::engine::command::{Command, PingRequest, PingSignal, PingTarget};
use overdue::engine::{self, HousekeepingLimits};
use overdue::http;
use overdue::operations::channel;
use overdue::store::{FILE_NAME, JOURNAL_NAME, Medium, Store};
use overdue::util::clock::ManualClock;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::engine::open;
use crate::support::server::{
    START, TestProject, TestResponse, blocking_threads, http_config, new_project, read_response,
};

pub(crate) const LAYOUTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layouts");
const RUN: &str = "123e4567-e89b-42d3-a456-426614174000";

pub(crate) struct LayoutServer {
    pub(crate) handle: engine::Handle,
    clock: Arc<ManualClock>,
    address: std::net::SocketAddr,
}

impl LayoutServer {
    pub(crate) async fn open(directory: &Path, now: overdue::domain::timestamp::Timestamp) -> Self {
        let clock = ManualClock::at(now);
        let (handle, writer) = open(Medium::Directory(directory.into()), &clock, |config| {
            config.ping_body_limit = 200;
            config.housekeeping = HousekeepingLimits {
                slice_rows: 8,
                min_tail: 40,
                tail_per_check: 0,
                slack_entries: 8,
                ..HousekeepingLimits::default()
            };
        })
        .unwrap();
        std::thread::spawn(|| writer.run());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // The answers have the default site name.
        let config = http::HttpConfig {
            site_name: "overdue".into(),
            ..http_config("http://overdue.test")
        };
        let (stop, stopped) = watch::channel(false);
        std::mem::forget(stop);
        tokio::spawn(
            http::HttpServer::new(handle.clone(), blocking_threads(), config).serve(
                listener,
                None,
                Default::default(),
                stopped,
            ),
        );
        Self {
            handle,
            clock,
            address,
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TestResponse {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        headers
            .iter()
            .for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .await
            .unwrap();
        read_response(stream).await
    }

    async fn api(&self, key: &str, method: &str, path: &str, body: Value) -> Value {
        let answer = self
            .send(
                method,
                &format!("/api/v3{path}"),
                &[("X-Api-Key", key)],
                &body.to_string(),
            )
            .await;
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer.json()
    }

    async fn ping(&self, path: &str, body: &str) {
        let proxy = [
            ("X-Forwarded-For", "192.0.2.7"),
            ("X-Forwarded-Proto", "https"),
            ("User-Agent", "curl/8.5.0"),
        ];
        let answer = self
            .send(
                if body.is_empty() { "GET" } else { "POST" },
                path,
                &proxy[..if body.is_empty() { 0 } else { 3 }],
                body,
            )
            .await;
        assert!(answer.status < 300, "{path}: {answer:?}");
    }

    /// Waits until the writer has checked the time and has nothing left to do.
    async fn settle(&self) {
        for _ in 0..30 {
            self.clock.advance_secs(1);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

pub(crate) async fn fill(site: &LayoutServer) -> (TestProject, TestProject, Vec<String>) {
    let main = new_project(&site.handle, "main").await;
    let other = new_project(&site.handle, "Ünïcode & more").await;
    let set = Command::UpdateProject {
        project: main.id,
        name: None,
        check_limit: Some(Some(50)),
        ping_log_limit: Some(10),
        allows_ping_settings: None,
    };
    site.handle.call(set).await.unwrap().unwrap();
    for (name, kind, settings) in [
        ("ops", "email", vec![("to", "ops@example.org")]),
        ("phone", "sms", vec![("to", "+37120000000")]),
        (
            "hook",
            "webhook",
            vec![
                ("body", "{\"check\": \"ž\"}"),
                ("down-url", "http://127.0.0.1:9/$NAME"),
                ("header.x-key", "a b"),
                ("method", "POST"),
            ],
        ),
        (
            "",
            "webhook",
            vec![("method", "GET"), ("up-url", "https://example.org/")],
        ),
    ] {
        let settings =
            ChannelSettings::from_stored(channels::find_kind(kind).unwrap(), settings).unwrap();
        channel::create(
            &site.handle,
            main.id,
            ChannelName::parse(name).unwrap(),
            settings,
            SettingsAuthor::Operator,
        )
        .await
        .unwrap();
    }
    let mut uuids = Vec::new();
    for body in [
        json!({
            "name": "Nightly backup", "slug": "backup", "tags": "prod db a/b#c",
            "desc": "line\nline ž", "timeout": 3600, "grace": 600, "channels": "*",
        }),
        json!({
            "name": "Report", "slug": "report", "schedule": "30 3 * * 1-5", "tz": "Europe/Riga",
            "grace": 900, "tags": "prod", "channels": "ops,hook",
        }),
        json!({
            "name": "Sync", "slug": "sync", "schedule": "Mon..Fri *-*-* 10:00",
            "tz": "America/New_York",
        }),
        json!({
            "name": "Words", "slug": "words", "start_kw": "BEGIN", "success_kw": "done, ok",
            "failure_kw": "error", "filter_http_body": true, "filter_subject": true,
            "filter_body": true, "filter_default_fail": true,
        }),
        json!({"name": "Posts", "slug": "posts", "methods": "POST", "timeout": 60, "grace": 60}),
        json!({"name": "Paused", "slug": "paused", "manual_resume": true}),
        json!({"name": "Twin", "slug": "twin"}),
        json!({"name": "Twin", "slug": "twin", "tags": "ž"}),
        json!({}),
        json!({"name": "Gone", "slug": "gone"}),
        json!({"name": "Running", "slug": "running", "timeout": 7200, "grace": 60}),
    ] {
        uuids.push(
            site.api(&main.read_write_key, "POST", "/checks/", body)
                .await["uuid"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    let second = site
        .api(
            &other.read_write_key,
            "POST",
            "/checks/",
            json!({"name": "Elsewhere", "slug": "backup"}),
        )
        .await;
    uuids.push(second["uuid"].as_str().unwrap().to_owned());
    // Enough for a checkpoint, a sweep and kept pings.
    for round in 0..12 {
        for path in [
            "backup/start",
            "backup",
            "report",
            "report/log",
            "sync/3",
            "posts/0",
        ] {
            site.clock.advance_secs(7);
            site.ping(
                &format!("/ping/{}/{path}", main.ping_key),
                if round % 3 == 0 {
                    "some output\nof a job"
                } else {
                    ""
                },
            )
            .await;
        }
    }
    site.ping(&format!("/ping/{}/words", main.ping_key), "all ok")
        .await;
    site.ping(&format!("/ping/{}/words", main.ping_key), "an error")
        .await;
    site.ping(&format!("/ping/{}/words", main.ping_key), "nothing")
        .await;
    site.ping(
        &format!("/ping/{}/made-by-ping?create=1", main.ping_key),
        &"x".repeat(300),
    )
    .await;
    site.api(
        &main.read_write_key,
        "POST",
        &format!("/checks/{}/pause", uuids[5]),
        json!({}),
    )
    .await;
    site.ping(&format!("/ping/{}/paused", main.ping_key), "")
        .await;
    site.ping(&format!("/ping/{}/gone", main.ping_key), "")
        .await;
    site.api(
        &main.read_write_key,
        "DELETE",
        &format!("/checks/{}", uuids[9]),
        json!({}),
    )
    .await;
    site.ping(
        &format!("/ping/{}/running/start?rid={RUN}", main.ping_key),
        "",
    )
    .await;
    // Some deadlines pass, and the hourly housekeeping runs.
    site.clock.advance_secs(4300);
    site.settle().await;
    for path in ["backup", "posts", "running/fail"] {
        site.ping(&format!("/ping/{}/{path}", main.ping_key), "")
            .await;
    }
    site.settle().await;
    // The tail of the log is in no check's row yet. It has a deadline that a ping notices, and
    // unfinished runs.
    let set = site
        .api(
            &main.read_write_key,
            "POST",
            &format!("/checks/{}", uuids[6]),
            json!({"timeout": 60, "grace": 60}),
        )
        .await;
    assert_eq!(set["timeout"], 60);
    for path in [
        "backup/start",
        "backup/fail",
        "backup",
        "sync/0",
        "report/fail",
        "running",
        "running/start",
    ] {
        site.clock.advance_secs(3);
        site.ping(
            &format!("/ping/{}/{path}?rid={RUN}", main.ping_key),
            "the end of the log",
        )
        .await;
    }
    let mail = PingRequest {
        target: PingTarget::Uuid(uuids[3].parse().unwrap()),
        signal: PingSignal::Email {
            subject: "backup done".into(),
            text: "ok".into(),
            precomputed: None,
        },
        origin: PingOrigin {
            scheme: PingScheme::Email,
            method: PingMethod::None,
            remote_addr: Some([10, 0, 0, 1].into()),
            user_agent: "Email from <nas@example.org>".into(),
        },
        rid: None,
        body: b"Subject: backup done\r\n\r\nok\r\n".as_slice().into(),
    };
    site.handle
        .call(Command::Ping(Box::new(mail)))
        .await
        .unwrap()
        .unwrap();
    site.ping(&format!("/ping/{}", uuids[6]), "").await;
    site.ping(&format!("/ping/{}", uuids[11]), "elsewhere")
        .await;
    (main, other, uuids)
}

/// Every GET request to a layout, with its key.
pub(crate) async fn request_paths(
    site: &LayoutServer,
    main: &TestProject,
    other: &TestProject,
    uuids: &[String],
) -> Vec<(String, String)> {
    let mut requests = Vec::new();
    for key in [
        &main.read_write_key,
        &main.read_only_key,
        &other.read_write_key,
    ] {
        for path in [
            "checks/",
            "channels/",
            "badges/",
            "checks/?slug=twin",
            "checks/?tag=prod",
            "status/",
        ] {
            requests.push((key.clone(), format!("/api/v3/{path}")));
        }
        for version in ["v1", "v2"] {
            requests.push((key.clone(), format!("/api/{version}/checks/")));
        }
    }
    for uuid in uuids {
        for path in ["", "/pings/", "/flips/"] {
            requests.push((
                main.read_write_key.clone(),
                format!("/api/v3/checks/{uuid}{path}"),
            ));
        }
        requests.extend((1..40).map(|n| {
            (
                main.read_write_key.clone(),
                format!("/api/v3/checks/{uuid}/pings/{n}/body"),
            )
        }));
    }
    let member_of = |answer: TestResponse, member: &str| answer.json()[member].clone();
    let checks = member_of(
        site.send(
            "GET",
            "/api/v3/checks/",
            &[("X-Api-Key", &main.read_only_key)],
            "",
        )
        .await,
        "checks",
    );
    for check in checks.as_array().unwrap() {
        let key = check["unique_key"].as_str().unwrap();
        requests.push((main.read_only_key.clone(), format!("/api/v3/checks/{key}")));
        requests.push((
            main.read_only_key.clone(),
            format!("/api/v3/checks/{key}/flips/"),
        ));
    }
    let badges = member_of(
        site.send(
            "GET",
            "/api/v3/badges/",
            &[("X-Api-Key", &main.read_only_key)],
            "",
        )
        .await,
        "badges",
    );
    for urls in badges.as_object().unwrap().values() {
        requests.extend(urls.as_object().unwrap().values().map(|url| {
            (
                String::new(),
                url.as_str().unwrap().replace("http://overdue.test", ""),
            )
        }));
    }
    let checks = member_of(
        site.send(
            "GET",
            "/api/v3/checks/",
            &[("X-Api-Key", &main.read_write_key)],
            "",
        )
        .await,
        "checks",
    );
    for check in checks.as_array().unwrap() {
        let badge = check["badge_url"]
            .as_str()
            .unwrap()
            .replace("http://overdue.test", "");
        requests.push((String::new(), badge.replace(".svg", ".json")));
        requests.push((String::new(), badge));
    }
    requests
}

pub(crate) async fn get(site: &LayoutServer, key: &str, path: &str) -> (u16, String) {
    let header = [("X-Api-Key", key)];
    let answer = site
        .send("GET", path, if key.is_empty() { &[] } else { &header }, "")
        .await;
    (answer.status, answer.text().to_owned())
}

#[ignore = "writes the file of the layout that this release has; see docs/extending"]
#[tokio::test(flavor = "multi_thread")]
async fn write_the_layout_of_this_release() {
    let directory = tempfile::tempdir().unwrap();
    let site = LayoutServer::open(directory.path(), START).await;
    let (main, other, uuids) = fill(&site).await;
    imported_data::fill(&site).await;
    let target = Path::new(LAYOUTS)
        .join(std::env::var("LAYOUT").expect("LAYOUT names the directory to write"));
    std::fs::create_dir_all(&target).unwrap();
    // Copied while the database is open, as after a crash, so there is a tail to replay. Copied
    // before the requests, because a key is stored again at its first use.
    std::fs::copy(directory.path().join(FILE_NAME), target.join(FILE_NAME)).unwrap();
    let journal = std::fs::read(directory.path().join(JOURNAL_NAME)).unwrap();
    let used = journal.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    std::fs::write(target.join(JOURNAL_NAME), &journal[..used]).unwrap();
    let asked = [
        request_paths(&site, &main, &other, &uuids).await,
        imported_data::request_paths(),
    ]
    .concat();
    let mut answers = Vec::new();
    for (key, path) in &asked {
        let (status, body) = get(&site, key, path).await;
        answers.push(json!([key, path, status, body]));
    }
    let lines: Vec<_> = answers.iter().map(Value::to_string).collect();
    let now = site.handle.now().micros();
    std::fs::write(
        target.join("answers.jsonl"),
        format!("{now}\n{}\n", lines.join("\n")),
    )
    .unwrap();
}

/// Copies the files of a layout to a directory. Its journal, if it has one, is kept without the
/// zeros at its end; the header contains its length.
fn copy_layout(layout: &Path, directory: &Path) {
    std::fs::copy(layout.join(FILE_NAME), directory.join(FILE_NAME)).unwrap();
    if let Ok(mut journal) = std::fs::read(layout.join(JOURNAL_NAME)) {
        let length = u64::from_le_bytes(journal[28..36].try_into().unwrap());
        journal.resize(length as usize, 0);
        std::fs::write(directory.join(JOURNAL_NAME), journal).unwrap();
    }
}

/// Number of pings in the log of a killed server, with its journal or without it.
fn logged_pings(layout: &Path, has_journal: bool) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    copy_layout(layout, directory.path());
    if !has_journal {
        std::fs::remove_file(directory.path().join(JOURNAL_NAME)).unwrap();
    }
    let store = Store::open(&Medium::Directory(directory.path().into())).unwrap();
    store.snapshot().unwrap().log_len().unwrap()
}

#[test]
fn the_journal_of_a_layout_contains_changes_that_its_database_lacks() {
    let layouts = std::fs::read_dir(LAYOUTS).unwrap();
    let mut journals = 0;
    for layout in layouts.map(|entry| entry.unwrap().path()) {
        if layout.join(JOURNAL_NAME).exists() {
            let [alone, together] = [false, true].map(|has| logged_pings(&layout, has));
            assert_ne!(alone, together, "{}", layout.display());
            journals += 1;
        }
    }
    assert!(journals > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_layout_answers_as_it_did() {
    let mut layouts = 0;
    for entry in std::fs::read_dir(LAYOUTS).unwrap() {
        let layout = entry.unwrap().path();
        let directory = tempfile::tempdir().unwrap();
        copy_layout(&layout, directory.path());
        let text = std::fs::read_to_string(layout.join("answers.jsonl")).unwrap();
        let (now, lines) = text.split_once('\n').unwrap();
        let site = LayoutServer::open(
            directory.path(),
            overdue::domain::timestamp::Timestamp::from_micros(now.parse().unwrap()),
        )
        .await;
        for line in lines.lines() {
            let (key, path, status, body): (String, String, u16, String) =
                serde_json::from_str(line).unwrap();
            assert_eq!(
                get(&site, &key, &path).await,
                (status, body),
                "{}: {path}",
                layout.display()
            );
        }
        if imported_data::LAYOUTS_WITH_IMPORTS
            .iter()
            .any(|with| layout.ends_with(with))
        {
            site.handle.with_state(imported_data::expect);
        }
        if layout.ends_with("1") {
            // The release that wrote it sent no alerts, and none are sent now.
            site.handle.with_state(|state| {
                let down: Vec<_> = state
                    .checks()
                    .filter(|check| check.state.status == Status::Down)
                    .map(|check| check.state.notification)
                    .collect();
                assert!(
                    !down.is_empty()
                        && down
                            .iter()
                            .all(|telling| *telling == NotificationState::NotNeeded),
                    "{down:?}"
                );
                assert!(state.outbox.is_empty());
            });
        }
        site.handle.close();
        layouts += 1;
    }
    assert!(layouts > 0);
}

//! Round trip of an export: a server that imports it gives the same answer to each API request, and
//! exports the same lines.

mod simulated_databases;

use std::ops::ControlFlow;
use std::sync::Arc;

use overdue::channels;
use overdue::domain::alert::{ChannelHealth, HoldReason, NotificationState};
use overdue::domain::channel::ChannelSettings;
use overdue::domain::check::{CheckSettings, CheckState, OngoingRun};
use overdue::domain::declared::ConfigSource;
use overdue::domain::flip::{Flip, FlipCause};
use overdue::domain::ids::CheckId;
use overdue::domain::import_contents::{
    ImportContents, ImportedChannel, ImportedCheck, ImportedFlip, ImportedKey, ImportedKeySecret,
    ImportedPing, ImportedProject, ImportedSettings, ImportedUser, ImportedWindow,
};
use overdue::domain::import_item::{ImportId, ImportItemCounts, ImportMode, NumberedFlip};
use overdue::domain::legacy_keys::{LegacyBadgeKey, LegacySecret};
use overdue::domain::mail_address::MailAddress;
use overdue::domain::maintenance_window::WindowTimes;
use overdue::domain::number::FailureThreshold;
use overdue::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use overdue::domain::project::{
    BadgeSecret, ChannelName, KeyAccess, KeyLabel, KeySecret, KeyUse, PingKey, ProjectName,
    SecretHash,
};
use overdue::domain::recent_outcomes::{RecentOutcomes, RunOutcome};
use overdue::domain::schedule::Schedule;
use overdue::domain::status::Status;
use overdue::domain::status_page::{
    StatusPage, StatusPageAddress, StatusPageDomain, StatusPageTitle,
};
use overdue::domain::text::{Name, Slug, Tags};
use overdue::domain::timestamp::Timestamp;
use overdue::domain::timezone::Timezone;
use overdue::domain::user::ExternalIdentity;
use overdue::domain::user::passkey::{Passkey, PasskeyId, PasskeyName, PasskeyPublicKey};
use overdue::domain::user::preferences::{ListPreferences, SortOrder, Theme, UserPreferences};
use overdue::domain::user::saved_filters::{SavedFilter, SavedFilters};
use overdue::domain::user::second_factor::{SecondFactor, TotpSecret};
use overdue::domain::user::summary::{SummaryInterval, SummarySettings, SummarySubscription};
use overdue::domain::user::{Grant, Membership, UserName};
use overdue::engine::Handle;
use overdue::engine::command::import::{ImportFinishOptions, ImportStep, ImportStepOutcome};
use overdue::engine::command::{Command, CommandError, CommandOutcome};
use overdue::import::export_format::{ExportReader, write_export};
use overdue::import::item_rows::ImportItemRow;
use overdue::import::{ImportLogEntry, ProjectSelection, numbering};
use overdue::store::Medium;
use overdue::util::password;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::server::{START, TestServer};

/// A key of the imported project.
const RW: &str = "imported-key-of-thirty-two-chars";

async fn step(handle: &Handle, command: ImportStep) -> Result<CommandOutcome, CommandError> {
    handle
        .call(Command::Import(Box::new(command)))
        .await
        .unwrap()
}

/// Imports everything into a server.
async fn import_all(
    handle: &Handle,
    imported: ImportContents,
    entries: Vec<ImportLogEntry>,
) -> Result<usize, CommandError> {
    let CommandOutcome::Import(ImportStepOutcome::Begun(import)) = step(
        handle,
        ImportStep::Begin {
            object_count: numbering::count_ids(&imported),
            check_count: 0,
        },
    )
    .await?
    else {
        panic!("the import did not begin");
    };
    let checks = numbering::check_ids(&imported, import.0);
    let mut expected = ImportItemCounts::default();
    for entry in entries {
        let mut pings = Vec::new();
        let mut flips = Vec::new();
        match entry {
            ImportLogEntry::Ping(ping) => {
                let check = checks[&ping.check];
                pings.push(ping.with_check(check));
            }
            ImportLogEntry::Flip(flip, _) | ImportLogEntry::OrderedFlip(flip) => {
                flips.push(NumberedFlip {
                    check: checks[&flip.check],
                    flip: flip.flip,
                });
            }
        }
        (expected.pings, expected.flips) = (
            expected.pings + pings.len() as u64,
            expected.flips + flips.len() as u64,
        );
        step(
            handle,
            ImportStep::Log {
                import,
                pings,
                flips,
            },
        )
        .await?;
    }
    let secrets = imported.secrets.clone();
    let signing = imported.badge_secret;
    let newest = imported.newest;
    let objects = numbering::number_items(imported, import.0, handle.random());
    objects.iter().for_each(|object| expected.count(object));
    step(handle, ImportStep::Items { import, objects }).await?;
    let options = ImportFinishOptions {
        mode: ImportMode::Live { newest },
        legacy_secrets: secrets,
        badge_secret: signing,
        expected_counts: expected,
        replace: false,
    };
    finish(handle, import, options).await
}

async fn finish(
    handle: &Handle,
    import: ImportId,
    options: ImportFinishOptions,
) -> Result<usize, CommandError> {
    match step(handle, ImportStep::Finish { import, options }).await {
        Ok(CommandOutcome::Import(ImportStepOutcome::Finished { replaced, .. })) => Ok(replaced),
        Ok(outcome) => panic!("{outcome:?}"),
        Err(refusal) => {
            step(handle, ImportStep::Abandon { import }).await?;
            Err(refusal)
        }
    }
}

fn export_lines(handle: &Handle, logs: bool) -> String {
    let mut lines = Vec::new();
    write_export(handle, None, logs, &mut lines).unwrap();
    String::from_utf8(lines).unwrap()
}

/// Parses the lines, or returns the reason why they are invalid.
fn read(
    handle: &Handle,
    lines: &[u8],
    selections: &[ProjectSelection],
) -> Result<(ImportContents, Vec<ImportLogEntry>), String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.jsonl");
    std::fs::write(&path, lines).unwrap();
    let without_path = |problem: String| problem.replace(&format!("{}: ", path.display()), "");
    let mut entries = Vec::new();
    let mut reading = ExportReader::open(&path, selections, handle.random(), &mut |_| {})
        .map_err(without_path)?;
    let mut take = |entry| {
        entries.push(entry);
        ControlFlow::Continue(())
    };
    reading
        .read_logs(&mut |_| {}, &mut take)
        .map_err(without_path)?;
    Ok((reading.finish(handle.now()).0, entries))
}

async fn import(handle: &Handle, lines: &str) -> Result<usize, CommandError> {
    let (imported, entries) = read(handle, lines.as_bytes(), &[]).unwrap();
    import_all(handle, imported, entries).await
}

/// Returns all lines except the first, which contains the time, and the last, which contains the
/// checksum.
fn lines_between(lines: &str) -> Vec<&str> {
    let all: Vec<_> = lines.lines().collect();
    all[1..all.len() - 1].to_vec()
}

/// Starts a server without a project, with the same time as the other server.
async fn empty_server() -> TestServer {
    empty_server_at(START).await
}

async fn empty_server_at(now: Timestamp) -> TestServer {
    let server = TestServer::start_at(Medium::memory(), now).await;
    server
        .handle
        .call(Command::DeleteProject(server.main.id))
        .await
        .unwrap()
        .unwrap();
    server
}

fn owner(name: &str) -> Option<ConfigSource> {
    Some(ConfigSource::parse(name).unwrap())
}

fn moment(before: i64) -> Timestamp {
    Timestamp::from_micros(START.micros() - before * 1_000_000 + 123_456)
}

fn check(uuid: u128, status: Status) -> ImportedCheck {
    let settings = CheckSettings {
        name: Name::parse(&format!("check {uuid}")).unwrap(),
        slug: Slug::parse(&format!("check-{uuid}")).unwrap(),
        tags: Tags::from_stored("prod db"),
        ..CheckSettings::default()
    };
    let mut state = CheckState {
        status,
        changed: moment(3600),
        n_pings: 9,
        ..CheckState::new(moment(90_000))
    };
    if status != Status::New {
        state.last_ping = Some(moment(1200));
    }
    let channels = Box::new([Uuid::from_u128(900)]);
    let (uuid, badge) = (
        Uuid::from_u128(uuid),
        Some(Uuid::from_u128(uuid + (1 << 64))),
    );
    let parents = Box::default();
    let down_parent = None;
    let managed = None;
    ImportedCheck {
        uuid,
        badge,
        created: state.changed,
        settings,
        channels,
        parents,
        state,
        down_parent,
        managed_by: managed,
    }
}

fn key(secret: ImportedKeySecret, label: &str) -> ImportedKey {
    let hint = "hint".into();
    let label = KeyLabel::parse(label).unwrap();
    let last_use = (!label.as_str().is_empty()).then(|| KeyUse {
        at: moment(5),
        from: [192, 0, 2, 7].into(),
    });
    ImportedKey {
        secret,
        hint,
        label,
        created: Some(moment(50_000)),
        last_use,
        managed_by: None,
    }
}

/// Objects that the API alone cannot create.
fn imported_of_every_kind() -> ImportContents {
    let secrets: Vec<_> = ["one", "two"]
        .map(|text| LegacySecret::parse(text).unwrap())
        .into();
    let hashed = |secret: u8, access, text: &str| ImportedKeySecret::Legacy {
        access,
        secret_index: secret,
        digest: secrets[usize::from(secret)].digest_key(text.as_bytes()),
    };
    let mut overdue_check = check(21, Status::Down);
    overdue_check.state.notification = NotificationState::Pending {
        at: moment(-600),
        reason: HoldReason::ParentDown(CheckId(0)),
    };
    (overdue_check.parents, overdue_check.down_parent) = (
        Box::new([Uuid::from_u128(23), Uuid::from_u128(22)]),
        Some(Uuid::from_u128(23)),
    );
    (
        overdue_check.settings.failure_threshold,
        overdue_check.managed_by,
    ) = (FailureThreshold::parse(3).unwrap(), owner("homelab"));
    [RunOutcome::Success, RunOutcome::Missed, RunOutcome::Fail]
        .into_iter()
        .for_each(|outcome| overdue_check.state.outcomes.push(outcome));
    overdue_check.state.failures = 2;
    let mut router = check(22, Status::Down);
    router.state.notification = NotificationState::Undelivered;
    let mut root = check(23, Status::Down);
    root.state.notification = NotificationState::Notified;
    let mut running_check = check(24, Status::Up);
    running_check.state.run = Some(OngoingRun {
        start: moment(60),
        rid: Some(Uuid::from_u128(7)),
    });
    running_check.state.last_duration = Some(1_234_567);
    running_check.state.outcomes = RecentOutcomes::from_bits(u64::MAX / 3);
    let schedule = Schedule::parse("Mon..Fri *-*-* 03:30").unwrap();
    (running_check.settings.schedule, running_check.settings.tz) = (
        Some(Arc::new(schedule)),
        Timezone::parse("Europe/Riga").unwrap(),
    );
    let webhook = |url: &str| {
        ImportedSettings::Complete(
            ChannelSettings::parse(channels::find_kind("webhook").unwrap(), [("down-url", url)])
                .unwrap(),
        )
    };
    let incomplete_settings = ChannelSettings::from_incomplete(
        channels::find_kind("telegram").unwrap(),
        [("chat", "12")],
    )
    .unwrap();
    let problem_at = |reason: &str| Some((moment(70), reason.into()));
    let name = |text: &str| ChannelName::parse(text).unwrap();
    let channels = vec![
        ImportedChannel {
            uuid: Uuid::from_u128(900),
            name: name("hook"),
            settings: webhook("http://192.0.2.1/"),
            set_by_operator: false,
            health: ChannelHealth {
                failing: problem_at("no answer"),
                ..ChannelHealth::default()
            },
            managed_by: owner("homelab"),
        },
        ImportedChannel {
            uuid: Uuid::from_u128(901),
            name: name(""),
            settings: ImportedSettings::Complete(incomplete_settings),
            set_by_operator: true,
            health: ChannelHealth {
                disabled: problem_at("imported without token"),
                ..ChannelHealth::default()
            },
            managed_by: None,
        },
    ];
    let window = |uuid, times| ImportedWindow {
        uuid: Uuid::from_u128(uuid),
        name: Name::parse("patch").unwrap(),
        tags: Tags::from_stored("web"),
        times,
        managed_by: owner("homelab"),
    };
    let weekly = Arc::new(Schedule::parse("0 2 * * 6").unwrap());
    let windows = vec![
        window(
            950,
            WindowTimes::Once {
                from: moment(100),
                to: moment(-100),
            },
        ),
        window(
            951,
            WindowTimes::Recurring {
                schedule: weekly,
                tz: Timezone::utc(),
                minutes: 90,
            },
        ),
    ];
    let project = ImportedProject {
        uuid: Uuid::from_u128(500),
        name: ProjectName::parse("Old ž").unwrap(),
        badge_key: "old-badge-key".into(),
        legacy_badge: Some(LegacyBadgeKey::for_project("old-badge-key", &secrets[0])),
        check_limit: Some(33),
        ping_log_limit: 7,
        allows_ping_settings: true,
        status_pages: vec![StatusPage {
            uuid: Uuid::from_u128(970),
            address: StatusPageAddress::parse("old-jobs").unwrap(),
            title: StatusPageTitle::parse("Old jobs ž").unwrap(),
            tags: Tags::parse("db nightly").unwrap(),
            domain: Some(StatusPageDomain::parse("status.example.org").unwrap()),
        }],
        keys: vec![
            key(
                ImportedKeySecret::Native(KeySecret::ReadWrite(SecretHash::of(RW.as_bytes()))),
                "",
            ),
            key(hashed(1, KeyAccess::ReadOnly, "hcr_x"), "grafana"),
            key(hashed(0, KeyAccess::ReadWrite, "hcw_x"), ""),
            key(
                ImportedKeySecret::Native(KeySecret::Ping(PingKey::parse("ping-me").unwrap())),
                "cron",
            ),
        ],
        channels,
        windows,
        checks: vec![
            overdue_check,
            router,
            root,
            running_check,
            check(25, Status::Paused),
            check(26, Status::New),
        ],
    };
    let password = password::parse(
        "$argon2id$v=19$m=19456,t=2,\
         p=1$c29tZXNhbHRzYWx0$2oSx7cEOGJ+v3lWXcKk2XKwJ0rn5tPnKcRo4ZZK7Bno",
    );
    let user = |name: &str, uuid| ImportedUser {
        uuid: Some(Uuid::from_u128(uuid)),
        name: UserName::parse(name).unwrap(),
        password: password.clone(),
        second_factor: None,
        passkeys: [].into(),
        identity: None,
        owner: true,
        projects: Vec::new(),
        preferences: UserPreferences::default(),
        summary: None,
        disabled: false,
        created: moment(70_000),
        managed_by: None,
    };
    let list = ListPreferences {
        order: SortOrder::parse("-name").unwrap(),
        page_size: 1000,
    };
    let preferences = UserPreferences {
        zone: Some(Timezone::parse("Asia/Tokyo").unwrap()),
        theme: Theme::Dark,
        shortcuts: false,
        list,
        pinned: [Uuid::from_u128(9)].into(),
        filters: SavedFilters::from_stored(SavedFilter::new("nas", "?tag=nas")).unwrap(),
    };
    let recovery = Box::new([SecretHash([3; 32]), SecretHash([4; 32])]);
    let second = Some(SecondFactor {
        secret: TotpSecret::new([5; 20]),
        last_used_step: 77,
        recovery_hashes: recovery,
    });
    let member = vec![(Uuid::from_u128(500), Membership::ReadOnly)];
    let disabled_user = ImportedUser {
        owner: false,
        projects: member,
        preferences,
        second_factor: second,
        passkeys: [Passkey {
            id: PasskeyId::new(&[0, 255, 7]).unwrap(),
            name: PasskeyName::parse("phone é").unwrap(),
            public_key: PasskeyPublicKey::new(&[165, 1, 2]).unwrap(),
            counter: 7,
            created: Timestamp::from_micros(1_700_000_000_000_001),
            last_used: Some(Timestamp::from_micros(1_700_000_100_000_002)),
        }]
        .into(),
        summary: Some(SummarySubscription {
            settings: SummarySettings {
                interval: SummaryInterval::Monthly,
                address: MailAddress::parse("bob@example.org").unwrap(),
                projects: [Uuid::from_u128(500)].into(),
            },
            covered_until: Timestamp::from_micros(1_700_000_000_000_003),
            last_sent: Some(Timestamp::from_micros(1_700_000_000_000_004)),
            failure: Some("it was full".into()),
        }),
        identity: ExternalIdentity::new("https://id.example.org", "u1"),
        disabled: true,
        managed_by: owner("people"),
        ..user("Bob", 62)
    };
    let users = vec![user("ann", 61), disabled_user];
    assert!(users[0].password.is_some());
    ImportContents {
        projects: vec![project],
        users,
        secrets,
        badge_secret: None,
        newest: Some(moment(1)),
    }
}

fn log() -> Vec<ImportLogEntry> {
    let cause = [
        FlipCause::MissedPing,
        FlipCause::Overrun,
        FlipCause::SettingsChanged,
        FlipCause::Fail,
        FlipCause::Keyword,
        FlipCause::NoKeyword,
        FlipCause::Unknown,
    ];
    let causes = cause
        .into_iter()
        .chain([FlipCause::ExitStatus(9.try_into().unwrap())]);
    let mut entries = Vec::new();
    for (index, cause) in (0_i64..).zip(causes) {
        // The clock was set back once.
        let at = moment(20_000 - 2_000 * index + if index == 4 { 9_000 } else { 0 });
        for (from, to, cause) in [
            (Status::Up, Status::Down, cause),
            (Status::Down, Status::Up, FlipCause::Success),
        ] {
            entries.push(ImportLogEntry::OrderedFlip(ImportedFlip {
                check: Uuid::from_u128(21),
                flip: Flip {
                    at,
                    from,
                    to,
                    cause,
                    awaited_since: None,
                },
            }));
        }
    }
    let bodies: [&[u8]; 4] = [b"", b"\xff\x00binary", b"text", &[b'x'; 700_000]];
    let kinds = [
        PingKind::Success,
        PingKind::Start,
        PingKind::Fail,
        PingKind::Log,
        PingKind::Ignored,
    ];
    // Ping 4 is missing, so earlier pings are not shown.
    for n in (1..=9_u64).filter(|n| *n != 4) {
        let method = PingMethod::ALL[n as usize % 8];
        let (scheme, addr) = if n % 2 == 0 {
            (PingScheme::Https, Some([192, 0, 2, n as u8].into()))
        } else {
            (PingScheme::Email, None)
        };
        let origin = PingOrigin {
            scheme,
            method,
            remote_addr: addr,
            user_agent: format!("agent \"{n}\"").into(),
        };
        entries.push(ImportLogEntry::Ping(ImportedPing {
            check: Uuid::from_u128(21),
            n,
            at: moment(4000 - n as i64),
            kind: kinds[n as usize % 5],
            origin,
            rid: (n % 3 == 0).then(|| Uuid::from_u128(n.into())),
            exit_status: (n % 3 == 1).then_some(n as u8),
            body: bodies[n as usize % 4].into(),
        }));
    }
    entries
}

/// A server that has objects of every kind.
async fn full_server() -> TestServer {
    let server = TestServer::start_storing(1_000_000).await;
    let handle = &server.handle;
    handle
        .call(Command::SetBadgeSecret(BadgeSecret([9; 32])))
        .await
        .unwrap()
        .unwrap();
    import_all(handle, imported_of_every_kind(), log())
        .await
        .unwrap();
    let request = json!({
        "name": "Nightly \"backup\"\n", "slug": "nightly", "tags": "a b", "desc": "ž\u{1}\\",
        "schedule": "30 3 * * *", "tz": "Asia/Tokyo", "grace": 7200, "manual_resume": true,
        "methods": "POST", "start_kw": "begin", "success_kw": "ok, fine", "failure_kw": "error",
        "filter_subject": true, "filter_body": true, "filter_http_body": true,
        "filter_default_fail": true,
    });
    let cron = server.create_check(request).await;
    let simple = server
        .create_check(json!({ "slug": "simple", "timeout": 90 }))
        .await;
    let uuid = |check: &Value| check["uuid"].as_str().unwrap().to_owned();
    for (path, body) in [
        (format!("/ping/{}", uuid(&cron)), &b"begin"[..]),
        (format!("/ping/{}", uuid(&cron)), b"all ok"),
        (
            format!(
                "/ping/{}/start?rid=6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f",
                uuid(&simple)
            ),
            b"",
        ),
        (
            format!(
                "/ping/{}/0?rid=6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f",
                uuid(&simple)
            ),
            b"\xfe",
        ),
        (format!("/ping/{}/3", uuid(&simple)), &[b'y'; 600_000]),
        (format!("/ping/{}/log", uuid(&simple)), b"note"),
        (
            format!("/ping/{}/new-one?create=1", server.main.ping_key),
            b"made",
        ),
    ] {
        let answer = server
            .send("POST", &path, &[("User-Agent", "curl/8")], body)
            .await;
        assert!([200, 201].contains(&answer.status), "{path}: {answer:?}");
    }
    assert_eq!(
        server
            .api("POST", &format!("/checks/{}/pause", uuid(&cron)), "")
            .await
            .status,
        200
    );
    server
}

/// Returns every answer of the API for these keys.
async fn answers(server: &TestServer, keys: &[&str]) -> Vec<(String, u16, String)> {
    let mut all = Vec::new();
    for &key in keys {
        let mut paths: Vec<String> = [
            "/api/v3/checks/",
            "/api/v3/channels/",
            "/api/v3/badges/",
            "/api/overdue/v1/channels",
            "/api/overdue/v1/windows",
        ]
        .map(Into::into)
        .into();
        while let Some(path) = paths.pop() {
            let answer = server.send("GET", &path, &[("X-Api-Key", key)], b"").await;
            let text = String::from_utf8_lossy(&answer.body).replace(&server.base, "");
            if let Ok(found) = serde_json::from_str::<Value>(&text) {
                for check in found["checks"].as_array().into_iter().flatten() {
                    let name = check["uuid"]
                        .as_str()
                        .or(check["unique_key"].as_str())
                        .unwrap();
                    paths.push(format!("/api/v3/checks/{name}"));
                    paths.extend(
                        ["flips/", "pings/"].map(|log| format!("/api/v3/checks/{name}/{log}")),
                    );
                    paths.push(format!("/api/overdue/v1/checks/{name}/alerting"));
                    paths.extend(
                        ["svg", "json", "shields"].map(|format| format!("/b/2/{name}.{format}")),
                    );
                }
                let pings = found["pings"].as_array().into_iter().flatten();
                paths.extend(pings.filter_map(|ping| {
                    Some(format!(
                        "{path}{}/body",
                        ping["body_url"].as_str().and(ping["n"].as_u64())?
                    ))
                }));
                let badges = found["badges"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .flat_map(|(_, urls)| urls.as_object().unwrap().values());
                paths.extend(badges.map(|url| url.as_str().unwrap().to_owned()));
            }
            all.push((path, answer.status, text));
        }
    }
    all
}

fn assert_same<T: PartialEq + std::fmt::Debug>(one: &[T], other: &[T]) {
    let truncated = |item: &T| format!("{item:?}").chars().take(1000).collect::<String>();
    for (one, other) in one.iter().zip(other) {
        assert!(one == other, "{}\n{}", truncated(one), truncated(other));
    }
    assert_eq!(one.len(), other.len());
}

#[tokio::test]
async fn an_import_contains_everything_that_was_exported() {
    let one = full_server().await;
    let keys = &[
        one.main.read_write_key.as_str(),
        one.main.read_only_key.as_str(),
        RW,
    ];
    // The answers are read before the export: they are the first use of the keys in an hour, which
    // is stored.
    let answers_before = answers(&one, keys).await;
    for part in [
        "/pings/5/body",
        "/alerting",
        "/b/2/",
        "/badges/",
        "overdue/v1/windows",
        "\"behind\"",
    ] {
        assert!(
            answers_before
                .iter()
                .any(|(path, _, text)| path.contains(part) || text.contains(part)),
            "{part}"
        );
    }
    let lines = export_lines(&one.handle, true);
    assert!(lines.lines().all(|line| line.len() < 1 << 20) && lines.contains("{\"body\":{"));
    let other = empty_server().await;
    assert_eq!(import(&other.handle, &lines).await, Ok(0));
    assert_same(&answers(&other, keys).await, &answers_before);
    let second_export = export_lines(&other.handle, true);
    assert_same(&lines_between(&second_export), &lines_between(&lines));
    // A second import changes nothing.
    assert_eq!(import(&other.handle, &lines).await, Ok(2));
    assert_same(
        &lines_between(&export_lines(&other.handle, true)),
        &lines_between(&lines),
    );
    assert_same(&answers(&other, keys).await, &answers_before);
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn an_export_without_logs_contains_the_rest() {
    let one = full_server().await;
    let lines = export_lines(&one.handle, false);
    let complete = export_lines(&one.handle, true);
    let is_log = |line: &&str| {
        ["{\"flip\"", "{\"ping\"", "{\"body\""]
            .iter()
            .any(|kind| line.starts_with(kind))
    };
    assert!(!lines.lines().any(|line| is_log(&line)) && complete.lines().any(|line| is_log(&line)));
    assert_same(
        &lines_between(&lines),
        &lines_between(&complete)
            .into_iter()
            .filter(|line| !is_log(line))
            .collect::<Vec<_>>(),
    );
    let other = empty_server().await;
    import(&other.handle, &lines).await.unwrap();
    assert_same(
        &lines_between(&export_lines(&other.handle, true)),
        &lines_between(&lines),
    );
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn selected_projects_are_imported_under_new_names_and_without_users() {
    let one = full_server().await;
    let lines = export_lines(&one.handle, true);
    let other = TestServer::start().await;
    let selections = |old: &str, new: Option<&str>| ProjectSelection {
        source_name: old.into(),
        new_name: new.map(|new| ProjectName::parse(new).unwrap()),
    };
    let missing = read(
        &other.handle,
        lines.as_bytes(),
        &[selections("Other", None)],
    )
    .unwrap_err();
    assert_eq!(missing, "it has no project \"Other\"");
    let (imported, entries) = read(
        &other.handle,
        lines.as_bytes(),
        &[selections("Old ž", Some("New"))],
    )
    .unwrap();
    // Three pings are older than the missing one.
    assert_eq!((imported.users.len(), entries.len()), (0, log().len() - 3));
    import_all(&other.handle, imported, entries).await.unwrap();
    let names: Vec<_> = other.handle.with_state(|state| {
        assert_eq!(state.users.len(), 0);
        state
            .projects()
            .map(|project_state| project_state.project.name.as_str().to_owned())
            .collect()
    });
    assert_eq!(names, ["main", "New"]);
    // A server that has checks keeps its badge secret.
    other.create_check(json!({ "name": "own" })).await;
    let before = other.handle.badge_secret();
    let (mut imported, entries) = read(
        &other.handle,
        lines.as_bytes(),
        &[selections("Old ž", Some("New"))],
    )
    .unwrap();
    imported.badge_secret = Some(BadgeSecret([7; 32]));
    assert_eq!(import_all(&other.handle, imported, entries).await, Ok(1));
    assert_eq!(other.handle.badge_secret(), before);
    one.stop().await;
    other.stop().await;
}

/// Returns the lines with a matching last line.
fn with_matching_end(lines: &[&str]) -> String {
    use sha2::Digest as _;
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let hash: String = sha2::Sha256::digest(&text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!(
        "{text}{{\"end\":{{\"lines\":{},\"sha256\":\"{hash}\"}}}}\n",
        lines.len()
    )
}

#[tokio::test]
async fn a_truncated_or_altered_export_is_refused() {
    let server = full_server().await;
    let lines = export_lines(&server.handle, true);
    let error = |lines: &[u8]| read(&server.handle, lines, &[]).err();
    assert_eq!(error(lines.as_bytes()), None);
    let all: Vec<_> = lines.lines().collect();
    assert_eq!(
        error(with_matching_end(&all[..all.len() - 1]).as_bytes()),
        None
    );
    let assert_invalid = |text: &str, part: &str| {
        let error =
            error(text.as_bytes()).unwrap_or_else(|| panic!("{part}: the import succeeded"));
        assert!(error.contains(part), "{part}: {error}");
    };
    // The file is cut at every line, within the first and the last lines, and at some other bytes.
    let mut length = 0;
    for line in &all {
        assert_invalid(
            &lines[..length],
            if length == 0 {
                "it is empty"
            } else {
                "the end is missing after line"
            },
        );
        length += line.len() + 1;
        if length < 5000 || length == lines.len() {
            assert_invalid(
                &lines[..length - 2],
                if length < all[0].len() + 2 {
                    "line 1: it is incomplete"
                } else {
                    "it is incomplete"
                },
            );
        }
    }
    // Two lines are swapped, one is repeated, one is missing, one byte differs.
    let altered: Vec<_> = [&all[..4], &[all[5], all[4]], &all[6..]].concat();
    for other in [
        altered,
        [&all[..5], &all[4..]].concat(),
        [&all[..4], &all[5..]].concat(),
    ] {
        assert!(error((other.join("\n") + "\n").as_bytes()).is_some());
    }
    assert_invalid(
        &lines.replacen("\"n_pings\":9", "\"n_pings\":8", 1),
        "the checksum at the end does not match",
    );
    assert_invalid(&(lines.clone() + "\n"), "unexpected data after the end");
    assert_invalid(
        &lines.replacen("\"overdue\":1", "\"overdue\":2", 1),
        "it has format version 2",
    );
    assert_invalid("{\"a\":1}\n", "it is not an export of overdue");
    let with = |line: &str| with_matching_end(&[&all[..3], &[line]].concat());
    assert_invalid(
        &with("{\"planet\":{}}"),
        "line 4: unknown kind of line \"planet\"",
    );
    assert_invalid(&with("[]"), "line 4: unknown kind of line \"\"");
    assert_invalid(
        &with(&all[2].replacen("{\"", "{\"moon\":1,\"", 1)),
        "line 4: unknown kind of line \"moon\"",
    );
    let project = *all
        .iter()
        .find(|line| line.starts_with("{\"project\""))
        .unwrap();
    assert_invalid(
        &with_matching_end(
            &[
                &all[..1],
                &[&project.replacen("\"name\"", "\"moon\":1,\"name\"", 1)],
            ]
            .concat(),
        ),
        "line 2: unknown field `moon`",
    );
    assert_invalid(
        &with_matching_end(&[&all[..1], &[project, project]].concat()),
        "line 3: another project has the number 1",
    );
    assert_invalid(
        &with_matching_end(&[
            all[0],
            *all.iter()
                .find(|line| line.starts_with("{\"check\""))
                .unwrap(),
        ]),
        "line 2: no earlier project has the number",
    );
    assert_invalid(
        &with_matching_end(&[
            all[0],
            *all.iter()
                .find(|line| line.starts_with("{\"ping\""))
                .unwrap(),
        ]),
        "line 2: no earlier check has the number",
    );
    assert_invalid(
        &with_matching_end(&[
            all[0],
            *all.iter()
                .find(|line| line.starts_with("{\"body\""))
                .unwrap(),
        ]),
        "line 2: it continues a body, but not",
    );
    assert_invalid(
        &with(&format!("{{\"signing\":\"{}\"}}", "A".repeat(3 << 20))),
        "line 4: it is too long",
    );
    server.stop().await;
}

/// A change that makes an import invalid.
type ImportedChange = fn(&mut ImportContents);

#[tokio::test]
async fn an_invalid_export_leaves_nothing() {
    let one = full_server().await;
    let lines = export_lines(&one.handle, true);
    let other = empty_server().await;
    let before = lines_between(&export_lines(&other.handle, true)).join("\n");
    let add_cycle = |imported: &mut ImportContents| {
        imported.projects[0].checks[2].parents = Box::new([Uuid::from_u128(21)]);
    };
    let windows = |imported: &mut ImportContents| {
        let window = imported.projects[0].windows[0].clone();
        let more = (0..200).map(|number| ImportedWindow {
            uuid: Uuid::from_u128(10_000 + number),
            ..window.clone()
        });
        imported.projects[0].windows.extend(more);
    };
    let secrets = |imported: &mut ImportContents| imported.secrets.truncate(1);
    let users = |imported: &mut ImportContents| imported.users[1].uuid = imported.users[0].uuid;
    let invalid_changes: [(ImportedChange, &str); 4] = [
        (add_cycle, "has invalid parents"),
        (windows, "would have more than 200 maintenance windows"),
        (secrets, "hashed with the secret of another server"),
        (users, "the user \"Bob\" is imported twice"),
    ];
    for (change, part) in invalid_changes {
        let (mut imported, entries) = read(&other.handle, lines.as_bytes(), &[]).unwrap();
        imported.projects.sort_by_key(|project| project.uuid);
        let index = imported
            .projects
            .iter()
            .position(|project| project.uuid == Uuid::from_u128(500))
            .unwrap();
        imported.projects.swap(0, index);
        change(&mut imported);
        let error = format!(
            "{:?}",
            import_all(&other.handle, imported, entries)
                .await
                .unwrap_err()
        );
        assert!(
            error.contains(part) || error.replace("\\\"", "\"").contains(part),
            "{part}: {error}"
        );
        assert_eq!(
            lines_between(&export_lines(&other.handle, true)).join("\n"),
            before,
            "{part}"
        );
    }
    import(&other.handle, &lines).await.unwrap();
    one.stop().await;
    other.stop().await;
}

/// Changes one line of a kind and appends a matching last line.
fn with_changed(lines: &str, kind: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut all: Vec<_> = lines.lines().map(str::to_owned).collect();
    all.pop();
    let line = all
        .iter_mut()
        .find(|line| line.starts_with(&format!("{{\"{kind}\"")))
        .unwrap();
    let mut value: Value = serde_json::from_str(line).unwrap();
    change(&mut value[kind]);
    *line = value.to_string();
    with_matching_end(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn an_export_that_no_server_writes_is_refused() {
    let server = full_server().await;
    let lines = export_lines(&server.handle, false);
    type LineChange = fn(&mut Value);
    let invalid_changes: [(&str, LineChange, &str); 5] = [
        (
            "check",
            |row| row["check"]["n_pings"] = u64::MAX.into(),
            "invalid n_pings of a check",
        ),
        (
            "window",
            |row| row["times"] = json!({ "once": { "from": 2, "to": 2 } }),
            "must end after it begins",
        ),
        (
            "window",
            |row| row["times"] = json!({ "once": { "from": 0, "to": 40_000_000_000_000_u64 } }),
            "366 days",
        ),
        (
            "window",
            |row| {
                row["times"] = json!({
                    "recurring": { "schedule": "* * * * *", "tz": "UTC", "minutes": 20_000 },
                });
            },
            "1 to 10080",
        ),
        (
            "project",
            |row| row["badge_key"] = "a/b".into(),
            "without slashes",
        ),
    ];
    for (kind, alter, part) in invalid_changes {
        let error = read(
            &server.handle,
            with_changed(&lines, kind, alter).as_bytes(),
            &[],
        )
        .unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(
        read(
            &server.handle,
            with_changed(&lines, "window", |_| {}).as_bytes(),
            &[]
        )
        .is_ok()
    );
    server.stop().await;
}

#[tokio::test]
async fn a_file_that_changes_between_two_reads_is_noticed() {
    let server = full_server().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.jsonl");
    std::fs::write(&path, export_lines(&server.handle, true)).unwrap();
    let mut reading = ExportReader::open(&path, &[], server.handle.random(), &mut |_| {}).unwrap();
    std::fs::write(&path, export_lines(&server.handle, false)).unwrap();
    let error = reading
        .read_logs(&mut |_| {}, &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(
        error.contains("it was changed while it was being read"),
        "{error}"
    );
    server.stop().await;
}

#[tokio::test]
async fn an_import_changes_no_project_that_it_does_not_contain() {
    let one = full_server().await;
    let lines = export_lines(&one.handle, false);
    let other = TestServer::start().await;
    let (mut imported, _) = read(&other.handle, lines.as_bytes(), &[]).unwrap();
    imported
        .projects
        .retain(|project| project.uuid == Uuid::from_u128(500));
    let member = imported.users.iter_mut().find(|user| !user.owner).unwrap();
    member
        .projects
        .retain(|(uuid, _)| *uuid == Uuid::from_u128(500));
    let name = member.name.clone();
    let imported_count = member.projects.len();
    let main = other
        .handle
        .with_state(|state| state.project(other.main.id).unwrap().project.uuid);
    member.projects.push((main, Membership::Member));
    import_all(&other.handle, imported, Vec::new())
        .await
        .unwrap();
    let grant = {
        other
            .handle
            .with_state(|state| state.users.by_name(&name).unwrap().grant.clone())
    };
    assert_eq!(grant.membership_in(other.main.id), None);
    let Grant::Projects(granted) = grant else {
        panic!("the user has full access")
    };
    assert_eq!((granted.iter().count(), imported_count), (1, 1));
    // The import does not replace the secret of the badges either.
    let project = one
        .handle
        .with_state(|state| state.projects().next().unwrap().project.id);
    let mut single_project = Vec::new();
    write_export(&one.handle, Some(project), false, &mut single_project).unwrap();
    assert!(
        lines.contains("{\"signing\"")
            && !String::from_utf8(single_project)
                .unwrap()
                .contains("{\"signing\"")
    );
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn rows_of_objects_fit_into_a_request() {
    let server = full_server().await;
    let (mut imported, _) = read(
        &server.handle,
        export_lines(&server.handle, false).as_bytes(),
        &[],
    )
    .unwrap();
    let many: Box<[Uuid]> = (0..1_000).map(|_| server.handle.random().uuid()).collect();
    imported.projects[0].checks[0].channels = many.clone();
    imported.projects[0].checks[1].parents = many.clone();
    imported.users[0].projects = many
        .iter()
        .map(|uuid| (*uuid, Membership::ReadOnly))
        .collect();
    for item in numbering::number_items(imported, 1, server.handle.random()) {
        let bytes = item.approximate_bytes();
        let row = serde_json::to_string(&ImportItemRow::from(item)).unwrap();
        // Requests are filled to an eighth of their limit, measured by this estimate.
        assert!(
            row.len() <= bytes * 6,
            "{} bytes are counted as {bytes}: {:.100}",
            row.len(),
            row
        );
    }
    server.stop().await;
}

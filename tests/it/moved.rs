//! What one server exports as lines, another one that imports them has: every answer of the API is the same, and so is every line.

mod simulated;

use std::ops::ControlFlow;
use std::sync::Arc;

use overdue::domain::adopted::{ForeignSecret, OldBadge};
use overdue::domain::alert::{ChannelHealth, Held, Telling};
use overdue::domain::channel::{ChannelKind, ChannelSettings};
use overdue::domain::check::{CheckState, Run, Settings};
use overdue::domain::flip::{Cause, Flip};
use overdue::domain::ids::CheckId;
use overdue::domain::imported::{
    Imported, ImportedChannel, ImportedCheck, ImportedFlip, ImportedKey, ImportedPing, ImportedProject, ImportedSecret, ImportedSettings,
    ImportedUser, ImportedWindow,
};
use overdue::domain::moment::Moment;
use overdue::domain::outcomes::{Outcomes, RunOutcome};
use overdue::domain::ping::{Kind, Method, Origin, Scheme};
use overdue::domain::project::{Access, BadgeSecret, ChannelName, KeyHash, KeyLabel, KeyUse, PingKey, ProjectName, Secret};
use overdue::domain::schedule::Schedule;
use overdue::domain::staged::{ImportId, ImportMode, StagedCounts, StagedFlip};
use overdue::domain::status::Status;
use overdue::domain::text::{Failures, Name, Slug, Tags};
use overdue::domain::timezone::Timezone;
use overdue::domain::user::second_factor::{SecondFactor, TotpSecret};
use overdue::domain::user::taste::{ListTaste, Order, Taste, Theme};
use overdue::domain::user::{Grant, Membership, UserName};
use overdue::domain::wanted::Source;
use overdue::domain::window::WindowTimes;
use overdue::engine::Handle;
use overdue::engine::command::stage::{Ending, StageCommand, StageOutcome};
use overdue::engine::command::{Command, Outcome, Refusal};
use overdue::import::overdue::{Reading, write};
use overdue::import::staged::StagedRow;
use overdue::import::{Chosen, Entry, numbering};
use overdue::password;
use overdue::store::Medium;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::server::{START, Server};

/// A key of the project that is imported.
const RW: &str = "imported-key-of-thirty-two-chars";

async fn step(handle: &Handle, command: StageCommand) -> Result<Outcome, Refusal> {
    handle.call(Command::Stage(Box::new(command))).await.unwrap()
}

/// Brings everything to a server.
async fn bring(handle: &Handle, imported: Imported, entries: Vec<Entry>) -> Result<usize, Refusal> {
    let Outcome::Stage(StageOutcome::Begun(import)) =
        step(handle, StageCommand::Begin { ids: numbering::count(&imported), checks: 0 }).await?
    else {
        panic!("it has not begun");
    };
    let checks = numbering::checks(&imported, import.0);
    let mut expected = StagedCounts::default();
    for entry in entries {
        let (mut pings, mut flips) = (Vec::new(), Vec::new());
        match entry {
            Entry::Ping(ping) => {
                let check = checks[&ping.check];
                pings.push(ping.of(check));
            }
            Entry::Flip(flip, _) | Entry::NextFlip(flip) => flips.push(StagedFlip { check: checks[&flip.check], flip: flip.flip }),
        }
        (expected.pings, expected.flips) = (expected.pings + pings.len() as u64, expected.flips + flips.len() as u64);
        step(handle, StageCommand::Log { import, pings, flips }).await?;
    }
    let (secrets, signing, newest) = (imported.secrets.clone(), imported.signing, imported.newest);
    let objects = numbering::staged(imported, import.0, handle.random());
    objects.iter().for_each(|object| expected.count(object));
    step(handle, StageCommand::Objects { import, objects }).await?;
    let ending = Ending { mode: ImportMode::Live { newest }, secrets, signing, expected, replace: false };
    finish(handle, import, ending).await
}

async fn finish(handle: &Handle, import: ImportId, ending: Ending) -> Result<usize, Refusal> {
    match step(handle, StageCommand::Finish { import, ending }).await {
        Ok(Outcome::Stage(StageOutcome::Finished { replaced, .. })) => Ok(replaced),
        Ok(outcome) => panic!("{outcome:?}"),
        Err(refusal) => {
            step(handle, StageCommand::Abandon { import }).await?;
            Err(refusal)
        }
    }
}

fn exported(handle: &Handle, logs: bool) -> String {
    let mut lines = Vec::new();
    write(handle, None, logs, &mut lines).unwrap();
    String::from_utf8(lines).unwrap()
}

/// What is in these lines, or why it is refused.
fn read(handle: &Handle, lines: &[u8], chosen: &[Chosen]) -> Result<(Imported, Vec<Entry>), String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.jsonl");
    std::fs::write(&path, lines).unwrap();
    let told = |problem: String| problem.replace(&format!("{}: ", path.display()), "");
    let mut entries = Vec::new();
    let mut reading = Reading::begin(&path, chosen, handle.random(), &mut |_| {}).map_err(told)?;
    let mut take = |entry| {
        entries.push(entry);
        ControlFlow::Continue(())
    };
    reading.logs(&mut |_| {}, &mut take).map_err(told)?;
    Ok((reading.end(handle.now()).0, entries))
}

async fn import(handle: &Handle, lines: &str) -> Result<usize, Refusal> {
    let (imported, entries) = read(handle, lines.as_bytes(), &[]).unwrap();
    bring(handle, imported, entries).await
}

/// All lines but the first, which says when, and the last, which sums up the first.
fn middle(lines: &str) -> Vec<&str> {
    let all: Vec<_> = lines.lines().collect();
    all[1..all.len() - 1].to_vec()
}

/// A server without a project, on which the clock stands as on the other.
async fn empty() -> Server {
    empty_at(START).await
}

async fn empty_at(now: Moment) -> Server {
    let server = Server::start_at(Medium::memory(), now).await;
    server.handle.call(Command::DeleteProject(server.main.id)).await.unwrap().unwrap();
    server
}

fn owner(name: &str) -> Option<Source> {
    Some(Source::parse(name).unwrap())
}

fn moment(before: i64) -> Moment {
    Moment::from_micros(START.micros() - before * 1_000_000 + 123_456)
}

fn check(uuid: u128, status: Status) -> ImportedCheck {
    let settings = Settings {
        name: Name::parse(&format!("check {uuid}")).unwrap(),
        slug: Slug::parse(&format!("check-{uuid}")).unwrap(),
        tags: Tags::stored("prod db"),
        ..Settings::default()
    };
    let mut state = CheckState { status, changed: moment(3600), n_pings: 9, ..CheckState::new(moment(90_000)) };
    if status != Status::New {
        state.last_ping = Some(moment(1200));
    }
    let channels = Box::new([Uuid::from_u128(900)]);
    let (uuid, badge) = (Uuid::from_u128(uuid), Some(Uuid::from_u128(uuid + (1 << 64))));
    let (parents, behind, managed) = (Box::default(), None, None);
    ImportedCheck { uuid, badge, created: state.changed, settings, channels, parents, state, behind, managed }
}

fn key(secret: ImportedSecret, label: &str) -> ImportedKey {
    let (hint, label) = ("hint".into(), KeyLabel::parse(label).unwrap());
    let used = (!label.as_str().is_empty()).then(|| KeyUse { at: moment(5), from: [192, 0, 2, 7].into() });
    ImportedKey { secret, hint, label, created: Some(moment(50_000)), used, managed: None }
}

/// What the API alone cannot make.
fn rich() -> Imported {
    let secrets: Vec<_> = ["one", "two"].map(|text| ForeignSecret::parse(text).unwrap()).into();
    let hashed = |secret: u8, access, text: &str| ImportedSecret::Hashed {
        access,
        secret,
        digest: secrets[usize::from(secret)].digest(text.as_bytes()),
    };
    let mut late = check(21, Status::Down);
    late.state.telling = Telling::Due { at: moment(-600), held: Held::Behind(CheckId(0)) };
    (late.parents, late.behind) = (Box::new([Uuid::from_u128(23), Uuid::from_u128(22)]), Some(Uuid::from_u128(23)));
    (late.settings.after, late.managed) = (Failures::parse(3).unwrap(), owner("homelab"));
    [RunOutcome::Success, RunOutcome::Missed, RunOutcome::Fail].into_iter().for_each(|outcome| late.state.outcomes.push(outcome));
    late.state.failures = 2;
    let mut router = check(22, Status::Down);
    router.state.telling = Telling::Unheard;
    let mut root = check(23, Status::Down);
    root.state.telling = Telling::Told;
    let mut running = check(24, Status::Up);
    running.state.run = Some(Run { start: moment(60), rid: Some(Uuid::from_u128(7)) });
    running.state.last_duration = Some(1_234_567);
    running.state.outcomes = Outcomes::from_bits(u64::MAX / 3);
    let schedule = Schedule::parse("Mon..Fri *-*-* 03:30").unwrap();
    (running.settings.schedule, running.settings.tz) = (Some(Arc::new(schedule)), Timezone::parse("Europe/Riga").unwrap());
    let webhook =
        |url: &str| ImportedSettings::Whole(ChannelSettings::parse(ChannelKind::named("webhook").unwrap(), [("down-url", url)]).unwrap());
    let lacking = ChannelSettings::stored(ChannelKind::named("telegram").unwrap(), [("chat", "12")]).unwrap();
    let trouble = |reason: &str| Some((moment(70), reason.into()));
    let name = |text: &str| ChannelName::parse(text).unwrap();
    let channels = vec![
        ImportedChannel {
            uuid: Uuid::from_u128(900),
            name: name("hook"),
            settings: webhook("http://192.0.2.1/"),
            operator: false,
            health: ChannelHealth { failing: trouble("no answer"), ..ChannelHealth::default() },
            managed: owner("homelab"),
        },
        ImportedChannel {
            uuid: Uuid::from_u128(901),
            name: name(""),
            settings: ImportedSettings::Whole(lacking),
            operator: true,
            health: ChannelHealth { disabled: trouble("imported without token"), ..ChannelHealth::default() },
            managed: None,
        },
    ];
    let window = |uuid, times| ImportedWindow {
        uuid: Uuid::from_u128(uuid),
        name: Name::parse("patch").unwrap(),
        tags: Tags::stored("web"),
        times,
        managed: owner("homelab"),
    };
    let weekly = Arc::new(Schedule::parse("0 2 * * 6").unwrap());
    let windows = vec![
        window(950, WindowTimes::Once { from: moment(100), to: moment(-100) }),
        window(951, WindowTimes::Recurring { schedule: weekly, tz: Timezone::utc(), minutes: 90 }),
    ];
    let project = ImportedProject {
        uuid: Uuid::from_u128(500),
        name: ProjectName::parse("Old ž").unwrap(),
        badge_key: "old-badge-key".into(),
        old_badge: Some(OldBadge::of("old-badge-key", &secrets[0])),
        check_limit: Some(33),
        ping_log_limit: 7,
        keys: vec![
            key(ImportedSecret::Own(Secret::ReadWrite(KeyHash::of(RW.as_bytes()))), ""),
            key(hashed(1, Access::ReadOnly, "hcr_x"), "grafana"),
            key(hashed(0, Access::ReadWrite, "hcw_x"), ""),
            key(ImportedSecret::Own(Secret::Ping(PingKey::parse("ping-me").unwrap())), "cron"),
        ],
        channels,
        windows,
        checks: vec![late, router, root, running, check(25, Status::Paused), check(26, Status::New)],
    };
    let password = password::parse("$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzYWx0$2oSx7cEOGJ+v3lWXcKk2XKwJ0rn5tPnKcRo4ZZK7Bno");
    let user = |name: &str, uuid| ImportedUser {
        uuid: Some(Uuid::from_u128(uuid)),
        name: UserName::parse(name).unwrap(),
        password: password.clone(),
        second: None,
        owner: true,
        projects: Vec::new(),
        taste: Taste::default(),
        disabled: false,
        created: moment(70_000),
        managed: None,
    };
    let list = ListTaste { order: Order::parse("-name").unwrap(), rows: 1000 };
    let taste = Taste { zone: Some(Timezone::parse("Asia/Tokyo").unwrap()), theme: Theme::Dark, shortcuts: false, list };
    let recovery = Box::new([KeyHash([3; 32]), KeyHash([4; 32])]);
    let second = Some(SecondFactor { secret: TotpSecret::new([5; 20]), used: 77, recovery });
    let member = vec![(Uuid::from_u128(500), Membership::ReadOnly)];
    let bob = ImportedUser { owner: false, projects: member, taste, second, disabled: true, managed: owner("people"), ..user("Bob", 62) };
    let users = vec![user("ann", 61), bob];
    assert!(users[0].password.is_some());
    Imported { projects: vec![project], users, secrets, signing: None, newest: Some(moment(1)) }
}

fn log() -> Vec<Entry> {
    let cause = [Cause::Late, Cause::Overrun, Cause::Edited, Cause::Fail, Cause::Keyword, Cause::NoKeyword, Cause::Unknown];
    let causes = cause.into_iter().chain([Cause::Exit(9.try_into().unwrap())]);
    let mut entries = Vec::new();
    for (place, cause) in (0_i64..).zip(causes) {
        // The clock was set back once.
        let at = moment(20_000 - 2_000 * place + if place == 4 { 9_000 } else { 0 });
        for (from, to, cause) in [(Status::Up, Status::Down, cause), (Status::Down, Status::Up, Cause::Success)] {
            entries.push(Entry::NextFlip(ImportedFlip { check: Uuid::from_u128(21), flip: Flip { at, from, to, cause, awaited: None } }));
        }
    }
    let bodies: [&[u8]; 4] = [b"", b"\xff\x00binary", b"text", &[b'x'; 700_000]];
    let kinds = [Kind::Success, Kind::Start, Kind::Fail, Kind::Log, Kind::Ignored];
    // There is no ping 4: what lies before is not seen.
    for n in (1..=9_u64).filter(|n| *n != 4) {
        let method = Method::ALL[n as usize % 8];
        let (scheme, addr) = if n % 2 == 0 { (Scheme::Https, Some([192, 0, 2, n as u8].into())) } else { (Scheme::Email, None) };
        let origin = Origin { scheme, method, remote_addr: addr, ua: format!("agent \"{n}\"").into() };
        entries.push(Entry::Ping(ImportedPing {
            check: Uuid::from_u128(21),
            n,
            at: moment(4000 - n as i64),
            kind: kinds[n as usize % 5],
            origin,
            rid: (n % 3 == 0).then(|| Uuid::from_u128(n.into())),
            exit: (n % 3 == 1).then_some(n as u8),
            body: bodies[n as usize % 4].into(),
        }));
    }
    entries
}

/// A server that has some of everything.
async fn full() -> Server {
    let server = Server::start_storing(1_000_000).await;
    let handle = &server.handle;
    handle.call(Command::SetBadgeSecret(BadgeSecret([9; 32]))).await.unwrap().unwrap();
    bring(handle, rich(), log()).await.unwrap();
    let posted = json!({
        "name": "Nightly \"backup\"\n", "slug": "nightly", "tags": "a b", "desc": "ž\u{1}\\", "schedule": "30 3 * * *", "tz": "Asia/Tokyo", "grace": 7200,
        "manual_resume": true, "methods": "POST", "start_kw": "begin", "success_kw": "ok, fine", "failure_kw": "error",
        "filter_subject": true, "filter_body": true, "filter_http_body": true, "filter_default_fail": true,
    });
    let (cron, simple) = (server.check(posted).await, server.check(json!({ "slug": "simple", "timeout": 90 })).await);
    let uuid = |check: &Value| check["uuid"].as_str().unwrap().to_owned();
    for (path, body) in [
        (format!("/ping/{}", uuid(&cron)), &b"begin"[..]),
        (format!("/ping/{}", uuid(&cron)), b"all ok"),
        (format!("/ping/{}/start?rid=6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f", uuid(&simple)), b""),
        (format!("/ping/{}/0?rid=6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f", uuid(&simple)), b"\xfe"),
        (format!("/ping/{}/3", uuid(&simple)), &[b'y'; 600_000]),
        (format!("/ping/{}/log", uuid(&simple)), b"note"),
        (format!("/ping/{}/new-one?create=1", server.main.ping), b"made"),
    ] {
        let answer = server.send("POST", &path, &[("User-Agent", "curl/8")], body).await;
        assert!([200, 201].contains(&answer.status), "{path}: {answer:?}");
    }
    assert_eq!(server.api("POST", &format!("/checks/{}/pause", uuid(&cron)), "").await.status, 200);
    server
}

/// Every answer of the API to whoever has these keys.
async fn answers(server: &Server, keys: &[&str]) -> Vec<(String, u16, String)> {
    let mut all = Vec::new();
    for &key in keys {
        let mut paths: Vec<String> =
            ["/api/v3/checks/", "/api/v3/channels/", "/api/v3/badges/", "/api/overdue/v1/channels", "/api/overdue/v1/windows"]
                .map(Into::into)
                .into();
        while let Some(path) = paths.pop() {
            let answer = server.send("GET", &path, &[("X-Api-Key", key)], b"").await;
            let text = String::from_utf8_lossy(&answer.body).replace(&server.base, "");
            if let Ok(found) = serde_json::from_str::<Value>(&text) {
                for check in found["checks"].as_array().into_iter().flatten() {
                    let name = check["uuid"].as_str().or(check["unique_key"].as_str()).unwrap();
                    paths.push(format!("/api/v3/checks/{name}"));
                    paths.extend(["flips/", "pings/"].map(|log| format!("/api/v3/checks/{name}/{log}")));
                    paths.push(format!("/api/overdue/v1/checks/{name}/alerting"));
                    paths.extend(["svg", "json", "shields"].map(|format| format!("/b/2/{name}.{format}")));
                }
                let pings = found["pings"].as_array().into_iter().flatten();
                paths.extend(pings.filter_map(|ping| Some(format!("{path}{}/body", ping["body_url"].as_str().and(ping["n"].as_u64())?))));
                let badges = found["badges"].as_object().into_iter().flatten().flat_map(|(_, urls)| urls.as_object().unwrap().values());
                paths.extend(badges.map(|url| url.as_str().unwrap().to_owned()));
            }
            all.push((path, answer.status, text));
        }
    }
    all
}

fn same<T: PartialEq + std::fmt::Debug>(one: &[T], other: &[T]) {
    let cut = |thing: &T| format!("{thing:?}").chars().take(1000).collect::<String>();
    for (one, other) in one.iter().zip(other) {
        assert!(one == other, "{}\n{}", cut(one), cut(other));
    }
    assert_eq!(one.len(), other.len());
}

#[tokio::test]
async fn another_server_has_everything() {
    let one = full().await;
    let keys = &[one.main.rw.as_str(), one.main.ro.as_str(), RW];
    // Before it is exported: a key notes its first use within the hour.
    let asked = answers(&one, keys).await;
    for part in ["/pings/5/body", "/alerting", "/b/2/", "/badges/", "overdue/v1/windows", "\"behind\""] {
        assert!(asked.iter().any(|(path, _, text)| path.contains(part) || text.contains(part)), "{part}");
    }
    let lines = exported(&one.handle, true);
    assert!(lines.lines().all(|line| line.len() < 1 << 20) && lines.contains("{\"body\":{"));
    let other = empty().await;
    assert_eq!(import(&other.handle, &lines).await, Ok(0));
    same(&answers(&other, keys).await, &asked);
    let again = exported(&other.handle, true);
    same(&middle(&again), &middle(&lines));
    // Once more is no more.
    assert_eq!(import(&other.handle, &lines).await, Ok(2));
    same(&middle(&exported(&other.handle, true)), &middle(&lines));
    same(&answers(&other, keys).await, &asked);
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn without_logs_the_rest_is_the_same() {
    let one = full().await;
    let (lines, whole) = (exported(&one.handle, false), exported(&one.handle, true));
    let is_log = |line: &&str| ["{\"flip\"", "{\"ping\"", "{\"body\""].iter().any(|kind| line.starts_with(kind));
    assert!(!lines.lines().any(|line| is_log(&line)) && whole.lines().any(|line| is_log(&line)));
    same(&middle(&lines), &middle(&whole).into_iter().filter(|line| !is_log(line)).collect::<Vec<_>>());
    let other = empty().await;
    import(&other.handle, &lines).await.unwrap();
    same(&middle(&exported(&other.handle, true)), &middle(&lines));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn some_projects_come_under_other_names_and_without_users() {
    let one = full().await;
    let lines = exported(&one.handle, true);
    let other = Server::start().await;
    let chosen = |old: &str, new: Option<&str>| Chosen { old: old.into(), new: new.map(|new| ProjectName::parse(new).unwrap()) };
    let missing = read(&other.handle, lines.as_bytes(), &[chosen("Other", None)]).unwrap_err();
    assert_eq!(missing, "there is no project \"Other\" in it");
    let (imported, entries) = read(&other.handle, lines.as_bytes(), &[chosen("Old ž", Some("New"))]).unwrap();
    // Three pings lie before the gap.
    assert_eq!((imported.users.len(), entries.len()), (0, log().len() - 3));
    bring(&other.handle, imported, entries).await.unwrap();
    let names: Vec<_> = other.handle.with_state(|state| {
        assert_eq!(state.users.len(), 0);
        state.projects().map(|project_state| project_state.project.name.as_str().to_owned()).collect()
    });
    assert_eq!(names, ["main", "New"]);
    // A server with checks of its own goes on signing badges as it did.
    other.check(json!({ "name": "own" })).await;
    let before = other.handle.badge_secret();
    let (mut imported, entries) = read(&other.handle, lines.as_bytes(), &[chosen("Old ž", Some("New"))]).unwrap();
    imported.signing = Some(BadgeSecret([7; 32]));
    assert_eq!(bring(&other.handle, imported, entries).await, Ok(1));
    assert_eq!(other.handle.badge_secret(), before);
    one.stop().await;
    other.stop().await;
}

/// The same lines with an end that fits them.
fn ended(lines: &[&str]) -> String {
    use sha2::Digest as _;
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let hash: String = sha2::Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{text}{{\"end\":{{\"lines\":{},\"sha256\":\"{hash}\"}}}}\n", lines.len())
}

#[tokio::test]
async fn what_was_cut_or_altered_is_refused() {
    let server = full().await;
    let lines = exported(&server.handle, true);
    let refused = |lines: &[u8]| read(&server.handle, lines, &[]).err();
    assert_eq!(refused(lines.as_bytes()), None);
    let all: Vec<_> = lines.lines().collect();
    assert_eq!(refused(ended(&all[..all.len() - 1]).as_bytes()), None);
    let said = |text: &str, part: &str| {
        let refused = refused(text.as_bytes()).unwrap_or_else(|| panic!("{part}: it is taken"));
        assert!(refused.contains(part), "{part}: {refused}");
    };
    // Cut at every line, within the first and the last lines, and everywhere by the way.
    let mut length = 0;
    for line in &all {
        said(&lines[..length], if length == 0 { "it is empty" } else { "it has no end" });
        length += line.len() + 1;
        if length < 5000 || length == lines.len() {
            said(&lines[..length - 2], if length < all[0].len() + 2 { "line 1: it has no end" } else { "it has no end" });
        }
    }
    // Two lines in another order, one twice, one missing, one byte.
    let swapped: Vec<_> = [&all[..4], &[all[5], all[4]], &all[6..]].concat();
    for other in [swapped, [&all[..5], &all[4..]].concat(), [&all[..4], &all[5..]].concat()] {
        assert!(refused((other.join("\n") + "\n").as_bytes()).is_some());
    }
    said(&lines.replacen("\"n_pings\":9", "\"n_pings\":8", 1), "its end does not fit");
    said(&(lines.clone() + "\n"), "something follows its end");
    said(&lines.replacen("\"overdue\":1", "\"overdue\":2", 1), "it is of the form 2");
    said("{\"a\":1}\n", "it is no export of overdue");
    let with = |line: &str| ended(&[&all[..3], &[line]].concat());
    said(&with("{\"planet\":{}}"), "line 4: \"planet\" is no kind of line");
    said(&with("[]"), "line 4: \"\" is no kind of line");
    said(&with(&all[2].replacen("{\"", "{\"moon\":1,\"", 1)), "line 4: \"moon\" is no kind of line");
    let project = *all.iter().find(|line| line.starts_with("{\"project\"")).unwrap();
    said(&ended(&[&all[..1], &[&project.replacen("\"name\"", "\"moon\":1,\"name\"", 1)]].concat()), "line 2: unknown field `moon`");
    said(&ended(&[&all[..1], &[project, project]].concat()), "line 3: another project has the number 1");
    said(
        &ended(&[all[0], *all.iter().find(|line| line.starts_with("{\"check\"")).unwrap()]),
        "line 2: no project before it has the number",
    );
    said(&ended(&[all[0], *all.iter().find(|line| line.starts_with("{\"ping\"")).unwrap()]), "line 2: no check before it has the number");
    said(&ended(&[all[0], *all.iter().find(|line| line.starts_with("{\"body\"")).unwrap()]), "line 2: it goes on with a body, but not");
    said(&with(&format!("{{\"signing\":\"{}\"}}", "A".repeat(3 << 20))), "line 4: it is longer than a line may be");
    server.stop().await;
}

/// What makes no sense of what is imported.
type Change = fn(&mut Imported);

#[tokio::test]
async fn what_makes_no_sense_leaves_nothing() {
    let one = full().await;
    let lines = exported(&one.handle, true);
    let other = empty().await;
    let before = middle(&exported(&other.handle, true)).join("\n");
    let circle = |imported: &mut Imported| imported.projects[0].checks[2].parents = Box::new([Uuid::from_u128(21)]);
    let windows = |imported: &mut Imported| {
        let window = imported.projects[0].windows[0].clone();
        let more = (0..200).map(|number| ImportedWindow { uuid: Uuid::from_u128(10_000 + number), ..window.clone() });
        imported.projects[0].windows.extend(more);
    };
    let secrets = |imported: &mut Imported| imported.secrets.truncate(1);
    let users = |imported: &mut Imported| imported.users[1].uuid = imported.users[0].uuid;
    let refusals: [(Change, &str); 4] = [
        (circle, "cannot depend on what it does"),
        (windows, "has too many windows"),
        (secrets, "hashed by a server whose secret is not known"),
        (users, "the user \"Bob\" is imported twice"),
    ];
    for (change, part) in refusals {
        let (mut imported, entries) = read(&other.handle, lines.as_bytes(), &[]).unwrap();
        imported.projects.sort_by_key(|project| project.uuid);
        let place = imported.projects.iter().position(|project| project.uuid == Uuid::from_u128(500)).unwrap();
        imported.projects.swap(0, place);
        change(&mut imported);
        let refused = format!("{:?}", bring(&other.handle, imported, entries).await.unwrap_err());
        assert!(refused.contains(part) || refused.replace("\\\"", "\"").contains(part), "{part}: {refused}");
        assert_eq!(middle(&exported(&other.handle, true)).join("\n"), before, "{part}");
    }
    import(&other.handle, &lines).await.unwrap();
    one.stop().await;
    other.stop().await;
}

/// Lines with one of them changed, which is of this kind, and an end that fits.
fn with_changed(lines: &str, kind: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut all: Vec<_> = lines.lines().map(str::to_owned).collect();
    all.pop();
    let line = all.iter_mut().find(|line| line.starts_with(&format!("{{\"{kind}\""))).unwrap();
    let mut value: Value = serde_json::from_str(line).unwrap();
    change(&mut value[kind]);
    *line = value.to_string();
    ended(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn what_no_server_would_have_written_is_refused() {
    let server = full().await;
    let lines = exported(&server.handle, false);
    type Alter = fn(&mut Value);
    let refusals: [(&str, Alter, &str); 5] = [
        ("check", |row| row["check"]["n_pings"] = u64::MAX.into(), "the n_pings of a check"),
        ("window", |row| row["times"] = json!({ "once": { "from": 2, "to": 2 } }), "does not end after it begins"),
        ("window", |row| row["times"] = json!({ "once": { "from": 0, "to": 40_000_000_000_000_u64 } }), "366 days"),
        ("window", |row| row["times"] = json!({ "recurring": { "schedule": "* * * * *", "tz": "UTC", "minutes": 20_000 } }), "1 to 10080"),
        ("project", |row| row["badge_key"] = "a/b".into(), "none of them a slash"),
    ];
    for (kind, alter, part) in refusals {
        let refused = read(&server.handle, with_changed(&lines, kind, alter).as_bytes(), &[]).unwrap_err();
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(read(&server.handle, with_changed(&lines, "window", |_| {}).as_bytes(), &[]).is_ok());
    server.stop().await;
}

#[tokio::test]
async fn a_file_that_is_written_anew_between_two_readings_is_noticed() {
    let server = full().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.jsonl");
    std::fs::write(&path, exported(&server.handle, true)).unwrap();
    let mut reading = Reading::begin(&path, &[], server.handle.random(), &mut |_| {}).unwrap();
    std::fs::write(&path, exported(&server.handle, false)).unwrap();
    let refused = reading.logs(&mut |_| {}, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(refused.contains("it was written anew while it was read"), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn an_import_speaks_for_no_project_that_it_does_not_bring() {
    let one = full().await;
    let lines = exported(&one.handle, false);
    let other = Server::start().await;
    let (mut imported, _) = read(&other.handle, lines.as_bytes(), &[]).unwrap();
    imported.projects.retain(|project| project.uuid == Uuid::from_u128(500));
    let member = imported.users.iter_mut().find(|user| !user.owner).unwrap();
    member.projects.retain(|(uuid, _)| *uuid == Uuid::from_u128(500));
    let (name, brought) = (member.name.clone(), member.projects.len());
    let main = other.handle.with_state(|state| state.project(other.main.id).unwrap().project.uuid);
    member.projects.push((main, Membership::Member));
    bring(&other.handle, imported, Vec::new()).await.unwrap();
    let grant = { other.handle.with_state(|state| state.users.by_name(&name).unwrap().grant.clone()) };
    assert_eq!(grant.in_project(other.main.id), None);
    let Grant::Projects(granted) = grant else { panic!("it may do everything") };
    assert_eq!((granted.iter().count(), brought), (1, 1));
    // Nor does it take away what signs badges for all.
    let project = one.handle.with_state(|state| state.projects().next().unwrap().project.id);
    let mut alone = Vec::new();
    write(&one.handle, Some(project), false, &mut alone).unwrap();
    assert!(lines.contains("{\"signing\"") && !String::from_utf8(alone).unwrap().contains("{\"signing\""));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn things_are_no_longer_as_rows_than_a_request_has_room_for() {
    let server = full().await;
    let (mut imported, _) = read(&server.handle, exported(&server.handle, false).as_bytes(), &[]).unwrap();
    let many: Box<[Uuid]> = (0..1_000).map(|_| server.handle.random().uuid()).collect();
    imported.projects[0].checks[0].channels = many.clone();
    imported.projects[0].checks[1].parents = many.clone();
    imported.users[0].projects = many.iter().map(|uuid| (*uuid, Membership::ReadOnly)).collect();
    for thing in numbering::staged(imported, 1, server.handle.random()) {
        let bytes = thing.bytes();
        let row = serde_json::to_string(&StagedRow::from(thing)).unwrap();
        // As many bytes go in one request as an eighth of what it may have.
        assert!(row.len() <= bytes * 6, "{} bytes are counted as {bytes}: {:.100}", row.len(), row);
    }
    server.stop().await;
}

//! What is imported is seen when all of it is there, and takes the place of what was imported before.

mod cuts;
mod long;
mod refusals;
mod trial;

use std::sync::Arc;

use overdue::domain::alert::ChannelHealth;
use overdue::domain::channel::{ChannelKind, ChannelSettings, GivenSettings};
use overdue::domain::check::{Check, CheckState, Settings};
use overdue::domain::edit::Edit;
use overdue::domain::flip::{Cause, Flip};
use overdue::domain::ids::{ChannelId, CheckId, FlipNumber, KeyId, ProjectId};
use overdue::domain::imported::{ImportedChannel, ImportedCheck, ImportedKey, ImportedProject, ImportedSecret, ImportedSettings};
use overdue::domain::moment::Moment;
use overdue::domain::ping::{Kind, Method, Origin, Scheme};
use overdue::domain::project::{ChannelName, KeyHash, KeyLabel, ProjectName, Secret};
use overdue::domain::staged::{ImportId, ImportMode, Staged, StagedCounts, StagedFlip, StagedPing};
use overdue::domain::status::Status;
use overdue::domain::text::{Name, Slug};
use overdue::engine::Thresholds;
use overdue::engine::command::stage::{Ending, StageCommand, StageOutcome, StageRefusal};
use overdue::engine::command::{Command, NewChannel, NewKey, Outcome, Refusal};
use overdue::store::{Medium, Store};
use uuid::Uuid;

use crate::support::build::ping;
use crate::support::disk::Disk;
use crate::support::engine::Engine;

/// What the engines here begin with.
const NOW: i64 = 1_800_000_000;
const LIVE: ImportMode = ImportMode::Live { newest: Some(Moment::from_secs(NOW - 60)) };

fn stage(command: StageCommand) -> Command {
    Command::Stage(Box::new(command))
}

/// Has a step of an import carried out.
fn step(engine: &mut Engine, command: StageCommand) -> Result<Outcome, StageRefusal> {
    match engine.batch([stage(command)]).remove(0).expect("the disk is sound") {
        Ok(outcome) => Ok(outcome),
        Err(Refusal::Stage(refusal)) => Err(refusal),
        Err(refusal) => panic!("{refusal:?}"),
    }
}

fn begin(engine: &mut Engine, ids: u64) -> u64 {
    match step(engine, StageCommand::Begin { ids, checks: 0 }) {
        Ok(Outcome::Stage(StageOutcome::Begun(ImportId(import)))) => import,
        other => panic!("{other:?}"),
    }
}

/// A source: one project with a key, a channel and checks, each with some pings and two flips.
#[derive(Clone)]
struct Source {
    uuid: u128,
    name: &'static str,
    key: u8,
    channel: u128,
    checks: Vec<ImportedCheck>,
    pings: u64,
}

fn imported_check(uuid: u128, status: Status) -> ImportedCheck {
    let created = Moment::from_secs(NOW - 86_400);
    let settings = Settings {
        name: Name::parse(&format!("check {uuid}")).unwrap(),
        slug: Slug::parse(&format!("check-{uuid}")).unwrap(),
        ..Settings::default()
    };
    let mut state = CheckState { status, changed: Moment::from_secs(NOW - 1800), n_pings: 7, ..CheckState::new(created) };
    if status != Status::New {
        state.last_ping = Some(Moment::from_secs(NOW - 60));
    }
    if status == Status::Down {
        (state.failures, state.telling) = (1, overdue::domain::alert::Telling::Told);
    }
    let channels = Box::new([Uuid::from_u128(900)]);
    let (uuid, badge) = (Uuid::from_u128(uuid), Some(Uuid::from_u128(uuid + (1 << 64))));
    let (parents, behind, managed) = (Box::default(), None, None);
    ImportedCheck { uuid, badge, created, settings, channels, parents, state, behind, managed }
}

impl Source {
    fn new() -> Self {
        let checks = vec![imported_check(21, Status::Up), imported_check(22, Status::Down)];
        Self { uuid: 500, name: "Homelab", key: 1, channel: 900, checks, pings: 7 }
    }

    fn numbers(&self) -> u64 {
        3 + self.checks.len() as u64
    }

    fn things(&self, first: u64) -> Vec<Staged> {
        let project = ImportedProject {
            uuid: Uuid::from_u128(self.uuid),
            name: ProjectName::parse(self.name).unwrap(),
            badge_key: format!("badge-{}", self.uuid).into(),
            old_badge: None,
            check_limit: None,
            ping_log_limit: 5,
            keys: Vec::new(),
            channels: Vec::new(),
            windows: Vec::new(),
            checks: Vec::new(),
        };
        let pairs = [("down-url", "http://a/down"), ("up-url", "http://a/up")];
        let settings = ImportedSettings::Whole(ChannelSettings::parse(ChannelKind::named("webhook").unwrap(), pairs).unwrap());
        let (uuid, name) = (Uuid::from_u128(self.channel), ChannelName::parse("hook").unwrap());
        let channel = ImportedChannel { uuid, name, settings, operator: true, health: ChannelHealth::default(), managed: None };
        let (secret, label) = (ImportedSecret::Own(Secret::ReadWrite(KeyHash([self.key; 32]))), KeyLabel::default());
        let key = ImportedKey { secret, hint: "abcd".into(), label, created: None, used: None, managed: None };
        let id = ProjectId(first);
        let mut things = vec![
            Staged::Project { id, project: Box::new(project) },
            Staged::Key { id: KeyId(first + 1), project: id, key },
            Staged::Channel { id: ChannelId(first + 2), project: id, channel: Box::new(channel) },
        ];
        for (number, check) in (first + 3..).zip(&self.checks) {
            let mut check = Box::new(check.clone());
            check.channels = Box::new([uuid]);
            things.push(Staged::Check { id: CheckId(number), project: id, badge: Uuid::from_u128(u128::from(number)), check });
        }
        things
    }

    fn logs(&self, first: u64) -> (Vec<StagedPing>, Vec<StagedFlip>) {
        let (mut pings, mut flips) = (Vec::new(), Vec::new());
        for (number, check) in (first + 3..).zip(&self.checks) {
            let id = CheckId(number);
            // In any order.
            pings.extend((1..=self.pings).rev().map(|n| staged_ping(id, n)));
            let flip = |before: i64, from, to, cause| Flip { at: Moment::from_secs(NOW - before), from, to, cause, awaited: None };
            flips.push(StagedFlip { check: id, flip: flip(3600, Status::New, Status::Up, Cause::Unknown) });
            if check.state.status == Status::Down {
                flips.push(StagedFlip { check: id, flip: flip(1800, Status::Up, Status::Down, Cause::Late) });
            }
        }
        (pings, flips)
    }

    fn counts(&self, first: u64) -> StagedCounts {
        let (pings, flips) = self.logs(first);
        let mut counts = StagedCounts { pings: pings.len() as u64, flips: flips.len() as u64, ..StagedCounts::default() };
        self.things(first).iter().for_each(|thing| counts.count(thing));
        counts
    }

    /// Hands over everything; its number.
    fn hand_over(&self, engine: &mut Engine) -> u64 {
        let first = begin(engine, self.numbers());
        let import = ImportId(first);
        let (pings, flips) = self.logs(first);
        step(engine, StageCommand::Log { import, pings, flips }).unwrap();
        step(engine, StageCommand::Objects { import, objects: self.things(first) }).unwrap();
        first
    }

    fn finish(&self, engine: &mut Engine, first: u64, mode: ImportMode, replace: bool) -> Result<usize, StageRefusal> {
        let (import, expected) = (ImportId(first), self.counts(first));
        let ending = Ending { mode, secrets: Vec::new(), signing: None, expected, replace };
        let before = seen(engine);
        let looked = step(engine, StageCommand::Look { import, ending: ending.clone() });
        assert_eq!(seen(engine), before, "whoever looks changes nothing");
        let finished = step(engine, StageCommand::Finish { import, ending });
        assert_eq!(format!("{looked:?}"), format!("{finished:?}"), "and is told what comes of it");
        match finished? {
            Outcome::Stage(StageOutcome::Finished { replaced, .. }) => Ok(replaced),
            outcome => panic!("{outcome:?}"),
        }
    }

    fn import(&self, engine: &mut Engine, mode: ImportMode) -> Result<usize, StageRefusal> {
        let first = self.hand_over(engine);
        self.finish(engine, first, mode, false)
    }
}

fn staged_ping(check: CheckId, n: u64) -> StagedPing {
    let origin = Origin { scheme: Scheme::Https, method: Method::Post, remote_addr: None, ua: "curl".into() };
    let body = format!("body {n}").into_bytes().into();
    StagedPing { check, n, at: Moment::from_secs(NOW - 3600 + n as i64), kind: Kind::Success, origin, rid: None, exit: None, body }
}

fn found(engine: &Engine, uuid: u128) -> Check {
    engine.handle.with_state(|state| state.check_by_uuid(Uuid::from_u128(uuid)).expect("the check").clone())
}

/// All that can be seen, but for numbers.
fn seen(engine: &Engine) -> Vec<String> {
    let projects = engine.handle.with_state(|state| {
        let projects = state.projects().map(|project_state| {
            let project = &project_state.project;
            let mut lines = vec![format!("{} {:?} {} {}", project.uuid, project.name, project.badge_key, project.ping_log_limit)];
            lines.extend(project_state.keys().filter_map(|id| state.key(id)).map(|key| format!("key {:?} {}", key.secret, key.hint)));
            let channels = project_state.channels.values();
            lines.extend(channels.map(|channel| format!("channel {} {:?} {:?}", channel.uuid, channel.settings, channel.health.disabled)));
            let channels = |check| state.channels_of(check).map(|channel| channel.uuid).collect::<Vec<_>>();
            let checks = state.checks_of(project.id).map(|check| (check.clone(), channels(check)));
            (lines, checks.collect::<Vec<_>>())
        });
        projects.collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for (lines, checks) in projects {
        all.extend(lines);
        for (check, channels) in &checks {
            let settings = Settings { channels: Box::default(), ..Settings::clone(&check.settings) };
            let state = CheckState { last_flip: FlipNumber(0), ..check.state };
            all.push(format!("check {} {} {settings:?} {channels:?} {state:?}", check.uuid, check.badge));
            let pings = engine.handle.pings(check).unwrap();
            let bodies = pings.iter().map(|ping| engine.handle.body(check, ping.n).unwrap());
            all.extend(pings.iter().zip(bodies).map(|(ping, body)| format!("ping {} {:?} {:?} {body:?}", ping.n, ping.at, ping.kind)));
            let flips = engine.handle.flips(check, Moment::from_micros(i64::MIN)).unwrap();
            all.extend(flips.iter().map(|flip| format!("{flip:?}")));
        }
    }
    all
}

fn idle(engine: &mut Engine) {
    (0..200).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
}

/// Entries among the kept pings, and flips, of a stopped engine.
fn rows(medium: &Medium) -> (u64, usize) {
    let store = Store::open(medium).unwrap();
    let snapshot = store.snapshot().unwrap();
    (snapshot.kept_len().unwrap(), snapshot.flips_after(FlipNumber(0)).unwrap().count())
}

#[test]
fn nothing_is_seen_before_all_of_it_is_there() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let (source, before) = (Source::new(), seen(&engine));
    let first = source.hand_over(&mut engine);
    idle(&mut engine);
    assert_eq!(seen(&engine), before);
    assert_eq!(source.finish(&mut engine, first, LIVE, false), Ok(0));
    let check = found(&engine, 21);
    let pings = engine.handle.pings(&check).unwrap();
    assert_eq!(pings.iter().map(|ping| ping.n).collect::<Vec<_>>(), [7, 6, 5, 4, 3], "as many as the log limit allows");
    assert_eq!(engine.handle.body(&check, 4).unwrap().unwrap(), b"body 4");
    // What comes now goes on where the old server stopped.
    engine.done(ping(21, Kind::Success, "new"));
    let check = found(&engine, 21);
    let pings = engine.handle.pings(&check).unwrap();
    assert_eq!(pings.iter().map(|ping| ping.n).collect::<Vec<_>>(), [8, 7, 6, 5, 4]);
    let flips = engine.handle.flips(&found(&engine, 22), Moment::from_micros(i64::MIN)).unwrap();
    let turns: Vec<_> = flips.iter().map(|flip| (flip.from, flip.to, flip.cause)).collect();
    assert_eq!(turns, [(Status::Up, Status::Down, Cause::Late), (Status::New, Status::Up, Cause::Unknown)]);
    engine.handle.with_state(|state| {
        let key = state.key_by_hash(&KeyHash([1; 32])).unwrap();
        assert_eq!(state.project(key.project).unwrap().project.name.as_str(), "Homelab");
        assert_eq!(state.channels_of(&check).map(|channel| channel.uuid).collect::<Vec<_>>(), [Uuid::from_u128(900)]);
    });
}

#[test]
fn what_is_imported_is_there_after_a_start() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    Source::new().import(&mut engine, LIVE).unwrap();
    let before = seen(&engine);
    drop(engine);
    assert_eq!(seen(&Engine::open(disk.medium(), Thresholds::default())), before);
}

#[test]
fn twice_is_once() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    let source = Source::new();
    source.import(&mut engine, LIVE).unwrap();
    let (once, id) = (seen(&engine), found(&engine, 21).id);
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
    assert_eq!(seen(&engine), once);
    assert!(found(&engine, 21).id > id);
    assert_eq!(engine.handle.with_state(|state| state.check_count()), 2);
    // What the first one brought leaves the file.
    idle(&mut engine);
    drop(engine);
    // Those within the log limit.
    assert_eq!(rows(&disk.medium()), (10, 3));
    assert_eq!(seen(&Engine::open(disk.medium(), Thresholds::default())), once);
}

#[test]
fn a_check_that_is_no_longer_in_the_source_goes_and_a_project_keeps_its_number() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let mut source = Source::new();
    source.import(&mut engine, LIVE).unwrap();
    let id = found(&engine, 21).project;
    source.checks.remove(1);
    source.name = "Renamed";
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
    engine.handle.with_state(|state| {
        assert_eq!(state.checks().map(|check| (check.uuid.as_u128(), check.project)).collect::<Vec<_>>(), [(21, id)]);
        assert_eq!(state.project(id).unwrap().project.name.as_str(), "Renamed");
        assert_eq!(state.checks_by_slug(id, &Slug::parse("check-22").unwrap()), []);
    });
}

#[test]
fn an_import_that_has_no_badge_of_a_check_keeps_the_one_it_got() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let mut source = Source::new();
    source.checks.iter_mut().for_each(|check| check.badge = None);
    source.import(&mut engine, LIVE).unwrap();
    let badge = found(&engine, 21).badge;
    source.import(&mut engine, LIVE).unwrap();
    assert_eq!(found(&engine, 21).badge, badge);
}

#[test]
fn what_was_made_here_stays_when_an_import_takes_the_place_of_another() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let source = Source::new();
    source.import(&mut engine, LIVE).unwrap();
    let project = found(&engine, 21).project;
    let (secret, label) = (Secret::ReadOnly(KeyHash([9; 32])), KeyLabel::default());
    engine.done(Command::CreateKey(Box::new(NewKey { project, secret, label, hint: "mine".into() })));
    let settings = ChannelSettings::parse(ChannelKind::named("webhook").unwrap(), [("down-url", "http://b/")]).unwrap();
    let (uuid, name) = (Uuid::from_u128(77), ChannelName::parse("mine").unwrap());
    engine.done(Command::CreateChannel(Box::new(NewChannel { uuid, project, name, settings, operator: true })));
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
    engine.handle.with_state(|state| {
        let project_state = state.project(project).unwrap();
        let uuids: Vec<_> = project_state.channels.values().map(|channel| channel.uuid.as_u128()).collect();
        assert_eq!((uuids, project_state.keys().count()), (vec![77, 900], 2));
    });
}

#[test]
fn a_channel_that_came_incomplete_keeps_what_it_was_given_here() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let source = Source::new();
    let things = |first: u64| {
        let mut things = source.things(first);
        if let Some(Staged::Channel { channel, .. }) = things.get_mut(2) {
            let (kind, given) = (ChannelKind::named("telegram").unwrap(), GivenSettings::new(vec![("chat".into(), "12".into())]));
            channel.settings = ImportedSettings::Incomplete { kind, given, lacks: Box::new(["token"]) };
            channel.health.disabled = Some((Moment::from_secs(NOW), "imported without token".into()));
        }
        things
    };
    let import = |engine: &mut Engine| {
        let first = begin(engine, source.numbers());
        let (pings, flips) = source.logs(first);
        step(engine, StageCommand::Log { import: ImportId(first), pings, flips }).unwrap();
        step(engine, StageCommand::Objects { import: ImportId(first), objects: things(first) }).unwrap();
        source.finish(engine, first, LIVE, false).unwrap();
    };
    let channel = |engine: &Engine| {
        engine.handle.with_state(|state| {
            let check = state.check_by_uuid(Uuid::from_u128(21)).unwrap();
            Arc::clone(state.channels_of(check).next().unwrap())
        })
    };
    import(&mut engine);
    let before = channel(&engine);
    assert_eq!(before.settings.lacks().as_deref(), Some("token is missing; give token=SECRET"));
    assert_eq!(before.health.disabled.as_ref().map(|(_, reason)| &**reason), Some("imported without token"));
    let given = GivenSettings::beside_others(vec![("token".into(), "1:a".into())]);
    let maker = overdue::domain::channel::Maker::Operator;
    engine.done(Command::SetChannel { channel: before.id, name: None, settings: Some(given), maker });
    let completed = channel(&engine);
    assert_eq!((completed.settings.lacks(), &completed.health.disabled), (None, &None));
    import(&mut engine);
    let after = channel(&engine);
    assert_eq!((&after.settings, &after.health.disabled), (&completed.settings, &None));
}

#[test]
fn an_import_of_which_nothing_comes_for_an_hour_leaves_nothing() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    let source = Source::new();
    let first = source.hand_over(&mut engine);
    engine.clock.advance_secs(3599);
    idle(&mut engine);
    assert_eq!(engine.handle.with_state(|state| state.stagings.len()), 1);
    engine.clock.advance_secs(2);
    idle(&mut engine);
    assert!(engine.handle.with_state(|state| state.stagings.is_empty()));
    assert_eq!(source.finish(&mut engine, first, LIVE, false), Err(StageRefusal::Unknown));
    drop(engine);
    assert_eq!(rows(&disk.medium()), (0, 0));
}

#[test]
fn an_import_that_is_abandoned_or_ends_with_the_server_leaves_nothing() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    // Another one goes on, and a check that is there keeps what it has.
    Source::new().import(&mut engine, LIVE).unwrap();
    let before = seen(&engine);
    let other = Source { uuid: 501, name: "Other", key: 2, channel: 901, checks: vec![imported_check(31, Status::Up)], pings: 7 };
    let (gone, stays) = (other.hand_over(&mut engine), other.hand_over(&mut engine));
    step(&mut engine, StageCommand::Abandon { import: ImportId(gone) }).unwrap();
    idle(&mut engine);
    assert_eq!(seen(&engine), before);
    other.finish(&mut engine, stays, LIVE, false).unwrap();
    assert_eq!(engine.handle.pings(&found(&engine, 31)).unwrap().len(), 5);
    let before = seen(&engine);
    other.hand_over(&mut engine);
    drop(engine);
    assert_eq!(rows(&disk.medium()), (24, 5));
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    idle(&mut engine);
    assert_eq!(seen(&engine), before);
    drop(engine);
    assert_eq!(rows(&disk.medium()), (15, 4));
}

#[test]
fn a_full_disk_refuses_and_has_its_space_again() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    engine.check(7);
    engine.done(ping(7, Kind::Success, ""));
    disk.set_capacity(Some(disk.len() + (1 << 20)));
    let first = begin(&mut engine, 10);
    let body = |n| StagedPing { body: vec![7; 100_000].into(), ..staged_ping(CheckId(first + 3), n) };
    let fill = |engine: &mut Engine| {
        (1..1000).find_map(|n| {
            let (import, pings) = (ImportId(first), (10 * n..10 * n + 10).map(body).collect());
            let answer = engine.batch([stage(StageCommand::Log { import, pings, flips: Vec::new() })]).remove(0);
            (!matches!(answer, Ok(Ok(_)))).then_some(answer)
        })
    };
    assert_eq!(fill(&mut engine), Some(Err(overdue::engine::command::Unavailable::Storage)));
    // It is over: what it left is what makes room.
    idle(&mut engine);
    assert!(engine.handle.is_writable() && engine.handle.with_state(|state| state.stagings.is_empty()));
    engine.done(ping(7, Kind::Success, ""));
    drop(engine);
    assert_eq!(rows(&disk.medium()).0, 0);
}

#[test]
fn edits_of_a_check_are_seen() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let source = Source::new();
    source.import(&mut engine, LIVE).unwrap();
    assert!(found(&engine, 21).state.untouched);
    let id = found(&engine, 21).id;
    engine.done(Command::UpdateCheck(id, Box::default()));
    assert!(!found(&engine, 21).state.untouched);
}

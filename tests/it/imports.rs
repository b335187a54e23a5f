//! An import becomes visible when it is complete, and replaces the previous import of its project.

mod long_bodies;
mod power_cuts;
mod refusals;
mod trial;

use std::sync::Arc;

use overdue::channels;
use overdue::domain::alert::ChannelHealth;
use overdue::domain::channel::{ChannelSettings, SettingsUpdate};
use overdue::domain::check::{Check, CheckSettings, CheckState};
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::flip::{Flip, FlipCause};
use overdue::domain::ids::{ChannelId, CheckId, FlipNumber, KeyId, ProjectId};
use overdue::domain::import_contents::{
    ImportedChannel, ImportedCheck, ImportedKey, ImportedKeySecret, ImportedProject,
    ImportedSettings,
};
use overdue::domain::import_item::{
    ImportId, ImportItem, ImportItemCounts, ImportMode, NumberedFlip, NumberedPing,
};
use overdue::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use overdue::domain::project::{ChannelName, KeyLabel, KeySecret, ProjectName, SecretHash};
use overdue::domain::status::Status;
use overdue::domain::text::{Name, Slug};
use overdue::domain::timestamp::Timestamp;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::import::{
    ImportFinishOptions, ImportStep, ImportStepError, ImportStepOutcome,
};
use overdue::engine::command::{Command, CommandError, CommandOutcome, NewChannel, NewKey};
use overdue::store::{Medium, Store};
use uuid::Uuid;

use crate::support::commands::ping;
use crate::support::disk::Disk;
use crate::support::engine::TestEngine;

/// The time at which the engines of this file start.
const NOW: i64 = 1_800_000_000;
const LIVE: ImportMode = ImportMode::Live {
    newest: Some(Timestamp::from_secs(NOW - 60)),
};

fn stage(command: ImportStep) -> Command {
    Command::Import(Box::new(command))
}

/// Executes one step of an import.
fn step(engine: &mut TestEngine, command: ImportStep) -> Result<CommandOutcome, ImportStepError> {
    match engine
        .batch([stage(command)])
        .remove(0)
        .expect("the disk is sound")
    {
        Ok(outcome) => Ok(outcome),
        Err(CommandError::Import(refusal)) => Err(refusal),
        Err(refusal) => panic!("{refusal:?}"),
    }
}

fn begin(engine: &mut TestEngine, ids: u64) -> u64 {
    match step(
        engine,
        ImportStep::Begin {
            object_count: ids,
            check_count: 0,
        },
    ) {
        Ok(CommandOutcome::Import(ImportStepOutcome::Begun(ImportId(import)))) => import,
        other => panic!("{other:?}"),
    }
}

/// A source: one project with a key, a channel and checks, each with some pings and two flips.
#[derive(Clone)]
struct ImportFixture {
    uuid: u128,
    name: &'static str,
    key: u8,
    channel: u128,
    checks: Vec<ImportedCheck>,
    pings: u64,
}

fn imported_check(uuid: u128, status: Status) -> ImportedCheck {
    let created = Timestamp::from_secs(NOW - 86_400);
    let settings = CheckSettings {
        name: Name::parse(&format!("check {uuid}")).unwrap(),
        slug: Slug::parse(&format!("check-{uuid}")).unwrap(),
        ..CheckSettings::default()
    };
    let mut state = CheckState {
        status,
        changed: Timestamp::from_secs(NOW - 1800),
        n_pings: 7,
        ..CheckState::new(created)
    };
    if status != Status::New {
        state.last_ping = Some(Timestamp::from_secs(NOW - 60));
    }
    if status == Status::Down {
        (state.failures, state.notification) =
            (1, overdue::domain::alert::NotificationState::Notified);
    }
    let channels = Box::new([Uuid::from_u128(900)]);
    let (uuid, badge) = (
        Uuid::from_u128(uuid),
        Some(Uuid::from_u128(uuid + (1 << 64))),
    );
    let parents = Box::default();
    let behind = None;
    let managed = None;
    ImportedCheck {
        uuid,
        badge,
        created,
        settings,
        channels,
        parents,
        state,
        down_parent: behind,
        managed_by: managed,
    }
}

impl ImportFixture {
    fn new() -> Self {
        let checks = vec![
            imported_check(21, Status::Up),
            imported_check(22, Status::Down),
        ];
        Self {
            uuid: 500,
            name: "Homelab",
            key: 1,
            channel: 900,
            checks,
            pings: 7,
        }
    }

    fn number_count(&self) -> u64 {
        3 + self.checks.len() as u64
    }

    fn objects(&self, first: u64) -> Vec<ImportItem> {
        let project = ImportedProject {
            uuid: Uuid::from_u128(self.uuid),
            name: ProjectName::parse(self.name).unwrap(),
            badge_key: format!("badge-{}", self.uuid).into(),
            legacy_badge: None,
            check_limit: None,
            ping_log_limit: 5,
            allows_ping_settings: false,
            status_pages: Vec::new(),
            keys: Vec::new(),
            channels: Vec::new(),
            windows: Vec::new(),
            checks: Vec::new(),
        };
        let pairs = [("down-url", "http://a/down"), ("up-url", "http://a/up")];
        let settings = ImportedSettings::Complete(
            ChannelSettings::parse(channels::find_kind("webhook").unwrap(), pairs).unwrap(),
        );
        let uuid = Uuid::from_u128(self.channel);
        let name = ChannelName::parse("hook").unwrap();
        let channel = ImportedChannel {
            uuid,
            name,
            settings,
            set_by_operator: true,
            health: ChannelHealth::default(),
            managed_by: None,
        };
        let secret = ImportedKeySecret::Native(KeySecret::ReadWrite(SecretHash([self.key; 32])));
        let label = KeyLabel::default();
        let key = ImportedKey {
            secret,
            hint: "abcd".into(),
            label,
            created: None,
            last_use: None,
            managed_by: None,
        };
        let id = ProjectId(first);
        let mut items = vec![
            ImportItem::Project {
                id,
                project: Box::new(project),
            },
            ImportItem::Key {
                id: KeyId(first + 1),
                project: id,
                key,
            },
            ImportItem::Channel {
                id: ChannelId(first + 2),
                project: id,
                channel: Box::new(channel),
            },
        ];
        for (number, check) in (first + 3..).zip(&self.checks) {
            let mut check = Box::new(check.clone());
            check.channels = Box::new([uuid]);
            items.push(ImportItem::Check {
                id: CheckId(number),
                project: id,
                badge: Uuid::from_u128(u128::from(number)),
                check,
            });
        }
        items
    }

    fn logs(&self, first: u64) -> (Vec<NumberedPing>, Vec<NumberedFlip>) {
        let mut pings = Vec::new();
        let mut flips = Vec::new();
        for (number, check) in (first + 3..).zip(&self.checks) {
            let id = CheckId(number);
            // The order does not matter.
            pings.extend((1..=self.pings).rev().map(|n| staged_ping(id, n)));
            let flip = |before: i64, from, to, cause| Flip {
                at: Timestamp::from_secs(NOW - before),
                from,
                to,
                cause,
                awaited_since: None,
            };
            flips.push(NumberedFlip {
                check: id,
                flip: flip(3600, Status::New, Status::Up, FlipCause::Unknown),
            });
            if check.state.status == Status::Down {
                flips.push(NumberedFlip {
                    check: id,
                    flip: flip(1800, Status::Up, Status::Down, FlipCause::MissedPing),
                });
            }
        }
        (pings, flips)
    }

    fn counts(&self, first: u64) -> ImportItemCounts {
        let (pings, flips) = self.logs(first);
        let mut counts = ImportItemCounts {
            pings: pings.len() as u64,
            flips: flips.len() as u64,
            ..ImportItemCounts::default()
        };
        self.objects(first)
            .iter()
            .for_each(|thing| counts.count(thing));
        counts
    }

    /// Uploads everything. Returns the number of the import.
    fn upload(&self, engine: &mut TestEngine) -> u64 {
        let first = begin(engine, self.number_count());
        let import = ImportId(first);
        let (pings, flips) = self.logs(first);
        step(
            engine,
            ImportStep::Log {
                import,
                pings,
                flips,
            },
        )
        .unwrap();
        step(
            engine,
            ImportStep::Items {
                import,
                objects: self.objects(first),
            },
        )
        .unwrap();
        first
    }

    fn finish(
        &self,
        engine: &mut TestEngine,
        first: u64,
        mode: ImportMode,
        replace: bool,
    ) -> Result<usize, ImportStepError> {
        let import = ImportId(first);
        let expected = self.counts(first);
        let options = ImportFinishOptions {
            mode,
            legacy_secrets: Vec::new(),
            badge_secret: None,
            expected_counts: expected,
            replace,
        };
        let before = visible_state(engine);
        let preview = step(
            engine,
            ImportStep::DryRun {
                import,
                options: options.clone(),
            },
        );
        assert_eq!(visible_state(engine), before, "a preview changes nothing");
        let finished = step(engine, ImportStep::Finish { import, options });
        assert_eq!(
            format!("{preview:?}"),
            format!("{finished:?}"),
            "a preview returns the result"
        );
        match finished? {
            CommandOutcome::Import(ImportStepOutcome::Finished { replaced, .. }) => Ok(replaced),
            outcome => panic!("{outcome:?}"),
        }
    }

    fn import(&self, engine: &mut TestEngine, mode: ImportMode) -> Result<usize, ImportStepError> {
        let first = self.upload(engine);
        self.finish(engine, first, mode, false)
    }
}

fn staged_ping(check: CheckId, n: u64) -> NumberedPing {
    let origin = PingOrigin {
        scheme: PingScheme::Https,
        method: PingMethod::Post,
        remote_addr: None,
        user_agent: "curl".into(),
    };
    let body = format!("body {n}").into_bytes().into();
    NumberedPing {
        check,
        n,
        at: Timestamp::from_secs(NOW - 3600 + n as i64),
        kind: PingKind::Success,
        origin,
        rid: None,
        exit_status: None,
        body,
    }
}

fn check_by_uuid(engine: &TestEngine, uuid: u128) -> Check {
    engine.handle.with_state(|state| {
        state
            .check_by_uuid(Uuid::from_u128(uuid))
            .expect("the check")
            .clone()
    })
}

/// Everything that is visible, without numbers.
pub(crate) fn visible_state(engine: &TestEngine) -> Vec<String> {
    let projects = engine.handle.with_state(|state| {
        let projects = state.projects().map(|project_state| {
            let project = &project_state.project;
            let mut lines = vec![format!(
                "{} {:?} {} {}",
                project.uuid, project.name, project.badge_key, project.ping_log_limit
            )];
            lines.extend(
                project_state
                    .keys()
                    .filter_map(|id| state.key(id))
                    .map(|key| format!("key {:?} {}", key.secret, key.hint)),
            );
            let channels = project_state.channels.values();
            lines.extend(channels.map(|channel| {
                format!(
                    "channel {} {:?} {:?}",
                    channel.uuid, channel.settings, channel.health.disabled
                )
            }));
            let channels = |check| {
                state
                    .channels_of(check)
                    .map(|channel| channel.uuid)
                    .collect::<Vec<_>>()
            };
            let checks = state
                .checks_of(project.id)
                .map(|check| (check.clone(), channels(check)));
            (lines, checks.collect::<Vec<_>>())
        });
        projects.collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for (lines, checks) in projects {
        all.extend(lines);
        for (check, channels) in &checks {
            let settings = CheckSettings {
                channels: Box::default(),
                ..CheckSettings::clone(&check.settings)
            };
            let state = CheckState {
                last_flip: FlipNumber(0),
                ..check.state
            };
            all.push(format!(
                "check {} {} {settings:?} {channels:?} {state:?}",
                check.uuid, check.badge
            ));
            let pings = engine.handle.pings(check).unwrap();
            let bodies = pings
                .iter()
                .map(|ping| engine.handle.body(check, ping.n).unwrap());
            all.extend(pings.iter().zip(bodies).map(|(ping, body)| {
                format!("ping {} {:?} {:?} {body:?}", ping.n, ping.at, ping.kind)
            }));
            let flips = engine
                .handle
                .flips(check, Timestamp::from_micros(i64::MIN))
                .unwrap();
            all.extend(flips.iter().map(|flip| format!("{flip:?}")));
        }
    }
    all
}

fn idle(engine: &mut TestEngine) {
    (0..200).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
}

/// Number of kept pings, and of flips, of a stopped engine.
fn kept_row_counts(medium: &Medium) -> (u64, usize) {
    let store = Store::open(medium).unwrap();
    let snapshot = store.snapshot().unwrap();
    (
        snapshot.kept_len().unwrap(),
        snapshot.flips_after(FlipNumber(0)).unwrap().count(),
    )
}

#[test]
fn an_import_is_invisible_until_it_is_complete() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    let before = visible_state(&engine);
    let first = source.upload(&mut engine);
    idle(&mut engine);
    assert_eq!(visible_state(&engine), before);
    assert_eq!(source.finish(&mut engine, first, LIVE, false), Ok(0));
    let check = check_by_uuid(&engine, 21);
    let pings = engine.handle.pings(&check).unwrap();
    assert_eq!(
        pings.iter().map(|ping| ping.n).collect::<Vec<_>>(),
        [7, 6, 5, 4, 3],
        "as many as the log limit allows"
    );
    assert_eq!(engine.handle.body(&check, 4).unwrap().unwrap(), b"body 4");
    // New pings continue where the old server stopped.
    engine.execute(ping(21, PingKind::Success, "new"));
    let check = check_by_uuid(&engine, 21);
    let pings = engine.handle.pings(&check).unwrap();
    assert_eq!(
        pings.iter().map(|ping| ping.n).collect::<Vec<_>>(),
        [8, 7, 6, 5, 4]
    );
    let flips = engine
        .handle
        .flips(
            &check_by_uuid(&engine, 22),
            Timestamp::from_micros(i64::MIN),
        )
        .unwrap();
    let turns: Vec<_> = flips
        .iter()
        .map(|flip| (flip.from, flip.to, flip.cause))
        .collect();
    assert_eq!(
        turns,
        [
            (Status::Up, Status::Down, FlipCause::MissedPing),
            (Status::New, Status::Up, FlipCause::Unknown)
        ]
    );
    engine.handle.with_state(|state| {
        let key = state.key_by_hash(&SecretHash([1; 32])).unwrap();
        assert_eq!(
            state.project(key.project).unwrap().project.name.as_str(),
            "Homelab"
        );
        assert_eq!(
            state
                .channels_of(&check)
                .map(|channel| channel.uuid)
                .collect::<Vec<_>>(),
            [Uuid::from_u128(900)]
        );
    });
}

#[test]
fn an_import_is_there_after_a_restart() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    ImportFixture::new().import(&mut engine, LIVE).unwrap();
    let before = visible_state(&engine);
    drop(engine);
    assert_eq!(
        visible_state(&TestEngine::open(
            disk.medium(),
            HousekeepingLimits::default()
        )),
        before
    );
}

#[test]
fn importing_twice_has_the_effect_of_importing_once() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    source.import(&mut engine, LIVE).unwrap();
    let once = visible_state(&engine);
    let id = check_by_uuid(&engine, 21).id;
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
    assert_eq!(visible_state(&engine), once);
    assert!(check_by_uuid(&engine, 21).id > id);
    assert_eq!(engine.handle.with_state(|state| state.check_count()), 2);
    // The pings of the first import are removed from the file.
    idle(&mut engine);
    drop(engine);
    // The pings within the log limit.
    assert_eq!(kept_row_counts(&disk.medium()), (10, 3));
    assert_eq!(
        visible_state(&TestEngine::open(
            disk.medium(),
            HousekeepingLimits::default()
        )),
        once
    );
}

#[test]
fn a_check_that_left_the_source_is_deleted_and_a_project_keeps_its_number() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let mut source = ImportFixture::new();
    source.import(&mut engine, LIVE).unwrap();
    let id = check_by_uuid(&engine, 21).project;
    source.checks.remove(1);
    source.name = "Renamed";
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
    engine.handle.with_state(|state| {
        assert_eq!(
            state
                .checks()
                .map(|check| (check.uuid.as_u128(), check.project))
                .collect::<Vec<_>>(),
            [(21, id)]
        );
        assert_eq!(state.project(id).unwrap().project.name.as_str(), "Renamed");
        assert_eq!(
            state.checks_by_slug(id, &Slug::parse("check-22").unwrap()),
            []
        );
    });
}

#[test]
fn an_import_without_a_badge_key_keeps_the_one_that_the_check_got() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let mut source = ImportFixture::new();
    source
        .checks
        .iter_mut()
        .for_each(|check| check.badge = None);
    source.import(&mut engine, LIVE).unwrap();
    let badge = check_by_uuid(&engine, 21).badge;
    source.import(&mut engine, LIVE).unwrap();
    assert_eq!(check_by_uuid(&engine, 21).badge, badge);
}

#[test]
fn objects_that_were_created_here_stay_when_an_import_replaces_another() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    source.import(&mut engine, LIVE).unwrap();
    let project = check_by_uuid(&engine, 21).project;
    let secret = KeySecret::ReadOnly(SecretHash([9; 32]));
    let label = KeyLabel::default();
    engine.execute(Command::CreateKey(Box::new(NewKey {
        project,
        secret,
        label,
        hint: "mine".into(),
    })));
    let settings = ChannelSettings::parse(
        channels::find_kind("webhook").unwrap(),
        [("down-url", "http://b/")],
    )
    .unwrap();
    let uuid = Uuid::from_u128(77);
    let name = ChannelName::parse("mine").unwrap();
    engine.execute(Command::CreateChannel(Box::new(NewChannel {
        uuid,
        project,
        name,
        settings,
        set_by_operator: true,
    })));
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
    engine.handle.with_state(|state| {
        let project_state = state.project(project).unwrap();
        let uuids: Vec<_> = project_state
            .channels
            .values()
            .map(|channel| channel.uuid.as_u128())
            .collect();
        assert_eq!((uuids, project_state.keys().count()), (vec![77, 900], 2));
    });
}

#[test]
fn an_incomplete_imported_channel_keeps_its_local_settings() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    let items = |first: u64| {
        let mut items = source.objects(first);
        if let Some(ImportItem::Channel { channel, .. }) = items.get_mut(2) {
            let kind = channels::find_kind("telegram").unwrap();
            let update = SettingsUpdate::replace_all(vec![("chat".into(), "12".into())]);
            channel.settings = ImportedSettings::Incomplete {
                kind,
                settings: update,
                missing: Box::new(["token"]),
            };
            channel.health.disabled =
                Some((Timestamp::from_secs(NOW), "imported without token".into()));
        }
        items
    };
    let import = |engine: &mut TestEngine| {
        let first = begin(engine, source.number_count());
        let (pings, flips) = source.logs(first);
        step(
            engine,
            ImportStep::Log {
                import: ImportId(first),
                pings,
                flips,
            },
        )
        .unwrap();
        step(
            engine,
            ImportStep::Items {
                import: ImportId(first),
                objects: items(first),
            },
        )
        .unwrap();
        source.finish(engine, first, LIVE, false).unwrap();
    };
    let channel = |engine: &TestEngine| {
        engine.handle.with_state(|state| {
            let check = state.check_by_uuid(Uuid::from_u128(21)).unwrap();
            Arc::clone(state.channels_of(check).next().unwrap())
        })
    };
    import(&mut engine);
    let before = channel(&engine);
    assert_eq!(
        before.settings.missing_setting().as_deref(),
        Some("token is missing; give token=SECRET")
    );
    assert_eq!(
        before.health.disabled.as_ref().map(|(_, reason)| &**reason),
        Some("imported without token")
    );
    let update = SettingsUpdate::merge(vec![("token".into(), "1:a".into())]);
    let author = overdue::domain::channel::SettingsAuthor::Operator;
    engine.execute(Command::UpdateChannel {
        channel: before.id,
        name: None,
        settings: Some(update),
        author,
    });
    let completed = channel(&engine);
    assert_eq!(
        (
            completed.settings.missing_setting(),
            &completed.health.disabled
        ),
        (None, &None)
    );
    import(&mut engine);
    let after = channel(&engine);
    assert_eq!(
        (&after.settings, &after.health.disabled),
        (&completed.settings, &None)
    );
}

#[test]
fn an_import_that_is_idle_for_an_hour_leaves_nothing() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    let first = source.upload(&mut engine);
    engine.clock.advance_secs(3599);
    idle(&mut engine);
    assert_eq!(engine.handle.with_state(|state| state.imports.len()), 1);
    engine.clock.advance_secs(2);
    idle(&mut engine);
    assert!(engine.handle.with_state(|state| state.imports.is_empty()));
    assert_eq!(
        source.finish(&mut engine, first, LIVE, false),
        Err(ImportStepError::UnknownImport)
    );
    drop(engine);
    assert_eq!(kept_row_counts(&disk.medium()), (0, 0));
}

#[test]
fn an_import_that_is_abandoned_or_ends_with_the_server_leaves_nothing() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    // Another import begins, and a check that exists keeps its data.
    ImportFixture::new().import(&mut engine, LIVE).unwrap();
    let before = visible_state(&engine);
    let other = ImportFixture {
        uuid: 501,
        name: "Other",
        key: 2,
        channel: 901,
        checks: vec![imported_check(31, Status::Up)],
        pings: 7,
    };
    let abandoned = other.upload(&mut engine);
    let stays = other.upload(&mut engine);
    step(
        &mut engine,
        ImportStep::Abandon {
            import: ImportId(abandoned),
        },
    )
    .unwrap();
    idle(&mut engine);
    assert_eq!(visible_state(&engine), before);
    other.finish(&mut engine, stays, LIVE, false).unwrap();
    assert_eq!(
        engine
            .handle
            .pings(&check_by_uuid(&engine, 31))
            .unwrap()
            .len(),
        5
    );
    let before = visible_state(&engine);
    other.upload(&mut engine);
    drop(engine);
    assert_eq!(kept_row_counts(&disk.medium()), (24, 5));
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    idle(&mut engine);
    assert_eq!(visible_state(&engine), before);
    drop(engine);
    assert_eq!(kept_row_counts(&disk.medium()), (15, 4));
}

#[test]
fn a_full_disk_refuses_and_has_its_space_again() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    engine.create_check(7);
    engine.execute(ping(7, PingKind::Success, ""));
    disk.set_capacity(Some(disk.len() + (1 << 20)));
    let first = begin(&mut engine, 10);
    let body = |n| NumberedPing {
        body: vec![7; 100_000].into(),
        ..staged_ping(CheckId(first + 3), n)
    };
    let fill = |engine: &mut TestEngine| {
        (1..1000).find_map(|n| {
            let import = ImportId(first);
            let pings = (10 * n..10 * n + 10).map(body).collect();
            let answer = engine
                .batch([stage(ImportStep::Log {
                    import,
                    pings,
                    flips: Vec::new(),
                })])
                .remove(0);
            (!matches!(answer, Ok(Ok(_)))).then_some(answer)
        })
    };
    assert_eq!(
        fill(&mut engine),
        Some(Err(overdue::engine::command::Unavailable::StorageFailed))
    );
    // The import has ended: its leftovers are removed to make room.
    idle(&mut engine);
    assert!(
        engine.handle.is_writable() && engine.handle.with_state(|state| state.imports.is_empty())
    );
    engine.execute(ping(7, PingKind::Success, ""));
    drop(engine);
    assert_eq!(kept_row_counts(&disk.medium()).0, 0);
}

#[test]
fn edits_of_a_check_are_detected() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    source.import(&mut engine, LIVE).unwrap();
    assert!(check_by_uuid(&engine, 21).state.unused_since_import);
    let id = check_by_uuid(&engine, 21).id;
    engine.execute(Command::UpdateCheck(id, Box::default()));
    assert!(!check_by_uuid(&engine, 21).state.unused_since_import);
}

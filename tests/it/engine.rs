//! Rules of the engine that show only between the writer's steps.

use std::sync::Arc;

use overdue::channels;
use overdue::domain::channel::{ChannelSettings, SettingsAuthor, SettingsUpdate};
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::flip::FlipCause;
use overdue::domain::ids::ProjectId;
use overdue::domain::number::Seconds;
use overdue::domain::ping::{PingKind, PingMeaning};
use overdue::domain::project::ChannelName;
use overdue::domain::status::{Status, VisibleStatus};
use overdue::domain::text::{Description, Keywords};
use overdue::domain::timestamp::Timestamp;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{
    Command, CommandError, CommandOutcome, NewChannel, PrecomputedMeaning,
};
use overdue::store::{Medium, Store};

use crate::support::commands::{email_ping, ping};
use crate::support::disk::Disk;
use crate::support::engine::TestEngine;

#[test]
fn a_deadline_counts_from_its_microsecond_even_before_it_is_noticed() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    // A run on a paused check with manual resume: pings are ignored until the run is overdue, and
    // count from then on.
    let id = engine.create_check(7);
    engine.execute(Command::PauseCheck(id, None));
    engine.execute(ping(7, PingKind::Start, ""));
    engine.execute(Command::UpdateCheck(
        id,
        Box::new(CheckEdit {
            manual_resume: Some(true),
            ..CheckEdit::default()
        }),
    ));
    let deadline = engine.handle.now().plus_secs(Seconds::HOUR.get());
    engine.clock.set(deadline.plus_micros(-1));
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(engine.read_check(id).state.status, Status::Paused);
    engine.clock.set(deadline);
    engine.execute(ping(7, PingKind::Success, ""));
    let check = engine.read_check(id);
    assert_eq!(
        check.state.visible_status(&check.settings, deadline),
        VisibleStatus::Up
    );
    let kinds: Vec<_> = engine
        .handle
        .pings(&check)
        .unwrap()
        .iter()
        .map(|ping| ping.kind)
        .collect();
    assert_eq!(
        kinds,
        [PingKind::Success, PingKind::Ignored, PingKind::Start]
    );
    let flips: Vec<_> = engine
        .handle
        .flips(&check, Timestamp::default())
        .unwrap()
        .iter()
        .map(|flip| (flip.at, flip.to))
        .collect();
    assert_eq!(
        flips[..2],
        [(deadline, Status::Up), (deadline, Status::Down)]
    );
}

#[test]
fn a_stop_of_the_writer_does_not_wait_for_housekeeping() {
    let disk = Disk::default();
    let one_at_a_time = HousekeepingLimits {
        slice_rows: 1,
        min_tail: 1,
        tail_per_check: 0,
        slack_entries: 8,
        ..HousekeepingLimits::default()
    };
    let mut engine = TestEngine::open(disk.medium(), one_at_a_time);
    engine.create_project(2);
    let ids: Vec<_> = (7..27).map(|uuid| engine.create_check(uuid)).collect();
    // A checkpoint of twenty slices has begun, and every check is due.
    engine.batch((7..27).map(|uuid| ping(uuid, PingKind::Success, "")));
    engine.clock.advance_secs(10 * 86_400);
    engine.handle.close();
    assert_eq!(engine.writer.step(false), Ok(false));
    drop(engine);
    let mut engine = TestEngine::open(disk.medium(), one_at_a_time);
    engine.clock.advance_secs(10 * 86_400);
    assert_eq!(engine.writer.step(false), Ok(true));
    let checks = ids
        .iter()
        .map(|id| engine.read_check(*id).state)
        .map(|state| (state.n_pings, state.status));
    assert!(checks.eq([(1, Status::Down); 20]));
}

#[test]
fn a_raised_log_limit_restores_nothing_beyond_a_gap() {
    let sweep_at_once = HousekeepingLimits {
        slice_rows: 100,
        min_tail: 1,
        tail_per_check: 0,
        slack_entries: 8,
        ..HousekeepingLimits::default()
    };
    let mut engine = TestEngine::open(Medium::memory(), sweep_at_once);
    engine.create_project(2);
    let id = engine.create_check(7);
    let other = engine.create_check(8);
    engine.execute(ping(7, PingKind::Success, "first"));
    // The two pings of the first check stay, while the sweep has passed the other check's pings.
    engine.execute(ping(7, PingKind::Success, "second"));
    (0..50).for_each(|_| drop(engine.execute(ping(8, PingKind::Success, ""))));
    assert_eq!(
        engine
            .handle
            .body(&engine.read_check(id), 1)
            .unwrap()
            .as_deref(),
        Some(&b"first"[..])
    );
    // No pings of the other check are kept, so the kept pings of the first are not examined,
    // although they exceed the limit now.
    engine.execute(Command::DeleteCheck(other));
    engine.batch((0..50).map(|_| ping(7, PingKind::Success, "")));
    let ping_log_limit = Some(1000);
    engine.execute(Command::UpdateProject {
        project: ProjectId(1),
        name: None,
        check_limit: None,
        ping_log_limit,
        allows_ping_settings: None,
    });
    let numbers: Vec<_> = engine
        .handle
        .pings(&engine.read_check(id))
        .unwrap()
        .iter()
        .map(|ping| ping.n)
        .collect();
    let without_gap: Vec<_> = (1..=52).rev().take(numbers.len()).collect();
    assert_eq!(numbers, without_gap);
    assert!((2..52).contains(&numbers.len()), "{} pings", numbers.len());
}

#[test]
fn a_mail_is_searched_again_only_if_the_keywords_of_its_check_changed() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let id = engine.create_check(7);
    let edit = |success: &str| {
        let success_kw = Some(Keywords::parse(success).unwrap());
        Command::UpdateCheck(
            id,
            Box::new(CheckEdit {
                success_kw,
                filter_subject: Some(true),
                ..CheckEdit::default()
            }),
        )
    };
    engine.execute(edit("OK"));
    let by = Arc::clone(&engine.read_check(id).settings);
    // The listener has found a keyword in the part that it does not pass on.
    let mail = || {
        Command::Mail(vec![email_ping(
            7,
            "beginning",
            Some(PrecomputedMeaning {
                meaning: PingMeaning::Success,
                settings: Arc::clone(&by),
            }),
            "",
        )])
    };
    engine.execute(mail());
    engine.execute(Command::UpdateCheck(
        id,
        Box::new(CheckEdit {
            desc: Some(Description::from_stored("new")),
            ..CheckEdit::default()
        }),
    ));
    engine.execute(mail());
    engine.execute(edit("fine"));
    engine.execute(mail());
    engine.execute(edit("beginning"));
    engine.execute(mail());
    let kinds: Vec<_> = engine
        .handle
        .pings(&engine.read_check(id))
        .unwrap()
        .iter()
        .rev()
        .map(|ping| ping.kind)
        .collect();
    assert_eq!(
        kinds,
        [
            PingKind::Success,
            PingKind::Success,
            PingKind::Ignored,
            PingKind::Success
        ]
    );
}

#[test]
fn a_start_replays_the_log_without_repeating_decisions() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let id = engine.create_check(7);
    engine.execute(ping(7, PingKind::Success, ""));
    engine.clock.advance_secs(3600);
    engine.execute(ping(7, PingKind::Log, ""));
    // The process ends without a clean stop. By the rules of the next start, the check was due
    // before its last ping.
    drop(engine);
    let store = Store::open(&disk.medium()).unwrap();
    let mut check = store
        .snapshot()
        .unwrap()
        .checks()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(check.state.n_pings, 0);
    let settings = Arc::make_mut(&mut check.settings);
    (settings.timeout, settings.grace) = (Seconds::parse(60).unwrap(), Seconds::parse(60).unwrap());
    let batch = store.batch().unwrap();
    batch.put_checks([&check]).unwrap();
    batch.commit().unwrap();
    drop(store);

    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.clock.advance_secs(3600);
    let flips = |engine: &TestEngine| {
        let flips = engine
            .handle
            .flips(&engine.read_check(id), Timestamp::default())
            .unwrap();
        flips
            .iter()
            .map(|flip| (flip.to, flip.cause))
            .collect::<Vec<_>>()
    };
    let up = (Status::Up, FlipCause::Success);
    assert_eq!(
        (
            engine.read_check(id).state.status,
            engine.read_check(id).state.n_pings,
            flips(&engine)
        ),
        (Status::Up, 2, vec![up])
    );
    // The passed deadline is noticed as usual, with a flip in the log.
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(
        (engine.read_check(id).state.status, flips(&engine)),
        (
            Status::Down,
            vec![(Status::Down, FlipCause::MissedPing), up]
        )
    );
}

#[test]
fn a_scan_of_every_check_does_not_delay_pings() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let id = engine.create_check(7);
    let handle = engine.handle.clone();
    let (tell, pinged) = std::sync::mpsc::channel();
    let mut engine = Some((engine, tell));
    handle.for_each_check(ProjectId(1), |_| {
        let (mut engine, tell) = engine.take().unwrap();
        std::thread::spawn(move || {
            engine.execute(ping(7, PingKind::Success, ""));
            tell.send(engine.read_check(id).state.n_pings)
        });
        assert_eq!(
            pinged.recv_timeout(std::time::Duration::from_secs(20)),
            Ok(1)
        );
    });
    assert!(engine.is_none(), "no check was shown");
}

#[test]
fn a_mask_keeps_the_secret_stored_at_the_time_of_the_change() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let kind = channels::find_kind("webhook").unwrap();
    let url = ("up-url", "http://a/");
    let name = ChannelName::parse("hook").unwrap();
    let settings = ChannelSettings::parse(kind, [url, ("header.key", "first")]).unwrap();
    let uuid = uuid::Uuid::from_u128(9);
    let project = ProjectId(1);
    let CommandOutcome::Channel(channel) =
        engine.execute(Command::CreateChannel(Box::new(NewChannel {
            uuid,
            project,
            name,
            settings,
            set_by_operator: false,
        })))
    else {
        panic!("a channel was to be made")
    };
    let set = |pairs: &[(&str, &str)]| {
        let update = SettingsUpdate::replace_all(
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
        );
        Command::UpdateChannel {
            channel: channel.id,
            name: None,
            settings: Some(update),
            author: SettingsAuthor::Api,
        }
    };
    // Both requests began while the first secret was stored.
    let answers = engine.batch([
        set(&[url, ("header.key", "second")]),
        set(&[url, ("header.key", "***"), ("method", "PUT")]),
        set(&[("up-url", "http://b/"), ("header.key", "***")]),
    ]);
    assert!(
        matches!(
            &answers[2],
            Ok(Err(CommandError::InvalidSettings(error)))
                if error.to_string().contains("names another server")
        ),
        "{answers:?}"
    );
    engine.handle.with_state(|state| {
        let settings = &state.channel(channel.id).unwrap().settings;
        assert_eq!(
            settings.pairs().collect::<Vec<_>>(),
            [("header.key", "second"), ("method", "PUT"), url]
        );
    });
}

#[cfg(debug_assertions)]
#[test]
fn reading_the_state_twice_at_a_time_by_one_thread_panics_in_debug_builds() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let handle = engine.handle.clone();
    let count =
        |handle: &overdue::engine::Handle| handle.with_state(|state| state.projects().count());
    let twice = || handle.with_state(|_| count(&handle));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(twice)).is_err());
    // Two reads in sequence are allowed, as are two threads at the same time, and the panic has no
    // effect on later reads.
    assert_eq!((count(&handle), count(&handle)), (1, 1));
    let other = handle.clone();
    assert_eq!(
        handle.with_state(|_| std::thread::spawn(move || count(&other)).join().unwrap()),
        1
    );
}

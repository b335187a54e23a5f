//! A trial tells nobody; what is live tells what it should, and raises no false alarm at the switch.

use overdue::clock::ManualClock;
use overdue::domain::alert::{DeliveryOutcome, Event, Held, Telling};
use overdue::domain::ids::DeliveryNumber;

use super::*;
use crate::support::engine;

fn told(engine: &Engine) -> Vec<(u128, Event)> {
    engine.handle.with_state(|state| {
        state.outbox.rows().map(|row| (state.check(row.check).map_or(0, |check| check.uuid.as_u128()), row.event)).collect()
    })
}

fn pass(engine: &mut Engine, secs: i64) {
    engine.clock.advance_secs(secs);
    idle(engine);
}

fn release(engine: &mut Engine) -> Result<Outcome, StageRefusal> {
    let project = found(engine, 21).project;
    step(engine, StageCommand::Release(project))
}

#[test]
fn a_trial_tells_nobody_until_it_is_released() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    Source::new().import(&mut engine, ImportMode::Trial).unwrap();
    // It was down and told: that it is up again is told to nobody.
    engine.done(ping(22, Kind::Success, ""));
    engine.done(ping(22, Kind::Fail, ""));
    pass(&mut engine, 3 * 86_400);
    drop(engine);
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.clock.advance_secs(3 * 86_400);
    pass(&mut engine, 3600);
    assert_eq!(told(&engine), []);
    for uuid in [21, 22] {
        let state = found(&engine, uuid).state;
        assert!(matches!((state.status, state.telling), (Status::Down, Telling::Due { held: Held::Trial, .. })), "{uuid}: {state:?}");
    }
    let log = engine.handle.deliveries(DeliveryNumber(u64::MAX), 10, |_| true).unwrap();
    let log: Vec<_> = log.iter().map(|delivery| (delivery.event, delivery.outcome, &*delivery.reason)).collect();
    assert_eq!(log, [(Event::Up, DeliveryOutcome::Skipped, "its project is on trial")]);
    release(&mut engine).unwrap();
    assert_eq!(told(&engine), [(21, Event::Down), (22, Event::Down)]);
    assert_eq!(release(&mut engine), Err(StageRefusal::NotHeld));
}

#[test]
fn what_was_told_where_it_came_from_is_not_told_again() {
    for mode in [ImportMode::Trial, LIVE] {
        let mut engine = Engine::open(Medium::memory(), Thresholds::default());
        Source::new().import(&mut engine, mode).unwrap();
        if mode == ImportMode::Trial {
            release(&mut engine).unwrap();
        }
        pass(&mut engine, 3600);
        assert_eq!(told(&engine), []);
        engine.done(ping(22, Kind::Success, ""));
        assert_eq!(told(&engine), [(22, Event::Up)]);
    }
}

#[test]
fn what_is_live_tells_a_failure_at_once_and_silence_after_another_chance() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let mut source = Source::new();
    // Expected within the time between the last thing in the source and now, or before it; and one with time left.
    let silent = |uuid, ago: i64| {
        let mut check = imported_check(uuid, Status::Up);
        check.state.last_ping = Some(Moment::from_secs(NOW - ago));
        check
    };
    source.checks = vec![silent(21, 86_400 + 3600 + 300), silent(22, 86_400 + 3600 + 300), silent(23, 60)];
    source.pings = 0;
    let live = ImportMode::Live { newest: Some(Moment::from_secs(NOW - 600)) };
    source.import(&mut engine, live).unwrap();
    pass(&mut engine, 1);
    for uuid in [21, 22] {
        let state = found(&engine, uuid).state;
        assert!(matches!(state.telling, Telling::Due { held: Held::Away, .. }), "{uuid}: {state:?}");
    }
    assert_eq!(told(&engine), []);
    // One reports here: its ping had only been lost at the switch.
    engine.done(ping(21, Kind::Success, ""));
    engine.done(ping(23, Kind::Fail, ""));
    assert_eq!(told(&engine), [(23, Event::Down)]);
    pass(&mut engine, 15 * 60);
    assert_eq!(told(&engine), [(23, Event::Down), (22, Event::Down)]);
    // The next silence is told at once.
    pass(&mut engine, 86_400 + 3600);
    assert_eq!(told(&engine).last(), Some(&(21, Event::Down)));
}

#[test]
fn what_the_old_server_had_not_told_yet_is_told() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let mut source = Source::new();
    source.checks[1].state.telling = Telling::Due { at: Moment::from_secs(NOW), held: Held::Away };
    source.import(&mut engine, LIVE).unwrap();
    pass(&mut engine, 16 * 60);
    assert_eq!(told(&engine), [(22, Event::Down)]);
}

#[test]
fn a_trial_becomes_live_by_another_import() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let source = Source::new();
    source.import(&mut engine, ImportMode::Trial).unwrap();
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
    engine.done(ping(21, Kind::Fail, ""));
    assert_eq!(told(&engine), [(21, Event::Down)]);
    // And the other way round: what waits is not sent any more.
    let first = source.hand_over(&mut engine);
    source.finish(&mut engine, first, ImportMode::Trial, true).unwrap();
    idle(&mut engine);
    assert_eq!(told(&engine), []);
}

#[test]
fn a_recovery_that_was_not_told_where_it_came_from_is_told_once() {
    let mut source = Source::new();
    let state = &mut source.checks[0].state;
    assert_eq!(state.status, Status::Up);
    state.telling = Telling::Told;
    let uuid = source.checks[0].uuid.as_u128();
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    source.import(&mut engine, LIVE).unwrap();
    assert_eq!((told(&engine), found(&engine, uuid).state.telling), (vec![(uuid, Event::Up)], Telling::Quiet));
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    source.import(&mut engine, ImportMode::Trial).unwrap();
    release(&mut engine).unwrap();
    assert_eq!(told(&engine), []);
}

#[test]
fn the_log_is_told_of_trials_once_a_day() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    let lines = |engine: &mut Engine, hours: i64| engine::told("on trial", || (0..hours).for_each(|_| pass(engine, 3601)));
    assert_eq!(lines(&mut engine, 2), <[&str; 0]>::default());
    Source::new().import(&mut engine, ImportMode::Trial).unwrap();
    let told = lines(&mut engine, 1);
    let line = "1 project is on trial and nobody is told of failures there, until `overdue project release`: \"Homelab\"";
    assert!(told.len() == 1 && told[0].ends_with(line), "{told:?}");
    assert_eq!(lines(&mut engine, 23), <[&str; 0]>::default());
    assert_eq!(lines(&mut engine, 24).len(), 1);
    drop(engine);
    // A server that starts says it at once, and a command that has the database to itself never does.
    let open = |takes_pings| {
        let clock = ManualClock::at(Moment::from_secs(NOW + 10 * 86_400));
        let set = |config: &mut overdue::engine::Config| config.takes_pings = takes_pings;
        let (handle, writer) = engine::open(disk.medium(), &clock, set).unwrap();
        Engine { handle, writer, clock }
    };
    let mut alone = open(false);
    assert_eq!(lines(&mut alone, 2), <[&str; 0]>::default());
    drop(alone);
    let mut engine = open(true);
    assert_eq!(engine::told("on trial", || idle(&mut engine)).len(), 1);
    let told = engine::told("from now on", || drop(release(&mut engine).unwrap()));
    assert!(told.len() == 1 && told[0].ends_with("1 imported project tells of failures from now on: \"Homelab\""), "{told:?}");
    let told = engine::told("from now on", || assert_eq!(Source::new().import(&mut engine, LIVE), Ok(1)));
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(lines(&mut engine, 26), <[&str; 0]>::default());
}

//! Behind a check that is down and told, those that depend on it are told only if they report a failure, or stay down when it is up again.

use overdue::domain::parents::{Parents, ParentsError};
use overdue::engine::command::Refusal;

use super::*;

const PERIOD: i64 = 60;

/// A check that is expected every minute, with `grace`, and depends on others.
fn dependent(engine: &mut Engine, uuid: u128, grace: i64, parents: &[CheckId]) -> CheckId {
    let [timeout, grace] = [PERIOD, grace].map(|secs| Some(Seconds::parse(secs).unwrap()));
    let edit = Edit { channels: Some(ChannelChoice::All), timeout, grace, ..Edit::default() };
    let id = match engine.done(create_check(MAIN, uuid, edit)) {
        Outcome::Created(check) => check.id,
        outcome => panic!("{outcome:?}"),
    };
    depend(engine, id, parents).unwrap();
    id
}

fn depend(engine: &mut Engine, check: CheckId, parents: &[CheckId]) -> Result<Outcome, Refusal> {
    let parents = Some(Parents::new(parents.to_vec()).unwrap());
    engine.batch([Command::SetAlerting { check, after: None, parents }]).remove(0).unwrap()
}

fn pass(engine: &mut Engine, secs: i64) {
    for _ in 0..secs {
        engine.clock.advance_secs(1);
        engine.writer.step(false).unwrap();
    }
}

fn told(engine: &Engine) -> Vec<(CheckId, Event)> {
    waiting(engine).into_iter().map(|(_, check, event)| (check, event)).collect()
}

fn held(engine: &Engine, id: CheckId) -> Option<Held> {
    match engine.seen(id).state.telling {
        Telling::Due { held, .. } => Some(held),
        _ => None,
    }
}

/// A router, a host behind it and a job on that; all are up.
fn chain() -> (Engine, ChannelId, [CheckId; 3]) {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let router = dependent(&mut engine, 7, 60, &[]);
    let host = dependent(&mut engine, 8, 120, &[router]);
    let job = dependent(&mut engine, 9, 180, &[host]);
    for uuid in [7, 8, 9] {
        engine.done(ping(uuid, Kind::Success, ""));
    }
    (engine, hook, [router, host, job])
}

#[test]
fn behind_a_parent_that_is_down_and_told_nothing_is_told() {
    let (mut engine, _, [router, host, job]) = chain();
    pass(&mut engine, 500);
    assert_eq!(told(&engine), [(router, Event::Down)]);
    assert_eq!((held(&engine, host), held(&engine, job)), (Some(Held::Behind(router)), Some(Held::Behind(host))));
    // It stays so, however long it takes.
    pass(&mut engine, 3 * Held::LOOK_SECS);
    assert_eq!(told(&engine), [(router, Event::Down)]);
    // Whoever is up soon after the parent was never told; whoever is not is told after its grace.
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!((held(&engine, host), held(&engine, job)), (Some(Held::Parent), Some(Held::Parent)));
    engine.done(ping(8, Kind::Success, ""));
    for _ in 0..19 {
        pass(&mut engine, 10);
        engine.done(ping(7, Kind::Success, ""));
        engine.done(ping(8, Kind::Success, ""));
    }
    assert_eq!(told(&engine), [(router, Event::Down), (router, Event::Up), (job, Event::Down)]);
    let quiet = "it was up again soon after a parent".to_owned();
    assert_eq!(outcomes(&engine), [(Event::Down, DeliveryOutcome::Skipped, quiet)]);
}

#[test]
fn a_failure_that_is_reported_is_told_behind_every_parent() {
    let (mut engine, _, [router, host, _]) = chain();
    pass(&mut engine, 300);
    engine.done(ping(8, Kind::Fail, ""));
    assert_eq!(told(&engine), [(router, Event::Down), (host, Event::Down)]);
}

#[test]
fn a_parent_with_the_longer_period_is_waited_for_once() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = dependent(&mut engine, 7, 600, &[]);
    let host = dependent(&mut engine, 8, 60, &[router]);
    for uuid in [7, 8] {
        engine.done(ping(uuid, Kind::Success, ""));
    }
    pass(&mut engine, 125);
    assert_eq!((told(&engine), held(&engine, host)), (vec![], Some(Held::Parent)));
    pass(&mut engine, 540);
    assert_eq!((told(&engine), held(&engine, host)), (vec![(router, Event::Down)], Some(Held::Behind(router))));
    // This time the parent turns out to be there.
    for uuid in [7, 8] {
        engine.done(ping(uuid, Kind::Success, ""));
    }
    pass(&mut engine, 125);
    assert_eq!(held(&engine, host), Some(Held::Parent));
    engine.done(ping(7, Kind::Success, ""));
    pass(&mut engine, 530);
    assert_eq!(held(&engine, host), Some(Held::Parent));
    pass(&mut engine, 10);
    assert_eq!(told(&engine), [(router, Event::Down), (router, Event::Up), (host, Event::Down)]);
}

#[test]
fn nothing_hides_behind_a_parent_of_which_nobody_hears() {
    for change in 0..6 {
        let (mut engine, hook, [router, host, _]) = chain();
        pass(&mut engine, 300);
        assert_eq!(held(&engine, host), Some(Held::Behind(router)));
        match change {
            0 => drop(engine.done(Command::DeleteCheck(router))),
            1 => drop(engine.done(Command::Pause(router))),
            2 => drop(depend(&mut engine, host, &[]).unwrap()),
            3 => drop(engine.done(Command::AssignChannel { channel: hook, checks: vec![router], assigned: false })),
            4 => {
                let rows = numbers(&engine);
                begin(&mut engine, rows.clone());
                report(&mut engine, hook, rows, SendOutcome::Failed("refused".into()));
                assert_eq!(engine.seen(router).state.telling, Telling::Unheard);
            }
            _ => {
                let second = channel(&mut engine, 2, "webhook", HOOK);
                engine.done(Command::AssignChannel { channel: second, checks: vec![host], assigned: true });
                engine.done(Command::DisableChannel { channel: hook, reason: "gone".into() });
                pass(&mut engine, Held::LOOK_SECS);
            }
        }
        pass(&mut engine, 125);
        assert!(engine.seen(host).state.telling == Telling::Told, "{change}: {:?}", engine.seen(host).state.telling);
    }
}

#[test]
fn parents_are_of_the_same_project_and_make_no_circle() {
    let (mut engine, _, [router, host, job]) = chain();
    let other = dependent(&mut engine, 10, 60, &[]);
    let refused = |error| Err(Refusal::Parents(error));
    for (check, parents, expected) in [
        (router, vec![job], refused(ParentsError::Circle)),
        (router, vec![router], refused(ParentsError::Circle)),
        (router, vec![other, host], refused(ParentsError::Circle)),
        (router, vec![CheckId(999)], refused(ParentsError::NotFound)),
        (CheckId(999), vec![router], Err(Refusal::NotFound)),
    ] {
        assert_eq!(depend(&mut engine, check, &parents).map(drop), expected, "{check:?} {parents:?}");
    }
    assert_eq!(Parents::new((1..=9).map(CheckId).collect()), Err(ParentsError::TooMany));
    assert_eq!(Parents::new([1; 20].map(CheckId).to_vec()).unwrap().ids(), [CheckId(1)]);
    // A chain of 32 levels is the longest.
    let mut below = job;
    for level in 3..Parents::MOST_LEVELS {
        below = dependent(&mut engine, 100 + level as u128, 60, &[below]);
    }
    let last = dependent(&mut engine, 500, 60, &[]);
    depend(&mut engine, last, &[below]).map(drop).unwrap_or_else(|error| panic!("{error:?}"));
    let beyond = dependent(&mut engine, 501, 60, &[]);
    assert_eq!(depend(&mut engine, beyond, &[last]).map(drop), refused(ParentsError::TooDeep));
    // Those that are gone are forgotten.
    engine.done(Command::DeleteCheck(router));
    let Outcome::Check(changed) = engine.done(Command::Pause(host)) else { panic!() };
    assert_eq!(changed.settings.parents, Parents::default());
}

#[test]
fn who_hides_behind_whom_is_found_again_by_a_start() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = dependent(&mut engine, 7, 60, &[]);
    let host = dependent(&mut engine, 8, 120, &[router]);
    for uuid in [7, 8] {
        engine.done(ping(uuid, Kind::Success, ""));
    }
    pass(&mut engine, 300);
    let before = engine.seen(host);
    assert_eq!(held(&engine, host), Some(Held::Behind(router)));
    let now = engine.handle.now();
    drop(engine);
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.clock.set(now);
    assert_eq!(engine.seen(host), before);
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!(held(&engine, host), Some(Held::Parent));
}

#[test]
fn a_parent_that_went_down_first_hides_its_children_whichever_is_looked_at_first() {
    let (mut engine, _, [router, host, _]) = chain();
    let grace = Edit { grace: Some(Seconds::parse(60).unwrap()), ..Edit::default() };
    engine.done(Command::UpdateCheck(host, Box::new(grace)));
    let now = engine.handle.now();
    for (uuid, micros) in [(7, 1000), (8, 2000)] {
        engine.clock.set(now.plus_micros(micros));
        engine.done(ping(uuid, Kind::Success, ""));
    }
    // Both deadlines have passed, and the tick in which the engine notices that by itself has not begun.
    engine.clock.set(now.plus_micros(3000).plus_secs(120));
    engine.done(Command::Expire(vec![host, router]));
    assert_eq!((told(&engine), held(&engine, host)), (vec![(router, Event::Down)], Some(Held::Behind(router))));
}

#[test]
fn a_ping_of_the_parent_comes_after_what_fell_due_of_its_children() {
    let notices = [false, true].map(|is_noticed_first| {
        let mut engine = Engine::open(Medium::memory(), Thresholds::default());
        engine.project(100);
        channel(&mut engine, 1, "webhook", HOOK);
        let router = dependent(&mut engine, 7, 600, &[]);
        let host = dependent(&mut engine, 8, 60, &[router]);
        engine.done(ping(7, Kind::Success, ""));
        engine.clock.advance_secs(60);
        for uuid in [7, 8] {
            engine.done(ping(uuid, Kind::Success, ""));
        }
        engine.clock.set(engine.handle.now().plus_secs(120).plus_micros(1));
        if is_noticed_first {
            engine.done(Command::Expire(vec![host]));
        }
        engine.done(ping(7, Kind::Success, ""));
        pass(&mut engine, 1);
        (told(&engine), held(&engine, host))
    });
    assert_eq!(notices, [(vec![], Some(Held::Parent)), (vec![], Some(Held::Parent))]);
}

#[test]
fn nothing_hides_behind_a_parent_whose_alert_has_ended_the_server_too_often() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = dependent(&mut engine, 7, 60, &[]);
    let host = dependent(&mut engine, 8, 120, &[router]);
    for uuid in [7, 8] {
        engine.done(ping(uuid, Kind::Success, ""));
    }
    pass(&mut engine, 300);
    let (rows, now) = (numbers(&engine), engine.handle.now());
    for _ in 0..3 {
        begin(&mut engine, rows.clone());
        drop(engine);
        engine = reopened(&disk, now);
    }
    assert_eq!(held(&engine, host), Some(Held::Behind(router)));
    begin(&mut engine, rows);
    assert_eq!(engine.seen(router).state.telling, Telling::Unheard);
    assert_eq!(held(&engine, host), Some(Held::Parent));
}

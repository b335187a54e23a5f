//! What goes down while a maintenance window is open for it is told when that closes, if it is still down.

use overdue::domain::ids::WindowId;
use overdue::domain::text::{Name, Tags};
use overdue::domain::window::GivenTimes;
use overdue::engine::command::{NewWindow, Refusal};

use super::*;

/// A window from now on.
fn window(engine: &mut Engine, minutes: u64, tags: &str) -> WindowId {
    let now = engine.handle.now();
    let times = GivenTimes { minutes: Some(minutes), ..GivenTimes::default() }.read(now).unwrap();
    let (uuid, name, tags) = (engine.handle.random().uuid(), Name::parse("move").unwrap(), Tags::parse(tags).unwrap());
    match engine.done(Command::CreateWindow(Box::new(NewWindow { uuid, project: MAIN, name, tags, times }))) {
        Outcome::Window(window) => window.id,
        outcome => panic!("{outcome:?}"),
    }
}

fn tag(engine: &mut Engine, id: CheckId, tags: &str) {
    engine.done(Command::UpdateCheck(id, Box::new(Edit { tags: Some(Tags::parse(tags).unwrap()), ..Edit::default() })));
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

fn is_held(engine: &Engine, id: CheckId) -> bool {
    matches!(engine.seen(id).state.telling, Telling::Due { held: Held::Window, .. })
}

#[test]
fn what_goes_down_in_a_window_is_told_when_it_closes() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let [early, moved, other, brief] = [7, 8, 9, 10].map(|uuid| check(&mut engine, uuid));
    for id in [early, moved, brief] {
        tag(&mut engine, id, "db prod");
    }
    engine.done(ping(7, Kind::Fail, ""));
    window(&mut engine, 40, "db");
    for uuid in [8, 9, 10] {
        engine.done(ping(uuid, Kind::Fail, ""));
    }
    assert_eq!(told(&engine), [(early, Event::Down), (other, Event::Down)]);
    // That it is up again is told, whatever is open.
    engine.done(ping(7, Kind::Success, ""));
    engine.done(ping(10, Kind::Success, ""));
    pass(&mut engine, 40 * 60 - 1);
    assert!(is_held(&engine, moved) && !is_held(&engine, brief));
    assert_eq!(told(&engine), [(early, Event::Down), (other, Event::Down), (early, Event::Up)]);
    pass(&mut engine, 2);
    assert_eq!(told(&engine).last(), Some(&(moved, Event::Down)));
    let within = "it was up again within a maintenance window".to_owned();
    assert_eq!(outcomes(&engine), [(Event::Down, DeliveryOutcome::Skipped, within)]);
}

#[test]
fn a_window_that_is_removed_holds_nothing_back_any_more() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    let [first, second] = [600, 60].map(|minutes| window(&mut engine, minutes, ""));
    engine.done(ping(7, Kind::Fail, ""));
    engine.done(Command::DeleteWindow(MAIN, first));
    assert!(is_held(&engine, id), "another one is open");
    engine.done(Command::DeleteWindow(MAIN, second));
    assert_eq!(told(&engine), [(id, Event::Down)]);
    let again = engine.batch([Command::DeleteWindow(MAIN, second)]).remove(0).unwrap();
    assert_eq!(again, Err(Refusal::NotFound));
}

#[test]
fn a_check_that_leaves_a_window_by_its_tags_is_told() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    tag(&mut engine, id, "db");
    window(&mut engine, 600, "db");
    engine.done(ping(7, Kind::Fail, ""));
    assert!(is_held(&engine, id));
    tag(&mut engine, id, "web");
    assert_eq!(told(&engine), [(id, Event::Down)]);
}

#[test]
fn windows_are_found_again_by_a_start_and_go_with_their_project() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    window(&mut engine, 60, "");
    engine.done(ping(7, Kind::Fail, ""));
    let (before, now) = (engine.seen(id), engine.handle.now());
    let windows =
        |engine: &Engine| engine.handle.with_state(|state| state.project(MAIN).map(|project_state| project_state.windows.clone()));
    let kept = windows(&engine);
    drop(engine);
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.clock.set(now);
    assert_eq!((engine.seen(id), windows(&engine)), (before, kept));
    engine.done(Command::DeleteProject(MAIN));
    drop(engine);
    let engine = Engine::open(disk.medium(), Thresholds::default());
    assert_eq!(windows(&engine), None);
}

#[test]
fn a_project_has_so_many_windows_and_forgets_those_that_are_long_over() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let count = |engine: &Engine| engine.handle.with_state(|state| state.project(MAIN).unwrap().windows.len());
    for _ in 0..200 {
        window(&mut engine, 1, "");
    }
    let times = GivenTimes { minutes: Some(1), ..GivenTimes::default() }.read(engine.handle.now()).unwrap();
    let (uuid, name, tags) = (engine.handle.random().uuid(), Name::default(), Tags::default());
    let more = Command::CreateWindow(Box::new(NewWindow { uuid, project: MAIN, name, tags, times }));
    assert_eq!(engine.batch([more.clone()]).remove(0).unwrap(), Err(Refusal::WindowLimit));
    engine.clock.advance_secs(31 * 86_400);
    engine.done(more);
    assert_eq!(count(&engine), 1);
}

#[test]
fn a_ping_that_finds_its_deadline_passed_in_a_window_notifies_nobody() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let parent = every(&mut engine, 6, 86_400, 3600);
    let [muted, child] = [7, 8].map(|uuid| every(&mut engine, uuid, 60, 60));
    tag(&mut engine, muted, "db");
    window(&mut engine, 60, "db");
    let parents = Some(overdue::domain::parents::Parents::new(vec![parent]).unwrap());
    engine.done(Command::SetAlerting { check: child, after: None, parents });
    engine.done(ping(6, Kind::Fail, ""));
    engine.batch([7, 8].map(|uuid| ping(uuid, Kind::Success, "")));
    // Sooner than the deadline is noticed by itself.
    let deadline = engine.handle.now().plus_secs(120);
    engine.clock.set(deadline.plus_micros(3000));
    engine.batch([7, 8].map(|uuid| ping(uuid, Kind::Success, "")));
    assert_eq!(told(&engine), [(parent, Event::Down)]);
    let skipped = |reason: &str| (Event::Down, DeliveryOutcome::Skipped, reason.to_owned());
    let reasons = ["it was up again within a maintenance window", "it was down while a parent was, and up again before that"];
    assert_eq!(outcomes(&engine), reasons.map(skipped));
}

#[test]
fn what_a_removed_window_held_back_is_told_a_batch_at_a_time() {
    const CHECKS: u128 = 40;
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = Engine::open(disk.medium(), Thresholds { alert_rows: 10, ..Thresholds::default() });
        engine.project(100);
        channel(&mut engine, 1, "webhook", HOOK);
        let other = window(&mut engine, 600, "db");
        let id = window(&mut engine, 600, "");
        let all: Vec<_> = (0..CHECKS).map(|uuid| check(&mut engine, 100 + uuid)).collect();
        tag(&mut engine, all[0], "db");
        for uuid in 0..CHECKS {
            engine.done(ping(100 + uuid, Kind::Fail, ""));
        }
        engine.done(Command::DeleteWindow(MAIN, id));
        assert_eq!(told(&engine).len(), 10);
        if restarts {
            let now = engine.handle.now();
            drop(engine);
            engine = reopened(&disk, now);
        }
        let mut before = told(&engine).len();
        for _ in 0..5 {
            engine.clock.advance_secs(1);
            assert_eq!(engine.writer.step(false), Ok(true));
            assert!(restarts || told(&engine).len() - before <= 10, "{} rows in one batch", told(&engine).len() - before);
            before = told(&engine).len();
        }
        assert_eq!(before, CHECKS as usize - 1, "within seconds; restarts: {restarts}");
        assert!(is_held(&engine, all[0]), "by the other window");
        engine.done(Command::DeleteWindow(MAIN, other));
        assert_eq!(told(&engine).len(), CHECKS as usize);
    }
}

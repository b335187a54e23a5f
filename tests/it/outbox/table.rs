//! Every way down, with everything that can hold the telling of it back: what is told, what it waits for, and whether its end is told.

use overdue::domain::parents::Parents;
use overdue::domain::text::{Name, Tags};
use overdue::domain::window::GivenTimes;
use overdue::engine::command::NewWindow;

use super::*;

/// How a check goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// It was up, and its ping is missing.
    Late,
    /// It was up, new or paused, and reports a failure.
    FailsUp,
    FailsNew,
    FailsPaused,
    /// It was up, and a run that it reported did not end.
    Overrun,
    /// It was up, and by other settings its ping is missing.
    Edited,
}

/// What may hold it back.
#[derive(Clone, Copy, Debug)]
struct Case {
    way: Way,
    /// It has to fail so often in a row.
    after: u64,
    /// A maintenance window is open.
    window: bool,
    /// It depends on a check that is up (`Some(false)`), or down, which was told.
    parent: Option<bool>,
    /// No pings could be taken for a while.
    away: bool,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let ways = [Way::Late, Way::FailsUp, Way::FailsNew, Way::FailsPaused, Way::Overrun, Way::Edited];
        (0..ways.len() * 2 * 2 * 3 * 2).map(move |number| Self {
            way: ways[number / 24],
            after: if number % 2 == 0 { 1 } else { 3 },
            window: number / 2 % 2 == 1,
            away: number / 4 % 2 == 1,
            parent: [None, Some(false), Some(true)][number / 8 % 3],
        })
    }

    fn is_silent(self) -> bool {
        matches!(self.way, Way::Late | Way::Overrun | Way::Edited)
    }

    /// What it waits for; the rules in their order.
    fn held(self, parent: CheckId) -> Option<Held> {
        let is_silent = self.is_silent();
        if self.away && is_silent {
            Some(Held::Away)
        } else if self.after > 1 {
            Some(Held::Failures)
        } else if self.window {
            Some(Held::Window)
        } else if is_silent && self.parent == Some(true) {
            Some(Held::Behind(parent))
        } else {
            None
        }
    }

    /// Makes the check go down. The time without pings is too long to be none, and a ping is expected in it.
    fn go_down(self, engine: &mut Engine, id: CheckId) {
        let pause = |engine: &mut Engine| if self.away { sleep(engine, 50) } else { wait(engine, 50) };
        match self.way {
            Way::FailsNew => pause(engine),
            Way::FailsPaused => {
                engine.done(Command::Pause(id));
                pause(engine);
            }
            Way::FailsUp => {
                engine.done(ping(7, Kind::Success, ""));
                pause(engine);
            }
            Way::Late => {
                engine.done(ping(7, Kind::Success, ""));
                wait(engine, 290);
                pause(engine);
                return wait(engine, 21);
            }
            Way::Overrun => {
                engine.done(ping(7, Kind::Success, ""));
                engine.done(ping(7, Kind::Start, ""));
                pause(engine);
                return wait(engine, 11);
            }
            Way::Edited => {
                engine.done(ping(7, Kind::Success, ""));
                wait(engine, 30);
                pause(engine);
                wait(engine, 100);
                let shortest = Some(Seconds::parse(60).unwrap());
                let edit = Edit { timeout: shortest, grace: shortest, ..Edit::default() };
                return drop(engine.done(Command::UpdateCheck(id, Box::new(edit))));
            }
        }
        engine.done(ping(7, Kind::Fail, ""));
    }
}

#[test]
fn whatever_takes_a_check_down_is_told_unless_something_holds_it_back() {
    for case in Case::all() {
        let mut engine = Engine::open(Medium::memory(), Thresholds::default());
        engine.project(100);
        let (hook, parent) = (channel(&mut engine, 1, "webhook", HOOK), every(&mut engine, 6, 86_400, 3600));
        let id = every(&mut engine, 7, 300, 60);
        let parents = case.parent.map(|_| Parents::new(vec![parent]).unwrap());
        engine.done(Command::SetAlerting { check: id, after: Some(Failures::parse(case.after).unwrap()), parents });
        engine.done(ping(6, if case.parent == Some(true) { Kind::Fail } else { Kind::Success }, ""));
        let before = waiting(&engine).len();
        if case.window {
            let times = GivenTimes { minutes: Some(600), ..GivenTimes::default() }.read(engine.handle.now()).unwrap();
            let (uuid, name, tags) = (engine.handle.random().uuid(), Name::default(), Tags::default());
            engine.done(Command::CreateWindow(Box::new(NewWindow { uuid, project: MAIN, name, tags, times })));
        }
        case.go_down(&mut engine, id);
        let check = engine.seen(id);
        let held = match check.state.telling {
            Telling::Due { held, .. } => Some(held),
            _ => None,
        };
        assert_eq!((check.state.status, held), (Status::Down, case.held(parent)), "{case:?}");
        let told = |engine: &Engine| waiting(engine)[before..].to_vec();
        let mut expected = if held.is_none() { vec![(hook, id, Event::Down)] } else { Vec::new() };
        assert_eq!(told(&engine), expected, "{case:?}");
        // Its end is told to those who know that it was down, and the log says why nobody does.
        engine.done(ping(7, Kind::Success, ""));
        if held.is_none() {
            expected.push((hook, id, Event::Up));
        }
        assert_eq!((told(&engine), engine.seen(id).state.telling), (expected, Telling::Quiet), "{case:?}");
        let quiet: Vec<_> = finished(&engine).into_iter().map(|delivery| (delivery.outcome, delivery.reason.to_string())).collect();
        let reason = |held: Held| (DeliveryOutcome::Skipped, held.reason(Status::Up).to_owned());
        assert_eq!(quiet, held.map(reason).into_iter().collect::<Vec<_>>(), "{case:?}");
    }
}

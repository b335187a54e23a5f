//! An engine without doors, stepped by hand, for tests that need to stand between its steps; and the rules that show only there.

use std::sync::Arc;

use bytes::Bytes;
use overdue::clock::{Clock, ManualClock};
use overdue::domain::check::Check;
use overdue::domain::edit::Edit;
use overdue::domain::flip::Cause;
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::moment::Moment;
use overdue::domain::ping::{Kind, Method, Origin, Scheme};
use overdue::domain::project::ProjectName;
use overdue::domain::status::{Status, VisibleStatus};
use overdue::domain::text::Seconds;
use overdue::engine::command::{Answer, CheckNames, Command, CreateCheck, NewProject, Outcome, PingRequest, Signal, Target};
use overdue::engine::{self, Config, Handle, Thresholds, Writer};
use overdue::random::Random;
use overdue::store::{Medium, Store};
use uuid::Uuid;

use crate::disk::Disk;

pub(crate) struct Engine {
    pub(crate) handle: Handle,
    pub(crate) writer: Writer,
    pub(crate) clock: Arc<ManualClock>,
}

impl Engine {
    pub(crate) fn open(medium: Medium, thresholds: Thresholds) -> Self {
        let clock = ManualClock::at(Moment::from_secs(1_800_000_000));
        let config =
            Config { medium, clock: Clock::Manual(Arc::clone(&clock)), random: Random::seeded(1), ping_body_limit: 100_000, thresholds };
        let (handle, writer) = engine::open(config).expect("the database opens");
        Self { handle, writer, clock }
    }

    /// Submits commands together, lets the writer make one step, and returns the answers.
    pub(crate) fn batch(&mut self, commands: impl IntoIterator<Item = Command>) -> Vec<Answer> {
        let replies: Vec<_> = commands.into_iter().map(|command| self.handle.submit(command).expect("there is room")).collect();
        assert_eq!(self.writer.step(false), Ok(true));
        replies.into_iter().map(|mut reply| reply.try_recv().expect("an answer")).collect()
    }

    /// Has a command carried out.
    pub(crate) fn done(&mut self, command: Command) -> Outcome {
        self.batch([command]).remove(0).expect("the disk is sound").expect("nothing is wrong with the command")
    }

    /// Makes a project with the number 1.
    pub(crate) fn project(&mut self, ping_log_limit: u32) {
        let name = ProjectName::parse("default").unwrap();
        let (uuid, badge_key) = (Uuid::from_u128(1), "badge".into());
        self.done(Command::CreateProject(Box::new(NewProject { uuid, name, check_limit: None, ping_log_limit, badge_key })));
    }

    /// Makes a check of project 1.
    pub(crate) fn check(&mut self, uuid: u128) -> CheckId {
        match self.done(create(uuid)) {
            Outcome::Created(check) => check.id,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// The check as doors see it.
    pub(crate) fn seen(&self, id: CheckId) -> Check {
        self.handle.state().check(id).expect("the check").clone()
    }
}

pub(crate) fn create(uuid: u128) -> Command {
    let names = CheckNames { uuid: Uuid::from_u128(uuid), badge: Uuid::from_u128(uuid + (1 << 64)) };
    Command::CreateCheck(Box::new(CreateCheck { project: ProjectId(1), edit: Edit::default(), unique: Vec::new(), names }))
}

pub(crate) fn ping(uuid: u128, kind: Kind, body: impl Into<Bytes>) -> Command {
    let origin = Origin { scheme: Scheme::Http, method: Method::Post, remote_addr: Some([127, 0, 0, 1].into()), ua: "test".into() };
    let (target, signal) = (Target::Uuid(Uuid::from_u128(uuid)), Signal::Http(kind));
    Command::Ping(Box::new(PingRequest { target, signal, origin, rid: None, body: body.into() }))
}

#[test]
fn a_deadline_counts_from_its_microsecond_whether_or_not_it_has_been_noticed() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    // A run on a paused check that does not resume by itself: pings are ignored until it is overdue, and count from then on.
    let id = engine.check(7);
    engine.done(Command::Pause(id));
    engine.done(ping(7, Kind::Start, ""));
    engine.done(Command::UpdateCheck(id, Box::new(Edit { manual_resume: Some(true), ..Edit::default() })));
    let deadline = engine.handle.now().plus_secs(Seconds::HOUR.get());
    engine.clock.set(deadline.plus_micros(-1));
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!(engine.seen(id).state.status, Status::Paused);
    engine.clock.set(deadline);
    engine.done(ping(7, Kind::Success, ""));
    let check = engine.seen(id);
    assert_eq!(check.state.visible_status(&check.settings, deadline), VisibleStatus::Up);
    let kinds: Vec<_> = engine.handle.pings(&check).unwrap().iter().map(|ping| ping.kind).collect();
    assert_eq!(kinds, [Kind::Success, Kind::Ignored, Kind::Start]);
    let flips: Vec<_> = engine.handle.flips(&check, Moment::default()).unwrap().iter().map(|flip| (flip.at, flip.to)).collect();
    assert_eq!(flips[..2], [(deadline, Status::Up), (deadline, Status::Down)]);
}

#[test]
fn a_writer_that_stops_waits_for_no_housekeeping() {
    let disk = Disk::default();
    let one_at_a_time = Thresholds { slice: 1, least_tail: 1, tail_per_check: 0, slack: 8 };
    let mut engine = Engine::open(disk.medium(), one_at_a_time);
    engine.project(2);
    let ids: Vec<_> = (7..27).map(|uuid| engine.check(uuid)).collect();
    // A checkpoint of twenty slices has begun, and every check has come due.
    engine.batch((7..27).map(|uuid| ping(uuid, Kind::Success, "")));
    engine.clock.advance_secs(10 * 86_400);
    engine.handle.close();
    assert_eq!(engine.writer.step(false), Ok(false));
    drop(engine);
    let mut engine = Engine::open(disk.medium(), one_at_a_time);
    engine.clock.advance_secs(10 * 86_400);
    assert_eq!(engine.writer.step(false), Ok(true));
    let checks = ids.iter().map(|id| engine.seen(*id).state).map(|state| (state.n_pings, state.status));
    assert!(checks.eq([(1, Status::Down); 20]));
}

#[test]
fn a_raised_log_limit_brings_nothing_back_beyond_a_gap() {
    let sweep_at_once = Thresholds { slice: 100, least_tail: 1, tail_per_check: 0, slack: 8 };
    let mut engine = Engine::open(Medium::memory(), sweep_at_once);
    engine.project(2);
    let (id, other) = (engine.check(7), engine.check(8));
    engine.done(ping(7, Kind::Success, "first"));
    // The two pings of the first check stay while the log is swept behind those of the other.
    engine.done(ping(7, Kind::Success, "second"));
    (0..50).for_each(|_| drop(engine.done(ping(8, Kind::Success, ""))));
    assert_eq!(engine.handle.body(&engine.seen(id), 1).unwrap().as_deref(), Some(&b"first"[..]));
    // Nothing of the other's is kept, so what is kept of the first is not looked at, although its pings are beyond the limit now.
    engine.done(Command::DeleteCheck(other));
    engine.batch((0..50).map(|_| ping(7, Kind::Success, "")));
    let ping_log_limit = Some(1000);
    engine.done(Command::SetProject { project: ProjectId(1), name: None, check_limit: None, ping_log_limit });
    let numbers: Vec<_> = engine.handle.pings(&engine.seen(id)).unwrap().iter().map(|ping| ping.n).collect();
    let without_gap: Vec<_> = (1..=52).rev().take(numbers.len()).collect();
    assert_eq!(numbers, without_gap);
    assert!((2..52).contains(&numbers.len()), "{} pings", numbers.len());
}

#[test]
fn a_start_takes_the_log_as_it_is_and_decides_nothing_anew() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    let id = engine.check(7);
    engine.done(ping(7, Kind::Success, ""));
    engine.clock.advance_secs(3600);
    engine.done(ping(7, Kind::Log, ""));
    // The process ends without a word. Under the rules that hold at the next start the check had been due before its last ping.
    drop(engine);
    let store = Store::open(&disk.medium()).unwrap();
    let mut check = store.snapshot().unwrap().checks().unwrap().next().unwrap().unwrap();
    assert_eq!(check.state.n_pings, 0);
    let settings = Arc::make_mut(&mut check.settings);
    (settings.timeout, settings.grace) = (Seconds::parse(60).unwrap(), Seconds::parse(60).unwrap());
    let batch = store.batch().unwrap();
    batch.put_checks([&check]).unwrap();
    batch.commit().unwrap();
    drop(store);

    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.clock.advance_secs(3600);
    let flips = |engine: &Engine| {
        let flips = engine.handle.flips(&engine.seen(id), Moment::default()).unwrap();
        flips.iter().map(|flip| (flip.to, flip.cause)).collect::<Vec<_>>()
    };
    let up = (Status::Up, Cause::Success);
    assert_eq!((engine.seen(id).state.status, engine.seen(id).state.n_pings, flips(&engine)), (Status::Up, 2, vec![up]));
    // The deadline that has passed is noticed as always, with a flip that is logged.
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!((engine.seen(id).state.status, flips(&engine)), (Status::Down, vec![(Status::Down, Cause::Late), up]));
}

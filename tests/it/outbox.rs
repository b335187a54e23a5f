//! What flips put into the outbox, and what becomes of it.

mod audience;
mod parents;
mod shares;
mod table;
mod windows;

use std::sync::Arc;

use overdue::clock::ManualClock;
use overdue::domain::alert::{Delivery, DeliveryOutcome, Event, Held, Telling};
use overdue::domain::channel::{ChannelKind, ChannelSettings, GivenSettings, Maker};
use overdue::domain::edit::{ChannelChoice, Edit};
use overdue::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId};
use overdue::domain::moment::Moment;
use overdue::domain::ping::Kind;
use overdue::domain::project::{ChannelName, KeyHash, KeyLabel, Secret};
use overdue::domain::schedule::Schedule;
use overdue::domain::status::Status;
use overdue::domain::text::{Failures, Seconds};
use overdue::engine::Thresholds;
use overdue::engine::command::{Command, NewChannel, NewKey, Outcome, Report, SendOutcome, Unavailable};
use overdue::store::Medium;
use uuid::Uuid;

use crate::support::build::{create_check, ping};
use crate::support::disk::{Disk, Operation};
use crate::support::engine::{Engine, open};

const MAIN: ProjectId = ProjectId(1);
const HOOK: &[(&str, &str)] = &[("down-url", "http://a/down"), ("up-url", "http://a/up")];

pub(crate) fn channel(engine: &mut Engine, uuid: u128, kind: &str, pairs: &[(&str, &str)]) -> ChannelId {
    let settings = ChannelSettings::parse(ChannelKind::named(kind).unwrap(), pairs.iter().copied()).unwrap();
    let (uuid, name) = (Uuid::from_u128(uuid), ChannelName::parse("").unwrap());
    let channel = NewChannel { uuid, project: MAIN, name, settings, operator: true };
    match engine.done(Command::CreateChannel(Box::new(channel))) {
        Outcome::Channel(channel) => channel.id,
        outcome => panic!("{outcome:?}"),
    }
}

/// A check that is told to all channels that there are.
fn check(engine: &mut Engine, uuid: u128) -> CheckId {
    match engine.done(create_check(MAIN, uuid, Edit { channels: Some(ChannelChoice::All), ..Edit::default() })) {
        Outcome::Created(check) => check.id,
        outcome => panic!("{outcome:?}"),
    }
}

fn waiting(engine: &Engine) -> Vec<(ChannelId, CheckId, Event)> {
    engine.handle.with_state(|state| state.outbox.rows().map(|row| (row.channel, row.check, row.event)).collect())
}

fn numbers(engine: &Engine) -> Vec<DeliveryNumber> {
    engine.handle.with_state(|state| state.outbox.rows().map(|row| row.number).collect())
}

/// What has become of what waited, oldest first.
fn finished(engine: &Engine) -> Vec<Delivery> {
    let mut deliveries = engine.handle.deliveries(DeliveryNumber(u64::MAX), 1000, |_| true).unwrap();
    deliveries.reverse();
    deliveries
}

fn outcomes(engine: &Engine) -> Vec<(Event, DeliveryOutcome, String)> {
    finished(engine).into_iter().map(|delivery| (delivery.event, delivery.outcome, delivery.reason.into())).collect()
}

fn begin(engine: &mut Engine, numbers: Vec<DeliveryNumber>) -> Vec<(u16, bool)> {
    match engine.done(Command::BeginDeliveries(numbers, None)) {
        Outcome::Begun(rows) => rows.iter().map(|row| (row.attempts, row.doubtful)).collect(),
        outcome => panic!("{outcome:?}"),
    }
}

fn report(engine: &mut Engine, channel: ChannelId, rows: Vec<DeliveryNumber>, sent: SendOutcome) {
    engine.done(Command::ReportDeliveries(vec![Report {
        recipients: Default::default(),
        channel,
        sent_to: None,
        told_with: rows.first().copied(),
        rows,
        sent,
        status: 202,
    }]));
}

#[test]
fn down_is_told_to_every_channel_and_up_to_those_who_were_told() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let (hook, only_up) = (channel(&mut engine, 1, "webhook", HOOK), channel(&mut engine, 2, "webhook", &[("up-url", "http://a/")]));
    let id = check(&mut engine, 7);
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!(waiting(&engine), [], "new to up is told to nobody");
    engine.clock.advance_secs(86_400 + 3600 + 1);
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!((waiting(&engine), engine.seen(id).state.telling), (vec![(hook, id, Event::Down)], Telling::Told));
    // Another failure of a check that is down is no news.
    engine.done(ping(7, Kind::Fail, ""));
    assert_eq!(waiting(&engine).len(), 1);
    engine.done(ping(7, Kind::Success, ""));
    let all = vec![(hook, id, Event::Down), (hook, id, Event::Up), (only_up, id, Event::Up)];
    assert_eq!((waiting(&engine), engine.seen(id).state.telling), (all, Telling::Quiet));
    engine.handle.with_state(|state| {
        let row = state.outbox.rows().next().unwrap();
        let flip = engine.handle.flip(row.flip).unwrap().unwrap();
        assert_eq!((flip.check, flip.flip.at, row.queued), (id, row.at, row.at.plus_secs(1)));
    });
}

#[test]
fn pauses_are_told_to_nobody_and_failures_of_paused_checks_are() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    engine.done(ping(7, Kind::Fail, ""));
    assert_eq!(waiting(&engine), [(hook, id, Event::Down)]);
    for command in [Command::Pause(id), Command::Resume(id), ping(7, Kind::Success, ""), Command::Pause(id)] {
        engine.done(command);
    }
    assert_eq!((waiting(&engine).len(), engine.seen(id).state.telling), (1, Telling::Quiet));
    engine.done(ping(7, Kind::Fail, ""));
    assert_eq!(waiting(&engine), [(hook, id, Event::Down); 2]);
}

#[test]
fn incidents_end_when_their_channel_is_told_no_more_about_the_check() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let (hook, pager) = (channel(&mut engine, 1, "webhook", HOOK), channel(&mut engine, 2, "pd", &[("key", &"k".repeat(32))]));
    let id = check(&mut engine, 7);
    let assign = |channel, assigned| Command::AssignChannel { channel, checks: vec![id], assigned };
    engine.done(assign(pager, false));
    assert_eq!(waiting(&engine), [], "it was never told");
    engine.done(assign(pager, true));
    engine.done(ping(7, Kind::Fail, ""));
    engine.done(assign(hook, false));
    engine.done(assign(pager, false));
    // The service was told that all is well.
    engine.done(assign(pager, true));
    let closed = Edit { channels: Some(ChannelChoice::Listed(Vec::new())), ..Edit::default() };
    engine.done(Command::UpdateCheck(id, Box::new(closed)));
    let again = [(pager, Event::Down), (pager, Event::Closed)];
    let told = [(hook, Event::Down)].into_iter().chain(again).chain(again).collect::<Vec<_>>();
    assert_eq!(waiting(&engine), told.into_iter().map(|(channel, event)| (channel, id, event)).collect::<Vec<_>>());
}

#[test]
fn attempts_are_counted_and_interrupted_ones_are_marked() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    engine.done(ping(7, Kind::Fail, ""));
    let all = numbers(&engine);
    assert_eq!(begin(&mut engine, vec![all[0], DeliveryNumber(99)]), [(1, false)], "what is not there is not begun");
    report(&mut engine, hook, all.clone(), SendOutcome::Later { reason: "no answer".into(), doubtful: false });
    let failing = |engine: &Engine| engine.handle.with_state(|state| state.channel(hook).unwrap().health.failing.clone());
    assert_eq!(failing(&engine), Some((engine.handle.now(), "no answer".into())));
    assert_eq!(begin(&mut engine, all.clone()), [(2, false)]);
    for round in 1..=3 {
        // The process ends without a word.
        drop(engine);
        engine = Engine::open(disk.medium(), Thresholds::default());
        let begun = begin(&mut engine, all.clone());
        assert_eq!(begun, if round < 3 { vec![(2 + round, true)] } else { vec![] });
    }
    assert_eq!(waiting(&engine), []);
    assert_eq!(outcomes(&engine), [(Event::Down, DeliveryOutcome::Failed, "sending it ended the server three times".into())]);
    // The next one has its own number, after a start too.
    drop(engine);
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!(waiting(&engine), [(hook, id, Event::Up)]);
    assert!(numbers(&engine)[0] > all[0]);
}

#[test]
fn a_delivery_is_logged_and_a_channel_that_refuses_is_told_nothing_more() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    for kind in [Kind::Fail, Kind::Success, Kind::Fail] {
        engine.done(ping(7, kind, ""));
    }
    let all = numbers(&engine);
    begin(&mut engine, all.clone());
    report(&mut engine, hook, vec![all[2], all[0]], SendOutcome::Delivered);
    let found = finished(&engine);
    let told: Vec<_> = found.iter().map(|delivery| (delivery.number, delivery.status, delivery.attempts, delivery.told_with)).collect();
    assert_eq!(told, [(all[0], 202, 1, Some(all[2])), (all[2], 202, 1, None)]);
    assert!(found.iter().all(|delivery| (delivery.check, delivery.channel, delivery.finished) == (id, hook, engine.handle.now())));
    report(&mut engine, hook, vec![all[1]], SendOutcome::Closed("410 Gone".into()));
    let channel = |engine: &Engine| engine.handle.with_state(|state| state.channel(hook).unwrap().clone());
    assert_eq!(channel(&engine).health.disabled, Some((engine.handle.now(), "410 Gone".into())));
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!((waiting(&engine), outcomes(&engine)[3].2.as_str()), (vec![], "the channel is disabled"));
    engine.done(Command::EnableChannel(hook));
    engine.done(ping(7, Kind::Fail, ""));
    assert_eq!((waiting(&engine), channel(&engine).health.is_well()), (vec![(hook, id, Event::Down)], true));
    // Disabled again: what waits is left out.
    engine.done(Command::DisableChannel { channel: hook, reason: "enough".into() });
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(waiting(&engine), []);
}

#[test]
fn too_many_changes_of_a_check_leave_the_oldest_out_and_say_so() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    check(&mut engine, 7);
    engine.done(ping(7, Kind::Fail, ""));
    let first = numbers(&engine);
    begin(&mut engine, first);
    for _ in 0..50 {
        engine.done(ping(7, Kind::Success, ""));
        engine.done(ping(7, Kind::Fail, ""));
    }
    engine.handle.with_state(|state| {
        let rows: Vec<_> = state.outbox.of_channel(hook).map(|row| (row.event, row.begun.is_some())).collect();
        assert!(rows.len() <= 8 && rows[0] == (Event::Down, true) && rows[rows.len() - 1].0 == Event::Down, "{rows:?}");
        assert!(rows.windows(2).all(|pair| pair[0].0 != pair[1].0), "down and up take turns: {rows:?}");
        let skipped: u16 = state.outbox.rows().map(|row| row.skipped).sum();
        let left_out = finished(&engine).iter().filter(|delivery| delivery.outcome == DeliveryOutcome::Superseded).count();
        assert_eq!((usize::from(skipped), left_out + rows.len()), (left_out, 101));
    });
}

#[test]
fn what_waits_goes_with_its_check_its_channel_and_its_project() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let (one, two) = (channel(&mut engine, 1, "webhook", HOOK), channel(&mut engine, 2, "webhook", HOOK));
    let ids = [7, 8].map(|uuid| check(&mut engine, uuid));
    for uuid in [7, 8] {
        engine.done(ping(uuid, Kind::Fail, ""));
    }
    engine.done(Command::DeleteCheck(ids[0]));
    assert_eq!(waiting(&engine), [(one, ids[1], Event::Down), (two, ids[1], Event::Down)]);
    engine.done(Command::DeleteChannel(one));
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(waiting(&engine), [(two, ids[1], Event::Down)]);
    engine.done(Command::DeleteProject(MAIN));
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(waiting(&engine), []);
    let reasons: Vec<_> = outcomes(&engine).into_iter().map(|(.., reason)| reason).collect();
    assert_eq!(reasons, ["the check was deleted", "the check was deleted", "the channel was deleted", "the channel was deleted"]);
}

#[test]
fn deliveries_are_kept_for_thirty_days() {
    let mut engine = Engine::open(Medium::memory(), Thresholds { slice: 4, ..Thresholds::default() });
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    check(&mut engine, 7);
    for day in 0..40 {
        engine.done(ping(7, if day % 2 == 0 { Kind::Fail } else { Kind::Success }, ""));
        let all = numbers(&engine);
        begin(&mut engine, all.clone());
        report(&mut engine, hook, all, SendOutcome::Delivered);
        for _ in 0..24 {
            engine.clock.advance_secs(3600);
            assert_eq!(engine.writer.step(false), Ok(true));
        }
    }
    for _ in 0..10 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    let from = engine.handle.now().plus_secs(-31 * 86_400);
    let found = finished(&engine);
    assert!(found.len() >= 30 && found.iter().all(|delivery| delivery.finished >= from), "{}", found.len());
}

/// The machine sleeps for so many seconds.
fn sleep(engine: &mut Engine, secs: i64) {
    engine.clock.correct(engine.handle.now().plus_secs(secs));
    assert_eq!(engine.writer.step(false), Ok(true));
}

fn every(engine: &mut Engine, uuid: u128, period: i64, grace: i64) -> CheckId {
    let seconds = |number| Some(Seconds::parse(number).unwrap());
    let edit = Edit { channels: Some(ChannelChoice::All), timeout: seconds(period), grace: seconds(grace), ..Edit::default() };
    match engine.done(create_check(MAIN, uuid, edit)) {
        Outcome::Created(check) => check.id,
        outcome => panic!("{outcome:?}"),
    }
}

fn wait(engine: &mut Engine, secs: i64) {
    engine.clock.advance_secs(secs);
    assert_eq!(engine.writer.step(false), Ok(true));
}

#[test]
fn checks_whose_pings_may_have_been_lost_get_the_chance_to_report_again() {
    // Period and grace, seconds after the end of the outage at which the alert is due, whether that is for the outage.
    for (period, grace, due) in [(300, 60, 360), (60, 60, 120), (3600, 60, 120), (600, 600, 120)] {
        let mut engine = Engine::open(Medium::memory(), Thresholds::default());
        engine.project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        let id = every(&mut engine, 7, period, grace);
        engine.done(ping(7, Kind::Success, ""));
        // Nobody could ping from just before it was expected until it had been due.
        wait(&mut engine, period - 20);
        sleep(&mut engine, grace + 30);
        let check = engine.seen(id);
        assert_eq!(check.state.status, Status::Down, "the status is as the contract says");
        let at = engine.handle.now().plus_secs(due);
        assert_eq!((check.state.telling, waiting(&engine)), (Telling::Due { at, held: Held::Away }, vec![]), "{period} {grace}");
        wait(&mut engine, due - 1);
        assert_eq!(waiting(&engine), []);
        assert!(engine.writer.covers_all_deadlines());
        wait(&mut engine, 2);
        assert_eq!(waiting(&engine), [(hook, id, Event::Down)], "{period} {grace}");
        assert!(engine.handle.with_state(|state| state.outbox.rows().all(|row| row.away)));
    }
}

#[test]
fn checks_that_report_after_an_outage_are_told_to_nobody_and_the_log_says_why() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let ids = [7, 8, 9].map(|uuid| every(&mut engine, uuid, 300, 60));
    for uuid in [7, 8, 9] {
        engine.done(ping(uuid, Kind::Success, ""));
    }
    wait(&mut engine, 10);
    sleep(&mut engine, 590);
    wait(&mut engine, 60);
    engine.done(ping(7, Kind::Success, ""));
    // A failure is news of its own, outage or not.
    engine.done(ping(8, Kind::Fail, ""));
    let told: Vec<_> = waiting(&engine).into_iter().map(|(_, check, event)| (check, event)).collect();
    assert_eq!(told, [(ids[1], Event::Down)]);
    assert!(engine.handle.with_state(|state| state.outbox.rows().all(|row| !row.away)));
    let reason = "it was up again soon after a time in which no pings could be taken".to_owned();
    assert_eq!(outcomes(&engine), [(Event::Down, DeliveryOutcome::Skipped, reason)]);
    // Long after the outage its deadline counts again.
    wait(&mut engine, 3600);
    assert_eq!(waiting(&engine).len(), 3);
}

#[test]
fn a_check_may_have_to_fail_several_times_until_that_is_told() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 300, 60);
    engine.done(Command::SetAlerting { check: id, after: Some(Failures::parse(3).unwrap()), parents: None });
    // Reported failures count.
    for told in [0, 0, 1, 1] {
        engine.done(ping(7, Kind::Fail, ""));
        assert_eq!(waiting(&engine).len(), told);
    }
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!(waiting(&engine), [(hook, id, Event::Down), (hook, id, Event::Up)]);
    // Missed pings count, and so does every further one that would have been expected.
    for (secs, told) in [(361, 2), (299, 2), (2, 2), (300, 3)] {
        wait(&mut engine, secs);
        assert_eq!(waiting(&engine).len(), told, "{secs}");
    }
    engine.done(ping(7, Kind::Success, ""));
    // One that recovers before is told to nobody.
    wait(&mut engine, 400);
    assert!(matches!(engine.seen(id).state.telling, Telling::Due { held: Held::Failures, .. }));
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!((waiting(&engine).len(), outcomes(&engine).len()), (4, 1));
    // Fewer are asked for while it is down: it is told.
    wait(&mut engine, 400);
    engine.done(Command::SetAlerting { check: id, after: Some(Failures::ONE), parents: None });
    assert_eq!(waiting(&engine).len(), 5);
}

#[test]
fn what_holds_the_telling_back_survives_a_start() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 300, 60);
    engine.done(Command::SetAlerting { check: id, after: Some(Failures::parse(2).unwrap()), parents: None });
    engine.done(ping(7, Kind::Fail, ""));
    let telling = engine.seen(id).state.telling;
    assert_eq!(telling, Telling::Due { at: engine.handle.now().plus_secs(360), held: Held::Failures });
    let now = engine.handle.now();
    drop(engine);
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.clock.set(now);
    assert_eq!(engine.seen(id).state.telling, telling);
    wait(&mut engine, 361);
    assert_eq!(waiting(&engine), [(hook, id, Event::Down)]);
}

/// What the engine remembers of times without pings, in seconds before now.
fn remembered(engine: &Engine) -> Vec<(i64, i64)> {
    let now = engine.handle.now();
    let ago = |at: Moment| now.micros_since(at) / 1_000_000;
    engine.handle.with_state(|state| state.away.iter().map(|away| (ago(away.from), ago(away.to))).collect())
}

#[test]
fn every_time_in_which_no_pings_could_be_taken_is_noticed() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 300, 60);
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!(remembered(&engine), []);
    // The process ends without a word, and is started again.
    wait(&mut engine, 100);
    engine.done(ping(7, Kind::Success, ""));
    let began = engine.handle.now().plus_secs(600);
    drop(engine);
    let reopen = |at: Moment| {
        let clock = ManualClock::at(at);
        let (handle, writer) = open(disk.medium(), &clock, |_| ()).unwrap();
        Engine { handle, writer, clock }
    };
    let mut engine = reopen(began);
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(remembered(&engine), [(600, 0)]);
    let held = Telling::Due { at: began.plus_secs(360), held: Held::Away };
    assert_eq!((engine.seen(id).state.status, engine.seen(id).state.telling), (Status::Down, held));
    // A short restart is none; neither is one of a server that was idle for long.
    engine.done(ping(7, Kind::Success, ""));
    drop(engine);
    let mut engine = reopen(began.plus_secs(29));
    for _ in 0..20 {
        wait(&mut engine, 60);
    }
    assert_eq!(remembered(&engine).len(), 1);
    // A clean stop says when it was.
    engine.handle.close();
    while engine.writer.step(false) == Ok(true) {}
    let stopped = engine.handle.now();
    drop(engine);
    let mut engine = reopen(stopped.plus_secs(45));
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(remembered(&engine).last(), Some(&(45, 0)));
    // The machine sleeps: the clock goes on, and no time passes.
    wait(&mut engine, 900);
    engine.clock.correct(engine.handle.now().plus_secs(3600));
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(remembered(&engine).last(), Some(&(3600, 0)));
    // The disk takes nothing for a while.
    wait(&mut engine, 900);
    disk.fail(Operation::Write, 0);
    assert_eq!(engine.batch([ping(7, Kind::Success, "")]), [Err(Unavailable::Storage)]);
    for _ in 0..5 {
        engine.clock.advance_secs(10);
        let _ = engine.writer.step(false);
    }
    disk.heal();
    for _ in 0..3 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    assert_eq!(remembered(&engine).last(), Some(&(50, 0)));
    // It is remembered, sixteen of them at the most.
    for _ in 0..20 {
        wait(&mut engine, 900);
        engine.clock.correct(engine.handle.now().plus_secs(60));
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    let known = remembered(&engine);
    drop(engine);
    assert_eq!((known.len(), remembered(&reopen(stopped)).len()), (16, 16));
}

#[test]
fn whoever_wants_it_is_told_at_once_after_an_outage() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 300, 60);
    engine.done(ping(7, Kind::Success, ""));
    let clock = ManualClock::at(engine.handle.now().plus_secs(600));
    drop(engine);
    let (handle, writer) = open(disk.medium(), &clock, |config| config.holds_after_outage = false).unwrap();
    let mut engine = Engine { handle, writer, clock };
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!((remembered(&engine), waiting(&engine)), (vec![], vec![(hook, id, Event::Down)]));
}

/// Another engine on the same disk, at this time.
fn reopened(disk: &Disk, at: Moment) -> Engine {
    let clock = ManualClock::at(at);
    let (handle, writer) = open(disk.medium(), &clock, |_| ()).unwrap();
    let mut engine = Engine { handle, writer, clock };
    (0..3).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
    engine
}

#[test]
fn a_second_outage_gives_the_chance_to_report_once_more() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 300, 60);
    engine.done(ping(7, Kind::Success, ""));
    let began = engine.handle.now();
    for secs in [1800, 3600] {
        drop(engine);
        let now = began.plus_secs(secs);
        engine = reopened(&disk, now);
        let held = Telling::Due { at: now.plus_secs(360), held: Held::Away };
        assert_eq!((engine.seen(id).state.telling, waiting(&engine)), (held, vec![]), "{secs}");
    }
    // There was no time to report between the two.
    assert_eq!(remembered(&engine), [(3600, 0)]);
    wait(&mut engine, 361);
    assert_eq!(waiting(&engine), [(hook, id, Event::Down)]);
}

#[test]
fn a_time_without_pings_is_no_further_failure() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 300, 60);
    engine.done(Command::SetAlerting { check: id, after: Some(Failures::parse(2).unwrap()), parents: None });
    engine.done(ping(7, Kind::Fail, ""));
    let began = engine.handle.now();
    drop(engine);
    let mut engine = reopened(&disk, began.plus_secs(3600));
    let state = engine.seen(id).state;
    let held = Telling::Due { at: began.plus_secs(3660), held: Held::Failures };
    assert_eq!((state.telling, state.failures, waiting(&engine)), (held, 1, vec![]));
    // The one that was expected when pings could be taken again may have been lost; the next one cannot.
    wait(&mut engine, 61);
    assert_eq!((engine.seen(id).state.failures, waiting(&engine)), (1, vec![]));
    wait(&mut engine, 300);
    assert_eq!(waiting(&engine), [(hook, id, Event::Down)]);
}

#[test]
fn a_check_that_is_put_aside_while_its_downtime_is_held_back_is_told_to_nobody() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let schedule = Schedule::parse("5 4 * * *").ok().map(Arc::new);
    let edit = Edit { schedule, channels: Some(ChannelChoice::All), ..Edit::default() };
    let Outcome::Created(check) = engine.done(create_check(MAIN, 7, edit)) else { panic!() };
    engine.done(Command::SetAlerting { check: check.id, after: Some(Failures::parse(2).unwrap()), parents: None });
    engine.done(ping(7, Kind::Fail, ""));
    assert!(matches!(engine.seen(check.id).state.telling, Telling::Due { .. }));
    let began = engine.handle.now();
    drop(engine);
    crate::damage::put_row(&disk, "checks", check.id.0, |row| {
        let at = row.windows(9).position(|window| window == b"5 4 * * *").unwrap();
        [&row[..at], b"5 4 * * X", &row[at + 9..]].concat()
    });
    let mut engine = reopened(&disk, began.plus_secs(5));
    assert_eq!((engine.seen(check.id).state.status, engine.seen(check.id).state.telling), (Status::Paused, Telling::Quiet));
    (0..3).for_each(|_| wait(&mut engine, 86_400));
    assert_eq!((waiting(&engine), outcomes(&engine)), (vec![], vec![]));
}

#[test]
fn the_log_says_how_a_downtime_ended_that_was_held_back() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 300, 60);
    engine.done(Command::SetAlerting { check: id, after: Some(Failures::parse(5).unwrap()), parents: None });
    for end in [ping(7, Kind::Success, ""), Command::Pause(id), Command::DeleteCheck(id)] {
        engine.done(ping(7, Kind::Fail, ""));
        engine.done(end);
    }
    let ends = ["it was up again before it had failed often enough in a row", "it was paused before it had failed often enough in a row"];
    let ends = ends.into_iter().chain(["the check was deleted"]).map(|reason| (Event::Down, DeliveryOutcome::Skipped, reason.to_owned()));
    assert_eq!(outcomes(&engine), ends.collect::<Vec<_>>());
    let flips = finished(&engine).into_iter().map(|delivery| engine.handle.flip(delivery.flip).unwrap().unwrap().flip.to);
    assert_eq!(flips.collect::<Vec<_>>(), [Status::Down; 3]);
}

#[test]
fn a_new_period_counts_at_once_for_a_downtime_that_is_held_back() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 86_400, 60);
    engine.done(Command::SetAlerting { check: id, after: Some(Failures::parse(2).unwrap()), parents: None });
    engine.done(ping(7, Kind::Fail, ""));
    let due = |engine: &Engine| match engine.seen(id).state.telling {
        Telling::Due { at, held: Held::Failures } => at.micros_since(engine.handle.now()) / 1_000_000,
        telling => panic!("{telling:?}"),
    };
    assert_eq!(due(&engine), 86_460);
    let edit = Edit { timeout: Some(Seconds::parse(300).unwrap()), ..Edit::default() };
    engine.done(Command::UpdateCheck(id, Box::new(edit)));
    assert_eq!(due(&engine), 360);
    assert!(engine.writer.covers_all_deadlines());
    wait(&mut engine, 361);
    assert_eq!(waiting(&engine).len(), 1);
}

#[test]
fn a_command_beside_no_server_leaves_an_outage_to_the_next_start() {
    for command in [None, Some(false), Some(true)] {
        let disk = Disk::default();
        let mut engine = Engine::open(disk.medium(), Thresholds::default());
        engine.project(100);
        channel(&mut engine, 1, "webhook", HOOK);
        let [id, other] = [7, 8].map(|uuid| every(&mut engine, uuid, 300, 60));
        engine.batch([7, 8].map(|uuid| ping(uuid, Kind::Success, "")));
        engine.handle.close();
        while engine.writer.step(false).unwrap() {}
        let began = engine.handle.now();
        drop(engine);
        if let Some(tidies) = command {
            let clock = ManualClock::at(began.plus_secs(1800));
            let (handle, writer) = open(disk.medium(), &clock, |config| config.takes_pings = false).unwrap();
            let mut engine = Engine { handle, writer, clock };
            if tidies {
                engine.writer.tidy().unwrap();
            } else {
                // One that looks at a check finds its deadline passed, in an outage.
                engine.done(Command::SetAlerting { check: other, after: Some(Failures::ONE), parents: None });
                (0..5).for_each(|_| wait(&mut engine, 1));
                assert_eq!((engine.seen(id).state.status, engine.seen(other).state.status), (Status::Up, Status::Down));
                assert!(matches!(engine.seen(other).state.telling, Telling::Due { held: Held::Away, .. }));
                let key = NewKey { project: MAIN, secret: Secret::ReadOnly(KeyHash([7; 32])), label: KeyLabel::default(), hint: "".into() };
                engine.done(Command::CreateKey(Box::new(key)));
                engine.handle.close();
                while engine.writer.step(false).unwrap() {}
            }
        }
        let engine = reopened(&disk, began.plus_secs(3600));
        let held = Telling::Due { at: began.plus_secs(3600 + 360), held: Held::Away };
        let found = [id, other].map(|id| engine.seen(id).state.telling);
        assert_eq!((found, waiting(&engine), remembered(&engine)), ([held; 2], vec![], vec![(3600, 0)]), "{command:?}");
    }
}

#[test]
fn a_process_that_was_frozen_notices_it() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.clock.pass();
    assert_eq!(engine.writer.step(false), Ok(true));
    wait(&mut engine, 29);
    assert_eq!(remembered(&engine), []);
    wait(&mut engine, 40);
    assert_eq!(remembered(&engine), [(40, 0)]);
    // It froze, and then the machine slept.
    wait(&mut engine, 1);
    engine.clock.advance_secs(1000);
    sleep(&mut engine, 2000);
    assert_eq!(remembered(&engine), [(3041, 0)]);
}

#[test]
fn other_settings_let_a_disabled_channel_be_told_again() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    engine.done(Command::DisableChannel { channel: hook, reason: "410 Gone".into() });
    let disabled = |engine: &Engine| engine.handle.with_state(|state| state.channel(hook).unwrap().health.disabled.is_some());
    let set = |engine: &mut Engine, pairs: &[(&str, &str)]| {
        let given = GivenSettings::new(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect());
        let name = Some(ChannelName::parse("hook").unwrap());
        engine.done(Command::SetChannel { channel: hook, name, settings: Some(given), maker: Maker::Operator });
    };
    set(&mut engine, HOOK);
    assert!(disabled(&engine));
    set(&mut engine, &[("down-url", "http://b/down")]);
    assert!(!disabled(&engine));
}

#[test]
fn an_answer_under_old_settings_changes_nothing_that_new_ones_have_made() {
    let reason = || "410 Gone".into();
    // What it comes to under those that the channel has: whether it is disabled, whether it fails, and how much is over.
    for (sent, comes_to) in [
        (SendOutcome::Closed(reason()), (true, false, 1)),
        (SendOutcome::Failed(reason()), (false, false, 1)),
        (SendOutcome::Later { reason: reason(), doubtful: false }, (false, true, 0)),
    ] {
        let mut engine = Engine::open(Medium::memory(), Thresholds::default());
        engine.project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        check(&mut engine, 7);
        engine.done(ping(7, Kind::Fail, ""));
        let rows = numbers(&engine);
        let sent_to = engine.handle.with_state(|state| state.channel(hook).cloned());
        begin(&mut engine, rows.clone());
        let given = GivenSettings::new(vec![("down-url".into(), "http://b/down".into())]);
        engine.done(Command::SetChannel { channel: hook, name: None, settings: Some(given), maker: Maker::Operator });
        let report = |sent, sent_to| {
            vec![Report { recipients: Default::default(), channel: hook, sent_to, rows: rows.clone(), told_with: None, sent, status: 410 }]
        };
        engine.done(Command::ReportDeliveries(report(sent.clone(), sent_to.clone())));
        let now = engine.handle.with_state(|state| state.channel(hook).cloned().unwrap());
        assert_eq!((now.health.clone(), numbers(&engine)), (Default::default(), rows.clone()), "{sent:?}: it is sent again");
        let adopt = |sent_to| Command::AdoptSetting { sent_to, key: "down-url", value: "http://c/".into() };
        let url =
            |engine: &Engine| engine.handle.with_state(|state| state.channel(hook).unwrap().settings.urls().next().unwrap().to_owned());
        engine.done(adopt(sent_to.unwrap()));
        assert_eq!(url(&engine), "http://b/down");
        engine.done(adopt(Arc::clone(&now)));
        assert_eq!(url(&engine), "http://c/");
        // Those that it has now count.
        begin(&mut engine, rows.clone());
        let sent_to = engine.handle.with_state(|state| state.channel(hook).cloned());
        engine.done(Command::ReportDeliveries(report(sent, sent_to)));
        let health = engine.handle.with_state(|state| state.channel(hook).unwrap().health.clone());
        assert_eq!((health.disabled.is_some(), health.failing.is_some(), outcomes(&engine).len()), comes_to);
    }
}

#[test]
fn what_is_being_sent_waits_for_its_report_although_its_check_or_channel_is_gone() {
    for (disables, sent, wanted) in [
        (false, SendOutcome::Delivered, DeliveryOutcome::Delivered),
        (true, SendOutcome::Delivered, DeliveryOutcome::Delivered),
        (false, SendOutcome::Later { reason: "no".into(), doubtful: true }, DeliveryOutcome::Skipped),
        (true, SendOutcome::Later { reason: "no".into(), doubtful: true }, DeliveryOutcome::Skipped),
    ] {
        let mut engine = Engine::open(Medium::memory(), Thresholds::default());
        engine.project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        let id = check(&mut engine, 7);
        engine.done(ping(7, Kind::Fail, ""));
        let all = numbers(&engine);
        assert_eq!(begin(&mut engine, all.clone()).len(), 1);
        engine.done(if disables { Command::DeleteChannel(hook) } else { Command::DeleteCheck(id) });
        (0..3).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
        assert_eq!((waiting(&engine).len(), finished(&engine).len()), (1, 0), "{disables} {sent:?}");
        assert!(!engine.handle.with_state(|state| state.has_orphans()), "nothing keeps the writer busy");
        report(&mut engine, hook, all, sent);
        (0..2).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
        let outcomes: Vec<_> = finished(&engine).iter().map(|delivery| delivery.outcome).collect();
        assert_eq!((waiting(&engine), outcomes), (vec![], vec![wanted]), "{disables}");
    }
}

#[test]
fn what_was_being_sent_when_the_server_ended_goes_with_its_check_or_channel() {
    for disables in [false, true] {
        let disk = Disk::default();
        let mut engine = Engine::open(disk.medium(), Thresholds::default());
        engine.project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        let id = check(&mut engine, 7);
        engine.done(ping(7, Kind::Fail, ""));
        let all = numbers(&engine);
        begin(&mut engine, all.clone());
        engine.done(if disables { Command::DisableChannel { channel: hook, reason: "no".into() } } else { Command::DeleteCheck(id) });
        // Nobody begins anew what is for a channel that is disabled.
        assert_eq!(begin(&mut engine, if disables { all.clone() } else { vec![] }), []);
        let now = engine.handle.now();
        drop(engine);
        let mut engine = reopened(&disk, now);
        assert_eq!(begin(&mut engine, all), []);
        assert_eq!((waiting(&engine), outcomes(&engine).len()), (vec![], 1));
    }
}

#[test]
fn deliveries_beyond_their_number_go_as_others_come() {
    let mut engine = Engine::open(Medium::memory(), Thresholds { deliveries: 500, slice: 4, ..Thresholds::default() });
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    check(&mut engine, 7);
    let count = |engine: &Engine| engine.handle.deliveries(DeliveryNumber(u64::MAX), usize::MAX, |_| true).unwrap().len();
    let mut most = 0;
    for _ in 0..60 {
        engine.batch((0..40).map(|number| ping(7, if number % 2 == 0 { Kind::Fail } else { Kind::Success }, "")));
        most = most.max(count(&engine));
    }
    assert!((500..=560).contains(&most), "{most}");
}

#[test]
fn another_reason_for_the_same_trouble_of_a_channel_changes_no_list() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    check(&mut engine, 7);
    engine.done(ping(7, Kind::Fail, ""));
    let all = numbers(&engine);
    let version = |engine: &Engine| engine.handle.with_state(|state| state.project(MAIN).unwrap().version);
    for (reason, changes) in [("no answer", 1), ("500", 0), ("502", 0)] {
        begin(&mut engine, all.clone());
        let before = version(&engine);
        report(&mut engine, hook, all.clone(), SendOutcome::Later { reason: reason.into(), doubtful: false });
        assert_eq!(version(&engine) - before, changes, "{reason}");
        assert_eq!(&*engine.handle.with_state(|state| state.channel(hook).unwrap().health.failing.as_ref().unwrap().1.clone()), reason);
    }
}

#[test]
fn a_failure_that_is_reported_in_time_is_no_missing_ping_as_well() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = every(&mut engine, 7, 300, 60);
    engine.done(Command::SetAlerting { check: id, after: Some(Failures::parse(3).unwrap()), parents: None });
    for (secs, failures) in [(0, 1), (290, 2)] {
        wait(&mut engine, secs);
        engine.done(ping(7, Kind::Fail, ""));
        assert_eq!(engine.seen(id).state.failures, failures);
    }
    // The first would have been followed by another after 300 s and a minute of grace, and was.
    wait(&mut engine, 71);
    assert_eq!((engine.seen(id).state.failures, waiting(&engine)), (2, vec![]));
    // The next one is missing 360 s after the second.
    wait(&mut engine, 290);
    assert_eq!((engine.seen(id).state.failures, waiting(&engine).len()), (3, 1));
}

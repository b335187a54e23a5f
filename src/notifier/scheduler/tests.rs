mod delays;
mod order;
mod parked_messages;
mod people;
mod poisoned_messages;
mod send_slots;
mod state_lock_count;

use super::*;
use crate::channels::{self, SendRate};
use crate::domain::alert::{AlertEvent, ChannelHealth};
use crate::domain::channel::ChannelSettings;
use crate::domain::ids::{CheckId, FlipNumber, ProjectId};
use crate::domain::project::{ChannelName, Project, ProjectName};
use crate::engine::state::Change;

const PEOPLE: DeliveryPolicy = DeliveryPolicy {
    destination: String::new(),
    class: ChannelClass::People,
    max_parallel: 1,
    digest_above: Some(5),
    rate_limit: None,
    daily_limit: None,
    quiet_until: None,
    give_up_after: Duration::from_secs(7 * 86_400),
};
fn machine() -> DeliveryPolicy {
    DeliveryPolicy {
        class: ChannelClass::Machine,
        max_parallel: 4,
        digest_above: None,
        give_up_after: Duration::from_secs(86_400),
        ..PEOPLE
    }
}

fn incident() -> DeliveryPolicy {
    DeliveryPolicy {
        class: ChannelClass::Incident,
        max_parallel: 4,
        ..machine()
    }
}

impl StateView for State {
    fn read_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(self)
    }
}

const CHANNEL: ChannelId = ChannelId(2);

/// Scheduler for one channel, its outbox, and a clock that the test sets.
struct SchedulerTester {
    policy: DeliveryPolicy,
    state: State,
    plan: SendScheduler,
    now: CurrentTime,
    random: Random,
    last: u64,
    /// Reports as text.
    results: Vec<String>,
}

impl SchedulerTester {
    fn new(policy: DeliveryPolicy) -> Self {
        let random = Random::seeded(1);
        let mut state = State::default();
        let name = ProjectName::parse("p").unwrap();
        let id = ProjectId(1);
        let uuid = random.uuid();
        let badge_key = "b".into();
        let project = Project {
            id,
            uuid,
            name,
            check_limit: None,
            ping_log_limit: 1,
            allows_ping_settings: false,
            badge_key,
            legacy_badge: None,
            import: None,
            status_pages: Vec::new(),
        };
        state.apply(&Change::Project(Arc::new(project)));
        let settings = ChannelSettings::parse(
            channels::find_kind("email").unwrap(),
            [("to", "a@example.org")],
        )
        .unwrap();
        let health = ChannelHealth::default();
        let name = ChannelName::parse("").unwrap();
        let channel = Channel {
            id: CHANNEL,
            uuid: random.uuid(),
            project: ProjectId(1),
            name,
            settings,
            set_by_operator: true,
            health,
        };
        state.apply(&Change::Channel(Arc::new(channel)));
        let now = CurrentTime {
            wall: Timestamp::from_secs(1_800_000_000),
            uptime: Duration::from_secs(100),
        };
        Self {
            policy,
            state,
            plan: SendScheduler::default(),
            now,
            random,
            last: 0,
            results: Vec::new(),
        }
    }

    fn queue(&mut self, check: u64, event: AlertEvent) -> DeliveryNumber {
        self.last += 1;
        let number = DeliveryNumber(self.last);
        let row = OutboxRow::new(
            number,
            CHANNEL,
            CheckId(check),
            FlipNumber(self.last),
            event,
            self.now.wall,
            self.now.wall,
        );
        self.state.apply(&Change::OutboxRow(Arc::new(row)));
        number
    }

    fn pass(&mut self, millis: u64) {
        self.now.uptime += Duration::from_millis(millis);
        self.now.wall = self.now.wall.plus_micros(millis as i64 * 1000);
    }

    /// Runs a round and applies all that it reports and begins.
    fn step(&mut self) -> (Vec<Message>, Option<u64>) {
        let ScheduledWork {
            messages,
            reports,
            wake_at,
            ..
        } = self
            .plan
            .schedule(&self.state, |_| self.policy.clone(), self.now);
        self.apply(&reports);
        for message in &messages {
            for number in message.delivery_numbers() {
                let row = OutboxRow::clone(self.state.outbox.get(number).expect("it is not over"));
                let row = OutboxRow {
                    attempt_started: Some(self.now.wall),
                    attempts: row.attempts + 1,
                    ..row
                };
                self.state.apply(&Change::OutboxRow(Arc::new(row)));
            }
        }
        (
            messages,
            wake_at.map(|at| at.saturating_sub(self.now.uptime).as_millis() as u64),
        )
    }

    fn apply(&mut self, reports: &[DeliveryReport]) {
        for report in reports {
            for number in &report.rows {
                let Some(row) = self.state.outbox.get(*number).cloned() else {
                    continue;
                };
                self.results.push(
                    format!("{} {:?}", number.0, report.result)
                        .split(['(', ' ', '{'])
                        .take(2)
                        .collect::<Vec<_>>()
                        .join(" "),
                );
                match &report.result {
                    SendOutcome::Retry {
                        may_have_arrived: doubtful,
                        ..
                    } => {
                        let row = OutboxRow {
                            attempt_started: None,
                            may_be_duplicate: row.may_be_duplicate || *doubtful,
                            ..OutboxRow::clone(&row)
                        };
                        self.state.apply(&Change::OutboxRow(Arc::new(row)));
                    }
                    _ => self.state.apply(&Change::OutboxRowDeleted(*number)),
                }
            }
        }
    }

    fn done(&mut self, message: &Message, result: SendOutcome) {
        self.answered(message, result, 0);
    }

    fn answered(&mut self, message: &Message, result: SendOutcome, status: u16) {
        self.finish(message, AttemptResult::new(result, status));
    }

    fn finish(&mut self, message: &Message, done: AttemptResult) {
        let reports =
            self.plan
                .record_result(message.id, done, &self.policy, self.now, &self.random);
        self.apply(&reports);
        self.plan.settle(message.id);
    }

    /// Content of the messages of a round: check and event, with `+` if a downtime is included that
    /// was not sent.
    fn item_labels(messages: &[Message]) -> Vec<String> {
        let item = |item: &MessageItem| {
            format!(
                "{}{}{}",
                item.row.check.0,
                item.row.event.name(),
                if item.unnotified_down.is_some() {
                    "+"
                } else {
                    ""
                }
            )
        };
        messages
            .iter()
            .map(|message| message.items.iter().map(item).collect::<Vec<_>>().join(" "))
            .collect()
    }
}

/// Failure of a message that has not arrived.
fn later() -> SendOutcome {
    SendOutcome::Retry {
        reason: "".into(),
        may_have_arrived: false,
    }
}

/// Failure of a message that may have arrived.
fn unanswered() -> SendOutcome {
    SendOutcome::Retry {
        reason: "".into(),
        may_have_arrived: true,
    }
}

fn refused() -> SendOutcome {
    SendOutcome::Failed("".into())
}

#[test]
fn programs_get_everything_in_order_four_at_a_time() {
    let mut world = SchedulerTester::new(machine());
    for check in 1..=10 {
        world.queue(check, AlertEvent::Down);
        world.queue(check, AlertEvent::Up);
    }
    let (messages, _) = world.step();
    assert_eq!(
        SchedulerTester::item_labels(&messages),
        ["1down", "2down", "3down", "4down"]
    );
    world.done(&messages[1], SendOutcome::Delivered);
    let (messages, _) = world.step();
    assert_eq!(SchedulerTester::item_labels(&messages), ["2up"]);
}

#[test]
fn a_failing_receiver_gets_one_message_at_a_time() {
    let mut world = SchedulerTester::new(machine());
    (1..=20).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    let (messages, _) = world.step();
    for message in &messages {
        world.done(message, later());
    }
    // They fail together, which is one failure: five seconds, a fifth more or less.
    let (messages, wake_in) = world.step();
    assert!(
        messages.is_empty() && wake_in.is_some_and(|millis| (4000..=6000).contains(&millis)),
        "{wake_in:?}"
    );
    for (least, most) in [(12_000, 18_000), (24_000, 36_000)] {
        world.pass(wake_in.unwrap_or_default().max(36_000));
        let (messages, _) = world.step();
        assert_eq!(messages.len(), 1);
        world.done(&messages[0], later());
        let wake_in = world.step().1;
        assert!(
            wake_in.is_some_and(|millis| (least..=most).contains(&millis)),
            "{wake_in:?}"
        );
    }
    world.pass(36_000);
    let (messages, _) = world.step();
    assert_eq!(messages.len(), 1);
    world.done(&messages[0], SendOutcome::Delivered);
    assert_eq!(world.step().0.len(), 4);
}

#[test]
fn the_receiver_may_ask_for_a_longer_pause_up_to_six_hours() {
    for (after, least, most) in [(60, 60, 60), (1, 4, 6), (1_000_000, 21_600, 21_600)] {
        let mut world = SchedulerTester::new(PEOPLE);
        world.queue(1, AlertEvent::Down);
        let (messages, _) = world.step();
        world.finish(
            &messages[0],
            AttemptResult {
                retry_after: Some(Duration::from_secs(after)),
                ..AttemptResult::new(later(), 0)
            },
        );
        let wake_in = world.step().1.unwrap();
        assert!(
            (least * 1000..=most * 1000).contains(&wake_in),
            "{after}: {wake_in}"
        );
    }
}

#[test]
fn a_changed_channel_is_tried_immediately() {
    let mut world = SchedulerTester::new(PEOPLE);
    world.queue(1, AlertEvent::Down);
    let (messages, _) = world.step();
    world.done(&messages[0], later());
    assert!(world.step().0.is_empty());
    let mut channel = Channel::clone(world.state.channel(CHANNEL).unwrap());
    channel.settings = ChannelSettings::parse(
        channels::find_kind("email").unwrap(),
        [("to", "b@example.org")],
    )
    .unwrap();
    world.state.apply(&Change::Channel(Arc::new(channel)));
    assert_eq!(world.step().0.len(), 1);
}

#[test]
fn incidents_that_end_before_they_are_sent_are_not_sent() {
    let mut world = SchedulerTester::new(incident());
    for (check, end) in [(1, AlertEvent::Up), (2, AlertEvent::Closed)] {
        world.queue(check, AlertEvent::Down);
        world.queue(check, end);
    }
    world.queue(3, AlertEvent::Down);
    assert_eq!(SchedulerTester::item_labels(&world.step().0), ["3down"]);
    assert_eq!(
        world.results,
        [
            "1 Superseded",
            "2 Superseded",
            "3 Superseded",
            "4 Superseded"
        ]
    );
    // Begun with an unknown result: both are sent, in order.
    let mut world = SchedulerTester::new(incident());
    world.queue(1, AlertEvent::Down);
    let (messages, _) = world.step();
    world.done(&messages[0], unanswered());
    world.queue(1, AlertEvent::Up);
    world.pass(7000);
    let (messages, _) = world.step();
    assert_eq!(SchedulerTester::item_labels(&messages), ["1down"]);
    world.done(&messages[0], SendOutcome::Delivered);
    assert_eq!(SchedulerTester::item_labels(&world.step().0), ["1up"]);
}

#[test]
fn messages_that_wait_too_long_are_given_up_after_more_attempts() {
    for (policy, days) in [(machine(), 1), (PEOPLE, 7)] {
        let mut world = SchedulerTester::new(policy);
        (1..=1200).for_each(|check| _ = world.queue(check, AlertEvent::Down));
        world.pass(1_000);
        let (messages, _) = world.step();
        messages
            .iter()
            .for_each(|message| world.done(message, later()));
        // The machine sleeps, or the clock is set: neither is a failed attempt.
        for plan in [std::mem::take(&mut world.plan), SendScheduler::default()] {
            world.plan = plan;
            world.now.wall = world.now.wall.plus_secs(days * 86_400 + 1);
            world.queue(5000, AlertEvent::Down);
            world.now.wall = world.now.wall.plus_secs(2);
            let over = |world: &SchedulerTester| {
                world
                    .results
                    .iter()
                    .filter(|result| result.ends_with("Failed"))
                    .count()
            };
            for _ in 0..2 {
                world.pass(700_000);
                let (messages, _) = world.step();
                assert!(!messages.is_empty() && over(&world) == 0, "it is tried");
                messages
                    .iter()
                    .for_each(|message| world.done(message, later()));
            }
            world.now.wall = world.now.wall.plus_secs(-1_400);
        }
        world.pass(700_000);
        let (messages, _) = world.step();
        messages
            .iter()
            .for_each(|message| world.done(message, later()));
        for _ in 0..4 {
            world.pass(700_000);
            let (messages, _) = world.step();
            messages
                .iter()
                .for_each(|message| world.done(message, later()));
        }
        assert!(
            world
                .results
                .iter()
                .filter(|result| result.ends_with("Failed"))
                .count()
                >= 1200,
            "{}",
            world.results.len()
        );
        assert!(!world.state.outbox.is_empty(), "what is new is kept");
    }
}

#[test]
fn the_rate_limit_is_respected() {
    let mut world = SchedulerTester::new(DeliveryPolicy {
        rate_limit: Some(SendRate {
            burst: 2,
            refill: Duration::from_secs(6),
        }),
        digest_above: None,
        ..PEOPLE
    });
    (1..=5).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    for wait in [0, 0, 6001, 6001] {
        world.pass(wait);
        let (messages, _) = world.step();
        assert_eq!(messages.len(), 1);
        world.done(&messages[0], SendOutcome::Delivered);
    }
    let (messages, wake_in) = world.step();
    assert!(
        messages.is_empty() && wake_in.is_some_and(|millis| (5_990..=6_001).contains(&millis)),
        "{wake_in:?}"
    );
}

#[test]
fn the_daily_limit_is_respected() {
    let mut world = SchedulerTester::new(DeliveryPolicy {
        daily_limit: Some(2),
        digest_above: None,
        ..PEOPLE
    });
    (1..=3).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    for _ in 0..2 {
        world.pass(3_600_000);
        let (messages, _) = world.step();
        world.done(&messages[0], SendOutcome::Delivered);
    }
    // The day began with the first message, an hour ago.
    assert_eq!(world.step(), (vec![], Some(82_800_000)));
    world.pass(82_800_000);
    assert_eq!(world.step().0.len(), 1);
}

#[test]
fn quiet_hours_end_with_the_current_status() {
    let mut world = SchedulerTester::new(PEOPLE);
    world.policy.quiet_until = Some(world.now.wall.plus_secs(60));
    world.queue(1, AlertEvent::Down);
    assert_eq!(world.step(), (vec![], Some(60_000)));
    world.pass(30_000);
    world.queue(1, AlertEvent::Up);
    assert_eq!(world.step().1, Some(30_000));
    world.pass(30_000);
    assert_eq!(SchedulerTester::item_labels(&world.step().0), ["1up+"]);
}

#[test]
fn an_unreachable_receiver_does_not_count_as_a_refusal() {
    let mut world = SchedulerTester::new(machine());
    world.queue(1, AlertEvent::Down);
    let mut ended = Vec::new();
    while !world.state.outbox.is_empty() {
        let (messages, _) = world.step();
        if let Some(message) = messages.first() {
            let outcome = if ended.len() < 6 { later() } else { refused() };
            world.done(message, outcome.clone());
            ended.push(outcome);
        }
        world.pass(4_000_000);
    }
    assert_eq!(ended.len(), 6 + 5);
}

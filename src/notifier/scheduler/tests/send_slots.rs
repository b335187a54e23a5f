//! Projects share the slots, and the state is locked for one message at a time.

use std::cell::Cell;

use super::*;

/// State that counts its lookups.
struct LookupCounter<'s>(&'s State, Cell<usize>);

impl StateView for LookupCounter<'_> {
    fn read_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.1.set(self.1.get() + 1);
        read(self.0)
    }
}

/// Adds channels to a project, each with a row.
fn add(world: &mut SchedulerTester, project: u64, channels: std::ops::Range<u64>) {
    for id in channels {
        let channel = Channel::clone(world.state.channel(CHANNEL).unwrap());
        let channel = Channel {
            id: ChannelId(id),
            project: ProjectId(project),
            ..channel
        };
        world.state.apply(&Change::Channel(Arc::new(channel)));
        let row = world.queue(id, AlertEvent::Down);
        let row = OutboxRow {
            channel: ChannelId(id),
            ..OutboxRow::clone(world.state.outbox.get(row).unwrap())
        };
        world.state.apply(&Change::OutboxRowDeleted(row.number));
        world.state.apply(&Change::OutboxRow(Arc::new(row)));
    }
}

fn world() -> SchedulerTester {
    let mut world = SchedulerTester::new(machine());
    let mut project = world
        .state
        .project(ProjectId(1))
        .unwrap()
        .project
        .as_ref()
        .clone();
    (project.id, project.uuid) = (ProjectId(2), world.random.uuid());
    world.state.apply(&Change::Project(Arc::new(project)));
    world
}

fn begin_messages(
    world: &mut SchedulerTester,
    destination: impl Fn(&Channel) -> String,
) -> Vec<Message> {
    let policy = |channel: &Channel| DeliveryPolicy {
        destination: destination(channel),
        ..machine()
    };
    world
        .plan
        .schedule(&world.state, policy, world.now)
        .messages
}

fn of_project(messages: &[Message], project: u64) -> usize {
    messages
        .iter()
        .filter(|message| message.channel.project == ProjectId(project))
        .count()
}

#[test]
fn a_project_uses_half_of_the_slots_and_projects_take_turns() {
    let mut world = world();
    add(&mut world, 1, 100..400);
    add(&mut world, 2, 500..501);
    let messages = begin_messages(&mut world, |channel| channel.id.0.to_string());
    assert_eq!(
        (of_project(&messages, 1), of_project(&messages, 2)),
        (32, 1)
    );
    // Each channel has its turn.
    let first = |messages: &[Message]| messages.iter().map(|message| message.channel.id.0).min();
    assert_eq!(first(&messages), Some(100));
    for message in &messages {
        let reports = world.plan.record_result(
            message.id,
            AttemptResult::retry("no", true),
            &world.policy,
            world.now,
            &world.random,
        );
        assert!(!reports.is_empty());
        world.plan.settle(message.id);
    }
    let messages = begin_messages(&mut world, |channel| channel.id.0.to_string());
    assert_eq!(
        (first(&messages), of_project(&messages, 1)),
        (Some(132), 32)
    );
}

#[test]
fn a_project_uses_half_of_the_slots_of_a_destination() {
    let mut world = world();
    add(&mut world, 1, 100..150);
    add(&mut world, 2, 500..550);
    let messages = begin_messages(&mut world, |_| "mail".into());
    assert_eq!((of_project(&messages, 1), of_project(&messages, 2)), (4, 4));
}

#[test]
fn the_state_is_locked_for_one_message_at_a_time() {
    let mut world = world();
    add(&mut world, 1, 100..120);
    let view = LookupCounter(&world.state, Cell::new(0));
    let messages = world
        .plan
        .schedule(
            &view,
            |channel| DeliveryPolicy {
                destination: channel.id.0.to_string(),
                ..machine()
            },
            world.now,
        )
        .messages;
    // Once for the channels, then for each channel once for its message and once for the next one.
    assert_eq!((messages.len(), view.1.get()), (20, 1 + 2 * 20));
}

#[test]
fn superseded_rows_are_finished_in_portions() {
    let mut world = SchedulerTester::new(incident());
    for check in 1..=1200 {
        world.queue(check, AlertEvent::Down);
        world.queue(check, AlertEvent::Up);
    }
    let step = world.plan.schedule(&world.state, |_| incident(), world.now);
    assert_eq!(
        (step.reports.len(), step.messages.len(), step.wake_at),
        (MAX_REPORTS, 0, Some(world.now.uptime))
    );
}

#[test]
fn rows_that_were_begun_but_not_sent_are_no_duplicates() {
    let mut world = SchedulerTester::new(PEOPLE);
    (1..=600).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    world.pass(2000);
    // One of them was in flight when the server ended.
    let row = OutboxRow {
        attempt_started: Some(world.now.wall),
        ..OutboxRow::clone(world.state.outbox.get(DeliveryNumber(9)).unwrap())
    };
    world.state.apply(&Change::OutboxRow(Arc::new(row)));
    let message = world
        .plan
        .schedule(&world.state, |_| PEOPLE, world.now)
        .messages
        .remove(0);
    assert_eq!(message.items.len(), 600);
    let reports = message.not_sent_reports();
    let results: Vec<_> = reports
        .iter()
        .map(|report| (report.rows.len(), report.result.clone()))
        .collect();
    let later = |doubtful| SendOutcome::Retry {
        reason: "".into(),
        may_have_arrived: doubtful,
    };
    assert_eq!(results, [(599, later(false)), (1, later(true))]);
}

#[test]
fn slots_are_full_once_the_maximum_number_of_messages_is_in_flight() {
    let world = world();
    let channel = world.state.channel(CHANNEL).unwrap();
    let mut slots = SendSlots::default();
    for _ in 0..MAX_IN_FLIGHT {
        assert!(!slots.are_full());
        slots.acquire(channel, "mail");
    }
    assert!(slots.are_full());
    slots.release(channel.project, "mail");
    assert!(!slots.are_full());
}

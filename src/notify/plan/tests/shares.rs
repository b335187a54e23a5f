//! Projects share the places to send, and the state is locked for one message at a time.

use std::cell::Cell;

use super::*;

/// A state that counts how often it is looked at.
struct Counted<'s>(&'s State, Cell<usize>);

impl View for Counted<'_> {
    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.1.set(self.1.get() + 1);
        look(self.0)
    }
}

/// Channels of a project, each with a row.
fn add(world: &mut World, project: u64, channels: std::ops::Range<u64>) {
    for id in channels {
        let channel = Channel::clone(world.state.channel(CHANNEL).unwrap());
        let channel = Channel { id: ChannelId(id), project: ProjectId(project), ..channel };
        world.state.apply(&Change::Channel(Arc::new(channel)));
        let row = world.queue(id, Event::Down);
        let row = OutboxRow { channel: ChannelId(id), ..OutboxRow::clone(world.state.outbox.get(row).unwrap()) };
        world.state.apply(&Change::Unqueued(row.number));
        world.state.apply(&Change::Queued(Arc::new(row)));
    }
}

fn world() -> World {
    let mut world = World::new(machine());
    let mut project = world.state.project(ProjectId(1)).unwrap().project.as_ref().clone();
    (project.id, project.uuid) = (ProjectId(2), world.random.uuid());
    world.state.apply(&Change::Project(Arc::new(project)));
    world
}

fn begun(world: &mut World, place: impl Fn(&Channel) -> String) -> Vec<Job> {
    let rules = |channel: &Channel| Rules { place: place(channel), ..machine() };
    world.plan.step(&world.state, rules, world.now).jobs
}

fn of_project(jobs: &[Job], project: u64) -> usize {
    jobs.iter().filter(|job| job.channel.project == ProjectId(project)).count()
}

#[test]
fn a_project_holds_half_of_the_places_and_the_next_has_its_turn() {
    let mut world = world();
    add(&mut world, 1, 100..400);
    add(&mut world, 2, 500..501);
    let jobs = begun(&mut world, |channel| channel.id.0.to_string());
    assert_eq!((of_project(&jobs, 1), of_project(&jobs, 2)), (32, 1));
    // Each channel has its turn.
    let first = |jobs: &[Job]| jobs.iter().map(|job| job.channel.id.0).min();
    assert_eq!(first(&jobs), Some(100));
    for job in &jobs {
        let reports = world.plan.done(job.id, JobEnd::failed("no"), &world.rules, world.now, &world.random);
        assert!(!reports.is_empty());
        world.plan.settled(job.id);
    }
    let jobs = begun(&mut world, |channel| channel.id.0.to_string());
    assert_eq!((first(&jobs), of_project(&jobs, 1)), (Some(132), 32));
}

#[test]
fn a_project_holds_half_of_a_place() {
    let mut world = world();
    add(&mut world, 1, 100..150);
    add(&mut world, 2, 500..550);
    let jobs = begun(&mut world, |_| "mail".into());
    assert_eq!((of_project(&jobs, 1), of_project(&jobs, 2)), (4, 4));
}

#[test]
fn the_state_is_looked_at_for_one_message_at_a_time() {
    let mut world = world();
    add(&mut world, 1, 100..120);
    let view = Counted(&world.state, Cell::new(0));
    let jobs = world.plan.step(&view, |channel| Rules { place: channel.id.0.to_string(), ..machine() }, world.now).jobs;
    // The channels at first, then each for its message and for whether there is another one.
    assert_eq!((jobs.len(), view.1.get()), (20, 1 + 2 * 20));
}

#[test]
fn what_was_over_before_it_was_told_is_finished_in_portions() {
    let mut world = World::new(incident());
    for check in 1..=1200 {
        world.queue(check, Event::Down);
        world.queue(check, Event::Up);
    }
    let step = world.plan.step(&world.state, |_| incident(), world.now);
    assert_eq!((step.reports.len(), step.jobs.len(), step.again), (MOST_REPORTS, 0, Some(world.now.uptime)));
}

#[test]
fn what_was_begun_and_is_not_sent_is_no_repeat() {
    let mut world = World::new(PEOPLE);
    (1..=600).for_each(|check| _ = world.queue(check, Event::Down));
    world.pass(2000);
    // One of them was under way when the server ended.
    let row = OutboxRow { begun: Some(world.now.wall), ..OutboxRow::clone(world.state.outbox.get(DeliveryNumber(9)).unwrap()) };
    world.state.apply(&Change::Queued(Arc::new(row)));
    let job = world.plan.step(&world.state, |_| PEOPLE, world.now).jobs.remove(0);
    assert_eq!(job.items.len(), 600);
    let reports = job.not_sent();
    let said: Vec<_> = reports.iter().map(|report| (report.rows.len(), report.sent.clone())).collect();
    let later = |doubtful| SendOutcome::Later { reason: "".into(), doubtful };
    assert_eq!(said, [(599, later(false)), (1, later(true))]);
}

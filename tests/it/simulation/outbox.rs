//! Follows what is told: each flip that was shown has a row of the outbox or a delivery for each channel of its check, never both and
//! never two, whatever happens to the disk.

use std::collections::{BTreeMap, BTreeSet};

use overdue::domain::alert::{Delivery, DeliveryOutcome, Event, OutboxRow, Telling};
use overdue::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
use overdue::domain::status::Status;
use overdue::engine::Handle;
use overdue::engine::command::{Command, Outcome, Refusal, Report, SendOutcome};

use super::verify::same;
use crate::support::dice::Dice;

type Verdict = Result<(), String>;

/// Deliveries are kept for so long (microseconds).
const KEPT: i64 = 30 * 86_400_000_000;

/// What was seen, by what stands in the file for good.
#[derive(Default)]
pub(crate) struct Followed {
    /// Flips of each check up to here were looked at, and what had been told then.
    seen: BTreeMap<CheckId, (FlipNumber, Telling)>,
    /// What is to be found in the outbox or among the deliveries, and when it was queued.
    expected: BTreeMap<(FlipNumber, ChannelId), i64>,
    /// Ends of downtimes of which these channels were not notified.
    unwanted: BTreeSet<(FlipNumber, ChannelId)>,
    /// Attempts that were said to have begun, and were not reported.
    begun: BTreeSet<DeliveryNumber>,
    /// How many flips had somebody to be told.
    pub(crate) told: u32,
}

/// Rows and deliveries, as they are.
struct Found {
    waiting: Vec<OutboxRow>,
    deliveries: Vec<Delivery>,
}

impl Found {
    /// Whether a channel was notified of a downtime, or is going to be; `None` if nothing is known of it.
    fn down(&self, flip: FlipNumber, channel: ChannelId) -> Option<bool> {
        let is_meant = |event: Event, of: FlipNumber, to: ChannelId| (event, of, to) == (Event::Down, flip, channel);
        let waits = self.waiting.iter().any(|row| is_meant(row.event, row.flip, row.channel));
        let over = self.deliveries.iter().find(|delivery| is_meant(delivery.event, delivery.flip, delivery.channel));
        let was_sent = |delivery: &Delivery| delivery.outcome != DeliveryOutcome::Skipped || delivery.attempts > 0;
        if waits { Some(true) } else { over.map(was_sent) }
    }
}

fn found(handle: &Handle) -> Result<Found, String> {
    let waiting = handle.with_state(|state| state.outbox.rows().map(|row| OutboxRow::clone(row)).collect());
    let deliveries = handle.deliveries(DeliveryNumber(u64::MAX), usize::MAX, |_| true).map_err(|error| error.to_string())?;
    Ok(Found { waiting, deliveries })
}

impl Followed {
    /// Some of what waits is begun or reported. An answer is only given for what is on disk.
    pub(crate) fn commands(&self, dice: &Dice, handle: &Handle) -> Vec<Command> {
        handle.with_state(|state| {
            let (begun, idle): (Vec<_>, Vec<_>) = state.outbox.rows().partition(|row| self.begun.contains(&row.number));
            let mut commands = Vec::new();
            let some = |rows: Vec<&std::sync::Arc<OutboxRow>>| rows.into_iter().filter(|_| dice.chance(60)).cloned().collect::<Vec<_>>();
            commands.push(Command::BeginDeliveries(some(idle).iter().map(|row| row.number).collect(), None));
            let reports = some(begun).into_iter().map(|row| {
                let sent = match dice.below(12) {
                    0..5 => SendOutcome::Delivered,
                    5..7 => SendOutcome::Later { reason: "busy".into(), doubtful: dice.chance(30) },
                    7..9 => SendOutcome::Superseded("a later one".into()),
                    9..11 => SendOutcome::Failed("no".into()),
                    _ => SendOutcome::Closed("gone".into()),
                };
                Report {
                    recipients: Default::default(),
                    channel: row.channel,
                    sent_to: None,
                    rows: vec![row.number],
                    told_with: None,
                    sent,
                    status: 200,
                }
            });
            commands.push(Command::ReportDeliveries(reports.collect()));
            if let Some(channel) = state.projects().flat_map(|project_state| project_state.channels.keys()).next()
                && dice.chance(30)
            {
                commands.push(Command::EnableChannel(*channel));
            }
            commands
        })
    }

    /// What was answered to such commands.
    pub(crate) fn answered(&mut self, commands: &[Command], answers: &[Result<Outcome, Refusal>]) {
        for (command, answer) in commands.iter().zip(answers) {
            match (command, answer) {
                (Command::BeginDeliveries(..), Ok(Outcome::Begun(rows))) => self.begun.extend(rows.iter().map(|row| row.number)),
                (Command::ReportDeliveries(reports), Ok(_)) => {
                    self.begun.retain(|number| !reports.iter().any(|report| report.rows.contains(number)));
                }
                _ => {}
            }
        }
    }

    /// They were not answered, so they may be on disk or not: what is reported may be begun again.
    pub(crate) fn unanswered(&mut self, commands: &[Command]) {
        for command in commands {
            if let Command::ReportDeliveries(reports) = command {
                self.begun.retain(|number| !reports.iter().any(|report| report.rows.contains(number)));
            }
        }
    }

    /// Takes note of new flips. `sure`: nothing has changed channels since before the oldest of them.
    pub(crate) fn note(&mut self, handle: &Handle, sure: bool) -> Verdict {
        let known = found(handle)?;
        handle.with_state(|state| {
            for check in state.checks() {
                let last = check.state.last_flip;
                let (seen, told) = self.seen.insert(check.id, (last, check.state.telling)).unwrap_or((FlipNumber(0), Telling::Quiet));
                same!(check.state.telling != Telling::Quiet, check.state.status == Status::Down, "whether check {} was told", check.id.0);
                let was_held = matches!(told, Telling::Due { .. }) && check.state.telling == Telling::Told;
                if (last > seen || was_held) && sure && !matches!(check.state.telling, Telling::Due { .. }) {
                    let Some(logged) = handle.flip(last).map_err(|error| error.to_string())? else { continue };
                    let event = match (logged.flip.from, logged.flip.to) {
                        (_, Status::Down) => Event::Down,
                        // Of a downtime that was held back nobody hears that it is over.
                        (Status::Down, Status::Up) if told == Telling::Told && logged.previous == seen => Event::Up,
                        _ => continue,
                    };
                    for channel in state.channels_of(check).filter(|channel| channel.settings.takes(event)) {
                        // Only a channel that was notified of the downtime is notified of its end.
                        match known.down(logged.previous, channel.id).filter(|_| event == Event::Up) {
                            None if event == Event::Up => continue,
                            Some(false) => drop(self.unwanted.insert((last, channel.id))),
                            _ => {
                                self.told += 1;
                                self.expected.insert((last, channel.id), handle.now().micros());
                            }
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Compares what was seen with what there is. `pruned_at` is the latest time at which anything may have been pruned.
    pub(crate) fn verify(&mut self, handle: &Handle, pruned_at: i64) -> Verdict {
        // Once the clock is set back, what was queued may be finished before that.
        self.expected.values_mut().for_each(|queued| *queued = handle.now().micros().min(*queued));
        let Found { waiting, deliveries } = found(handle)?;
        let mut places = BTreeMap::<_, u32>::new();
        let keys = waiting.iter().map(|row| (row.flip, row.channel)).chain(deliveries.iter().map(|row| (row.flip, row.channel)));
        keys.for_each(|key| *places.entry(key).or_default() += 1);
        for (key, count) in &places {
            same!(*count, 1, "rows and deliveries of flip {} for channel {}", key.0.0, key.1.0);
        }
        for (key, queued) in &self.expected {
            if *queued > pruned_at - KEPT && !places.contains_key(key) {
                return Err(format!("nobody knows of flip {} for channel {}: {:?}", key.0.0, key.1.0, handle.flip(key.0)));
            }
        }
        for key in &self.unwanted {
            same!(places.contains_key(key), false, "whether channel {} is notified of flip {} alone", key.1.0, key.0.0);
        }
        for number in &self.begun {
            if let Some(row) = waiting.iter().find(|row| row.number == *number) {
                same!(row.begun.is_some() && row.attempts > 0, true, "whether {number:?} is known to have begun");
            }
        }
        let mut pairs = BTreeMap::<_, Vec<_>>::new();
        for row in &waiting {
            pairs.entry((row.channel, row.check)).or_default().push(row);
        }
        for rows in pairs.values() {
            if rows.len() > 10 || !rows.is_sorted_by_key(|row| row.flip) {
                return Err(format!("too many rows, or in no order: {rows:?}"));
            }
        }
        let known = deliveries.iter().filter(|delivery| delivery.outcome == DeliveryOutcome::Delivered);
        same!(known.clone().all(|delivery| delivery.attempts > 0), true, "whether what is delivered was begun");
        Ok(())
    }
}

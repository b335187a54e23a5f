//! Follows what is told: each flip that was shown has a row of the outbox or a delivery for each
//! channel of its check, never both and never two, whatever happens to the disk.

use std::collections::{BTreeMap, BTreeSet};

use overdue::domain::alert::{
    AlertEvent, DeliveryRecord, DeliveryResult, NotificationState, OutboxRow,
};
use overdue::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
use overdue::domain::status::Status;
use overdue::engine::Handle;
use overdue::engine::command::{
    Command, CommandError, CommandOutcome, DeliveryReport, SendOutcome,
};

use super::verify::same;
use crate::support::seeded_rng::SeededRng;

type TrackingResult = Result<(), String>;

/// Deliveries are kept for so long (microseconds).
const DELIVERY_RETENTION: i64 = 30 * 86_400_000_000;

/// What was seen, by what stands in the file for good.
#[derive(Default)]
pub(crate) struct DeliveryTracker {
    /// Flips of each check up to here were looked at, and what had been told then.
    observed_flips: BTreeMap<CheckId, (FlipNumber, NotificationState)>,
    /// What is to be found in the outbox or among the deliveries, and when it was queued.
    expected: BTreeMap<(FlipNumber, ChannelId), i64>,
    /// Ends of downtimes of which these channels were not notified.
    unwanted: BTreeSet<(FlipNumber, ChannelId)>,
    /// Attempts that were said to have begun, and were not reported.
    attempts_begun: BTreeSet<DeliveryNumber>,
    /// How many flips had somebody to be told.
    pub(crate) notified: u32,
}

/// Rows and deliveries, as they are.
struct StoredDeliveries {
    waiting: Vec<OutboxRow>,
    deliveries: Vec<DeliveryRecord>,
}

impl StoredDeliveries {
    /// Whether a channel was notified of a downtime, or is going to be; `None` if nothing is known
    /// of it.
    fn downtime_announced(&self, flip: FlipNumber, channel: ChannelId) -> Option<bool> {
        let is_meant = |event: AlertEvent, of: FlipNumber, to: ChannelId| {
            (event, of, to) == (AlertEvent::Down, flip, channel)
        };
        let waits = self
            .waiting
            .iter()
            .any(|row| is_meant(row.event, row.flip, row.channel));
        let over = self
            .deliveries
            .iter()
            .find(|delivery| is_meant(delivery.event, delivery.flip, delivery.channel));
        let was_sent = |delivery: &DeliveryRecord| {
            delivery.result != DeliveryResult::Skipped || delivery.attempts > 0
        };
        if waits {
            Some(true)
        } else {
            over.map(was_sent)
        }
    }
}

fn read_deliveries(handle: &Handle) -> Result<StoredDeliveries, String> {
    let waiting = handle.with_state(|state| {
        state
            .outbox
            .rows()
            .map(|row| OutboxRow::clone(row))
            .collect()
    });
    let deliveries = handle
        .deliveries(DeliveryNumber(u64::MAX), usize::MAX, |_| true)
        .map_err(|error| error.to_string())?;
    Ok(StoredDeliveries {
        waiting,
        deliveries,
    })
}

impl DeliveryTracker {
    /// Some of what waits is begun or reported. An answer is only given for what is on disk. As by
    /// the real sender, at most one row about a check is being sent to a channel: only then do
    /// the rows that wait for one channel about one check stay few.
    pub(crate) fn commands(&self, dice: &SeededRng, handle: &Handle) -> Vec<Command> {
        handle.with_state(|state| {
            let (begun, idle): (Vec<_>, Vec<_>) = state
                .outbox
                .rows()
                .partition(|row| self.attempts_begun.contains(&row.number));
            let mut commands = Vec::new();
            let some = |rows: Vec<&std::sync::Arc<OutboxRow>>| {
                rows.into_iter()
                    .filter(|_| dice.chance(60))
                    .cloned()
                    .collect::<Vec<_>>()
            };
            let mut busy: BTreeSet<_> = begun.iter().map(|row| (row.channel, row.check)).collect();
            let next = some(idle)
                .into_iter()
                .filter(|row| busy.insert((row.channel, row.check)));
            commands.push(Command::BeginDeliveries(
                next.map(|row| row.number).collect(),
                None,
            ));
            let reports = some(begun).into_iter().map(|row| {
                let sent = match dice.below(12) {
                    0..5 => SendOutcome::Delivered,
                    5..7 => SendOutcome::Retry {
                        reason: "busy".into(),
                        may_have_arrived: dice.chance(30),
                    },
                    7..9 => SendOutcome::Superseded("a later one".into()),
                    9..11 => SendOutcome::Failed("no".into()),
                    _ => SendOutcome::ChannelRejected("gone".into()),
                };
                DeliveryReport {
                    recipients: Default::default(),
                    channel: row.channel,
                    sent_to: None,
                    rows: vec![row.number],
                    merged_into: None,
                    result: sent,
                    status: 200,
                }
            });
            commands.push(Command::RecordDeliveryReports(reports.collect()));
            if let Some(channel) = state
                .projects()
                .flat_map(|project_state| project_state.channels.keys())
                .next()
                && dice.chance(30)
            {
                commands.push(Command::EnableChannel(*channel));
            }
            commands
        })
    }

    /// What was answered to such commands.
    pub(crate) fn answered(
        &mut self,
        commands: &[Command],
        answers: &[Result<CommandOutcome, CommandError>],
    ) {
        for (command, answer) in commands.iter().zip(answers) {
            match (command, answer) {
                (Command::BeginDeliveries(..), Ok(CommandOutcome::DeliveriesBegun(rows))) => {
                    self.attempts_begun
                        .extend(rows.iter().map(|row| row.number));
                }
                (Command::RecordDeliveryReports(reports), Ok(_)) => {
                    self.attempts_begun.retain(|number| {
                        !reports.iter().any(|report| report.rows.contains(number))
                    });
                }
                _ => {}
            }
        }
    }

    /// They were not answered, so they may be on disk or not: what is reported may be begun again.
    pub(crate) fn unanswered(&mut self, commands: &[Command]) {
        for command in commands {
            if let Command::RecordDeliveryReports(reports) = command {
                self.attempts_begun
                    .retain(|number| !reports.iter().any(|report| report.rows.contains(number)));
            }
        }
    }

    /// Takes note of new flips. `sure`: nothing has changed channels since before the oldest of
    /// them.
    pub(crate) fn track_flips(&mut self, handle: &Handle, sure: bool) -> TrackingResult {
        let known = read_deliveries(handle)?;
        handle.with_state(|state| {
            for check in state.checks() {
                let last = check.state.last_flip;
                let (seen, told) = self
                    .observed_flips
                    .insert(check.id, (last, check.state.notification))
                    .unwrap_or((FlipNumber(0), NotificationState::NotNeeded));
                same!(
                    check.state.notification != NotificationState::NotNeeded,
                    check.state.status == Status::Down,
                    "whether check {} was told",
                    check.id.0
                );
                let was_held = matches!(told, NotificationState::Pending { .. })
                    && check.state.notification == NotificationState::Notified;
                if (last > seen || was_held)
                    && sure
                    && !matches!(check.state.notification, NotificationState::Pending { .. })
                {
                    let Some(logged) = handle.flip(last).map_err(|error| error.to_string())? else {
                        continue;
                    };
                    let event = match (logged.flip.from, logged.flip.to) {
                        (_, Status::Down) => AlertEvent::Down,
                        // Of a downtime that was held back nobody hears that it is over.
                        (Status::Down, Status::Up)
                            if told == NotificationState::Notified && logged.previous == seen =>
                        {
                            AlertEvent::Up
                        }
                        _ => continue,
                    };
                    for channel in state
                        .channels_of(check)
                        .filter(|channel| channel.settings.handles_event(event))
                    {
                        // Only a channel that was notified of the downtime is notified of its end.
                        match known
                            .downtime_announced(logged.previous, channel.id)
                            .filter(|_| event == AlertEvent::Up)
                        {
                            None if event == AlertEvent::Up => continue,
                            Some(false) => drop(self.unwanted.insert((last, channel.id))),
                            _ => {
                                self.notified += 1;
                                self.expected
                                    .insert((last, channel.id), handle.now().micros());
                            }
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Compares what was seen with what there is. `pruned_at` is the latest time at which anything
    /// may have been pruned.
    pub(crate) fn verify(&mut self, handle: &Handle, pruned_at: i64) -> TrackingResult {
        // Once the clock is set back, what was queued may be finished before that.
        self.expected
            .values_mut()
            .for_each(|queued| *queued = handle.now().micros().min(*queued));
        let StoredDeliveries {
            waiting,
            deliveries,
        } = read_deliveries(handle)?;
        let mut places = BTreeMap::<_, u32>::new();
        let keys = waiting
            .iter()
            .map(|row| (row.flip, row.channel))
            .chain(deliveries.iter().map(|row| (row.flip, row.channel)));
        keys.for_each(|key| *places.entry(key).or_default() += 1);
        for (key, count) in &places {
            same!(
                *count,
                1,
                "rows and deliveries of flip {} for channel {}",
                key.0.0,
                key.1.0
            );
        }
        for (key, queued) in &self.expected {
            if *queued > pruned_at - DELIVERY_RETENTION && !places.contains_key(key) {
                return Err(format!(
                    "nobody knows of flip {} for channel {}: {:?}",
                    key.0.0,
                    key.1.0,
                    handle.flip(key.0)
                ));
            }
        }
        for key in &self.unwanted {
            same!(
                places.contains_key(key),
                false,
                "whether channel {} is notified of flip {} alone",
                key.1.0,
                key.0.0
            );
        }
        for number in &self.attempts_begun {
            if let Some(row) = waiting.iter().find(|row| row.number == *number) {
                same!(
                    row.attempt_started.is_some() && row.attempts > 0,
                    true,
                    "whether {number:?} is known to have begun"
                );
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
        let known = deliveries
            .iter()
            .filter(|delivery| delivery.result == DeliveryResult::Delivered);
        same!(
            known.clone().all(|delivery| delivery.attempts > 0),
            true,
            "whether what is delivered was begun"
        );
        Ok(())
    }
}

//! Tracks deliveries: each observed flip has one row in the outbox or one delivery for each channel
//! of its check, never both and never two, whatever happens to the disk.

use std::collections::{BTreeMap, BTreeSet};

use overdue::domain::alert::{
    AlertEvent, DeliveryRecord, DeliveryResult, NotificationState, OutboxRow,
};
use overdue::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
use overdue::domain::status::Status;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::Handle;
use overdue::engine::command::{
    Command, CommandError, CommandOutcome, DeliveryReport, SendOutcome,
};

use super::verify::same;
use crate::support::seeded_rng::SeededRng;

type TrackingResult = Result<(), String>;

/// Retention of deliveries, in microseconds.
const DELIVERY_RETENTION: i64 = 30 * 86_400_000_000;

/// Observations, by keys that never change in the file.
#[derive(Default)]
pub(crate) struct DeliveryTracker {
    /// Number of the last observed flip of each check, and the notification state of the check
    /// then.
    observed_flips: BTreeMap<CheckId, (FlipNumber, NotificationState)>,
    /// Rows or deliveries that have to exist, with the time at which they were queued.
    expected: BTreeMap<(FlipNumber, ChannelId), i64>,
    /// Ends of downtimes whose start these channels were not notified of.
    unannounced: BTreeSet<(FlipNumber, ChannelId)>,
    /// Attempts that have begun and are not reported yet.
    attempts_begun: BTreeSet<DeliveryNumber>,
    /// Number of expected notifications so far.
    pub(crate) notified: u32,
}

/// Current rows and deliveries.
struct StoredDeliveries {
    waiting: Vec<OutboxRow>,
    deliveries: Vec<DeliveryRecord>,
}

impl StoredDeliveries {
    /// Returns true if a channel was or will be notified of a downtime, and `None` if there is no
    /// row and no delivery.
    fn downtime_announced(&self, flip: FlipNumber, channel: ChannelId) -> Option<bool> {
        let is_about = |event: AlertEvent, of: FlipNumber, to: ChannelId| {
            (event, of, to) == (AlertEvent::Down, flip, channel)
        };
        let is_waiting = self
            .waiting
            .iter()
            .any(|row| is_about(row.event, row.flip, row.channel));
        let finished = self
            .deliveries
            .iter()
            .find(|delivery| is_about(delivery.event, delivery.flip, delivery.channel));
        let was_sent = |delivery: &DeliveryRecord| {
            delivery.result != DeliveryResult::Skipped || delivery.attempts > 0
        };
        if is_waiting {
            Some(true)
        } else {
            finished.map(was_sent)
        }
    }

    /// Returns the time at which a row or a finished delivery was queued.
    fn queued_at(&self, flip: FlipNumber, channel: ChannelId) -> Option<Timestamp> {
        let waiting = self
            .waiting
            .iter()
            .map(|row| (row.flip, row.channel, row.queued));
        let finished = self
            .deliveries
            .iter()
            .map(|delivery| (delivery.flip, delivery.channel, delivery.queued));
        waiting
            .chain(finished)
            .find(|(of, to, _)| (*of, *to) == (flip, channel))
            .map(|(.., queued)| queued)
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
    /// Begins or reports some of the waiting rows. Results are only reported for rows whose attempt
    /// is on disk. Like the real sender, it sends at most one row about a check to a channel at a
    /// time: this bounds the number of rows that wait for one channel about one check.
    pub(crate) fn commands(&self, rng: &SeededRng, handle: &Handle) -> Vec<Command> {
        handle.with_state(|state| {
            let (begun, idle): (Vec<_>, Vec<_>) = state
                .outbox
                .rows()
                .partition(|row| self.attempts_begun.contains(&row.number));
            let mut commands = Vec::new();
            let random_subset = |rows: Vec<&std::sync::Arc<OutboxRow>>| {
                rows.into_iter()
                    .filter(|_| rng.chance(60))
                    .cloned()
                    .collect::<Vec<_>>()
            };
            let mut busy: BTreeSet<_> = begun.iter().map(|row| (row.channel, row.check)).collect();
            let next = random_subset(idle)
                .into_iter()
                .filter(|row| busy.insert((row.channel, row.check)));
            commands.push(Command::StartAttempts {
                rows: next.map(|row| row.number).collect(),
                last_row: None,
            });
            let reports = random_subset(begun).into_iter().map(|row| {
                let sent = match rng.below(12) {
                    0..5 => SendOutcome::Delivered,
                    5..7 => SendOutcome::Retry {
                        reason: "busy".into(),
                        may_have_arrived: rng.chance(30),
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
                && rng.chance(30)
            {
                commands.push(Command::EnableChannel(*channel));
            }
            commands
        })
    }

    /// Records the answers to the batch returned by [`Self::commands`].
    pub(crate) fn record_answers(
        &mut self,
        commands: &[Command],
        answers: &[Result<CommandOutcome, CommandError>],
    ) {
        for (command, answer) in commands.iter().zip(answers) {
            match (command, answer) {
                (Command::StartAttempts { .. }, Ok(CommandOutcome::AttemptsStarted(rows))) => {
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

    /// Handles a batch without answers. It may be on disk or not, so a reported row may begin
    /// again.
    pub(crate) fn record_unanswered(&mut self, commands: &[Command]) {
        for command in commands {
            if let Command::RecordDeliveryReports(reports) = command {
                self.attempts_begun
                    .retain(|number| !reports.iter().any(|report| report.rows.contains(number)));
            }
        }
    }

    /// Records new flips. `channels_unchanged`: no command has changed channels since before the
    /// oldest of them.
    pub(crate) fn track_flips(
        &mut self,
        handle: &Handle,
        channels_unchanged: bool,
    ) -> TrackingResult {
        let known = read_deliveries(handle)?;
        handle.with_state(|state| {
            for check in state.checks() {
                let last = check.state.last_flip;
                let (previous_flip, previous_state) = self
                    .observed_flips
                    .insert(check.id, (last, check.state.notification))
                    .unwrap_or((FlipNumber(0), NotificationState::NotNeeded));
                same!(
                    check.state.notification != NotificationState::NotNeeded,
                    check.state.status == Status::Down,
                    "check {} has a notification state",
                    check.id.0
                );
                let was_held = matches!(previous_state, NotificationState::Pending { .. })
                    && check.state.notification == NotificationState::Notified;
                if (last > previous_flip || was_held)
                    && channels_unchanged
                    && !matches!(check.state.notification, NotificationState::Pending { .. })
                {
                    let Some(logged) = handle.flip(last).map_err(|error| error.to_string())? else {
                        continue;
                    };
                    let event = match (logged.flip.from, logged.flip.to) {
                        (_, Status::Down) => AlertEvent::Down,
                        // If the alert about a downtime was held back, its end is not announced.
                        (Status::Down, Status::Up)
                            if previous_state == NotificationState::Notified
                                && logged.previous == previous_flip =>
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
                            Some(false) => drop(self.unannounced.insert((last, channel.id))),
                            _ => {
                                self.notified += 1;
                                // It may have been queued long before this observation.
                                let queued = known.queued_at(last, channel.id);
                                self.expected.insert(
                                    (last, channel.id),
                                    queued.unwrap_or(handle.now()).micros(),
                                );
                            }
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Compares the observations with the stored rows and deliveries. `pruned_at` is the latest
    /// time at which anything may have been pruned.
    pub(crate) fn verify(&mut self, handle: &Handle, pruned_at: i64) -> TrackingResult {
        // If the clock was set back, a queued row may finish at an earlier time.
        self.expected
            .values_mut()
            .for_each(|queued| *queued = handle.now().micros().min(*queued));
        let StoredDeliveries {
            waiting,
            deliveries,
        } = read_deliveries(handle)?;
        let mut stored = BTreeMap::<_, u32>::new();
        let keys = waiting
            .iter()
            .map(|row| (row.flip, row.channel))
            .chain(deliveries.iter().map(|row| (row.flip, row.channel)));
        keys.for_each(|key| *stored.entry(key).or_default() += 1);
        for (key, count) in &stored {
            same!(
                *count,
                1,
                "rows and deliveries of flip {} for channel {}",
                key.0.0,
                key.1.0
            );
        }
        for (key, queued) in &self.expected {
            if *queued > pruned_at - DELIVERY_RETENTION && !stored.contains_key(key) {
                return Err(format!(
                    "no row and no delivery of flip {} for channel {}: {:?}",
                    key.0.0,
                    key.1.0,
                    handle.flip(key.0)
                ));
            }
        }
        for key in &self.unannounced {
            same!(
                stored.contains_key(key),
                false,
                "channel {} is only notified of the end of a downtime, flip {}",
                key.1.0,
                key.0.0
            );
        }
        for number in &self.attempts_begun {
            if let Some(row) = waiting.iter().find(|row| row.number == *number) {
                same!(
                    row.attempt_started.is_some() && row.attempts > 0,
                    true,
                    "{number:?} is recorded as begun"
                );
            }
        }
        let mut pairs = BTreeMap::<_, Vec<_>>::new();
        for row in &waiting {
            pairs.entry((row.channel, row.check)).or_default().push(row);
        }
        for rows in pairs.values() {
            if rows.len() > 10 || !rows.is_sorted_by_key(|row| row.flip) {
                return Err(format!("too many rows, or not in order: {rows:?}"));
            }
        }
        let known = deliveries
            .iter()
            .filter(|delivery| delivery.result == DeliveryResult::Delivered);
        same!(
            known.clone().all(|delivery| delivery.attempts > 0),
            true,
            "each delivery has an attempt"
        );
        Ok(())
    }
}

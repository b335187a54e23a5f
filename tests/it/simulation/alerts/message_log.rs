//! Expected rows of the outbox and of the delivery log, and their state.

use std::collections::BTreeSet;

use overdue::domain::alert::{AlertEvent, DeliveryResult};
use overdue::domain::alert::{DeliveryRecord, OutboxRow};
use overdue::engine::command::SendOutcome;

/// Maximum number of waiting rows of a channel about one check.
const MAX_WAITING: usize = 8;
/// Maximum number of waiting warnings of a channel about one check.
const MAX_WAITING_WARNINGS: usize = 4;
/// Number of starts that find an attempt unfinished, after which a row fails.
const MAX_INTERRUPTED: u8 = 3;

/// Expected state of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExpectedOutcome {
    Waiting,
    /// Result, and a part of the reason.
    Finished(DeliveryResult, &'static str),
}

pub(crate) const DISABLED: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "the channel is disabled");
pub(crate) const CHANNEL_DELETED: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "the channel was deleted");
pub(crate) const CHECK_DELETED: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "the check was deleted");
pub(crate) const ASSIGNED_WHILE_DOWN: ExpectedOutcome = ExpectedOutcome::Finished(
    DeliveryResult::Skipped,
    "it was down already when the channel was assigned",
);
pub(crate) const NO_RECIPIENT: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "nobody is notified");
const SUPERSEDED: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Superseded, "too many changes");
const NEWER_WARNINGS: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Superseded, "newer warnings");
pub(crate) const LOST_PING: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "its ping may have been lost");
pub(crate) const WINDOW_OPEN: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "a maintenance window was open");
pub(crate) const PARENT_DOWN: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "a parent was down");
/// Outcomes of a warning that is not sent.
const WARNING_OUTCOMES: [ExpectedOutcome; 7] = [
    LOST_PING,
    WINDOW_OPEN,
    PARENT_DOWN,
    NEWER_WARNINGS,
    DISABLED,
    CHANNEL_DELETED,
    CHECK_DELETED,
];
const INTERRUPTED: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Failed, "ended the server three times");

/// An expected row. Channel 0: it records why no channel was notified. Check 0: a reminder of all
/// checks that are down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedMessage {
    pub(crate) channel: u64,
    pub(crate) check: u64,
    /// Index of the flip among those of its check, from 1.
    pub(crate) flip: usize,
    pub(crate) event: AlertEvent,
    pub(crate) attempts: u16,
    pub(crate) outcome: ExpectedOutcome,
    /// Time and limit of a warning, the latter in seconds.
    warning: Option<(i64, i64)>,
    /// True if an attempt has begun and was not reported.
    begun: bool,
    /// True if the attempt has begun since the last start.
    sending: bool,
    interrupted: u8,
    /// True if an earlier attempt may have arrived.
    may_have_arrived: bool,
    /// True if a later reminder named this downtime to the channel.
    reminded: bool,
    /// True if a later reminder was delivered to the channel, whether it named the check or not.
    precedes_reminder: bool,
    /// True if the check was deleted. The row is sent nevertheless and announces the deletion.
    is_check_deleted: bool,
    /// Number of the row in the engine, once found.
    number: Option<u64>,
}

impl ExpectedMessage {
    pub(crate) fn new(channel: u64, check: u64, flip: usize, event: AlertEvent) -> Self {
        Self {
            channel,
            check,
            flip,
            event,
            attempts: 0,
            outcome: ExpectedOutcome::Waiting,
            warning: None,
            begun: false,
            sending: false,
            interrupted: 0,
            may_have_arrived: false,
            reminded: false,
            precedes_reminder: false,
            is_check_deleted: false,
            number: None,
        }
    }

    /// Sets the time of a warning, and its limit in seconds.
    pub(crate) fn with_limit(self, at: i64, limit: i64) -> Self {
        Self {
            warning: Some((at, limit)),
            ..self
        }
    }

    pub(crate) fn of_deleted_check(self) -> Self {
        Self {
            is_check_deleted: true,
            ..self
        }
    }

    fn announce_deletion(&mut self) {
        if self.is_check_deleted {
            self.event = AlertEvent::Closed;
        }
    }

    /// True if the row was skipped before its first attempt, and no later reminder replaced it.
    pub(crate) fn is_unsent(&self) -> bool {
        let is_skipped = matches!(
            self.outcome,
            ExpectedOutcome::Finished(DeliveryResult::Skipped, _)
        );
        self.event == AlertEvent::Down && is_skipped && self.attempts == 0 && !self.reminded
    }

    fn is_waiting(&self) -> bool {
        self.outcome == ExpectedOutcome::Waiting
    }

    /// True if this is the waiting row with this number in the engine.
    pub(crate) fn is_sent_as(&self, number: u64) -> bool {
        self.is_waiting() && self.number == Some(number)
    }

    fn finish(&mut self, outcome: ExpectedOutcome) {
        (self.outcome, self.sending) = (outcome, false);
    }
}

/// A row of the engine.
#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    pub(crate) number: u64,
    pub(crate) flip: usize,
    pub(crate) channel: u64,
    pub(crate) check: u64,
    event: AlertEvent,
    attempts: u16,
    outcome: Option<DeliveryResult>,
    reason: Box<str>,
    /// Time and limit of a warning that waits.
    warning: Option<(i64, i64)>,
}

impl StoredMessage {
    pub(crate) fn waiting(row: &OutboxRow, flip: usize) -> Self {
        let number = row.number.0;
        let channel = row.channel.0;
        let check = row.check.0;
        let event = row.event;
        let attempts = row.attempts;
        Self {
            number,
            flip,
            channel,
            check,
            event,
            attempts,
            outcome: None,
            reason: "".into(),
            warning: event.is_warning().then(|| {
                let limit = row.limit.number().into();
                (row.at.micros(), limit)
            }),
        }
    }

    pub(crate) fn finished(row: &DeliveryRecord, flip: usize) -> Self {
        let number = row.number.0;
        let channel = row.channel.0;
        let check = row.check.0;
        let event = row.event;
        let attempts = row.attempts;
        Self {
            number,
            flip,
            channel,
            check,
            event,
            attempts,
            outcome: Some(row.result),
            reason: row.reason.clone(),
            warning: None,
        }
    }

    pub(crate) fn is_for(&self, row: &ExpectedMessage) -> bool {
        (self.channel, self.check, self.flip, self.event)
            == (row.channel, row.check, row.flip, row.event)
            && (self.warning.is_none() || self.warning == row.warning)
    }

    fn has_outcome(&self, outcome: ExpectedOutcome) -> bool {
        match (self.outcome, outcome) {
            (None, ExpectedOutcome::Waiting) => true,
            (Some(outcome), ExpectedOutcome::Finished(expected, words)) => {
                outcome == expected && self.reason.contains(words)
            }
            _ => false,
        }
    }
}

/// Failed alerts about a downtime: no other check stays hidden behind their checks.
pub(crate) type FailedDownMessages = Vec<ExpectedMessage>;

#[derive(Clone, Default)]
pub(crate) struct MessageLog {
    pub(crate) rows: Vec<ExpectedMessage>,
}

impl MessageLog {
    pub(crate) fn add(&mut self, row: ExpectedMessage, outcome: ExpectedOutcome) {
        self.rows.push(ExpectedMessage { outcome, ..row });
    }

    /// Queues a row. If too many rows about one check wait for a channel, the two oldest are
    /// superseded and the function returns true. Rows being sent and downtimes that may have been
    /// announced are never superseded.
    pub(crate) fn queue(&mut self, row: ExpectedMessage) -> bool {
        if row.event.is_warning() {
            return self.queue_warning(row);
        }
        let is_same = |other: &ExpectedMessage| {
            let is_change = other.is_waiting() && !other.event.is_warning();
            is_change && (other.channel, other.check) == (row.channel, row.check)
        };
        let waiting: Vec<_> = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, other)| is_same(other))
            .map(|(at, _)| at)
            .collect();
        self.rows.push(row);
        let is_superseded = |pair: &&[usize]| {
            let [first, second] = [pair[0], pair[1]].map(|at| &self.rows[at]);
            !(first.begun
                || second.begun
                || (first.event == AlertEvent::Down && first.may_have_arrived))
        };
        let superseded = waiting
            .windows(2)
            .find(is_superseded)
            .filter(|_| waiting.len() >= MAX_WAITING);
        superseded
            .into_iter()
            .flatten()
            .for_each(|at| self.rows[*at].finish(SUPERSEDED));
        superseded.is_some()
    }

    /// Queues a warning. If too many warnings about its check wait for its channel, the oldest that
    /// are not being sent are superseded and the function returns true.
    fn queue_warning(&mut self, row: ExpectedMessage) -> bool {
        let is_same = |other: &&mut ExpectedMessage| {
            let is_warning = other.is_waiting() && other.event.is_warning();
            is_warning && (other.channel, other.check) == (row.channel, row.check)
        };
        let waiting: Vec<_> = self.rows.iter_mut().filter(is_same).collect();
        let surplus = (waiting.len() + 1).saturating_sub(MAX_WAITING_WARNINGS);
        let idle = waiting.into_iter().filter(|other| !other.begun);
        let superseded = idle.take(surplus).map(|old| old.finish(NEWER_WARNINGS));
        let count = superseded.count();
        self.rows.push(row);
        count > 0
    }

    /// Returns the last row about a downtime for a channel: its start, or the end of its
    /// monitoring.
    pub(crate) fn last_about_downtime(
        &self,
        channel: u64,
        check: u64,
        flip: usize,
    ) -> Option<&ExpectedMessage> {
        let is_about =
            |row: &&ExpectedMessage| (row.channel, row.check, row.flip) == (channel, check, flip);
        self.rows
            .iter()
            .rev()
            .filter(is_about)
            .find(|row| matches!(row.event, AlertEvent::Down | AlertEvent::Closed))
    }

    /// Records that a reminder of these downtimes was delivered to the channel.
    pub(crate) fn record_reminder(&mut self, channel: u64, downtimes: &[(u64, usize)]) {
        for row in self
            .rows
            .iter_mut()
            .filter(|row| row.channel == channel && row.is_unsent())
        {
            row.reminded |= downtimes.contains(&(row.check, row.flip));
            row.precedes_reminder = true;
        }
    }

    pub(crate) fn has_waiting_reminder(&self, channel: u64) -> bool {
        self.rows
            .iter()
            .any(|row| row.is_waiting() && (row.channel, row.check) == (channel, 0))
    }

    /// Skips the rows of a deleted check, apart from those being sent and from the end of an
    /// incident. If such an end is being sent and is sent again, it announces the deletion.
    pub(crate) fn skip_rows_of_deleted_check(
        &mut self,
        check: u64,
        keeps_incidents: impl Fn(u64) -> bool,
    ) {
        let waiting: Vec<_> = (0..self.rows.len())
            .filter(|at| self.rows[*at].is_waiting() && self.rows[*at].check == check)
            .collect();
        for at in waiting.iter().copied() {
            let channel = self.rows[at].channel;
            let is_last = !waiting
                .iter()
                .any(|later| *later > at && self.rows[*later].channel == channel);
            if is_last && self.rows[at].event != AlertEvent::Down && keeps_incidents(channel) {
                let row = &mut self.rows[at];
                row.is_check_deleted = true;
                if !row.sending {
                    row.event = AlertEvent::Closed;
                    row.may_have_arrived |= row.begun;
                    row.begun = false;
                }
            } else if !self.rows[at].sending {
                self.rows[at].finish(CHECK_DELETED);
            }
        }
    }

    /// Skips rows that wait for a deleted or disabled channel, apart from those being sent.
    pub(crate) fn skip_waiting(&mut self, outcome_of: impl Fn(u64) -> Option<ExpectedOutcome>) {
        for row in self
            .rows
            .iter_mut()
            .filter(|row| row.is_waiting() && !row.sending)
        {
            if let Some(outcome) = outcome_of(row.channel) {
                row.finish(outcome);
            }
        }
    }

    /// Applies a restart of the server. The file records the time of delivered reminders, but not
    /// their checks.
    pub(crate) fn restart(&mut self) {
        for row in &mut self.rows {
            row.sending = false;
            row.reminded |= row.precedes_reminder;
        }
    }

    /// Returns the waiting rows: idle ones first, those being sent second.
    pub(crate) fn idle_and_sending(&self) -> (Vec<&ExpectedMessage>, Vec<&ExpectedMessage>) {
        self.rows
            .iter()
            .filter(|row| row.is_waiting())
            .partition(|row| !row.sending)
    }

    pub(crate) fn number(row: &ExpectedMessage) -> u64 {
        row.number.expect("the row was found in the engine")
    }

    fn find(&mut self, number: u64) -> Option<&mut ExpectedMessage> {
        self.rows.iter_mut().find(|row| row.is_sent_as(number))
    }

    /// Begins attempts.
    pub(crate) fn begin(
        &mut self,
        numbers: &[u64],
        sendable: impl Fn(u64) -> bool,
        exists: impl Fn(u64) -> bool,
    ) -> FailedDownMessages {
        let mut failed = Vec::new();
        for number in numbers {
            let Some(row) = self.find(*number).filter(|row| sendable(row.channel)) else {
                continue;
            };
            row.interrupted += u8::from(row.begun && !row.sending);
            row.may_have_arrived |= row.begun;
            if row.check != 0 && !row.is_check_deleted && !exists(row.check) {
                row.finish(CHECK_DELETED);
            } else if row.interrupted >= MAX_INTERRUPTED {
                row.finish(INTERRUPTED);
                failed.push(*row);
            } else {
                row.announce_deletion();
                (row.attempts, row.begun, row.sending) = (row.attempts + 1, true, true);
            }
        }
        failed
    }

    /// Ends an attempt.
    pub(crate) fn report(
        &mut self,
        number: u64,
        sent: &SendOutcome,
        exists: impl Fn(u64) -> bool,
    ) -> FailedDownMessages {
        let Some(row) = self.find(number) else {
            return Vec::new();
        };
        let outcome = match sent {
            SendOutcome::Delivered | SendOutcome::PartlyDelivered(_) => {
                ExpectedOutcome::Finished(DeliveryResult::Delivered, "")
            }
            SendOutcome::Superseded(_) => ExpectedOutcome::Finished(DeliveryResult::Superseded, ""),
            SendOutcome::Skipped(_) => ExpectedOutcome::Finished(DeliveryResult::Skipped, ""),
            SendOutcome::Failed(_) | SendOutcome::ChannelRejected(_) => {
                ExpectedOutcome::Finished(DeliveryResult::Failed, "")
            }
            SendOutcome::Retry { .. }
                if row.check != 0 && !row.is_check_deleted && !exists(row.check) =>
            {
                CHECK_DELETED
            }
            SendOutcome::Retry {
                may_have_arrived, ..
            } => {
                row.announce_deletion();
                (row.begun, row.sending) = (false, false);
                row.may_have_arrived |= *may_have_arrived;
                return Vec::new();
            }
        };
        row.finish(outcome);
        let is_failed = matches!(
            outcome,
            ExpectedOutcome::Finished(DeliveryResult::Failed, _)
        );
        is_failed.then_some(*row).into_iter().collect()
    }

    /// Identifies new rows of the engine with expected ones. Returns the others.
    pub(crate) fn identify<'a>(&mut self, found: &'a [StoredMessage]) -> Vec<&'a StoredMessage> {
        let known: BTreeSet<_> = self.rows.iter().filter_map(|row| row.number).collect();
        let new = found.iter().filter(|found| !known.contains(&found.number));
        let mut unidentified: Vec<_> = self
            .rows
            .iter_mut()
            .filter(|row| row.number.is_none())
            .collect();
        let is_unexpected = |found: &&StoredMessage| {
            let at = unidentified.iter().position(|row| found.is_for(row));
            if let Some(at) = at {
                unidentified.remove(at).number = Some(found.number);
            }
            at.is_none()
        };
        new.filter(is_unexpected).collect()
    }

    /// Adds a warning that may have been given at any time since the last comparison. Its state,
    /// and which older warnings it superseded, depend on that time.
    pub(crate) fn adopt_warning(
        &mut self,
        row: ExpectedMessage,
        found: &StoredMessage,
        all: &[StoredMessage],
    ) {
        let mut outcomes = WARNING_OUTCOMES.into_iter();
        let outcome = outcomes.rfind(|outcome| found.has_outcome(*outcome));
        let outcome = outcome.unwrap_or(ExpectedOutcome::Waiting);
        self.rows.push(ExpectedMessage {
            outcome,
            number: Some(found.number),
            ..row
        });
        let is_same = |other: &&mut ExpectedMessage| {
            (other.channel, other.check) == (row.channel, row.check) && !other.begun
        };
        let superseded = all.iter().filter(|found| found.has_outcome(NEWER_WARNINGS));
        let superseded: BTreeSet<_> = superseded.map(|found| Some(found.number)).collect();
        for other in self.rows.iter_mut().filter(is_same) {
            if superseded.contains(&other.number) {
                other.finish(NEWER_WARNINGS);
            }
        }
    }

    /// Compares the rows of the engine with the expected ones, once they are identified: none is
    /// missing, unexpected or duplicated.
    pub(crate) fn compare(&self, found: &[StoredMessage]) -> Result<(), String> {
        let mut seen = vec![false; self.rows.len()];
        for found in found {
            let mut rows = self.rows.iter();
            let at = rows.position(|row| row.number == Some(found.number));
            let Some(at) = at else {
                let same: Vec<_> = self
                    .rows
                    .iter()
                    .filter(|row| (row.channel, row.check) == (found.channel, found.check))
                    .collect();
                return Err(format!(
                    "unexpected alert: {found:?} after {:?}",
                    &same[same.len().saturating_sub(3)..]
                ));
            };
            let row = &self.rows[at];
            if seen[at]
                || !found.is_for(row)
                || !found.has_outcome(row.outcome)
                || found.attempts != row.attempts
            {
                return Err(format!("found the alert {found:?}, expected {row:?}"));
            }
            seen[at] = true;
        }
        match seen.iter().position(|seen| !seen) {
            Some(at) => Err(format!("missing alert: {:?}", self.rows[at])),
            None => Ok(()),
        }
    }
}

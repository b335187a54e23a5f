//! What is to be found in the outbox and in the log of deliveries, row by row, and what becomes of
//! each.

use overdue::domain::alert::{AlertEvent, DeliveryResult};
use overdue::domain::alert::{DeliveryRecord, OutboxRow};
use overdue::engine::command::SendOutcome;

/// Rows of a channel about a check that may wait.
const MAX_WAITING: usize = 8;
/// Starts of the server that find a row begun, after which it is given up.
const MAX_INTERRUPTED: u8 = 3;

/// What has become of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExpectedOutcome {
    Waiting,
    /// With some words of the reason.
    Finished(DeliveryResult, &'static str),
}

pub(crate) const DISABLED: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "the channel is disabled");
pub(crate) const CHANNEL_GONE: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "the channel was deleted");
pub(crate) const CHECK_GONE: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "the check was deleted");
pub(crate) const ASSIGNED_WHILE_DOWN: ExpectedOutcome = ExpectedOutcome::Finished(
    DeliveryResult::Skipped,
    "it was down already when the channel was assigned",
);
pub(crate) const NOBODY: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Skipped, "nobody is notified");
const SUPERSEDED: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Superseded, "too many changes");
const INTERRUPTED: ExpectedOutcome =
    ExpectedOutcome::Finished(DeliveryResult::Failed, "ended the server three times");

/// A row. Channel 0: it says why no channel was notified. Check 0: a reminder of all that is down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedMessage {
    pub(crate) channel: u64,
    pub(crate) check: u64,
    /// The flip of the check, counted from 1.
    pub(crate) flip: usize,
    pub(crate) event: AlertEvent,
    pub(crate) attempts: u16,
    pub(crate) outcome: ExpectedOutcome,
    /// An attempt has begun that was not reported.
    begun: bool,
    /// It has begun since the last start.
    sending: bool,
    interrupted: u8,
    /// It is not known whether an earlier attempt arrived.
    doubtful: bool,
    /// A reminder has told its channel since that the check is down.
    reminded: bool,
    /// A reminder was delivered to its channel since, whether it named the check or not.
    precedes_reminder: bool,
    /// It says that the check was deleted, and is sent all the same.
    of_gone: bool,
    /// The number by which the engine knows it, once it was found there.
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
            begun: false,
            sending: false,
            interrupted: 0,
            doubtful: false,
            reminded: false,
            precedes_reminder: false,
            of_gone: false,
            number: None,
        }
    }

    pub(crate) fn of_deleted_check(self) -> Self {
        Self {
            of_gone: true,
            ..self
        }
    }

    fn announce_deletion(&mut self) {
        if self.of_gone {
            self.event = AlertEvent::Closed;
        }
    }

    /// Whether it was left out before it was ever sent, and nothing has said the same since.
    pub(crate) fn is_unsent(&self) -> bool {
        let is_skipped = matches!(
            self.outcome,
            ExpectedOutcome::Finished(DeliveryResult::Skipped, _)
        );
        self.event == AlertEvent::Down && is_skipped && self.attempts == 0 && !self.reminded
    }

    fn waits(&self) -> bool {
        self.outcome == ExpectedOutcome::Waiting
    }

    /// Whether it is what waits by this number in the engine.
    pub(crate) fn is_sent_as(&self, number: u64) -> bool {
        self.waits() && self.number == Some(number)
    }

    fn finish(&mut self, fate: ExpectedOutcome) {
        (self.outcome, self.sending) = (fate, false);
    }
}

/// A row as it is found in the engine.
#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    pub(crate) number: u64,
    pub(crate) flip: usize,
    channel: u64,
    check: u64,
    event: AlertEvent,
    attempts: u16,
    outcome: Option<DeliveryResult>,
    reason: Box<str>,
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
        }
    }

    fn is_for(&self, row: &ExpectedMessage) -> bool {
        (self.channel, self.check, self.flip, self.event)
            == (row.channel, row.check, row.flip, row.event)
    }

    fn has(&self, fate: ExpectedOutcome) -> bool {
        match (self.outcome, fate) {
            (None, ExpectedOutcome::Waiting) => true,
            (Some(outcome), ExpectedOutcome::Finished(expected, words)) => {
                outcome == expected && self.reason.contains(words)
            }
            _ => false,
        }
    }
}

/// Down rows that were given up, for which nothing hides behind their checks any more.
pub(crate) type FailedDownMessages = Vec<ExpectedMessage>;

#[derive(Clone, Default)]
pub(crate) struct MessageLog {
    pub(crate) rows: Vec<ExpectedMessage>,
}

impl MessageLog {
    pub(crate) fn add(&mut self, row: ExpectedMessage, fate: ExpectedOutcome) {
        self.rows.push(ExpectedMessage {
            outcome: fate,
            ..row
        });
    }

    /// A row waits to be sent. When too many changes of one check wait for a channel, the two
    /// oldest are left out, and this says so; but nothing is that is being sent, and no
    /// downtime that may have been announced.
    pub(crate) fn queue(&mut self, row: ExpectedMessage) -> bool {
        let is_same = |other: &ExpectedMessage| {
            other.waits() && (other.channel, other.check) == (row.channel, row.check)
        };
        let waiting: Vec<_> = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, other)| is_same(other))
            .map(|(at, _)| at)
            .collect();
        self.rows.push(row);
        let is_needless = |pair: &&[usize]| {
            let [first, second] = [pair[0], pair[1]].map(|at| &self.rows[at]);
            !(first.begun || second.begun || (first.event == AlertEvent::Down && first.doubtful))
        };
        let needless = waiting
            .windows(2)
            .find(is_needless)
            .filter(|_| waiting.len() >= MAX_WAITING);
        needless
            .into_iter()
            .flatten()
            .for_each(|at| self.rows[*at].finish(SUPERSEDED));
        needless.is_some()
    }

    /// What was last said to a channel about a downtime: that the check is down, or that the
    /// channel watches it no longer.
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

    /// The channel has got a reminder that names these downtimes.
    pub(crate) fn note_reminded(&mut self, channel: u64, downtimes: &[(u64, usize)]) {
        for row in self
            .rows
            .iter_mut()
            .filter(|row| row.channel == channel && row.is_unsent())
        {
            row.reminded |= downtimes.contains(&(row.check, row.flip));
            row.precedes_reminder = true;
        }
    }

    pub(crate) fn reminds(&self, channel: u64) -> bool {
        self.rows
            .iter()
            .any(|row| row.waits() && (row.channel, row.check) == (channel, 0))
    }

    /// Skips the rows of a deleted check, apart from those being sent, and from the end of an
    /// incident. An end that is being sent announces the deletion if it is sent again.
    pub(crate) fn forget_check(&mut self, check: u64, keeps_incidents: impl Fn(u64) -> bool) {
        let waiting: Vec<_> = (0..self.rows.len())
            .filter(|at| self.rows[*at].waits() && self.rows[*at].check == check)
            .collect();
        for at in waiting.iter().copied() {
            let channel = self.rows[at].channel;
            let is_last = !waiting
                .iter()
                .any(|later| *later > at && self.rows[*later].channel == channel);
            if is_last && self.rows[at].event != AlertEvent::Down && keeps_incidents(channel) {
                let row = &mut self.rows[at];
                row.of_gone = true;
                if !row.sending {
                    row.event = AlertEvent::Closed;
                    row.doubtful |= row.begun;
                    row.begun = false;
                }
            } else if !self.rows[at].sending {
                self.rows[at].finish(CHECK_GONE);
            }
        }
    }

    /// What waits for a channel that is gone or disabled, apart from what is being sent.
    pub(crate) fn skip_waiting(&mut self, fate: impl Fn(u64) -> Option<ExpectedOutcome>) {
        for row in self
            .rows
            .iter_mut()
            .filter(|row| row.waits() && !row.sending)
        {
            if let Some(fate) = fate(row.channel) {
                row.finish(fate);
            }
        }
    }

    /// The server has ended and started. Its file records when reminders were delivered, but not
    /// the checks they named.
    pub(crate) fn restart(&mut self) {
        for row in &mut self.rows {
            row.sending = false;
            row.reminded |= row.precedes_reminder;
        }
    }

    /// Numbers of rows that nobody sends, and of those that somebody does.
    pub(crate) fn to_send(&self) -> (Vec<&ExpectedMessage>, Vec<&ExpectedMessage>) {
        self.rows
            .iter()
            .filter(|row| row.waits())
            .partition(|row| !row.sending)
    }

    pub(crate) fn number(row: &ExpectedMessage) -> u64 {
        row.number.expect("it was found")
    }

    fn find(&mut self, number: u64) -> Option<&mut ExpectedMessage> {
        self.rows.iter_mut().find(|row| row.is_sent_as(number))
    }

    /// Attempts begin.
    pub(crate) fn begin(
        &mut self,
        numbers: &[u64],
        sendable: impl Fn(u64) -> bool,
        is_there: impl Fn(u64) -> bool,
    ) -> FailedDownMessages {
        let mut given_up = Vec::new();
        for number in numbers {
            let Some(row) = self.find(*number).filter(|row| sendable(row.channel)) else {
                continue;
            };
            row.interrupted += u8::from(row.begun && !row.sending);
            row.doubtful |= row.begun;
            if row.check != 0 && !row.of_gone && !is_there(row.check) {
                row.finish(CHECK_GONE);
            } else if row.interrupted >= MAX_INTERRUPTED {
                row.finish(INTERRUPTED);
                given_up.push(*row);
            } else {
                row.announce_deletion();
                (row.attempts, row.begun, row.sending) = (row.attempts + 1, true, true);
            }
        }
        given_up
    }

    /// An attempt has ended.
    pub(crate) fn report(
        &mut self,
        number: u64,
        sent: &SendOutcome,
        is_there: impl Fn(u64) -> bool,
    ) -> FailedDownMessages {
        let Some(row) = self.find(number) else {
            return Vec::new();
        };
        let fate = match sent {
            SendOutcome::Delivered | SendOutcome::PartlyDelivered(_) => {
                ExpectedOutcome::Finished(DeliveryResult::Delivered, "")
            }
            SendOutcome::Superseded(_) => ExpectedOutcome::Finished(DeliveryResult::Superseded, ""),
            SendOutcome::Skipped(_) => ExpectedOutcome::Finished(DeliveryResult::Skipped, ""),
            SendOutcome::Failed(_) | SendOutcome::ChannelRejected(_) => {
                ExpectedOutcome::Finished(DeliveryResult::Failed, "")
            }
            SendOutcome::Retry { .. } if row.check != 0 && !row.of_gone && !is_there(row.check) => {
                CHECK_GONE
            }
            SendOutcome::Retry {
                may_have_arrived: doubtful,
                ..
            } => {
                row.announce_deletion();
                (row.begun, row.sending) = (false, false);
                row.doubtful |= *doubtful;
                return Vec::new();
            }
        };
        row.finish(fate);
        let is_given_up = matches!(fate, ExpectedOutcome::Finished(DeliveryResult::Failed, _));
        is_given_up.then_some(*row).into_iter().collect()
    }

    /// Finds each row of the engine here and each row from here in the engine: none is lost, none
    /// is false, none is there twice.
    pub(crate) fn compare(&mut self, found: &[StoredMessage]) -> Result<(), String> {
        let mut seen = vec![false; self.rows.len()];
        for found in found {
            let known = self
                .rows
                .iter()
                .position(|row| row.number == Some(found.number));
            let at = known.or_else(|| {
                self.rows
                    .iter()
                    .position(|row| row.number.is_none() && found.is_for(row))
            });
            let Some(at) = at else {
                let same: Vec<_> = self
                    .rows
                    .iter()
                    .filter(|row| (row.channel, row.check) == (found.channel, found.check))
                    .collect();
                return Err(format!(
                    "an alert that nobody is to get: {found:?} after {:?}",
                    &same[same.len().saturating_sub(3)..]
                ));
            };
            let row = &mut self.rows[at];
            row.number = Some(found.number);
            if seen[at]
                || !found.is_for(row)
                || !found.has(row.outcome)
                || found.attempts != row.attempts
            {
                return Err(format!("an alert is {found:?}, expected {row:?}"));
            }
            seen[at] = true;
        }
        match seen.iter().position(|seen| !seen) {
            Some(at) => Err(format!("an alert is lost: {:?}", self.rows[at])),
            None => Ok(()),
        }
    }
}

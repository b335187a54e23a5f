//! What is to be found in the outbox and in the log of deliveries, row by row, and what becomes of each.

use overdue::domain::alert::{Delivery, OutboxRow};
use overdue::domain::alert::{DeliveryOutcome, Event};
use overdue::engine::command::SendOutcome;

/// Rows of a channel about a check that may wait.
const MOST_WAITING: usize = 8;
/// Starts of the server that find a row begun, after which it is given up.
const MOST_INTERRUPTED: u8 = 3;

/// What has become of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Waits,
    /// With some words of the reason.
    Over(DeliveryOutcome, &'static str),
}

pub(crate) const DISABLED: Fate = Fate::Over(DeliveryOutcome::Skipped, "the channel is disabled");
pub(crate) const CHANNEL_GONE: Fate = Fate::Over(DeliveryOutcome::Skipped, "the channel was deleted");
pub(crate) const CHECK_GONE: Fate = Fate::Over(DeliveryOutcome::Skipped, "the check was deleted");
pub(crate) const JOINED_LATE: Fate = Fate::Over(DeliveryOutcome::Skipped, "it was down already when the channel was assigned");
pub(crate) const NOBODY: Fate = Fate::Over(DeliveryOutcome::Skipped, "nobody is notified");
const OVERTAKEN: Fate = Fate::Over(DeliveryOutcome::Superseded, "too many changes");
const INTERRUPTED: Fate = Fate::Over(DeliveryOutcome::Failed, "ended the server three times");

/// A row. Channel 0: it says why no channel was notified. Check 0: a reminder of all that is down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) channel: u64,
    pub(crate) check: u64,
    /// The flip of the check, counted from 1.
    pub(crate) flip: usize,
    pub(crate) event: Event,
    pub(crate) attempts: u16,
    pub(crate) fate: Fate,
    /// An attempt has begun that was not reported.
    begun: bool,
    /// It has begun since the last start.
    sending: bool,
    interrupted: u8,
    /// It is not known whether an earlier attempt arrived.
    doubtful: bool,
    /// A reminder has told its channel since that the check is down.
    reminded: bool,
    /// It says that the check was deleted, and is sent all the same.
    of_gone: bool,
    /// The number by which the engine knows it, once it was found there.
    number: Option<u64>,
}

impl Row {
    pub(crate) fn new(channel: u64, check: u64, flip: usize, event: Event) -> Self {
        let (attempts, interrupted, number, fate) = (0, 0, None, Fate::Waits);
        let (begun, sending, doubtful, reminded, of_gone) = (false, false, false, false, false);
        Self { channel, check, flip, event, attempts, fate, begun, sending, interrupted, doubtful, reminded, of_gone, number }
    }

    pub(crate) fn of_gone(self) -> Self {
        Self { of_gone: true, ..self }
    }

    /// Whether it was left out before it was ever sent, and nothing has said the same since.
    pub(crate) fn is_unsent(&self) -> bool {
        let is_skipped = matches!(self.fate, Fate::Over(DeliveryOutcome::Skipped, _));
        self.event == Event::Down && is_skipped && self.attempts == 0 && !self.reminded
    }

    fn waits(&self) -> bool {
        self.fate == Fate::Waits
    }

    /// Whether it is what waits by this number in the engine.
    pub(crate) fn is_sent_as(&self, number: u64) -> bool {
        self.waits() && self.number == Some(number)
    }

    fn end(&mut self, fate: Fate) {
        (self.fate, self.sending) = (fate, false);
    }
}

/// A row as it is found in the engine.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) flip: usize,
    channel: u64,
    check: u64,
    event: Event,
    attempts: u16,
    outcome: Option<DeliveryOutcome>,
    reason: Box<str>,
}

impl Found {
    pub(crate) fn waiting(row: &OutboxRow, flip: usize) -> Self {
        let (number, channel, check, event, attempts) = (row.number.0, row.channel.0, row.check.0, row.event, row.attempts);
        Self { number, flip, channel, check, event, attempts, outcome: None, reason: "".into() }
    }

    pub(crate) fn over(row: &Delivery, flip: usize) -> Self {
        let (number, channel, check, event, attempts) = (row.number.0, row.channel.0, row.check.0, row.event, row.attempts);
        Self { number, flip, channel, check, event, attempts, outcome: Some(row.outcome), reason: row.reason.clone() }
    }

    fn is_for(&self, row: &Row) -> bool {
        (self.channel, self.check, self.flip, self.event) == (row.channel, row.check, row.flip, row.event)
    }

    fn has(&self, fate: Fate) -> bool {
        match (self.outcome, fate) {
            (None, Fate::Waits) => true,
            (Some(outcome), Fate::Over(expected, words)) => outcome == expected && self.reason.contains(words),
            _ => false,
        }
    }
}

/// Down rows that were given up, for which nothing hides behind their checks any more.
pub(crate) type GivenUp = Vec<Row>;

#[derive(Clone, Default)]
pub(crate) struct Log {
    pub(crate) rows: Vec<Row>,
}

impl Log {
    pub(crate) fn add(&mut self, row: Row, fate: Fate) {
        self.rows.push(Row { fate, ..row });
    }

    /// A row waits to be sent. When too many changes of one check wait for a channel, the two oldest are left out, and this says so; but
    /// nothing is that is being sent, and no downtime that may have been announced.
    pub(crate) fn queue(&mut self, row: Row) -> bool {
        let is_same = |other: &Row| other.waits() && (other.channel, other.check) == (row.channel, row.check);
        let waiting: Vec<_> = self.rows.iter().enumerate().filter(|(_, other)| is_same(other)).map(|(at, _)| at).collect();
        self.rows.push(row);
        let is_needless = |pair: &&[usize]| {
            let [first, second] = [pair[0], pair[1]].map(|at| &self.rows[at]);
            !(first.begun || second.begun || (first.event == Event::Down && first.doubtful))
        };
        let needless = waiting.windows(2).find(is_needless).filter(|_| waiting.len() >= MOST_WAITING);
        needless.into_iter().flatten().for_each(|at| self.rows[*at].end(OVERTAKEN));
        needless.is_some()
    }

    /// What was last said to a channel about a downtime: that the check is down, or that the channel watches it no longer.
    pub(crate) fn last(&self, channel: u64, check: u64, flip: usize) -> Option<&Row> {
        let is_about = |row: &&Row| (row.channel, row.check, row.flip) == (channel, check, flip);
        self.rows.iter().rev().filter(is_about).find(|row| matches!(row.event, Event::Down | Event::Closed))
    }

    /// The channel has got a reminder that names these downtimes.
    pub(crate) fn note_reminded(&mut self, channel: u64, downtimes: &[(u64, usize)]) {
        for row in self.rows.iter_mut().filter(|row| row.channel == channel && row.is_unsent()) {
            row.reminded |= downtimes.contains(&(row.check, row.flip));
        }
    }

    pub(crate) fn reminds(&self, channel: u64) -> bool {
        self.rows.iter().any(|row| row.waits() && (row.channel, row.check) == (channel, 0))
    }

    /// What waits about a check that is deleted is left out, apart from what is being sent, and from the end of an incident.
    pub(crate) fn forget_check(&mut self, check: u64, keeps_incidents: impl Fn(u64) -> bool) {
        let waiting: Vec<_> = (0..self.rows.len()).filter(|at| self.rows[*at].waits() && self.rows[*at].check == check).collect();
        for at in waiting.iter().copied() {
            if self.rows[at].sending {
                continue;
            }
            let channel = self.rows[at].channel;
            let is_last = !waiting.iter().any(|later| *later > at && self.rows[*later].channel == channel);
            if is_last && self.rows[at].event != Event::Down && keeps_incidents(channel) {
                let row = &mut self.rows[at];
                (row.event, row.of_gone, row.begun, row.doubtful) = (Event::Closed, true, false, row.doubtful || row.begun);
            } else {
                self.rows[at].end(CHECK_GONE);
            }
        }
    }

    /// What waits for a channel that is gone or disabled, apart from what is being sent.
    pub(crate) fn sweep(&mut self, fate: impl Fn(u64) -> Option<Fate>) {
        for row in self.rows.iter_mut().filter(|row| row.waits() && !row.sending) {
            if let Some(fate) = fate(row.channel) {
                row.end(fate);
            }
        }
    }

    /// The server has ended and started.
    pub(crate) fn restart(&mut self) {
        self.rows.iter_mut().for_each(|row| row.sending = false);
    }

    /// Numbers of rows that nobody sends, and of those that somebody does.
    pub(crate) fn to_send(&self) -> (Vec<&Row>, Vec<&Row>) {
        self.rows.iter().filter(|row| row.waits()).partition(|row| !row.sending)
    }

    pub(crate) fn number(row: &Row) -> u64 {
        row.number.expect("it was found")
    }

    fn find(&mut self, number: u64) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.is_sent_as(number))
    }

    /// Attempts begin.
    pub(crate) fn begin(&mut self, numbers: &[u64], sendable: impl Fn(u64) -> bool, is_there: impl Fn(u64) -> bool) -> GivenUp {
        let mut given_up = Vec::new();
        for number in numbers {
            let Some(row) = self.find(*number).filter(|row| sendable(row.channel)) else { continue };
            row.interrupted += u8::from(row.begun && !row.sending);
            row.doubtful |= row.begun;
            if row.check != 0 && !row.of_gone && !is_there(row.check) {
                row.end(CHECK_GONE);
            } else if row.interrupted >= MOST_INTERRUPTED {
                row.end(INTERRUPTED);
                given_up.push(*row);
            } else {
                (row.attempts, row.begun, row.sending) = (row.attempts + 1, true, true);
            }
        }
        given_up
    }

    /// An attempt has ended.
    pub(crate) fn report(&mut self, number: u64, sent: &SendOutcome, is_there: impl Fn(u64) -> bool) -> GivenUp {
        let Some(row) = self.find(number) else { return Vec::new() };
        let fate = match sent {
            SendOutcome::Delivered | SendOutcome::DeliveredInPart(_) => Fate::Over(DeliveryOutcome::Delivered, ""),
            SendOutcome::Superseded(_) => Fate::Over(DeliveryOutcome::Superseded, ""),
            SendOutcome::Skipped(_) => Fate::Over(DeliveryOutcome::Skipped, ""),
            SendOutcome::Failed(_) | SendOutcome::Closed(_) => Fate::Over(DeliveryOutcome::Failed, ""),
            SendOutcome::Later { .. } if row.check != 0 && !row.of_gone && !is_there(row.check) => CHECK_GONE,
            SendOutcome::Later { doubtful, .. } => {
                (row.begun, row.sending) = (false, false);
                row.doubtful |= *doubtful;
                return Vec::new();
            }
        };
        row.end(fate);
        let is_given_up = matches!(fate, Fate::Over(DeliveryOutcome::Failed, _));
        is_given_up.then_some(*row).into_iter().collect()
    }

    /// Finds each row of the engine here and each row from here in the engine: none is lost, none is false, none is there twice.
    pub(crate) fn compare(&mut self, found: &[Found]) -> Result<(), String> {
        let mut seen = vec![false; self.rows.len()];
        for found in found {
            let known = self.rows.iter().position(|row| row.number == Some(found.number));
            let at = known.or_else(|| self.rows.iter().position(|row| row.number.is_none() && found.is_for(row)));
            let Some(at) = at else {
                let same: Vec<_> = self.rows.iter().filter(|row| (row.channel, row.check) == (found.channel, found.check)).collect();
                return Err(format!("an alert that nobody is to get: {found:?} after {:?}", &same[same.len().saturating_sub(3)..]));
            };
            let row = &mut self.rows[at];
            row.number = Some(found.number);
            if seen[at] || !found.is_for(row) || !found.has(row.fate) || found.attempts != row.attempts {
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

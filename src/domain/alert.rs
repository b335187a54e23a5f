//! What is told about checks: whether a downtime has been told, what waits to be sent, and what has become of it.

mod attempt;

use std::sync::Arc;

use super::check::NameSet;
use super::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber, UniqueKey};
use super::status::Status;
use super::timestamp::Timestamp;
pub use attempt::{BatchPart, Recipient, RecipientResult, RefusedRecipient};

/// Whether the downtime that a check is in has been told to those who are to know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NotificationState {
    /// There is nothing to tell: the check is not down, or went down under a release that told nobody.
    #[default]
    NotNeeded,
    /// It is down, and at that moment it is decided again whether that is told.
    Pending {
        /// When.
        at: Timestamp,
        /// What it waits for.
        reason: HoldReason,
    },
    /// It is down, and that was told to all channels that it has.
    Notified,
    /// The same, but none of them took it: nothing hides behind this check.
    Undelivered,
}

impl NotificationState {
    /// The word for it in answers and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotNeeded => "quiet",
            Self::Pending { .. } => "due",
            Self::Notified => "told",
            Self::Undelivered => "unheard",
        }
    }

    /// When it is decided again whether the downtime is told, and what that waits for, in words; `None`: nothing is to be decided.
    pub fn pending_decision(self) -> Option<(Timestamp, &'static str)> {
        match self {
            Self::Pending { at, reason: held } => Some((at, held.pending_text())),
            Self::NotNeeded | Self::Notified | Self::Undelivered => None,
        }
    }

    /// Whether it is down and that was told, so that its end is told as well.
    pub fn is_notified(self) -> bool {
        matches!(self, Self::Notified | Self::Undelivered)
    }
}

/// What holds the telling of a downtime back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldReason {
    /// Pings could not be taken for a while, and its own may have been lost: it gets the chance to report again.
    ServerOutage,
    /// It has not failed as often in a row as it has to.
    BelowThreshold,
    /// A check that it depends on may be about to go down, or to be told, or has just come up: it gets the chance to report.
    ParentPending,
    /// This check that it depends on is down, and that was told.
    ParentDown(CheckId),
    /// A maintenance window is open.
    MaintenanceWindow,
    /// Its project is on trial.
    Trial,
}

impl HoldReason {
    /// A parent whose own deadline passes, or that is decided on, within so many seconds is waited for; and so often it is looked whether
    /// one still hides a check, a window is still open, or a project still on trial.
    pub const RECHECK_SECS: i64 = 15 * 60;

    /// The word for it in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServerOutage => "away",
            Self::BelowThreshold => "failures",
            Self::ParentPending => "parent",
            Self::ParentDown(_) => "behind",
            Self::MaintenanceWindow => "window",
            Self::Trial => "trial",
        }
    }

    /// What is waited for, in words.
    fn pending_text(self) -> &'static str {
        match self {
            Self::ServerOutage => "its ping may have been lost while none could be taken",
            Self::BelowThreshold => "it has not failed often enough in a row",
            Self::ParentPending => "a parent may be about to go down too, or has just come up",
            Self::ParentDown(_) => "a parent is down, which has been told",
            Self::MaintenanceWindow => "a maintenance window is open",
            Self::Trial => "its project is on trial and tells nobody",
        }
    }

    /// Why nobody was told of a downtime that ended meanwhile with a flip to this status, in words.
    pub fn skipped_text(self, to: Status) -> &'static str {
        match (self, to) {
            (Self::ServerOutage, Status::Up) => "it was up again soon after a time in which no pings could be taken",
            (Self::BelowThreshold, Status::Up) => "it was up again before it had failed often enough in a row",
            (Self::ParentPending, Status::Up) => "it was up again soon after a parent",
            (Self::ParentDown(_), Status::Up) => "it was down while a parent was, and up again before that",
            (Self::MaintenanceWindow, Status::Up) => "it was up again within a maintenance window",
            (Self::Trial, Status::Up) => "it was up again while its project was on trial",
            (Self::ServerOutage, _) => "it was paused soon after a time in which no pings could be taken",
            (Self::BelowThreshold, _) => "it was paused before it had failed often enough in a row",
            (Self::ParentPending, _) => "it was paused while it waited for a parent",
            (Self::ParentDown(_), _) => "it was paused while a parent was down",
            (Self::MaintenanceWindow, _) => "it was paused within a maintenance window",
            (Self::Trial, _) => "it was paused while its project was on trial",
        }
    }
}

/// A time in which no pings could be taken: nobody knows which jobs have reported in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// Since when.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
}

impl Outage {
    /// Shorter ones do not count: seconds.
    pub const MIN_SECS: i64 = 30;
    /// How many are remembered.
    pub const MAX_REMEMBERED: usize = 16;
    /// For so many seconds after it, checks whose pings may have been lost in it have the chance to report again. Times with less than that
    /// between them are one.
    pub const CATCH_UP_SECS: i64 = 15 * 60;

    /// Whether a ping that was expected from a moment on, until it was late, may have been lost in it.
    pub fn overlaps(self, expected: Timestamp, deadline: Timestamp) -> bool {
        expected <= self.to && deadline >= self.from
    }

    /// The two in one, if too little time lies between them to report again.
    pub fn merge(self, later: Self) -> Option<Self> {
        let is_near = later.from < self.to.plus_secs(Self::CATCH_UP_SECS) && self.from < later.to.plus_secs(Self::CATCH_UP_SECS);
        is_near.then(|| Self { from: self.from.min(later.from), to: self.to.max(later.to) })
    }

    /// Returns the first of these times in which the ping may have been lost; else, if `expected` may not be that of then, the first that
    /// had begun by the deadline.
    pub fn find_responsible(all: impl Iterator<Item = Self> + Clone, expected: Timestamp, deadline: Timestamp) -> Option<Self> {
        let touching = all.clone().find(|away| away.overlaps(expected, deadline));
        touching.or_else(|| all.into_iter().find(|away| away.from <= deadline))
    }

    /// What of it is not yet to come.
    pub fn clip_to(self, now: Timestamp) -> Option<Self> {
        (self.from <= now).then_some(Self { to: self.to.min(now), ..self })
    }
}

/// What is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlertEvent {
    /// A check went down.
    Down,
    /// A check that was told to be down is up again.
    Up,
    /// A check that was told to be down is no longer watched, or gone. Only those are told who keep incidents open.
    Closed,
    /// Somebody asked for a test.
    Test,
    /// Checks that were told to be down still are.
    StillDown,
    /// The server or another channel is in trouble, or out of it.
    Notice,
}

impl AlertEvent {
    /// The word for it in answers and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Closed => "closed",
            Self::Test => "test",
            Self::StillDown => "still",
            Self::Notice => "notice",
        }
    }
}

/// Something that is to be sent to a channel. The text is made when it is sent, from the state of that moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxRow {
    /// Its place; rows of one channel and check are sent in this order.
    pub number: DeliveryNumber,
    /// To whom.
    pub channel: ChannelId,
    /// About which check.
    pub check: CheckId,
    /// The flip that is told.
    pub flip: FlipNumber,
    /// What is told.
    pub event: AlertEvent,
    /// The time of the flip.
    pub at: Timestamp,
    /// When it was decided that it is told.
    pub queued: Timestamp,
    /// How often sending it was begun.
    pub attempts: u16,
    /// When the attempt began of which nothing has been reported yet.
    pub attempt_started: Option<Timestamp>,
    /// How often the server ended between the beginning of an attempt and its report.
    pub interruptions: u8,
    /// It is not known whether an earlier attempt arrived.
    pub may_be_duplicate: bool,
    /// Pings of the check may have been lost while none could be taken.
    pub during_outage: bool,
    /// Rows of the same channel and check that were left out before this one, since too many waited.
    pub dropped_before: u16,
    /// How the check was called, for a check that is gone.
    pub deleted_check: Option<Box<DeletedCheck>>,
    /// The names under which the downtime was told, if the check has others by now.
    pub alerted_names: Option<Arc<NameSet>>,
    /// For an attempt that began with others in several commands.
    pub part: Option<BatchPart>,
    /// The recipients of earlier attempts, if there are several; empty: nothing is known of them.
    pub recipients: Arc<[Recipient]>,
}

impl OutboxRow {
    /// A row that was queued at `now` and that nobody has begun to send.
    pub fn new(
        number: DeliveryNumber,
        channel: ChannelId,
        check: CheckId,
        flip: FlipNumber,
        event: AlertEvent,
        at: Timestamp,
        now: Timestamp,
    ) -> Self {
        let (attempts, interrupted, skipped) = (0, 0, 0);
        let (begun, gone, told_as, part, recipients) = (None, None, None, None, Arc::default());
        let (queued, doubtful, away) = (now, false, false);
        Self {
            number,
            channel,
            check,
            flip,
            event,
            at,
            queued,
            attempts,
            attempt_started: begun,
            interruptions: interrupted,
            may_be_duplicate: doubtful,
            during_outage: away,
            dropped_before: skipped,
            deleted_check: gone,
            alerted_names: told_as,
            part,
            recipients,
        }
    }

    /// Whether an earlier attempt may have arrived.
    pub fn may_have_arrived(&self) -> bool {
        self.may_be_duplicate || self.attempt_started.is_some()
    }
}

/// What is left of a check that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletedCheck {
    /// Its names.
    pub names: NameSet,
    /// What incidents about it are called.
    pub unique_key: UniqueKey,
}

/// What has become of something that was to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryRecord {
    /// The number that it had in the outbox.
    pub number: DeliveryNumber,
    /// To whom.
    pub channel: ChannelId,
    /// About which check.
    pub check: CheckId,
    /// The flip that was told.
    pub flip: FlipNumber,
    /// What was told.
    pub event: AlertEvent,
    /// When it was decided that it is told.
    pub queued: Timestamp,
    /// When it was finished.
    pub finished: Timestamp,
    /// What has become of it.
    pub result: DeliveryResult,
    /// How often sending it was begun.
    pub attempts: u16,
    /// The status of the last answer; 0: there was none, or the kind has no such thing.
    pub status: u16,
    /// Why it was not delivered, in words; at most [`Delivery::MAX_REASON_BYTES`] bytes.
    pub reason: Box<str>,
    /// The delivery that told this as well, in one message.
    pub merged_into: Option<DeliveryNumber>,
    /// An attempt before the last one may have arrived.
    pub may_be_duplicate: bool,
}

impl DeliveryRecord {
    /// Bytes of a reason.
    pub const MAX_REASON_BYTES: usize = 200;
    /// Reasons are one line of at most so many bytes.
    pub fn truncate_reason(text: &str) -> Box<str> {
        let line: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
        line.get(..line.floor_char_boundary(Self::MAX_REASON_BYTES)).unwrap_or(&line).trim_end().into()
    }
}

/// What has become of something that was to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryResult {
    /// The channel took it.
    Delivered,
    /// It was given up.
    Failed,
    /// A later message told it as well, or it was over before it was told.
    Superseded,
    /// It was not sent at all.
    Skipped,
}

impl DeliveryResult {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Delivered, Self::Failed, Self::Superseded, Self::Skipped];

    /// The outcome that goes by this word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// The word for it in answers and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Skipped => "skipped",
        }
    }
}

/// What is wrong with a channel, as far as sending to it has shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelHealth {
    /// Nothing is sent to it since then, for this reason, until somebody enables or changes it.
    pub disabled: Option<(Timestamp, Box<str>)>,
    /// What was sent since then has not been taken; the reason is that of the last attempt.
    pub failing: Option<(Timestamp, Box<str>)>,
    /// Evidence that messages arrive with the present settings.
    pub proof: DeliveryProof,
    /// Recipients of a mail channel that have unsubscribed.
    pub unsubscribed: Vec<Box<str>>,
    /// Recipients of a mail channel whose last mail was refused for good, while others took it.
    pub refused: Vec<RefusedRecipient>,
}

impl ChannelHealth {
    /// True if the channel is neither disabled nor failing.
    pub fn is_healthy(&self) -> bool {
        self.disabled.is_none() && self.failing.is_none()
    }

    /// Takes over the results of a mail to several recipients.
    pub fn note_recipients(&mut self, recipients: &[Recipient], now: Timestamp) {
        for Recipient { address, result } in recipients {
            let known = self.refused.iter().position(|refused| refused.address == *address);
            match (result, known) {
                (RecipientResult::Accepted, Some(known)) => _ = self.refused.remove(known),
                (RecipientResult::Refused(reason), Some(known)) => {
                    self.refused.iter_mut().skip(known).take(1).for_each(|refused| refused.reason = reason.clone());
                }
                (RecipientResult::Refused(reason), None) => {
                    self.refused.push(RefusedRecipient { address: address.clone(), since: now, reason: reason.clone() });
                }
                (RecipientResult::Accepted | RecipientResult::PossiblyDelivered | RecipientResult::Pending, _) => {}
            }
        }
    }
}

/// Evidence that messages to a channel arrive with its present settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum DeliveryProof {
    /// Nothing has arrived yet.
    #[default]
    None,
    /// The last test failed for this reason, and nothing has arrived since.
    TestFailed(Box<str>),
    /// Something has arrived.
    Delivered,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_downtime_is_explained_by_the_outage_in_which_its_ping_may_have_been_lost() {
        let away = |from, to| Outage { from: Timestamp::from_secs(from), to: Timestamp::from_secs(to) };
        // That of an import comes before those of this server, the latest first.
        let (import, later, earlier) = (away(100, 200), away(900, 950), away(300, 400));
        for (all, expected, deadline, found) in [
            (vec![import, later, earlier], 500, 1000, Some(later)),
            (vec![import, later, earlier], 350, 800, Some(earlier)),
            (vec![import, later, earlier], 150, 800, Some(import)),
            (vec![later, earlier], 450, 800, Some(earlier)),
            (vec![later], 450, 800, None),
        ] {
            let (expected, deadline) = (Timestamp::from_secs(expected), Timestamp::from_secs(deadline));
            assert_eq!(Outage::find_responsible(all.iter().copied(), expected, deadline), found, "{expected:?} {deadline:?}");
        }
    }

    #[test]
    fn reasons_are_one_short_line() {
        for (text, reason) in [("no answer", "no answer"), ("a\r\nb\u{0}", "a  b"), ("", "")] {
            assert_eq!(&*DeliveryRecord::truncate_reason(text), reason);
        }
        assert_eq!(&*DeliveryRecord::truncate_reason(&"ž".repeat(150)), "ž".repeat(100));
        assert_eq!(&*DeliveryRecord::truncate_reason(&format!("x{}", "ž".repeat(150))), format!("x{}", "ž".repeat(99)));
    }
}

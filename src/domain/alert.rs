//! Alerts about checks: whether channels were notified of a downtime, alerts that wait to be sent,
//! and delivery results.

mod attempt;

use std::sync::Arc;

use super::check::{CheckLabels, RunLimit, WarningKind};
use super::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber, UniqueKey};
use super::status::Status;
use super::timestamp::Timestamp;
pub use attempt::{MessagePart, Recipient, RecipientResult, RefusedRecipient};

/// Notification state of the downtime that a check is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NotificationState {
    /// There is nothing to notify: the check is not down, or went down under a release without
    /// alerts.
    #[default]
    NotNeeded,
    /// The check is down, and the decision whether to alert is pending.
    Pending {
        /// Time of the next decision.
        at: Timestamp,
        /// Reason for holding the alert back.
        reason: HoldReason,
    },
    /// Alerts were queued for at least one enabled channel.
    Notified,
    /// No channel can be expected to get the alert: there is none, all are disabled, the outbox was
    /// full, or every delivery failed. Alerts of its children are not held back.
    Undelivered,
}

impl NotificationState {
    /// Word for the state in API responses and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotNeeded => "quiet",
            Self::Pending { .. } => "due",
            Self::Notified => "told",
            Self::Undelivered => "unheard",
        }
    }

    /// Time of the pending decision about the alert, and the reason for waiting, in words.
    pub fn pending_decision(self) -> Option<(Timestamp, &'static str)> {
        match self {
            Self::Pending { at, reason } => Some((at, reason.pending_text())),
            Self::NotNeeded | Self::Notified | Self::Undelivered => None,
        }
    }

    /// True if channels were notified of the downtime, so that its end is notified too.
    pub fn is_notified(self) -> bool {
        matches!(self, Self::Notified | Self::Undelivered)
    }
}

/// Reason for holding back the alert about a downtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldReason {
    /// Pings may have been lost while none could be received. The check gets time to report.
    ServerOutage,
    /// The check is below its failure threshold.
    BelowThreshold,
    /// A parent may go down or be notified soon, or just came up. The check gets time to report.
    ParentPending,
    /// This parent is down, and that was notified.
    ParentDown(CheckId),
    /// A maintenance window is open.
    MaintenanceWindow,
    /// The project is on trial.
    Trial,
}

impl HoldReason {
    /// Interval in seconds at which an alert that is held by a parent that is down, an open window
    /// or a trial is decided again. Also the maximum time until the deadline or pending decision of
    /// a parent for which a check waits.
    pub const RECHECK_SECS: i64 = 15 * 60;

    /// Word for the reason in API responses.
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

    /// Description of the reason.
    fn pending_text(self) -> &'static str {
        match self {
            Self::ServerOutage => {
                "its ping may have been lost while the server could not receive pings"
            }
            Self::BelowThreshold => "it has not failed often enough in a row",
            Self::ParentPending => "a parent may be about to go down too, or has just come up",
            Self::ParentDown(_) => "a parent is down, and an alert about it was sent",
            Self::MaintenanceWindow => "a maintenance window is open",
            Self::Trial => "its project is on trial and sends no alerts",
        }
    }

    /// Description of the reason in a few words, for lists.
    pub fn short_text(self) -> &'static str {
        match self {
            Self::ServerOutage => "outage of the server",
            Self::BelowThreshold => "too few failures in a row",
            Self::ParentPending => "waits for a parent",
            Self::ParentDown(_) => "a parent is down",
            Self::MaintenanceWindow => "maintenance window",
            Self::Trial => "project on trial",
        }
    }

    /// Explains why no alert was sent for a downtime that has ended with a flip to this status.
    pub fn skipped_text(self, to: Status) -> &'static str {
        match (self, to) {
            (Self::ServerOutage, Status::Up) => {
                "it was up again soon after a time when the server could not receive pings"
            }
            (Self::BelowThreshold, Status::Up) => {
                "it was up again before it had failed often enough in a row"
            }
            (Self::ParentPending, Status::Up) => "it was up again while it waited for a parent",
            (Self::ParentDown(_), Status::Up) => {
                "it was up again before its parent, which was down too"
            }
            (Self::MaintenanceWindow, Status::Up) => "it was up again within a maintenance window",
            (Self::Trial, Status::Up) => "it was up again while its project was on trial",
            (Self::ServerOutage, _) => {
                "it was paused soon after a time when the server could not receive pings"
            }
            (Self::BelowThreshold, _) => "it was paused before it had failed often enough in a row",
            (Self::ParentPending, _) => "it was paused while it waited for a parent",
            (Self::ParentDown(_), _) => "it was paused while a parent was down",
            (Self::MaintenanceWindow, _) => "it was paused within a maintenance window",
            (Self::Trial, _) => "it was paused while its project was on trial",
        }
    }
}

/// Period in which the server could not receive pings: it is unknown which jobs reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// Start of the outage.
    pub from: Timestamp,
    /// End of the outage.
    pub to: Timestamp,
}

impl Outage {
    /// Minimum length in seconds. Shorter outages are ignored.
    pub const MIN_SECS: i64 = 30;
    /// Maximum number of outages that are remembered.
    pub const MAX_REMEMBERED: usize = 16;
    /// Seconds after an outage in which checks whose pings may have been lost have time to report
    /// again. Outages with a shorter gap between them count as one.
    pub const CATCH_UP_SECS: i64 = 15 * 60;

    /// True if a ping that was expected at `expected` and overdue at `deadline` may have been lost
    /// in the outage.
    pub fn overlaps(self, expected: Timestamp, deadline: Timestamp) -> bool {
        expected <= self.to && deadline >= self.from
    }

    /// Merges the two outages if the gap between them is too short to report again.
    pub fn merge(self, later: Self) -> Option<Self> {
        let is_near = later.from < self.to.plus_secs(Self::CATCH_UP_SECS)
            && self.from < later.to.plus_secs(Self::CATCH_UP_SECS);
        is_near.then(|| Self {
            from: self.from.min(later.from),
            to: self.to.max(later.to),
        })
    }

    /// Returns the first outage in which the ping may have been lost. If there is none, returns the
    /// first outage that had begun by the deadline, since `expected` may differ from its value
    /// during the outage.
    pub fn find_responsible(
        all: impl Iterator<Item = Self> + Clone,
        expected: Timestamp,
        deadline: Timestamp,
    ) -> Option<Self> {
        let touching = all
            .clone()
            .find(|outage| outage.overlaps(expected, deadline));
        touching.or_else(|| all.into_iter().find(|outage| outage.from <= deadline))
    }

    /// Part of the outage that is not in the future.
    pub fn clip_to(self, now: Timestamp) -> Option<Self> {
        (self.from <= now).then_some(Self {
            to: self.to.min(now),
            ..self
        })
    }
}

/// Event that an alert is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlertEvent {
    /// A check went down.
    Down,
    /// A check whose downtime was notified is up again.
    Up,
    /// A check whose downtime was notified is no longer monitored, or was deleted. Only channels
    /// that keep incidents open are notified.
    Closed,
    /// A user requested a test.
    Test,
    /// Checks whose downtime was notified are still down.
    StillDown,
    /// The server or another channel has a problem, or has recovered.
    Notice,
    /// A check that is not down is late, or a run passed a limit.
    Warning(WarningKind),
}

impl AlertEvent {
    /// Word for the event in API responses and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Closed => "closed",
            Self::Test => "test",
            Self::StillDown => "still",
            Self::Notice => "notice",
            Self::Warning(kind) => kind.name(),
        }
    }

    /// True for a warning.
    pub fn is_warning(self) -> bool {
        matches!(self, Self::Warning(_))
    }
}

/// Alert that waits to be sent to a channel. One message may cover several rows. Its text is
/// rendered when it is sent, from the state at that time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxRow {
    /// Position in the outbox. Rows of one channel and check are sent in this order.
    pub number: DeliveryNumber,
    /// Channel to send to.
    pub channel: ChannelId,
    /// Check that the alert is about.
    pub check: CheckId,
    /// Flip that the alert is about.
    pub flip: FlipNumber,
    /// Event that the alert is about.
    pub event: AlertEvent,
    /// Time of the event: that of the flip, unless the event is not a flip.
    pub at: Timestamp,
    /// Time at which the row was queued.
    pub queued: Timestamp,
    /// Number of attempts that were started.
    pub attempts: u16,
    /// Start of the attempt whose result has not been reported yet.
    pub attempt_started: Option<Timestamp>,
    /// Number of times that the server ended during an attempt.
    pub interruptions: u8,
    /// True if an earlier attempt may have arrived.
    pub may_be_duplicate: bool,
    /// True if pings of the check may have been lost while the server could not receive any.
    pub during_outage: bool,
    /// Number of earlier rows of the same channel and check that were dropped because too many
    /// waited.
    pub dropped_before: u16,
    /// Labels of the check, if it was deleted.
    pub deleted_check: Option<Box<DeletedCheck>>,
    /// Labels of the check when the alert was sent, if they have changed since.
    pub alerted_labels: Option<Arc<CheckLabels>>,
    /// Message that the row belongs to, if it takes several commands to start the rows of the
    /// message.
    pub part: Option<MessagePart>,
    /// Limit that was passed, if the event is a warning.
    pub limit: RunLimit,
    /// Recipients of earlier attempts, if there are several. Empty if nothing is known about them.
    pub recipients: Arc<[Recipient]>,
}

impl OutboxRow {
    /// Creates a row queued at `now` with no attempts.
    pub fn new(
        number: DeliveryNumber,
        channel: ChannelId,
        check: CheckId,
        flip: FlipNumber,
        event: AlertEvent,
        at: Timestamp,
        now: Timestamp,
    ) -> Self {
        Self {
            number,
            channel,
            check,
            flip,
            event,
            at,
            queued: now,
            attempts: 0,
            attempt_started: None,
            interruptions: 0,
            may_be_duplicate: false,
            during_outage: false,
            dropped_before: 0,
            deleted_check: None,
            alerted_labels: None,
            part: None,
            limit: RunLimit::default(),
            recipients: Arc::default(),
        }
    }

    /// True if an earlier attempt may have arrived.
    pub fn may_have_arrived(&self) -> bool {
        self.may_be_duplicate || self.attempt_started.is_some()
    }
}

/// Data that is kept of a deleted check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletedCheck {
    /// Labels of the check.
    pub labels: CheckLabels,
    /// Key that identifies its incidents.
    pub unique_key: UniqueKey,
}

/// Finished delivery of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryRecord {
    /// Number that the message had in the outbox.
    pub number: DeliveryNumber,
    /// Channel that it was for.
    pub channel: ChannelId,
    /// Check that it was about.
    pub check: CheckId,
    /// Flip that it was about.
    pub flip: FlipNumber,
    /// Event that it was about.
    pub event: AlertEvent,
    /// Time at which it was queued.
    pub queued: Timestamp,
    /// Time at which it was finished.
    pub finished: Timestamp,
    /// Final result.
    pub result: DeliveryResult,
    /// Number of attempts that were started.
    pub attempts: u16,
    /// Status of the last response; 0 if there was none, or if the kind of channel has no status
    /// codes.
    pub status: u16,
    /// Reason for which it was not delivered, in words; at most
    /// [`DeliveryRecord::MAX_REASON_BYTES`] bytes.
    pub reason: Box<str>,
    /// Delivery whose message included this one.
    pub merged_into: Option<DeliveryNumber>,
    /// True if an attempt before the last one may have arrived.
    pub may_be_duplicate: bool,
}

impl DeliveryRecord {
    /// Maximum length of a reason in bytes.
    pub const MAX_REASON_BYTES: usize = 200;
    /// Shortens a reason to one line of at most [`Self::MAX_REASON_BYTES`] bytes.
    pub fn truncate_reason(text: &str) -> Box<str> {
        let line: String = text
            .chars()
            .map(|char| if char.is_control() { ' ' } else { char })
            .collect();
        line.get(..line.floor_char_boundary(Self::MAX_REASON_BYTES))
            .unwrap_or(&line)
            .trim_end()
            .into()
    }
}

/// Final result of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryResult {
    /// The channel accepted the message.
    Delivered,
    /// Delivery was given up.
    Failed,
    /// A later message included it, or the downtime ended before it was sent.
    Superseded,
    /// The message was not sent at all.
    Skipped,
}

impl DeliveryResult {
    /// All results.
    pub const ALL: [Self; 4] = [
        Self::Delivered,
        Self::Failed,
        Self::Superseded,
        Self::Skipped,
    ];

    /// Returns the result with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|result| result.name() == name)
    }

    /// Word for the result in API responses and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Skipped => "skipped",
        }
    }
}

/// Health of a channel, as shown by its deliveries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelHealth {
    /// Time and reason of disabling. Nothing is sent until a user enables or changes the channel.
    pub disabled: Option<(Timestamp, Box<str>)>,
    /// Start of the current failure, and reason of the last failed attempt. No message has been
    /// accepted since the start.
    pub failing: Option<(Timestamp, Box<str>)>,
    /// Evidence that messages arrive with the present settings.
    pub proof: DeliveryProof,
    /// Recipients of a mail channel that have unsubscribed.
    pub unsubscribed: Vec<Box<str>>,
    /// Recipients of a mail channel whose last mail was permanently refused while others accepted
    /// it.
    pub refused: Vec<RefusedRecipient>,
}

impl ChannelHealth {
    /// True if the channel is neither disabled nor failing.
    pub fn is_healthy(&self) -> bool {
        self.disabled.is_none() && self.failing.is_none()
    }

    /// Records the results of one attempt to send a mail to these recipients.
    pub fn record_recipients<'r>(
        &mut self,
        recipients: impl Iterator<Item = &'r Recipient>,
        now: Timestamp,
    ) {
        for Recipient { address, result } in recipients {
            let position = self
                .refused
                .iter()
                .position(|refused| refused.address == *address);
            match (result, position) {
                (RecipientResult::Accepted, Some(position)) => _ = self.refused.remove(position),
                (RecipientResult::Refused(reason), Some(position)) => {
                    self.refused
                        .iter_mut()
                        .skip(position)
                        .take(1)
                        .for_each(|refused| refused.reason = reason.clone());
                }
                (RecipientResult::Refused(reason), None) => {
                    self.refused.push(RefusedRecipient {
                        address: address.clone(),
                        since: now,
                        reason: reason.clone(),
                    });
                }
                (
                    RecipientResult::Accepted
                    | RecipientResult::PossiblyDelivered
                    | RecipientResult::Pending,
                    _,
                ) => {}
            }
        }
    }
}

/// Evidence that messages to a channel arrive with its present settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum DeliveryProof {
    /// No message has arrived yet.
    #[default]
    None,
    /// The last test failed for this reason, and no message has arrived since.
    TestFailed(Box<str>),
    /// A message has arrived.
    Delivered,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_downtime_is_explained_by_the_outage_in_which_its_ping_may_have_been_lost() {
        let outage = |from, to| Outage {
            from: Timestamp::from_secs(from),
            to: Timestamp::from_secs(to),
        };
        // Outages of an import come before outages of this server, the latest first.
        let import = outage(100, 200);
        let later = outage(900, 950);
        let earlier = outage(300, 400);
        for (all, expected, deadline, found) in [
            (vec![import, later, earlier], 500, 1000, Some(later)),
            (vec![import, later, earlier], 350, 800, Some(earlier)),
            (vec![import, later, earlier], 150, 800, Some(import)),
            (vec![later, earlier], 450, 800, Some(earlier)),
            (vec![later], 450, 800, None),
            (vec![later], 960, 900, Some(later)),
        ] {
            let expected = Timestamp::from_secs(expected);
            let deadline = Timestamp::from_secs(deadline);
            assert_eq!(
                Outage::find_responsible(all.iter().copied(), expected, deadline),
                found,
                "{expected:?} {deadline:?}"
            );
        }
    }

    #[test]
    fn a_ping_may_be_lost_from_its_expected_time_to_its_deadline() {
        let at = Timestamp::from_secs;
        let outage = Outage {
            from: at(100),
            to: at(200),
        };
        for (expected, deadline, overlaps) in [
            (0, 99, false),
            (0, 100, true),
            (120, 130, true),
            (200, 300, true),
            (201, 300, false),
        ] {
            let found = outage.overlaps(at(expected), at(deadline));
            assert_eq!(found, overlaps, "{expected} {deadline}");
        }
    }

    #[test]
    fn outages_less_than_15_minutes_apart_are_one() {
        let outage = |from, to| Outage {
            from: Timestamp::from_secs(from),
            to: Timestamp::from_secs(to),
        };
        for (gap, is_near) in [(899, true), (900, false), (901, false)] {
            let first = outage(0, 1_000);
            let second = outage(1_000 + gap, 3_000);
            let merged = is_near.then_some(outage(0, 3_000));
            assert_eq!(first.merge(second), merged, "{gap}");
            assert_eq!(second.merge(first), merged, "{gap}");
        }
    }

    #[test]
    fn an_outage_is_clipped_to_its_part_that_is_not_in_the_future() {
        let outage = |from, to| Outage {
            from: Timestamp::from_secs(from),
            to: Timestamp::from_secs(to),
        };
        for (now, past) in [
            (99, None),
            (100, Some(outage(100, 100))),
            (150, Some(outage(100, 150))),
            (200, Some(outage(100, 200))),
            (300, Some(outage(100, 200))),
        ] {
            let now = Timestamp::from_secs(now);
            assert_eq!(outage(100, 200).clip_to(now), past, "{now:?}");
        }
    }

    #[test]
    fn reasons_are_one_short_line() {
        for (text, reason) in [
            ("no answer", "no answer"),
            ("a\r\nb\u{0}", "a  b"),
            ("", ""),
        ] {
            assert_eq!(&*DeliveryRecord::truncate_reason(text), reason);
        }
        assert_eq!(
            &*DeliveryRecord::truncate_reason(&"ž".repeat(150)),
            "ž".repeat(100)
        );
        assert_eq!(
            &*DeliveryRecord::truncate_reason(&format!("x{}", "ž".repeat(150))),
            format!("x{}", "ž".repeat(99))
        );
    }
}

//! Pauses: their beginning, their end by a user or at a given time, and how both are undone.

use super::{CheckSettings, CheckState};
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::maintenance_window::{
    MaintenanceWindow, TimesError, parse_timestamp, validate_minutes,
};
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;

/// End of a pause that was given one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseEnd {
    /// Time at which the check is monitored again.
    pub at: Timestamp,
    /// Status that it then has: the one before the pause. Not paused.
    pub status: Status,
}

impl PauseEnd {
    /// Returns the end of a pause at `at`, after which the check has this status. `None` if that is
    /// paused.
    pub fn new(at: Timestamp, status: Status) -> Option<Self> {
        (status != Status::Paused).then_some(Self { at, status })
    }
}

/// Duration or end of a pause, as a user gives it: at most one of the two.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PauseInput {
    /// End, as RFC 3339.
    pub until: Option<String>,
    /// Duration in minutes.
    pub minutes: Option<u64>,
}

impl PauseInput {
    /// Returns the end of a pause that begins now. `None`: a user or a ping ends it.
    ///
    /// # Errors
    /// If both fields are given, or the end is in the past or more than 366 days ahead.
    pub fn parse(self, now: Timestamp) -> Result<Option<Timestamp>, TimesError> {
        let error = |reason: &str| Err(TimesError("until", reason.to_owned()));
        let latest = now.plus_secs(MaintenanceWindow::MAX_MINUTES.cast_signed() * 60);
        let until = match (self.until, self.minutes) {
            (Some(_), Some(_)) => return error("a pause has either minutes or until"),
            (None, None) => return Ok(None),
            (Some(until), None) => parse_timestamp("until", &until)?,
            (None, Some(minutes)) => {
                let minutes = validate_minutes(minutes, MaintenanceWindow::MAX_MINUTES)?;
                now.plus_secs(i64::from(minutes) * 60)
            }
        };
        match () {
            () if until <= now => error("the time is in the past"),
            () if until > latest => error("the time is more than 366 days ahead"),
            () => Ok(Some(until)),
        }
    }
}

impl CheckState {
    /// Stops monitoring and ends the run. At `until`, if given, monitoring continues.
    pub fn pause(
        &mut self,
        until: Option<Timestamp>,
        settings: &CheckSettings,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) {
        self.apply_deadline(settings, now, flips);
        let status = match self.status {
            // The status before a pause without an end is unknown.
            Status::Paused => self.pause_end.map_or(Status::New, |end| end.status),
            status => status,
        };
        (self.run, self.unused_since_import) = (None, false);
        self.change_status(Status::Paused, FlipCause::PausedOrResumed, now, None, flips);
        self.pause_end = until.map(|at| PauseEnd { at, status });
    }

    /// Makes a paused check new again. Returns `false` and changes nothing if the check is not
    /// paused.
    pub fn resume(
        &mut self,
        settings: &CheckSettings,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) -> bool {
        self.apply_deadline(settings, now, flips);
        if self.status != Status::Paused {
            return false;
        }
        (self.last_ping, self.expected_from) = (None, None);
        (self.run, self.unused_since_import) = (None, false);
        self.change_status(Status::New, FlipCause::PausedOrResumed, now, None, flips);
        true
    }

    /// Returns to `earlier`, the state before a pause or resumption that a user undoes. Nothing may
    /// have changed the check since. A deadline that passed in the meantime sets it to down.
    pub fn restore(
        &mut self,
        earlier: &Self,
        settings: &CheckSettings,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) {
        let to = earlier.status;
        *self = Self {
            status: self.status,
            changed: self.changed,
            last_flip: self.last_flip,
            notification: self.notification,
            ..*earlier
        };
        self.change_status(to, FlipCause::PausedOrResumed, now, None, flips);
        self.pause_end = earlier.pause_end;
        self.update_grace_start(settings);
        self.apply_deadline_after_change(None, settings, now, flips);
    }

    /// End of the pause, if it is over at `now`. `None` if the run of a paused check was overdue
    /// before: the check went down then.
    pub(super) fn due_pause_end(
        &self,
        settings: &CheckSettings,
        now: Timestamp,
    ) -> Option<PauseEnd> {
        let overrun = self.deadline(settings);
        self.pause_end
            .filter(|end| end.at <= now && overrun.is_none_or(|overrun| overrun > end.at))
    }

    /// State right after the end of the pause.
    pub(super) fn after_pause(mut self, end: PauseEnd, settings: &CheckSettings) -> Self {
        let flip = self.flip_after_pause(end);
        self.apply_flip(&flip);
        self.update_grace_start(settings);
        self
    }

    /// Ends the pause if it is over at `now`.
    pub(super) fn end_due_pause(
        &mut self,
        settings: &CheckSettings,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) {
        if let Some(end) = self.due_pause_end(settings, now) {
            flips.push(self.flip_after_pause(end));
            *self = self.after_pause(end, settings);
        }
    }

    fn flip_after_pause(&self, end: PauseEnd) -> Flip {
        Flip {
            at: end.at.max(self.changed),
            from: self.status,
            to: end.status,
            cause: FlipCause::PauseEnded,
            awaited_since: None,
        }
    }
}

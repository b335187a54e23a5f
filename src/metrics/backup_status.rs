//! Status of automatic backups.

use crate::domain::timestamp::Timestamp;

/// The state of automatic backups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BackupStatus {
    /// Start time of the newest backup. `None`: there is none.
    pub newest: Option<Timestamp>,
    /// Time since which backups fail, and the last reason. `None`: the last attempt succeeded, or
    /// there was no attempt yet.
    pub failing: Option<(Timestamp, String)>,
    /// Time at which the next backup is due. `None` until it is known.
    pub next: Option<Timestamp>,
    /// Start time of the backup that is being made.
    pub running: Option<Timestamp>,
}

impl BackupStatus {
    /// Records a successful backup.
    pub(super) fn record_backup(&mut self, at: Timestamp) {
        *self = Self {
            newest: Some(at),
            ..Self::default()
        };
    }

    /// Records a failed attempt.
    pub(super) fn record_failure(&mut self, at: Timestamp, reason: String) {
        let since = self.failing.as_ref().map_or(at, |(since, _)| *since);
        self.failing = Some((since, reason));
        self.running = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_from_the_first_until_a_backup_is_made() {
        let mut status = BackupStatus::default();
        let at = Timestamp::from_secs;
        status.record_failure(at(10), "one".into());
        status.record_failure(at(20), "two".into());
        assert_eq!(
            status,
            BackupStatus {
                newest: None,
                failing: Some((at(10), "two".into())),
                ..BackupStatus::default()
            }
        );
        status.record_backup(at(30));
        assert_eq!(
            status,
            BackupStatus {
                newest: Some(at(30)),
                failing: None,
                ..BackupStatus::default()
            }
        );
        status.record_failure(at(40), "three".into());
        assert_eq!(
            status,
            BackupStatus {
                newest: Some(at(30)),
                failing: Some((at(40), "three".into())),
                ..BackupStatus::default()
            }
        );
    }
}

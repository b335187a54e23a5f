//! How the backups go that the server makes by itself.

use crate::domain::timestamp::Timestamp;

/// The state of automatic backups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BackupStatus {
    /// When the newest one was begun; `None`: there is none.
    pub newest: Option<Timestamp>,
    /// When backups began to fail, and the last reason. `None`: the last attempt made one, or there was no attempt yet.
    pub failing: Option<(Timestamp, String)>,
}

impl BackupStatus {
    /// Notes a backup.
    pub(super) fn record_backup(&mut self, at: Timestamp) {
        *self = Self { newest: Some(at), failing: None };
    }

    /// Notes an attempt that made none.
    pub(super) fn record_failure(&mut self, at: Timestamp, reason: String) {
        let since = self.failing.as_ref().map_or(at, |(since, _)| *since);
        self.failing = Some((since, reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_from_the_first_until_a_backup_is_made() {
        let (mut status, at) = (BackupStatus::default(), Timestamp::from_secs);
        status.record_failure(at(10), "one".into());
        status.record_failure(at(20), "two".into());
        assert_eq!(status, BackupStatus { newest: None, failing: Some((at(10), "two".into())) });
        status.record_backup(at(30));
        assert_eq!(status, BackupStatus { newest: Some(at(30)), failing: None });
        status.record_failure(at(40), "three".into());
        assert_eq!(status, BackupStatus { newest: Some(at(30)), failing: Some((at(40), "three".into())) });
    }
}

//! How the backups go that the server makes by itself.

use crate::domain::moment::Moment;

/// The state of automatic backups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BackupStatus {
    /// When the newest one was begun; `None`: there is none.
    pub newest: Option<Moment>,
    /// When backups began to fail, and the last reason. `None`: the last attempt made one, or there was no attempt yet.
    pub failing: Option<(Moment, String)>,
}

impl BackupStatus {
    /// Notes a backup.
    pub(super) fn made(&mut self, at: Moment) {
        *self = Self { newest: Some(at), failing: None };
    }

    /// Notes an attempt that made none.
    pub(super) fn failed(&mut self, at: Moment, reason: String) {
        let since = self.failing.as_ref().map_or(at, |(since, _)| *since);
        self.failing = Some((since, reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_from_the_first_until_a_backup_is_made() {
        let (mut status, at) = (BackupStatus::default(), Moment::from_secs);
        status.failed(at(10), "one".into());
        status.failed(at(20), "two".into());
        assert_eq!(status, BackupStatus { newest: None, failing: Some((at(10), "two".into())) });
        status.made(at(30));
        assert_eq!(status, BackupStatus { newest: Some(at(30)), failing: None });
        status.failed(at(40), "three".into());
        assert_eq!(status, BackupStatus { newest: Some(at(30)), failing: Some((at(40), "three".into())) });
    }
}

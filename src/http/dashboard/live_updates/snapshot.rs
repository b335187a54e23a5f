//! State of the checks of a project as last sent to its pages: their number by status, changes
//! since then, and the time of the next change by time alone. Pure.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

// Fast, and safe for ids that are assigned by this server.
use foldhash::fast::RandomState;

use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::CheckId;
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::Timestamp;
use crate::http::dashboard::check_list::DisplayStatus;

/// Number of checks with each status, in the order of [`DisplayStatus::ALL`].
pub(crate) type StatusCounts = [usize; DisplayStatus::ALL.len()];

/// State of the checks of a project as last sent to its pages.
#[derive(Default)]
pub(crate) struct ProjectSnapshot {
    checks: HashMap<CheckId, CheckSnapshot, RandomState>,
    counts: StatusCounts,
    /// Time at which the status of each check changes next by time alone. One entry for each
    /// check, so that pings do not make it grow.
    changes: BTreeSet<(Timestamp, CheckId)>,
}

/// State of a check as last sent.
struct CheckSnapshot {
    settings: Arc<CheckSettings>,
    status: VisibleStatus,
    runs: bool,
    change: Option<Timestamp>,
}

/// Change of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SnapshotChange {
    /// The check is new.
    Added,
    /// The settings have changed.
    Edited,
    /// The status has changed.
    StatusChanged,
    /// Nothing that is counted has changed.
    Unchanged,
}

impl ProjectSnapshot {
    /// Stores the current state of a check.
    pub(crate) fn update(&mut self, check: &Check, now: Timestamp) -> SnapshotChange {
        let settings = &check.settings;
        let state = &check.state;
        let status = state.visible_status(settings, now);
        let runs = state.run.is_some();
        let snapshot = CheckSnapshot {
            settings: Arc::clone(settings),
            status,
            runs,
            change: state.next_change(settings, now),
        };
        self.changes
            .extend(snapshot.change.map(|at| (at, check.id)));
        self.adjust_counts(status, runs, 1);
        let Some(old) = self.checks.insert(check.id, snapshot) else {
            return SnapshotChange::Added;
        };
        let change = self
            .checks
            .get(&check.id)
            .and_then(|snapshot| snapshot.change);
        self.discount(check.id, &old, change);
        if !Arc::ptr_eq(&old.settings, settings) {
            SnapshotChange::Edited
        } else if (old.status, old.runs) != (status, runs) {
            SnapshotChange::StatusChanged
        } else {
            SnapshotChange::Unchanged
        }
    }

    /// Removes a check. Returns false if it was not there.
    pub(crate) fn remove(&mut self, id: CheckId) -> bool {
        let Some(old) = self.checks.remove(&id) else {
            return false;
        };
        self.discount(id, &old, None);
        true
    }

    /// Removes the old state of a check from the counts, and its next change, unless that has the
    /// same time as before.
    fn discount(&mut self, id: CheckId, old: &CheckSnapshot, change: Option<Timestamp>) {
        self.adjust_counts(old.status, old.runs, -1);
        if let Some(at) = old.change.filter(|_| old.change != change) {
            self.changes.remove(&(at, id));
        }
    }

    fn adjust_counts(&mut self, status: VisibleStatus, runs: bool, by: isize) {
        let counted = DisplayStatus::from_status(status, runs);
        for (shown, count) in DisplayStatus::ALL.into_iter().zip(&mut self.counts) {
            if shown == counted {
                *count = count.saturating_add_signed(by);
            }
        }
    }

    /// Number of checks with each status.
    pub(crate) fn counts(&self) -> StatusCounts {
        self.counts
    }

    /// Checks whose status has changed at `now` by time alone.
    pub(crate) fn due_checks(&self, now: Timestamp) -> Vec<CheckId> {
        self.changes
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, id)| *id)
            .collect()
    }

    /// Time of the next change by time alone.
    pub(crate) fn next_change(&self) -> Option<Timestamp> {
        self.changes.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::check::CheckState;
    use crate::domain::ids::ProjectId;
    use crate::domain::ping::PingKind;
    use crate::util::random::Random;

    fn check(id: u64) -> Check {
        let random = Random::seeded(id);
        let state = CheckState::new(Timestamp::from_secs(0));
        Check {
            id: CheckId(id),
            uuid: random.uuid(),
            badge: random.uuid(),
            project: ProjectId(1),
            settings: Arc::default(),
            state,
            alerted_labels: None,
        }
    }

    proptest! {
        #[test]
        fn an_updated_snapshot_equals_a_new_one(
            steps in prop::collection::vec((0_u64..5, 0_u8..7, 0_i64..90_000), 1..60),
        ) {
            let mut checks = HashMap::new();
            let mut seen = ProjectSnapshot::default();
            let mut now = Timestamp::from_secs(1_800_000_000);
            for (id, what, secs) in steps {
                now = now.plus_secs(secs);
                if what == 0 && checks.remove(&id).is_some() {
                    prop_assert!(seen.remove(CheckId(id)));
                } else {
                    let is_new = !checks.contains_key(&id);
                    let check = checks.entry(id).or_insert_with(|| check(id));
                    let settings = Arc::clone(&check.settings);
                    match what {
                        1 => check.settings = Arc::new(CheckSettings::clone(&settings)),
                        2 => check.state.pause(None, &settings, now, &mut Vec::new()),
                        _ => {
                            let kind = match what {
                                3 => PingKind::Start,
                                4 => PingKind::Fail,
                                _ => PingKind::Success,
                            };
                            check
                                .state
                                .apply_ping(&settings, kind.into(), None, now, &mut Vec::new());
                        }
                    }
                    let news = seen.update(check, now);
                    prop_assert_eq!(news == SnapshotChange::Added, is_new);
                    prop_assert!(is_new || (news == SnapshotChange::Edited) == (what == 1));
                }
                for id in seen.due_checks(now) {
                    seen.update(&checks[&id.0], now);
                }
                let mut anew = ProjectSnapshot::default();
                for check in checks.values() {
                    anew.update(check, now);
                }
                prop_assert_eq!(seen.counts(), anew.counts());
                prop_assert_eq!(&seen.changes, &anew.changes);
                prop_assert!(seen.next_change().is_none_or(|at| at > now));
            }
        }
    }
}

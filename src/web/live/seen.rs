//! What those who look at a project have been shown of its checks: how many there are of each status, which look otherwise now, and when
//! the next one does by time alone. Pure.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

// For numbers that we have counted ourselves.
use foldhash::fast::RandomState;

use crate::domain::check::{Check, Settings};
use crate::domain::ids::CheckId;
use crate::domain::moment::Moment;
use crate::domain::status::VisibleStatus;
use crate::web::list::Shown;

/// How many checks there are of each status, in the order of [`Shown::ALL`].
pub(crate) type Counts = [usize; Shown::ALL.len()];

/// See the module.
#[derive(Default)]
pub(crate) struct Seen {
    checks: HashMap<CheckId, Look, RandomState>,
    counts: Counts,
    /// When the status of each check changes next by time alone. One entry for each, so that pings make no heap of them.
    changes: BTreeSet<(Moment, CheckId)>,
}

/// How a check was shown.
struct Look {
    settings: Arc<Settings>,
    status: VisibleStatus,
    runs: bool,
    change: Option<Moment>,
}

/// What is new about a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// It was not there.
    New,
    /// Its settings are other ones.
    Edited,
    /// Its status is another one.
    Turned,
    /// Nothing that is counted.
    Same,
}

impl Seen {
    /// Takes over how a check is now.
    pub(crate) fn put(&mut self, check: &Check, now: Moment) -> News {
        let (settings, state) = (&check.settings, &check.state);
        let (status, runs) = (state.visible_status(settings, now), state.run.is_some());
        let look = Look { settings: Arc::clone(settings), status, runs, change: state.next_change(settings, now) };
        self.changes.extend(look.change.map(|at| (at, check.id)));
        self.count(status, runs, 1);
        let Some(old) = self.checks.insert(check.id, look) else { return News::New };
        let change = self.checks.get(&check.id).and_then(|look| look.change);
        self.forget(check.id, &old, change);
        if !Arc::ptr_eq(&old.settings, settings) {
            News::Edited
        } else if (old.status, old.runs) != (status, runs) {
            News::Turned
        } else {
            News::Same
        }
    }

    /// A check is gone. False if it was not there.
    pub(crate) fn remove(&mut self, id: CheckId) -> bool {
        let Some(old) = self.checks.remove(&id) else { return false };
        self.forget(id, &old, None);
        true
    }

    /// Takes away what counted of how a check was, unless it changes at the same time as before.
    fn forget(&mut self, id: CheckId, old: &Look, change: Option<Moment>) {
        self.count(old.status, old.runs, -1);
        if let Some(at) = old.change.filter(|_| old.change != change) {
            self.changes.remove(&(at, id));
        }
    }

    fn count(&mut self, status: VisibleStatus, runs: bool, by: isize) {
        for (shown, count) in Shown::ALL.into_iter().zip(&mut self.counts) {
            if shown.counts(status, runs) {
                *count = count.saturating_add_signed(by);
            }
        }
    }

    /// How many there are of each status.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The checks whose status has changed by now by time alone.
    pub(crate) fn due(&self, now: Moment) -> Vec<CheckId> {
        self.changes.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }

    /// When the next one does.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.changes.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::check::CheckState;
    use crate::domain::ids::ProjectId;
    use crate::domain::ping::Kind;
    use crate::random::Random;

    fn check(id: u64) -> Check {
        let random = Random::seeded(id);
        let state = CheckState::new(Moment::from_secs(0));
        Check {
            id: CheckId(id),
            uuid: random.uuid(),
            badge: random.uuid(),
            project: ProjectId(1),
            settings: Arc::default(),
            state,
            told_as: None,
        }
    }

    proptest! {
        #[test]
        fn what_was_followed_is_what_is_found_when_all_is_looked_at(
            steps in prop::collection::vec((0_u64..5, 0_u8..7, 0_i64..90_000), 1..60),
        ) {
            let (mut checks, mut seen, mut now) = (HashMap::new(), Seen::default(), Moment::from_secs(1_800_000_000));
            for (id, what, secs) in steps {
                now = now.plus_secs(secs);
                if what == 0 && checks.remove(&id).is_some() {
                    prop_assert!(seen.remove(CheckId(id)));
                } else {
                    let is_new = !checks.contains_key(&id);
                    let check = checks.entry(id).or_insert_with(|| check(id));
                    let settings = Arc::clone(&check.settings);
                    match what {
                        1 => check.settings = Arc::new(Settings::clone(&settings)),
                        2 => check.state.pause(&settings, now, &mut Vec::new()),
                        3 => check.state.ping(&settings, Kind::Start.into(), None, now, &mut Vec::new()),
                        4 => check.state.ping(&settings, Kind::Fail.into(), None, now, &mut Vec::new()),
                        _ => check.state.ping(&settings, Kind::Success.into(), None, now, &mut Vec::new()),
                    }
                    let news = seen.put(check, now);
                    prop_assert_eq!(news == News::New, is_new);
                    prop_assert!(is_new || (news == News::Edited) == (what == 1));
                }
                for id in seen.due(now) {
                    seen.put(&checks[&id.0], now);
                }
                let mut anew = Seen::default();
                for check in checks.values() {
                    anew.put(check, now);
                }
                prop_assert_eq!(seen.counts(), anew.counts());
                prop_assert_eq!(&seen.changes, &anew.changes);
                prop_assert!(seen.next().is_none_or(|at| at > now));
            }
        }
    }
}

//! Rules for the succession of a leader: when a follower takes over, and which one.

use std::time::Duration;

use super::log::{ClusterView, Release};

/// Maximum additional time, chosen by chance, so that two followers seldom try at once.
const MAX_RANDOM_DELAY: Duration = Duration::from_millis(500);
/// Time for which a machine with fewer records, or the one that handed over, waits for another one.
const BEHIND_DELAY: Duration = Duration::from_secs(1);
/// Time for which the other machines wait for the one that was named in a request to hand over.
const SUCCESSOR_DELAY: Duration = Duration::from_secs(2);

/// Detection of a silent leader.
pub(super) struct Silence {
    /// Last seen lease: epoch, number of renewals, and place of the last record.
    last: (u64, u64, u64),
    /// Uptime at which it was first seen.
    pub(super) since: Duration,
    /// Silence after which this machine takes over.
    limit: Duration,
}

impl Silence {
    pub(super) fn new(uptime: Duration, patience: Duration) -> Self {
        Self {
            last: (0, 0, 0),
            since: uptime,
            limit: patience,
        }
    }

    /// Records the state of the cluster. Returns true if the lease has changed. `patience`: time
    /// until a takeover unless the leader has set another one; `random`: any byte.
    pub(super) fn observe(
        &mut self,
        view: &ClusterView,
        (patience, random): (Duration, u8),
        uptime: Duration,
    ) -> bool {
        let lease = view.lease.as_ref();
        let seen = (
            view.epoch.epoch,
            lease.map_or(0, |lease| lease.renewals),
            lease.map_or(0, |lease| lease.place),
        );
        if seen == self.last {
            return false;
        }
        let patience = match view.epoch.patience_millis {
            0 => patience,
            millis => Duration::from_millis(millis),
        };
        *self = Self {
            last: seen,
            since: uptime,
            limit: patience + MAX_RANDOM_DELAY * u32::from(random) / 255,
        };
        true
    }

    pub(super) fn is_over_limit(&self, uptime: Duration) -> bool {
        uptime.saturating_sub(self.since) >= self.limit
    }

    /// True if there is no leader, and it is the turn of the machine with this name and place.
    pub(super) fn is_vacant(
        &self,
        view: &ClusterView,
        (name, place): (&str, u64),
        uptime: Duration,
    ) -> bool {
        if view.epoch.epoch == 0 {
            return true;
        }
        let Some((release, last_place)) = release_of(view) else {
            return self.is_over_limit(uptime);
        };
        let waited = uptime.saturating_sub(self.since);
        if let Release::HandedOver(Some(successor)) = release {
            return successor == name || waited >= SUCCESSOR_DELAY;
        }
        let is_former = view.epoch.node == name && *release != Release::Stopped;
        place >= last_place && !is_former || waited >= BEHIND_DELAY
    }
}

/// Release of the lease by the leader of the present epoch, and the place of its last record.
pub(super) fn release_of(view: &ClusterView) -> Option<(&Release, u64)> {
    let lease = view.lease.as_ref()?;
    let release = lease.release.as_ref()?;
    (lease.epoch == view.epoch.epoch).then_some((release, lease.place))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::log::{EpochRow, LeaseRow};
    use super::*;

    fn view(release: Option<Release>) -> ClusterView {
        ClusterView {
            cluster: None,
            epoch: EpochRow {
                epoch: 3,
                node: "old".into(),
                patience_millis: 4000,
                ..EpochRow::default()
            },
            epoch_value: Bytes::new(),
            lease: Some(LeaseRow {
                epoch: 3,
                place: 10,
                release,
                ..LeaseRow::default()
            }),
            trimmed: 0,
            trimmed_value: None,
            hand_over: None,
        }
    }

    /// Seconds after the release at which a machine takes over: at once, after one or two seconds,
    /// or once the leader has been silent for its patience.
    fn seconds_until_takeover(view: &ClusterView, name: &str, place: u64) -> Option<u64> {
        let start = Duration::from_secs(100);
        let mut silence = Silence::new(start, Duration::from_secs(50));
        assert!(silence.observe(view, (Duration::from_secs(50), 0), start));
        assert!(!silence.observe(view, (Duration::from_secs(50), 0), start));
        (0..10).find(|secs| {
            let now = start + Duration::from_secs(*secs);
            silence.is_vacant(view, (name, place), now)
        })
    }

    #[test]
    fn the_named_machine_or_one_with_all_records_succeeds() {
        let to_next = Some(Release::HandedOver(Some("next".into())));
        for (release, name, place, expected) in [
            (None, "next", 10, 4),
            (Some(Release::Stopped), "next", 10, 0),
            (Some(Release::Stopped), "next", 9, 1),
            // It was restarted, and no other machine was faster.
            (Some(Release::Stopped), "old", 10, 0),
            (Some(Release::HandedOver(None)), "next", 10, 0),
            (Some(Release::HandedOver(None)), "next", 9, 1),
            (Some(Release::HandedOver(None)), "old", 10, 1),
            (to_next.clone(), "next", 9, 0),
            (to_next.clone(), "other", 10, 2),
            (to_next, "old", 10, 2),
        ] {
            let found = seconds_until_takeover(&view(release.clone()), name, place);
            assert_eq!(found, Some(expected), "{release:?}, {name}, {place}");
        }
    }

    #[test]
    fn a_leader_counts_as_silent_after_its_own_patience() {
        let mut view = view(None);
        for millis in [0, 4000, 9000] {
            view.epoch.patience_millis = millis;
            // Without one, the patience of the follower counts.
            let expected = match millis {
                0 => None,
                millis => Some(millis / 1000),
            };
            assert_eq!(seconds_until_takeover(&view, "next", 10), expected);
        }
        // A release of an earlier epoch is none of the present leader.
        view.lease = Some(LeaseRow {
            epoch: 2,
            release: Some(Release::Stopped),
            ..LeaseRow::default()
        });
        assert_eq!(release_of(&view), None);
        assert_eq!(seconds_until_takeover(&view, "next", 10), Some(9));
    }
}

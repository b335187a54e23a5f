//! Announcements of this machine to the others, and its right to its name: each running process
//! announces a random number of its own.

use std::time::Duration;

use super::etcd::EtcdError;
use super::log::{ClusterLog, NodeRow};
use crate::util::clock::Clock;

/// Time for which a new process waits for another one with its name. It is longer than the pause
/// between two announcements.
const NAME_TIMEOUT: Duration = Duration::from_secs(5);

/// Position of the database of a machine in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct NodePosition {
    /// Place of the last record in it.
    pub(super) place: u64,
    /// Place up to which it is synced.
    pub(super) synced: u64,
    /// Time since it last contained all records.
    pub(super) lag: Duration,
    /// Difference between the clock of this machine and that of the leader, in milliseconds.
    pub(super) clock_ahead_millis: i64,
}

/// Error of an announcement.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum AnnounceError {
    Etcd(EtcdError),
    /// Another machine, at this address, has the same name.
    NameTaken(String),
}

impl From<EtcdError> for AnnounceError {
    fn from(error: EtcdError) -> Self {
        Self::Etcd(error)
    }
}

/// Announces this machine.
#[derive(Clone)]
pub(super) struct Announcer {
    pub(super) name: String,
    /// Address of the peer port.
    pub(super) address: String,
    /// Random number of this process.
    instance: u64,
    claim: NameClaim,
    clock: Clock,
}

/// Right of this process to the name of its machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NameClaim {
    /// Not examined.
    Unknown,
    /// Another process announced the name, and may have ended. Uptime at which that was seen.
    Pending(Announced, Duration),
    /// The name belongs to this process. Last announcement of an ended one, which the next
    /// announcement of this one replaces.
    Confirmed(Option<Announced>),
}

/// Announcement of a process: its number and its clock.
type Announced = (u64, i64);

impl Announcer {
    pub(super) fn new(name: String, address: String, instance: u64, clock: Clock) -> Self {
        Self {
            name,
            address,
            instance,
            claim: NameClaim::Unknown,
            clock,
        }
    }

    /// Announces this machine, once its name is free. `nodes`: announcements of all machines, read
    /// just now.
    ///
    /// # Errors
    /// If another machine has the name, or etcd does not answer.
    pub(super) async fn announce(
        &mut self,
        log: &ClusterLog,
        nodes: &[(String, NodeRow)],
        position: NodePosition,
    ) -> Result<(), AnnounceError> {
        let namesake = nodes
            .iter()
            .find(|(name, node)| *name == self.name && node.instance != self.instance)
            .map(|(_, node)| node);
        self.claim = self.claim_name(namesake)?;
        if matches!(self.claim, NameClaim::Confirmed(_)) {
            log.announce(&self.name, &self.row(position)).await?;
        }
        Ok(())
    }

    /// Announces this machine as the leader, which keeps its name.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub(super) async fn announce_leader(
        &mut self,
        log: &ClusterLog,
        position: NodePosition,
    ) -> Result<(), EtcdError> {
        self.claim = NameClaim::Confirmed(None);
        log.announce(&self.name, &self.row(position)).await
    }

    /// Returns the claim after an examination. `namesake`: announcement of another process with the
    /// name.
    fn claim_name(&self, namesake: Option<&NodeRow>) -> Result<NameClaim, AnnounceError> {
        let now = self.clock.uptime();
        let Some(namesake) = namesake else {
            return Ok(NameClaim::Confirmed(None));
        };
        let seen = (namesake.instance, namesake.clock);
        match self.claim {
            NameClaim::Unknown => Ok(NameClaim::Pending(seen, now)),
            NameClaim::Pending(known, since) if known == seen => {
                Ok(if now >= since + NAME_TIMEOUT {
                    NameClaim::Confirmed(Some(seen))
                } else {
                    self.claim
                })
            }
            // The first announcement of this process was not stored.
            NameClaim::Confirmed(Some(known)) if known == seen => Ok(self.claim),
            NameClaim::Pending(..) | NameClaim::Confirmed(_) => {
                Err(AnnounceError::NameTaken(namesake.address.clone()))
            }
        }
    }

    fn row(&self, position: NodePosition) -> NodeRow {
        NodeRow {
            address: self.address.clone(),
            release: env!("CARGO_PKG_VERSION").into(),
            place: position.place,
            synced: position.synced,
            clock: self.clock.now().micros(),
            instance: self.instance,
            lag_millis: u64::try_from(position.lag.as_millis()).unwrap_or(u64::MAX),
            clock_ahead_millis: position.clock_ahead_millis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timestamp::Timestamp;
    use crate::util::clock::ManualClock;

    #[test]
    fn a_name_belongs_to_one_process() {
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let manual = Clock::Manual(std::sync::Arc::clone(&clock));
        let mut announcer = Announcer::new("one".into(), "a:1".into(), 7, manual);
        let row = |secs: i64| NodeRow {
            address: "b:1".into(),
            clock: secs * 1_000_000,
            instance: 8,
            ..NodeRow::default()
        };
        let confirmed = NameClaim::Confirmed(None);
        assert_eq!(announcer.claim_name(None), Ok(confirmed));
        // A process with the name ended earlier: it announces nothing further.
        for (secs, is_confirmed) in [
            (0, false),
            (2, false),
            (2, false),
            (2, true),
            // The announcement of the new process failed.
            (2, true),
        ] {
            clock.advance_secs(secs);
            announcer.claim = announcer.claim_name(Some(&row(1))).unwrap();
            let found = matches!(announcer.claim, NameClaim::Confirmed(_));
            assert_eq!(found, is_confirmed);
        }
        // It had not ended: it takes the name back.
        let taken = Err(AnnounceError::NameTaken("b:1".into()));
        assert_eq!(announcer.claim_name(Some(&row(2))), taken);
        // It announces itself while the new process waits.
        announcer.claim = NameClaim::Unknown;
        announcer.claim = announcer.claim_name(Some(&row(2))).unwrap();
        assert_eq!(announcer.claim_name(Some(&row(4))), taken);
    }
}

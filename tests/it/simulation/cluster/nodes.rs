//! Machines of a simulated cluster: their disks, the databases that follow the log, and takeovers.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use overdue::backup;
use overdue::engine::command::Command;
use overdue::engine::{self, EngineConfig, Handle, Leadership, Writer, WriterExit};
use overdue::server::cluster::{
    ClusterLog, ClusterRow, ClusterView, EpochRow, FencedError, LeaseRow, NodeRow, Replica,
    ReplicaError, copied_place,
};
use overdue::store::{
    CLUSTER_FORMAT, FILE_NAME, FollowerStore, Medium, ProgressReporter, SharedLog, Snapshot, Store,
};

use super::etcd::{Conditions, SimulatedEtcd, result_of};
use crate::support::disk::Disk;
use crate::support::seeded_rng::SeededRng;

pub(super) const MACHINES: usize = 3;
const CLUSTER: u64 = 77;
/// Number of machines that must have a record before it is removed from the log.
const COPIES: usize = 2;
/// Number of attempts after which the machines must have found a leader.
const MAX_ATTEMPTS: u32 = 500;

type Log = ClusterLog<SimulatedEtcd>;
/// Rows by table and key.
type Rows = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// Number of events of each kind.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ClusterCounts {
    pub(crate) takeovers: u32,
    /// Takeovers that did not lead to a leader, because a machine stopped or another one was first.
    pub(crate) failed_takeovers: u32,
    pub(crate) lost_leaders: u32,
    pub(crate) resumed_leaders: u32,
    pub(crate) copies: u32,
    pub(crate) trims: u32,
    pub(crate) power_cuts: u32,
    pub(crate) comparisons: u32,
    /// Appends whose result was unknown at first.
    pub(crate) unknown_appends: u32,
}

impl ClusterCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, increment) in [
            (&mut self.takeovers, other.takeovers),
            (&mut self.failed_takeovers, other.failed_takeovers),
            (&mut self.lost_leaders, other.lost_leaders),
            (&mut self.resumed_leaders, other.resumed_leaders),
            (&mut self.copies, other.copies),
            (&mut self.trims, other.trims),
            (&mut self.power_cuts, other.power_cuts),
            (&mut self.comparisons, other.comparisons),
            (&mut self.unknown_appends, other.unknown_appends),
        ] {
            *count += increment;
        }
    }
}

/// Machines and their log.
pub(crate) struct SimulatedCluster {
    pub(super) etcd: SimulatedEtcd,
    log: Log,
    machines: Vec<Machine>,
    /// Number of the machine that leads, with its fence.
    leader: Option<(usize, Bytes)>,
    /// Takeover of a machine that is not complete.
    pub(super) takeover: Arc<Mutex<Option<Takeover>>>,
    /// Number of unknown results after which the leader gives up.
    patience: Arc<AtomicU32>,
    unknown_appends: Arc<AtomicU32>,
    renewals: u64,
    nonce: u64,
    pub(super) counts: ClusterCounts,
}

/// One machine. It leads, or is paused, or follows the log.
struct Machine {
    disk: Disk,
    replica: Option<Replica<SimulatedEtcd>>,
    /// Engine of a former leader that was paused before another machine took over.
    paused: Option<(Handle, Writer)>,
}

/// Result of a former leader that continued, once it is there.
type Resumption = Arc<Mutex<Result<(), String>>>;

/// Takeover by a machine.
pub(super) struct Takeover {
    machine: usize,
    epoch: u64,
    fence: Bytes,
    /// State before it.
    former: ClusterView,
}

impl Machine {
    fn medium(&self) -> Medium {
        self.disk.medium_without_log()
    }

    /// Opens the database as a follower, unless it is open.
    fn follow(&mut self, log: &Log) -> Result<&mut Replica<SimulatedEtcd>, String> {
        if self.replica.is_none() {
            let store = FollowerStore::open(&self.medium(), &ProgressReporter::default())
                .map_err(|error| format!("a follower does not open: {error}"))?;
            self.replica = Some(Replica::new(log.clone(), store));
        }
        self.replica.as_mut().ok_or_else(|| "no replica".into())
    }

    /// Cuts the power of a machine that does not lead.
    fn cut_power(&mut self, rng: &SeededRng) {
        self.disk.power_off();
        self.replica = None;
        self.paused = None;
        self.disk.power_on(rng);
    }
}

/// Appends the records of a leader, and repeats an append until its result is known.
struct SimulatedAppender {
    log: Log,
    fence: Bytes,
    patience: Arc<AtomicU32>,
    unknown_appends: Arc<AtomicU32>,
}

impl SharedLog for SimulatedAppender {
    fn append(&mut self, place: u64, record: &[u8]) -> io::Result<()> {
        let record = Bytes::copy_from_slice(record);
        loop {
            match result_of(self.log.append(&self.fence, place, &record)) {
                Ok(()) => return Ok(()),
                Err(FencedError::Fenced) => return Err(io::Error::other("another machine leads")),
                Err(FencedError::Etcd(_)) => {
                    self.unknown_appends.fetch_add(1, Ordering::Relaxed);
                    let left = self.patience.load(Ordering::Relaxed);
                    if left == 0 {
                        return Err(io::Error::other("etcd has confirmed nothing"));
                    }
                    self.patience.store(left - 1, Ordering::Relaxed);
                }
            }
        }
    }
}

impl SimulatedCluster {
    /// Creates machines and their log.
    pub(super) fn new(rng: &SeededRng, conditions: Conditions) -> Result<Self, String> {
        let etcd = SimulatedEtcd::new(rng.below(u64::MAX), conditions);
        let log = ClusterLog::new(etcd.clone(), "simulation");
        let cluster = ClusterRow {
            id: CLUSTER,
            format: CLUSTER_FORMAT,
        };
        result_of(log.create(&cluster)).map_err(|error| error.to_string())?;
        let first = Disk::default();
        Store::create_cluster(&first.medium_without_log(), CLUSTER)
            .map_err(|error| error.to_string())?;
        // Further machines begin with a copy of the empty database.
        let machines = (0..MACHINES).map(|_| Machine {
            disk: first.copy(),
            replica: None,
            paused: None,
        });
        etcd.set_fault_percentage(rng.pick(&[0, 5, 30]));
        Ok(Self {
            machines: machines.collect(),
            etcd,
            log,
            leader: None,
            takeover: Arc::default(),
            patience: Arc::new(AtomicU32::new(u32::MAX)),
            unknown_appends: Arc::default(),
            renewals: 0,
            nonce: 0,
            counts: ClusterCounts::default(),
        })
    }

    /// Number of the machine that leads.
    pub(super) fn leader(&self) -> Option<usize> {
        self.leader.as_ref().map(|(leader, _)| *leader)
    }

    /// Sets the number of unknown results after which a leader gives up.
    pub(super) fn set_patience(&self, patience: u32) {
        self.patience.store(patience, Ordering::Relaxed);
    }

    pub(super) fn final_counts(&self) -> ClusterCounts {
        ClusterCounts {
            unknown_appends: self.unknown_appends.load(Ordering::Relaxed),
            ..self.counts
        }
    }

    /// Machines that neither lead nor are paused.
    pub(super) fn followers(&self) -> Vec<usize> {
        let is_follower = |number: &usize| {
            Some(*number) != self.leader() && self.machines[*number].paused.is_none()
        };
        (0..MACHINES).filter(is_follower).collect()
    }

    /// Ends the leadership of a machine, whose engine is dropped, or paused if it is given.
    pub(super) fn end_leadership(&mut self, paused: Option<(Handle, Writer)>) {
        if let Some((leader, _)) = self.leader.take() {
            self.machines[leader].paused = paused;
        }
    }

    /// True if a former leader is paused.
    pub(super) fn has_paused(&self) -> bool {
        self.machines.iter().any(|machine| machine.paused.is_some())
    }

    /// Disk of the leader.
    pub(super) fn leader_disk(&self) -> Option<Disk> {
        Some(self.machines[self.leader()?].disk.clone())
    }

    /// Number of a machine that was paused while it led.
    fn paused(&self) -> Option<usize> {
        (0..MACHINES).find(|number| self.machines[*number].paused.is_some())
    }

    /// Resumes a paused leader, which has been replaced: it must not change anything. `ping`: ping
    /// that it receives then.
    pub(super) fn resume(&mut self, rng: &SeededRng, ping: Command) -> Result<(), String> {
        let Some(number) = self.paused() else {
            return Ok(());
        };
        if rng.chance(20) {
            self.counts.power_cuts += 1;
            self.machines[number].cut_power(rng);
            return Ok(());
        }
        if let Some(paused) = self.machines[number].paused.take() {
            self.counts.resumed_leaders += 1;
            resume(paused, ping)?;
        }
        Ok(())
    }

    /// Lets the paused leader continue during the takeover of another machine. Returns the place of
    /// the result.
    fn resume_during_takeover(&mut self, rng: &SeededRng, ping: Option<&Command>) -> Resumption {
        let resumption: Resumption = Arc::new(Mutex::new(Ok(())));
        let paused = self
            .paused()
            .filter(|_| rng.chance(80))
            .and_then(|number| self.machines[number].paused.take());
        if let (Some(paused), Some(ping)) = (paused, ping) {
            self.counts.resumed_leaders += 1;
            let result = Arc::clone(&resumption);
            let ping = ping.clone();
            let event = move || *result.lock().expect("nothing panics") = resume(paused, ping);
            self.etcd.set_event(0, Box::new(event));
        }
        resumption
    }

    /// Lets a follower do something: follow, sync, announce itself, stop, or lose its power.
    pub(super) fn step_follower(
        &mut self,
        number: usize,
        rng: &SeededRng,
        leader: Option<&Handle>,
    ) -> Result<(), String> {
        let log = self.log.clone();
        let machine = &mut self.machines[number];
        match rng.below(20) {
            0..2 => {
                self.counts.power_cuts += 1;
                machine.cut_power(rng);
                return Ok(());
            }
            2 => {
                machine.replica = None;
                return Ok(());
            }
            3 => machine.disk.lose_power_after(rng.below(20) as u32),
            4 => return self.lose_disk(number, leader),
            _ => {}
        }
        let followed = follow_once(machine, &log, rng);
        if machine.disk.has_lost_power() {
            self.counts.power_cuts += 1;
            machine.cut_power(rng);
            return Ok(());
        }
        machine.disk.heal();
        match followed {
            // The next read may succeed.
            Ok(()) | Err(FollowFailure::Temporary) => {}
            Err(FollowFailure::Outdated) => return self.copy(number, leader),
            Err(FollowFailure::Fatal(error)) => return Err(format!("machine {number}: {error}")),
        }
        if let Some(replica) = machine.replica.as_ref().filter(|_| rng.chance(50)) {
            let announced = node(replica.place(), replica.synced_place());
            let _ = result_of(log.announce(&number.to_string(), &announced));
        }
        Ok(())
    }

    /// Replaces the database of a machine by a copy of that of the leader, if there is one.
    fn copy(&mut self, number: usize, leader: Option<&Handle>) -> Result<(), String> {
        let Some(leader) = leader else {
            return Ok(());
        };
        self.counts.copies += 1;
        let machine = &mut self.machines[number];
        machine.replica = None;
        let mut stream = Vec::new();
        backup::write_backup(leader, &mut stream).map_err(|error| error.to_string())?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        backup::receive_copy(directory.path(), &*stream).map_err(|error| error.to_string())?;
        let file = std::fs::read(directory.path().join(FILE_NAME));
        machine
            .disk
            .replace_bytes(file.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Replaces the disk of a machine by a copy of the database of the leader, if the file of the
    /// leader would suffice alone.
    fn lose_disk(&mut self, number: usize, leader: Option<&Handle>) -> Result<(), String> {
        let trimmed = self.view()?.trimmed;
        match leader {
            Some(leader) if leader.log_places().1 >= trimmed => self.copy(number, Some(leader)),
            _ => Ok(()),
        }
    }

    fn view(&self) -> Result<ClusterView, String> {
        (0..MAX_ATTEMPTS)
            .find_map(|_| result_of(self.log.view()).ok())
            .ok_or_else(|| "etcd does not answer".into())
    }

    /// Lets the leader announce itself, send a sign of life, or trim the log.
    pub(super) fn step_leader(&mut self, rng: &SeededRng, handle: &Handle) -> Result<(), String> {
        let Some((leader, fence)) = self.leader.clone() else {
            return Ok(());
        };
        let (place, synced) = handle.log_places();
        match rng.below(3) {
            0 => {
                let (name, node) = (leader.to_string(), node(place, synced));
                let _ = result_of(self.log.announce(&name, &node));
            }
            1 => {
                self.renewals += 1;
                let lease = LeaseRow {
                    epoch: self.view()?.epoch.epoch,
                    renewals: self.renewals,
                    place,
                    ..LeaseRow::default()
                };
                let _ = result_of(self.log.put_lease(&fence, &lease));
            }
            _ => self.trim(rng, &fence, place)?,
        }
        Ok(())
    }

    /// Trims the log with a fence, which may be that of a former leader.
    fn trim(&mut self, rng: &SeededRng, fence: &Bytes, place: u64) -> Result<(), String> {
        let view = self.view()?;
        let Ok(nodes) = result_of(self.log.nodes()) else {
            return Ok(());
        };
        let synced = nodes.iter().map(|(_, node)| node.synced).collect();
        let tail = rng.below(30);
        let up_to = copied_place(synced, COPIES, rng.chance(10)).min(place.saturating_sub(tail));
        if up_to > view.trimmed {
            self.counts.trims += 1;
            let _ = result_of(self.log.trim(fence, &view, up_to));
        }
        Ok(())
    }

    /// Event for [`SimulatedEtcd::set_event`]: a machine begins a takeover.
    pub(super) fn takeover_event(&mut self, machine: usize) -> Box<dyn FnOnce() + Send> {
        self.nonce += 1;
        let (log, nonce) = (self.log.clone(), self.nonce);
        let takeover = Arc::clone(&self.takeover);
        Box::new(move || {
            let begun = begin_takeover(&log, machine, nonce);
            *takeover.lock().expect("nothing panics") = begun;
        })
    }

    /// Lets the machines take over until one of them leads. `ping`: ping that a former leader
    /// receives meanwhile. `config`: configuration of the engine of a machine.
    pub(super) fn lead(
        &mut self,
        rng: &SeededRng,
        ping: Option<&Command>,
        config: impl Fn(Medium) -> EngineConfig,
    ) -> Result<(Handle, Writer), String> {
        let faults = self.etcd.fault_percentage();
        self.set_patience(u32::MAX);
        for attempt in 0..MAX_ATTEMPTS {
            if attempt == MAX_ATTEMPTS / 2 {
                // The others may lack records that a paused machine has.
                self.etcd.set_fault_percentage(0);
                self.machines
                    .iter_mut()
                    .for_each(|machine| machine.paused = None);
            }
            let begun = self.takeover.lock().expect("nothing panics").take();
            let takeover = match begun {
                Some(takeover) => takeover,
                None => {
                    let machine = rng.pick(&self.followers());
                    self.nonce += 1;
                    match begin_takeover(&self.log, machine, self.nonce) {
                        Some(takeover) => takeover,
                        None => continue,
                    }
                }
            };
            if let Some(opened) = self.finish_takeover(rng, takeover, ping, &config)? {
                self.counts.takeovers += 1;
                self.etcd.set_fault_percentage(faults);
                return Ok(opened);
            }
            self.counts.failed_takeovers += 1;
        }
        Err("no machine can lead".into())
    }

    /// Reads the log to its end and opens the engine. `None` if the machine does not lead.
    fn finish_takeover(
        &mut self,
        rng: &SeededRng,
        takeover: Takeover,
        ping: Option<&Command>,
        config: &impl Fn(Medium) -> EngineConfig,
    ) -> Result<Option<(Handle, Writer)>, String> {
        let log = self.log.clone();
        let machine = &mut self.machines[takeover.machine];
        loop {
            match rng.below(40) {
                0 => {
                    self.counts.power_cuts += 1;
                    machine.cut_power(rng);
                    return Ok(None);
                }
                // Another machine takes over meanwhile.
                1 => return Ok(None),
                2 => self.etcd.execute_delayed(),
                _ => {}
            }
            match catch_up(machine, &log, &takeover.former) {
                Ok(false) => {}
                Ok(true) => break,
                Err(FollowFailure::Temporary) => {}
                Err(FollowFailure::Outdated) => return Ok(None),
                Err(FollowFailure::Fatal(error)) => {
                    return Err(format!("machine {}: {error}", takeover.machine));
                }
            }
        }
        machine.replica = None;
        let appender = SimulatedAppender {
            log: log.clone(),
            fence: takeover.fence.clone(),
            patience: Arc::clone(&self.patience),
            unknown_appends: Arc::clone(&self.unknown_appends),
        };
        // Before the first record of the epoch.
        let resumption = self.resume_during_takeover(rng, ping);
        if rng.chance(10) {
            // Another machine takes over before the first record of the epoch, or after it.
            let rival = rng.pick(&[0, 1, 2]);
            if rival != takeover.machine && self.machines[rival].paused.is_none() {
                let event = self.takeover_event(rival);
                self.etcd.set_event(rng.below(3), event);
            }
        }
        let machine = &self.machines[takeover.machine];
        let leadership = Leadership {
            epoch: takeover.epoch,
            log: Box::new(appender),
        };
        let opened = engine::open_as_leader(config(machine.medium()), leadership);
        self.etcd.remove_event();
        resumption.lock().expect("nothing panics").clone()?;
        // Another takeover whose result is unknown may still be executed, but not later than now.
        self.etcd.execute_delayed();
        let is_begun = self.takeover.lock().expect("nothing panics").is_some();
        let is_replaced = is_begun || self.view()?.epoch.epoch != takeover.epoch;
        match opened {
            // The first record of the epoch, or the next one, is refused.
            _ if is_replaced => Ok(None),
            Ok(opened) => {
                self.leader = Some((takeover.machine, takeover.fence));
                Ok(Some(opened))
            }
            Err(error) => Err(format!("a leader does not open: {error}")),
        }
    }

    /// Lets all followers read the log to its end, and compares their rows with those of the leader.
    pub(super) fn compare_rows(&mut self, leader: &Handle) -> Result<(), String> {
        self.counts.comparisons += 1;
        let faults = self.etcd.fault_percentage();
        self.etcd.set_fault_percentage(0);
        let mut expected = Rows::new();
        leader
            .visit_table_rows(|rows| collect(&mut expected, rows))
            .map_err(|error| error.to_string())?;
        let log = self.log.clone();
        for number in self.followers() {
            let is_whole = loop {
                let view = self.view()?;
                match catch_up(&mut self.machines[number], &log, &view) {
                    Ok(true) => break true,
                    Ok(false) => {}
                    Err(FollowFailure::Outdated) => {
                        self.copy(number, Some(leader))?;
                    }
                    Err(FollowFailure::Temporary) => return Err("a read failed".into()),
                    Err(FollowFailure::Fatal(error)) => {
                        return Err(format!("machine {number}: {error}"));
                    }
                }
            };
            let machine = &mut self.machines[number];
            let place = machine.replica.take().map_or(0, |replica| replica.place());
            if !is_whole || place != leader.log_places().0 {
                return Err(format!(
                    "machine {number} has {place} records, the leader {}",
                    leader.log_places().0
                ));
            }
            let found = rows_of(&machine.medium())?;
            if found != expected {
                return Err(format!(
                    "the rows of machine {number} differ from those of the leader: {}",
                    first_difference(&found, &expected)
                ));
            }
        }
        self.etcd.set_fault_percentage(faults);
        Ok(())
    }
}

fn node(place: u64, synced: u64) -> NodeRow {
    NodeRow {
        place,
        synced,
        ..NodeRow::default()
    }
}

/// Lets a former leader execute a ping. It must be refused.
fn resume((handle, mut writer): (Handle, Writer), ping: Command) -> Result<(), String> {
    let reply = handle.submit(ping);
    for _ in 0..3 {
        match writer.step(false) {
            Ok(true) => {}
            Err(WriterExit::Unable) => break,
            other => return Err(format!("a former leader: {other:?}")),
        }
    }
    match reply.map(|mut reply| reply.try_recv()) {
        Ok(Ok(Ok(answer))) => Err(format!("a former leader has answered {answer:?}")),
        _ => Ok(()),
    }
}

/// Begins an epoch. `None` if another machine was first, or if that is unknown.
fn begin_takeover(log: &Log, machine: usize, nonce: u64) -> Option<Takeover> {
    let former = result_of(log.view()).ok()?;
    let row = EpochRow {
        epoch: former.epoch.epoch + 1,
        node: machine.to_string(),
        nonce,
        ..EpochRow::default()
    };
    let fence = result_of(log.take_over(&former.epoch_value, &row)).ok()??;
    Some(Takeover {
        machine,
        epoch: row.epoch,
        fence,
        former,
    })
}

/// Reason why a machine could not follow the log for now.
enum FollowFailure {
    Temporary,
    Outdated,
    Fatal(String),
}

impl From<ReplicaError> for FollowFailure {
    fn from(error: ReplicaError) -> Self {
        match error {
            ReplicaError::Etcd(_) => Self::Temporary,
            ReplicaError::Outdated => Self::Outdated,
            ReplicaError::Follow(error) => Self::Fatal(error.to_string()),
        }
    }
}

/// Follows the log for a while.
fn follow_once(machine: &mut Machine, log: &Log, rng: &SeededRng) -> Result<(), FollowFailure> {
    let Ok(view) = result_of(log.view()) else {
        return Err(FollowFailure::Temporary);
    };
    let replica = machine.follow(log).map_err(FollowFailure::Fatal)?;
    if replica.is_outdated(&view) {
        return Err(FollowFailure::Outdated);
    }
    replica_step(replica, &view, rng)
}

fn replica_step(
    replica: &mut Replica<SimulatedEtcd>,
    view: &ClusterView,
    rng: &SeededRng,
) -> Result<(), FollowFailure> {
    result_of(replica.verify_history(view.trimmed))?;
    for _ in 0..rng.below(4) {
        result_of(replica.catch_up(false))?;
    }
    if rng.chance(40) {
        let synced = replica.sync();
        synced.map_err(|error| FollowFailure::Fatal(error.to_string()))?;
    }
    Ok(())
}

/// Reads the next records after a takeover. Returns true once the database can lead.
fn catch_up(machine: &mut Machine, log: &Log, former: &ClusterView) -> Result<bool, FollowFailure> {
    let replica = machine.follow(log).map_err(FollowFailure::Fatal)?;
    if replica.is_outdated(former) {
        return Err(FollowFailure::Outdated);
    }
    result_of(replica.verify_history(former.trimmed))?;
    if !result_of(replica.catch_up(true))?.is_empty {
        return Ok(false);
    }
    result_of(replica.finish_takeover(former))?;
    Ok(true)
}

fn collect(found: &mut Rows, rows: &overdue::store::TableRows<'_>) -> bool {
    for (key, value) in rows.iter() {
        found.insert((rows.table().to_owned(), key.to_vec()), value.to_vec());
    }
    true
}

fn rows_of(medium: &Medium) -> Result<Rows, String> {
    let read = || {
        let store = Store::open_of_cluster(medium, &ProgressReporter::default())?;
        let snapshot: Snapshot = store.snapshot()?;
        let mut found = Rows::new();
        snapshot.visit_table_rows(|rows| collect(&mut found, rows))?;
        Ok(found)
    };
    read().map_err(|error: overdue::store::StoreError| error.to_string())
}

fn first_difference(found: &Rows, expected: &Rows) -> String {
    let differs =
        |(row, value): &(&(String, Vec<u8>), &Vec<u8>)| expected.get(*row) != Some(*value);
    let extra = found.iter().find(differs);
    let missing = expected.iter().find(|(row, _)| !found.contains_key(*row));
    format!("{extra:?} is there, {missing:?} is missing")
}

//! Simulation of a cluster in one process: three machines, their databases, and a log that loses
//! replies, delays requests and is trimmed.
//!
//! - The leader is the engine of a server, on a simulated disk. The others follow the log with the
//!   code of a server. The log has the keys and conditions of a server, in a simulated etcd.
//! - Leaders stop, are paused and resumed, lose their power, or give up because etcd does not
//!   answer. Another machine takes over at any moment, even between two attempts of an append.
//! - Followers lose their power at any moment, are behind, and are replaced by copies.
//! - The model is that of the simulation of one machine. After a takeover, a batch without an
//!   answer is there as a whole or not at all, and everything else is there.
//! - All machines have the same rows as the leader, again and again and at the end.

mod etcd;
mod nodes;

use overdue::engine::{EngineConfig, WriterExit};
use overdue::util::clock::Clock;
use overdue::util::random::Random;

use super::commands;
use super::file_faults::FaultScope;
use super::model::BODY_LIMIT;
use super::verify::{RestartSnapshot, same};
use super::world::{SimulatedWorld, WorldResult};
use super::{are_default_seeds, seeds};
use crate::support::disk::Disk;
use etcd::Conditions;
pub(super) use nodes::{ClusterCounts, SimulatedCluster};

/// Number of simulations in a test run, and of steps in each.
const SIMULATION_COUNT: u64 = 6;
const STEPS_PER_SIMULATION: u32 = 150;

/// End of a leadership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LeadershipLoss {
    /// Another machine takes over between two changes of the log.
    Takeover,
    /// etcd does not answer, and the leader gives up.
    NoAnswer,
    /// The process is paused, and resumed after another machine has taken over.
    Pause,
    /// The process is killed.
    Kill,
    /// The machine loses its power.
    PowerCut,
}

impl SimulatedWorld {
    /// Returns a world whose engine is the leader of a cluster.
    pub(crate) fn new_cluster(seed: u64, conditions: Conditions) -> Result<Self, String> {
        Self::with(seed, Disk::default(), FaultScope::WholeDisk, |rng| {
            Ok(Some(SimulatedCluster::new(rng, conditions)?))
        })
    }

    fn cluster(&mut self) -> &mut SimulatedCluster {
        self.cluster.as_mut().expect("the world has a cluster")
    }

    /// Simulates one random event in a cluster.
    fn step_cluster(&mut self) -> WorldResult {
        self.step_machines()?;
        if self.move_clock() {
            self.resolve_doubt(false)?;
        }
        match self.rng.below(100) {
            0..55 => {
                let batch = self.random_batch();
                self.execute(batch)
            }
            55..65 => self.simulate_sender(),
            65..70 => {
                self.idle()?;
                self.verify()
            }
            70..74 => self.compare_machines(),
            74..80 => self.stop_and_start(),
            _ => {
                let loss = self.rng.pick(&[
                    LeadershipLoss::Takeover,
                    LeadershipLoss::Takeover,
                    LeadershipLoss::NoAnswer,
                    LeadershipLoss::Pause,
                    LeadershipLoss::Pause,
                    LeadershipLoss::Kill,
                    LeadershipLoss::PowerCut,
                ]);
                self.lose_leader(loss)
            }
        }
    }

    /// Lets machines do what they do beside the writer of the leader.
    fn step_machines(&mut self) -> WorldResult {
        let rng = self.rng.clone();
        let handle = self.engine().0.clone();
        let cluster = self.cluster();
        for _ in 0..rng.below(4) {
            match rng.below(6) {
                0..3 => {
                    let follower = rng.pick(&cluster.followers());
                    cluster.step_follower(follower, &rng, Some(&handle))?;
                }
                3..5 => cluster.step_leader(&rng, &handle)?,
                _ => cluster.etcd.execute_delayed(),
            }
        }
        drop(handle);
        if rng.chance(20) {
            self.resume_former_leader()?;
        }
        Ok(())
    }

    /// Resumes a leader that was paused while another machine took over. It can change nothing.
    fn resume_former_leader(&mut self) -> WorldResult {
        let rng = self.rng.clone();
        let ping = commands::witness_ping(&self.model);
        self.cluster().resume(&rng, ping)
    }

    /// Compares the rows of all machines.
    fn compare_machines(&mut self) -> WorldResult {
        let handle = self.engine().0.clone();
        self.cluster().compare_rows(&handle)
    }

    /// Ends the leadership during a batch or after it, and lets another machine lead.
    fn lose_leader(&mut self, loss: LeadershipLoss) -> WorldResult {
        let rng = self.rng.clone();
        let batch = self.random_batch();
        let attempts = rng.below(2 + 4 * batch.max_commits as u64);
        let cluster = self.cluster();
        cluster.counts.lost_leaders += 1;
        let faults = cluster.etcd.fault_percentage();
        match loss {
            LeadershipLoss::Takeover => {
                let rival = rng.pick(&cluster.followers());
                let event = cluster.takeover_event(rival);
                cluster.etcd.set_event(attempts, event);
            }
            LeadershipLoss::NoAnswer => {
                cluster.etcd.set_fault_percentage(100);
                cluster.set_patience(rng.below(4) as u32);
            }
            LeadershipLoss::Pause | LeadershipLoss::Kill | LeadershipLoss::PowerCut => {}
        }
        self.may_lose_leadership = true;
        let is_answered = self.submit_batch(&batch);
        self.may_lose_leadership = false;
        self.cluster().etcd.set_fault_percentage(faults);
        self.cluster().etcd.remove_event();
        if is_answered? {
            self.model = batch.model_after;
        } else {
            self.in_doubt = self.outcomes_in_doubt(batch);
        }
        self.replace_leader(loss)
    }

    /// Lets another machine lead. Unless a batch is in doubt, it has the state of the former leader.
    pub(super) fn replace_random_leader(&mut self) -> WorldResult {
        let loss = self
            .rng
            .pick(&[LeadershipLoss::Kill, LeadershipLoss::PowerCut]);
        self.replace_leader(loss)
    }

    fn replace_leader(&mut self, loss: LeadershipLoss) -> WorldResult {
        let engine = self.engine.take().expect("the engine is open");
        let kept = self
            .in_doubt
            .is_empty()
            .then(|| RestartSnapshot::of(&engine.0));
        let can_pause = !self.cluster().has_paused() && engine.0.is_writable();
        let disk = self.cluster().leader_disk();
        if loss == LeadershipLoss::Pause && can_pause {
            self.cluster().end_leadership(Some(engine));
        } else {
            let disk = disk.filter(|_| loss == LeadershipLoss::PowerCut);
            disk.iter().for_each(Disk::power_off);
            drop(engine);
            disk.iter().for_each(|disk| disk.power_on(&self.rng));
            self.cluster().end_leadership(None);
        }
        self.wait_for_leader(kept.as_ref())
    }

    /// Stops the engine in order. Returns what it must have after its next start.
    pub(super) fn stop_in_order(&mut self) -> Result<RestartSnapshot, String> {
        let (handle, mut writer) = self.engine.take().expect("the engine is open");
        handle.close();
        let mut steps = 0;
        while writer.step(false).map_err(|ended| format!("{ended:?}"))? {
            steps += 1;
            same!(steps < 10_000, true, "the writer stops");
        }
        Ok(RestartSnapshot::of(&handle))
    }

    /// Stops the leader in order, and lets another machine lead.
    pub(super) fn hand_over(&mut self) -> WorldResult {
        let kept = self.stop_in_order()?;
        self.cluster().end_leadership(None);
        self.wait_for_leader(Some(&kept))
    }

    /// Lets followers work and time pass until a machine leads.
    fn wait_for_leader(&mut self, kept: Option<&RestartSnapshot>) -> WorldResult {
        let rng = self.rng.clone();
        for _ in 0..rng.below(6) {
            let cluster = self.cluster();
            let follower = rng.pick(&cluster.followers());
            cluster.step_follower(follower, &rng, None)?;
        }
        self.move_clock();
        self.open()?;
        if let Some(kept) = kept {
            same!(
                &RestartSnapshot::of(&self.engine().0),
                kept,
                "state after a takeover"
            );
        }
        self.resolve_doubt(true)
    }

    /// Opens the engine on the machine that leads next.
    pub(super) fn open_leader(
        &mut self,
        random: &Random,
    ) -> Result<(overdue::engine::Handle, overdue::engine::Writer), String> {
        let clock = Clock::Manual(self.clock.clone());
        let housekeeping = self.thresholds;
        let rng = self.rng.clone();
        let has_witness = self.model.checks.contains_key(&commands::WITNESS_CHECK);
        let ping = has_witness.then(|| commands::witness_ping(&self.model));
        self.cluster()
            .lead(&rng, ping.as_ref(), |medium| EngineConfig {
                clock: clock.clone(),
                random: random.clone(),
                housekeeping,
                ..EngineConfig::new(medium, BODY_LIMIT)
            })
    }

    /// Runs housekeeping to its end, then compares everything.
    pub(super) fn finish_cluster(&mut self) -> WorldResult {
        let mut place = 0;
        for _ in 0..2000 {
            let latest = self.engine().0.log_places().0;
            if std::mem::replace(&mut place, latest) == latest {
                break;
            }
            self.idle()?;
        }
        self.resume_former_leader()?;
        self.compare_machines()?;
        self.cluster().end_leadership(None);
        self.engine = None;
        Ok(())
    }
}

/// True if a command may be refused, because the machine no longer leads.
pub(super) fn is_step_allowed(step: Result<bool, WriterExit>, may_lose_leadership: bool) -> bool {
    step == Ok(true) || may_lose_leadership && step == Err(WriterExit::Unable)
}

fn simulate_cluster(seed: u64, conditions: Conditions) -> Result<ClusterCounts, String> {
    let mut failed_step = 0;
    let run = std::panic::AssertUnwindSafe(|| {
        let mut world = SimulatedWorld::new_cluster(seed, conditions)?;
        for step in 0..STEPS_PER_SIMULATION {
            failed_step = step;
            world.step_cluster()?;
        }
        world.finish()?;
        Ok(world.cluster().final_counts())
    });
    let result =
        std::panic::catch_unwind(run).unwrap_or_else(|_| Err("something panicked".to_owned()));
    result.map_err(|difference| format!("seed {seed}, step {failed_step}: {difference}"))
}

#[test]
fn machines_of_a_cluster_agree_with_the_model_and_with_each_other() {
    let seeds = seeds(SIMULATION_COUNT);
    let mut total = ClusterCounts::default();
    for seed in seeds.clone() {
        let counts = simulate_cluster(seed, Conditions::Required).unwrap_or_else(|failure| {
            panic!(
                "{failure}\nto reproduce: OVERDUE_SEED={seed} cargo test --test it \
                 machines_of_a_cluster"
            )
        });
        println!("seed {seed}: {counts:?}");
        total.add(&counts);
    }
    println!("all: {total:?}");
    let ClusterCounts {
        takeovers,
        failed_takeovers,
        lost_leaders,
        resumed_leaders,
        copies,
        trims,
        power_cuts,
        comparisons,
        unknown_appends,
    } = total;
    let has_enough = takeovers >= 50
        && [
            failed_takeovers,
            lost_leaders,
            resumed_leaders,
            copies,
            trims,
            power_cuts,
            comparisons,
            unknown_appends,
        ]
        .iter()
        .all(|count| *count >= 5);
    assert!(
        has_enough || !are_default_seeds(&seeds, SIMULATION_COUNT),
        "too few cases: {total:?}"
    );
}

#[test]
fn simulations_notice_a_log_that_accepts_former_leaders() {
    for seed in 1..=3 {
        let failure = simulate_cluster(seed, Conditions::ValuesIgnored)
            .expect_err("the simulation should detect two leaders");
        println!("{failure}");
    }
}

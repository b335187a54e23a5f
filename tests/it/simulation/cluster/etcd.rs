//! Simulation of etcd: keys in memory that all machines share. Replies are lost, requests are lost
//! or executed later, and reads of a single member are out of date.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use overdue::server::cluster::{
    Compare, EtcdError, KeyValue, KeyValueStore, Op, RangeReply, TransactionReply,
};

use crate::support::seeded_rng::SeededRng;

/// Keys that all machines share. Clones are the same ones.
#[derive(Clone)]
pub(super) struct SimulatedEtcd(Arc<Mutex<EtcdState>>);

/// Conditions of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Conditions {
    Required,
    /// The value of a key, such as that of the epoch, is ignored: former leaders are not refused.
    ValuesIgnored,
}

struct EtcdState {
    conditions: Conditions,
    keys: BTreeMap<Bytes, Bytes>,
    /// Keys that a member has which is out of date.
    outdated_keys: BTreeMap<Bytes, Bytes>,
    revision: i64,
    rng: SeededRng,
    /// Percentage of transactions whose request or reply is lost or delayed.
    fault_percentage: u64,
    /// Requests that were not executed yet, although their callers no longer wait.
    delayed: Vec<Transaction>,
    /// Number of transactions until the event, and the event.
    event: Option<(u64, Event)>,
}

/// Event between two transactions.
type Event = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
struct Transaction {
    compares: Vec<Compare>,
    then: Vec<Op>,
    otherwise: Vec<Op>,
}

impl SimulatedEtcd {
    pub(super) fn new(seed: u64, conditions: Conditions) -> Self {
        Self(Arc::new(Mutex::new(EtcdState {
            conditions,
            keys: BTreeMap::new(),
            outdated_keys: BTreeMap::new(),
            revision: 1,
            rng: SeededRng::seeded(seed),
            fault_percentage: 0,
            delayed: Vec::new(),
            event: None,
        })))
    }

    /// Sets the percentage of transactions whose request or reply is lost or delayed.
    pub(super) fn set_fault_percentage(&self, percentage: u64) {
        self.lock_state().fault_percentage = percentage;
    }

    pub(super) fn fault_percentage(&self) -> u64 {
        self.lock_state().fault_percentage
    }

    /// Lets an event happen before the transaction after `after` others.
    pub(super) fn set_event(&self, after: u64, event: Event) {
        self.lock_state().event = Some((after, event));
    }

    /// Removes an event that has not happened.
    pub(super) fn remove_event(&self) {
        self.lock_state().event = None;
    }

    /// Executes the delayed requests, in any order, or drops some of them.
    pub(super) fn execute_delayed(&self) {
        let state = &mut *self.lock_state();
        while !state.delayed.is_empty() {
            let index = state.rng.below(state.delayed.len() as u64) as usize;
            let transaction = state.delayed.swap_remove(index);
            if state.rng.chance(70) {
                state.execute(&transaction);
            }
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, EtcdState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the event if it is due before the next transaction.
    fn take_event(&self) -> Option<Event> {
        let event = &mut self.lock_state().event;
        match event {
            Some((0, _)) => event.take().map(|(_, event)| event),
            Some((after, _)) => {
                *after -= 1;
                None
            }
            None => None,
        }
    }

    fn transact_now(&self, transaction: &Transaction) -> Result<TransactionReply, EtcdError> {
        // It takes the lock for transactions of its own.
        if let Some(event) = self.take_event() {
            event();
        }
        let state = &mut *self.lock_state();
        if state.rng.chance(20) {
            state.outdated_keys.clone_from(&state.keys);
        }
        if !state.delayed.is_empty() && state.rng.chance(30) {
            let delayed = state.delayed.swap_remove(0);
            state.execute(&delayed);
        }
        if !state.rng.chance(state.fault_percentage) {
            return Ok(state.execute(transaction));
        }
        let unknown = || Err(EtcdError::Unknown("the reply is lost".into()));
        match state.rng.below(4) {
            0 => Err(EtcdError::Unreachable("the request is lost".into())),
            1 => unknown(),
            2 => {
                state.delayed.push(transaction.clone());
                unknown()
            }
            _ => {
                state.execute(transaction);
                unknown()
            }
        }
    }
}

impl EtcdState {
    fn execute(&mut self, transaction: &Transaction) -> TransactionReply {
        let succeeded = transaction.compares.iter().all(|compare| match compare {
            Compare::Value { key, value } => match self.conditions {
                Conditions::Required => self.keys.get(key) == Some(value),
                Conditions::ValuesIgnored => self.keys.contains_key(key),
            },
            Compare::Missing { key } => !self.keys.contains_key(key),
        });
        let ops = if succeeded {
            &transaction.then
        } else {
            &transaction.otherwise
        };
        let mut gets = Vec::new();
        for op in ops {
            match op {
                Op::Put { key, value } => {
                    self.keys.insert(key.clone(), value.clone());
                }
                Op::Get { key } => gets.push(self.keys.get(key).map(|value| stored(key, value))),
                Op::DeleteRange { from, to } if to.is_empty() => {
                    self.keys.remove(from);
                }
                Op::DeleteRange { from, to } => self.keys.retain(|key, _| key < from || key >= to),
            }
        }
        self.revision += 1;
        TransactionReply {
            succeeded,
            gets,
            revision: self.revision,
        }
    }
}

fn stored(key: &Bytes, value: &Bytes) -> KeyValue {
    KeyValue {
        key: key.clone(),
        value: value.clone(),
        version: 1,
        mod_revision: 1,
    }
}

impl KeyValueStore for SimulatedEtcd {
    async fn transact(
        &self,
        compares: &[Compare],
        then: &[Op],
        otherwise: &[Op],
    ) -> Result<TransactionReply, EtcdError> {
        self.transact_now(&Transaction {
            compares: compares.to_vec(),
            then: then.to_vec(),
            otherwise: otherwise.to_vec(),
        })
    }

    async fn range(
        &self,
        from: Bytes,
        to: Bytes,
        limit: u32,
        is_linearizable: bool,
    ) -> Result<RangeReply, EtcdError> {
        let state = &mut *self.lock_state();
        if state.rng.chance(state.fault_percentage / 2) {
            return Err(EtcdError::Unreachable("the read is lost".into()));
        }
        let is_outdated = !is_linearizable && state.rng.chance(50);
        let keys = if is_outdated {
            &state.outdated_keys
        } else {
            &state.keys
        };
        if to.is_empty() {
            let found = keys.get(&from).map(|value| stored(&from, value));
            return Ok(RangeReply {
                key_values: found.into_iter().collect(),
                has_more: false,
                revision: state.revision,
            });
        }
        // Reads are shorter than the limit now and then, as if the records were long.
        let limit = match limit as usize {
            0 => usize::MAX,
            limit if state.rng.chance(50) => limit.min(3),
            limit => limit,
        };
        let mut found = keys.range(from..to);
        let key_values = found.by_ref().take(limit);
        let key_values = key_values.map(|(key, value)| stored(key, value)).collect();
        Ok(RangeReply {
            key_values,
            has_more: found.next().is_some(),
            revision: state.revision,
        })
    }

    async fn compact(&self, _: i64) -> Result<(), EtcdError> {
        Ok(())
    }
}

/// Result of a future that waits for nothing, as all calls of the simulated etcd.
pub(super) fn result_of<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the simulated etcd waits for nothing"),
    }
}

//! How answers reach their callers: a batch for each thread that asked, so that the writer wakes one task there and not hundreds.
//!
//! Waking a task from outside of its thread costs a system call, often two; from inside it costs next to nothing.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

use super::command::Answer;

/// A caller that waits, and what it is told.
pub(super) type Delivery = (oneshot::Sender<Answer>, Answer);

/// Which of the rounds of which engine is run on this thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    engine: usize,
    round: usize,
}

thread_local! {
    static HERE: Cell<Option<Address>> = const { Cell::new(None) };
}

/// The way back from the writer to the threads that ask.
#[derive(Default)]
pub(super) struct Couriers(RwLock<Vec<mpsc::UnboundedSender<Vec<Delivery>>>>);

/// The deliveries to one thread.
pub struct Round(mpsc::UnboundedReceiver<Vec<Delivery>>);

impl Couriers {
    /// From now on answers to what this thread asks are delivered by the round, which has to be run on it.
    pub(super) fn serve_this_thread(&self) -> Round {
        // What waits in it is bounded by the queue of commands.
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut rounds = self.0.write().unwrap_or_else(PoisonError::into_inner);
        HERE.set(Some(Address { engine: self.engine(), round: rounds.len() }));
        rounds.push(sender);
        Round(receiver)
    }

    /// Where answers to this thread are delivered; `None`: the writer delivers them itself.
    pub(super) fn here(&self) -> Option<Address> {
        HERE.get().filter(|address| address.engine == self.engine())
    }

    /// Hands the answers over, those to one address together.
    pub(super) fn deliver(&self, answers: impl Iterator<Item = (Option<Address>, Delivery)>) {
        let rounds = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut carried: Vec<_> = rounds.iter().map(|_| Vec::new()).collect();
        for (address, delivery) in answers {
            match address.and_then(|address| carried.get_mut(address.round)) {
                Some(carried) => carried.push(delivery),
                None => hand_out([delivery]),
            }
        }
        for (round, carried) in rounds.iter().zip(carried) {
            // A round that has ended takes nothing; its callers may still be there.
            if !carried.is_empty()
                && let Err(undelivered) = round.send(carried)
            {
                hand_out(undelivered.0);
            }
        }
    }

    /// Tells the engines of a process apart.
    fn engine(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Round {
    /// Delivers until the engine is gone.
    pub async fn run(mut self) {
        while let Some(answers) = self.0.recv().await {
            hand_out(answers);
        }
    }
}

fn hand_out(answers: impl IntoIterator<Item = Delivery>) {
    // A caller that has gone away does not want its answer.
    answers.into_iter().for_each(|(caller, answer)| drop(caller.send(answer)));
}

//! How answers reach their callers: by the batch, so that the writer wakes one task and not hundreds.
//!
//! Waking a task from outside of its runtime costs a system call, often two; from inside it costs next to nothing.

use tokio::sync::{mpsc, oneshot};

use super::command::Answer;

/// A caller that waits, and what it is told.
pub(super) type Delivery = (oneshot::Sender<Answer>, Answer);

/// The writer's side: hands batches of answers over, or delivers them itself while nobody carries them.
#[derive(Default)]
pub(super) struct Courier(Option<mpsc::UnboundedSender<Vec<Delivery>>>);

/// The runtime's side.
pub struct Round(mpsc::UnboundedReceiver<Vec<Delivery>>);

impl Courier {
    /// A courier, and the round that has to be run for it. What lies between is bounded by the queue of commands.
    pub(super) fn new() -> (Self, Round) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(Some(sender)), Round(receiver))
    }

    pub(super) fn deliver(&self, answers: Vec<Delivery>) {
        let undelivered = match &self.0 {
            Some(sender) => sender.send(answers).map_err(|error| error.0).err(),
            None => Some(answers),
        };
        hand_out(undelivered.unwrap_or_default());
    }
}

impl Round {
    /// Delivers until the writer is gone; run it as a task of the runtime on which the callers wait.
    pub async fn run(mut self) {
        while let Some(answers) = self.0.recv().await {
            hand_out(answers);
        }
    }
}

fn hand_out(answers: Vec<Delivery>) {
    // A caller that has gone away does not want its answer.
    answers.into_iter().for_each(|(caller, answer)| drop(caller.send(answer)));
}

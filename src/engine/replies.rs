//! How answers reach their callers: a batch for each thread that asked, so that the writer wakes one task there and not hundreds.
//!
//! Waking a task from outside of its thread costs a system call, often two; from inside it costs next to nothing.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

use super::command::Answer;

/// A caller that waits, and what it is told.
pub(super) type Delivery = (oneshot::Sender<Answer>, Answer);

/// Which inbox of which engine the answers to a command go to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RouteId {
    engine: usize,
    inbox: usize,
}

thread_local! {
    static HERE: Cell<Option<RouteId>> = const { Cell::new(None) };
}

/// The way back from the writer to the threads that ask.
#[derive(Default)]
pub(super) struct ReplyRoutes(RwLock<Vec<mpsc::UnboundedSender<Vec<Delivery>>>>);

/// The deliveries to one thread.
pub struct ReplyInbox(mpsc::UnboundedReceiver<Vec<Delivery>>);

impl ReplyRoutes {
    /// From now on answers to what this thread asks come by the inbox, whose [`ReplyInbox::run`] has to run on it.
    pub(super) fn serve_this_thread(&self) -> ReplyInbox {
        // What waits in it is bounded by the queue of commands.
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inboxes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        HERE.set(Some(RouteId { engine: self.engine(), inbox: inboxes.len() }));
        inboxes.push(sender);
        ReplyInbox(receiver)
    }

    /// Where answers to this thread are delivered; `None`: the writer delivers them itself.
    pub(super) fn here(&self) -> Option<RouteId> {
        HERE.get().filter(|route| route.engine == self.engine())
    }

    /// Hands the answers over, those to one route together.
    pub(super) fn deliver(&self, answers: impl Iterator<Item = (Option<RouteId>, Delivery)>) {
        let inboxes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut carried: Vec<_> = inboxes.iter().map(|_| Vec::new()).collect();
        for (route, delivery) in answers {
            match route.and_then(|route| carried.get_mut(route.inbox)) {
                Some(carried) => carried.push(delivery),
                None => hand_out([delivery]),
            }
        }
        for (inbox, carried) in inboxes.iter().zip(carried) {
            // An inbox that has ended takes nothing; its callers may still be there.
            if !carried.is_empty()
                && let Err(undelivered) = inbox.send(carried)
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

impl ReplyInbox {
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

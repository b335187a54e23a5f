//! How answers reach their callers: a batch for each thread that asked, so that the writer wakes one task there and not hundreds.
//!
//! Waking a task from outside of its thread costs a system call, often two; from inside it costs next to nothing.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

use super::command::CommandReply;

/// A caller that waits, and what it is told.
pub(super) type PendingReply = (oneshot::Sender<CommandReply>, CommandReply);

/// Which inbox of which engine the answers to a command go to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplyRouteId {
    engine: usize,
    inbox: usize,
}

thread_local! {
    static THREAD_ROUTE: Cell<Option<ReplyRouteId>> = const { Cell::new(None) };
}

/// The way back from the writer to the threads that ask.
#[derive(Default)]
pub(super) struct ReplyRoutes(RwLock<Vec<mpsc::UnboundedSender<Vec<PendingReply>>>>);

/// The deliveries to one thread.
pub struct ReplyInbox(mpsc::UnboundedReceiver<Vec<PendingReply>>);

impl ReplyRoutes {
    /// From now on answers to what this thread asks come by the inbox, whose [`ReplyInbox::run`] has to run on it.
    pub(super) fn register_thread(&self) -> ReplyInbox {
        // What waits in it is bounded by the queue of commands.
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inboxes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        THREAD_ROUTE.set(Some(ReplyRouteId { engine: self.engine_id(), inbox: inboxes.len() }));
        inboxes.push(sender);
        ReplyInbox(receiver)
    }

    /// Where answers to this thread are delivered; `None`: the writer delivers them itself.
    pub(super) fn thread_route(&self) -> Option<ReplyRouteId> {
        THREAD_ROUTE.get().filter(|route| route.engine == self.engine_id())
    }

    /// Hands the answers over, those to one route together.
    pub(super) fn deliver(&self, answers: impl Iterator<Item = (Option<ReplyRouteId>, PendingReply)>) {
        let inboxes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut carried: Vec<_> = inboxes.iter().map(|_| Vec::new()).collect();
        for (route, delivery) in answers {
            match route.and_then(|route| carried.get_mut(route.inbox)) {
                Some(carried) => carried.push(delivery),
                None => send_replies([delivery]),
            }
        }
        for (inbox, carried) in inboxes.iter().zip(carried) {
            // An inbox that has ended takes nothing; its callers may still be there.
            if !carried.is_empty()
                && let Err(undelivered) = inbox.send(carried)
            {
                send_replies(undelivered.0);
            }
        }
    }

    /// Tells the engines of a process apart.
    fn engine_id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl ReplyInbox {
    /// Delivers until the engine is gone.
    pub async fn run(mut self) {
        while let Some(answers) = self.0.recv().await {
            send_replies(answers);
        }
    }
}

fn send_replies(answers: impl IntoIterator<Item = PendingReply>) {
    // A caller that has gone away does not want its answer.
    answers.into_iter().for_each(|(caller, answer)| drop(caller.send(answer)));
}

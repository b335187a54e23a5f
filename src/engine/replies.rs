//! Routes for replies to callers: one batch for each calling thread, so that the writer wakes one
//! task there instead of hundreds.
//!
//! Waking a task from another thread costs a system call, often two. From its own thread it costs
//! next to nothing.

use std::cell::Cell;

use tokio::sync::{mpsc, oneshot};

use super::command::CommandReply;

use crate::util::sync::{RwLock, read, thread_local, write};

/// Caller that waits, and its reply.
pub(super) type PendingReply = (oneshot::Sender<CommandReply>, CommandReply);

/// Identifies the inbox and the engine for the reply to a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplyRouteId {
    engine: usize,
    inbox: usize,
}

thread_local! {
    static THREAD_ROUTE: Cell<Option<ReplyRouteId>> = const { Cell::new(None) };
}

/// Routes from the writer to the calling threads.
#[derive(Default)]
pub(super) struct ReplyRoutes(RwLock<Vec<mpsc::UnboundedSender<Vec<PendingReply>>>>);

/// Inbox for replies to one thread.
pub struct ReplyInbox(mpsc::UnboundedReceiver<Vec<PendingReply>>);

impl ReplyRoutes {
    /// Registers an inbox for replies to commands of this thread. [`ReplyInbox::run`] must run on
    /// it.
    pub(super) fn register_thread(&self) -> ReplyInbox {
        // Its length is bounded by the queue of commands.
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inboxes = write(&self.0);
        let route = ReplyRouteId {
            engine: self.engine_id(),
            inbox: inboxes.len(),
        };
        THREAD_ROUTE.with(|thread_route| thread_route.set(Some(route)));
        inboxes.push(sender);
        ReplyInbox(receiver)
    }

    /// Route to this thread. `None` if the writer sends the replies itself.
    pub(super) fn thread_route(&self) -> Option<ReplyRouteId> {
        THREAD_ROUTE
            .with(Cell::get)
            .filter(|route| route.engine == self.engine_id())
    }

    /// Sends replies, those on one route together.
    pub(super) fn send(&self, replies: impl Iterator<Item = (Option<ReplyRouteId>, PendingReply)>) {
        let inboxes = read(&self.0);
        let mut batches: Vec<_> = inboxes.iter().map(|_| Vec::new()).collect();
        for (route, reply) in replies {
            match route.and_then(|route| batches.get_mut(route.inbox)) {
                Some(batch) => batch.push(reply),
                None => send_replies([reply]),
            }
        }
        for (inbox, batch) in inboxes.iter().zip(batches) {
            // An inbox that has ended accepts nothing, but its callers may still exist.
            if !batch.is_empty()
                && let Err(unsent) = inbox.send(batch)
            {
                send_replies(unsent.0);
            }
        }
    }

    /// Distinguishes the engines of a process.
    fn engine_id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl ReplyInbox {
    /// Sends replies to their callers until the engine is dropped.
    pub async fn run(mut self) {
        while let Some(replies) = self.0.recv().await {
            send_replies(replies);
        }
    }
}

fn send_replies(replies: impl IntoIterator<Item = PendingReply>) {
    // The caller may have gone.
    replies
        .into_iter()
        .for_each(|(caller, reply)| drop(caller.send(reply)));
}

//! What a connection tells of itself while it is open, and how it is asked to make room for another.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// A connection that was asked to end ends when nothing has come for so long: a request that is on its way has arrived by then.
pub(crate) const CLOSE_DELAY: Duration = Duration::from_millis(100);

/// It waits for a request.
const IDLE: u8 = 0;
/// A request is being answered, or the connection has no place yet.
const BUSY: u8 = 1;
/// A request waits for the rest of its body.
const AWAITING_BODY: u8 = 2;

/// What is known of a connection.
#[derive(Default)]
pub(crate) struct ConnectionState {
    /// One of the three above.
    phase: AtomicU8,
    /// The client does not take what is written.
    is_write_blocked: AtomicBool,
    /// Something has moved since the search for a connection that can end came by.
    is_recently_used: AtomicBool,
    /// It has been asked to end.
    is_closing: AtomicBool,
    /// It is to end even if some bytes move.
    is_close_forced: AtomicBool,
    close_signal: Notify,
}

/// What a connection waits for. In the meantime it can end for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientWait {
    /// A request, or the rest of a header.
    Request,
    /// The rest of a body.
    Body,
    /// The client takes an answer.
    ResponseRead,
}

impl ConnectionState {
    /// A request has come.
    pub(crate) fn begin_request(&self) {
        self.phase.store(BUSY, Relaxed);
        self.is_recently_used.store(true, Relaxed);
    }

    /// It is answered.
    pub(crate) fn end_request(&self) {
        self.phase.store(IDLE, Relaxed);
    }

    /// Whether no request is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase.load(Relaxed) == IDLE
    }

    /// Whether the request waits for more of its body.
    pub(crate) fn set_awaiting_body(&self, awaits: bool) {
        self.phase.store(if awaits { AWAITING_BODY } else { BUSY }, Relaxed);
        if !awaits {
            self.is_recently_used.store(true, Relaxed);
        }
    }

    /// The client takes nothing.
    pub(crate) fn set_write_blocked(&self) {
        self.is_write_blocked.store(true, Relaxed);
    }

    /// The client has taken something: all that there was, or a part.
    pub(crate) fn record_write(&self, all: bool) {
        self.is_recently_used.store(true, Relaxed);
        self.is_write_blocked.store(!all, Relaxed);
    }

    /// What it waits for, unless for this server.
    fn client_wait(&self) -> Option<ClientWait> {
        match self.phase.load(Relaxed) {
            _ if self.is_write_blocked.load(Relaxed) => Some(ClientWait::ResponseRead),
            IDLE => Some(ClientWait::Request),
            AWAITING_BODY => Some(ClientWait::Body),
            _ => None,
        }
    }

    /// Waits until the connection is to make room for another and still waits for its client.
    pub(crate) async fn close_requested(&self) -> ClientWait {
        loop {
            self.close_signal.notified().await;
            sleep(CLOSE_DELAY).await;
            let (is_still, insisted) = (!self.is_recently_used.load(Relaxed), self.is_close_forced.load(Relaxed));
            match self.client_wait() {
                Some(waits) if is_still || (insisted && waits != ClientWait::Request) => return waits,
                // A request has come in between. Another time, perhaps.
                _ => self.is_closing.store(false, Relaxed),
            }
        }
    }

    /// Asks the connection to end. False if it does not wait for its client or was asked already, and, unless `even_if_used`, if something
    /// has moved since it was looked at last.
    pub(crate) fn request_close(&self, even_if_used: bool) -> bool {
        if self.client_wait().is_none() || self.is_closing.load(Relaxed) || (self.is_recently_used.swap(false, Relaxed) && !even_if_used) {
            return false;
        }
        self.is_closing.store(true, Relaxed);
        self.is_close_forced.store(even_if_used, Relaxed);
        self.close_signal.notify_one();
        true
    }

    /// It does not end although it may have been asked: what it waited for has come.
    pub(crate) fn cancel_close(&self) {
        self.is_recently_used.store(true, Relaxed);
        self.is_closing.store(false, Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }
}

//! State of an open connection, and the request to close it in favor of another one.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::util::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// A connection that is asked to close does so if no data arrives for this time: by then a request
/// in flight has arrived.
pub(crate) const CLOSE_DELAY: Duration = Duration::from_millis(100);

/// The connection waits for a request.
const IDLE: u8 = 0;
/// A request is being answered, or the connection has no slot yet.
const BUSY: u8 = 1;
/// A request waits for the rest of its body.
const AWAITING_BODY: u8 = 2;

/// Shared state of a connection.
#[derive(Default)]
pub(crate) struct ConnectionState {
    /// [`IDLE`], [`BUSY`] or [`AWAITING_BODY`].
    phase: AtomicU8,
    /// The client does not read the response.
    is_write_blocked: AtomicBool,
    /// Data has moved since the last search for a connection to close.
    is_recently_used: AtomicBool,
    /// The connection has been asked to close.
    is_closing: AtomicBool,
    /// Close even if some bytes have moved.
    is_close_forced: AtomicBool,
    close_signal: Notify,
}

/// Event that a connection waits for. While it waits, it can be closed in favor of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientWait {
    /// A request, or the rest of a header.
    Request,
    /// The rest of a body.
    Body,
    /// The client reads a response.
    ResponseRead,
}

impl ConnectionState {
    /// Records that a request has arrived.
    pub(crate) fn begin_request(&self) {
        self.phase.store(BUSY, Relaxed);
        self.is_recently_used.store(true, Relaxed);
    }

    /// Records that the request is answered.
    pub(crate) fn end_request(&self) {
        self.phase.store(IDLE, Relaxed);
    }

    /// True if no request is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase.load(Relaxed) == IDLE
    }

    /// Records whether the request waits for more of its body.
    pub(crate) fn set_awaiting_body(&self, awaits: bool) {
        self.phase
            .store(if awaits { AWAITING_BODY } else { BUSY }, Relaxed);
        if !awaits {
            self.is_recently_used.store(true, Relaxed);
        }
    }

    /// Records that the client does not read.
    pub(crate) fn set_write_blocked(&self) {
        self.is_write_blocked.store(true, Relaxed);
    }

    /// Records that the client has read: everything (`all`), or a part.
    pub(crate) fn record_write(&self, all: bool) {
        self.is_recently_used.store(true, Relaxed);
        self.is_write_blocked.store(!all, Relaxed);
    }

    /// Event that the connection waits for. `None` if it waits for this server.
    fn client_wait(&self) -> Option<ClientWait> {
        match self.phase.load(Relaxed) {
            _ if self.is_write_blocked.load(Relaxed) => Some(ClientWait::ResponseRead),
            IDLE => Some(ClientWait::Request),
            AWAITING_BODY => Some(ClientWait::Body),
            _ => None,
        }
    }

    /// Waits until the connection is asked to close and still waits for its client.
    pub(crate) async fn wait_for_close_request(&self) -> ClientWait {
        loop {
            self.close_signal.notified().await;
            sleep(CLOSE_DELAY).await;
            let is_quiet = !self.is_recently_used.load(Relaxed);
            let is_forced = self.is_close_forced.load(Relaxed);
            match self.client_wait() {
                Some(wait) if is_quiet || (is_forced && wait != ClientWait::Request) => {
                    return wait;
                }
                // A request has arrived in between: the connection stays open.
                _ => self.is_closing.store(false, Relaxed),
            }
        }
    }

    /// Asks the connection to close. False if it does not wait for its client or was asked already.
    /// Also false if data has moved since the last call, unless `even_if_used`.
    pub(crate) fn request_close(&self, even_if_used: bool) -> bool {
        if self.client_wait().is_none()
            || self.is_closing.load(Relaxed)
            || (self.is_recently_used.swap(false, Relaxed) && !even_if_used)
        {
            return false;
        }
        self.is_closing.store(true, Relaxed);
        self.is_close_forced.store(even_if_used, Relaxed);
        self.close_signal.notify_one();
        true
    }

    /// Cancels a close request: the data that the connection waited for has arrived.
    pub(crate) fn cancel_close(&self) {
        self.is_recently_used.store(true, Relaxed);
        self.is_closing.store(false, Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }
}

//! What a connection tells of itself while it is open, and how it is asked to make room for another.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// A connection that was asked to end ends when nothing has come for so long: a request that is on its way has arrived by then.
pub(crate) const MOMENT: Duration = Duration::from_millis(100);

/// It waits for a request.
const IDLE: u8 = 0;
/// A request is being answered, or the connection has no place yet.
const WORKING: u8 = 1;
/// A request waits for the rest of its body.
const BODY: u8 = 2;

/// What is known of a connection.
#[derive(Default)]
pub(crate) struct Line {
    /// One of the three above.
    doing: AtomicU8,
    /// The client does not take what is written.
    is_stuck: AtomicBool,
    /// Something has moved since the search for a connection that can end came by.
    used: AtomicBool,
    /// It has been asked to end.
    asked: AtomicBool,
    /// It is to end even if some bytes move.
    insisted: AtomicBool,
    end: Notify,
}

/// What a connection waits for. In the meantime it can end for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// A request, or the rest of a header.
    Request,
    /// The rest of a body.
    Body,
    /// The client takes an answer.
    Taking,
}

impl Line {
    /// A request has come.
    pub(crate) fn begin(&self) {
        self.doing.store(WORKING, Relaxed);
        self.used.store(true, Relaxed);
    }

    /// It is answered.
    pub(crate) fn rest(&self) {
        self.doing.store(IDLE, Relaxed);
    }

    /// Whether no request is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.doing.load(Relaxed) == IDLE
    }

    /// Whether the request waits for more of its body.
    pub(crate) fn awaits_body(&self, awaits: bool) {
        self.doing.store(if awaits { BODY } else { WORKING }, Relaxed);
        if !awaits {
            self.used.store(true, Relaxed);
        }
    }

    /// The client takes nothing.
    pub(crate) fn is_stuck(&self) {
        self.is_stuck.store(true, Relaxed);
    }

    /// The client has taken something: all that there was, or a part.
    pub(crate) fn moves(&self, all: bool) {
        self.used.store(true, Relaxed);
        self.is_stuck.store(!all, Relaxed);
    }

    /// What it waits for, unless for this server.
    fn waits(&self) -> Option<Waits> {
        match self.doing.load(Relaxed) {
            _ if self.is_stuck.load(Relaxed) => Some(Waits::Taking),
            IDLE => Some(Waits::Request),
            BODY => Some(Waits::Body),
            _ => None,
        }
    }

    /// Waits until the connection is to make room for another and still waits for its client.
    pub(crate) async fn ended(&self) -> Waits {
        loop {
            self.end.notified().await;
            sleep(MOMENT).await;
            let (is_still, insisted) = (!self.used.load(Relaxed), self.insisted.load(Relaxed));
            match self.waits() {
                Some(waits) if is_still || (insisted && waits != Waits::Request) => return waits,
                // A request has come in between. Another time, perhaps.
                _ => self.asked.store(false, Relaxed),
            }
        }
    }

    /// Asks the connection to end. False if it does not wait for its client or was asked already, and, unless `even_if_used`, if something
    /// has moved since it was looked at last.
    pub(crate) fn ask(&self, even_if_used: bool) -> bool {
        if self.waits().is_none() || self.asked.load(Relaxed) || (self.used.swap(false, Relaxed) && !even_if_used) {
            return false;
        }
        self.asked.store(true, Relaxed);
        self.insisted.store(even_if_used, Relaxed);
        self.end.notify_one();
        true
    }

    /// It does not end although it may have been asked: what it waited for has come.
    pub(crate) fn stays(&self) {
        self.used.store(true, Relaxed);
        self.asked.store(false, Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }
}

//! Connections for HTTP requests, kept for a while after an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::sleep;

use super::dial::{Dialled, Forwarder};
use super::error::{SendError, Stage};
use super::guard::Trust;
use super::http::Outgoing;
use super::tls::CertificatePin;
use super::url::Place;
use crate::clock::Clock;

/// Connections that are kept for one place.
const MOST_KEPT: usize = 4;
/// How long they are kept.
const KEPT: Duration = Duration::from_secs(20);
/// Bytes of an answer's head.
const MOST_HEAD: usize = 64 * 1024;

/// What two requests have in common that may use one connection. What was reached with more trust or on other grounds is not shared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) https: bool,
    pub(super) place: Place,
    pub(super) trust: Trust,
    pub(super) pin: Option<CertificatePin>,
}

/// A connection on which requests can be sent, one after the other.
pub(super) struct Sender {
    pub(super) requests: SendRequest<Outgoing>,
    pub(super) forwarder: Option<Forwarder>,
    key: Key,
}

impl Sender {
    pub(super) async fn begin(dialled: Dialled, key: Key) -> Result<Self, SendError> {
        let begun = Builder::new().max_buf_size(MOST_HEAD).handshake(TokioIo::new(dialled.stream)).await;
        let (requests, connection) =
            begun.map_err(|_| SendError::new(Stage::Exchange, format!("the connection to {} broke", key.place.host)))?;
        // It ends when the sender is dropped. Whoever waits for an answer is told what went wrong.
        tokio::spawn(async {
            let _ = connection.await;
        });
        Ok(Self { requests, forwarder: dialled.forwarder, key })
    }
}

pub(super) struct Pool {
    clock: Clock,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    senders: HashMap<Key, Vec<(Sender, Duration)>>,
    /// A task waits to drop what has been kept for too long.
    swept: bool,
}

impl Pool {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, kept: Arc::default() }
    }

    /// A connection that is there already, if it still stands.
    pub(super) async fn take(&self, key: &Key) -> Option<Sender> {
        loop {
            let (mut sender, since) = {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                let senders = kept.senders.get_mut(key)?;
                let last = senders.pop();
                if senders.is_empty() {
                    kept.senders.remove(key);
                }
                last?
            };
            let fresh = self.clock.uptime() < since + KEPT;
            if fresh && sender.requests.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    /// Keeps a connection whose last answer has been read whole.
    pub(super) fn put(&self, sender: Sender) {
        if sender.requests.is_closed() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let senders = kept.senders.entry(sender.key.clone()).or_default();
        if senders.len() < MOST_KEPT {
            senders.push((sender, self.clock.uptime()));
        }
        if !kept.swept {
            kept.swept = true;
            tokio::spawn(sweep(Arc::downgrade(&self.kept), self.clock.clone()));
        }
    }
}

/// Drops what has been kept for too long, until nothing is kept.
async fn sweep(kept: Weak<Mutex<Kept>>, clock: Clock) {
    loop {
        sleep(KEPT).await;
        let Some(kept) = kept.upgrade() else { return };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.uptime();
        kept.senders.retain(|_, senders| {
            senders.retain(|(sender, since)| now < *since + KEPT && !sender.requests.is_closed());
            !senders.is_empty()
        });
        if kept.senders.is_empty() {
            kept.swept = false;
            return;
        }
    }
}

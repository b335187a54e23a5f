//! HTTP connections, kept for a while after a response.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::sleep;

use super::address_guard::Trust;
use super::dial::{DialedConnection, ForwardProxy};
use super::error::{SendError, SendStage};
use super::http::TrackedBody;
use super::tls::CertificatePin;
use super::url::HostPort;
use crate::util::clock::Clock;
use crate::util::sync::{Mutex, lock};

/// Maximum number of idle connections to one host and port.
const MAX_IDLE_PER_HOST: usize = 4;
/// Maximum idle time of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of the head of a response, in bytes.
const MAX_RESPONSE_HEADER_BYTES: usize = 64 * 1024;

/// Properties that requests must share to use the same connection. A connection with more trust or
/// another pin is not shared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub(super) is_https: bool,
    pub(super) host_port: HostPort,
    pub(super) trust: Trust,
    pub(super) pin: Option<CertificatePin>,
}

/// Connection that sends one request after the other.
pub(super) struct PooledConnection {
    pub(super) requests: SendRequest<TrackedBody>,
    pub(super) forward_proxy: Option<ForwardProxy>,
    key: PoolKey,
}

impl PooledConnection {
    pub(super) async fn handshake(
        dialed: DialedConnection,
        key: PoolKey,
    ) -> Result<Self, SendError> {
        let begun = Builder::new()
            .max_buf_size(MAX_RESPONSE_HEADER_BYTES)
            .handshake(TokioIo::new(dialed.stream))
            .await;
        let (requests, connection) = begun.map_err(|_| {
            SendError::new(
                SendStage::Exchange,
                format!("the connection to {} broke", key.host_port.host),
            )
        })?;
        // The connection ends when the sender is dropped. Errors reach the caller that waits for a
        // response.
        tokio::spawn(async {
            let _ = connection.await;
        });
        Ok(Self {
            requests,
            forward_proxy: dialed.forward_proxy,
            key,
        })
    }
}

pub(super) struct ConnectionPool {
    clock: Clock,
    idle: Arc<Mutex<IdleConnections>>,
}

#[derive(Default)]
struct IdleConnections {
    by_key: HashMap<PoolKey, Vec<(PooledConnection, Duration)>>,
    /// A task waits to drop connections that are idle for too long.
    has_sweeper: bool,
}

impl ConnectionPool {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            idle: Arc::default(),
        }
    }

    /// Returns an idle connection that is still open, if there is one.
    pub(super) async fn take(&self, key: &PoolKey) -> Option<PooledConnection> {
        loop {
            let (mut sender, since) = {
                let mut idle = lock(&self.idle);
                let senders = idle.by_key.get_mut(key)?;
                let last = senders.pop();
                if senders.is_empty() {
                    idle.by_key.remove(key);
                }
                last?
            };
            let fresh = self.clock.uptime() < since + IDLE_TIMEOUT;
            if fresh && sender.requests.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    /// Keeps a connection after its last response has been read to the end.
    pub(super) fn put(&self, sender: PooledConnection) {
        if sender.requests.is_closed() {
            return;
        }
        let mut idle = lock(&self.idle);
        let senders = idle.by_key.entry(sender.key.clone()).or_default();
        if senders.len() < MAX_IDLE_PER_HOST {
            senders.push((sender, self.clock.uptime()));
        }
        if !idle.has_sweeper {
            idle.has_sweeper = true;
            tokio::spawn(sweep(Arc::downgrade(&self.idle), self.clock.clone()));
        }
    }
}

/// Drops connections that are idle for too long, until none is left.
async fn sweep(idle: Weak<Mutex<IdleConnections>>, clock: Clock) {
    loop {
        sleep(IDLE_TIMEOUT).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut idle = lock(&idle);
        let now = clock.uptime();
        idle.by_key.retain(|_, senders| {
            senders.retain(|(sender, since)| {
                now < *since + IDLE_TIMEOUT && !sender.requests.is_closed()
            });
            !senders.is_empty()
        });
        if idle.by_key.is_empty() {
            idle.has_sweeper = false;
            return;
        }
    }
}

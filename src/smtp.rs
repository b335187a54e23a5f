//! Pings by mail: a listener that moves bytes, and pure functions for the dialogue and for parsing
//! a message.
//!
//! It accepts mail for checks and never relays any. It may be exposed to the Internet: the number
//! and duration of sessions, and the lines, commands, recipients, messages and memory of each, have
//! limits.

pub mod address;
mod data_decoder;
pub mod dialogue;
mod message_budget;
mod ping_submission;
mod session;

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::engine::Handle;
use crate::metrics;
use crate::runtime::accept::{ClientListener, accept_connections};
use crate::runtime::blocking_threads::BlockingThreads;
use crate::runtime::certificate::Certificate;
use crate::util::client_network::ClientNetwork;
use crate::util::keyed_semaphore::{KeyedSemaphore, ReachedLimit};
use address::MailDomain;
use message_budget::MessageBudget;

/// Maximum number of simultaneous sessions. Further clients are asked to try again.
pub const MAX_SESSIONS: usize = 256;
/// Maximum number of simultaneous sessions from one address; an IPv6 network of 64 bits counts as
/// one. Further clients are asked to try again.
pub const MAX_SESSIONS_PER_ADDRESS: usize = MAX_SESSIONS / 4;

/// Configuration of the SMTP server, set once at start.
#[derive(Clone, Debug)]
pub struct SmtpConfig {
    /// Domain for which mail is accepted.
    pub domain: MailDomain,
    /// Certificate; with it, STARTTLS is offered.
    pub certificate: Option<Certificate>,
}

/// SMTP server, shared by all sessions. Cheap to clone.
#[derive(Clone)]
pub struct SmtpServer(Arc<SmtpServerState>);

struct SmtpServerState {
    handle: Handle,
    blocking: Arc<BlockingThreads>,
    config: SmtpConfig,
    sessions: KeyedSemaphore<ClientNetwork>,
    message_budget: MessageBudget,
    parse_permits: Semaphore,
}

impl SmtpServer {
    /// Creates a server for this engine. Long messages are parsed by these threads.
    pub fn new(handle: Handle, blocking: Arc<BlockingThreads>, config: SmtpConfig) -> Self {
        Self(Arc::new(SmtpServerState {
            handle,
            blocking,
            config,
            sessions: KeyedSemaphore::per_key(MAX_SESSIONS_PER_ADDRESS).with_total(MAX_SESSIONS),
            message_budget: MessageBudget::new(message_budget::MESSAGE_BUDGET_BYTES),
            parse_permits: Semaphore::new(ping_submission::MAX_PARSERS),
        }))
    }

    /// Accepts mail until `stop` holds true. Then incoming messages may still complete, within five
    /// seconds.
    pub async fn serve(self, listener: impl ClientListener, stop: watch::Receiver<bool>) {
        // No limit here: a session without a free slot is accepted and gets an error.
        accept_connections(
            "mail",
            listener,
            usize::MAX,
            stop.clone(),
            |(stream, peer)| {
                let refuse = |text: &[u8]| {
                    // A new connection accepts such a short reply at once or not at all.
                    let _ = stream.try_write(text);
                    self.0
                        .handle
                        .metrics()
                        .record_rejected_connection(metrics::ConnectionProtocol::Smtp);
                    None
                };
                let permit = match self.0.sessions.try_acquire(peer.ip().into()) {
                    Ok(permit) => permit,
                    Err(ReachedLimit::Key) => {
                        return refuse(
                            b"421 4.7.0 Too many connections from your address: close some\r\n",
                        );
                    }
                    Err(ReachedLimit::Total) => {
                        return refuse(b"421 4.3.2 Too many connections: try again later\r\n");
                    }
                };
                let session = session::run_session(
                    stream,
                    peer.ip().to_canonical(),
                    Arc::clone(&self.0),
                    stop.clone(),
                );
                let open = self
                    .0
                    .handle
                    .metrics()
                    .record_connection(metrics::ConnectionProtocol::Smtp);
                Some(async move {
                    session.await;
                    drop((permit, open));
                })
            },
        )
        .await;
    }
}

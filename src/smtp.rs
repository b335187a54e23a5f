//! Pings by mail: a listener that only moves bytes, and the pure rules of the conversation and of reading a message.
//!
//! It takes mail for checks and never passes any on. It is fit for an open network: sessions, their time, their lines, their commands,
//! their recipients, their messages and the memory for them are all bounded.

pub mod address;
mod data_decoder;
pub mod dialogue;
mod message_budget;
mod ping_submission;
mod session;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::accept::{AddressLimit, accept_connections};
use crate::blocking_threads::BlockingThreads;
use crate::certificate::Certificate;
use crate::engine::Handle;
use crate::metrics;
use address::MailDomain;
use message_budget::MessageBudget;

/// Sessions at the same time. More are told to try again.
pub const MAX_SESSIONS: usize = 256;
/// Sessions of one address at the same time, of IPv6 of a network of 64 bits. More are told to try again.
pub const MAX_SESSIONS_PER_ADDRESS: usize = MAX_SESSIONS / 4;

/// What the door is told once, at start.
#[derive(Clone, Debug)]
pub struct SmtpConfig {
    /// The domain that mail is taken for.
    pub domain: MailDomain,
    /// With it, STARTTLS is offered.
    pub certificate: Option<Certificate>,
}

/// What every session is answered from. Cheap to clone.
#[derive(Clone)]
pub struct SmtpServer(Arc<SmtpServerState>);

struct SmtpServerState {
    handle: Handle,
    blocking: Arc<BlockingThreads>,
    config: SmtpConfig,
    sessions: Arc<Semaphore>,
    address_limit: AddressLimit,
    message_budget: MessageBudget,
    readers: Semaphore,
}

impl SmtpServer {
    /// A door to this engine, which has long messages read by these threads.
    pub fn new(handle: Handle, blocking: Arc<BlockingThreads>, config: SmtpConfig) -> Self {
        Self(Arc::new(SmtpServerState {
            handle,
            blocking,
            config,
            sessions: Arc::new(Semaphore::new(MAX_SESSIONS)),
            address_limit: AddressLimit::new(MAX_SESSIONS_PER_ADDRESS),
            message_budget: MessageBudget::new(message_budget::MESSAGE_BUDGET_BYTES),
            readers: Semaphore::new(ping_submission::MAX_READERS),
        }))
    }

    /// Takes mail until `stop` holds true. Then messages that are on their way may still come in, within five seconds.
    pub async fn serve(self, listener: TcpListener, stop: watch::Receiver<bool>) {
        // No limit here: a session that finds no place is accepted and told so.
        accept_connections("mail", listener, usize::MAX, stop.clone(), |(stream, peer)| {
            let refuse = |text: &[u8]| {
                // A fresh connection takes so little at once or not at all.
                let _ = stream.try_write(text);
                self.0.handle.metrics().record_rejected_connection(metrics::ConnectionProtocol::Smtp);
                None
            };
            let Some(counted) = self.0.address_limit.admit(peer.ip()) else {
                return refuse(b"421 4.7.0 Too many connections from your address: end some\r\n");
            };
            let Ok(place) = Arc::clone(&self.0.sessions).try_acquire_owned() else {
                return refuse(b"421 4.3.2 Too many connections: try again later\r\n");
            };
            let session = session::run_session(stream, peer.ip().to_canonical(), Arc::clone(&self.0), stop.clone());
            let open = self.0.handle.metrics().record_connection(metrics::ConnectionProtocol::Smtp);
            Some(async move {
                session.await;
                drop((place, counted, open));
            })
        })
        .await;
    }
}

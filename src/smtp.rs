//! Pings by mail: a listener that only moves bytes, and the pure rules of the conversation and of reading a message.
//!
//! It takes mail for checks and never passes any on. It is fit for an open network: sessions, their time, their lines, their commands,
//! their recipients, their messages and the memory for them are all bounded.

pub mod address;
mod budget;
mod content;
mod deliver;
pub mod dialogue;
mod session;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::accept::{Addresses, accept};
use crate::blocking_threads::BlockingThreads;
use crate::certificate::Certificate;
use crate::engine::Handle;
use crate::metrics;
use address::Domain;
use budget::MessageBudget;

/// Sessions at the same time. More are told to try again.
pub const SESSIONS_MAX: usize = 256;
/// Sessions of one address at the same time, of IPv6 of a network of 64 bits. More are told to try again.
pub const SESSIONS_OF_ADDRESS_MAX: usize = SESSIONS_MAX / 4;

/// What the door is told once, at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The domain that mail is taken for.
    pub domain: Domain,
    /// With it, STARTTLS is offered.
    pub certificate: Option<Certificate>,
}

/// What every session is answered from. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<Door>);

struct Door {
    handle: Handle,
    blocking: Arc<BlockingThreads>,
    config: Config,
    sessions: Arc<Semaphore>,
    addresses: Addresses,
    budget: MessageBudget,
    readers: Semaphore,
}

impl Server {
    /// A door to this engine, which has long messages read by these threads.
    pub fn new(handle: Handle, blocking: Arc<BlockingThreads>, config: Config) -> Self {
        Self(Arc::new(Door {
            handle,
            blocking,
            config,
            sessions: Arc::new(Semaphore::new(SESSIONS_MAX)),
            addresses: Addresses::new(SESSIONS_OF_ADDRESS_MAX),
            budget: MessageBudget::new(budget::MESSAGE_BUDGET),
            readers: Semaphore::new(deliver::READERS),
        }))
    }

    /// Takes mail until `stop` holds true. Then messages that are on their way may still come in, within five seconds.
    pub async fn serve(self, listener: TcpListener, stop: watch::Receiver<bool>) {
        // No limit here: a session that finds no place is accepted and told so.
        accept("mail", listener, usize::MAX, stop.clone(), |(stream, peer)| {
            let refuse = |text: &[u8]| {
                // A fresh connection takes so little at once or not at all.
                let _ = stream.try_write(text);
                self.0.handle.metrics().turned_away(metrics::Door::Smtp);
                None
            };
            let Some(counted) = self.0.addresses.count(peer.ip()) else {
                return refuse(b"421 4.7.0 Too many connections from your address: end some\r\n");
            };
            let Ok(place) = Arc::clone(&self.0.sessions).try_acquire_owned() else {
                return refuse(b"421 4.3.2 Too many connections: try again later\r\n");
            };
            let session = session::run(stream, peer.ip().to_canonical(), Arc::clone(&self.0), stop.clone());
            let open = self.0.handle.metrics().open(metrics::Door::Smtp);
            Some(async move {
                session.await;
                drop((place, counted, open));
            })
        })
        .await;
    }
}

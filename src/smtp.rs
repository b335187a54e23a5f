//! Pings by mail: a listener that only moves bytes, and the pure rules of the conversation and of reading a message.
//!
//! It takes mail for checks and never passes any on. It is fit for an open network: sessions, their time, their lines, their commands,
//! their recipients, their messages and the memory for them are all bounded.

pub mod address;
mod budget;
mod content;
mod deliver;
pub mod dialogue;
mod html;
pub mod message;
mod session;
mod tls;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::accept::accept;
use crate::engine::Handle;
use address::Domain;
use budget::MessageBudget;
pub use tls::{Certificate, CertificateError};

/// Sessions at the same time. More are told to try again.
pub const SESSIONS_MAX: usize = 256;

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
    config: Config,
    sessions: Arc<Semaphore>,
    budget: MessageBudget,
    readers: Semaphore,
}

impl Server {
    /// A door to this engine.
    pub fn new(handle: Handle, config: Config) -> Self {
        let (sessions, budget) = (Arc::new(Semaphore::new(SESSIONS_MAX)), MessageBudget::new(budget::MESSAGE_BUDGET));
        Self(Arc::new(Door { handle, config, sessions, budget, readers: Semaphore::new(deliver::READERS) }))
    }

    /// Takes mail until `stop` holds true. Then messages that are on their way may still come in, within five seconds.
    pub async fn serve(self, listener: TcpListener, stop: watch::Receiver<bool>) {
        // No limit here: a session that finds no place is accepted and told so.
        accept("mail", listener, usize::MAX, stop.clone(), |(stream, peer)| {
            let Ok(place) = Arc::clone(&self.0.sessions).try_acquire_owned() else {
                // A fresh connection takes so little at once or not at all.
                let _ = stream.try_write(b"421 4.3.2 Too many connections: try again later\r\n");
                return None;
            };
            let session = session::run(stream, peer.ip().to_canonical(), Arc::clone(&self.0), stop.clone());
            Some(async move {
                session.await;
                drop(place);
            })
        })
        .await;
    }
}

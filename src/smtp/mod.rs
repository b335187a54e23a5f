//! Pings by mail: a listener that only moves bytes, and the pure rules of the conversation and of reading a message.
//!
//! It takes mail for checks and never passes any on. It is fit for an open network: sessions, their time, their lines and
//! commands, recipients and messages, and the memory that messages take are all bounded.

pub mod address;
mod content;
mod deliver;
pub mod dialogue;
mod html;
pub mod message;
mod session;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::engine::Handle;
use address::Domain;
pub use tls::{Certificate, CertificateError};

/// Sessions at the same time; who comes on top of that is told to try again.
pub const SESSIONS_MAX: usize = 256;
/// Bytes of messages that may be coming in or waiting to be logged at the same time, beyond a small share that each session
/// has anyway.
const ROOM: usize = 4 * dialogue::MESSAGE_MAX;
/// How long sessions may go on when the service stops: enough for a message that is on its way, not for a slow one.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How long to wait when the system has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the door is told once, at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The domain that mail is taken for.
    pub domain: Domain,
    /// With it, STARTTLS is offered.
    pub certificate: Option<Certificate>,
}

/// What every session is held with. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    handle: Handle,
    config: Config,
    sessions: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

impl Server {
    /// A door to this engine.
    pub fn new(handle: Handle, config: Config) -> Self {
        let (sessions, room) = (Arc::new(Semaphore::new(SESSIONS_MAX)), Arc::new(Semaphore::new(ROOM)));
        Self(Arc::new(Inner { handle, config, sessions, room }))
    }

    /// Takes mail until `stop` holds true, then lets messages that are on their way come in, for five seconds at the most.
    pub async fn serve(self, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let mut sessions = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stopped(&mut stop) => break,
                Some(ended) = sessions.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!("a mail session panicked; its connection is closed");
                    }
                    continue;
                }
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Ok(place) = Arc::clone(&self.0.sessions).try_acquire_owned() else {
                        // A fresh connection takes so little at once or not at all.
                        let _ = stream.try_write(b"421 4.3.2 Too many connections: try again later\r\n");
                        continue;
                    };
                    let session = session::run(stream, peer.ip().to_canonical(), Arc::clone(&self.0), stop.clone());
                    sessions.spawn(async move {
                        session.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!("no mail connection can be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        let drained = async { while sessions.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIME, drained).await.is_err() {
            tracing::warn!("mail sessions that did not end in time are closed");
        }
    }
}

/// Waits until the service is to stop; a sender that is gone says so too.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

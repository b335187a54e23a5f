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

use std::future::Future;
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
pub const ROOM: usize = 4 * dialogue::MESSAGE_MAX;
/// How long sessions may go on when the service stops: enough for a message that is on its way, not for a slow one.
const DRAIN: Duration = Duration::from_secs(5);

/// What the listener is told once, at start.
#[derive(Clone)]
pub struct Config {
    /// The domain that mail is taken for.
    pub domain: Domain,
    /// With it, STARTTLS is offered.
    pub certificate: Option<Certificate>,
}

/// What all sessions share.
struct Door {
    handle: Handle,
    config: Config,
    room: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

/// Takes mail until `shutdown`, then lets the sessions end.
pub async fn serve(listener: TcpListener, handle: Handle, config: Config, shutdown: impl Future<Output = ()>) {
    let (stop, stopping) = watch::channel(false);
    let door = Arc::new(Door { handle, config, room: Arc::new(Semaphore::new(ROOM)), stopping });
    let mut sessions = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        while sessions.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) if sessions.len() >= SESSIONS_MAX => {
                // A fresh connection takes this at once or not at all.
                let _ = stream.try_write(b"421 4.3.2 Too many connections: try again later\r\n");
            }
            Ok((stream, peer)) => {
                sessions.spawn(session::run(stream, peer.ip().to_canonical(), Arc::clone(&door)));
            }
            Err(error) => {
                // Out of file descriptors, most likely: some will come free.
                tracing::warn!(%error, "cannot accept a mail connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    stop.send_replace(true);
    let drained = async { while sessions.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        sessions.shutdown().await;
    }
}

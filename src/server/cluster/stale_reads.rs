//! Answers to reads on a machine while no machine leads: from its own database, marked with the
//! time of the data. For `--cluster-stale-reads`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::sync::watch;

use super::peer::{PeerConnection, PeerListener};
use super::replica::Replica;
use crate::domain::timestamp::Timestamp;
use crate::engine::{self, Handle};
use crate::http::{BaseUrl, HANDSHAKE_RECORD, HttpConfig, HttpServer, HttpTls, begins_stale_read};
use crate::runtime::blocking_threads::BlockingThreads;
use crate::runtime::certificate::Certificate;
use crate::runtime::runtime_threads::RuntimeThreads;
use crate::util::clock::ClockReading;
use crate::util::random::Random;

/// Threads that wait for the disk.
const BLOCKING_THREADS: usize = 2;
/// Pause after a failed attempt to load the database.
const RETRY_DELAY: Duration = Duration::from_secs(60);
/// Maximum length of the beginning of a request that decides who answers it.
const MAX_PEEKED_BYTES: usize = 256;

/// Configuration of answers to reads while no machine leads.
pub(in crate::server) struct StaleReadsConfig {
    pub(in crate::server) http: HttpConfig,
    /// Certificate for HTTP clients, if connections are encrypted.
    pub(in crate::server) certificate: Option<Certificate>,
    /// See [`engine::EngineConfig`].
    pub(in crate::server) ping_body_limit: usize,
}

/// Queue of the connections that this machine answers itself, while it does.
type StaleQueue = Option<mpsc::Sender<PeerConnection>>;

/// Answers reads from the database of this machine while no machine leads.
pub(super) struct StaleReads {
    config: StaleReadsConfig,
    random: Random,
    /// Time without a leader after which reads are answered.
    delay: Duration,
    queue: watch::Sender<StaleQueue>,
    /// Uptime since which no leader is known.
    leaderless_since: Option<Duration>,
    /// Uptime before which the database is not loaded again.
    retry_at: Duration,
    view: Option<StaleView>,
}

/// Loaded database that is served.
struct StaleView {
    handle: Handle,
    /// Place of the last record that it contains.
    place: u64,
    stop: watch::Sender<bool>,
}

impl StaleReads {
    pub(super) fn new(config: StaleReadsConfig, random: Random, delay: Duration) -> Self {
        Self {
            config,
            random,
            delay,
            queue: watch::Sender::new(None),
            leaderless_since: None,
            retry_at: Duration::ZERO,
            view: None,
        }
    }

    /// Returns the queue for the connections that this machine answers itself.
    pub(super) fn connections(&self) -> StaleConnections {
        StaleConnections {
            queue: self.queue.subscribe(),
            base_url: self.config.http.base_url.clone(),
        }
    }

    /// Begins or ends the answers. `replica`: database of this machine, if it has one.
    /// `complete_at`: time at which it last contained every change, if that is known.
    pub(super) async fn update(
        &mut self,
        has_leader: bool,
        replica: Option<&Replica>,
        complete_at: Option<Timestamp>,
        ClockReading { now, uptime }: ClockReading,
    ) {
        if has_leader {
            self.leaderless_since = None;
            return self.end();
        }
        let since = *self.leaderless_since.get_or_insert(uptime);
        let Some(replica) = replica else {
            return self.end();
        };
        match &self.view {
            Some(view) if view.place == replica.place() => return,
            Some(_) => self.end(),
            None => {}
        }
        let is_due = uptime >= since + self.delay && uptime >= self.retry_at;
        if !is_due || replica.is_shared() {
            return;
        }
        match self.begin(replica, complete_at, now).await {
            Ok(()) => tracing::warn!("no machine leads: answering reads with old data"),
            Err(reason) => {
                self.retry_at = uptime + RETRY_DELAY;
                tracing::warn!("no machine leads, and reads cannot be answered: {reason}");
            }
        }
    }

    /// Loads the database, and serves it.
    async fn begin(
        &mut self,
        replica: &Replica,
        complete_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), String> {
        let store = replica.share_store();
        let random = self.random.clone();
        let ping_body_limit = self.config.ping_body_limit;
        let load =
            move || engine::open_stale_view(store, (complete_at, now), ping_body_limit, random);
        let handle = tokio::task::spawn_blocking(load)
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        let (stop, stopped) = watch::channel(false);
        let queue = self
            .serve(&handle, stopped)
            .map_err(|error| error.to_string())?;
        self.view = Some(StaleView {
            handle,
            place: replica.place(),
            stop,
        });
        self.queue.send_replace(Some(queue));
        Ok(())
    }

    /// Starts the HTTP server. Returns the queue of its connections.
    fn serve(
        &self,
        handle: &Handle,
        stop: watch::Receiver<bool>,
    ) -> io::Result<mpsc::Sender<PeerConnection>> {
        let connections = Arc::new(RuntimeThreads::start("stale", 1, handle)?);
        let blocking = Arc::new(BlockingThreads::start(BLOCKING_THREADS)?);
        let tls = match self.config.certificate.clone() {
            Some(certificate) => {
                let handshakes = RuntimeThreads::start("stale-tls", 1, handle)?;
                Some(Arc::new(HttpTls::new(certificate, handshakes)))
            }
            None => None,
        };
        let server = HttpServer::new(handle.clone(), blocking, self.config.http.clone());
        let (queue, listener) = PeerListener::queue();
        tokio::spawn(server.serve(listener, tls, connections, stop));
        Ok(queue)
    }

    /// Ends the answers. Open connections may end within five seconds, and keep the database open
    /// until then.
    pub(super) fn end(&mut self) {
        if let Some(view) = self.view.take() {
            self.queue.send_replace(None);
            view.handle.release_store();
            view.stop.send_replace(true);
            tracing::info!("no longer answering reads with old data");
        }
    }
}

/// Connections of clients that this machine answers itself.
#[derive(Clone)]
pub(super) struct StaleConnections {
    queue: watch::Receiver<StaleQueue>,
    base_url: BaseUrl,
}

impl StaleConnections {
    /// Waits until this machine answers reads itself, and the client has sent the beginning of one.
    /// Nothing is read from the connection. Returns the place of the connection in the queue.
    pub(super) async fn wait_for_read(
        &self,
        client: &TcpStream,
    ) -> mpsc::OwnedPermit<PeerConnection> {
        loop {
            let mut queues = self.queue.clone();
            let queue = match queues.wait_for(Option::is_some).await {
                Ok(queue) => queue.clone(),
                Err(_) => None,
            };
            let Some(queue) = queue else {
                return std::future::pending().await;
            };
            let is_read = tokio::select! {
                is_read = self.is_read(client) => is_read,
                _ = queues.changed() => continue,
            };
            if !is_read {
                return std::future::pending().await;
            }
            match queue.reserve_owned().await {
                Ok(permit) => return permit,
                // The server of this queue has ended: a queue that replaces it may come.
                Err(_) => drop(queues.changed().await),
            }
        }
    }

    /// True if the first bytes of a client begin a request that reads, or a TLS handshake, which
    /// hides the request.
    async fn is_read(&self, client: &TcpStream) -> bool {
        let mut bytes = [0; MAX_PEEKED_BYTES];
        let Ok(length) = client.peek(&mut bytes).await else {
            return false;
        };
        let bytes = bytes.get(..length).unwrap_or_default();
        bytes.first() == Some(&HANDSHAKE_RECORD) || begins_stale_read(bytes, &self.base_url)
    }
}

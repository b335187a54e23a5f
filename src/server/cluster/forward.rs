//! Listeners of a machine that does not lead: each connection of a client is forwarded to the
//! leader. While no leader is known, connections are held. A held connection can be tried again
//! without risk, because nothing of its client has been read.

use std::fmt;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::OwnedPermit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::peer::{
    HANDSHAKE_TIMEOUT, PeerConnection, PeerConnector, PeerError, PeerHeader, PeerService,
    PeerStream,
};
use super::splice::Splice;
use super::stale_reads::StaleConnections;
use crate::admin;
use crate::http::common::client_address::is_trusted;
use crate::http::common::reply::OVERLOADED_RESPONSE;
use crate::http::{HANDSHAKE_RECORD, UNREAD_TIMEOUT, close_unread, linger};
use crate::runtime::accept::{ClientListener, Listener, accept_connections, wait_for_stop};
use crate::util::client_network::ClientNetwork;
use crate::util::clock::Clock;
use crate::util::keyed_semaphore::{KeyedPermit, KeyedSemaphore, ReachedLimit};
use crate::util::log_limit::LogLimit;

/// Maximum number of simultaneous connections of clients, held ones included. Further ones are
/// refused at once.
pub(crate) const MAX_CONNECTIONS: usize = 4096;
/// Maximum number of simultaneous handshakes with the leader, so that three machines at one address
/// stay below its limit.
const MAX_HANDSHAKES: usize = 32;
/// Delay before the next attempt if the leader does not take a connection.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Time within which a client must accept a last reply.
const SEND_TIMEOUT: Duration = Duration::from_millis(500);

static REFUSED_LOG_LIMIT: LogLimit = LogLimit::new();

/// Reason that a request for metrics gets on a machine that follows.
const FOLLOWS: &str = "this machine follows the leader of its cluster, which has the metrics";
/// Maximum number of requests for metrics that are refused at the same time.
const MAX_REFUSALS: usize = 16;

/// Address of the peer port of a machine, `HOST:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PeerAddress(Arc<str>);

impl From<&str> for PeerAddress {
    fn from(address: &str) -> Self {
        Self(address.into())
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Leader of the cluster, as far as this machine knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LeaderState {
    /// No machine leads, or this machine does not know which one.
    Unknown(NoLeaderReason),
    /// Machine that leads, by the address of its peer port.
    Known(PeerAddress),
}

/// Reason why no leader is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoLeaderReason {
    /// No machine has taken over yet.
    Election,
    /// This machine does not reach the majority of etcd.
    EtcdUnreachable,
    /// etcd refuses changes because its quota is used up.
    EtcdFull,
}

impl NoLeaderReason {
    /// Reason that a client gets.
    fn text(self) -> &'static str {
        match self {
            Self::Election => "no machine of the cluster leads at the moment: try again",
            Self::EtcdUnreachable => {
                "this machine of the cluster does not reach the majority of etcd: try again"
            }
            Self::EtcdFull => {
                "no machine of the cluster leads, because the quota of etcd is used up: try again"
            }
        }
    }
}

/// Configuration of a [`Forwarder`].
pub(crate) struct ForwarderConfig {
    /// Time for which a connection is held until a leader takes it. Also the time
    /// after which connections to a leader are closed if no leader is known any more.
    pub(crate) hold_time: Duration,
    /// Maximum number of simultaneous connections: [`MAX_CONNECTIONS`].
    pub(crate) max_connections: usize,
    /// Maximum number of simultaneous connections from one address. An IPv6 network of 64 bits
    /// counts as one address. Trusted proxies have no such limit.
    pub(crate) connections_per_address: usize,
    /// Trusted proxies.
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Connections that this machine answers itself while no machine leads, if it does.
    pub(super) stale_connections: Option<StaleConnections>,
}

/// Forwards connections of clients to the leader. Cheap to clone; clones share the limits.
#[derive(Clone)]
pub(crate) struct Forwarder(Arc<ForwarderShared>);

/// Connection to a leader, with its address.
type FoundLeader = (Box<dyn PeerStream>, PeerAddress);

struct ForwarderShared {
    connector: PeerConnector,
    leader: watch::Receiver<LeaderState>,
    clock: Clock,
    config: ForwarderConfig,
    connections: Arc<Semaphore>,
    by_network: KeyedSemaphore<ClientNetwork>,
    handshakes: Semaphore,
}

/// Permit of a connection, until this is dropped.
struct ForwardPermit {
    _of_total: OwnedSemaphorePermit,
    /// `None` for a trusted proxy.
    _of_network: Option<KeyedPermit>,
}

impl Forwarder {
    /// Creates a forwarder to the leader that `leader` holds.
    pub(crate) fn new(
        connector: PeerConnector,
        leader: watch::Receiver<LeaderState>,
        clock: Clock,
        config: ForwarderConfig,
    ) -> Self {
        Self(Arc::new(ForwarderShared {
            connector,
            leader,
            clock,
            connections: Arc::new(Semaphore::new(config.max_connections)),
            by_network: KeyedSemaphore::per_key(config.connections_per_address),
            handshakes: Semaphore::new(MAX_HANDSHAKES),
            config,
        }))
    }

    /// Forwards the connections of a listener for HTTP or SMTP until `stop` holds true. Then held
    /// connections get one more attempt, and forwarded ones may finish within five seconds.
    pub(crate) async fn serve(
        self,
        listener: impl ClientListener,
        service: PeerService,
        stop: watch::Receiver<bool>,
    ) {
        // No limit here: a connection without a permit is accepted and gets an error.
        let serve = |(mut stream, client): (TcpStream, SocketAddr)| {
            let permit = match self.0.admit(client.ip()) {
                Ok(permit) => permit,
                Err(limit) => {
                    // A new connection accepts such a short reply at once or not at all.
                    let _ = stream.try_write(limit_reply(service, limit).as_bytes());
                    return None;
                }
            };
            let header = PeerHeader { service, client };
            let shared = Arc::clone(&self.0);
            let stop = stop.clone();
            Some(async move {
                let _permit = permit;
                // Bytes are passed on as they arrive. Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                close_unread(&stream, UNREAD_TIMEOUT);
                let stale = tokio::select! {
                    permit = shared.wait_for_stale_read(&stream, service) => permit,
                    found = shared.find_leader(header, stop.clone()) => {
                        match found {
                            Some(leader) => shared.splice(&mut stream, leader, stop).await,
                            None => {
                                let reason = shared.no_leader_text();
                                refuse_client(&mut stream, service, reason).await;
                            }
                        }
                        return;
                    }
                };
                stale.send((stream, client));
            })
        };
        accept_connections("forwarded", listener, usize::MAX, stop.clone(), serve).await;
    }

    /// Forwards the connections of an admin socket like [`serve`](Self::serve). At most as many are
    /// open as an admin socket serves; others wait to be accepted.
    pub(crate) async fn serve_admin(
        self,
        socket: impl Listener<Accepted = UnixStream> + Send + Sync + 'static,
        stop: watch::Receiver<bool>,
    ) {
        let serve = |mut stream: UnixStream| {
            let header = PeerHeader {
                service: PeerService::Admin,
                client: (Ipv4Addr::LOCALHOST, 0).into(),
            };
            let shared = Arc::clone(&self.0);
            let stop = stop.clone();
            Some(async move {
                match shared.find_leader(header, stop.clone()).await {
                    Some(leader) => shared.splice(&mut stream, leader, stop).await,
                    None => {
                        let version = format!("{}: {}\r\n", admin::VERSION_HEADER, admin::VERSION);
                        let reply = error_response(shared.no_leader_text(), &version);
                        send_last(&mut stream, &reply).await;
                    }
                }
            })
        };
        accept_connections("admin", socket, admin::MAX_CONNECTIONS, stop.clone(), serve).await;
    }
}

impl ForwarderShared {
    /// Takes a permit for a connection of a client.
    fn admit(&self, client: IpAddr) -> Result<ForwardPermit, ReachedLimit> {
        let of_network = if is_trusted(client, &self.config.trusted_proxies) {
            None
        } else {
            Some(self.by_network.try_acquire(client.into())?)
        };
        let of_total = Arc::clone(&self.connections).try_acquire_owned();
        Ok(ForwardPermit {
            _of_total: of_total.map_err(|_| ReachedLimit::Total)?,
            _of_network: of_network,
        })
    }

    /// Waits until this machine answers a connection itself, and returns its place in the queue.
    async fn wait_for_stale_read(
        &self,
        client: &TcpStream,
        service: PeerService,
    ) -> OwnedPermit<PeerConnection> {
        match &self.config.stale_connections {
            Some(connections) if service == PeerService::Http => {
                connections.wait_for_read(client).await
            }
            _ => pending().await,
        }
    }

    /// Forwards the bytes of a connection until it has ended.
    async fn splice<C: AsyncRead + AsyncWrite + Unpin>(
        &self,
        client: &mut C,
        (mut stream, address): FoundLeader,
        mut stop: watch::Receiver<bool>,
    ) {
        let splice = Splice::default();
        tokio::select! {
            () = splice.run(client, &mut stream, &mut stop) => {}
            () = self.wait_until_deposed(&address) => {
                tracing::debug!(%address, "closed a connection to a former leader");
            }
        }
    }

    /// Waits until a leader takes a connection. Returns `None` if none takes it in time.
    async fn find_leader(
        &self,
        header: PeerHeader,
        mut stop: watch::Receiver<bool>,
    ) -> Option<FoundLeader> {
        let mut last_error = None;
        let found = self.try_leaders(header, &mut last_error, &mut stop);
        let found = timeout(self.config.hold_time, found).await.ok().flatten();
        if found.is_none() {
            self.log_refused(last_error);
        }
        found
    }

    /// Waits until a leader takes a connection. Returns `None` if none takes it after `stop` holds
    /// true.
    async fn try_leaders(
        &self,
        header: PeerHeader,
        last_error: &mut Option<(PeerAddress, PeerError)>,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<FoundLeader> {
        let mut leader = self.leader.clone();
        let mut is_stopping = false;
        loop {
            let state = leader.borrow_and_update().clone();
            let retry_delay = match state {
                LeaderState::Unknown(_) => None,
                LeaderState::Known(address) => {
                    let connected = tokio::select! {
                        connected = self.connect(&address, header) => connected,
                        // The attempt may hang: the machine might be dead.
                        () = wait_for_change(&mut leader) => continue,
                    };
                    match connected {
                        Ok(stream) => return Some((stream, address)),
                        Err(error) => {
                            tracing::debug!(%address, "the leader takes no connection: {error}");
                            *last_error = Some((address, error));
                        }
                    }
                    Some(RETRY_DELAY)
                }
            };
            if is_stopping {
                return None;
            }
            let retry = async {
                match retry_delay {
                    Some(delay) => sleep(delay).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = wait_for_change(&mut leader) => {}
                () = retry => {}
                () = wait_for_stop(stop) => is_stopping = true,
            }
        }
    }

    /// Connects to the peer port of a leader.
    async fn connect(
        &self,
        address: &PeerAddress,
        header: PeerHeader,
    ) -> Result<Box<dyn PeerStream>, PeerError> {
        // The semaphore is never closed.
        let _permit = self.handshakes.acquire().await.ok();
        self.connector
            .connect(&address.0, header, HANDSHAKE_TIMEOUT)
            .await
    }

    /// Waits until another machine leads, or no leader has been known for the hold time.
    async fn wait_until_deposed(&self, address: &PeerAddress) {
        let mut leader = self.leader.clone();
        loop {
            let state = leader.borrow_and_update().clone();
            match state {
                LeaderState::Known(known) if known == *address => {
                    wait_for_change(&mut leader).await;
                }
                LeaderState::Known(_) => return,
                LeaderState::Unknown(_) => {
                    let changed = wait_for_change(&mut leader);
                    if timeout(self.config.hold_time, changed).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Reason that a client gets if no machine takes its connection.
    fn no_leader_text(&self) -> &'static str {
        match &*self.leader.borrow() {
            LeaderState::Unknown(reason) => reason.text(),
            // It does not take connections.
            LeaderState::Known(_) => NoLeaderReason::Election.text(),
        }
    }

    fn log_refused(&self, error: Option<(PeerAddress, PeerError)>) {
        let Some(suppressed) = REFUSED_LOG_LIMIT.admit(self.clock.now()) else {
            return;
        };
        match error {
            None => tracing::warn!("refused a client: {}{suppressed}", self.no_leader_text()),
            Some((address, error)) => tracing::warn!(
                "refused a client: the leader {address} is not available: {error}{suppressed}"
            ),
        }
    }
}

/// Answers requests for metrics of a machine that follows with an error, until `stop` holds true:
/// only the leader has them.
pub(crate) async fn refuse_metrics(listener: impl ClientListener, stop: watch::Receiver<bool>) {
    let refuse = |(mut stream, _): (TcpStream, SocketAddr)| {
        Some(async move { send_last(&mut stream, &error_response(FOLLOWS, "")).await })
    };
    accept_connections("metrics", listener, MAX_REFUSALS, stop, refuse).await;
}

/// Waits for the next change of the leader. Without a sender there is none.
async fn wait_for_change(leader: &mut watch::Receiver<LeaderState>) {
    if leader.changed().await.is_err() {
        pending::<()>().await;
    }
}

/// Tells a client to try again later.
async fn refuse_client(stream: &mut TcpStream, service: PeerService, reason: &str) {
    let reply = match service {
        PeerService::Smtp => format!("421 4.3.2 {reason}\r\n"),
        _ => {
            let mut first = [0];
            let peeked = timeout(Duration::ZERO, stream.peek(&mut first)).await;
            if matches!(peeked, Ok(Ok(1..))) && first == [HANDSHAKE_RECORD] {
                // Without the certificate of the leader, the client can only be disconnected.
                return;
            }
            error_response(reason, "")
        }
    };
    send_last(stream, &reply).await;
}

/// Returns a response with status 503 and a reason. Each of the headers ends with CR LF.
fn error_response(reason: &str, headers: &str) -> String {
    let body = format!("{{\"error\":\"{reason}\"}}");
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{headers}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\
         \r\n{body}",
        body.len()
    )
}

/// Returns the reply to a connection without a permit.
fn limit_reply(service: PeerService, limit: ReachedLimit) -> &'static str {
    match (service, limit) {
        (PeerService::Smtp, ReachedLimit::Key) => {
            "421 4.7.0 Too many connections from your address: close some\r\n"
        }
        (PeerService::Smtp, ReachedLimit::Total) => {
            "421 4.3.2 Too many connections: try again later\r\n"
        }
        _ => OVERLOADED_RESPONSE,
    }
}

/// Sends a last reply, so that the client reads it before the connection is closed.
async fn send_last(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), reply: &str) {
    let sending = async {
        stream.write_all(reply.as_bytes()).await?;
        stream.shutdown().await
    };
    if let Ok(Ok(())) = timeout(SEND_TIMEOUT, sending).await {
        linger(stream).await;
    }
}

#[cfg(test)]
mod tests;

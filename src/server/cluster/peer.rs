//! Port of a machine for the other machines of its cluster. A connection names a service and the
//! address of a client; after the [`handshake`] it carries the bytes of that service.
//!
//! The handshake keeps machines without the secret out. It does not encrypt: without [`tls`], the
//! network between the machines must be trusted, or encrypt itself.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::splice::{Splice, set_keepalive};
use crate::admin;
use crate::outbound::Outbound;
use crate::runtime::accept::{ClientListener, Listener, accept_connections, wait_for_stop};
use crate::util::client_network::ClientNetwork;
use crate::util::clock::Clock;
use crate::util::keyed_semaphore::KeyedSemaphore;
use crate::util::log_limit::LogLimit;
use crate::util::random::Random;
use crate::util::sync::{Mutex, lock};
use handshake::{HandshakeStatus, RefusedHandshake};
pub(crate) use tls::{PeerTls, PeerTlsPem};

mod handshake;
mod tls;

/// Time within which a handshake must be complete, at either end.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of simultaneous handshakes. Further connections wait to be accepted.
const MAX_HANDSHAKES: usize = 256;
/// Maximum number of simultaneous handshakes with one address; an IPv6 network of 64 bits counts as
/// one. Further connections are closed.
const MAX_HANDSHAKES_PER_ADDRESS: usize = MAX_HANDSHAKES / 2;
/// Maximum number of authenticated connections of one service that wait to be served.
const MAX_WAITING_CONNECTIONS: usize = 256;
/// Minimum length of a secret in bytes.
const MIN_SECRET_BYTES: usize = 16;

static WRONG_SECRET_LOG_LIMIT: LogLimit = LogLimit::new();

/// Shared secret of the machines of a cluster. It has no `Debug`.
#[derive(Clone)]
pub(crate) struct PeerSecret(
    /// SHA-256 hash of the secret, padded to a block of HMAC.
    Arc<[u8; 64]>,
);

/// Error for a secret that is too short. Displays as a sentence without a full stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShortSecretError {
    /// Length of the secret in bytes.
    length: usize,
}

impl fmt::Display for ShortSecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the secret of the cluster has {} bytes, and it needs at least {MIN_SECRET_BYTES}: \
             create one with `openssl rand -base64 32`",
            self.length
        )
    }
}

impl std::error::Error for ShortSecretError {}

impl PeerSecret {
    /// Takes the content of a file, without white space around it.
    ///
    /// # Errors
    /// If it is shorter than 16 bytes.
    pub(crate) fn new(content: &[u8]) -> Result<Self, ShortSecretError> {
        let secret = content.trim_ascii();
        if secret.len() < MIN_SECRET_BYTES {
            return Err(ShortSecretError {
                length: secret.len(),
            });
        }
        let mut block = [0; 64];
        block
            .iter_mut()
            .zip(Sha256::digest(secret))
            .for_each(|(byte, hashed)| *byte = hashed);
        Ok(Self(Arc::new(block)))
    }
}

/// Service that a connection between machines carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PeerService {
    /// Connections of HTTP clients, with or without TLS.
    Http = 0,
    /// Connections of SMTP clients.
    Smtp = 1,
    /// Connections to the admin socket.
    Admin = 2,
    /// Copy of the database.
    Snapshot = 3,
}

impl PeerService {
    /// All services.
    const ALL: [Self; 4] = [Self::Http, Self::Smtp, Self::Admin, Self::Snapshot];

    /// Name of the protocol of its connections, for log lines.
    pub(super) fn protocol(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Smtp => "mail",
            Self::Admin => "administration",
            Self::Snapshot => "copies",
        }
    }

    /// Returns the service of a byte in a header.
    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|service| *service as u8 == byte)
    }
}

/// Purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeerHeader {
    /// Service.
    pub(crate) service: PeerService,
    /// Address of the client.
    pub(crate) client: SocketAddr,
}

/// Reason why a connection to another machine is unusable. Displays as a clause without a full
/// stop, to follow the address of the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PeerError {
    /// The machine does not accept connections, ended the handshake, or did not answer in time.
    Unreachable(String),
    /// The two machines have different secrets.
    WrongSecret,
    /// The machine does not lead.
    NotLeader,
    /// The machine does not know the service.
    UnknownService,
    /// The machine has another version of the handshake.
    OtherVersion,
    /// The address is not the peer port of a machine.
    NotPeerPort,
    /// TLS with the machine failed.
    Tls(String),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) => f.write_str(reason),
            Self::WrongSecret => f.write_str(
                "it has another secret: give all machines of the cluster the same secret",
            ),
            Self::NotLeader => f.write_str("it does not lead the cluster"),
            Self::UnknownService => f.write_str(
                "it does not know the service: run the same release on all machines of the cluster",
            ),
            Self::OtherVersion => f.write_str(
                "it uses another version of the protocol: run the same release on all machines of \
                 the cluster",
            ),
            Self::NotPeerPort => f.write_str(
                "something else listens there, or it uses TLS and this machine does not: give the \
                 address of --cluster-listen of the machine",
            ),
            Self::Tls(reason) => write!(
                f,
                "TLS with it failed: {reason}; give all machines --cluster-ca, --cluster-cert and \
                 --cluster-key"
            ),
        }
    }
}

impl std::error::Error for PeerError {}

impl From<io::Error> for PeerError {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(format!("it ended the handshake: {error}"))
    }
}

/// Opens connections to other machines. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PeerConnector {
    outbound: Outbound,
    secret: PeerSecret,
    tls: Option<PeerTls>,
    random: Random,
}

/// Connection to another machine, encrypted or not.
pub(crate) trait PeerStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> PeerStream for T {}

impl PeerConnector {
    /// Creates a connector with the secret of the cluster.
    pub(crate) fn new(
        outbound: Outbound,
        secret: PeerSecret,
        tls: Option<PeerTls>,
        random: Random,
    ) -> Self {
        Self {
            outbound,
            secret,
            tls,
            random,
        }
    }

    /// Connects to the peer port at an address, `HOST:PORT`, within a time limit. After that, the
    /// stream carries the bytes of the service.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub(crate) async fn connect(
        &self,
        address: &str,
        header: PeerHeader,
        time_limit: Duration,
    ) -> Result<Box<dyn PeerStream>, PeerError> {
        let connecting = async {
            let stream = self
                .outbound
                .connect(address)
                .await
                .map_err(|error| PeerError::Unreachable(error.to_string()))?;
            set_keepalive(&stream);
            let mut stream: Box<dyn PeerStream> = match &self.tls {
                None => Box::new(stream),
                Some(tls) => {
                    let encrypted = tls.connect(address, stream).await;
                    Box::new(encrypted.map_err(|error| PeerError::Tls(error.to_string()))?)
                }
            };
            handshake::request(&mut stream, &self.secret, self.random.bytes(), &header).await?;
            Ok(stream)
        };
        timeout(time_limit, connecting).await.unwrap_or_else(|_| {
            Err(PeerError::Unreachable(format!(
                "no answer within {} seconds",
                time_limit.as_secs_f32()
            )))
        })
    }
}

/// Authenticated connection, with the address of its client.
pub(super) type PeerConnection = (TcpStream, SocketAddr);

/// Port for other machines. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PeerPort(Arc<PeerPortState>);

struct PeerPortState {
    secret: PeerSecret,
    /// TLS, with the access to this machine that it needs.
    tls: Option<(PeerTls, Outbound)>,
    clock: Clock,
    random: Random,
    handshakes: KeyedSemaphore<ClientNetwork>,
    consumers: Mutex<HashMap<PeerService, mpsc::Sender<PeerConnection>>>,
}

impl PeerPort {
    /// Creates a port with the secret of the cluster.
    pub(crate) fn new(
        secret: PeerSecret,
        tls: Option<(PeerTls, Outbound)>,
        clock: Clock,
        random: Random,
    ) -> Self {
        Self(Arc::new(PeerPortState {
            secret,
            tls,
            clock,
            random,
            handshakes: KeyedSemaphore::per_key(MAX_HANDSHAKES_PER_ADDRESS),
            consumers: Mutex::default(),
        }))
    }

    /// Returns the listener for the connections of a service. It replaces an earlier listener of
    /// that service, which then gets no further connections. While a service has no listener, the
    /// port answers that this machine does not lead.
    pub(crate) fn listen(&self, service: PeerService) -> PeerListener {
        let (sender, listener) = PeerListener::queue();
        lock(&self.0.consumers).insert(service, sender);
        listener
    }

    /// Accepts connections of other machines until `stop` holds true.
    pub(crate) async fn serve(self, listener: impl ClientListener, stop: watch::Receiver<bool>) {
        let serve = |(stream, address): (TcpStream, SocketAddr)| {
            let permit = self.0.handshakes.try_acquire(address.ip().into()).ok()?;
            let port = Arc::clone(&self.0);
            let mut stop = stop.clone();
            Some(async move {
                let _permit = permit;
                tokio::select! {
                    result = timeout(HANDSHAKE_TIMEOUT, port.authenticate(stream)) => {
                        port.log_result(address, result);
                    }
                    () = wait_for_stop(&mut stop) => {}
                }
            })
        };
        accept_connections("peer", listener, MAX_HANDSHAKES, stop.clone(), serve).await;
    }
}

impl PeerPortState {
    /// Performs the handshake and passes the connection to the listener of its service.
    async fn authenticate(&self, mut stream: TcpStream) -> Result<(), RefusedHandshake> {
        stream.set_nodelay(true)?;
        set_keepalive(&stream);
        if let Some((tls, outbound)) = &self.tls {
            let encrypted = tls.accept(stream).await.map_err(RefusedHandshake::Tls)?;
            stream = tls::bridge(encrypted, outbound).await?;
        }
        let request =
            handshake::receive_request(&mut stream, &self.secret, self.random.bytes()).await?;
        let Some(header) = request.header else {
            let status = HandshakeStatus::UnknownService;
            return Ok(request.answer(&mut stream, &self.secret, status).await?);
        };
        let consumer = lock(&self.consumers).get(&header.service).cloned();
        let slot = match consumer {
            // Fails if the listener has been dropped.
            Some(consumer) => consumer.reserve_owned().await.ok(),
            None => None,
        };
        let status = match slot {
            Some(_) => HandshakeStatus::Accepted,
            None => HandshakeStatus::NotLeader,
        };
        request.answer(&mut stream, &self.secret, status).await?;
        if let Some(slot) = slot {
            slot.send((stream, header.client));
        }
        Ok(())
    }

    /// Logs the end of a handshake. `result` is `Err` if it took too long.
    fn log_result<E>(&self, address: SocketAddr, result: Result<Result<(), RefusedHandshake>, E>) {
        match result {
            Ok(Ok(())) => {}
            Ok(Err(RefusedHandshake::WrongSecret)) => {
                if let Some(suppressed) = WRONG_SECRET_LOG_LIMIT.admit(self.clock.now()) {
                    tracing::warn!(
                        "{} connected to the peer port with another secret{suppressed}: give all \
                         machines of the cluster the same secret, and let no other machine reach \
                         the port",
                        address.ip()
                    );
                }
            }
            Ok(Err(RefusedHandshake::Tls(error))) => {
                if let Some(suppressed) = WRONG_SECRET_LOG_LIMIT.admit(self.clock.now()) {
                    tracing::warn!(
                        "TLS with {} failed on the peer port: {error}{suppressed}; give all \
                         machines of the cluster certificates of one authority",
                        address.ip()
                    );
                }
            }
            Ok(Err(RefusedHandshake::Malformed(reason))) => {
                tracing::debug!(%address, "refused a connection to the peer port: {reason}");
            }
            Ok(Err(RefusedHandshake::Io(error))) => {
                tracing::debug!(%address, "a handshake on the peer port failed: {error}");
            }
            Err(_) => tracing::debug!(%address, "a handshake on the peer port took too long"),
        }
    }
}

/// Listener for the connections of one service. The address of each is that of its client.
pub(crate) struct PeerListener {
    connections: tokio::sync::Mutex<mpsc::Receiver<PeerConnection>>,
}

impl PeerListener {
    /// Returns a listener, with the queue of its connections.
    pub(super) fn queue() -> (mpsc::Sender<PeerConnection>, Self) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING_CONNECTIONS);
        let listener = Self {
            connections: tokio::sync::Mutex::new(receiver),
        };
        (sender, listener)
    }
}

impl Listener for PeerListener {
    type Accepted = PeerConnection;

    async fn accept(&self) -> io::Result<PeerConnection> {
        match self.connections.lock().await.recv().await {
            Some(connection) => Ok(connection),
            // Replaced by another listener.
            None => std::future::pending().await,
        }
    }

    fn is_forwarded(&self) -> bool {
        true
    }
}

/// Connects each connection of a listener to the admin socket at a path, until `stop` holds true.
pub(crate) async fn serve_admin_connections(
    listener: PeerListener,
    socket: &Path,
    stop: watch::Receiver<bool>,
) {
    let serve = |(mut stream, _)| {
        let path = socket.to_owned();
        let mut stop = stop.clone();
        Some(async move {
            match UnixStream::connect(&path).await {
                Ok(mut admin) => {
                    Splice::default()
                        .run(&mut stream, &mut admin, &mut stop)
                        .await;
                }
                Err(error) => tracing::warn!(
                    "a machine of the cluster cannot use the admin socket {}: {error}",
                    path.display()
                ),
            }
        })
    };
    accept_connections(
        "forwarded admin",
        listener,
        admin::MAX_CONNECTIONS,
        stop.clone(),
        serve,
    )
    .await;
}

#[cfg(test)]
pub(super) mod tests;

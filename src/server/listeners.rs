//! Listeners of a server. All of them are bound before the first is served, so a start succeeds as
//! a whole, or fails with a reason.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cluster::peer::PeerService;
use super::cluster::{ForwardedListener, Leader};
use super::passed_sockets::PassedSockets;
use super::{
    ADMIN_DESCRIPTION, CertificateFiles, CertificateSource, DEFAULT_LISTEN, MailPingConfig,
    ServeError, ServerConfig, acme,
};
use crate::admin;
use crate::engine::Handle;
use crate::http::{self, BaseUrl, BaseUrlError, HttpTls};
use crate::runtime::blocking_threads::BlockingThreads;
use crate::runtime::certificate::Certificate;
use crate::runtime::runtime_threads::RuntimeThreads;
use crate::smtp;

/// Number of connections that may wait to be accepted. Beyond it a client tries again after a
/// second. The system may have a lower limit (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Threads for slow work. More would only wait for the same disk and the same cores.
const BLOCKING_THREADS: usize = 4;

/// A listener with its address, port 0 replaced.
type BoundListener = (Arc<TcpListener>, SocketAddr);

/// Bound listeners that are not served yet.
pub(super) struct Listeners {
    http: Vec<BoundListener>,
    /// Certificate for HTTP clients.
    certificate: Option<Certificate>,
    /// Base URL of the service.
    pub(super) base_url: BaseUrl,
    /// True if a supervisor has passed on sockets for HTTP.
    pub(super) has_passed_sockets: bool,
    mail: Option<(Vec<BoundListener>, smtp::SmtpConfig)>,
    metrics: Vec<BoundListener>,
}

/// Threads that the listeners share.
pub(super) struct ServerThreads {
    /// Threads that answer requests.
    pub(super) connections: RuntimeThreads,
    /// Threads for TLS handshakes.
    pub(super) handshakes: RuntimeThreads,
    /// Threads for slow work.
    pub(super) blocking: Arc<BlockingThreads>,
}

impl ServerThreads {
    /// Starts as many threads for connections as there are processors.
    pub(super) fn start(config: &ServerConfig, handle: &Handle) -> io::Result<Self> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let handshakes = match config.certificate {
            Some(_) => cores.div_ceil(2),
            None => 0,
        };
        Ok(Self {
            connections: RuntimeThreads::start("connections", cores, handle)?,
            handshakes: RuntimeThreads::start("handshakes", handshakes, handle)?,
            blocking: Arc::new(BlockingThreads::start(BLOCKING_THREADS)?),
        })
    }
}

impl Listeners {
    /// Binds all configured listeners except the admin socket: binding that requires an open
    /// database.
    pub(super) async fn bind(
        config: &ServerConfig,
        passed: PassedSockets,
    ) -> Result<Self, ServeError> {
        let certificate = match &config.certificate {
            Some(CertificateSource::Files(files)) => {
                Some(read_certificate(files, http::ALPN_PROTOCOLS)?)
            }
            Some(CertificateSource::Acme(acme)) => Some(
                acme::read_certificate(acme, &config.data_directory)
                    .map_err(ServeError::Certificate)?,
            ),
            None => None,
        };
        let has_passed_sockets = !passed.http.is_empty();
        let http = bind_with_passed("--listen", passed.http, &config.listen)?;
        let base_url = match &config.base_url {
            Some(url) => url.clone(),
            None if let Some(CertificateSource::Acme(acme)) = &config.certificate => {
                acme.base_url().map_err(ServeError::BaseUrl)?
            }
            None => {
                let first = http.first().map(|(_, address)| *address);
                let url =
                    default_base_url(first, certificate.is_some()).map_err(ServeError::BaseUrl)?;
                if first.is_some_and(|first| first.ip().is_unspecified()) {
                    tracing::warn!(
                        "URLs in responses begin with {}, which only this machine can reach: give \
                         --base-url with a URL that others can reach",
                        url.as_str()
                    );
                }
                url
            }
        };
        let mail = match &config.mail {
            Some(MailPingConfig {
                listen,
                domain,
                certificate,
            }) => {
                let certificate = certificate
                    .as_ref()
                    .map(|files| read_certificate(files, &[]))
                    .transpose()?;
                let listeners = bind_with_passed("--smtp-listen", passed.smtp, listen)?;
                if listeners.is_empty() {
                    return Err(ServeError::NoMailAddress);
                }
                Some((
                    listeners,
                    smtp::SmtpConfig {
                        domain: domain.clone(),
                        certificate,
                    },
                ))
            }
            None => {
                if !passed.smtp.is_empty() {
                    tracing::warn!(
                        "the supervisor holds a socket for mail, but the server does not receive \
                         mail: give --ping-email-domain"
                    );
                }
                None
            }
        };
        let metrics = bind_all("--metrics-listen", &config.metrics_listen)?;
        for (_, address) in metrics
            .iter()
            .filter(|(_, address)| !address.ip().is_loopback())
        {
            tracing::warn!("anyone who can reach {address} can read the metrics without a key");
        }
        Ok(Self {
            http,
            certificate,
            base_url,
            has_passed_sockets,
            mail,
            metrics,
        })
    }

    /// Returns the addresses for HTTP, as text.
    pub(super) fn addresses(&self) -> String {
        self.http
            .iter()
            .map(|(_, address)| address.to_string())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Returns the first address that other machines may reach, else the first one, with true if
    /// others may reach it.
    pub(super) fn reachable_address(&self) -> Option<(SocketAddr, bool)> {
        let mut addresses = self.http.iter().map(|(_, address)| *address);
        let outward = addresses
            .clone()
            .find(|address| !address.ip().is_loopback());
        outward
            .map(|address| (address, true))
            .or_else(|| addresses.next().map(|address| (address, false)))
    }

    /// Returns all certificates in use.
    pub(super) fn certificates(&self) -> Vec<Certificate> {
        let mail_certificate = self
            .mail
            .as_ref()
            .and_then(|(_, config)| config.certificate.as_ref());
        self.certificate
            .iter()
            .chain(mail_certificate)
            .cloned()
            .collect()
    }

    /// Returns the listeners whose connections a follower of a cluster forwards.
    pub(super) fn client_listeners(&self) -> Vec<ForwardedListener> {
        let mail = self.mail.iter().flat_map(|(listeners, _)| listeners);
        let with = |service| move |(listener, _): &BoundListener| (Arc::clone(listener), service);
        let http = self.http.iter().map(with(PeerService::Http));
        http.chain(mail.map(with(PeerService::Smtp))).collect()
    }

    /// Returns the listeners for metrics.
    pub(super) fn metrics_listeners(&self) -> impl Iterator<Item = Arc<TcpListener>> {
        self.metrics
            .iter()
            .map(|(listener, _)| Arc::clone(listener))
    }

    /// Returns the certificate for HTTP clients, if connections are encrypted.
    pub(super) fn http_certificate(&self) -> Option<Certificate> {
        self.certificate.clone()
    }

    /// Returns the configuration of the HTTP server.
    pub(super) fn http_config(&self, config: &ServerConfig) -> http::HttpConfig {
        http::HttpConfig {
            base_url: self.base_url.clone(),
            trusted_proxies: config.trusted_proxies.clone(),
            site_name: config.site_name.clone(),
            api_rate: config.api_rate,
            dashboard: config.dashboard.clone(),
            connections_per_address: config.connections_per_address,
            access_log: config.access_log,
            metrics_token: config.metrics_token,
            instance: None,
            other_endpoints: Some(ADMIN_DESCRIPTION),
        }
    }

    /// Serves until `stopped` holds true and each listener has drained. `leader`: leadership of the
    /// cluster, whose other machines forward connections.
    pub(super) fn serve(
        self,
        admin: Arc<admin::AdminSocket>,
        handle: &Handle,
        config: &ServerConfig,
        threads: ServerThreads,
        (stopped, leader): (&watch::Receiver<bool>, Option<&Leader>),
    ) -> JoinSet<()> {
        let mut running = JoinSet::new();
        let addresses = admin::ServiceUrls {
            base_url: self.base_url.as_str().to_owned(),
            listen: self.http.iter().map(|(_, address)| *address).collect(),
            has_pages: config.dashboard.is_enabled,
        };
        let instance = config.instance_key.map(|key| http::InstanceAccess {
            key,
            api: Arc::new(admin::InstanceRequests {
                handle: handle.clone(),
                urls: addresses.clone(),
            }),
            described_paths: admin::openapi::instance_paths(self.base_url.as_str()),
        });
        let config = http::HttpConfig {
            instance,
            ..self.http_config(config)
        };
        let ServerThreads {
            connections,
            handshakes,
            blocking,
        } = threads;
        let connections = Arc::new(connections);
        let tls = self
            .certificate
            .map(|certificate| Arc::new(HttpTls::new(certificate, handshakes)));
        let server = http::HttpServer::new(handle.clone(), Arc::clone(&blocking), config);
        for (listener, address) in self.http {
            let protocol = if tls.is_some() { "HTTPS" } else { "HTTP" };
            tracing::info!(%address, "listening for {protocol}");
            running.spawn(server.clone().serve(
                listener,
                tls.clone(),
                Arc::clone(&connections),
                stopped.clone(),
            ));
        }
        if let Some(leader) = leader {
            running.spawn(server.clone().serve(
                leader.listen(PeerService::Http),
                tls,
                Arc::clone(&connections),
                stopped.clone(),
            ));
        }
        for (listener, address) in self.metrics {
            tracing::info!(%address, "listening for metrics");
            running.spawn(server.clone().serve_metrics(
                listener,
                Arc::clone(&connections),
                stopped.clone(),
            ));
        }
        if let Some((listeners, config)) = self.mail {
            let server = smtp::SmtpServer::new(handle.clone(), blocking, config);
            for (listener, address) in listeners {
                tracing::info!(%address, "listening for mail");
                running.spawn(server.clone().serve(listener, stopped.clone()));
            }
            if let Some(leader) = leader {
                let forwarded = leader.listen(PeerService::Smtp);
                running.spawn(server.clone().serve(forwarded, stopped.clone()));
            }
        }
        running.spawn(admin.serve(handle.clone(), addresses, stopped.clone()));
        running
    }
}

/// Returns passed sockets, and binds the addresses that the flag names besides. The flag's default
/// applies only if no socket was passed on.
fn bind_with_passed(
    flag: &'static str,
    passed: Vec<(std::net::TcpListener, SocketAddr)>,
    addresses: &[SocketAddr],
) -> Result<Vec<BoundListener>, ServeError> {
    let is_default =
        |address: &SocketAddr| !passed.is_empty() && DEFAULT_LISTEN.parse() == Ok(*address);
    let is_passed = |address: &SocketAddr| passed.iter().any(|(_, passed)| passed == address);
    let others: Vec<_> = addresses
        .iter()
        .filter(|address| !is_passed(address) && !is_default(address))
        .copied()
        .collect();
    let mut listeners = Vec::new();
    for (listener, address) in passed {
        let listener = TcpListener::from_std(listener)
            .map_err(|error| ServeError::Listen(flag, address, error))?;
        listeners.push((Arc::new(listener), address));
    }
    let passed_addresses: Vec<_> = listeners.iter().map(|(_, address)| *address).collect();
    listeners
        .extend(bind_all(flag, &others).map_err(|error| explain_taken(&passed_addresses, error))?);
    Ok(listeners)
}

/// Adds the passed socket to the error if that socket is what occupies an address.
fn explain_taken(passed: &[SocketAddr], error: ServeError) -> ServeError {
    match error {
        ServeError::Listen(flag, address, error) if error.kind() == io::ErrorKind::AddrInUse => {
            match passed.iter().find(|passed| passed.port() == address.port()) {
                Some(passed) => ServeError::TakenByPassedSocket(flag, address, *passed),
                None => ServeError::Listen(flag, address, error),
            }
        }
        error => error,
    }
}

/// Binds the addresses of a flag.
fn bind_all(
    flag: &'static str,
    addresses: &[SocketAddr],
) -> Result<Vec<BoundListener>, ServeError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let listen_error = |error| ServeError::Listen(flag, *address, error);
        let listener = open_listener(*address).map_err(listen_error)?;
        let bound = listener.local_addr().map_err(listen_error)?;
        listeners.push((Arc::new(listener), bound));
    }
    Ok(listeners)
}

/// Binds the port for the other machines of a cluster.
pub(super) fn bind_peer_listener(address: SocketAddr) -> Result<TcpListener, ServeError> {
    open_listener(address).map_err(|error| ServeError::Listen("--cluster-listen", address, error))
}

fn open_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restart does not wait until the system forgets old connections. On Windows the option would
    // allow another process to listen, too.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Reads the certificate of these files, for connections with these protocols. Warns if the key is
/// readable by all.
fn read_certificate(
    files: &CertificateFiles,
    protocols: &[&[u8]],
) -> Result<Certificate, ServeError> {
    let certificate =
        Certificate::read(&files.chain, &files.key, protocols).map_err(ServeError::Certificate)?;
    if let Some(key) = certificate.exposed_key() {
        tracing::warn!(
            "every user of this machine can access the private key {}: run chmod o= on it",
            key.display()
        );
    }
    Ok(certificate)
}

/// Returns the URL of the first address, with `localhost` for a wildcard address.
fn default_base_url(first: Option<SocketAddr>, is_tls: bool) -> Result<BaseUrl, BaseUrlError> {
    let first = first.ok_or(BaseUrlError)?;
    let scheme = if is_tls { "https" } else { "http" };
    if first.ip().is_unspecified() {
        format!("{scheme}://localhost:{}", first.port()).parse()
    } else {
        format!("{scheme}://{first}").parse()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_burst_of_connections_waits_to_be_accepted() {
        let most: usize = std::fs::read_to_string("/proc/sys/net/core/somaxconn")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let (_listener, address) = bind_all("--listen", &["127.0.0.1:0".parse().unwrap()])
            .unwrap()
            .pop()
            .unwrap();
        let mut waiting = Vec::new();
        for number in 0..most.min(400) {
            let connected = timeout(Duration::from_millis(900), TcpStream::connect(address)).await;
            waiting.push(
                connected
                    .unwrap_or_else(|_| panic!("number {number} waits"))
                    .unwrap(),
            );
        }
    }

    #[test]
    fn the_base_url_follows_from_the_first_address() {
        for (address, is_tls, url) in [
            ("127.0.0.1:8000", false, "http://127.0.0.1:8000"),
            ("0.0.0.0:80", false, "http://localhost:80"),
            ("[::]:8000", true, "https://localhost:8000"),
            ("[::1]:8000", true, "https://[::1]:8000"),
        ] {
            assert_eq!(
                default_base_url(address.parse().ok(), is_tls)
                    .unwrap()
                    .as_str(),
                url
            );
        }
    }
}

//! The server as a whole: opens the database, starts the writer and the doors, and stops them in order.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::level_filters::LevelFilter;

use crate::admin;
use crate::clock::Clock;
use crate::engine::{self, Ended, Handle, Writer};
use crate::http::{self, BaseUrl, BaseUrlError};
use crate::random::Random;
use crate::smtp::address::Domain;
use crate::smtp::{self, Certificate, CertificateError};
use crate::store::{Medium, StoreError};

mod first_start;

/// How long doors may take to finish what they have begun. They wait for their clients a little less.
const DOORS_TIME: Duration = Duration::from_secs(6);
/// How long the writer may take after that; together they stay below the ten seconds after which a supervisor kills.
const WRITER_TIME: Duration = Duration::from_secs(3);

/// What the server is told on the command line.
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// How this program was called, for the commands that are shown.
    pub program: PathBuf,
    /// Where HTTP requests are taken; at least one.
    pub listen: Vec<SocketAddr>,
    /// Where the service is reached; `None`: at the first of `listen`.
    pub base_url: Option<BaseUrl>,
    /// See [`http::Config`].
    pub trusted_proxies: Vec<IpNet>,
    /// See [`http::Config`].
    pub api_rate: u32,
    /// See [`http::Config`].
    pub api_burst: u32,
    /// See [`engine::Config`].
    pub ping_body_limit: usize,
    /// Pings by mail, if they are taken.
    pub mail: Option<Mail>,
    /// What is logged.
    pub log: LevelFilter,
}

/// How pings are taken by mail.
pub struct Mail {
    /// Where SMTP sessions are taken; at least one.
    pub listen: Vec<SocketAddr>,
    /// See [`smtp::Config`].
    pub domain: Domain,
    /// Files of the certificate chain and of its private key, for STARTTLS.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Why the server did not start, or did not stop as it should.
#[derive(Debug)]
pub enum ServeError {
    /// The database cannot be opened.
    Store(StoreError),
    /// An address, of this flag, cannot be listened on.
    Listen(&'static str, SocketAddr, io::Error),
    /// The certificate for mail cannot be used.
    Certificate(CertificateError),
    /// The base URL that follows from an address is none.
    BaseUrl(BaseUrlError),
    /// There is no admin socket.
    Admin(admin::SocketError),
    /// The first project could not be made.
    FirstStart(String),
    /// The system gives no threads or no signals.
    System(io::Error),
    /// A command made the writer panic.
    Panicked,
    /// What was queued was not written in time.
    Stuck,
    /// A second signal came before all was done.
    Interrupted,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Listen(flag, address, error) => write!(f, "cannot listen on {address}: {error}; choose another address with {flag}"),
            Self::Certificate(error) => error.fmt(f),
            Self::BaseUrl(error) => error.fmt(f),
            Self::Admin(error) => error.fmt(f),
            Self::FirstStart(reason) => write!(f, "cannot make the first project: {reason}"),
            Self::System(error) => write!(f, "the system refused what a server needs: {error}"),
            Self::Panicked => f.write_str("the writer panicked; what it had acknowledged is on disk, start the server again"),
            Self::Stuck => f.write_str("the database did not take what was queued in time; what was acknowledged is on disk"),
            Self::Interrupted => f.write_str("a second signal came before the doors were closed; what was acknowledged is on disk"),
        }
    }
}

impl std::error::Error for ServeError {}

/// Runs the server until a signal stops it.
pub fn run(config: Config) -> Result<(), ServeError> {
    // A closed standard error must not end the service: what cannot be logged is not.
    let log = tracing_subscriber::fmt().with_max_level(config.log).with_writer(io::stderr).log_internal_errors(false);
    log.with_ansi(io::stderr().is_terminal()).with_target(false).init();
    let engine = engine::Config {
        medium: Medium::Directory(config.data.clone()),
        clock: Clock::System,
        random: Random::System,
        ping_body_limit: config.ping_body_limit,
        thresholds: engine::Thresholds::default(),
    };
    let (handle, writer) = engine::open(engine).map_err(ServeError::Store)?;
    warn_of_open_directory(&config.data);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::System)?;
    let served = runtime.block_on(serve(config, handle, writer));
    // Reads that block are not waited for.
    runtime.shutdown_background();
    served
}

async fn serve(config: Config, handle: Handle, mut writer: Writer) -> Result<(), ServeError> {
    let mut signals = Signals::new().map_err(ServeError::System)?;
    let listeners = bind("--listen", &config.listen).await?;
    let base_url = match config.base_url {
        Some(url) => url,
        None => default_base_url(listeners.first().map(|(_, address)| *address)).map_err(ServeError::BaseUrl)?,
    };
    let mail = match config.mail {
        Some(Mail { listen, domain, certificate }) => {
            let read = |(chain, key): (PathBuf, PathBuf)| Certificate::read(&chain, &key);
            let certificate = certificate.map(read).transpose().map_err(ServeError::Certificate)?;
            Some((bind("--smtp-listen", &listen).await?, smtp::Config { domain, certificate }))
        }
        None => None,
    };
    let socket = admin::Socket::bind(&config.data).map_err(ServeError::Admin)?;
    tokio::spawn(writer.answer_through_courier().run());
    let mut ended = run_writer(writer).map_err(ServeError::System)?;

    let is_first = handle.state().households().next().is_none();
    if is_first {
        let text = first_start::prepare(&handle, &base_url, &config.program, &config.data).await.map_err(ServeError::FirstStart)?;
        // With nobody there to read it, the commands still show what there is.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    let (stop, stopped) = watch::channel(false);
    let (trusted_proxies, api_rate, api_burst) = (config.trusted_proxies, config.api_rate, config.api_burst);
    let server = http::Server::new(handle.clone(), http::Config { base_url, trusted_proxies, api_rate, api_burst });
    let mut doors = JoinSet::new();
    for (listener, address) in listeners {
        tracing::info!(%address, "listening for HTTP");
        doors.spawn(server.clone().serve(listener, stopped.clone()));
    }
    if let Some((listeners, config)) = mail {
        let server = smtp::Server::new(handle.clone(), config);
        for (listener, address) in listeners {
            tracing::info!(%address, "listening for mail");
            doors.spawn(server.clone().serve(listener, stopped.clone()));
        }
    }
    doors.spawn(socket.serve(handle.clone(), stopped));
    tell_supervisor(NotifyState::Ready);

    let panicked = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "stopping");
            false
        }
        _ = &mut ended => true,
    };
    tell_supervisor(NotifyState::Stopping);
    stop.send_replace(true);
    tokio::select! {
        stopped = drain(doors, &handle, ended) => if panicked { Err(ServeError::Panicked) } else { stopped },
        _ = signals.next() => Err(ServeError::Interrupted),
    }
}

/// Listens on the addresses of a flag; with each listener the address that it has, port 0 replaced.
async fn bind(flag: &'static str, addresses: &[SocketAddr]) -> Result<Vec<(TcpListener, SocketAddr)>, ServeError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let told = |error| ServeError::Listen(flag, *address, error);
        let listener = TcpListener::bind(address).await.map_err(told)?;
        let bound = listener.local_addr().map_err(told)?;
        listeners.push((listener, bound));
    }
    Ok(listeners)
}

/// Starts the writer on a thread of its own; the receiver tells how it ended.
fn run_writer(writer: Writer) -> io::Result<oneshot::Receiver<Ended>> {
    let (tell, ended) = oneshot::channel();
    std::thread::Builder::new().name("writer".into()).spawn(move || {
        // Nobody listens any more only when the process is about to end.
        let _ = tell.send(writer.run());
    })?;
    Ok(ended)
}

/// Doors first, so that whatever they took in still reaches the writer; then the writer, once everything is on disk.
async fn drain(mut doors: JoinSet<()>, handle: &Handle, ended: oneshot::Receiver<Ended>) -> Result<(), ServeError> {
    let closed = async { while doors.join_next().await.is_some() {} };
    if timeout(DOORS_TIME, closed).await.is_err() {
        tracing::warn!("what the doors did not finish in time is dropped");
    }
    handle.close();
    match timeout(WRITER_TIME, ended).await {
        Ok(Ok(Ended::Closed)) => Ok(()),
        Ok(_) => Err(ServeError::Panicked),
        Err(_) => Err(ServeError::Stuck),
    }
}

/// The signals that ask to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// The first address; one that stands for all addresses of the machine is reached under its name for itself.
fn default_base_url(first: Option<SocketAddr>) -> Result<BaseUrl, BaseUrlError> {
    let first = first.ok_or(BaseUrlError)?;
    if first.ip().is_unspecified() { format!("http://localhost:{}", first.port()).parse() } else { format!("http://{first}").parse() }
}

/// A directory that was there before may let others in; it is not ours to change.
fn warn_of_open_directory(directory: &Path) {
    let open = std::fs::metadata(directory).is_ok_and(|there| there.permissions().mode() & 0o077 != 0);
    if open {
        tracing::warn!("others can enter the data directory {}: run chmod 700 on it", directory.display());
    }
}

/// Tells a supervisor such as systemd, if there is one.
fn tell_supervisor(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("the supervisor cannot be told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_url_follows_from_the_first_address() {
        for (address, url) in [
            ("127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("0.0.0.0:80", "http://localhost:80"),
            ("[::]:8000", "http://localhost:8000"),
            ("[::1]:8000", "http://[::1]:8000"),
        ] {
            assert_eq!(default_base_url(address.parse().ok()).unwrap().as_str(), url);
        }
    }
}

//! The server as a whole: opens the database, starts the writer and the doors, and stops them in order.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use ipnet::IpNet;
use sd_notify::NotifyState;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::level_filters::LevelFilter;

use crate::admin;
use crate::backup::{Intervals, Keeper};
use crate::blocking_threads::BlockingThreads;
use crate::clock::Clock;
use crate::connection_threads::ConnectionThreads;
use crate::domain::project::KeyHash;
use crate::domain::timezone::Timezone;
use crate::engine::{self, Ended, Handle, Writer};
use crate::http::{self, ApiRate, BaseUrl};
use crate::notify::{self, Heartbeat};
use crate::outbound::{Outbound, OutboundConfig};
use crate::random::Random;
use crate::smtp::address::Domain;
use crate::store::{self, Medium};
use crate::web;
pub use declared::DeclaredFiles;
use doors::{Doors, Threads};
pub use error::ServeError;
use first_start::FromElsewhere;
use log::Log;
pub use log::LogFormat;
use passed::Passed;
use signals::{Hangups, Signals};
use watchdog::Noted;

mod declared;
mod doors;
mod error;
mod first_start;
mod log;
mod open_files;
mod passed;
mod progress;
mod reload;
mod signals;
mod watchdog;

/// How long doors may take to finish what they have begun. They wait for their clients a little less.
const DOORS_TIME: Duration = Duration::from_secs(6);
/// How long the writer may take after that. Together they stay below the ten seconds after which a supervisor kills.
const WRITER_TIME: Duration = Duration::from_secs(3);

/// Threads for what takes long. More would only wait for the same disk and the same cores.
const BLOCKING_THREADS: usize = 4;

/// Where HTTP requests are taken unless somebody says otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8000";

/// What the server is told on the command line.
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// How this program was called. Commands that are shown begin with it.
    pub program: PathBuf,
    /// Where HTTP requests are taken; at least one. What a supervisor passes on takes the place of [`DEFAULT_LISTEN`].
    pub listen: Vec<SocketAddr>,
    /// The certificate that is shown there; `None`: HTTP without TLS.
    pub certificate: Option<CertificateFiles>,
    /// Where the service is reached; `None`: at the first of `listen`.
    pub base_url: Option<BaseUrl>,
    /// See [`crate::http::Config`].
    pub site_name: Box<str>,
    /// See [`crate::http::Config`].
    pub trusted_proxies: Vec<IpNet>,
    /// See [`crate::http::Config`].
    pub api_rate: ApiRate,
    /// See [`crate::http::Config`].
    pub web: web::Config,
    /// See [`crate::http::Config`].
    pub connections_per_address: usize,
    /// See [`engine::Config`].
    pub ping_body_limit: usize,
    /// Pings by mail, if they are taken.
    pub mail: Option<Mail>,
    /// What is sent to others, and how.
    pub outbound: OutboundConfig,
    /// The zone of times in alerts; `None`: the machine's.
    pub zone: Option<Timezone>,
    /// Who is told that the server lives.
    pub heartbeat: Option<Heartbeat>,
    /// What files declare.
    pub declared: Option<DeclaredFiles>,
    /// Backups that the server makes by itself.
    pub backups: Option<Intervals>,
    /// See [`engine::Config`].
    pub holds_after_outage: bool,
    /// What is logged.
    pub log: LevelFilter,
    /// How it is written.
    pub log_format: LogFormat,
    /// See [`crate::http::Config`].
    pub access_log: bool,
    /// Where metrics are read without a key.
    pub metrics_listen: Vec<SocketAddr>,
    /// See [`crate::http::Config`].
    pub metrics_token: Option<KeyHash>,
    /// What is odd about how it was started.
    pub warnings: Vec<String>,
}

/// How pings are taken by mail.
pub struct Mail {
    /// Where SMTP sessions are taken, besides what a supervisor passes on.
    pub listen: Vec<SocketAddr>,
    /// See [`crate::smtp::Config`].
    pub domain: Domain,
    /// For STARTTLS.
    pub certificate: Option<CertificateFiles>,
}

/// The PEM files of a certificate.
pub struct CertificateFiles {
    /// The certificate and its chain.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Runs the server until a signal stops it.
pub fn run(config: Config) -> Result<(), ServeError> {
    // Before there is a second thread: this changes the environment.
    let passed = Passed::take()?;
    let _log = Log::begin(config.log, config.log_format).map_err(ServeError::System)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    open_files::raise();
    // A file that a flag names and that cannot be read is told before anything is made.
    let outbound = Outbound::new(config.outbound.clone(), &Clock::System, Random::System).map_err(ServeError::Outbound)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(ServeError::System)?;
    let hangups = signals::outlive(&runtime).map_err(ServeError::System)?;
    // Before the database: a start that fails for a port makes none.
    let doors = runtime.block_on(Doors::bind(&config, passed))?;
    let engine = engine::Config::new(Medium::Directory(config.data.clone()), config.ping_body_limit);
    let told = Noted::default();
    let engine = engine::Config { progress: progress::told(told.clone()), holds_after_outage: config.holds_after_outage, ..engine };
    let (handle, writer) = engine::open(engine).map_err(ServeError::Store)?;
    warn_of_open_directory(&config.data);
    let ended = run_writer(writer).map_err(ServeError::System)?;
    let served = runtime.block_on(serve(config, (doors, hangups), (handle, told), outbound, ended));
    // Reads that block are not waited for.
    runtime.shutdown_background();
    served
}

async fn serve(
    config: Config,
    (doors, hangups): (Doors, Hangups),
    (handle, told): (Handle, Noted),
    outbound: Outbound,
    mut ended: oneshot::Receiver<Ended>,
) -> Result<(), ServeError> {
    let mut signals = Signals::new().map_err(ServeError::System)?;
    let admin = admin::Socket::bind(&config.data).map_err(ServeError::Admin)?;
    if handle.is_new() {
        let prepared = first_start::prepare(&handle, &doors.base_url, &config.program, &config.data).await;
        // If nobody can read it, `overdue key list` still shows the ping key.
        tell(&prepared.map_err(ServeError::FirstStart)?);
    } else if handle.with_state(|state| state.projects().next().is_none()) {
        tracing::warn!("the database has no project: `overdue project create NAME` makes one");
    }
    if config.web.forward.as_ref().is_some_and(|forward| forward.is_open(&config.trusted_proxies)) {
        tracing::warn!(
            "any machine in the ranges of --trusted-proxy can say that it is anybody: name the proxy's own address, or give --auth-header-secret-file"
        );
    }
    let files = reload::Files {
        certificates: doors.certificates(),
        declared: config.declared.clone(),
        pages: config.web.is_on.then(|| doors.base_url.as_str().to_owned()),
    };
    if let Some(declared) = &files.declared {
        declared::apply(&handle, declared, files.pages.as_deref()).await;
    }
    if config.web.asks_for_passwords()
        && handle.with_state(|state| state.users.is_empty())
        && let Some(lines) = first_start::setup(&handle, &from_elsewhere(&doors, &config), &config.program, &config.data).await
    {
        // If nobody can read it, `overdue user link` prints another one.
        tell(&lines);
    }
    let keeper = config.backups.clone().map(|intervals| Keeper::start(handle.clone(), intervals));
    let _keeper = keeper.transpose().map_err(ServeError::System)?;
    tell_of_start(&doors, &handle);
    let (stop, stopped) = watch::channel(false);
    let cores = available_parallelism().map_or(1, NonZero::get);
    let start = |name, count| ConnectionThreads::start(name, count, &handle).map_err(ServeError::System);
    let threads = Threads {
        connections: start("connections", cores)?,
        handshakes: start("handshakes", if config.certificate.is_some() { cores.div_ceil(2) } else { 0 })?,
        blocking: Arc::new(BlockingThreads::start(BLOCKING_THREADS).map_err(ServeError::System)?),
    };
    let blocking = Arc::clone(&threads.blocking);
    let round = Noted::default();
    let telling = notify::Config {
        outbound,
        zone: config.zone.clone().unwrap_or_else(machine_zone),
        host: doors.base_url.host().into(),
        heartbeat: config.heartbeat.clone(),
        last_round: Arc::clone(&round.0),
        show: http::shown_checks(doors.base_url.clone(), handle.clone()),
        pages: config.base_url.as_ref().filter(|_| config.web.is_on).map(|base_url| base_url.as_str().to_owned()),
        unsubscribe: config.base_url.clone().map(|base_url| http::unsubscribe_links(base_url, handle.clone())),
    };
    round.note(Clock::System.uptime());
    let mut notifier = notify::start(handle.clone(), telling, stopped.clone()).map_err(ServeError::System)?;
    let mut doors = doors.serve(admin, &handle, config, threads, &stopped);
    tell_supervisor(NotifyState::Ready);
    files.keep(handle.clone(), blocking, hangups);
    watchdog::start(handle.clone(), told, round);

    let failure = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "stopping");
            None
        }
        _ = &mut ended => Some(ServeError::Panicked),
        _ = doors.join_next() => Some(ServeError::DoorFell),
        _ = &mut notifier => Some(ServeError::NotifierFell),
    };
    tell_supervisor(NotifyState::Stopping);
    stop.send_replace(true);
    let stopping = async {
        // One that has fallen is not waited for.
        let notifier = (!matches!(failure, Some(ServeError::NotifierFell))).then_some(notifier);
        close(doors, notifier).await;
        match failure {
            Some(error) => Err(error),
            None => finish(&handle, ended).await,
        }
    };
    tokio::select! {
        stopped = stopping => stopped,
        _ = signals.next() => Err(ServeError::Interrupted),
    }
}

/// How another device gets at the dashboard.
fn from_elsewhere<'a>(doors: &'a Doors, config: &Config) -> FromElsewhere<'a> {
    let is_named = config.base_url.is_some();
    FromElsewhere { base_url: &doors.base_url, is_named, reached: doors.reached(), has_passed: doors.has_passed }
}

/// Tells whoever started the server something that belongs into no log.
fn tell(lines: &str) {
    // With nobody left to read it, a command shows it again.
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Logs which release serves what, and where.
fn tell_of_start(doors: &Doors, handle: &Handle) {
    handle.with_state(|state| {
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            schema = store::SCHEMA,
            listen = doors.addresses(),
            base_url = doors.base_url.as_str(),
            projects = state.projects().count(),
            checks = state.projects().map(|project| project.checks.len()).sum::<usize>(),
            channels = state.projects().map(|project| project.channels.len()).sum::<usize>(),
            "starting"
        );
    });
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

/// Waits for the doors, so that whatever they took in reaches the writer and is answered.
async fn close(mut doors: JoinSet<()>, told: Option<oneshot::Receiver<()>>) {
    let closed = async {
        while doors.join_next().await.is_some() {}
        // What is being sent is reported by the same writer.
        if let Some(told) = told {
            let _ = told.await;
        }
    };
    if timeout(DOORS_TIME, closed).await.is_err() {
        tracing::warn!("what the doors did not finish in time is dropped");
    }
}

/// Has the writer carry out what is left.
async fn finish(handle: &Handle, ended: oneshot::Receiver<Ended>) -> Result<(), ServeError> {
    handle.close();
    match timeout(WRITER_TIME, ended).await {
        Ok(Ok(Ended::Closed)) => Ok(()),
        Ok(_) => Err(ServeError::Panicked),
        Err(_) => Err(ServeError::Stuck),
    }
}

/// Warns if others may enter the data directory. The permissions of a directory that was there before are not ours to change.
fn warn_of_open_directory(directory: &Path) {
    let open = std::fs::metadata(directory).is_ok_and(|there| there.permissions().mode() & 0o077 != 0);
    if open {
        tracing::warn!("others can enter the data directory {}: run chmod 700 on it", directory.display());
    }
}

/// The zone that the machine is set to, if it is one that we know; else UTC.
pub(crate) fn machine_zone() -> Timezone {
    let link = std::fs::read_link("/etc/localtime").ok();
    let name = link.as_deref().and_then(Path::to_str).and_then(|path| path.split_once("/zoneinfo/")).map(|(_, name)| name);
    // The same zone has several names, of which people know one.
    let name = name.filter(|name| !matches!(*name, "Etc/UTC" | "Etc/UCT" | "Etc/Universal" | "Etc/Zulu"));
    name.and_then(|name| Timezone::parse(name).ok()).unwrap_or_else(Timezone::utc)
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
    fn a_writer_that_panicked_ends_the_server() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            data: directory.path().into(),
            program: "overdue".into(),
            listen: vec![([127, 0, 0, 1], 0).into()],
            certificate: None,
            base_url: None,
            site_name: "overdue".into(),
            trusted_proxies: Vec::new(),
            api_rate: ApiRate::UNLIMITED,
            web: web::Config { is_on: false, ..web::Config::new(web::Auth::Password) },
            connections_per_address: 1,
            ping_body_limit: 0,
            mail: None,
            outbound: OutboundConfig::default(),
            zone: None,
            heartbeat: None,
            backups: None,
            declared: None,
            holds_after_outage: true,
            log: LevelFilter::OFF,
            log_format: LogFormat::Text,
            access_log: false,
            metrics_listen: Vec::new(),
            metrics_token: None,
            warnings: Vec::new(),
        };
        let (handle, writer) = engine::open(engine::Config::new(Medium::memory(), 0)).unwrap();
        let _running = run_writer(writer).unwrap();
        let (tell, ended) = oneshot::channel();
        tell.send(Ended::Panicked).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let doors = runtime.block_on(Doors::bind(&config, Passed::default())).unwrap();
        let hangups = signals::outlive(&runtime).unwrap();
        let outbound = Outbound::new(OutboundConfig::default(), &Clock::System, Random::System).unwrap();
        assert!(matches!(
            runtime.block_on(serve(config, (doors, hangups), (handle.clone(), Noted::default()), outbound, ended)),
            Err(ServeError::Panicked)
        ));
        handle.close();
    }
}

//! The server as a whole: opens the database, starts the writer and the listeners, and stops them
//! in order.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use sd_notify::NotifyState;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tracing::level_filters::LevelFilter;

use crate::admin;
use crate::backup::{BackupSchedule, BackupScheduler};
use crate::domain::project::SecretHash;
use crate::domain::timezone::Timezone;
use crate::engine::{self, Handle, Writer, WriterExit};
use crate::http::dashboard;
use crate::http::{self, ApiRate, BaseUrl};
use crate::notifier::{self, Heartbeat};
use crate::outbound::{Outbound, OutboundConfig};
use crate::smtp::address::MailDomain;
use crate::store::{self, Medium};
use crate::util::clock::Clock;
use crate::util::random::Random;
pub use acme::{AcmeConfig, LETS_ENCRYPT};
pub use certificate_source::{CertificateFiles, CertificateSource};
use cluster::{ClusterConfig, Leader};
pub use config_files::ConfigFiles;
pub use error::ServeError;
use first_start::RemoteAccess;
use listeners::{Listeners, ServerThreads};
pub use log::LogFormat;
use log::LogGuard;
pub(crate) use machine_timezone::machine_timezone;
pub(crate) use passed_sockets::passed_socket_count;
use passed_sockets::{KeptSockets, PassedSockets, reserve_descriptors};
use shutdown::{stop_listeners, stop_writer_and_release};
use signals::{HangupCount, StopSignals};
use watchdog::LastActivity;

mod acme;
mod certificate_source;
pub mod cluster;
mod config_files;
mod error;
mod first_start;
mod listeners;
mod log;
mod machine_timezone;
mod open_files;
mod passed_sockets;
mod reload;
mod restart;
mod shutdown;
mod signals;
mod startup_progress;
mod watchdog;

/// Default address for HTTP.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8000";

/// Description of the admin API, which the OpenAPI document contains.
pub const ADMIN_DESCRIPTION: http::OpenApiParts = http::OpenApiParts {
    paths: admin::openapi::PATHS,
    schemas: admin::openapi::SCHEMAS,
    responses: admin::openapi::RESPONSES,
};

/// Configuration of the server from the command line.
pub struct ServerConfig {
    /// Path of the data directory.
    pub data_directory: PathBuf,
    /// Path by which this program was called. Commands in messages begin with it.
    pub program: PathBuf,
    /// Addresses for HTTP; at least one. Sockets from a supervisor replace [`DEFAULT_LISTEN`].
    pub listen: Vec<SocketAddr>,
    /// Certificate for these addresses; `None` for HTTP without TLS.
    pub certificate: Option<CertificateSource>,
    /// Public base URL; `None` for one that is derived from the first of `listen`.
    pub base_url: Option<BaseUrl>,
    /// See [`crate::http::HttpConfig`].
    pub site_name: Box<str>,
    /// See [`crate::http::HttpConfig`].
    pub trusted_proxies: Vec<IpNet>,
    /// See [`crate::http::HttpConfig`].
    pub api_rate: ApiRate,
    /// See [`crate::http::HttpConfig`].
    pub dashboard: dashboard::DashboardConfig,
    /// See [`crate::http::HttpConfig`].
    pub connections_per_address: usize,
    /// See [`engine::EngineConfig`].
    pub ping_body_limit: usize,
    /// Configuration of pings by mail, if they are enabled.
    pub mail: Option<MailPingConfig>,
    /// Configuration of outgoing messages.
    pub outbound: OutboundConfig,
    /// Time zone of times in alerts; `None` for that of the machine.
    pub zone: Option<Timezone>,
    /// Outgoing heartbeat, which reports that the server is alive.
    pub heartbeat: Option<Heartbeat>,
    /// Files that declare the configuration.
    pub declared: Option<ConfigFiles>,
    /// Cluster that this machine belongs to.
    pub cluster: Option<ClusterConfig>,
    /// Schedule of automatic backups.
    pub backups: Option<BackupSchedule>,
    /// True if batches are made durable by a journal. Otherwise each of them syncs
    /// the database.
    pub uses_journal: bool,
    /// See [`engine::EngineConfig`].
    pub holds_after_outage: bool,
    /// Log level.
    pub log: LevelFilter,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// See [`crate::http::HttpConfig`].
    pub access_log: bool,
    /// Addresses for metrics without a key.
    pub metrics_listen: Vec<SocketAddr>,
    /// See [`crate::http::HttpConfig`].
    pub metrics_token: Option<SecretHash>,
    /// Hash of the instance key, which gives access to projects, keys and users over HTTP.
    pub instance_key: Option<SecretHash>,
    /// Warnings about the flags and the environment of the start.
    pub warnings: Vec<String>,
}

/// Configuration of pings by mail.
pub struct MailPingConfig {
    /// Addresses for SMTP, besides sockets from a supervisor.
    pub listen: Vec<SocketAddr>,
    /// See [`crate::smtp::SmtpConfig`].
    pub domain: MailDomain,
    /// Certificate for STARTTLS.
    pub certificate: Option<CertificateFiles>,
}

/// Runs the server until a signal stops it.
pub fn run(config: ServerConfig) -> Result<(), ServeError> {
    // Before there is a second thread, because this changes the environment.
    let passed = PassedSockets::take()?;
    // Before the runtime opens its first descriptor.
    let _reserved = config
        .cluster
        .is_some()
        .then(|| {
            let mail_addresses = config.mail.as_ref().map_or(0, |mail| mail.listen.len());
            reserve_descriptors(passed.count() + config.listen.len() + mail_addresses)
        })
        .transpose()
        .map_err(ServeError::System)?;
    let log = LogGuard::start(config.log, config.log_format).map_err(ServeError::System)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let files_per_connection = config
        .cluster
        .as_ref()
        .map_or(1, ClusterConfig::files_per_connection);
    open_files::raise_limit(files_per_connection);
    // An unreadable file of a flag is reported before anything is created.
    let outbound = Outbound::new(config.outbound.clone(), &Clock::System, Random::System)
        .map_err(ServeError::Outbound)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // A task that blocks must not delay the renewals of the lease of a leader.
        .worker_threads(if config.cluster.is_some() { 2 } else { 1 })
        .enable_all()
        .build()
        .map_err(ServeError::System)?;
    let hangups = signals::install_handlers(&runtime).map_err(ServeError::System)?;
    // Before the database is opened, so that a start that fails because a port is taken creates
    // none.
    let listeners = runtime.block_on(Listeners::bind(&config, passed))?;
    let engine = engine::EngineConfig::new(
        Medium::Directory(config.data_directory.clone()),
        config.ping_body_limit,
    );
    let last_progress = LastActivity::default();
    let engine = engine::EngineConfig {
        progress: startup_progress::startup_progress(last_progress.clone()),
        uses_log: config.uses_journal,
        holds_alerts_after_outage: config.holds_after_outage,
        ..engine
    };
    let mut signals = runtime
        .block_on(async { StopSignals::new() })
        .map_err(ServeError::System)?;
    let Some(cluster) = &config.cluster else {
        let context = (&runtime, signals, hangups, last_progress);
        let result = run_engine(config, engine, listeners, outbound, context, None);
        // Blocking reads are not waited for.
        runtime.shutdown_background();
        return result;
    };
    let followed = runtime.block_on(cluster::follow_until_leader(
        cluster,
        &config,
        (&listeners, &mut signals),
        &outbound,
        &last_progress,
    ));
    let leader = match followed {
        Ok(Some(leader)) => leader,
        ended => {
            // A copy of the database is not waited for.
            runtime.shutdown_background();
            return ended.map(drop);
        }
    };
    let context = (&runtime, signals, hangups, last_progress);
    let sockets = KeptSockets::new(listeners.client_listeners());
    let leading = Some((&leader, &sockets));
    let result = run_engine(config, engine, listeners, outbound, context, leading);
    let loss = match &result {
        // Signals end the process, whatever happens meanwhile.
        Ok(()) | Err(ServeError::Interrupted | ServeError::WriterTimeout) => None,
        Err(ServeError::NoLongerLeading(reason)) => Some(reason.clone()),
        Err(_) => leader.loss(),
    };
    // The writer may be waiting for etcd on this runtime, which lives as long as the process.
    let runtime = std::mem::ManuallyDrop::new(runtime);
    let Some(reason) = loss else {
        // Has an effect only after an error.
        runtime.block_on(leader.release());
        return result;
    };
    Err(restart::restart_process(&reason, log, &sockets))
}

/// Opens the engine and serves until a signal stops the server. `leading`: leadership of a cluster,
/// and the sockets that stay open when it ends.
fn run_engine(
    config: ServerConfig,
    engine: engine::EngineConfig,
    listeners: Listeners,
    outbound: Outbound,
    (runtime, signals, hangups, last_progress): (&Runtime, StopSignals, HangupCount, LastActivity),
    leading: Option<(&Leader, &KeptSockets)>,
) -> Result<(), ServeError> {
    let leader = leading.map(|(leader, _)| leader);
    let opened = match leader {
        Some(leader) => engine::open_as_leader(engine, leader.leadership(runtime)),
        None => engine::open(engine),
    };
    let (handle, writer) = opened.map_err(ServeError::Store)?;
    if let Some(leader) = leader {
        handle.set_answer_condition(leader.answer_condition());
    }
    warn_if_directory_accessible(&config.data_directory);
    let writer_exit = start_writer(writer).map_err(ServeError::System)?;
    runtime.block_on(serve(
        config,
        (listeners, hangups, signals),
        (handle, last_progress),
        outbound,
        writer_exit,
        leading,
    ))
}

async fn serve(
    mut config: ServerConfig,
    (listeners, hangups, mut signals): (Listeners, HangupCount, StopSignals),
    (handle, last_progress): (Handle, LastActivity),
    outbound: Outbound,
    mut writer_exit: oneshot::Receiver<WriterExit>,
    leading: Option<(&Leader, &KeptSockets)>,
) -> Result<(), ServeError> {
    let leader = leading.map(|(leader, _)| leader);
    let admin = match leader {
        Some(leader) => Arc::clone(&leader.admin),
        None => {
            let bound = admin::AdminSocket::bind(&config.data_directory);
            Arc::new(bound.map_err(ServeError::Admin)?)
        }
    };
    create_first_project(&config, &listeners, &handle).await?;
    warn_if_proxy_is_spoofable(&config);
    let files = reload::ReloadableFiles {
        certificates: listeners.certificates(),
        declared: config.declared.clone(),
        pages: config
            .dashboard
            .is_enabled
            .then(|| listeners.base_url.as_str().to_owned()),
    };
    if let Some(declared) = &files.declared {
        config_files::apply_declared(&handle, declared, files.pages.as_deref()).await;
    }
    acme::start_if_configured(&config, listeners.http_certificate(), &outbound, &handle);
    offer_setup_link(&config, &listeners, &handle).await;
    let backups = config
        .backups
        .clone()
        .map(|schedule| BackupScheduler::start(handle.clone(), schedule, config.outbound.clone()));
    let backups = backups.transpose().map_err(ServeError::System)?;
    config.dashboard.backups = backups.as_ref().map(BackupScheduler::control);
    config.dashboard.outbound = Some(outbound.clone());
    log_start(&listeners, &handle);
    let (stop, stopped) = watch::channel(false);
    let threads = ServerThreads::start(&config, &handle).map_err(ServeError::System)?;
    let blocking = Arc::clone(&threads.blocking);
    let last_round = LastActivity::default();
    let notifier_config =
        configure_notifier(&config, &listeners.base_url, &handle, outbound, &last_round);
    last_round.record(Clock::System.uptime());
    let (stop_notifier, notifier_stopped) = watch::channel(false);
    let mut notifier = notifier::start(handle.clone(), notifier_config, notifier_stopped)
        .map_err(ServeError::System)?;
    let data_directory = config.data_directory.clone();
    let mut listeners = listeners.serve(admin, &handle, &config, threads, (&stopped, leader));
    let peers = leader.map(|leader| leader.start(&handle, &data_directory, &stopped));
    notify_supervisor(NotifyState::Ready);
    files.start_reloading(handle.clone(), blocking, hangups);
    watchdog::start(handle.clone(), last_progress, last_round);

    let failure = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "stopping");
            None
        }
        exit = &mut writer_exit => Some(match exit {
            Ok(WriterExit::Unable) => ServeError::NoLongerLeading(
                "it cannot write to its log or to its database".into(),
            ),
            _ => ServeError::WriterPanicked,
        }),
        reason = cluster::wait_until_replaced(leader) => Some(ServeError::NoLongerLeading(reason)),
        to = cluster::wait_for_hand_over(leader) => {
            tracing::info!("handing over to another machine");
            stop_notifier.send_replace(true);
            let serving = (listeners, stop, notifier);
            shutdown::hand_over(serving, (handle, writer_exit), leader, to).await;
            let reason = "it has handed over, as requested".into();
            return Err(ServeError::NoLongerLeading(reason));
        }
        _ = listeners.join_next() => Some(ServeError::ListenerPanicked),
        _ = &mut notifier => Some(ServeError::NotifierPanicked),
    };
    if matches!(failure, Some(ServeError::NoLongerLeading(_))) {
        // Another machine may lead: nothing more is answered.
        return failure.map_or(Ok(()), Err);
    }
    notify_supervisor(NotifyState::Stopping);
    if let Some((_, sockets)) = leading {
        sockets.close();
    }
    stop.send_replace(true);
    stop_notifier.send_replace(true);
    // A notifier that panicked is not waited for.
    let notifier = (!matches!(failure, Some(ServeError::NotifierPanicked))).then_some(notifier);
    let stopping = async {
        stop_listeners(listeners, notifier).await;
        if let Some(error) = failure {
            return Err(error);
        }
        drop(peers);
        stop_writer_and_release(&handle, writer_exit, leader).await
    };
    tokio::select! {
        stopped = stopping => stopped,
        _ = signals.next() => Err(ServeError::Interrupted),
    }
}

/// Creates the first project of a new database and prints instructions for it.
async fn create_first_project(
    config: &ServerConfig,
    listeners: &Listeners,
    handle: &Handle,
) -> Result<(), ServeError> {
    if handle.is_new() {
        let prepared = first_start::create_default_project(
            handle,
            &listeners.base_url,
            &config.program,
            &config.data_directory,
        )
        .await;
        // If it is not read, `overdue key list` still shows the ping key.
        print_to_stderr(&prepared.map_err(ServeError::FirstStart)?);
    } else if handle.with_state(|state| state.projects().next().is_none()) {
        tracing::warn!(
            "the database has no project: create one with `overdue project create NAME`"
        );
    }
    Ok(())
}

fn warn_if_proxy_is_spoofable(config: &ServerConfig) {
    let proxy_auth = config.dashboard.proxy_auth.as_ref();
    if proxy_auth.is_some_and(|proxy_auth| proxy_auth.is_spoofable(&config.trusted_proxies)) {
        tracing::warn!(
            "any machine in the ranges of --trusted-proxy can sign in as any user: give only the \
             proxy's own address, or give --auth-header-secret-file"
        );
    }
}

/// Prints a link for the first owner while there is no user who may sign in.
async fn offer_setup_link(config: &ServerConfig, listeners: &Listeners, handle: &Handle) {
    if config.dashboard.uses_passwords()
        && handle.with_state(|state| state.users.is_empty())
        && let Some(lines) = first_start::create_setup_link(
            handle,
            &remote_access(listeners, config),
            &config.program,
            &config.data_directory,
        )
        .await
    {
        // If it is not read, `overdue user link` prints another one.
        print_to_stderr(&lines);
    }
}

fn configure_notifier(
    config: &ServerConfig,
    base_url: &BaseUrl,
    handle: &Handle,
    outbound: Outbound,
    last_round: &LastActivity,
) -> notifier::NotifierConfig {
    let public_url = config.base_url.as_ref();
    notifier::NotifierConfig {
        outbound,
        zone: config.zone.clone().unwrap_or_else(machine_timezone),
        host: base_url.host().into(),
        heartbeat: config.heartbeat.clone(),
        last_round: Arc::clone(&last_round.0),
        render_check: http::check_renderer(base_url.clone(), handle.clone()),
        pages_url: public_url
            .filter(|_| config.dashboard.is_enabled)
            .map(|base_url| base_url.as_str().to_owned()),
        unsubscribe_links: public_url
            .map(|base_url| http::unsubscribe_links(base_url.clone(), handle.clone())),
    }
}

/// Returns the access to the dashboard from another device.
fn remote_access<'a>(listeners: &'a Listeners, config: &ServerConfig) -> RemoteAccess<'a> {
    RemoteAccess {
        base_url: &listeners.base_url,
        is_configured: config.base_url.is_some(),
        reachable_address: listeners.reachable_address(),
        has_passed_sockets: listeners.has_passed_sockets,
    }
}

/// Prints text that does not belong in a log to standard error.
fn print_to_stderr(lines: &str) {
    // If it cannot be written, a command shows it again.
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Logs the release, the addresses, and the numbers of projects, checks and channels.
fn log_start(listeners: &Listeners, handle: &Handle) {
    handle.with_state(|state| {
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            schema = store::SCHEMA,
            listen = listeners.addresses(),
            base_url = listeners.base_url.as_str(),
            projects = state.projects().count(),
            checks = state
                .projects()
                .map(|project| project.checks.len())
                .sum::<usize>(),
            channels = state
                .projects()
                .map(|project| project.channels.len())
                .sum::<usize>(),
            "starting"
        );
    });
}

/// Starts the writer on a thread of its own. The receiver gets its result.
fn start_writer(writer: Writer) -> io::Result<oneshot::Receiver<WriterExit>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new()
        .name("writer".into())
        .spawn(move || {
            // The receiver is gone only when the process is about to end.
            let _ = sender.send(writer.run());
        })?;
    Ok(receiver)
}

/// Warns if other users can access the data directory. The permissions of an existing directory are
/// not changed.
fn warn_if_directory_accessible(directory: &Path) {
    let is_accessible = std::fs::metadata(directory)
        .is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if is_accessible {
        tracing::warn!(
            "other users can access the data directory {}: run chmod 700 on it",
            directory.display()
        );
    }
}

/// Notifies a supervisor such as systemd, if there is one.
fn notify_supervisor(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the supervisor: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_panicked_ends_the_server() {
        let directory = tempfile::tempdir().unwrap();
        let config = ServerConfig {
            data_directory: directory.path().into(),
            program: "overdue".into(),
            listen: vec![([127, 0, 0, 1], 0).into()],
            certificate: None,
            base_url: None,
            site_name: "overdue".into(),
            trusted_proxies: Vec::new(),
            api_rate: ApiRate::UNLIMITED,
            dashboard: dashboard::DashboardConfig {
                is_enabled: false,
                ..dashboard::DashboardConfig::new(dashboard::AuthMode::Password)
            },
            connections_per_address: 1,
            ping_body_limit: 0,
            mail: None,
            outbound: OutboundConfig::default(),
            zone: None,
            heartbeat: None,
            backups: None,
            declared: None,
            cluster: None,
            uses_journal: true,
            holds_after_outage: true,
            log: LevelFilter::OFF,
            log_format: LogFormat::Text,
            access_log: false,
            metrics_listen: Vec::new(),
            metrics_token: None,
            instance_key: None,
            warnings: Vec::new(),
        };
        let (handle, writer) =
            engine::open(engine::EngineConfig::new(Medium::memory(), 0)).unwrap();
        let _running = start_writer(writer).unwrap();
        let (sender, writer_exit) = oneshot::channel();
        sender.send(WriterExit::Panicked).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listeners = runtime
            .block_on(Listeners::bind(&config, PassedSockets::default()))
            .unwrap();
        let hangups = signals::install_handlers(&runtime).unwrap();
        let signals = runtime.block_on(async { StopSignals::new().unwrap() });
        let outbound =
            Outbound::new(OutboundConfig::default(), &Clock::System, Random::System).unwrap();
        assert!(matches!(
            runtime.block_on(serve(
                config,
                (listeners, hangups, signals),
                (handle.clone(), LastActivity::default()),
                outbound,
                writer_exit,
                None
            )),
            Err(ServeError::WriterPanicked)
        ));
        handle.close();
    }
}

//! Metrics of the server, and their text for Prometheus. Counting is one addition and never waits.
//! Values that can be read from the state are read only when the metrics are requested.

mod backup_status;
mod cluster;
mod process;
mod text_format;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::domain::alert::DeliveryResult;
use crate::domain::ping::{PingKind, PingScheme};
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use crate::util::sync::{Mutex, lock};
pub use backup_status::BackupStatus;
pub use cluster::{ClusterMetrics, ClusterStatus, MemberStatus, NodeRole, NodeStatus};

/// Commit that this release was built from.
pub const COMMIT: &str = match option_env!("OVERDUE_COMMIT") {
    Some(commit) if !commit.is_empty() => commit,
    _ => "unknown",
};

/// Labels and their values.
type Labels<const N: usize> = [(&'static str, &'static str); N];

const PING_KINDS: [PingKind; 5] = [
    PingKind::Success,
    PingKind::Start,
    PingKind::Fail,
    PingKind::Log,
    PingKind::Ignored,
];
const PING_SCHEMES: [PingScheme; 3] = [PingScheme::Http, PingScheme::Https, PingScheme::Email];
const STATUSES: [Status; 4] = [Status::New, Status::Up, Status::Down, Status::Paused];

/// Upper bounds of the duration of a commit, in seconds: from a fast solid-state disk to a disk
/// that hangs.
const COMMIT_SECONDS_BUCKETS: [f64; 12] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
];
/// Upper bounds of the number of commands in a commit.
const BATCH_COMMANDS_BUCKETS: [f64; 11] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0, 4096.0,
];
/// Upper bounds of the seconds after which a deadline is noticed. A tick is 65 ms.
const LATENESS_SECONDS_BUCKETS: [f64; 10] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 3600.0, 86_400.0,
];

/// Reason for rejecting a ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingRejection {
    /// There is no such check or ping key, or pings may not create more checks.
    NotFound,
    /// Several checks have the slug.
    Ambiguous,
    /// The URL, its parameters or the request is invalid.
    Malformed,
    /// The HTTP method is not one that pings.
    Method,
    /// The body is too long.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// The memory for long bodies is used up.
    BodyBudgetExhausted,
    /// The queue is full, the database fails, or the server stops.
    Unavailable,
}

impl PingRejection {
    const ALL: [Self; 8] = [
        Self::NotFound,
        Self::Ambiguous,
        Self::Malformed,
        Self::Method,
        Self::TooLarge,
        Self::TooSlow,
        Self::BodyBudgetExhausted,
        Self::Unavailable,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Ambiguous => "ambiguous_slug",
            Self::Malformed => "malformed",
            Self::Method => "method",
            Self::TooLarge => "too_large",
            Self::TooSlow => "too_slow",
            Self::BodyBudgetExhausted => "no_room",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Protocol of a connection, as a label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionProtocol {
    /// HTTP, with or without TLS.
    Http,
    /// SMTP.
    Smtp,
}

impl ConnectionProtocol {
    const ALL: [Self; 2] = [Self::Http, Self::Smtp];

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Smtp => "smtp",
        }
    }
}

/// All metrics of the server.
pub struct Metrics {
    registry: Registry,
    pings: [[Counter; PING_SCHEMES.len()]; PING_KINDS.len()],
    pings_rejected: [Counter; PingRejection::ALL.len()],
    mail_rejected: Counter,
    flips: [Counter; STATUSES.len()],
    deliveries: Family<Labels<2>, Counter>,
    commit_seconds: Histogram,
    batch_commands: Histogram,
    lateness_seconds: Histogram,
    connections: [Gauge; ConnectionProtocol::ALL.len()],
    connections_rejected: [Counter; ConnectionProtocol::ALL.len()],
    logged_pings: AtomicU64,
    logged_bytes: AtomicU64,
    /// Microseconds; 0: no commit yet.
    last_commit: AtomicU64,
    /// `None`: automatic backups are off.
    backups: Mutex<Option<BackupStatus>>,
    /// Reason for which the server's own certificate is not renewed.
    certificate_failure: Mutex<Option<String>>,
    /// Metrics of the cluster; none if this server belongs to no cluster.
    cluster: OnceLock<Arc<ClusterMetrics>>,
    /// Result of the last `--apply`: 1: applied; 0: failed; negative: there are no files.
    apply_ok: AtomicI64,
    started: Timestamp,
}

/// Counts a connection as open until it is dropped.
pub struct ConnectionGaugeGuard(Gauge);

impl Drop for ConnectionGaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Values that are read when the metrics are requested.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetricsSnapshot {
    /// Version of the database schema.
    pub schema: u64,
    /// True if commands can be carried out.
    pub writable: bool,
    /// Commands that wait for the writer, and bytes of their texts.
    pub queue: (u64, u64),
    /// Deadlines that passed at least a minute ago and are not processed yet.
    pub late_deadlines: u64,
    /// Number of projects.
    pub projects: u64,
    /// Number of checks.
    pub checks: u64,
    /// Pings within the log limits of their checks.
    pub pings_within_limits: u64,
    /// Number of channels with each status, by the name of the status.
    pub channels: Vec<(&'static str, u64)>,
    /// Number of messages that wait to be sent.
    pub outbox: u64,
    /// Microseconds for which the oldest message has waited.
    pub oldest_message_micros: i64,
    /// Size of the database file in bytes. `None`: the file is being reopened.
    pub file_bytes: Option<u64>,
}

impl Metrics {
    /// Metrics of a server that was started at `started`, all zero.
    pub fn new(started: Timestamp) -> Self {
        let mut registry = Registry::with_prefix("overdue");
        let pings = register_counters(
            &mut registry,
            "pings",
            "Pings that were written to disk, by kind and protocol",
        );
        let rejected_pings = register_counters(
            &mut registry,
            "pings_refused",
            "Pings by HTTP that were rejected, by reason",
        );
        let flips = register_counters(
            &mut registry,
            "flips",
            "Status changes of checks, by new status",
        );
        let deliveries = register_counters(
            &mut registry,
            "deliveries",
            "Finished deliveries of alerts, by kind of channel and result",
        );
        let connections = Family::<Labels<1>, Gauge>::default();
        registry.register("connections", "Open connections", connections.clone());
        let rejected_connections = register_counters(
            &mut registry,
            "connections_refused",
            "Connections that were rejected because of a limit",
        );
        let rejected_mail = Counter::default();
        registry.register(
            "mail_refused",
            "Recipients, messages and commands that were refused in mail sessions",
            rejected_mail.clone(),
        );
        let mut histogram = |name, help, bounds: &[f64]| {
            let histogram = Histogram::new(bounds.iter().copied());
            registry.register(name, help, histogram.clone());
            histogram
        };
        Self {
            pings: PING_KINDS.map(|kind| {
                PING_SCHEMES.map(|scheme| {
                    counter(&pings, [("kind", kind.name()), ("scheme", scheme.name())])
                })
            }),
            pings_rejected: PingRejection::ALL
                .map(|reason| counter(&rejected_pings, [("reason", reason.name())])),
            mail_rejected: rejected_mail,
            flips: STATUSES.map(|status| counter(&flips, [("to", status.name())])),
            deliveries,
            commit_seconds: histogram(
                "commit_seconds",
                "Time to write a batch of commands to disk",
                &COMMIT_SECONDS_BUCKETS,
            ),
            batch_commands: histogram(
                "batch_commands",
                "Commands in a batch",
                &BATCH_COMMANDS_BUCKETS,
            ),
            lateness_seconds: histogram(
                "deadline_lateness_seconds",
                "Time from a missed deadline until it was noticed",
                &LATENESS_SECONDS_BUCKETS,
            ),
            connections: ConnectionProtocol::ALL
                .map(|protocol| connections.get_or_create_owned(&[("door", protocol.name())])),
            connections_rejected: ConnectionProtocol::ALL
                .map(|protocol| counter(&rejected_connections, [("door", protocol.name())])),
            logged_pings: AtomicU64::new(0),
            logged_bytes: AtomicU64::new(0),
            last_commit: AtomicU64::new(0),
            backups: Mutex::new(None),
            certificate_failure: Mutex::new(None),
            cluster: OnceLock::new(),
            apply_ok: AtomicI64::new(-1),
            started,
            registry,
        }
    }
}

fn register_counters<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
) -> Family<Labels<N>, Counter> {
    let family = Family::default();
    registry.register(name, help, Family::clone(&family));
    family
}

fn counter<const N: usize>(family: &Family<Labels<N>, Counter>, labels: Labels<N>) -> Counter {
    family.get_or_create_owned(&labels)
}

/// Returns the element of `values` at the position of `of` in `all`.
fn value_of<'a, K: PartialEq, V>(all: &[K], values: &'a [V], of: &K) -> Option<&'a V> {
    values.get(all.iter().position(|one| one == of)?)
}

impl Metrics {
    /// Counts pings that are on disk. A batch is added at once, because a counter that processors
    /// share is slow to change.
    pub fn record_pings(&self, pings: impl Iterator<Item = (PingKind, PingScheme)>) {
        let mut counts = [[0; PING_SCHEMES.len()]; PING_KINDS.len()];
        for (kind, scheme) in pings {
            let position = PING_KINDS
                .iter()
                .position(|one| *one == kind)
                .zip(PING_SCHEMES.iter().position(|one| *one == scheme));
            if let Some(count) =
                position.and_then(|(kind, scheme)| counts.get_mut(kind)?.get_mut(scheme))
            {
                *count += 1;
            }
        }
        for (counter, count) in self
            .pings
            .iter()
            .flatten()
            .zip(counts.into_iter().flatten())
            .filter(|(_, count)| *count > 0)
        {
            counter.inc_by(count);
        }
    }

    /// Number of pings written to disk since the start.
    pub fn ping_count(&self) -> u64 {
        self.pings.iter().flatten().map(Counter::get).sum()
    }

    /// Counts a rejected ping by HTTP.
    pub fn record_rejected_ping(&self, reason: PingRejection) {
        value_of(&PingRejection::ALL, &self.pings_rejected, &reason).map(Counter::inc);
    }

    /// Counts a recipient, message or command that was refused in a mail session.
    pub fn record_rejected_mail(&self) {
        self.mail_rejected.inc();
    }

    /// Counts a change of a check to the status `to`. `late`: microseconds from the deadline until
    /// it was noticed.
    pub fn record_flip(&self, to: Status, late: Option<i64>) {
        value_of(&STATUSES, &self.flips, &to).map(Counter::inc);
        if let Some(micros) = late {
            self.lateness_seconds
                .observe(micros_to_seconds(micros.max(0)));
        }
    }

    /// Counts a delivery result of a channel of this kind.
    pub fn record_delivery(&self, kind: &'static str, outcome: DeliveryResult) {
        self.deliveries
            .get_or_create(&[("kind", kind), ("outcome", outcome.name())])
            .inc();
    }

    /// Counts a commit: its number of commands and its duration.
    pub fn record_commit(&self, commands: usize, took: Duration) {
        self.batch_commands.observe(commands as f64);
        self.commit_seconds.observe(took.as_secs_f64());
        self.last_commit.store(
            u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1),
            Relaxed,
        );
    }

    /// Duration of the last commit. `None`: no commit yet.
    pub fn last_commit(&self) -> Option<Duration> {
        Some(self.last_commit.load(Relaxed))
            .filter(|micros| *micros > 0)
            .map(Duration::from_micros)
    }

    /// Counts a connection as open until the returned value is dropped.
    pub fn record_connection(&self, protocol: ConnectionProtocol) -> Option<ConnectionGaugeGuard> {
        let gauge = value_of(&ConnectionProtocol::ALL, &self.connections, &protocol)?;
        gauge.inc();
        Some(ConnectionGaugeGuard(gauge.clone()))
    }

    /// Counts a connection that was rejected because of a limit.
    pub fn record_rejected_connection(&self, protocol: ConnectionProtocol) {
        value_of(
            &ConnectionProtocol::ALL,
            &self.connections_rejected,
            &protocol,
        )
        .map(Counter::inc);
    }

    /// Sets the number of pings in the database file, and the bytes of their long bodies.
    pub fn set_stored_pings(&self, pings: u64, bytes: u64) {
        self.logged_pings.store(pings, Relaxed);
        self.logged_bytes.store(bytes, Relaxed);
    }

    /// Records the reason for which the server's own certificate is not renewed, or that it is.
    pub fn set_certificate_failure(&self, reason: Option<String>) {
        *lock(&self.certificate_failure) = reason;
    }

    /// Reason for which the server's own certificate is not renewed.
    pub fn certificate_failure(&self) -> Option<String> {
        lock(&self.certificate_failure).clone()
    }

    /// Records that automatic backups are on, and the start time of the newest backup found.
    pub fn enable_backups(&self, newest: Option<Timestamp>) {
        self.update_backup_status(|status| status.newest = newest);
    }

    /// Records a backup that was started at `at`.
    pub fn record_backup(&self, at: Timestamp) {
        self.update_backup_status(|status| status.record_backup(at));
    }

    /// Records the time at which the next backup is due.
    pub fn plan_backup(&self, next: Timestamp) {
        self.update_backup_status(|status| status.next = Some(next));
    }

    /// Records that a backup is being made since `at`.
    pub fn record_backup_start(&self, at: Timestamp) {
        self.update_backup_status(|status| status.running = Some(at));
    }

    /// Records a failed backup and the reason.
    pub fn record_backup_failure(&self, at: Timestamp, reason: String) {
        self.update_backup_status(|status| status.record_failure(at, reason));
    }

    /// Status of automatic backups. `None`: automatic backups are off.
    pub fn backup_status(&self) -> Option<BackupStatus> {
        lock(&self.backups).clone()
    }

    fn update_backup_status(&self, change: impl FnOnce(&mut BackupStatus)) {
        change(lock(&self.backups).get_or_insert_default());
    }

    /// Adds the metrics of the cluster that this machine leads.
    pub fn set_cluster(&self, cluster: Arc<ClusterMetrics>) {
        // It is set once, before the server answers.
        let _ = self.cluster.set(cluster);
    }

    /// Metrics of the cluster. `None`: this server belongs to no cluster.
    pub fn cluster(&self) -> Option<&Arc<ClusterMetrics>> {
        self.cluster.get()
    }

    /// Records if the configuration files of `--apply` were applied.
    pub fn record_apply(&self, ok: bool) {
        self.apply_ok.store(ok.into(), Relaxed);
    }

    /// Renders all metrics in the text format that every version of Prometheus reads.
    pub fn render(&self, snapshot: &MetricsSnapshot) -> String {
        let mut out = String::new();
        let mut snapshot_registry = Registry::with_prefix("overdue");
        self.register_snapshot(snapshot, &mut snapshot_registry);
        let mut process = Registry::with_prefix("process");
        process::register_process_metrics(micros_to_seconds(self.started.micros()), &mut process);
        if let Some(cluster) = self.cluster() {
            cluster.register(&mut snapshot_registry);
        }
        for registry in [&self.registry, &snapshot_registry, &process] {
            // Writing to a string does not fail.
            let _ = encode_registry(&mut out, registry);
        }
        text_format::to_text_format(&out)
    }

    fn register_snapshot(&self, snapshot: &MetricsSnapshot, registry: &mut Registry) {
        let build = [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("commit", COMMIT.to_owned()),
            ("schema", snapshot.schema.to_string()),
        ];
        registry.register("build", "Build information of the server", Info::new(build));
        let pings = self.logged_pings.load(Relaxed);
        let excess_pings = pings.saturating_sub(snapshot.pings_within_limits);
        // Pings beyond a log limit have no length of their own: they are part of a log that is
        // pruned at its end.
        let excess_bytes = (self.logged_bytes.load(Relaxed) as f64 * excess_pings as f64
            / pings.max(1) as f64) as u64;
        for (name, help, value) in [
            (
                "writable",
                "1 if the server accepts pings, otherwise 0",
                u64::from(snapshot.writable),
            ),
            (
                "queue_commands",
                "Commands waiting for the writer",
                snapshot.queue.0,
            ),
            (
                "queue_bytes",
                "Bytes of texts and bodies waiting for the writer",
                snapshot.queue.1,
            ),
            (
                "deadlines_late",
                "Deadlines that passed at least a minute ago and are not processed yet",
                snapshot.late_deadlines,
            ),
            ("projects", "Projects", snapshot.projects),
            ("checks", "Checks", snapshot.checks),
            ("outbox_rows", "Alerts waiting to be sent", snapshot.outbox),
            ("database_pings", "Pings in the database file", pings),
            (
                "database_dead_pings",
                "Pings in the database file beyond the log limits of their checks",
                excess_pings,
            ),
            (
                "database_dead_bytes",
                "Bytes of the bodies of pings beyond the log limits, estimated from the mean of \
                 all bodies",
                excess_bytes,
            ),
        ] {
            register_gauge(registry, name, help, value);
        }
        let file = snapshot
            .file_bytes
            .map(|bytes| ("database_file_bytes", "Size of the database file", bytes));
        file.into_iter()
            .for_each(|(name, help, value)| register_gauge(registry, name, help, value));
        if let Ok(ok) = u64::try_from(self.apply_ok.load(Relaxed)) {
            register_gauge(
                registry,
                "apply_ok",
                "1 if the files of --apply were applied when they were last read, otherwise 0",
                ok,
            );
        }
        let oldest = ConstGauge::new(micros_to_seconds(snapshot.oldest_message_micros.max(0)));
        registry.register(
            "outbox_oldest_seconds",
            "Time that the oldest alert has been waiting",
            oldest,
        );
        let channels = Family::<Labels<1>, Gauge>::default();
        for (status, count) in &snapshot.channels {
            channels
                .get_or_create(&[("status", *status)])
                .set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        registry.register("channels", "Channels, by status", channels);
        if let Some(newest) = self.backup_status().and_then(|status| status.newest) {
            let help = "Start time of the newest backup made by the server";
            registry.register(
                "backup_newest_timestamp_seconds",
                help,
                ConstGauge::new(micros_to_seconds(newest.micros())),
            );
        }
    }
}

fn register_gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    registry.register(name, help, ConstGauge::new(value));
}

fn micros_to_seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

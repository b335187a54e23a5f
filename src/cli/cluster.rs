//! `overdue cluster`, and the flags of a machine of a cluster.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::common_args::{JsonFlag, number_parser};
use super::serve::parse_address;
use super::settings_file::{SecretFileContent, read_secret};
use super::{CliError, new_runtime, table};
use crate::domain::formatting::format_size;
use crate::metrics::{ClusterStatus, MemberStatus, NodeRole, NodeStatus};
use crate::server::cluster::{
    self, ClusterAccess, ClusterConfig, ClusterOptions, EtcdTlsFiles, ExistingCluster,
    MIN_PATIENCE, PeerTlsFiles,
};
use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};

/// Default time for which connections are held, in seconds.
const DEFAULT_HOLD_SECS: u64 = 7;
/// Default time until another machine takes over, in seconds.
const DEFAULT_PATIENCE_SECS: u64 = 5;
/// Default number of machines that must have a record.
const DEFAULT_COPIES: u8 = 2;

/// Minimum of the quota of etcd, in bytes.
const MIN_QUOTA_BYTES: u64 = 16 << 20;

/// Access to the etcd of a cluster.
#[derive(Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct EtcdArgs {
    /// The cluster's log: the members of its etcd and the prefix of its keys, given as
    /// etcd://HOST:PORT,HOST:PORT,.../PREFIX
    #[arg(
        long,
        env = "OVERDUE_CLUSTER",
        value_name = "URL",
        hide_env_values = true
    )]
    cluster: Option<String>,

    /// PEM file with the CA certificates that verify etcd's certificate [default: the system's CA
    /// certificates]
    #[arg(long, env = "OVERDUE_CLUSTER_ETCD_CA", value_name = "FILE")]
    cluster_etcd_ca: Option<PathBuf>,

    /// PEM file with the client certificate for etcd
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_ETCD_CERT",
        value_name = "FILE",
        requires = "cluster_etcd_key"
    )]
    cluster_etcd_cert: Option<PathBuf>,

    /// PEM file with the private key of the client certificate
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_ETCD_KEY",
        value_name = "FILE",
        requires = "cluster_etcd_cert"
    )]
    cluster_etcd_key: Option<PathBuf>,

    /// Database size in bytes at which etcd refuses changes, its --quota-backend-bytes [default:
    /// the size that etcd reports, or 2 GiB]
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_ETCD_QUOTA",
        value_name = "BYTES",
        value_parser = number_parser::<u64>(MIN_QUOTA_BYTES..=u64::MAX),
        allow_negative_numbers = true
    )]
    cluster_etcd_quota: Option<u64>,
}

impl EtcdArgs {
    /// Returns the access to etcd; `None` without a URL.
    fn access(self) -> Result<Option<ClusterAccess>, String> {
        let Some(url) = self.cluster else {
            return Ok(None);
        };
        let files = EtcdTlsFiles {
            authorities: self.cluster_etcd_ca,
            identity: self.cluster_etcd_cert.zip(self.cluster_etcd_key),
        };
        ClusterAccess::new(&url, &files, self.cluster_etcd_quota)
            .map(Some)
            .map_err(|error| error.to_string())
    }

    /// Returns the access to etcd of a command that needs it.
    fn require(self) -> Result<ClusterAccess, CliError> {
        self.access().map_err(CliError::usage)?.ok_or_else(|| {
            CliError::usage(
                "this command needs the etcd of the cluster: give --cluster with its URL, or set \
                 OVERDUE_CLUSTER",
            )
        })
    }
}

/// Flags of a machine of a cluster.
#[derive(Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterFlags {
    #[command(flatten)]
    etcd: EtcdArgs,

    /// Name of this machine in the cluster [default: the host name]
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_NODE",
        value_name = "NAME",
        requires = "cluster"
    )]
    cluster_node: Option<String>,

    /// Address and port to listen on for the other machines of the cluster
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_LISTEN",
        value_name = "ADDR:PORT",
        value_parser = parse_address,
        requires = "cluster"
    )]
    cluster_listen: Option<SocketAddr>,

    /// Address and port at which the other machines reach this one [default: --cluster-listen]
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_ADDRESS",
        value_name = "HOST:PORT",
        requires = "cluster"
    )]
    cluster_address: Option<String>,

    /// File with the shared secret of the cluster: at least 16 bytes, the same on every machine
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_SECRET_FILE",
        value_name = "FILE",
        value_parser = read_secret,
        requires = "cluster"
    )]
    cluster_secret_file: Option<SecretFileContent>,

    /// PEM file with the authorities that issued the certificates of all machines, for encrypted
    /// connections between them
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_CA",
        value_name = "FILE",
        requires = "cluster_cert"
    )]
    cluster_ca: Option<PathBuf>,

    /// PEM file with the certificate that this machine shows to the others
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_CERT",
        value_name = "FILE",
        requires = "cluster_key"
    )]
    cluster_cert: Option<PathBuf>,

    /// PEM file with the private key of that certificate
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_KEY",
        value_name = "FILE",
        requires = "cluster_ca"
    )]
    cluster_key: Option<PathBuf>,

    /// Seconds that connections wait for a leader before they get an error
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_HOLD",
        value_name = "SECONDS",
        default_value_t = DEFAULT_HOLD_SECS,
        value_parser = number_parser::<u64>(1..=60),
        allow_negative_numbers = true
    )]
    cluster_hold: u64,

    /// Seconds without a sign of the leader after which another machine takes over. The value of
    /// the leader applies to all machines
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_PATIENCE",
        value_name = "SECONDS",
        default_value_t = DEFAULT_PATIENCE_SECS,
        value_parser = number_parser::<u64>(MIN_PATIENCE.as_secs()..=60),
        allow_negative_numbers = true
    )]
    cluster_patience: u64,

    /// Number of machines that must have a change on their disks before it is removed from etcd
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_COPIES",
        value_name = "N",
        default_value_t = DEFAULT_COPIES,
        value_parser = number_parser::<u8>(1..=9),
        allow_negative_numbers = true
    )]
    cluster_copies: u8,

    /// Answer reads of the API and the dashboard from this machine's own database once no machine
    /// has led for the time of --cluster-hold. The header Overdue-As-Of says how old the answer is
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_STALE_READS",
        value_parser = FalseyValueParser::new(),
        requires = "cluster"
    )]
    cluster_stale_reads: bool,
}

impl ClusterFlags {
    /// Returns the configuration of the machine; `None` if it belongs to no cluster.
    pub(super) fn config(self) -> Result<Option<ClusterConfig>, String> {
        let Some(access) = self.etcd.access()? else {
            return Ok(None);
        };
        let listen = self.cluster_listen.ok_or(
            "a machine of a cluster needs a port for the other machines: give --cluster-listen \
             with an address of this machine that they reach",
        )?;
        let secret = self
            .cluster_secret_file
            .ok_or("a machine of a cluster needs the common secret: give --cluster-secret-file")?;
        let files = self.cluster_ca.zip(self.cluster_cert.zip(self.cluster_key));
        let tls = files.map(|(authorities, identity)| PeerTlsFiles {
            authorities,
            identity,
        });
        ClusterConfig::new(
            access,
            self.cluster_node,
            listen,
            self.cluster_address,
            &secret.0,
            tls.as_ref(),
            ClusterOptions {
                hold_time: Duration::from_secs(self.cluster_hold),
                patience: Duration::from_secs(self.cluster_patience),
                copies: self.cluster_copies.into(),
                answers_stale_reads: self.cluster_stale_reads,
            },
        )
        .map(Some)
        .map_err(|error| error.to_string())
    }
}

#[derive(Subcommand)]
pub(super) enum ClusterCommand {
    /// Create a cluster from the database of this machine. The server must be stopped
    Init {
        #[command(flatten)]
        access: EtcdArgs,
        /// Do nothing if there is a cluster already, as on a machine that joins it
        #[arg(long, env = "OVERDUE_IF_NEEDED", value_parser = FalseyValueParser::new())]
        if_needed: bool,
    },
    /// Show the machines of the cluster and the members of its etcd
    Status {
        #[command(flatten)]
        access: EtcdArgs,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Make another machine lead, such as before work on the one that leads
    HandOver {
        /// Machine that shall lead [default: one that has all changes]
        #[arg(long, env = "OVERDUE_TO", value_name = "NAME")]
        to: Option<String>,
        #[command(flatten)]
        access: EtcdArgs,
    },
    /// Remove the database of this machine from its cluster, so that a single server can use it.
    /// The server must be stopped
    Leave,
    /// Remove a retired machine from the list of machines
    Forget {
        /// Name of the machine
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        access: EtcdArgs,
    },
}

impl ClusterCommand {
    /// Runs the command. `data`: returns the data directory.
    pub(super) fn run(
        self,
        data: impl FnOnce() -> Result<PathBuf, CliError>,
    ) -> Result<(), CliError> {
        match self {
            Self::Init { access, if_needed } => {
                let existing = if if_needed {
                    ExistingCluster::Keep
                } else {
                    ExistingCluster::Refuse
                };
                create_cluster(&access.require()?, &data()?, existing)
            }
            Self::Status { access, json } => {
                let access = access.require()?;
                let status = new_runtime()?
                    .block_on(cluster::read_status(&access))
                    .map_err(CliError::other)?;
                print_status(&status, json.json)
            }
            Self::HandOver { to, access } => {
                let access = access.require()?;
                let leader = new_runtime()?
                    .block_on(cluster::hand_over(&access, to.as_deref()))
                    .map_err(CliError::other)?;
                writeln!(io::stdout(), "{leader} leads").map_err(CliError::output_failed)
            }
            Self::Leave => {
                let data = data()?;
                let _owner = super::data_directory::assume_owner(&data)?;
                cluster::leave_cluster(&data).map_err(CliError::other)
            }
            Self::Forget { name, access } => new_runtime()?
                .block_on(cluster::forget_node(&access.require()?, &name))
                .map_err(CliError::other),
        }
    }
}

fn create_cluster(
    access: &ClusterAccess,
    data: &Path,
    existing: ExistingCluster,
) -> Result<(), CliError> {
    let _owner = super::data_directory::assume_owner(data)?;
    let is_created = new_runtime()?
        .block_on(cluster::create_cluster(access, data, existing))
        .map_err(CliError::other)?;
    if !is_created {
        return writeln!(io::stdout(), "there is a cluster already: nothing was done")
            .map_err(CliError::output_failed);
    }
    writeln!(
        io::stdout(),
        "created the cluster from the database in {}; start this machine with --cluster, then the \
         others with empty data directories",
        data.display()
    )
    .map_err(CliError::output_failed)
}

/// Prints the status: as JSON, or as lines and a table of the machines.
fn print_status(status: &ClusterStatus, json: bool) -> Result<(), CliError> {
    let lines = if json {
        vec![table::to_json(status).map_err(CliError::output_failed)?]
    } else {
        let mut lines = vec![summary(status)];
        lines.extend(status.members.iter().flat_map(problems));
        let headings = [
            "NODE", "ROLE", "PLACE", "BEHIND", "SYNCED", "CLOCK", "RELEASE", "ADDRESS",
        ];
        lines.extend(table::format_table(
            &headings,
            status.nodes.iter().map(cells),
        ));
        lines
    };
    table::print_lines(&lines).map_err(CliError::output_failed)
}

/// Summary of a cluster in one line.
fn summary(status: &ClusterStatus) -> String {
    format!(
        "cluster {}, format {}, epoch {}, place {} (trimmed {}, {} in the log), copies: {}, \
         failovers: {}, etcd {}/{} healthy, database {}",
        status.id,
        status.format,
        status.epoch,
        status.place,
        status.trimmed,
        format_size(status.log_bytes),
        status.copies,
        status.failovers,
        status.healthy_members(),
        status.members.len(),
        format_size(status.etcd_bytes())
    )
}

/// Problems of a member of etcd, one in a line.
fn problems(member: &MemberStatus) -> impl Iterator<Item = String> {
    let lines = member.problems.iter();
    lines.map(|problem| table::sanitize(&format!("etcd {}: {problem}", member.address)))
}

/// Cells of a machine.
fn cells(node: &NodeStatus) -> [String; 8] {
    let leads = node.role == NodeRole::Leader;
    let unless_leader = |text: String| if leads { "-".into() } else { text };
    [
        node.name.clone(),
        node.role.name().to_owned(),
        node.place.to_string(),
        unless_leader(format!("{:.1} s", node.behind_secs)),
        node.synced.to_string(),
        unless_leader(format!("{:+.1} s", node.clock_ahead_secs)),
        node.release.clone(),
        node.address.clone(),
    ]
}

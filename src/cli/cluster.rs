//! `overdue cluster`, and the flags of a machine of a cluster.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::common_args::JsonFlag;
use super::dashboard_flags::{SecretFileContent, read_secret};
use super::serve::parse_address;
use super::{CliError, new_runtime, table};
use crate::server::cluster::{
    self, ClusterAccess, ClusterConfig, ClusterStatus, ClusterTlsFiles, NodeStatus,
};
use clap::{Args, Subcommand};

/// Access to etcd.
#[derive(Args)]
pub(super) struct EtcdArgs {
    /// PEM file with the CA certificates that verify etcd's certificate [default: the system's CA
    /// certificates]
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_CA_FILE",
        value_name = "FILE",
        help_heading = "Cluster"
    )]
    cluster_ca_file: Option<PathBuf>,

    /// PEM file with the client certificate for etcd
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_CERT",
        value_name = "FILE",
        requires = "cluster_key",
        help_heading = "Cluster"
    )]
    cluster_cert: Option<PathBuf>,

    /// PEM file with the private key of the client certificate
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_KEY",
        value_name = "FILE",
        requires = "cluster_cert",
        help_heading = "Cluster"
    )]
    cluster_key: Option<PathBuf>,
}

impl EtcdArgs {
    fn access(self, url: &str) -> Result<ClusterAccess, String> {
        let files = ClusterTlsFiles {
            authorities: self.cluster_ca_file,
            identity: self.cluster_cert.zip(self.cluster_key),
        };
        ClusterAccess::new(url, &files).map_err(|error| error.to_string())
    }
}

/// Flags of a machine of a cluster.
#[derive(Args)]
pub(super) struct ClusterFlags {
    /// Join the cluster whose log is in this etcd, given as etcd://HOST:PORT,HOST:PORT,.../PREFIX
    /// with its members and the prefix of the cluster's keys
    #[arg(
        long,
        env = "OVERDUE_CLUSTER",
        value_name = "URL",
        hide_env_values = true,
        requires_all = ["cluster_listen", "cluster_secret_file"],
        help_heading = "Cluster"
    )]
    cluster: Option<String>,

    /// Name of this machine in the cluster [default: the host name]
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_NODE",
        value_name = "NAME",
        requires = "cluster",
        help_heading = "Cluster"
    )]
    cluster_node: Option<String>,

    /// Address and port to listen on for the other machines of the cluster
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_LISTEN",
        value_name = "ADDR:PORT",
        value_parser = parse_address,
        requires = "cluster",
        help_heading = "Cluster"
    )]
    cluster_listen: Option<SocketAddr>,

    /// Address and port at which the other machines reach this one [default: --cluster-listen]
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_ADDRESS",
        value_name = "HOST:PORT",
        requires = "cluster",
        help_heading = "Cluster"
    )]
    cluster_address: Option<String>,

    /// File with the shared secret of the cluster: at least 16 bytes, the same on every machine
    #[arg(
        long,
        env = "OVERDUE_CLUSTER_SECRET_FILE",
        value_name = "FILE",
        value_parser = read_secret,
        requires = "cluster",
        help_heading = "Cluster"
    )]
    cluster_secret_file: Option<SecretFileContent>,

    #[command(flatten)]
    etcd: EtcdArgs,
}

impl ClusterFlags {
    /// Returns the configuration of the machine; `None` if it belongs to no cluster.
    pub(super) fn config(self) -> Result<Option<ClusterConfig>, String> {
        // clap requires all of them together.
        let (Some(url), Some(listen), Some(secret)) =
            (self.cluster, self.cluster_listen, self.cluster_secret_file)
        else {
            return Ok(None);
        };
        let access = self.etcd.access(&url)?;
        ClusterConfig::new(
            access,
            self.cluster_node,
            listen,
            self.cluster_address,
            &secret.0,
        )
        .map(Some)
        .map_err(|error| error.to_string())
    }
}

#[derive(Args)]
pub(super) struct AccessArgs {
    /// Members of etcd and the prefix of the cluster's keys, as
    /// etcd://HOST:PORT,HOST:PORT,.../PREFIX
    #[arg(
        long,
        env = "OVERDUE_CLUSTER",
        value_name = "URL",
        hide_env_values = true
    )]
    cluster: String,

    #[command(flatten)]
    etcd: EtcdArgs,
}

impl AccessArgs {
    fn access(self) -> Result<ClusterAccess, CliError> {
        self.etcd.access(&self.cluster).map_err(CliError::usage)
    }
}

#[derive(Subcommand)]
pub(super) enum ClusterCommand {
    /// Create a cluster from the database of this machine. The server must be stopped
    Init(AccessArgs),
    /// Show the machines of the cluster and the members of its etcd
    Status {
        #[command(flatten)]
        access: AccessArgs,
        #[command(flatten)]
        json: JsonFlag,
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
        access: AccessArgs,
    },
}

impl ClusterCommand {
    /// Runs the command. `data`: returns the data directory.
    pub(super) fn run(
        self,
        data: impl FnOnce() -> Result<PathBuf, CliError>,
    ) -> Result<(), CliError> {
        match self {
            Self::Init(access) => create_cluster(&access.access()?, &data()?),
            Self::Status { access, json } => {
                let access = access.access()?;
                let status = new_runtime()?
                    .block_on(cluster::read_status(&access))
                    .map_err(CliError::other)?;
                print_status(&status, json.json)
            }
            Self::Leave => {
                let data = data()?;
                let _owner = super::data_directory::assume_owner(&data)?;
                cluster::leave_cluster(&data).map_err(CliError::other)
            }
            Self::Forget { name, access } => new_runtime()?
                .block_on(cluster::forget_node(&access.access()?, &name))
                .map_err(CliError::other),
        }
    }
}

fn create_cluster(access: &ClusterAccess, data: &Path) -> Result<(), CliError> {
    let _owner = super::data_directory::assume_owner(data)?;
    new_runtime()?
        .block_on(cluster::create_cluster(access, data))
        .map_err(CliError::other)?;
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
        let mut lines = vec![format!(
            "cluster {:x}, format {}, epoch {}, place {} (trimmed {})",
            status.id, status.format, status.epoch, status.place, status.trimmed
        )];
        for member in &status.members {
            lines.push(match &member.error {
                None => format!(
                    "etcd {}: release {}, {} MiB",
                    member.address,
                    member.release,
                    member.bytes >> 20
                ),
                Some(error) => table::sanitize(&format!("etcd {}: {error}", member.address)),
            });
        }
        let cells = |node: &NodeStatus| {
            [
                node.name.clone(),
                node.role.name().to_owned(),
                node.place.to_string(),
                node.synced.to_string(),
                format!("{} s ago", node.announced_secs_ago),
                node.release.clone(),
                node.address.clone(),
            ]
        };
        let headings = [
            "NODE", "ROLE", "PLACE", "SYNCED", "SEEN", "RELEASE", "ADDRESS",
        ];
        lines.extend(table::format_table(
            &headings,
            status.nodes.iter().map(cells),
        ));
        lines
    };
    table::print_lines(&lines).map_err(CliError::output_failed)
}

//! Starts etcd servers for tests.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::url::{EtcdConfigError, EtcdEndpoint};
use super::{Etcd, EtcdConfig, EtcdIdentity, EtcdTls, EtcdUser};
use crate::outbound::{Outbound, OutboundConfig};
use crate::server::cluster::key_values::KeyValueStore as _;
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Maximum time until a server answers.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of attempts to start a server. Another process may take the port that it was given.
const START_ATTEMPTS: usize = 3;

/// Server of one member, which is killed when it is dropped.
pub(crate) struct EtcdTestServer {
    /// Address for clients.
    pub(crate) endpoint: EtcdEndpoint,
    process: Child,
    directory: TempDir,
}

impl Drop for EtcdTestServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Options of a server.
#[derive(Default)]
pub(crate) struct EtcdTestOptions<'a> {
    /// Maximum size of the database in bytes. `None`: the default of etcd.
    pub(crate) quota_bytes: Option<u64>,
    /// PEM files of the certificate, its key, and the authority of the clients.
    pub(crate) tls: Option<[&'a Path; 3]>,
}

impl EtcdTestServer {
    /// Starts a server, and returns it with a client that it has answered. `client_tls`: TLS of the
    /// client. Returns `None` and prints a line if the program `etcd` is not installed.
    ///
    /// # Panics
    /// If it does not start, or if it is not installed and `OVERDUE_REQUIRE_ETCD` is set.
    pub(crate) async fn start(
        options: &EtcdTestOptions<'_>,
        client_tls: Option<EtcdTls>,
    ) -> Option<(Self, Etcd)> {
        for _ in 0..START_ATTEMPTS {
            let mut server = Self::launch(options)?;
            let endpoints = vec![server.endpoint.clone()];
            let etcd = test_client(endpoints, None, client_tls.clone()).unwrap();
            if server.answers(&etcd).await {
                return Some((server, etcd));
            }
            let log = std::fs::read_to_string(server.directory.path().join("log"));
            println!("etcd does not start: {}", log.unwrap_or_default());
        }
        panic!("etcd does not start; its log is above");
    }

    /// Waits until the server answers a client. False if it does not answer in time or exits.
    async fn answers(&mut self, etcd: &Etcd) -> bool {
        let answered = async {
            loop {
                if self.process.try_wait().unwrap().is_some() {
                    return false;
                }
                match etcd.get("ready").await {
                    Ok(_) => return true,
                    Err(error) => println!("waiting for etcd: {error}"),
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(START_TIMEOUT, answered).await.unwrap_or(false)
    }

    /// Starts the program.
    fn launch(options: &EtcdTestOptions<'_>) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let [client_port, peer_port] = free_ports();
        let scheme = if options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let client_url = format!("{scheme}://127.0.0.1:{client_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let mut command = Command::new("etcd");
        command
            .args([
                "--name",
                "member",
                "--logger",
                "zap",
                "--log-level",
                "error",
            ])
            .args(["--listen-client-urls", &client_url])
            .args(["--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url])
            .args(["--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("member={peer_url}")])
            .arg("--data-dir")
            .arg(directory.path().join("data"));
        if let Some(bytes) = options.quota_bytes {
            command.args(["--quota-backend-bytes", &bytes.to_string()]);
        }
        if let Some([certificate, key, authority]) = options.tls {
            command.arg("--cert-file").arg(certificate);
            command.arg("--key-file").arg(key);
            command.arg("--trusted-ca-file").arg(authority);
            command.arg("--client-cert-auth");
        }
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        match command.stderr(log).spawn() {
            Ok(process) => Some(Self {
                endpoint: local_endpoint(client_port),
                process,
                directory,
            }),
            Err(error) => {
                assert!(
                    std::env::var_os("OVERDUE_REQUIRE_ETCD").is_none(),
                    "cannot start etcd: {error}; install the package etcd-server"
                );
                println!("skipped: cannot start etcd: {error}");
                None
            }
        }
    }
}

/// Returns a client of these endpoints.
pub(crate) fn test_client(
    endpoints: Vec<EtcdEndpoint>,
    user: Option<EtcdUser>,
    tls: Option<EtcdTls>,
) -> Result<Etcd, EtcdConfigError> {
    let config = EtcdConfig {
        endpoints,
        user,
        tls,
        timeout: Duration::from_secs(5),
    };
    Etcd::new(config, &test_outbound())
}

/// Returns outgoing connections with the default configuration.
pub(crate) fn test_outbound() -> Outbound {
    Outbound::new(OutboundConfig::default(), &Clock::System, Random::System).unwrap()
}

/// Returns the endpoint of a port of this machine.
pub(crate) fn local_endpoint(port: u16) -> EtcdEndpoint {
    EtcdEndpoint {
        host: "127.0.0.1".into(),
        port,
    }
}

/// Returns ports at which nothing listens.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Authority with certificates that it signed, in PEM.
pub(crate) struct TestAuthority {
    pub(crate) issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn sign(&self) -> EtcdIdentity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        EtcdIdentity {
            chain: certificate.pem().into(),
            key: key.serialize_pem().into(),
        }
    }

    pub(crate) fn write(&self, name: &str, pem: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    }
}

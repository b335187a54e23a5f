//! Three machines with a real etcd: leaders are killed, paused and stopped while clients send
//! through all machines. Acknowledged pings are stored once, in order.
//!
//! The tests are skipped where the program `etcd` is missing, unless `OVERDUE_REQUIRE_ETCD` is set.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, run, signal};
use crate::sigkill::{body, number_in};
use crate::upgrade::activated;

const NODES: usize = 3;
const SENDERS: usize = 6;
/// Maximum time of a failover on a busy machine.
const MAX_FAILOVER: Duration = Duration::from_secs(60);

/// Ports that were free a moment ago.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let sockets: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

/// Server of etcd with one member. It is killed when it is dropped.
pub(crate) struct EtcdProcess {
    child: Child,
    pub(crate) url: String,
    /// Address for clients.
    pub(crate) address: SocketAddr,
}

impl EtcdProcess {
    /// Starts a server with its data below a directory; `None` if etcd is not installed.
    #[allow(clippy::print_stdout, reason = "shows that the test was skipped")]
    fn start(directory: PathBuf, quota_bytes: u64) -> Option<Self> {
        let [client, peer] = free_ports();
        let client_url = format!("http://127.0.0.1:{client}");
        let peer_url = format!("http://127.0.0.1:{peer}");
        let child = Command::new("etcd")
            .args(["--name", "one", "--logger", "zap", "--log-level", "error"])
            .arg("--data-dir")
            .arg(directory)
            .args(["--listen-client-urls", &client_url])
            .args(["--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url])
            .args(["--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("one={peer_url}")])
            .args(["--quota-backend-bytes", &quota_bytes.to_string()])
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Some(Self {
                child,
                url: format!("etcd://127.0.0.1:{client}/test"),
                address: ([127, 0, 0, 1], client).into(),
            }),
            Err(error) => {
                assert!(
                    std::env::var_os("OVERDUE_REQUIRE_ETCD").is_none(),
                    "etcd cannot be started: {error}"
                );
                println!("skipped: etcd is not installed");
                None
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three machines and their etcd.
pub(crate) struct Cluster {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) etcd: EtcdProcess,
    /// HTTP address and peer address of each machine.
    pub(crate) addresses: [[SocketAddr; 2]; NODES],
    pub(crate) nodes: [Option<ServerProcess>; NODES],
}

impl Cluster {
    /// Starts etcd and creates the cluster. No machine runs yet.
    pub(crate) fn create() -> Option<Self> {
        Self::create_with_quota(2 << 30)
    }

    /// Does so with an etcd that has this quota.
    pub(crate) fn create_with_quota(quota_bytes: u64) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let etcd = EtcdProcess::start(directory.path().join("etcd"), quota_bytes)?;
        let secret = directory.path().join("secret");
        std::fs::write(secret, "a secret of the test machines\n").unwrap();
        let ports: [u16; 2 * NODES] = free_ports();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let cluster = Self {
            directory,
            etcd,
            addresses: std::array::from_fn(|node| {
                [address(ports[2 * node]), address(ports[2 * node + 1])]
            }),
            nodes: [None, None, None],
        };
        cluster.found();
        Some(cluster)
    }

    /// Creates the cluster with the database of the first machine, once etcd works.
    fn found(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let done = run(overdue(&["cluster", "init", "--cluster", &self.etcd.url])
                .arg("--data")
                .arg(self.data(0)));
            if done.status == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "{}", done.err);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn data(&self, node: usize) -> PathBuf {
        self.directory.path().join(format!("node{node}"))
    }

    /// Flags of a machine, except for its HTTP address.
    pub(crate) fn flags(&self, node: usize) -> Vec<String> {
        let secret = self.directory.path().join("secret");
        [
            ["--api-rate", "0"],
            ["--cluster", &self.etcd.url],
            ["--cluster-node", &format!("node{node}")],
            ["--cluster-listen", &self.addresses[node][1].to_string()],
            ["--cluster-secret-file", secret.to_str().unwrap()],
        ]
        .as_flattened()
        .iter()
        .map(|word| (*word).to_owned())
        .collect()
    }

    /// Command that starts a machine.
    pub(crate) fn command(&self, node: usize) -> Command {
        let [http, _] = self.addresses[node];
        let mut command = overdue(&["serve", "--listen", &http.to_string()]);
        command
            .args(self.flags(node))
            .arg("--data")
            .arg(self.data(node));
        command
    }

    pub(crate) fn start(&mut self, node: usize) {
        let mut command = self.command(node);
        self.start_as(node, &mut command);
    }

    /// Starts a machine with this command.
    pub(crate) fn start_as(&mut self, node: usize, command: &mut Command) {
        let started = ServerProcess::spawn_until(command, "forwarding HTTP");
        self.nodes[node] = Some(started);
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        let done = run(&mut overdue(&[
            "cluster",
            "status",
            "--json",
            "--cluster",
            &self.etcd.url,
        ]));
        assert_eq!(done.status, 0, "{}", done.err);
        serde_json::from_str(&done.out).unwrap()
    }

    /// Waits until a machine other than `former` leads, and returns its number.
    pub(crate) fn wait_for_leader(&self, former: Option<usize>) -> usize {
        let deadline = Instant::now() + MAX_FAILOVER;
        loop {
            let status = self.status();
            let leader = status["nodes"].as_array().unwrap().iter().find_map(|node| {
                let name = node["name"].as_str().unwrap().strip_prefix("node");
                let number = name.unwrap().parse().unwrap();
                (node["role"] == "leader" && Some(number) != former).then_some(number)
            });
            if let Some(leader) = leader {
                return leader;
            }
            assert!(Instant::now() < deadline, "no machine leads: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until this number of machines have a database.
    fn wait_for_machines(&self, count: usize) {
        let deadline = Instant::now() + MAX_FAILOVER;
        let has_database = |node: &&serde_json::Value| node["place"].as_u64() > Some(0);
        loop {
            let status = self.status();
            let nodes = status["nodes"].as_array().unwrap().iter();
            if nodes.filter(has_database).count() >= count {
                return;
            }
            assert!(Instant::now() < deadline, "no machine joins: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until some more pings are acknowledged.
    fn wait_for_pings(&mut self, count: &AtomicUsize) {
        let enough = count.load(Ordering::Relaxed) + 20 * SENDERS;
        let deadline = Instant::now() + MAX_FAILOVER;
        while count.load(Ordering::Relaxed) < enough {
            if Instant::now() > deadline {
                let status = self.status();
                let nodes = self.nodes.iter_mut().flatten();
                let logs: Vec<_> = nodes.map(ServerProcess::lines_so_far).collect();
                panic!("pings are not answered\n{status}\n{}", logs.join("\n\n"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn client(&self, node: usize) -> HttpClient {
        HttpClient::connect(self.addresses[node][0]).unwrap()
    }
}

/// Pings that a client sent.
#[derive(Default)]
struct SentPings {
    acknowledged: Vec<usize>,
}

/// Sends through one machine after the other until `stop`.
fn send(
    addresses: &[SocketAddr; NODES],
    path: &str,
    sender: usize,
    (stop, count): (&AtomicBool, &AtomicUsize),
) -> SentPings {
    let mut sent = SentPings::default();
    let mut number = 0;
    let mut node = sender;
    while !stop.load(Ordering::Relaxed) {
        node += 1;
        let Ok(mut client) = HttpClient::connect(addresses[node % NODES]) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        // A machine in the middle of a change may be better avoided.
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let Ok(answer) = client.post(path, &body(sender, number)) else {
                break;
            };
            if !matches!(answer.status, 200 | 201) {
                break;
            }
            sent.acknowledged.push(number);
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    sent
}

/// Verifies that each acknowledged ping of a sender is stored once, in order, and that no other
/// ping is stored twice or altered.
fn verify(cluster: &Cluster, node: usize, api_key: &str, sent: &[SentPings]) {
    let mut client = cluster.client(node);
    let mut get = |path: &str| {
        let deadline = Instant::now() + MAX_FAILOVER;
        loop {
            match client.get(path, api_key) {
                Ok(answer) if answer.status < 500 => return answer,
                failed => assert!(Instant::now() < deadline, "{:?}", failed.err()),
            }
            // On a busy machine, another leader may have been elected.
            std::thread::sleep(Duration::from_millis(100));
            client = cluster.client(node);
        }
    };
    for (sender, sent) in sent.iter().enumerate() {
        let list = get(&format!("/api/v3/checks/?slug=s{sender}"));
        let list: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
        let uuid = list["checks"][0]["uuid"].as_str().unwrap();
        let pings = list["checks"][0]["n_pings"].as_u64().unwrap();
        let mut found = HashMap::new();
        for n in 1..=pings {
            let logged = get(&format!("/api/v3/checks/{uuid}/pings/{n}/body"));
            let number = number_in(&logged.body, sender)
                .unwrap_or_else(|| panic!("ping {n} of sender {sender} is another one"));
            assert_eq!(found.insert(number, n), None, "{number} is stored twice");
        }
        let places: Vec<_> = sent
            .acknowledged
            .iter()
            .map(|number| found.get(number).copied())
            .collect();
        assert!(
            places.iter().all(Option::is_some),
            "a ping of {sender} is lost"
        );
        assert!(places.is_sorted(), "the pings of {sender} are not in order");
    }
}

#[test]
fn no_acknowledged_ping_is_lost_when_leaders_fail() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start(0);
    cluster.wait_for_leader(None);
    let words = ["project", "create", "main", "--ping-log-limit", "1000000"];
    admin(&cluster.data(0), &words);
    // A follower forwards commands, too.
    cluster.start(1);
    cluster.start(2);
    let key = |access| {
        let words = ["key", "create", "--project", "main", "--access", access];
        admin(&cluster.data(1), &words)
    };
    let (ping_key, api_key) = (key("ping"), key("read-write"));
    let addresses = cluster.addresses.map(|[http, _]| http);
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
            let path = format!("/ping/{ping_key}/s{sender}?create=1");
            std::thread::spawn(move || send(&addresses, &path, sender, (&stop, &count)))
        })
        .collect();
    cluster.wait_for_pings(&count);
    for fault in ["KILL", "TERM", "STOP", "KILL"] {
        let leader = cluster.wait_for_leader(None);
        // The number of the first socket that is passed on at a restart is not one of the runtime.
        let process = cluster.nodes[leader].as_ref().unwrap().id();
        let first = std::fs::read_link(format!("/proc/{process}/fd/3")).unwrap();
        let first = first.to_string_lossy();
        assert!(
            first == "/dev/null" || first.starts_with("socket:"),
            "{first}"
        );
        let signal = |cluster: &Cluster, signal| {
            cluster.nodes[leader].as_ref().unwrap().signal(signal);
        };
        signal(&cluster, fault);
        cluster.wait_for_leader(Some(leader));
        cluster.wait_for_pings(&count);
        if fault == "STOP" {
            // It must notice that another machine leads, before it answers anybody.
            signal(&cluster, "CONT");
        } else {
            cluster.nodes[leader] = None;
            cluster.start(leader);
        }
        cluster.wait_for_pings(&count);
        let log = cluster.nodes[leader].as_mut().unwrap().lines_so_far();
        assert!(!log.contains("panicked"), "{log}");
    }
    stop.store(true, Ordering::Relaxed);
    let sent: Vec<_> = senders
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert!(sent.iter().all(|sent| !sent.acknowledged.is_empty()));
    verify(&cluster, 0, &api_key, &sent);
    // The database of a machine that followed is as good as that of the leader.
    let leader = cluster.wait_for_leader(None);
    cluster.nodes[leader].take().unwrap().stop();
    let next = cluster.wait_for_leader(Some(leader));
    verify(&cluster, next, &api_key, &sent);
}

/// The supervisor does not start it again, and holds the address, so it could not be bound.
#[test]
fn a_machine_that_no_longer_leads_keeps_the_sockets_of_its_supervisor() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    let [address, _] = cluster.addresses[0];
    let socket = TcpListener::bind(address).unwrap();
    let words = cluster.flags(0).join(" ");
    let mut command = activated(&cluster.data(0), &socket, None, &words);
    cluster.start_as(0, &mut command);
    cluster.wait_for_leader(None);
    admin(&cluster.data(0), &["project", "create", "main"]);
    let words = ["check", "create", "--project", "main", "--name", "job"];
    let path = format!("/ping/{}", admin(&cluster.data(0), &words));
    cluster.start(1);
    cluster.wait_for_machines(2);
    cluster.nodes[0].as_ref().unwrap().signal("STOP");
    cluster.wait_for_leader(Some(0));
    cluster.nodes[0].as_ref().unwrap().signal("CONT");
    // A connection that the former leader has accepted ends without an answer.
    let deadline = Instant::now() + MAX_FAILOVER;
    loop {
        let status = cluster
            .client(0)
            .post(&path, b"")
            .map(|answer| answer.status);
        if matches!(status, Ok(200)) {
            break;
        }
        assert!(Instant::now() < deadline, "{status:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(cluster.wait_for_leader(None), 1);
    let mut former = cluster.nodes[0].take().unwrap();
    let log = former.lines_so_far();
    assert!(log.contains("no longer leads the cluster"), "{log}");
    former.stop();
}

#[test]
fn a_cluster_that_lost_its_databases_continues_with_a_backup() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start(0);
    cluster.wait_for_leader(None);
    admin(&cluster.data(0), &["project", "create", "main"]);
    let backup = cluster.directory.path().join("backup");
    let data = cluster.data(0);
    let run_with_backup = |words: &[&str]| {
        let done = run(overdue(words).arg(&backup).arg("--data").arg(&data));
        assert_eq!(done.status, 0, "{}", done.err);
    };
    run_with_backup(&["backup"]);
    cluster.nodes[0].take().unwrap().stop();
    std::fs::remove_dir_all(cluster.data(0)).unwrap();
    // No machine can lead, and none begins with an empty database.
    cluster.start(0);
    let node = cluster.nodes[0].as_mut().unwrap();
    node.wait_for("if no machine has a database any more, restore a backup");
    assert_eq!(cluster.client(0).get("/healthz", "").unwrap().status, 503);
    cluster.nodes[0].take().unwrap().stop();
    // A new cluster, below another prefix.
    run_with_backup(&["restore", "--force"]);
    cluster.etcd.url.push_str("-2");
    cluster.found();
    cluster.start(0);
    assert_eq!(cluster.wait_for_leader(None), 0);
    let projects = admin(&cluster.data(0), &["project", "list"]);
    assert!(projects.contains("main"), "{projects}");
}

#[test]
fn a_cluster_that_lost_its_etcd_continues_with_a_database() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start(0);
    cluster.wait_for_leader(None);
    admin(&cluster.data(0), &["project", "create", "main"]);
    cluster.start(1);
    cluster.wait_for_machines(2);
    for node in [1, 0] {
        cluster.nodes[node].take().unwrap().stop();
    }
    cluster.etcd = EtcdProcess::start(cluster.directory.path().join("other"), 2 << 30).unwrap();
    admin(&cluster.data(0), &["cluster", "leave"]);
    cluster.found();
    cluster.start(0);
    assert_eq!(cluster.wait_for_leader(None), 0);
    // A database of the former cluster is not mixed with this one.
    let refused = run(&mut cluster.command(1));
    assert_ne!(refused.status, 0);
    let reason = "belongs to another cluster: move its data directory away";
    assert!(refused.err.contains(reason), "{}", refused.err);
    std::fs::remove_dir_all(cluster.data(1)).unwrap();
    cluster.start(1);
    cluster.wait_for_machines(2);
    let projects = admin(&cluster.data(1), &["project", "list"]);
    assert!(projects.contains("main"), "{projects}");
}

#[test]
fn a_leader_that_is_stopped_while_etcd_hangs_ends() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start(0);
    cluster.wait_for_leader(None);
    let mut leader = cluster.nodes[0].take().unwrap();
    leader.find_or_wait_for("listening for HTTP");
    admin(&cluster.data(0), &["project", "create", "main"]);
    let words = ["check", "create", "--project", "main", "--name", "job"];
    let path = format!("/ping/{}", admin(&cluster.data(0), &words));
    signal(cluster.etcd.child.id(), "STOP");
    // The writer waits for etcd.
    let mut client = cluster.client(0);
    let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    client.send(request.as_bytes()).unwrap();
    leader.wait_for("did not answer within 2 seconds");
    leader.signal("TERM");
    // It loses the leadership meanwhile, and does not start again to follow.
    leader.wait();
    let log = leader.log.join("\n");
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(log.matches("following the cluster").count(), 1, "{log}");
}

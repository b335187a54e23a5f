//! Operation of a cluster: hand-over, health checks, names of machines.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::HttpClient;
use crate::cluster::Cluster;
use crate::server_process::{ProcessOutput, admin, overdue, run};

/// Maximum time until machines agree, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Attempts to connect to a machine, one after the other.
struct ConnectionAttempts {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<Option<String>>,
}

impl ConnectionAttempts {
    fn start(address: SocketAddr) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_stopped);
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                if let Err(error) = TcpStream::connect(address) {
                    return Some(error.to_string());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            None
        });
        Self { is_stopped, thread }
    }

    /// Stops them; returns the error of the first one that failed.
    fn stop(self) -> Option<String> {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

impl Cluster {
    /// Runs `overdue cluster` with these words.
    fn run(&self, words: &[&str]) -> ProcessOutput {
        let mut command = overdue(&["cluster"]);
        command.args(words).args(["--cluster", &self.etcd.url]);
        run(&mut command)
    }

    /// Reads the list of checks of a machine until the answer is old, or until it is not.
    fn wait_for_read(&mut self, node: usize, key: &str, is_old: bool) -> serde_json::Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let read = HttpClient::connect(self.addresses[node][0])
                .and_then(|mut client| client.get("/api/v3/checks/", key));
            let last = match read {
                Ok(answer) if answer.status == 200 && answer.as_of.is_some() == is_old => {
                    return serde_json::from_slice(&answer.body).unwrap();
                }
                Ok(answer) => format!("{} as of {:?}", answer.status, answer.as_of),
                Err(error) => error.to_string(),
            };
            let lines = self.nodes[node].as_mut().unwrap().lines_so_far();
            assert!(Instant::now() < deadline, "node{node}: {last}\n{lines}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Status of a health check of a machine; `None` if it does not answer.
    fn health(&self, node: usize, path: &str) -> Option<u16> {
        let mut client = HttpClient::connect(self.addresses[node][0]).ok()?;
        client.get(path, "").ok().map(|answer| answer.status)
    }

    /// Waits until this number of machines follow the leader.
    fn wait_for_followers(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            let nodes = status["nodes"].as_array().unwrap();
            let followers = nodes.iter().filter(|node| node["role"] == "follower");
            if followers.count() == count {
                return;
            }
            assert!(Instant::now() < deadline, "{status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all machines have every change that the leader has now.
    fn wait_for_equal_databases(&self) {
        let deadline = Instant::now() + PATIENCE;
        // The place of the leader is read from its lease, which it renews every second.
        std::thread::sleep(Duration::from_millis(1500));
        let place = self.status()["place"].as_u64();
        loop {
            let status = self.status();
            let mut nodes = status["nodes"].as_array().unwrap().iter();
            if nodes.all(|node| node["place"].as_u64() >= place) {
                return;
            }
            assert!(Instant::now() < deadline, "{status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the health checks of a machine have these results.
    fn wait_for_health(&self, node: usize, expected: [u16; 2]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = ["/healthz", "/healthz?leader"].map(|path| self.health(node, path));
            if found == expected.map(Some) {
                return;
            }
            assert!(Instant::now() < deadline, "node{node}: {found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_leader_hands_over_on_request() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start(0);
    cluster.wait_for_leader(None);
    let done = cluster.run(&["hand-over"]);
    assert_eq!((done.status, &*done.out), (1, ""));
    assert!(
        done.err.contains("no other machine follows"),
        "{}",
        done.err
    );
    cluster.start(1);
    cluster.start(2);
    cluster.wait_for_health(0, [200, 200]);
    cluster.wait_for_health(1, [200, 503]);
    for (to, part) in [
        ("node0", "node0 leads already"),
        ("node7", "the cluster has no machine node7"),
    ] {
        let done = cluster.run(&["hand-over", "--to", to]);
        assert_eq!(done.status, 1);
        assert!(done.err.contains(part), "{}", done.err);
    }
    cluster.wait_for_followers(2);
    let connections = ConnectionAttempts::start(cluster.addresses[0][0]);
    let done = cluster.run(&["hand-over", "--to", "node2"]);
    assert_eq!(
        (done.status, &*done.out),
        (0, "node2 leads\n"),
        "{}",
        done.err
    );
    // The former leader follows, in the same process, and has refused no connection.
    for (node, leads) in [(0, false), (1, false), (2, true)] {
        cluster.wait_for_health(node, [200, if leads { 200 } else { 503 }]);
    }
    assert_eq!(connections.stop(), None);
    let done = cluster.run(&["hand-over"]);
    assert_eq!(done.status, 0, "{}", done.err);
    assert_ne!(done.out, "node2 leads\n");
    assert_eq!(cluster.status()["epoch"], 3);

    // A second machine with a name is refused, and the first one goes on.
    let data = cluster.directory.path().join("copy");
    let secret = cluster.directory.path().join("secret");
    let refused = run(overdue(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--cluster-node",
        "node1",
    ])
    .args(["--cluster", &cluster.etcd.url])
    .args(["--cluster-listen", "127.0.0.1:0"])
    .args(["--cluster-address", "127.0.0.1:1"])
    .arg("--cluster-secret-file")
    .arg(secret)
    .arg("--data")
    .arg(&data));
    assert_eq!(refused.status, 1, "{}", refused.err);
    let expected = format!(
        "the machine at {} has the same name, node1",
        cluster.addresses[1][1]
    );
    assert!(refused.err.contains(&expected), "{}", refused.err);
    cluster.nodes.iter_mut().for_each(|node| {
        if let Some(running) = node.take() {
            running.stop();
        }
    });
}

/// Calls a method of etcd in its form as JSON. Returns the answer, or the status of an error.
fn call_etcd(cluster: &Cluster, method: &str, body: &str) -> Result<serde_json::Value, u16> {
    let mut client = HttpClient::connect(cluster.etcd.address).unwrap();
    let answer = client
        .post(&format!("/v3/{method}"), body.as_bytes())
        .unwrap();
    if answer.status == 200 {
        Ok(serde_json::from_slice(&answer.body).unwrap())
    } else {
        Err(answer.status)
    }
}

#[test]
fn no_machine_leads_while_the_quota_of_etcd_is_used_up() {
    let Some(mut cluster) = Cluster::create_with_quota(16 << 20) else {
        return;
    };
    for node in 0..2 {
        let mut command = cluster.command(node);
        command.args(["--cluster-hold", "1", "--cluster-etcd-quota", "16777216"]);
        cluster.start_as(node, &mut command);
    }
    let former = cluster.wait_for_leader(None);
    // Other keys, which nothing removes.
    let value = "A".repeat(1 << 20);
    for number in 0.. {
        let put = format!(
            "{{\"key\": \"WF{:02}\", \"value\": \"{value}\"}}",
            number % 100
        );
        match call_etcd(&cluster, "kv/put", &put) {
            Ok(_) => assert!(number < 100, "etcd has no quota"),
            Err(status) => {
                assert_eq!(status, 429, "no space");
                break;
            }
        }
    }
    let leader = cluster.nodes[former].as_mut().unwrap();
    leader.find_or_wait_for("no machine can lead");
    let status = cluster.status();
    let problems = status["members"][0]["problems"].to_string();
    assert!(problems.contains("NOSPACE"), "{problems}");
    let mut client = cluster.client(former);
    let refused = client.get("/healthz", "").unwrap();
    let text = String::from_utf8(refused.body).unwrap();
    assert_eq!(refused.status, 503);
    assert!(text.contains("the quota of etcd is used up"), "{text}");

    let removed = call_etcd(
        &cluster,
        "kv/deleterange",
        r#"{"key": "WA==", "range_end": "WQ=="}"#,
    )
    .unwrap();
    let revision = removed["header"]["revision"].as_str().unwrap();
    let compaction = format!("{{\"revision\": {revision}, \"physical\": true}}");
    call_etcd(&cluster, "kv/compaction", &compaction).unwrap();
    call_etcd(&cluster, "maintenance/defragment", "{}").unwrap();
    let member = removed["header"]["member_id"].as_str().unwrap();
    let alarm =
        format!(r#"{{"action": "DEACTIVATE", "memberID": "{member}", "alarm": "NOSPACE"}}"#);
    call_etcd(&cluster, "maintenance/alarm", &alarm).unwrap();
    // The one that led before, or the other one.
    let deadline = Instant::now() + PATIENCE;
    while !(0..2).any(|node| cluster.health(node, "/healthz?leader") == Some(200)) {
        assert!(Instant::now() < deadline, "{}", cluster.status());
        std::thread::sleep(Duration::from_millis(20));
    }
    cluster.nodes.iter_mut().for_each(|node| {
        if let Some(running) = node.take() {
            running.stop();
        }
    });
}

#[test]
fn machines_without_a_leader_answer_reads_with_the_time_of_the_data() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    for node in 0..2 {
        let mut command = cluster.command(node);
        command.args(["--cluster-hold", "1", "--cluster-patience", "3"]);
        command.arg("--cluster-stale-reads");
        cluster.start_as(node, &mut command);
    }
    let former = cluster.wait_for_leader(None);
    cluster.wait_for_followers(1);
    let words = ["key", "create", "--access", "read-write"];
    let key = admin(&cluster.data(former), &words).trim().to_owned();
    let mut client = cluster.client(former);
    let body = br#"{"name": "nightly", "timeout": 3600}"#;
    let created = client.post_with("/api/v3/checks/", &key, body).unwrap();
    assert_eq!(created.status, 201);
    assert_eq!(created.as_of, None);
    let check: serde_json::Value = serde_json::from_slice(&created.body).unwrap();
    let ping_path = format!("/ping/{}", check["uuid"].as_str().unwrap());
    assert_eq!(client.get(&ping_path, "").unwrap().status, 200);

    cluster.wait_for_equal_databases();
    cluster.etcd.signal("STOP");
    for node in 0..2 {
        let answer = cluster.wait_for_read(node, &key, true);
        assert_eq!(answer["checks"][0]["n_pings"], 1, "node{node}");
        assert_eq!(answer["checks"][0]["status"], "up", "node{node}");
        let refused = cluster.client(node).get(&ping_path, "").unwrap();
        assert_eq!(refused.status, 503);
        let mut client = cluster.client(node);
        let refused = client.post_with("/api/v3/checks/", &key, body).unwrap();
        assert_eq!(refused.status, 503);
        assert_eq!(cluster.health(node, "/healthz"), Some(503));
    }
    cluster.etcd.signal("CONT");
    // A machine leads again, with the database that was read meanwhile.
    for node in 0..2 {
        let answer = cluster.wait_for_read(node, &key, false);
        assert_eq!(answer["checks"][0]["n_pings"], 1, "node{node}");
    }
    assert_eq!(cluster.client(0).get(&ping_path, "").unwrap().status, 200);
    cluster.nodes.iter_mut().for_each(|node| {
        if let Some(running) = node.take() {
            running.stop();
        }
    });
}

#[test]
fn a_machine_that_joins_leaves_the_cluster_and_its_directory_alone() {
    let Some(cluster) = Cluster::create() else {
        return;
    };
    let init = |words: &[&str]| {
        run(
            overdue(&["cluster", "init", "--cluster", &cluster.etcd.url])
                .args(words)
                .arg("--data")
                .arg(cluster.data(1)),
        )
    };
    let refused = init(&[]);
    assert_eq!(refused.status, 1);
    assert!(
        refused.err.contains("there is a cluster below this prefix"),
        "{}",
        refused.err
    );
    let kept = init(&["--if-needed"]);
    assert_eq!(
        (kept.status, kept.out.as_str()),
        (0, "there is a cluster already: nothing was done\n"),
        "{}",
        kept.err
    );
    assert!(!cluster.data(1).join("overdue.redb").exists());
}

//! Tests of forwarding on loopback addresses.

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::task::JoinHandle;

use super::super::peer::tests::{RunningPort, connector, start_port};
use super::*;
use crate::server::cluster::peer::PeerListener;

/// Only Linux can have clients of many addresses: all of 127.0.0.0/8 is the local machine.
#[cfg(target_os = "linux")]
mod end_to_end;

const SECRET: &[u8] = b"a common secret of the cluster";
const NO_LEADER_RESPONSE: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\n\
    Content-Type: application/json\r\nContent-Length: 68\r\nX-Content-Type-Options: nosniff\r\n\
    Connection: close\r\n\r\n\
    {\"error\":\"no machine of the cluster leads at the moment: try again\"}";

/// Time in which something happens that a test waits for.
const SOON: Duration = Duration::from_secs(5);

/// A machine that does not lead.
struct Follower {
    address: SocketAddr,
    leader: watch::Sender<LeaderState>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

fn config(hold_millis: u64) -> ForwarderConfig {
    ForwarderConfig {
        hold_time: Duration::from_millis(hold_millis),
        max_connections: 100,
        connections_per_address: 100,
        trusted_proxies: Vec::new(),
        stale_connections: None,
    }
}

impl Follower {
    /// Starts a follower that knows no leader.
    async fn start(service: PeerService, config: ForwarderConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (leader, known) = watch::channel(LeaderState::Unknown(NoLeaderReason::Election));
        let forwarder = Forwarder::new(connector(SECRET), known, Clock::System, config);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(forwarder.serve(listener, service, stopped));
        Self {
            address,
            leader,
            stop,
            task,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    fn set_leader(&self, port: &RunningPort) {
        self.leader.send_replace(known(port));
    }
}

fn known(port: &RunningPort) -> LeaderState {
    LeaderState::Known(PeerAddress::from(&*port.address.to_string()))
}

/// Reads up to the end of a connection, or its reset.
async fn read_rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut bytes))
        .await
        .expect("the connection is closed");
    String::from_utf8(bytes).unwrap()
}

/// Accepts a connection and exchanges a byte, so that it is known to be forwarded.
async fn exchange(client: &mut TcpStream, listener: &PeerListener) -> TcpStream {
    client.write_all(b"?").await.unwrap();
    let (mut served, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    served.read_exact(&mut [0]).await.unwrap();
    served.write_all(b"!").await.unwrap();
    client.read_exact(&mut [0]).await.unwrap();
    served
}

/// Bytes whose order can be checked.
fn numbered_bytes(seed: u32) -> Vec<u8> {
    (0..100_000_u32)
        .flat_map(|number| number.wrapping_mul(seed).to_be_bytes())
        .collect()
}

#[tokio::test]
async fn a_connection_is_held_until_a_leader_takes_it() {
    let follower = Follower::start(PeerService::Http, config(5000)).await;
    let port = start_port(SECRET).await;
    let client = follower.connect().await;
    let client_address = client.local_addr().unwrap();
    let (mut reader, mut writer) = client.into_split();
    let sending = tokio::spawn(async move {
        writer.write_all(&numbered_bytes(3)).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    });
    // First nothing listens at the address of the leader, then the leader does not lead yet.
    sleep(Duration::from_millis(50)).await;
    let nothing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nothing.local_addr().unwrap().to_string();
    drop(nothing);
    let unreachable = LeaderState::Known(PeerAddress::from(&*address));
    follower.leader.send_replace(unreachable);
    sleep(Duration::from_millis(50)).await;
    follower.set_leader(&port);
    sleep(Duration::from_millis(50)).await;
    let listener = port.port.listen(PeerService::Http);
    let (mut served, address) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    assert_eq!(address, client_address);
    let mut received = Vec::new();
    served.read_to_end(&mut received).await.unwrap();
    assert!(received == numbered_bytes(3), "{} bytes", received.len());
    let answering = tokio::spawn(async move {
        served.write_all(&numbered_bytes(5)).await.unwrap();
    });
    received.clear();
    reader.read_to_end(&mut received).await.unwrap();
    assert!(received == numbered_bytes(5), "{} bytes", received.len());
    answering.await.unwrap();
    drop(sending.await.unwrap());
}

#[tokio::test]
async fn connections_to_a_former_leader_are_closed() {
    let follower = Follower::start(PeerService::Smtp, config(300)).await;
    let [former, port] = [start_port(SECRET).await, start_port(SECRET).await];
    let [former_listener, listener] =
        [&former, &port].map(|port| port.port.listen(PeerService::Smtp));
    follower.set_leader(&former);
    let mut client = follower.connect().await;
    let mut served = exchange(&mut client, &former_listener).await;
    // A short time without a known leader changes nothing.
    follower
        .leader
        .send_replace(LeaderState::Unknown(NoLeaderReason::Election));
    sleep(Duration::from_millis(100)).await;
    follower.set_leader(&former);
    sleep(Duration::from_millis(400)).await;
    served.write_all(b"x").await.unwrap();
    client.read_exact(&mut [0]).await.unwrap();
    follower.set_leader(&port);
    assert_eq!(read_rest(&mut client).await, "");
    assert_eq!(read_rest(&mut served).await, "");
    let mut client = follower.connect().await;
    let mut served = exchange(&mut client, &listener).await;
    follower
        .leader
        .send_replace(LeaderState::Unknown(NoLeaderReason::Election));
    assert_eq!(read_rest(&mut client).await, "");
    assert_eq!(read_rest(&mut served).await, "");
}

#[tokio::test]
async fn a_client_that_no_leader_takes_gets_an_error() {
    let http = Follower::start(PeerService::Http, config(100)).await;
    let mut client = http.connect().await;
    client
        .write_all(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
        .await
        .unwrap();
    assert_eq!(read_rest(&mut client).await, NO_LEADER_RESPONSE);
    let mut client = http.connect().await;
    assert_eq!(read_rest(&mut client).await, NO_LEADER_RESPONSE);
    let mut client = http.connect().await;
    client.write_all(&[HANDSHAKE_RECORD, 3, 1]).await.unwrap();
    assert_eq!(read_rest(&mut client).await, "");
    let smtp = Follower::start(PeerService::Smtp, config(100)).await;
    let mut client = smtp.connect().await;
    assert_eq!(
        read_rest(&mut client).await,
        "421 4.3.2 no machine of the cluster leads at the moment: try again\r\n"
    );
    // A leader with another secret is as good as none.
    let port = start_port(b"another secret of the cluster").await;
    smtp.set_leader(&port);
    let mut client = smtp.connect().await;
    assert!(read_rest(&mut client).await.starts_with("421 4.3.2 "));
}

#[tokio::test]
async fn an_admin_socket_is_forwarded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let socket = UnixListener::bind(&path).unwrap();
    struct TestSocket(UnixListener);
    impl Listener for TestSocket {
        type Accepted = UnixStream;
        async fn accept(&self) -> std::io::Result<UnixStream> {
            Ok(self.0.accept().await?.0)
        }
    }
    let (leader, state) = watch::channel(LeaderState::Unknown(NoLeaderReason::Election));
    let (_stop, stopped) = watch::channel(false);
    let forwarder = Forwarder::new(connector(SECRET), state, Clock::System, config(100));
    tokio::spawn(forwarder.serve_admin(TestSocket(socket), stopped));
    let mut client = UnixStream::connect(&path).await.unwrap();
    let refusal = read_rest(&mut client).await;
    assert!(
        refusal.starts_with("HTTP/1.1 503 ") && refusal.contains("\r\noverdue-admin-version: "),
        "{refusal}"
    );
    let port = start_port(SECRET).await;
    let listener = port.port.listen(PeerService::Admin);
    leader.send_replace(known(&port));
    let mut client = UnixStream::connect(&path).await.unwrap();
    client.write_all(b"question").await.unwrap();
    let (mut served, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    served.read_exact(&mut [0; 8]).await.unwrap();
    served.write_all(b"answer").await.unwrap();
    drop(served);
    assert_eq!(read_rest(&mut client).await, "answer");
}

#[tokio::test]
async fn connections_beyond_a_limit_are_refused_at_once() {
    let follower = Follower::start(
        PeerService::Smtp,
        ForwarderConfig {
            max_connections: 3,
            connections_per_address: 2,
            trusted_proxies: vec!["127.0.0.3/32".parse().unwrap()],
            ..config(60_000)
        },
    )
    .await;
    let mut held = [follower.connect().await, follower.connect().await];
    assert_eq!(
        read_rest(&mut follower.connect().await).await,
        "421 4.7.0 Too many connections from your address: close some\r\n"
    );
    if !cfg!(target_os = "linux") {
        return;
    }
    let connect_from = async |address: &str| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(address.parse().unwrap()).unwrap();
        socket.connect(follower.address).await.unwrap()
    };
    let _held = connect_from("127.0.0.3:0").await;
    assert_eq!(
        read_rest(&mut connect_from("127.0.0.3:0").await).await,
        "421 4.3.2 Too many connections: try again later\r\n"
    );
    let port = start_port(SECRET).await;
    let listener = port.port.listen(PeerService::Smtp);
    follower.set_leader(&port);
    let mut served = Vec::new();
    for _ in 0..3 {
        served.push(timeout(SOON, listener.accept()).await.unwrap().unwrap().0);
    }
    // Each connection that ends is replaced.
    drop(served);
    for client in &mut held {
        assert_eq!(read_rest(client).await, "");
    }
    drop(held);
    let forwarded = async {
        loop {
            let mut client = follower.connect().await;
            // It may have been refused already.
            let _ = client.write_all(b"?").await;
            tokio::select! {
                accepted = listener.accept() => break accepted.unwrap(),
                _ = read_rest(&mut client) => {}
            }
        }
    };
    timeout(SOON, forwarded).await.unwrap();
}

#[tokio::test]
async fn a_stop_lets_connections_finish() {
    let follower = Follower::start(PeerService::Http, config(60_000)).await;
    let mut held = follower.connect().await;
    // The follower accepts in the order of the connections.
    let port = start_port(SECRET).await;
    let listener = port.port.listen(PeerService::Http);
    sleep(Duration::from_millis(50)).await;
    follower.stop.send_replace(true);
    assert_eq!(read_rest(&mut held).await, NO_LEADER_RESPONSE);
    drop(held);
    timeout(SOON, follower.task).await.unwrap().unwrap();

    let follower = Follower::start(PeerService::Http, config(60_000)).await;
    follower.set_leader(&port);
    let mut idle = follower.connect().await;
    let _served_idle = exchange(&mut idle, &listener).await;
    let mut asking = follower.connect().await;
    let mut served = exchange(&mut asking, &listener).await;
    asking.write_all(b"?").await.unwrap();
    served.read_exact(&mut [0]).await.unwrap();
    follower.stop.send_replace(true);
    assert_eq!(read_rest(&mut idle).await, "", "it waits for its client");
    sleep(Duration::from_millis(300)).await;
    served.write_all(b"!").await.unwrap();
    assert_eq!(read_rest(&mut asking).await, "!");
    timeout(SOON, follower.task).await.unwrap().unwrap();
}

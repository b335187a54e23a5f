//! Tests of the peer port on loopback addresses.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use super::*;
use crate::server::cluster::etcd::test_server::{TestAuthority, test_outbound};

const SECRET: &[u8] = b"a common secret of the cluster\n";

/// Connector with the given secret.
pub(in crate::server::cluster) fn connector(secret: &[u8]) -> PeerConnector {
    connector_with(secret, None)
}

/// Connector with the given secret and TLS.
fn connector_with(secret: &[u8], tls: Option<PeerTls>) -> PeerConnector {
    let secret = PeerSecret::new(secret).unwrap();
    PeerConnector::new(test_outbound(), secret, tls, Random::seeded(1))
}

/// Peer port that is served until this is dropped.
pub(in crate::server::cluster) struct RunningPort {
    pub(in crate::server::cluster) address: SocketAddr,
    pub(in crate::server::cluster) port: PeerPort,
    _stop: watch::Sender<bool>,
}

/// Starts a peer port with the given secret.
pub(in crate::server::cluster) async fn start_port(secret: &[u8]) -> RunningPort {
    start_port_with(secret, None).await
}

/// Starts a peer port with the given secret and TLS.
async fn start_port_with(secret: &[u8], tls: Option<PeerTls>) -> RunningPort {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let secret = PeerSecret::new(secret).unwrap();
    let port = PeerPort::new(
        secret,
        tls.map(|tls| (tls, test_outbound())),
        Clock::System,
        Random::seeded(2),
    );
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(port.clone().serve(listener, stopped));
    RunningPort {
        address,
        port,
        _stop: stop,
    }
}

/// TLS with certificates of an authority.
fn tls_of(authority: &TestAuthority) -> Option<PeerTls> {
    let own = authority.sign();
    let pem = PeerTlsPem {
        authorities: authority.issuer.pem().into(),
        chain: own.chain,
        key: own.key,
    };
    Some(PeerTls::new(&pem).unwrap())
}

/// Asserts that both ends of a connection read what the other one writes, until it closes.
async fn assert_connected(
    near: &mut (impl AsyncRead + AsyncWrite + Unpin),
    mut far: impl AsyncRead + AsyncWrite + Unpin,
) {
    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    let mut text = String::new();
    far.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "question");
    far.write_all(b"answer").await.unwrap();
    drop(far);
    text.clear();
    near.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "answer");
}

#[tokio::test]
async fn tls_between_machines_verifies_both_sides() {
    let authority = TestAuthority::new();
    let port = start_port_with(SECRET, tls_of(&authority)).await;
    let listener = port.port.listen(PeerService::Http);
    let header = header(PeerService::Http, "192.0.2.1:5000");
    let address = port.address.to_string();
    let connect = async |secret: &[u8], tls| {
        let connector = connector_with(secret, tls);
        let connected = connector.connect(&address, header, HANDSHAKE_TIMEOUT);
        connected.await.map_err(|error| error.to_string())
    };
    let mut near = connect(SECRET, tls_of(&authority)).await.unwrap();
    let (far, client) = listener.accept().await.unwrap();
    assert_eq!(client, header.client);
    assert_connected(&mut near, far).await;

    // The certificate does not replace the secret, nor the secret the certificate.
    let error = connect(b"another secret of a cluster", tls_of(&authority))
        .await
        .err();
    assert_eq!(error, Some(PeerError::WrongSecret.to_string()));
    let other = TestAuthority::new();
    let error = connect(SECRET, tls_of(&other)).await.err().unwrap();
    assert!(error.contains("TLS with it failed"), "{error}");
    // This machine is trusted, but not the other one.
    let own = other.sign();
    let pem = PeerTlsPem {
        authorities: authority.issuer.pem().into(),
        chain: own.chain,
        key: own.key,
    };
    let tls = Some(PeerTls::new(&pem).unwrap());
    assert!(connect(SECRET, tls).await.is_err());
    let plain_port = start_port(SECRET).await;
    let address = plain_port.address.to_string();
    let connector = connector_with(SECRET, tls_of(&authority));
    let refused = connector.connect(&address, header, HANDSHAKE_TIMEOUT).await;
    assert!(matches!(refused.err(), Some(PeerError::Tls(_))));
}

fn header(service: PeerService, client: &str) -> PeerHeader {
    PeerHeader {
        service,
        client: client.parse().unwrap(),
    }
}

async fn connect(
    port: &RunningPort,
    secret: &[u8],
    header: PeerHeader,
) -> Result<Box<dyn PeerStream>, PeerError> {
    connector(secret)
        .connect(&port.address.to_string(), header, HANDSHAKE_TIMEOUT)
        .await
}

#[test]
fn a_secret_has_at_least_sixteen_bytes() {
    assert!(PeerSecret::new(b" 0123456789abcdef\r\n").is_ok());
    let error = PeerSecret::new(b"  0123456789abcde\n").err().unwrap();
    assert_eq!(
        error.to_string(),
        "the secret of the cluster has 15 bytes, and it needs at least 16: create one with \
         `openssl rand -base64 32`"
    );
    let [one, two] = ["\n0123456789abcdef", "0123456789abcdef "]
        .map(|content| PeerSecret::new(content.as_bytes()).unwrap());
    assert_eq!(one.0, two.0);
}

#[tokio::test]
async fn a_connection_reaches_its_service_with_the_address_of_the_client() {
    let port = start_port(SECRET).await;
    let http = port.port.listen(PeerService::Http);
    let smtp = port.port.listen(PeerService::Smtp);
    for (service, listener, client) in [
        (PeerService::Http, &http, "192.0.2.1:5000"),
        (PeerService::Smtp, &smtp, "[2001:db8::1]:25"),
        (PeerService::Http, &http, "[::ffff:192.0.2.7]:65535"),
    ] {
        let header = header(service, client);
        let mut near = connect(&port, b"a common secret of the cluster", header)
            .await
            .unwrap();
        let (far, address) = listener.accept().await.unwrap();
        assert_eq!(address, header.client);
        assert_connected(&mut near, far).await;
    }
}

#[tokio::test]
async fn a_service_without_listener_is_not_led_here() {
    let port = start_port(SECRET).await;
    let status = header(PeerService::Snapshot, "192.0.2.1:1");
    let not_leader = Err(PeerError::NotLeader);
    assert_eq!(connect(&port, SECRET, status).await.map(drop), not_leader);
    let replaced = port.port.listen(PeerService::Snapshot);
    let listener = port.port.listen(PeerService::Snapshot);
    connect(&port, SECRET, status).await.unwrap();
    tokio::select! {
        biased;
        _ = replaced.accept() => panic!("it was replaced"),
        accepted = listener.accept() => assert_eq!(accepted.unwrap().1, status.client),
    }
    drop(listener);
    assert_eq!(connect(&port, SECRET, status).await.map(drop), not_leader);
}

#[tokio::test]
async fn another_secret_is_refused() {
    let port = start_port(SECRET).await;
    let listener = port.port.listen(PeerService::Http);
    let header = header(PeerService::Http, "192.0.2.1:1");
    let refused = connect(&port, b"another secret of the cluster", header).await;
    assert_eq!(refused.map(drop), Err(PeerError::WrongSecret));
    assert!(
        timeout(Duration::from_millis(50), listener.accept())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_machine_that_does_not_answer_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let header = header(PeerService::Http, "192.0.2.1:1");
    let connector = connector(SECRET);
    let connect = |limit| connector.connect(&address, header, Duration::from_millis(limit));
    assert_eq!(
        connect(100).await.map(drop),
        Err(PeerError::Unreachable(
            "no answer within 0.1 seconds".into()
        ))
    );
    drop(listener);
    let error = connect(3000).await.map(drop).unwrap_err().to_string();
    assert!(error.ends_with("connection refused"), "{error}");
    let unnamed = connector.connect("127.0.0.1", header, HANDSHAKE_TIMEOUT);
    let error = unnamed.await.map(drop).unwrap_err().to_string();
    assert_eq!(error, "127.0.0.1 is not an address of the form HOST:PORT");
}

/// Connects without a handshake, and reads the greeting of the port.
async fn connect_silently(port: &RunningPort) -> TcpStream {
    let mut stream = TcpStream::connect(port.address).await.unwrap();
    stream.read_exact(&mut [0; 40]).await.unwrap();
    stream
}

#[tokio::test]
async fn silent_and_slow_machines_are_disconnected_and_block_no_others() {
    let port = start_port(SECRET).await;
    let _listener = port.port.listen(PeerService::Http);
    let mut silent = connect_silently(&port).await;
    let mut slow = connect_silently(&port).await;
    let mut garbage = connect_silently(&port).await;
    garbage.write_all(&[b'g'; 64]).await.unwrap();
    assert!(!matches!(garbage.read(&mut [0]).await, Ok(1..)));
    let header = header(PeerService::Http, "192.0.2.1:1");
    connect(&port, SECRET, header).await.unwrap();
    // From here, waiting takes no time.
    tokio::time::pause();
    let sending = async {
        loop {
            tokio::time::sleep(Duration::from_millis(900)).await;
            if slow.write_all(&[0]).await.is_err() {
                break;
            }
        }
    };
    let both = async {
        assert!(!matches!(silent.read(&mut [0]).await, Ok(1..)));
        sending.await;
    };
    timeout(Duration::from_secs(10), both).await.unwrap();
}

#[tokio::test]
async fn handshakes_of_one_address_are_limited() {
    let port = start_port(SECRET).await;
    let _listener = port.port.listen(PeerService::Http);
    let mut held = Vec::new();
    for _ in 0..MAX_HANDSHAKES_PER_ADDRESS {
        held.push(connect_silently(&port).await);
    }
    let mut refused = TcpStream::connect(port.address).await.unwrap();
    assert!(!matches!(refused.read(&mut [0]).await, Ok(1..)));
    if cfg!(target_os = "linux") {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut other = socket.connect(port.address).await.unwrap();
        other.read_exact(&mut [0; 40]).await.unwrap();
    }
    held.pop();
    let header = header(PeerService::Http, "192.0.2.1:1");
    let connected = async {
        while connect(&port, SECRET, header).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(2), connected).await.unwrap();
}

#[tokio::test]
async fn admin_connections_reach_the_admin_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let socket = UnixListener::bind(&path).unwrap();
    let port = start_port(SECRET).await;
    let listener = port.port.listen(PeerService::Admin);
    let (stop, stopped) = watch::channel(false);
    let serving =
        tokio::spawn(async move { serve_admin_connections(listener, &path, stopped).await });
    let header = header(PeerService::Admin, "127.0.0.1:0");
    let mut near = connect(&port, SECRET, header).await.unwrap();
    let (mut far, _) = socket.accept().await.unwrap();
    near.write_all(b"question").await.unwrap();
    far.read_exact(&mut [0; 8]).await.unwrap();
    far.write_all(b"answer").await.unwrap();
    near.read_exact(&mut [0; 6]).await.unwrap();
    drop(near);
    assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
    drop(far);
    stop.send_replace(true);
    serving.await.unwrap();
}

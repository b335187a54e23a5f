//! Tests that need control of the threads, or small limits.

mod fuzz;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::engine::{self, WriterExit};
use crate::store::Medium;

/// A server with small limits and one blocking thread.
struct Running {
    address: SocketAddr,
    blocking: Arc<BlockingThreads>,
    handle: Handle,
    stop: watch::Sender<bool>,
    server_task: JoinHandle<()>,
    writer: std::thread::JoinHandle<WriterExit>,
}

impl Running {
    async fn start(max_connections: usize) -> Self {
        Self::start_with(max_connections, dashboard::AuthMode::Password).await
    }

    async fn start_with(max_connections: usize, auth: dashboard::AuthMode) -> Self {
        let (handle, writer) =
            engine::open(engine::EngineConfig::new(Medium::memory(), 0)).unwrap();
        let writer = std::thread::spawn(|| writer.run());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let base_url = "http://localhost".parse().unwrap();
        let dashboard = dashboard::DashboardConfig::new(auth);
        let config = HttpConfig {
            base_url,
            trusted_proxies: Vec::new(),
            site_name: "overdue".into(),
            api_rate: ApiRate::UNLIMITED,
            dashboard,
            connections_per_address: 100,
            access_log: false,
            metrics_token: None,
            instance: None,
            other_endpoints: None,
        };
        let blocking = Arc::new(BlockingThreads::start(1).unwrap());
        let server = HttpServer::with_connection_limit(
            handle.clone(),
            Arc::clone(&blocking),
            config,
            max_connections,
        );
        let (stop, stopped) = watch::channel(false);
        let server_task = tokio::spawn(server.serve(listener, None, Arc::default(), stopped));
        Self {
            address,
            blocking,
            handle,
            stop,
            server_task,
            writer,
        }
    }

    /// Sends a request on a connection of its own, which stays open, and returns the start of the
    /// response.
    async fn ask(&self, request: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        ask(&mut stream, request).await
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.server_task.await.unwrap();
        self.handle.close();
        self.writer.join().unwrap();
    }
}

async fn ask(stream: &mut TcpStream, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

const NOWHERE: &str = "GET /none HTTP/1.1\r\nHost: a\r\n\r\n";

fn post(body: &str) -> String {
    format!(
        "POST /api/v3/checks/ HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn long_bodies_are_parsed_off_the_request_threads() {
    let running = Running::start(10).await;
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::clone(&running.blocking);
    let blocking = tokio::spawn(async move { blocked.run(move || wait.recv().is_err()).await });
    let long = post(&format!(
        "{}{}",
        "[".repeat(MAX_INLINE_BYTES),
        "]".repeat(MAX_INLINE_BYTES)
    ));
    let others = async {
        tokio::task::yield_now().await;
        for (request, status) in [
            (post("[]"), "400"),
            (post("{}"), "401"),
            (NOWHERE.to_owned(), "404"),
        ] {
            assert_eq!(
                running.ask(&request).await.unwrap(),
                format!("HTTP/1.1 {status}")
            );
        }
    };
    tokio::select! {
        answer = running.ask(&long) => panic!("{answer:?}"),
        () = others => {}
    }
    drop(release);
    assert_eq!(running.ask(&long).await.unwrap(), "HTTP/1.1 400");
    assert_eq!(blocking.await.unwrap(), Ok(true));
    running.stop().await;
}

#[tokio::test]
async fn a_leader_that_may_have_been_replaced_answers_nothing() {
    let running = Running::start(10).await;
    let health = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(running.ask(health).await.unwrap(), "HTTP/1.1 200");
    running.handle.set_answer_condition(|| false);
    assert_eq!(running.ask(health).await.unwrap(), "HTTP/1.1 503");
    running.stop().await;
}

#[tokio::test]
async fn idle_connections_are_closed_when_no_slot_is_free() {
    let running = Running::start(3).await;
    let mut streams = Vec::new();
    for _ in 0..9 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        assert_eq!(ask(&mut stream, NOWHERE).await.unwrap(), "HTTP/1.1 404");
        streams.push(stream);
    }
    let mut rest = Vec::new();
    let _ = streams[0].read_to_end(&mut rest).await;
    assert!(
        rest.ends_with(b"not found"),
        "it was closed after its answer"
    );
    running.stop().await;
}

#[tokio::test]
async fn requests_that_wait_for_this_server_keep_their_connections() {
    let running = Running::start(3).await;
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::clone(&running.blocking);
    let blocking = tokio::spawn(async move { blocked.run(move || wait.recv().is_err()).await });
    let long = post(&format!(
        "{}{}",
        "[".repeat(MAX_INLINE_BYTES),
        "]".repeat(MAX_INLINE_BYTES)
    ));
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(long.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    let told = async {
        while !running
            .ask(NOWHERE)
            .await
            .is_ok_and(|answer| answer == "HTTP/1.1 503")
        {}
    };
    tokio::time::timeout(Duration::from_secs(20), told)
        .await
        .unwrap();
    drop(release);
    for stream in &mut streams {
        assert_eq!(ask(stream, "").await.unwrap(), "HTTP/1.1 400");
    }
    assert_eq!(blocking.await.unwrap(), Ok(true));
    running.stop().await;
}

/// Only Linux can have clients of many addresses: all of 127.0.0.0/8 is the local machine.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn only_connections_with_unfinished_requests_are_closed_for_others() {
    let running = Running::start(24).await;
    let connect = async |address: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket
            .bind(format!("{address}:0").parse().unwrap())
            .unwrap();
        socket.connect(running.address).await.unwrap()
    };
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut stream = connect("127.0.0.2").await;
        assert_eq!(ask(&mut stream, NOWHERE).await.unwrap(), "HTTP/1.1 404");
        kept.push(stream);
    }
    let unfinished = "POST /ping/7f0e4d4a-5d3d-4d5c-9a51-0b6c9d2f3a10 HTTP/1.1\r\nHost: \
                      a\r\nContent-Length: 5000\r\n\r\nx";
    let mut attack = Vec::new();
    for number in 0..40 {
        let mut stream = connect(if number % 2 == 0 {
            "127.0.0.3"
        } else {
            "127.0.0.4"
        })
        .await;
        // The server may refuse it at once.
        let _ = stream.write_all(unfinished.as_bytes()).await;
        attack.push(stream);
    }
    for address in ["127.0.0.2", "127.0.0.5", "127.0.0.6"] {
        assert_eq!(
            ask(&mut connect(address).await, NOWHERE).await.unwrap(),
            "HTTP/1.1 404",
            "{address}"
        );
    }
    for stream in &mut kept {
        let mut rest = [0; 1000];
        // The rest of the first response.
        let _ = stream.try_read(&mut rest);
        assert_eq!(
            ask(stream, NOWHERE).await.unwrap(),
            "HTTP/1.1 404",
            "it was kept"
        );
    }
    // A client that is cut off while it sends a body reads the reason.
    let mut told = 0;
    for mut stream in attack {
        let mut answer = [0; 12];
        let answered =
            tokio::time::timeout(Duration::from_millis(10), stream.read_exact(&mut answer)).await;
        told += usize::from(answered.is_ok_and(|read| read.is_ok()) && answer == *b"HTTP/1.1 503");
    }
    assert!(told > 0);
    running.stop().await;
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[tokio::test]
async fn a_client_that_reads_nothing_does_not_hold_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    close_unread(&stream, Duration::from_millis(100));
    let error = loop {
        if let Err(error) = stream.write_all(&[0; 65_536]).await {
            break error;
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

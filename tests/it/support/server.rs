//! A real server on port 0 with a database in memory and a manual clock, and a client for it.

use std::sync::Arc;
use std::thread::JoinHandle;

use overdue::domain::ids::ProjectId;
use overdue::domain::project::{KeyLabel, KeySecret, PingKey, SecretHash};
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{Command, CommandOutcome, NewKey};
use overdue::engine::{self, ChannelTestResult, Handle};
use overdue::http;
use overdue::http::dashboard;
use overdue::runtime::blocking_threads::BlockingThreads;
use overdue::store::Medium;
use overdue::util::clock::ManualClock;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::commands::create_project;
use super::engine::open;

/// 2026-11-20T10:00:00Z, the initial time of the clock.
pub const START: Timestamp = Timestamp::from_secs(1_795_168_800);

/// A project with its keys.
pub struct TestProject {
    pub id: ProjectId,
    pub read_write_key: String,
    pub read_only_key: String,
    pub ping_key: String,
}

pub struct TestServer {
    pub clock: Arc<ManualClock>,
    pub handle: Handle,
    pub base: String,
    pub main: TestProject,
    address: std::net::SocketAddr,
    stop: watch::Sender<bool>,
    http_task: tokio::task::JoinHandle<()>,
    writer: Option<JoinHandle<engine::WriterExit>>,
}

/// A response. The body is bytes.
#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl TestResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl TestServer {
    /// Starts a server with one project, without limits.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server with a changed configuration.
    pub async fn start_with(change: impl FnOnce(&mut http::HttpConfig)) -> Self {
        Self::start_on(Medium::memory(), change).await
    }

    /// Starts a server on a given medium.
    pub async fn start_on(medium: Medium, change: impl FnOnce(&mut http::HttpConfig)) -> Self {
        Self::start_engine(medium, 1000, change).await
    }

    /// Starts a server that stores at most `ping_body_limit` bytes of a ping's body.
    pub async fn start_storing(ping_body_limit: usize) -> Self {
        Self::start_engine(Medium::memory(), ping_body_limit, |_| {}).await
    }

    /// Starts a server that accepts TLS only.
    pub async fn start_encrypted(
        tls: http::HttpTls,
        change: impl FnOnce(&mut http::HttpConfig),
    ) -> Self {
        Self::start_listening(
            Medium::memory(),
            START,
            1_000_000,
            Some(Arc::new(tls)),
            change,
        )
        .await
    }

    /// Starts a server whose clock begins at `now`.
    pub async fn start_at(medium: Medium, now: Timestamp) -> Self {
        Self::start_listening(medium, now, 1_000_000, None, |_| {}).await
    }

    async fn start_engine(
        medium: Medium,
        ping_body_limit: usize,
        change: impl FnOnce(&mut http::HttpConfig),
    ) -> Self {
        Self::start_listening(medium, START, ping_body_limit, None, change).await
    }

    async fn start_listening(
        medium: Medium,
        now: Timestamp,
        ping_body_limit: usize,
        tls: Option<Arc<http::HttpTls>>,
        change: impl FnOnce(&mut http::HttpConfig),
    ) -> Self {
        let clock = ManualClock::at(now);
        let (handle, writer) = open(medium, &clock, |config| {
            config.ping_body_limit = ping_body_limit;
        })
        .unwrap();
        let writer = std::thread::spawn(|| writer.run());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let base = format!("http://{address}");
        let mut config = http_config(&base);
        change(&mut config);
        let base = config.base_url.as_str().to_owned();
        let (stop, stopped) = watch::channel(false);
        let http_task = tokio::spawn(
            http::HttpServer::new(handle.clone(), blocking_threads(), config).serve(
                listener,
                tls,
                Default::default(),
                stopped,
            ),
        );
        let main = new_project(&handle, "main").await;
        Self {
            clock,
            handle,
            base,
            main,
            address,
            stop,
            http_task,
            writer: Some(writer),
        }
    }

    /// Sends a request on a connection of its own and reads the answer.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> TestResponse {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
        headers
            .iter()
            .for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        if !body.is_empty() || ["POST", "PUT"].contains(&method) {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.raw(&[head.as_bytes(), body].concat()).await
    }

    /// Sends bytes unchanged and reads one answer up to the end of the connection.
    pub async fn raw(&self, bytes: &[u8]) -> TestResponse {
        let mut stream = self.connect().await;
        // The server may have answered and closed before it has read everything.
        let _ = stream.write_all(bytes).await;
        let answer = read_response(stream).await;
        // hyper answers an invalid request without a body.
        let may_be_sniffed = answer.header("X-Content-Type-Options") != Some("nosniff");
        assert!(
            !may_be_sniffed || answer.body.is_empty() && matches!(answer.status, 400 | 431),
            "{answer:?}"
        );
        answer
    }

    /// A connection on which nothing has been sent.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        self.send("GET", path, &[], b"").await
    }

    /// Sends a request to the API with the main project's read-write key; `body` is JSON text, or
    /// empty.
    pub async fn api(&self, method: &str, path: &str, body: &str) -> TestResponse {
        self.send(
            method,
            &format!("/api/v3{path}"),
            &[("X-Api-Key", &self.main.read_write_key)],
            body.as_bytes(),
        )
        .await
    }

    /// Sends a request to an address below `/api/overdue/v1`.
    pub async fn extension_api(&self, method: &str, path: &str, body: &str) -> TestResponse {
        self.send(
            method,
            &format!("/api/overdue/v1{path}"),
            &[("X-Api-Key", &self.main.read_write_key)],
            body.as_bytes(),
        )
        .await
    }

    /// Answers every channel test with this result, in place of the notifier.
    pub fn answer_tests(&self, result: ChannelTestResult) {
        let handle = self.handle.clone();
        tokio::spawn(async move {
            loop {
                handle.wait_for_outgoing().await;
                while let Some(trial) = handle.next_channel_test() {
                    let _ = trial.reply.send(result.clone());
                }
            }
        });
    }

    /// Creates a check and returns it as the API shows it.
    pub async fn create_check(&self, body: serde_json::Value) -> serde_json::Value {
        let answer = self.api("POST", "/checks/", &body.to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    /// Stops the server cleanly.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        (&mut self.http_task).await.unwrap();
        self.handle.close();
        let writer = self.writer.take().unwrap();
        assert_eq!(
            tokio::task::spawn_blocking(|| writer.join().unwrap())
                .await
                .unwrap(),
            engine::WriterExit::Closed
        );
    }
}

impl Drop for TestServer {
    /// A failed test leaves no writer behind.
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Threads for slow work.
pub fn blocking_threads() -> Arc<BlockingThreads> {
    Arc::new(BlockingThreads::start(2).unwrap())
}

/// HTTP configuration without a request limit, which trusts every proxy.
pub fn http_config(base_url: &str) -> http::HttpConfig {
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let api_rate = http::ApiRate::UNLIMITED;
    let connections_per_address = usize::MAX;
    let dashboard = dashboard::DashboardConfig::new(dashboard::AuthMode::None);
    http::HttpConfig {
        base_url: base_url.parse().unwrap(),
        trusted_proxies,
        site_name: "Ünit checks".into(),
        api_rate,
        dashboard,
        connections_per_address,
        access_log: false,
        metrics_token: None,
        instance: None,
        other_endpoints: Some(overdue::server::ADMIN_DESCRIPTION),
    }
}

/// Creates a project with one key of each access.
pub async fn new_project(handle: &Handle, name: &str) -> TestProject {
    let random = handle.random();
    let CommandOutcome::Project(project) = handle
        .call(create_project(random, name, 100))
        .await
        .unwrap()
        .unwrap()
    else {
        panic!("no project");
    };
    let rw = random.url_safe::<32>();
    let ro = random.url_safe::<32>();
    let ping = random.url_safe::<22>();
    let hash = |key: &str| SecretHash::of(key.as_bytes());
    for secret in [
        KeySecret::ReadWrite(hash(&rw)),
        KeySecret::ReadOnly(hash(&ro)),
        KeySecret::Ping(PingKey::parse(&ping).unwrap()),
    ] {
        let key = NewKey {
            project: project.id,
            secret,
            label: KeyLabel::default(),
            hint: "".into(),
        };
        handle
            .call(Command::CreateKey(Box::new(key)))
            .await
            .unwrap()
            .unwrap();
    }
    TestProject {
        id: project.id,
        read_write_key: rw,
        read_only_key: ro,
        ping_key: ping,
    }
}

/// Reads one answer up to the end of the connection.
pub async fn read_response(mut stream: impl AsyncRead + Unpin) -> TestResponse {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    parse_response(&bytes)
}

fn parse_response(answer: &[u8]) -> TestResponse {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(answer)));
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers = lines
        .map(|line| {
            line.split_once(": ")
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .unwrap()
        })
        .collect();
    let mut answer = TestResponse {
        status,
        headers,
        body: answer[end + 4..].to_vec(),
    };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = decode_chunks(&answer.body);
    }
    answer
}

/// Decodes a chunked body, which must be complete.
fn decode_chunks(mut chunks: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = chunks
            .windows(2)
            .position(|window| window == b"\r\n")
            .expect("a line");
        let length =
            usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        let rest = &chunks[end + 2..];
        if length == 0 && !rest.is_empty() {
            return content;
        }
        content.extend_from_slice(&rest[..length]);
        chunks = &rest[length + 2..];
    }
}

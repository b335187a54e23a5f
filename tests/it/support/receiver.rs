//! An HTTP server that records requests and answers by a script, including invalid answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Maximum time that a test waits for an event.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A recorded request.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    /// Target of the request line.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Number of its connection, from 0.
    pub connection: usize,
}

impl ReceivedRequest {
    /// Returns a header. `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Reaction to a complete request.
#[derive(Clone, Debug)]
pub enum ResponseAction {
    Answer(Reply),
    /// Sends these bytes unchanged and closes the connection.
    Raw(&'static [u8]),
    /// Closes the connection without an answer.
    Reset,
    /// Sends nothing until the client closes the connection.
    Silence,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Delay before the head and before the body.
    pub wait: Duration,
    pub wait_for_body: Duration,
    /// The body never ends.
    pub endless: bool,
}

impl ResponseAction {
    pub fn status(status: u16) -> Self {
        Self::Answer(Reply {
            status,
            ..Reply::default()
        })
    }

    pub fn redirect(status: u16, location: &str) -> Self {
        Self::Answer(Reply {
            status,
            headers: vec![("Location", location.to_owned())],
            ..Reply::default()
        })
    }
}

/// The server. It ends with the runtime of the test.
pub struct Receiver {
    pub address: SocketAddr,
    scheme: &'static str,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    request_received: Arc<Notify>,
    actions: Arc<Mutex<Vec<ResponseAction>>>,
}

/// Chooses the reaction to a request.
type Route = dyn Fn(&ReceivedRequest) -> ResponseAction + Send + Sync;

struct Script {
    actions: Arc<Mutex<Vec<ResponseAction>>>,
    /// Replaces the list of actions.
    route: Option<Box<Route>>,
    tls: Option<TlsAcceptor>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    request_received: Arc<Notify>,
}

impl Receiver {
    /// Answers the first request with the first action and so on. The last action is for all
    /// further requests.
    pub async fn start(actions: impl Into<Vec<ResponseAction>>) -> Self {
        Self::begin(actions.into(), None, None).await
    }

    /// Answers each request by a function.
    pub async fn start_with_route(
        route: impl Fn(&ReceivedRequest) -> ResponseAction + Send + Sync + 'static,
    ) -> Self {
        Self::begin(Vec::new(), Some(Box::new(route)), None).await
    }

    pub async fn start_tls(actions: impl Into<Vec<ResponseAction>>, tls: TlsAcceptor) -> Self {
        Self::begin(actions.into(), None, Some(tls)).await
    }

    async fn begin(
        actions: Vec<ResponseAction>,
        route: Option<Box<Route>>,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap(),
            scheme: if tls.is_some() { "https" } else { "http" },
            requests: Arc::default(),
            request_received: Arc::default(),
            actions: Arc::new(Mutex::new(actions)),
        };
        let script = Arc::new(Script {
            actions: Arc::clone(&receiver.actions),
            route,
            tls,
            requests: Arc::clone(&receiver.requests),
            request_received: Arc::clone(&receiver.request_received),
        });
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let script = Arc::clone(&script);
                tokio::spawn(async move {
                    match script.tls.clone() {
                        None => script.serve(stream, connection).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => script.serve(stream, connection).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        receiver
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Returns the URL with another host in place of the address.
    pub fn url_at(&self, host: &str, path: &str) -> String {
        format!("{}://{host}:{}{path}", self.scheme, self.address.port())
    }

    /// Sets the action for all further requests.
    pub fn act(&self, act: ResponseAction) {
        *self.actions.lock().unwrap() = vec![act];
    }

    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits for `count` requests and returns all.
    pub async fn wait_for(&self, count: usize) -> Vec<ReceivedRequest> {
        let all = async {
            loop {
                let request_received = self.request_received.notified();
                if self.requests().len() >= count {
                    return self.requests();
                }
                request_received.await;
            }
        };
        timeout(TIMEOUT, all)
            .await
            .unwrap_or_else(|_| panic!("{count} requests were expected: {:?}", self.requests()))
    }
}

impl Script {
    /// Serves a connection to its end.
    async fn serve(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        connection: usize,
    ) -> Option<()> {
        loop {
            let request = read(&mut stream, connection).await?;
            let act = {
                let mut all = self.requests.lock().unwrap();
                let routed = self.route.as_ref().map(|route| route(&request));
                all.push(request);
                let actions = self.actions.lock().unwrap();
                routed.unwrap_or_else(|| actions[(all.len() - 1).min(actions.len() - 1)].clone())
            };
            self.request_received.notify_waiters();
            match act {
                ResponseAction::Answer(reply) => reply.write(&mut stream).await?,
                ResponseAction::Raw(bytes) => {
                    stream.write_all(bytes).await.ok()?;
                    return stream.shutdown().await.ok();
                }
                ResponseAction::Reset => return None,
                ResponseAction::Silence => {
                    let _ = stream.read(&mut [0]).await;
                    return None;
                }
            }
        }
    }
}

impl Reply {
    async fn write(&self, stream: &mut (impl AsyncWrite + Unpin)) -> Option<()> {
        sleep(self.wait).await;
        let mut head = format!("HTTP/1.1 {} whatever\r\n", self.status);
        self.headers
            .iter()
            .for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        if !self.endless && self.status != 204 {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        stream
            .write_all(format!("{head}\r\n").as_bytes())
            .await
            .ok()?;
        sleep(self.wait_for_body).await;
        stream.write_all(&self.body).await.ok()?;
        if self.endless {
            while stream.write_all(&[b'x'; 1000]).await.is_ok() {}
            return None;
        }
        stream.flush().await.ok()
    }
}

/// Reads a request; `None` at the end of the connection.
async fn read(stream: &mut (impl AsyncRead + Unpin), connection: usize) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    // Headers are Latin-1.
    let text: String = bytes[..head].iter().map(|byte| char::from(*byte)).collect();
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let method = words.next()?;
    let target = words.next()?;
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request = ReceivedRequest {
        method,
        target,
        headers,
        body: bytes.split_off(head),
        connection,
    };
    let length = request
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    while request.body.len() < length {
        if stream.read_buf(&mut request.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(request)
}

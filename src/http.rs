//! HTTP server: accepts connections within limits, parses requests into typed ones, and drains
//! connections at shutdown.

mod access_log;
pub mod api;
mod badge;
pub(crate) mod common;
mod connection_activity;
mod connection_limit;
pub mod dashboard;
mod header_limit;
mod instance;
mod metrics;
mod ping;
mod routes;
mod slow_client;
mod tls;
mod unsubscribe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::domain::ping::PingScheme;
use crate::domain::project::SecretHash;
use crate::engine::Handle;
use crate::http::common::client_address::{self, Peer};
use crate::http::common::connection_state::{ClientWait, ConnectionState};
pub use crate::http::common::ping_path::creating_ping_url;
use crate::http::common::reply::{self, HttpError};
pub use crate::http::common::request::{BaseUrl, BaseUrlError};
use crate::http::common::request_body::{BodyBudget, IncomingBody};
use crate::http::common::response_body::ResponseWriter;
use crate::http::common::work_owner::WorkOwner;
use crate::metrics::ConnectionProtocol;
use crate::runtime::accept::{ClientListener, accept_connections, wait_for_stop};
use crate::runtime::blocking_threads::BlockingThreads;
use crate::runtime::runtime_threads::{MovableConnection as _, RuntimeThreads};
use crate::util::byte_budget::ByteBudget;
use access_log::AccessLogEntry;
pub use api::{OpenApiParts, check_renderer};
use connection_activity::ConnectionActivity;
use connection_limit::ConnectionLimit;
use header_limit::{HEADER_BUDGET_BYTES, HeaderLimit, HeaderReader};
pub use instance::InstanceAccess;
pub(crate) use routes::begins_stale_read;
use slow_client::MinRateWriter;
pub(crate) use slow_client::linger;
pub(crate) use tls::HANDSHAKE_RECORD;
use tls::HttpConnection;
pub use tls::{ALPN_PROTOCOLS, HttpTls};
pub use unsubscribe::unsubscribe_links;

/// Configuration of the HTTP server, set once at start.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Public base URL of the service; URLs in responses begin with it.
    pub base_url: BaseUrl,
    /// Proxies whose `X-Forwarded-For`, `X-Forwarded-Proto` and `Forwarded` headers are trusted.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Name of the site, shown on the badge of a whole project.
    pub site_name: Box<str>,
    /// Rate limit of each API key.
    pub api_rate: ApiRate,
    /// Configuration of the dashboard.
    pub dashboard: dashboard::DashboardConfig,
    /// Maximum number of simultaneous connections from one address. An IPv6 network of 64 bits
    /// counts as one address. Trusted proxies have no such limit.
    pub connections_per_address: usize,
    /// True to log each request.
    pub access_log: bool,
    /// Hash of the token for `/metrics`; `None` turns the endpoint off.
    pub metrics_token: Option<SecretHash>,
    /// Access to the endpoints for the whole server; `None` turns them off.
    pub instance: Option<InstanceAccess>,
    /// Description of endpoints that another listener serves.
    pub other_endpoints: Option<OpenApiParts>,
}

/// Rate limit of each API key: see [limits](crate::docs::limits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApiRate {
    /// Requests a minute; 0 for no limit.
    pub per_minute: u32,
    /// Requests at once after a pause; 0 counts as 1.
    pub burst: u32,
}

impl ApiRate {
    /// No limit.
    pub const UNLIMITED: Self = Self {
        per_minute: 0,
        burst: 0,
    };
}

/// Maximum number of simultaneous connections. When it is reached, a new connection replaces one
/// that waits for its client. If none waits, or the addresses of the waiting ones have fewer
/// connections than the new one's address, the new one gets 503.
pub const MAX_CONNECTIONS: usize = 4096;
/// Maximum number of connections to the metrics listener. Further ones wait to be accepted.
const MAX_METRICS_CONNECTIONS: usize = 16;
/// Time within which a client must send the header of its next request. Otherwise the connection is
/// closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which a stop waits for the first bytes of an accepted connection, which the next server
/// process cannot take over.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time within which an idle connection must end to make room for a new one.
const IDLE_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Time after which a connection is closed if its client reads nothing of a response.
pub(crate) const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of a request's header. hyper reads in steps, so some longer headers pass. Headers
/// of twice this size are answered with 431.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Time within which the database must answer a health check.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length in bytes of a body that is processed on the threads that answer pings.
const MAX_INLINE_BYTES: usize = 4 << 10;

/// HTTP server, shared by all requests. Cheap to clone.
#[derive(Clone)]
pub struct HttpServer(Arc<ServerState>);

/// Properties of a connection, known before its first request.
#[derive(Clone, Copy)]
struct ConnectionInfo {
    peer: Peer,
    allowed_routes: AllowedRoutes,
    /// True if another machine of the cluster accepted it.
    is_forwarded: bool,
}

/// Routes that a connection may use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowedRoutes {
    All,
    /// The connection should be encrypted, and is not.
    HealthOnly,
    /// The connection came to the listener for metrics only.
    MetricsOnly,
}

pub(crate) struct ServerState {
    pub(crate) handle: Handle,
    pub(crate) response_writer: ResponseWriter,
    pub(crate) config: HttpConfig,
    pub(crate) api: api::ApiState,
    body_budget: BodyBudget,
    header_budget: ByteBudget,
    badge_counts: Arc<badge::BadgeCountCache>,
    /// Dashboard, if it is enabled.
    dashboard: Option<Arc<dashboard::DashboardState>>,
    connection_limit: Arc<ConnectionLimit>,
}

impl HttpServer {
    /// Creates a server for this engine. Slow work runs on these threads.
    pub fn new(handle: Handle, blocking: Arc<BlockingThreads>, config: HttpConfig) -> Self {
        Self::with_connection_limit(handle, blocking, config, MAX_CONNECTIONS)
    }

    fn with_connection_limit(
        handle: Handle,
        blocking: Arc<BlockingThreads>,
        config: HttpConfig,
        max_connections: usize,
    ) -> Self {
        let connection_limit = Arc::new(ConnectionLimit::new(
            max_connections,
            config.connections_per_address,
        ));
        let api = api::ApiState::new(&config);
        let response_writer = ResponseWriter::new(blocking);
        let dashboard = config.dashboard.is_enabled.then(|| {
            dashboard::DashboardState::new(
                handle.clone(),
                response_writer.clone(),
                config.dashboard.clone(),
                config.base_url.clone(),
                &config.trusted_proxies,
            )
        });
        Self(Arc::new(ServerState {
            handle,
            response_writer,
            dashboard,
            config,
            api,
            body_budget: BodyBudget::new(),
            header_budget: ByteBudget::new(HEADER_BUDGET_BYTES),
            badge_counts: Arc::default(),
            connection_limit,
        }))
    }

    /// Serves connections until `stop` holds true, encrypted ones if there is `tls`. Then open
    /// connections may finish, within five seconds.
    pub async fn serve(
        self,
        listener: impl ClientListener,
        tls: Option<Arc<HttpTls>>,
        threads: Arc<RuntimeThreads>,
        stop: watch::Receiver<bool>,
    ) {
        let is_forwarded = listener.is_forwarded();
        // No limit here: a connection without a free slot is accepted and gets an error.
        accept_connections(
            "HTTP",
            listener,
            usize::MAX,
            stop.clone(),
            |(stream, peer)| {
                let exempt = client_address::is_trusted(peer.ip(), &self.0.config.trusted_proxies);
                let Some(mut permit) = self
                    .0
                    .connection_limit
                    .admit((!exempt).then_some(peer.ip()))
                else {
                    self.0
                        .handle
                        .metrics()
                        .record_rejected_connection(ConnectionProtocol::Http);
                    send_overloaded(&stream);
                    return None;
                };
                let open_guard = self
                    .0
                    .handle
                    .metrics()
                    .record_connection(ConnectionProtocol::Http);
                let server = self.clone();
                let tls = tls.clone();
                let threads = Arc::clone(&threads);
                let stop = stop.clone();
                Some(async move {
                    if !permit.wait_for_slot().await {
                        return send_overloaded(&stream);
                    }
                    let state = Arc::clone(&permit.connection);
                    let done = match tls {
                        None => {
                            let info = ConnectionInfo {
                                peer: Peer {
                                    address: peer,
                                    scheme: PingScheme::Http,
                                },
                                allowed_routes: AllowedRoutes::All,
                                is_forwarded,
                            };
                            let handle_stream = move |stream: TcpStream| {
                                server.serve_connection(stream, info, state, stop)
                            };
                            async { threads.run(stream.detach()?, handle_stream).await }.await
                        }
                        // Boxed: it is many times as large as the future of a connection without
                        // TLS.
                        Some(tls) => {
                            let client = (peer, is_forwarded);
                            Box::pin(server.serve_tls(&tls, stream, client, state, &threads, stop))
                                .await
                        }
                    };
                    drop(open_guard);
                    if let Err(error) = done {
                        tracing::warn!("handover of a connection to its thread failed: {error}");
                    }
                })
            },
        )
        .await;
    }

    /// Serves connections to the metrics listener, without a key, until `stop` holds true.
    pub async fn serve_metrics(
        self,
        listener: impl ClientListener,
        threads: Arc<RuntimeThreads>,
        stop: watch::Receiver<bool>,
    ) {
        accept_connections(
            "metrics",
            listener,
            MAX_METRICS_CONNECTIONS,
            stop.clone(),
            |(stream, address)| {
                let server = self.clone();
                let threads = Arc::clone(&threads);
                let stop = stop.clone();
                Some(async move {
                    let info = ConnectionInfo {
                        peer: Peer {
                            address,
                            scheme: PingScheme::Http,
                        },
                        allowed_routes: AllowedRoutes::MetricsOnly,
                        is_forwarded: false,
                    };
                    let handle_stream = move |stream: TcpStream| {
                        server.serve_connection(stream, info, Arc::default(), stop)
                    };
                    let done = async { threads.run(stream.detach()?, handle_stream).await }.await;
                    if let Err(error) = done {
                        tracing::warn!("handover of a connection to its thread failed: {error}");
                    }
                })
            },
        )
        .await;
    }

    /// Responds to a request with the headers of every reply, and logs it.
    async fn respond_logged(
        &self,
        request: hyper::Request<IncomingBody<'_>>,
        info: ConnectionInfo,
        activity: &ConnectionActivity,
    ) -> reply::HttpReply {
        let ServerState { config, handle, .. } = &*self.0;
        let log_entry = config
            .access_log
            .then(|| Box::new(AccessLogEntry::from_request(&request, &self.0, info.peer)));
        let busy = activity.begin_request();
        let mut reply = self.respond(request, info).await;
        if !handle.may_answer() {
            reply = HttpError::Unavailable.to_text();
        }
        if let Some(as_of) = handle.as_of() {
            reply = reply::with_as_of(reply, as_of);
        }
        reply = reply::with_nosniff(reply);
        drop(busy);
        if reply.body().is_endless() {
            activity.mark_endless();
        }
        if let Some(log_entry) = log_entry {
            log_entry.log(&reply, &self.0);
        }
        reply
    }

    async fn serve_connection<C: HttpConnection>(
        self,
        mut stream: C,
        info: ConnectionInfo,
        connection_state: Arc<ConnectionState>,
        mut stop: watch::Receiver<bool>,
    ) {
        // A response is written in one piece. Nagle's algorithm would only delay it.
        stream.with_socket(|socket| {
            let _ = socket.set_nodelay(true);
            close_unread(socket, UNREAD_TIMEOUT);
        });
        let activity = ConnectionActivity::default();
        let lingers = AtomicBool::new(false);
        let (reading, writing) = stream.split();
        let connection_state = &connection_state;
        let mut closed_while = None;
        let header_limit = HeaderLimit::new(&self.0.header_budget, connection_state);
        let service = service_fn(async |request: hyper::Request<Incoming>| {
            connection_state.begin_request();
            header_limit.finish_header();
            let request = request.map(|body| IncomingBody::new(body, connection_state));
            let mut reply = self.respond_logged(request, info, &activity).await;
            reply.body_mut().keep_busy(connection_state);
            if reply::closes_connection(&reply) {
                lingers.store(true, Ordering::Relaxed);
            }
            Ok::<_, std::convert::Infallible>(reply)
        });
        let ended = {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                // A client may close its sending side after the request, as `nc -N` does. It still
                // reads the response.
                .half_close(true)
                // No `pipeline_flush`: with it the response to a request that cannot be parsed is
                // never sent.
                .max_buf_size(MAX_HEADER_BYTES)
                .serve_connection(
                    TokioIo::new(tokio::io::join(
                        HeaderReader::new(reading, &header_limit),
                        MinRateWriter::new(writing, &activity, connection_state),
                    )),
                    service,
                );
            tokio::pin!(connection);
            tokio::select! {
                // A request that has arrived is handled before the connection ends for another.
                biased;
                ended = connection.as_mut() => ended,
                () = wait_for_stop(&mut stop) => {
                    // hyper would close it at once, but a new client is about to send a request.
                    let wait = if header_limit.is_awaiting_first_byte() {
                        FIRST_BYTE_TIMEOUT
                    } else {
                        Duration::ZERO
                    };
                    tokio::select! {
                        biased;
                        ended = connection.as_mut() => ended,
                        () = tokio::time::sleep(wait) => {
                            connection.as_mut().graceful_shutdown();
                            tokio::select! {
                                ended = connection.as_mut() => ended,
                                () = activity.wait_until_quiet() => return,
                            }
                        }
                    }
                }
                client_wait = connection_state.wait_for_close_request() => {
                    closed_while = Some(client_wait);
                    if client_wait == ClientWait::Request {
                        connection.as_mut().graceful_shutdown();
                        // It might be waiting for the rest of a header.
                        tokio::time::timeout(IDLE_CLOSE_TIMEOUT, connection).await.unwrap_or(Ok(()))
                    } else {
                        Ok(())
                    }
                }
            }
        };
        let is_refused = header_limit.is_over_budget.load(Ordering::Relaxed);
        match closed_while {
            Some(ClientWait::ResponseRead) => {
                stream.with_socket(slow_client::discard_unsent_on_close);
            }
            Some(ClientWait::Body) => stream.send_last(reply::OVERLOADED_RESPONSE).await,
            _ if is_refused => stream.send_last(reply::OVERLOADED_RESPONSE).await,
            _ => {}
        }
        if is_refused || lingers.into_inner() || ended.as_ref().is_err_and(hyper::Error::is_parse) {
            slow_client::linger(&mut stream).await;
        }
        if let Err(error) = ended {
            tracing::debug!("a connection ended early: {error}");
        }
    }
}

/// Sends an overload response to a connection that gets no slot.
fn send_overloaded(stream: &TcpStream) {
    // A new connection accepts such a short response at once or not at all.
    let _ = stream.try_write(reply::OVERLOADED_RESPONSE.as_bytes());
}

/// Makes the kernel close a connection whose client reads nothing for this time (TCP_USER_TIMEOUT,
/// RFC 5482). hyper has no such limit.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn close_unread(stream: &TcpStream, time: Duration) {
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(time)) {
        tracing::debug!("cannot set the timeout for unread data of a connection: {error}");
    }
}

/// Does nothing: macOS and the BSDs have no such limit. There such a client keeps its slot until it
/// disconnects.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn close_unread(_: &TcpStream, _: Duration) {}

impl ServerState {
    /// True if the database answers and accepts writes.
    pub(crate) async fn is_healthy(&self) -> bool {
        let probing = self.handle.clone();
        let writer = self.response_writer.for_owner(WorkOwner::Server);
        let probe = writer.run_blocking(move || probing.probe().is_ok());
        self.handle.is_writable()
            && tokio::time::timeout(PROBE_TIMEOUT, probe).await == Ok(Ok(true))
    }

    /// Runs work on a body of this number of bytes: a short body on this thread, a longer one on a
    /// thread that no ping waits for.
    pub(crate) async fn run_sized<T: Send + 'static>(
        &self,
        bytes: usize,
        owner: WorkOwner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        if bytes <= MAX_INLINE_BYTES {
            Ok(work())
        } else {
            self.response_writer
                .for_owner(owner)
                .run_blocking(work)
                .await
        }
    }
}

#[cfg(test)]
mod tests;

//! The HTTP door: accepts connections within limits, turns requests into typed ones, and drains at shutdown.

pub mod api;
mod badge;
mod body;
mod client;
mod head;
mod line;
mod outgoing;
mod ping;
mod places;
mod reply;
mod request;
mod route;
mod traffic;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::accept::{accept, stopped};
use crate::blocking_threads::BlockingThreads;
use crate::connection_threads::ConnectionThreads;
use crate::engine::Handle;
pub use api::shown_checks;
use body::Arriving;
use client::Client;
use head::{Head, HeadBudget, Reading};
use line::{Line, Waits};
use outgoing::Outgoing;
use places::Places;
use reply::{Fault, Reply};
pub use request::{BaseUrl, BaseUrlError};
use route::Route;
pub use route::creating_ping_url;
use traffic::Traffic;
use wire::Paced;

/// What the door is told once, at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the service is reached; URLs in answers begin with it.
    pub base_url: BaseUrl,
    /// Peers whose `X-Forwarded-For`, `X-Forwarded-Proto` and `Forwarded` are believed.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// How often a key may ask.
    pub api_rate: ApiRate,
    /// Connections that one address may have at the same time, an IPv6 network of 64 bits counting as one. Trusted proxies may have all.
    pub connections_per_address: usize,
}

/// How often each API key may be used: see [limits](crate::docs::limits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApiRate {
    /// Requests a minute; 0: no limit.
    pub per_minute: u32,
    /// Requests at once after a pause; 0 counts as 1.
    pub burst: u32,
}

impl ApiRate {
    /// No limit.
    pub const UNLIMITED: Self = Self { per_minute: 0, burst: 0 };
}

/// Connections at the same time. When there are as many, one that waits for its client is closed for a new one. If there is none, or only
/// of addresses that have fewer than that of the new one, the new one is answered 503 and closed.
pub const MOST_CONNECTIONS: usize = 4096;
/// A connection that has not sent the header of a (next) request by then is closed.
const HEADER_TIME: Duration = Duration::from_secs(60);
/// How long an idle connection may take to end for a new one.
const LEAVE_TIME: Duration = Duration::from_millis(500);
/// A connection whose client takes nothing of an answer for so long is closed.
const UNREAD_TIME: Duration = Duration::from_secs(60);
/// Bytes of a request's header that are taken. hyper reads in steps, so some longer headers pass. Twice as many are answered 431.
const HEADER_BYTES: usize = 64 << 10;

/// A database that has not answered by then does not answer.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// Bytes that are worked on where pings are answered.
const FEW_BYTES: usize = 4 << 10;

/// What every request is answered from. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<Door>);

pub(crate) struct Door {
    pub(crate) handle: Handle,
    pub(crate) outgoing: Outgoing,
    pub(crate) config: Config,
    pub(crate) api: api::Api,
    budget: body::BodyBudget,
    heads: HeadBudget,
    counted: Arc<badge::Counted>,
    places: Arc<Places>,
}

impl Server {
    /// A door to this engine, which has what takes long done by these threads.
    pub fn new(handle: Handle, blocking: Arc<BlockingThreads>, config: Config) -> Self {
        Self::with_places(handle, blocking, config, MOST_CONNECTIONS)
    }

    fn with_places(handle: Handle, blocking: Arc<BlockingThreads>, config: Config, most: usize) -> Self {
        let places = Arc::new(Places::new(most, config.connections_per_address));
        let api = api::Api::new(&config);
        Self(Arc::new(Door {
            handle,
            outgoing: Outgoing::new(blocking),
            config,
            api,
            budget: body::BodyBudget::new(),
            heads: HeadBudget::new(),
            counted: Arc::default(),
            places,
        }))
    }

    /// Answers connections until `stop` holds true. Then those that are open may finish, within five seconds.
    pub async fn serve(self, listener: TcpListener, threads: Arc<ConnectionThreads>, stop: watch::Receiver<bool>) {
        // No limit here: a connection that finds no place is accepted and told so.
        accept("HTTP", listener, usize::MAX, stop.clone(), |(stream, peer)| {
            let exempt = client::is_trusted(peer.ip(), &self.0.config.trusted_proxies);
            let Some((guest, room)) = self.0.places.find((!exempt).then_some(peer.ip())) else {
                overload(&stream);
                return None;
            };
            let (server, threads, stop) = (self.clone(), Arc::clone(&threads), stop.clone());
            Some(async move {
                let Some(_place) = guest.take(room).await else { return overload(&stream) };
                let line = Arc::clone(&guest.line);
                if let Err(error) = threads.run(stream, move |stream| server.connection(stream, peer, line, stop)).await {
                    tracing::warn!("a connection could not be handed to its thread: {error}");
                }
            })
        })
        .await;
    }

    async fn connection(self, mut stream: TcpStream, peer: SocketAddr, line: Arc<Line>, mut stop: watch::Receiver<bool>) {
        // An answer is written in one piece. Nagle's algorithm would only delay it.
        let _ = stream.set_nodelay(true);
        close_unread(&stream, UNREAD_TIME);
        let (traffic, lingers) = (Traffic::default(), AtomicBool::new(false));
        let (reading, writing) = stream.split();
        let (line, mut ended_for) = (&line, None);
        let head = Head::new(&self.0.heads, line);
        let service = service_fn(async |request: hyper::Request<Incoming>| {
            line.begin();
            head.ends();
            let request = request.map(|body| Arriving::new(body, line));
            let mut reply = reply::never_sniffed(traffic.during(self.answer(request, peer)).await);
            reply.body_mut().keep_busy(line);
            if reply::leaves_body(&reply) {
                lingers.store(true, Ordering::Relaxed);
            }
            Ok::<_, std::convert::Infallible>(reply)
        });
        let ended = {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                // A client may close its sending side after the request, as `nc -N` does. It still reads the answer.
                .half_close(true)
                // No `pipeline_flush`: with it the answer to a request that cannot be parsed is never sent.
                .max_buf_size(HEADER_BYTES)
                .serve_connection(
                    TokioIo::new(tokio::io::join(Reading::new(reading, &head), Paced::new(writing, &traffic, line))),
                    service,
                );
            tokio::pin!(connection);
            tokio::select! {
                // A request that has come is seen before the connection makes room for another.
                biased;
                ended = connection.as_mut() => ended,
                () = stopped(&mut stop) => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = connection.as_mut() => ended,
                        () = traffic.quiet() => return,
                    }
                }
                waits = line.ended() => {
                    ended_for = Some(waits);
                    if waits == Waits::Request {
                        connection.as_mut().graceful_shutdown();
                        // It might be waiting for the rest of a header.
                        tokio::time::timeout(LEAVE_TIME, connection).await.unwrap_or(Ok(()))
                    } else {
                        Ok(())
                    }
                }
            }
        };
        let is_refused = head.is_refused.load(Ordering::Relaxed);
        match ended_for {
            Some(Waits::Taking) => wire::forget_unsent(&stream),
            Some(Waits::Body) => overload(&stream),
            _ if is_refused => overload(&stream),
            _ => {}
        }
        if is_refused || lingers.into_inner() || ended.as_ref().is_err_and(hyper::Error::is_parse) {
            wire::linger(&mut stream).await;
        }
        if let Err(error) = ended {
            tracing::debug!("a connection ended early: {error}");
        }
    }

    async fn answer(&self, request: hyper::Request<Arriving<'_>>, peer: SocketAddr) -> Reply {
        let door = &*self.0;
        let uri = request.uri();
        let path = door.config.base_url.inner_path(uri.path());
        // The API says in JSON, too, that there is no such path.
        let refused = |fault: Fault| if path.starts_with("/api/") { fault.json() } else { fault.plain() };
        if let Err(fault) = request::check(&request) {
            return refused(fault);
        }
        match Route::parse(path) {
            Some(Route::Ping(to)) => {
                let client = Client::of(request.headers(), peer, &door.config.trusted_proxies);
                ping::answer(door, to, request, client).await
            }
            Some(Route::Api(endpoint)) => api::answer(door, endpoint, request, peer).await,
            Some(Route::Own(resource)) => api::answer_own(door, resource, request, peer).await,
            Some(Route::OpenApi) => public(&request, async || Ok(reply::json(door.api.description.clone()))).await,
            Some(Route::Badge(badge)) => public(&request, async || badge::answer(door, badge).await).await,
            Some(Route::Health) if door.is_healthy().await => reply::text("OK"),
            Some(Route::Health) => Fault::Unavailable.plain(),
            None => refused(Fault::NotFound),
        }
    }
}

/// Tells a connection that there is no place for it.
fn overload(stream: &TcpStream) {
    // A fresh connection takes so little at once or not at all.
    let _ = stream.try_write(reply::OVERLOADED.as_bytes());
}

/// Has the system end a connection whose client takes nothing of what is sent for so long (TCP_USER_TIMEOUT, RFC 5482). hyper has no
/// such limit.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn close_unread(stream: &TcpStream, time: Duration) {
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(time)) {
        tracing::debug!("a connection has no limit for what is not read: {error}");
    }
}

/// macOS and the BSDs have no such limit. There such a client keeps its place until it goes.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn close_unread(_: &TcpStream, _: Duration) {}

/// Answers a request to what anyone may read and nobody change.
async fn public<B>(request: &hyper::Request<B>, read: impl AsyncFnOnce() -> Result<Reply, Fault>) -> Reply {
    let methods = "GET, HEAD, OPTIONS";
    let answer = match *request.method() {
        Method::GET | Method::HEAD => read().await,
        Method::OPTIONS => Ok(reply::no_content()),
        _ => Err(Fault::MethodNotAllowed(methods)),
    };
    reply::any_origin(answer.unwrap_or_else(|fault| fault.json()), methods)
}

impl Door {
    /// Whether the database answers and takes writes.
    pub(crate) async fn is_healthy(&self) -> bool {
        let probing = self.handle.clone();
        let probe = self.outgoing.run(move || probing.probe().is_ok());
        self.handle.is_writable() && tokio::time::timeout(PROBE_TIME, probe).await == Ok(Ok(true))
    }

    /// Works on so many bytes: here if they are few, otherwise where no ping waits for it.
    pub(crate) async fn work_on<T: Send + 'static>(&self, bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        if bytes <= FEW_BYTES { Ok(work()) } else { self.outgoing.run(work).await }
    }
}

#[cfg(test)]
mod tests;

//! The HTTP door: accepts connections within limits, turns requests into typed ones, and drains at shutdown.

mod access;
pub mod api;
mod badge;
mod head;
mod metrics;
mod pace;
mod ping;
mod places;
mod tls;
mod traffic;
mod unsubscribe;

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
use crate::connection_threads::{ConnectionThreads, Moves as _};
use crate::domain::ping::Scheme;
use crate::domain::project::KeyHash;
use crate::engine::Handle;
use crate::metrics::Door as Counted;
use crate::web;
use crate::wire::body::{Arriving, BodyBudget};
use crate::wire::client::{self, Client, Peer};
use crate::wire::line::{Line, Waits};
use crate::wire::outgoing::Outgoing;
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::request;
pub use crate::wire::request::{BaseUrl, BaseUrlError};
use crate::wire::route::Route;
pub use crate::wire::route::creating_ping_url;
use access::Asked;
pub use api::shown_checks;
use head::{Head, HeadBudget, Reading};
use pace::Paced;
use places::Places;
use tls::Connection;
pub use tls::{PROTOCOLS, Tls};
use traffic::Traffic;
pub use unsubscribe::unsubscribe_links;

/// What the door is told once, at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the service is reached; URLs in answers begin with it.
    pub base_url: BaseUrl,
    /// Peers whose `X-Forwarded-For`, `X-Forwarded-Proto` and `Forwarded` are believed.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Name of the site, which stands on the badge of a whole project.
    pub site_name: Box<str>,
    /// How often a key may ask.
    pub api_rate: ApiRate,
    /// The dashboard.
    pub web: web::Config,
    /// Connections that one address may have at the same time, an IPv6 network of 64 bits counting as one. Trusted proxies may have all.
    pub connections_per_address: usize,
    /// Whether each request is logged.
    pub access_log: bool,
    /// The hash of the token for `/metrics`; `None`: it is not there.
    pub metrics_token: Option<KeyHash>,
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
/// Connections to the address for metrics alone. More wait.
const METRICS_CONNECTIONS: usize = 16;
/// A connection that has not sent the header of a (next) request by then is closed.
const HEADER_TIME: Duration = Duration::from_secs(60);
/// How long a stop waits for the first bytes of a connection: the server that comes next never gets it.
const FIRST_TIME: Duration = Duration::from_secs(1);
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

/// What is known of a connection before its first request.
#[derive(Clone, Copy)]
struct Met {
    peer: Peer,
    takes: Takes,
}

/// What is answered on a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    All,
    /// It is not encrypted, and should be.
    Health,
    /// It came to the address that is for metrics alone.
    Metrics,
}

pub(crate) struct Door {
    pub(crate) handle: Handle,
    pub(crate) outgoing: Outgoing,
    pub(crate) config: Config,
    pub(crate) api: api::Api,
    budget: BodyBudget,
    heads: HeadBudget,
    counted: Arc<badge::Counted>,
    /// The dashboard, if there is one.
    site: Option<Arc<web::Site>>,
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
        let outgoing = Outgoing::new(blocking);
        let site = config.web.is_on.then(|| {
            web::Site::new(handle.clone(), outgoing.clone(), config.web.clone(), config.base_url.clone(), &config.trusted_proxies)
        });
        Self(Arc::new(Door {
            handle,
            outgoing,
            site,
            config,
            api,
            budget: BodyBudget::new(),
            heads: HeadBudget::new(),
            counted: Arc::default(),
            places,
        }))
    }

    /// Answers connections until `stop` holds true, encrypted ones if there is `tls`. Then those that are open may finish, within five
    /// seconds.
    pub async fn serve(self, listener: TcpListener, tls: Option<Arc<Tls>>, threads: Arc<ConnectionThreads>, stop: watch::Receiver<bool>) {
        // No limit here: a connection that finds no place is accepted and told so.
        accept("HTTP", listener, usize::MAX, stop.clone(), |(stream, peer)| {
            let exempt = client::is_trusted(peer.ip(), &self.0.config.trusted_proxies);
            let Some((guest, room)) = self.0.places.find((!exempt).then_some(peer.ip())) else {
                self.0.handle.metrics().turned_away(Counted::Http);
                overload(&stream);
                return None;
            };
            let open = self.0.handle.metrics().open(Counted::Http);
            let (server, tls, threads, stop) = (self.clone(), tls.clone(), Arc::clone(&threads), stop.clone());
            Some(async move {
                let Some(_place) = guest.take(room).await else { return overload(&stream) };
                let line = Arc::clone(&guest.line);
                let done = match tls {
                    None => {
                        let met = Met { peer: Peer { address: peer, scheme: Scheme::Http }, takes: Takes::All };
                        let answering = move |stream: TcpStream| server.connection(stream, met, line, stop);
                        async { threads.run(stream.leave()?, answering).await }.await
                    }
                    // In a box: it is many times as large as what a connection without TLS needs here.
                    Some(tls) => Box::pin(server.encrypted(&tls, stream, peer, line, &threads, stop)).await,
                };
                drop(open);
                if let Err(error) = done {
                    tracing::warn!("a connection could not be handed to its thread: {error}");
                }
            })
        })
        .await;
    }

    /// Answers connections to the address that is for metrics alone, without a key, until `stop` holds true.
    pub async fn serve_metrics(self, listener: TcpListener, threads: Arc<ConnectionThreads>, stop: watch::Receiver<bool>) {
        accept("metrics", listener, METRICS_CONNECTIONS, stop.clone(), |(stream, address)| {
            let (server, threads, stop) = (self.clone(), Arc::clone(&threads), stop.clone());
            Some(async move {
                let met = Met { peer: Peer { address, scheme: Scheme::Http }, takes: Takes::Metrics };
                let answering = move |stream: TcpStream| server.connection(stream, met, Arc::default(), stop);
                let done = async { threads.run(stream.leave()?, answering).await }.await;
                if let Err(error) = done {
                    tracing::warn!("a connection could not be handed to its thread: {error}");
                }
            })
        })
        .await;
    }

    async fn connection<C: Connection>(self, mut stream: C, met: Met, line: Arc<Line>, mut stop: watch::Receiver<bool>) {
        let peer = met.peer;
        // An answer is written in one piece. Nagle's algorithm would only delay it.
        stream.set_up(|socket| {
            let _ = socket.set_nodelay(true);
            close_unread(socket, UNREAD_TIME);
        });
        let (traffic, lingers) = (Traffic::default(), AtomicBool::new(false));
        let (reading, writing) = stream.halves();
        let (line, mut ended_for) = (&line, None);
        let head = Head::new(&self.0.heads, line);
        let service = service_fn(async |request: hyper::Request<Incoming>| {
            line.begin();
            head.ends();
            let asked = self.0.config.access_log.then(|| Box::new(Asked::of(&request, &self.0, peer)));
            let request = request.map(|body| Arriving::new(body, line));
            let busy = traffic.begin();
            let mut reply = reply::never_sniffed(self.answer(request, met).await);
            drop(busy);
            reply.body_mut().keep_busy(line);
            if reply.body().is_endless() {
                traffic.never_ends();
            }
            if let Some(asked) = asked {
                asked.tell(&reply, &self.0);
            }
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
                    // hyper would close it at once, but whoever has just connected is about to send a request.
                    let wait = if head.is_awaited() { FIRST_TIME } else { Duration::ZERO };
                    tokio::select! {
                        biased;
                        ended = connection.as_mut() => ended,
                        () = tokio::time::sleep(wait) => {
                            connection.as_mut().graceful_shutdown();
                            tokio::select! {
                                ended = connection.as_mut() => ended,
                                () = traffic.quiet() => return,
                            }
                        }
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
            Some(Waits::Taking) => stream.set_up(pace::forget_unsent),
            Some(Waits::Body) => stream.tell(reply::OVERLOADED).await,
            _ if is_refused => stream.tell(reply::OVERLOADED).await,
            _ => {}
        }
        if is_refused || lingers.into_inner() || ended.as_ref().is_err_and(hyper::Error::is_parse) {
            pace::linger(&mut stream).await;
        }
        if let Err(error) = ended {
            tracing::debug!("a connection ended early: {error}");
        }
    }

    async fn answer(&self, request: hyper::Request<Arriving<'_>>, Met { peer, takes }: Met) -> Reply {
        let door = &*self.0;
        let uri = request.uri();
        let path = door.config.base_url.inner_path(uri.path());
        // The API says in JSON, too, that there is no such path.
        let refused = |fault: Fault| if path.starts_with("/api/") { fault.json() } else { fault.plain() };
        if let Err(fault) = request::check(&request) {
            return refused(fault);
        }
        if takes != Takes::All {
            return match (takes, Route::parse(path)) {
                (Takes::Metrics, Some(Route::Metrics)) => Box::pin(metrics::of_server(door, &request, true)).await,
                (Takes::Health, Some(Route::Health)) => Box::pin(health(door)).await,
                (Takes::Health, _) => refused(Fault::BadRequest("this address takes https:// URLs only".into())),
                _ => refused(Fault::NotFound),
            };
        }
        match Route::parse(path) {
            Some(Route::Ping(to)) => {
                let client = Client::of(request.headers(), peer, &door.config.trusted_proxies);
                ping::answer(door, to, request, client).await
            }
            // In boxes: hyper moves the future of a request several times, and that of a ping would be as large as the largest here.
            Some(Route::Api(endpoint)) => Box::pin(api::answer(door, endpoint, request, peer)).await,
            Some(Route::Own(resource)) => Box::pin(api::answer_own(door, resource, request, peer)).await,
            Some(Route::OpenApi) => public(&request, async || Ok(reply::json(door.api.description.clone()))).await,
            Some(Route::Badge(badge)) => Box::pin(public(&request, async || badge::answer(door, badge).await)).await,
            Some(Route::Unsubscribe(channel, signature)) => {
                let answer = Box::pin(unsubscribe::answer(door, request.method(), channel, &signature)).await;
                answer.unwrap_or_else(|fault| fault.plain())
            }
            Some(Route::Health) => Box::pin(health(door)).await,
            Some(Route::Metrics) => Box::pin(metrics::of_server(door, &request, false)).await,
            Some(Route::ProjectMetrics(project, key)) => Box::pin(metrics::of_project(door, project, key, &request, peer)).await,
            None => {
                let Some(site) = &door.site else { return refused(Fault::NotFound) };
                match web::Target::parse(path).or_else(|| web::Target::parse(uri.path())) {
                    Some(target) => Box::pin(web::answer(site, &door.budget, target, request, peer)).await,
                    None => web::not_found(site, request.headers(), peer).unwrap_or_else(|| refused(Fault::NotFound)),
                }
            }
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

async fn health(door: &Door) -> Reply {
    if door.is_healthy().await { reply::text("OK") } else { Fault::Unavailable.plain() }
}

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

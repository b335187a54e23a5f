//! Connections of the admin socket. One request follows another. A client that neither sends a
//! request nor takes its reply is disconnected after a time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE, TRAILER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{CONTROLS, utf8_percent_encode};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::context::AdminContext;
use super::deadline::Deadline;
use super::encoding::EncodedRequest;
use super::error::AdminError;
use super::reply::ReplyBody;
use super::routes::{self, AdminRoute, AdminSource, RouteMatch};
use super::{BASE_PATH, FAILURE_TRAILER, VERSION, VERSION_HEADER, version_mismatch};
use crate::runtime::accept::wait_for_stop;

/// Time in which a client must send a request. It is shorter than the time for which a client waits
/// to be accepted, so idle connections do not make other clients fail.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which a client with an open import must send a request. It is longer, because the client
/// reads its source meanwhile.
const IMPORT_REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum bytes of a header, and approximate maximum bytes of a reply that are buffered.
const MAX_BUFFER_BYTES: usize = 64 << 10;

/// Answers the requests of a connection.
pub(super) async fn serve_connection(
    stream: UnixStream,
    context: AdminContext,
    mut stop: watch::Receiver<bool>,
) {
    let context = Arc::new(context);
    let deadline = Deadline::new(REQUEST_TIMEOUT);
    let service = service_fn(|request| {
        let context = Arc::clone(&context);
        let deadline = deadline.clone();
        async move { Ok::<_, Infallible>(respond(&context, request, deadline).await) }
    });
    let connection = http1::Builder::new()
        // An operation is carried out even if the client does not wait for its result.
        .half_close(true)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let expired = deadline.wait(stop.clone());
    tokio::pin!(expired);
    let ended = tokio::select! {
        // A request that has arrived is handled before the connection ends.
        biased;
        ended = connection.as_mut() => ended,
        () = expired.as_mut() => return,
        () = wait_for_stop(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = expired => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection of the admin socket ended early: {error}");
    }
}

/// Answers a request. After it, the client has the time for the reply, and then for its next
/// request.
async fn respond(
    context: &Arc<AdminContext>,
    request: Request<Incoming>,
    deadline: Deadline,
) -> Response<TimedBody> {
    let takes_trailers = accepts_trailers(request.headers());
    let mut allow = None;
    let mut client_timeout = REQUEST_TIMEOUT;
    let path = request.uri().path().strip_prefix(BASE_PATH);
    let source = AdminSource::Socket;
    let result = match routes::find(source, request.method(), path.unwrap_or_default()) {
        RouteMatch::Found(route, parameters) => {
            client_timeout = route.client_timeout;
            run(context, route, parameters, request, &deadline).await
        }
        RouteMatch::OtherMethods(methods) => {
            allow = HeaderValue::from_str(&methods).ok();
            Err(AdminError::other_methods(&methods))
        }
        RouteMatch::None => Err(AdminError::no_endpoint()),
    };
    let (status, body) = result.map_or_else(
        |error| (error.status(), ReplyBody::json(error.to_json())),
        |body| match body.length() {
            Some(0) => (StatusCode::NO_CONTENT, body),
            _ => (StatusCode::OK, body),
        },
    );
    deadline.begin(client_timeout);
    let body = TimedBody {
        takes_trailers: takes_trailers && body.length().is_none(),
        body,
        context: Arc::clone(context),
        deadline,
        client_timeout,
    };
    let mut response = new_response(status, body);
    response
        .headers_mut()
        .extend(allow.map(|methods| (ALLOW, methods)));
    response
}

fn new_response(status: StatusCode, body: TimedBody) -> Response<TimedBody> {
    let media_type = body.body.media_type().map(HeaderValue::from_static);
    let trailer = body
        .takes_trailers
        .then_some(HeaderValue::from_static(FAILURE_TRAILER));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
    headers.extend(media_type.map(|media_type| (CONTENT_TYPE, media_type)));
    headers.extend(trailer.map(|trailer| (TRAILER, trailer)));
    response
}

/// Reads the rest of a request and carries it out.
async fn run(
    context: &AdminContext,
    route: &AdminRoute,
    parameters: Vec<(&'static str, String)>,
    request: Request<Incoming>,
    deadline: &Deadline,
) -> Result<ReplyBody, AdminError> {
    let version = request.headers().get(VERSION_HEADER);
    if let Some(version) = version.filter(|version| *version != VERSION) {
        let version = String::from_utf8_lossy(version.as_bytes());
        return Err(AdminError::invalid(version_mismatch(&version)));
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = Limited::new(request.into_body(), route.max_bytes);
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(AdminError::too_long(route.max_bytes));
        }
        Err(_) => return Err(AdminError::invalid("the body of the request is incomplete")),
    };
    deadline.end();
    let request = EncodedRequest {
        parameters,
        query,
        body,
    };
    (route.run)(context, request).await
}

fn accepts_trailers(headers: &HeaderMap) -> bool {
    headers.get(TE).is_some_and(|codings| codings == "trailers")
}

/// Body of a response, which is generated as fast as the client takes it.
struct TimedBody {
    body: ReplyBody,
    context: Arc<AdminContext>,
    deadline: Deadline,
    /// Time in which the client must take a chunk.
    client_timeout: Duration,
    takes_trailers: bool,
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let chunk = self.body.poll_chunk(context);
        if chunk.is_pending() {
            // The client waits for the server.
            self.deadline.end();
        } else {
            self.deadline.begin(self.client_timeout);
        }
        chunk.map(|chunk| {
            chunk.map(|chunk| match chunk {
                Ok(chunk) => Ok(Frame::data(chunk)),
                Err(reason) => self.failure(reason),
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.length() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .length()
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl TimedBody {
    /// Ends a stream that cannot be completed: with the reason as a trailer, or by closing the
    /// connection, so that the client notices it.
    fn failure(&self, reason: String) -> Result<Frame<Bytes>, String> {
        tracing::warn!("a reply on the admin socket ended early: {reason}");
        let text = utf8_percent_encode(&reason, CONTROLS).to_string();
        match HeaderValue::from_str(&text) {
            Ok(text) if self.takes_trailers => {
                let name = HeaderName::from_static(FAILURE_TRAILER);
                Ok(Frame::trailers(HeaderMap::from_iter([(name, text)])))
            }
            _ => Err(reason),
        }
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        let limit = if self.context.has_import() {
            IMPORT_REQUEST_TIMEOUT
        } else {
            REQUEST_TIMEOUT
        };
        self.deadline.begin(limit);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::admin::reply::{AdminReply as _, ReplyStream};
    use crate::operations::tests::EngineFixture;

    /// Returns the response with a stream that fails after its first bytes.
    async fn broken_stream(context: &Arc<AdminContext>, request: &[u8]) -> String {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let first_bytes_arrived = Arc::new(Barrier::new(2));
        let service = service_fn(|request: Request<Incoming>| {
            let may_fail = Arc::clone(&first_bytes_arrived);
            async move {
                let stream = ReplyStream::start("text/plain", move |out| {
                    out.write_all(b"first bytes")
                        .and_then(|()| out.flush())
                        .unwrap();
                    may_fail.wait();
                    Err("the disk is gone\n".into())
                });
                let body = TimedBody {
                    body: stream.unwrap().into_body().unwrap(),
                    context: Arc::clone(context),
                    deadline: Deadline::new(REQUEST_TIMEOUT),
                    client_timeout: REQUEST_TIMEOUT,
                    takes_trailers: accepts_trailers(request.headers()),
                };
                Ok::<_, Infallible>(new_response(StatusCode::OK, body))
            }
        });
        client.write_all(request).await.unwrap();
        client.shutdown().await.unwrap();
        let connection = http1::Builder::new()
            .half_close(true)
            .serve_connection(TokioIo::new(server), service);
        let receive = async {
            let mut response = Vec::new();
            while !response.ends_with(b"first bytes") {
                response.push(client.read_u8().await.unwrap());
            }
            first_bytes_arrived.wait();
            client.read_to_end(&mut response).await.unwrap();
            String::from_utf8(response).unwrap()
        };
        let (_, response) = tokio::join!(connection, receive);
        response
    }

    #[test]
    fn a_stream_that_fails_is_cut_off_or_ends_with_the_reason() {
        let service = EngineFixture::new();
        let context = Arc::new(AdminContext::new(&service.handle, None));
        let head = "GET / HTTP/1.1\r\nHost: a\r\n";
        let plain = format!("{head}\r\n");
        let cut = service.run(broken_stream(&context, plain.as_bytes()));
        assert!(!cut.contains("\r\n0\r\n"), "{cut}");
        let with_trailers = format!("{head}TE: trailers\r\n\r\n");
        let ended = service.run(broken_stream(&context, with_trailers.as_bytes()));
        assert!(
            ended.contains("\r\n0\r\noverdue-admin-failure: the disk is gone%0A\r\n\r\n"),
            "{ended}"
        );
    }
}

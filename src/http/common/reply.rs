//! HTTP replies: successes, and the status and message of every error.

use std::borrow::Cow;
use std::time::Duration;

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use super::response_body::ResponseBody;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::{CommandError, Unavailable};
use crate::operations::OperationError;

/// HTTP response of this server.
pub(crate) type HttpReply = Response<ResponseBody>;

/// Response on a connection over the limit, before it is closed.
pub(crate) const OVERLOADED_RESPONSE: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: \
                                              1\r\nContent-Length: 0\r\nConnection: \
                                              close\r\nX-Content-Type-Options: nosniff\r\n\r\n";

/// Time of the data in a response while no machine of the cluster leads.
const AS_OF_HEADER: HeaderName = HeaderName::from_static("overdue-as-of");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

fn new_reply(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<ResponseBody>,
) -> HttpReply {
    let mut reply = Response::new(body.into());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

/// 200 with a JSON document.
pub(crate) fn json(body: impl Into<ResponseBody>) -> HttpReply {
    new_reply(StatusCode::OK, JSON, body)
}

/// 201 with a JSON document.
pub(crate) fn created_json(body: impl Into<ResponseBody>) -> HttpReply {
    new_reply(StatusCode::CREATED, JSON, body)
}

/// Reply with this status and a JSON document. An unknown status is 500; 204 has no document.
pub(crate) fn json_with_status(status: u16, body: impl Into<ResponseBody>) -> HttpReply {
    match StatusCode::from_u16(status) {
        Ok(StatusCode::NO_CONTENT) => no_content(),
        status => new_reply(
            status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            JSON,
            body,
        ),
    }
}

/// 200 with a text.
pub(crate) fn text(body: impl Into<ResponseBody>) -> HttpReply {
    new_reply(StatusCode::OK, TEXT, body)
}

/// 201 with a text.
pub(crate) fn created_text(body: impl Into<ResponseBody>) -> HttpReply {
    new_reply(StatusCode::CREATED, TEXT, body)
}

/// 200 with a page.
pub(crate) fn page(html: impl Into<ResponseBody>) -> HttpReply {
    new_reply(StatusCode::OK, HTML, html)
}

/// 200 with content of some other type.
pub(crate) fn content(content_type: &'static str, body: impl Into<ResponseBody>) -> HttpReply {
    new_reply(StatusCode::OK, HeaderValue::from_static(content_type), body)
}

/// 200 with a standalone page: it loads nothing and cannot be framed.
pub(crate) fn standalone_page(html: String) -> HttpReply {
    let mut reply = page(html);
    for (name, value) in [
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
        ),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        set_header(&mut reply, name, value);
    }
    reply
}

/// 204 without a body.
pub(crate) fn no_content() -> HttpReply {
    let mut reply = Response::new(ResponseBody::from(""));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply
}

/// 301 to a relative location.
pub(crate) fn moved_permanently(location: &str) -> HttpReply {
    let mut reply = Response::new(ResponseBody::from(""));
    *reply.status_mut() = StatusCode::MOVED_PERMANENTLY;
    set_header(&mut reply, LOCATION, location);
    reply
}

/// 303 to a relative location: the request succeeded, and the page there shows the result.
pub(crate) fn see_other(location: &str) -> HttpReply {
    let mut reply = Response::new(ResponseBody::from(""));
    *reply.status_mut() = StatusCode::SEE_OTHER;
    set_header(&mut reply, LOCATION, location);
    reply
}

/// 304 for a client whose cached response is current.
pub(crate) fn not_modified(tag: &str) -> HttpReply {
    let mut reply = Response::new(ResponseBody::from(""));
    *reply.status_mut() = StatusCode::NOT_MODIFIED;
    set_header(&mut reply, ETAG, tag);
    reply
}

/// Sets a header, unless the value is invalid in one.
pub(crate) fn set_header(reply: &mut HttpReply, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
}

/// Adds a line of a header that may occur several times, unless the value is invalid in one.
pub(crate) fn add_header(reply: &mut HttpReply, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().append(name, value);
    }
}

/// Forbids browsers from guessing the content type (Fetch Standard, X-Content-Type-Options).
pub(crate) fn with_nosniff(mut reply: HttpReply) -> HttpReply {
    reply
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// Marks a response with the time of its data, and closes the connection: the next one may reach a
/// leader.
pub(crate) fn with_as_of(mut reply: HttpReply, as_of: Timestamp) -> HttpReply {
    let mut text = String::new();
    as_of.write_rfc3339_secs(&mut text);
    set_header(&mut reply, AS_OF_HEADER, &text);
    set_header(&mut reply, CONNECTION, "close");
    reply
}

/// True if the connection closes after this response, while the client may still be sending a body.
pub(crate) fn closes_connection(reply: &HttpReply) -> bool {
    reply.headers().contains_key(CONNECTION)
}

/// Forbids caches from storing the response.
pub(crate) fn with_no_store(mut reply: HttpReply) -> HttpReply {
    reply.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-store, no-cache, max-age=0"),
    );
    reply
}

/// Lets scripts of every web page send such requests, with an API key, and read the response (Fetch
/// Standard, CORS protocol).
pub(crate) fn with_any_origin(mut reply: HttpReply, methods: &'static str) -> HttpReply {
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "X-Api-Key"),
        (ACCESS_CONTROL_ALLOW_METHODS, methods),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        reply
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// Error of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HttpError {
    /// The resource does not exist.
    NotFound,
    /// The path does not accept the method. Contains the accepted methods.
    MethodNotAllowed(&'static str),
    /// The request is invalid.
    BadRequest(Cow<'static, str>),
    /// No API key, or one of the wrong length.
    MissingKey,
    /// The API key gives no access to this resource.
    WrongKey,
    /// No session, or it has expired.
    NotSignedIn,
    /// The check belongs to another project.
    Forbidden,
    /// The project has reached its limit of checks.
    CheckLimit,
    /// The project has reached the limit of channels that the API creates.
    ChannelLimit,
    /// 403: the project has reached its limit of keys.
    KeyLimit,
    /// 403: the project has reached its limit of maintenance windows.
    WindowLimit,
    /// Resume of a check that is not paused.
    NotPaused,
    /// Several checks have the slug.
    AmbiguousSlug,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The object has changed since the client read it.
    Outdated,
    /// Fields of a form are invalid. The page says which.
    InvalidForm,
    /// Too many long bodies are arriving at the same time.
    BodyBudgetExhausted,
    /// The body is longer than this number of bytes.
    BodyTooLarge(usize),
    /// The URL is too long.
    UriTooLong,
    /// The transfer coding of the body is not chunked.
    UnsupportedCoding,
    /// The API key is used too often. It works again after this number of seconds.
    TooManyRequests(i64),
    /// The limit of live pages is reached.
    TooManyStreams,
    /// The queue is full, the database fails at the moment, or the service is stopping.
    Unavailable,
    /// This machine follows the leader of its cluster.
    NotLeader,
    /// No machine of the cluster leads, and this one only answers reads.
    NoLeader,
    /// A test query failed.
    ProbeFailed,
}

impl HttpError {
    /// Refusal of a request that is accepted after this time, in whole seconds (`Retry-After`, RFC
    /// 9110, section 10.2.3).
    pub(crate) fn too_many_requests(wait: Duration) -> Self {
        let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self::TooManyRequests(secs.cast_signed())
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::MissingKey | Self::WrongKey | Self::NotSignedIn => StatusCode::UNAUTHORIZED,
            Self::Forbidden
            | Self::CheckLimit
            | Self::ChannelLimit
            | Self::KeyLimit
            | Self::WindowLimit => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::NotPaused | Self::AmbiguousSlug | Self::Outdated => StatusCode::CONFLICT,
            Self::InvalidForm => StatusCode::UNPROCESSABLE_ENTITY,
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::UnsupportedCoding => StatusCode::NOT_IMPLEMENTED,
            Self::TooManyRequests(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::ProbeFailed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable
            | Self::NotLeader
            | Self::NoLeader
            | Self::BodyBudgetExhausted
            | Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Error message, without a full stop.
    pub(crate) fn message(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::NotFound => "not found",
            Self::MethodNotAllowed(_) => "method not allowed",
            Self::BadRequest(message) => return message.clone(),
            Self::MissingKey => "missing api key",
            Self::WrongKey => "wrong api key",
            Self::NotSignedIn => "not signed in",
            Self::Forbidden => "access denied",
            Self::CheckLimit => "the project has reached its check limit",
            Self::ChannelLimit => "the project has too many channels, remove some",
            Self::KeyLimit => "the project has too many keys, revoke some",
            Self::WindowLimit => "the project has too many maintenance windows, remove some",
            Self::NotPaused => "check is not paused",
            Self::AmbiguousSlug => "ambiguous slug",
            Self::Outdated => "the object was changed in the meantime",
            Self::InvalidForm => "the form has invalid fields",
            Self::BodyTimeout => "the request body did not arrive in time",
            Self::BodyBudgetExhausted => {
                "too many long request bodies are coming in, try again later"
            }
            Self::BodyTooLarge(most) => {
                return format!("the request body is longer than {most} bytes").into();
            }
            Self::UriTooLong => "the URL is too long",
            Self::UnsupportedCoding => "the only supported transfer coding is chunked",
            Self::TooManyRequests(_) => "too many requests with this api key, try again later",
            Self::TooManyStreams => "too many pages receive live updates already, poll instead",
            Self::Unavailable => "the service cannot do this at the moment, try again later",
            Self::NotLeader => "this machine does not lead its cluster",
            Self::NoLeader => "no machine of the cluster leads at the moment: try again",
            Self::ProbeFailed => "the test query of the database failed",
        })
    }

    /// Plain-text response, for ping URLs and everything outside the API.
    pub(crate) fn to_text(&self) -> HttpReply {
        self.with_error_headers(new_reply(self.status(), TEXT, self.message().into_owned()))
    }

    /// Response with a page.
    pub(crate) fn to_page(&self, html: impl Into<ResponseBody>) -> HttpReply {
        self.with_error_headers(new_reply(self.status(), HTML, html))
    }

    /// Response with a JSON object with a member `error`.
    pub(crate) fn to_json(&self) -> HttpReply {
        let body = serde_json::json!({ "error": self.message() }).to_string();
        self.with_error_headers(new_reply(self.status(), JSON, body))
    }

    /// Adds the headers that some errors need.
    fn with_error_headers(&self, mut reply: HttpReply) -> HttpReply {
        match self {
            Self::MethodNotAllowed(allowed) => set_header(&mut reply, ALLOW, allowed),
            Self::TooManyRequests(seconds) => {
                set_header(&mut reply, RETRY_AFTER, &seconds.to_string());
            }
            Self::Unavailable | Self::BodyBudgetExhausted => {
                set_header(&mut reply, RETRY_AFTER, "1");
            }
            Self::NoLeader => set_header(&mut reply, RETRY_AFTER, "2"),
            Self::TooManyStreams => set_header(&mut reply, RETRY_AFTER, "60"),
            _ => {}
        }
        // The rest of the body would be read as the next request.
        if matches!(
            self,
            Self::BodyTimeout
                | Self::BodyBudgetExhausted
                | Self::BodyTooLarge(_)
                | Self::UnsupportedCoding
        ) {
            set_header(&mut reply, CONNECTION, "close");
        }
        reply
    }
}

impl From<CommandError> for HttpError {
    fn from(refusal: CommandError) -> Self {
        match refusal {
            CommandError::NotFound => Self::NotFound,
            CommandError::AmbiguousSlug => Self::AmbiguousSlug,
            CommandError::CheckLimitReached => Self::CheckLimit,
            CommandError::ChannelLimitReached => Self::ChannelLimit,
            CommandError::KeyLimitReached => Self::KeyLimit,
            CommandError::WindowLimitReached => Self::WindowLimit,
            CommandError::StatusPage(error) => Self::BadRequest(error.to_string().into()),
            CommandError::NotPaused => Self::NotPaused,
            CommandError::EmptyChannel => Self::BadRequest("empty channel identifier".into()),
            CommandError::InvalidChannel(text) => {
                Self::BadRequest(format!("invalid channel identifier: {text}").into())
            }
            CommandError::AmbiguousChannel(text) => {
                Self::BadRequest(format!("non-unique channel identifier: {text}").into())
            }
            CommandError::FieldTooLong(field) => {
                Self::BadRequest(format!("json validation error: {field} is too long").into())
            }
            CommandError::InvalidParents(error) => Self::BadRequest(error.to_string().into()),
            CommandError::InvalidSettings(error) => Self::BadRequest(error.to_string().into()),
            // No request of the API names a project, retries a delivery, declares or imports
            // anything.
            CommandError::Import(_) => Self::BadRequest("the import is not possible".into()),
            CommandError::ConfigConflicts(_) => {
                Self::BadRequest("the configuration is not possible".into())
            }
            CommandError::ProjectNameTaken => {
                Self::BadRequest("the project's name is taken".into())
            }
            CommandError::User(_) => Self::BadRequest("the user cannot be changed".into()),
            CommandError::ChannelDisabled => Self::BadRequest("the channel is disabled".into()),
            CommandError::Outdated => Self::BadRequest("the check has changed since".into()),
        }
    }
}

impl From<OperationError> for HttpError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Command(refusal) => refusal.into(),
            OperationError::Removed => CommandError::NotFound.into(),
            OperationError::ProjectNameTaken => CommandError::ProjectNameTaken.into(),
            OperationError::User(refusal) => CommandError::User(refusal).into(),
            OperationError::Settings(error) => CommandError::InvalidSettings(error).into(),
            OperationError::Unavailable(unavailable) => unavailable.into(),
            OperationError::Store(error) => error.into(),
            error => Self::BadRequest(error.to_string().into()),
        }
    }
}

impl From<Unavailable> for HttpError {
    fn from(_: Unavailable) -> Self {
        Self::Unavailable
    }
}

//! Error pages: one sentence, a remedy, and a link back.

use std::borrow::Cow;

use askama::Template;

use super::DashboardState;
use super::browser_security::RequestOrigin;
use super::layout::Layout;
use super::page_routes::RequiredRight;
use crate::engine::command::{CommandError, Unavailable};
use crate::http::common::reply::{HttpError, HttpReply};
use crate::http::common::request::BaseUrl;
use crate::operations::OperationError;
use crate::store::StoreError;

/// Reason why a page is not shown or a form is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PageError {
    http_error: HttpError,
    title: &'static str,
    text: Cow<'static, str>,
}

#[derive(Template)]
#[template(path = "error.html", config = "src/http/dashboard/askama.toml")]
struct ErrorPage<'a> {
    layout: Layout,
    error: &'a PageError,
    /// Page that the viewer came from.
    previous_page: Option<String>,
}

impl PageError {
    /// Error page with this title and text.
    pub(crate) fn new(
        error: HttpError,
        title: &'static str,
        text: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            http_error: error,
            title,
            text: text.into(),
        }
    }

    /// Text of the page.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Error in the response.
    pub(super) fn http_error(&self) -> &HttpError {
        &self.http_error
    }

    /// The object does not exist, or the viewer may not see it.
    pub(crate) fn not_found() -> Self {
        Self::new(
            HttpError::NotFound,
            "Not found",
            "This page does not exist, or you may not see it.",
        )
    }

    /// The viewer may see the object but not change it.
    pub(super) fn forbidden(need: RequiredRight) -> Self {
        let text = match need {
            RequiredRight::Owner => "Only owners of this server may do this. Ask one of them.",
            _ => {
                "You may view this project but not change it. Ask an owner of this server for \
                 access."
            }
        };
        Self::new(HttpError::Forbidden, "Not allowed", text)
    }

    /// A fragment was requested after the session had ended.
    pub(super) fn session_expired() -> Self {
        Self::new(
            HttpError::NotSignedIn,
            "Signed out",
            "You were signed out. Sign in again.",
        )
    }

    /// The server runs without sign-in, and the client is on another machine.
    pub(super) fn not_local() -> Self {
        let text = "This server runs without sign-in, so its pages are available only on the \
                    same machine and through trusted proxies. Start it with --auth password, or \
                    name your proxy with --trusted-proxy.";
        Self::new(HttpError::Forbidden, "Local access only", text)
    }

    /// The server runs without sign-in, and the `Host` may be a foreign one.
    pub(super) fn unknown_host(origin: &RequestOrigin) -> Self {
        let text = format!(
            "This server runs without sign-in, so its pages are available only at localhost, at \
             127.0.0.1 and at the host of --base-url. You used {}. If this host is correct, start \
             overdue with it in --base-url.",
            origin.host
        );
        Self::new(HttpError::Forbidden, "Unknown host", text)
    }

    /// A proxy names a user, and the `Host` may be a foreign one.
    pub(super) fn unknown_host_behind_proxy(host: &str) -> Self {
        let text = format!(
            "Signing in through a proxy works only at localhost, at 127.0.0.1 and at the host of \
             --base-url. You used {host}. If this host is correct, start overdue with it in \
             --base-url, and configure the proxy to pass on the Host header unchanged."
        );
        Self::new(HttpError::Forbidden, "Unknown host", text)
    }

    /// The form was sent from another origin.
    pub(super) fn cross_origin(base_url: &BaseUrl, host: &str) -> Self {
        let text = format!(
            "This form was sent from another address than the page. Open overdue at {}, or set \
             --base-url to the address you use (it was {host}).",
            base_url.as_str()
        );
        Self::new(HttpError::Forbidden, "Different origin", text)
    }

    /// The request conflicts with the current state, for this reason.
    pub(crate) fn bad_request(reason: &str) -> Self {
        Self::new(
            HttpError::BadRequest(reason.to_owned().into()),
            "Not possible",
            refusal_text(reason),
        )
    }

    /// The page does not support the method.
    pub(super) fn method_not_allowed(methods: &'static str) -> Self {
        Self::new(
            HttpError::MethodNotAllowed(methods),
            "Method not allowed",
            "This URL does not support the request. Nothing was changed.",
        )
    }

    /// Renders the page. `previous_page`: URL of the previous page.
    pub(super) fn reply(
        &self,
        dashboard: &DashboardState,
        previous_page: Option<String>,
    ) -> HttpReply {
        let page = ErrorPage {
            layout: Layout::without_user(dashboard, self.title),
            error: self,
            previous_page,
        };
        // Rendering only formats values and does not fail.
        self.http_error.to_page(page.render().unwrap_or_default())
    }
}

impl From<HttpError> for PageError {
    fn from(error: HttpError) -> Self {
        let (title, text) = match &error {
            HttpError::NotFound => return Self::not_found(),
            HttpError::Forbidden => return Self::forbidden(RequiredRight::Write),
            HttpError::Unavailable | HttpError::BodyBudgetExhausted => (
                "Temporarily unavailable",
                "The server cannot do this at the moment, so nothing was changed. Try again in a \
                 few seconds. The log states the reason."
                    .into(),
            ),
            HttpError::BodyTooLarge(_) => (
                "Request too long",
                "Your input is too long. Nothing was changed. Go back and shorten it.".into(),
            ),
            HttpError::BodyTimeout => (
                "Request timed out",
                "Your input did not arrive in time. Nothing was changed. Go back and send it again."
                    .into(),
            ),
            HttpError::TooManyRequests(seconds) => (
                "Too many attempts",
                format!("There were too many requests from your address. Try again in {seconds} s.")
                    .into(),
            ),
            other => ("Not possible", refusal_text(&other.message())),
        };
        Self {
            title,
            text,
            http_error: error,
        }
    }
}

/// Message of an error as a sentence.
fn refusal_text(words: &str) -> Cow<'static, str> {
    let mut letters = words.chars();
    let first = letters
        .next()
        .map(|first| first.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}. Nothing was changed.", letters.as_str()).into()
}

impl From<CommandError> for PageError {
    fn from(refusal: CommandError) -> Self {
        if refusal == CommandError::Outdated {
            return Self::new(
                HttpError::Outdated,
                "Changed in the meantime",
                "This was changed while you were editing, so nothing was saved. Go back, reload \
                 the page, and try again.",
            );
        }
        HttpError::from(refusal).into()
    }
}

impl From<OperationError> for PageError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Unavailable(unavailable) => unavailable.into(),
            OperationError::Store(error) => error.into(),
            OperationError::Command(refusal) => refusal.into(),
            OperationError::Removed => CommandError::NotFound.into(),
            error => Self::bad_request(&error.to_string()),
        }
    }
}

impl From<Unavailable> for PageError {
    fn from(_: Unavailable) -> Self {
        let text = "The database does not accept writes at the moment, so nothing was changed. \
                    Reading works. Try again in a few seconds.";
        Self::new(HttpError::Unavailable, "Temporarily unavailable", text)
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        tracing::error!("database read for a page failed: {error}");
        Self::new(
            HttpError::Unavailable,
            "Database error",
            "This page cannot be read from the database at the moment. Try again in a few seconds.",
        )
    }
}

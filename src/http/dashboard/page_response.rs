//! Responses of pages, before they are sent.

use askama::Template;

use super::page_messages::FlashMessage;
use super::page_routes::Page;
use crate::http::common::reply::HttpError;
use crate::http::common::response_body::ResponseBody;

/// Response of a page.
pub(crate) enum PageResponse {
    /// A page.
    Html(HtmlPage),
    /// JSON for a script of a page. No cache may store it.
    Json(String),
    /// Redirect to another page, with a message.
    Redirect(Page, Option<FlashMessage>),
    /// Redirect to another page, and replace the mark of the browser.
    RedirectWithMark {
        /// Target of the redirect.
        page: Page,
        /// Message on the target page.
        flash: Option<FlashMessage>,
        /// New mark. `None`: the browser gets none.
        mark: Option<String>,
    },
    /// Redirect to a URL of this server, which `DashboardTarget::parse` has checked.
    RedirectToUrl(String),
    /// Sign in with a new session, and redirect to a URL of this server.
    SignIn {
        /// Value of the session cookie.
        token: String,
        /// Mark that identifies the browser from now on.
        mark: Option<String>,
        /// Path and query of the redirect.
        to: String,
    },
    /// Redirect to a provider, at which the user signs in.
    BeginSignIn {
        /// URL of the provider.
        url: String,
        /// Value of the cookie that the browser returns with.
        flow: String,
    },
    /// Redirect to a provider, at which the user signs out.
    RedirectToProvider(String),
    /// Sign out, and redirect to a URL of this server or of the proxy.
    SignOut(String),
    /// File to download, generated while it is sent.
    Stream {
        /// File name: letters, digits, hyphens and dots.
        name: String,
        /// Content of the file.
        content: ResponseBody,
    },
    /// File to download, with untrusted content.
    Download {
        /// File name: letters, digits, hyphens and a dot.
        name: String,
        /// Content of the file.
        content: Vec<u8>,
    },
}

/// A rendered page.
pub(crate) struct HtmlPage {
    pub(super) text: String,
    /// Error if the form was refused.
    pub(super) http_error: Option<HttpError>,
    /// True if no cache may store the page.
    pub(super) no_store: bool,
}

impl HtmlPage {
    /// Renders a template.
    pub(crate) fn from_template(template: &impl Template) -> Self {
        // Rendering only formats values and does not fail.
        Self {
            text: template.render().unwrap_or_default(),
            http_error: None,
            no_store: false,
        }
    }

    /// Marks the page as a form with errors.
    pub(crate) fn with_invalid_form(self) -> Self {
        self.with_error(HttpError::InvalidForm)
    }

    /// Marks the page as a form that was refused for this reason.
    pub(crate) fn with_error(self, error: HttpError) -> Self {
        Self {
            http_error: Some(error),
            ..self
        }
    }

    /// Forbids caches to store the page.
    pub(crate) fn without_caching(self) -> Self {
        Self {
            no_store: true,
            ..self
        }
    }
}

impl From<HtmlPage> for PageResponse {
    fn from(html: HtmlPage) -> Self {
        Self::Html(html)
    }
}

//! Pages for what does not work: one sentence, what to do, and a way back.

use std::borrow::Cow;

use askama::Template;

use super::Site;
use super::frame::Frame;
use super::guard::Came;
use super::route::Need;
use crate::engine::command::{Refusal, Unavailable};
use crate::store::StoreError;
use crate::wire::reply::{Fault, Reply};
use crate::wire::request::BaseUrl;

/// Why a page is not shown, or a form not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trouble {
    fault: Fault,
    title: &'static str,
    text: Cow<'static, str>,
}

#[derive(Template)]
#[template(path = "error.html", config = "src/web/askama.toml")]
struct ErrorPage<'a> {
    frame: Frame,
    trouble: &'a Trouble,
    /// The page that whoever asked came from.
    before: Option<String>,
}

impl Trouble {
    /// A page for a fault, in these words.
    pub(crate) fn new(fault: Fault, title: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { fault, title, text: text.into() }
    }

    /// There is no such thing, or it is not the viewer's.
    pub(crate) fn nothing_here() -> Self {
        Self::new(Fault::NotFound, "Nothing here", "There is nothing here, or you may not see it.")
    }

    /// The viewer sees it, but may not do that.
    pub(super) fn not_allowed(need: Need) -> Self {
        let text = match need {
            Need::Owner => "Only owners of this server may do this. Ask one of them.",
            _ => "You may look at this project, but not change it. Ask an owner of this server for more.",
        };
        Self::new(Fault::Forbidden, "Not allowed", text)
    }

    /// A part of a page is asked for by somebody whose session is over.
    pub(super) fn signed_out() -> Self {
        Self::new(Fault::NotSignedIn, "Signed out", "You were signed out. Sign in again.")
    }

    /// There is no sign-in, and the viewer is on another machine.
    pub(super) fn from_elsewhere() -> Self {
        let text = "This server runs without sign-in, so it shows its pages on its own machine and by trusted proxies only. Start it with \
                    --auth password, or name your proxy with --trusted-proxy.";
        Self::new(Fault::Forbidden, "Not from here", text)
    }

    /// There is no sign-in, and the request names a host that may be anyone's.
    pub(super) fn by_unknown_host(came: &Came) -> Self {
        let text = format!(
            "This server runs without sign-in, so its pages are shown under the names localhost and 127.0.0.1 and under that of --base-url \
             only. You came by {}. Start it with --base-url and that address if it is right.",
            came.host
        );
        Self::new(Fault::Forbidden, "Not by this name", text)
    }

    /// A proxy names a user, and the request names a host that may be anyone's.
    pub(super) fn by_proxy_for_unknown_host(host: &str) -> Self {
        let text = format!(
            "A proxy says who you are, and that counts under the names localhost and 127.0.0.1 and under that of --base-url only. You came by \
             {host}. Start overdue with --base-url and that address if it is right, and have the proxy pass the Host header on as it came."
        );
        Self::new(Fault::Forbidden, "Not by this name", text)
    }

    /// A form that came from elsewhere.
    pub(super) fn from_another_origin(base_url: &BaseUrl, host: &str) -> Self {
        let text = format!(
            "This form came from another address than the page. Open overdue at {}, or set --base-url to the address you use (you came by {host}).",
            base_url.as_str()
        );
        Self::new(Fault::Forbidden, "From another address", text)
    }

    /// What was asked for does not fit what there is; this says why.
    pub(crate) fn not_possible(reason: &str) -> Self {
        Self::new(Fault::BadRequest("it is not possible".into()), "Not possible", sentence(reason))
    }

    /// The page takes other methods.
    pub(super) fn wrong_method(methods: &'static str) -> Self {
        Self::new(Fault::MethodNotAllowed(methods), "Not this way", "This address takes no such request. Nothing was changed.")
    }

    /// The page; `before` is the address of that before it.
    pub(super) fn reply(&self, site: &Site, before: Option<String>) -> Reply {
        let page = ErrorPage { frame: Frame::bare(site, self.title), trouble: self, before };
        // It only formats; that does not fail.
        self.fault.page(page.render().unwrap_or_default())
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        let (title, text) = match &fault {
            Fault::NotFound => return Self::nothing_here(),
            Fault::Forbidden => return Self::not_allowed(Need::Write),
            Fault::Unavailable | Fault::NoRoom => (
                "Not at the moment",
                "The server cannot do this at the moment, so nothing was changed. Try again in a few seconds; the log says more.".into(),
            ),
            Fault::TooLarge(_) => ("Too long", "What you sent is too long. Nothing was changed. Go back and shorten it.".into()),
            Fault::Timeout => ("Too slow", "What you sent did not arrive in time. Nothing was changed. Go back and send it again.".into()),
            Fault::TooManyRequests(seconds) => {
                ("Too many attempts", format!("Too many attempts from here. Try again in {seconds} s.").into())
            }
            other => ("Not possible", sentence(&other.message())),
        };
        Self { title, text, fault }
    }
}

/// The words of a fault as a sentence.
fn sentence(words: &str) -> Cow<'static, str> {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}. Nothing was changed.", letters.as_str()).into()
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        if refusal == Refusal::Outdated {
            return Self::new(
                Fault::Outdated,
                "Changed meanwhile",
                "Someone changed this while you were editing, so nothing was saved. Go back, load the page again, and choose.",
            );
        }
        Fault::from(refusal).into()
    }
}

impl From<Unavailable> for Trouble {
    fn from(_: Unavailable) -> Self {
        let text = "The database takes no writes at the moment, so nothing was changed. Reading works. Try again in a few seconds.";
        Self::new(Fault::Unavailable, "Not at the moment", text)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        tracing::error!("a page could not be read: {error}");
        Self::new(Fault::Unavailable, "Cannot be read", "This cannot be read from the database at the moment. Try again in a few seconds.")
    }
}

//! Replies with the responses of pages: redirections, cookies, compressed pages, and headers for
//! browsers.

use flate2::Compression;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, HeaderMap, HeaderName,
    SET_COOKIE, VARY,
};

use super::check_list::ListReturn;
use super::cookie::CookieJar;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, PageLink, Scope};
use super::{DashboardState, assets};
use crate::http::common::reply::{self, HttpReply};
use crate::http::common::response_body::{ResponseBody, ResponseWriter};

/// Size in bytes above which a page is compressed.
const COMPRESSION_THRESHOLD: usize = 2 << 10;
/// Makes a browser delete stored data of this site.
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

/// Makes the replies to one request from the responses of its page.
pub(super) struct PageReplies<'a> {
    pub(super) dashboard: &'a DashboardState,
    pub(super) jar: CookieJar<'a>,
    pub(super) writer: ResponseWriter,
    /// Filters of the list to which a redirection returns.
    pub(super) back: ListReturn,
    pub(super) is_compressed: bool,
    pub(super) is_external_sign_in: bool,
}

impl PageReplies<'_> {
    /// Reply with the response of a page.
    pub(super) async fn reply(&self, response: PageResponse) -> Result<HttpReply, PageError> {
        let Self { jar, writer, .. } = self;
        Ok(match response {
            PageResponse::RedirectToUrl(address) => {
                with_private_caching(reply::see_other(&address))
            }
            PageResponse::SignIn { token, mark, to } => {
                let mut reply = with_cookie(reply::see_other(&to), &jar.set_session(&token));
                if self.is_external_sign_in {
                    reply::add_header(&mut reply, SET_COOKIE, &jar.clear_pending_sign_in());
                }
                if let Some(mark) = mark {
                    reply::add_header(&mut reply, SET_COOKIE, &jar.set_mark(&mark));
                }
                reply
            }
            PageResponse::BeginSignIn { url, flow } => {
                with_cookie(reply::see_other(&url), &jar.set_pending_sign_in(&flow))
            }
            PageResponse::RedirectToProvider(url) => reply::with_no_store(reply::see_other(&url)),
            PageResponse::SignOut(to) => {
                let mut reply = with_cookie(reply::see_other(&to), &jar.clear_session());
                reply::set_header(&mut reply, CLEAR_SITE_DATA, "\"cache\"");
                reply
            }
            PageResponse::Redirect(page, flash) => self.redirect(&page, flash),
            PageResponse::RedirectWithMark { page, flash, mark } => {
                let reply = self.redirect(&page, flash);
                match mark {
                    Some(mark) => with_cookie(reply, &jar.set_mark(&mark)),
                    None => reply,
                }
            }
            PageResponse::Json(text) => {
                let content = writer.buffer(text.into_bytes()).await?;
                reply::with_no_store(reply::content("application/json", content))
            }
            PageResponse::Html(html) => html_reply(writer, html, self.is_compressed).await?,
            PageResponse::Download { name, content } => {
                attachment(&name, writer.buffer(content).await?)
            }
            PageResponse::Stream { name, content } => attachment(&name, content),
        })
    }

    fn redirect(&self, page: &Page, flash: Option<FlashMessage>) -> HttpReply {
        let url = redirect_url(self.dashboard, page, flash, &self.back);
        with_private_caching(reply::see_other(&url))
    }
}

/// Response with a file to download.
fn attachment(name: &str, content: ResponseBody) -> HttpReply {
    let mut reply = reply::content("application/octet-stream", content);
    reply::set_header(
        &mut reply,
        CONTENT_DISPOSITION,
        &format!("attachment; filename=\"{name}\""),
    );
    reply::with_no_store(reply)
}

fn with_cookie(mut reply: HttpReply, cookie: &str) -> HttpReply {
    reply::set_header(&mut reply, SET_COOKIE, cookie);
    reply::with_no_store(reply)
}

/// Response with a page.
pub(super) async fn html_reply(
    writer: &ResponseWriter,
    html: HtmlPage,
    zips: bool,
) -> Result<HttpReply, PageError> {
    let HtmlPage {
        text,
        http_error: error,
        no_store: is_secret,
    } = html;
    let zips = zips && text.len() > COMPRESSION_THRESHOLD;
    let bytes = if zips {
        writer
            .run_blocking(move || assets::gzip(text.as_bytes(), Compression::fast()))
            .await?
    } else {
        text.into_bytes()
    };
    let content = writer.buffer(bytes).await?;
    let mut reply = match error {
        Some(error) => error.to_page(content),
        None => reply::page(content),
    };
    if zips {
        reply::set_header(&mut reply, CONTENT_ENCODING, "gzip");
    }
    reply::set_header(
        &mut reply,
        VARY,
        "Accept-Encoding, Sec-Fetch-Site, X-Fragment",
    );
    Ok(if is_secret {
        reply::with_no_store(reply)
    } else {
        with_private_caching(reply)
    })
}

/// Response with a static file. Its URL changes with its content, so it may be cached forever.
pub(super) fn asset_reply(file: &'static assets::File, headers: &HeaderMap) -> HttpReply {
    let zips = accepts_gzip(headers);
    let (plain, zipped) = file.bodies();
    let mut reply = reply::content(file.content_type, if zips { zipped } else { plain });
    if zips {
        reply::set_header(&mut reply, CONTENT_ENCODING, "gzip");
    }
    reply::set_header(&mut reply, VARY, "Accept-Encoding");
    reply::set_header(
        &mut reply,
        CACHE_CONTROL,
        "public, max-age=31536000, immutable",
    );
    reply
}

/// Makes browsers revalidate the response each time.
pub(super) fn with_private_caching(mut reply: HttpReply) -> HttpReply {
    reply::set_header(&mut reply, CACHE_CONTROL, "private, no-cache");
    reply
}

pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let codings = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','));
    codings
        .map(|coding| coding.replace(' ', ""))
        .any(|coding| coding == "gzip" || coding.starts_with("gzip;q=") && !coding.ends_with("=0"))
}

/// URL of a redirect after a form. Pages of checks keep the list that the viewer came from.
fn redirect_url(
    dashboard: &DashboardState,
    page: &Page,
    flash: Option<FlashMessage>,
    back: &ListReturn,
) -> String {
    let link = PageLink {
        base_url: &dashboard.base_url,
        page,
    }
    .to_string();
    let link = match page {
        Page::Checks(_) => back.list_url(&link),
        page if matches!(page.scope(), Scope::Check(_)) => back.url_with_return(&link),
        _ => link,
    };
    let separator = if link.contains('?') { '&' } else { '?' };
    flash.map_or_else(
        || link.clone(),
        |flash| format!("{link}{separator}m={}", flash.code),
    )
}

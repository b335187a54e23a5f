//! Public status pages: rendered at most every few seconds, and the same for every reader.

mod contents;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, VARY};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::browser_security::RequestOrigin;
use super::page_error::PageError;
use super::page_reply::accepts_gzip;
use super::page_routes::{DashboardTarget, Page};
use super::{DashboardState, assets};
use crate::domain::project::Project;
use crate::domain::status_page::{StatusPage, StatusPageAddress};
use crate::http::common::reply::{self, HttpReply};
use crate::http::common::request::known_tags;
use crate::util::sync::{Mutex, lock};

/// Minimum time that a rendered page is served, unless its settings change.
const MIN_LIFETIME: Duration = Duration::from_secs(5);
/// Ratio of the time that a page is served to the time that it took to render, so that rendering a
/// page with many changes of status takes at most a twentieth of one thread.
const LIFETIME_RATIO: u32 = 20;
/// Caches may show the page for this time without asking. Readers with a link see no older one.
const CACHING: &str = "public, max-age=5";

/// A page with its project, as they are set now.
struct FoundPage {
    project: Arc<Project>,
    page: StatusPage,
}

/// A page as it is sent.
struct RenderedPage {
    /// Settings that it was rendered with.
    page: StatusPage,
    plain: Bytes,
    gzipped: Bytes,
    etag: String,
    /// Uptime of the server until which it is served.
    expires: Duration,
}

/// A page in the cache.
#[derive(Default)]
struct CacheEntry {
    rendered: Mutex<Option<Arc<RenderedPage>>>,
    /// Held by the request that renders the page.
    rendering: tokio::sync::Mutex<()>,
}

/// Rendered status pages by their UUIDs. Pages that no longer exist are removed when another one is
/// added.
#[derive(Default)]
pub(super) struct StatusPageCache(Mutex<HashMap<Uuid, Arc<CacheEntry>>>);

impl StatusPageCache {
    fn entry(&self, dashboard: &DashboardState, uuid: Uuid) -> Arc<CacheEntry> {
        if let Some(entry) = lock(&self.0).get(&uuid) {
            return Arc::clone(entry);
        }
        let existing = dashboard.handle.with_state(|state| {
            let pages = state
                .projects()
                .flat_map(|found| &found.project.status_pages);
            pages.map(|page| page.uuid).collect::<Vec<_>>()
        });
        let mut entries = lock(&self.0);
        entries.retain(|uuid, _| existing.contains(uuid));
        Arc::clone(entries.entry(uuid).or_default())
    }
}

impl CacheEntry {
    /// Rendered page with these settings, of any age.
    fn rendered(&self, page: &StatusPage) -> Option<Arc<RenderedPage>> {
        let rendered = lock(&self.rendered).clone();
        rendered.filter(|rendered| rendered.page == *page)
    }
}

/// Target of a request to the first page of a host that is the domain of a status page. The host of
/// the base URL and names of this machine are no such hosts.
pub(super) fn target_at_host(
    dashboard: &DashboardState,
    origin: &RequestOrigin,
    target: DashboardTarget,
) -> DashboardTarget {
    if target != DashboardTarget::Page(Page::Projects()) {
        return target;
    }
    let host = origin.unknown_host(dashboard);
    let address = host.and_then(|host| address_of_domain(dashboard, host));
    address.map_or(target, |address| {
        DashboardTarget::Page(Page::PublicStatus(address))
    })
}

fn address_of_domain(dashboard: &DashboardState, host: &str) -> Option<StatusPageAddress> {
    dashboard.handle.with_state(|state| {
        let mut pages = state
            .projects()
            .flat_map(|found| &found.project.status_pages);
        let is_named = |page: &&StatusPage| {
            let domain = page.domain.as_ref();
            domain.is_some_and(|domain| domain.matches_host(host))
        };
        pages.find(is_named).map(|page| page.address.clone())
    })
}

/// Answers a request to a status page.
///
/// # Errors
/// If there is no such page, or it cannot be read now.
pub(super) async fn respond(
    dashboard: &Arc<DashboardState>,
    address: &StatusPageAddress,
    headers: &HeaderMap,
) -> Result<HttpReply, PageError> {
    let found = find_page(dashboard, address).ok_or_else(PageError::not_found)?;
    let rendered = current_page(dashboard, found).await?;
    let is_known = known_tags(headers).any(|tag| tag == rendered.etag);
    let zips = accepts_gzip(headers);
    let mut reply = if is_known {
        reply::not_modified(&rendered.etag)
    } else if zips {
        reply::page(rendered.gzipped.clone())
    } else {
        reply::page(rendered.plain.clone())
    };
    if zips && !is_known {
        reply::set_header(&mut reply, CONTENT_ENCODING, "gzip");
    }
    reply::set_header(&mut reply, ETAG, &rendered.etag);
    reply::set_header(&mut reply, CACHE_CONTROL, CACHING);
    reply::set_header(&mut reply, VARY, "Accept-Encoding");
    Ok(reply)
}

fn find_page(dashboard: &DashboardState, address: &StatusPageAddress) -> Option<FoundPage> {
    dashboard.handle.with_state(|state| {
        state.projects().find_map(|found| {
            let mut pages = found.project.status_pages.iter();
            let page = pages.find(|page| page.address == *address)?;
            Some(FoundPage {
                project: Arc::clone(&found.project),
                page: page.clone(),
            })
        })
    })
}

/// Page to send. While one request renders it anew, the others get the previous one; if there is
/// none, they wait.
async fn current_page(
    dashboard: &Arc<DashboardState>,
    found: FoundPage,
) -> Result<Arc<RenderedPage>, PageError> {
    let entry = dashboard.status_pages.entry(dashboard, found.page.uuid);
    let is_fresh =
        |rendered: &Arc<RenderedPage>| dashboard.handle.clock().uptime() < rendered.expires;
    let previous = entry.rendered(&found.page);
    if let Some(fresh) = previous.clone().filter(is_fresh) {
        return Ok(fresh);
    }
    let _permit = match (previous, entry.rendering.try_lock()) {
        (_, Ok(permit)) => permit,
        (Some(previous), Err(_)) => return Ok(previous),
        (None, Err(_)) => entry.rendering.lock().await,
    };
    if let Some(fresh) = entry.rendered(&found.page).filter(is_fresh) {
        return Ok(fresh);
    }
    let shared_dashboard = Arc::clone(dashboard);
    let rendered = dashboard
        .run_blocking_anonymous(move || render(&shared_dashboard, found))
        .await??;
    *lock(&entry.rendered) = Some(Arc::clone(&rendered));
    Ok(rendered)
}

fn render(dashboard: &DashboardState, found: FoundPage) -> Result<Arc<RenderedPage>, PageError> {
    let clock = dashboard.handle.clock();
    let started = clock.uptime();
    let html = contents::render(dashboard, &found.project, &found.page)?;
    let gzipped = assets::gzip(html.as_bytes(), Compression::default());
    let digest = Sha256::digest(&html);
    let digest: String = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let finished = clock.uptime();
    let lifetime = finished.saturating_sub(started) * LIFETIME_RATIO;
    Ok(Arc::new(RenderedPage {
        page: found.page,
        plain: html.into(),
        gzipped: gzipped.into(),
        etag: format!("\"{digest}\""),
        expires: finished + lifetime.max(MIN_LIFETIME),
    }))
}

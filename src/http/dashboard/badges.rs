//! Page with the badges of a project: available badges, preview, and snippets to paste.

use std::collections::BTreeSet;

use askama::Template;

use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, RequiredRight};
use crate::domain::ids::parse_hyphenated_uuid;
use crate::http::common::badge_link::badge_urls;
use crate::http::common::badge_path::{BadgeFormat, BadgePath, BadgeStates};

/// Maximum number of tags and checks to choose from: see [limits](crate::docs::limits).
const MAX_CHOICES: usize = 1000;

#[derive(Template)]
#[template(path = "badges.html", config = "src/http/dashboard/askama.toml")]
struct BadgesPage {
    layout: Layout,
    page_url: String,
    /// URL of the list of status pages, if the viewer may see it.
    status_pages: Option<String>,
    /// Subject of the badge: `all`, `tag:` with a tag, or `check:` with a UUID.
    of: String,
    tags: Vec<String>,
    checks: Vec<(String, String)>,
    has_three: bool,
    formats: [(&'static str, bool); 3],
    url: String,
    html: String,
    markdown: String,
    is_picture: bool,
    /// URL of the preview on this page, as a path.
    picture: String,
    alt: String,
}

/// Renders the page. The selected badge is in its URL.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let mut tags = BTreeSet::new();
    let mut checks = Vec::new();
    request.handle().for_each_check(project.id, |check| {
        let check_tags = check
            .settings
            .tags
            .as_str()
            .split_whitespace()
            .map(str::to_owned);
        tags.extend(check_tags.take(MAX_CHOICES.saturating_sub(tags.len())));
        if checks.len() < MAX_CHOICES {
            let uuid = check.badge.to_string();
            let name = check.settings.name.as_str();
            checks.push((
                uuid.clone(),
                if name.is_empty() { uuid } else { name.into() },
            ));
        }
    });
    let format = BadgeFormat::ALL
        .into_iter()
        .find(|format| format.name() == request.query.get("format"))
        .unwrap_or(BadgeFormat::Svg);
    let has_three = request.query.get("states") == "3";
    let of = request.query.get("of");
    let (of, url, alt) = match of.split_once(':') {
        Some(("check", uuid)) => {
            let badge = parse_hyphenated_uuid(uuid).ok_or_else(PageError::not_found)?;
            let name = checks
                .iter()
                .find(|(own, _)| own == uuid)
                .map(|(_, name)| name.clone())
                .ok_or_else(PageError::not_found)?;
            let mut url = request.base_url().as_str().to_owned();
            let states = if has_three {
                BadgeStates::Three
            } else {
                BadgeStates::Two
            };
            let path = BadgePath::Check {
                states,
                badge,
                format,
            };
            path.write(&mut url);
            (of.to_owned(), url, name)
        }
        Some(("tag", tag)) => (
            of.to_owned(),
            project_badge_url(request, Some(tag), has_three, format)?,
            tag.to_owned(),
        ),
        _ => (
            "all".to_owned(),
            project_badge_url(request, None, has_three, format)?,
            project.name.as_str().to_owned(),
        ),
    };
    let escape = |text: &str| {
        text.replace('&', "&amp;")
            .replace('"', "&quot;")
            .replace('<', "&lt;")
    };
    let badges = BadgesPage {
        layout: request.layout("Badges"),
        page_url: request.page_url(&Page::Badges(project.uuid)),
        status_pages: request
            .is_allowed(RequiredRight::Write)
            .then(|| request.page_url(&Page::StatusPages(project.uuid))),
        of,
        tags: tags.into_iter().collect(),
        checks,
        has_three,
        formats: BadgeFormat::ALL.map(|own| (own.name(), own == format)),
        html: format!("<img src=\"{}\" alt=\"{}\">", escape(&url), escape(&alt)),
        markdown: format!("![{}]({url})", alt.replace(['[', ']', '\\'], "")),
        is_picture: format == BadgeFormat::Svg,
        picture: format!(
            "{}{}",
            request.base_url().path(),
            url.strip_prefix(request.base_url().as_str())
                .unwrap_or_default()
        ),
        url,
        alt,
    };
    Ok(HtmlPage::from_template(&badges).into())
}

/// URL of the badge of a tag, or of all checks.
fn project_badge_url(
    request: &PageRequest,
    tag: Option<&str>,
    has_three: bool,
    format: BadgeFormat,
) -> Result<String, PageError> {
    let secret = request
        .handle()
        .badge_secret()
        .ok_or_else(PageError::not_found)?;
    let name = format!("{}{}", format.name(), if has_three { "3" } else { "" });
    let links = badge_urls(
        request.base_url().as_str(),
        &secret,
        &request.project()?.badge_key,
        tag,
    );
    links
        .into_iter()
        .find(|(own, _)| *own == name)
        .map(|(_, url)| url)
        .ok_or_else(PageError::not_found)
}

//! Badges of a project: which there are, how they look, and what to paste.

use std::collections::BTreeSet;

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::frame::Frame;
use super::route::Page;
use super::visit::Visit;
use crate::domain::ids::hyphenated_uuid;
use crate::wire::badge_link::links;
use crate::wire::route::{BadgePath, Format, Route, States};

/// Tags and checks that the page lets choose among: see [limits](crate::docs::limits).
const MOST_CHOICES: usize = 1000;

#[derive(Template)]
#[template(path = "badges.html", config = "src/web/askama.toml")]
struct Badges {
    frame: Frame,
    own: String,
    /// What the badge is of: `all`, `tag:` with a tag, or `check:` with a UUID.
    of: String,
    tags: Vec<String>,
    checks: Vec<(String, String)>,
    has_three: bool,
    formats: [(&'static str, bool); 3],
    url: String,
    html: String,
    markdown: String,
    is_picture: bool,
    /// The address of the picture on this page: its path alone.
    picture: String,
    alt: String,
}

/// The page. What is chosen stands in its address.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let project = visit.project()?;
    let (mut tags, mut checks) = (BTreeSet::new(), Vec::new());
    visit.handle().each_check(project.id, |check| {
        let own = check.settings.tags.as_str().split_whitespace().map(str::to_owned);
        tags.extend(own.take(MOST_CHOICES.saturating_sub(tags.len())));
        if checks.len() < MOST_CHOICES {
            let (uuid, name) = (check.badge.to_string(), check.settings.name.as_str());
            checks.push((uuid.clone(), if name.is_empty() { uuid } else { name.into() }));
        }
    });
    let format = Format::ALL.into_iter().find(|format| format.name() == visit.query.get("format")).unwrap_or(Format::Svg);
    let has_three = visit.query.get("states") == "3";
    let of = visit.query.get("of");
    let (of, url, alt) = match of.split_once(':') {
        Some(("check", uuid)) => {
            let badge = hyphenated_uuid(uuid).ok_or_else(Trouble::nothing_here)?;
            let name = checks.iter().find(|(own, _)| own == uuid).map(|(_, name)| name.clone()).ok_or_else(Trouble::nothing_here)?;
            let mut url = visit.base_url().as_str().to_owned();
            let states = if has_three { States::Three } else { States::Two };
            Route::Badge(BadgePath::Check { states, badge, format }).write(&mut url);
            (of.to_owned(), url, name)
        }
        Some(("tag", tag)) => (of.to_owned(), of_project(visit, Some(tag), has_three, format)?, tag.to_owned()),
        _ => ("all".to_owned(), of_project(visit, None, has_three, format)?, project.name.as_str().to_owned()),
    };
    let escape = |text: &str| text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let badges = Badges {
        frame: visit.frame("Badges"),
        own: visit.link(&Page::Badges(project.uuid)),
        of,
        tags: tags.into_iter().collect(),
        checks,
        has_three,
        formats: Format::ALL.map(|own| (own.name(), own == format)),
        html: format!("<img src=\"{}\" alt=\"{}\">", escape(&url), escape(&alt)),
        markdown: format!("![{}]({url})", alt.replace(['[', ']', '\\'], "")),
        is_picture: format == Format::Svg,
        picture: format!("{}{}", visit.base_url().path(), url.strip_prefix(visit.base_url().as_str()).unwrap_or_default()),
        url,
        alt,
    };
    Ok(Html::of(&badges).into())
}

/// The URL of the badge of a tag, or of all checks.
fn of_project(visit: &Visit, tag: Option<&str>, has_three: bool, format: Format) -> Result<String, Trouble> {
    let secret = visit.handle().badge_secret().ok_or_else(Trouble::nothing_here)?;
    let name = format!("{}{}", format.name(), if has_three { "3" } else { "" });
    let links = links(visit.base_url().as_str(), &secret, &visit.project()?.badge_key, tag);
    links.into_iter().find(|(own, _)| *own == name).map(|(_, url)| url).ok_or_else(Trouble::nothing_here)
}

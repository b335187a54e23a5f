//! `/search/`: finds checks, projects, pages and actions. The dialog of Ctrl+K shows the results
//! without the page.

use std::cmp::Reverse;

use askama::Template;

use super::check_list::{DisplayStatus, compare_natural, visible_name};
use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, RequiredRight};
use crate::docs::CHAPTERS;
use crate::domain::check::CheckSettings;
use crate::domain::project::Project;

/// Maximum number of results of each kind.
const MAX_RESULTS: usize = 20;
/// Maximum number of characters of a search.
const MAX_CHARS: usize = 200;

#[derive(Template)]
#[template(path = "search.html", config = "src/http/dashboard/askama.toml")]
struct SearchPage {
    layout: Layout,
    path: String,
    search: String,
    project: String,
    results: Vec<SearchResult>,
}

/// Results without the page, for the dialog.
#[derive(Template)]
#[template(path = "_search.html", config = "src/http/dashboard/askama.toml")]
struct SearchFragment {
    search: String,
    results: Vec<SearchResult>,
}

/// Something that was found.
struct SearchResult {
    /// Kind of the result: `Check`, `Project`.
    kind: &'static str,
    title: String,
    /// Project of a check, or tags.
    detail: String,
    url: String,
    /// Status of a check.
    shown: Option<DisplayStatus>,
}

/// Words of a search, in lower case.
struct SearchWords(Vec<String>);

/// Quality of a match, better ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum MatchQuality {
    /// A word is only in another text, such as the tags.
    Elsewhere,
    /// Every word is in the title.
    InTitle,
    /// The title begins with the first word.
    AtBeginning,
}

/// Shows the results of a search.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let search: String = request
        .query
        .get("q")
        .trim()
        .chars()
        .take(MAX_CHARS)
        .collect();
    let words = SearchWords::parse(&search);
    let projects = request.visible_projects();
    let current = request.query.get("project");
    let current = projects
        .iter()
        .find(|project| project.uuid.to_string() == current);
    let mut results = Vec::new();
    if !words.0.is_empty() {
        for project in &projects {
            find_checks(request, project, &words, &mut results);
        }
        keep_best(&mut results);
    }
    let mut others = page_results(request, current.map(|project| &**project));
    others.extend(projects.iter().map(|project| SearchResult {
        kind: "Project",
        title: project.name.as_str().to_owned(),
        detail: String::new(),
        url: request.page_url(&Page::Checks(project.uuid)),
        shown: None,
    }));
    let others = others.into_iter().filter_map(|result| {
        let quality = words.quality(&result.title, &result.detail)?;
        Some((quality, result))
    });
    let mut others: Vec<_> = others.collect();
    keep_best(&mut others);
    results.extend(others);
    let results = results.into_iter().map(|(_, result)| result).collect();
    Ok(match &*request.fragment {
        "results" => HtmlPage::from_template(&SearchFragment { search, results }),
        _ => HtmlPage::from_template(&SearchPage {
            layout: request.layout("Search"),
            path: request.page_url(&Page::Search()),
            project: request.query.get("project").to_owned(),
            search,
            results,
        }),
    }
    .into())
}

/// Adds the checks of a project that match.
fn find_checks(
    request: &PageRequest,
    project: &Project,
    words: &SearchWords,
    results: &mut Vec<(MatchQuality, SearchResult)>,
) {
    request.handle().for_each_check(project.id, |check| {
        let settings: &CheckSettings = &check.settings;
        let title = visible_name(settings);
        let others = [settings.slug.as_str(), settings.tags.as_str()].join(" ");
        if let Some(quality) = words.quality(title, &others) {
            let status = check.state.visible_status(settings, request.now);
            results.push((
                quality,
                SearchResult {
                    kind: "Check",
                    title: title.to_owned(),
                    detail: project.name.as_str().to_owned(),
                    url: request.page_url(&Page::Check(check.uuid)),
                    shown: Some(DisplayStatus::from_status(
                        status,
                        check.state.run.is_some(),
                    )),
                },
            ));
        }
    });
}

/// Keeps the best results, the best and most urgent first.
fn keep_best(results: &mut Vec<(MatchQuality, SearchResult)>) {
    results.sort_by(|(quality, one), (other_quality, other)| {
        let rank = |quality: MatchQuality, result: &SearchResult| (Reverse(quality), result.shown);
        rank(*quality, one)
            .cmp(&rank(*other_quality, other))
            .then_with(|| compare_natural(&one.title, &other.title))
    });
    results.truncate(MAX_RESULTS);
}

/// Pages and actions that the viewer may use. Pages of the current project come first.
fn page_results(request: &PageRequest, current: Option<&Project>) -> Vec<SearchResult> {
    let mut results = Vec::new();
    let mut add = |kind, title: &str, detail: &str, page: Page| {
        results.push(SearchResult {
            kind,
            title: title.to_owned(),
            detail: detail.to_owned(),
            url: request.page_url(&page),
            shown: None,
        });
    };
    if let Some(project) = current {
        let name = project.name.as_str();
        let uuid = project.uuid;
        let may_write = request
            .viewer
            .is_allowed(RequiredRight::Write, Some(project.id));
        if may_write {
            add("Action", "Add check", name, Page::AddCheck(uuid));
            add("Action", "Add channel", name, Page::Channels(uuid));
            add("Action", "Mute alerts", name, Page::Windows(uuid));
            add("Action", "Create key", name, Page::Settings(uuid));
        }
        add("Page", "Checks", name, Page::Checks(uuid));
        add("Page", "Channels", name, Page::Channels(uuid));
        add("Page", "Deliveries", name, Page::Deliveries(uuid));
        add("Page", "Maintenance", name, Page::Windows(uuid));
        add("Page", "Badges", name, Page::Badges(uuid));
        add("Page", "Settings", name, Page::Settings(uuid));
        if may_write {
            add("Page", "Status pages", name, Page::StatusPages(uuid));
            add("Page", "Audit log", name, Page::AuditOfProject(uuid));
        }
    }
    add("Page", "Checks of all projects", "", Page::AllChecks());
    add("Page", "Projects", "", Page::Projects());
    add(
        "Page",
        "Account",
        "password, theme, time zone",
        Page::Account(),
    );
    if request.viewer.is_allowed(RequiredRight::Owner, None) {
        add("Page", "Users", "invite", Page::Users());
        add("Page", "System", "database, connection", Page::System());
        add("Page", "Backups", "", Page::Backups());
        add("Page", "Import", "Healthchecks, overdue", Page::Import());
        add("Page", "Audit log", "of the server", Page::Audit());
        add("Action", "New project", "", Page::AddProject());
    }
    for chapter in CHAPTERS {
        add(
            "Chapter",
            chapter.title,
            "documentation",
            Page::Chapter(chapter),
        );
    }
    results
}

impl SearchWords {
    fn parse(text: &str) -> Self {
        let text = text.to_lowercase();
        Self(text.split_whitespace().map(str::to_owned).collect())
    }

    /// Quality with which a title and other texts match. `None` if a word is in neither.
    fn quality(&self, title: &str, others: &str) -> Option<MatchQuality> {
        let title = title.to_lowercase();
        let others = others.to_lowercase();
        let is_in = |text: &str, word: &String| text.contains(word.as_str());
        if !self
            .0
            .iter()
            .all(|word| is_in(&title, word) || is_in(&others, word))
        {
            return None;
        }
        let begins = self.0.first().is_some_and(|word| title.starts_with(word));
        Some(match self.0.iter().all(|word| is_in(&title, word)) {
            true if begins => MatchQuality::AtBeginning,
            true => MatchQuality::InTitle,
            false => MatchQuality::Elsewhere,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_in_the_title_or_elsewhere() {
        let quality = |search: &str, title: &str, others: &str| {
            SearchWords::parse(search).quality(title, others)
        };
        use MatchQuality::{AtBeginning, Elsewhere, InTitle};
        for (search, title, others, expected) in [
            ("back", "Backup of photos", "", Some(AtBeginning)),
            ("photos BACK", "Backup of photos", "", Some(InTitle)),
            (
                "photos nas",
                "Backup of photos",
                "NAS weekly",
                Some(Elsewhere),
            ),
            ("photos nas", "Backup of photos", "", None),
            ("", "Backup", "", Some(InTitle)),
        ] {
            assert_eq!(quality(search, title, others), expected, "{search}");
        }
    }
}

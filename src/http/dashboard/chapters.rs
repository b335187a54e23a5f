//! `/docs/`: the chapters of the documentation as public pages.

use std::fmt;
use std::sync::LazyLock;

use askama::Template;
use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use crate::docs::{CHAPTERS, Chapter};

#[derive(Template)]
#[template(path = "chapters.html", config = "src/http/dashboard/askama.toml")]
struct ChapterListPage {
    layout: Layout,
    chapters: &'static [Chapter],
}

#[derive(Template)]
#[template(path = "chapter.html", config = "src/http/dashboard/askama.toml")]
struct ChapterPage {
    layout: Layout,
    chapters: &'static [Chapter],
    chapter: &'static Chapter,
    sections: Vec<ChapterSection>,
    text: ChapterHtml,
}

/// Section of a chapter.
pub(super) struct ChapterSection {
    pub(super) id: String,
    pub(super) title: String,
}

/// HTML rendered from a chapter. The chapters are part of the program, and HTML in them is escaped.
pub(super) struct ChapterHtml(String);

impl fmt::Display for ChapterHtml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for ChapterHtml {}

/// Parsed chapters, computed once.
static PARSED_CHAPTERS: LazyLock<Vec<Vec<Event<'static>>>> = LazyLock::new(|| {
    CHAPTERS
        .iter()
        .map(|chapter| parse_chapter(chapter.text))
        .collect()
});

/// Parsed chapters, in reading order.
pub(super) fn parsed_chapters() -> &'static [Vec<Event<'static>>] {
    &PARSED_CHAPTERS
}

pub(super) fn show_list(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(HtmlPage::from_template(&ChapterListPage {
        layout: request.layout("Documentation"),
        chapters: CHAPTERS,
    })
    .into())
}

pub(super) fn show(
    request: &PageRequest,
    chapter: &'static Chapter,
) -> Result<PageResponse, PageError> {
    let at = CHAPTERS.iter().position(|one| one == chapter);
    let events = at
        .and_then(|at| PARSED_CHAPTERS.get(at))
        .map(Vec::as_slice)
        .unwrap_or_default();
    let text = render_chapter(events, |chapter| request.page_url(&Page::Chapter(chapter)));
    let layout = request.layout(chapter.title);
    Ok(HtmlPage::from_template(&ChapterPage {
        layout,
        chapters: CHAPTERS,
        chapter,
        sections: list_sections(events),
        text,
    })
    .into())
}

/// Parses a chapter. Every heading gets an id, styles are removed, and HTML becomes text.
fn parse_chapter(text: &'static str) -> Vec<Event<'static>> {
    let mut events: Vec<_> =
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).collect();
    for at in 0..events.len() {
        let id = matches!(events.get(at), Some(Event::Start(Tag::Heading { .. })))
            .then(|| heading_id(&heading_text(&events, at)));
        let Some(event) = events.get_mut(at) else {
            break;
        };
        match event {
            Event::Start(Tag::Heading { id: own, .. }) => *own = id.map(CowStr::from),
            Event::Start(Tag::Table(columns)) => columns.fill(Alignment::None),
            Event::Html(html) | Event::InlineHtml(html) => *event = Event::Text(html.clone()),
            _ => {}
        }
    }
    events
}

/// Text of the heading that begins at `at`.
pub(super) fn heading_text(events: &[Event<'_>], at: usize) -> String {
    let events_in_heading = events
        .iter()
        .skip(at)
        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let words = events_in_heading.filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(&**text),
        _ => None,
    });
    words.collect()
}

/// Id of a heading in URLs, in the form that is usual for Markdown files.
fn heading_id(title: &str) -> String {
    let lower_case = title.to_lowercase();
    lower_case
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Sections of a chapter.
pub(super) fn list_sections(events: &[Event<'_>]) -> Vec<ChapterSection> {
    let heading = |(at, event): (usize, &Event<'_>)| match event {
        Event::Start(Tag::Heading {
            level: HeadingLevel::H2,
            id: Some(id),
            ..
        }) => Some(ChapterSection {
            id: id.to_string(),
            title: heading_text(events, at),
        }),
        _ => None,
    };
    events.iter().enumerate().filter_map(heading).collect()
}

/// Renders a chapter. Links between files become links to pages, whose addresses `address` returns.
/// Of links to other files of the repository only the text remains.
pub(super) fn render_chapter(
    events: &[Event<'static>],
    address: impl Fn(&'static Chapter) -> String,
) -> ChapterHtml {
    let mut is_left_out = false;
    let events = events.iter().filter_map(|event| match event {
        Event::Start(Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }) => {
            let url = resolve_link(dest_url, &address);
            is_left_out = url.is_none();
            let url = url?.into();
            Some(Event::Start(Tag::Link {
                link_type: *link_type,
                dest_url: url,
                title: title.clone(),
                id: id.clone(),
            }))
        }
        // Pictures are not part of the program: only their text remains.
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::End(TagEnd::Link) => (!std::mem::take(&mut is_left_out)).then(|| event.clone()),
        _ => Some(event.clone()),
    });
    let mut text = String::new();
    html::push_html(&mut text, events);
    // A table may be wider than the screen of a phone.
    ChapterHtml(
        text.replace("<table>", r#"<div class="wide" tabindex="0"><table>"#)
            .replace("</table>", "</table></div>"),
    )
}

/// Target of a link in a chapter.
fn resolve_link(url: &str, address: impl Fn(&'static Chapter) -> String) -> Option<String> {
    if url.starts_with('#') || url.starts_with("https://") {
        return Some(url.to_owned());
    }
    let (file, place) = url
        .split_once('#')
        .map_or((url, String::new()), |(file, place)| {
            (file, format!("#{place}"))
        });
    let slug = file.strip_suffix(".md")?;
    let chapter = CHAPTERS.iter().find(|chapter| chapter.slug == slug)?;
    Some(format!("{}{place}", address(chapter)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(chapter: &Chapter) -> String {
        render_chapter(&parse_chapter(chapter.text), |chapter| {
            format!("/sub/docs/{}/", chapter.slug)
        })
        .0
    }

    #[test]
    fn chapters_contain_no_raw_html() {
        for chapter in CHAPTERS {
            let text = page(chapter);
            assert!(text.starts_with("<h1 id=\""), "{}", chapter.slug);
            for bad in ["<script", " style=", "<img", "javascript:", ".md\"", ".md#"] {
                assert!(!text.contains(bad), "{} says {bad}", chapter.slug);
            }
        }
        assert_eq!(
            render_chapter(
                &parse_chapter("a <b onclick=x>b</b>\n\n<script>1</script>\n"),
                |_| String::new()
            )
            .0
            .matches("&lt;")
            .count(),
            4
        );
    }

    #[test]
    fn links_within_the_chapters_lead_to_existing_headings() {
        let pages: Vec<_> = CHAPTERS
            .iter()
            .map(|chapter| (chapter.slug, page(chapter)))
            .collect();
        let mut links = 0;
        for (slug, text) in &pages {
            for url in text
                .split("href=\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .filter(|url| !url.starts_with("https://"))
            {
                let (path, place) = url.split_once('#').unwrap_or((url, ""));
                let to = path
                    .strip_prefix("/sub/docs/")
                    .map_or(*slug, |path| path.trim_end_matches('/'));
                let (_, there) = pages
                    .iter()
                    .find(|(slug, _)| *slug == to)
                    .unwrap_or_else(|| panic!("{slug}: {url}"));
                assert!(
                    place.is_empty() || there.contains(&format!("id=\"{place}\"")),
                    "{slug}: {url}"
                );
                links += 1;
            }
        }
        assert!(links > 10, "{links}");
    }
}

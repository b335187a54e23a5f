//! Documentation as a static site: a page for each chapter, with search, for any web server.

use std::fs;
use std::io;
use std::path::Path;

use askama::Template;
use pulldown_cmark::{Event, Tag};
use serde_json::json;

use super::chapters::{
    ChapterHtml, ChapterSection, heading_text, list_sections, parsed_chapters, render_chapter,
};
use crate::docs::{CHAPTERS, Chapter};

/// Files that are written as they are.
const FILES: [(&str, &str); 2] = [
    ("site.css", include_str!("docs_site/site.css")),
    ("search.js", include_str!("docs_site/search.js")),
];

#[derive(Template)]
#[template(
    path = "page.html",
    config = "src/http/dashboard/docs_site/askama.toml"
)]
struct SitePage<'a> {
    title: &'a str,
    chapters: &'static [Chapter],
    sections: &'a [ChapterSection],
    text: &'a ChapterHtml,
    version: &'static str,
}

/// Writes the site into a directory, which is created if it does not exist. The first chapter is
/// also `index.html`.
///
/// # Errors
/// If a file cannot be written.
pub fn write_docs_site(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let write = |name: &str, text: &str| fs::write(directory.join(name), text);
    let mut index = Vec::new();
    for (number, (chapter, events)) in CHAPTERS.iter().zip(parsed_chapters()).enumerate() {
        let text = render_chapter(events, |chapter| format!("{}.html", chapter.slug));
        let page = SitePage {
            title: chapter.title,
            chapters: CHAPTERS,
            sections: &list_sections(events),
            text: &text,
            version: env!("CARGO_PKG_VERSION"),
        };
        let html = page.render().map_err(io::Error::other)?;
        write(&format!("{}.html", chapter.slug), &html)?;
        if number == 0 {
            write("index.html", &html)?;
        }
        index.extend(search_entries(chapter, events));
    }
    // A script, because browsers load no JSON from files.
    write(
        "search-index.js",
        &format!("const SEARCH_INDEX = {};\n", json!(index)),
    )?;
    FILES
        .into_iter()
        .try_for_each(|(name, text)| write(name, text))
}

/// Title of the chapter, heading, address and text of each section.
fn search_entries(chapter: &Chapter, events: &[Event<'static>]) -> Vec<[String; 4]> {
    let mut entries: Vec<[String; 4]> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Start(Tag::Heading { id, .. }) => {
                let id = id.as_deref().unwrap_or_default();
                entries.push([
                    chapter.title.into(),
                    heading_text(events, at),
                    format!("{}.html#{id}", chapter.slug),
                    String::new(),
                ]);
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some([.., words]) = entries.last_mut() {
                    words.push_str(text);
                }
            }
            Event::SoftBreak | Event::HardBreak | Event::End(_) => {
                if let Some([.., words]) = entries.last_mut()
                    && !words.ends_with(' ')
                {
                    words.push(' ');
                }
            }
            _ => {}
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_site_lead_to_its_pages_and_every_section_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let site = directory.path().join("site");
        write_docs_site(&site).unwrap();
        let read = |name: &str| fs::read_to_string(site.join(name)).unwrap();
        let mut links = 0;
        for chapter in CHAPTERS {
            let html = read(&format!("{}.html", chapter.slug));
            let targets = html.split("href=\"").skip(1);
            for target in targets.filter_map(|rest| rest.split('"').next()) {
                let (file, id) = target.split_once('#').unwrap_or((target, ""));
                if file.starts_with("https://") {
                    continue;
                }
                let there = if file.is_empty() {
                    html.clone()
                } else {
                    read(file)
                };
                assert!(
                    id.is_empty() || there.contains(&format!("id=\"{id}\"")),
                    "{}: {target}",
                    chapter.slug
                );
                links += 1;
            }
        }
        assert!(links > 100, "{links}");
        let index = read("search-index.js");
        let json = index
            .strip_prefix("const SEARCH_INDEX = ")
            .and_then(|text| text.strip_suffix(";\n"))
            .unwrap();
        let entries: Vec<[String; 4]> = serde_json::from_str(json).unwrap();
        assert!(entries.len() > 100, "{}", entries.len());
        let found = entries.iter().find(|entry| entry[1] == "Summaries by mail");
        let [title, _, address, text] = found.unwrap();
        assert_eq!(
            (title.as_str(), address.as_str()),
            ("Alerts", "alerts.html#summaries-by-mail")
        );
        assert!(
            text.contains("overdue user set ann --summary weekly"),
            "{text}"
        );
        assert_eq!(read("index.html"), read("install.html"));
    }
}

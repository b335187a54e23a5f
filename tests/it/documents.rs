//! Documents agree with the repository: the links, paths, tests and constants that they name exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use overdue::docs::{CHAPTERS, Chapter};

use crate::tidy::{expect_none, sources};

/// Returns a file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the documents: their paths and texts.
fn documents() -> Vec<(String, String)> {
    let chapters = CHAPTERS.iter().map(|chapter| {
        (
            format!("src/docs/{}.md", chapter.slug),
            chapter.text.to_owned(),
        )
    });
    let others = ["README.md", "packaging/CHANGELOG.md"].map(|path| (path.to_owned(), file(path)));
    chapters.chain(others).collect()
}

/// Returns the targets of links in a document: the text after `](` and after `]: `.
fn links(text: &str) -> Vec<&str> {
    let inline = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target);
    let references = text
        .lines()
        .filter(|line| line.starts_with('['))
        .filter_map(|line| line.split_once("]: "))
        .map(|(_, target)| target);
    inline.chain(references).collect()
}

#[test]
fn every_chapter_is_reached_from_a_short_readme() {
    let readme = file("README.md");
    let lines = readme.lines().count();
    assert!(
        lines < 200,
        "README.md has {lines} lines; long tables belong into a chapter"
    );
    for Chapter { slug, title, text } in CHAPTERS {
        assert!(
            text.starts_with(&format!("# {title}\n")),
            "the chapter {slug} does not begin with its title"
        );
        assert!(
            links(&readme).contains(&format!("src/docs/{slug}.md").as_str()),
            "README.md has no link to the chapter {slug}"
        );
    }
    let entries =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (pictures, chapters): (Vec<_>, Vec<_>) = names.partition(|name| name.ends_with(".png"));
    assert_eq!(
        chapters.len(),
        CHAPTERS.len(),
        "src/docs holds a file that is no chapter"
    );
    for name in pictures {
        let path = format!("src/docs/{name}");
        assert!(readme.contains(&path), "README.md does not show {path}");
        let bytes = std::fs::metadata(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path))
            .unwrap()
            .len();
        assert!(bytes <= 150_000, "{path} has {bytes} bytes");
    }
}

#[test]
fn links_in_documents_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        let directory = root.join(&path).parent().unwrap().to_owned();
        for link in links(&text)
            .into_iter()
            .filter(|link| !link.starts_with("https://") && !link.starts_with('#'))
        {
            if !directory.join(link.split('#').next().unwrap()).exists() {
                wrong.push(format!("{path} links to {link}, which is not there"));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn promises_name_existing_tests() {
    let mut directories = vec!["src".into(), "tests".into()];
    let mut code = String::new();
    while let Some(directory) = directories.pop() {
        for entry in
            std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join::<PathBuf>(directory))
                .unwrap()
        {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                code.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let promises = file("src/docs/promises.md");
    // Other tables state figures.
    let tables = promises
        .split("\n\n")
        .filter(|table| table.starts_with("| promise |"));
    let rows: Vec<_> = tables.flat_map(|table| table.lines().skip(2)).collect();
    assert!(rows.len() > 100, "only {} promises were found", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let test = row.trim_end_matches("` |").rsplit("::").next().unwrap();
        if !code.contains(&format!("fn {test}(")) {
            wrong.push(format!("no test shows this: {row}"));
        }
    }
    expect_none(&wrong);
}

#[test]
fn limits_name_existing_constants() {
    let mut wrong = Vec::new();
    for row in file("src/docs/limits.md")
        .lines()
        .filter(|line| line.starts_with("| "))
    {
        let place = row.split(" | ").nth(2).unwrap_or_default();
        let mut names = place.split('`').skip(1).step_by(2);
        let mut code = None;
        for name in names.by_ref() {
            if name.ends_with(".rs") {
                code = Some(file(&format!("src/{name}")));
            } else if !name.starts_with("--")
                && !code.as_ref().is_some_and(|code| code.contains(name))
            {
                wrong.push(format!("`{name}` is not where this says: {row}"));
            }
        }
    }
    expect_none(&wrong);
}

/// Returns the texts in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_map_says_where_to_look() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = file("src/lib.rs");
    let sources = sources();
    let defined = |name: &str| {
        let definitions = ["fn", "struct", "enum"].map(|word| format!("{word} {name}"));
        sources.iter().any(|source| {
            definitions
                .iter()
                .any(|definition| source.code.contains(definition))
        })
    };
    let section = map
        .lines()
        .skip_while(|line| *line != "//! # Where to look")
        .skip(1);
    let section: Vec<_> = section
        .take_while(|line| !line.starts_with("//! # "))
        .map(|line| line.trim_start_matches("//!").trim())
        .collect();
    let section = section.join(" ");
    let mut rows = 0;
    for row in section.split(" - ").skip(1) {
        let (_, places) = row
            .split_once(": ")
            .unwrap_or_else(|| panic!("an entry without a place: {row}"));
        for place in quoted(places) {
            let module = root.join(format!("src/{}.rs", place.replace("::", "/")));
            let is_item = place.split("::").any(&defined);
            assert!(
                module.exists()
                    || root.join(place).exists()
                    || is_item
                    || place.starts_with("docs::"),
                "{place} is not there: {row}"
            );
        }
        rows += 1;
    }
    assert!(rows > 10, "the map has lost its list");
}

#[test]
fn chapters_name_existing_paths() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        let in_repository = |name: &&str| {
            ["src/", "tests/", "benches/", "packaging/"]
                .iter()
                .any(|top| name.starts_with(top))
        };
        for name in quoted(&text.replace("```", ""))
            .filter(in_repository)
            .filter(|name| !name.contains(['<', ' ']))
        {
            if !root.join(name).exists() {
                wrong.push(format!("{path} names {name}, which is not there"));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn every_dependency_has_a_reason() {
    let chapter = file("src/docs/dependencies.md");
    let (rows, tests) = chapter.split_once("## Only for tests").unwrap();
    let manifest: toml::Table = file("Cargo.toml").parse().unwrap();
    let targets = manifest["target"].as_table().unwrap();
    let tables: Vec<_> = targets.values().filter_map(toml::Value::as_table).collect();
    let names = |kind: &str| -> BTreeSet<String> {
        let tables = tables.iter().copied().chain([&manifest]);
        let of_kind = tables.filter_map(|table| table.get(kind)?.as_table());
        of_kind.flat_map(toml::Table::keys).cloned().collect()
    };
    let linked = names("dependencies");
    let described: BTreeSet<String> = rows
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .flat_map(|row| row.split(" |").next().unwrap().split('`'))
        .filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
        .map(str::to_owned)
        .collect();
    assert_eq!(linked, described);
    for name in names("dev-dependencies").difference(&linked) {
        assert!(tests.contains(&format!("`{name}`")), "{name}");
    }
}

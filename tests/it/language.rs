//! Rules of wording and layout: plain words in comments, chapters and pages, one meaning for each
//! type name, lines of at most 100 columns.
//!
//! `EXCEPTIONS` lists what does not keep them yet. It may only shrink: a number that is higher than
//! what is found fails too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum number of columns of a line of Rust.
const MAX_COLUMNS: usize = 100;
/// Maximum number of modules that `src/lib.rs` declares.
const MAX_MODULES: usize = 21;

/// Phrases that avoid a noun, in lower case.
const IDIOMS: [&str; 22] = [
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "whichever",
    "what has come of",
    "what has become of",
    "what becomes of",
    "of which",
    "of whom",
    "so many",
    "so long as",
    "is told",
    "are told",
    "was told",
    "were told",
    "be told",
    "been told",
    "those who",
    "those that",
    "those of",
    "comes to nothing",
];

/// First words of a doc comment that is a clause in place of a noun or a verb.
const CLAUSES: [&str; 14] = [
    "What",
    "Whether",
    "How",
    "Who",
    "Whom",
    "Whose",
    "Where",
    "When",
    "Which",
    "Since when",
    "Those",
    "That",
    "So many",
    "So long",
];

/// Rule, file, and the number of places that break it.
const EXCEPTIONS: &[(Rule, &str, usize)] = &[];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rule {
    /// A comment or a line of prose has one of [`IDIOMS`].
    Idiom,
    /// A doc comment begins with one of [`CLAUSES`].
    Clause,
    /// A line has more than [`MAX_COLUMNS`].
    WideLine,
    /// `let (a, b) = (x, y)` in place of two lines.
    TupleLet,
}

/// Files below a directory of the repository whose names end with one of `extensions`.
fn read_files(directory: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut directories = vec![root.join(directory)];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if extensions
                .iter()
                .any(|end| path.extension().is_some_and(|own| own == *end))
            {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                files.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files
}

/// True if `text` has `phrase` as whole words. Both are in lower case.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    })
}

fn has_idiom(line: &str) -> bool {
    let line = line.to_lowercase();
    IDIOMS.iter().any(|idiom| has_phrase(&line, idiom))
}

fn begins_with_clause(line: &str) -> bool {
    line.strip_prefix("/// ").is_some_and(|text| {
        CLAUSES.iter().any(|clause| {
            text.strip_prefix(clause)
                .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        })
    })
}

/// True for `let (a, b) = (`, where each name may be preceded by `mut`.
fn is_tuple_let(line: &str) -> bool {
    let names = line
        .strip_prefix("let (")
        .and_then(|rest| rest.split_once(") = ("));
    names.is_some_and(|(names, _)| {
        let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        names
            .split(", ")
            .all(|name| is_name(name.strip_prefix("mut ").unwrap_or(name)))
    })
}

/// Rules that a line of Rust breaks.
fn broken_rules(line: &str) -> impl Iterator<Item = Rule> {
    let code = line.trim_start();
    let is_comment = code.starts_with("//");
    [
        (Rule::Idiom, is_comment && has_idiom(code)),
        (Rule::Clause, begins_with_clause(code)),
        (Rule::WideLine, line.chars().count() > MAX_COLUMNS),
        (Rule::TupleLet, is_tuple_let(code)),
    ]
    .into_iter()
    .filter_map(|(rule, is_broken)| is_broken.then_some(rule))
}

#[test]
fn comments_and_prose_are_plain_and_lines_are_short() {
    let mut found: BTreeMap<(Rule, String), Vec<usize>> = BTreeMap::new();
    for directory in ["src", "benches"] {
        for (file, text) in read_files(directory, &["rs"]) {
            for (number, line) in (1..).zip(text.lines()) {
                for rule in broken_rules(line) {
                    found.entry((rule, file.clone())).or_default().push(number);
                }
            }
        }
    }
    for (file, text) in read_files("src", &["md", "html"]) {
        let numbers = (1..).zip(text.lines()).filter(|(_, line)| has_idiom(line));
        for (number, _) in numbers {
            found
                .entry((Rule::Idiom, file.clone()))
                .or_default()
                .push(number);
        }
    }
    let mut wrong = Vec::new();
    for ((rule, file), lines) in &found {
        let allowed = EXCEPTIONS
            .iter()
            .find(|(of, name, _)| (of, name) == (rule, &file.as_str()))
            .map_or(0, |(_, _, count)| *count);
        if lines.len() > allowed {
            wrong.push(format!(
                "{file}: {rule:?} at lines {lines:?}, allowed: {allowed}"
            ));
        }
    }
    for (rule, file, count) in EXCEPTIONS {
        let lines = found.get(&(*rule, (*file).to_owned())).map_or(0, Vec::len);
        if lines < *count {
            wrong.push(format!(
                "{file}: {rule:?} has {lines} exceptions: lower the number"
            ));
        }
    }
    super::tidy::expect_none(&wrong);
}

/// Name of the type that a line declares.
fn declared_type(line: &str) -> Option<&str> {
    let mut line = line.trim_start();
    if let Some(rest) = line.strip_prefix("pub") {
        line = rest.trim_start();
        if line.starts_with('(') {
            line = line.split_once(") ")?.1;
        }
    }
    let name = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|word| line.strip_prefix(word))?;
    let end = name
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}

#[test]
fn a_type_name_is_declared_by_one_file() {
    // Associated types of traits, and aliases that every library has.
    let common = [
        "Result", "Error", "Item", "Output", "Target", "Err", "Ok", "Data", "Future", "Response",
        "IntoIter", "Accepted", "Detached", "Value",
    ];
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in super::tidy::sources()
        .iter()
        .filter(|source| !source.is_tests())
    {
        for name in source.code.lines().filter_map(declared_type) {
            if !common.contains(&name) {
                files
                    .entry(name.to_owned())
                    .or_default()
                    .insert(source.path.clone());
            }
        }
    }
    let wrong: Vec<_> = files
        .iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| format!("`{name}` is declared in {files:?}"))
        .collect();
    super::tidy::expect_none(&wrong);
}

#[test]
fn the_crate_has_few_modules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let is_declaration = |line: &&str| line.starts_with("mod ") || line.starts_with("pub mod ");
    let count = text.lines().filter(is_declaration).count();
    assert!((10..=MAX_MODULES).contains(&count), "{count} modules");
}

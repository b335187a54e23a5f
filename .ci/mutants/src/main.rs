//! Inserts all mutants into a copy of the sources, each behind a condition, so that one build tests
//! all of them: `mutants SOURCES LIST EXCLUDED PATH…`. SOURCES is the `src` of the copy; PATH is a
//! directory or a beginning of file names in it; EXCLUDED has the numbers of mutants to leave out.
//! LIST gets one line for each mutant: number, file, line, function, change, and the range of bytes
//! in the changed file that its code takes, separated by tabs.
//!
//! Text is only inserted, so that line numbers stay as they are.

mod function_values;
mod sites;

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sites::Insertion;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [sources, list, excluded, paths @ ..] = arguments.as_slice() else {
        return Err("usage: mutants SOURCES LIST EXCLUDED PATH…".into());
    };
    let sources = Path::new(sources);
    let excluded: HashSet<u32> = fs::read_to_string(excluded)?
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let mut files = Vec::new();
    find_files(sources, &mut files)?;
    files.sort();
    let (mut lines, mut next) = (String::new(), 1);
    for file in files {
        let name = file.strip_prefix(sources)?.to_str().ok_or("file name")?;
        let is_chosen = paths.iter().any(|path| name.starts_with(path.as_str()));
        if !is_chosen || name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        let sites = sites::find(&text, next, &excluded)?;
        next = sites.next;
        fs::write(&file, insert(&text, sites.insertions, name, &mut lines)?)?;
    }
    fs::write(list, lines)?;
    let module = include_str!("mutation.rs.txt").replace("@COUNT@", &next.to_string());
    fs::write(sources.join("mutation.rs"), module)?;
    let library = sources.join("lib.rs");
    let text = fs::read_to_string(&library)?;
    fs::write(library, text + "\npub(crate) mod mutation;\n")?;
    Ok(())
}

fn find_files(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            find_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The changed text. Adds the mutants in it to `list`.
fn insert(
    text: &str,
    mut insertions: Vec<Insertion>,
    name: &str,
    list: &mut String,
) -> Result<String, std::fmt::Error> {
    insertions.sort_by_key(Insertion::order);
    let (mut changed, mut copied) = (String::new(), 0);
    for insertion in insertions {
        changed.push_str(&text[copied..insertion.at]);
        copied = insertion.at;
        let start = changed.len();
        changed.push_str(&insertion.text);
        if let Some(mutant) = insertion.mutant {
            let line = text[..insertion.at].matches('\n').count() + 1;
            let (number, function, change) = (mutant.number, mutant.function, mutant.change);
            let end = changed.len();
            writeln!(
                list,
                "{number}\tsrc/{name}\t{line}\t{function}\t{change}\t{start}\t{end}"
            )?;
        }
    }
    changed.push_str(&text[copied..]);
    Ok(changed)
}

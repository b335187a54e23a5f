//! Rules of the code base that the compiler does not check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Modules and files that cannot wait, cause I/O errors or read the time.
const PURE: [&str; 17] = [
    "domain",
    "channels",
    "mail",
    "util/wheel.rs",
    "outbound/address_guard.rs",
    "smtp/address.rs",
    "smtp/data_decoder.rs",
    "smtp/dialogue.rs",
    "http/dashboard/check/log_entries.rs",
    "http/dashboard/check/form_fields.rs",
    "http/dashboard/check/plot.rs",
    "http/dashboard/untrusted_text.rs",
    "http/dashboard/channels/form_fields.rs",
    "http/dashboard/check_list/query.rs",
    "http/dashboard/live_updates/update_frame.rs",
    "http/dashboard/live_updates/snapshot.rs",
    "http/dashboard/snippet.rs",
];

/// Names that are forbidden in pure files.
const IMPURE: [&str; 20] = [
    "tokio",
    "hyper",
    "redb",
    "tracing",
    "getrandom",
    "std::env",
    "std::fs",
    "std::io",
    "std::os",
    "std::process",
    "std::thread",
    "File",
    "Instant",
    "SystemTime",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "UnixStream",
    "async",
    "await",
];

/// Names that are allowed in some modules or files only.
const OWNED: [(&str, &[&str]); 17] = [
    ("redb", &["store"]),
    ("rmp_serde", &["store/record.rs"]),
    ("TableDefinition", &["store"]),
    ("hyper", &["http", "admin", "outbound"]),
    ("hyper_util", &["http", "admin", "outbound"]),
    ("http_body_util", &["http/common", "admin", "outbound"]),
    (
        "StatusCode",
        &[
            "http/common/reply.rs",
            "admin/error.rs",
            "admin/connection.rs",
        ],
    ),
    ("askama", &["http/dashboard", "notifier/summary"]),
    ("clap", &["cli"]),
    ("begin_write", &["store.rs"]),
    // Outgoing connections, and processes.
    (
        "TcpSocket",
        &["outbound/dial.rs", "outbound/resolver/dns.rs"],
    ),
    ("TcpStream::connect", &[]),
    ("HttpConnector", &["outbound/object_requests.rs"]),
    ("UdpSocket", &["outbound/resolver/dns.rs"]),
    ("mail_send", &["outbound/mail.rs"]),
    // The second starts this program as another user. The third starts the command that a session
    // runs. The fourth starts servers for unit tests. The fifth starts this program again.
    (
        "std::process::Command",
        &[
            "cli/discover/system.rs",
            "cli/data_directory.rs",
            "cli/session.rs",
            "server/cluster/etcd/test_server.rs",
            "server/restart.rs",
        ],
    ),
    (
        "tokio::process",
        &[
            "outbound/command.rs",
            "outbound/resolver.rs",
            "agent/job_process.rs",
        ],
    ),
];

/// Maximum number of lines of a file.
const MAX_LINES: usize = 600;

/// Files that are longer, with their number of lines. The list may only shrink.
const LONG_FILES: [(&str, usize); 0] = [];

/// Entries at the top of the repository, except dot-files.
const TOP_LEVEL_ENTRIES: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "src",
    "tests",
    "benches",
    "packaging",
    "LICENSE",
    "README.md",
];

pub(crate) struct SourceFile {
    /// Below `src`.
    pub(crate) path: String,
    text: String,
    /// The text without comments and unit tests.
    pub(crate) code: String,
}

impl SourceFile {
    pub(crate) fn is_tests(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// First part of its path: a module that `src/lib.rs` declares.
    fn module(&self) -> &str {
        self.path.split(['/', '.']).next().unwrap()
    }

    /// Path of its module, such as `http::common::reply`.
    fn module_path(&self) -> String {
        self.path.trim_end_matches(".rs").replace('/', "::")
    }

    /// Returns the number of modules above this one in the crate.
    fn depth(&self) -> usize {
        self.path.split('/').count()
    }

    fn names(&self, name: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        self.code.match_indices(name).any(|(at, _)| {
            let before = &self.code[..at];
            let after = &self.code[at + name.len()..];
            !before.ends_with(is_word) && !after.starts_with(is_word)
        })
    }

    /// Returns the modules that it imports from, by paths that begin with `crate::`.
    fn imports(&self) -> Vec<String> {
        let ident = |text: &str| {
            text.chars()
                .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
                .collect::<String>()
        };
        let mut modules = Vec::new();
        for (at, start) in self.code.match_indices("crate::") {
            let rest = &self.code[at + start.len()..];
            let Some(group) = rest.strip_prefix('{') else {
                modules.push(ident(rest));
                continue;
            };
            let mut nested = 0;
            let mut begins = true;
            for (at, c) in group.char_indices() {
                match c {
                    '{' => nested += 1,
                    '}' if nested == 0 => break,
                    '}' => nested -= 1,
                    ',' if nested == 0 => begins = true,
                    c if begins && !c.is_whitespace() => {
                        modules.push(ident(&group[at..]));
                        begins = false;
                    }
                    _ => {}
                }
            }
        }
        modules
    }
}

/// Returns the code of a file before its unit tests, without comments.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| {
        let comment = line
            .match_indices("//")
            .find(|(at, _)| line[..*at].trim_end().len() < *at || *at == 0);
        comment.map_or(line, |(at, _)| &line[..at])
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn sources() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut directories = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let path = path
                    .strip_prefix(&root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                sources.push(SourceFile {
                    path,
                    code: code(&text),
                    text,
                });
            }
        }
    }
    assert!(
        sources.len() > 50,
        "the sources are not where the test expects them"
    );
    sources
}

/// Returns the layer of each module, from the table in `src/lib.rs`. A row begins with the number
/// of a layer. The names in backquotes in the next column are modules. `main.rs` and the files in
/// `bin` are above all of them.
fn module_layers() -> BTreeMap<String, u32> {
    let map =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let mut layers = BTreeMap::new();
    for row in map.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        let mut columns = row.split(" | ");
        let Ok(layer) = columns.next().unwrap().parse::<u32>() else {
            continue;
        };
        let modules = columns.next().unwrap().split('`').skip(1).step_by(2);
        for module in modules {
            assert_eq!(
                layers.insert(module.to_owned(), layer),
                None,
                "the map in src/lib.rs names `{module}` twice"
            );
        }
    }
    layers
}

/// Returns the innermost module of the map that holds a path, and its layer.
fn find_layer<'a>(layers: &'a BTreeMap<String, u32>, path: &str) -> Option<(&'a str, u32)> {
    let holds = |module: &str| {
        path.strip_prefix(module)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let modules = layers.iter().filter(|(module, _)| holds(module));
    modules
        .max_by_key(|(module, _)| module.len())
        .map(|(module, layer)| (module.as_str(), *layer))
}

/// Fails if there are any errors, and lists all of them.
pub(crate) fn expect_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn modules_import_only_from_layers_below() {
    let layers = module_layers();
    let mut wrong = Vec::new();
    for module in layers.keys() {
        if !sources()
            .iter()
            .any(|source| source.module_path() == *module)
        {
            wrong.push(format!(
                "the map in src/lib.rs names `{module}`, which is not there"
            ));
        }
    }
    for source in sources() {
        let path = &source.path;
        if matches!(source.module(), "lib" | "main" | "bin") || source.is_tests() {
            continue;
        }
        let Some((module, own)) = find_layer(&layers, &source.module_path()) else {
            wrong.push(format!(
                "{path}: its module has no layer yet; give it one in the table of src/lib.rs"
            ));
            continue;
        };
        for import in source.imports() {
            match find_layer(&layers, &import) {
                Some((other, layer)) if layer < own || other == module => {}
                Some((other, _)) => wrong.push(format!(
                    "{path}: `{module}` may not import from `{other}`, which is not below it"
                )),
                None => wrong.push(format!("{path}: `crate::{import}` is no module")),
            }
        }
        // Modules within the file are indented.
        let leaving = format!("use {}", "super::".repeat(source.depth()));
        if source.code.lines().any(|line| line.starts_with(&leaving)) {
            wrong.push(format!(
                "{path}: leaves its module by `super::`; say `crate::`"
            ));
        }
    }
    expect_none(&wrong);
}

#[test]
fn pure_files_neither_wait_nor_do_io() {
    let sources = sources();
    for pure in PURE {
        assert!(
            sources.iter().any(|source| source.path.starts_with(pure)),
            "{pure} is gone: update the list"
        );
    }
    let pure = sources.iter().filter(|source| {
        PURE.iter().any(|pure| source.path.starts_with(pure)) && !source.is_tests()
    });
    let wrong: Vec<_> = pure
        .flat_map(|source| {
            IMPURE
                .iter()
                .filter(|name| source.names(name))
                .map(|name| format!("{} names `{name}`", source.path))
        })
        .collect();
    expect_none(&wrong);
}

#[test]
fn names_stay_in_their_modules() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_tests()) {
        for (name, owners) in OWNED {
            if source.names(name) && !owners.iter().any(|owner| source.path.starts_with(owner)) {
                wrong.push(format!(
                    "{} names `{name}`, which belongs to {owners:?}",
                    source.path
                ));
            }
        }
        if source.module() == "domain" && source.names("serde") {
            wrong.push(format!(
                "{} names `serde`: what is stored or sent has types of its own",
                source.path
            ));
        }
        // Only the engine writes.
        if source.code.contains(".batch()") && !matches!(source.module(), "engine" | "store") {
            wrong.push(format!("{} opens a write transaction", source.path));
        }
    }
    expect_none(&wrong);
}

#[test]
fn a_table_is_defined_once() {
    let mut tables = BTreeMap::new();
    for source in sources().iter().filter(|source| !source.is_tests()) {
        for (at, start) in source.code.match_indices("TableDefinition::new(\"") {
            let name = source.code[at + start.len()..]
                .split('"')
                .next()
                .unwrap()
                .to_owned();
            if let Some(other) = tables.insert(name.clone(), source.path.clone()) {
                panic!(
                    "the table `{name}` is defined in {other} and in {}",
                    source.path
                );
            }
        }
    }
    assert!(tables.len() > 5, "{tables:?}");
    let listed = overdue::store::table_names();
    let missing: Vec<_> = tables
        .keys()
        .filter(|name| !listed.contains(name))
        .map(|name| format!("backups leave out `{name}`"))
        .collect();
    expect_none(&missing);
}

#[test]
fn files_are_short_and_begin_with_their_purpose() {
    let mut wrong = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        let listed = LONG_FILES.iter().find(|(path, _)| *path == source.path);
        let max_lines = listed.map_or(MAX_LINES, |(_, lines)| *lines);
        if listed.is_some() && lines < max_lines {
            wrong.push(format!(
                "{} has {lines} lines: lower its number in `LONG_FILES`, or remove it",
                source.path
            ));
        }
        if lines > max_lines {
            wrong.push(format!(
                "{} has {lines} lines: two things live in it",
                source.path
            ));
        }
        if !source.text.starts_with("//! ") && !source.is_tests() {
            wrong.push(format!(
                "{} does not open with a sentence that says why it exists",
                source.path
            ));
        }
        if source.path.ends_with("mod.rs") {
            wrong.push(format!(
                "{} is named after no module: a module `name` lies in `name.rs`",
                source.path
            ));
        }
    }
    expect_none(&wrong);
}

#[test]
fn pages_have_no_inline_style_or_script() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/dashboard");
    let mut wrong = Vec::new();
    for directory in ["pages", "static"] {
        for entry in std::fs::read_dir(root.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display();
            let text = std::fs::read_to_string(&path).unwrap();
            if text.lines().count() > MAX_LINES {
                wrong.push(format!("{name} is long: two things live in it"));
            }
            if directory == "pages" {
                // Attributes with script, such as `onclick=`.
                let handler = text.match_indices(" on").any(|(at, _)| {
                    text[at + 3..]
                        .trim_start_matches(|c: char| c.is_ascii_lowercase())
                        .starts_with('=')
                });
                let bad = [
                    "|safe",
                    "| safe",
                    " style=",
                    "<style",
                    "<script>",
                    "javascript:",
                ]
                .into_iter()
                .filter(|bad| text.contains(bad));
                wrong.extend(
                    bad.chain(handler.then_some("on…="))
                        .map(|bad| format!("{name} has {bad}")),
                );
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn the_top_of_the_repository_has_only_the_listed_entries() {
    let entries = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // Ignored by git.
    let ignored = ["target", "proptest-regressions"];
    let strangers: Vec<_> = names
        .filter(|name| {
            !name.starts_with('.')
                && !TOP_LEVEL_ENTRIES.contains(&&**name)
                && !ignored.contains(&&**name)
        })
        .collect();
    expect_none(&strangers);
}

#[test]
fn comments_cite_only_our_own_chapters() {
    let cites = |source: &&SourceFile| {
        source.text.contains("contract,") || source.text.contains("(contract")
    };
    let wrong: Vec<_> = sources()
        .iter()
        .filter(cites)
        .map(|source| format!("{} cites what is not in the repository", source.path))
        .collect();
    expect_none(&wrong);
}

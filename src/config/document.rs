//! Configuration documents: values with their locations, and problems, shown with line and caret.

use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::MAX_PROBLEMS;

/// Location in the files: the file and the range of bytes. JSON has no locations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceLocation {
    file: usize,
    span: Option<Range<usize>>,
}

/// A value of a file.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigNode {
    /// The value itself.
    pub value: ConfigValue,
    /// Location of the value.
    pub location: SourceLocation,
}

/// A value of any type.
#[derive(Clone, PartialEq, Debug)]
pub enum ConfigValue {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Bool(bool),
    /// A list.
    List(Vec<ConfigNode>),
    /// A table with the locations of its keys, in the order of the file (TOML) or sorted (JSON).
    Table(Vec<(String, SourceLocation, ConfigNode)>),
    /// A value of a type that no field accepts, with the name of the type.
    Unsupported(&'static str),
}

impl ConfigNode {
    /// Returns the value of a key of a table.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|(name, ..)| name == key)
            .map(|(_, _, node)| node)
    }

    /// Returns the entries of a table; empty for any other value.
    pub fn entries(&self) -> &[(String, SourceLocation, Self)] {
        match &self.value {
            ConfigValue::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the name of its type for messages.
    pub fn type_name(&self) -> &'static str {
        match self.value {
            ConfigValue::Text(_) => "text",
            ConfigValue::Number(_) => "a number",
            ConfigValue::Bool(_) => "true or false",
            ConfigValue::List(_) => "a list",
            ConfigValue::Table(_) => "a table",
            ConfigValue::Unsupported(kind) => kind,
        }
    }

    /// Converts the value to JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            ConfigValue::Text(text) => text.as_str().into(),
            ConfigValue::Number(number) => (*number).into(),
            ConfigValue::Bool(flag) => (*flag).into(),
            ConfigValue::List(items) => items.iter().map(Self::to_json).collect(),
            ConfigValue::Table(entries) => serde_json::Value::Object(
                entries
                    .iter()
                    .map(|(key, _, node)| (key.clone(), node.to_json()))
                    .collect(),
            ),
            ConfigValue::Unsupported(_) => serde_json::Value::Null,
        }
    }
}

/// A problem with its location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigProblem {
    /// Location; `None` if it concerns no particular one.
    pub location: Option<SourceLocation>,
    /// Keys that lead there.
    pub path: Vec<String>,
    /// A sentence: what is wrong, and what to do.
    pub reason: String,
}

struct DocumentFile {
    name: String,
    text: String,
    is_json: bool,
}

/// One or several files, merged.
pub struct ConfigDocument {
    files: Vec<DocumentFile>,
    /// Root of the merged tables.
    pub root: ConfigNode,
}

/// Maximum nesting depth of tables and lists.
const MAX_DEPTH: usize = 16;

impl ConfigDocument {
    /// Returns an empty document.
    pub fn empty() -> Self {
        Self {
            files: Vec::new(),
            root: ConfigNode {
                value: ConfigValue::Table(Vec::new()),
                location: SourceLocation::default(),
            },
        }
    }

    /// Adds a file, TOML or JSON.
    ///
    /// # Errors
    /// Everything in it that cannot be parsed, and everything that other files contain already.
    pub fn add_file(&mut self, name: &str, text: String) -> Vec<ConfigProblem> {
        let is_json = std::path::Path::new(name)
            .extension()
            .is_some_and(|extension| extension == "json")
            || text
                .trim_start_matches('\u{feff}')
                .trim_start()
                .starts_with('{');
        let file = self.files.len();
        self.files.push(DocumentFile {
            name: name.into(),
            text,
            is_json,
        });
        let text = self
            .files
            .last()
            .map_or("", |file| &file.text)
            .trim_start_matches('\u{feff}');
        let skipped = self.files.last().map_or(0, |file| file.text.len()) - text.len();
        let (root, mut problems) = if is_json {
            parse_json(text, file)
        } else {
            parse_toml(text, file, skipped)
        };
        if problems.is_empty() {
            super::merge::merge_nodes(&mut self.root, root, &mut Vec::new(), &mut problems);
        }
        problems
    }

    /// Parses the document that a client sent, with its secrets filled in.
    ///
    /// # Errors
    /// Everything in it that cannot be parsed.
    pub fn from_client(text: String) -> Result<Self, Vec<ConfigProblem>> {
        let mut document = Self::empty();
        let problems = document.add_file("the document.json", text);
        if problems.is_empty() {
            Ok(document)
        } else {
            Err(problems)
        }
    }

    /// Returns the location of the object or field at this path, or of the nearest parent.
    pub fn find_location(&self, path: &[String]) -> Option<SourceLocation> {
        let mut node = &self.root;
        let mut location = None;
        for key in path {
            let Some((_, at, next)) = node.entries().iter().find(|(name, ..)| name == key) else {
                break;
            };
            (node, location) = (next, Some(at.clone()));
        }
        location
    }

    /// Renders problems for people: one line each, followed by the line of the file with a caret.
    pub fn render_problems(&self, problems: &[ConfigProblem]) -> String {
        let mut text = String::new();
        for problem in problems.iter().take(MAX_PROBLEMS) {
            self.render_problem(problem, &mut text);
        }
        if problems.len() > MAX_PROBLEMS {
            let _ = writeln!(text, "and {} more", problems.len() - MAX_PROBLEMS);
        }
        text
    }

    fn render_problem(&self, problem: &ConfigProblem, text: &mut String) {
        let file = problem
            .location
            .as_ref()
            .and_then(|at| self.files.get(at.file));
        let span = problem.location.as_ref().and_then(|at| at.span.clone());
        let Some(file) = file else {
            let path = dotted_path(&problem.path);
            let _ = writeln!(
                text,
                "{path}{}{}",
                if path.is_empty() { "" } else { ": " },
                problem.reason
            );
            return;
        };
        let Some(span) = span else {
            let pointer: String = problem
                .path
                .iter()
                .map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")))
                .collect();
            let _ = writeln!(
                text,
                "{}: {pointer}{}{}",
                file.name,
                if pointer.is_empty() { "" } else { ": " },
                problem.reason
            );
            return;
        };
        let start = (0..=span.start.min(file.text.len()))
            .rev()
            .find(|at| file.text.is_char_boundary(*at))
            .unwrap_or(0);
        let (before, after) = file.text.split_at(start);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_before = before.get(line_start..).unwrap_or_default();
        let line_after = after.lines().next().unwrap_or_default();
        let number = before.matches('\n').count() + 1;
        let column = line_before.chars().count() + 1;
        let path = dotted_path(&problem.path);
        let colon = if path.is_empty() || file.is_json {
            ""
        } else {
            ": "
        };
        let path = if file.is_json { "" } else { path.as_str() };
        let _ = writeln!(
            text,
            "{}:{number}:{column}: {path}{colon}{}",
            file.name, problem.reason
        );
        let printable = |part: &str| {
            part.chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect::<String>()
        };
        // Only the part of a long line around the location is shown.
        let from = line_before
            .char_indices()
            .rev()
            .nth(79)
            .map_or(0, |(at, _)| at);
        let before_caret = line_before.get(from..).unwrap_or_default();
        let after_caret: String = line_after.chars().take(80).collect();
        let _ = writeln!(
            text,
            "  {}{}",
            printable(before_caret),
            printable(&after_caret).trim_end()
        );
        let _ = writeln!(text, "  {}^", " ".repeat(before_caret.chars().count()));
    }
}

/// Returns a path in the syntax of TOML.
pub(super) fn dotted_path(path: &[String]) -> String {
    let key = |key: &String| super::output::toml_key(key);
    path.iter().map(key).collect::<Vec<_>>().join(".")
}

fn parse_toml(text: &str, file: usize, skipped: usize) -> (ConfigNode, Vec<ConfigProblem>) {
    let at = |span: Range<usize>| SourceLocation {
        file,
        span: Some(span.start + skipped..span.end + skipped),
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    let problems = errors.iter().map(|error| ConfigProblem {
        location: Some(at(error.span().unwrap_or(0..0))),
        path: Vec::new(),
        reason: error.message().replace('\n', ", "),
    });
    let problems: Vec<_> = problems.collect();
    if !problems.is_empty() {
        return (
            ConfigNode {
                value: ConfigValue::Table(Vec::new()),
                location: at(0..0),
            },
            problems,
        );
    }
    let span = root.span();
    (
        ConfigNode {
            value: toml_table(root.into_inner(), &at),
            location: at(span),
        },
        problems,
    )
}

fn toml_table(entries: DeTable<'_>, at: &impl Fn(Range<usize>) -> SourceLocation) -> ConfigValue {
    let entry = |(key, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        let location = at(key.span());
        let span = value.span();
        let key: std::borrow::Cow<'_, str> = key.into_inner();
        (
            key.into_owned(),
            location,
            ConfigNode {
                value: toml_value(value.into_inner(), at),
                location: at(span),
            },
        )
    };
    ConfigValue::Table(entries.into_iter().map(entry).collect())
}

fn toml_value(value: DeValue<'_>, at: &impl Fn(Range<usize>) -> SourceLocation) -> ConfigValue {
    match value {
        DeValue::String(text) => ConfigValue::Text(text.into_owned()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix()).map_or(
                ConfigValue::Unsupported("a number that is too large"),
                ConfigValue::Number,
            )
        }
        DeValue::Float(_) => ConfigValue::Unsupported("a number with a fraction"),
        DeValue::Boolean(flag) => ConfigValue::Bool(flag),
        // A time is stored as text; without quotes it means the same.
        DeValue::Datetime(time) => ConfigValue::Text(time.to_string()),
        DeValue::Array(items) => {
            let item = |item: Spanned<DeValue<'_>>| {
                let span = item.span();
                ConfigNode {
                    value: toml_value(item.into_inner(), at),
                    location: at(span),
                }
            };
            ConfigValue::List(items.into_iter().map(item).collect())
        }
        DeValue::Table(entries) => toml_table(entries, at),
    }
}

fn parse_json(text: &str, file: usize) -> (ConfigNode, Vec<ConfigProblem>) {
    let at = SourceLocation { file, span: None };
    let nothing = || ConfigNode {
        value: ConfigValue::Table(Vec::new()),
        location: at.clone(),
    };
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => (json_node(value, &at, MAX_DEPTH), Vec::new()),
        Err(error) => {
            let before: usize = text
                .split_inclusive('\n')
                .take(error.line().saturating_sub(1))
                .map(str::len)
                .sum();
            let start = before + error.column().saturating_sub(1);
            let reason = error.to_string();
            let reason = reason
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned();
            (
                nothing(),
                vec![ConfigProblem {
                    location: Some(SourceLocation {
                        file,
                        span: Some(start..start),
                    }),
                    path: Vec::new(),
                    reason,
                }],
            )
        }
    }
}

fn json_node(value: serde_json::Value, at: &SourceLocation, depth: usize) -> ConfigNode {
    use serde_json::Value as Json;
    let value = match value {
        _ if depth == 0 => ConfigValue::Unsupported("a value that is nested too deeply"),
        Json::Null => ConfigValue::Unsupported("null"),
        Json::Bool(flag) => ConfigValue::Bool(flag),
        Json::Number(number) => number.as_i64().map_or(
            ConfigValue::Unsupported("a number that is too large or has a fraction"),
            ConfigValue::Number,
        ),
        Json::String(text) => ConfigValue::Text(text),
        Json::Array(items) => ConfigValue::List(
            items
                .into_iter()
                .map(|item| json_node(item, at, depth - 1))
                .collect(),
        ),
        Json::Object(entries) => ConfigValue::Table(
            entries
                .into_iter()
                .map(|(key, value)| (key, at.clone(), json_node(value, at, depth - 1)))
                .collect(),
        ),
    };
    ConfigNode {
        value,
        location: at.clone(),
    }
}

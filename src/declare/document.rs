//! What stands in files: values that know their places, and what is wrong with them, told with line and caret.

use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::MOST_PROBLEMS;

/// Where something stands: in which file, and from which byte to which; JSON keeps no places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    file: usize,
    span: Option<Range<usize>>,
}

/// A value of a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it stands.
    pub at: Place,
}

/// What a value can be.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Flag(bool),
    /// Several.
    List(Vec<Node>),
    /// By key, in the order of the file or of the alphabet; with the places of the keys.
    Table(Vec<(String, Place, Node)>),
    /// Something that no field takes: its name.
    Other(&'static str),
}

impl Node {
    /// The value of a key of a table.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, ..)| name == key).map(|(_, _, node)| node)
    }

    /// The entries of a table; none of anything else.
    pub fn entries(&self) -> &[(String, Place, Self)] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// What people call what it is.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "text",
            Value::Number(_) => "a number",
            Value::Flag(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }

    /// The same in JSON.
    pub fn json(&self) -> serde_json::Value {
        match &self.value {
            Value::Text(text) => text.as_str().into(),
            Value::Number(number) => (*number).into(),
            Value::Flag(flag) => (*flag).into(),
            Value::List(items) => items.iter().map(Self::json).collect(),
            Value::Table(entries) => serde_json::Value::Object(entries.iter().map(|(key, _, node)| (key.clone(), node.json())).collect()),
            Value::Other(_) => serde_json::Value::Null,
        }
    }
}

/// What is wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where it stands; `None`: nowhere in particular.
    pub at: Option<Place>,
    /// The keys that lead there.
    pub path: Vec<String>,
    /// A sentence: what is wrong, and what to do.
    pub reason: String,
}

struct File {
    name: String,
    text: String,
    is_json: bool,
}

/// One or several files, as one.
pub struct Document {
    files: Vec<File>,
    /// What stands in them.
    pub root: Node,
}

/// How deep tables and lists may lie in each other.
const DEEPEST: usize = 16;

impl Document {
    /// One without anything in it.
    pub fn empty() -> Self {
        Self { files: Vec::new(), root: Node { value: Value::Table(Vec::new()), at: Place::default() } }
    }

    /// Adds a file, TOML or JSON.
    ///
    /// # Errors
    /// Everything that cannot be read in it, and what other files have already.
    pub fn add(&mut self, name: &str, text: String) -> Vec<Problem> {
        let is_json = std::path::Path::new(name).extension().is_some_and(|extension| extension == "json")
            || text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
        let file = self.files.len();
        self.files.push(File { name: name.into(), text, is_json });
        let text = self.files.last().map_or("", |file| &file.text).trim_start_matches('\u{feff}');
        let skipped = self.files.last().map_or(0, |file| file.text.len()) - text.len();
        let (root, mut problems) = if is_json { from_json(text, file) } else { from_toml(text, file, skipped) };
        if problems.is_empty() {
            super::merge::merge(&mut self.root, root, &mut Vec::new(), &mut problems);
        }
        problems
    }

    /// The document that a client sent, its secrets filled in.
    ///
    /// # Errors
    /// What cannot be read in it.
    pub fn sent(text: String) -> Result<Self, Vec<Problem>> {
        let mut document = Self::empty();
        let problems = document.add("the document.json", text);
        if problems.is_empty() { Ok(document) } else { Err(problems) }
    }

    /// The place of the object or field that these keys lead to, or of the nearest above it.
    pub fn place(&self, path: &[String]) -> Option<Place> {
        let (mut node, mut place) = (&self.root, None);
        for key in path {
            let Some((_, at, next)) = node.entries().iter().find(|(name, ..)| name == key) else { break };
            (node, place) = (next, Some(at.clone()));
        }
        place
    }

    /// Problems as people read them: one line each, and below it the line of the file with a caret.
    pub fn told(&self, problems: &[Problem]) -> String {
        let mut text = String::new();
        for problem in problems.iter().take(MOST_PROBLEMS) {
            self.tell(problem, &mut text);
        }
        if problems.len() > MOST_PROBLEMS {
            let _ = writeln!(text, "and {} more", problems.len() - MOST_PROBLEMS);
        }
        text
    }

    fn tell(&self, problem: &Problem, text: &mut String) {
        let file = problem.at.as_ref().and_then(|at| self.files.get(at.file));
        let span = problem.at.as_ref().and_then(|at| at.span.clone());
        let Some(file) = file else {
            let path = dotted(&problem.path);
            let _ = writeln!(text, "{path}{}{}", if path.is_empty() { "" } else { ": " }, problem.reason);
            return;
        };
        let Some(span) = span else {
            let pointer: String = problem.path.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect();
            let _ = writeln!(text, "{}: {pointer}{}{}", file.name, if pointer.is_empty() { "" } else { ": " }, problem.reason);
            return;
        };
        let start = (0..=span.start.min(file.text.len())).rev().find(|at| file.text.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = file.text.split_at(start);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let (line_before, line_after) = (before.get(line_start..).unwrap_or_default(), after.lines().next().unwrap_or_default());
        let (number, column) = (before.matches('\n').count() + 1, line_before.chars().count() + 1);
        let path = dotted(&problem.path);
        let colon = if path.is_empty() || file.is_json { "" } else { ": " };
        let path = if file.is_json { "" } else { path.as_str() };
        let _ = writeln!(text, "{}:{number}:{column}: {path}{colon}{}", file.name, problem.reason);
        let shown = |part: &str| part.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        // Of a long line the part around the place.
        let from = line_before.char_indices().rev().nth(79).map_or(0, |(at, _)| at);
        let (left, right): (&str, String) = (line_before.get(from..).unwrap_or_default(), line_after.chars().take(80).collect());
        let _ = writeln!(text, "  {}{}", shown(left), shown(&right).trim_end());
        let _ = writeln!(text, "  {}^", " ".repeat(left.chars().count()));
    }
}

/// A path as TOML writes it.
pub(super) fn dotted(path: &[String]) -> String {
    let key = |key: &String| super::text::key(key);
    path.iter().map(key).collect::<Vec<_>>().join(".")
}

fn from_toml(text: &str, file: usize, skipped: usize) -> (Node, Vec<Problem>) {
    let at = |span: Range<usize>| Place { file, span: Some(span.start + skipped..span.end + skipped) };
    let (root, errors) = DeTable::parse_recoverable(text);
    let problems = errors.iter().map(|error| Problem {
        at: Some(at(error.span().unwrap_or(0..0))),
        path: Vec::new(),
        reason: error.message().replace('\n', ", "),
    });
    let problems: Vec<_> = problems.collect();
    if !problems.is_empty() {
        return (Node { value: Value::Table(Vec::new()), at: at(0..0) }, problems);
    }
    let span = root.span();
    (Node { value: table(root.into_inner(), &at), at: at(span) }, problems)
}

fn table(entries: DeTable<'_>, at: &impl Fn(Range<usize>) -> Place) -> Value {
    let entry = |(key, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        let place = at(key.span());
        let span = value.span();
        let key: std::borrow::Cow<'_, str> = key.into_inner();
        (key.into_owned(), place, Node { value: toml_value(value.into_inner(), at), at: at(span) })
    };
    Value::Table(entries.into_iter().map(entry).collect())
}

fn toml_value(value: DeValue<'_>, at: &impl Fn(Range<usize>) -> Place) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix()).map_or(Value::Other("a number that is too large"), Value::Number)
        }
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Boolean(flag) => Value::Flag(flag),
        // A time is written as text; without quotes it means the same.
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(items) => {
            let item = |item: Spanned<DeValue<'_>>| {
                let span = item.span();
                Node { value: toml_value(item.into_inner(), at), at: at(span) }
            };
            Value::List(items.into_iter().map(item).collect())
        }
        DeValue::Table(entries) => table(entries, at),
    }
}

fn from_json(text: &str, file: usize) -> (Node, Vec<Problem>) {
    let at = Place { file, span: None };
    let nothing = || Node { value: Value::Table(Vec::new()), at: at.clone() };
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => (json_node(value, &at, DEEPEST), Vec::new()),
        Err(error) => {
            let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
            let start = before + error.column().saturating_sub(1);
            let reason = error.to_string();
            let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
            (nothing(), vec![Problem { at: Some(Place { file, span: Some(start..start) }), path: Vec::new(), reason }])
        }
    }
}

fn json_node(value: serde_json::Value, at: &Place, depth: usize) -> Node {
    use serde_json::Value as Json;
    let value = match value {
        _ if depth == 0 => Value::Other("a value that lies too deep"),
        Json::Null => Value::Other("null"),
        Json::Bool(flag) => Value::Flag(flag),
        Json::Number(number) => number.as_i64().map_or(Value::Other("a number that is not whole or too large"), Value::Number),
        Json::String(text) => Value::Text(text),
        Json::Array(items) => Value::List(items.into_iter().map(|item| json_node(item, at, depth - 1)).collect()),
        Json::Object(entries) => {
            Value::Table(entries.into_iter().map(|(key, value)| (key, at.clone(), json_node(value, at, depth - 1))).collect())
        }
    };
    Node { value, at: at.clone() }
}

//! The fields of one object: looked up by key, of checks also in the defaults, and read by their forms.

use uuid::Uuid;

use super::{Reader, below, field_of};
use crate::declare::document::{Node, Value};
use crate::declare::fields::{Field, Form};
use crate::domain::given::in_seconds;
use crate::domain::ids::hyphenated_uuid;
use crate::domain::text::Seconds;
use crate::domain::wanted::ObjectName;

/// How alike two keys are that may be meant for each other: 1 is the same.
const LIKENESS: f64 = 0.8;

/// A table whose fields are read.
pub(super) struct Object<'a> {
    node: &'a Node,
    defaults: Option<&'a Node>,
    pub(super) path: Vec<String>,
    tables: [&'static [Field]; 2],
}

/// What is said of a field, and where.
pub(super) struct Said<'a> {
    pub(super) node: &'a Node,
    pub(super) path: Vec<String>,
}

impl<'a> Object<'a> {
    /// An object with the fields of both tables; `defaults` say what it does not.
    pub(super) fn new(
        node: &'a Node,
        defaults: Option<&'a Node>,
        path: Vec<String>,
        own: &'static [Field],
        more: &'static [Field],
    ) -> Self {
        Self { node, defaults, path, tables: [own, more] }
    }

    /// Whether it says something of a field itself.
    pub(super) fn says(&self, key: &str) -> bool {
        self.node.get(key).is_some()
    }

    /// What it or the defaults say of a field.
    pub(super) fn said(&self, key: &str) -> Option<Said<'a>> {
        let own = self.node.get(key).map(|node| Said { node, path: below(&self.path, key) });
        let default = || {
            let node = self.defaults?.get(key)?;
            Some(Said { node, path: ["defaults", "check", key].map(String::from).to_vec() })
        };
        own.or_else(default)
    }

    fn form(&self, key: &str) -> Option<Form> {
        self.tables.iter().find_map(|table| field_of(table, key)).map(|field| field.form)
    }
}

impl Reader {
    /// Tells every key that is none.
    pub(super) fn expect_keys(&mut self, object: &Object<'_>, others: &[&str]) {
        let Value::Table(entries) = &object.node.value else {
            let reason = format!("it is {}; give a table", object.node.kind());
            self.problem(object.node, &object.path, reason);
            return;
        };
        let known: Vec<&str> =
            object.tables.iter().flat_map(|table| table.iter()).map(|field| field.key).chain(others.iter().copied()).collect();
        for (key, place, _) in entries.iter().filter(|(key, ..)| !known.contains(&key.as_str())) {
            let reason = unknown(key, &known);
            let node = Node { value: Value::Flag(false), at: place.clone() };
            self.problem(&node, &below(&object.path, key), reason);
        }
    }

    /// Tells what is wrong with a field, where it is said.
    pub(super) fn problem_of(&mut self, object: &Object<'_>, key: &str, reason: &str) {
        match object.said(key) {
            Some(Said { node, path }) => self.problem(node, &path, reason),
            None => self.problem(object.node, &object.path, reason),
        }
    }

    /// Tells what is wrong, and that nothing comes of it.
    pub(super) fn refused<T>(&mut self, node: &Node, path: &[String], reason: &str) -> Option<T> {
        self.problem(node, path, reason);
        None
    }

    fn wrong<T>(&mut self, said: &Said<'_>, wanted: &str) -> Option<T> {
        let reason = format!("it is {}; give {wanted}", said.node.kind());
        self.problem(said.node, &said.path, reason);
        None
    }

    pub(super) fn text<'a>(&mut self, object: &Object<'a>, key: &str) -> Option<&'a str> {
        let said = object.said(key)?;
        let Value::Text(text) = &said.node.value else {
            let wanted = if matches!(object.form(key), Some(Form::Secret)) { "text, or { env = \"NAME\" }" } else { "text" };
            return self.wrong(&said, wanted);
        };
        Some(text)
    }

    pub(super) fn parsed<T>(&mut self, object: &Object<'_>, key: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.text(object, key)?;
        parse(text).map_err(|reason| self.problem_of(object, key, &reason)).ok()
    }

    pub(super) fn choice<'a>(&mut self, object: &Object<'a>, key: &str) -> Option<&'a str> {
        let text = self.text(object, key)?;
        let Some(Form::Choice(words)) = object.form(key) else { return Some(text) };
        if words.contains(&text) {
            return Some(text);
        }
        let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
        self.problem_of(object, key, &format!("{text:?} is none of {}", words.join(", ")));
        None
    }

    pub(super) fn flag(&mut self, object: &Object<'_>, key: &str) -> Option<bool> {
        let said = object.said(key)?;
        match said.node.value {
            Value::Flag(flag) => Some(flag),
            _ => self.wrong(&said, "true or false"),
        }
    }

    pub(super) fn number(&mut self, object: &Object<'_>, key: &str) -> Option<i64> {
        let said = object.said(key)?;
        let Some(Form::Number(least, most) | Form::Limit(least, most)) = object.form(key) else { return None };
        match said.node.value {
            // Of a version more is said.
            Value::Number(number) if key == "version" || (least..=most).contains(&number) => Some(number),
            Value::Number(_) => {
                self.problem(said.node, &said.path, format!("give a whole number from {least} to {most}"));
                None
            }
            _ => self.wrong(&said, &format!("a whole number from {least} to {most}")),
        }
    }

    /// A number, or `none`.
    pub(super) fn limit(&mut self, object: &Object<'_>, key: &str) -> Option<Option<u32>> {
        let said = object.said(key)?;
        if matches!(&said.node.value, Value::Text(text) if text == "none") {
            return Some(None);
        }
        self.number(object, key).and_then(|number| u32::try_from(number).ok()).map(Some)
    }

    /// Seconds.
    pub(super) fn duration(&mut self, object: &Object<'_>, key: &str) -> Option<i64> {
        let said = object.said(key)?;
        let Some(Form::Duration(least, most)) = object.form(key) else { return None };
        let seconds = match &said.node.value {
            Value::Number(number) => Some(*number),
            Value::Text(text) => parse_duration(text),
            _ => return self.wrong(&said, "a time such as \"90s\", \"15m\", \"2h\", \"1d\" or \"1w\""),
        };
        let fitting = seconds.filter(|seconds| (least..=most).contains(seconds));
        if fitting.is_none() {
            let reason = match seconds {
                None => "give a whole number and its unit, as in \"90s\", \"15m\", \"2h\", \"1d\" or \"1w\"".to_owned(),
                Some(seconds) => format!("it is {seconds} seconds; give {least} to {most}"),
            };
            self.problem(said.node, &said.path, reason);
        }
        fitting
    }

    pub(super) fn seconds(&mut self, object: &Object<'_>, key: &str, default: Seconds) -> Seconds {
        self.duration(object, key).and_then(|seconds| in_seconds(seconds).ok()).unwrap_or(default)
    }

    pub(super) fn uuid(&mut self, object: &Object<'_>) -> Option<Uuid> {
        self.parsed(object, "uuid", |text| {
            hyphenated_uuid(text).ok_or_else(|| "a UUID has the form 8-4-4-4-12, in hexadecimal digits".into())
        })
    }

    /// The name of something: its key, or what is said if that is a UUID.
    pub(super) fn name<T>(&mut self, object: &Object<'_>, id: &ObjectName, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let text = match id {
            ObjectName::Uuid(_) => self.text(object, "name").unwrap_or_default(),
            ObjectName::Text(text) => {
                if object.says("name") {
                    self.problem_of(object, "name", "the key of the table is the name already; leave it out");
                }
                text
            }
        };
        parse(text).map_err(|reason| self.problem(object.node, &object.path, reason)).ok()
    }

    pub(super) fn list(&mut self, object: &Object<'_>, key: &str) -> Option<Vec<String>> {
        let said = object.said(key)?;
        let Value::List(items) = &said.node.value else { return self.wrong(&said, "a list of texts, such as [\"a\", \"b\"]") };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(text) => texts.push(text.clone()),
                _ => self.problem(item, &said.path, format!("it is {}; give text", item.kind())),
            }
        }
        Some(texts)
    }

    /// A list, or its text with a separator between the items.
    pub(super) fn words(&mut self, object: &Object<'_>, key: &str, separator: &str) -> Option<String> {
        let said = object.said(key)?;
        if let Value::Text(text) = &said.node.value {
            return Some(text.clone());
        }
        let items = self.list(object, key)?;
        if let Some(item) = items.iter().find(|item| item.contains(separator) || item.trim().is_empty()) {
            let what = if separator == " " { "a space" } else { "a comma" };
            self.problem_of(object, key, &format!("{item:?} is empty or has {what} in it"));
        }
        Some(items.join(separator))
    }

    /// A table within an object.
    pub(super) fn inner<'a>(&mut self, object: &Object<'a>, key: &str) -> Option<Object<'a>> {
        let Said { node, path } = object.said(key)?;
        let Some(Form::Fields(fields)) = object.form(key) else { return None };
        let inner = Object::new(node, None, path, fields, &[]);
        self.expect_keys(&inner, &[]);
        Some(inner)
    }
}

/// `90s`, `15m`, `2h`, `1d`, `1w`.
fn parse_duration(text: &str) -> Option<i64> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 604_800)];
    let in_unit = |(unit, seconds): (&str, i64)| {
        let digits = text.strip_suffix(unit)?;
        let number: i64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()?;
        number.checked_mul(seconds)
    };
    units.into_iter().find_map(in_unit)
}

fn unknown(key: &str, known: &[&str]) -> String {
    let likeness = |other: &&&str| strsim::jaro_winkler(key, other);
    let best = known.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match best.filter(|best| likeness(best) >= LIKENESS) {
        Some(best) => format!("there is no such key; did you mean {best}?"),
        None => format!("there is no such key; there are {}", known.join(", ")),
    }
}

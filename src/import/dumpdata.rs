//! Reads what `manage.py dumpdata` writes: one JSON array of objects, each with its model, its number and its fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::rows::{LONGEST_ROW, Row, Table, Value};
use super::{Visit, problem};

/// Bytes of the file that are held at first. Of a longer object as many as it has.
const HELD: usize = 128 << 10;

/// The models, by the names that they have there.
const MODELS: [(&str, Table); 9] = [
    ("auth.user", Table::User),
    ("accounts.profile", Table::Profile),
    ("accounts.project", Table::Project),
    ("accounts.member", Table::Member),
    ("api.check", Table::Check),
    ("api.channel", Table::Channel),
    ("sessions.session", Table::Session),
    ("api.flip", Table::Flip),
    ("api.ping", Table::Ping),
];

/// What is said of a file that ends too early.
const CUT_OFF: &str = "it is cut off";

/// Fields that hold the number of another object: in a database the names of their columns end in `_id`.
const REFERENCES: [&str; 3] = ["owner", "project", "user"];

/// Reads all of it.
///
/// # Errors
/// When it cannot be read or is no such array; the message says where.
pub(super) fn read(file: impl Read, visit: &mut dyn Visit) -> Result<(), String> {
    let mut text = Text { file, held: Vec::new(), whole: 0, taken: 0, gone: 0 };
    let mut rows = Rows { visit, names: Vec::new(), columns: Rc::default() };
    text.skip(b'[', "'['")?;
    if text.next()? == Some(b']') {
        return text.end();
    }
    while text.object(&mut rows)?.is_continue() {
        if text.next()? != Some(b',') {
            return text.end();
        }
        text.taken += 1;
    }
    Ok(())
}

/// The text of the file, of which a part is held. Objects are read where they lie: byte for byte from the file takes several times as
/// long.
struct Text<F> {
    file: F,
    held: Vec<u8>,
    /// Bytes of what is held up to a number that may go on. An object does not end with one, and a cut one would be taken for a wrong one.
    whole: usize,
    /// Bytes of what is held that have been read.
    taken: usize,
    /// Bytes of the file before what is held.
    gone: u64,
}

impl<F: Read> Text<F> {
    /// Bytes that have been read.
    fn at(&self) -> u64 {
        self.gone + self.taken as u64
    }

    fn rest(&self) -> &[u8] {
        self.held.get(self.taken..).unwrap_or_default()
    }

    /// Holds more of the file, and no more of what was read; `false`: there is no more. What is held doubles, so that a long object is
    /// read a few times over and not once for each portion.
    fn more(&mut self) -> Result<bool, String> {
        self.gone += self.taken as u64;
        self.held.drain(..std::mem::take(&mut self.taken));
        let wanted = self.held.len().max(HELD).min(LONGEST_ROW.saturating_sub(self.held.len()));
        if wanted == 0 {
            return Err(self.wrong(&format!("an object of more than {} MiB", LONGEST_ROW >> 20)));
        }
        let read = (&mut self.file).take(wanted as u64).read_to_end(&mut self.held);
        let is_of_number = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        self.whole = self.held.len() - self.held.iter().rev().take_while(is_of_number).count();
        read.map(|read| read > 0).map_err(|error| self.wrong(&error.to_string()))
    }

    /// The next byte that is no space, before it is read; `None`: there is none.
    fn next(&mut self) -> Result<Option<u8>, String> {
        loop {
            let is_space = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
            self.taken += self.rest().iter().take_while(is_space).count();
            let next = self.rest().first().copied();
            if next.is_some() || !self.more()? {
                return Ok(next);
            }
        }
    }

    /// Reads the byte that has to come next; errors call it as it is `told`.
    fn skip(&mut self, byte: u8, told: &str) -> Result<(), String> {
        match self.next()? {
            Some(found) if found == byte => self.taken += 1,
            Some(_) => return Err(self.wrong(&format!("there should be {told}"))),
            None => return Err(self.wrong(CUT_OFF)),
        }
        Ok(())
    }

    /// Reads what ends the array and the file.
    fn end(&mut self) -> Result<(), String> {
        self.skip(b']', "',' or ']'")?;
        self.next()?.map_or(Ok(()), |_| Err(self.wrong("something follows the array")))
    }

    /// Reads an object, and hands over its rows.
    fn object(&mut self, rows: &mut Rows<'_>) -> Result<ControlFlow<()>, String> {
        self.next()?;
        loop {
            let rest = self.held.get(self.taken..self.whole).unwrap_or_default();
            let mut objects = serde_json::Deserializer::from_slice(rest).into_iter::<Object<'_>>();
            let wrong = match objects.next() {
                Some(Ok(object)) => {
                    let bytes = objects.byte_offset();
                    match rows.take(&object) {
                        Ok(taken) => {
                            self.taken += bytes;
                            return Ok(taken);
                        }
                        Err(error) => Some(error),
                    }
                }
                Some(Err(error)) if !error.is_eof() => Some(error),
                // Not all of it is held yet.
                Some(Err(_)) | None => None,
            };
            if let Some(error) = wrong {
                return Err(self.wrong(&problem(&error)));
            }
            if !self.more()? {
                return Err(self.wrong(CUT_OFF));
            }
            rows.visit.at(self.gone);
        }
    }

    fn wrong(&self, what: &str) -> String {
        format!("byte {}: {what}", self.at() + 1)
    }
}

/// An object as it stands in the array.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(default)]
    pk: serde_json::Value,
    #[serde(borrow)]
    fields: &'a RawValue,
}

/// The name of a field, which rarely has anything escaped.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The fields of an object. Of equal names the last counts.
type Fields<'a> = BTreeMap<Name<'a>, serde_json::Value>;

/// Makes rows of objects.
struct Rows<'a> {
    visit: &'a mut dyn Visit,
    /// The names of the fields of the last object, and the columns that they became: those of the next are mostly the same.
    names: Vec<String>,
    columns: Rc<[Box<str>]>,
}

impl Rows<'_> {
    /// Hands over what is wanted of an object.
    fn take(&mut self, object: &Object<'_>) -> Result<ControlFlow<()>, serde_json::Error> {
        let Some((_, table)) = MODELS.iter().find(|(model, _)| *model == object.model) else { return Ok(ControlFlow::Continue(())) };
        let (table, is_channel) = (*table, *table == Table::Channel);
        let assigns = is_channel && self.visit.wants(Table::Assignment);
        if !self.visit.wants(table) && !assigns {
            return Ok(ControlFlow::Continue(()));
        }
        let mut fields: Fields<'_> = serde_json::from_str(object.fields.get())?;
        let checks = if is_channel { fields.remove(&Name("checks".into())) } else { None };
        let columns = self.columns(&fields);
        let pk = value(object.pk.clone());
        let values = std::iter::once(pk.clone()).chain(fields.into_values().map(value)).collect();
        if self.visit.wants(table) && self.visit.row(Row::new(table, columns, values)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let Some(serde_json::Value::Array(checks)) = checks.filter(|_| assigns) else { return Ok(ControlFlow::Continue(())) };
        let columns: Rc<[Box<str>]> = Rc::from([Box::from("channel_id"), Box::from("check_id")]);
        for check in checks {
            let row = Row::new(Table::Assignment, Rc::clone(&columns), vec![pk.clone(), value(check)]);
            if self.visit.row(row).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The columns of a row with these fields.
    fn columns(&mut self, fields: &Fields<'_>) -> Rc<[Box<str>]> {
        let names = || fields.keys().map(|Name(name)| &**name);
        if self.columns.is_empty() || !names().eq(self.names.iter().map(String::as_str)) {
            let column = |name: &str| -> Box<str> { if REFERENCES.contains(&name) { format!("{name}_id").into() } else { name.into() } };
            self.columns = std::iter::once("id".into()).chain(names().map(column)).collect();
            self.names = names().map(str::to_owned).collect();
        }
        Rc::clone(&self.columns)
    }
}

fn value(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Flag(flag),
        serde_json::Value::Number(number) => number.as_i64().map_or(Value::Other, Value::Integer),
        serde_json::Value::String(text) => Value::Text(text),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => Value::Other,
    }
}

#[cfg(test)]
mod tests;

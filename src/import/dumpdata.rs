//! Reads what `manage.py dumpdata` writes: one JSON array of objects, each with its model, its number and its fields.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Visit;
use super::rows::{LONGEST_ROW, Row, Table, Value};

/// The models, by the names that they have there.
const MODELS: [(&str, Table); 8] = [
    ("auth.user", Table::User),
    ("accounts.profile", Table::Profile),
    ("accounts.project", Table::Project),
    ("accounts.member", Table::Member),
    ("api.check", Table::Check),
    ("api.channel", Table::Channel),
    ("api.flip", Table::Flip),
    ("api.ping", Table::Ping),
];

/// Fields that hold the number of another object: in a database the names of their columns end in `_id`.
const REFERENCES: [&str; 3] = ["owner", "project", "user"];

/// Reads all of it.
///
/// # Errors
/// When it cannot be read or is no such array; the message says where.
pub(super) fn read(file: impl Read, visit: &mut dyn Visit) -> Result<(), String> {
    let place = Rc::new(Place::default());
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(Counted { file, place: Rc::clone(&place) }));
    let mut objects = Objects { visit, place: &place, stopped: false };
    let read = json.deserialize_seq(&mut objects);
    match read {
        _ if objects.stopped => Ok(()),
        Ok(()) => json.end().map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// How far the file was read, and where the object began that is being read.
#[derive(Default)]
struct Place {
    read: Cell<u64>,
    began: Cell<u64>,
}

/// Counts bytes, so that no object takes more memory than a row may have.
struct Counted<F> {
    file: F,
    place: Rc<Place>,
}

impl<F: Read> Read for Counted<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.place.read.get() - self.place.began.get() > LONGEST_ROW as u64 {
            return Err(io::Error::other(format!("an object of more than {} MiB", LONGEST_ROW >> 20)));
        }
        let read = self.file.read(buffer)?;
        self.place.read.set(self.place.read.get() + read as u64);
        Ok(read)
    }
}

/// An object as it stands in the array.
#[derive(Deserialize)]
struct Object {
    model: String,
    #[serde(default)]
    pk: serde_json::Value,
    fields: Box<RawValue>,
}

/// The array.
struct Objects<'a> {
    visit: &'a mut dyn Visit,
    place: &'a Place,
    stopped: bool,
}

impl<'de> Visitor<'de> for &mut Objects<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects with model, pk and fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        while let Some(object) = array.next_element::<Object>()? {
            self.place.began.set(self.place.read.get());
            self.visit.at(self.place.read.get());
            let Some((_, table)) = MODELS.iter().find(|(model, _)| *model == object.model) else { continue };
            if self.rows(*table, &object).map_err(A::Error::custom)?.is_break() {
                self.stopped = true;
                return Err(A::Error::custom("no more is wanted"));
            }
        }
        Ok(())
    }
}

impl Objects<'_> {
    fn rows(&mut self, table: Table, object: &Object) -> Result<ControlFlow<()>, serde_json::Error> {
        let assigns = table == Table::Channel && self.visit.wants(Table::Assignment);
        if !self.visit.wants(table) && !assigns {
            return Ok(ControlFlow::Continue(()));
        }
        let mut fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(object.fields.get())?;
        let checks = if table == Table::Channel { fields.remove("checks") } else { None };
        let column = |name: &str| -> Box<str> { if REFERENCES.contains(&name) { format!("{name}_id").into() } else { name.into() } };
        let columns: Rc<[Box<str>]> = std::iter::once("id".into()).chain(fields.keys().map(|name| column(name))).collect();
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

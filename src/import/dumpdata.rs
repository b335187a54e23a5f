//! Parser for output of `manage.py dumpdata`: one JSON array of objects, each with its model, its
//! number and its fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::source_row::{MAX_ROW_BYTES, SourceRow, SourceTable, SourceValue};
use super::{RowVisitor, json_error_text};

/// Initial size of the buffer in bytes. It grows for a longer object.
const BUFFER_BYTES: usize = 128 << 10;

/// Models, by their names in the dump.
const MODELS: [(&str, SourceTable); 9] = [
    ("auth.user", SourceTable::User),
    ("accounts.profile", SourceTable::Profile),
    ("accounts.project", SourceTable::Project),
    ("accounts.member", SourceTable::Member),
    ("api.check", SourceTable::Check),
    ("api.channel", SourceTable::Channel),
    ("sessions.session", SourceTable::Session),
    ("api.flip", SourceTable::Flip),
    ("api.ping", SourceTable::Ping),
];

/// Error text for a file that ends too early.
const TRUNCATED: &str = "it is truncated";

/// Fields with the number of another object. The names of their columns in a database end in `_id`.
const REFERENCE_FIELDS: [&str; 3] = ["owner", "project", "user"];

/// Reads the whole dump.
///
/// # Errors
/// Returns an error if the dump cannot be read or is not such an array. The message names the
/// position.
pub(super) fn read_dump(file: impl Read, visit: &mut dyn RowVisitor) -> Result<(), String> {
    let mut text = DumpBuffer {
        file,
        buffer: Vec::new(),
        parseable: 0,
        consumed: 0,
        discarded: 0,
    };
    let mut rows = DumpRowBuilder {
        visitor: visit,
        last_field_names: Vec::new(),
        last_columns: Rc::default(),
    };
    text.expect_byte(b'[', "'['")?;
    if text.peek_token()? == Some(b']') {
        return text.expect_end();
    }
    while text.read_object(&mut rows)?.is_continue() {
        if text.peek_token()? != Some(b',') {
            return text.expect_end();
        }
        text.consumed += 1;
    }
    Ok(())
}

/// Buffer for a part of the file. Objects are parsed in place; reading byte by byte would take
/// several times as long.
struct DumpBuffer<F> {
    file: F,
    buffer: Vec<u8>,
    /// Number of buffered bytes up to a number that may continue. An object never ends with a
    /// number, and a cut one would cause a wrong error.
    parseable: usize,
    /// Number of buffered bytes that have been parsed.
    consumed: usize,
    /// Number of bytes of the file before the buffer.
    discarded: u64,
}

impl<F: Read> DumpBuffer<F> {
    /// Number of bytes that have been parsed.
    fn position(&self) -> u64 {
        self.discarded + self.consumed as u64
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.consumed..).unwrap_or_default()
    }

    /// Drops the parsed bytes and reads more of the file. Returns false at the end of the file. The
    /// buffer doubles, so that a long object is parsed only a few times and not once for each
    /// portion.
    fn fill_buffer(&mut self) -> Result<bool, String> {
        self.discarded += self.consumed as u64;
        self.buffer.drain(..std::mem::take(&mut self.consumed));
        let read_bytes = self
            .buffer
            .len()
            .max(BUFFER_BYTES)
            .min(MAX_ROW_BYTES.saturating_sub(self.buffer.len()));
        if read_bytes == 0 {
            return Err(self.error_at_position(&format!(
                "an object is larger than {} MiB",
                MAX_ROW_BYTES >> 20
            )));
        }
        let read = (&mut self.file)
            .take(read_bytes as u64)
            .read_to_end(&mut self.buffer);
        let is_of_number = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        self.parseable =
            self.buffer.len() - self.buffer.iter().rev().take_while(is_of_number).count();
        read.map(|read| read > 0)
            .map_err(|error| self.error_at_position(&error.to_string()))
    }

    /// Returns the next byte that is not a space, without consuming it; `None` at the end.
    fn peek_token(&mut self) -> Result<Option<u8>, String> {
        loop {
            let is_space = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
            self.consumed += self.unread().iter().take_while(is_space).count();
            let next = self.unread().first().copied();
            if next.is_some() || !self.fill_buffer()? {
                return Ok(next);
            }
        }
    }

    /// Consumes the expected byte. Errors name it as `description`.
    fn expect_byte(&mut self, byte: u8, description: &str) -> Result<(), String> {
        match self.peek_token()? {
            Some(found) if found == byte => self.consumed += 1,
            Some(_) => return Err(self.error_at_position(&format!("expected {description}"))),
            None => return Err(self.error_at_position(TRUNCATED)),
        }
        Ok(())
    }

    /// Consumes the end of the array and of the file.
    fn expect_end(&mut self) -> Result<(), String> {
        self.expect_byte(b']', "',' or ']'")?;
        self.peek_token()?.map_or(Ok(()), |_| {
            Err(self.error_at_position("unexpected data after the end of the array"))
        })
    }

    /// Parses an object and passes its rows to the visitor.
    fn read_object(&mut self, rows: &mut DumpRowBuilder<'_>) -> Result<ControlFlow<()>, String> {
        self.peek_token()?;
        loop {
            let rest = self
                .buffer
                .get(self.consumed..self.parseable)
                .unwrap_or_default();
            let mut objects =
                serde_json::Deserializer::from_slice(rest).into_iter::<DumpObject<'_>>();
            let error = match objects.next() {
                Some(Ok(object)) => {
                    let bytes = objects.byte_offset();
                    match rows.visit_object(&object) {
                        Ok(flow) => {
                            self.consumed += bytes;
                            return Ok(flow);
                        }
                        Err(error) => Some(error),
                    }
                }
                Some(Err(error)) if !error.is_eof() => Some(error),
                // The object is not complete in the buffer.
                Some(Err(_)) | None => None,
            };
            if let Some(error) = error {
                return Err(self.error_at_position(&json_error_text(&error)));
            }
            if !self.fill_buffer()? {
                return Err(self.error_at_position(TRUNCATED));
            }
            rows.visitor.report_progress(self.discarded);
        }
    }

    fn error_at_position(&self, problem: &str) -> String {
        format!("byte {}: {problem}", self.position() + 1)
    }
}

/// An object of the array.
#[derive(Deserialize)]
struct DumpObject<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(default)]
    pk: serde_json::Value,
    #[serde(borrow)]
    fields: &'a RawValue,
}

/// Name of a field, which rarely contains an escape.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct DumpFieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// Fields of an object. If names repeat, the last one counts.
type DumpFields<'a> = BTreeMap<DumpFieldName<'a>, serde_json::Value>;

/// Converts objects to rows.
struct DumpRowBuilder<'a> {
    visitor: &'a mut dyn RowVisitor,
    /// Names of the fields of the last object, and the resulting columns. The next object mostly
    /// has the same ones.
    last_field_names: Vec<String>,
    last_columns: Rc<[Box<str>]>,
}

impl DumpRowBuilder<'_> {
    /// Passes the needed rows of an object to the visitor.
    fn visit_object(
        &mut self,
        object: &DumpObject<'_>,
    ) -> Result<ControlFlow<()>, serde_json::Error> {
        let Some((_, table)) = MODELS.iter().find(|(model, _)| *model == object.model) else {
            return Ok(ControlFlow::Continue(()));
        };
        let table = *table;
        let is_channel = table == SourceTable::Channel;
        let assigns = is_channel && self.visitor.wants_table(SourceTable::Assignment);
        if !self.visitor.wants_table(table) && !assigns {
            return Ok(ControlFlow::Continue(()));
        }
        let mut fields: DumpFields<'_> = serde_json::from_str(object.fields.get())?;
        let checks = if is_channel {
            fields.remove(&DumpFieldName("checks".into()))
        } else {
            None
        };
        let columns = self.columns_of(&fields);
        let pk = to_source_value(object.pk.clone());
        let values = std::iter::once(pk.clone())
            .chain(fields.into_values().map(to_source_value))
            .collect();
        if self.visitor.wants_table(table)
            && self
                .visitor
                .visit_row(SourceRow::new(table, columns, values))
                .is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let Some(serde_json::Value::Array(checks)) = checks.filter(|_| assigns) else {
            return Ok(ControlFlow::Continue(()));
        };
        let columns: Rc<[Box<str>]> = Rc::from([Box::from("channel_id"), Box::from("check_id")]);
        for check in checks {
            let row = SourceRow::new(
                SourceTable::Assignment,
                Rc::clone(&columns),
                vec![pk.clone(), to_source_value(check)],
            );
            if self.visitor.visit_row(row).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the columns of a row with these fields.
    fn columns_of(&mut self, fields: &DumpFields<'_>) -> Rc<[Box<str>]> {
        let names = || fields.keys().map(|DumpFieldName(name)| &**name);
        if self.last_columns.is_empty()
            || !names().eq(self.last_field_names.iter().map(String::as_str))
        {
            let column = |name: &str| -> Box<str> {
                if REFERENCE_FIELDS.contains(&name) {
                    format!("{name}_id").into()
                } else {
                    name.into()
                }
            };
            self.last_columns = std::iter::once("id".into())
                .chain(names().map(column))
                .collect();
            self.last_field_names = names().map(str::to_owned).collect();
        }
        Rc::clone(&self.last_columns)
    }
}

fn to_source_value(json: serde_json::Value) -> SourceValue {
    match json {
        serde_json::Value::Null => SourceValue::Null,
        serde_json::Value::Bool(flag) => SourceValue::Bool(flag),
        serde_json::Value::Number(number) => number
            .as_i64()
            .map_or(SourceValue::Other, SourceValue::Integer),
        serde_json::Value::String(text) => SourceValue::Text(text),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => SourceValue::Other,
    }
}

#[cfg(test)]
mod tests;

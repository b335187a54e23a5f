//! Parser for the text output of `pg_dump`: the rows between `COPY table (columns) FROM stdin;` and
//! `\.`. The rest is skipped.

use std::io::{BufRead, Read as _};
use std::rc::Rc;

use super::RowVisitor;
use super::source_row::{MAX_ROW_BYTES, SourceRow, SourceTable, SourceValue};

/// Prefix of one of the last lines of a complete dump.
const DUMP_COMPLETE: &[u8] = b"-- PostgreSQL database dump complete";

/// Reads the whole dump.
///
/// # Errors
/// Returns an error if the dump cannot be read, is truncated, or has no such rows. The message
/// names the line.
pub(super) fn read_dump(file: impl BufRead, visit: &mut dyn RowVisitor) -> Result<(), String> {
    let mut lines = DumpLines {
        file,
        line: Vec::new(),
        number: 0,
        bytes: 0,
    };
    let mut blocks = 0;
    let mut opens_as_dump = false;
    let mut ended = false;
    while lines.next_line()? {
        opens_as_dump |= lines.number == 1 && lines.line.starts_with(b"--");
        ended |= lines.line.starts_with(DUMP_COMPLETE);
        let Some(rest) = lines.line.strip_prefix(b"COPY ") else {
            continue;
        };
        let Some(block) = CopyBlock::parse(&String::from_utf8_lossy(rest)) else {
            continue;
        };
        blocks += 1;
        if block.read_rows(&mut lines, visit)?.is_break() {
            return Ok(());
        }
    }
    match () {
        () if blocks == 0 => Err(
            "it has no rows in the format of pg_dump (COPY … FROM stdin): dump without --inserts; \
             for MySQL use the output of manage.py dumpdata"
                .into(),
        ),
        () if opens_as_dump && !ended => Err(
            r#"it is truncated: the line "PostgreSQL database dump complete" is missing"#.into(),
        ),
        () => Ok(()),
    }
}

/// Reads the lines of a file one at a time.
struct DumpLines<F> {
    file: F,
    /// Current line without its line feed.
    line: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl<F: BufRead> DumpLines<F> {
    /// Reads the next line. Returns false at the end.
    fn next_line(&mut self) -> Result<bool, String> {
        self.line.clear();
        let max_bytes = MAX_ROW_BYTES as u64 + 1;
        let read = (&mut self.file)
            .take(max_bytes)
            .read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| self.error_at_line(&error.to_string()))? as u64;
        self.number += u64::from(read > 0);
        self.bytes += read;
        if self.line.pop_if(|byte| *byte == b'\n').is_some() {
            self.line.pop_if(|byte| *byte == b'\r');
        } else if read == max_bytes {
            return Err(
                self.error_at_line(&format!("it is longer than {} MiB", MAX_ROW_BYTES >> 20))
            );
        }
        Ok(read > 0)
    }

    fn error_at_line(&self, problem: &str) -> String {
        format!("line {}: {problem}", self.number)
    }
}

/// Header of a block of rows.
struct CopyBlock {
    /// `None` if the rows are skipped.
    table: Option<SourceTable>,
    columns: Rc<[Box<str>]>,
}

impl CopyBlock {
    /// Parses the text after `COPY `.
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(" (")?;
        let columns = rest.strip_suffix(") FROM stdin;")?;
        let unquoted = |name: &str| Box::from(name.trim_matches('"'));
        let name = name.rsplit_once('.').map_or(name, |(_, name)| name);
        Some(Self {
            table: SourceTable::from_name(&unquoted(name)),
            columns: columns.split(", ").map(unquoted).collect(),
        })
    }

    fn read_rows<F: BufRead>(
        &self,
        lines: &mut DumpLines<F>,
        visit: &mut dyn RowVisitor,
    ) -> Result<std::ops::ControlFlow<()>, String> {
        let needed_table = self.table.filter(|table| visit.wants_table(*table));
        loop {
            if !lines.next_line()? {
                let table_name = self.table.map_or("a table", SourceTable::name);
                return Err(lines
                    .error_at_line(&format!("it is truncated within the rows of {table_name}")));
            }
            if lines.line == b"\\." {
                visit.report_progress(lines.bytes);
                return Ok(std::ops::ControlFlow::Continue(()));
            }
            if lines.number.is_multiple_of(1024) {
                visit.report_progress(lines.bytes);
            }
            let Some(table) = needed_table else { continue };
            let values = lines
                .line
                .split(|byte| *byte == b'\t')
                .map(parse_value)
                .collect::<Option<Vec<_>>>();
            let values = values.ok_or_else(|| {
                lines.error_at_line(&format!("a text in {} is not UTF-8", table.name()))
            })?;
            if values.len() != self.columns.len() {
                let problem = format!(
                    "{} values for {} columns of {}",
                    values.len(),
                    self.columns.len(),
                    table.name()
                );
                return Err(lines.error_at_line(&problem));
            }
            if visit
                .visit_row(SourceRow::new(table, Rc::clone(&self.columns), values))
                .is_break()
            {
                return Ok(std::ops::ControlFlow::Break(()));
            }
        }
    }
}

/// Decodes a value; `None` if it is not UTF-8.
fn parse_value(field: &[u8]) -> Option<SourceValue> {
    if field == b"\\N" {
        return Some(SourceValue::Null);
    }
    let mut text = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'\\' => match bytes.next().unwrap_or(byte) {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                other => *other,
            },
            byte => *byte,
        });
    }
    String::from_utf8(text).ok().map(SourceValue::Text)
}

#[cfg(test)]
mod tests;

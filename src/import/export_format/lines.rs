//! Lines of an export, and the errors for invalid ones.

use std::io::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ExportError;
use crate::import::item_rows::{ImportFlipRow, ImportItemRow, ImportPingRow};
use crate::import::json_error_text;

/// Version of the format. Other versions are refused.
pub(super) const FORMAT_VERSION: u64 = 1;
/// Maximum size of a line with its line feed, in bytes: see [limits](crate::docs::limits).
pub(super) const MAX_LINE_BYTES: usize = 2 << 20;
/// Maximum size of the part of a body in one line, in bytes. The rest follows in further lines.
pub(super) const MAX_BODY_CHUNK_BYTES: usize = 512 << 10;
/// Kinds of lines for objects.
const ITEM_KINDS: [&str; 6] = ["project", "key", "channel", "window", "check", "user"];
/// Other kinds of lines, except the first line.
const OTHER_KINDS: [&str; 6] = ["signing", "secret", "flip", "ping", "body", "end"];

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportHeader {
    /// Version of the format.
    pub(super) overdue: u64,
    /// Release that wrote the export.
    pub(super) release: String,
    /// Time of the export, in microseconds since 1970.
    pub(super) at: i64,
}

/// The part of the first line that all versions have.
#[derive(Deserialize)]
struct ExportVersion {
    overdue: u64,
}

/// A line that is not an object.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ExportExtraRow {
    /// Secret that signs badge URLs, in base64.
    Signing(String),
    /// Secret of another server. Hashed keys refer to it by its position.
    Secret(String),
    /// A flip.
    Flip(ImportFlipRow),
    /// A ping, with the first part of its body.
    Ping(ImportPingRow),
    /// A further part of the body of the previous ping.
    Body {
        /// Number of the check.
        check: u64,
        /// Number of the ping.
        n: u64,
        /// The bytes in base64.
        body: String,
    },
    /// Last line of the export.
    End(ExportTrailer),
}

/// The last line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportTrailer {
    /// Number of lines before this one.
    pub(super) lines: u64,
    /// SHA-256 of all bytes before this line, in hexadecimal digits.
    pub(super) sha256: String,
}

/// A line after the first.
pub(super) enum ExportLine {
    Item(Box<ImportItemRow>),
    Extra(Box<ExportExtraRow>),
}

/// Parses the first line.
pub(super) fn parse_header(line: &[u8]) -> Result<ExportHeader, String> {
    let header: ExportVersion =
        serde_json::from_slice(line).map_err(|_| "it is not an export of overdue in JSON lines")?;
    if header.overdue != FORMAT_VERSION {
        return Err(format!(
            "it has format version {}, and this release supports only version {FORMAT_VERSION}: \
             import it with the release that wrote it, or with a later one",
            header.overdue
        ));
    }
    serde_json::from_slice(line).map_err(|error| json_error_text(&error))
}

/// Parses any other line.
pub(super) fn parse_line(line: &[u8]) -> Result<ExportLine, String> {
    let text = line
        .strip_prefix(b"{\"")
        .and_then(|rest| rest.split(|byte| *byte == b'"').next());
    let kind = text.map(String::from_utf8_lossy).unwrap_or_default();
    match &*kind {
        kind if ITEM_KINDS.contains(&kind) => serde_json::from_slice(line)
            .map(ExportLine::Item)
            .map_err(|error| json_error_text(&error)),
        kind if OTHER_KINDS.contains(&kind) => serde_json::from_slice(line)
            .map(ExportLine::Extra)
            .map_err(|error| json_error_text(&error)),
        kind => Err(format!(
            "unknown kind of line {:?}",
            kind.chars().take(40).collect::<String>()
        )),
    }
}

/// Returns a SHA-256 as in the last line.
pub(super) fn checksum_hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Writes lines, counts them and updates their checksum.
pub(super) struct ExportLineWriter<W> {
    out: W,
    hash: Sha256,
    count: u64,
    line: Vec<u8>,
}

impl<W: Write> ExportLineWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            hash: Sha256::new(),
            count: 0,
            line: Vec::new(),
        }
    }

    pub(super) fn write_row(&mut self, row: &impl Serialize) -> Result<(), ExportError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, row)
            .map_err(|error| ExportError::Io(error.into()))?;
        self.line.push(b'\n');
        self.count += 1;
        if self.line.len() > MAX_LINE_BYTES {
            let start =
                String::from_utf8_lossy(self.line.get(..80).unwrap_or_default()).into_owned();
            return Err(ExportError::TooLong(start));
        }
        self.hash.update(&self.line);
        self.out.write_all(&self.line).map_err(ExportError::Io)
    }

    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        let end = ExportTrailer {
            lines: self.count,
            sha256: checksum_hex(self.hash.clone()),
        };
        self.write_row(&ExportExtraRow::End(end))?;
        self.out.flush().map_err(ExportError::Io)
    }
}

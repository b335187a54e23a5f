//! Export of all data of an overdue server as lines of JSON, which another one can import.
//!
//! The first line names the format. The last line has the number of lines before it and the SHA-256
//! of their bytes. Between them are projects, each before its objects, then users. Logs follow
//! their check: flips oldest first, pings newest first. Numbers are valid only within the file; an
//! import assigns new ones.

mod lines;
mod reader;
mod writer;

pub use reader::ExportReader;
pub use writer::{ExportError, write_export};

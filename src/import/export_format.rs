//! Everything that an overdue has, as lines of JSON: written by one, read by another.
//!
//! The first line says what it is, the last how many lines stand before it and the SHA-256 of their bytes. In between stand projects, each
//! before what belongs to it, then users. Logs follow their check: flips the oldest first, pings the newest first. Numbers are those of the
//! file: whoever reads it gives others.

mod lines;
mod reader;
mod writer;

pub use reader::ExportReader;
pub use writer::{ExportError, write_export};

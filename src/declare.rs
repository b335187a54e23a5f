//! Configuration as files: what there is, written so that it can be read again, and what is read, made the real state.
//!
//! A file becomes a [`Document`] of nodes that know where they stand, the document a [`Wanted`](crate::domain::wanted::Wanted) state, and the
//! engine plans what makes that the real one. The same document, its secrets filled in, goes over the admin socket.

mod apply;
mod document;
mod export;
mod fields;
mod files;
mod merge;
mod read;
mod schema;
mod secrets;
mod text;

pub use apply::{DeclareError, apply, diff, problem_of, told};
pub use document::{Document, Node, Place, Problem, Value};
pub use export::{HEAD, Object, export, proposed};
pub use files::{FilesError, PrepareError, Prepared, prepare};
pub use read::read;
pub use schema::schema;
pub use secrets::Secrets;
pub use text::{json, toml};

/// Bytes of all files together: see [limits](crate::docs::limits).
pub const MOST_BYTES: usize = 16 << 20;
/// Objects that files may declare together: see [limits](crate::docs::limits).
pub const MOST_OBJECTS: usize = 50_000;
/// Problems that are told at once; the rest is counted.
pub const MOST_PROBLEMS: usize = 50;
/// The version of the format.
pub const VERSION: i64 = 1;

#[cfg(test)]
mod tests;

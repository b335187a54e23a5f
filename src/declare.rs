//! Configuration as files: what there is, written so that it can be read again, and what is read, made the real state.
//!
//! A file becomes a [`ConfigDocument`] of nodes that know where they stand, the document a [`Wanted`](crate::domain::declared::DeclaredConfig) state, and the
//! engine plans what makes that the real one. The same document, its secrets filled in, goes over the admin socket.

mod apply;
mod document;
mod export;
mod fields;
mod files;
mod merge;
mod output;
mod reader;
mod schema;
mod secret_references;

pub use apply::{ConfigApplyError, apply_config, conflict_problem, diff_config, error_text};
pub use document::{ConfigDocument, ConfigNode, ConfigProblem, ConfigValue, SourceLocation};
pub use export::{ExportedObject, HEADER_COMMENTS, export_config, proposed_check};
pub use files::{ConfigFilesError, ConfigLoadError, LoadedConfig, load_config};
pub use output::{to_json, to_toml};
pub use reader::read_config;
pub use schema::json_schema;
pub use secret_references::SecretResolver;

/// Bytes of all files together: see [limits](crate::docs::limits).
pub const MAX_BYTES: usize = 16 << 20;
/// Objects that files may declare together: see [limits](crate::docs::limits).
pub const MAX_OBJECTS: usize = 50_000;
/// Problems that are told at once; the rest is counted.
pub const MAX_PROBLEMS: usize = 50;
/// The version of the format.
pub const FORMAT_VERSION: i64 = 1;

#[cfg(test)]
mod tests;

//! Configuration as files: exports the current state so that it can be read again, and applies
//! declared files.
//!
//! A file is parsed to a [`ConfigDocument`] of nodes with locations, and the document to a
//! [declared configuration](crate::domain::declared::DeclaredConfig). The engine plans the changes
//! that lead to it. The same document, with its secrets filled in, is sent over the admin socket.

mod apply;
mod document;
mod export;
mod fields;
mod files;
mod identity_providers;
mod merge;
mod output;
mod reader;
mod schema;
mod secret_references;

pub use apply::{ConfigApplyError, apply_config, diff_config, error_text, to_problem};
pub use document::{ConfigDocument, ConfigNode, ConfigProblem, ConfigValue, SourceLocation};
pub use export::{ExportedObject, HEADER_COMMENTS, export_config, export_proposed_check};
pub use files::{
    ConfigFilesError, ConfigLoadError, LoadedConfig, check_without_secrets, load_config,
};
pub use identity_providers::parse_identity_providers;
pub use output::{to_json, to_toml, toml_value};
pub use reader::read_config;
pub use schema::json_schema;
pub use secret_references::SecretResolver;

/// Maximum bytes of all files together: see [limits](crate::docs::limits).
pub const MAX_BYTES: usize = 16 << 20;
/// Maximum number of objects in all files together: see [limits](crate::docs::limits).
pub const MAX_OBJECTS: usize = 50_000;
/// Maximum number of problems that are listed; the rest is counted.
pub const MAX_PROBLEMS: usize = 50;
/// Version of the format.
pub const FORMAT_VERSION: i64 = 1;

#[cfg(test)]
mod tests;

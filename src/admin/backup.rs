//! Backups, and exports of everything: streams that are written as fast as the client takes them.

use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};

use super::context::AdminContext;
use super::error::AdminError;
use super::reply::ReplyStream;
use super::request::AdminRequest;
use crate::import::export_format::write_export;

/// Time in which a client must take a part of an export. It is long because the client may write to
/// a slow receiver.
const EXPORT_CLIENT_TIMEOUT: Duration = Duration::from_secs(600);

/// Streams the whole database as bytes: see [`crate::backup`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {}

impl AdminRequest for Backup {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/backup";
    type Output = ReplyStream;

    async fn run(self, context: &AdminContext) -> Result<ReplyStream, AdminError> {
        let handle = context.handle().clone();
        ReplyStream::start("application/octet-stream", move |out| {
            crate::backup::write_backup(&handle, out).map_err(|error| error.to_string())
        })
    }
}

/// Exports everything as lines of JSON, or one project without users.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportLines {
    /// Project to export; `None` for everything.
    pub project: Option<String>,
    /// True to include logs.
    #[serde(default)]
    pub logs: bool,
}

impl AdminRequest for ExportLines {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/export";
    const CLIENT_TIMEOUT: Duration = EXPORT_CLIENT_TIMEOUT;
    type Output = ReplyStream;

    async fn run(self, context: &AdminContext) -> Result<ReplyStream, AdminError> {
        let handle = context.handle().clone();
        let project = context.project_filter(self.project.as_deref())?;
        ReplyStream::start("application/jsonl", move |out| {
            write_export(&handle, project, self.logs, out)
                .map_err(|error| format!("the export failed: {error}"))
        })
    }
}

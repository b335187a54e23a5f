//! `overdue audit`: changes with their authors and times.

use std::path::Path;

use clap::Args;

use super::common_args::{JsonFlag, ProjectFilter, number_parser};
use super::{CliError, send, table};
use crate::admin::audit::{AuditRow, DEFAULT_AUDIT_LIMIT, ListAudit};

#[derive(Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    project: ProjectFilter,

    /// Maximum number of entries to show
    #[arg(
        long,
        env = "OVERDUE_LIMIT",
        value_name = "N",
        default_value_t = DEFAULT_AUDIT_LIMIT,
        value_parser = number_parser::<u32>(1..=5_000),
        allow_negative_numbers = true
    )]
    limit: u32,

    #[command(flatten)]
    json: JsonFlag,
}

impl AuditArgs {
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let Self {
            project: ProjectFilter { project },
            limit,
            json: JsonFlag { json },
        } = self;
        let rows = send(data, ListAudit { project, limit })?;
        table::print_list(&rows, json, &HEADINGS, cells).map_err(CliError::output_failed)
    }
}

/// Headings of the table.
const HEADINGS: [&str; 5] = ["TIME", "PROJECT", "ACTOR", "ADDRESS", "ACTION"];

/// Returns a row of the table.
fn cells(row: &AuditRow) -> [String; 5] {
    let address = row.actor.address;
    [
        row.time.clone(),
        row.project.clone().unwrap_or_default(),
        row.actor.description.clone(),
        address.map_or_else(String::new, |address| address.to_string()),
        row.description.clone(),
    ]
}

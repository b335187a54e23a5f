//! `overdue key`: the flags of its subcommands.

use std::path::Path;

use clap::Subcommand;
use clap::builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser as _};

use super::common_args::{JsonFlag, ProjectFilter, TargetProject, number_parser};
use super::{CliError, send, table};
use crate::admin::keys::{CreateKey, KeyRow, ListKeys, RevokeKey};
use crate::domain::project::{KeyAccess, KeyLabel};

#[derive(Subcommand)]
pub(super) enum KeyCommand {
    /// Create a key and print it. An API key is stored as a hash and cannot be shown again
    Create {
        #[command(flatten)]
        project: TargetProject,

        /// Access: read-write or read-only for the API, or ping for pings by slug
        #[arg(long, env = "OVERDUE_ACCESS", value_parser = access_parser())]
        access: KeyAccess,

        /// Label, such as the name of the program that uses the key
        #[arg(
            long,
            env = "OVERDUE_LABEL",
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true,
            value_parser = KeyLabel::parse
        )]
        label: KeyLabel,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// List the keys, without their values
    List {
        #[command(flatten)]
        project: ProjectFilter,

        /// Show the values of ping keys. They allow pings to the project's checks
        #[arg(long, env = "OVERDUE_SHOW_PING_KEYS", value_parser = FalseyValueParser::new())]
        show_ping_keys: bool,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Revoke a key; it stops working at once
    Revoke {
        /// Id of the key, as shown by `key list`
        #[arg(value_parser = number_parser::<u64>(1..=u64::MAX), allow_negative_numbers = true)]
        id: u64,
    },
}

fn access_parser() -> impl clap::builder::TypedValueParser<Value = KeyAccess> {
    PossibleValuesParser::new(KeyAccess::ALL.map(KeyAccess::name))
        .try_map(|word| KeyAccess::parse(&word).ok_or("no such access"))
}

impl KeyCommand {
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let printed = match self {
            Self::Create {
                project: TargetProject { project },
                access,
                label,
                json: JsonFlag { json },
            } => {
                let request = CreateKey {
                    project,
                    access,
                    label,
                };
                let created = send(data, request)?;
                table::print_created(&created.key, &created, json)
            }
            Self::List {
                project: ProjectFilter { project },
                show_ping_keys,
                json: JsonFlag { json },
            } => {
                let request = ListKeys {
                    project,
                    show_ping_keys,
                };
                table::print_list(&send(data, request)?, json, &HEADINGS, cells)
            }
            Self::Revoke { id } => return send(data, RevokeKey { id }),
        };
        printed.map_err(CliError::output_failed)
    }
}

/// Headings of the table.
const HEADINGS: [&str; 7] = [
    "ID",
    "PROJECT",
    "ACCESS",
    "LABEL",
    "KEY",
    "CREATED",
    "LAST USED",
];

/// Returns a row of the table. For a key that is not shown it contains the first characters.
fn cells(row: &KeyRow) -> [String; 7] {
    let hint = if row.hint.is_empty() {
        String::new()
    } else {
        format!("{}...", row.hint)
    };
    let last_used = row
        .used
        .iter()
        .zip(row.used_from)
        .map(|(at, from)| format!("{at} from {from}"))
        .next();
    let last_used = row.note.clone().or(last_used).unwrap_or_default();
    let project = row.project.clone();
    let access = row.access.clone();
    let label = row.label.clone();
    [
        row.id.to_string(),
        project,
        access,
        label,
        row.key.clone().unwrap_or(hint),
        row.created.clone(),
        last_used,
    ]
}

//! `overdue key`: the flags of its subcommands.

use clap::Subcommand;
use clap::builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser as _};

use super::Question;
use super::shared::{AnyProject, Json, OneProject};
use crate::admin::{KeyRow, Request};
use crate::domain::project::Access;

#[derive(Subcommand)]
pub(super) enum KeyCommand {
    /// Make a key and print it; an API key is stored hashed and never shown again
    Create {
        #[command(flatten)]
        project: OneProject,

        /// What it opens: the API, what of the API only reads, or pinging by slug
        #[arg(long, env = "OVERDUE_ACCESS", value_parser = access())]
        access: Access,
    },
    /// List the keys, without the keys themselves
    List {
        #[command(flatten)]
        project: AnyProject,

        /// Show ping keys: whoever knows one can ping the project's checks
        #[arg(long, env = "OVERDUE_SHOW_PING_KEYS", value_parser = FalseyValueParser::new())]
        show_ping_keys: bool,

        #[command(flatten)]
        json: Json,
    },
    /// Revoke a key at once
    Revoke {
        /// Its id, as shown by `key list`
        id: u64,
    },
}

fn access() -> impl clap::builder::TypedValueParser<Value = Access> {
    PossibleValuesParser::new(Access::ALL.map(Access::name)).try_map(|word| Access::parse(&word).ok_or("no such access"))
}

impl From<KeyCommand> for Question {
    fn from(command: KeyCommand) -> Self {
        match command {
            KeyCommand::Create { project: OneProject { project }, access } => Request::CreateKey { project, access }.into(),
            KeyCommand::List { project: AnyProject { project }, show_ping_keys, json: Json { json } } => {
                Self { request: Request::ListKeys { project, show_ping_keys }, json }
            }
            KeyCommand::Revoke { id } => Request::RevokeKey { id }.into(),
        }
    }
}

/// A row of the table.
pub(super) fn cells(row: &KeyRow) -> [String; 5] {
    [row.id.to_string(), row.project.clone(), row.access.clone(), row.created.clone(), row.key.clone().unwrap_or_default()]
}

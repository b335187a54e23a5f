//! `overdue deliveries`: delivery results of alerts.

use std::path::Path;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};

use super::common_args::{JsonFlag, ProjectFilter, number_parser};
use super::{CliError, send, table};
use crate::admin::deliveries::{
    DEFAULT_DELIVERY_LIMIT, DeliveryRow, ListDeliveries, NamedObject, RetryDelivery,
};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct DeliveriesArgs {
    #[command(subcommand)]
    command: Option<DeliveriesCommand>,

    #[command(flatten)]
    list: DeliveryListArgs,
}

#[derive(Subcommand)]
enum DeliveriesCommand {
    /// Send a failed alert again: to programs always, to others only if the status of the check has
    /// not changed since
    Retry {
        /// Number of the delivery, as shown by `deliveries`
        #[arg(value_parser = number_parser::<u64>(1..=u64::MAX), allow_negative_numbers = true)]
        number: u64,

        #[command(flatten)]
        json: JsonFlag,
    },
}

#[derive(Args)]
struct DeliveryListArgs {
    #[command(flatten)]
    project: ProjectFilter,

    /// UUID or name of the channel [default: all]
    #[arg(long, env = "OVERDUE_CHANNEL")]
    channel: Option<String>,

    /// UUID, slug or name of the check [default: all]
    #[arg(long, env = "OVERDUE_CHECK")]
    check: Option<String>,

    /// Show only failed deliveries
    #[arg(long, env = "OVERDUE_FAILED", value_parser = FalseyValueParser::new())]
    failed: bool,

    /// Maximum number of alerts to show
    #[arg(
        long,
        env = "OVERDUE_LIMIT",
        value_name = "N",
        default_value_t = DEFAULT_DELIVERY_LIMIT,
        value_parser = number_parser::<u32>(1..=50_000),
        allow_negative_numbers = true
    )]
    limit: u32,

    #[command(flatten)]
    json: JsonFlag,
}

impl DeliveriesArgs {
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let printed = match self.command {
            Some(DeliveriesCommand::Retry {
                number,
                json: JsonFlag { json },
            }) => {
                let queued = send(data, RetryDelivery { number })?;
                let text = format!("queued as delivery {}", queued.number);
                table::print_created(&text, &queued, json)
            }
            None => {
                let DeliveryListArgs {
                    project: ProjectFilter { project },
                    channel,
                    check,
                    failed,
                    limit,
                    json: JsonFlag { json },
                } = self.list;
                let request = ListDeliveries {
                    project,
                    channel,
                    check,
                    failed,
                    limit,
                };
                table::print_list(&send(data, request)?, json, &HEADINGS, cells)
            }
        };
        printed.map_err(CliError::output_failed)
    }
}

/// Headings of the table.
const HEADINGS: [&str; 8] = [
    "NUMBER", "TIME", "CHECK", "CHANNEL", "EVENT", "OUTCOME", "ATTEMPTS", "REASON",
];

/// Returns a row of the table.
fn cells(row: &DeliveryRow) -> [String; 8] {
    let name = |named: &Option<NamedObject>| {
        named
            .as_ref()
            .map(|named| named.name.clone())
            .unwrap_or_default()
    };
    let together = row
        .told_with
        .map(|number| format!("in one message with {number}"));
    let reason = [
        Some(row.reason.clone()).filter(|reason| !reason.is_empty()),
        together,
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>();
    let event = row.event.clone();
    let outcome = row.outcome.clone();
    let check = name(&row.check);
    let channel = name(&row.channel);
    [
        row.number.to_string(),
        row.time.clone(),
        check,
        channel,
        event,
        outcome,
        row.attempts.to_string(),
        reason.join("; "),
    ]
}

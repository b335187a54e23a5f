//! `overdue channel kinds`, and the same table below the help of the commands that take settings.

use clap::Args;
use serde::Serialize;

use crate::cli::Failure;
use crate::cli::shared::Json;
use crate::cli::table;
use crate::domain::channel::{ChannelKind, Field, Need};

/// Headings of the table.
const HEADINGS: [&str; 4] = ["KIND", "SETTING", "NEED", "WHAT IT IS"];

#[derive(Args)]
pub(in crate::cli) struct Kinds {
    /// The one kind to show [default: all]
    #[arg(value_parser = super::kind())]
    kind: Option<&'static ChannelKind>,

    #[command(flatten)]
    json: Json,
}

/// A setting of a kind.
#[derive(Serialize)]
struct FieldRow {
    /// What `--kind` takes.
    kind: &'static str,
    /// What stands before `=` in `--set`; `NAME` at its end is for the user to fill in.
    key: &'static str,
    /// What stands after it.
    value: String,
    /// `required`, `optional` or `default`.
    need: &'static str,
    /// What it is when it is left out, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<&'static str>,
    /// Whether it is shown to nobody.
    secret: bool,
    /// What it is for.
    help: &'static str,
}

impl FieldRow {
    fn of(kind: &ChannelKind, field: &Field) -> Self {
        let (need, default) = match field.need {
            Need::Required => ("required", None),
            Need::Optional => ("optional", None),
            Need::Default { words, .. } => ("default", Some(words)),
        };
        let Field { key, help, .. } = *field;
        Self { kind: kind.name, key, value: field.placeholder().into(), need, default, secret: field.is_secret(), help }
    }

    fn cells(&self) -> [String; 4] {
        let more = self.default.or(self.secret.then_some("a secret"));
        let help = [Some(self.help), more].into_iter().flatten().collect::<Vec<_>>().join("; ");
        [self.kind.to_owned(), format!("{}={}", self.key, self.value), self.need.to_owned(), help]
    }
}

fn rows(kinds: &[&'static ChannelKind]) -> Vec<FieldRow> {
    kinds.iter().flat_map(|kind| kind.fields.iter().map(|field| FieldRow::of(kind, field))).collect()
}

/// What stands below the help of a command that takes settings.
pub(super) fn help() -> String {
    table::table(&HEADINGS, rows(&ChannelKind::ALL).iter().map(FieldRow::cells)).join("\n")
}

impl Kinds {
    /// Shows the kinds, without a server or a database.
    pub(in crate::cli) fn show(self) -> Result<(), Failure> {
        let rows = self.kind.map_or_else(|| rows(&ChannelKind::ALL), |kind| rows(&[kind]));
        table::show(&rows, self.json.json, &HEADINGS, FieldRow::cells).map_err(Failure::unwritten)
    }
}

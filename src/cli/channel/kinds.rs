//! `overdue channel kinds`, and the list of kinds below the help of the commands that take
//! settings.

use clap::Args;
use serde::Serialize;

use crate::channels;
use crate::cli::CliError;
use crate::cli::common_args::JsonFlag;
use crate::cli::table;
use crate::domain::channel::{ChannelKind, Requirement, SettingField};

/// Headings of the table.
const HEADINGS: [&str; 4] = ["KIND", "SETTING", "NEED", "DESCRIPTION"];

#[derive(Args)]
pub(in crate::cli) struct KindsArgs {
    /// Kind to show [default: all]
    #[arg(value_parser = super::kind_parser())]
    kind: Option<&'static ChannelKind>,

    #[command(flatten)]
    json: JsonFlag,
}

/// A setting of a kind.
#[derive(Serialize)]
struct KindFieldRow {
    /// Value of `--kind`.
    kind: &'static str,
    /// Text before `=` in `--set`; the user replaces `NAME` at its end.
    key: &'static str,
    /// Form of the text after `=`.
    value: String,
    /// `required`, `optional` or `default`.
    need: &'static str,
    /// Default value in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<&'static str>,
    /// True if the value is never shown.
    secret: bool,
    /// Purpose of the setting.
    help: &'static str,
}

impl KindFieldRow {
    fn new(kind: &'static str, field: &'static SettingField) -> Self {
        let (need, default) = match field.requirement {
            Requirement::Required => ("required", None),
            Requirement::Optional => ("optional", None),
            Requirement::RequiredToDeliver => ("required", None),
            Requirement::Default(words)
            | Requirement::Derived {
                description: words, ..
            } => ("default", Some(words)),
        };
        let SettingField { key, help, .. } = *field;
        Self {
            kind,
            key,
            value: field.placeholder().into(),
            need,
            default,
            secret: field.is_secret(),
            help,
        }
    }

    fn cells(&self) -> [String; 4] {
        let more = self.default.or(self.secret.then_some("a secret"));
        let help = [Some(self.help), more]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; ");
        [
            self.kind.to_owned(),
            format!("{}={}", self.key, self.value),
            self.need.to_owned(),
            help,
        ]
    }
}

/// Returns the settings of one kind, or the settings of each kind followed by the common ones.
fn field_rows(kind: Option<&'static ChannelKind>) -> Vec<KindFieldRow> {
    let kind_rows = |kind: &'static ChannelKind| {
        kind.fields
            .iter()
            .map(|field| KindFieldRow::new(kind.name, field))
    };
    match kind {
        Some(kind) => kind_rows(kind)
            .chain(
                kind.common_fields()
                    .map(|field| KindFieldRow::new(kind.name, field)),
            )
            .collect(),
        None => {
            let shared = |(label, fields): (&'static str, &'static [SettingField])| {
                fields
                    .iter()
                    .map(move |field| KindFieldRow::new(label, field))
            };
            channels::all_kinds()
                .flat_map(kind_rows)
                .chain(ChannelKind::COMMON_FIELDS.into_iter().flat_map(shared))
                .collect()
        }
    }
}

/// Returns the text below the help of a command that takes settings.
pub(super) fn kinds_help() -> String {
    let cells = |kind: &'static ChannelKind| {
        [
            [&[kind.name], kind.aliases].concat().join(", "),
            kind.title.to_owned(),
        ]
    };
    let table =
        table::format_table(&["KIND", "DESCRIPTION"], channels::all_kinds().map(cells)).join("\n");
    format!(
        "{table}\n\nTo show the settings of a kind and where to get them: overdue channel kinds \
         KIND"
    )
}

impl KindsArgs {
    /// Shows the kinds, without a server or a database.
    pub(in crate::cli) fn show(self) -> Result<(), CliError> {
        let rows = field_rows(self.kind);
        match self.kind {
            Some(kind) if !self.json.json => {
                let mut lines =
                    table::format_table(&HEADINGS, rows.iter().map(KindFieldRow::cells));
                lines.extend([String::new(), kind.title.to_owned()]);
                let steps = (1..).zip(kind.steps);
                lines.extend(steps.map(|(number, step)| format!("{number}. {step}")));
                lines.extend(Some(kind.guide.to_owned()).filter(|guide| !guide.is_empty()));
                if kind.has_secret_files() {
                    lines.push(
                        "A secret can be read from a file on the server: add -file to its key and \
                         give the path."
                            .into(),
                    );
                }
                lines.extend([String::new(), kind.example_command()]);
                table::print_lines(&lines)
            }
            _ => table::print_list(&rows, self.json.json, &HEADINGS, KindFieldRow::cells),
        }
        .map_err(CliError::output_failed)
    }
}

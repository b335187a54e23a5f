//! `overdue channel`: the flags of its subcommands.

mod kinds;

use std::path::PathBuf;

use clap::builder::{FalseyValueParser, PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};

use super::shared::{AnyProject, Json, OneProject};
use super::{Failure, Question};
use crate::admin::{ChannelRow, Request};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::project::ChannelName;
use kinds::Kinds;

#[derive(Subcommand)]
pub(super) enum ChannelCommand {
    #[command(flatten)]
    Manage(Manage),
    /// Show what kinds of channel there are and what can be set
    Kinds(Kinds),
}

/// What the admin door is asked.
#[derive(Subcommand)]
pub(super) enum Manage {
    /// Make a channel and print its UUID
    #[command(after_help = kinds::help())]
    Create {
        #[command(flatten)]
        project: OneProject,

        /// How it notifies
        #[arg(long, env = "OVERDUE_KIND", value_parser = kind())]
        kind: &'static ChannelKind,

        /// Its name, which others may have too
        #[arg(long, env = "OVERDUE_NAME", value_parser = ChannelName::parse)]
        name: ChannelName,

        #[command(flatten)]
        settings: SettingsArgs,

        #[command(flatten)]
        json: Json,
    },
    /// List the channels
    List {
        #[command(flatten)]
        project: AnyProject,

        /// Show settings, with *** in place of secrets
        #[arg(long, env = "OVERDUE_SHOW_SETTINGS", value_parser = FalseyValueParser::new())]
        show_settings: bool,

        #[command(flatten)]
        json: Json,
    },
    /// Give a channel another name
    Rename {
        #[command(flatten)]
        which: Which,

        /// Its new name
        #[arg(value_parser = ChannelName::parse)]
        name: ChannelName,
    },
    /// Give a channel other settings in place of all that it had
    #[command(after_help = kinds::help() + "\n\n*** in place of a secret keeps the one that is stored.")]
    Set {
        #[command(flatten)]
        which: Which,

        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Delete a channel; checks are no longer assigned to it
    Delete {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Args)]
pub(super) struct Which {
    /// Its UUID, or its name if no other channel has it
    channel: String,

    #[command(flatten)]
    project: AnyProject,
}

#[derive(Args)]
pub(super) struct SettingsArgs {
    /// A setting of its kind; may be given several times, the variable holds one
    #[arg(long, env = "OVERDUE_SET", hide_env_values = true, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,

    /// File with more settings, one on each line, so that secrets stand in no command line
    #[arg(long, env = "OVERDUE_SET_FILE", value_name = "FILE")]
    set_file: Option<PathBuf>,
}

fn kind() -> impl clap::builder::TypedValueParser<Value = &'static ChannelKind> {
    let words = ChannelKind::ALL.map(|kind| PossibleValue::new(kind.name).aliases(kind.aliases));
    PossibleValuesParser::new(words).try_map(|word| ChannelKind::named(&word).ok_or("no such kind"))
}

fn setting(text: &str) -> Result<(String, String), &'static str> {
    text.split_once('=').map(|(key, value)| (key.into(), value.into())).ok_or("a setting is KEY=VALUE")
}

impl SettingsArgs {
    fn pairs(self) -> Result<Vec<(String, String)>, Failure> {
        let mut pairs = self.set;
        if let Some(path) = self.set_file {
            let told = |reason: String| Failure::usage(format!("cannot use the settings in {}: {reason}", path.display()));
            let text = std::fs::read_to_string(&path).map_err(|error| told(error.to_string()))?;
            for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
                pairs.push(setting(line).map_err(|reason| told(format!("line {}: {reason}", number + 1)))?);
            }
        }
        Ok(pairs)
    }
}

impl Manage {
    /// What is asked.
    pub(super) fn question(self) -> Result<Question, Failure> {
        Ok(match self {
            Self::Create { project: OneProject { project }, kind, name, settings, json: Json { json } } => {
                let settings = ChannelSettings::parse(kind, settings.pairs()?).map_err(Failure::usage)?;
                Question::shown(Request::CreateChannel { project, name, settings }, json)
            }
            Self::List { project: AnyProject { project }, show_settings, json: Json { json } } => {
                Question::shown(Request::ListChannels { project, show_settings }, json)
            }
            Self::Rename { which: Which { channel, project: AnyProject { project } }, name } => {
                Request::SetChannel { project, channel, name: Some(name), settings: None }.into()
            }
            Self::Set { which: Which { channel, project: AnyProject { project } }, settings } => {
                Request::SetChannel { project, channel, name: None, settings: Some(settings.pairs()?) }.into()
            }
            Self::Delete { which: Which { channel, project: AnyProject { project } } } => {
                Request::DeleteChannel { project, channel }.into()
            }
        })
    }
}

/// A row of the table.
pub(super) fn cells(row: &ChannelRow) -> [String; 5] {
    let settings = row.settings.iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join(" ");
    [row.uuid.to_string(), row.project.clone(), row.kind.clone(), row.name.clone(), settings]
}

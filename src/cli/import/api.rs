//! Flags of an import from the API of another server, and its requests.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;

use super::super::CliError;
use super::read_small_file;
use crate::domain::project::ProjectName;
use crate::import::api::{ApiSource, fetch_project};
use crate::import::{ImportSource, PingLogSelection, ProjectSelection};
use crate::outbound::{Outbound, OutboundConfig, ProxyChoice};
use crate::util::clock::Clock;
use crate::util::random::Random;

#[derive(Args)]
#[command(next_help_heading = "From an API")]
pub(super) struct ImportApiArgs {
    /// URL of a server whose API is read if there is no file. The API provides less data. Name the
    /// project with --project
    #[arg(
        long,
        env = "OVERDUE_API",
        value_name = "URL",
        conflicts_with = "source",
        requires_all = ["key_file", "project"]
    )]
    pub(super) api: Option<String>,

    /// File with a read-write API key of the project; the key works here too after the import
    #[arg(long, env = "OVERDUE_KEY_FILE", value_name = "FILE", requires = "api")]
    key_file: Option<PathBuf>,

    /// File with the read-only API key of the project, if that is to work here too
    #[arg(
        long,
        env = "OVERDUE_READ_ONLY_KEY_FILE",
        value_name = "FILE",
        requires = "api"
    )]
    read_only_key_file: Option<PathBuf>,

    /// File with the ping key of the project
    #[arg(
        long,
        env = "OVERDUE_PING_KEY_FILE",
        value_name = "FILE",
        requires = "api"
    )]
    ping_key_file: Option<PathBuf>,

    /// Proxy for requests to that server: http://HOST:PORT, socks5://HOST:PORT, or none; NO_PROXY
    /// lists exceptions [default: from HTTPS_PROXY, HTTP_PROXY or ALL_PROXY]
    #[arg(
        long,
        env = "OVERDUE_OUTBOUND_PROXY",
        value_name = "URL",
        value_parser = ProxyChoice::parse,
        hide_env_values = true
    )]
    outbound_proxy: Option<ProxyChoice>,

    /// PEM file with certificate authorities to trust in addition to the system's
    #[arg(long, env = "OVERDUE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl ImportApiArgs {
    /// Reads the API, if one is given.
    pub(super) fn fetch_source(
        &self,
        projects: &[ProjectSelection],
        logs: PingLogSelection,
        bar: &ProgressBar,
    ) -> Result<Option<ImportSource>, CliError> {
        let Some((url, key_file)) = self.api.as_ref().zip(self.key_file.as_ref()) else {
            return Ok(None);
        };
        let project = match projects {
            [
                ProjectSelection {
                    source_name: old,
                    new_name: None,
                },
            ] => ProjectName::parse(old).map_err(str::to_owned),
            _ => Err("give --project once, with the name for the project here".to_owned()),
        };
        let key = |path: &Path| read_small_file(path).map(|text| text.trim().to_owned());
        let api = ApiSource {
            url: url.clone(),
            key: key(key_file)?,
            read_only_key: self.read_only_key_file.as_deref().map(key).transpose()?,
            ping_key: self.ping_key_file.as_deref().map(key).transpose()?,
            project: project.map_err(CliError::usage)?,
            logs,
        };
        let proxy = self.outbound_proxy.clone().unwrap_or_default();
        let ca_file = self.ca_file.clone();
        let config = OutboundConfig {
            proxy,
            ca_file,
            mentions_tls_pin: false,
            ..OutboundConfig::default()
        };
        let outbound =
            Outbound::new(config, &Clock::System, Random::System).map_err(CliError::usage)?;
        let mut is_estimate_shown = false;
        let mut on_progress = |done: u64, total: u64| {
            if let (Some(per_minute), requests) = api.request_estimate(total)
                && !std::mem::replace(&mut is_estimate_shown, true)
            {
                let minutes = requests.div_ceil(per_minute.into());
                let bodies = if logs == PingLogSelection::All {
                    " and one for each body"
                } else {
                    ""
                };
                // Continues even if this message cannot be written.
                let _ = writeln!(
                    io::stderr(),
                    "overdue: {requests} requests{bodies}, {per_minute} a minute: at least \
                     {minutes} min"
                );
            }
            bar.set_length(total);
            bar.set_prefix("checks");
            bar.set_position(done);
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(CliError::other)?;
        runtime
            .block_on(fetch_project(
                &api,
                &outbound,
                &Clock::System,
                &Random::System,
                &mut on_progress,
            ))
            .map(Some)
            .map_err(CliError::usage)
    }
}

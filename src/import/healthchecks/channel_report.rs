//! Channels in the report: incomplete, converted and dropped channels, and channels that reach this
//! machine or run commands.

use std::collections::HashMap;
use std::net::IpAddr;

use uuid::Uuid;

use crate::domain::channel::ChannelSettings;
use crate::domain::import_contents::{
    ImportContents, ImportedChannel, ImportedProject, ImportedSettings,
};
use crate::import::report::{IncompleteChannel, LocalChannel, ReportRemarks, ReportedChannel};
use crate::outbound::AddressGuard;

/// Channels that the report names.
#[derive(Default)]
pub(super) struct ChannelReportBuilder {
    incomplete: Vec<IncompleteChannel>,
    converted: Vec<ReportedChannel>,
    local: Vec<LocalChannel>,
    shell: Vec<ReportedChannel>,
    /// Dropped channels by their numbers in the source.
    dropped: HashMap<i64, ReportedChannel>,
}

impl ChannelReportBuilder {
    /// Adds an imported channel with its changes.
    pub(super) fn add_imported(
        &mut self,
        project: &ImportedProject,
        channel: &ImportedChannel,
        changes: Vec<String>,
    ) {
        let mut changes = changes;
        let kind = match &channel.settings {
            ImportedSettings::Complete(settings) => settings.kind(),
            ImportedSettings::Incomplete { kind, .. } => *kind,
        };
        let row = |remarks| {
            ReportedChannel::new(
                project,
                channel.uuid,
                channel.name.as_str(),
                kind.name,
                remarks,
            )
        };
        if let ImportedSettings::Incomplete { missing, .. } = &channel.settings {
            let reason = channel
                .health
                .disabled
                .as_ref()
                .map(|(_, reason)| reason.to_string());
            // A refused header is left out. No value can be given in its place.
            let missing = missing
                .iter()
                .copied()
                .filter(|key| !kind.is_key_pattern(key))
                .collect();
            // The channel needs attention anyway, so its changes are listed here and not in a
            // second list.
            let remarks = reason
                .into_iter()
                .chain(std::mem::take(&mut changes))
                .collect();
            self.incomplete.push(IncompleteChannel {
                channel: row(remarks),
                missing,
            });
        }
        if !changes.is_empty() {
            self.converted.push(row(changes));
        }
        if kind.name == "shell" {
            self.shell.push(row(Vec::new()));
        }
        if !channel.set_by_operator {
            let addresses = local_addresses(&channel.settings);
            if !addresses.is_empty() {
                self.local.push(LocalChannel {
                    channel: row(Vec::new()),
                    addresses,
                });
            }
        }
    }

    /// Adds a channel that is not imported.
    pub(super) fn add_dropped(&mut self, number: i64, row: ReportedChannel) {
        self.dropped.insert(number, row);
    }

    /// Adds a check to the dropped channels of these numbers.
    pub(super) fn add_check<'a>(
        &mut self,
        numbers: impl Iterator<Item = &'a i64>,
        called: impl Fn() -> String,
    ) {
        for number in numbers {
            if let Some(row) = self.dropped.get_mut(number) {
                row.checks.push(called());
            }
        }
    }

    /// Adds the checks of each channel and moves all channels to the report.
    pub(super) fn finish(self, imported: &ImportContents, remarks: &mut ReportRemarks) {
        let Self {
            mut incomplete,
            mut converted,
            mut local,
            mut shell,
            dropped,
        } = self;
        let rows = incomplete
            .iter_mut()
            .map(|row| &mut row.channel)
            .chain(local.iter_mut().map(|row| &mut row.channel));
        let mut rows: HashMap<Uuid, Vec<&mut ReportedChannel>> = rows
            .chain(&mut converted)
            .chain(&mut shell)
            .fold(HashMap::new(), |mut all, row| {
                all.entry(row.uuid).or_default().push(row);
                all
            });
        if !rows.is_empty() {
            for check in imported.projects.iter().flat_map(|project| &project.checks) {
                for channel in &check.channels {
                    for row in rows.get_mut(channel).into_iter().flatten() {
                        row.checks.push(check.settings.display_name(check.uuid));
                    }
                }
            }
        }
        let mut dropped: Vec<_> = dropped.into_iter().collect();
        dropped.sort_by_key(|(number, _)| *number);
        remarks.dropped_channels = dropped.into_iter().map(|(_, row)| row).collect();
        (
            remarks.incomplete,
            remarks.converted,
            remarks.local,
            remarks.shell,
        ) = (incomplete, converted, local, shell);
    }
}

/// Returns the IP addresses in URLs of a channel that it can reach only if the server allows them.
fn local_addresses(settings: &ImportedSettings) -> Vec<IpAddr> {
    let settings = match settings {
        ImportedSettings::Complete(settings) => settings.clone(),
        ImportedSettings::Incomplete {
            kind,
            settings: given,
            ..
        } => match ChannelSettings::from_incomplete(kind, given.pairs()) {
            Ok(settings) => settings,
            Err(_) => return Vec::new(),
        },
    };
    let mut addresses: Vec<_> = settings
        .urls()
        .filter_map(url_address)
        .filter(|address| AddressGuard::requires_outbound_allow(*address))
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Returns the IP address that is the host of a URL.
fn url_address(url: &str) -> Option<IpAddr> {
    let authority = url.split_once("://")?.1.split(['/', '?']).next()?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host),
    };
    let is_localhost =
        host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    if is_localhost {
        Some(IpAddr::from([127, 0, 0, 1]))
    } else {
        host.parse().ok()
    }
}

/// Returns warnings about the settings of an imported channel.
pub(super) fn channel_warnings(channel: &ImportedChannel) -> impl Iterator<Item = String> {
    let warnings = match &channel.settings {
        ImportedSettings::Complete(settings) => settings.warnings(),
        ImportedSettings::Incomplete { .. } => Vec::new(),
    };
    warnings
        .into_iter()
        .map(|warning| format!("{:?}: {warning}", channel.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::channel::{ConvertedChannel, convert_channel};
    use super::*;
    use crate::domain::project::ProjectName;
    use crate::domain::timestamp::Timestamp;
    use crate::import::environment::ServerEnvironment;
    use crate::import::source_row::SourceTable;
    use crate::import::tests::texts;

    #[test]
    fn a_converted_channel_with_missing_settings_is_listed_once() {
        let project = ImportedProject {
            uuid: Uuid::nil(),
            name: ProjectName::parse("p").unwrap(),
            badge_key: "b".into(),
            legacy_badge: None,
            check_limit: None,
            ping_log_limit: 100,
            allows_ping_settings: false,
            keys: Vec::new(),
            status_pages: Vec::new(),
            channels: Vec::new(),
            windows: Vec::new(),
            checks: Vec::new(),
        };
        for (value, lists) in [
            (r#"{"url": "https://g/#", "token": "t"}"#, (0, 1)),
            (r#"{"url": "https://g/#", "token": ""}"#, (1, 0)),
        ] {
            let columns = [
                ("id", "1"),
                ("code", "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f"),
                ("name", "n"),
                ("kind", "gotify"),
                ("value", value),
            ];
            let made = convert_channel(
                &texts(SourceTable::Channel, &columns),
                &ServerEnvironment::default(),
                Timestamp::from_secs(7),
            );
            let Ok(ConvertedChannel::Imported { channel, changes }) = made else {
                panic!("it comes")
            };
            assert!(!changes.is_empty());
            let mut rows = ChannelReportBuilder::default();
            rows.add_imported(&project, &channel, changes.clone());
            assert_eq!(
                (rows.incomplete.len(), rows.converted.len()),
                lists,
                "{value}"
            );
            let remarks = rows
                .incomplete
                .iter()
                .map(|row| &row.channel.remarks)
                .chain(rows.converted.iter().map(|row| &row.remarks));
            assert!(
                remarks.flatten().any(|remark| *remark == changes[0]),
                "{value}"
            );
        }
    }
}

//! Report of an import: numbers of objects by result, with reasons, for people and for programs.

mod counts;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use uuid::Uuid;

use crate::domain::formatting::format_count;
use crate::domain::import_contents::ImportedProject;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::import::LocalChanges;
use counts::ReportedCount;
pub(super) use counts::{ImportTally, ReportedKind};

/// Maximum number of names in a line, and of notes for a kind: see [limits](crate::docs::limits).
const MAX_LISTED: usize = 20;
/// Maximum number of names of checks in a line about a channel.
const MAX_NAMED_CHECKS: usize = 5;

#[cfg(test)]
impl ImportTally {
    /// Returns the counts as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::to_value(&self.0).unwrap()
    }
}

/// A channel in the report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct ReportedChannel {
    pub(super) project: String,
    pub(super) uuid: Uuid,
    pub(super) name: String,
    pub(super) kind: String,
    /// Names of the checks to which the channel is assigned.
    pub(super) checks: Vec<String>,
    pub(super) remarks: Vec<String>,
}

impl ReportedChannel {
    pub(super) fn new(
        project: &ImportedProject,
        uuid: Uuid,
        name: &str,
        kind: &str,
        remarks: Vec<String>,
    ) -> Self {
        let project = project.name.as_str().to_owned();
        let name = name.to_owned();
        Self {
            project,
            uuid,
            name,
            kind: kind.to_owned(),
            checks: Vec::new(),
            remarks,
        }
    }

    /// Describes the channel with its project and its checks.
    fn description(&self) -> String {
        let names: Vec<_> = self
            .checks
            .iter()
            .take(MAX_NAMED_CHECKS)
            .map(|name| format!("{name:?}"))
            .collect();
        let more = self.checks.len() - names.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let checks = match names.is_empty() {
            true => "no check".to_owned(),
            false => format!(
                "{} ({}{more})",
                format_count(self.checks.len(), "check"),
                names.join(", ")
            ),
        };
        format!(
            "{} {:?} of project {:?}, for {checks}",
            self.kind, self.name, self.project
        )
    }

    /// Returns a line with the description and the UUID, and a line for each remark.
    fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let first = format!("  {}: {}", self.description(), self.uuid);
        std::iter::once(first).chain(self.remarks.iter().map(|remark| format!("    {remark}")))
    }
}

/// A channel with missing settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct IncompleteChannel {
    #[serde(flatten)]
    pub(super) channel: ReportedChannel,
    /// Keys that have to be set. If empty, the channel only has to be enabled.
    pub(super) missing: Vec<&'static str>,
}

impl IncompleteChannel {
    fn lines(&self) -> Vec<String> {
        let sets: String = self
            .missing
            .iter()
            .map(|key| format!(" --set {key}=…"))
            .collect();
        let Self { channel, .. } = self;
        let command = match sets.as_str() {
            "" => format!("overdue channel enable {}", channel.uuid),
            sets => format!("overdue channel set {} --keep{sets}", channel.uuid),
        };
        let mut lines = vec![format!("  {}: {command}", channel.description())];
        lines.extend(channel.remarks.iter().map(|remark| format!("    {remark}")));
        lines
    }
}

/// A channel that sends to addresses of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct LocalChannel {
    #[serde(flatten)]
    pub(super) channel: ReportedChannel,
    pub(super) addresses: Vec<IpAddr>,
}

/// A check that is late.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct LateCheck {
    pub(super) project: String,
    pub(super) name: String,
}

/// Report of an import.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ImportReport {
    source: ReportSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<String>,
    counts: BTreeMap<ReportedKind, ReportedCount>,
    incomplete: Vec<IncompleteChannel>,
    /// Channels whose settings were changed without a loss.
    converted: Vec<ReportedChannel>,
    /// Channels that are not imported.
    dropped_channels: Vec<ReportedChannel>,
    /// Channels that need `--outbound-allow`.
    local: Vec<LocalChannel>,
    /// Channels that run commands on this machine.
    shell: Vec<ReportedChannel>,
    late: Vec<LateCheck>,
    /// Flags of `overdue serve` that correspond to the configuration of the old server.
    serve_flags: Vec<String>,
    advice: Vec<String>,
    /// Data of an earlier import that a dry run has found on the server; `None` if the server was
    /// not asked.
    here: Option<ReplacementSummary>,
    /// Channels that are left out because only the operator may create them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operator_channels: Vec<String>,
}

/// Data of an earlier import that this one replaces.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct ReplacementSummary {
    /// Number of replaced projects.
    replaced: usize,
    /// Number of their checks that were pinged or changed since.
    lost_checks: usize,
    /// Number of pings that arrived since.
    lost_pings: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct ReportSource {
    name: String,
    form: &'static str,
}

/// Parts of a report other than its counts.
#[derive(Default)]
pub(super) struct ReportRemarks {
    pub(super) newest: Option<Timestamp>,
    pub(super) incomplete: Vec<IncompleteChannel>,
    pub(super) converted: Vec<ReportedChannel>,
    pub(super) dropped_channels: Vec<ReportedChannel>,
    pub(super) local: Vec<LocalChannel>,
    pub(super) shell: Vec<ReportedChannel>,
    pub(super) late: Vec<LateCheck>,
    pub(super) serve_flags: Vec<String>,
    pub(super) advice: Vec<String>,
}

impl ImportReport {
    /// Creates a report. `name` is the name of the source, `form` the name of its format.
    pub(super) fn new(
        (name, form): (&str, &'static str),
        tally: ImportTally,
        remarks: ReportRemarks,
    ) -> Self {
        let ReportRemarks {
            newest,
            incomplete,
            converted,
            dropped_channels,
            local,
            shell,
            late,
            serve_flags,
            advice,
        } = remarks;
        let source = ReportSource {
            name: name.to_owned(),
            form,
        };
        let newest = newest.map(|newest| {
            let mut text = String::new();
            newest.write_rfc3339_secs(&mut text);
            text
        });
        Self {
            source,
            newest,
            counts: tally.0,
            incomplete,
            converted,
            dropped_channels,
            local,
            shell,
            late,
            serve_flags,
            advice,
            here: None,
            operator_channels: Vec::new(),
        }
    }

    /// Adds the number of replaced projects, and the changes in them that are lost.
    pub fn with_replacement(
        self,
        replaced: usize,
        LocalChanges { checks, pings }: LocalChanges,
    ) -> Self {
        Self {
            here: Some(ReplacementSummary {
                replaced,
                lost_checks: checks,
                lost_pings: pings,
            }),
            ..self
        }
    }

    /// Adds channels that are left out because only the operator may create them.
    pub(super) fn with_operator_channels(mut self, operator_channels: Vec<String>) -> Self {
        if let Some(counts) = self.counts.get_mut(&ReportedKind::Channels) {
            let left_out = operator_channels.len() as u64;
            counts.carried = counts.carried.saturating_sub(left_out);
            counts.dropped += left_out;
        }
        Self {
            shell: Vec::new(),
            operator_channels,
            ..self
        }
    }

    /// Returns the rows of the table of counts: the kind of object; its number in the source, and
    /// the numbers of imported, changed and dropped ones; and notes.
    pub fn count_rows(&self) -> impl Iterator<Item = (&'static str, [String; 4], Vec<String>)> {
        self.counts.iter().map(|(kind, count)| {
            let counts = [count.source, count.carried, count.changed, count.dropped];
            (kind.name(), counts.map(group_thousands), count.note_texts())
        })
    }

    /// Returns the report as lines of text. The names in it come from the source and must be
    /// escaped before they are printed to a terminal.
    pub fn lines(&self) -> Vec<String> {
        let heading = [
            String::new(),
            "source".into(),
            "carried".into(),
            "changed".into(),
            "dropped".into(),
        ];
        let mut rows = vec![(heading, Vec::new())];
        for (kind, count) in &self.counts {
            let cells = [kind.name().into()].into_iter().chain(
                [count.source, count.carried, count.changed, count.dropped].map(group_thousands),
            );
            rows.push((
                std::array::from_fn({
                    let mut cells = cells;
                    move |_| cells.next().unwrap_or_default()
                }),
                count.note_texts(),
            ));
        }
        let widest: [usize; 5] = std::array::from_fn(|column| {
            rows.iter()
                .filter_map(|(cells, _)| cells.get(column))
                .map(String::len)
                .max()
                .unwrap_or(0)
        });
        let mut lines = Vec::new();
        for (cells, notes) in rows {
            let cells = cells
                .iter()
                .zip(widest)
                .enumerate()
                .map(|(column, (cell, width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
            let line = cells.collect::<Vec<_>>().join("  ");
            let indent = " ".repeat(line.len());
            lines.push(
                format!("{line}  {}", notes.first().map_or("", String::as_str))
                    .trim_end()
                    .to_owned(),
            );
            lines.extend(notes.iter().skip(1).map(|note| format!("{indent}  {note}")));
        }
        lines.extend(self.remark_lines());
        lines
    }

    /// Returns the remarks below the table of counts as lines of text. Lines that belong to the one
    /// before are indented.
    pub fn remark_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.incomplete.is_empty() {
            let channels = format_count(self.incomplete.len(), "channel");
            lines.push(format!(
                "{channels} with missing settings, imported as disabled unless already completed \
                 or enabled on this server:"
            ));
            lines.extend(self.incomplete.iter().flat_map(IncompleteChannel::lines));
        }
        for (heading, rows) in [
            ("not imported", &self.dropped_channels),
            ("with converted settings", &self.converted),
            (
                "with commands that run on this machine if the server is started with \
                 --allow-shell; review them first",
                &self.shell,
            ),
        ] {
            if !rows.is_empty() {
                lines.push(format!(
                    "{heading}, {}:",
                    format_count(rows.len(), "channel")
                ));
                lines.extend(rows.iter().flat_map(ReportedChannel::lines));
            }
        }
        if !self.operator_channels.is_empty() {
            lines.push(format!(
                "left out, because only the operator may create them; overdue import on the \
                 server imports them, {}:",
                format_count(self.operator_channels.len(), "channel")
            ));
            let indented = |channel: &String| format!("  {channel}");
            lines.extend(self.operator_channels.iter().map(indented));
        }
        if !self.local.is_empty() {
            let mut addresses: Vec<_> = self
                .local
                .iter()
                .flat_map(|row| row.addresses.iter().copied())
                .collect();
            addresses.sort_unstable();
            addresses.dedup();
            let flags: String = addresses
                .iter()
                .map(|address| format!(" --outbound-allow {address}"))
                .collect();
            let channels = format_count(self.local.len(), "channel");
            lines.push(format!(
                "sending to addresses of this machine, which needs overdue serve{flags}, \
                 {channels}:"
            ));
            lines.extend(self.local.iter().flat_map(|row| row.channel.lines()));
        }
        if !self.late.is_empty() {
            let names: Vec<_> = self
                .late
                .iter()
                .take(MAX_LISTED)
                .map(|check| check.name.as_str())
                .collect();
            let more = self.late.len() - names.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            let verb = if self.late.len() == 1 { "is" } else { "are" };
            lines.push(format!(
                "{} {verb} already late: {}{more}",
                format_count(self.late.len(), "check"),
                names.join(", ")
            ));
        }
        lines.extend(
            self.newest
                .iter()
                .map(|newest| format!("newest entry in the source: {newest}")),
        );
        if !self.serve_flags.is_empty() {
            lines.push(format!(
                "flags that match the configuration of the old server: overdue serve {}",
                self.serve_flags.join(" ")
            ));
        }
        lines.extend(self.advice.iter().cloned());
        lines.extend(self.here.as_ref().map(ReplacementSummary::sentence));
        lines
    }
}

impl ReplacementSummary {
    fn sentence(&self) -> String {
        let Self {
            replaced,
            lost_checks: checks,
            lost_pings: pings,
        } = *self;
        let lost = LocalChanges { checks, pings };
        let of = match replaced {
            0 => return "it would replace nothing".into(),
            1 => "1 project of an earlier import".into(),
            _ => format!("{} of an earlier import", format_count(replaced, "project")),
        };
        let loss = if lost == LocalChanges::default() {
            String::new()
        } else {
            format!("; this would be lost: {lost}")
        };
        format!("it would replace {of}{loss}")
    }
}

/// Formats a number with commas between thousands.
fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::counts::ReportedNote;
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (123_456, "123,456"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(group_thousands(number), text);
        }
    }

    #[test]
    fn reasons_are_counted_and_bounded() {
        let mut tally = ImportTally::default();
        tally.add_carried(ReportedKind::Pings, 5);
        tally.add_changed(ReportedKind::Pings, 2);
        tally.add_dropped(ReportedKind::Pings, 1, "old");
        tally.add_dropped(ReportedKind::Pings, 2, "old");
        tally.add_dropped(ReportedKind::Pings, 0, "never");
        let count = &tally.0[&ReportedKind::Pings];
        assert_eq!(
            (count.source, count.carried, count.changed, count.dropped),
            (8, 5, 2, 3)
        );
        assert_eq!(
            count.notes,
            [ReportedNote {
                count: Some(3),
                text: "old".into()
            }]
        );
        for name in 0..100 {
            tally.add_note(ReportedKind::Projects, None, format!("project {name}"));
        }
        let notes = &tally.0[&ReportedKind::Projects].notes;
        assert_eq!(notes.len(), MAX_LISTED + 1);
        assert_eq!(
            notes.last(),
            Some(&ReportedNote {
                count: Some(80),
                text: "more, not listed here".into()
            })
        );
    }
}

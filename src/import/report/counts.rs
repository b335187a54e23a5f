//! Numbers of objects by kind and result, with notes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{MAX_LISTED, group_thousands};

/// Kinds of objects, in the order of the report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::import) enum ReportedKind {
    Projects,
    Users,
    Checks,
    Pings,
    Bodies,
    Flips,
    ApiKeys,
    PingKeys,
    Channels,
    Windows,
    Badges,
}

impl ReportedKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Projects => "projects",
            Self::Users => "users",
            Self::Checks => "checks",
            Self::Pings => "pings",
            Self::Bodies => "  bodies",
            Self::Flips => "flips",
            Self::ApiKeys => "API keys",
            Self::PingKeys => "ping keys",
            Self::Channels => "channels",
            Self::Windows => "windows",
            Self::Badges => "badges",
        }
    }
}

/// Number of objects of one kind, by result.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct ReportedCount {
    pub(super) source: u64,
    pub(super) carried: u64,
    pub(super) changed: u64,
    pub(super) dropped: u64,
    pub(super) notes: Vec<ReportedNote>,
}

impl ReportedCount {
    pub(super) fn note_texts(&self) -> Vec<String> {
        let text = |note: &ReportedNote| match note.count {
            Some(count) => format!("{} {}", group_thousands(count), note.text),
            None => note.text.clone(),
        };
        self.notes.iter().map(text).collect()
    }
}

/// A note about objects of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct ReportedNote {
    /// Number of objects; `None` for the single object that the text names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    pub(super) text: String,
}

/// Counts objects by result.
#[derive(Default)]
pub(in crate::import) struct ImportTally(pub(super) BTreeMap<ReportedKind, ReportedCount>);

impl ImportTally {
    fn count_mut(&mut self, kind: ReportedKind) -> &mut ReportedCount {
        self.0.entry(kind).or_default()
    }

    /// Counts objects that are imported unchanged.
    pub(in crate::import) fn add_carried(&mut self, kind: ReportedKind, count: u64) {
        let counts = self.count_mut(kind);
        counts.source += count;
        counts.carried += count;
    }

    /// Counts objects that are imported with changes. They are also counted as carried.
    pub(in crate::import) fn add_changed(&mut self, kind: ReportedKind, count: u64) {
        self.count_mut(kind).changed += count;
    }

    /// Counts objects that are not imported.
    pub(in crate::import) fn add_dropped(
        &mut self,
        kind: ReportedKind,
        count: u64,
        reason: impl Into<String>,
    ) {
        let counts = self.count_mut(kind);
        counts.source += count;
        counts.dropped += count;
        self.add_note(kind, Some(count), reason);
    }

    /// Adds a note about a number of objects, or about a single one that the text names.
    pub(in crate::import) fn add_note(
        &mut self,
        kind: ReportedKind,
        count: Option<u64>,
        text: impl Into<String>,
    ) {
        let text = text.into();
        let notes = &mut self.count_mut(kind).notes;
        let is_full = notes.len() >= MAX_LISTED;
        match notes.iter_mut().find(|note| note.text == text) {
            _ if count == Some(0) => {}
            Some(note) => note.count = note.count.zip(count).map(|(old, new)| old + new),
            None if !is_full => notes.push(ReportedNote { count, text }),
            None => match notes.get_mut(MAX_LISTED) {
                None => notes.push(ReportedNote {
                    count: Some(1),
                    text: "more, not listed here".into(),
                }),
                Some(rest) => rest.count = rest.count.map(|rest| rest + 1),
            },
        }
    }
}

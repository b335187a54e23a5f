//! Which of the rows of failed digests may be the reason.

use std::collections::BTreeSet;

use crate::domain::ids::{CheckId, DeliveryNumber};

/// The rows among which the reason lies why messages about several checks failed.
pub(super) enum Suspects {
    /// No such message failed since one was taken.
    Unknown,
    /// Those that all failed messages have in common.
    Rows {
        /// The rows.
        rows: BTreeSet<DeliveryNumber>,
        /// Whether others of the failed message were taken since: it is not the channel that fails.
        is_partly_delivered: bool,
    },
    /// Failed messages have nothing in common: the channel fails.
    None,
}

impl Suspects {
    /// A message with these rows failed.
    pub(super) fn narrow(&mut self, failed: &BTreeSet<DeliveryNumber>) {
        let (common, partly_taken): (BTreeSet<_>, _) = match self {
            Self::Unknown => (failed.clone(), false),
            Self::Rows { rows, is_partly_delivered: partly_taken } => (rows.intersection(failed).copied().collect(), *partly_taken),
            Self::None => return,
        };
        *self = if common.is_empty() { Self::None } else { Self::Rows { rows: common, is_partly_delivered: partly_taken } };
    }

    /// These rows were taken.
    pub(super) fn clear(&mut self, taken: &BTreeSet<DeliveryNumber>) {
        if let Self::Rows { rows, is_partly_delivered: partly_taken } = self {
            let before = rows.len();
            rows.retain(|row| !taken.contains(row));
            *partly_taken |= rows.len() < before;
        }
        if !matches!(self, Self::Rows { rows, .. } if !rows.is_empty()) {
            *self = Self::Unknown;
        }
    }

    pub(super) fn contains(&self, row: DeliveryNumber) -> bool {
        matches!(self, Self::Rows { rows, .. } if rows.contains(&row))
    }

    /// Whether this row is the reason if it fails by itself.
    pub(super) fn is_reason(&self, row: DeliveryNumber) -> bool {
        matches!(self, Self::Rows { rows, is_partly_delivered: true } if rows.contains(&row))
    }

    /// Whether there are any.
    pub(super) fn has_rows(&self) -> bool {
        matches!(self, Self::Rows { .. })
    }

    /// Whether no message about several checks failed since one was taken.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// What explains all failures since a message was last taken. Once it is clear that nothing does, the channel fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureCause {
    /// Nothing has failed.
    NoFailure,
    /// Messages about this check.
    Check(CheckId),
    /// A row among the suspects.
    Digest,
    /// Nothing less than the channel.
    Channel,
}

impl FailureCause {
    /// A message about one check failed, which may have been one of the suspects.
    pub(super) fn add_check(&mut self, check: CheckId, was_suspect: bool) {
        *self = match *self {
            Self::NoFailure => Self::Check(check),
            Self::Check(known) if known == check => *self,
            Self::Digest if was_suspect => Self::Check(check),
            _ => Self::Channel,
        };
    }

    /// A message about several checks failed; `has_suspects`: all of them that failed have rows in common.
    pub(super) fn add_digest(&mut self, has_suspects: bool) {
        *self = match *self {
            Self::NoFailure | Self::Digest if has_suspects => Self::Digest,
            _ => Self::Channel,
        };
    }

    /// Whether others may be taken nevertheless.
    pub(super) fn allows_others(self) -> bool {
        matches!(self, Self::Check(_) | Self::Digest)
    }
}

//! Suspects: the rows of failed digests that may be the cause.

use std::collections::BTreeSet;

use crate::domain::ids::{CheckId, DeliveryNumber};

/// Rows that may be the cause of failed messages about several checks.
pub(super) enum Suspects {
    /// No such message has failed since the last success.
    Unknown,
    /// Rows that all failed messages have in common.
    Rows {
        rows: BTreeSet<DeliveryNumber>,
        /// True if other rows of the failed message have been accepted since, so the channel
        /// works.
        is_partly_delivered: bool,
    },
    /// Failed messages have no row in common: the channel fails.
    None,
}

impl Suspects {
    /// Records that a message with these rows failed.
    pub(super) fn narrow(&mut self, failed: &BTreeSet<DeliveryNumber>) {
        let (common, is_partly_delivered): (BTreeSet<_>, _) = match self {
            Self::Unknown => (failed.clone(), false),
            Self::Rows {
                rows,
                is_partly_delivered,
            } => (
                rows.intersection(failed).copied().collect(),
                *is_partly_delivered,
            ),
            Self::None => return,
        };
        *self = if common.is_empty() {
            Self::None
        } else {
            Self::Rows {
                rows: common,
                is_partly_delivered,
            }
        };
    }

    /// Records that these rows were accepted.
    pub(super) fn clear(&mut self, delivered: &BTreeSet<DeliveryNumber>) {
        if let Self::Rows {
            rows,
            is_partly_delivered,
        } = self
        {
            let before = rows.len();
            rows.retain(|row| !delivered.contains(row));
            *is_partly_delivered |= rows.len() < before;
        }
        if !matches!(self, Self::Rows { rows, .. } if !rows.is_empty()) {
            *self = Self::Unknown;
        }
    }

    pub(super) fn contains(&self, row: DeliveryNumber) -> bool {
        matches!(self, Self::Rows { rows, .. } if rows.contains(&row))
    }

    /// True if a failure of this row alone proves that it is the cause.
    pub(super) fn is_proven_cause(&self, row: DeliveryNumber) -> bool {
        matches!(self, Self::Rows { rows, is_partly_delivered: true } if rows.contains(&row))
    }

    /// True if there are suspects.
    pub(super) fn has_rows(&self) -> bool {
        matches!(self, Self::Rows { .. })
    }

    /// True if no message about several checks has failed since the last success.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// Cause of all failures since the last success. If no message explains them, the channel fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureCause {
    /// No failures.
    NoFailure,
    /// Messages about this check.
    Check(CheckId),
    /// One of the suspects.
    Digest,
    /// The channel itself.
    Channel,
}

impl FailureCause {
    /// Records the failure of a message about one check, which may have been a suspect.
    pub(super) fn add_check(&mut self, check: CheckId, was_suspect: bool) {
        *self = match *self {
            Self::NoFailure => Self::Check(check),
            Self::Check(known) if known == check => *self,
            Self::Digest if was_suspect => Self::Check(check),
            _ => Self::Channel,
        };
    }

    /// Records the failure of a message about several checks. `has_suspects`: all such failed
    /// messages have rows in common.
    pub(super) fn add_digest(&mut self, has_suspects: bool) {
        *self = match *self {
            Self::NoFailure | Self::Digest if has_suspects => Self::Digest,
            _ => Self::Channel,
        };
    }

    /// True if other messages may be accepted nevertheless.
    pub(super) fn allows_others(self) -> bool {
        matches!(self, Self::Check(_) | Self::Digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_digest_explains_only_failures_of_digests_with_rows_in_common() {
        let check = FailureCause::Check(CheckId(1));
        for (before, has_suspects, expected) in [
            (FailureCause::NoFailure, true, FailureCause::Digest),
            (FailureCause::NoFailure, false, FailureCause::Channel),
            (FailureCause::Digest, true, FailureCause::Digest),
            (FailureCause::Digest, false, FailureCause::Channel),
            (check, true, FailureCause::Channel),
            (FailureCause::Channel, true, FailureCause::Channel),
        ] {
            let mut cause = before;
            cause.add_digest(has_suspects);
            assert!(cause == expected);
        }
    }
}

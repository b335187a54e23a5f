//! Dependencies between checks: if a router is down, no check that depends on it reports, and one
//! alert is enough.

use std::collections::BTreeSet;
use std::fmt;

use super::ids::CheckId;

/// Checks that a check depends on: at most [`Parents::MAX_PARENTS`], each once. See
/// [limits](crate::docs::limits).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parents(Box<[CheckId]>);

impl Parents {
    /// Maximum number of parents of a check.
    pub const MAX_PARENTS: usize = 8;
    /// Maximum number of levels of parents above a check.
    pub const MAX_LEVELS: usize = 32;
    /// Maximum number of checks above a check, including parents of parents.
    pub const MAX_ANCESTORS: usize = 1000;

    /// Creates a set of parents; duplicates count once.
    ///
    /// # Errors
    /// If there are more than [`Self::MAX_PARENTS`].
    pub fn new(mut ids: Vec<CheckId>) -> Result<Self, ParentsError> {
        ids.sort_unstable();
        ids.dedup();
        if ids.len() > Self::MAX_PARENTS {
            Err(ParentsError::TooMany)
        } else {
            Ok(Self(ids.into()))
        }
    }

    /// Ids of the parents, oldest first.
    pub fn ids(&self) -> &[CheckId] {
        &self.0
    }

    /// Returns the number of checks above a check with these parents. `parents_of` returns the
    /// parents of any check of the same project.
    ///
    /// # Errors
    /// If a parent does not exist, if the check would depend on itself, or if there are too many
    /// levels or checks above it.
    pub fn validate_for<'a>(
        &self,
        check: CheckId,
        parents_of: impl Fn(CheckId) -> Option<&'a Self>,
    ) -> Result<usize, ParentsError> {
        if self.0.iter().any(|id| parents_of(*id).is_none()) {
            return Err(ParentsError::NotFound);
        }
        let mut above = BTreeSet::new();
        let mut level = self.0.to_vec();
        for _ in 0..=Self::MAX_LEVELS {
            level.retain(|id| above.insert(*id));
            if above.contains(&check) {
                return Err(ParentsError::Cycle);
            }
            if above.len() > Self::MAX_ANCESTORS {
                break;
            }
            if level.is_empty() {
                return Ok(above.len());
            }
            level = level
                .iter()
                .filter_map(|id| parents_of(*id))
                .flat_map(Self::ids)
                .copied()
                .collect();
        }
        Err(ParentsError::TooDeep)
    }

    /// Keeps only the parents for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(CheckId) -> bool) {
        if !self.0.iter().all(|id| keep(*id)) {
            self.0 = self.0.iter().copied().filter(|id| keep(*id)).collect();
        }
    }
}

/// Reason for which a check cannot have these parents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParentsError {
    /// More than [`Parents::MAX_PARENTS`].
    TooMany,
    /// A parent is not a check of the same project.
    NotFound,
    /// The check would depend on itself.
    Cycle,
    /// Too many levels or checks are above it, or above a check that depends on it.
    TooDeep,
    /// Too many checks depend on it to count the checks above each.
    TooManyDependents,
}

impl fmt::Display for ParentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "a check has at most {} parents", Parents::MAX_PARENTS),
            Self::NotFound => f.write_str("a parent is not a check of the same project"),
            Self::Cycle => f.write_str("the check would be a parent of itself"),
            Self::TooDeep => write!(
                f,
                "a check may have at most {} levels of parents above it, with at most {} checks, \
                 and so may each check that depends on it",
                Parents::MAX_LEVELS,
                Parents::MAX_ANCESTORS
            ),
            Self::TooManyDependents => f.write_str("too many checks depend on this check"),
        }
    }
}

impl std::error::Error for ParentsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_with_exactly_as_many_checks_above_it_as_allowed_is_valid() {
        // Eight parents with eight parents each, and so on; the last ones have fewer.
        for (above, expected) in [(1_000, Ok(1_000)), (1_001, Err(ParentsError::TooDeep))] {
            let parents = |id: u64| {
                let of = (8 * id + 1..=8 * id + 8).filter(|id| *id <= above);
                Parents::new(of.map(CheckId).collect()).unwrap()
            };
            let all: Vec<_> = (0..=above).map(parents).collect();
            let found = all[0].validate_for(CheckId(0), |id| all.get(usize::try_from(id.0).ok()?));
            assert_eq!(found, expected);
        }
    }
}

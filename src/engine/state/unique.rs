//! Index of the checks of a project by the values of some fields, so that the cost of a request
//! with `unique` does not depend on their number.
//!
//! Requests of one client list the same fields. The index for a list of fields is built at its
//! first use.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use crate::domain::check::{Check, CheckSettings};
use crate::domain::check_edit::field_value::CheckFieldValue;
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::ids::CheckId;

/// Indexes of a project: one for each list of fields that was requested, at most 31 since there are
/// five fields. An index takes about 25 bytes for each check.
#[derive(Clone, Debug, Default)]
pub(super) struct UniqueIndexes {
    indexes: BTreeMap<Box<[UniqueField]>, UniqueIndex>,
    /// Withstands values that were chosen to collide.
    hasher: RandomState,
}

/// Hashes of the values of the fields, by check.
type UniqueIndex = BTreeSet<(u64, CheckId)>;

impl UniqueIndexes {
    /// Checks that may equal the request in all of `fields`, oldest first. The caller must compare
    /// them, since different values may have the same hash. `checks` are all checks of the project.
    pub(super) fn candidates<'a>(
        &mut self,
        edit: &CheckEdit,
        fields: &[UniqueField],
        checks: impl Iterator<Item = &'a Check>,
    ) -> impl Iterator<Item = CheckId> {
        let values: Option<Vec<_>> = fields
            .iter()
            .map(|field| field.row().edited_value(edit))
            .collect();
        let range = values.map(|values| {
            let hash = hash(&self.hasher, values.into_iter());
            (hash, CheckId(0))..=(hash, CheckId(u64::MAX))
        });
        let found = range.map(|range| self.index_for(fields, checks).range(range));
        found.into_iter().flatten().map(|(_, id)| *id)
    }

    fn index_for<'a>(
        &mut self,
        fields: &[UniqueField],
        checks: impl Iterator<Item = &'a Check>,
    ) -> &UniqueIndex {
        let Self { indexes, hasher } = self;
        let build = || {
            checks
                .map(|check| (hash_of(hasher, fields, &check.settings), check.id))
                .collect()
        };
        indexes.entry(fields.into()).or_insert_with(build)
    }

    /// Updates the indexes. `old` is `None` if the check is new, `new` is `None` if it is deleted.
    pub(super) fn update(
        &mut self,
        id: CheckId,
        old: Option<&CheckSettings>,
        new: Option<&CheckSettings>,
    ) {
        for (fields, checks) in &mut self.indexes {
            let [old, new] = [old, new].map(|settings| {
                settings.map(|settings| (hash_of(&self.hasher, fields, settings), id))
            });
            if old != new {
                old.map(|old| checks.remove(&old));
                new.map(|new| checks.insert(new));
            }
        }
    }
}

fn hash_of(hasher: &RandomState, fields: &[UniqueField], settings: &CheckSettings) -> u64 {
    hash(
        hasher,
        fields
            .iter()
            .filter_map(|field| field.row().value(settings)),
    )
}

fn hash<'a>(hasher: &RandomState, values: impl Iterator<Item = CheckFieldValue<'a>>) -> u64 {
    let mut hasher = hasher.build_hasher();
    values.for_each(|value| value.hash(&mut hasher));
    hasher.finish()
}

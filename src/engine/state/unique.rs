//! The checks of a project by the values of some of their fields, so that a request with `unique` costs the same whatever their number.
//!
//! Requests of one client list the same fields. An index of the checks by these is made when it is first asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use crate::domain::check::{Check, CheckSettings};
use crate::domain::check_edit::{CheckEdit, UniqueField, UniqueValue};
use crate::domain::ids::CheckId;

/// The indexes of a project: one for each list of fields that was asked for, at most 31 since there are five fields. An index takes about
/// 25 bytes a check.
#[derive(Clone, Debug, Default)]
pub(super) struct UniqueIndexes {
    indexes: BTreeMap<Box<[UniqueField]>, UniqueIndex>,
    /// Withstands values that were chosen to collide.
    hasher: RandomState,
}

/// The hash of the values that each check has in the fields.
type UniqueIndex = BTreeSet<(u64, CheckId)>;

impl UniqueIndexes {
    /// The checks that may equal the request on all of `fields`, oldest first; to be compared, since different values may have the same
    /// hash. `checks` are all of the project.
    pub(super) fn candidates<'a>(
        &mut self,
        edit: &CheckEdit,
        fields: &[UniqueField],
        checks: impl Iterator<Item = &'a Check>,
    ) -> impl Iterator<Item = CheckId> {
        let values: Option<Vec<_>> = fields.iter().map(|field| edit.unique_value(*field)).collect();
        let range = values.map(|values| {
            let hash = hash(&self.hasher, values.into_iter());
            (hash, CheckId(0))..=(hash, CheckId(u64::MAX))
        });
        let found = range.map(|range| self.index_for(fields, checks).range(range));
        found.into_iter().flatten().map(|(_, id)| *id)
    }

    fn index_for<'a>(&mut self, fields: &[UniqueField], checks: impl Iterator<Item = &'a Check>) -> &UniqueIndex {
        let Self { indexes, hasher } = self;
        let made = || checks.map(|check| (hash_of(hasher, fields, &check.settings), check.id)).collect();
        indexes.entry(fields.into()).or_insert_with(made)
    }

    /// Keeps the indexes true when a check gets other settings, is new (`old` is `None`) or goes (`new` is `None`).
    pub(super) fn update(&mut self, id: CheckId, old: Option<&CheckSettings>, new: Option<&CheckSettings>) {
        for (fields, checks) in &mut self.indexes {
            let [old, new] = [old, new].map(|settings| settings.map(|settings| (hash_of(&self.hasher, fields, settings), id)));
            if old != new {
                old.map(|old| checks.remove(&old));
                new.map(|new| checks.insert(new));
            }
        }
    }
}

fn hash_of(hasher: &RandomState, fields: &[UniqueField], settings: &CheckSettings) -> u64 {
    hash(hasher, fields.iter().map(|field| settings.unique_value(*field)))
}

fn hash<'a>(hasher: &RandomState, values: impl Iterator<Item = UniqueValue<'a>>) -> u64 {
    let mut hasher = hasher.build_hasher();
    values.for_each(|value| value.hash(&mut hasher));
    hasher.finish()
}

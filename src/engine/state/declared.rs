//! What files own: the objects of each source by number, whatever they are, since all numbers come from one sequence.

use std::collections::BTreeMap;

use crate::domain::declared::ConfigSource;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct DeclaredObjects(BTreeMap<u64, ConfigSource>);

impl DeclaredObjects {
    /// Who owns an object.
    pub fn source(&self, id: u64) -> Option<&ConfigSource> {
        self.0.get(&id)
    }

    /// The numbers of what a source owns.
    pub fn ids_of(&self, source: &ConfigSource) -> impl Iterator<Item = u64> {
        self.0.iter().filter(move |(_, owner)| *owner == source).map(|(id, _)| *id)
    }

    pub(super) fn put(&mut self, id: u64, source: Option<&ConfigSource>) {
        match source {
            Some(source) => drop(self.0.insert(id, source.clone())),
            None => drop(self.0.remove(&id)),
        }
    }
}

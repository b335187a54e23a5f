//! Objects that declared configuration manages: the objects of each source by number. One index
//! serves all kinds, since all numbers come from one sequence.

use std::collections::BTreeMap;

use crate::domain::declared::ConfigSource;

/// Objects that declared configuration manages, by number.
#[derive(Clone, Debug, Default)]
pub struct ManagedObjects(BTreeMap<u64, ConfigSource>);

impl ManagedObjects {
    /// Source that manages an object.
    pub fn source(&self, id: u64) -> Option<&ConfigSource> {
        self.0.get(&id)
    }

    /// Numbers of the objects that a source manages.
    pub fn ids_of(&self, source: &ConfigSource) -> impl Iterator<Item = u64> {
        self.0
            .iter()
            .filter(move |(_, manager)| *manager == source)
            .map(|(id, _)| *id)
    }

    pub(super) fn put(&mut self, id: u64, source: Option<&ConfigSource>) {
        match source {
            Some(source) => drop(self.0.insert(id, source.clone())),
            None => drop(self.0.remove(&id)),
        }
    }
}

//! Prunes the delivery log by age, and by number so that each project keeps its share.

use std::collections::{BTreeMap, BTreeSet};

use super::HousekeepingSlice;
use crate::domain::alert::DeliveryRecord;
use crate::domain::ids::{DeliveryNumber, ProjectId};
use crate::domain::timestamp::Timestamp;
use crate::engine::state::State;
use crate::store::{Batch, StoreError};

/// Number of prunings while as many deliveries are appended as the limit allows.
const PRUNINGS_PER_LIMIT: u64 = 50;

/// Progress of the pruning.
#[derive(Default)]
pub(super) struct DeliveryPruning {
    /// True if a round is due.
    due: bool,
    /// Number of deliveries appended since the last round.
    appended: u64,
    /// Index of the deliveries in the file. `None` until the log is first too long, and after a
    /// failure.
    index: Option<DeliveryIndex>,
}

/// Deliveries in the file by project. If the project is unknown, a delivery counts for project 0.
#[derive(Default)]
struct DeliveryIndex {
    projects: BTreeMap<ProjectId, BTreeSet<DeliveryNumber>>,
    len: usize,
}

impl DeliveryPruning {
    /// Requests a round.
    pub(super) fn request(&mut self) {
        self.due = true;
    }

    /// True if a round is due.
    pub(super) fn is_pending(&self) -> bool {
        self.due
    }

    /// Counts deliveries that a batch appends. `limit` is the limit of the log.
    pub(super) fn count_appended(
        &mut self,
        deliveries: &[DeliveryRecord],
        state: &State,
        limit: u64,
    ) {
        self.appended += deliveries.len() as u64;
        self.due |= self.appended >= limit / PRUNINGS_PER_LIMIT;
        if let Some(index) = &mut self.index {
            deliveries
                .iter()
                .for_each(|delivery| index.insert(delivery, state));
        }
    }

    /// Removes a slice of the deliveries that were finished before `before`, or that exceed the
    /// limit. Returns `false` if there was nothing to remove.
    pub(super) fn run_slice(
        &mut self,
        slice: &HousekeepingSlice<'_>,
        before: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        if !self.due {
            return Ok(false);
        }
        let max_deliveries = slice.limits.max_deliveries;
        // At least the number that was appended.
        let limit = slice
            .limits
            .slice_rows
            .max(usize::try_from(self.appended).unwrap_or(usize::MAX));
        let mut removed = slice.batch.deliveries_finished_before(
            before.unwrap_or(Timestamp::from_micros(i64::MIN)),
            limit,
        )?;
        let surplus = usize::try_from(slice.batch.delivery_count()?.saturating_sub(max_deliveries))
            .unwrap_or(usize::MAX);
        if let Some(index) = &mut self.index {
            removed.iter().for_each(|number| index.remove(*number));
        }
        if surplus > removed.len() && removed.len() < limit {
            let mut index = match self.index.take() {
                Some(index) => index,
                None => DeliveryIndex::read(slice.batch, slice.state, &removed)?,
            };
            removed.extend(index.take_oldest(surplus.min(limit) - removed.len(), slice.state));
            self.index = Some(index);
        }
        slice.batch.remove_deliveries(&removed)?;
        (self.due, self.appended) = (removed.len() >= limit, 0);
        Ok(!removed.is_empty())
    }
}

/// Project of the channel of a delivery, or else of its check.
fn project_of(delivery: &DeliveryRecord, state: &State) -> ProjectId {
    let of_check = || state.check(delivery.check).map(|check| check.project);
    state
        .channel(delivery.channel)
        .map(|channel| channel.project)
        .or_else(of_check)
        .unwrap_or(ProjectId(0))
}

impl DeliveryIndex {
    /// Reads the whole log, except for deliveries that are about to be removed.
    fn read(batch: &Batch, state: &State, removed: &[DeliveryNumber]) -> Result<Self, StoreError> {
        let mut index = Self::default();
        batch.for_each_delivery(|number, delivery| {
            let project = delivery.map_or(ProjectId(0), |delivery| project_of(&delivery, state));
            index.len += usize::from(index.projects.entry(project).or_default().insert(number));
        })?;
        removed.iter().for_each(|number| index.remove(*number));
        Ok(index)
    }

    fn insert(&mut self, delivery: &DeliveryRecord, state: &State) {
        let project = project_of(delivery, state);
        self.len += usize::from(
            self.projects
                .entry(project)
                .or_default()
                .insert(delivery.number),
        );
    }

    fn remove(&mut self, number: DeliveryNumber) {
        // Removal by age takes the oldest of all projects.
        let is_found = self
            .projects
            .values_mut()
            .any(|numbers| numbers.first() == Some(&number) && numbers.pop_first().is_some())
            || self
                .projects
                .values_mut()
                .any(|numbers| numbers.remove(&number));
        self.len -= usize::from(is_found);
    }

    /// Takes `count` deliveries out of the index: each time the oldest of the project with the
    /// most.
    fn take_oldest(&mut self, count: usize, state: &State) -> Vec<DeliveryNumber> {
        // Deleted projects have one share together.
        let deleted: Vec<_> = self
            .projects
            .keys()
            .copied()
            .filter(|id| *id != ProjectId(0) && state.project(*id).is_none())
            .collect();
        for id in deleted {
            let numbers = self.projects.remove(&id).unwrap_or_default();
            self.projects
                .entry(ProjectId(0))
                .or_default()
                .extend(numbers);
        }
        let mut by_len: BTreeSet<(usize, ProjectId)> = self
            .projects
            .iter()
            .map(|(id, numbers)| (numbers.len(), *id))
            .collect();
        let mut taken = Vec::with_capacity(count.min(self.len));
        while taken.len() < count
            && let Some((len, id)) = by_len.pop_last()
            && let Some(oldest) = self.projects.get_mut(&id).and_then(BTreeSet::pop_first)
        {
            taken.push(oldest);
            self.len -= 1;
            by_len.insert((len - 1, id));
        }
        self.projects.retain(|_, numbers| !numbers.is_empty());
        taken
    }
}

#[cfg(test)]
mod tests;

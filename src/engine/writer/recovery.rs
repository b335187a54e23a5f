//! What the writer does when the database fails: after a failed write the file is written and opened again, after a failed read memory
//! is taken back to what the file holds, and a file that is not there any more takes no pings.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::super::apply::Numbers;
use super::super::housekeeping::Standing;
use super::{Memory, Writer};
use crate::domain::ids::Arrival;
use crate::store::{Progress, Store, StoreError, caught};

/// How long the writer waits before it tries again to reopen a database that failed.
const PAUSE: Duration = Duration::from_millis(250);
/// How long after the last attempt memory is read anew, or the database opened anew, because of a page that cannot be read.
const DAMAGE_PAUSE: Duration = Duration::from_secs(1);
/// How often the file is looked for at its path, at the least.
const LOOK: Duration = Duration::from_millis(500);
/// How long housekeeping rests after it has met a page that cannot be read.
const REST: Duration = Duration::from_secs(10);

/// What has failed, and what is known of the database that was open.
pub(super) struct Recovery {
    progress: Progress,
    trouble: Trouble,
    /// What had failed when the file was found to be lost, if anything had.
    before_lost: Option<Trouble>,
    /// A database that failed, out of reach for new readers, until the last one gives it back.
    failed: Option<Arc<Store>>,
    /// What was written since the last sync may be lost: the file has to be written again.
    rewrite: bool,
    /// The disk was full and nothing was dead: the file grows into what the disk has left.
    sparse: bool,
    /// The library panicked while it wrote: closing the database leaves it to be repaired, which reads every page.
    leaks: bool,
    /// What has been acknowledged: no database with less is opened.
    acknowledged: Numbers,
    /// The last words about an attempt that failed, which are not repeated.
    told: String,
    /// Uptimes: of the last look at the file, of the last attempt after damage, and of the end of the rest of housekeeping.
    looked: Option<Duration>,
    attempted: Option<Duration>,
    rests_until: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    /// The database refuses everything until it is opened anew.
    Failed,
    /// A page that is needed for writing cannot be read.
    Damaged,
    /// The path does not lead to the file that was opened.
    Lost,
}

impl Recovery {
    pub(super) fn new(progress: Progress, acknowledged: Numbers) -> Self {
        Self {
            progress,
            trouble: Trouble::Failed,
            before_lost: None,
            failed: None,
            rewrite: false,
            sparse: false,
            leaks: false,
            acknowledged,
            told: String::new(),
            looked: None,
            attempted: None,
            rests_until: Duration::ZERO,
        }
    }

    /// A batch of so many commands could not be written.
    pub(super) fn batch_failed(&mut self, count: usize, error: &StoreError) {
        self.trouble = if matches!(error, StoreError::Damaged { .. }) { Trouble::Damaged } else { Trouble::Failed };
        self.note_leak(error);
        self.tell(format!("a batch of commands could not be written: {error}"));
        tracing::debug!("{count} commands are refused");
    }

    fn note_leak(&mut self, error: &StoreError) {
        self.leaks |= matches!(error, StoreError::Damaged { panicked: true, .. });
    }

    /// Everything up to these numbers has been acknowledged.
    pub(super) fn acknowledged(&mut self, numbers: Numbers) {
        self.acknowledged = numbers;
    }

    pub(super) fn pause(&self) -> Duration {
        if self.trouble == Trouble::Failed { PAUSE } else { DAMAGE_PAUSE }
    }

    /// Logs what has not just been logged.
    fn tell(&mut self, words: String) {
        if self.told != words {
            tracing::error!("{words}");
            self.told = words;
        }
    }

    /// Whether an attempt after damage is due at this uptime.
    fn attempt(&mut self, uptime: Duration) -> bool {
        let due = self.attempted.is_none_or(|attempted| uptime >= attempted + DAMAGE_PAUSE);
        if due {
            self.attempted = Some(uptime);
        }
        due
    }
}

impl Writer {
    /// Whether there is housekeeping that does not wait for pings, nor rests.
    pub(super) fn has_housekeeping(&self) -> bool {
        self.memory.housekeeping.pending() && !self.housekeeping_rests()
    }

    /// Whether housekeeping has met what cannot be read, and waits before it goes on.
    pub(super) fn housekeeping_rests(&self) -> bool {
        self.shared.clock.uptime() < self.recovery.rests_until
    }

    /// Lets housekeeping go on behind what cannot be read, after a while.
    pub(super) fn go_round(&mut self, before: Standing, error: &StoreError) -> Result<(), StoreError> {
        self.recovery.tell(format!("housekeeping goes round rows that cannot be read, which stay in the file: {error}"));
        self.recovery.note_leak(error);
        self.recovery.rests_until = self.shared.clock.uptime() + REST;
        if self.memory.housekeeping.go_round_upload() {
            self.memory.housekeeping.begin_again(self.thresholds, before, before.from);
            return Ok(());
        }
        let store = self.shared.store.get()?;
        let skip = self.thresholds.slice as u64;
        let beyond = Arrival(before.from.0.saturating_add(skip).min(before.done.arrival.0));
        let from = caught(|| store.snapshot()?.readable_from(before.from, before.done.arrival))?;
        self.memory.housekeeping.begin_again(self.thresholds, before, from.max(beyond));
        Ok(())
    }

    /// Looks whether the path still leads to the file that was opened. Whoever pings must not be told that it is on disk when the file
    /// is about to vanish.
    pub(super) fn find_file(&mut self) {
        let uptime = self.shared.clock.uptime();
        let Self { shared, recovery, .. } = self;
        if recovery.trouble == Trouble::Lost && !shared.writable.load(Ordering::Relaxed)
            || recovery.looked.is_some_and(|looked| uptime < looked + LOOK)
        {
            return;
        }
        recovery.looked = Some(uptime);
        let Ok(Err(words)) = shared.store.get().map(|store| store.find(&self.medium)) else { return };
        // What has failed before is still to be mended when the file is back: memory may be ahead of it.
        recovery.before_lost = (!shared.writable.load(Ordering::Relaxed)).then_some(recovery.trouble);
        recovery.trouble = Trouble::Lost;
        shared.writable.store(false, Ordering::Relaxed);
        recovery.tell(format!("NO PINGS ARE TAKEN: {words}. Put it back, or stop this server, restore the file from a backup, and start"));
    }

    /// Opens the database anew once a page can be read that could not, unless somebody is reading at this moment.
    pub(super) fn reopen_healed(&mut self) {
        let healed = &self.shared.healed;
        if self.recovery.leaks || !healed.load(Ordering::Relaxed) || !self.recovery.attempt(self.shared.clock.uptime()) {
            return;
        }
        let Some(store) = self.shared.store.borrow() else { return };
        healed.store(false, Ordering::Relaxed);
        let reopened = self.close_store(store).and_then(|()| self.open_store());
        if let Err(error) = &reopened {
            self.recovery.tell(format!("the database cannot be opened anew: {error}"));
            self.recovery.trouble = Trouble::Failed;
            self.shared.writable.store(false, Ordering::Relaxed);
        } else {
            tracing::info!("what could not be read can be: the database was opened anew");
        }
        self.shared.store.put(reopened.ok());
    }

    /// Mends what has failed, as far as it can be now.
    pub(super) fn recover(&mut self) {
        let mended = match self.recovery.trouble {
            Trouble::Failed => self.open_anew(),
            Trouble::Damaged => self.take_back(),
            Trouble::Lost => self.find_again(),
        };
        match mended {
            Ok(true) => {
                self.recovery.told.clear();
                self.recovery.trouble = Trouble::Failed;
                self.shared.writable.store(true, Ordering::Relaxed);
                tracing::info!("the database takes pings again");
            }
            Ok(false) => {}
            Err(error) => self.recovery.tell(format!("the database takes no pings yet: {error}")),
        }
    }

    /// Once the medium takes writes again, the database is dropped and opened, and memory is read anew. `false`: not yet.
    fn open_anew(&mut self) -> Result<bool, StoreError> {
        // On a full disk nothing is taken before something dead has gone, which needs no more space than the file has.
        if !self.is_full {
            self.medium.probe()?;
        }
        // From here on there are no new readers. The others give the file back within a request; until they have, it stays locked.
        let failed = self.recovery.failed.take().or_else(|| self.shared.store.take_failed());
        if let Some(failed) = failed {
            match Arc::try_unwrap(failed) {
                Ok(store) => self.close_store(store)?,
                Err(failed) => {
                    self.recovery.failed = Some(failed);
                    return Ok(false);
                }
            }
        }
        if self.recovery.rewrite {
            Store::rewrite(&self.medium, &self.recovery.progress)?;
            self.recovery.rewrite = false;
        }
        let store = self.open_store()?;
        self.read_memory(&store)?;
        if self.recovery.sparse {
            store.grow_sparsely();
        }
        self.shared.store.put(Some(store));
        if self.is_full {
            self.make_room()?;
        }
        Ok(true)
    }

    /// Removes what is dead, in the smallest steps: the space that one frees is what the next one needs.
    fn make_room(&mut self) -> Result<(), StoreError> {
        let mut removed = 0;
        self.memory.housekeeping.go_in_small_steps();
        let done = self.remove_dead(&mut removed);
        self.memory.housekeeping.go_in_steps(self.thresholds);
        if removed > 0 {
            tracing::info!("the disk is full: {removed} dead pings and pieces of bodies were removed to make room");
        }
        self.recovery.sparse = removed == 0;
        if self.recovery.sparse {
            self.shared.store.get()?.grow_sparsely();
        }
        // Whoever has got on will get on further. Otherwise the disk has to have space first.
        self.is_full = done.is_err() && removed > 0;
        done
    }

    /// The database can be read, except for what is damaged. Memory is read anew, since it is ahead of the file.
    fn take_back(&mut self) -> Result<bool, StoreError> {
        if !self.recovery.attempt(self.shared.clock.uptime()) {
            return Ok(false);
        }
        let store = self.shared.store.get()?;
        if store.write_failed() {
            self.recovery.trouble = Trouble::Failed;
            return Ok(false);
        }
        self.read_memory(&store)?;
        Ok(true)
    }

    /// Looks whether the file was put back. What it holds is what was open all the while; what had failed before is mended next.
    fn find_again(&mut self) -> Result<bool, StoreError> {
        let store = self.shared.store.get()?;
        if store.find(&self.medium).is_err() {
            return Ok(false);
        }
        let Some(trouble) = self.recovery.before_lost.take() else { return Ok(true) };
        self.recovery.trouble = trouble;
        Ok(false)
    }

    /// Reads memory from the file, which has to be the same database and to hold all that was acknowledged.
    fn read_memory(&mut self, store: &Store) -> Result<(), StoreError> {
        let (now, body_limit) = (self.stamp(), self.memory.working.body_limit);
        let (mut memory, published, _) = Memory::read(store, body_limit, self.thresholds, now, &self.shared.random)?;
        memory.working.is_served = self.memory.working.is_served;
        let (found, known) = (memory.working.numbers, self.recovery.acknowledged);
        let same = memory.working.state.instance == self.memory.working.state.instance;
        if !same || found.arrival < known.arrival || found.id < known.id || found.delivery < known.delivery {
            let reason = if same { "it holds less than was acknowledged" } else { "it is not the database that was open" };
            return Err(self.medium.broken(StoreError::Damaged { reason: reason.into(), panicked: false }));
        }
        memory.last_stamp = now;
        *self.shared.published.write().unwrap_or_else(PoisonError::into_inner) = published;
        self.memory = memory;
        self.shared.feed.note_everything();
        Ok(())
    }

    fn open_store(&self) -> Result<Store, StoreError> {
        let store = Store::open_telling(&self.medium, &self.recovery.progress)?;
        store.tolerate_unreadable();
        Ok(store)
    }

    fn close_store(&mut self, store: Store) -> Result<(), StoreError> {
        self.recovery.rewrite |= store.is_unsure();
        self.recovery.leaks = false;
        caught(move || {
            drop(store);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;

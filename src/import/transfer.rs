//! Transfer of an import to a server: logs first, then objects, then the commit.

use std::collections::HashMap;
use std::ops::ControlFlow;

use uuid::Uuid;

use super::{ImportLogEntry, flip_order, numbering};
use crate::domain::ids::CheckId;
use crate::domain::import_contents::{ImportContents, ImportedFlip, ImportedPing};
use crate::domain::import_item::{
    ImportId, ImportItem, ImportItemCounts, ImportMode, NumberedFlip, NumberedPing,
};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::engine::apply::{MAX_IMPORT_BODY_BYTES, MAX_IMPORT_ENTRIES};
use crate::engine::command::import::{ImportFinishOptions, LocalChanges};
use crate::util::random::Random;

/// Approximate bytes of pings that are buffered to be sorted before they are sent: see
/// [limits](crate::docs::limits).
const PING_BUFFER_BYTES: usize = 12 << 20;
/// Approximate bytes of a ping without its body.
const PING_OVERHEAD_BYTES: usize = 192;
/// Maximum number of pings in one step. It is low, because many steps follow each other at once,
/// and the pings of others wait for each.
const PINGS_PER_STEP: usize = 64;
/// Maximum bytes of bodies in one step, unless one body is longer.
const BODY_BYTES_PER_STEP: usize = 256 << 10;
/// Maximum bytes of objects in one step: in JSON each may take six, and a request has 2 MiB.
const OBJECT_BYTES_PER_STEP: usize = 256 << 10;
/// Maximum number of objects in one step.
const MAX_OBJECTS_PER_STEP: usize = 500;

/// Server that takes the steps of an import.
pub trait ImportTarget {
    /// Error of a step.
    type Error;

    /// Begins an import with these numbers of objects and of checks.
    ///
    /// # Errors
    /// If the server refuses it or does not answer. The same holds for the other steps.
    fn begin(&mut self, object_count: u64, check_count: u64) -> Result<ImportId, Self::Error>;

    /// Adds log entries. A ping with a body above [`MAX_IMPORT_BODY_BYTES`] comes alone.
    fn add_log_entries(
        &mut self,
        import: ImportId,
        pings: Vec<NumberedPing>,
        flips: Vec<NumberedFlip>,
    ) -> Result<(), Self::Error>;

    /// Adds objects.
    fn add_items(&mut self, import: ImportId, items: Vec<ImportItem>) -> Result<(), Self::Error>;

    /// Dry run of [`finish`](Self::finish); the import stays open.
    fn dry_run(
        &mut self,
        import: ImportId,
        options: ImportFinishOptions,
    ) -> Result<(usize, LocalChanges), Self::Error>;

    /// Publishes everything. Returns the number of projects that it replaced, and the local changes
    /// in these that are lost. It can be tried again.
    fn finish(
        &mut self,
        import: ImportId,
        options: ImportFinishOptions,
    ) -> Result<(usize, LocalChanges), Self::Error>;

    /// Discards the import. If this fails, the server discards it later.
    fn abandon(&mut self, import: ImportId);
}

/// An import that is being sent. It is abandoned if it does not complete.
pub struct ImportTransfer<T: ImportTarget> {
    target: T,
    import: ImportId,
    now: Timestamp,
    random: Random,
    /// Numbers of the checks.
    checks: HashMap<Uuid, CheckId>,
    /// Pings to send, and their approximate size in bytes.
    pings: Vec<NumberedPing>,
    buffered_bytes: usize,
    /// Flips in order.
    next_flips: Vec<NumberedFlip>,
    /// Flips with their numbers in the source, to be sorted: the flips of a check are sent in
    /// order.
    flips: Vec<(CheckId, i64, ImportedFlip)>,
    counts: ImportItemCounts,
    /// Latest time in the source.
    newest: Option<Timestamp>,
    /// Secrets of old servers, with which hashed keys are verified.
    secrets: Vec<LegacySecret>,
    /// Key that signed badge URLs on the source.
    badge_secret: Option<BadgeSecret>,
    /// Reason why sending has stopped.
    failure: Option<T::Error>,
    is_finished: bool,
}

impl<T: ImportTarget> ImportTransfer<T> {
    /// Begins an import of these contents.
    ///
    /// # Errors
    /// If the target refuses it.
    pub fn begin(
        mut target: T,
        imported: &ImportContents,
        now: Timestamp,
        random: Random,
    ) -> Result<Self, T::Error> {
        let check_count = imported
            .projects
            .iter()
            .map(|project| project.checks.len() as u64)
            .sum();
        let import = target.begin(numbering::count_ids(imported), check_count)?;
        Ok(Self {
            target,
            import,
            now,
            random,
            checks: numbering::check_ids(imported, import.0),
            pings: Vec::new(),
            buffered_bytes: 0,
            next_flips: Vec::new(),
            flips: Vec::new(),
            counts: ImportItemCounts::default(),
            newest: None,
            secrets: Vec::new(),
            badge_secret: None,
            failure: None,
            is_finished: false,
        })
    }

    /// Adds a log entry. After a break, [`send_objects`](Self::send_objects) returns the reason.
    pub fn add_log_entry(&mut self, entry: ImportLogEntry) -> ControlFlow<()> {
        let result = match entry {
            ImportLogEntry::Ping(ping) => self.add_ping(ping),
            ImportLogEntry::OrderedFlip(flip) => self.add_next_flip(flip),
            ImportLogEntry::Flip(flip, number) => {
                let numbered_flip = self
                    .checks
                    .get(&flip.check)
                    .map(|check| (*check, number, flip));
                self.flips.extend(numbered_flip);
                Ok(())
            }
        };
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn add_next_flip(
        &mut self,
        ImportedFlip { check, flip }: ImportedFlip,
    ) -> Result<(), T::Error> {
        let Some(check) = self.checks.get(&check).copied() else {
            return Ok(());
        };
        self.counts.flips += 1;
        self.next_flips.push(NumberedFlip { check, flip });
        if self.next_flips.len() < MAX_IMPORT_ENTRIES {
            Ok(())
        } else {
            self.send_next_flips()
        }
    }

    fn send_next_flips(&mut self) -> Result<(), T::Error> {
        let flips = std::mem::take(&mut self.next_flips);
        if flips.is_empty() {
            Ok(())
        } else {
            self.target.add_log_entries(self.import, Vec::new(), flips)
        }
    }

    fn add_ping(&mut self, ping: ImportedPing) -> Result<(), T::Error> {
        let Some(check) = self.checks.get(&ping.check).copied() else {
            return Ok(());
        };
        self.counts.pings += 1;
        let ping = ping.with_check(check);
        if ping.body.len() > MAX_IMPORT_BODY_BYTES {
            return self.send_step(vec![ping]);
        }
        self.buffered_bytes += PING_OVERHEAD_BYTES + ping.body.len();
        self.pings.push(ping);
        if self.buffered_bytes >= PING_BUFFER_BYTES {
            self.send_pings()
        } else {
            Ok(())
        }
    }

    /// Sends the pings of each check together. They are adjacent in the database, so a step changes
    /// few pages of it.
    fn send_pings(&mut self) -> Result<(), T::Error> {
        let mut pings = std::mem::take(&mut self.pings);
        self.buffered_bytes = 0;
        pings.sort_unstable_by_key(|ping| (ping.check, ping.n));
        let mut step = Vec::new();
        let mut bytes = 0;
        for ping in pings {
            if step.len() >= PINGS_PER_STEP
                || bytes > 0 && bytes + ping.body.len() > BODY_BYTES_PER_STEP
            {
                self.send_step(std::mem::take(&mut step))?;
                bytes = 0;
            }
            bytes += ping.body.len();
            step.push(ping);
        }
        if step.is_empty() {
            Ok(())
        } else {
            self.send_step(step)
        }
    }

    fn send_step(&mut self, pings: Vec<NumberedPing>) -> Result<(), T::Error> {
        self.target.add_log_entries(self.import, pings, Vec::new())
    }

    fn send_flips(&mut self) -> Result<(), T::Error> {
        let mut flips = std::mem::take(&mut self.flips);
        flip_order::sort_flips(&mut flips, self.now);
        self.counts.flips += flips.len() as u64;
        for flips in flips.chunks(MAX_IMPORT_ENTRIES) {
            let flips = flips.iter().map(|(check, .., flip)| NumberedFlip {
                check: *check,
                flip: flip.flip,
            });
            self.target
                .add_log_entries(self.import, Vec::new(), flips.collect())?;
        }
        Ok(())
    }

    /// Sends everything except the logs, which are sent already.
    ///
    /// # Errors
    /// If the target refuses a step, or has refused an entry of the logs.
    pub fn send_objects(&mut self, mut imported: ImportContents) -> Result<(), T::Error> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.send_pings()?;
        self.send_next_flips()?;
        self.send_flips()?;
        self.newest = imported.newest;
        self.secrets = std::mem::take(&mut imported.secrets);
        self.badge_secret = imported.badge_secret;
        let mut step = Vec::new();
        let mut bytes = 0;
        for item in numbering::number_items(imported, self.import.0, &self.random) {
            self.counts.count(&item);
            bytes += item.approximate_bytes();
            step.push(item);
            if bytes >= OBJECT_BYTES_PER_STEP || step.len() >= MAX_OBJECTS_PER_STEP {
                self.target
                    .add_items(self.import, std::mem::take(&mut step))?;
                bytes = 0;
            }
        }
        if step.is_empty() {
            Ok(())
        } else {
            self.target.add_items(self.import, step)
        }
    }

    fn finish_options(&self, is_live: bool, replaces_changed: bool) -> ImportFinishOptions {
        ImportFinishOptions {
            mode: if is_live {
                ImportMode::Live {
                    newest: self.newest,
                }
            } else {
                ImportMode::Trial
            },
            legacy_secrets: self.secrets.clone(),
            badge_secret: self.badge_secret,
            expected_counts: self.counts,
            replace: replaces_changed,
        }
    }

    /// Dry run of [`finish`](Self::finish); the import stays open. Returns the number of projects
    /// that it would replace, and the local changes in these that would be lost.
    ///
    /// # Errors
    /// If the target refuses the import.
    pub fn dry_run(&mut self, is_live: bool) -> Result<(usize, LocalChanges), T::Error> {
        let options = self.finish_options(is_live, true);
        self.target.dry_run(self.import, options)
    }

    /// Makes everything visible. Returns the number of projects that it replaced, and the changes
    /// in these that are lost. `is_live`: alerts are sent from now on. `replaces_changed`: projects
    /// whose checks were pinged or changed here are replaced, too.
    ///
    /// # Errors
    /// If the target refuses the import. It can be tried again.
    pub fn finish(
        &mut self,
        is_live: bool,
        replaces_changed: bool,
    ) -> Result<(usize, LocalChanges), T::Error> {
        let options = self.finish_options(is_live, replaces_changed);
        let finished = self.target.finish(self.import, options)?;
        self.is_finished = true;
        Ok(finished)
    }

    /// Target of the import.
    pub fn target(&mut self) -> &mut T {
        &mut self.target
    }
}

impl<T: ImportTarget> Drop for ImportTransfer<T> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.target.abandon(self.import);
        }
    }
}

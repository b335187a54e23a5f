//! Faults of one of the two files while the other one works: reads, writes, changes of length and
//! syncs fail for a while, with errors of a broken disk or of a full one.
//!
//! - A server whose journal alone cannot be written refuses at most one batch. It then accepts
//!   commands again, although the journal still fails: the database is synced for each batch.
//! - A server whose database fails refuses commands until it can be written again. So does one that
//!   needs its journal to reopen the database, and cannot read it.
//! - A start with a file that fails is refused, or finds everything that was acknowledged.
//! - A stop with a file that fails loses nothing.

use super::verify::{RestartSnapshot, same};
use super::world::{SimulatedWorld, WorldResult};
use crate::support::disk::{DiskOperation, FailingOperations, FileOnDisk, operations_before_fault};

/// Time after which the engine syncs a database that is behind its journal.
const SYNC_INTERVAL_SECS: i64 = 301;

/// Files whose operations a simulation lets fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FaultScope {
    /// Both files at once.
    WholeDisk,
    /// One of the two files at a time.
    SingleFile,
}

impl SimulatedWorld {
    fn random_failure(&self) -> FailingOperations {
        let operation = self.rng.pick(&DiskOperation::ALL);
        FailingOperations {
            operation,
            file: Some(self.rng.pick(&[FileOnDisk::Database, FileOnDisk::Journal])),
            is_disk_full: operation != DiskOperation::Read && self.rng.chance(40),
        }
    }

    /// Lets operations of a file fail during some batches, a stop or a recovery, and repairs it
    /// after a while.
    pub(super) fn fail_file_for_a_while(&mut self) -> WorldResult {
        if self.rng.chance(15) {
            return self.stop_with_failing_file();
        }
        let failing = self.random_failure();
        let after = operations_before_fault(&self.rng, 24);
        self.disk.fail_operations_after(failing, after);
        for _ in 0..2 + self.rng.below(3) {
            let batch = self.random_batch();
            if self.submit_batch(&batch)? {
                self.model = batch.model_after;
                self.track_flips(false)?;
            } else {
                self.tally.failures += 1;
                self.in_doubt = self.outcomes_in_doubt(batch);
            }
            if !self.engine().0.is_writable() {
                break;
            }
            if failing.file == Some(FileOnDisk::Database) {
                // The database is synced in the next step.
                self.clock.advance_secs(SYNC_INTERVAL_SECS);
                self.record_time();
            }
        }
        if self.engine().0.is_writable() {
            self.disk.heal();
            return self.reopen_after_read_failure();
        }
        let is_journal_unwritable =
            failing.file == Some(FileOnDisk::Journal) && failing.operation != DiskOperation::Read;
        if is_journal_unwritable {
            self.tally.journal_failures += 1;
            self.use_database_alone()?;
        } else {
            self.step_while_failing()?;
        }
        if self.rng.chance(30) {
            return self.restart_after_power_cut();
        }
        self.disk.heal();
        self.watch_writer();
        self.recover()?;
        self.forget_imports();
        self.resolve_doubt(false)
    }

    /// Runs batches while the journal cannot be written. They must succeed.
    fn use_database_alone(&mut self) -> WorldResult {
        self.recover()
            .map_err(|difference| format!("while only the journal fails: {difference}"))?;
        self.forget_imports();
        self.resolve_doubt(false)?;
        for _ in 0..self.rng.below(4) {
            if self.move_clock() {
                self.resolve_doubt(false)?;
            }
            let batch = self.random_batch();
            self.execute(batch)?;
        }
        Ok(())
    }

    /// Runs steps that may not succeed. The failure may change to another one meanwhile.
    fn step_while_failing(&mut self) -> WorldResult {
        for _ in 0..self.rng.below(4) {
            if self.rng.chance(40) {
                let failing = self.random_failure();
                let after = operations_before_fault(&self.rng, 8);
                self.disk.fail_operations_after(failing, after);
            }
            self.watch_writer();
            if !self.engine().0.is_writable() {
                self.tally.refused_steps += 1;
                same!(
                    self.engine().1.step(false),
                    Ok(true),
                    "a step while a file fails"
                );
            }
        }
        Ok(())
    }

    /// Stops the engine while a file fails, repairs the file and starts the engine again, sometimes
    /// after a power cut.
    fn stop_with_failing_file(&mut self) -> WorldResult {
        let failing = self.random_failure();
        let after = operations_before_fault(&self.rng, 24);
        self.disk.fail_operations_after(failing, after);
        let kept = self.stop_in_order()?;
        if self.rng.chance(50) {
            self.disk.power_off();
            self.disk.power_on(&self.rng);
        }
        self.disk.heal();
        self.open()?;
        let mut found = RestartSnapshot::of(&self.engine().0);
        // An outage that the stop could not record is recorded by the start.
        found.forget_later_outages(&kept);
        same!(found, kept, "state after a stop with a failing file");
        self.resolve_doubt(true)
    }

    /// Starts the engine while a file fails. Returns false if that was refused.
    pub(super) fn start_with_failing_file(&mut self) -> bool {
        let failing = self.random_failure();
        let after = self.rng.below(16) as u32;
        self.disk.fail_operations_after(failing, after);
        let opened = self.open();
        self.disk.heal();
        if opened.is_err() {
            self.tally.refused_starts += 1;
        }
        opened.is_ok()
    }
}

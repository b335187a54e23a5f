//! What a batch of commands comes to, applied in memory and written in one transaction.

use super::{Memory, Writer};
use crate::domain::ping::long_bytes;
use crate::engine::apply::{Effects, Numbers};
use crate::engine::command::{Answer, Command};
use crate::engine::state::Change;
use crate::store::{Batch, Mark, StoreError, caught};

impl Writer {
    /// Applies commands and writes what they come to; the answers to those of callers.
    pub(super) fn apply_and_write(&mut self, own: Vec<Command>, commands: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let numbers = self.memory.working.numbers;
        for command in own {
            let now = self.stamp();
            // The writer's own commands are never refused.
            let _ = self.memory.working.apply(command, now);
        }
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            let now = self.stamp();
            answers.push(Ok(self.memory.working.apply(command, now)));
        }
        if self.memory.working.effects.is_empty() && !self.has_housekeeping() && !self.presence.is_due(self.shared.clock.uptime(), false) {
            // Refusals, and deadlines that pings have put off, cost no commit.
            return Ok(answers);
        }
        let tidy = !self.housekeeping_rests();
        let before = self.memory.housekeeping.standing();
        match self.write(numbers, tidy) {
            // What is damaged may lie only where old rows are, which keep nobody from adding new ones.
            Err(error @ StoreError::Damaged { .. }) if tidy => {
                self.go_round(before, &error)?;
                self.write(numbers, false)?;
            }
            written => written?,
        }
        Ok(answers)
    }

    /// Writes what commands have come to, and does a slice of housekeeping if it is to `tidy`.
    fn write(&mut self, before: Numbers, tidy: bool) -> Result<(), StoreError> {
        let (store, newest, stamp) = (self.shared.store.get()?, self.newest(), self.stamp());
        let uptime = self.shared.clock.uptime();
        let now = self.steps.is_confirmed().then_some(stamp);
        let steady_since = (!self.steady_is_written).then(|| self.steps.steady_since());
        let (presence, Memory { working, housekeeping, .. }) = (&self.presence, &mut self.memory);
        let (written, alive) = caught(|| {
            let batch = store.batch()?;
            write(&batch, &working.effects)?;
            let Numbers { id, delivery, .. } = working.numbers;
            for (mark, number, before) in [(Mark::NextId, id, before.id), (Mark::NextDelivery, delivery, before.delivery)] {
                if number != before {
                    batch.set_mark(mark, number)?;
                }
            }
            let bytes = working.effects.pings.iter().map(|(.., body)| long_bytes(body.len() as u64)).sum();
            let appended = (working.effects.pings.len() as u64, bytes);
            housekeeping.appended(appended);
            housekeeping.delivered(working.effects.deliveries.len() as u64);
            let cleaned = tidy && housekeeping.slice(&batch, &working.state, appended, newest, now)?;
            // A look that finds nothing to write costs no commit.
            let alive = presence.is_due(uptime, cleaned || !working.effects.is_empty());
            let written = cleaned || alive || !working.effects.is_empty();
            if written {
                if alive {
                    batch.set_mark(Mark::Alive, stamp.micros().max(0).unsigned_abs())?;
                }
                if let Some(since) = steady_since {
                    batch.set_mark(Mark::SteadySince, since.micros().max(0).unsigned_abs())?;
                }
                batch.commit()?;
            }
            Ok((written, alive))
        })?;
        self.steady_is_written |= written;
        if alive {
            self.presence.told(uptime);
        }
        Ok(())
    }

    /// Brings every check row up to date at once.
    pub(super) fn checkpoint_whole(&self) -> Result<(), StoreError> {
        let (store, now) = (self.shared.store.get()?, self.shared.clock.now());
        let Memory { working, housekeeping, .. } = &self.memory;
        caught(|| {
            let batch = store.batch()?;
            housekeeping.checkpoint_whole(&batch, &working.state, self.newest())?;
            if self.presence.takes_pings() {
                batch.set_mark(Mark::Alive, now.micros().max(0).unsigned_abs())?;
            }
            batch.commit()
        })
    }
}

/// Writes what a batch of commands has come to.
fn write(batch: &Batch, effects: &Effects) -> Result<(), StoreError> {
    if !effects.pings.is_empty() {
        batch.append_pings(&effects.pings)?;
    }
    if !effects.flips.is_empty() {
        batch.append_flips(&effects.flips)?;
    }
    if !effects.deliveries.is_empty() {
        batch.append_deliveries(&effects.deliveries)?;
    }
    for change in &effects.changes {
        match change {
            Change::Pinged { .. } => {}
            Change::Check(check) => drop(batch.put_checks([&**check])?),
            Change::CheckGone(id) => batch.remove_checks([*id])?,
            Change::Project(project) => batch.put_project(project)?,
            Change::ProjectGone(id) => batch.remove_project(*id)?,
            Change::Key(key) => batch.put_key(key)?,
            Change::KeyGone(id) => batch.remove_key(*id)?,
            Change::Channel(channel) => batch.put_channel(channel)?,
            Change::ChannelGone(id) => batch.remove_channel(*id)?,
            Change::Away(away) => batch.set_away(away)?,
            Change::Queued(row) => batch.put_waiting(row)?,
            Change::Unqueued(number) => batch.remove_waiting(*number)?,
            Change::BadgeSecret(secret) => batch.set_badge_secret(secret)?,
            Change::Instance(instance) => batch.set_instance(*instance)?,
        }
    }
    Ok(())
}

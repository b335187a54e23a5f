//! Applies a batch of commands in memory and writes it in one transaction.

use std::collections::BTreeMap;

use super::{BodyUpload, Writer, WriterMemory};
use crate::domain::ids::{CheckId, FlipNumber, ProjectId};
use crate::domain::timestamp::Timestamp;
use crate::engine::apply::{Effects, SequenceNumbers};
use crate::engine::command::{Command, CommandReply};
use crate::engine::state::{Change, ImportChange, UserChange};
use crate::store::{Batch, MetaKey, StoreError, catch_panic};

/// Replies to the applied commands, and the commands deferred to the next batch, each with its
/// index.
type AppliedBatch = (Vec<CommandReply>, Vec<(usize, Command)>);

impl Writer {
    /// Applies commands and writes their effects, and a chunk of an upload. Returns the replies to
    /// callers, and the deferred commands with their indexes: their projects have used up their
    /// share of this batch.
    pub(super) fn apply_and_write(
        &mut self,
        own_commands: Vec<Command>,
        commands: Vec<Command>,
        mut body_upload: Option<&mut BodyUpload>,
    ) -> Result<AppliedBatch, StoreError> {
        debug_assert!(
            self.memory.working.effects.is_empty(),
            "an earlier batch was neither published nor discarded"
        );
        let numbers = self.memory.working.numbers;
        let count = own_commands.len() + commands.len();
        for command in own_commands {
            let now = self.next_timestamp();
            // The writer's own commands are never refused.
            let _ = self.memory.working.apply(command, now);
        }
        let (replies, deferred) = self.apply_within_row_limits(commands, body_upload.is_some());
        let has_effects = !self.memory.working.effects.is_empty() || body_upload.is_some();
        if !has_effects
            && !self.has_housekeeping()
            && !self
                .availability
                .is_store_due(self.shared.clock.uptime(), false)
        {
            // Refusals, and deadlines that pings have postponed, need no commit.
            return Ok((replies, deferred));
        }
        let runs_housekeeping = !self.is_housekeeping_paused();
        let before = self.memory.housekeeping.position();
        let started_at = self.shared.clock.uptime();
        match self.write_batch(numbers, body_upload.as_deref_mut(), runs_housekeeping) {
            // The damage may affect old rows only, so that new ones can still be added.
            Err(error @ StoreError::Damaged { .. }) if runs_housekeeping => {
                self.skip_damaged_range(before, &error)?;
                self.write_batch(numbers, body_upload, false)?;
            }
            written => written?,
        }
        if has_effects {
            self.shared
                .metrics
                .record_commit(count, self.shared.clock.uptime().saturating_sub(started_at));
        }
        let (pings, bytes) = self.memory.housekeeping.size();
        self.shared.metrics.set_stored_pings(pings, bytes);
        Ok((replies, deferred))
    }

    /// Applies commands of callers. Once the alerts of a project have taken their share of rows,
    /// its remaining commands are deferred in order, so that other projects do not wait for them.
    /// `keeps_last`: the last command belongs to the upload and is not deferred.
    fn apply_within_row_limits(
        &mut self,
        commands: Vec<Command>,
        keeps_last: bool,
    ) -> (Vec<CommandReply>, Vec<(usize, Command)>) {
        let mut replies = Vec::with_capacity(commands.len());
        let mut deferred = Vec::new();
        let mut rows = BTreeMap::<ProjectId, usize>::new();
        let row_limit = self.memory.working.max_alert_rows;
        let deferrable_count = commands.len() - usize::from(keeps_last && !commands.is_empty());
        for (index, command) in commands.into_iter().enumerate() {
            let project = if index < deferrable_count {
                self.memory.working.state.project_of(&command)
            } else {
                None
            };
            if project
                .and_then(|project| rows.get(&project))
                .is_some_and(|rows| *rows >= row_limit)
            {
                deferred.push((index, command));
                continue;
            }
            let before = self.memory.working.effects.alert_rows;
            let now = self.next_timestamp();
            replies.push(Ok(self.memory.working.apply(command, now)));
            let added_rows = self.memory.working.effects.alert_rows - before;
            if let Some(project) = project.filter(|_| added_rows > 0) {
                *rows.entry(project).or_default() += added_rows;
            }
        }
        (replies, deferred)
    }

    /// Writes the effects of commands, and runs a slice of housekeeping if `runs_housekeeping`.
    fn write_batch(
        &mut self,
        before: SequenceNumbers,
        body_upload: Option<&mut BodyUpload>,
        runs_housekeeping: bool,
    ) -> Result<(), StoreError> {
        let store = self.shared.store.get()?;
        let newest = self.log_end();
        let timestamp = self.next_timestamp();
        let uptime = self.shared.clock.uptime();
        let now = self.clock_jumps.is_confirmed().then_some(timestamp);
        let steady_since = (!self.is_steady_time_stored).then(|| self.clock_jumps.steady_since());
        let out_of_order = self
            .flips_out_of_order
            .max(self.memory.working.effects.flips_out_of_order);
        let availability = &self.availability;
        let activity = &self.shared.writer_activity;
        let WriterMemory {
            working,
            housekeeping,
            ..
        } = &mut self.memory;
        let (written, stores_availability, upload) = catch_panic(|| {
            let batch = store.batch()?;
            let upload = body_upload
                .as_ref()
                .map(|body_upload| body_upload.write_chunk(&batch))
                .transpose()?;
            write_effects(&batch, &working.effects, upload)?;
            write_next_numbers(&batch, working.numbers, before)?;
            let pings = &working.effects.pings;
            let has_effects = !working.effects.is_empty() || upload.is_some();
            housekeeping.count_appended((
                pings.len() as u64,
                pings
                    .iter()
                    .map(|(_, ping, _)| ping.excess_body_bytes())
                    .sum(),
            ));
            housekeeping.count_deliveries(&working.effects.deliveries, &working.state);
            let imported_pings = &working.effects.imported_pings;
            if !imported_pings.is_empty() {
                housekeeping.count_kept(&batch, batch.put_kept_pings(imported_pings, upload)?)?;
            }
            if let Some(has_leftovers) = import_leftovers(&working.effects.changes) {
                housekeeping.record_import_change(&batch, &working.state, has_leftovers)?;
            }
            let own_bytes: usize = pings
                .iter()
                .filter(|(_, ping, _)| ping.body_sharers == 0)
                .map(|(.., body)| body.len())
                .sum();
            let chunk_bytes = body_upload
                .as_ref()
                .map_or(0, |body_upload| body_upload.next_chunk().len());
            let appended = (pings.len() as u64, (own_bytes + chunk_bytes) as u64);
            let cleaned = runs_housekeeping
                && housekeeping.run_slice(&batch, &working.state, appended, upload, newest, now)?;
            // A slice that writes nothing needs no commit.
            let stores_availability = availability.is_store_due(uptime, cleaned || has_effects);
            let written = cleaned || stores_availability || has_effects;
            if written {
                if stores_availability {
                    set_meta_time(&batch, MetaKey::LastAvailable, timestamp)?;
                }
                if let Some(since) = steady_since {
                    set_meta_time(&batch, MetaKey::SteadySince, since)?;
                }
                if let Some(FlipNumber(number)) = out_of_order {
                    batch.set_meta_value(MetaKey::FlipsOutOfOrder, number)?;
                }
                activity.during_commit(|| batch.commit())?;
            }
            Ok((written, stores_availability, upload))
        })?;
        if let Some(body_upload) = body_upload {
            body_upload.number = upload;
        }
        self.is_steady_time_stored |= written;
        if written {
            self.flips_out_of_order = None;
        }
        if stores_availability {
            self.availability.record_stored(uptime);
        }
        Ok(())
    }

    /// Releases uploads that only unreadable rows referred to. Returns true if there are any.
    pub(super) fn recount_uploads(&self) -> Result<bool, StoreError> {
        let store = self.shared.store.get()?;
        catch_panic(|| {
            let batch = store.batch()?;
            let is_changed = batch.recount_uploads()?;
            if is_changed {
                batch.commit()?;
            }
            Ok(is_changed)
        })
    }

    /// Updates all check rows at once. The leader of a cluster leaves that to the next one: the
    /// record would be long.
    pub(super) fn write_full_checkpoint(&self) -> Result<(), StoreError> {
        let store = self.shared.store.get()?;
        let now = self.shared.clock.now();
        let WriterMemory {
            working,
            housekeeping,
            ..
        } = &self.memory;
        catch_panic(|| {
            let batch = store.synced_batch()?;
            if !self.is_leader {
                housekeeping.write_full_checkpoint(&batch, &working.state, self.log_end())?;
            }
            if self.availability.accepts_pings() {
                set_meta_time(&batch, MetaKey::LastAvailable, now)?;
            }
            batch.commit()
        })
    }
}

/// Stores the next numbers of objects and deliveries that differ from those `before` the batch.
fn write_next_numbers(
    batch: &Batch,
    numbers: SequenceNumbers,
    before: SequenceNumbers,
) -> Result<(), StoreError> {
    for (key, number, before) in [
        (MetaKey::NextId, numbers.id, before.id),
        (MetaKey::NextDelivery, numbers.delivery, before.delivery),
    ] {
        if number != before {
            batch.set_meta_value(key, number)?;
        }
    }
    Ok(())
}

fn set_meta_time(batch: &Batch, key: MetaKey, time: Timestamp) -> Result<(), StoreError> {
    batch.set_meta_value(key, time.micros().max(0).unsigned_abs())
}

/// True if an import that has ended left log entries in the file. `None` if no import has changed.
fn import_leftovers(changes: &[Change]) -> Option<bool> {
    let import_changes = changes.iter().filter_map(|change| match change {
        Change::Import(change, _) => Some(matches!(
            change,
            ImportChange::Ended {
                has_leftovers: true,
                ..
            }
        )),
        _ => None,
    });
    import_changes.reduce(|one, other| one || other)
}

/// Writes the effects of a batch of commands. The upload is the shared body of pings.
fn write_effects(batch: &Batch, effects: &Effects, upload: Option<u64>) -> Result<(), StoreError> {
    if !effects.pings.is_empty() {
        batch.append_pings(&effects.pings, upload)?;
    }
    if !effects.flips.is_empty() {
        batch.append_flips(&effects.flips)?;
    }
    if !effects.imported_flips.is_empty() {
        batch.append_flips(&effects.imported_flips)?;
    }
    if !effects.deliveries.is_empty() {
        batch.append_deliveries(&effects.deliveries)?;
    }
    let mut changes = effects.changes.iter().peekable();
    while let Some(change) = changes.next() {
        match change {
            // The log contains the changes made by pings. Open imports have no rows.
            Change::CheckState { .. } | Change::Import(..) => {}
            // An import has many in sequence.
            Change::Check(check) => {
                let more = std::iter::from_fn(|| {
                    match changes.next_if(|next| matches!(next, Change::Check(_))) {
                        Some(Change::Check(check)) => Some(&**check),
                        _ => None,
                    }
                });
                batch.put_checks(std::iter::once(&**check).chain(more))?;
            }
            Change::CheckDeleted(id) => {
                let more = std::iter::from_fn(|| {
                    match changes.next_if(|next| matches!(next, Change::CheckDeleted(_))) {
                        Some(Change::CheckDeleted(id)) => Some(*id),
                        _ => None,
                    }
                });
                let ids: Vec<_> = std::iter::once(*id).chain(more).collect();
                batch.remove_checks(ids.iter().copied())?;
                batch.remove_sources(ids.into_iter().map(|CheckId(id)| id))?;
            }
            Change::Project(project) => batch.put_project(project)?,
            Change::ProjectDeleted(id) => {
                batch.remove_project(*id)?;
                batch.remove_audit_log(*id)?;
            }
            Change::Audit(entry) => batch.put_audit_entry(entry)?,
            Change::Key(key) => batch.put_key(key)?,
            Change::KeyDeleted(id) => remove_with_source(batch, id.0, batch.remove_key(*id))?,
            Change::Channel(channel) => batch.put_channel(channel)?,
            Change::ChannelDeleted(id) => {
                remove_with_source(batch, id.0, batch.remove_channel(*id))?;
            }
            Change::Window(window) => batch.put_window(window)?,
            Change::WindowDeleted(_, id) => {
                remove_with_source(batch, id.0, batch.remove_window(*id))?;
            }
            Change::Source(id, source) => batch.put_source(*id, source.as_ref())?,
            Change::Outages(outages) => batch.set_outages(outages)?,
            // A flip has one for each channel.
            Change::OutboxRow(row) => {
                let more = std::iter::from_fn(|| {
                    match changes.next_if(|next| matches!(next, Change::OutboxRow(_))) {
                        Some(Change::OutboxRow(row)) => Some(&**row),
                        _ => None,
                    }
                });
                batch.put_outbox_rows(std::iter::once(&**row).chain(more))?;
            }
            Change::OutboxRowDeleted(number) => {
                let more = std::iter::from_fn(|| {
                    match changes.next_if(|next| matches!(next, Change::OutboxRowDeleted(_))) {
                        Some(Change::OutboxRowDeleted(number)) => Some(*number),
                        _ => None,
                    }
                });
                batch.remove_outbox_rows(std::iter::once(*number).chain(more))?;
            }
            Change::User(change) => write_user(batch, change)?,
            Change::LegacySecrets(secrets) => batch.set_legacy_secrets(secrets)?,
            Change::BadgeSecret(secret) => batch.set_badge_secret(secret)?,
            Change::Instance(instance) => batch.set_instance(*instance)?,
        }
    }
    Ok(())
}

/// Deleted objects have no source.
fn remove_with_source(
    batch: &Batch,
    id: u64,
    removed: Result<(), StoreError>,
) -> Result<(), StoreError> {
    removed.and_then(|()| batch.put_source(id, None))
}

fn write_user(batch: &Batch, change: &UserChange) -> Result<(), StoreError> {
    match change {
        UserChange::User(user) => batch.put_user(user),
        UserChange::UserDeleted(id) => remove_with_source(batch, id.0, batch.remove_user(*id)),
        UserChange::Session(session) => batch.put_session(session),
        UserChange::SessionDeleted(id) => batch.remove_session(*id),
        UserChange::Link(link) => batch.put_link(link),
        UserChange::LinkDeleted(id) => batch.remove_link(*id),
    }
}

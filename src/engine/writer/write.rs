//! What a batch of commands comes to, applied in memory and written in one transaction.

use std::collections::BTreeMap;

use super::{Ahead, Memory, Writer};
use crate::domain::ids::{CheckId, FlipNumber, ProjectId};
use crate::engine::apply::{Effects, Numbers};
use crate::engine::command::{Answer, Command};
use crate::engine::state::{Change, StagingChange, UserChange};
use crate::store::{Batch, Mark, StoreError, caught};

/// Answers of the commands that were applied, and the commands that are put off to the next batch, each with its place.
type Applied = (Vec<Answer>, Vec<(usize, Command)>);

impl Writer {
    /// Applies commands and writes what they come to, and a piece of a body that is written ahead; the answers to those of callers, and
    /// the commands that are put off to the next batch, each with its place: their projects have had their share of this one.
    pub(super) fn apply_and_write(
        &mut self,
        own: Vec<Command>,
        commands: Vec<Command>,
        mut ahead: Option<&mut Ahead>,
    ) -> Result<Applied, StoreError> {
        debug_assert!(self.memory.working.effects.is_empty(), "an earlier batch was neither published nor forgotten");
        let (numbers, count) = (self.memory.working.numbers, own.len() + commands.len());
        for command in own {
            let now = self.stamp();
            // The writer's own commands are never refused.
            let _ = self.memory.working.apply(command, now);
        }
        let (answers, put_off) = self.apply_in_shares(commands, ahead.is_some());
        let has_effects = !self.memory.working.effects.is_empty() || ahead.is_some();
        if !has_effects && !self.has_housekeeping() && !self.presence.is_due(self.shared.clock.uptime(), false) {
            // Refusals, and deadlines that pings have put off, cost no commit.
            return Ok((answers, put_off));
        }
        let tidy = !self.housekeeping_rests();
        let before = self.memory.housekeeping.standing();
        let begun = self.shared.clock.uptime();
        match self.write(numbers, ahead.as_deref_mut(), tidy) {
            // What is damaged may lie only where old rows are, which keep nobody from adding new ones.
            Err(error @ StoreError::Damaged { .. }) if tidy => {
                self.go_round(before, &error)?;
                self.write(numbers, ahead, false)?;
            }
            written => written?,
        }
        if has_effects {
            self.shared.metrics.committed(count, self.shared.clock.uptime().saturating_sub(begun));
        }
        let (pings, bytes) = self.memory.housekeeping.size();
        self.shared.metrics.holds(pings, bytes);
        Ok((answers, put_off))
    }

    /// Applies commands of callers. A project whose alerts have taken enough rows of the batch has the rest of its commands put off, in
    /// their order: others do not wait for all of them. `keeps_last`: the last command belongs to what is written ahead.
    fn apply_in_shares(&mut self, commands: Vec<Command>, keeps_last: bool) -> (Vec<Answer>, Vec<(usize, Command)>) {
        let (mut answers, mut put_off) = (Vec::with_capacity(commands.len()), Vec::new());
        let mut rows = BTreeMap::<ProjectId, usize>::new();
        let most = self.memory.working.most_alert_rows;
        let movable = commands.len() - usize::from(keeps_last && !commands.is_empty());
        for (place, command) in commands.into_iter().enumerate() {
            let project = if place < movable { self.memory.working.state.project_of(&command) } else { None };
            if project.and_then(|project| rows.get(&project)).is_some_and(|rows| *rows >= most) {
                put_off.push((place, command));
                continue;
            }
            let before = self.memory.working.effects.alert_rows;
            let now = self.stamp();
            answers.push(Ok(self.memory.working.apply(command, now)));
            let taken = self.memory.working.effects.alert_rows - before;
            if let Some(project) = project.filter(|_| taken > 0) {
                *rows.entry(project).or_default() += taken;
            }
        }
        (answers, put_off)
    }

    /// Writes what commands have come to, and does a slice of housekeeping if it is to `tidy`.
    fn write(&mut self, before: Numbers, ahead: Option<&mut Ahead>, tidy: bool) -> Result<(), StoreError> {
        let (store, newest, stamp) = (self.shared.store.get()?, self.newest(), self.stamp());
        let uptime = self.shared.clock.uptime();
        let now = self.steps.is_confirmed().then_some(stamp);
        let steady_since = (!self.steady_is_written).then(|| self.steps.steady_since());
        let out_of_order = self.flips_out_of_order.max(self.memory.working.effects.flips_out_of_order);
        let (presence, doing, Memory { working, housekeeping, .. }) = (&self.presence, &self.shared.doing, &mut self.memory);
        let (written, alive, upload) = caught(|| {
            let batch = store.batch()?;
            let upload = ahead.as_ref().map(|ahead| ahead.put(&batch)).transpose()?;
            write(&batch, &working.effects, upload)?;
            let Numbers { id, delivery, .. } = working.numbers;
            for (mark, number, before) in [(Mark::NextId, id, before.id), (Mark::NextDelivery, delivery, before.delivery)] {
                if number != before {
                    batch.set_mark(mark, number)?;
                }
            }
            let (pings, has_effects) = (&working.effects.pings, !working.effects.is_empty() || upload.is_some());
            housekeeping.appended((pings.len() as u64, pings.iter().map(|(_, ping, _)| ping.long_bytes()).sum()));
            housekeeping.delivered(&working.effects.deliveries, &working.state);
            let staged = &working.effects.staged_pings;
            if !staged.is_empty() {
                housekeeping.kept(&batch, batch.keep_pings(staged, upload)?)?;
            }
            if working.effects.changes.iter().any(|change| matches!(change, Change::Staging(..))) {
                let is_abandoned = |change: &Change| matches!(change, Change::Staging(StagingChange::Gone { leaves: true, .. }, _));
                housekeeping.staged(&batch, &working.state, working.effects.changes.iter().any(is_abandoned))?;
            }
            let own_bytes: usize = pings.iter().filter(|(_, ping, _)| ping.sharers == 0).map(|(.., body)| body.len()).sum();
            let bytes = own_bytes + ahead.as_ref().map_or(0, |ahead| ahead.next().len());
            let appended = (pings.len() as u64, bytes as u64);
            let cleaned = tidy && housekeeping.slice(&batch, &working.state, appended, upload, newest, now)?;
            // A look that finds nothing to write costs no commit.
            let alive = presence.is_due(uptime, cleaned || has_effects);
            let written = cleaned || alive || has_effects;
            if written {
                if alive {
                    batch.set_mark(Mark::Alive, stamp.micros().max(0).unsigned_abs())?;
                }
                if let Some(since) = steady_since {
                    batch.set_mark(Mark::SteadySince, since.micros().max(0).unsigned_abs())?;
                }
                if let Some(FlipNumber(number)) = out_of_order {
                    batch.set_mark(Mark::FlipsOutOfOrder, number)?;
                }
                doing.committing(|| batch.commit())?;
            }
            Ok((written, alive, upload))
        })?;
        if let Some(ahead) = ahead {
            ahead.number = upload;
        }
        self.steady_is_written |= written;
        if written {
            self.flips_out_of_order = None;
        }
        if alive {
            self.presence.told(uptime);
        }
        Ok(())
    }

    /// Has long bodies go that only rows had which could not be read any more; whether there are some.
    pub(super) fn recount_uploads(&self) -> Result<bool, StoreError> {
        let store = self.shared.store.get()?;
        caught(|| {
            let batch = store.batch()?;
            let news = batch.recount_uploads()?;
            if news {
                batch.commit()?;
            }
            Ok(news)
        })
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

/// Writes what a batch of commands has come to. The upload is the body of those pings that share one.
fn write(batch: &Batch, effects: &Effects, upload: Option<u64>) -> Result<(), StoreError> {
    if !effects.pings.is_empty() {
        batch.append_pings(&effects.pings, upload)?;
    }
    if !effects.flips.is_empty() {
        batch.append_flips(&effects.flips)?;
    }
    if !effects.staged_flips.is_empty() {
        batch.append_flips(&effects.staged_flips)?;
    }
    if !effects.deliveries.is_empty() {
        batch.append_deliveries(&effects.deliveries)?;
    }
    let mut changes = effects.changes.iter().peekable();
    while let Some(change) = changes.next() {
        match change {
            // The log says what pings have changed; of imports under way there are no rows.
            Change::Pinged { .. } | Change::Staging(..) => {}
            // An import has many in a row.
            Change::Check(check) => {
                let more = std::iter::from_fn(|| match changes.next_if(|next| matches!(next, Change::Check(_))) {
                    Some(Change::Check(check)) => Some(&**check),
                    _ => None,
                });
                batch.put_checks(std::iter::once(&**check).chain(more))?;
            }
            Change::CheckGone(id) => {
                let more = std::iter::from_fn(|| match changes.next_if(|next| matches!(next, Change::CheckGone(_))) {
                    Some(Change::CheckGone(id)) => Some(*id),
                    _ => None,
                });
                let ids: Vec<_> = std::iter::once(*id).chain(more).collect();
                batch.remove_checks(ids.iter().copied())?;
                batch.remove_managed(ids.into_iter().map(|CheckId(id)| id))?;
            }
            Change::Project(project) => batch.put_project(project)?,
            Change::ProjectGone(id) => batch.remove_project(*id)?,
            Change::Key(key) => batch.put_key(key)?,
            Change::KeyGone(id) => gone(batch, id.0, batch.remove_key(*id))?,
            Change::Channel(channel) => batch.put_channel(channel)?,
            Change::ChannelGone(id) => gone(batch, id.0, batch.remove_channel(*id))?,
            Change::Window(window) => batch.put_window(window)?,
            Change::WindowGone(_, id) => gone(batch, id.0, batch.remove_window(*id))?,
            Change::Managed(id, source) => batch.put_managed(*id, source.as_ref())?,
            Change::Away(away) => batch.set_away(away)?,
            // A flip has one for each channel.
            Change::Queued(row) => {
                let more = std::iter::from_fn(|| match changes.next_if(|next| matches!(next, Change::Queued(_))) {
                    Some(Change::Queued(row)) => Some(&**row),
                    _ => None,
                });
                batch.put_waiting(std::iter::once(&**row).chain(more))?;
            }
            Change::Unqueued(number) => {
                let more = std::iter::from_fn(|| match changes.next_if(|next| matches!(next, Change::Unqueued(_))) {
                    Some(Change::Unqueued(number)) => Some(*number),
                    _ => None,
                });
                batch.remove_waiting(std::iter::once(*number).chain(more))?;
            }
            Change::User(change) => write_user(batch, change)?,
            Change::Adopted(adopted) => batch.set_adopted(adopted)?,
            Change::BadgeSecret(secret) => batch.set_badge_secret(secret)?,
            Change::Instance(instance) => batch.set_instance(*instance)?,
        }
    }
    Ok(())
}

/// What is gone nobody owns.
fn gone(batch: &Batch, id: u64, removed: Result<(), StoreError>) -> Result<(), StoreError> {
    removed.and_then(|()| batch.put_managed(id, None))
}

fn write_user(batch: &Batch, change: &UserChange) -> Result<(), StoreError> {
    match change {
        UserChange::User(user) => batch.put_user(user),
        UserChange::UserGone(id) => gone(batch, id.0, batch.remove_user(*id)),
        UserChange::Session(session) => batch.put_session(session),
        UserChange::SessionGone(id) => batch.remove_session(*id),
        UserChange::Link(link) => batch.put_link(link),
        UserChange::LinkGone(id) => batch.remove_link(*id),
    }
}

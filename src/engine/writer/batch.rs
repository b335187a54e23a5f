//! Processes a batch: has it written, publishes its changes, replies to the callers and arms the
//! deadlines of its checks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Writer, WriterExit, WriterMemory};
use crate::domain::ids::CheckId;
use crate::domain::timestamp::Timestamp;
use crate::engine::apply::Effects;
use crate::engine::batch_messages;
use crate::engine::command::{Command, Unavailable};
use crate::engine::command_queue::QueuedCommand;
use crate::engine::state::Change;
use crate::util::sync::atomic::Ordering;
use crate::util::sync::write;

impl Writer {
    /// Processes the writer's own commands and then the commands of callers, in one transaction.
    pub(super) fn process_batch(
        &mut self,
        own_commands: Vec<Command>,
        entries: Vec<QueuedCommand>,
    ) -> Result<(), WriterExit> {
        let (mut commands, mut callers): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .map(|entry| (entry.command, (entry.route, entry.reply)))
            .unzip();
        let (mut body_upload, has_more_chunks) = self.join_upload(&mut commands, &mut callers);
        let count = callers.len();
        self.shared.writer_activity.set_batch_callers(callers);
        let work = catch_unwind(AssertUnwindSafe(|| {
            self.apply_and_write(own_commands, commands, body_upload.as_mut())
        }));
        let (results, deferred) = match work {
            Ok(Ok(applied)) => applied,
            Ok(Err(error)) => {
                self.is_disk_full = error.is_full();
                let met_unreadable = self.has_met_unreadable();
                self.recovery
                    .record_failed_batch(count, &error, met_unreadable);
                // Set before the replies: a caller that reads its reply must not find the service
                // healthy.
                self.shared.writable.store(false, Ordering::Relaxed);
                self.shared
                    .writer_activity
                    .refuse_batch_callers(Unavailable::StorageFailed);
                return Ok(());
            }
            Err(_) => {
                tracing::error!(
                    "a command caused a panic of the writer; its batch of {count} commands is not \
                    written"
                );
                self.shared.queue.close();
                self.shared.writable.store(false, Ordering::Relaxed);
                self.shared
                    .writer_activity
                    .refuse_batch_callers(Unavailable::StorageFailed);
                self.shared.queue.refuse_all(Unavailable::Stopping);
                return Err(WriterExit::Panicked);
            }
        };
        let feed = Arc::clone(&self.shared.feed);
        let publication = feed.begin_publication();
        let changes = self.publish();
        // Callers that waited too long have already got a reply.
        let mut callers = self.shared.writer_activity.take_batch_callers();
        if let Some(body_upload) = body_upload {
            let caller = if has_more_chunks { callers.pop() } else { None };
            self.continue_upload(body_upload, caller);
        }
        let mut results = results.into_iter();
        let mut deferred = deferred.into_iter().peekable();
        let mut deferred_entries = Vec::new();
        let replies = callers
            .into_iter()
            .enumerate()
            .filter_map(|(index, (route, reply))| {
                if let Some((_, command)) = deferred.next_if(|(deferred, _)| *deferred == index) {
                    deferred_entries.push(QueuedCommand {
                        command,
                        reply,
                        route,
                    });
                    return None;
                }
                results.next().map(|result| (route, (reply, result)))
            });
        self.shared.reply_routes.send(replies);
        self.shared.queue.put_back(deferred_entries);
        // Subscribers are notified after the replies to pings.
        feed.notify_subscribers(&changes, &self.memory.working.state);
        drop(publication);
        let mut to_arm = Vec::new();
        let mut deleted = Vec::new();
        changes.iter().for_each(|change| match change {
            Change::CheckState {
                id,
                is_due_earlier: true,
                ..
            } => to_arm.push(*id),
            Change::Check(check) => to_arm.push(check.id),
            Change::CheckDeleted(id) => deleted.push(*id),
            _ => {}
        });
        deleted
            .into_iter()
            .for_each(|id| self.memory.deadlines.disarm(id));
        self.arm_deadlines(to_arm);
        Ok(())
    }

    /// Publishes the batch that is on disk, and returns its changes.
    pub(super) fn publish(&mut self) -> Vec<Change> {
        let effects = std::mem::take(&mut self.memory.working.effects);
        batch_messages::count_batch(
            &self.shared.metrics,
            &self.memory.working.state,
            &effects,
            self.memory.last_timestamp,
        );
        let Effects {
            changes,
            flips,
            projects_at_check_limit,
            unnotified_checks,
            imported_projects,
            ..
        } = effects;
        self.recovery.set_acknowledged(self.memory.working.numbers);
        if !changes.is_empty() {
            // A batch without changes takes no lock.
            let mut published = write(&self.shared.published);
            changes.iter().for_each(|change| published.apply(change));
        }
        if changes.iter().any(|change| {
            matches!(
                change,
                Change::OutboxRow(_) | Change::OutboxRowDeleted(_) | Change::Channel(_)
            )
        }) {
            self.shared.channel_tests.work_available.notify_one();
        }
        batch_messages::write_flip_messages(
            &self.memory.working.state,
            &flips,
            self.memory.last_timestamp,
        );
        batch_messages::write_unnotified_messages(
            &self.memory.working.state,
            &unnotified_checks,
            self.memory.last_timestamp,
        );
        batch_messages::write_check_limit_messages(
            &self.memory.working.state,
            &projects_at_check_limit,
        );
        if self.memory.working.accepts_pings {
            batch_messages::write_import_message(&self.memory.working.state, &imported_projects);
        }
        changes
    }

    /// Arms the checks that are still to be evaluated, which are due at once.
    pub(super) fn arm_unevaluated_checks(&mut self, now: Timestamp) {
        let WriterMemory {
            working, deadlines, ..
        } = &mut self.memory;
        for id in std::mem::take(&mut working.unevaluated_checks) {
            if let Some(check) = working.state.check(id) {
                deadlines.arm_unevaluated(check, now);
            }
        }
    }

    /// Arms these checks for their deadlines.
    pub(super) fn arm_deadlines(&mut self, checks: Vec<CheckId>) {
        let WriterMemory {
            working, deadlines, ..
        } = &mut self.memory;
        checks
            .into_iter()
            .filter_map(|id| working.state.check(id))
            .for_each(|check| deadlines.arm(check));
        if deadlines.has_stale_entries() {
            deadlines.rebuild(working.state.checks());
        }
    }
}

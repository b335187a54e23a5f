//! Applies declared configuration: plans against the current state, then takes all steps or none.

use super::super::command::apply_config::{AppliedConfig, ApplyConfigRequest};
use super::super::command::user::UserChanges;
use super::super::command::{CommandError, CommandOutcome};
use super::super::config_plan::{ExistingObject, PlanStep, plan_config};
use super::super::state::Change;
use super::{ApplyResult, WorkingState};
use crate::domain::ids::UserId;
use crate::domain::timestamp::Timestamp;

impl WorkingState {
    pub(super) fn apply_config(
        &mut self,
        request: &ApplyConfigRequest,
        now: Timestamp,
    ) -> ApplyResult {
        let ApplyConfigRequest {
            config,
            options,
            uuids,
        } = request;
        let plan = plan_config(&self.state, config, *options, now, self.numbers.id, uuids)
            .map_err(CommandError::ConfigConflicts)?;
        if plan.uuid_count > uuids.len() {
            // An object was deleted after the UUIDs were generated.
            return Err(CommandError::Outdated);
        }
        self.numbers.id = plan.next_id;
        // Alerts that are due now go to the previous channels.
        for step in &plan.steps {
            match step {
                PlanStep::UpdateCheck(id, settings) => {
                    self.evaluate_before_change(*id, &settings.parents, now);
                }
                PlanStep::PauseCheck(id) | PlanStep::Delete(ExistingObject::Check(id)) => {
                    self.evaluate_if_due(*id, now);
                }
                _ => {}
            }
        }
        plan.steps
            .into_iter()
            .for_each(|step| self.execute_step(step, now));
        Ok(CommandOutcome::ConfigApplied(AppliedConfig {
            changes: plan.changes,
        }))
    }

    /// Executes a step. The plan guarantees that none is refused.
    fn execute_step(&mut self, step: PlanStep, now: Timestamp) {
        match step {
            PlanStep::PutProject(project) => drop(self.put_project(project)),
            PlanStep::PutChannel(channel) => drop(self.put_channel(channel)),
            PlanStep::CreateCheck {
                id,
                uuids,
                project,
                settings,
            } => drop(self.insert_check_with_id(id, project, uuids, *settings, now)),
            PlanStep::UpdateCheck(id, settings) => {
                if let Ok(check) = self.find_check(id) {
                    self.apply_settings(check, *settings, now);
                }
            }
            PlanStep::PauseCheck(id) => {
                self.expect_accepted(|working| working.pause_check(id, None, now));
            }
            PlanStep::ResumeCheck(id) => {
                self.expect_accepted(|working| working.resume_check(id, now));
            }
            PlanStep::PutWindow(window) => self.put_window(window, now),
            PlanStep::CreateKey(id, key) => drop(self.insert_key(id, *key, now)),
            PlanStep::CreateUser { id, user, disabled } => {
                drop(self.insert_user(id, *user, disabled, now));
            }
            PlanStep::UpdateUser(id, changes) => self.execute_user_update(id, *changes, now),
            PlanStep::Delete(object) => self.expect_accepted(|working| match object {
                ExistingObject::Channel(id) => working.delete_channel(id),
                ExistingObject::Check(id) => working.delete_check(id, now),
                ExistingObject::Window(project, id) => working.delete_window(project, id, now),
                ExistingObject::Key(id) => working.revoke_key(id),
                ExistingObject::User(id) => working.delete_user(id),
            }),
            PlanStep::SetSource(id, source) => self.record_change(Change::Source(id, source)),
        }
    }

    fn execute_user_update(&mut self, id: UserId, changes: UserChanges, now: Timestamp) {
        self.expect_accepted(|working| working.update_user(id, changes, None, now));
    }

    fn expect_accepted(&mut self, step: impl FnOnce(&mut Self) -> ApplyResult) {
        let result = step(self);
        debug_assert!(result.is_ok(), "a planned step is refused: {result:?}");
    }
}

//! What files declare becomes so: the plan is made on the state of this moment, and all of its steps are taken or none.

use super::super::command::declare::{Declare, Declared};
use super::super::command::user::UserChanges;
use super::super::command::{Outcome, Refusal};
use super::super::plan::{Found, Step, plan};
use super::super::state::Change;
use super::{Applied, WorkingState};
use crate::domain::ids::UserId;
use crate::domain::moment::Moment;

impl WorkingState {
    pub(super) fn declare(&mut self, asked: &Declare, now: Moment) -> Applied {
        let Declare { wanted, manner, names } = asked;
        let plan = plan(&self.state, wanted, *manner, now, self.numbers.id, names).map_err(Refusal::Conflicts)?;
        if plan.names > names.len() {
            // Something went since the names were drawn.
            return Err(Refusal::Outdated);
        }
        self.numbers.id = plan.next_id;
        // What is due by now concerns the channels of before.
        for step in &plan.steps {
            if let Step::Check(id, _) | Step::Pause(id) | Step::Gone(Found::Check(id)) = step {
                self.notice(*id, now);
            }
        }
        plan.steps.into_iter().for_each(|step| self.take(step, now));
        Ok(Outcome::Declared(Declared { changes: plan.changes }))
    }

    /// Takes a step. The plan has seen to it that none is refused.
    fn take(&mut self, step: Step, now: Moment) {
        match step {
            Step::Project(project) => drop(self.put_project(project)),
            Step::Channel(channel) => drop(self.put_channel(channel)),
            Step::NewCheck { id, names, project, settings } => drop(self.insert_check_as(id, project, names, *settings, now)),
            Step::Check(id, settings) => {
                if let Ok(check) = self.existing(id) {
                    self.give_settings(check, *settings, now);
                }
            }
            Step::Pause(id) => self.taken(|working| working.pause(id, now)),
            Step::Resume(id) => self.taken(|working| working.resume(id, now)),
            Step::Window(window) => self.put_window(window, now),
            Step::Key(id, key) => drop(self.insert_key(id, *key, now)),
            Step::NewUser { id, user, disabled } => drop(self.insert_user(id, *user, disabled, now)),
            Step::User(id, changes) => self.give_user(id, *changes, now),
            Step::Gone(found) => self.taken(|working| match found {
                Found::Channel(id) => working.delete_channel(id),
                Found::Check(id) => working.delete_check(id, now),
                Found::Window(project, id) => working.delete_window(project, id, now),
                Found::Key(id) => working.revoke_key(id),
                Found::User(id) => working.delete_user(id),
            }),
            Step::Managed(id, source) => self.change(Change::Managed(id, source)),
        }
    }

    fn give_user(&mut self, id: UserId, changes: UserChanges, now: Moment) {
        self.taken(|working| working.set_user(id, changes, None, now));
    }

    fn taken(&mut self, step: impl FnOnce(&mut Self) -> Applied) {
        let taken = step(self);
        debug_assert!(taken.is_ok(), "a planned step is refused: {taken:?}");
    }
}

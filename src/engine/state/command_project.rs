//! Determines the project that a command concerns.

use super::State;
use crate::domain::ids::{CheckId, ProjectId};
use crate::engine::command::{Command, PingTarget};

impl State {
    /// Returns the project that a ping is for.
    pub fn project_of_target(&self, target: &PingTarget) -> Option<ProjectId> {
        match target {
            PingTarget::Uuid(uuid) => self.check_by_uuid(*uuid).map(|check| check.project),
            PingTarget::Slug { key, .. } => self.project_by_ping_key(key),
        }
    }

    /// Returns the project that a command concerns, if it concerns checks of one project only.
    pub fn project_of(&self, command: &Command) -> Option<ProjectId> {
        let of_check = |id: CheckId| self.check(id).map(|check| check.project);
        match command.unattributed() {
            Command::Ping(request) => self.project_of_target(&request.target),
            Command::Mail(pings) => self.project_of_target(&pings.first()?.target),
            Command::CreateCheck(request) => Some(request.project),
            Command::UpdateCheck(id, _)
            | Command::PauseCheck(id, _)
            | Command::ResumeCheck(id)
            | Command::DeleteCheck(id) => of_check(*id),
            Command::RestoreCheck(restoration) => of_check(restoration.check),
            Command::UpdateAlertSettings { check, .. } => of_check(*check),
            Command::AssignChannel { channel, .. } => {
                self.channel(*channel).map(|channel| channel.project)
            }
            Command::DeleteWindow(project, _)
            | Command::PutStatusPage(project, _)
            | Command::DeleteStatusPage(project, _) => Some(*project),
            _ => None,
        }
    }
}

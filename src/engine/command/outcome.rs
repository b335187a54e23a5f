//! Conversion of the outcome of a command into the type that its caller expects.

use std::sync::Arc;

use super::CommandOutcome;
use super::apply_config::AppliedConfig;
use super::import::{ImportStepOutcome, LocalChanges};
use super::user::RedeemedLink;
use crate::domain::check::Check;
use crate::domain::ids::DeliveryNumber;
use crate::domain::import_item::ImportId;
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{Channel, Project, ProjectKey};
use crate::domain::user::User;
use crate::domain::user::session::Session;

/// Error: the outcome has another type than the caller expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnexpectedOutcome;

/// Check that a command created or changed.
#[derive(Clone, PartialEq, Debug)]
pub struct SavedCheck {
    /// The check as it is now.
    pub check: Box<Check>,
    /// True if the command created it.
    pub is_new: bool,
}

impl TryFrom<CommandOutcome> for SavedCheck {
    type Error = UnexpectedOutcome;

    fn try_from(outcome: CommandOutcome) -> Result<Self, Self::Error> {
        match outcome {
            CommandOutcome::CheckCreated(check) => Ok(Self {
                check,
                is_new: true,
            }),
            CommandOutcome::Check(check) => Ok(Self {
                check,
                is_new: false,
            }),
            _ => Err(UnexpectedOutcome),
        }
    }
}

impl TryFrom<CommandOutcome> for () {
    type Error = UnexpectedOutcome;

    /// Ignores the outcome.
    fn try_from(_: CommandOutcome) -> Result<Self, Self::Error> {
        Ok(())
    }
}

/// Implements the conversion of an outcome into its value.
macro_rules! outcome {
    ($($pattern:pat => $value:expr, $type:ty;)*) => {
        $(impl TryFrom<CommandOutcome> for $type {
            type Error = UnexpectedOutcome;

            fn try_from(outcome: CommandOutcome) -> Result<Self, Self::Error> {
                match outcome {
                    $pattern => Ok($value),
                    _ => Err(UnexpectedOutcome),
                }
            }
        })*
    };
}

outcome! {
    CommandOutcome::Check(check) => check, Box<Check>;
    CommandOutcome::Project(project) => project, Box<Project>;
    CommandOutcome::Key(key) => key, Box<ProjectKey>;
    CommandOutcome::Channel(channel) => channel, Box<Channel>;
    CommandOutcome::ChannelAssigned(count) => count, usize;
    CommandOutcome::Window(window) => window, Arc<MaintenanceWindow>;
    CommandOutcome::DeliveryQueued(number) => number, DeliveryNumber;
    CommandOutcome::User(user) => user, Box<User>;
    CommandOutcome::Session(session) => session, Box<Session>;
    CommandOutcome::ConfigApplied(applied) => applied, AppliedConfig;
    CommandOutcome::Import(ImportStepOutcome::Begun(import)) => import, ImportId;
    CommandOutcome::Import(ImportStepOutcome::Finished { replaced, lost_changes })
        => (replaced, lost_changes), (usize, LocalChanges);
}

impl TryFrom<CommandOutcome> for RedeemedLink {
    type Error = UnexpectedOutcome;

    fn try_from(outcome: CommandOutcome) -> Result<Self, Self::Error> {
        match outcome {
            CommandOutcome::Session(session) => Ok(Self::SignedIn(session)),
            CommandOutcome::User(user) => Ok(Self::PasswordSet(user)),
            _ => Err(UnexpectedOutcome),
        }
    }
}

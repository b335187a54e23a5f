//! Reasons why an operation was refused, and what to do about it.

use std::fmt;

use uuid::Uuid;

use crate::domain::channel::SettingsError;
use crate::domain::maintenance_window::TimesError;
use crate::engine::command::user::UserCommandError;
use crate::engine::command::{CommandError, Unavailable, UnexpectedOutcome};
use crate::store::StoreError;

/// Maximum number of names in a message.
const MAX_LISTED_NAMES: usize = 20;

/// Reason why an operation was not carried out. Nothing was changed, unless the variant says
/// otherwise.
#[derive(Debug)]
pub enum OperationError {
    /// No project has that name or UUID.
    UnknownProject {
        /// Name or UUID that was requested.
        requested: String,
        /// Names of the existing projects.
        names: Vec<String>,
    },
    /// No project was named, and there is not exactly one.
    ProjectRequired {
        /// Names of the existing projects.
        names: Vec<String>,
    },
    /// No user has that name or UUID.
    UnknownUser {
        /// Name or UUID that was requested.
        requested: String,
        /// Names of the existing users.
        names: Vec<String>,
    },
    /// The existing users do not allow it.
    User(UserCommandError),
    /// No key has that number.
    UnknownKey(u64),
    /// No channel has that name or UUID.
    UnknownChannel(String),
    /// Several channels have that name.
    AmbiguousChannel {
        /// Name that was requested.
        requested: String,
        /// UUIDs of the channels with that name.
        uuids: Vec<Uuid>,
    },
    /// No maintenance window has that name or UUID.
    UnknownWindow(String),
    /// Several maintenance windows have that name.
    AmbiguousWindow {
        /// Name that was requested.
        requested: String,
        /// UUIDs of the windows with that name.
        uuids: Vec<Uuid>,
    },
    /// A maintenance window cannot be open at these times.
    Times(TimesError),
    /// No check has that UUID, slug or name.
    UnknownCheck(String),
    /// Several checks have that slug or name.
    AmbiguousCheck {
        /// Slug or name that was requested.
        requested: String,
        /// UUIDs of the checks that have it.
        uuids: Vec<Uuid>,
    },
    /// The state of the check or of its project does not allow it.
    Command(CommandError),
    /// The channel is a group without channels.
    EmptyGroup,
    /// The channel of a group is not tested, since the operator disabled it.
    DisabledByOperator,
    /// The channel of a group is not tested, since the tests of the others took all the time.
    NoTimeForTest,
    /// The test of a channel in a group had no result in time. It may still arrive.
    NoTestResult,
    /// No delivery has that number.
    UnknownDelivery(u64),
    /// This delivery was about no check: a test, or a reminder.
    DeliveryWithoutCheck(u64),
    /// Only a failed delivery can be sent again; this one has another result.
    DeliveryNotFailed {
        /// Number of the delivery.
        number: u64,
        /// Delivery result.
        result: &'static str,
    },
    /// Another project has that name.
    ProjectNameTaken,
    /// The kind of the channel does not take these settings.
    Settings(SettingsError),
    /// The object was deleted between being found and being changed.
    Removed,
    /// The generated random text is not a valid key.
    InvalidGeneratedKey,
    /// The file cannot be read at the moment.
    Store(StoreError),
    /// The writer did not answer; for [`Unavailable::StorageFailed`] the change may or may not have
    /// been made.
    Unavailable(Unavailable),
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProject { requested, names } if names.is_empty() => {
                write!(
                    f,
                    "there is no project {requested:?} and no other project; `project create` \
                     creates one"
                )
            }
            Self::UnknownProject { requested, names } => {
                write!(
                    f,
                    "there is no project {requested:?}; existing projects: {}",
                    join_first(names)
                )
            }
            Self::ProjectRequired { names } if names.is_empty() => {
                f.write_str("there is no project; `project create` creates one")
            }
            Self::ProjectRequired { names } => {
                write!(
                    f,
                    "there are {} projects; select one with --project: {}",
                    names.len(),
                    join_first(names)
                )
            }
            Self::UnknownUser { requested, names } if names.is_empty() => {
                write!(
                    f,
                    "there is no user {requested:?} and no other user; `user create` creates one"
                )
            }
            Self::UnknownUser { requested, names } => write!(
                f,
                "there is no user {requested:?}; existing users: {}",
                join_first(names)
            ),
            Self::User(UserCommandError::NameTaken) => {
                f.write_str("a user of that name already exists; choose another name")
            }
            Self::User(UserCommandError::TooManyUsers) => {
                f.write_str("the maximum number of users is reached; delete one first")
            }
            Self::User(UserCommandError::LastOwner) => {
                f.write_str("this is the last owner who can sign in; create another one first")
            }
            Self::User(UserCommandError::LinkInvalid) => {
                f.write_str("this link has been used or has expired; `user link` prints a new one")
            }
            Self::User(UserCommandError::UserExists) => f.write_str(
                "users already exist; give the name of a user to create a link for choosing a \
                 password",
            ),
            Self::User(UserCommandError::SignInRefused) => {
                f.write_str("the user is disabled; `user set NAME --enable` enables it")
            }
            Self::User(UserCommandError::TooManyPasskeys) => {
                f.write_str("the maximum number of passkeys is reached; remove one first")
            }
            Self::User(UserCommandError::IdentityTaken) => {
                f.write_str("another user has this identity at the provider")
            }
            Self::User(UserCommandError::PasskeyTaken) => {
                f.write_str("this passkey belongs to a user already")
            }
            Self::UnknownKey(id) => {
                write!(f, "there is no key {id}; `key list` lists all keys")
            }
            Self::UnknownChannel(requested) => write!(
                f,
                "there is no channel {requested:?}; `channel list` lists all channels"
            ),
            Self::AmbiguousChannel { requested, uuids } => {
                write!(
                    f,
                    "{} channels are named {requested:?}; select the project with --project, or \
                     give the UUID of one: {}",
                    uuids.len(),
                    join_first(uuids)
                )
            }
            Self::UnknownWindow(requested) => write!(
                f,
                "there is no maintenance window {requested:?}; `window list` lists all windows"
            ),
            Self::AmbiguousWindow { requested, uuids } => {
                write!(
                    f,
                    "{} maintenance windows are named {requested:?}; select the project with \
                     --project, or give the UUID of one: {}",
                    uuids.len(),
                    join_first(uuids)
                )
            }
            Self::Times(error) => error.fmt(f),
            Self::UnknownCheck(requested) => write!(
                f,
                "there is no check {requested:?}; `check list` lists all checks"
            ),
            Self::AmbiguousCheck { requested, uuids } => {
                write!(
                    f,
                    "{} checks are named {requested:?}; select the project with --project, or give \
                     the UUID of one: {}",
                    uuids.len(),
                    join_first(uuids)
                )
            }
            Self::Command(CommandError::CheckLimitReached) => f.write_str(
                "the project has reached its limit of checks; `project set --check-limit` changes \
                 the limit",
            ),
            Self::Command(CommandError::NotPaused) => f.write_str("the check is not paused"),
            Self::Command(CommandError::EmptyChannel) => f.write_str(
                "a channel in the list is empty; separate UUIDs or names by single commas",
            ),
            Self::Command(CommandError::InvalidChannel(name)) => {
                write!(
                    f,
                    "the project has no channel {name:?}; `channel list` lists all channels"
                )
            }
            Self::Command(CommandError::AmbiguousChannel(name)) => {
                write!(
                    f,
                    "several channels of the project are named {name:?}; give the UUID of one"
                )
            }
            Self::Command(CommandError::KeyLimitReached) => f.write_str(
                "the project has 1,000 keys, which is the maximum; `key revoke` removes one",
            ),
            Self::Command(CommandError::WindowLimitReached) => f.write_str(
                "the project has the maximum number of maintenance windows; `window delete` \
                 removes one",
            ),
            Self::Command(CommandError::StatusPage(error)) => error.fmt(f),
            Self::Command(CommandError::InvalidParents(error)) => error.fmt(f),
            Self::Command(CommandError::Import(refusal)) => refusal.fmt(f),
            Self::Command(CommandError::ChannelDisabled) => {
                f.write_str("the channel is disabled; `channel enable` enables it")
            }
            Self::Command(CommandError::Outdated) => f.write_str(
                "the status of the check has changed since, so this alert is out of date",
            ),
            Self::EmptyGroup => f.write_str("the group has no channels; `channel set` adds some"),
            Self::DisabledByOperator => f.write_str(
                "it was disabled by the operator and was not tested; `channel enable` enables it",
            ),
            Self::NoTimeForTest => {
                f.write_str("there was no time left to test it; test it separately")
            }
            Self::NoTestResult => {
                f.write_str("no result yet; the message may still arrive; test it separately")
            }
            Self::UnknownDelivery(number) => write!(
                f,
                "there is no delivery {number}; `deliveries` lists all deliveries"
            ),
            Self::DeliveryWithoutCheck(number) => {
                write!(
                    f,
                    "delivery {number} is not about a single check, so it is not sent again; \
                     `channel test` shows whether the channel works"
                )
            }
            Self::DeliveryNotFailed {
                number,
                result: outcome,
            } => {
                write!(
                    f,
                    "delivery {number} is {outcome}; only failed deliveries are sent again; \
                     `deliveries --failed` lists them"
                )
            }
            // The commands of this module cannot cause the other errors.
            Self::Command(_) => f.write_str("the command was rejected; nothing was changed"),
            Self::Store(error) => write!(f, "the database cannot be read at the moment: {error}"),
            Self::ProjectNameTaken => {
                f.write_str("a project of that name already exists; choose another name")
            }
            Self::Settings(error) => error.fmt(f),
            Self::Removed => f.write_str("the object has been deleted in the meantime"),
            Self::InvalidGeneratedKey => f.write_str("no key could be created; try again"),
            Self::Unavailable(Unavailable::QueueFull) => {
                f.write_str("the server is overloaded; nothing was changed, try again")
            }
            Self::Unavailable(Unavailable::Stopping) => {
                f.write_str("the server is stopping; nothing was changed, try again")
            }
            Self::Unavailable(Unavailable::StorageFailed) => f.write_str(
                "the database cannot be written at the moment; the change may or may not have been \
                 made; see the log of the server",
            ),
        }
    }
}

impl std::error::Error for OperationError {}

impl From<Unavailable> for OperationError {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

impl From<UnexpectedOutcome> for OperationError {
    /// Reports that the result of a change is unknown. No command has such an outcome.
    fn from(_: UnexpectedOutcome) -> Self {
        debug_assert!(false, "a command had an unexpected outcome");
        Self::Unavailable(Unavailable::StorageFailed)
    }
}

impl From<SettingsError> for OperationError {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error)
    }
}

/// Returns the first names of a list as text.
fn join_first(names: &[impl ToString]) -> String {
    let first_names: Vec<_> = names
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(ToString::to_string)
        .collect();
    first_names.join(", ")
        + if names.len() > MAX_LISTED_NAMES {
            ", ..."
        } else {
            ""
        }
}

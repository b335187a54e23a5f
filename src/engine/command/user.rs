//! Commands about users, their sessions and links. Passwords and codes are hashed before the
//! command is built.

use std::net::IpAddr;

use uuid::Uuid;

use crate::domain::ids::{SessionId, UserId};
use crate::domain::project::SecretHash;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::one_time_link::LinkPurpose;
use crate::domain::user::passkey::{Passkey, PasskeyId};
use crate::domain::user::second_factor::{SecondFactor, SecondFactorProof};
use crate::domain::user::session::Session;
use crate::domain::user::summary::{SummaryPeriod, SummarySettings};
use crate::domain::user::{ExternalIdentity, Grant, PasswordHash, User, UserName, UserPreferences};

/// Change of users, sessions or links.
#[derive(Clone, Debug)]
pub enum UserCommand {
    /// Creates a user. Outcome: [`CommandOutcome::User`](super::CommandOutcome::User), as for each
    /// change of a user.
    Create(NewUser),
    /// Changes a user.
    Update {
        /// User to change.
        user: UserId,
        /// Fields to change.
        changes: UserChanges,
        /// Session of the request, which stays open if the password changes.
        request_session: Option<SessionId>,
    },
    /// Deletes a user with its sessions and links.
    Delete(UserId),
    /// Creates a link. It replaces an earlier one for the same purpose.
    CreateLink {
        /// Purpose of the link. A setup link is refused once a user exists.
        purpose: LinkPurpose,
        /// Hash of the code in the link.
        hash: SecretHash,
        /// Validity in seconds.
        secs: i64,
    },
    /// Redeems a link: sets the password of its user and signs in. Outcome: [`RedeemedLink`].
    RedeemLink(LinkRedemption),
    /// Signs a user in. Outcome: [`CommandOutcome::Session`](super::CommandOutcome::Session).
    SignIn(SignIn),
    /// Records the use of a session.
    RecordSessionUse(SessionUse),
    /// Closes sessions of a user.
    CloseSessions {
        /// User of the sessions.
        user: UserId,
        /// Sessions to close.
        selection: SessionSelection,
    },
    /// Records an attempt to send a summary to a user.
    RecordSummary {
        /// User with the subscription.
        user: UserId,
        /// Result of the attempt.
        result: SummaryResult,
    },
    /// Makes the summary of a period due again.
    RepeatSummary {
        /// User with the subscription.
        user: UserId,
        /// Period of the summary.
        period: SummaryPeriod,
    },
    /// Removes rows of expired sessions and links.
    RemoveExpired,
}

/// Use of a link with a new password.
#[derive(Clone, Debug)]
pub struct LinkRedemption {
    /// Hash of the code in the link.
    pub hash: SecretHash,
    /// Owner that a setup link creates. `None` for a link of an existing user.
    pub first_user: Option<FirstUser>,
    /// New password.
    pub password: PasswordHash,
    /// Session to open.
    pub session: NewSession,
}

/// Result of the use of a link.
#[derive(Clone, PartialEq, Debug)]
pub enum RedeemedLink {
    /// The user is signed in.
    SignedIn(Box<Session>),
    /// The password is set. The user has a second factor, which the link does not prove, and must
    /// sign in.
    PasswordSet(Box<User>),
}

/// Sign-in of a user.
#[derive(Clone, Debug)]
pub struct SignIn {
    /// User to sign in.
    pub user: UserId,
    /// Proof that it is the user.
    pub proof: SignInProof,
    /// Session to open.
    pub session: NewSession,
}

/// Proof of a user who signs in.
#[derive(Clone, Debug)]
pub enum SignInProof {
    /// Password, and the second factor.
    Password {
        /// Hash that the password was verified against. The session is refused if the user has
        /// another one by now.
        verified: PasswordHash,
        /// Hash of the same password with the current parameters.
        rehashed: Option<PasswordHash>,
        /// Proof of the second factor. Required if the user has one.
        second_factor: Option<SecondFactorProof>,
    },
    /// Verified signature of a passkey. It needs no second factor, because the authenticator has
    /// verified its user.
    Passkey {
        /// Identifier of the passkey.
        id: PasskeyId,
        /// Counter in the signature. The session is refused unless it is newer than the stored one.
        counter: u32,
    },
    /// Identity that a provider has confirmed.
    Provider(ExternalIdentity),
}

/// Use of a session.
#[derive(Clone, Debug)]
pub struct SessionUse {
    /// Session that is used.
    pub session: SessionId,
    /// Address of the client.
    pub address: IpAddr,
    /// Seconds without use after which it expires.
    pub idle_secs: i64,
    /// Hash that a password just entered was verified against, if any. Refused if the user has
    /// another one by now.
    pub verified_password: Option<PasswordHash>,
}

/// Selection of sessions of a user to close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionSelection {
    /// This session. No effect if it belongs to another user.
    One(SessionId),
    /// All but this one.
    AllBut(SessionId),
    /// All sessions.
    All,
}

impl SessionSelection {
    /// Description of the selection, for the log.
    pub fn description(self) -> &'static str {
        match self {
            Self::One(_) => "one of their sessions",
            Self::AllBut(_) => "all their other sessions",
            Self::All => "all their sessions",
        }
    }
}

/// User to create.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// UUID of the user.
    pub uuid: Uuid,
    /// Name of the user.
    pub name: UserName,
    /// Password. `None`: the user sets one through a link.
    pub password: Option<PasswordHash>,
    /// Permissions of the user.
    pub grant: Grant,
}

/// First owner.
#[derive(Clone, Debug)]
pub struct FirstUser {
    /// UUID of the user.
    pub uuid: Uuid,
    /// Name of the user.
    pub name: UserName,
    /// Display preferences.
    pub preferences: UserPreferences,
}

/// Changes of a user. Fields that are `None` stay.
#[derive(Clone, Debug, Default)]
pub struct UserChanges {
    /// New name.
    pub name: Option<UserName>,
    /// New password. All sessions but that of the request end.
    pub password: Option<PasswordHash>,
    /// New second factor, or `Some(None)` to remove it. Adding a first one ends all sessions but
    /// that of the request.
    pub second_factor: Option<Option<SecondFactor>>,
    /// New identity at a provider, or `Some(None)` to remove it.
    pub identity: Option<Option<ExternalIdentity>>,
    /// Change of the passkeys.
    pub passkeys: Option<PasskeyChange>,
    /// New permissions.
    pub grant: Option<Grant>,
    /// New settings of summaries by mail, or `Some(None)` to unsubscribe.
    pub summary: Option<Option<SummarySettings>>,
    /// New display preferences.
    pub preferences: Option<UserPreferences>,
    /// True to disable sign-in, which ends all sessions.
    pub disabled: Option<bool>,
}

/// Result of an attempt to send a summary.
#[derive(Clone, Debug)]
pub struct SummaryResult {
    /// End of the period, if the attempt was the last one for it.
    pub covered_until: Option<Timestamp>,
    /// Time at which it was sent, if it was.
    pub sent: Option<Timestamp>,
    /// Error of the attempt.
    pub failure: Option<Box<str>>,
}

/// Change of the passkeys of a user.
#[derive(Clone, Debug)]
pub enum PasskeyChange {
    /// Adds a passkey.
    Add(Box<Passkey>),
    /// Removes this passkey, if the user has it.
    Remove(PasskeyId),
    /// Removes all passkeys.
    RemoveAll,
}

/// Session to open.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Hash of its cookie.
    pub hash: SecretHash,
    /// User agent of the browser.
    pub user_agent: Box<str>,
    /// Address of the client.
    pub address: IpAddr,
    /// Seconds without use after which it expires.
    pub idle_secs: i64,
}

/// Reason for refusing a command about users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserCommandError {
    /// Another user has that name.
    NameTaken,
    /// The maximum number of users is reached.
    TooManyUsers,
    /// No owner with permission to sign in would remain.
    LastOwner,
    /// The link was used, has expired, or never existed.
    LinkInvalid,
    /// A user exists already.
    UserExists,
    /// The user may not sign in, or has another password, second factor or passkey than the one
    /// that was verified.
    SignInRefused,
    /// The maximum number of passkeys is reached.
    TooManyPasskeys,
    /// A user has this passkey already.
    PasskeyTaken,
    /// Another user has this identity.
    IdentityTaken,
}

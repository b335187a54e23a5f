//! What can be asked about users, their sessions and links. Passwords and codes come as hashes, made at the door.

use std::net::IpAddr;

use uuid::Uuid;

use crate::domain::ids::{SessionId, UserId};
use crate::domain::project::KeyHash;
use crate::domain::user::one_time_link::LinkPurpose;
use crate::domain::user::second_factor::{SecondFactor, SecondFactorProof};
use crate::domain::user::{Grant, PasswordHash, UserName, UserPreferences};

/// A change of what there is of users.
#[derive(Clone, Debug)]
pub enum UserCommand {
    /// Make a user. Answered with [`Outcome::User`](super::Outcome::User), like each change of a user.
    Create(NewUser),
    /// Change a user.
    Update {
        /// Which.
        user: UserId,
        /// What changes.
        changes: UserChanges,
        /// The session that asks for it, which outlives another password.
        requested_by: Option<SessionId>,
    },
    /// Remove a user with its sessions and links.
    Delete(UserId),
    /// Make a link, in place of the one before it for the same purpose.
    CreateLink {
        /// What it is for. A setup is refused once there is a user.
        purpose: LinkPurpose,
        /// What its code is recognised by.
        hash: KeyHash,
        /// Seconds for which it is good.
        secs: i64,
    },
    /// Use a link up: its user gets this password, and is signed in. Answered with [`Outcome::Session`](super::Outcome::Session). Whoever has
    /// a second factor is not signed in, since a link does not show it; that is answered with [`Outcome::User`](super::Outcome::User).
    RedeemLink {
        /// What its code is recognised by.
        hash: KeyHash,
        /// The owner that a setup makes, or `None` for a link of somebody who is there.
        setup: Option<FirstUser>,
        /// The new password.
        password: PasswordHash,
        /// The session that begins.
        session: NewSession,
    },
    /// Somebody signs in. Answered with [`Outcome::Session`](super::Outcome::Session).
    OpenSession {
        /// Who.
        user: UserId,
        /// What the password was checked against. The session is refused if the user has another one by now. `None`: no password was asked
        /// for.
        verified_password: Option<PasswordHash>,
        /// The same password hashed anew, with the parameters of today.
        rehashed_password: Option<PasswordHash>,
        /// What shows the second factor. Whoever has one and is asked for a password is refused without.
        second_factor: Option<SecondFactorProof>,
        /// The session that begins.
        session: NewSession,
    },
    /// A session is used.
    TouchSession {
        /// Which.
        session: SessionId,
        /// From where.
        address: IpAddr,
        /// Seconds for which it lasts without another use.
        idle_secs: i64,
        /// What the password that was just typed was checked against, if one was. It is refused if the user has another one by now.
        verified_password: Option<PasswordHash>,
    },
    /// End sessions of a user.
    CloseSessions {
        /// Whose.
        user: UserId,
        /// Which of them.
        selection: SessionSelection,
    },
    /// Remove the rows of sessions and links that are over.
    RemoveExpired,
}

/// Which sessions of a user end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionSelection {
    /// This one; nothing happens if it is not the user's.
    One(SessionId),
    /// All but this one.
    AllBut(SessionId),
    /// All.
    All,
}

impl SessionSelection {
    /// The sessions in words, for the log.
    pub fn description(self) -> &'static str {
        match self {
            Self::One(_) => "one of their sessions",
            Self::AllBut(_) => "all their other sessions",
            Self::All => "all their sessions",
        }
    }
}

/// A user to be made.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: UserName,
    /// Its password; `None`: it gets one by a link.
    pub password: Option<PasswordHash>,
    /// What it may do.
    pub grant: Grant,
}

/// The first owner.
#[derive(Clone, Debug)]
pub struct FirstUser {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: UserName,
    /// How pages look to it.
    pub preferences: UserPreferences,
}

/// What of a user changes; what is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct UserChanges {
    /// Its new name.
    pub name: Option<UserName>,
    /// Its new password: all sessions but the one that asks for it end.
    pub password: Option<PasswordHash>,
    /// Its second factor, or that it has none from now on. Where it had none before, all sessions but the one that asks for it end.
    pub second_factor: Option<Option<SecondFactor>>,
    /// What it may do from now on.
    pub grant: Option<Grant>,
    /// How pages look to it.
    pub preferences: Option<UserPreferences>,
    /// Whether it may sign in no more: all sessions end.
    pub disabled: Option<bool>,
}

/// A session to be opened.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// What its cookie is recognised by.
    pub hash: KeyHash,
    /// What the browser calls itself.
    pub user_agent: Box<str>,
    /// From where.
    pub address: IpAddr,
    /// Seconds for which it lasts without another use.
    pub idle_secs: i64,
}

/// Why a command about users was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserCommandError {
    /// Another user has that name.
    NameTaken,
    /// There are as many users as there may be.
    TooManyUsers,
    /// No owner would be left who may sign in.
    LastOwner,
    /// The link was used, has expired, or never was one.
    LinkInvalid,
    /// There is a user already.
    UserExists,
    /// The user may not sign in, or has another password or second factor than what was checked.
    SignInRefused,
}

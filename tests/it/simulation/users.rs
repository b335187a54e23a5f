//! Users, sessions and links: commands about them, what those are to come to, and whether the
//! engine has just that.

use std::collections::{BTreeMap, BTreeSet};

use overdue::domain::ids::{ProjectId, SessionId, UserId};
use overdue::domain::project::KeyHash;
use overdue::domain::timestamp::Timestamp;
use overdue::domain::user::one_time_link::LinkPurpose;
use overdue::domain::user::second_factor::{SecondFactor, SecondFactorProof, TotpSecret};
use overdue::domain::user::{
    Grant, Membership, PasswordHash, ProjectMemberships, Theme, UserName, UserPreferences,
};
use overdue::engine::command::CommandError;
use overdue::engine::command::user::{
    FirstUser, LinkRedemption, NewSession, NewUser, SessionSelection, SessionUse, SignIn,
    UserChanges, UserCommand, UserCommandError,
};
use overdue::engine::state::State;

use super::model::ExpectedAnswer;
use super::verify::same;
use crate::support::seeded_rng::SeededRng;

const SECOND: i64 = 1_000_000;
const HALF_A_YEAR: i64 = 180 * 86_400 * SECOND;

#[derive(Clone, PartialEq, Debug)]
struct ModelUser {
    name: String,
    password: Option<String>,
    /// The secret of its second factor, the last half minute of it that was used, and the codes
    /// that are left.
    second: Option<([u8; 20], u64, Vec<[u8; 32]>)>,
    /// `None`: an owner. `true`: a member.
    projects: Option<BTreeMap<u64, bool>>,
    is_dark: bool,
    disabled: bool,
}

#[derive(Clone, PartialEq, Debug)]
struct ModelSession {
    hash: [u8; 32],
    user: u64,
    created: i64,
    seen: i64,
    confirmed: Option<i64>,
    expires: i64,
}

#[derive(Clone, Default)]
pub(crate) struct ModelUsers {
    users: BTreeMap<u64, ModelUser>,
    sessions: BTreeMap<u64, ModelSession>,
    /// By hash: whose password it is for, or the setup; and when it ends.
    links: BTreeMap<[u8; 32], (Option<u64>, i64)>,
    /// The latest time there ever was. What was over then may have been removed.
    latest: i64,
}

type UserResult = Result<ExpectedAnswer, CommandError>;

fn refused(refusal: UserCommandError) -> UserResult {
    Err(CommandError::User(refusal))
}

impl ModelUsers {
    pub(crate) fn look(&mut self, now: i64) {
        self.latest = self.latest.max(now);
    }

    /// What a command comes to; `made` counts what was ever made, of every kind.
    pub(crate) fn apply(
        &mut self,
        command: &UserCommand,
        now: i64,
        projects: &BTreeSet<u64>,
        made: &mut u64,
    ) -> UserResult {
        self.look(now);
        let mut id = || {
            *made += 1;
            *made
        };
        match command {
            UserCommand::Create(NewUser {
                name,
                password,
                grant,
                ..
            }) => {
                if self.named(name).is_some() {
                    return refused(UserCommandError::NameTaken);
                }
                let projects = expected_grant(grant, projects)?;
                let id = id();
                let password = password.as_ref().map(|password| password.as_str().into());
                self.users.insert(
                    id,
                    ModelUser {
                        name: name.as_str().into(),
                        password,
                        second: None,
                        projects,
                        is_dark: false,
                        disabled: false,
                    },
                );
                self.links.retain(|_, (user, _)| user.is_some());
                Ok(ExpectedAnswer::User(id))
            }
            UserCommand::Update {
                user,
                changes,
                requested_by: by,
            } => self.set(user.0, changes, *by, projects),
            UserCommand::Delete(UserId(user)) => {
                self.users.get(user).ok_or(CommandError::NotFound)?;
                if self.is_last_owner(*user) {
                    return refused(UserCommandError::LastOwner);
                }
                self.users.remove(user);
                self.sessions.retain(|_, session| session.user != *user);
                self.links.retain(|_, (of, _)| *of != Some(*user));
                Ok(ExpectedAnswer::Done)
            }
            UserCommand::CreateLink {
                purpose,
                hash,
                secs,
            } => {
                let of = match purpose {
                    LinkPurpose::Setup if !self.users.is_empty() => {
                        return refused(UserCommandError::UserExists);
                    }
                    LinkPurpose::Setup => None,
                    LinkPurpose::Password(user) => Some(user.0),
                };
                if let Some(user) = of
                    && self
                        .users
                        .get(&user)
                        .ok_or(CommandError::NotFound)?
                        .disabled
                {
                    return refused(UserCommandError::SignInRefused);
                }
                id();
                self.links.retain(|_, (user, _)| *user != of);
                self.links.insert(hash.0, (of, now + secs * SECOND));
                Ok(ExpectedAnswer::Done)
            }
            UserCommand::RedeemLink(LinkRedemption {
                hash,
                setup,
                password,
                session,
            }) => {
                let Some((of, expires)) = self.links.get(&hash.0).copied() else {
                    return refused(UserCommandError::LinkInvalid);
                };
                assert!(expires > now, "simulations use no link that is over");
                let password = Some(password.as_str().to_owned());
                let user = match (of, setup) {
                    (
                        None,
                        Some(FirstUser {
                            name,
                            preferences: taste,
                            ..
                        }),
                    ) => {
                        let id = id();
                        let name = name.as_str().into();
                        let is_dark = taste.theme == Theme::Dark;
                        self.users.insert(
                            id,
                            ModelUser {
                                name,
                                password,
                                second: None,
                                projects: None,
                                is_dark,
                                disabled: false,
                            },
                        );
                        id
                    }
                    (Some(user), None) => {
                        self.users.get_mut(&user).unwrap().password = password;
                        user
                    }
                    _ => return refused(UserCommandError::LinkInvalid),
                };
                self.links.remove(&hash.0);
                self.sessions.retain(|_, session| session.user != user);
                if self.users[&user].second.is_some() {
                    return Ok(ExpectedAnswer::User(user));
                }
                Ok(self.open(id(), user, session, Some(now), now))
            }
            UserCommand::OpenSession(SignIn {
                user: UserId(user),
                verified_password: checked,
                rehashed_password: renewed,
                second_factor: second,
                session,
            }) => {
                self.allowed(*user, checked.as_ref())?;
                if checked.is_some()
                    && let Some(own) = &mut self.users.get_mut(user).unwrap().second
                    && !use_proof(own, second.as_ref())
                {
                    return refused(UserCommandError::SignInRefused);
                }
                if let (Some(_), Some(renewed)) = (checked, renewed) {
                    self.users.get_mut(user).unwrap().password = Some(renewed.as_str().into());
                }
                Ok(self.open(id(), *user, session, checked.as_ref().map(|_| now), now))
            }
            UserCommand::TouchSession(SessionUse {
                session: SessionId(id),
                idle_secs,
                verified_password: checked,
                ..
            }) => {
                let user = self
                    .sessions
                    .get(id)
                    .map(|session| session.user)
                    .ok_or(CommandError::NotFound)?;
                if checked.is_some() {
                    self.allowed(user, checked.as_ref())?;
                }
                let session = self.sessions.get_mut(id).unwrap();
                assert!(
                    session.expires > now,
                    "simulations use no session that is over"
                );
                session.seen = now;
                session.expires = (now + idle_secs * SECOND).min(session.created + HALF_A_YEAR);
                session.confirmed = checked.as_ref().map(|_| now).or(session.confirmed);
                Ok(ExpectedAnswer::Session(*id))
            }
            UserCommand::CloseSessions {
                user,
                selection: which,
            } => {
                self.close(user.0, *which);
                Ok(ExpectedAnswer::Done)
            }
            UserCommand::RemoveExpired => Ok(ExpectedAnswer::Done),
        }
    }

    fn set(
        &mut self,
        id: u64,
        changes: &UserChanges,
        by: Option<SessionId>,
        projects: &BTreeSet<u64>,
    ) -> UserResult {
        let mut user = self.users.get(&id).ok_or(CommandError::NotFound)?.clone();
        if let Some(name) = &changes.name {
            if self.named(name).is_some_and(|other| other != id) {
                return refused(UserCommandError::NameTaken);
            }
            user.name = name.as_str().into();
        }
        if let Some(grant) = &changes.grant {
            user.projects = expected_grant(grant, projects)?;
        }
        user.disabled = changes.disabled.unwrap_or(user.disabled);
        if (user.projects.is_some() || user.disabled) && self.is_last_owner(id) {
            return refused(UserCommandError::LastOwner);
        }
        if let Some(taste) = &changes.preferences {
            user.is_dark = taste.theme == Theme::Dark;
        }
        let had_second_factor = user.second.is_some();
        if let Some(second) = &changes.second_factor {
            user.second = second.as_ref().map(second_factor_parts);
        }
        if let Some(password) = &changes.password {
            user.password = Some(password.as_str().into());
        }
        // A session that began without the second factor ends with its introduction.
        if changes.password.is_some() || !had_second_factor && user.second.is_some() {
            self.close(
                id,
                by.map_or(SessionSelection::All, SessionSelection::AllBut),
            );
        }
        if user.disabled {
            self.close(id, SessionSelection::All);
        }
        if user.disabled || changes.password.is_some() {
            self.links.retain(|_, (of, _)| *of != Some(id));
        }
        self.users.insert(id, user);
        Ok(ExpectedAnswer::User(id))
    }

    fn open(
        &mut self,
        id: u64,
        user: u64,
        session: &NewSession,
        confirmed: Option<i64>,
        now: i64,
    ) -> ExpectedAnswer {
        let expires = now + (session.idle_secs * SECOND).min(HALF_A_YEAR);
        self.sessions.insert(
            id,
            ModelSession {
                hash: session.hash.0,
                user,
                created: now,
                seen: now,
                confirmed,
                expires,
            },
        );
        ExpectedAnswer::Session(id)
    }

    fn close(&mut self, user: u64, which: SessionSelection) {
        self.sessions.retain(|id, session| {
            let stays = match which {
                SessionSelection::One(one) => one.0 != *id,
                SessionSelection::AllBut(one) => one.0 == *id,
                SessionSelection::All => false,
            };
            session.user != user || stays
        });
    }

    fn allowed(&self, user: u64, checked: Option<&PasswordHash>) -> Result<(), CommandError> {
        let user = self.users.get(&user).ok_or(CommandError::NotFound)?;
        let is_other =
            checked.is_some_and(|checked| user.password.as_deref() != Some(checked.as_str()));
        if user.disabled || is_other {
            Err(CommandError::User(UserCommandError::SignInRefused))
        } else {
            Ok(())
        }
    }

    fn named(&self, name: &UserName) -> Option<u64> {
        self.users
            .iter()
            .find(|(_, user)| user.name.eq_ignore_ascii_case(name.as_str()))
            .map(|(id, _)| *id)
    }

    fn is_last_owner(&self, id: u64) -> bool {
        let mut owners = self
            .users
            .iter()
            .filter(|(_, user)| user.projects.is_none() && !user.disabled)
            .map(|(id, _)| *id);
        owners.next() == Some(id) && owners.next().is_none()
    }

    /// Compares what is in memory. What is over, or once was, may be there or not.
    pub(crate) fn verify(&self, state: &State, now: i64) -> Result<(), String> {
        let found: BTreeMap<_, _> = state
            .users
            .iter()
            .map(|user| (user.id.0, model_user_of(user)))
            .collect();
        same!(found, self.users, "users");
        let over = self.latest.max(now);
        let now = Timestamp::from_micros(now);
        for (id, expected) in &self.users {
            let user = state
                .users
                .by_name(&UserName::parse(&expected.name.to_uppercase()).unwrap());
            same!(user.map(|user| user.id.0), Some(*id), "user of a name");
            for session in state.users.sessions_of(UserId(*id), now) {
                let found = ModelSession {
                    hash: session.hash.0,
                    user: session.user.0,
                    created: session.created.micros(),
                    seen: session.last_used.micros(),
                    confirmed: session.password_confirmed.map(Timestamp::micros),
                    expires: session.expires.micros(),
                };
                same!(
                    Some(&found),
                    self.sessions.get(&session.id.0),
                    "session {}",
                    session.id.0
                );
            }
        }
        for (id, session) in self
            .sessions
            .iter()
            .filter(|(_, session)| session.expires > over)
        {
            let disabled = self.users[&session.user].disabled;
            let found = state
                .users
                .session(&KeyHash(session.hash), now)
                .map(|(session, user)| (session.id.0, user.id.0));
            same!(
                found,
                (!disabled).then_some((*id, session.user)),
                "session of a cookie"
            );
        }
        for (hash, (of, expires)) in self
            .links
            .iter()
            .filter(|(_, (_, expires))| *expires > over)
        {
            let purpose = of.map_or(LinkPurpose::Setup, |user| {
                LinkPurpose::Password(UserId(user))
            });
            let found = state
                .users
                .link(&KeyHash(*hash), now)
                .map(|link| (link.purpose, link.expires.micros()));
            same!(found, Some((purpose, *expires)), "link of a code");
        }
        Ok(())
    }
}

fn model_user_of(user: &overdue::domain::user::User) -> ModelUser {
    let projects = match &user.grant {
        Grant::Owner => None,
        Grant::Projects(projects) => Some(
            projects
                .iter()
                .map(|(id, kind)| (id.0, kind == Membership::Member))
                .collect(),
        ),
    };
    let password = user
        .password
        .as_ref()
        .map(|password| password.as_str().into());
    let second = user.second_factor.as_ref().map(second_factor_parts);
    ModelUser {
        name: user.name.as_str().into(),
        password,
        second,
        projects,
        is_dark: user.preferences.theme == Theme::Dark,
        disabled: user.disabled,
    }
}

fn second_factor_parts(second: &SecondFactor) -> ([u8; 20], u64, Vec<[u8; 32]>) {
    (
        *second.secret.as_bytes(),
        second.last_used_step,
        second.recovery_hashes.iter().map(|hash| hash.0).collect(),
    )
}

/// Uses a proof up, if it is one.
fn use_proof(
    (secret, used, codes): &mut ([u8; 20], u64, Vec<[u8; 32]>),
    proof: Option<&SecondFactorProof>,
) -> bool {
    match proof {
        Some(SecondFactorProof::Code { secret: of, step })
            if of.as_bytes() == secret && step > used =>
        {
            *used = *step;
            true
        }
        Some(SecondFactorProof::Recovery(hash)) => {
            match codes.iter().position(|code| *code == hash.0) {
                Some(at) => {
                    codes.remove(at);
                    true
                }
                None => false,
            }
        }
        _ => false,
    }
}

fn expected_grant(
    grant: &Grant,
    known: &BTreeSet<u64>,
) -> Result<Option<BTreeMap<u64, bool>>, CommandError> {
    let Grant::Projects(projects) = grant else {
        return Ok(None);
    };
    let projects: BTreeMap<_, _> = projects
        .iter()
        .map(|(id, kind)| (id.0, kind == Membership::Member))
        .collect();
    if projects.keys().all(|id| known.contains(id)) {
        Ok(Some(projects))
    } else {
        Err(CommandError::NotFound)
    }
}

/// Of the form that hashes have, so that what is exported can be imported.
const PASSWORDS: [&str; 3] = [
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$BBBBBBBBBBBBBBBBBBBBBA",
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CCCCCCCCCCCCCCCCCCCCCA",
];

/// Some command about users; nothing is asked of what is, or once was, over.
pub(crate) fn random_command(
    dice: &SeededRng,
    model: &ModelUsers,
    project: ProjectId,
) -> UserCommand {
    let hash = |dice: &SeededRng| KeyHash(dice.random().bytes());
    let password = |dice: &SeededRng| PasswordHash::new(dice.pick(&PASSWORDS));
    let name = |dice: &SeededRng| {
        UserName::parse(dice.pick(&["ann", "Ann", "bob", "eve", "EVE"])).unwrap()
    };
    let taste = |dice: &SeededRng| UserPreferences {
        theme: dice.pick(&[Theme::Dark, Theme::Light]),
        ..UserPreferences::default()
    };
    let days = |dice: &SeededRng| dice.pick(&[1, 30, 400]) * 86_400;
    let grant = |dice: &SeededRng| {
        let project = (project, dice.pick(&Membership::ALL));
        if dice.chance(40) {
            Grant::Owner
        } else {
            Grant::Projects(ProjectMemberships::new(dice.optional(80, |_| project)))
        }
    };
    let session = |dice: &SeededRng| NewSession {
        hash: hash(dice),
        user_agent: "browser".into(),
        address: [192, 0, 2, dice.below(4) as u8].into(),
        idle_secs: days(dice),
    };
    let secret = |dice: &SeededRng| TotpSecret::new([dice.below(2) as u8; 20]);
    let code = |dice: &SeededRng| KeyHash([dice.below(4) as u8; 32]);
    let second = |dice: &SeededRng| SecondFactor {
        secret: secret(dice),
        last_used_step: dice.below(9),
        recovery_hashes: [0, 1, 2].map(|n| KeyHash([n; 32])).into(),
    };
    let proof = |dice: &SeededRng| match dice.chance(60) {
        true => SecondFactorProof::Code {
            secret: secret(dice),
            step: dice.below(12),
        },
        false => SecondFactorProof::Recovery(code(dice)),
    };
    let some = |ids: Vec<u64>| if ids.is_empty() { 0 } else { dice.pick(&ids) };
    let user = UserId(some(model.users.keys().copied().collect()));
    let checked = |dice: &SeededRng| {
        let known = model
            .users
            .get(&user.0)
            .and_then(|user| user.password.as_deref());
        dice.optional(70, |dice| {
            PasswordHash::new(known.filter(|_| dice.chance(80)).unwrap_or(PASSWORDS[0]))
        })
    };
    let open = model
        .sessions
        .iter()
        .filter(|(_, session)| session.expires > model.latest + 70 * 86_400 * SECOND);
    let open = SessionId(some(open.map(|(id, _)| *id).collect()));
    match dice.below(100) {
        0..15 => UserCommand::Create(NewUser {
            uuid: dice.random().uuid(),
            name: name(dice),
            password: dice.optional(70, password),
            grant: grant(dice),
        }),
        15..35 => {
            let changes = UserChanges {
                name: dice.optional(20, name),
                password: dice.optional(20, password),
                second_factor: dice.optional(20, |dice| dice.optional(70, |dice| second(dice))),
                grant: dice.optional(30, grant),
                preferences: dice.optional(30, taste),
                disabled: dice.optional(30, |dice| dice.chance(50)),
            };
            UserCommand::Update {
                user,
                changes,
                requested_by: dice.optional(50, |_| open),
            }
        }
        35..40 => UserCommand::Delete(user),
        40..52 => {
            let purpose = if dice.chance(40) {
                LinkPurpose::Setup
            } else {
                LinkPurpose::Password(user)
            };
            UserCommand::CreateLink {
                purpose,
                hash: hash(dice),
                secs: days(dice),
            }
        }
        52..64 => {
            let good = model
                .links
                .iter()
                .filter(|(_, (_, expires))| *expires > model.latest + 70 * 86_400 * SECOND);
            let good: Vec<_> = good.map(|(hash, (of, _))| (*hash, of.is_none())).collect();
            let (link, is_setup) = if good.is_empty() {
                (dice.random().bytes(), true)
            } else {
                dice.pick(&good)
            };
            let first = FirstUser {
                uuid: dice.random().uuid(),
                name: name(dice),
                preferences: taste(dice),
            };
            let setup = (is_setup != dice.chance(10)).then_some(first);
            UserCommand::RedeemLink(LinkRedemption {
                hash: KeyHash(link),
                setup,
                password: password(dice),
                session: session(dice),
            })
        }
        64..80 => {
            let second = dice.optional(80, proof);
            UserCommand::OpenSession(SignIn {
                user,
                verified_password: checked(dice),
                rehashed_password: dice.optional(20, password),
                second_factor: second,
                session: session(dice),
            })
        }
        80..90 => {
            let user = model.sessions.get(&open.0).map(|session| session.user);
            let known = user
                .and_then(|user| model.users.get(&user))
                .and_then(|user| user.password.as_deref());
            let checked = dice.optional(50, |dice| {
                PasswordHash::new(known.filter(|_| dice.chance(80)).unwrap_or(PASSWORDS[1]))
            });
            UserCommand::TouchSession(SessionUse {
                session: open,
                address: [192, 0, 2, 9].into(),
                idle_secs: days(dice),
                verified_password: checked,
            })
        }
        90..96 => {
            let which = dice.pick(&[
                SessionSelection::All,
                SessionSelection::One(open),
                SessionSelection::AllBut(open),
            ]);
            UserCommand::CloseSessions {
                user,
                selection: which,
            }
        }
        _ => UserCommand::RemoveExpired,
    }
}

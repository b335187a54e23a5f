//! Random commands about users, sessions and links, and their model.

use std::collections::{BTreeMap, BTreeSet};

use overdue::domain::ids::{ProjectId, SessionId, UserId};
use overdue::domain::mail_address::MailAddress;
use overdue::domain::project::SecretHash;
use overdue::domain::timestamp::Timestamp;
use overdue::domain::user::one_time_link::LinkPurpose;
use overdue::domain::user::passkey::{
    MAX_PASSKEYS, Passkey, PasskeyId, PasskeyName, PasskeyPublicKey,
};
use overdue::domain::user::second_factor::{SecondFactor, SecondFactorProof, TotpSecret};
use overdue::domain::user::summary::{SummaryInterval, SummaryPeriod, SummarySettings};
use overdue::domain::user::{
    ExternalIdentity, Grant, Membership, PasswordHash, ProjectMemberships, Theme, UserName,
    UserPreferences,
};
use overdue::engine::command::CommandError;
use overdue::engine::command::user::{
    FirstUser, LinkRedemption, NewSession, NewUser, PasskeyChange, SessionSelection, SessionUse,
    SignIn, SignInProof, SummaryResult, UserChanges, UserCommand, UserCommandError,
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
    /// Second factor: its secret, the last used time step and the unused recovery codes.
    second_factor: Option<([u8; 20], u64, Vec<[u8; 32]>)>,
    /// Identifiers and counters of the passkeys.
    passkeys: Vec<(Vec<u8>, u32)>,
    /// Issuer and subject.
    identity: Option<(String, String)>,
    /// Subscription to summaries.
    summary: Option<ModelSummary>,
    /// `None` for an owner; otherwise the projects, true for a member.
    projects: Option<BTreeMap<u64, bool>>,
    is_dark: bool,
    disabled: bool,
}

#[derive(Clone, PartialEq, Debug)]
struct ModelSummary {
    interval: SummaryInterval,
    address: String,
    covered_until: i64,
    sent: Option<i64>,
    failure: Option<String>,
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
    /// Links by hash: the user whose password they set, or `None` for the setup link, and the
    /// expiry.
    links: BTreeMap<[u8; 32], (Option<u64>, i64)>,
    /// Latest time ever. Anything that had expired by then may have been removed.
    latest: i64,
}

type UserResult = Result<ExpectedAnswer, CommandError>;

fn reject(refusal: UserCommandError) -> UserResult {
    Err(CommandError::User(refusal))
}

impl ModelUsers {
    pub(crate) fn tick(&mut self, now: i64) {
        self.latest = self.latest.max(now);
    }

    /// Predicts the answer to a command. `last_number` is the last assigned ID of any kind.
    pub(crate) fn apply(
        &mut self,
        command: &UserCommand,
        now: i64,
        projects: &BTreeSet<u64>,
        last_number: &mut u64,
    ) -> UserResult {
        self.tick(now);
        let mut id = || {
            *last_number += 1;
            *last_number
        };
        match command {
            UserCommand::Create(NewUser {
                name,
                password,
                grant,
                ..
            }) => {
                if self.find_by_name(name).is_some() {
                    return reject(UserCommandError::NameTaken);
                }
                let projects = expected_grant(grant, projects)?;
                let id = id();
                let password = password.as_ref().map(|password| password.as_str().into());
                self.users.insert(
                    id,
                    ModelUser {
                        name: name.as_str().into(),
                        password,
                        second_factor: None,
                        passkeys: Vec::new(),
                        identity: None,
                        summary: None,
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
                request_session,
            } => self.update(user.0, changes, *request_session, projects, now),
            UserCommand::Delete(UserId(user)) => {
                self.users.get(user).ok_or(CommandError::NotFound)?;
                if self.is_last_owner(*user) {
                    return reject(UserCommandError::LastOwner);
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
                        return reject(UserCommandError::UserExists);
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
                    return reject(UserCommandError::SignInRefused);
                }
                id();
                self.links.retain(|_, (user, _)| *user != of);
                self.links.insert(hash.0, (of, now + secs * SECOND));
                Ok(ExpectedAnswer::Done)
            }
            UserCommand::RedeemLink(LinkRedemption {
                hash,
                first_user: setup,
                password,
                session,
            }) => {
                let Some((of, expires)) = self.links.get(&hash.0).copied() else {
                    return reject(UserCommandError::LinkInvalid);
                };
                assert!(expires > now, "simulations use no expired link");
                let password = Some(password.as_str().to_owned());
                let user = match (of, setup) {
                    (
                        None,
                        Some(FirstUser {
                            name, preferences, ..
                        }),
                    ) => {
                        let id = id();
                        let name = name.as_str().into();
                        let is_dark = preferences.theme == Theme::Dark;
                        self.users.insert(
                            id,
                            ModelUser {
                                name,
                                password,
                                second_factor: None,
                                passkeys: Vec::new(),
                                identity: None,
                                summary: None,
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
                    _ => return reject(UserCommandError::LinkInvalid),
                };
                self.links.remove(&hash.0);
                self.sessions.retain(|_, session| session.user != user);
                if self.users[&user].second_factor.is_some() {
                    return Ok(ExpectedAnswer::User(user));
                }
                Ok(self.open(id(), user, session, now))
            }
            UserCommand::SignIn(SignIn {
                user: UserId(user),
                proof,
                session,
            }) => {
                match proof {
                    SignInProof::Password {
                        verified,
                        rehashed,
                        second_factor,
                    } => {
                        self.check_sign_in(*user, Some(verified))?;
                        let stored = self.users.get_mut(user).unwrap();
                        if let Some(stored_factor) = &mut stored.second_factor
                            && !use_proof(stored_factor, second_factor.as_ref())
                        {
                            return reject(UserCommandError::SignInRefused);
                        }
                        if let Some(rehashed) = rehashed {
                            stored.password = Some(rehashed.as_str().into());
                        }
                    }
                    SignInProof::Passkey { id, counter } => {
                        self.check_sign_in(*user, None)?;
                        let passkeys = &mut self.users.get_mut(user).unwrap().passkeys;
                        let found = passkeys.iter_mut().find(|(of, _)| of == id.as_bytes());
                        match found {
                            Some((_, last)) if (*last, *counter) == (0, 0) || counter > last => {
                                *last = *counter;
                            }
                            _ => return reject(UserCommandError::SignInRefused),
                        }
                    }
                    SignInProof::Provider(identity) => {
                        self.check_sign_in(*user, None)?;
                        if self.users[user].identity != Some(identity_parts(identity)) {
                            return reject(UserCommandError::SignInRefused);
                        }
                    }
                }
                Ok(self.open(id(), *user, session, now))
            }
            UserCommand::RecordSessionUse(SessionUse {
                session: SessionId(id),
                idle_secs,
                verified_password,
                ..
            }) => {
                let user = self
                    .sessions
                    .get(id)
                    .map(|session| session.user)
                    .ok_or(CommandError::NotFound)?;
                if verified_password.is_some() {
                    self.check_sign_in(user, verified_password.as_ref())?;
                }
                let session = self.sessions.get_mut(id).unwrap();
                assert!(session.expires > now, "simulations use no expired session");
                session.seen = now;
                session.expires = (now + idle_secs * SECOND).min(session.created + HALF_A_YEAR);
                session.confirmed = verified_password
                    .as_ref()
                    .map(|_| now)
                    .or(session.confirmed);
                Ok(ExpectedAnswer::Session(*id))
            }
            UserCommand::CloseSessions { user, selection } => {
                self.close(user.0, *selection);
                Ok(ExpectedAnswer::Done)
            }
            UserCommand::RecordSummary { user, result } => {
                let id = user.0;
                let user = self.users.get_mut(&id).ok_or(CommandError::NotFound)?;
                let Some(summary) = &mut user.summary else {
                    return Ok(ExpectedAnswer::Done);
                };
                let covered = result.covered_until.map_or(i64::MIN, Timestamp::micros);
                summary.covered_until = summary.covered_until.max(covered);
                if let Some(sent) = result.sent {
                    summary.sent = Some(sent.micros());
                }
                summary.failure = result.failure.as_deref().map(String::from);
                Ok(ExpectedAnswer::User(id))
            }
            UserCommand::RepeatSummary { user, period } => {
                let id = user.0;
                let user = self.users.get_mut(&id).ok_or(CommandError::NotFound)?;
                let summary = user.summary.as_mut().ok_or(CommandError::NotFound)?;
                summary.covered_until = summary.covered_until.min(period.start.micros());
                Ok(ExpectedAnswer::User(id))
            }
            UserCommand::RemoveExpired => Ok(ExpectedAnswer::Done),
        }
    }

    fn update(
        &mut self,
        id: u64,
        changes: &UserChanges,
        requested_by: Option<SessionId>,
        projects: &BTreeSet<u64>,
        now: i64,
    ) -> UserResult {
        let mut user = self.users.get(&id).ok_or(CommandError::NotFound)?.clone();
        if let Some(name) = &changes.name {
            if self.find_by_name(name).is_some_and(|other| other != id) {
                return reject(UserCommandError::NameTaken);
            }
            user.name = name.as_str().into();
        }
        if let Some(grant) = &changes.grant {
            user.projects = expected_grant(grant, projects)?;
        }
        user.disabled = changes.disabled.unwrap_or(user.disabled);
        if (user.projects.is_some() || user.disabled) && self.is_last_owner(id) {
            return reject(UserCommandError::LastOwner);
        }
        if let Some(preferences) = &changes.preferences {
            user.is_dark = preferences.theme == Theme::Dark;
        }
        match (&changes.summary, &mut user.summary) {
            (Some(Some(new)), Some(old)) if old.interval == new.interval => {
                old.address = new.address.as_str().into();
            }
            (Some(new), _) => {
                user.summary = new.as_ref().map(|new| ModelSummary {
                    interval: new.interval,
                    address: new.address.as_str().into(),
                    covered_until: now,
                    sent: None,
                    failure: None,
                });
            }
            (None, _) => {}
        }
        let had_second_factor = user.second_factor.is_some();
        if let Some(second_factor) = &changes.second_factor {
            user.second_factor = second_factor.as_ref().map(second_factor_parts);
        }
        match &changes.passkeys {
            Some(PasskeyChange::Add(_)) if user.passkeys.len() == MAX_PASSKEYS => {
                return reject(UserCommandError::TooManyPasskeys);
            }
            Some(PasskeyChange::Add(passkey)) => {
                let id = passkey.id.as_bytes();
                let mut all = self.users.values().flat_map(|user| &user.passkeys);
                if all.any(|(other, _)| other == id) {
                    return reject(UserCommandError::PasskeyTaken);
                }
                user.passkeys.push((id.to_vec(), passkey.counter));
            }
            Some(PasskeyChange::Remove(id)) => {
                user.passkeys.retain(|(other, _)| other != id.as_bytes());
            }
            Some(PasskeyChange::RemoveAll) => user.passkeys.clear(),
            None => {}
        }
        if let Some(identity) = &changes.identity {
            let parts = identity.as_ref().map(identity_parts);
            let is_taken = |(other, user): (&u64, &ModelUser)| {
                *other != id && parts.is_some() && user.identity == parts
            };
            if self.users.iter().any(is_taken) {
                return reject(UserCommandError::IdentityTaken);
            }
            user.identity = parts;
        }
        if let Some(password) = &changes.password {
            user.password = Some(password.as_str().into());
        }
        // Adding a second factor ends the sessions that began without it.
        if changes.password.is_some() || !had_second_factor && user.second_factor.is_some() {
            self.close(
                id,
                requested_by.map_or(SessionSelection::All, SessionSelection::AllBut),
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

    fn open(&mut self, id: u64, user: u64, session: &NewSession, now: i64) -> ExpectedAnswer {
        let expires = now + (session.idle_secs * SECOND).min(HALF_A_YEAR);
        self.sessions.insert(
            id,
            ModelSession {
                hash: session.hash.0,
                user,
                created: now,
                seen: now,
                confirmed: Some(now),
                expires,
            },
        );
        ExpectedAnswer::Session(id)
    }

    fn close(&mut self, user: u64, selection: SessionSelection) {
        self.sessions.retain(|id, session| {
            let is_kept = match selection {
                SessionSelection::One(one) => one.0 != *id,
                SessionSelection::AllBut(one) => one.0 == *id,
                SessionSelection::All => false,
            };
            session.user != user || is_kept
        });
    }

    fn check_sign_in(
        &self,
        user: u64,
        verified_password: Option<&PasswordHash>,
    ) -> Result<(), CommandError> {
        let user = self.users.get(&user).ok_or(CommandError::NotFound)?;
        let is_other = verified_password.is_some_and(|verified_password| {
            user.password.as_deref() != Some(verified_password.as_str())
        });
        if user.disabled || is_other {
            Err(CommandError::User(UserCommandError::SignInRefused))
        } else {
            Ok(())
        }
    }

    fn find_by_name(&self, name: &UserName) -> Option<u64> {
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

    /// Compares memory with the model. Expired objects may exist or not.
    pub(crate) fn verify(&self, state: &State, now: i64) -> Result<(), String> {
        let found: BTreeMap<_, _> = state
            .users
            .iter()
            .map(|user| (user.id.0, model_user_of(user)))
            .collect();
        same!(found, self.users, "users");
        let latest = self.latest.max(now);
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
                    confirmed: session.confirmed.map(Timestamp::micros),
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
            .filter(|(_, session)| session.expires > latest)
        {
            let disabled = self.users[&session.user].disabled;
            let found = state
                .users
                .session(&SecretHash(session.hash), now)
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
            .filter(|(_, (_, expires))| *expires > latest)
        {
            let purpose = of.map_or(LinkPurpose::Setup, |user| {
                LinkPurpose::Password(UserId(user))
            });
            let found = state
                .users
                .link(&SecretHash(*hash), now)
                .map(|link| (link.purpose, link.expires.micros()));
            same!(found, Some((purpose, *expires)), "link of a hash");
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
    let second_factor = user.second_factor.as_ref().map(second_factor_parts);
    ModelUser {
        name: user.name.as_str().into(),
        password,
        second_factor,
        passkeys: user
            .passkeys
            .iter()
            .map(|passkey| (passkey.id.as_bytes().to_vec(), passkey.counter))
            .collect(),
        identity: user.identity.as_ref().map(identity_parts),
        summary: user.summary.as_ref().map(|summary| ModelSummary {
            interval: summary.settings.interval,
            address: summary.settings.address.as_str().into(),
            covered_until: summary.covered_until.micros(),
            sent: summary.last_sent.map(Timestamp::micros),
            failure: summary.failure.as_deref().map(String::from),
        }),
        projects,
        is_dark: user.preferences.theme == Theme::Dark,
        disabled: user.disabled,
    }
}

fn identity_parts(identity: &ExternalIdentity) -> (String, String) {
    (identity.issuer().into(), identity.subject().into())
}

fn second_factor_parts(second_factor: &SecondFactor) -> ([u8; 20], u64, Vec<[u8; 32]>) {
    (
        *second_factor.secret.as_bytes(),
        second_factor.last_used_step,
        second_factor
            .recovery_hashes
            .iter()
            .map(|hash| hash.0)
            .collect(),
    )
}

/// Consumes a proof. Returns false if it is invalid.
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

/// Valid hashes, so that exported users can be imported.
const PASSWORDS: [&str; 3] = [
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$BBBBBBBBBBBBBBBBBBBBBA",
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CCCCCCCCCCCCCCCCCCCCCA",
];

fn external_identity(rng: &SeededRng) -> ExternalIdentity {
    let subject = rng.pick(&["one", "two", "three"]);
    ExternalIdentity::new("https://id.example.org", subject).unwrap()
}

fn summary_settings(rng: &SeededRng) -> SummarySettings {
    SummarySettings {
        interval: rng.pick(&SummaryInterval::ALL),
        address: MailAddress::parse(rng.pick(&["a@example.org", "b@example.org"])).unwrap(),
        projects: [].into(),
    }
}

/// Returns a random command about users. It uses no link or session that has ever expired.
pub(crate) fn random_command(
    rng: &SeededRng,
    model: &ModelUsers,
    project: ProjectId,
) -> UserCommand {
    let hash = |rng: &SeededRng| SecretHash(rng.random().bytes());
    let password = |rng: &SeededRng| PasswordHash::new(rng.pick(&PASSWORDS));
    let name =
        |rng: &SeededRng| UserName::parse(rng.pick(&["ann", "Ann", "bob", "eve", "EVE"])).unwrap();
    let preferences = |rng: &SeededRng| UserPreferences {
        theme: rng.pick(&[Theme::Dark, Theme::Light]),
        ..UserPreferences::default()
    };
    let days = |rng: &SeededRng| rng.pick(&[1, 30, 400]) * 86_400;
    let grant = |rng: &SeededRng| {
        let project = (project, rng.pick(&Membership::ALL));
        if rng.chance(40) {
            Grant::Owner
        } else {
            Grant::Projects(ProjectMemberships::new(rng.optional(80, |_| project)))
        }
    };
    let session = |rng: &SeededRng| NewSession {
        hash: hash(rng),
        user_agent: "browser".into(),
        address: [192, 0, 2, rng.below(4) as u8].into(),
        idle_secs: days(rng),
    };
    let secret = |rng: &SeededRng| TotpSecret::new([rng.below(2) as u8; 20]);
    let code = |rng: &SeededRng| SecretHash([rng.below(4) as u8; 32]);
    let second_factor = |rng: &SeededRng| SecondFactor {
        secret: secret(rng),
        last_used_step: rng.below(9),
        recovery_hashes: [0, 1, 2].map(|n| SecretHash([n; 32])).into(),
    };
    let proof = |rng: &SeededRng| match rng.chance(60) {
        true => SecondFactorProof::Code {
            secret: secret(rng),
            step: rng.below(12),
        },
        false => SecondFactorProof::Recovery(code(rng)),
    };
    let passkey_id = |rng: &SeededRng| PasskeyId::new(&[rng.below(9) as u8]).unwrap();
    let passkey_change = |rng: &SeededRng| match rng.below(10) {
        0 => PasskeyChange::RemoveAll,
        1..4 => PasskeyChange::Remove(passkey_id(rng)),
        _ => PasskeyChange::Add(Box::new(Passkey {
            id: passkey_id(rng),
            name: PasskeyName::parse("phone").unwrap(),
            public_key: PasskeyPublicKey::new(&[1, 2, 3]).unwrap(),
            counter: rng.below(3) as u32,
            created: Timestamp::from_secs(1),
            last_used: None,
        })),
    };
    let random_id = |ids: Vec<u64>| if ids.is_empty() { 0 } else { rng.pick(&ids) };
    let user = UserId(random_id(model.users.keys().copied().collect()));
    let verified_password = |rng: &SeededRng| {
        let known = model
            .users
            .get(&user.0)
            .and_then(|user| user.password.as_deref());
        PasswordHash::new(known.filter(|_| rng.chance(80)).unwrap_or(PASSWORDS[0]))
    };
    let open_sessions = model
        .sessions
        .iter()
        .filter(|(_, session)| session.expires > model.latest + 70 * 86_400 * SECOND);
    let session_id = SessionId(random_id(open_sessions.map(|(id, _)| *id).collect()));
    match rng.below(100) {
        0..15 => UserCommand::Create(NewUser {
            uuid: rng.random().uuid(),
            name: name(rng),
            password: rng.optional(70, password),
            grant: grant(rng),
        }),
        15..35 => {
            let changes = UserChanges {
                name: rng.optional(20, name),
                password: rng.optional(20, password),
                second_factor: rng.optional(20, |rng| rng.optional(70, |rng| second_factor(rng))),
                passkeys: rng.optional(40, passkey_change),
                identity: rng.optional(30, |rng| rng.optional(70, external_identity)),
                grant: rng.optional(30, grant),
                preferences: rng.optional(30, preferences),
                summary: rng.optional(30, |rng| rng.optional(70, summary_settings)),
                disabled: rng.optional(30, |rng| rng.chance(50)),
            };
            UserCommand::Update {
                user,
                changes,
                request_session: rng.optional(50, |_| session_id),
            }
        }
        35..37 => UserCommand::Delete(user),
        37..39 => UserCommand::RecordSummary {
            user,
            result: SummaryResult {
                covered_until: rng.optional(50, |rng| Timestamp::from_secs(rng.below(9) as i64)),
                sent: rng.optional(50, |rng| Timestamp::from_secs(rng.below(9) as i64)),
                failure: rng.optional(30, |_| "the mail server is away".into()),
            },
        },
        39..40 => UserCommand::RepeatSummary {
            user,
            period: SummaryPeriod {
                interval: SummaryInterval::Weekly,
                start: Timestamp::from_secs(rng.below(9) as i64),
                end: Timestamp::from_secs(9),
            },
        },
        40..52 => {
            let purpose = if rng.chance(40) {
                LinkPurpose::Setup
            } else {
                LinkPurpose::Password(user)
            };
            UserCommand::CreateLink {
                purpose,
                hash: hash(rng),
                secs: days(rng),
            }
        }
        52..64 => {
            let valid = model
                .links
                .iter()
                .filter(|(_, (_, expires))| *expires > model.latest + 70 * 86_400 * SECOND);
            let valid: Vec<_> = valid.map(|(hash, (of, _))| (*hash, of.is_none())).collect();
            let (link, is_setup) = if valid.is_empty() {
                (rng.random().bytes(), true)
            } else {
                rng.pick(&valid)
            };
            let first = FirstUser {
                uuid: rng.random().uuid(),
                name: name(rng),
                preferences: preferences(rng),
            };
            let setup = (is_setup != rng.chance(10)).then_some(first);
            UserCommand::RedeemLink(LinkRedemption {
                hash: SecretHash(link),
                first_user: setup,
                password: password(rng),
                session: session(rng),
            })
        }
        64..80 => {
            let proof = if rng.chance(60) {
                SignInProof::Password {
                    verified: verified_password(rng),
                    rehashed: rng.optional(20, password),
                    second_factor: rng.optional(80, proof),
                }
            } else if rng.chance(30) {
                SignInProof::Provider(external_identity(rng))
            } else {
                let known = model.users.get(&user.0).map(|user| &user.passkeys);
                let known = known.filter(|known| !known.is_empty() && rng.chance(80));
                SignInProof::Passkey {
                    id: known.map_or_else(
                        || passkey_id(rng),
                        |known| {
                            PasskeyId::new(&known[rng.below(known.len() as u64) as usize].0)
                                .unwrap()
                        },
                    ),
                    counter: rng.below(6) as u32,
                }
            };
            UserCommand::SignIn(SignIn {
                user,
                proof,
                session: session(rng),
            })
        }
        80..90 => {
            let user = model
                .sessions
                .get(&session_id.0)
                .map(|session| session.user);
            let known = user
                .and_then(|user| model.users.get(&user))
                .and_then(|user| user.password.as_deref());
            let verified_password = rng.optional(50, |rng| {
                PasswordHash::new(known.filter(|_| rng.chance(80)).unwrap_or(PASSWORDS[1]))
            });
            UserCommand::RecordSessionUse(SessionUse {
                session: session_id,
                address: [192, 0, 2, 9].into(),
                idle_secs: days(rng),
                verified_password,
            })
        }
        90..96 => {
            let selection = rng.pick(&[
                SessionSelection::All,
                SessionSelection::One(session_id),
                SessionSelection::AllBut(session_id),
            ]);
            UserCommand::CloseSessions { user, selection }
        }
        _ => UserCommand::RemoveExpired,
    }
}

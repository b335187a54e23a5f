//! Users, sessions and links in the engine: state after a restart, expiry, and single use.

use overdue::domain::ids::{SessionId, UserId};
use overdue::domain::project::SecretHash;
use overdue::domain::user::one_time_link::{LinkCode, LinkPurpose};
use overdue::domain::user::{Grant, PasswordHash, UserName, UserPreferences};
use overdue::engine::command::user::{
    FirstUser, LinkRedemption, NewSession, NewUser, SessionSelection, SessionUse, SignIn,
    SignInProof, UserChanges, UserCommand, UserCommandError,
};
use overdue::engine::command::{Command, CommandError, CommandOutcome};
use overdue::engine::{self, HousekeepingLimits};
use overdue::store::Medium;

use crate::support::engine::TestEngine;

const DAY: i64 = 86_400;
const IDLE: i64 = 30 * DAY;

fn command(command: UserCommand) -> Command {
    Command::User(Box::new(command))
}

fn owner(engine: &TestEngine, name: &str) -> Command {
    let password = Some(PasswordHash::new("first"));
    let uuid = engine.handle.random().uuid();
    command(UserCommand::Create(NewUser {
        uuid,
        name: UserName::parse(name).unwrap(),
        password,
        grant: Grant::Owner,
    }))
}

fn new_session(number: u8) -> NewSession {
    NewSession {
        hash: SecretHash([number; 32]),
        user_agent: "browser".into(),
        address: [192, 0, 2, number].into(),
        idle_secs: IDLE,
    }
}

fn open(user: UserId, number: u8) -> Command {
    let proof = SignInProof::Password {
        verified: PasswordHash::new("first"),
        rehashed: None,
        second_factor: None,
    };
    command(UserCommand::SignIn(SignIn {
        user,
        proof,
        session: new_session(number),
    }))
}

fn user(outcome: CommandOutcome) -> UserId {
    if let CommandOutcome::User(user) = outcome {
        user.id
    } else {
        panic!("{outcome:?}")
    }
}

fn session(outcome: CommandOutcome) -> SessionId {
    if let CommandOutcome::Session(session) = outcome {
        session.id
    } else {
        panic!("{outcome:?}")
    }
}

fn engine_on(medium: &Medium) -> TestEngine {
    TestEngine::open(medium.clone(), HousekeepingLimits::default())
}

/// Returns the user of the session with this number.
fn signed_in(handle: &engine::Handle, number: u8) -> Option<UserId> {
    handle.with_state(|state| {
        state
            .users
            .session(&SecretHash([number; 32]), handle.now())
            .map(|(_, user)| user.id)
    })
}

#[test]
fn a_session_outlives_a_restart_and_ends_when_it_is_not_used() {
    let medium = Medium::memory();
    let mut engine = engine_on(&medium);
    let create = owner(&engine, "ann");
    let ann = user(engine.execute(create));
    let used = session(engine.execute(open(ann, 1)));
    engine.execute(open(ann, 2));
    drop(engine);

    let mut engine = engine_on(&medium);
    assert_eq!(
        [1, 2, 3].map(|number| signed_in(&engine.handle, number)),
        [Some(ann), Some(ann), None]
    );
    engine.clock.advance_secs(29 * DAY);
    let touch = |checked| {
        command(UserCommand::RecordSessionUse(SessionUse {
            session: used,
            address: [192, 0, 2, 9].into(),
            idle_secs: IDLE,
            verified_password: checked,
        }))
    };
    let touched = engine.execute(touch(None));
    let CommandOutcome::Session(touched) = touched else {
        panic!("{touched:?}")
    };
    assert_eq!(
        (touched.last_used, touched.address),
        (engine.handle.now(), [192, 0, 2, 9].into())
    );
    assert!(!touched.is_confirmed(engine.handle.now()));
    engine.clock.advance_secs(2 * DAY);
    assert_eq!(
        [1, 2].map(|number| signed_in(&engine.handle, number)),
        [Some(ann), None]
    );
    assert_eq!(
        engine
            .handle
            .with_state(|state| state.users.sessions_of(ann, engine.handle.now()).count()),
        1
    );

    // Housekeeping removes expired rows when the clock has been right for an hour.
    let rows = |medium: &Medium| {
        overdue::store::Store::open(medium)
            .unwrap()
            .snapshot()
            .unwrap()
            .sessions()
            .unwrap()
            .len()
    };
    for _ in 0..5 {
        engine.clock.advance_secs(3600);
        engine.writer.step(false).unwrap();
    }
    drop(engine);
    assert_eq!(rows(&medium), 1);

    let mut engine = engine_on(&medium);
    engine.clock.advance_secs(150 * DAY);
    let late = engine.batch([touch(None)]).remove(0).unwrap();
    assert_eq!(
        late,
        Err(CommandError::NotFound),
        "an expired session stays unused"
    );
}

#[test]
fn a_new_password_ends_all_other_sessions_and_the_fifty_first_the_oldest() {
    let mut engine = engine_on(&Medium::memory());
    let create = owner(&engine, "ann");
    let ann = user(engine.execute(create));
    for number in 1..=50 {
        engine.clock.advance_secs(1);
        engine.execute(open(ann, number));
    }
    assert_eq!(signed_in(&engine.handle, 1), Some(ann));
    let by = session(engine.execute(open(ann, 51)));
    assert_eq!(
        [1, 2, 51].map(|number| signed_in(&engine.handle, number)),
        [None, Some(ann), Some(ann)]
    );

    let changes = UserChanges {
        password: Some(PasswordHash::new("second")),
        ..UserChanges::default()
    };
    engine.execute(command(UserCommand::Update {
        user: ann,
        changes,
        request_session: Some(by),
    }));
    assert_eq!(
        [2, 50, 51].map(|number| signed_in(&engine.handle, number)),
        [None, None, Some(ann)]
    );
    // A session that was checked against the old password a moment ago is refused.
    let refused = engine.batch([open(ann, 60)]).remove(0).unwrap();
    assert_eq!(
        refused,
        Err(CommandError::User(UserCommandError::SignInRefused))
    );

    let bob = owner(&engine, "bob");
    engine.execute(bob);
    let changes = UserChanges {
        disabled: Some(true),
        ..UserChanges::default()
    };
    engine.execute(command(UserCommand::Update {
        user: ann,
        changes,
        request_session: Some(by),
    }));
    assert_eq!(signed_in(&engine.handle, 51), None);
    engine.execute(command(UserCommand::CloseSessions {
        user: ann,
        selection: SessionSelection::All,
    }));
}

#[test]
fn a_link_is_valid_once_and_for_a_limited_time() {
    let mut engine = engine_on(&Medium::memory());
    let code = |number: u8| LinkCode::from_random([number; 16]).hash();
    let link = |purpose, number, secs| {
        command(UserCommand::CreateLink {
            purpose,
            hash: code(number),
            secs,
        })
    };
    let redeem = |engine: &TestEngine, number, setup: Option<&str>, session| {
        let uuid = engine.handle.random().uuid();
        let setup = setup.map(|name| FirstUser {
            uuid,
            name: UserName::parse(name).unwrap(),
            preferences: UserPreferences::default(),
        });
        let hash = code(number);
        let password = PasswordHash::new("first");
        let session = new_session(session);
        command(UserCommand::RedeemLink(LinkRedemption {
            hash,
            first_user: setup,
            password,
            session,
        }))
    };
    let spent = Err(CommandError::User(UserCommandError::LinkInvalid));
    engine.execute(link(LinkPurpose::Setup, 1, DAY));
    // A new link replaces it.
    engine.execute(link(LinkPurpose::Setup, 2, DAY));
    let ask: Vec<_> = (0..8)
        .map(|session| {
            redeem(
                &engine,
                if session == 0 { 1 } else { 2 },
                Some("ann"),
                session,
            )
        })
        .collect();
    let answers: Vec<_> = engine.batch(ask).into_iter().map(Result::unwrap).collect();
    assert_eq!(
        answers.iter().filter(|answer| answer.is_ok()).count(),
        1,
        "{answers:?}"
    );
    assert_eq!(
        (&answers[0], signed_in(&engine.handle, 1).is_some()),
        (&spent, true)
    );
    assert_eq!(
        engine
            .batch([link(LinkPurpose::Setup, 3, DAY)])
            .remove(0)
            .unwrap(),
        Err(CommandError::User(UserCommandError::UserExists))
    );

    let ann = signed_in(&engine.handle, 1).unwrap();
    engine.execute(link(LinkPurpose::Password(ann), 4, DAY));
    // A link for a password creates no owner.
    let setup = redeem(&engine, 4, Some("eve"), 20);
    assert_eq!(engine.batch([setup]).remove(0).unwrap(), spent);
    engine.clock.advance_secs(DAY);
    let late = redeem(&engine, 4, None, 20);
    assert_eq!(engine.batch([late]).remove(0).unwrap(), spent);
    engine.execute(link(LinkPurpose::Password(ann), 5, DAY));
    let reset = redeem(&engine, 5, None, 21);
    session(engine.execute(reset));
    assert_eq!(
        [1, 21].map(|number| signed_in(&engine.handle, number)),
        [None, Some(ann)]
    );
}

#[test]
fn the_last_owner_cannot_be_removed() {
    let mut engine = engine_on(&Medium::memory());
    let [ann, bob] = ["ann", "bob"].map(|name| {
        let create = owner(&engine, name);
        user(engine.execute(create))
    });
    let set = |user, changes| {
        command(UserCommand::Update {
            user,
            changes,
            request_session: None,
        })
    };
    let demoted = || UserChanges {
        grant: Some(Grant::Projects(Default::default())),
        ..UserChanges::default()
    };
    let disabled = |disabled| UserChanges {
        disabled: Some(disabled),
        ..UserChanges::default()
    };
    engine.execute(set(bob, disabled(true)));
    let refused = Ok(Err(CommandError::User(UserCommandError::LastOwner)));
    let asked = [
        set(ann, demoted()),
        set(ann, disabled(true)),
        command(UserCommand::Delete(ann)),
    ];
    assert!(
        engine
            .batch(asked)
            .into_iter()
            .all(|answer| answer == refused)
    );
    engine.execute(set(bob, disabled(false)));
    engine.execute(set(ann, demoted()));
    let same = owner(&engine, "ANN");
    assert_eq!(
        engine.batch([same]).remove(0).unwrap(),
        Err(CommandError::User(UserCommandError::NameTaken))
    );
    engine.execute(command(UserCommand::Delete(ann)));
    assert_eq!(
        engine.batch([command(UserCommand::Delete(bob))]).remove(0),
        refused
    );
}

//! Tests of rows of users, sessions and links.

use super::*;
use crate::domain::ids::{LinkId, SessionId, UserId};
use crate::domain::mail_address::MailAddress;
use crate::domain::timezone::Timezone;
use crate::domain::user::one_time_link::{LinkPurpose, OneTimeLink};
use crate::domain::user::passkey::{Passkey, PasskeyId, PasskeyName, PasskeyPublicKey};
use crate::domain::user::preferences::{ListPreferences, SortKey, SortOrder};
use crate::domain::user::saved_filters::{SavedFilter, SavedFilters};
use crate::domain::user::second_factor::{SecondFactor, TotpSecret};
use crate::domain::user::session::Session;
use crate::domain::user::summary::{SummaryInterval, SummarySettings, SummarySubscription};
use crate::domain::user::{
    ExternalIdentity, Grant, Membership, PasswordHash, ProjectMemberships, Theme, User, UserName,
    UserPreferences,
};

fn users() -> [User; 2] {
    let zone = Some(Timezone::parse("Europe/Riga").unwrap());
    let owner = User {
        id: UserId(7),
        uuid: uuid(7),
        name: UserName::parse("Žofie").unwrap(),
        password: Some(PasswordHash::new("$argon2id$x")),
        grant: Grant::Owner,
        second_factor: Some(SecondFactor {
            secret: TotpSecret::new([5; 20]),
            last_used_step: 59_000_000,
            recovery_hashes: [SecretHash([2; 32]), SecretHash([3; 32])].into(),
        }),
        passkeys: [Passkey {
            id: PasskeyId::new(&[1, 200]).unwrap(),
            name: PasskeyName::parse("phone").unwrap(),
            public_key: PasskeyPublicKey::new(&[165, 1]).unwrap(),
            counter: 9,
            created: Timestamp::from_secs(7),
            last_used: Some(Timestamp::from_secs(8)),
        }]
        .into(),
        preferences: UserPreferences {
            zone,
            theme: Theme::Dark,
            shortcuts: false,
            list: ListPreferences {
                order: SortOrder {
                    key: SortKey::Last,
                    is_reversed: true,
                },
                page_size: 1000,
            },
            pinned: [Uuid::from_u128(7)].into(),
            filters: SavedFilters::from_stored(SavedFilter::new("Down", "?status=down")).unwrap(),
        },
        identity: ExternalIdentity::new("https://id", "u"),
        summary: Some(SummarySubscription {
            settings: SummarySettings {
                interval: SummaryInterval::Weekly,
                address: MailAddress::parse("z@example.org").unwrap(),
                projects: [Uuid::from_u128(3)].into(),
            },
            covered_until: Timestamp::from_secs(3),
            last_sent: Some(Timestamp::from_secs(4)),
            failure: Some("full".into()),
        }),
        created: Timestamp::from_secs(5),
        disabled: false,
        browsers_trusted_since: Timestamp::from_secs(6),
    };
    let projects = [
        (ProjectId(1), Membership::Member),
        (ProjectId(3), Membership::ReadOnly),
    ];
    let name = UserName::parse("bob").unwrap();
    let grant = Grant::Projects(ProjectMemberships::new(projects));
    let other = User {
        id: UserId(8),
        name,
        password: None,
        second_factor: None,
        passkeys: [].into(),
        grant,
        preferences: UserPreferences::default(),
        identity: None,
        summary: None,
        disabled: true,
        ..owner.clone()
    };
    [owner, other]
}

fn session() -> Session {
    Session {
        id: SessionId(9),
        hash: SecretHash([9; 32]),
        user: UserId(7),
        created: Timestamp::from_secs(5),
        last_used: Timestamp::from_secs(6),
        confirmed: Some(Timestamp::from_secs(5)),
        expires: Timestamp::from_secs(99),
        user_agent: "browser".into(),
        address: [192, 0, 2, 1].into(),
    }
}

fn links() -> [OneTimeLink; 2] {
    let link = OneTimeLink {
        id: LinkId(10),
        hash: SecretHash([1; 32]),
        purpose: LinkPurpose::Setup,
        expires: Timestamp::from_secs(50),
    };
    [
        link.clone(),
        OneTimeLink {
            id: LinkId(11),
            purpose: LinkPurpose::Password(UserId(8)),
            ..link
        },
    ]
}

pub(super) fn with_users() -> Store {
    let store = store();
    write(&store, |batch| {
        users().iter().try_for_each(|user| batch.put_user(user))?;
        batch.put_session(&session())?;
        links().iter().try_for_each(|link| batch.put_link(link))
    });
    store
}

const ROWS: [(&str, u64); 5] = [
    ("users", 7),
    ("users", 8),
    ("sessions", 9),
    ("links", 10),
    ("links", 11),
];

type UserRows = (Vec<User>, Vec<Session>, Vec<OneTimeLink>);

fn read(store: &Store) -> Result<UserRows, StoreError> {
    let snapshot = store.snapshot()?;
    Ok((snapshot.users()?, snapshot.sessions()?, snapshot.links()?))
}

#[test]
fn users_are_read_as_written_and_missing_after_removal() {
    let store = with_users();
    assert_eq!(
        read(&store).unwrap(),
        (users().into(), vec![session()], links().into())
    );
    write(&store, |batch| {
        batch.remove_user(UserId(7))?;
        batch.remove_session(SessionId(9))?;
        batch.remove_link(LinkId(10))
    });
    assert_eq!(
        read(&store).unwrap(),
        (users()[1..].into(), Vec::new(), links()[1..].into())
    );
}

/// Files contain these bytes. A change to the format of a row needs a new version, and the old
/// versions must stay readable.
#[test]
fn rows_of_users_stay_readable() {
    let store = with_users();
    let hex = |place| {
        row(&store, place)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(ROWS.map(hex), NEWEST);
    for (version, rows) in [
        (1, VERSION_1),
        (2, VERSION_2),
        (3, VERSION_3),
        (4, VERSION_4),
    ] {
        let store = with_users();
        for (place, row) in ROWS.iter().zip(rows) {
            let bytes: Vec<_> = (0..row.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&row[at..at + 2], 16).unwrap())
                .collect();
            put_row(&store, *place, &bytes);
        }
        let [mut owner, mut other] = users();
        owner.passkeys = Box::default();
        owner.summary = None;
        owner.identity = None;
        if version < 4 {
            (owner.preferences.pinned, owner.preferences.filters) =
                (Box::default(), SavedFilters::default());
        }
        if version < 3 {
            (owner.browsers_trusted_since, other.browsers_trusted_since) =
                (Timestamp::default(), Timestamp::default());
        }
        if version == 1 {
            (owner.second_factor, owner.preferences.list) = (None, ListPreferences::default());
        }
        assert_eq!(
            read(&store).unwrap(),
            (vec![owner, other], vec![session()], links().into())
        );
    }
}

/// Version 3 of users.
const VERSION_3: [&str; 5] = [
    concat!(
        "039dc41000000000000000070000000000000007a6c5bd6f666965ab246172676f6e3269642478c0",
        "ab4575726f70652f52696761a46461726bc2ce004c4b40c293dc0014050505050505050505050505",
        "0505050505050505ce038444c092dc00200202020202020202020202020202020202020202020202",
        "020202020202020202dc002003030303030303030303030303030303030303030303030303030303",
        "03030303a52d6c617374cd03e8ce005b8d80",
    ),
    concat!(
        "039dc41000000000000000070000000000000007a3626f62c0929201c39203c2c0a673797374656d",
        "c3ce004c4b40c3c0c0c0ce005b8d80",
    ),
    VERSION_1[2],
    VERSION_1[3],
    VERSION_1[4],
];

/// Version 4 of users.
const VERSION_4: [&str; 5] = [
    concat!(
        "049fc41000000000000000070000000000000007a6c5bd6f666965ab246172676f6e3269642478c0",
        "ab4575726f70652f52696761a46461726bc2ce004c4b40c293dc0014050505050505050505050505",
        "0505050505050505ce038444c092dc00200202020202020202020202020202020202020202020202",
        "020202020202020202dc002003030303030303030303030303030303030303030303030303030303",
        "03030303a52d6c617374cd03e8ce005b8d8091c410000000000000000000000000000000079192a4",
        "446f776eac3f7374617475733d646f776e",
    ),
    concat!(
        "049fc41000000000000000070000000000000007a3626f62c0929201c39203c2c0a673797374656d",
        "c3ce004c4b40c3c0c0c0ce005b8d809090",
    ),
    concat!(
        "0198dc0020090909090909090909090909090909090909090909090909090909090909090907ce00",
        "4c4b40ce005b8d80ce004c4b40ce05e69ec0a762726f7773657281a2563494ccc0000201",
    ),
    concat!(
        "0193dc00200101010101010101010101010101010101010101010101010101010101010101c0ce02",
        "faf080",
    ),
    concat!(
        "0193dc0020010101010101010101010101010101010101010101010101010101010101010108ce02",
        "faf080",
    ),
];

/// Version 5 of users.
const NEWEST: [&str; 5] = [
    concat!(
        "05dc0012c41000000000000000070000000000000007a6c5bd6f666965ab246172676f6e32696424",
        "78c0ab4575726f70652f52696761a46461726bc2ce004c4b40c293dc001405050505050505050505",
        "05050505050505050505ce038444c092dc0020020202020202020202020202020202020202020202",
        "0202020202020202020202dc00200303030303030303030303030303030303030303030303030303",
        "030303030303a52d6c617374cd03e8ce005b8d8091c4100000000000000000000000000000000791",
        "92a4446f776eac3f7374617475733d646f776e91969201ccc8a570686f6e6592cca50109ce006acf",
        "c0ce007a120096a67765656b6c79ad7a406578616d706c652e6f726791c410000000000000000000",
        "00000000000003ce002dc6c0ce003d0900a466756c6c92aa68747470733a2f2f6964a175",
    ),
    concat!(
        "05dc0012c41000000000000000070000000000000007a3626f62c0929201c39203c2c0a673797374",
        "656dc3ce004c4b40c3c0c0c0ce005b8d80909090c0c0",
    ),
    VERSION_1[2],
    VERSION_1[3],
    VERSION_1[4],
];

/// Rows of users as version 2 wrote them.
const VERSION_2: [&str; 5] = [
    concat!(
        "029cc41000000000000000070000000000000007a6c5bd6f666965ab246172676f6e3269642478c0",
        "ab4575726f70652f52696761a46461726bc2ce004c4b40c293dc0014050505050505050505050505",
        "0505050505050505ce038444c092dc00200202020202020202020202020202020202020202020202",
        "020202020202020202dc002003030303030303030303030303030303030303030303030303030303",
        "03030303a52d6c617374cd03e8",
    ),
    concat!(
        "029cc41000000000000000070000000000000007a3626f62c0929201c39203c2c0a673797374656d",
        "c3ce004c4b40c3c0c0c0",
    ),
    VERSION_1[2],
    VERSION_1[3],
    VERSION_1[4],
];

const VERSION_1: [&str; 5] = [
    concat!(
        "0199c41000000000000000070000000000000007a6c5bd6f666965ab246172676f6e3269642478c0",
        "ab4575726f70652f52696761a46461726bc2ce004c4b40c2",
    ),
    concat!(
        "0199c41000000000000000070000000000000007a3626f62c0929201c39203c2c0a673797374656d",
        "c3ce004c4b40c3",
    ),
    concat!(
        "0198dc0020090909090909090909090909090909090909090909090909090909090909090907ce00",
        "4c4b40ce005b8d80ce004c4b40ce05e69ec0a762726f7773657281a2563494ccc0000201",
    ),
    "0193dc00200101010101010101010101010101010101010101010101010101010101010101c0ce02faf080",
    "0193dc0020010101010101010101010101010101010101010101010101010101010101010108ce02faf080",
];

#[test]
fn an_unreadable_user_row_is_quarantined() {
    for place in ROWS {
        let store = with_users();
        put_row(&store, place, &[9]);
        let error = read(&store).unwrap_err();
        assert!(
            matches!(&error, StoreError::InvalidRow { table, .. } if *table == place.0),
            "{place:?}: {error}"
        );
        assert_eq!(store.quarantine_unreadable_rows().unwrap(), []);
        let found = inspect(&store);
        assert_eq!((found.problem_count, found.quarantined_rows), (0, 1));
        let (users, sessions, links) = read(&store).unwrap();
        assert_eq!(
            users.len() + sessions.len() + links.len(),
            ROWS.len() - 1,
            "{place:?}"
        );
    }
}

use super::super::super::tests::{options, texts};
use super::*;
use crate::domain::user::PasswordHash;
use crate::import::ProjectSelection;
use crate::import::source_row::SourceTable;

const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";

fn given(more: &[(&str, &str)]) -> SourceRow {
    texts(
        SourceTable::Project,
        &[
            more,
            &[
                ("id", "1"),
                ("code", UUID),
                ("name", "Home"),
                ("owner_id", "5"),
                ("badge_key", "bk-1"),
            ],
        ]
        .concat(),
    )
}

fn owners(limit: &str) -> UserProfiles {
    let user = texts(
        SourceTable::User,
        &[("id", "5"), ("email", "ann@example.org")],
    );
    let profile = texts(
        SourceTable::Profile,
        &[("id", "1"), ("user_id", "5"), ("ping_log_limit", limit)],
    );
    UserProfiles::from_rows(&[user], &[profile]).unwrap()
}

fn made(
    row: &SourceRow,
    options: &ImportOptions,
    owners: &UserProfiles,
    taken: &[&str],
) -> Result<Option<ImportedProject>, RowError> {
    let taken = taken.iter().map(|name| (*name).to_owned()).collect();
    ProjectConverter {
        options,
        owners,
        secret: None,
        secret_verdict: SecretVerdict::default(),
        used_names: taken,
        matched: HashSet::new(),
    }
    .convert_project(row, &mut ImportTally::default())
}

#[test]
fn a_project_gets_an_unused_name() {
    let long = "ž".repeat(150);
    let numbered = "ž".repeat(96) + " (2)";
    for (name, taken, wanted) in [
        ("Home", &[][..], "Home"),
        ("Home", &["Home"], "Home (2)"),
        ("Home", &["Home", "Home (2)"], "Home (3)"),
        ("", &[], "ann@example.org"),
        (&long, &[], &long[..200]),
        (&long, &[&long[..200]], &numbered),
    ] {
        let project = made(&given(&[("name", name)]), &options(), &owners("7"), taken)
            .unwrap()
            .unwrap();
        assert_eq!(
            (
                project.name.as_str(),
                project.ping_log_limit,
                &*project.badge_key
            ),
            (wanted, 7, "bk-1")
        );
    }
}

#[test]
fn errors_of_a_project_are_reported() {
    let nobody = UserProfiles::from_rows(&[], &[]).unwrap();
    let wrong = |more: &[(&str, &str)], owners: &UserProfiles| {
        made(&given(more), &options(), owners, &[])
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        wrong(&[("name", "")], &nobody),
        format!(
            "accounts_project 1: it has no name and no owner; name it with --project {UUID}=NAME"
        )
    );
    assert!(
        wrong(&[("name", "a\nb")], &nobody)
            .contains("no control characters; rename it with --project")
    );
    // Other invalid values are left out.
    let odd = made(
        &given(&[("badge_key", "a/b"), ("api_key", "abc.xyz")]),
        &options(),
        &owners("-1"),
        &[],
    )
    .unwrap()
    .unwrap();
    assert_eq!(
        (&*odd.badge_key, odd.keys.len(), odd.ping_log_limit),
        (UUID, 0, DEFAULT_PING_LOG_LIMIT)
    );
    let named = ImportOptions {
        projects: vec![ProjectSelection {
            source_name: UUID.into(),
            new_name: ProjectName::parse("New").ok(),
        }],
        ..options()
    };
    assert_eq!(
        made(&given(&[("name", "")]), &named, &nobody, &[])
            .unwrap()
            .unwrap()
            .name
            .as_str(),
        "New"
    );
    assert_eq!(
        made(
            &given(&[]),
            &ImportOptions {
                projects: vec![ProjectSelection {
                    source_name: "Other".into(),
                    new_name: None
                }],
                ..options()
            },
            &nobody,
            &[]
        ),
        Ok(None)
    );
}

#[test]
fn users_keep_their_passwords_and_permissions() {
    let mut tally = ImportTally::default();
    let [one, two] = [1, 2].map(Uuid::from_u128);
    let grants = HashMap::from([(
        5,
        vec![
            (two, Membership::ReadOnly),
            (one, Membership::Member),
            (two, Membership::Member),
        ],
    )]);
    let mut read = |more: &[(&str, &str)]| {
        convert_user(
            &texts(
                SourceTable::User,
                &[more, &[("id", "5"), ("email", "Ann@example.org")]].concat(),
            ),
            &grants,
            &owners("100"),
            &mut BTreeSet::new(),
            Timestamp::default(),
            &mut tally,
        )
        .unwrap()
    };
    let hash = |params: &str| {
        format!(
            "$argon2id$v=19${params}$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        )
    };
    let ann = read(&[
        ("password", &format!("argon2{}", hash("m=8,t=1,p=1"))),
        ("is_active", "t"),
    ])
    .unwrap();
    assert_eq!(ann.password, Some(PasswordHash::new(&hash("m=8,t=1,p=1"))));
    // Django's own parameters need more memory than a password hash may use here.
    for params in ["m=102400,t=2,p=8", "m=8,t=1,p=2", "m=8,t=11,p=1"] {
        assert_eq!(
            read(&[("password", &format!("argon2{}", hash(params)))])
                .unwrap()
                .password,
            None,
            "{params}"
        );
    }
    assert_eq!(
        (ann.projects, ann.owner, ann.disabled),
        (
            vec![(one, Membership::Member), (two, Membership::Member)],
            false,
            false
        )
    );
    let owner = read(&[
        ("password", "pbkdf2_sha256$1$a$b"),
        ("is_superuser", "t"),
        ("is_active", "f"),
    ])
    .unwrap();
    assert_eq!(
        (
            owner.password,
            owner.projects.len(),
            owner.owner,
            owner.disabled
        ),
        (None, 0, true, true)
    );
    assert_eq!(read(&[("email", ""), ("username", "")]), None);
    assert_eq!(read(&[("email", &"x".repeat(500))]), None);
    assert_eq!(tally.json()["users"]["dropped"], 2);
    let mut taken = BTreeSet::from(["ann@example.org".into()]);
    let twin = texts(
        SourceTable::User,
        &[("id", "6"), ("email", "ANN@example.org")],
    );
    let mut tally = ImportTally::default();
    assert_eq!(
        convert_user(
            &twin,
            &grants,
            &owners("100"),
            &mut taken,
            Timestamp::default(),
            &mut tally
        ),
        Ok(None)
    );
    let note = tally.json()["users"]["notes"][0]["text"].clone();
    assert_eq!(
        note,
        "\"ANN@example.org\" is not imported: another user has the same address in different \
         letter case"
    );
    for (more, wanted) in [
        (&[("role", "r")][..], Membership::ReadOnly),
        (&[("role", "w")], Membership::Member),
        (&[("role", "m")], Membership::Member),
        (&[("rw", "f")], Membership::ReadOnly),
        (&[("rw", "t")], Membership::Member),
        (&[], Membership::Member),
    ] {
        assert_eq!(
            read_membership(&texts(
                SourceTable::Member,
                &[more, &[("id", "1")]].concat()
            )),
            Ok(wanted)
        );
    }
}

#[test]
fn users_keep_their_reports_zones_and_themes() {
    let user = texts(
        SourceTable::User,
        &[("id", "5"), ("email", "ann@example.org")],
    );
    for (profile, interval, zone, theme) in [
        (
            &[
                ("reports", "weekly"),
                ("tz", "Asia/Tokyo"),
                ("theme", "dark"),
            ][..],
            Some(SummaryInterval::Weekly),
            Some("Asia/Tokyo"),
            Theme::Dark,
        ),
        (
            &[("reports", "monthly"), ("tz", "UTC")],
            Some(SummaryInterval::Monthly),
            None,
            Theme::System,
        ),
        (
            &[("reports", "off"), ("tz", "Mars")],
            None,
            None,
            Theme::System,
        ),
        (
            &[("reports_allowed", "t")],
            Some(SummaryInterval::Monthly),
            None,
            Theme::System,
        ),
        (&[("reports_allowed", "f")], None, None, Theme::System),
    ] {
        let row = texts(
            SourceTable::Profile,
            &[profile, &[("id", "1"), ("user_id", "5")]].concat(),
        );
        let profiles = UserProfiles::from_rows(std::slice::from_ref(&user), &[row]).unwrap();
        let now = Timestamp::from_secs(9);
        let mut tally = ImportTally::default();
        let used = &mut BTreeSet::new();
        let user = convert_user(&user, &HashMap::new(), &profiles, used, now, &mut tally)
            .unwrap()
            .unwrap();
        let summary = user.summary.as_ref();
        assert_eq!(summary.map(|summary| summary.settings.interval), interval);
        if let Some(summary) = summary {
            assert_eq!(
                (summary.settings.address.as_str(), summary.covered_until),
                ("ann@example.org", now)
            );
            let note = tally.json()["users"]["notes"].to_string();
            assert!(note.contains("summary by mail, as before"), "{note}");
        }
        assert_eq!(
            user.preferences.zone.as_ref().map(Timezone::name),
            zone,
            "{profile:?}"
        );
        assert_eq!(user.preferences.theme, theme, "{profile:?}");
    }
}

use super::super::super::tests::{options, texts};
use super::*;
use crate::domain::user::PasswordHash;
use crate::import::Chosen;
use crate::import::rows::Table;

const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";

fn given(more: &[(&str, &str)]) -> Row {
    texts(Table::Project, &[more, &[("id", "1"), ("code", UUID), ("name", "Home"), ("owner_id", "5"), ("badge_key", "bk-1")]].concat())
}

fn owners(limit: &str) -> Owners {
    let user = texts(Table::User, &[("id", "5"), ("email", "ann@example.org")]);
    let profile = texts(Table::Profile, &[("id", "1"), ("user_id", "5"), ("ping_log_limit", limit)]);
    Owners::read(&[user], &[profile]).unwrap()
}

fn made(row: &Row, options: &Options, owners: &Owners, taken: &[&str]) -> Result<Option<ImportedProject>, Complaint> {
    let taken = taken.iter().map(|name| (*name).to_owned()).collect();
    Projects { options, owners, secret: None, proof: Proof::default(), taken, met: HashSet::new() }.project(row, &mut Tally::default())
}

#[test]
fn a_project_gets_a_name_that_is_free() {
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
        let project = made(&given(&[("name", name)]), &options(), &owners("7"), taken).unwrap().unwrap();
        assert_eq!((project.name.as_str(), project.ping_log_limit, &*project.badge_key), (wanted, 7, "bk-1"));
    }
}

#[test]
fn what_is_wrong_with_a_project_is_said() {
    let nobody = Owners::read(&[], &[]).unwrap();
    let wrong = |more: &[(&str, &str)], owners: &Owners| made(&given(more), &options(), owners, &[]).unwrap_err().to_string();
    assert_eq!(
        wrong(&[("name", "")], &nobody),
        format!("accounts_project 1: it has no name, and its owner is not there; say --project {UUID}=NAME")
    );
    assert!(wrong(&[("name", "a\nb")], &nobody).contains("no control characters; say --project"));
    // What is odd beside that is left out.
    let odd = made(&given(&[("badge_key", "a/b"), ("api_key", "abc.xyz")]), &options(), &owners("-1"), &[]).unwrap().unwrap();
    assert_eq!((&*odd.badge_key, odd.keys.len(), odd.ping_log_limit), (UUID, 0, DEFAULT_PING_LOG_LIMIT));
    let named = Options { projects: vec![Chosen { old: UUID.into(), new: ProjectName::parse("New").ok() }], ..options() };
    assert_eq!(made(&given(&[("name", "")]), &named, &nobody, &[]).unwrap().unwrap().name.as_str(), "New");
    assert_eq!(
        made(&given(&[]), &Options { projects: vec![Chosen { old: "Other".into(), new: None }], ..options() }, &nobody, &[]),
        Ok(None)
    );
}

#[test]
fn users_have_what_they_had() {
    let mut tally = Tally::default();
    let [one, two] = [1, 2].map(Uuid::from_u128);
    let grants = HashMap::from([(5, vec![(two, Membership::ReadOnly), (one, Membership::Member), (two, Membership::Member)])]);
    let mut read = |more: &[(&str, &str)]| {
        user(
            &texts(Table::User, &[more, &[("id", "5"), ("email", "Ann@example.org")]].concat()),
            &grants,
            &mut BTreeSet::new(),
            Moment::default(),
            &mut tally,
        )
        .unwrap()
    };
    let hash = |params: &str| format!("$argon2id$v=19${params}$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let ann = read(&[("password", &format!("argon2{}", hash("m=8,t=1,p=1"))), ("is_active", "t")]).unwrap();
    assert_eq!(ann.password, Some(PasswordHash::new(&hash("m=8,t=1,p=1"))));
    // What Django itself hashes with takes more than is given to a password here.
    for params in ["m=102400,t=2,p=8", "m=8,t=1,p=2", "m=8,t=11,p=1"] {
        assert_eq!(read(&[("password", &format!("argon2{}", hash(params)))]).unwrap().password, None, "{params}");
    }
    assert_eq!((ann.projects, ann.owner, ann.disabled), (vec![(one, Membership::Member), (two, Membership::Member)], false, false));
    let owner = read(&[("password", "pbkdf2_sha256$1$a$b"), ("is_superuser", "t"), ("is_active", "f")]).unwrap();
    assert_eq!((owner.password, owner.projects.len(), owner.owner, owner.disabled), (None, 0, true, true));
    assert_eq!(read(&[("email", ""), ("username", "")]), None);
    assert_eq!(read(&[("email", &"x".repeat(500))]), None);
    assert_eq!(tally.json()["users"]["dropped"], 2);
    let mut taken = BTreeSet::from(["ann@example.org".into()]);
    let twin = texts(Table::User, &[("id", "6"), ("email", "ANN@example.org")]);
    let mut tally = Tally::default();
    assert_eq!(user(&twin, &grants, &mut taken, Moment::default(), &mut tally), Ok(None));
    let note = tally.json()["users"]["notes"][0]["text"].clone();
    assert_eq!(note, "\"ANN@example.org\" stays behind: another user has this address but for upper and lower case");
    for (more, wanted) in [
        (&[("role", "r")][..], Membership::ReadOnly),
        (&[("role", "w")], Membership::Member),
        (&[("role", "m")], Membership::Member),
        (&[("rw", "f")], Membership::ReadOnly),
        (&[("rw", "t")], Membership::Member),
        (&[], Membership::Member),
    ] {
        assert_eq!(membership(&texts(Table::Member, &[more, &[("id", "1")]].concat())), Ok(wanted));
    }
}

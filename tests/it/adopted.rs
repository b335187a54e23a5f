//! Keys and badge URLs that another server made with its secret: they go on working, and the secret is forgotten when no key needs it.

use std::collections::BTreeSet;

use overdue::domain::adopted::{Adopted, ForeignSecret, HashedKey, OldBadge};
use overdue::domain::ids::{KeyId, ProjectId};
use overdue::domain::moment::Moment;
use overdue::domain::project::{Access, Key, KeyHash, KeyLabel, Project, ProjectName, Secret};
use overdue::engine::Thresholds;
use overdue::engine::command::{Command, NewKey};
use overdue::store::{Mark, Medium, Store};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use crate::support::dice::Dice;
use crate::support::disk::{Disk, Operation};
use crate::support::engine::Engine;
use crate::support::server::Server;

const WRITES: &str = "hcw_aaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const READS: &str = "hcr_aaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const SECRET: &str = "s3cret";

fn secret(text: &str) -> ForeignSecret {
    ForeignSecret::parse(text).unwrap()
}

/// How a database knows a key.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Known {
    ByHash,
    /// By a digest that this secret made, as one that the secret of this number made.
    ByDigest {
        made_with: &'static str,
        number: u8,
        read_only: bool,
    },
}

/// A key as another server kept it.
fn hashed(text: &str, made_with: &str, number: u8, read_only: bool) -> Secret {
    Secret::Hashed(HashedKey { read_only, secret: number, digest: secret(made_with).digest(text.as_bytes()) })
}

/// Makes a database with project 1, these secrets, and these keys with numbers from 2 on.
fn fill(medium: &Medium, secrets: &[&str], keys: &[Secret]) {
    let store = Store::open(medium).unwrap();
    let batch = store.batch().unwrap();
    let adopted = secrets.iter().fold(Adopted::default(), |adopted, text| adopted.with(&secret(text)).unwrap().0);
    batch.set_adopted(&adopted).unwrap();
    let (id, name, badge_key) = (ProjectId(1), ProjectName::parse("moved").unwrap(), "bk-1");
    let old_badge = Some(OldBadge::of(badge_key, &secret(SECRET)));
    let project = Project {
        id,
        uuid: Uuid::nil(),
        name,
        check_limit: None,
        ping_log_limit: 10,
        badge_key: badge_key.into(),
        old_badge,
        import: None,
    };
    batch.put_project(&project).unwrap();
    for (number, secret) in keys.iter().cloned().enumerate() {
        let (id, label, hint, created) = (KeyId(2 + number as u64), KeyLabel::default(), "hcw_".into(), Moment::from_secs(1));
        batch.put_key(&Key { id, project: ProjectId(1), secret, label, hint, created, used: None }).unwrap();
    }
    batch.set_mark(Mark::NextId, 100).unwrap();
    batch.commit().unwrap();
}

fn step(engine: &mut Engine) {
    assert_eq!(engine.writer.step(false), Ok(true));
}

fn opens(engine: &Engine, text: &str) -> Option<(KeyId, Access)> {
    engine.handle.api_key(text.as_bytes()).map(|key| (key.id, key.secret.access()))
}

/// The numbers of the secrets that are kept.
fn kept(engine: &Engine) -> Vec<u8> {
    engine.handle.with_state(|state| state.adopted.iter().map(|(number, _)| number).collect())
}

#[tokio::test]
async fn keys_of_another_server_open_what_they_opened_there() {
    let medium = Medium::memory();
    let other = "hcw_bbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    let mixed = "hcr_cccccccccccccccccccccccccccc";
    let unmarked = "dddddddddddddddddddddddddddddddd";
    fill(
        &medium,
        &[SECRET],
        &[
            hashed(WRITES, SECRET, 1, false),
            hashed(READS, SECRET, 1, true),
            hashed(other, "another", 1, false),
            hashed(mixed, SECRET, 1, false),
            hashed(unmarked, SECRET, 1, false),
        ],
    );
    let server = Server::start_on(medium, |_| {}).await;
    let page = format!("GET /projects/{}/settings/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", Uuid::nil());
    let unused = async || server.raw(page.as_bytes()).await.text().matches("not used since the import").count();
    assert_eq!(unused().await, 5);
    let is_new = |id: u64| server.handle.with_state(|state| state.key(KeyId(id)).unwrap().is_unused_since_import());
    // At first by their digests, then by their own hashes.
    for round in 0..2 {
        for (key, method, status) in [
            (WRITES, "GET", 200),
            (WRITES, "POST", 201),
            (READS, "GET", 200),
            (READS, "POST", 401),
            (other, "GET", 401),
            (mixed, "GET", 401),
            (unmarked, "GET", 401),
            ("hcw_eeeeeeeeeeeeeeeeeeeeeeeeeeee", "GET", 401),
        ] {
            let answer = server.keyed(key, method, "/api/v3/checks/", "").await;
            assert_eq!(answer.status, status, "round {round}: {key} {method}");
            if status == 401 {
                assert_eq!(answer.json(), json!({ "error": "wrong api key" }));
            }
        }
        // The writer writes it down by itself, beside no request.
        server.clock.advance_secs(1);
        while is_new(2) || is_new(3) {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!([4, 5, 6].map(is_new), [true; 3]);
    assert_eq!(unused().await, 3);
    server.handle.call(Command::RevokeKey(KeyId(2))).await.unwrap().unwrap();
    assert_eq!(server.keyed(WRITES, "GET", "/api/v3/checks/", "").await.status, 401);
    assert_eq!(server.keyed(READS, "GET", "/api/v3/checks/", "").await.status, 200);
    server.stop().await;
}

#[test]
fn a_secret_goes_when_the_last_key_that_needs_it_was_used_or_revoked() {
    let medium = Medium::memory();
    let (two, three) = ("hcw_2222222222222222222222222222", "hcr_3333333333333333333333333333");
    fill(
        &medium,
        &[SECRET, "another"],
        &[hashed(WRITES, SECRET, 1, false), hashed(two, "another", 2, false), hashed(three, "another", 2, true)],
    );
    let mut engine = Engine::open(medium.clone(), Thresholds::default());
    let hour = |engine: &mut Engine| {
        step(engine);
        engine.clock.advance_secs(3601);
        step(engine);
    };
    hour(&mut engine);
    assert_eq!(kept(&engine), [1, 2]);
    assert_eq!(opens(&engine, three), Some((KeyId(4), Access::ReadOnly)));
    hour(&mut engine);
    assert_eq!(kept(&engine), [1, 2], "another key needs it");
    engine.done(Command::RevokeKey(KeyId(3)));
    hour(&mut engine);
    assert_eq!((kept(&engine), opens(&engine, two)), (vec![1], None));
    assert_eq!(opens(&engine, WRITES), Some((KeyId(2), Access::ReadWrite)));
    hour(&mut engine);
    assert!(kept(&engine).is_empty());
    drop(engine);
    let store = Store::open(&medium).unwrap();
    assert!(store.snapshot().unwrap().adopted().unwrap().is_empty());
    drop(store);
    let engine = Engine::open(medium, Thresholds::default());
    assert_eq!((opens(&engine, WRITES), opens(&engine, three)), (Some((KeyId(2), Access::ReadWrite)), Some((KeyId(4), Access::ReadOnly))));
}

#[test]
fn a_first_use_that_is_not_written_leaves_the_key_as_it_was() {
    let disk = Disk::default();
    fill(&disk.medium(), &[SECRET], &[hashed(WRITES, SECRET, 1, false)]);
    for power in [false, true] {
        for after in 0.. {
            let disk = disk.copy();
            let mut engine = Engine::open(disk.medium(), Thresholds::default());
            step(&mut engine);
            if power {
                disk.lose_power(after);
            } else {
                disk.fail(Operation::Write, after);
            }
            assert!(opens(&engine, WRITES).is_some(), "whoever asks does not wait for it");
            step(&mut engine);
            let is_written = engine.handle.is_writable();
            assert!(opens(&engine, WRITES).is_some());
            disk.power_off();
            drop(engine);
            disk.power_on(&Dice::seeded(u64::from(after)));
            let engine = Engine::open(disk.medium(), Thresholds::default());
            let key = engine.handle.with_state(|state| state.key(KeyId(2)).unwrap().clone());
            assert!(key.is_unused_since_import() || key.secret == Secret::ReadWrite(KeyHash::of(WRITES.as_bytes())));
            assert!(opens(&engine, WRITES).is_some());
            if is_written {
                assert!(after > 0 && !key.is_unused_since_import());
                break;
            }
        }
    }
}

#[test]
fn a_key_is_known_anew_once_and_only_by_a_hash_that_no_other_key_has() {
    let medium = Medium::memory();
    fill(&medium, &[SECRET], &[hashed(WRITES, SECRET, 1, false), hashed(READS, SECRET, 1, true)]);
    let mut engine = Engine::open(medium, Thresholds::default());
    let hash = |text: &str| KeyHash::of(text.as_bytes());
    let own = Secret::ReadWrite(hash(READS));
    engine.done(Command::CreateKey(Box::new(NewKey { project: ProjectId(1), secret: own, label: KeyLabel::default(), hint: "".into() })));
    for (key, text) in [(2, WRITES), (2, "something else"), (3, READS), (100, WRITES), (77, WRITES)] {
        engine.done(Command::RehashKey(KeyId(key), hash(text)));
    }
    engine.handle.with_state(|state| {
        let secret = |id: u64| state.key(KeyId(id)).unwrap().secret.clone();
        assert_eq!((secret(2), secret(100)), (Secret::ReadWrite(hash(WRITES)), Secret::ReadWrite(hash(READS))));
        assert_eq!(secret(3), hashed(READS, SECRET, 1, true));
    });
}

#[tokio::test]
async fn badge_urls_of_another_server_show_what_ours_show() {
    let medium = Medium::memory();
    fill(&medium, &[SECRET], &[hashed(WRITES, SECRET, 1, false)]);
    let server = Server::start_on(medium, |_| {}).await;
    let body = json!({ "tags": "x", "timeout": 60, "grace": 60 }).to_string();
    let made = server.keyed(WRITES, "POST", "/api/v3/checks/", &body).await.json();
    assert_eq!(server.get(&format!("/ping/{}", made["uuid"].as_str().unwrap())).await.status, 200);
    server.clock.advance_secs(90);
    let listed = server.keyed(WRITES, "GET", "/api/v3/badges/", "").await.json();
    for (tag, signature, end) in [("x", "Wv_yDCgl", "/x"), ("*", "KWG_fXEJ", "")] {
        for (format, states) in [("svg", ""), ("svg", "-2"), ("json", ""), ("json", "-2"), ("shields", ""), ("shields", "-2")] {
            let name = format!("{format}{}", if states.is_empty() { "3" } else { "" });
            let ours = listed["badges"][tag][&name].as_str().and_then(|url| url.strip_prefix(&server.base)).unwrap();
            let old = format!("/badge/bk-1/{signature}{states}{end}.{format}");
            assert!(ours != old && !ours.contains(signature));
            let (ours, old) = (server.get(ours).await, server.get(&old).await);
            assert_eq!((ours.status, &ours.body, ours.header("content-type")), (200, &old.body, old.header("content-type")), "{name}");
        }
    }
    for wrong in ["bk-1/Wv_yDCgl/y.svg", "bk-1/Wv_yDCgl.svg", "bk-1/Wv_yDCgk/x.svg", "bk-1/KWG_fXEJ/x.json", "bk-2/Wv_yDCgl/x.svg"] {
        assert_eq!(server.get(&format!("/badge/{wrong}")).await.status, 404, "{wrong}");
    }
    server.stop().await;
}

const SECRETS: [&str; 2] = [SECRET, "another"];

fn known() -> impl Strategy<Value = Known> {
    let made_with = prop::sample::select(vec![SECRET, "another", "of nobody"]);
    let by_digest = (made_with, 1_u8..=2, any::<bool>());
    prop_oneof![
        1 => Just(Known::ByHash),
        4 => by_digest.prop_map(|(made_with, number, read_only)| Known::ByDigest { made_with, number, read_only }),
    ]
}

/// What may happen to keys.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Used(usize),
    Revoked(usize),
    AnHourPasses,
    Restart,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0..6_usize).prop_map(Happens::Used),
        1 => (0..6_usize).prop_map(Happens::Revoked),
        1 => Just(Happens::AnHourPasses),
        1 => Just(Happens::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// A key opens what it opened, whatever was used, revoked or restarted before; a secret is there as long as a key needs it.
    #[test]
    fn whatever_happens_a_key_opens_what_it_opened(
        given in prop::collection::vec((known(), any::<bool>()), 1..6),
        happens in prop::collection::vec(happens(), 0..12),
    ) {
        let medium = Medium::memory();
        let texts: Vec<_> = given.iter().enumerate().map(|(n, (_, read_only))| {
            format!("{}{n:028}", HashedKey::prefix(*read_only))
        }).collect();
        let secrets: Vec<_> = given.iter().zip(&texts).map(|((known, read_only), text)| match known {
            Known::ByHash if *read_only => Secret::ReadOnly(KeyHash::of(text.as_bytes())),
            Known::ByHash => Secret::ReadWrite(KeyHash::of(text.as_bytes())),
            Known::ByDigest { made_with, number, read_only } => hashed(text, made_with, *number, *read_only),
        }).collect();
        fill(&medium, &SECRETS, &secrets);
        let mut engine = Engine::open(medium.clone(), Thresholds::default());
        let mut opened: Vec<_> = given.iter().map(|(known, begins_read_only)| match known {
            Known::ByHash => true,
            Known::ByDigest { made_with, number, read_only } => {
                SECRETS[usize::from(*number) - 1] == *made_with && read_only == begins_read_only
            }
        }).collect();
        let mut needs: Vec<_> = given.iter().map(|(known, _)| match known {
            Known::ByHash => None,
            Known::ByDigest { number, .. } => Some(*number),
        }).collect();
        for happens in happens {
            match happens {
                Happens::Used(n) if n < texts.len() => {
                    let found = opens(&engine, &texts[n]);
                    let access = if given[n].1 { Access::ReadOnly } else { Access::ReadWrite };
                    prop_assert_eq!(found, opened[n].then_some((KeyId(2 + n as u64), access)));
                    step(&mut engine);
                    if opened[n] {
                        needs[n] = None;
                    }
                }
                Happens::Revoked(n) if n < texts.len() => {
                    if engine.handle.with_state(|state| state.key(KeyId(2 + n as u64)).is_some()) {
                        engine.done(Command::RevokeKey(KeyId(2 + n as u64)));
                    }
                    (opened[n], needs[n]) = (false, None);
                }
                Happens::AnHourPasses => {
                    step(&mut engine);
                    engine.clock.advance_secs(3601);
                    step(&mut engine);
                    let needed: BTreeSet<u8> = needs.iter().flatten().copied().collect();
                    prop_assert_eq!(kept(&engine), needed.into_iter().collect::<Vec<_>>());
                }
                Happens::Restart => {
                    drop(engine);
                    engine = Engine::open(medium.clone(), Thresholds::default());
                }
                Happens::Used(_) | Happens::Revoked(_) => {}
            }
            let kept = kept(&engine);
            prop_assert!(needs.iter().flatten().all(|number| kept.contains(number)));
            for (n, needed) in needs.iter().enumerate() {
                let is_new = engine.handle.with_state(|state| state.key(KeyId(2 + n as u64)).is_some_and(|key| key.is_unused_since_import()));
                prop_assert_eq!(is_new, needed.is_some(), "key {}", n);
            }
        }
    }
}

//! Keys and badge URLs that another server signed with its secret. They keep working, and the
//! secret is deleted when no key needs it.

use std::collections::BTreeSet;

use overdue::domain::ids::{KeyId, ProjectId};
use overdue::domain::legacy_keys::{LegacyBadgeKey, LegacyKey, LegacySecret, LegacySecrets};
use overdue::domain::project::{
    KeyAccess, KeyLabel, KeySecret, Project, ProjectKey, ProjectName, SecretHash,
};
use overdue::domain::timestamp::Timestamp;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{Command, NewKey};
use overdue::store::{Medium, MetaKey, Store};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use crate::support::disk::{Disk, DiskOperation};
use crate::support::engine::TestEngine;
use crate::support::seeded_rng::SeededRng;
use crate::support::server::TestServer;

const WRITES: &str = "hcw_aaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const READS: &str = "hcr_aaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const SECRET: &str = "s3cret";

fn legacy_secret(text: &str) -> LegacySecret {
    LegacySecret::parse(text).unwrap()
}

/// The form in which a database stores a key.
#[derive(Clone, Copy, PartialEq, Debug)]
enum KeyLookup {
    ByHash,
    /// By a digest made with this secret, stored as a digest of the secret with this number.
    ByDigest {
        made_with: &'static str,
        number: u8,
        read_only: bool,
    },
}

/// A key as another server stored it.
fn hashed_key(text: &str, made_with: &str, number: u8, read_only: bool) -> KeySecret {
    KeySecret::Legacy(LegacyKey {
        read_only,
        secret_number: number,
        digest: legacy_secret(made_with).digest_key(text.as_bytes()),
    })
}

/// Creates a database with project 1, these secrets, and these keys, numbered from 2.
fn fill(medium: &Medium, secrets: &[&str], keys: &[KeySecret]) {
    let store = Store::open(medium).unwrap();
    let batch = store.batch().unwrap();
    let adopted = secrets
        .iter()
        .fold(LegacySecrets::default(), |adopted, text| {
            adopted.with_secret(&legacy_secret(text)).unwrap().0
        });
    batch.set_legacy_secrets(&adopted).unwrap();
    let id = ProjectId(1);
    let name = ProjectName::parse("moved").unwrap();
    let badge_key = "bk-1";
    let old_badge = Some(LegacyBadgeKey::for_project(
        badge_key,
        &legacy_secret(SECRET),
    ));
    let project = Project {
        id,
        uuid: Uuid::nil(),
        name,
        check_limit: None,
        ping_log_limit: 10,
        allows_ping_settings: false,
        badge_key: badge_key.into(),
        legacy_badge: old_badge,
        import: None,
        status_pages: Vec::new(),
    };
    batch.put_project(&project).unwrap();
    for (number, secret) in keys.iter().cloned().enumerate() {
        let id = KeyId(2 + number as u64);
        let label = KeyLabel::default();
        let hint = "hcw_".into();
        let created = Timestamp::from_secs(1);
        batch
            .put_key(&ProjectKey {
                id,
                project: ProjectId(1),
                secret,
                label,
                hint,
                created,
                last_use: None,
            })
            .unwrap();
    }
    batch.set_meta_value(MetaKey::NextId, 100).unwrap();
    batch.commit().unwrap();
}

fn step(engine: &mut TestEngine) {
    assert_eq!(engine.writer.step(false), Ok(true));
}

fn key_access(engine: &TestEngine, text: &str) -> Option<(KeyId, KeyAccess)> {
    engine
        .handle
        .find_api_key(text.as_bytes())
        .map(|key| (key.id, key.secret.access()))
}

/// Numbers of the stored secrets.
fn kept_secret_numbers(engine: &TestEngine) -> Vec<u8> {
    engine.handle.with_state(|state| {
        state
            .legacy_secrets
            .iter()
            .map(|(number, _)| number)
            .collect()
    })
}

#[tokio::test]
async fn keys_of_another_server_keep_their_access() {
    let medium = Medium::memory();
    let other = "hcw_bbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    let mixed = "hcr_cccccccccccccccccccccccccccc";
    let unmarked = "dddddddddddddddddddddddddddddddd";
    fill(
        &medium,
        &[SECRET],
        &[
            hashed_key(WRITES, SECRET, 1, false),
            hashed_key(READS, SECRET, 1, true),
            hashed_key(other, "another", 1, false),
            hashed_key(mixed, SECRET, 1, false),
            hashed_key(unmarked, SECRET, 1, false),
        ],
    );
    let server = TestServer::start_on(medium, |_| {}).await;
    let page = format!(
        "GET /projects/{}/settings/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        Uuid::nil()
    );
    let unused = async || {
        server
            .raw(page.as_bytes())
            .await
            .text()
            .matches("not used since the import")
            .count()
    };
    assert_eq!(unused().await, 5);
    let is_new = |id: u64| {
        server
            .handle
            .with_state(|state| state.key(KeyId(id)).unwrap().is_unused_since_import())
    };
    // First by their digests, then by their own hashes.
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
        // The writer stores this by itself, without a request.
        server.clock.advance_secs(1);
        while is_new(2) || is_new(3) {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!([4, 5, 6].map(is_new), [true; 3]);
    assert_eq!(unused().await, 3);
    server
        .handle
        .call(Command::RevokeKey(KeyId(2)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        server
            .keyed(WRITES, "GET", "/api/v3/checks/", "")
            .await
            .status,
        401
    );
    assert_eq!(
        server
            .keyed(READS, "GET", "/api/v3/checks/", "")
            .await
            .status,
        200
    );
    server.stop().await;
}

#[test]
fn a_secret_is_deleted_when_the_last_key_that_needs_it_was_used_or_revoked() {
    let medium = Medium::memory();
    let two = "hcw_2222222222222222222222222222";
    let three = "hcr_3333333333333333333333333333";
    fill(
        &medium,
        &[SECRET, "another"],
        &[
            hashed_key(WRITES, SECRET, 1, false),
            hashed_key(two, "another", 2, false),
            hashed_key(three, "another", 2, true),
        ],
    );
    let mut engine = TestEngine::open(medium.clone(), HousekeepingLimits::default());
    let hour = |engine: &mut TestEngine| {
        step(engine);
        engine.clock.advance_secs(3601);
        step(engine);
    };
    hour(&mut engine);
    assert_eq!(kept_secret_numbers(&engine), [1, 2]);
    assert_eq!(
        key_access(&engine, three),
        Some((KeyId(4), KeyAccess::ReadOnly))
    );
    hour(&mut engine);
    assert_eq!(kept_secret_numbers(&engine), [1, 2], "another key needs it");
    engine.execute(Command::RevokeKey(KeyId(3)));
    hour(&mut engine);
    assert_eq!(
        (kept_secret_numbers(&engine), key_access(&engine, two)),
        (vec![1], None)
    );
    assert_eq!(
        key_access(&engine, WRITES),
        Some((KeyId(2), KeyAccess::ReadWrite))
    );
    hour(&mut engine);
    assert!(kept_secret_numbers(&engine).is_empty());
    drop(engine);
    let store = Store::open(&medium).unwrap();
    assert!(
        store
            .snapshot()
            .unwrap()
            .legacy_secrets()
            .unwrap()
            .is_empty()
    );
    drop(store);
    let engine = TestEngine::open(medium, HousekeepingLimits::default());
    assert_eq!(
        (key_access(&engine, WRITES), key_access(&engine, three)),
        (
            Some((KeyId(2), KeyAccess::ReadWrite)),
            Some((KeyId(4), KeyAccess::ReadOnly))
        )
    );
}

#[test]
fn a_first_use_that_is_not_written_leaves_the_key_unchanged() {
    let disk = Disk::default();
    fill(
        &disk.medium(),
        &[SECRET],
        &[hashed_key(WRITES, SECRET, 1, false)],
    );
    for power in [false, true] {
        for after in 0.. {
            let disk = disk.copy();
            let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
            step(&mut engine);
            if power {
                disk.lose_power_after(after);
            } else {
                disk.fail_after(DiskOperation::Write, after);
            }
            assert!(
                key_access(&engine, WRITES).is_some(),
                "the request does not wait for it"
            );
            step(&mut engine);
            let is_written = engine.handle.is_writable();
            assert!(key_access(&engine, WRITES).is_some());
            disk.power_off();
            drop(engine);
            disk.power_on(&SeededRng::seeded(u64::from(after)));
            let engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
            let key = engine
                .handle
                .with_state(|state| state.key(KeyId(2)).unwrap().clone());
            assert!(
                key.is_unused_since_import()
                    || key.secret == KeySecret::ReadWrite(SecretHash::of(WRITES.as_bytes()))
            );
            assert!(key_access(&engine, WRITES).is_some());
            if is_written {
                assert!(after > 0 && !key.is_unused_since_import());
                break;
            }
        }
    }
}

#[test]
fn a_key_is_rehashed_once_and_only_if_no_other_key_has_the_hash() {
    let medium = Medium::memory();
    fill(
        &medium,
        &[SECRET],
        &[
            hashed_key(WRITES, SECRET, 1, false),
            hashed_key(READS, SECRET, 1, true),
        ],
    );
    let mut engine = TestEngine::open(medium, HousekeepingLimits::default());
    let hash = |text: &str| SecretHash::of(text.as_bytes());
    let own_hash = KeySecret::ReadWrite(hash(READS));
    engine.execute(Command::CreateKey(Box::new(NewKey {
        project: ProjectId(1),
        secret: own_hash,
        label: KeyLabel::default(),
        hint: "".into(),
    })));
    for (key, text) in [
        (2, WRITES),
        (2, "something else"),
        (3, READS),
        (100, WRITES),
        (77, WRITES),
    ] {
        engine.execute(Command::RehashKey(KeyId(key), hash(text)));
    }
    engine.handle.with_state(|state| {
        let secret = |id: u64| state.key(KeyId(id)).unwrap().secret.clone();
        assert_eq!(
            (secret(2), secret(100)),
            (
                KeySecret::ReadWrite(hash(WRITES)),
                KeySecret::ReadWrite(hash(READS))
            )
        );
        assert_eq!(secret(3), hashed_key(READS, SECRET, 1, true));
    });
}

#[tokio::test]
async fn badge_urls_of_another_server_show_the_same_badges_as_ours() {
    let medium = Medium::memory();
    fill(&medium, &[SECRET], &[hashed_key(WRITES, SECRET, 1, false)]);
    let server = TestServer::start_on(medium, |_| {}).await;
    let body = json!({ "tags": "x", "timeout": 60, "grace": 60 }).to_string();
    let answer = server
        .keyed(WRITES, "POST", "/api/v3/checks/", &body)
        .await
        .json();
    assert_eq!(
        server
            .get(&format!("/ping/{}", answer["uuid"].as_str().unwrap()))
            .await
            .status,
        200
    );
    server.clock.advance_secs(90);
    let listed = server
        .keyed(WRITES, "GET", "/api/v3/badges/", "")
        .await
        .json();
    for (tag, signature, end) in [("x", "Wv_yDCgl", "/x"), ("*", "KWG_fXEJ", "")] {
        for (format, states) in [
            ("svg", ""),
            ("svg", "-2"),
            ("json", ""),
            ("json", "-2"),
            ("shields", ""),
            ("shields", "-2"),
        ] {
            let name = format!("{format}{}", if states.is_empty() { "3" } else { "" });
            let ours = listed["badges"][tag][&name]
                .as_str()
                .and_then(|url| url.strip_prefix(&server.base))
                .unwrap();
            let old = format!("/badge/bk-1/{signature}{states}{end}.{format}");
            assert!(ours != old && !ours.contains(signature));
            let ours = server.get(ours).await;
            let old = server.get(&old).await;
            assert_eq!(
                (ours.status, &ours.body, ours.header("content-type")),
                (200, &old.body, old.header("content-type")),
                "{name}"
            );
        }
    }
    for wrong in [
        "bk-1/Wv_yDCgl/y.svg",
        "bk-1/Wv_yDCgl.svg",
        "bk-1/Wv_yDCgk/x.svg",
        "bk-1/KWG_fXEJ/x.json",
        "bk-2/Wv_yDCgl/x.svg",
    ] {
        assert_eq!(
            server.get(&format!("/badge/{wrong}")).await.status,
            404,
            "{wrong}"
        );
    }
    server.stop().await;
}

const SECRETS: [&str; 2] = [SECRET, "another"];

fn key_lookups() -> impl Strategy<Value = KeyLookup> {
    let made_with = prop::sample::select(vec![SECRET, "another", "unknown"]);
    let by_digest = (made_with, 1_u8..=2, any::<bool>());
    prop_oneof![
        1 => Just(KeyLookup::ByHash),
        4 => by_digest.prop_map(|(made_with, number, read_only)| {
            KeyLookup::ByDigest { made_with, number, read_only }
        }),
    ]
}

/// An event in the life of a key.
#[derive(Clone, Copy, Debug)]
enum KeyEvent {
    Used(usize),
    Revoked(usize),
    AnHourPasses,
    Restart,
}

fn key_events() -> impl Strategy<Value = KeyEvent> {
    prop_oneof![
        4 => (0..6_usize).prop_map(KeyEvent::Used),
        1 => (0..6_usize).prop_map(KeyEvent::Revoked),
        1 => Just(KeyEvent::AnHourPasses),
        1 => Just(KeyEvent::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// An imported key keeps its access across uses, revocations and restarts. The secret of the
    /// other server is stored as long as a key needs it.
    #[test]
    fn an_imported_key_keeps_its_access_after_any_events(
        keys in prop::collection::vec((key_lookups(), any::<bool>()), 1..6),
        events in prop::collection::vec(key_events(), 0..12),
    ) {
        let medium = Medium::memory();
        let texts: Vec<_> = keys.iter().enumerate().map(|(n, (_, read_only))| {
            format!("{}{n:028}", LegacyKey::prefix(*read_only))
        }).collect();
        let secrets: Vec<_> = keys.iter().zip(&texts).map(|((lookup, read_only), text)| {
            let hash = SecretHash::of(text.as_bytes());
            match lookup {
                KeyLookup::ByHash if *read_only => KeySecret::ReadOnly(hash),
                KeyLookup::ByHash => KeySecret::ReadWrite(hash),
                KeyLookup::ByDigest { made_with, number, read_only } => {
                    hashed_key(text, made_with, *number, *read_only)
                }
            }
        }).collect();
        fill(&medium, &SECRETS, &secrets);
        let mut engine = TestEngine::open(medium.clone(), HousekeepingLimits::default());
        let mut opened: Vec<_> = keys.iter().map(|(lookup, begins_read_only)| match lookup {
            KeyLookup::ByHash => true,
            KeyLookup::ByDigest { made_with, number, read_only } => {
                SECRETS[usize::from(*number) - 1] == *made_with && read_only == begins_read_only
            }
        }).collect();
        let mut needs: Vec<_> = keys.iter().map(|(lookup, _)| match lookup {
            KeyLookup::ByHash => None,
            KeyLookup::ByDigest { number, .. } => Some(*number),
        }).collect();
        for event in events {
            match event {
                KeyEvent::Used(n) if n < texts.len() => {
                    let found = key_access(&engine, &texts[n]);
                    let access = if keys[n].1 {
                        KeyAccess::ReadOnly
                    } else {
                        KeyAccess::ReadWrite
                    };
                    prop_assert_eq!(found, opened[n].then_some((KeyId(2 + n as u64), access)));
                    step(&mut engine);
                    if opened[n] {
                        needs[n] = None;
                    }
                }
                KeyEvent::Revoked(n) if n < texts.len() => {
                    if engine.handle.with_state(|state| state.key(KeyId(2 + n as u64)).is_some()) {
                        engine.execute(Command::RevokeKey(KeyId(2 + n as u64)));
                    }
                    (opened[n], needs[n]) = (false, None);
                }
                KeyEvent::AnHourPasses => {
                    step(&mut engine);
                    engine.clock.advance_secs(3601);
                    step(&mut engine);
                    let needed: BTreeSet<u8> = needs.iter().flatten().copied().collect();
                    let needed: Vec<_> = needed.into_iter().collect();
                    prop_assert_eq!(kept_secret_numbers(&engine), needed);
                }
                KeyEvent::Restart => {
                    drop(engine);
                    engine = TestEngine::open(medium.clone(), HousekeepingLimits::default());
                }
                KeyEvent::Used(_) | KeyEvent::Revoked(_) => {}
            }
            let kept = kept_secret_numbers(&engine);
            prop_assert!(needs.iter().flatten().all(|number| kept.contains(number)));
            for (n, needed) in needs.iter().enumerate() {
                let is_new = engine.handle.with_state(|state| {
                    let key = state.key(KeyId(2 + n as u64));
                    key.is_some_and(|key| key.is_unused_since_import())
                });
                prop_assert_eq!(is_new, needed.is_some(), "key {}", n);
            }
        }
    }
}

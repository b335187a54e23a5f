//! Additional contents of files of layout 11 and later: imported projects, one of them on trial, an
//! unfinished import, and declared objects.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use overdue::config;
use overdue::domain::ids::CheckId;
use overdue::domain::import_item::{ImportItemCounts, ImportMode, NumberedFlip};
use overdue::domain::legacy_keys::{LegacyBadgeKey, LegacySecret};
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::import::ImportFinishOptions;
use overdue::engine::state::State;
use overdue::import::environment::ServerEnvironment;
use overdue::import::{
    ImportLogEntry, ImportOptions, ImportSource, PingLogSelection, SourceReader, numbering,
};
use overdue::operations::import;
use overdue::store::{FILE_NAME, Medium, MetaKey, Store};
use overdue::util::random::Random;
use redb::{ReadableDatabase as _, TableDefinition};
use serde_json::{Value, json};

use super::{LAYOUTS, LayoutServer, copy_layout, get};
use crate::config::{ALLOW_ALL, parse_document};
use crate::support::engine::TestEngine;

/// Layouts whose files have these contents.
pub(super) const LAYOUTS_WITH_IMPORTS: [&str; 5] = ["11", "12", "16", "17", "18"];

const SECRET: &str = "s3cret-of-the-old-server";
/// Keys: one imported together with its plain text, one imported as a digest and used since, and
/// one imported as a digest and unused.
const KEYS: [&str; 3] = [
    "moved-key-aaaaaaaaaaaaaaaaaaaaaa",
    "hcw_bbbbbbbbbbbbbbbbbbbbbbbbbbbb",
    "hcr_cccccccccccccccccccccccccccc",
];
/// Badge keys of the imported projects.
const BADGE_KEYS: [&str; 2] = ["bk-1", "bk-2"];
/// Number of pings of the unfinished import.
const STAGED_PINGS: u64 = 5;
const AT: &str = "2026-11-20T09:58:00.123Z";

const DECLARED: &str = r#"
version = 1
source = "homelab"
[project.main.check.backup]
name = "Nightly backup"
every = "1h"
grace = "10m"
tags = ["prod"]
channels = ["ops"]
alert = { after = 2, parents = ["router"] }
[project.main.check.router]
every = "5m"
[project.main.window.patchday]
tags = ["prod"]
at = "Sat *-*-1..7 02:00"
for = "2h"
[user.ann]
owner = true
[user.bob]
projects = { main = "read-only" }
"#;

fn digest(key: &str) -> String {
    let digest = LegacySecret::parse(SECRET)
        .unwrap()
        .digest_key(key.as_bytes());
    format!(
        "AAAAAAAA.{}",
        digest
            .0
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    )
}

/// Dump of a server with projects numbered from `first`, by name and keys, each with one check and
/// its pings.
fn dump(first: u32, projects: &[(&str, &str, &str)]) -> String {
    let user = json!({
        "password": "!", "is_superuser": true, "username": "eve", "email": "eve@example.org",
        "is_active": true, "date_joined": AT,
    });
    let mut rows = vec![json!({ "model": "auth.user", "pk": 1, "fields": user })];
    for (pk, (name, key, read_only)) in (first..).zip(projects) {
        let badge_key = BADGE_KEYS.get(pk as usize - 1).copied().unwrap_or("bk-3");
        rows.push(json!({
            "model": "accounts.project", "pk": pk,
            "fields": {
                "name": name, "owner": 1, "badge_key": badge_key,
                "code": format!("00000000-0000-4000-8000-{pk:012}"), "api_key": key,
                "api_key_readonly": read_only, "ping_key": format!("moved-{pk}"),
                "show_slugs": false,
            },
        }));
        rows.push(json!({
            "model": "api.check", "pk": pk,
            "fields": {
                "name": "Moved here", "slug": "moved", "tags": "x", "desc": "ž",
                "code": format!("00000000-0000-4000-9000-{pk:012}"), "project": pk, "created": AT,
                "kind": "simple", "timeout": "1 00:00:00", "grace": "01:00:00", "schedule": "",
                "tz": "UTC", "filter_subject": false, "filter_body": false,
                "filter_http_body": false, "filter_default_fail": false, "start_kw": "",
                "success_kw": "", "failure_kw": "", "methods": "", "manual_resume": false,
                "badge_key": format!("00000000-0000-4000-a000-{pk:012}"), "n_pings": STAGED_PINGS,
                "last_ping": AT, "last_start": null, "last_start_rid": null, "last_duration": null,
                "status": "up",
            },
        }));
        for n in 1..=STAGED_PINGS {
            rows.push(json!({
                "model": "api.ping", "pk": u64::from(pk) * 100 + n,
                "fields": {
                    "n": n, "owner": pk, "created": AT, "kind": "", "scheme": "http",
                    "remote_addr": "192.0.2.9", "method": "POST", "ua": "curl",
                    "body_raw": "Ym9keQ==", "object_size": null, "exitstatus": 0, "rid": null,
                },
            }));
        }
        let flip = json!({
            "owner": pk, "created": AT, "processed": AT, "old_status": "down", "new_status": "up",
            "reason": "",
        });
        rows.push(json!({ "model": "api.flip", "pk": pk, "fields": flip }));
    }
    Value::Array(rows).to_string()
}

/// Uploads a dump, and commits it unless it is to stay unfinished.
async fn upload(site: &LayoutServer, dump: &str, end: Option<ImportMode>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), dump).unwrap();
    let environment = ServerEnvironment::default().with_secret(SECRET);
    let projects = Vec::new();
    let skip = Vec::new();
    let zones = Vec::new();
    let options = ImportOptions {
        projects,
        skipped_checks: skip,
        timezone_map: zones,
        logs: PingLogSelection::All,
        with_users: true,
        environment,
    };
    let mut source = ImportSource::open(file.path(), &Random::seeded(1)).unwrap();
    let mut reading =
        SourceReader::read_objects(&mut source, &options, site.handle.now(), &mut |_| {}).unwrap();
    let import = import::begin(&site.handle, numbering::count_ids(reading.contents()), 1)
        .await
        .unwrap();
    let checks = numbering::check_ids(reading.contents(), import.0);
    let mut pings = Vec::new();
    let mut flips = Vec::new();
    let take = &mut |entry| {
        match entry {
            ImportLogEntry::Ping(ping) => {
                let check = checks[&ping.check];
                pings.push(ping.with_check(check));
            }
            ImportLogEntry::Flip(flip, _) | ImportLogEntry::OrderedFlip(flip) => {
                flips.push(NumberedFlip {
                    check: checks[&flip.check],
                    flip: flip.flip,
                });
            }
        }
        ControlFlow::Continue(())
    };
    reading.read_logs(&mut |_| {}, take).unwrap();
    let (imported, _) = reading.finish();
    let secrets = imported.secrets.clone();
    let items = numbering::number_items(imported, import.0, &Random::seeded(1));
    let mut expected = ImportItemCounts {
        pings: pings.len() as u64,
        flips: flips.len() as u64,
        ..ImportItemCounts::default()
    };
    items.iter().for_each(|thing| expected.count(thing));
    import::add_log_entries(&site.handle, import, pings, flips)
        .await
        .unwrap();
    import::add_items(&site.handle, import, items)
        .await
        .unwrap();
    if let Some(mode) = end {
        import::finish(
            &site.handle,
            import,
            ImportFinishOptions {
                mode,
                legacy_secrets: secrets,
                badge_secret: None,
                expected_counts: expected,
                replace: false,
            },
        )
        .await
        .unwrap();
    }
}

/// Declares objects, imports two projects, one of them on trial, uses a key with a digest, and
/// leaves an import unfinished.
pub(super) async fn fill(site: &LayoutServer) {
    config::apply_config(&site.handle, parse_document(DECLARED), ALLOW_ALL)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let live = ImportMode::Live {
        newest: Some(site.handle.now()),
    };
    let projects = [("Moved", "", ""), ("On trial", "", "")];
    let used = digest(KEYS[1]);
    let unused = digest(KEYS[2]);
    upload(
        site,
        &dump(1, &[(projects[0].0, &used, &unused)]),
        Some(live),
    )
    .await;
    upload(
        site,
        &dump(2, &[(projects[1].0, KEYS[0], "")]),
        Some(ImportMode::Trial),
    )
    .await;
    upload(site, &dump(3, &[("Under way", "", "")]), None).await;
    assert_eq!(get(site, KEYS[1], "/api/v3/checks/").await.0, 200);
    site.settle().await;
}

/// Requests to these contents.
pub(super) fn request_paths() -> Vec<(String, String)> {
    let mut requests = Vec::new();
    for (pk, keys) in [(1, &KEYS[1..]), (2, &KEYS[..1])] {
        let check = format!("00000000-0000-4000-9000-{pk:012}");
        for key in keys {
            for path in ["checks/", "channels/", "badges/"] {
                requests.push(((*key).into(), format!("/api/v3/{path}")));
            }
            requests.push(((*key).into(), format!("/api/v3/checks/{check}/flips/")));
        }
        requests.push((keys[0].into(), format!("/api/v3/checks/{check}/pings/")));
        requests.push((
            keys[0].into(),
            format!("/api/v3/checks/{check}/pings/1/body"),
        ));
    }
    let secret = LegacySecret::parse(SECRET).unwrap();
    for badge_key in BADGE_KEYS {
        for (tag, end) in [(None, ""), (Some("x"), "/x")] {
            let mac = LegacyBadgeKey::for_project(badge_key, &secret).sign_tag(tag);
            let signature = &URL_SAFE_NO_PAD.encode(mac)[..8];
            requests.push((
                String::new(),
                format!("/badge/{badge_key}/{signature}{end}.svg"),
            ));
        }
    }
    requests
}

/// Checks the state that no answer shows.
pub(super) fn expect(state: &State) {
    let notification = state
        .projects()
        .filter(|project_state| project_state.project.is_on_trial());
    assert_eq!(
        notification
            .map(|notification| notification.project.name.as_str().to_owned())
            .collect::<Vec<_>>(),
        ["On trial"]
    );
    assert!(state.imports.is_empty() && !state.legacy_secrets.is_empty());
    let backup = state
        .checks()
        .find(|check| check.settings.slug.as_str() == "backup")
        .unwrap();
    assert_eq!(
        (
            backup.settings.parents.ids().len(),
            backup.settings.failure_threshold.get()
        ),
        (1, 2)
    );
    let users: Vec<_> = state
        .users
        .iter()
        .map(|user| user.name.as_str().to_owned())
        .collect();
    assert_eq!(users, ["ann", "bob", "eve@example.org"]);
    assert_eq!(
        state
            .projects()
            .map(|project_state| project_state.windows.len())
            .sum::<usize>(),
        1
    );
}

/// Number of kept pings of invisible checks, and whether an unfinished import may have left some.
fn leftover_pings(directory: &Path, seen: &BTreeSet<CheckId>) -> (u64, bool) {
    let marked = Store::open(&Medium::Directory(directory.into()))
        .unwrap()
        .snapshot()
        .unwrap()
        .meta_value(MetaKey::ImportLeftovers)
        .unwrap()
        != 0;
    let database = redb::Database::open(directory.join(FILE_NAME)).unwrap();
    let kept = database
        .begin_read()
        .unwrap()
        .open_table(TableDefinition::<(u64, u64), &[u8]>::new("kept_pings"))
        .unwrap();
    let checks = redb::ReadableTable::iter(&kept)
        .unwrap()
        .map(|row| CheckId(row.unwrap().0.value().0));
    (
        checks.filter(|check| !seen.contains(check)).count() as u64,
        marked,
    )
}

#[test]
fn leftovers_of_an_import_are_removed_from_the_file() {
    for layout in LAYOUTS_WITH_IMPORTS {
        let directory = tempfile::tempdir().unwrap();
        copy_layout(&Path::new(LAYOUTS).join(layout), directory.path());
        let open = || {
            TestEngine::open(
                Medium::Directory(directory.path().into()),
                HousekeepingLimits::default(),
            )
        };
        let engine = open();
        let seen: BTreeSet<_> = engine
            .handle
            .with_state(|state| state.checks().map(|check| check.id).collect());
        drop(engine);
        assert_eq!(
            leftover_pings(directory.path(), &seen),
            (STAGED_PINGS, true),
            "{layout}"
        );
        let mut engine = open();
        (0..200).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
        drop(engine);
        assert_eq!(
            leftover_pings(directory.path(), &seen),
            (0, false),
            "{layout}"
        );
    }
}

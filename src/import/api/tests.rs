use super::super::report::ImportReport;
use super::super::tests::options;
use super::super::{ImportContents, ImportOptions, ProjectSelection, dry_run};
use super::*;
use crate::domain::import_contents::{ImportedKeySecret, ImportedSettings};
use crate::domain::project::{KeySecret, SecretHash};
use crate::domain::status::Status;
use serde_json::json;

const KEY: &str = "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww";
const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
const BADGE: &str = "7f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
const CHANNEL: &str = "8f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";

fn api() -> ApiSource {
    let project = ProjectName::parse("Home").unwrap();
    ApiSource {
        url: "https://hc.example.org".into(),
        key: KEY.into(),
        read_only_key: None,
        ping_key: None,
        project,
        logs: PingLogSelection::All,
    }
}

/// Returns a check as the API shows it, with additional members.
fn shown(more: &Json) -> Json {
    let mut check = json!({
        "name": "Backup", "slug": "backup", "tags": "prod db", "desc": "nightly", "grace": 600,
        "n_pings": 3, "status": "grace", "started": true,
        "last_ping": "2024-06-01T12:00:05+00:00", "next_ping": null, "last_duration": 7,
        "manual_resume": true, "methods": "POST", "start_kw": "", "success_kw": "ok",
        "failure_kw": "error", "filter_subject": true, "filter_body": false,
        "filter_http_body": false, "filter_default_fail": true,
        "badge_url": format!("https://hc.example.org/b/2/{BADGE}.svg"),
        "uuid": UUID, "channels": CHANNEL, "timeout": 3600,
    });
    check
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    check
}

/// Returns the contents imported from such a check with this log.
fn read(check: &Json, flips: &Json, pings: &[Json]) -> Result<ImportContents, String> {
    let dump = DumpFile::new(&Random::System)?;
    let mut seen = CheckLogSummary::default();
    for ping in pings {
        dump.write_object(
            "api.ping",
            1,
            &dumpdata_rows::ping_row(1, ping, Some(b"body".to_vec()), &mut seen)?,
        )?;
    }
    for (at, fields) in flips::flip_rows(flips, check, 1, &mut seen)?
        .iter()
        .enumerate()
    {
        dump.write_object("api.flip", row_id(at), fields)?;
    }
    let badges =
        json!({ "badges": { "*": { "svg": "https://hc.example.org/badge/bk-1/AAAAAAAA-2.svg" } } });
    for (model, fields) in dumpdata_rows::project_rows(&api(), Some(&badges), seen.ping_count)? {
        dump.write_object(model, 1, &fields)?;
    }
    let now = Timestamp::from_secs(1_717_250_000);
    dump.write_object(
        "api.check",
        1,
        &dumpdata_rows::check_row(check, &seen, seen.oldest.unwrap_or(now))?,
    )?;
    let channel = json!({ "id": CHANNEL, "name": "hook", "kind": "webhook" });
    dump.write_object(
        "api.channel",
        1,
        &dumpdata_rows::channel_row(&channel, std::slice::from_ref(check), now)?,
    )?;
    let mut source = dump.into_source("https://hc.example.org".into())?;
    let options = ImportOptions {
        projects: vec![ProjectSelection {
            source_name: "Home".into(),
            new_name: None,
        }],
        ..options()
    };
    let looked: Result<(ImportContents, ImportReport), _> =
        dry_run(&mut source, &options, now, &mut |_| {});
    looked
        .map(|(imported, _)| imported)
        .map_err(|error| error.to_string())
}

fn ping(n: u64, kind: &str, date: &str) -> Json {
    json!({
        "type": kind, "date": date, "n": n, "scheme": "https", "remote_addr": "192.0.2.7",
        "method": "GET", "ua": "curl", "rid": null, "body_url": "x",
    })
}

#[test]
fn an_api_import_matches_a_file_import() {
    let pings = [
        ping(3, "start", "2024-06-01T12:01:00.000001+00:00"),
        ping(2, "success", "2024-06-01T12:00:05.250000+00:00"),
        ping(1, "fail", "2024-06-01T11:00:00.500000+00:00"),
    ];
    let flips = json!([
        { "timestamp": "2024-06-01T12:00:05+00:00", "up": 1 },
        { "timestamp": "2024-06-01T11:00:00+00:00", "up": 0 },
    ]);
    let imported = read(&shown(&json!({})), &flips, &pings).unwrap();
    let project = &imported.projects[0];
    assert_eq!(
        (
            project.name.as_str(),
            &*project.badge_key,
            project.legacy_badge
        ),
        ("Home", "bk-1", None)
    );
    assert_eq!(
        project.keys[0].secret,
        ImportedKeySecret::Native(KeySecret::ReadWrite(SecretHash::of(KEY.as_bytes())))
    );
    let check = &project.checks[0];
    assert_eq!(
        (check.uuid.to_string(), check.badge.unwrap().to_string()),
        (UUID.into(), BADGE.into())
    );
    let settings = &check.settings;
    let state = &check.state;
    assert_eq!(
        (
            settings.timeout.get(),
            settings.grace.get(),
            settings.tags.as_str()
        ),
        (3600, 600, "prod db")
    );
    assert!(
        settings.manual_resume
            && settings.post_only
            && settings.filters.default_fail
            && settings.schedule.is_none()
    );
    assert_eq!(
        (state.status, state.n_pings, state.last_duration),
        (Status::Up, 3, Some(7_000_000))
    );
    let micros = |text: &str| crate::import::source_row::parse_timestamp(text).unwrap();
    assert_eq!(
        state.last_ping,
        Some(micros("2024-06-01T12:00:05.250000Z")),
        "to the microsecond, as its log has it"
    );
    assert_eq!(
        state.run.map(|run| run.start),
        Some(micros("2024-06-01T12:01:00.000001Z"))
    );
    assert_eq!(state.changed, micros("2024-06-01T12:00:05Z"));
    assert_eq!(
        check.channels.first().map(Uuid::to_string).as_deref(),
        Some(CHANNEL)
    );
    let ImportedSettings::Incomplete { missing: lacks, .. } = &project.channels[0].settings else {
        panic!("nothing is known of it")
    };
    assert!(lacks.contains(&"down-url"), "{lacks:?}");
}

#[test]
fn the_kind_of_a_schedule_is_detected() {
    for (schedule, tz) in [
        ("30 3 * * *", "Europe/Riga"),
        ("Mon..Fri *-*-* 10:00", "UTC"),
    ] {
        let check =
            shown(&json!({ "schedule": schedule, "tz": tz, "timeout": null, "started": false }));
        let imported = read(&check, &json!([]), &[]).unwrap();
        let settings = &imported.projects[0].checks[0].settings;
        assert_eq!(
            (
                settings.schedule.as_ref().map(|own| own.text()),
                settings.tz.name()
            ),
            (Some(schedule), tz)
        );
    }
    let wrong = read(
        &shown(&json!({ "schedule": "61 * * * *" })),
        &json!([]),
        &[],
    )
    .unwrap_err();
    assert!(
        wrong.contains("schedule: ") && wrong.contains("\"Backup\""),
        "{wrong}"
    );
}

#[test]
fn a_project_has_the_same_uuid_whenever_it_is_read() {
    let badges = |key: &str| {
        let url = format!("https://h/sub/badge/{key}/AAAAAAAA-2.svg");
        json!({ "badges": { "*": { "svg": url } } })
    };
    let uuid = |key: &str| {
        dumpdata_rows::project_rows(&api(), Some(&badges(key)), 5).unwrap()[0].1["code"].clone()
    };
    assert_eq!(uuid("bk-1"), uuid("bk-1"));
    assert_ne!(uuid("bk-1"), uuid("bk-2"));
    let unknown = || dumpdata_rows::project_rows(&api(), None, 5).unwrap()[0].1["code"].clone();
    assert_eq!(unknown(), unknown());
    let limit = |pings: u64| {
        dumpdata_rows::project_rows(&api(), Some(&badges("b")), pings).unwrap()[1].1
            ["ping_log_limit"]
            .clone()
    };
    assert_eq!((limit(0), limit(1000)), (100.into(), 1000.into()));
}

#[test]
fn invalid_responses_are_reported() {
    for (wrong, part) in [
        (
            dumpdata_rows::list_items(&json!({ "checks": 1 }), "checks").unwrap_err(),
            "no list \"checks\"",
        ),
        (
            dumpdata_rows::check_uuid(&json!({ "unique_key": "x" })).unwrap_err(),
            "give a read-write key",
        ),
        (
            dumpdata_rows::project_rows(&api(), Some(&json!({ "badges": {} })), 0).unwrap_err(),
            "no badge for the whole project",
        ),
        (
            read(&shown(&json!({ "grace": "x" })), &json!([]), &[]).unwrap_err(),
            "grace is not a duration",
        ),
    ] {
        assert!(wrong.contains(part), "{wrong}");
    }
}

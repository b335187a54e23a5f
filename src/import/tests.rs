use std::path::PathBuf;
use std::rc::Rc;

use super::source_row::SourceValue;
use super::*;
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::import_contents::{ImportedKeySecret, ImportedProject, ImportedSettings};
use crate::domain::project::KeySecret;
use crate::domain::status::Status;
use crate::util::random::Random;

/// Collects all rows, or the first `most`.
pub(super) struct RowCollector {
    pub(super) rows: Vec<SourceRow>,
    pub(super) most: usize,
}

impl Default for RowCollector {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            most: usize::MAX,
        }
    }
}

impl RowVisitor for RowCollector {
    fn wants_table(&self, _: SourceTable) -> bool {
        true
    }

    fn visit_row(&mut self, row: SourceRow) -> ControlFlow<()> {
        self.rows.push(row);
        if self.rows.len() < self.most {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    fn report_progress(&mut self, _: u64) {}
}

/// Returns a row with these values.
pub(super) fn row(table: SourceTable, columns: &[&str], values: Vec<SourceValue>) -> SourceRow {
    SourceRow::new(
        table,
        columns
            .iter()
            .map(|column| Box::from(*column))
            .collect::<Rc<[_]>>(),
        values,
    )
}

/// Returns a row of texts, as in a dump.
pub(super) fn texts(table: SourceTable, columns: &[(&str, &str)]) -> SourceRow {
    let (names, values): (Vec<_>, Vec<_>) = columns
        .iter()
        .map(|(name, value)| (*name, SourceValue::Text((*value).into())))
        .unzip();
    row(table, &names, values)
}

pub(super) const NOW: Timestamp = Timestamp::from_secs(1_725_019_200);

/// Default import options.
pub(super) fn options() -> ImportOptions {
    let projects = Vec::new();
    let skip = Vec::new();
    let zones = Vec::new();
    ImportOptions {
        projects,
        skipped_checks: skip,
        timezone_map: zones,
        logs: PingLogSelection::All,
        with_users: false,
        environment: ServerEnvironment::default(),
    }
}

const FILES: &[&str] = if cfg!(feature = "sqlite") {
    &["hc.sqlite", "hc.sql", "hc.json"]
} else {
    &["hc.sql", "hc.json"]
};

fn looked(
    file: &str,
    options: &ImportOptions,
) -> Result<(ImportContents, serde_json::Value), ImportError> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/healthchecks")
        .join(file);
    let mut source = ImportSource::open(&path, &Random::System).unwrap();
    let mut told = Vec::new();
    let (imported, report) = dry_run(&mut source, options, NOW, &mut |progress| {
        told.push(progress);
    })?;
    assert!(
        told.iter().all(|progress| progress.done <= progress.total),
        "{file}: {told:?}"
    );
    let mut report = serde_json::to_value(&report).unwrap();
    report.as_object_mut().unwrap().remove("source");
    Ok((imported, report))
}

/// Returns the imported contents as text with times cut to milliseconds, as in dumpdata.
fn cut(imported: &ImportContents) -> String {
    let text = format!("{imported:?}");
    let mut parts = text.split("Timestamp(");
    let first = parts.next().unwrap_or_default().to_owned();
    let cut = parts.map(|part| {
        let (micros, rest) = part.split_once(')').unwrap();
        format!(
            "Timestamp({}){rest}",
            micros.parse::<i64>().unwrap() / 1_000
        )
    });
    first + &cut.collect::<String>()
}

#[test]
fn all_sources_give_the_same_contents() {
    for options in [
        options(),
        ImportOptions {
            with_users: true,
            logs: PingLogSelection::WithoutBodies,
            ..options()
        },
    ] {
        let looked: Vec<_> = FILES
            .iter()
            .map(|file| looked(file, &options).unwrap())
            .collect();
        let (first, first_report) = &looked[0];
        for (imported, report) in &looked[1..] {
            assert_eq!((cut(imported), report), (cut(first), first_report));
        }
    }
}

fn named<'a>(imported: &'a ImportContents, name: &str) -> &'a ImportedProject {
    imported
        .projects
        .iter()
        .find(|project| project.name.as_str() == name)
        .unwrap()
}

#[test]
fn every_object_is_imported_or_reported() {
    let (imported, report) = looked("hc.sql", &options()).unwrap();
    let counts = |what: &str| {
        ["source", "carried", "changed", "dropped"]
            .map(|column| report["counts"][what][column].as_u64().unwrap())
    };
    for (what, wanted) in [
        ("projects", [4, 4, 3, 0]),
        ("checks", [7, 7, 0, 0]),
        ("pings", [136, 106, 1, 30]),
        ("bodies", [73, 72, 0, 1]),
        ("flips", [3, 3, 0, 0]),
        ("api_keys", [3, 1, 0, 2]),
        ("ping_keys", [2, 2, 0, 0]),
        ("channels", [31, 30, 10, 1]),
    ] {
        assert_eq!(
            counts(what),
            wanted,
            "{what}: {}",
            report["counts"][what]["notes"]
        );
    }
    let names: Vec<_> = imported
        .projects
        .iter()
        .map(|project| project.name.as_str().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "Home".to_owned(),
            "ann@example.org".into(),
            "Home (2)".into(),
            "ž".repeat(100)
        ]
    );
    assert_eq!(
        report["late"]
            .as_array()
            .unwrap()
            .iter()
            .map(|late| late["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["Backup", "Running", "Tiny log"]
    );
    assert_eq!((imported.users.len(), imported.secrets), (0, Vec::new()));
}

#[test]
fn statuses_times_and_notifications_match_the_source() {
    let (imported, _) = looked("hc.sql", &options()).unwrap();
    let home = named(&imported, "Home");
    let start = 1_717_243_200_123_456;
    let states: Vec<_> = home
        .checks
        .iter()
        .map(|check| {
            (
                check.settings.name.as_str(),
                check.state.status,
                check.state.changed.micros() - start,
                check.state.notification,
            )
        })
        .collect();
    let minute = 60_000_000;
    let day = 86_400_000_000;
    assert_eq!(
        states,
        [
            ("Backup", Status::Up, minute, NotificationState::NotNeeded),
            (
                "Router",
                Status::Down,
                60 * day + 7,
                NotificationState::Notified
            ),
            (
                "Unheard",
                Status::Down,
                2 * day,
                NotificationState::Pending {
                    at: NOW,
                    reason: HoldReason::BelowThreshold
                }
            ),
            (
                "Running",
                Status::New,
                4 * minute,
                NotificationState::NotNeeded
            ),
            (
                "Paused",
                Status::Paused,
                5 * minute,
                NotificationState::NotNeeded
            ),
        ]
    );
    let backup = &home.checks[0];
    assert_eq!(
        (backup.state.n_pings, backup.state.last_duration),
        (150, Some(day + 5_000_250))
    );
    assert_eq!(
        (backup.settings.tz.name(), backup.settings.desc.as_str()),
        ("Europe/Riga", "Nightly,\twith \"quotes\"\nand ž")
    );
    assert!(
        backup.settings.post_only
            && backup.settings.filters.subject
            && !backup.settings.filters.body
            && backup.settings.filters.http_body
    );
    assert_eq!(
        (
            backup.channels.len(),
            home.checks[1].channels.len(),
            home.checks[2].channels.len()
        ),
        (19, 9, 0)
    );
    assert!(
        home.checks[3]
            .state
            .run
            .is_some_and(|run| run.rid.is_some())
    );
}

#[test]
fn keys_badges_and_tokens_are_imported_with_the_secrets_of_the_old_server() {
    let file = "SECRET_KEY=s3cret\nTELEGRAM_TOKEN=123:abc\nPUSHOVER_API_TOKEN=a\n\
                TWILIO_ACCOUNT=AC1\nTWILIO_AUTH=b\nTWILIO_FROM=+12025550100\n";
    let with = ImportOptions {
        environment: ServerEnvironment::parse(file).unwrap(),
        ..options()
    };
    let (imported, report) = looked("hc.json", &with).unwrap();
    assert_eq!(report["counts"]["api_keys"]["carried"], 3);
    assert_eq!(
        report["incomplete"]
            .as_array()
            .unwrap()
            .iter()
            .map(|channel| channel["kind"].as_str().unwrap())
            .collect::<Vec<_>>(),
        [
            "matrix", "whatsapp", "signal", "trello", "github", "apprise"
        ]
    );
    assert!(
        !imported.secrets.is_empty()
            && imported
                .projects
                .iter()
                .all(|project| project.legacy_badge.is_some())
    );
    let home = named(&imported, "Home");
    let secrets: Vec<_> = home
        .keys
        .iter()
        .map(|key| (&key.secret, &*key.hint))
        .collect();
    let is = |at: usize, hint: &str| secrets[at].1 == hint;
    assert!(
        matches!(
            secrets[0].0,
            ImportedKeySecret::Native(KeySecret::ReadWrite(_))
        ) && is(0, "AAAA")
    );
    assert!(matches!(secrets[1].0, ImportedKeySecret::Legacy { .. }));
    // The hint has the eight characters that the old server shows.
    let hint = secrets[1].1;
    assert!(hint.starts_with("hcr_") && hint.len() == 12, "{hint}");
    assert!(matches!(secrets[2].0, ImportedKeySecret::Native(KeySecret::Ping(_))) && is(2, "kkkk"));
    let settings = |kind: &str| {
        home.channels
            .iter()
            .find(|channel| channel.name.as_str() == format!("my {kind}"))
            .map(|channel| &channel.settings)
    };
    let Some(ImportedSettings::Complete(telegram)) = settings("telegram") else {
        panic!()
    };
    assert_eq!(
        (
            telegram.get("token"),
            telegram.get("chat"),
            telegram.get("thread")
        ),
        (Some("123:abc"), Some("-1001234567890"), Some("7"))
    );
    let Some(ImportedSettings::Complete(discord)) = settings("discord") else {
        panic!()
    };
    assert_eq!(
        discord.get("url"),
        Some("https://discord.com/api/webhooks/1/abc")
    );
}

#[test]
fn users_are_imported_with_their_permissions() {
    let (imported, report) = looked(
        "hc.sql",
        &ImportOptions {
            with_users: true,
            ..options()
        },
    )
    .unwrap();
    let users: Vec<_> = imported
        .users
        .iter()
        .map(|user| {
            (
                user.name.as_str(),
                user.password.is_some(),
                user.owner,
                user.projects.len(),
                user.disabled,
            )
        })
        .collect();
    assert_eq!(
        users,
        [
            ("ann@example.org", true, true, 0, false),
            ("bob@example.org", false, false, 3, false),
            ("eve@example.org", false, false, 2, true)
        ]
    );
    assert_eq!(
        imported.users[0]
            .password
            .as_ref()
            .unwrap()
            .as_str()
            .split('$')
            .nth(1),
        Some("argon2id")
    );
    assert_eq!(report["counts"]["users"]["changed"], 2);
}

#[test]
fn unselected_objects_are_left_out_and_unknown_selections_are_errors() {
    let chosen = |old: &str, new: Option<&str>| ProjectSelection {
        source_name: old.into(),
        new_name: new.map(|new| ProjectName::parse(new).unwrap()),
    };
    let some = ImportOptions {
        projects: vec![chosen("bk", None), chosen("ann@example.org", Some("Ann"))],
        ..options()
    };
    assert_eq!(
        looked("hc.sql", &some)
            .unwrap_err()
            .to_string()
            .rsplit(": ")
            .next(),
        Some("it has no project \"bk\"")
    );
    let some = ImportOptions {
        projects: vec![chosen("ann@example.org", Some("Ann"))],
        ..options()
    };
    let (imported, report) = looked("hc.sql", &some).unwrap();
    assert_eq!(
        (imported.projects.len(), imported.projects[0].name.as_str()),
        (1, "Ann")
    );
    assert_eq!(
        (
            &report["counts"]["checks"]["dropped"],
            &report["counts"]["pings"]["carried"]
        ),
        (&6.into(), &0.into())
    );
    let (imported, report) = looked(
        "hc.sql",
        &ImportOptions {
            skipped_checks: vec!["backup".into(), "Tiny log".into()],
            logs: PingLogSelection::None,
            ..options()
        },
    )
    .unwrap();
    assert_eq!(
        (
            named(&imported, "Home").checks.len(),
            &report["counts"]["pings"]["carried"]
        ),
        (4, &0.into())
    );
    let missed = looked(
        "hc.sql",
        &ImportOptions {
            skipped_checks: vec!["nope".into()],
            ..options()
        },
    )
    .unwrap_err();
    assert!(
        matches!(
            &missed,
            ImportError::Source(problem) if problem.ends_with(r#"hc.sql: it has no check "nope""#)
        ),
        "{missed}"
    );
}

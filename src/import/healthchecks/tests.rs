use super::super::tests::{NOW, options, texts};
use super::*;

const PROJECT: [(&str, &str); 4] = [
    ("id", "1"),
    ("code", "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f"),
    ("name", "Home"),
    ("owner_id", "5"),
];

fn check(id: &str, tz: &str) -> SourceRow {
    let code = format!("6f3a0f6e-0c9b-4f0e-9b1b-{id:0>12}");
    let columns = [
        ("id", id),
        ("code", &code),
        ("project_id", "1"),
        ("name", id),
        ("created", "2024-06-01 12:00:00"),
        ("kind", "simple"),
        ("tz", tz),
        ("status", "new"),
    ];
    texts(SourceTable::Check, &columns)
}

#[test]
fn a_source_without_projects_is_rejected() {
    let options = options();
    let new = |rows: Vec<SourceRow>| {
        HealthchecksConverter::new(rows, &options, NOW, &mut Vec::new()).err()
    };
    assert_eq!(
        new(Vec::new()).as_deref(),
        Some("it has no Healthchecks project")
    );
    assert!(
        new(vec![check("1", "UTC")])
            .unwrap()
            .starts_with("it has checks but no projects: upgrade")
    );
    assert_eq!(new(vec![texts(SourceTable::Project, &PROJECT)]), None);
}

#[test]
fn all_errors_are_reported_up_to_a_limit() {
    let mut complaints = Vec::new();
    let rows = (0..100)
        .map(|id| check(&id.to_string(), "Nowhere"))
        .chain([texts(SourceTable::Project, &PROJECT)]);
    let options = options();
    assert!(HealthchecksConverter::new(rows.collect(), &options, NOW, &mut complaints).is_ok());
    assert_eq!(
        (
            complaints.len(),
            complaints[0]
                .to_string()
                .starts_with("api_check 0 (\"0\"): tz \"Nowhere\"")
        ),
        (MAX_ROW_ERRORS, true)
    );
}

#[test]
fn logs_of_checks_that_are_not_imported_are_counted() {
    let options = ImportOptions {
        skipped_checks: vec!["1".into()],
        ..options()
    };
    let rows = vec![
        check("1", "UTC"),
        check("2", "UTC"),
        texts(SourceTable::Project, &PROJECT),
    ];
    let mut made = HealthchecksConverter::new(rows, &options, NOW, &mut Vec::new())
        .ok()
        .unwrap();
    for (table, owner) in [
        (SourceTable::Ping, "1"),
        (SourceTable::Flip, "1"),
        (SourceTable::Ping, "9"),
    ] {
        assert!(
            made.convert_log_row(&texts(table, &[("id", "1"), ("owner_id", owner)]))
                .is_none()
        );
    }
    let counts = made.tally.json();
    let notes = |what: &str| {
        counts[what]["notes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|note| note["text"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        notes("pings"),
        ["of skipped checks", "of checks that do not exist"]
    );
    assert_eq!(
        (notes("flips"), notes("checks")),
        (
            vec!["of skipped checks".to_owned()],
            vec![
                "skipped with --skip".to_owned(),
                "without a badge, given a new one".into()
            ]
        )
    );
    assert!(
        made.convert_log_row(&texts(SourceTable::Ping, &[("id", "3")]))
            .is_none()
    );
}

#[test]
fn alerts_that_the_old_server_had_not_sent_are_still_pending() {
    let due = |held| NotificationState::Pending {
        at: NOW,
        reason: held,
    };
    let flip = |from, cause, is_told| {
        Some(LastFlip {
            at: NOW,
            from,
            cause,
            is_notified: is_told,
        })
    };
    for (status, last, wanted) in [
        (
            Status::Up,
            flip(Status::Down, FlipCause::Unknown, false),
            NotificationState::Notified,
        ),
        (
            Status::Up,
            flip(Status::Down, FlipCause::Unknown, true),
            NotificationState::NotNeeded,
        ),
        (
            Status::Up,
            flip(Status::New, FlipCause::Unknown, false),
            NotificationState::NotNeeded,
        ),
        (Status::Up, None, NotificationState::NotNeeded),
        (
            Status::Down,
            flip(Status::Up, FlipCause::Fail, false),
            due(HoldReason::BelowThreshold),
        ),
        (
            Status::Down,
            flip(Status::Up, FlipCause::MissedPing, false),
            due(HoldReason::ServerOutage),
        ),
        (
            Status::Down,
            flip(Status::Up, FlipCause::Fail, true),
            NotificationState::Notified,
        ),
        (Status::Down, None, NotificationState::Notified),
        (
            Status::Paused,
            flip(Status::Down, FlipCause::Unknown, false),
            NotificationState::NotNeeded,
        ),
    ] {
        assert_eq!(
            initial_notification_state(status, last, NOW),
            wanted,
            "{status:?} after {last:?}"
        );
    }
}

#[test]
fn a_placeholder_that_a_command_no_longer_expands_is_noted() {
    let value = r#"{"cmd_down": "notify '$NAME is down'", "cmd_up": ""}"#;
    let channel = [
        ("id", "1"),
        ("code", "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e50"),
        ("project_id", "1"),
        ("name", "sh"),
        ("kind", "shell"),
        ("value", value),
    ];
    let rows = vec![
        texts(SourceTable::Channel, &channel),
        texts(SourceTable::Project, &PROJECT),
    ];
    let options = options();
    let made = HealthchecksConverter::new(rows, &options, NOW, &mut Vec::new())
        .ok()
        .unwrap();
    let note = "\"sh\": down-command: $NAME is in single quotes, where the shell does not expand \
                it; write \"$NAME\" in double quotes";
    assert_eq!(made.tally.json()["channels"]["notes"][0]["text"], note);
}

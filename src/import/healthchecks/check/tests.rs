use super::super::super::tests::{NOW, options, texts};
use super::*;
use crate::import::source_row::SourceTable;

const GIVEN: [(&str, &str); 11] = [
    ("id", "7"),
    ("code", "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f"),
    ("name", "Backup"),
    ("slug", "backup"),
    ("created", "2024-06-01 12:00:00"),
    ("kind", "simple"),
    ("timeout", "01:00:00"),
    ("grace", "00:05:00"),
    ("tz", "UTC"),
    ("status", "new"),
    ("n_pings", "5"),
];

fn given(more: &[(&str, &str)]) -> SourceRow {
    texts(SourceTable::Check, &[more, &GIVEN].concat())
}

fn made(more: &[(&str, &str)]) -> ConvertedCheck {
    convert_check(&given(more), &options(), NOW).unwrap()
}

#[test]
fn settings_go_through_the_parsers_of_the_api() {
    for (more, problem) in [
        (
            &[("tz", "US/Pacific-New")][..],
            "tz \"US/Pacific-New\" is not a time zone: give an IANA name in its exact spelling, \
             such as Europe/Riga or UTC; replace it with --tz US/Pacific-New=NEW, or skip the \
             check with --skip",
        ),
        (&[("kind", "weekly")], "kind \"weekly\" is unknown"),
        (&[("methods", "PUT")], "methods is neither empty nor POST"),
        (
            &[("status", "grace")],
            "status is none of new, up, down, paused",
        ),
        (&[("n_pings", "-1")], "n_pings is negative or too large"),
        (
            &[("n_pings", "4294967296")],
            "n_pings is negative or too large",
        ),
        (&[("code", "x")], "code is not a UUID"),
    ] {
        let complaint = convert_check(&given(more), &options(), NOW).err().unwrap();
        let way_out = if problem.contains("--skip") {
            ""
        } else {
            "; change the check on the old server, or skip it with --skip"
        };
        assert_eq!(
            complaint.to_string(),
            format!(r#"api_check 7 ("Backup"): {problem}{way_out}"#)
        );
    }
    let long = "x".repeat(201);
    for (column, value, note) in [
        ("timeout", "00:00:59", "with a period or grace"),
        ("grace", "00:05:00.5", "with a period or grace"),
        ("grace", "500 days", "with a period or grace"),
        ("slug", "A b", "with a name, slug or keywords"),
        ("slug", &long, "with a name, slug or keywords"),
        ("name", &long, "with a name, slug or keywords"),
        ("start_kw", &long, "with a name, slug or keywords"),
        ("success_kw", &long, "with a name, slug or keywords"),
        ("status", "up", "up without a ping"),
    ] {
        let read = made(&[(column, value)]);
        assert!(
            read.notes.len() == 1 && read.notes[0].starts_with(note),
            "{column} {value}: {:?}",
            read.notes
        );
        let settings = &read.check.settings;
        let texts = [
            settings.name.as_str(),
            settings.slug.as_str(),
            settings.start_kw.as_str(),
            settings.success_kw.as_str(),
        ];
        assert!(
            texts.contains(&value) || !note.ends_with("words"),
            "{column} {value}"
        );
        assert!(settings.timeout.get() >= 60 && read.check.state.status != Status::Up);
    }
    for (kind, schedule, part) in [
        ("cron", "x", "schedule: "),
        (
            "oncalendar",
            "* * * * *",
            "schedule: overdue reads it as a schedule of the other kind; change it",
        ),
    ] {
        let complaint = convert_check(
            &given(&[("kind", kind), ("schedule", schedule)]),
            &options(),
            NOW,
        )
        .err()
        .unwrap()
        .to_string();
        assert!(
            complaint.contains(part) && complaint.contains("--skip"),
            "{complaint}"
        );
    }
    let zone = Timezone::parse("America/Los_Angeles").unwrap();
    let read = convert_check(
        &given(&[("tz", "US/Pacific-New")]),
        &ImportOptions {
            timezone_map: vec![("US/Pacific-New".into(), zone)],
            ..options()
        },
        NOW,
    )
    .unwrap();
    assert_eq!(read.check.settings.tz.name(), "America/Los_Angeles");
}

#[test]
fn columns_that_older_releases_lack_get_their_defaults() {
    let settings = made(&[("success_kw", ""), ("failure_kw", "")])
        .check
        .settings;
    assert!(!settings.filters.subject && !settings.post_only);
    let old = made(&[("subject", "ok"), ("subject_fail", "error")]).check;
    assert_eq!(
        (
            old.settings.success_kw.as_str(),
            old.settings.failure_kw.as_str(),
            old.settings.filters.subject
        ),
        ("ok", "error", true)
    );
    assert!(old.badge.is_none() && old.state.run.is_none());
    let row = texts(
        SourceTable::Check,
        &GIVEN
            .into_iter()
            .filter(|(name, _)| *name != "slug")
            .collect::<Vec<_>>(),
    );
    assert_eq!(
        convert_check(&row, &options(), NOW)
            .unwrap()
            .check
            .settings
            .slug
            .as_str(),
        "backup"
    );
    assert_eq!(
        made(&[("slug", "")]).check.settings.slug.as_str(),
        "",
        "an empty slug is kept"
    );
    let long = "x ".repeat(500);
    assert_eq!(
        made(&[("tags", &long)]).check.settings.tags.as_str(),
        long,
        "what is stored may be over a limit"
    );
}

#[test]
fn times_are_kept_and_future_times_become_now() {
    let read = made(&[
        ("status", "up"),
        ("last_ping", "2024-08-30 11:00:00"),
        ("last_start", "2024-08-30 11:30:00"),
        ("last_duration", "00:00:01.5"),
    ]);
    let state = read.check.state;
    assert_eq!(
        (
            state.last_ping,
            state.last_duration,
            read.has_adjusted_times
        ),
        (Some(NOW.plus_secs(-3_600)), Some(1_500_000), false)
    );
    assert_eq!(
        (state.grace_start, state.run.map(|run| run.start)),
        (Some(NOW), Some(NOW.plus_secs(-1_800)))
    );
    assert_eq!((state.n_pings, state.failures), (5, 0));
    let read = made(&[("status", "down"), ("last_ping", "2030-01-01 00:00:00")]);
    assert_eq!(
        (
            read.check.state.last_ping,
            read.has_adjusted_times,
            read.check.state.failures
        ),
        (Some(NOW), true, 1)
    );
}

#[test]
fn a_check_is_matched_by_name_slug_or_uuid() {
    for (word, meant) in [
        ("Backup", true),
        ("backup", true),
        (GIVEN[1].1, true),
        ("back", false),
        ("", false),
    ] {
        assert_eq!(matches_identifier(&given(&[]), word), Ok(meant), "{word}");
    }
    assert_eq!(display_name(&given(&[("name", "")])), Ok("backup".into()));
    assert_eq!(
        display_name(&given(&[("name", ""), ("slug", "")])),
        Ok(GIVEN[1].1.into())
    );
}

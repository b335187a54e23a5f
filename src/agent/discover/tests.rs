mod shell;

use std::cell::Cell;

use super::*;

/// A crontab in the style of Debian, Fedora and people.
const CRONTAB: &str = r#"# Edit this file to introduce tasks to be run by cron.
SHELL=/bin/bash
PATH=/sbin:/bin:/usr/sbin:/usr/bin
MAILTO="root"

# m h  dom mon dow   command
30 3 * * *	/usr/local/bin/backup.sh --all >> /var/log/backup.log 2>&1
@daily cd /srv/app && ./manage.py clearsessions
*/5 * * * * flock -n /run/lock/sync nice -n 10 /opt/sync/bin/sync-mail
@reboot /usr/local/bin/warm-up
0 4 * * 0 date +%F > /tmp/week
0 4 * * 0 date +\%F > /tmp/week
15 * * * * /usr/local/bin/report && curl -fsS https://hc-ping.com/1234 > /dev/null
CRON_TZ=Europe/Riga
0 9 * * 1-5 [ -x /usr/bin/certbot ] && perl -e 'sleep int(rand(3600))' && certbot -q renew
10 5 * * * bash -c "/opt/jobs/clean.py # all"
10~20 5 * * * /opt/jobs/last
10 5 * * * echo 'open
not a line
20 5 * * * /opt/jobs/backup.sh
"#;

fn proposer<'a>(draw: &'a dyn Fn() -> Uuid) -> CheckProposer<'a> {
    CheckProposer::new(
        "https://ping.example.org",
        "nas",
        Timezone::utc(),
        Timestamp::from_secs(1_800_000_000),
        draw,
    )
}

/// Returns a generator of consecutive UUIDs.
fn sequential_uuids() -> impl Fn() -> Uuid {
    let next = Cell::new(0);
    move || {
        next.set(next.get() + 1);
        Uuid::from_u128(next.get())
    }
}

fn summary(proposal: &CheckProposal) -> (String, String, i64, String) {
    let CheckSettings {
        schedule,
        tz,
        grace,
        ..
    } = &proposal.settings;
    let schedule = schedule
        .as_ref()
        .map(|schedule| format!("{} {}", schedule.text(), tz.name()))
        .unwrap_or_default();
    let edit = match &proposal.edit {
        JobEdit::Line { number, new, .. } => format!("{}: {new}", number + 1),
        JobEdit::DropIn { path, .. } => path.clone(),
    };
    (
        proposal.slug.as_str().to_owned(),
        schedule,
        grace.get(),
        edit,
    )
}

#[test]
fn a_crontab_becomes_checks_and_edits() {
    let draw = sequential_uuids();
    let found = propose_for_crontab(
        &mut proposer(&draw),
        &Crontab {
            name: "crontab".into(),
            text: CRONTAB.into(),
            owner: CrontabOwner::User,
        },
    );
    let url = |number: u128| {
        format!(
            "curl -fsS -m 10 --retry 5 -o /dev/null https://ping.example.org/ping/{}/$?",
            Uuid::from_u128(number)
        )
    };
    let expected = [
        (
            "nas-backup",
            "30 3 * * * UTC",
            3600,
            format!(
                "7: 30 3 * * *\t( /usr/local/bin/backup.sh --all >> /var/log/backup.log 2>&1 ); {}",
                url(1)
            ),
        ),
        (
            "nas-manage",
            "0 0 * * * UTC",
            3600,
            format!(
                "8: @daily ( cd /srv/app && ./manage.py clearsessions ); {}",
                url(2)
            ),
        ),
        (
            "nas-sync-mail",
            "*/5 * * * * UTC",
            300,
            format!(
                "9: */5 * * * * flock -n /run/lock/sync nice -n 10 /opt/sync/bin/sync-mail; {}",
                url(3)
            ),
        ),
        (
            "nas-date",
            "0 4 * * 0 UTC",
            3600,
            format!("12: 0 4 * * 0 date +\\%F > /tmp/week; {}", url(4)),
        ),
        (
            "nas-perl",
            "0 9 * * 1-5 Europe/Riga",
            3600,
            format!(
                "15: 0 9 * * 1-5 ( [ -x /usr/bin/certbot ] && perl -e 'sleep int(rand(3600))' && \
                 certbot -q renew ); {}",
                url(5)
            ),
        ),
        (
            "nas-clean",
            "10 5 * * * Europe/Riga",
            3600,
            format!(
                r#"16: 10 5 * * * bash -c "/opt/jobs/clean.py # all"; {}"#,
                url(6)
            ),
        ),
        (
            "nas-backup-2",
            "20 5 * * * Europe/Riga",
            3600,
            format!("20: 20 5 * * * /opt/jobs/backup.sh; {}", url(7)),
        ),
    ];
    let proposals: Vec<_> = found.proposals.iter().map(summary).collect();
    assert_eq!(
        proposals,
        expected.map(|(slug, schedule, grace, edit)| (
            slug.to_owned(),
            schedule.to_owned(),
            grace,
            edit
        ))
    );
    let skipped: Vec<_> = found
        .skipped
        .iter()
        .map(|skipped| {
            (
                skipped.location.as_str(),
                skipped.needs_manual_edit,
                skipped.reason.as_str(),
            )
        })
        .collect();
    let reasons = [
        ("crontab:10", false, "it has no schedule"),
        ("crontab:11", true, "an unescaped %"),
        ("crontab:13", false, "it already reports"),
        ("crontab:17", true, ""),
        ("crontab:18", true, "a quote is not closed"),
        ("crontab:19", true, "it is not a line of a crontab"),
    ];
    assert_eq!(skipped.len(), reasons.len(), "{skipped:?}");
    for ((location, is_manual, reason), (expected_location, expected_manual, part)) in
        skipped.into_iter().zip(reasons)
    {
        assert!(
            (location, is_manual) == (expected_location, expected_manual) && reason.contains(part),
            "{location}: {reason}"
        );
    }
}

#[test]
fn file_names_in_a_diff_stay_on_one_line() {
    let lines = std::collections::BTreeMap::from([(0, "b".to_owned())]);
    for (name, shown) in [
        ("etc/cron.d/a", "etc/cron.d/a"),
        ("my jobs", r#""my jobs""#),
        ("a\n+++ /etc/passwd\n", r#""a\012+++ /etc/passwd\012""#),
        ("a\t\"\\ž", r#""a\011\"\\ž""#),
    ] {
        assert_eq!(
            unified_diff(name, "a\n", &lines),
            format!("--- {shown}\n+++ {shown}\n@@ -1,1 +1,1 @@\n-a\n+b\n")
        );
        assert_eq!(
            new_file_diff(name, "a\nb\n"),
            format!("--- /dev/null\n+++ {shown}\n@@ -0,0 +1,2 @@\n+a\n+b\n")
        );
    }
}

#[test]
fn a_second_run_proposes_nothing() {
    let draw = sequential_uuids();
    for reporter in [Reporter::Curl, Reporter::Run] {
        let mut first = CheckProposer {
            reporter,
            ..proposer(&draw)
        };
        let found = propose_for_crontab(
            &mut first,
            &Crontab {
                name: "c".into(),
                text: CRONTAB.into(),
                owner: CrontabOwner::User,
            },
        );
        let lines = found.proposals.iter().map(|proposal| match &proposal.edit {
            JobEdit::Line { number, new, .. } => (*number, new.clone()),
            JobEdit::DropIn { .. } => panic!("a drop-in for a crontab"),
        });
        let lines = lines.collect();
        let text = apply_edits(CRONTAB, &lines);
        let again = propose_for_crontab(
            &mut proposer(&draw),
            &Crontab {
                name: "c".into(),
                text: text.clone(),
                owner: CrontabOwner::User,
            },
        );
        assert_eq!(again.proposals, [], "{text}");
        let hunks = unified_diff("etc/c", CRONTAB, &lines);
        assert_eq!(
            (hunks.matches("\n-").count(), hunks.matches("\n+").count()),
            (lines.len(), lines.len() + 1),
            "{hunks}"
        );
    }
}

#[test]
fn system_crontabs_have_a_user_and_directories_of_jobs() {
    let text = "17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n59 23 * * *   \
                www-data   /usr/bin/php /var/www/cron.php\n";
    let draw = sequential_uuids();
    let system = Crontab {
        name: "/etc/crontab".into(),
        text: text.into(),
        owner: CrontabOwner::System,
    };
    let found = propose_for_crontab(&mut proposer(&draw), &system);
    let url = "curl -fsS -m 10 --retry 5 -o /dev/null \
               https://ping.example.org/ping/00000000-0000-0000-0000-000000000001/$?";
    let line = format!("2: 59 23 * * *   www-data   /usr/bin/php /var/www/cron.php; {url}");
    assert_eq!(
        found.proposals.iter().map(summary).collect::<Vec<_>>(),
        [("nas-cron".into(), "59 23 * * * UTC".into(), 3600, line)]
    );
    assert_eq!(
        found.skipped[0].reason,
        "it runs all jobs of a directory; --run-parts proposes one check for them"
    );
    let mut with_parts = CheckProposer {
        run_parts: true,
        ..proposer(&draw)
    };
    assert_eq!(
        propose_for_crontab(&mut with_parts, &system).proposals[0]
            .slug
            .as_str(),
        "nas-run-parts"
    );
}

/// Any user may fill a crontab with equal jobs, and root reads it.
#[test]
fn each_of_twenty_thousand_equal_jobs_has_another_slug() {
    let draw = sequential_uuids();
    let crontab = Crontab {
        name: "crontab".into(),
        text: "@daily x-3\n".to_owned() + &"@daily x\n".repeat(20_000),
        owner: CrontabOwner::User,
    };
    let found = propose_for_crontab(&mut proposer(&draw), &crontab);
    let slugs: Vec<_> = found
        .proposals
        .iter()
        .map(|job| job.slug.as_str())
        .collect();
    assert_eq!(slugs[..4], ["nas-x-3", "nas-x", "nas-x-2", "nas-x-4"]);
    assert_eq!(slugs.last(), Some(&"nas-x-20001"));
}

#[test]
fn a_pipeline_that_hides_the_exit_status_needs_a_manual_edit() {
    for (command, filter) in [
        ("rsync -a / /mnt | logger -t rsync", Some("logger")),
        ("sh -c 'rsync -a / /mnt | logger'", Some("logger")),
        (
            r#"/bin/bash -c "pg_dump db | /usr/bin/gzip > db.gz""#,
            Some("gzip"),
        ),
        ("( cd /srv && ./job 2>&1 | tee -a log )", Some("tee")),
        ("job |& sudo tee log", Some("tee")),
        ("{ a && job | mail -s report root; }", Some("mail")),
        ("df | grep -q full", None),
        ("set -o pipefail; job | logger", None),
        ("a | logger && job", None),
        ("a | logger; job", None),
        ("job || echo failed", None),
        ("echo 'a | logger'", None),
        ("echo \\| logger", None),
        ("job 2>&1 > log", None),
    ] {
        let draw = sequential_uuids();
        let text = format!("* * * * * {command}\n");
        let found = propose_for_crontab(
            &mut proposer(&draw),
            &Crontab {
                name: "c".into(),
                text,
                owner: CrontabOwner::User,
            },
        );
        let skipped = found.skipped.first().map(|skipped| {
            (
                skipped.needs_manual_edit,
                skipped
                    .reason
                    .contains(&format!("is that of {},", filter.unwrap_or_default())),
            )
        });
        assert_eq!(
            (skipped, found.proposals.len()),
            (filter.map(|_| (true, true)), usize::from(filter.is_none())),
            "{command}: {found:?}"
        );
    }
}

const TIMER_LIST: &str = concat!(
    r#"[{"next":1795334400000000,"left":1,"last":0,"passed":0,"unit":"backup.timer","#,
    r#""activates":"backup.service"},
{"next":0,"left":0,"last":0,"passed":0,"unit":"apt-daily.timer","activates":"apt-daily.service"},
{"next":null,"left":null,"last":null,"passed":null,"unit":"poll.timer","activates":"poll.service"},
"#,
    r#"{"next":null,"left":null,"last":null,"passed":null,"unit":"boot.timer","#,
    r#""activates":"boot.service"}]"#
);

const TIMER_PROPERTIES_OUTPUT: &str = "\
Id=backup.timer\n\
Unit=backup.service\n\
FragmentPath=/etc/systemd/system/backup.timer\n\
TimersCalendar={ OnCalendar=Mon..Fri *-*-* 03:30:00 ; next_elapse=Mon 2026-11-23 03:30:00 \
    UTC }\n\
TimersMonotonic=\n\
RandomizedDelayUSec=10min\n\
AccuracyUSec=1min\n\n\
Id=apt-daily.timer\n\
Unit=apt-daily.service\n\
FragmentPath=/usr/lib/systemd/system/apt-daily.timer\n\
TimersCalendar={ OnCalendar=*-*-* 06,18:00:00 ; next_elapse=Sun 2026-11-22 18:00:00 UTC }\n\
RandomizedDelayUSec=12h\n\
AccuracyUSec=1min\n\n\
Id=poll.timer\n\
Unit=poll.service\n\
FragmentPath=/etc/systemd/system/poll.timer\n\
TimersMonotonic={ OnBootUSec=15min ; next_elapse=0 }\n\
TimersMonotonic={ OnUnitActiveUSec=1h 30min ; next_elapse=0 }\n\
RandomizedDelayUSec=0\n\
AccuracyUSec=1min\n\n\
Id=boot.timer\n\
Unit=boot.service\n\
FragmentPath=/etc/systemd/system/boot.timer\n\
TimersMonotonic={ OnBootUSec=15min ; next_elapse=0 }\n";

#[test]
fn timers_become_checks_and_drop_ins() {
    assert_eq!(
        parse_timer_list(TIMER_LIST).unwrap(),
        [
            "backup.timer",
            "apt-daily.timer",
            "poll.timer",
            "boot.timer"
        ]
    );
    assert!(parse_timer_list("no json").unwrap_err().contains("no JSON"));
    let draw = sequential_uuids();
    let found = propose_for_timers(
        &mut proposer(&draw),
        &parse_timers(TIMER_PROPERTIES_OUTPUT),
        "/etc/systemd/system",
        false,
    );
    let drop_in = |unit: &str| format!("/etc/systemd/system/{unit}.d/overdue.conf");
    assert_eq!(
        found.proposals.iter().map(summary).collect::<Vec<_>>(),
        [
            (
                "nas-backup".into(),
                "Mon..Fri *-*-* 03:30:00 UTC".into(),
                3600 + 660,
                drop_in("backup.service")
            ),
            (
                "nas-poll".into(),
                String::new(),
                540 + 60,
                drop_in("poll.service")
            ),
        ]
    );
    assert_eq!(found.proposals[1].settings.timeout.get(), 5400);
    assert_eq!(
        found
            .skipped
            .iter()
            .map(|skipped| skipped.needs_manual_edit)
            .collect::<Vec<_>>(),
        [false, false]
    );
    let all = propose_for_timers(
        &mut proposer(&draw),
        &parse_timers(TIMER_PROPERTIES_OUTPUT),
        "/etc/systemd/system",
        true,
    );
    assert_eq!(all.proposals[1].settings.grace.get(), 3600 + 12 * 3600 + 60);
    let JobEdit::DropIn { text, .. } = &found.proposals[0].edit else {
        panic!("an edit of a line")
    };
    assert!(
        text.starts_with("[Service]\nExecStartPre=-/bin/sh -c 'curl ")
            && text.contains("$$SERVICE_RESULT"),
        "{text}"
    );
}

#[test]
fn the_variable_tz_does_not_set_the_time_zone_of_schedules() {
    for (text, zones) in [
        ("TZ=Asia/Tokyo\n0 3 * * * a\n", &["UTC"][..]),
        (
            "CRON_TZ=Asia/Tokyo\n0 3 * * * a\nTZ=Europe/Riga\n0 4 * * * b\n",
            &["Asia/Tokyo", "Asia/Tokyo"],
        ),
        ("TZ=Mars\n0 3 * * * a\n", &["UTC"]),
    ] {
        let draw = sequential_uuids();
        let found = propose_for_crontab(
            &mut proposer(&draw),
            &Crontab {
                name: "c".into(),
                text: text.into(),
                owner: CrontabOwner::User,
            },
        );
        let found_zones: Vec<_> = found
            .proposals
            .iter()
            .map(|proposal| proposal.settings.tz.name())
            .collect();
        assert_eq!(found_zones, zones, "{text}");
    }
}

#[test]
fn malformed_crontabs_do_not_panic() {
    for text in [
        "* * * * *",
        "* * * * * ",
        "@",
        "= =",
        "TZ=Mars\n* * * * * x",
        "* * * * * \u{0}\u{7f}",
        "ž ž ž ž ž ž",
        "* * * * * \\",
    ] {
        let draw = sequential_uuids();
        let found = propose_for_crontab(
            &mut proposer(&draw),
            &Crontab {
                name: "c".into(),
                text: text.into(),
                owner: CrontabOwner::User,
            },
        );
        assert!(found.proposals.len() + found.skipped.len() <= 2, "{text:?}");
    }
}

#[test]
fn a_job_in_a_condition_or_a_loop_is_named_after_its_program() {
    for (command, name) in [
        ("if [ ! -d /srv/x ]; then /opt/jobs/clean.sh; fi", "clean"),
        ("for f in /srv/*; do gzip-all $f; done", "gzip-all"),
        (
            "while ! test -e /run/x; do sleep 1; done; /opt/report",
            "report",
        ),
        ("case $(date) in a) x;; esac", "job"),
        ("if backup --all; then true; fi", "backup"),
    ] {
        assert_eq!(shell_command::job_name(command), name, "{command}");
    }
}

#[test]
fn fuzz_crontabs() {
    let draw = sequential_uuids();
    crate::util::fuzzing::fuzz_text(
        &[CRONTAB, "TZ=UTC\n0 3 * * * root a % b\n", "@daily x\r\n"],
        |text| {
            for owner in [CrontabOwner::System, CrontabOwner::User] {
                let crontab = Crontab {
                    name: "crontab".into(),
                    text: text.into(),
                    owner,
                };
                propose_for_crontab(&mut proposer(&draw), &crontab);
            }
            parse_timers(text);
            let _ = parse_timer_list(text);
        },
    );
}

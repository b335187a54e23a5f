//! Texts of warnings.

use super::alert_text::whole;
use super::sample::{alert_at, alert_now, backup, moment, of_check, summary, warning};
use crate::channels::alert::{AlertFacts, CheckEvent, CheckFacts, WarningOutlook};
use crate::domain::check::WarningKind;
use crate::domain::flip::FlipCause;

fn text(kind: WarningKind, later: Option<WarningOutlook>) -> String {
    let CheckEvent::Warning {
        warning, outlook, ..
    } = warning(kind)
    else {
        unreachable!("a sample of a warning")
    };
    let event = CheckEvent::Warning {
        warning,
        skipped: 0,
        outlook: later.unwrap_or(outlook),
    };
    let check = CheckFacts {
        last_ping: backup().last_ping.filter(|_| kind == WarningKind::RanShort),
        ..backup()
    };
    let alert = alert_at(
        AlertFacts::Check(Box::new(check), event),
        "2026-11-20T01:45:00Z",
    );
    format!("{}\n{}\n{}", alert.title, alert.summary, alert.one_line)
}

#[test]
fn a_warning_says_what_was_expected_and_what_has_happened_since() {
    let started = WarningOutlook::Started(moment("2026-11-20T01:40:00Z"));
    let reported = WarningOutlook::Reported(moment("2026-11-20T01:41:00Z"));
    for (kind, later, expected) in [
        (
            WarningKind::Late,
            None,
            "Nightly backup is late\n\
             A ping was expected at 03:30 (Europe/Riga), and none arrived. It goes down at 03:45 \
             unless it reports before that.\n\
             LATE: Nightly backup. A ping was expected at 03:30 (Europe/Riga), and none arrived.",
        ),
        (
            WarningKind::Late,
            Some(started),
            "Nightly backup was late\n\
             A ping was expected at 03:30 (Europe/Riga), and none arrived. It has started since, \
             at 03:40.\n\
             LATE: Nightly backup. A ping was expected at 03:30 (Europe/Riga), and none arrived.",
        ),
        (
            WarningKind::NotStarted,
            None,
            "Nightly backup has not started\n\
             A run was expected at 03:30 (Europe/Riga) and had not started 5 minutes later. It \
             goes down at 03:45 unless it reports before that.\n\
             NOT STARTED IN TIME: Nightly backup. A run was expected at 03:30 (Europe/Riga) and \
             had not started 5 minutes later.",
        ),
        (
            WarningKind::RanLong,
            None,
            "Nightly backup is taking too long\n\
             Its run that started at 03:30 (Europe/Riga) is taking longer than 5 minutes. It goes \
             down at 03:45 unless it reports before that.\n\
             RUN TOO LONG: Nightly backup. Its run that started at 03:30 (Europe/Riga) is taking \
             longer than 5 minutes.",
        ),
        (
            WarningKind::RanLong,
            Some(reported),
            "Nightly backup took too long\n\
             Its run that started at 03:30 (Europe/Riga) took longer than 5 minutes. It has \
             reported since, at 03:41.\n\
             RUN TOO LONG: Nightly backup. Its run that started at 03:30 (Europe/Riga) took \
             longer than 5 minutes.",
        ),
        (
            WarningKind::RanShort,
            None,
            "Nightly backup finished too fast\n\
             Its run that ended at 03:35 (Europe/Riga) took 4 min 12 s, less than 5 minutes.\n\
             RUN TOO SHORT: Nightly backup. Its run that ended at 03:35 (Europe/Riga) took \
             4 min 12 s, less than 5 minutes.",
        ),
    ] {
        assert_eq!(text(kind, later), expected, "{kind:?}");
    }
}

#[test]
fn warnings_that_were_not_sent_are_counted() {
    for (skipped, expected) in [
        (1, " 1 earlier warning about it was not sent."),
        (3, " 3 earlier warnings about it were not sent."),
    ] {
        let CheckEvent::Warning { warning, .. } = warning(WarningKind::RanShort) else {
            unreachable!("a sample of a warning")
        };
        let event = CheckEvent::Warning {
            warning,
            skipped,
            outlook: WarningOutlook::Unknown,
        };
        let alert = of_check(backup(), event);
        assert!(alert.summary.ends_with(expected), "{}", alert.summary);
    }
}

#[test]
fn a_digest_lists_warnings_after_changes() {
    let at = "2026-11-20T01:31:00Z";
    let warned = |name| {
        let check = summary(name, at, FlipCause::Unknown);
        (check, WarningKind::Late, moment(at))
    };
    let only = alert_now(AlertFacts::Digest {
        down: vec![],
        up: vec![],
        warned: vec![warned("a"), warned("b")],
    });
    assert_eq!(
        whole(&only).split("\n\nhttps").next().unwrap(),
        "⚠️ Home: Warnings about 2 checks\n\
         \n\
         Warnings:\n\
         • a (late at 03:31)\n\
         • b (late at 03:31)"
    );
    let mixed = alert_now(AlertFacts::Digest {
        down: vec![summary("c", at, FlipCause::Fail)],
        up: vec![],
        warned: vec![warned("a")],
    });
    assert_eq!(mixed.title, "Home: 1 check went down");
    assert!(whole(&mixed).contains("Warnings:\n• a (late at 03:31)\n"));
}

//! Sample alerts for the tests of this module.

use std::num::NonZeroU8;
use std::sync::Arc;

use uuid::Uuid;

use crate::channels::alert::{
    Alert, AlertFacts, CheckEvent, CheckFacts, CheckSummary, CloseReason, EventContext, PingFacts,
    RenderContext, SendAttempt, WarningOutlook,
};
use crate::channels::alert_text;
use crate::domain::check::{CheckSettings, RunLimit, Warning, WarningKind};
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::number::Seconds;
use crate::domain::ping::{PingKind, PingScheme};
use crate::domain::schedule::Schedule;
use crate::domain::status::Status;
use crate::domain::text::{Description, Name, Slug, Tags};
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::domain::timezone::Timezone;

pub(super) fn moment(text: &str) -> Timestamp {
    Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

pub(super) fn riga() -> Timezone {
    Timezone::parse("Europe/Riga").unwrap()
}

pub(super) fn flip(at: &str, to: Status, cause: FlipCause) -> Flip {
    let from = if to == Status::Down {
        Status::Up
    } else {
        Status::Down
    };
    Flip {
        at: moment(at),
        from,
        to,
        cause,
        awaited_since: None,
    }
}

pub(super) fn down(at: &str, cause: FlipCause) -> CheckEvent {
    CheckEvent::Down {
        flip: flip(at, Status::Down, cause),
        context: EventContext::default(),
    }
}

pub(super) fn up(from: &str, at: &str, cause: FlipCause, was_notified: bool) -> CheckEvent {
    let down = flip(from, Status::Down, cause);
    let flip = flip(at, Status::Up, FlipCause::Success);
    CheckEvent::Up {
        flip,
        down,
        was_notified,
        context: EventContext::default(),
    }
}

/// Warning about a run that was expected or started at 03:30, or ended at 03:35. Its limit is five
/// minutes.
pub(super) fn warning(kind: WarningKind) -> CheckEvent {
    let from = moment("2026-11-20T01:30:00Z");
    let secs = match kind {
        WarningKind::Late => 60,
        _ => 300,
    };
    CheckEvent::Warning {
        warning: Warning {
            kind,
            from,
            at: from.plus_secs(secs),
            limit: match kind {
                WarningKind::Late => RunLimit::default(),
                _ => RunLimit::parse(300).unwrap(),
            },
        },
        skipped: 0,
        outlook: match kind {
            WarningKind::RanShort => WarningOutlook::Unknown,
            _ => WarningOutlook::Deadline(from.plus_secs(900)),
        },
    }
}

pub(super) fn exit(status: u8) -> FlipCause {
    FlipCause::ExitStatus(NonZeroU8::new(status).unwrap())
}

pub(super) const PING_KEY: &str = "z-CPuIu0ex210FaObYCzhL";

pub(super) fn mail_ping(message: &str, subject: &str, text: &str) -> PingFacts {
    let mail = Some(crate::channels::alert::MailText {
        subject: subject.into(),
        text: text.into(),
    });
    PingFacts {
        scheme: PingScheme::Email,
        mail,
        ..ping(
            PingKind::Fail,
            "2026-11-20T01:34:05Z",
            None,
            message.as_bytes(),
        )
    }
}

/// Backup at 03:30 that last ran the day before.
pub(super) fn backup() -> CheckFacts {
    let settings = CheckSettings {
        name: Name::parse("Nightly backup").unwrap(),
        slug: Slug::parse("nightly-backup").unwrap(),
        tags: Tags::from_stored("prod db"),
        desc: Description::from_stored("Runs on nas.\nIf it fails: mount /backup."),
        grace: Seconds::parse(900).unwrap(),
        schedule: Some(Arc::new(Schedule::parse("30 3 * * *").unwrap())),
        tz: riga(),
        ..CheckSettings::default()
    };
    let uuid = Uuid::from_u128(0x6f3a_0f6e_0c9b_4f0e_9b1b_0a1b_2c3d_4e5f);
    CheckFacts {
        alerted_labels: None,
        uuid,
        unique_key: crate::domain::ids::UniqueKey::of_check(uuid),
        project: "Home".into(),
        settings: Arc::new(settings),
        n_pings: 412,
        failures: 1,
        last_ping: Some(ping(
            PingKind::Success,
            "2026-11-19T01:31:00Z",
            None,
            b"10 files\nrc=0\n",
        )),
        last_success: Some(moment("2026-11-19T01:31:00Z")),
        other_down_names: vec!["db-dump".into()],
        other_down_count: 3,
        ping_keys: vec![crate::domain::project::PingKey::parse(PING_KEY).unwrap()],
        json: None,
    }
}

pub(super) fn ping(kind: PingKind, at: &str, exit: Option<u8>, body: &[u8]) -> PingFacts {
    PingFacts {
        at: moment(at),
        kind,
        scheme: PingScheme::Http,
        exit_status: exit,
        from: Some([192, 0, 2, 7].into()),
        run_duration: Some(252 * MICROS_PER_SEC),
        body: body.to_vec(),
        mail: None,
    }
}

pub(super) fn summary(name: &str, since: &str, cause: FlipCause) -> CheckSummary {
    let last_success = Some(moment("2026-11-19T01:31:00Z"));
    CheckSummary {
        name: name.into(),
        project: "Home".into(),
        project_uuid: Some(Uuid::from_u128(9)),
        since: moment(since),
        cause,
        last_success,
    }
}

/// Alert for facts, a few hours after the backup was due.
pub(super) fn alert_now(facts: AlertFacts) -> Alert {
    alert_at(facts, "2026-11-20T06:57:00Z")
}

pub(super) fn alert_at(facts: AlertFacts, now: &str) -> Alert {
    let pages = Some("https://overdue.example.org/");
    alert_text::compose_alert(
        facts,
        RenderContext {
            now: moment(now),
            zone: &riga(),
            page_base_url: pages,
            host: "overdue.example.org",
        },
    )
}

pub(super) fn of_check(check: CheckFacts, event: CheckEvent) -> Alert {
    alert_now(AlertFacts::Check(Box::new(check), event))
}

pub(super) fn attempt() -> SendAttempt {
    SendAttempt {
        id: "0a1b2c3d-1042".into(),
        number: 1,
        failing_since: None,
        at: moment("2026-11-20T06:57:00Z"),
        may_be_duplicate: false,
        plain: false,
        mail_id: "0a1b2c3d-7-31".into(),
        mail_in_reply_to: Some("0a1b2c3d-7-30".into()),
        unsubscribe_url: Some("https://overdue.example.org/unsubscribe/c/s".into()),
    }
}

/// The backup failed with some output.
pub(super) fn failed() -> Alert {
    let mut check = backup();
    check.last_ping = Some(ping(
        PingKind::Fail,
        "2026-11-20T01:34:05Z",
        Some(3),
        b"copying <a>\n\x1b[31merror: no space left on device\x1b[0m\n",
    ));
    check.failures = 2;
    of_check(check, down("2026-11-20T01:34:05Z", exit(3)))
}

/// One alert of every event.
pub(super) fn every_event() -> Vec<(&'static str, Alert)> {
    let at = "2026-11-20T01:45:00Z";
    let late = FlipCause::MissedPing;
    let notice = AlertFacts::Notice {
        title: "The channel ops mail cannot deliver".into(),
        text: "It has been failing for 1 hour: the mail server said 421. See overdue channel list."
            .into(),
        is_resolved: false,
    };
    let closed = CheckEvent::Closed {
        at: moment("2026-11-20T06:00:00Z"),
        reason: CloseReason::Paused,
    };
    let briefs = || {
        vec![
            summary("Nightly backup", at, late),
            summary("db-dump", "2026-11-20T02:00:00Z", exit(1)),
        ]
    };
    vec![
        ("down", failed()),
        ("late", of_check(backup(), down(at, late))),
        (
            "up",
            of_check(backup(), up(at, "2026-11-20T06:57:00Z", late, true)),
        ),
        ("warning", of_check(backup(), warning(WarningKind::RanLong))),
        ("still", alert_now(AlertFacts::StillDown(briefs()))),
        ("closed", of_check(backup(), closed)),
        (
            "test",
            of_check(
                CheckFacts::example("Home"),
                CheckEvent::Test {
                    at: moment(at),
                    up: false,
                    channel: "ops".into(),
                },
            ),
        ),
        ("notice", alert_now(notice)),
        (
            "digest",
            alert_now(AlertFacts::Digest {
                down: briefs(),
                up: vec![summary("Sync", at, late)],
                warned: vec![],
            }),
        ),
    ]
}

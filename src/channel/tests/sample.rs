//! Alerts as they come about, for the tests beside this file.

use std::num::NonZeroU8;
use std::sync::Arc;

use uuid::Uuid;

use crate::channel::alert::{Alert, Also, Attempt, Brief, CheckFacts, Closing, Facts, News, PingFacts, Scene};
use crate::channel::words;
use crate::domain::check::Settings;
use crate::domain::flip::{Cause, Flip};
use crate::domain::moment::{MICROS, Moment};
use crate::domain::ping::{Kind, Scheme};
use crate::domain::schedule::Schedule;
use crate::domain::status::Status;
use crate::domain::text::{Description, Name, Seconds, Slug, Tags};
use crate::domain::timezone::Timezone;

pub(super) fn moment(text: &str) -> Moment {
    Moment::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

pub(super) fn riga() -> Timezone {
    Timezone::parse("Europe/Riga").unwrap()
}

pub(super) fn flip(at: &str, to: Status, cause: Cause) -> Flip {
    let from = if to == Status::Down { Status::Up } else { Status::Down };
    Flip { at: moment(at), from, to, cause, awaited: None }
}

pub(super) fn down(at: &str, cause: Cause) -> News {
    News::Down { flip: flip(at, Status::Down, cause), also: Also::default() }
}

pub(super) fn up(from: &str, at: &str, cause: Cause, told: bool) -> News {
    let (down, flip) = (flip(from, Status::Down, cause), flip(at, Status::Up, Cause::Success));
    News::Up { flip, down, told, also: Also::default() }
}

pub(super) fn exit(status: u8) -> Cause {
    Cause::Exit(NonZeroU8::new(status).unwrap())
}

/// The ping key of the project.
pub(super) const PING_KEY: &str = "z-CPuIu0ex210FaObYCzhL";

/// A ping by mail.
pub(super) fn mailed(message: &str, subject: &str, text: &str) -> PingFacts {
    let mail = Some(crate::channel::alert::MailText { subject: subject.into(), text: text.into() });
    PingFacts { scheme: Scheme::Email, mail, ..ping(Kind::Fail, "2026-11-20T01:34:05Z", None, message.as_bytes()) }
}

/// A backup at 03:30 that last ran the day before.
pub(super) fn backup() -> CheckFacts {
    let settings = Settings {
        name: Name::parse("Nightly backup").unwrap(),
        slug: Slug::parse("nightly-backup").unwrap(),
        tags: Tags::stored("prod db"),
        desc: Description::stored("Runs on nas.\nIf it fails: mount /backup."),
        grace: Seconds::parse(900).unwrap(),
        schedule: Some(Arc::new(Schedule::parse("30 3 * * *").unwrap())),
        tz: riga(),
        ..Settings::default()
    };
    let uuid = Uuid::from_u128(0x6f3a_0f6e_0c9b_4f0e_9b1b_0a1b_2c3d_4e5f);
    CheckFacts {
        told_as: None,
        uuid,
        unique_key: crate::domain::ids::UniqueKey::of(uuid),
        project: "Home".into(),
        settings: Arc::new(settings),
        n_pings: 412,
        failures: 1,
        last_ping: Some(ping(Kind::Success, "2026-11-19T01:31:00Z", None, b"10 files\nrc=0\n")),
        last_success: Some(moment("2026-11-19T01:31:00Z")),
        others_down: vec!["db-dump".into()],
        others: 3,
        ping_keys: vec![crate::domain::project::PingKey::parse(PING_KEY).unwrap()],
        json: None,
    }
}

pub(super) fn ping(kind: Kind, at: &str, exit: Option<u8>, body: &[u8]) -> PingFacts {
    PingFacts {
        at: moment(at),
        kind,
        scheme: Scheme::Http,
        exit,
        from: Some([192, 0, 2, 7].into()),
        took: Some(252 * MICROS),
        body: body.to_vec(),
        mail: None,
    }
}

pub(super) fn brief(name: &str, since: &str, cause: Cause) -> Brief {
    let last_success = Some(moment("2026-11-19T01:31:00Z"));
    Brief { name: name.into(), project: "Home".into(), project_uuid: Some(Uuid::from_u128(9)), since: moment(since), cause, last_success }
}

/// The words for facts, a few hours after the backup should have run.
pub(super) fn told(facts: Facts) -> Alert {
    told_at(facts, "2026-11-20T06:57:00Z")
}

pub(super) fn told_at(facts: Facts, now: &str) -> Alert {
    let pages = Some("https://overdue.example.org/");
    words::alert(facts, Scene { now: moment(now), zone: &riga(), pages, host: "overdue.example.org" })
}

pub(super) fn of_check(check: CheckFacts, news: News) -> Alert {
    told(Facts::Check(Box::new(check), news))
}

pub(super) fn attempt() -> Attempt {
    Attempt {
        id: "0a1b2c3d-1042".into(),
        number: 1,
        failing_since: None,
        at: moment("2026-11-20T06:57:00Z"),
        doubtful: false,
        plain: false,
        mail_id: "0a1b2c3d-7-31".into(),
        mail_answers: Some("0a1b2c3d-7-30".into()),
        unsubscribe: Some("https://overdue.example.org/unsubscribe/c/s".into()),
    }
}

/// The backup failed with output of its own.
pub(super) fn failed() -> Alert {
    let mut check = backup();
    check.last_ping =
        Some(ping(Kind::Fail, "2026-11-20T01:34:05Z", Some(3), b"copying <a>\n\x1b[31merror: no space left on device\x1b[0m\n"));
    check.failures = 2;
    of_check(check, down("2026-11-20T01:34:05Z", exit(3)))
}

/// One alert of every event.
pub(super) fn every_event() -> Vec<(&'static str, Alert)> {
    let (at, late) = ("2026-11-20T01:45:00Z", Cause::Late);
    let notice = Facts::Notice {
        title: "The channel ops mail cannot deliver".into(),
        text: "It has been failing for 1 hour: the mail server said 421. See overdue channel list.".into(),
        over: false,
    };
    let closed = News::Closed { at: moment("2026-11-20T06:00:00Z"), why: Closing::Paused };
    let briefs = || vec![brief("Nightly backup", at, late), brief("db-dump", "2026-11-20T02:00:00Z", exit(1))];
    vec![
        ("down", failed()),
        ("late", of_check(backup(), down(at, late))),
        ("up", of_check(backup(), up(at, "2026-11-20T06:57:00Z", late, true))),
        ("still", told(Facts::Still(briefs()))),
        ("closed", of_check(backup(), closed)),
        ("test", of_check(CheckFacts::example("Home"), News::Test { at: moment(at), up: false, channel: "ops".into() })),
        ("notice", told(notice)),
        ("digest", told(Facts::Digest { down: briefs(), up: vec![brief("Sync", at, late)] })),
    ]
}

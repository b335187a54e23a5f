//! Model of a soak: the state of each check, computed with whole seconds and without the engine.

use std::sync::Arc;

use jiff::tz::TimeZone;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::flip::FlipCause;
use overdue::domain::number::Seconds;
use overdue::domain::ping::PingKind;
use overdue::domain::schedule::Schedule;
use overdue::domain::status::Status;
use overdue::domain::timezone::Timezone;

pub(super) const MINUTE: i64 = 60;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;
const HALF_HOUR: i64 = 30 * MINUTE;
/// Zone of the checks with a daily schedule.
const ZONE: &str = "Europe/Riga";

/// Times at which a job should report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobSchedule {
    /// Period in seconds.
    Every(i64),
    /// `*/30 * * * *` in UTC.
    HalfHourly,
    /// Half past this hour in [`ZONE`].
    Daily(i8),
}

impl JobSchedule {
    /// Settings of a check with this schedule, which notifies all channels of its project.
    pub(super) fn settings(self, grace: i64) -> CheckEdit {
        let cron = |text: &str| Some(Arc::new(Schedule::parse(text).unwrap()));
        let settings = CheckEdit {
            grace: Some(Seconds::parse(grace).unwrap()),
            channels: Some(ChannelSelection::All),
            ..CheckEdit::default()
        };
        match self {
            Self::Every(secs) => CheckEdit {
                timeout: Some(Seconds::parse(secs).unwrap()),
                ..settings
            },
            Self::HalfHourly => CheckEdit {
                schedule: cron("*/30 * * * *"),
                ..settings
            },
            Self::Daily(hour) => CheckEdit {
                schedule: cron(&format!("30 {hour} * * *")),
                tz: Some(Timezone::parse(ZONE).unwrap()),
                ..settings
            },
        }
    }

    /// Returns the time at which the report after that at `last` is expected.
    pub(super) fn next_after(self, last: i64) -> i64 {
        match self {
            Self::Every(secs) => last + secs,
            Self::HalfHourly => (last / HALF_HOUR + 1) * HALF_HOUR,
            Self::Daily(hour) => {
                let zone = TimeZone::get(ZONE).unwrap();
                let local = jiff::Timestamp::from_second(last).unwrap().to_zoned(zone);
                let on = |date: jiff::civil::Date| {
                    let zoned = |hour, minute| {
                        let time = date.at(hour, minute, 0, 0);
                        time.to_zoned(local.time_zone().clone()).unwrap()
                    };
                    // A time that is skipped when the clocks go forward is replaced by the end of
                    // the gap. Here, gaps end at a full hour.
                    let time = zoned(hour, 30);
                    let is_skipped = time.hour() != hour;
                    let time = if is_skipped {
                        zoned(time.hour(), 0)
                    } else {
                        time
                    };
                    time.timestamp().as_second()
                };
                let today = on(local.date());
                if today > last {
                    today
                } else {
                    on(local.date().tomorrow().unwrap())
                }
            }
        }
    }
}

/// Change of the status of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ModelFlip {
    pub(super) at: i64,
    pub(super) from: Status,
    pub(super) to: Status,
    pub(super) cause: FlipCause,
}

/// Number of changes of status of all checks, also of deleted ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct FlipCounts {
    pub(super) all: u64,
    /// To down. Each of them is alerted.
    pub(super) down: u64,
    /// From down to up. Each of them is alerted.
    pub(super) up_again: u64,
}

/// A check. All times are in seconds.
#[derive(Debug)]
pub(super) struct ModelCheck {
    pub(super) uuid: u128,
    /// Number of its project, from 0 on.
    pub(super) project: usize,
    pub(super) schedule: JobSchedule,
    pub(super) grace: i64,
    pub(super) status: Status,
    pub(super) last_ping: Option<i64>,
    /// Start of the ongoing run.
    pub(super) run: Option<i64>,
    pub(super) n_pings: u64,
    /// Flips that the server still has to know, oldest first.
    pub(super) flips: Vec<ModelFlip>,
}

impl ModelCheck {
    pub(super) fn new(uuid: u128, project: usize, schedule: JobSchedule, grace: i64) -> Self {
        Self {
            uuid,
            project,
            schedule,
            grace,
            status: Status::New,
            last_ping: None,
            run: None,
            n_pings: 0,
            flips: Vec::new(),
        }
    }

    /// Logs a ping.
    pub(super) fn ping(&mut self, kind: PingKind, now: i64, counts: &mut FlipCounts) {
        self.wait_until(now, counts);
        self.n_pings += 1;
        let (to, cause) = match kind {
            PingKind::Start => {
                self.run = Some(now);
                return;
            }
            PingKind::Log | PingKind::Ignored => return,
            PingKind::Success => (Status::Up, FlipCause::Success),
            PingKind::Fail => (Status::Down, FlipCause::Fail),
        };
        self.last_ping = Some(now);
        self.run = None;
        self.change_status(to, now, cause, counts);
    }

    /// Marks the check as down if its deadline has passed.
    pub(super) fn wait_until(&mut self, now: i64, counts: &mut FlipCounts) {
        if self.status == Status::Down {
            return;
        }
        let expected = self
            .last_ping
            .filter(|_| self.status == Status::Up)
            .map(|last| (self.schedule.next_after(last), FlipCause::MissedPing));
        let run = self.run.map(|start| (start, FlipCause::Overrun));
        let first = expected
            .into_iter()
            .chain(run)
            .min_by_key(|(from, _)| *from);
        if let Some((from, cause)) = first.filter(|(from, _)| from + self.grace <= now) {
            self.change_status(Status::Down, from + self.grace, cause, counts);
        }
    }

    fn change_status(&mut self, to: Status, at: i64, cause: FlipCause, counts: &mut FlipCounts) {
        let from = std::mem::replace(&mut self.status, to);
        if from != to {
            self.flips.push(ModelFlip {
                at,
                from,
                to,
                cause,
            });
            counts.all += 1;
            counts.down += u64::from(to == Status::Down);
            counts.up_again += u64::from((from, to) == (Status::Down, Status::Up));
        }
    }

    /// Forgets flips before a time.
    pub(super) fn forget_flips_before(&mut self, time: i64) {
        self.flips.retain(|flip| flip.at >= time);
    }
}

/// Returns the body of a ping. Its length and its bytes depend on the check and the ping only. The
/// bodies of a check that is `verbose` are stored in several chunks.
pub(super) fn body_of(uuid: u128, n: u64, verbose: bool) -> Vec<u8> {
    let mixed = (uuid as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(n)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = mixed ^ (mixed >> 31);
    let len = match mixed % 16 {
        _ if verbose => 20_000 + mixed % 70_000,
        0..8 => 0,
        8..14 => 1 + mixed % 200,
        14 => 1 + mixed % 1500,
        _ => 1 + mixed % 4000,
    };
    let mut body = format!("run {n} of {uuid}: ").into_bytes();
    body.resize(len as usize, b'a' + (mixed % 26) as u8);
    body
}

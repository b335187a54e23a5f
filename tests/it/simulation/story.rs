//! What the history of a check comes to, told from its first event every time it is asked for: no state is carried from one question to
//! the next, and no code is shared with the engine.

use std::num::NonZeroU8;

use bytes::Bytes;
use overdue::domain::flip::Cause;
use overdue::domain::outcomes::RunOutcome;
use overdue::domain::ping::{Kind, Method};
use overdue::domain::status::{Status, VisibleStatus};
use overdue::engine::command::Signal;
use uuid::Uuid;

const SECOND: i64 = 1_000_000;
/// A time so far ahead of the clock comes from another clock.
pub(crate) const STEP: i64 = 5 * SECOND;
/// The engine looks for deadlines that have passed up to a multiple of this.
const TICK: i64 = 1 << 16;

/// When the next ping is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Period {
    Seconds(i64),
    /// `*/5 * * * *`
    EveryFiveMinutes,
    /// `0 3 * * *`
    AtThree,
    /// An OnCalendar expression whose only moment has passed.
    Over,
}

/// What of a check's settings decides about pings and deadlines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub(crate) period: Period,
    pub(crate) grace: i64,
    pub(crate) manual_resume: bool,
    pub(crate) post_only: bool,
    /// Whether the keywords `GO`, `OK` and `ERR` are set; otherwise there are none.
    pub(crate) keywords: bool,
    pub(crate) filter_subject: bool,
    pub(crate) filter_body: bool,
    pub(crate) filter_http_body: bool,
    pub(crate) default_fail: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Ping {
        signal: Signal,
        method: Method,
        rid: Option<Uuid>,
        sent: Bytes,
        stored: Bytes,
    },
    NewRules(Rules),
    Pause,
    Resume,
    /// The engine looks for deadlines that have passed.
    Look,
    /// It looks at this check alone, to the microsecond.
    Settle,
    /// What it waits for counts from now, if it counts from a time ahead of the clock.
    BringBack,
}

/// A logged ping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) n: u64,
    pub(crate) at: i64,
    pub(crate) kind: Kind,
    pub(crate) method: Method,
    pub(crate) rid: Option<Uuid>,
    pub(crate) exit: Option<u8>,
    pub(crate) body: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) struct Story {
    rules: Rules,
    pub(crate) status: Status,
    pub(crate) last_ping: Option<i64>,
    pub(crate) run: Option<(i64, Option<Uuid>)>,
    pub(crate) last_duration: Option<i64>,
    pub(crate) log: Vec<Entry>,
    /// Moment, status before, status after, cause.
    pub(crate) flips: Vec<(i64, Status, Status, Cause)>,
    /// Of all completions and missed deadlines, oldest first.
    pub(crate) outcomes: Vec<RunOutcome>,
    pub(crate) changed: i64,
}

impl Story {
    pub(crate) fn told(created: i64, rules: Rules, imported: &[Entry], history: &[(i64, Event)]) -> Self {
        let mut story = Self {
            rules,
            status: Status::New,
            last_ping: None,
            run: None,
            last_duration: None,
            log: imported.to_vec(),
            flips: Vec::new(),
            outcomes: Vec::new(),
            changed: created,
        };
        for (at, event) in history {
            story.wait_until(if matches!(event, Event::Look) { at / TICK * TICK } else { *at });
            story.meet(event, *at);
            if let Event::NewRules(_) | Event::Ping { .. } = event {
                let edited = matches!(event, Event::NewRules(_)).then_some(Cause::Edited);
                // A change that lies ahead is of another clock.
                let not_before = Some(story.changed).filter(|changed| changed <= at);
                story.go_down_if_due(*at, edited, not_before);
            }
        }
        story
    }

    /// The rules that count now.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Time alone takes a check down, at its deadline.
    fn wait_until(&mut self, now: i64) {
        self.go_down_if_due(now, None, None);
    }

    fn go_down_if_due(&mut self, now: i64, cause: Option<Cause>, not_before: Option<i64>) {
        if let Some(deadline) = self.deadline().filter(|deadline| *deadline <= now) {
            let is_run = self.run.is_some_and(|(start, _)| self.grace_start().is_none_or(|expected| start < expected));
            let cause = cause.unwrap_or(if is_run { Cause::Overrun } else { Cause::Late });
            self.outcomes.push(RunOutcome::Missed);
            self.turn(Status::Down, not_before.map_or(deadline, |at| deadline.max(at)), cause);
        }
    }

    fn meet(&mut self, event: &Event, now: i64) {
        match event {
            Event::Look | Event::Settle => {}
            Event::NewRules(rules) => self.rules = *rules,
            Event::Pause => {
                self.run = None;
                self.turn(Status::Paused, now, Cause::Operator);
            }
            Event::Resume => {
                self.last_ping = None;
                self.run = None;
                self.turn(Status::New, now, Cause::Operator);
            }
            Event::BringBack => {
                let ahead = |at: &i64| at - now >= STEP;
                self.last_ping = self.last_ping.map(|at| if ahead(&at) { now } else { at });
                self.run = self.run.map(|(start, rid)| (if ahead(&start) { now } else { start }, rid));
            }
            Event::Ping { signal, method, rid, sent, stored } => {
                let (kind, cause) = self.kind(signal, *method, sent);
                let exit = if let Signal::Exit(status) = signal { Some(*status) } else { None };
                let n = self.log.len() as u64 + 1;
                self.log.push(Entry { n, at: now, kind, method: *method, rid: *rid, exit, body: stored.clone() });
                match kind {
                    Kind::Start => self.run = Some((now, *rid)),
                    Kind::Success | Kind::Fail => self.finish(kind, cause, *rid, now),
                    Kind::Log | Kind::Ignored => {}
                }
            }
        }
    }

    fn finish(&mut self, kind: Kind, cause: Cause, rid: Option<Uuid>, now: i64) {
        self.last_ping = Some(now);
        let run = self.run;
        let (duration, goes_on) = match (run, rid, kind) {
            (None, _, _) => (None, false),
            (Some((start, started_by)), rid, _) if started_by == rid => (Some(now - start).filter(|_| start <= now), false),
            (Some(_), Some(_), Kind::Success) => (None, true),
            (Some(_), _, _) => (None, false),
        };
        self.last_duration = duration;
        self.run = run.filter(|_| goes_on);
        let (to, outcome) = if kind == Kind::Success { (Status::Up, RunOutcome::Success) } else { (Status::Down, RunOutcome::Fail) };
        self.outcomes.push(outcome);
        self.turn(to, now, cause);
    }

    /// What a signal means, and what a flip that it makes is caused by.
    fn kind(&self, signal: &Signal, method: Method, sent: &Bytes) -> (Kind, Cause) {
        let rules = &self.rules;
        let ignored = (Kind::Ignored, Cause::Unknown);
        if self.status == Status::Paused && rules.manual_resume {
            return ignored;
        }
        match signal {
            Signal::Http(_) | Signal::Exit(_) if rules.post_only && method != Method::Post => ignored,
            Signal::Http(_) | Signal::Exit(_) if rules.filter_http_body => {
                self.by_keywords(&String::from_utf8_lossy(&sent[..sent.len().min(10_000)]))
            }
            Signal::Http(kind) => (*kind, if *kind == Kind::Fail { Cause::Fail } else { Cause::Success }),
            Signal::Exit(status) => {
                NonZeroU8::new(*status).map_or((Kind::Success, Cause::Success), |status| (Kind::Fail, Cause::Exit(status)))
            }
            Signal::Email { .. } if !rules.filter_subject && !rules.filter_body => (Kind::Success, Cause::Success),
            Signal::Email { subject, text, .. } => {
                let searched = [(rules.filter_subject, subject), (rules.filter_body, text)];
                let searched: Vec<_> = searched.iter().filter(|(on, _)| *on).map(|(_, text)| text.as_ref()).collect();
                self.by_keywords(&searched.join("\n"))
            }
        }
    }

    fn by_keywords(&self, text: &str) -> (Kind, Cause) {
        let words = [("ERR", Kind::Fail, Cause::Keyword), ("OK", Kind::Success, Cause::Success), ("GO", Kind::Start, Cause::Unknown)];
        let found = words.into_iter().find(|(word, ..)| self.rules.keywords && text.contains(word));
        let without = if self.rules.default_fail { (Kind::Fail, Cause::NoKeyword) } else { (Kind::Ignored, Cause::Unknown) };
        found.map_or(without, |(_, kind, cause)| (kind, cause))
    }

    fn turn(&mut self, to: Status, at: i64, cause: Cause) {
        if self.status != to {
            self.flips.push((at, self.status, to, cause));
            self.changed = at;
            self.status = to;
        }
    }

    fn grace_start(&self) -> Option<i64> {
        let last_ping = self.last_ping.filter(|_| self.status == Status::Up)?;
        let day = 86_400 * SECOND;
        match self.rules.period {
            Period::Seconds(seconds) => Some(last_ping + seconds * SECOND),
            Period::EveryFiveMinutes => Some((last_ping / (300 * SECOND) + 1) * 300 * SECOND),
            Period::AtThree => {
                let three = last_ping / day * day + 3 * 3600 * SECOND;
                Some(if three > last_ping { three } else { three + day })
            }
            Period::Over => None,
        }
    }

    /// What is waited for: the expected ping, or the end of the run counted from its start.
    pub(crate) fn next_ping(&self) -> Option<i64> {
        let start = self.run.map(|(start, _)| start);
        [self.grace_start(), start].into_iter().flatten().min().filter(|_| self.status != Status::Down)
    }

    pub(crate) fn deadline(&self) -> Option<i64> {
        self.next_ping().map(|from| from + self.rules.grace * SECOND)
    }

    pub(crate) fn shown(&self, now: i64) -> VisibleStatus {
        let grace = self.rules.grace * SECOND;
        if self.run.is_some_and(|(start, _)| now >= start + grace) {
            return VisibleStatus::Down;
        }
        match (self.status, self.grace_start()) {
            (Status::New, _) => VisibleStatus::New,
            (Status::Paused, _) => VisibleStatus::Paused,
            (Status::Down, _) => VisibleStatus::Down,
            (Status::Up, Some(start)) if now >= start + grace => VisibleStatus::Down,
            (Status::Up, Some(start)) if now >= start => VisibleStatus::Grace,
            (Status::Up, _) => VisibleStatus::Up,
        }
    }
}

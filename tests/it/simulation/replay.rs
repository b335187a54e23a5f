//! Recomputes a check from its first event at each query. It keeps no state between queries and
//! shares no code with the engine.

use std::num::NonZeroU8;

use bytes::Bytes;
use overdue::domain::flip::FlipCause;
use overdue::domain::ping::{PingKind, PingMethod};
use overdue::domain::recent_outcomes::RunOutcome;
use overdue::domain::status::{Status, VisibleStatus};
use overdue::engine::command::PingSignal;
use uuid::Uuid;

const SECOND: i64 = 1_000_000;
/// A time this far ahead of the clock comes from another clock.
pub(crate) const CLOCK_JUMP: i64 = 5 * SECOND;
/// The engine looks for deadlines that have passed up to a multiple of this interval.
const TICK: i64 = 1 << 16;

/// Schedule of the next ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ModelPeriod {
    Seconds(i64),
    /// `*/5 * * * *`
    EveryFiveMinutes,
    /// `0 3 * * *`
    AtThree,
    /// An OnCalendar expression whose only time has passed.
    Ended,
}

/// Settings of a check that affect pings and deadlines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ModelRules {
    pub(crate) period: ModelPeriod,
    pub(crate) grace: i64,
    pub(crate) manual_resume: bool,
    pub(crate) post_only: bool,
    /// True if the keywords `GO`, `OK_REPLY` and `ERR` are set; otherwise there are none.
    pub(crate) keywords: bool,
    pub(crate) filter_subject: bool,
    pub(crate) filter_body: bool,
    pub(crate) filter_http_body: bool,
    pub(crate) default_fail: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum HistoryEvent {
    Ping {
        signal: PingSignal,
        method: PingMethod,
        rid: Option<Uuid>,
        sent: Bytes,
        stored: Bytes,
    },
    NewRules(ModelRules),
    /// The check is paused, until this time if there is one.
    Pause(Option<i64>),
    Resume,
    /// The engine looks for passed deadlines.
    CheckDeadlines,
    /// The engine looks at this check alone, exactly at this time.
    Settle,
    /// If the check waits for a time ahead of the clock, it waits from now on.
    ResumeAfterClockJump,
}

/// A logged ping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LoggedPing {
    pub(crate) n: u64,
    pub(crate) at: i64,
    pub(crate) kind: PingKind,
    pub(crate) method: PingMethod,
    pub(crate) rid: Option<Uuid>,
    pub(crate) exit: Option<u8>,
    pub(crate) body: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) struct ReplayedCheck {
    rules: ModelRules,
    pub(crate) status: Status,
    pub(crate) last_ping: Option<i64>,
    pub(crate) run: Option<(i64, Option<Uuid>)>,
    pub(crate) last_duration: Option<i64>,
    pub(crate) log: Vec<LoggedPing>,
    /// Time, status before, status after, cause.
    pub(crate) flips: Vec<(i64, Status, Status, FlipCause)>,
    /// Outcomes of all completions and missed deadlines, oldest first.
    pub(crate) outcomes: Vec<RunOutcome>,
    pub(crate) changed: i64,
    /// End of the pause, and the status after it.
    pause_end: Option<(i64, Status)>,
    /// End of the last pause, if no run has completed since.
    pub(crate) expected_from: Option<i64>,
}

impl ReplayedCheck {
    pub(crate) fn replay(
        created: i64,
        rules: ModelRules,
        imported: &[LoggedPing],
        history: &[(i64, HistoryEvent)],
    ) -> Self {
        let mut check = Self {
            rules,
            status: Status::New,
            last_ping: None,
            run: None,
            last_duration: None,
            log: imported.to_vec(),
            flips: Vec::new(),
            outcomes: Vec::new(),
            changed: created,
            pause_end: None,
            expected_from: None,
        };
        for (at, event) in history {
            check.wait_until(if matches!(event, HistoryEvent::CheckDeadlines) {
                at / TICK * TICK
            } else {
                *at
            });
            check.apply(event, *at);
            if let HistoryEvent::NewRules(_) | HistoryEvent::Ping { .. } = event {
                let edited = matches!(event, HistoryEvent::NewRules(_))
                    .then_some(FlipCause::SettingsChanged);
                // A status change ahead of the clock comes from another clock.
                let not_before = Some(check.changed).filter(|changed| changed <= at);
                check.go_down_if_due(*at, edited, not_before);
            }
        }
        check
    }

    /// Returns the current rules.
    pub(crate) fn rules(&self) -> &ModelRules {
        &self.rules
    }

    /// Ends a pause that is over, then marks the check as down if its deadline has passed.
    fn wait_until(&mut self, now: i64) {
        self.end_pause_if_due(now);
        self.go_down_if_due(now, None, None);
    }

    fn end_pause_if_due(&mut self, now: i64) {
        let Some((at, status)) = self.pause_end.filter(|(at, _)| *at <= now) else {
            return;
        };
        // A run that began during the pause may end it before.
        if self.deadline().is_some_and(|deadline| deadline <= at) {
            return;
        }
        let at = at.max(self.changed);
        self.change_status(status, at, FlipCause::PauseEnded);
        self.expected_from = Some(at);
    }

    fn go_down_if_due(&mut self, now: i64, cause: Option<FlipCause>, not_before: Option<i64>) {
        if let Some(deadline) = self.deadline().filter(|deadline| *deadline <= now) {
            let is_run = self.run.is_some_and(|(start, _)| {
                self.grace_start().is_none_or(|expected| start < expected)
            });
            let cause = cause.unwrap_or(if is_run {
                FlipCause::Overrun
            } else {
                FlipCause::MissedPing
            });
            self.outcomes.push(RunOutcome::Missed);
            self.change_status(
                Status::Down,
                not_before.map_or(deadline, |at| deadline.max(at)),
                cause,
            );
        }
    }

    fn apply(&mut self, event: &HistoryEvent, now: i64) {
        match event {
            HistoryEvent::CheckDeadlines | HistoryEvent::Settle => {}
            HistoryEvent::NewRules(rules) => self.rules = *rules,
            HistoryEvent::Pause(until) => {
                let after = match (self.status, self.pause_end) {
                    (Status::Paused, Some((_, status))) => status,
                    (Status::Paused, None) => Status::New,
                    (status, _) => status,
                };
                self.run = None;
                self.change_status(Status::Paused, now, FlipCause::PausedOrResumed);
                self.pause_end = until.map(|at| (at, after));
            }
            HistoryEvent::Resume => {
                self.last_ping = None;
                self.expected_from = None;
                self.run = None;
                self.change_status(Status::New, now, FlipCause::PausedOrResumed);
            }
            HistoryEvent::ResumeAfterClockJump => {
                let ahead = |at: &i64| at - now >= CLOCK_JUMP;
                self.last_ping = self.last_ping.map(|at| if ahead(&at) { now } else { at });
                self.expected_from = self
                    .expected_from
                    .map(|at| if ahead(&at) { now } else { at });
                self.run = self
                    .run
                    .map(|(start, rid)| (if ahead(&start) { now } else { start }, rid));
            }
            HistoryEvent::Ping {
                signal,
                method,
                rid,
                sent,
                stored,
            } => {
                let (kind, cause) = self.classify(signal, *method, sent);
                let exit = if let PingSignal::Exit(status) = signal {
                    Some(*status)
                } else {
                    None
                };
                let n = self.log.len() as u64 + 1;
                self.log.push(LoggedPing {
                    n,
                    at: now,
                    kind,
                    method: *method,
                    rid: *rid,
                    exit,
                    body: stored.clone(),
                });
                match kind {
                    PingKind::Start => self.run = Some((now, *rid)),
                    PingKind::Success | PingKind::Fail => self.finish(kind, cause, *rid, now),
                    PingKind::Log | PingKind::Ignored => {}
                }
            }
        }
    }

    fn finish(&mut self, kind: PingKind, cause: FlipCause, rid: Option<Uuid>, now: i64) {
        self.last_ping = Some(now);
        self.expected_from = None;
        let run = self.run;
        let (duration, continues) = match (run, rid, kind) {
            (None, _, _) => (None, false),
            (Some((start, started_by)), rid, _) if started_by == rid => {
                (Some(now - start).filter(|_| start <= now), false)
            }
            (Some(_), Some(_), PingKind::Success) => (None, true),
            (Some(_), _, _) => (None, false),
        };
        self.last_duration = duration;
        self.run = run.filter(|_| continues);
        let (to, outcome) = if kind == PingKind::Success {
            (Status::Up, RunOutcome::Success)
        } else {
            (Status::Down, RunOutcome::Fail)
        };
        self.outcomes.push(outcome);
        self.change_status(to, now, cause);
    }

    /// Returns the kind of a ping, and the cause of a flip by it.
    fn classify(
        &self,
        signal: &PingSignal,
        method: PingMethod,
        sent: &Bytes,
    ) -> (PingKind, FlipCause) {
        let rules = &self.rules;
        let ignored = (PingKind::Ignored, FlipCause::Unknown);
        if self.status == Status::Paused && rules.manual_resume {
            return ignored;
        }
        match signal {
            PingSignal::Http(_) | PingSignal::Exit(_)
                if rules.post_only && method != PingMethod::Post =>
            {
                ignored
            }
            PingSignal::Http(_) | PingSignal::Exit(_) if rules.filter_http_body => {
                self.classify_by_keywords(&String::from_utf8_lossy(&sent[..sent.len().min(10_000)]))
            }
            PingSignal::Http(kind) => (
                *kind,
                if *kind == PingKind::Fail {
                    FlipCause::Fail
                } else {
                    FlipCause::Success
                },
            ),
            PingSignal::Exit(status) => NonZeroU8::new(*status)
                .map_or((PingKind::Success, FlipCause::Success), |status| {
                    (PingKind::Fail, FlipCause::ExitStatus(status))
                }),
            PingSignal::Email { .. } if !rules.filter_subject && !rules.filter_body => {
                (PingKind::Success, FlipCause::Success)
            }
            PingSignal::Email { subject, text, .. } => {
                let searched = [(rules.filter_subject, subject), (rules.filter_body, text)];
                let searched: Vec<_> = searched
                    .iter()
                    .filter(|(on, _)| *on)
                    .map(|(_, text)| text.as_ref())
                    .collect();
                self.classify_by_keywords(&searched.join("\n"))
            }
        }
    }

    fn classify_by_keywords(&self, text: &str) -> (PingKind, FlipCause) {
        let words = [
            ("ERR", PingKind::Fail, FlipCause::Keyword),
            ("OK", PingKind::Success, FlipCause::Success),
            ("GO", PingKind::Start, FlipCause::Unknown),
        ];
        let keyword = words
            .into_iter()
            .find(|(word, ..)| self.rules.keywords && text.contains(word));
        let default = if self.rules.default_fail {
            (PingKind::Fail, FlipCause::NoKeyword)
        } else {
            (PingKind::Ignored, FlipCause::Unknown)
        };
        keyword.map_or(default, |(_, kind, cause)| (kind, cause))
    }

    fn change_status(&mut self, to: Status, at: i64, cause: FlipCause) {
        if self.status != to {
            self.flips.push((at, self.status, to, cause));
            self.changed = at;
            self.status = to;
            self.pause_end = None;
        }
    }

    /// Returns the time of the expected ping.
    pub(crate) fn grace_start(&self) -> Option<i64> {
        let last_ping = self.last_ping.filter(|_| self.status == Status::Up)?;
        let last_ping = self
            .expected_from
            .map_or(last_ping, |from| from.max(last_ping));
        let day = 86_400 * SECOND;
        match self.rules.period {
            ModelPeriod::Seconds(seconds) => Some(last_ping + seconds * SECOND),
            ModelPeriod::EveryFiveMinutes => Some((last_ping / (300 * SECOND) + 1) * 300 * SECOND),
            ModelPeriod::AtThree => {
                let three = last_ping / day * day + 3 * 3600 * SECOND;
                Some(if three > last_ping {
                    three
                } else {
                    three + day
                })
            }
            ModelPeriod::Ended => None,
        }
    }

    /// Returns the time of the expected ping, or the start of the current run if that is earlier.
    pub(crate) fn next_ping(&self) -> Option<i64> {
        let start = self.run.map(|(start, _)| start);
        [self.grace_start(), start]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| self.status != Status::Down)
    }

    /// Returns the deadline, or the end of the pause if that is earlier.
    pub(crate) fn next_evaluation(&self) -> Option<i64> {
        let pause_end = self.pause_end.map(|(at, _)| at);
        [self.deadline(), pause_end].into_iter().flatten().min()
    }

    pub(crate) fn deadline(&self) -> Option<i64> {
        self.next_ping()
            .map(|from| from + self.rules.grace * SECOND)
    }

    pub(crate) fn visible_status(&self, now: i64) -> VisibleStatus {
        let mut later = self.clone();
        later.end_pause_if_due(now);
        later.status_at(now)
    }

    fn status_at(&self, now: i64) -> VisibleStatus {
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

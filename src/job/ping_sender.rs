//! How pings get to a server that may be away: tried again after growing pauses, and kept in a directory until it is back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::outgoing_ping::{OutgoingPing, unknown_check_advice};
use super::print_notice;
use super::spool::{Spool, SpoolName, SpoolStatus, SpooledPing};
use crate::clock::Clock;
use crate::outbound::{HttpRequest, Outbound, RedirectPolicy, SendStage, Trust, host_port_of};
use crate::random::Random;

/// How long one try may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after the first try that failed. Each is twice the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Characters of an answer that are shown.
const MAX_SHOWN_CHARS: usize = 200;
/// A ping that comes later than this says so, in seconds.
const LATE_AFTER_SECS: i64 = 60;

/// What pings are sent with.
pub struct PingSender {
    /// The way out; or why there is none.
    pub outbound: Result<Outbound, String>,
    /// Where pings wait, if anywhere.
    pub spool: Option<Spool>,
    /// How long the last ping is tried.
    pub within: Duration,
    /// The time.
    pub clock: Clock,
    /// For run ids, names and pauses.
    pub random: Random,
}

/// What has become of a ping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PingResult {
    /// The server has taken it.
    Accepted,
    /// Not yet, for this reason. It is on disk.
    Spooled(String),
    /// Not at all, for this reason.
    Lost(String),
}

/// What came of one try.
pub(super) enum PingAttemptResult {
    /// The server took it, and stores so much of a body.
    Accepted { body_limit: Option<usize> },
    /// It never will.
    Rejected(String),
    /// It may later.
    Unavailable(String),
    /// It may once somebody has changed something. Another try soon is of no use.
    Misconfigured(String),
}

impl PingSender {
    async fn attempt(&self, report: &OutgoingPing) -> PingAttemptResult {
        let outbound = match &self.outbound {
            Ok(outbound) => outbound,
            Err(why) => return PingAttemptResult::Misconfigured(why.clone()),
        };
        let request = HttpRequest {
            method: "POST".into(),
            url: report.url.clone(),
            headers: Vec::new(),
            body: report.body.clone(),
            redirects: RedirectPolicy::Follow,
            pin: None,
            timeout: ATTEMPT_TIMEOUT,
        };
        match outbound.send_http(request, Trust::Operator).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                PingAttemptResult::Accepted { body_limit: answer.header("ping-body-limit").and_then(|limit| limit.parse().ok()) }
            }
            // Too slow, too early, too many: all of these pass (RFC 9110, 8470, 6585).
            Ok(answer) if (400..500).contains(&answer.status) && ![408, 425, 429].contains(&answer.status) => {
                let refusal = rejection_message(answer.status, &answer.body);
                PingAttemptResult::Rejected(if answer.status == 404 {
                    format!("{refusal}; {}", unknown_check_advice(&report.url))
                } else {
                    refusal
                })
            }
            Ok(answer) => PingAttemptResult::Unavailable(format!("the answer was {}", answer.status)),
            Err(error) if error.stage == SendStage::Request => PingAttemptResult::Rejected(error.to_string()),
            Err(error) if error.is_permanent => PingAttemptResult::Misconfigured(error.to_string()),
            Err(error) => PingAttemptResult::Unavailable(error.to_string()),
        }
    }

    /// Tries until the server has taken it or refused it, or `stop` holds true.
    pub(super) async fn send_until_stopped(&self, report: &OutgoingPing, stop: &mut watch::Receiver<bool>) -> PingAttemptResult {
        let mut pause = FIRST_PAUSE;
        loop {
            let outcome = self.attempt(report).await;
            if !matches!(outcome, PingAttemptResult::Unavailable(_)) {
                return outcome;
            }
            tokio::select! {
                biased;
                // A sender that is gone means the same.
                _ = stop.wait_for(|stop| *stop) => return outcome,
                () = sleep(self.with_jitter(pause)) => pause = (pause * 2).min(MAX_PAUSE),
            }
        }
    }

    /// Half of a pause to all of it, so that many jobs do not come back at once.
    fn with_jitter(&self, pause: Duration) -> Duration {
        let [chance] = self.random.bytes();
        pause / 2 + pause / 2 * u32::from(chance) / 255
    }

    /// Tells how a job ended: within the time for it, or it waits in the spool.
    pub(super) async fn send_or_spool(&self, report: OutgoingPing) -> PingResult {
        let Some(spool) = &self.spool else { return self.send_without_spool(&report).await };
        let (ended, unique, written) = (self.clock.now(), self.random.uuid(), report.clone());
        // Before anything is tried: from here on it is not lost, whatever happens to this process.
        let kept = match with_spool_blocking(spool, move |spool| spool.write(&written, ended, unique)).await {
            Some(Ok(kept)) => kept,
            Some(Err(error)) => {
                print_notice(&format!("no ping can be kept in {}: {error}", spool.directory().display()));
                return self.send_without_spool(&report).await;
            }
            None => return self.send_without_spool(&report).await,
        };
        let mut why = None;
        match timeout(self.within, self.send_spooled(spool, kept, &mut why)).await {
            Ok(told) => told,
            Err(_) => PingResult::Spooled(why.unwrap_or_else(|| "another run is still sending what waits".into())),
        }
    }

    /// Tries, with all that waits, until it is known what has become of a ping.
    async fn send_spooled(&self, spool: &Spool, kept: SpooledPing, why: &mut Option<String>) -> PingResult {
        let kept = Arc::new(kept);
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(told) = self.drain_spool_until(Some(&kept.name), why).await {
                return told;
            }
            let asked = Arc::clone(&kept);
            match with_spool_blocking(spool, move |spool| spool.status_of(&asked)).await {
                // By another run.
                Some(SpoolStatus::Sent) => return PingResult::Accepted,
                Some(SpoolStatus::Dropped) => return PingResult::Lost("the spool is full, and newer pings took its place".into()),
                Some(SpoolStatus::Waiting) | None => {}
            }
            sleep(self.with_jitter(pause)).await;
            if why.is_some() {
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }

    async fn send_without_spool(&self, report: &OutgoingPing) -> PingResult {
        let (end, mut ends) = watch::channel(false);
        let mut trying = std::pin::pin!(self.send_until_stopped(report, &mut ends));
        let outcome = tokio::select! {
            outcome = &mut trying => Some(outcome),
            () = sleep(self.within) => {
                end.send_replace(true);
                // What failed before is told, if it now waits for another try.
                timeout(Duration::ZERO, trying).await.ok()
            }
        };
        match outcome {
            Some(PingAttemptResult::Accepted { .. }) => PingResult::Accepted,
            Some(PingAttemptResult::Rejected(why) | PingAttemptResult::Unavailable(why) | PingAttemptResult::Misconfigured(why)) => {
                PingResult::Lost(why)
            }
            None => PingResult::Lost(format!("no answer came within {} s", self.within.as_secs())),
        }
    }

    /// Delivers what earlier runs have left, as far as the servers take it.
    pub(super) async fn drain_spool(&self) {
        self.drain_spool_until(None, &mut None).await;
    }

    /// Delivers what waits, the oldest first, unless another run does. Once a server is away, the rest for it stays. Says what has become of
    /// one of them if that is known, and why it could not be sent.
    async fn drain_spool_until(&self, wanted: Option<&SpoolName>, why: &mut Option<String>) -> Option<PingResult> {
        let spool = self.spool.as_ref()?;
        let _lock = match with_spool_blocking(spool, Spool::try_lock).await? {
            Ok(Some(lock)) => lock,
            Ok(None) => return None,
            Err(error) => return wanted.map(|_| PingResult::Spooled(format!("no ping can be sent from the spool: {error}"))),
        };
        // By server, why it takes nothing now, and whether another try soon may help.
        let mut away: HashMap<String, (String, bool)> = HashMap::new();
        let mut told = None;
        for name in with_spool_blocking(spool, Spool::waiting_names).await?.unwrap_or_default() {
            let is_wanted = wanted == Some(&name);
            let looked_for = name.clone();
            let Some(mut report) = with_spool_blocking(spool, move |spool| spool.read(&looked_for)).await? else { continue };
            let place = host_port_of(&report.url).unwrap_or_default();
            if let Some((reason, passes)) = away.get(&place) {
                if is_wanted {
                    told = (!passes).then(|| PingResult::Spooled(reason.clone()));
                    *why = Some(reason.clone());
                }
                continue;
            }
            self.note_late(&mut report, &name);
            let outcome = self.attempt(&report).await;
            let passes = !matches!(outcome, PingAttemptResult::Misconfigured(_));
            let outcome = match outcome {
                PingAttemptResult::Accepted { .. } => PingResult::Accepted,
                PingAttemptResult::Rejected(reason) if is_wanted => PingResult::Lost(reason),
                PingAttemptResult::Rejected(reason) => {
                    print_notice(&format!("a ping that waited is dropped: {reason}"));
                    PingResult::Lost(reason)
                }
                PingAttemptResult::Unavailable(reason) | PingAttemptResult::Misconfigured(reason) => {
                    if is_wanted {
                        told = (!passes).then(|| PingResult::Spooled(reason.clone()));
                        *why = Some(reason.clone());
                    }
                    away.insert(place, (reason, passes));
                    continue;
                }
            };
            with_spool_blocking(spool, move |spool| spool.remove(&name)).await?;
            if is_wanted {
                told = Some(outcome);
            }
        }
        told
    }

    /// Says in the body when the job ended, if that was long ago: the server has only the time at which it is told.
    fn note_late(&self, report: &mut OutgoingPing, name: &SpoolName) {
        let ended = name.ended_at();
        if ended.plus_secs(LATE_AFTER_SECS) < self.clock.now() {
            let mut line = String::from("overdue: told late, this was at ");
            ended.write_rfc3339_secs(&mut line);
            report.append_line(&line);
        }
    }
}

/// What a server has answered, with the first line of its text: it may say what to do. Pages are left out.
fn rejection_message(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String =
        text.trim_start().lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(MAX_SHOWN_CHARS).collect();
    let line = line.trim_end();
    if line.is_empty() || line.starts_with(['<', '{']) {
        format!("the answer was {status}")
    } else {
        format!("the answer was {status}: {line}")
    }
}

/// Does something with files elsewhere: a directory that hangs holds up neither the job nor its end. `None`: it panicked.
async fn with_spool_blocking<T: Send + 'static>(spool: &Spool, work: impl FnOnce(&Spool) -> T + Send + 'static) -> Option<T> {
    let spool = spool.clone();
    tokio::task::spawn_blocking(move || work(&spool)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_what_the_server_says() {
        for (body, shown) in [
            ("", "the answer was 400"),
            ("<html>no</html>", "the answer was 400"),
            ("this address takes https:// URLs only\nmore", "the answer was 400: this address takes https:// URLs only"),
            ("\u{1b}[31mred", "the answer was 400: [31mred"),
        ] {
            assert_eq!(rejection_message(400, body.as_bytes()), shown);
        }
        assert_eq!(rejection_message(400, "x".repeat(500).as_bytes()).len(), "the answer was 400: ".len() + MAX_SHOWN_CHARS);
    }
}

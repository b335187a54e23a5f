//! Sends pings to a server that may be unavailable: retries after growing pauses, and keeps pings
//! in a directory until the server is back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::outgoing_ping::{OutgoingPing, unknown_check_advice};
use super::print_notice;
use super::spool::{Spool, SpoolStatus, SpooledPing, SpooledPingName};
use crate::outbound::{HttpRequest, Outbound, RedirectPolicy, SendStage, Trust, host_port_of};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Maximum time of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after the first failed attempt. Each further pause is twice as long, up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Maximum characters of a response that are shown.
const MAX_SHOWN_CHARS: usize = 200;
/// Delay in seconds beyond which a ping mentions that it is late.
const MIN_MENTIONED_DELAY_SECS: i64 = 60;

/// Configuration for sending pings.
pub struct PingSender {
    /// Client for outgoing requests; or the reason why there is none.
    pub outbound: Result<Outbound, String>,
    /// Spool for waiting pings, if any.
    pub spool: Option<Spool>,
    /// Time for which the last ping is retried.
    pub deliver_within: Duration,
    /// Clock of timestamps.
    pub clock: Clock,
    /// Source of run IDs, file names and jitter.
    pub random: Random,
}

/// Result of a ping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PingResult {
    /// The server has accepted it.
    Accepted,
    /// Not accepted yet, for this reason. It is on disk.
    Spooled(String),
    /// Not accepted and not kept, for this reason.
    Lost(String),
}

/// Result of one attempt.
pub(super) enum PingAttemptResult {
    /// The server accepted it, and stores this number of bytes of a body.
    Accepted { body_limit: Option<usize> },
    /// The server will never accept it.
    Rejected(String),
    /// The server may accept it later.
    Unavailable(String),
    /// The server may accept it after a change of the configuration. Another attempt soon is
    /// useless.
    Misconfigured(String),
}

impl PingSender {
    async fn attempt(&self, ping: &OutgoingPing) -> PingAttemptResult {
        let outbound = match &self.outbound {
            Ok(outbound) => outbound,
            Err(reason) => return PingAttemptResult::Misconfigured(reason.clone()),
        };
        let request = HttpRequest {
            method: "POST".into(),
            url: ping.url.clone(),
            headers: Vec::new(),
            body: ping.body.clone(),
            redirects: RedirectPolicy::Follow,
            pin: None,
            timeout: ATTEMPT_TIMEOUT,
        };
        match outbound.send_http(request, Trust::Operator).await {
            Ok(response) if (200..300).contains(&response.status) => PingAttemptResult::Accepted {
                body_limit: response
                    .header("ping-body-limit")
                    .and_then(|limit| limit.parse().ok()),
            },
            // Too slow, too early, too many: all of these are temporary (RFC 9110, 8470, 6585).
            Ok(response)
                if (400..500).contains(&response.status)
                    && ![408, 425, 429].contains(&response.status) =>
            {
                let refusal = rejection_message(response.status, &response.body);
                PingAttemptResult::Rejected(if response.status == 404 {
                    format!("{refusal}; {}", unknown_check_advice(&ping.url))
                } else {
                    refusal
                })
            }
            Ok(response) => {
                PingAttemptResult::Unavailable(format!("the answer was {}", response.status))
            }
            Err(error) if error.stage == SendStage::Request => {
                PingAttemptResult::Rejected(error.to_string())
            }
            Err(error) if error.is_permanent => PingAttemptResult::Misconfigured(error.to_string()),
            Err(error) => PingAttemptResult::Unavailable(error.to_string()),
        }
    }

    /// Retries until the server has accepted or refused the ping, or `stop` is true.
    pub(super) async fn send_until_stopped(
        &self,
        ping: &OutgoingPing,
        stop: &mut watch::Receiver<bool>,
    ) -> PingAttemptResult {
        let mut pause = FIRST_PAUSE;
        loop {
            let outcome = self.attempt(ping).await;
            if !matches!(outcome, PingAttemptResult::Unavailable(_)) {
                return outcome;
            }
            tokio::select! {
                biased;
                // A dropped sender means the same.
                _ = stop.wait_for(|stop| *stop) => return outcome,
                () = sleep(self.with_jitter(pause)) => pause = (pause * 2).min(MAX_PAUSE),
            }
        }
    }

    /// Returns a random part of a pause, from half of it to all, so that many jobs do not retry at
    /// once.
    fn with_jitter(&self, pause: Duration) -> Duration {
        let [chance] = self.random.bytes();
        pause / 2 + pause / 2 * u32::from(chance) / 255
    }

    /// Sends the result of a job within [`deliver_within`](Self::deliver_within), or leaves it in
    /// the spool.
    pub(super) async fn send_or_spool(&self, ping: OutgoingPing) -> PingResult {
        let Some(spool) = &self.spool else {
            return self.send_without_spool(&ping).await;
        };
        let ended = self.clock.now();
        let unique = self.random.uuid();
        let copy = ping.clone();
        // Before the first attempt: from here on the ping survives the end of this process.
        let spooled = match with_spool_blocking(spool, move |spool| {
            spool.write(&copy, ended, unique)
        })
        .await
        {
            Some(Ok(spooled)) => spooled,
            Some(Err(error)) => {
                print_notice(&format!(
                    "cannot store the ping in {}: {error}",
                    spool.directory().display()
                ));
                return self.send_without_spool(&ping).await;
            }
            None => return self.send_without_spool(&ping).await,
        };
        let mut failure = None;
        match timeout(
            self.deliver_within,
            self.send_spooled(spool, spooled, &mut failure),
        )
        .await
        {
            Ok(result) => result,
            Err(_) => PingResult::Spooled(
                failure.unwrap_or_else(|| "another run is still sending waiting pings".into()),
            ),
        }
    }

    /// Sends all waiting pings until the result of this one is known.
    async fn send_spooled(
        &self,
        spool: &Spool,
        spooled: SpooledPing,
        failure: &mut Option<String>,
    ) -> PingResult {
        let spooled = Arc::new(spooled);
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(result) = self.drain_spool_until(Some(&spooled.name), failure).await {
                return result;
            }
            let ping = Arc::clone(&spooled);
            match with_spool_blocking(spool, move |spool| spool.status_of(&ping)).await {
                // Another run sent it.
                Some(SpoolStatus::Sent) => return PingResult::Accepted,
                Some(SpoolStatus::Dropped) => {
                    return PingResult::Lost(
                        "the spool is full, and newer pings replaced this one".into(),
                    );
                }
                Some(SpoolStatus::Waiting) | None => {}
            }
            sleep(self.with_jitter(pause)).await;
            if failure.is_some() {
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }

    async fn send_without_spool(&self, ping: &OutgoingPing) -> PingResult {
        let (stop_sender, mut stop_receiver) = watch::channel(false);
        let mut sending = std::pin::pin!(self.send_until_stopped(ping, &mut stop_receiver));
        let outcome = tokio::select! {
            outcome = &mut sending => Some(outcome),
            () = sleep(self.deliver_within) => {
                stop_sender.send_replace(true);
                // An earlier failure is reported if the ping now waits for another attempt.
                timeout(Duration::ZERO, sending).await.ok()
            }
        };
        match outcome {
            Some(PingAttemptResult::Accepted { .. }) => PingResult::Accepted,
            Some(
                PingAttemptResult::Rejected(reason)
                | PingAttemptResult::Unavailable(reason)
                | PingAttemptResult::Misconfigured(reason),
            ) => PingResult::Lost(reason),
            None => PingResult::Lost(format!(
                "no answer within {} s",
                self.deliver_within.as_secs()
            )),
        }
    }

    /// Sends the pings that earlier runs left, as far as the servers accept them.
    pub(super) async fn drain_spool(&self) {
        self.drain_spool_until(None, &mut None).await;
    }

    /// Sends the waiting pings, the oldest first, unless another run does. If a server is
    /// unavailable, its other pings stay. Returns the result of `awaited` if it is known, and sets
    /// `failure` to the reason of a failure.
    async fn drain_spool_until(
        &self,
        awaited: Option<&SpooledPingName>,
        failure: &mut Option<String>,
    ) -> Option<PingResult> {
        let spool = self.spool.as_ref()?;
        let _lock = match with_spool_blocking(spool, Spool::try_lock).await? {
            Ok(Some(lock)) => lock,
            Ok(None) => return None,
            Err(error) => {
                return awaited.map(|_| {
                    PingResult::Spooled(format!("cannot send pings from the spool: {error}"))
                });
            }
        };
        // For each unavailable server: the reason, and true if another attempt soon may help.
        let mut unavailable: HashMap<String, (String, bool)> = HashMap::new();
        let mut awaited_result = None;
        for name in with_spool_blocking(spool, Spool::waiting_names)
            .await?
            .unwrap_or_default()
        {
            let is_awaited = awaited == Some(&name);
            let file = name.clone();
            let Some(mut ping) = with_spool_blocking(spool, move |spool| spool.read(&file)).await?
            else {
                continue;
            };
            let server = host_port_of(&ping.url).unwrap_or_default();
            if let Some((reason, is_temporary)) = unavailable.get(&server) {
                if is_awaited {
                    awaited_result = (!is_temporary).then(|| PingResult::Spooled(reason.clone()));
                    *failure = Some(reason.clone());
                }
                continue;
            }
            self.append_end_time(&mut ping, &name);
            let outcome = self.attempt(&ping).await;
            let is_temporary = !matches!(outcome, PingAttemptResult::Misconfigured(_));
            let outcome = match outcome {
                PingAttemptResult::Accepted { .. } => PingResult::Accepted,
                PingAttemptResult::Rejected(reason) if is_awaited => PingResult::Lost(reason),
                PingAttemptResult::Rejected(reason) => {
                    print_notice(&format!("dropped a waiting ping: {reason}"));
                    PingResult::Lost(reason)
                }
                PingAttemptResult::Unavailable(reason)
                | PingAttemptResult::Misconfigured(reason) => {
                    if is_awaited {
                        awaited_result =
                            (!is_temporary).then(|| PingResult::Spooled(reason.clone()));
                        *failure = Some(reason.clone());
                    }
                    unavailable.insert(server, (reason, is_temporary));
                    continue;
                }
            };
            with_spool_blocking(spool, move |spool| spool.remove(&name)).await?;
            if is_awaited {
                awaited_result = Some(outcome);
            }
        }
        awaited_result
    }

    /// Adds the end time of a late job to the body: the server only knows the time of arrival.
    fn append_end_time(&self, ping: &mut OutgoingPing, name: &SpooledPingName) {
        let ended = name.ended_at();
        if ended.plus_secs(MIN_MENTIONED_DELAY_SECS) < self.clock.now() {
            let mut line = String::from("overdue: reported late, the job ended at ");
            ended.write_rfc3339_secs(&mut line);
            ping.append_line(&line);
        }
    }
}

/// Returns a message with the status and the first line of the text of a response, which may
/// contain advice. HTML pages are left out.
fn rejection_message(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String = text
        .trim_start()
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_SHOWN_CHARS)
        .collect();
    let line = line.trim_end();
    if line.is_empty() || line.starts_with(['<', '{']) {
        format!("the answer was {status}")
    } else {
        format!("the answer was {status}: {line}")
    }
}

/// Runs file operations on another thread, so that a hanging directory blocks neither the job nor
/// its end. `None` if they panicked.
async fn with_spool_blocking<T: Send + 'static>(
    spool: &Spool,
    work: impl FnOnce(&Spool) -> T + Send + 'static,
) -> Option<T> {
    let spool = spool.clone();
    tokio::task::spawn_blocking(move || work(&spool)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_the_message_of_the_server() {
        for (body, shown) in [
            ("", "the answer was 400"),
            ("<html>no</html>", "the answer was 400"),
            (
                "this address accepts only https:// URLs\nmore",
                "the answer was 400: this address accepts only https:// URLs",
            ),
            ("\u{1b}[31mred", "the answer was 400: [31mred"),
        ] {
            assert_eq!(rejection_message(400, body.as_bytes()), shown);
        }
        assert_eq!(
            rejection_message(400, "x".repeat(500).as_bytes()).len(),
            "the answer was 400: ".len() + MAX_SHOWN_CHARS
        );
    }
}

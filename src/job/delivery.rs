//! How pings get to a server that may be away: tried again after growing pauses, and kept in a directory until it is back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::report::{Report, cure_of_unknown};
use super::say;
use super::spool::{Fate, Kept, Name, Spool};
use crate::clock::Clock;
use crate::outbound::{HttpRequest, Outbound, Redirects, Stage, Trust, place_of};
use crate::random::Random;

/// How long one try may take.
const TRY: Duration = Duration::from_secs(10);
/// The pause after the first try that failed. Each is twice the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Characters of an answer that are shown.
const MOST_SHOWN: usize = 200;
/// A ping that comes later than this says so, in seconds.
const LATE_SECS: i64 = 60;

/// What pings are sent with.
pub struct Delivery {
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
pub enum Told {
    /// The server has taken it.
    Taken,
    /// Not yet, for this reason. It is on disk.
    Waits(String),
    /// Not at all, for this reason.
    Lost(String),
}

/// What came of one try.
pub(super) enum Outcome {
    /// The server took it, and stores so much of a body.
    Taken { body_limit: Option<usize> },
    /// It never will.
    Refused(String),
    /// It may later.
    Away(String),
    /// It may once somebody has changed something. Another try soon is of no use.
    Broken(String),
}

impl Delivery {
    async fn once(&self, report: &Report) -> Outcome {
        let outbound = match &self.outbound {
            Ok(outbound) => outbound,
            Err(why) => return Outcome::Broken(why.clone()),
        };
        let request = HttpRequest {
            method: "POST".into(),
            url: report.url.clone(),
            headers: Vec::new(),
            body: report.body.clone(),
            redirects: Redirects::Own,
            pin: None,
            within: TRY,
        };
        match outbound.http(request, Trust::Operator).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                Outcome::Taken { body_limit: answer.header("ping-body-limit").and_then(|limit| limit.parse().ok()) }
            }
            // Too slow, too early, too many: all of these pass (RFC 9110, 8470, 6585).
            Ok(answer) if (400..500).contains(&answer.status) && ![408, 425, 429].contains(&answer.status) => {
                let refusal = refusal(answer.status, &answer.body);
                Outcome::Refused(if answer.status == 404 { format!("{refusal}; {}", cure_of_unknown(&report.url)) } else { refusal })
            }
            Ok(answer) => Outcome::Away(format!("the answer was {}", answer.status)),
            Err(error) if error.stage == Stage::Request => Outcome::Refused(error.to_string()),
            Err(error) if error.lasting => Outcome::Broken(error.to_string()),
            Err(error) => Outcome::Away(error.to_string()),
        }
    }

    /// Tries until the server has taken it or refused it, or `stop` holds true.
    pub(super) async fn persist(&self, report: &Report, stop: &mut watch::Receiver<bool>) -> Outcome {
        let mut pause = FIRST_PAUSE;
        loop {
            let outcome = self.once(report).await;
            if !matches!(outcome, Outcome::Away(_)) {
                return outcome;
            }
            tokio::select! {
                biased;
                // A sender that is gone means the same.
                _ = stop.wait_for(|stop| *stop) => return outcome,
                () = sleep(self.varied(pause)) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Half of a pause to all of it, so that many jobs do not come back at once.
    fn varied(&self, pause: Duration) -> Duration {
        let [chance] = self.random.bytes();
        pause / 2 + pause / 2 * u32::from(chance) / 255
    }

    /// Tells how a job ended: within the time for it, or it waits in the spool.
    pub(super) async fn finish(&self, report: Report) -> Told {
        let Some(spool) = &self.spool else { return self.tell_at_once(&report).await };
        let (ended, unique, written) = (self.clock.now(), self.random.uuid(), report.clone());
        // Before anything is tried: from here on it is not lost, whatever happens to this process.
        let kept = match blocking(spool, move |spool| spool.put(&written, ended, unique)).await {
            Some(Ok(kept)) => kept,
            Some(Err(error)) => {
                say(&format!("no ping can be kept in {}: {error}", spool.directory().display()));
                return self.tell_at_once(&report).await;
            }
            None => return self.tell_at_once(&report).await,
        };
        let mut why = None;
        match timeout(self.within, self.deliver_kept(spool, kept, &mut why)).await {
            Ok(told) => told,
            Err(_) => Told::Waits(why.unwrap_or_else(|| "another run is still sending what waits".into())),
        }
    }

    /// Tries, with all that waits, until it is known what has become of a ping.
    async fn deliver_kept(&self, spool: &Spool, kept: Kept, why: &mut Option<String>) -> Told {
        let kept = Arc::new(kept);
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(told) = self.deliver_waiting_until(Some(&kept.name), why).await {
                return told;
            }
            let asked = Arc::clone(&kept);
            match blocking(spool, move |spool| spool.fate(&asked)).await {
                // By another run.
                Some(Fate::Sent) => return Told::Taken,
                Some(Fate::Dropped) => return Told::Lost("the spool is full, and newer pings took its place".into()),
                Some(Fate::Waits) | None => {}
            }
            sleep(self.varied(pause)).await;
            if why.is_some() {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    async fn tell_at_once(&self, report: &Report) -> Told {
        let (end, mut ends) = watch::channel(false);
        let mut trying = std::pin::pin!(self.persist(report, &mut ends));
        let outcome = tokio::select! {
            outcome = &mut trying => Some(outcome),
            () = sleep(self.within) => {
                end.send_replace(true);
                // What failed before is told, if it now waits for another try.
                timeout(Duration::ZERO, trying).await.ok()
            }
        };
        match outcome {
            Some(Outcome::Taken { .. }) => Told::Taken,
            Some(Outcome::Refused(why) | Outcome::Away(why) | Outcome::Broken(why)) => Told::Lost(why),
            None => Told::Lost(format!("no answer came within {} s", self.within.as_secs())),
        }
    }

    /// Delivers what earlier runs have left, as far as the servers take it.
    pub(super) async fn deliver_waiting(&self) {
        self.deliver_waiting_until(None, &mut None).await;
    }

    /// Delivers what waits, the oldest first, unless another run does. Once a server is away, the rest for it stays. Says what has become of
    /// one of them if that is known, and why it could not be sent.
    async fn deliver_waiting_until(&self, wanted: Option<&Name>, why: &mut Option<String>) -> Option<Told> {
        let spool = self.spool.as_ref()?;
        let _lock = match blocking(spool, Spool::lock).await? {
            Ok(Some(lock)) => lock,
            Ok(None) => return None,
            Err(error) => return wanted.map(|_| Told::Waits(format!("no ping can be sent from the spool: {error}"))),
        };
        // By server, why it takes nothing now, and whether another try soon may help.
        let mut away: HashMap<String, (String, bool)> = HashMap::new();
        let mut told = None;
        for name in blocking(spool, Spool::waiting).await?.unwrap_or_default() {
            let is_wanted = wanted == Some(&name);
            let looked_for = name.clone();
            let Some(mut report) = blocking(spool, move |spool| spool.read(&looked_for)).await? else { continue };
            let place = place_of(&report.url).unwrap_or_default();
            if let Some((reason, passes)) = away.get(&place) {
                if is_wanted {
                    told = (!passes).then(|| Told::Waits(reason.clone()));
                    *why = Some(reason.clone());
                }
                continue;
            }
            self.mark_late(&mut report, &name);
            let outcome = self.once(&report).await;
            let passes = !matches!(outcome, Outcome::Broken(_));
            let outcome = match outcome {
                Outcome::Taken { .. } => Told::Taken,
                Outcome::Refused(reason) if is_wanted => Told::Lost(reason),
                Outcome::Refused(reason) => {
                    say(&format!("a ping that waited is dropped: {reason}"));
                    Told::Lost(reason)
                }
                Outcome::Away(reason) | Outcome::Broken(reason) => {
                    if is_wanted {
                        told = (!passes).then(|| Told::Waits(reason.clone()));
                        *why = Some(reason.clone());
                    }
                    away.insert(place, (reason, passes));
                    continue;
                }
            };
            blocking(spool, move |spool| spool.remove(&name)).await?;
            if is_wanted {
                told = Some(outcome);
            }
        }
        told
    }

    /// Says in the body when the job ended, if that was long ago: the server has only the time at which it is told.
    fn mark_late(&self, report: &mut Report, name: &Name) {
        let ended = name.ended();
        if ended.plus_secs(LATE_SECS) < self.clock.now() {
            let mut line = String::from("overdue: told late, this was at ");
            ended.write_seconds(&mut line);
            report.add_line(&line);
        }
    }
}

/// What a server has answered, with the first line of its text: it may say what to do. Pages are left out.
fn refusal(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String = text.trim_start().lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(MOST_SHOWN).collect();
    let line = line.trim_end();
    if line.is_empty() || line.starts_with(['<', '{']) {
        format!("the answer was {status}")
    } else {
        format!("the answer was {status}: {line}")
    }
}

/// Does something with files elsewhere: a directory that hangs holds up neither the job nor its end. `None`: it panicked.
async fn blocking<T: Send + 'static>(spool: &Spool, work: impl FnOnce(&Spool) -> T + Send + 'static) -> Option<T> {
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
            assert_eq!(refusal(400, body.as_bytes()), shown);
        }
        assert_eq!(refusal(400, "x".repeat(500).as_bytes()).len(), "the answer was 400: ".len() + MOST_SHOWN);
    }
}

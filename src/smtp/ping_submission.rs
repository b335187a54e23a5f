//! Converts a message to pings, one for each of its checks. All of them are on disk before the
//! sender gets a positive reply.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;
use tracing::Level;

use super::dialogue::Envelope;
use crate::domain::check::CheckSettings;
use crate::domain::ping::{PingMethod, PingOrigin, PingScheme, truncate_user_agent};
use crate::engine::Handle;
use crate::engine::apply::KEYWORD_SEARCH_BYTES;
use crate::engine::command::{
    Command, CommandReply, PingRequest, PingSignal, PingTarget, PrecomputedMeaning, Unavailable,
};
use crate::mail::SearchableMail;
use crate::runtime::blocking_threads::{BlockingTaskError, BlockingThreads};
use crate::util::log_limit::LogLimit;

/// Maximum number of messages that are parsed at the same time: see
/// [limits](crate::docs::limits). Parsing one occupies a processor for a while.
pub(super) const MAX_PARSERS: usize = 2;

static DROPPED_LOG_LIMIT: LogLimit = LogLimit::new();

/// Number of attempts on a full queue. With the wait in between they take two seconds in all.
const SUBMIT_ATTEMPTS: u32 = 20;
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Logs the pings of a message: all of them, or none. Returns true when they are on disk. Pings
/// without a matching check are omitted, so that the sender does not learn which checks exist.
pub(super) async fn log_pings(
    handle: &Handle,
    blocking: &BlockingThreads,
    parse_permits: &Semaphore,
    peer: IpAddr,
    envelope: Envelope,
) -> bool {
    let Envelope {
        sender,
        targets,
        message,
    } = envelope;
    let body = Bytes::from(message);
    // The semaphore is never closed.
    let Ok(permit) = parse_permits.acquire().await else {
        return false;
    };
    // Parsing a large message takes a while. If it panics, the message is still a ping.
    let shared_handle = handle.clone();
    let shared_body = body.clone();
    let shared_targets = targets.clone();
    let signals = blocking
        .run(move || signals_of_message(&shared_handle, peer, &shared_body, &shared_targets))
        .await
        .unwrap_or_else(|BlockingTaskError| {
            tracing::error!("a mail could not be parsed and is not searched for keywords");
            let without_text = PingSignal::Email {
                subject: "".into(),
                text: "".into(),
                precomputed: None,
            };
            vec![without_text; targets.len()]
        });
    drop(permit);
    let from = if sender.is_empty() { "<>" } else { &sender };
    let ua = truncate_user_agent(&format!("Email from {from}"));
    let ping = |(target, signal)| {
        let origin = PingOrigin {
            scheme: PingScheme::Email,
            method: PingMethod::None,
            remote_addr: Some(peer),
            user_agent: ua.clone(),
        };
        PingRequest {
            target,
            signal,
            origin,
            rid: None,
            body: body.clone(),
        }
    };
    let pings: Vec<_> = targets.into_iter().zip(signals).map(ping).collect();
    let Some(answer) = submit(handle, pings).await else {
        return false;
    };
    matches!(answer.await, Ok(Ok(Ok(_))))
}

/// Returns the signal of a message for each of its targets, by the current settings. The writer
/// evaluates it again only if the settings change before that, and it gets as much of the text as
/// of an HTTP body.
fn signals_of_message(
    handle: &Handle,
    peer: IpAddr,
    message: &[u8],
    targets: &[PingTarget],
) -> Vec<PingSignal> {
    let mail = SearchableMail::parse(message);
    let [subject, text]: [Arc<str>; 2] =
        [&mail.subject, &mail.text].map(|text| searched_prefix(text).into());
    let mut meanings = Vec::<PrecomputedMeaning>::new();
    let mut precompute = |settings: Arc<CheckSettings>| {
        if let Some(meaning) = meanings
            .iter()
            .find(|meaning| meaning.settings.classifies_same_as(&settings))
        {
            return meaning.clone();
        }
        let meaning = PrecomputedMeaning {
            meaning: settings.classify_mail(&mail.subject, &mail.text),
            settings,
        };
        meanings.push(meaning.clone());
        meaning
    };
    let signal = |target| {
        let settings = handle.with_state(|state| {
            state
                .find_ping_target(target)
                .ok()
                .flatten()
                .and_then(|id| state.check(id))
                .map(|check| Arc::clone(&check.settings))
        });
        if settings.is_none()
            && tracing::enabled!(Level::DEBUG)
            && let Some(suppressed) = DROPPED_LOG_LIMIT.admit(handle.now())
        {
            tracing::debug!(from = %peer, "mail dropped: it names no check{suppressed}");
        }
        PingSignal::Email {
            subject: Arc::clone(&subject),
            text: Arc::clone(&text),
            precomputed: settings.map(&mut precompute),
        }
    };
    targets.iter().map(signal).collect()
}

/// Returns the part of a text that keywords are searched in, as long as in an HTTP body.
fn searched_prefix(text: &str) -> &str {
    text.get(..text.floor_char_boundary(KEYWORD_SEARCH_BYTES))
        .unwrap_or_default()
}

/// Submits the pings. Waits for a full queue, because appliances rarely send a mail again.
async fn submit(
    handle: &Handle,
    pings: Vec<PingRequest>,
) -> Option<oneshot::Receiver<CommandReply>> {
    for _ in 0..SUBMIT_ATTEMPTS {
        match handle.submit(Command::Mail(pings.clone())) {
            Ok(answer) => return Some(answer),
            Err(Unavailable::QueueFull) => sleep(RETRY_DELAY).await,
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::ids::CheckId;
    use crate::engine::{self, Writer};
    use crate::store::Medium;

    /// Returns an engine with a full queue.
    fn full_engine() -> (Handle, Writer) {
        let (handle, writer) =
            engine::open(engine::EngineConfig::new(Medium::memory(), 0)).unwrap();
        while handle.submit(Command::PauseCheck(CheckId(1), None)).is_ok() {}
        (handle, writer)
    }

    fn pings() -> Vec<PingRequest> {
        let origin = PingOrigin {
            scheme: PingScheme::Email,
            method: PingMethod::None,
            remote_addr: None,
            user_agent: "".into(),
        };
        let signal = PingSignal::Email {
            subject: "".into(),
            text: "".into(),
            precomputed: None,
        };
        vec![PingRequest {
            target: PingTarget::Uuid(Uuid::nil()),
            signal,
            origin,
            rid: None,
            body: Bytes::new(),
        }]
    }

    #[tokio::test(start_paused = true)]
    async fn a_submission_waits_a_short_time_for_a_full_queue() {
        let (handle, mut writer) = full_engine();
        let waiting = handle.clone();
        let submitted = tokio::spawn(async move { submit(&waiting, pings()).await });
        sleep(Duration::from_secs(1)).await;
        assert!(writer.step(false).unwrap());
        sleep(2 * RETRY_DELAY).await;
        assert!(writer.step(false).unwrap());
        assert!(matches!(
            submitted.await.unwrap().unwrap().await,
            Ok(Ok(Ok(_)))
        ));

        let (handle, _writer) = full_engine();
        assert!(submit(&handle, pings()).await.is_none());
    }
}

//! Turns a message into pings: one for each recipient, all of them on disk before the sender hears that it was taken.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::dialogue::Envelope;
use super::message::Searchable;
use crate::domain::ping::{Method, Origin, Scheme, kept_ua};
use crate::engine::Handle;
use crate::engine::command::{Answer, Command, PingRequest, Signal, Target, Unavailable};

/// Bytes that the recipients of one message may put into the engine's queue at the same time: one sender does not fill it.
const GROUP: usize = 8_388_608;

/// How often a full queue is tried, and the wait in between: two seconds in all.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// Logs the pings of a message. True when each is on disk or names no check: the sender does not learn which checks there are. After
/// false some may be on disk. A sender that tries again pings those twice.
pub(super) async fn log(handle: &Handle, peer: IpAddr, envelope: Envelope) -> bool {
    let Envelope { sender, targets, message } = envelope;
    let message = Bytes::from(message);
    // Reading a large message takes a while. If it panics, the message is still a ping.
    let whole = message.clone();
    let read = tokio::task::spawn_blocking(move || Searchable::of(&whole)).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a mail could not be read and is not searched for keywords");
        Searchable::default()
    });
    let from = if sender.is_empty() { "<>" } else { &sender };
    let ua = kept_ua(&format!("Email from {from}"));
    let ping = |target: &Target| {
        let signal = Signal::Email { subject: read.subject.as_str().into(), text: read.text.as_str().into() };
        let origin = Origin { scheme: Scheme::Email, method: Method::None, remote_addr: Some(peer), ua: ua.clone() };
        Command::Ping(Box::new(PingRequest { target: target.clone(), signal, origin, rid: None, body: message.clone() }))
    };
    let group = (GROUP / (message.len() + read.text.len()).max(1)).max(1);
    for targets in targets.chunks(group) {
        let mut answers = Vec::with_capacity(targets.len());
        for target in targets {
            let Some(answer) = submit(handle, || ping(target)).await else { return false };
            answers.push(answer);
        }
        for answer in answers {
            // Refused: there is no such check, or several.
            let Ok(Ok(Ok(_) | Err(_))) = answer.await else { return false };
        }
    }
    true
}

/// Hands a command over. A full queue is waited for, since appliances rarely send a mail again.
async fn submit(handle: &Handle, command: impl Fn() -> Command) -> Option<oneshot::Receiver<Answer>> {
    for _ in 0..ATTEMPTS {
        match handle.submit(command()) {
            Ok(answer) => return Some(answer),
            Err(Unavailable::Busy) => sleep(PAUSE).await,
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

    /// An engine whose queue takes no more.
    fn full() -> (Handle, Writer) {
        let (handle, writer) = engine::open(engine::Config::new(Medium::memory(), 0)).unwrap();
        while handle.submit(Command::Pause(CheckId(1))).is_ok() {}
        (handle, writer)
    }

    fn envelope() -> Envelope {
        Envelope { sender: String::new(), targets: vec![Target::Uuid(Uuid::nil())], message: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_is_waited_for_but_not_for_long() {
        let peer = IpAddr::from([127, 0, 0, 1]);
        let (handle, mut writer) = full();
        let waiting = handle.clone();
        let logging = tokio::spawn(async move { log(&waiting, peer, envelope()).await });
        sleep(Duration::from_secs(1)).await;
        assert!(writer.step(false).unwrap());
        sleep(2 * PAUSE).await;
        assert!(writer.step(false).unwrap());
        assert!(logging.await.unwrap());

        let (handle, _writer) = full();
        assert!(!log(&handle, peer, envelope()).await);
    }
}

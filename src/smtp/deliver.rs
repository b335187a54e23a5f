//! Turns a message into pings: one for each recipient, all of them on disk before the sender hears that it was taken.

use std::net::IpAddr;

use bytes::Bytes;

use super::dialogue::Envelope;
use super::message::Searchable;
use crate::domain::ping::{Method, Origin, Scheme, kept_ua};
use crate::engine::Handle;
use crate::engine::command::{Command, PingRequest, Signal};

/// Bytes that the recipients of one message may put into the engine's queue at the same time: one sender does not fill it.
const GROUP: usize = 8_388_608;

/// Logs the pings of a message. True when each is on disk or names no check, which the sender is not told. After false some
/// of them may be: a sender that tries again pings those twice.
pub(super) async fn log(handle: &Handle, peer: IpAddr, envelope: Envelope) -> bool {
    let Envelope { sender, targets, message } = envelope;
    let message = Bytes::from(message);
    // A large message takes a while; and should reading it ever fail, it is still a ping.
    let whole = message.clone();
    let read = tokio::task::spawn_blocking(move || Searchable::of(&whole)).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a mail could not be read and is not searched for keywords");
        Searchable::default()
    });
    let from = if sender.is_empty() { "<>" } else { &sender };
    let ua = kept_ua(&format!("Email from {from}"));
    let group = (GROUP / (message.len() + read.text.len()).max(1)).max(1);
    for targets in targets.chunks(group) {
        let mut answers = Vec::with_capacity(targets.len());
        for target in targets {
            let ping = PingRequest {
                target: target.clone(),
                signal: Signal::Email { subject: read.subject.as_str().into(), text: read.text.as_str().into() },
                origin: Origin { scheme: Scheme::Email, method: Method::None, remote_addr: peer, ua: ua.clone() },
                rid: None,
                body: message.clone(),
            };
            match handle.submit(Command::Ping(Box::new(ping))) {
                Ok(answer) => answers.push(answer),
                Err(_) => return false,
            }
        }
        for answer in answers {
            // Refused: there is no such check, or several.
            let Ok(Ok(Ok(_) | Err(_))) = answer.await else { return false };
        }
    }
    true
}

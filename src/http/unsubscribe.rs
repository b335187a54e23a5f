//! `/unsubscribe/…`: a recipient of mails ends them, without a key. Other recipients of the channel go on getting them.

use std::sync::Arc;

use hyper::Method;
use uuid::Uuid;

use super::{BaseUrl, Door};
use crate::domain::project::{BadgeSecret, Channel};
use crate::engine::Handle;
use crate::engine::command::Command;
use crate::notify::Unsubscribe;
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::unsubscribe_link::{is_signed, link};

/// The kind of channel whose messages have such links.
const KIND: &str = "email";

const METHODS: &str = "GET, HEAD, POST, OPTIONS";

const QUESTION: &str = "No more mails from this channel to your address?</p><form method=\"post\"><button>Unsubscribe</button></form><p>";
const DONE: &str =
    "This channel sends no more mails to your address. Other recipients go on getting them. The operator of overdue can undo this.";
const LAST: &str = "This channel sends no more mails to your address. It has no other recipient. The operator of overdue can undo this.";

/// Makes the unsubscribe links of recipients at a server that is reached there.
pub fn unsubscribe_links(base_url: BaseUrl, handle: Handle) -> Unsubscribe {
    Box::new(move |channel, recipient| Some(link(base_url.as_str(), &handle.badge_secret()?, channel.uuid, recipient)))
}

/// Programs that look at links change nothing: only POST does (RFC 8058).
pub(super) async fn answer(door: &Door, method: &Method, channel: Uuid, signature: &str) -> Result<Reply, Fault> {
    if *method == Method::OPTIONS {
        return Ok(reply::no_content());
    }
    let secret = door.handle.badge_secret().ok_or(Fault::Unavailable)?;
    let channel = found(door, channel).ok_or(Fault::NotFound)?;
    let recipient = recipient(&channel, &secret, signature).ok_or(Fault::NotFound)?;
    let is_silent = |recipient: &str| channel.health.unsubscribed.iter().any(|silent| **silent == *recipient);
    let is_last = channel.settings.recipients().all(|other| other == recipient || is_silent(other));
    let done = || page(if is_last { LAST } else { DONE });
    match *method {
        Method::GET | Method::HEAD => Ok(if is_silent(recipient) { done() } else { page(QUESTION) }),
        Method::POST => {
            if !is_silent(recipient) {
                door.handle.call(Command::Unsubscribe { channel: channel.id, recipient: recipient.into() }).await??;
                tracing::info!(channel = %channel.uuid, "a recipient unsubscribed by the link in a mail");
            }
            Ok(done())
        }
        _ => Err(Fault::MethodNotAllowed(METHODS)),
    }
}

/// The recipient for whom a link was signed. A link of an earlier release names none, which is clear where there is only one.
fn recipient<'a>(channel: &'a Channel, secret: &BadgeSecret, signature: &str) -> Option<&'a str> {
    let mut recipients = channel.settings.recipients();
    let own = recipients.find(|recipient| is_signed(secret, channel.uuid, Some(recipient), signature));
    own.or_else(|| {
        let mut recipients = channel.settings.recipients();
        let only = recipients.next().filter(|_| recipients.next().is_none());
        only.filter(|_| is_signed(secret, channel.uuid, None, signature))
    })
}

fn found(door: &Door, uuid: Uuid) -> Option<Arc<Channel>> {
    door.handle.with_state(|state| {
        let mut channels = state.projects().flat_map(|project_state| project_state.channels.values());
        channels.find(|channel| channel.uuid == uuid && channel.settings.kind().name == KIND).map(Arc::clone)
    })
}

fn page(text: &str) -> Reply {
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>overdue</title></head><body><p>{text}</p></body></html>\n"
    );
    reply::lone_page(html)
}

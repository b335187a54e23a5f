//! `/unsubscribe/…`: whoever gets the mails of a channel ends that, without a key and without a page of ours.

use std::sync::Arc;

use hyper::Method;
use uuid::Uuid;

use super::{BaseUrl, Door};
use crate::domain::project::Channel;
use crate::engine::Handle;
use crate::engine::command::Command;
use crate::notify::Unsubscribe;
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::unsubscribe_link::{is_signed, link};

/// The kind of channel whose messages have such links.
const KIND: &str = "email";
/// What is noted of the channel.
const REASON: &str = "somebody unsubscribed by the link in a mail";

const METHODS: &str = "GET, HEAD, POST, OPTIONS";

const QUESTION: &str = "No more mails from this channel?</p><form method=\"post\"><button>Unsubscribe</button></form><p>";
const DONE: &str = "This channel sends no more mails. Whoever runs overdue can enable it again.";

/// Makes the links of channels at a server that is reached there.
pub fn unsubscribe_links(base_url: BaseUrl, handle: Handle) -> Unsubscribe {
    Box::new(move |channel| Some(link(base_url.as_str(), &handle.badge_secret()?, channel.uuid)))
}

/// Programs that look at links change nothing: only POST does (RFC 8058).
pub(super) async fn answer(door: &Door, method: &Method, channel: Uuid, signature: &str) -> Result<Reply, Fault> {
    if *method == Method::OPTIONS {
        return Ok(reply::no_content());
    }
    let secret = door.handle.badge_secret().ok_or(Fault::Unavailable)?;
    let found = if is_signed(&secret, channel, signature) { found(door, channel) } else { None };
    let channel = found.ok_or(Fault::NotFound)?;
    let is_disabled = channel.health.disabled.is_some();
    match *method {
        Method::GET | Method::HEAD => Ok(page(if is_disabled { DONE } else { QUESTION })),
        Method::POST => {
            if !is_disabled {
                door.handle.call(Command::DisableChannel { channel: channel.id, reason: REASON.into() }).await??;
                tracing::info!(channel = %channel.uuid, "{REASON}");
            }
            Ok(page(DONE))
        }
        _ => Err(Fault::MethodNotAllowed(METHODS)),
    }
}

fn found(door: &Door, uuid: Uuid) -> Option<Arc<Channel>> {
    let state = door.handle.state();
    let mut channels = state.projects().flat_map(|project_state| project_state.channels.values());
    channels.find(|channel| channel.uuid == uuid && channel.settings.kind().name == KIND).map(Arc::clone)
}

fn page(text: &str) -> Reply {
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>overdue</title></head><body><p>{text}</p></body></html>\n"
    );
    reply::lone_page(html)
}

//! `/unsubscribe/…`: a recipient of mails unsubscribes, without a key: from the alerts of a
//! channel, while its other recipients still get them, or from the summaries of a user.

use std::sync::Arc;

use hyper::Method;
use uuid::Uuid;

use super::{BaseUrl, ServerState};
use crate::domain::project::{BadgeSecret, Channel};
use crate::engine::Handle;
use crate::engine::command::user::UserChanges;
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::unsubscribe_link::{UnsubscribePath, is_valid_signature, unsubscribe_url};
use crate::notifier::{UnsubscribeLinks, UnsubscribeTarget};
use crate::operations::{channel, user};

/// Kind of channel whose messages have such links.
const CHANNEL_KIND: &str = "email";

const METHODS: &str = "GET, HEAD, POST, OPTIONS";

const CONFIRM_TEXT: &str = concat!(
    "Unsubscribe your address from this channel?</p>",
    r#"<form method="post"><button>Unsubscribe</button></form><p>"#
);
const UNSUBSCRIBED_TEXT: &str = "This channel no longer sends mail to your address. Other \
                                 recipients still receive it. The operator of overdue can undo \
                                 this.";
const LAST_UNSUBSCRIBED_TEXT: &str = "This channel no longer sends mail to your address. It has no \
                                      other recipient. The operator of overdue can undo this.";

const CONFIRM_SUMMARY_TEXT: &str = concat!(
    "Unsubscribe from summaries by mail?</p>",
    r#"<form method="post"><button>Unsubscribe</button></form><p>"#
);
const SUMMARY_UNSUBSCRIBED_TEXT: &str = "You no longer get summaries by mail. You can turn them \
                                         on again on your account page.";

/// Returns the generator of unsubscribe links for a server at this URL.
pub fn unsubscribe_links(base_url: BaseUrl, handle: Handle) -> UnsubscribeLinks {
    Box::new(move |target, recipient| {
        Some(unsubscribe_url(
            base_url.as_str(),
            &handle.badge_secret()?,
            target,
            recipient,
        ))
    })
}

/// Handles a request. Only POST unsubscribes, because some programs follow links (RFC 8058).
pub(super) async fn respond(
    server: &ServerState,
    method: &Method,
    path: &UnsubscribePath,
) -> HttpReply {
    unsubscribe(server, method, path)
        .await
        .unwrap_or_else(|error| error.to_text())
}

async fn unsubscribe(
    server: &ServerState,
    method: &Method,
    path: &UnsubscribePath,
) -> Result<HttpReply, HttpError> {
    if *method == Method::OPTIONS {
        return Ok(reply::no_content());
    }
    let secret = server.handle.badge_secret().ok_or(HttpError::Unavailable)?;
    match path.target {
        UnsubscribeTarget::Channel(uuid) => {
            unsubscribe_from_channel(server, method, uuid, &path.signature, &secret).await
        }
        UnsubscribeTarget::Summary(uuid) => {
            unsubscribe_from_summary(server, method, uuid, &path.signature, &secret).await
        }
    }
}

async fn unsubscribe_from_channel(
    server: &ServerState,
    method: &Method,
    uuid: Uuid,
    signature: &str,
    secret: &BadgeSecret,
) -> Result<HttpReply, HttpError> {
    let channel = find_channel(server, uuid).ok_or(HttpError::NotFound)?;
    let recipient = signed_recipient(&channel, secret, signature).ok_or(HttpError::NotFound)?;
    let is_silent = |recipient: &str| {
        channel
            .health
            .unsubscribed
            .iter()
            .any(|silent| **silent == *recipient)
    };
    let is_last = channel
        .settings
        .recipients()
        .all(|other| other == recipient || is_silent(other));
    let done = || {
        render_page(if is_last {
            LAST_UNSUBSCRIBED_TEXT
        } else {
            UNSUBSCRIBED_TEXT
        })
    };
    match *method {
        Method::GET | Method::HEAD => Ok(if is_silent(recipient) {
            done()
        } else {
            render_page(CONFIRM_TEXT)
        }),
        Method::POST => {
            if !is_silent(recipient) {
                channel::unsubscribe(&server.handle, channel.id, recipient).await?;
                tracing::info!(
                    channel = %channel.uuid,
                    "a recipient unsubscribed with the link in a mail"
                );
            }
            Ok(done())
        }
        _ => Err(HttpError::MethodNotAllowed(METHODS)),
    }
}

async fn unsubscribe_from_summary(
    server: &ServerState,
    method: &Method,
    uuid: Uuid,
    signature: &str,
    secret: &BadgeSecret,
) -> Result<HttpReply, HttpError> {
    let found = server
        .handle
        .with_state(|state| state.users.by_uuid(uuid).cloned());
    let user = found.ok_or(HttpError::NotFound)?;
    let Some(subscription) = &user.summary else {
        // The link in a later mail, or the same one again. The address is no longer known.
        return match *method {
            Method::GET | Method::HEAD | Method::POST => Ok(render_page(SUMMARY_UNSUBSCRIBED_TEXT)),
            _ => Err(HttpError::MethodNotAllowed(METHODS)),
        };
    };
    let address = subscription.settings.address.as_str();
    let target = UnsubscribeTarget::Summary(uuid);
    if !is_valid_signature(secret, target, Some(address), signature) {
        return Err(HttpError::NotFound);
    }
    match *method {
        Method::GET | Method::HEAD => Ok(render_page(CONFIRM_SUMMARY_TEXT)),
        Method::POST => {
            let changes = UserChanges {
                summary: Some(None),
                ..UserChanges::default()
            };
            user::update(&server.handle, user.id, changes, None).await?;
            tracing::info!(
                user = user.name.as_str(),
                "a user unsubscribed from summaries with the link in a mail"
            );
            Ok(render_page(SUMMARY_UNSUBSCRIBED_TEXT))
        }
        _ => Err(HttpError::MethodNotAllowed(METHODS)),
    }
}

/// Returns the recipient that a link was signed for. A link of an earlier release names none, which
/// is unambiguous if there is only one.
fn signed_recipient<'a>(
    channel: &'a Channel,
    secret: &BadgeSecret,
    signature: &str,
) -> Option<&'a str> {
    let target = UnsubscribeTarget::Channel(channel.uuid);
    let mut recipients = channel.settings.recipients();
    let signed =
        recipients.find(|recipient| is_valid_signature(secret, target, Some(recipient), signature));
    signed.or_else(|| {
        let mut recipients = channel.settings.recipients();
        let only = recipients.next().filter(|_| recipients.next().is_none());
        only.filter(|_| is_valid_signature(secret, target, None, signature))
    })
}

fn find_channel(server: &ServerState, uuid: Uuid) -> Option<Arc<Channel>> {
    server.handle.with_state(|state| {
        let mut channels = state
            .projects()
            .flat_map(|project_state| project_state.channels.values());
        channels
            .find(|channel| channel.uuid == uuid && channel.settings.kind().name == CHANNEL_KIND)
            .map(Arc::clone)
    })
}

fn render_page(text: &str) -> HttpReply {
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>overdue</title></head><body><p>{text}</p></body></\
         html>\n"
    );
    reply::standalone_page(html)
}

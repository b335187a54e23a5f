//! Webhook: requests from templates of the channel's owner.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::channels::kinds::{ChannelSender, SendContext};
use crate::channels::send_step::{ChannelRequest, RequestMethod, SendStep};
use crate::channels::template::{TemplateTarget, TemplateTooLong, TemplateValues};
use crate::channels::transport_reply::Verdict;
use crate::domain::alert::AlertEvent;

pub(super) const WEBHOOK: ChannelSender = ChannelSender {
    name: "webhook",
    has_plain_form: false,
    send,
    judge: |_, _, response, now| match response.status {
        410 => Verdict::ChannelUnusable,
        _ => response.default_verdict(now),
    },
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let alert = call.alert;
    let attempt = call.attempt;
    let Some(values) = TemplateValues::for_alert(alert, attempt) else {
        return Vec::new();
    };
    // A test of a channel with one event uses that event.
    let directions = if alert.is_up() {
        ["up", "down"]
    } else {
        ["down", "up"]
    };
    let max_urls = if alert.event == AlertEvent::Test {
        2
    } else {
        1
    };
    let mut urls = directions
        .into_iter()
        .take(max_urls)
        .filter_map(|direction| Some((call.get(&format!("{direction}-url"))?, direction)));
    let Some((url, direction)) = urls.next() else {
        return Vec::new();
    };
    filled_request(call, (url, direction), &values).map_or_else(
        |reason| vec![SendStep::Unsendable(reason)],
        ChannelRequest::into_steps,
    )
}

/// Request with all placeholders filled in. The error names the template that becomes too long.
fn filled_request(
    call: &SendContext<'_>,
    (url, direction): (&str, &str),
    values: &TemplateValues<'_>,
) -> Result<ChannelRequest, String> {
    let setting = |key: &str| call.get(&format!("{direction}-{key}")).or(call.get(key));
    let method = match setting("method") {
        Some("POST") => RequestMethod::Post,
        Some("PUT") => RequestMethod::Put,
        _ => RequestMethod::Get,
    };
    let too_long = |key: &str| {
        let key = format!("{direction}-{key}");
        move |TemplateTooLong { max_bytes: most }: TemplateTooLong| {
            format!(
                "{key} has more than {most} bytes with its placeholders filled in; use fewer \
                 placeholders"
            )
        }
    };
    let mut request = ChannelRequest::new(
        method,
        values
            .fill(url, TemplateTarget::Url)
            .map_err(too_long("url"))?,
    )
    .with_user_url();
    if let Some(body) = setting("body").filter(|_| method != RequestMethod::Get) {
        request.body = values
            .fill(body, TemplateTarget::Body)
            .map_err(too_long("body"))?
            .into_bytes();
    }
    add_headers(&mut request, call, direction, values)?;
    Ok(request)
}

/// Adds the owner's headers, the defaults for headers that are not set, and the signature.
fn add_headers(
    request: &mut ChannelRequest,
    call: &SendContext<'_>,
    direction: &str,
    values: &TemplateValues<'_>,
) -> Result<(), String> {
    let shared_prefix = "header.";
    let prefix = format!("{direction}-header.");
    let direction_headers = call
        .settings
        .pairs()
        .filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, value)));
    let mut headers: Vec<_> = direction_headers.collect();
    let is_overridden = |name: &str| call.get(&format!("{prefix}{name}")).is_some();
    let shared_headers = call
        .settings
        .pairs()
        .filter_map(|(key, value)| Some((key.strip_prefix(shared_prefix)?, value)));
    headers.extend(shared_headers.filter(|(name, _)| !is_overridden(name)));
    for (name, value) in headers {
        let too_long = |TemplateTooLong { max_bytes: most }| {
            format!("the header {name} has more than {most} bytes with its placeholders filled in")
        };
        request.headers.push((
            name.to_owned(),
            values.fill_header(value).map_err(too_long)?,
        ));
    }

    let attempt = call.attempt;
    let at = attempt.at.secs().to_string();
    let is_json = matches!(request.body.first(), Some(b'{' | b'['));
    let default_headers = [
        (
            "User-Agent",
            Some(concat!("overdue/", env!("CARGO_PKG_VERSION")).to_owned()),
        ),
        (
            "Content-Type",
            is_json.then(|| "application/json".to_owned()),
        ),
        ("webhook-id", Some(attempt.id.clone())),
        (
            "webhook-signature",
            call.get("secret")
                .and_then(|secret| webhook_signature(secret, &attempt.id, &at, &request.body)),
        ),
        ("webhook-timestamp", Some(at)),
        ("Idempotency-Key", Some(attempt.id.clone())),
        ("Overdue-Attempt", Some(attempt.number.to_string())),
        (
            "Overdue-Possible-Duplicate",
            attempt.may_be_duplicate.then(|| "true".to_owned()),
        ),
    ];
    for (name, value) in default_headers {
        let is_set = request
            .headers
            .iter()
            .any(|(existing, _)| existing.eq_ignore_ascii_case(name));
        if let Some(value) = value.filter(|_| !is_set) {
            request.headers.push((name.to_owned(), value));
        }
    }
    Ok(())
}

/// Signature by Standard Webhooks, over id, time and body.
fn webhook_signature(secret: &str, id: &str, at: &str, body: &[u8]) -> Option<String> {
    let key = match secret.strip_prefix("whsec_") {
        Some(key) => BASE64_STANDARD.decode(key).ok()?,
        None => secret.as_bytes().to_vec(),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(format!("{id}.{at}.").as_bytes());
    mac.update(body);
    Some(format!(
        "v1,{}",
        BASE64_STANDARD.encode(mac.finalize().into_bytes())
    ))
}

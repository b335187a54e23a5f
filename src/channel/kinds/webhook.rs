//! Webhook: requests from templates of the channel's owner.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::channel::kinds::{ChannelSender, SendContext};
use crate::channel::send_step::{ChannelRequest, RequestMethod, SendStep};
use crate::channel::template::{TemplateTarget, TemplateTooLong, TemplateValues};
use crate::channel::transport_reply::Verdict;
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
    let ways = if alert.is_up() {
        ["up", "down"]
    } else {
        ["down", "up"]
    };
    let tried = if alert.event == AlertEvent::Test {
        2
    } else {
        1
    };
    let mut urls = ways
        .into_iter()
        .take(tried)
        .filter_map(|way| Some((call.get(&format!("{way}-url"))?, way)));
    let Some((url, way)) = urls.next() else {
        return Vec::new();
    };
    filled_request(call, (url, way), &values).map_or_else(
        |reason| vec![SendStep::Unsendable(reason)],
        ChannelRequest::into_steps,
    )
}

/// Request with all placeholders filled in. The error names the template that becomes too long.
fn filled_request(
    call: &SendContext<'_>,
    (url, way): (&str, &str),
    values: &TemplateValues<'_>,
) -> Result<ChannelRequest, String> {
    let own = |key: &str| call.get(&format!("{way}-{key}")).or(call.get(key));
    let method = match own("method") {
        Some("POST") => RequestMethod::Post,
        Some("PUT") => RequestMethod::Put,
        _ => RequestMethod::Get,
    };
    let too_long = |key: &str| {
        let key = format!("{way}-{key}");
        move |TemplateTooLong { max_bytes: most }: TemplateTooLong| {
            format!(
                "{key} has more than {most} bytes with its placeholders filled in; use fewer of \
                 them"
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
    if let Some(body) = own("body").filter(|_| method != RequestMethod::Get) {
        request.body = values
            .fill(body, TemplateTarget::Body)
            .map_err(too_long("body"))?
            .into_bytes();
    }
    add_headers(&mut request, call, way, values)?;
    Ok(request)
}

/// Adds the owner's headers, the defaults for headers that are not set, and the signature.
fn add_headers(
    request: &mut ChannelRequest,
    call: &SendContext<'_>,
    way: &str,
    values: &TemplateValues<'_>,
) -> Result<(), String> {
    let general = "header.";
    let special = format!("{way}-header.");
    let specials = call
        .settings
        .pairs()
        .filter_map(|(key, value)| Some((key.strip_prefix(&special)?, value)));
    let mut headers: Vec<_> = specials.collect();
    let is_special = |name: &str| call.get(&format!("{special}{name}")).is_some();
    let generals = call
        .settings
        .pairs()
        .filter_map(|(key, value)| Some((key.strip_prefix(general)?, value)));
    headers.extend(generals.filter(|(name, _)| !is_special(name)));
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
    let ours = [
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
    for (name, value) in ours {
        let is_set = request
            .headers
            .iter()
            .any(|(own, _)| own.eq_ignore_ascii_case(name));
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

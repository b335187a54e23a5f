//! Webhook: requests from templates of the channel's owner.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::channels::kinds::{KindDefinition, SendContext};
use crate::channels::send_step::{ChannelRequest, RequestMethod, SendStep};
use crate::channels::template::{TemplateTarget, TemplateTooLong, TemplateValues};
use crate::channels::transport_reply::Verdict;
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, ChannelSettings, Requirement, SettingField,
    SettingFieldType,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "webhook",
        title: "Webhook",
        purpose: ChannelPurpose::Common,
        class: ChannelClass::Machine,
        fields: &[
            SettingField::optional(
                "down-url",
                SettingFieldType::Url,
                "requested when a check goes down",
            ),
            SettingField::optional(
                "up-url",
                SettingFieldType::Url,
                "requested when it is up again",
            ),
            SettingField::new(
                "method",
                SettingFieldType::Choice(METHODS),
                Requirement::Derived {
                    value: |settings| if has_body(settings) { "POST" } else { "GET" },
                    description: "POST with a body, otherwise GET",
                },
                "method",
            ),
            SettingField::optional(
                "body",
                SettingFieldType::Template(10_000),
                "body of the request",
            ),
            SettingField::optional(
                "header.NAME",
                SettingFieldType::Header,
                "header of the request",
            ),
            SettingField::optional(
                "down-method",
                SettingFieldType::Choice(METHODS),
                "method when a check goes down, instead of method",
            ),
            SettingField::optional(
                "down-body",
                SettingFieldType::Template(10_000),
                "body when a check goes down, instead of body",
            ),
            SettingField::optional(
                "down-header.NAME",
                SettingFieldType::Header,
                "header when a check goes down",
            ),
            SettingField::optional(
                "up-method",
                SettingFieldType::Choice(METHODS),
                "method when it is up again, instead of method",
            ),
            SettingField::optional(
                "up-body",
                SettingFieldType::Template(10_000),
                "body when it is up again, instead of body",
            ),
            SettingField::optional(
                "up-header.NAME",
                SettingFieldType::Header,
                "header when it is up again",
            ),
            SettingField::optional(
                "secret",
                SettingFieldType::Secret(200),
                "secret that signs requests: whsec_ and base64, or any other text",
            ),
        ],
        guide: "Sends requests to a URL of your own. URL, body and headers may contain \
                placeholders such as $NAME, $STATUS and $REASON; body=$EVENT_JSON sends all data \
                of the event. With secret=, each request is signed as in Standard Webhooks \
                (webhook-signature), so that the receiver can verify its origin.",
        example: &[
            ("down-url", "https://example.org/hook"),
            ("up-url", "https://example.org/hook"),
            ("body", "$EVENT_JSON"),
        ],
        validate,
        ignores_event: |settings, event| {
            settings
                .get(if event == AlertEvent::Up {
                    "up-url"
                } else {
                    "down-url"
                })
                .is_none()
                && event != AlertEvent::Test
        },
        ..ChannelKind::DEFAULTS
    },
    has_plain_form: false,
    send,
    judge: |_, _, response, now| match response.status {
        410 => Verdict::ChannelRejected,
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

const METHODS: &[&str] = &["GET", "POST", "PUT"];

fn has_body(settings: &ChannelSettings) -> bool {
    ["body", "down-body", "up-body"]
        .into_iter()
        .any(|key| settings.get(key).is_some())
}

fn validate(settings: &ChannelSettings) -> Result<(), &'static str> {
    if settings
        .get("down-url")
        .or(settings.get("up-url"))
        .is_none()
    {
        return Err("there is no URL; give down-url=URL, up-url=URL or both");
    }
    let is_get = |key| settings.get(key).or(settings.get("method")) == Some("GET");
    let bodies = [
        ("method", "body"),
        ("down-method", "down-body"),
        ("up-method", "up-body"),
    ];
    if bodies
        .into_iter()
        .any(|(method, body)| is_get(method) && settings.get(body).is_some())
    {
        return Err(
            "method GET carries no body; give method=POST or method=PUT, or leave body out",
        );
    }
    match settings
        .get("secret")
        .and_then(|secret| secret.strip_prefix("whsec_"))
    {
        Some(key) if BASE64_STANDARD.decode(key).is_err() => {
            Err("secret is not base64 after whsec_; give it as the receiver shows it")
        }
        _ => Ok(()),
    }
}

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let attempt = context.attempt;
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
        .filter_map(|direction| Some((context.get(&format!("{direction}-url"))?, direction)));
    let Some((url, direction)) = urls.next() else {
        return Vec::new();
    };
    build_request(context, (url, direction), &values).map_or_else(
        |reason| vec![SendStep::Unsendable(reason)],
        ChannelRequest::into_steps,
    )
}

/// Request with all placeholders filled in. The error names the template that becomes too long.
fn build_request(
    context: &SendContext<'_>,
    (url, direction): (&str, &str),
    values: &TemplateValues<'_>,
) -> Result<ChannelRequest, String> {
    let setting = |key: &str| {
        context
            .get(&format!("{direction}-{key}"))
            .or(context.get(key))
    };
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
    add_headers(&mut request, context, direction, values)?;
    Ok(request)
}

/// Adds the owner's headers, the defaults for headers that are not set, and the signature.
fn add_headers(
    request: &mut ChannelRequest,
    context: &SendContext<'_>,
    direction: &str,
    values: &TemplateValues<'_>,
) -> Result<(), String> {
    let shared_prefix = "header.";
    let prefix = format!("{direction}-header.");
    let direction_headers = context
        .settings
        .pairs()
        .filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, value)));
    let mut headers: Vec<_> = direction_headers.collect();
    let is_overridden = |name: &str| context.get(&format!("{prefix}{name}")).is_some();
    let shared_headers = context
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

    let attempt = context.attempt;
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
            context
                .get("secret")
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

//! Formats of values that a service issues. They are checked when a user gives a value, not when a
//! stored value is read. An error continues a sentence that begins with the key.

use super::field_value;

/// Domain of Twilio's own servers. Other servers with the same API may have other formats.
pub(super) const TWILIO_DOMAIN: &str = "twilio.com";

/// Returns the host of a URL in lower case, and the rest after it.
fn host_and_path(url: &str) -> Option<(String, &str)> {
    let (_, rest) = url.split_once("://")?;
    let (authority, path) = rest
        .find('/')
        .and_then(|at| rest.split_at_checked(at))
        .unwrap_or((rest, ""));
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    Some((host.to_ascii_lowercase(), path))
}

/// True if the URL is on this domain or one of its subdomains.
pub(super) fn is_on_domain(url: &str, domain: &str) -> bool {
    let is_in = |host: &str| {
        host == domain
            || host
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    host_and_path(url).is_some_and(|(host, _)| is_in(&host))
}

fn is_all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Validates the token of a Telegram bot: the number of the bot, a colon, and letters.
pub(super) fn check_telegram_token(text: &str) -> Result<(), &'static str> {
    let is_secret = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let is_token = text
        .split_once(':')
        .is_some_and(|(bot, secret)| is_all_digits(bot) && is_secret(secret));
    if is_token {
        Ok(())
    } else {
        Err(
            "is not one that @BotFather issues; give digits, a colon and letters, like \
             123456:AbC-dEf_GhI",
        )
    }
}

/// Validates a Telegram chat: its number, negative for a group, or the name of a public channel.
pub(super) fn check_telegram_chat(text: &str) -> Result<(), &'static str> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_chat = text.strip_prefix('@').map_or_else(
        || is_all_digits(text.strip_prefix('-').unwrap_or(text)),
        is_name,
    );
    if is_chat {
        Ok(())
    } else {
        Err(
            "is neither the number of a chat nor the name of a channel; give one like \
             -1001234567890 or @name",
        )
    }
}

/// Validates an integration key of PagerDuty.
pub(super) fn check_pagerduty_key(text: &str) -> Result<(), &'static str> {
    let is_key = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_key {
        Ok(())
    } else {
        Err(
            "is not an integration key, which has 32 letters and digits; copy it from the \
             integration's page",
        )
    }
}

/// Validates a Discord webhook. Other hosts may have the same API.
pub(super) fn check_discord_url(text: &str) -> Result<(), &'static str> {
    let is_discord = ["discord.com", "discordapp.com"]
        .into_iter()
        .any(|domain| is_on_domain(text, domain));
    let is_webhook = || {
        host_and_path(text)
            .is_some_and(|(_, path)| path.starts_with("/api/") && path.contains("/webhooks/"))
    };
    if !is_discord || is_webhook() {
        return Ok(());
    }
    Err("is not a webhook URL; in Discord: Edit channel, Integrations, Webhooks, Copy webhook URL")
}

/// Validates an ntfy topic.
pub(super) fn check_ntfy_topic(text: &str) -> Result<(), &'static str> {
    let is_topic = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_topic {
        Ok(())
    } else {
        Err("is not an ntfy topic; use letters, digits, hyphens and underscores")
    }
}

/// Validates a Pushover application token, user key or group key.
pub(super) fn check_pushover_key(text: &str) -> Result<(), &'static str> {
    let is_key = text.len() == 30 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_key {
        Ok(())
    } else {
        Err(
            "is not a Pushover token or key, which has 30 letters and digits; copy it from \
             https://pushover.net",
        )
    }
}

/// Validates a Slack webhook. Other hosts may accept the same messages.
pub(super) fn check_slack_url(text: &str) -> Result<(), &'static str> {
    let is_slack = ["slack.com", "slack-gov.com"]
        .into_iter()
        .any(|domain| is_on_domain(text, domain));
    let is_webhook = || {
        host_and_path(text).is_some_and(|(host, path)| {
            let parts: Vec<_> = path
                .strip_prefix("/services/")
                .unwrap_or_default()
                .split('/')
                .collect();
            host.starts_with("hooks.")
                && parts.len() == 3
                && parts.iter().all(|part| !part.is_empty())
        })
    };
    if !is_slack || is_webhook() {
        return Ok(());
    }
    Err("is not the URL of an incoming webhook; copy one like \
         https://hooks.slack.com/services/T0/B0/abc from Incoming webhooks")
}

/// Validates the id of a Trello list.
pub(super) fn check_trello_list(text: &str) -> Result<(), &'static str> {
    if is_hex(text, 24) {
        Ok(())
    } else {
        Err(
            "is not the id of a list, which has 24 hexadecimal digits; to find it, add .json to \
             the URL of the board",
        )
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_sid(text: &str, kind: &str) -> bool {
    text.strip_prefix(kind)
        .is_some_and(|digits| is_hex(digits, 32))
}

/// Validates a Twilio account SID.
pub(super) fn check_twilio_account(text: &str) -> Result<(), &'static str> {
    if is_sid(text, "AC") {
        Ok(())
    } else {
        Err("is not a Twilio account SID; give AC and 32 hexadecimal digits")
    }
}

/// Validates the SID of a Twilio messaging service.
pub(super) fn check_twilio_service(text: &str) -> Result<(), &'static str> {
    if is_sid(text, "MG") {
        Ok(())
    } else {
        Err("is not the SID of a Twilio messaging service; give MG and 32 hexadecimal digits")
    }
}

/// Validates the SID of a Twilio template.
pub(super) fn check_twilio_content(text: &str) -> Result<(), &'static str> {
    if is_sid(text, "HX") {
        Ok(())
    } else {
        Err("is not the SID of a Twilio template; give HX and 32 hexadecimal digits")
    }
}

/// Validates the sender of a Twilio text message: a number, a short code, or a name.
pub(super) fn check_twilio_sender(text: &str) -> Result<(), &'static str> {
    // Short codes are shorter than any other number.
    let is_long = text.starts_with('+') || is_all_digits(text) && text.len() > 8;
    if is_long {
        field_value::check_phone_number(text)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_must_have_the_format_of_their_service() {
        type Shape = fn(&str) -> Result<(), &'static str>;
        let key = "0123456789abcdefABCDEF0123456789";
        for (shape, taken, refused) in [
            (
                check_telegram_token as Shape,
                &["123456:AbC-dEf_GhI"][..],
                &["nonsense", "123456:", ":abc", "bot123456:abc", "123456:a b"][..],
            ),
            (
                check_telegram_chat,
                &["12", "-1001234567890", "@overdue_alerts"],
                &["hello world", "@", "--1", "@a b", "overdue"],
            ),
            (
                check_pagerduty_key,
                &[key],
                &["short", "0123456789abcdef0123456789abcde-", ""],
            ),
            (
                check_discord_url,
                &[
                    "https://discord.com/api/webhooks/1/abc",
                    "https://ptb.discord.com/api/v10/webhooks/1/abc",
                    "https://discordapp.com/api/webhooks/1/abc",
                    "https://chat.example.org/hooks/1",
                    "http://127.0.0.1:8080/x",
                ],
                &[
                    "https://discord.com/channels/1/2",
                    "https://discord.com",
                    "https://canary.discord.com:443/api/v10/users/1",
                ],
            ),
            (
                check_slack_url,
                &[
                    "https://hooks.slack.com/services/T0/B0/abc",
                    "https://hooks.slack-gov.com/services/T0/B0/abc",
                    "https://chat.example.org/x",
                ],
                &[
                    "https://hooks.slack.com/services/T0/B0",
                    "https://hooks.slack.com/services/T0/B0/",
                    "https://hooks.slack.com/workflows/T0/A0/1/abc",
                    "https://acme.slack.com/archives/C0",
                    "https://slack.com/services/T0/B0/abc",
                ],
            ),
            (
                check_pushover_key,
                &["azGDORePK8gMaC0QOYAMyEEuzJnyUi"],
                &[
                    "azGDORePK8gMaC0QOYAMyEEuzJnyU",
                    "azGDORePK8gMaC0QOYAMyEEuzJny-i",
                    "abc",
                    "",
                ],
            ),
            (
                check_trello_list,
                &["0123456789abcdef01234567"],
                &[
                    "0123456789abcdef0123456",
                    "0123456789abcdef0123456g",
                    "Backlog",
                ],
            ),
            (
                check_twilio_account,
                &["AC0123456789abcdef0123456789abcdef"],
                &["AC0123", "MG0123456789abcdef0123456789abcdef", "ac"],
            ),
            (
                check_twilio_service,
                &["MG0123456789abcdef0123456789abcdef"],
                &["MG1", "+12025550100"],
            ),
            (
                check_twilio_content,
                &["HX0123456789abcdef0123456789abcdef"],
                &["HX01", "backup is down"],
            ),
            (
                check_twilio_sender,
                &["+12025550100", "12345", "overdue"],
                &["12025550100", "+1-202-555-0100", "+0123456789"],
            ),
            (
                check_ntfy_topic,
                &["backups-x7Qm2", "a_B"],
                &["my topic", "a.b", "žluť", ""],
            ),
        ] {
            taken
                .iter()
                .for_each(|text| assert_eq!(shape(text), Ok(()), "{text}"));
            refused
                .iter()
                .for_each(|text| assert!(shape(text).is_err(), "{text}"));
        }
        assert!(
            is_on_domain(
                "https://x.webhook.office.com/webhookb2/1",
                "webhook.office.com"
            ) && is_on_domain("https://WEBHOOK.office.com", "webhook.office.com")
        );
        assert!(!is_on_domain(
            "https://evil-webhook.office.com.example.org/",
            "webhook.office.com"
        ));
    }
}

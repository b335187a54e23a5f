//! Formats of values that a service issues.

use super::kinds::kind_named;
use super::settings::parse;
use crate::domain::channel::ChannelSettings;

#[test]
fn values_must_have_the_format_of_their_service() {
    let key = "0123456789abcdefABCDEF0123456789";
    for ((kind, key), taken, refused) in [
        (
            ("telegram", "token"),
            &["123456:AbC-dEf_GhI"][..],
            &["nonsense", "123456:", ":abc", "bot123456:abc", "123456:a b"][..],
        ),
        (
            ("telegram", "chat"),
            &["12", "-1001234567890", "@overdue_alerts"],
            &["hello world", "@", "--1", "@a b", "overdue"],
        ),
        (
            ("pd", "key"),
            &[key],
            &["short", "0123456789abcdef0123456789abcde-", ""],
        ),
        (
            ("discord", "url"),
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
            ("slack", "url"),
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
            ("po", "user"),
            &["azGDORePK8gMaC0QOYAMyEEuzJnyUi"],
            &[
                "azGDORePK8gMaC0QOYAMyEEuzJnyU",
                "azGDORePK8gMaC0QOYAMyEEuzJny-i",
                "abc",
                "",
            ],
        ),
        (
            ("trello", "list"),
            &["0123456789abcdef01234567"],
            &[
                "0123456789abcdef0123456",
                "0123456789abcdef0123456g",
                "Backlog",
            ],
        ),
        (
            ("sms", "account"),
            &["AC0123456789abcdef0123456789abcdef"],
            &["AC0123", "MG0123456789abcdef0123456789abcdef", "ac"],
        ),
        (
            ("whatsapp", "service"),
            &["MG0123456789abcdef0123456789abcdef"],
            &["MG1", "+12025550100"],
        ),
        (
            ("whatsapp", "content-up"),
            &["HX0123456789abcdef0123456789abcdef"],
            &["HX01", "backup is down"],
        ),
        (
            ("sms", "from"),
            &["+12025550100", "12345", "overdue"],
            &["12025550100", "+1-202-555-0100", "+0123456789"],
        ),
        (
            ("ntfy", "topic"),
            &["backups-x7Qm2", "a_B"],
            &["my topic", "a.b", "žluť", ""],
        ),
    ] {
        let field = kind_named(kind)
            .fields
            .iter()
            .find(|field| field.key == key)
            .unwrap();
        let check = |value: &str| field.validate_value_format(key, value, None);
        for value in taken {
            assert_eq!(check(value), Ok(()), "{kind} {key}: {value}");
        }
        for value in refused {
            assert!(check(value).is_err(), "{kind} {key}: {value}");
        }
    }
}

#[test]
fn values_that_no_service_issues_are_rejected_unless_they_are_stored() {
    let key = "0123456789abcdef0123456789abcdef";
    let token = "token is not one that @BotFather issues; give digits, a colon and letters, like \
                 123456:AbC-dEf_GhI";
    for (kind, pairs, error) in [
        (
            "telegram",
            &[("token", "nonsense"), ("chat", "1")][..],
            token,
        ),
        (
            "telegram",
            &[("token", "1:a"), ("chat", "hello world")],
            "chat is neither the number of a chat nor the name of a channel",
        ),
        (
            "pd",
            &[("key", "short")],
            "key is not an integration key, which has 32 letters and digits",
        ),
        (
            "discord",
            &[("url", "https://discord.com/channels/1/2")],
            "url is not a webhook URL",
        ),
        (
            "ntfy",
            &[("topic", "my topic")],
            "topic is not an ntfy topic",
        ),
    ] {
        let kind = kind_named(kind);
        let refused = ChannelSettings::parse(kind, pairs.iter().copied()).unwrap_err();
        assert!(
            refused.problem().starts_with(error) && refused.field().is_some(),
            "{refused}"
        );
        // Values that were created earlier or elsewhere stay, and are kept when another setting
        // changes.
        let stored = ChannelSettings::parse_any_format(kind, pairs.iter().copied()).unwrap();
        assert_eq!(
            ChannelSettings::from_incomplete(kind, stored.pairs()).as_ref(),
            Ok(&stored)
        );
        let changed = stored
            .replace_with(pairs.iter().copied().chain([("send", "down")]))
            .unwrap();
        assert_eq!(changed.get(pairs[0].0), Some(pairs[0].1));
        assert_eq!(
            stored
                .replace_with(
                    stored
                        .masked()
                        .map(|(key, value)| (key, value.into_owned()))
                )
                .as_ref(),
            Ok(&stored)
        );
    }
    let pd = kind_named("pd");
    let stored = parse(pd, &[("key", key)]).unwrap();
    assert!(
        stored
            .replace_with([("key", "short")])
            .unwrap_err()
            .problem()
            .starts_with("key is not")
    );
}

#[test]
fn old_connectors_of_teams_cause_a_warning() {
    let teams = kind_named("msteamsw");
    let warnings = |url: &str| parse(teams, &[("url", url)]).unwrap().warnings();
    assert_eq!(
        warnings("https://contoso.webhook.office.com/webhookb2/a").len(),
        1
    );
    assert_eq!(
        warnings("https://example.webhook.powerplatform.example/workflows/abc"),
        [""; 0]
    );
}

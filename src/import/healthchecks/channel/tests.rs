use super::super::super::tests::texts;
use super::*;
use crate::import::source_row::SourceTable;

const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";

fn given(
    kind: &str,
    value: &str,
    more: &[(&str, &str)],
    environment: &str,
) -> Result<ConvertedChannel, RowError> {
    let environment = if environment.is_empty() {
        ServerEnvironment::default()
    } else {
        ServerEnvironment::parse(environment).unwrap()
    };
    let columns = [
        ("id", "1"),
        ("code", UUID),
        ("name", "n"),
        ("kind", kind),
        ("value", value),
    ];
    convert_channel(
        &texts(SourceTable::Channel, &[more, &columns].concat()),
        &environment,
        Timestamp::from_secs(7),
    )
}

fn disabled(channel: &ImportedChannel) -> Option<&str> {
    channel
        .health
        .disabled
        .as_ref()
        .map(|(_, reason)| &**reason)
}

fn come(kind: &str, value: &str, environment: &str) -> ImportedChannel {
    match given(kind, value, &[], environment) {
        Ok(ConvertedChannel::Imported { channel, .. }) => channel,
        Ok(ConvertedChannel::Dropped { reason: why, .. }) => panic!("{kind} {value}: {why}"),
        Err(complaint) => panic!("{kind} {value}: {complaint}"),
    }
}

/// Returns the settings as text, followed by the missing ones.
fn message(settings: &ImportedSettings) -> String {
    let (pairs, lacks): (Vec<_>, &[&str]) = match settings {
        ImportedSettings::Complete(settings) => (settings.pairs().collect(), &[]),
        ImportedSettings::Incomplete {
            settings: given,
            missing: lacks,
            ..
        } => (given.pairs().collect(), lacks),
    };
    let mut pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.sort_unstable();
    let lacks: String = lacks.iter().map(|key| format!(" -{key}")).collect();
    pairs.join(" ") + &lacks
}

#[test]
fn each_kind_keeps_its_settings() {
    let phone = r#"{"value": "+37120000000", "up": false, "down": true}"#;
    for (kind, value, environment, wanted) in [
        ("email", "a@example.org", "", "to=a@example.org"),
        (
            "email",
            r#"{"value": "a@example.org", "up": true, "down": false}"#,
            "",
            "send=up to=a@example.org",
        ),
        (
            "webhook",
            r#"{"method_down": "POST", "url_down": "https://a/d", "body_down": "$NAME",
                "headers_down": {"X-B": "c"}, "method_up": "GET", "url_up": "https://a/u",
                "body_up": "unsent", "headers_up": {}}"#,
            "",
            "down-body=$NAME down-header.x-b=c down-method=POST down-url=https://a/d method=POST \
             up-method=GET up-url=https://a/u",
        ),
        (
            "webhook",
            r#"{"url_down": "", "url_up": "https://a/u"}"#,
            "",
            "method=GET up-method=GET up-url=https://a/u",
        ),
        (
            "slack",
            r#"{"incoming_webhook": {"url": "https://a/b"}}"#,
            "",
            "url=https://a/b",
        ),
        ("slack", "https://a/b", "", "url=https://a/b"),
        ("mattermost", "https://a/b", "", "url=https://a/b"),
        (
            "discord",
            r#"{"webhook": {"url": "https://discordapp.com/api/webhooks/1/a"}}"#,
            "",
            "url=https://discord.com/api/webhooks/1/a",
        ),
        ("rocketchat", "https://a/b", "", "url=https://a/b"),
        (
            "pagertree",
            "https://a/b",
            "",
            "integration=healthchecks url=https://a/b",
        ),
        (
            "spike",
            "https://a/b",
            "",
            "integration=healthchecks url=https://a/b",
        ),
        (
            "telegram",
            r#"{"id": -1, "thread_id": null}"#,
            "",
            "chat=-1 -token",
        ),
        (
            "telegram",
            r#"{"id": 5, "thread_id": 7}"#,
            "TELEGRAM_TOKEN=1:a",
            "api=https://api.telegram.org chat=5 thread=7 token=1:a",
        ),
        (
            "po",
            "u|-2",
            "PUSHOVER_API_TOKEN=t",
            "priority-up=-2 priority=-2 token=t user=u",
        ),
        ("po", "u|2|0", "", "priority-up=0 priority=2 user=u -token"),
        ("pushbullet", "o.a", "", "token=o.a"),
        ("opsgenie", "k", "", "key=k region=us"),
        (
            "opsgenie",
            r#"{"key": "k", "region": "eu"}"#,
            "",
            "key=k region=eu",
        ),
        ("pd", "k", "", "api=v1 key=k region=us"),
        (
            "pd",
            r#"{"service_key": "k", "account": "a"}"#,
            "",
            "api=v1 key=k region=us",
        ),
        (
            "ntfy",
            r#"{"topic": "t", "url": "https://ntfy.sh", "priority": 5, "priority_up": 0}"#,
            "NTFY_SH_TOKEN=tk",
            "priority-up=0 priority=5 token=tk topic=t url=https://ntfy.sh",
        ),
        (
            "ntfy",
            r#"{"topic": "t", "url": "https://own", "priority": 3, "priority_up": 3, "token": ""}"#,
            "NTFY_SH_TOKEN=tk",
            "priority-up=3 priority=3 topic=t url=https://own",
        ),
        (
            "gotify",
            r#"{"url": "https://g", "token": "t"}"#,
            "",
            "token=t url=https://g",
        ),
        (
            "matrix",
            "!a:b",
            "MATRIX_HOMESERVER=https://m",
            "room=!a:b server=https://m -token",
        ),
        (
            "zulip",
            r#"{"bot_email": "b@z.example.org", "api_key": "k", "mtype": "private",
                "to": "a@example.org"}"#,
            "",
            "bot-email=b@z.example.org key=k site=https://z.example.org to=a@example.org \
             type=direct",
        ),
        (
            "sms",
            phone,
            "TWILIO_ACCOUNT=A\nTWILIO_AUTH=t\nTWILIO_FROM=+1202",
            "account=A api=https://api.twilio.com from=+1202 send=down to=+37120000000 token=t",
        ),
        (
            "sms",
            r#"{"value": "+37120000000"}"#,
            "",
            "send=down to=+37120000000 -account -token -from",
        ),
        (
            "sms",
            phone,
            "TWILIO_MESSAGING_SERVICE_SID=MG1",
            "send=down service=MG1 to=+37120000000 -account -token",
        ),
        (
            "whatsapp",
            phone,
            "WHATSAPP_UP_CONTENT_SID=HX2",
            "content-up=HX2 send=down to=+37120000000 -account -token -content-down -from",
        ),
        (
            "call",
            "+37120000000",
            "",
            "to=+37120000000 -account -token -from",
        ),
        ("signal", phone, "", "send=down to=+37120000000 -url"),
        (
            "trello",
            r#"{"token": "t", "list_id": "l"}"#,
            "TRELLO_APP_KEY=k",
            "key=k list=l token=t",
        ),
        (
            "github",
            r#"{"installation_id": 1, "repo": "o/n", "labels": ["a", "b"]}"#,
            "",
            "labels=a,b repo=o/n -token",
        ),
        ("apprise", "json://a,b", "", "urls=json://a,b -url"),
        (
            "shell",
            r#"{"cmd_down": "x $NAME", "cmd_up": ""}"#,
            "",
            "down-command=x $NAME",
        ),
        (
            "group",
            "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f,6F3A0F6E0C9B4F0E9B1B0A1B2C3D4E50",
            "",
            "channels=6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f,6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e50",
        ),
    ] {
        let channel = come(kind, value, environment);
        assert_eq!(message(&channel.settings), wanted, "{kind} {value}");
        let incomplete = matches!(channel.settings, ImportedSettings::Incomplete { .. });
        assert_eq!(
            disabled(&channel).is_some_and(|why| why.starts_with("imported without ")),
            incomplete,
            "{kind}"
        );
        assert!(
            value.len() < 5 || !format!("{channel:?}").contains(value),
            "no secret is shown"
        );
    }
}

#[test]
fn a_disabled_channel_stays_disabled_with_a_reason() {
    for (kind, value, more, reason) in [
        (
            "pd",
            "k",
            &[("disabled", "t")][..],
            Some("it was already disabled on the old server"),
        ),
        (
            "email",
            "a@example.org",
            &[("email_verified", "f")],
            Some("its address was not confirmed on the old server"),
        ),
        (
            "pd",
            "k",
            &[("email_verified", "f"), ("disabled", "f")],
            None,
        ),
        (
            "email",
            r#"{"value": "a@example.org", "up": false, "down": false}"#,
            &[],
            Some("it sent no alerts on the old server, neither down nor up"),
        ),
    ] {
        let Ok(ConvertedChannel::Imported { channel, .. }) = given(kind, value, more, "") else {
            panic!("{kind}")
        };
        assert_eq!(disabled(&channel), reason);
    }
}

#[test]
fn a_channel_with_invalid_settings_is_imported_as_disabled_with_the_reason() {
    for (kind, value, wanted, reason) in [
        (
            "rocketchat",
            "ftp://a",
            " -url",
            "url: url is not an http:// or https:// URL",
        ),
        ("signal", r#"{"value": ""}"#, " -to -url", "url, to"),
        (
            "webhook",
            r#"{"url_down": "https://$TAG1/x", "url_up": "https://a/u"}"#,
            "down-method=GET up-method=GET up-url=https://a/u -down-url",
            "down-url: down-url has no valid host",
        ),
        (
            "webhook",
            r#"{"url_down": "https://a/x", "headers_down": {"Host": "b"}}"#,
            "down-method=GET down-url=https://a/x -down-header.NAME",
            r#"down-header.NAME: "down-header.Host" is set by overdue itself"#,
        ),
        (
            "slack",
            "https://me:pw@a/b",
            " -url",
            "url: url has a user name",
        ),
        (
            "email",
            "ops ops@example.org",
            " -to",
            "to: to is not one mail address",
        ),
        (
            "webhook",
            "x",
            " -down-url -up-url -body",
            "down-url, up-url, body: its settings on the old server cannot be read",
        ),
        (
            "telegram",
            "{}",
            " -chat -token",
            "its settings on the old server cannot be read",
        ),
        (
            "po",
            "u",
            " -user -token",
            "its settings on the old server cannot be read",
        ),
        (
            "zulip",
            "{\"bot_email\": \"b\"}",
            " -site -bot-email -key -to",
            "its settings on the old server cannot be read",
        ),
        (
            "group",
            "",
            " -channels",
            "its settings on the old server cannot be read",
        ),
        (
            "discord",
            "{\"a\": 1}",
            " -url",
            "its settings on the old server cannot be read",
        ),
        ("slack", "", " -url", "imported without url"),
    ] {
        let channel = come(kind, value, "");
        let message = message(&channel.settings);
        assert_eq!(
            message.split(" -").next(),
            wanted.split(" -").next(),
            "{kind} {value}: {message}"
        );
        let mut lacks: Vec<_> = message.split(" -").skip(1).collect();
        let mut expected: Vec<_> = wanted.split(" -").skip(1).collect();
        lacks.sort_unstable();
        expected.sort_unstable();
        assert_eq!(lacks, expected, "{kind} {value}: {message}");
        let why = disabled(&channel).unwrap();
        assert!(
            why.contains(reason) && why.starts_with("imported without "),
            "{kind} {value}: {why}"
        );
        assert!(!why.contains("pw"), "{why}");
    }
    for kind in ["hipchat", "pagerduty"] {
        let Ok(ConvertedChannel::Dropped { reason: why, .. }) = given(kind, "x", &[], "") else {
            panic!("{kind}")
        };
        assert_eq!(why, format!("overdue has no channel of kind {kind:?}"));
    }
}

#[test]
fn convertible_settings_are_imported_completely() {
    for (kind, value, wanted, changed) in [
        (
            "webhook",
            r#"{"url_down": "https://me:p%40w@a/x#top", "url_up": "https://bücher.example/ä"}"#,
            "down-header.authorization=Basic bWU6cEB3 down-method=GET down-url=https://a/x \
             method=GET up-method=GET up-url=https://xn--bcher-kva.example/%C3%A4",
            4,
        ),
        (
            "webhook",
            r#"{"url_down": "https://me:pw@a/x", "headers_down": {"authorization": "Bearer t"}}"#,
            "down-header.authorization=Bearer t down-method=GET down-url=https://a/x method=GET",
            1,
        ),
        (
            "email",
            "ops@bücher.example",
            "to=ops@xn--bcher-kva.example",
            1,
        ),
        (
            "gotify",
            r#"{"url": "https://g/#", "token": "t"}"#,
            "token=t url=https://g/",
            1,
        ),
    ] {
        let Ok(ConvertedChannel::Imported { channel, changes }) = given(kind, value, &[], "")
        else {
            panic!("{kind}")
        };
        assert_eq!(
            (message(&channel.settings).as_str(), changes.len()),
            (wanted, changed),
            "{changes:?}"
        );
        assert_eq!(disabled(&channel), None);
        assert!(
            !changes.iter().any(|change| change.contains("pw")),
            "{changes:?}"
        );
    }
}

#[test]
fn imported_channels_have_the_rights_of_the_api() {
    for (kind, value, operator) in [
        ("webhook", r#"{"url_down": "http://127.0.0.1/x"}"#, false),
        ("slack", "http://127.0.0.1/x", false),
        (
            "gotify",
            r#"{"url": "http://localhost", "token": "t"}"#,
            false,
        ),
        ("signal", r#"{"value": "+37120000000"}"#, false),
        ("shell", r#"{"cmd_down": "x", "cmd_up": ""}"#, true),
        ("shell", "unreadable", true),
    ] {
        assert_eq!(come(kind, value, "").set_by_operator, operator, "{kind}");
    }
}

#[test]
fn a_long_name_is_shortened() {
    let long = "n".repeat(101);
    let columns = [
        ("id", "1"),
        ("code", UUID),
        ("name", long.as_str()),
        ("kind", "pd"),
        ("value", "k"),
    ];
    let made = convert_channel(
        &texts(SourceTable::Channel, &columns),
        &ServerEnvironment::default(),
        Timestamp::from_secs(7),
    );
    let Ok(ConvertedChannel::Imported { channel, changes }) = made else {
        panic!("it comes")
    };
    assert_eq!((channel.name.as_str().len(), changes.len()), (100, 1));
}

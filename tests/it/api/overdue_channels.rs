//! `/api/overdue/v1/channels`: creates, shows, changes, deletes, tests and enables channels, by
//! permission.

use std::time::Duration;

use overdue::channels;
use overdue::domain::channel::{ChannelSettings, SettingsAuthor, SettingsUpdate};
use overdue::domain::ids::ChannelId;
use overdue::domain::project::ChannelName;
use overdue::domain::timezone::Timezone;
use overdue::engine::ChannelTestResult;
use overdue::engine::command::{Command, DeliveryReport, NewChannel, SendOutcome};
use overdue::notifier;
use overdue::operations::channel;
use overdue::outbound::{Outbound, OutboundConfig};
use overdue::util::clock::Clock;
use overdue::util::random::Random;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{UNKNOWN, refused, text};
use crate::support::receiver::{Receiver, ResponseAction};
use crate::support::server::TestServer;

/// A channel as it is stored.
struct StoredChannel {
    id: ChannelId,
    settings: Vec<(String, String)>,
    operator: bool,
}

impl TestServer {
    fn stored(&self, uuid: &str) -> StoredChannel {
        self.handle.with_state(|state| {
            let channels = &state.project(self.main.id).unwrap().channels;
            let channel = channels
                .values()
                .find(|channel| channel.uuid.to_string() == uuid)
                .unwrap();
            let settings = channel
                .settings
                .pairs()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            StoredChannel {
                id: channel.id,
                settings,
                operator: channel.set_by_operator,
            }
        })
    }

    /// Creates a channel over the API. Returns its address.
    async fn create_channel(&self, body: Value) -> String {
        let answer = self
            .extension_api("POST", "/channels", &body.to_string())
            .await;
        assert_eq!(answer.status, 201, "{answer:?}");
        text(&answer.json(), "id").to_owned()
    }

    /// Creates a channel as the operator of the server.
    async fn create_operator_channel(&self, kind: &str, pairs: &[(&str, &str)]) -> String {
        let settings =
            ChannelSettings::parse(channels::find_kind(kind).unwrap(), pairs.iter().copied())
                .unwrap();
        let name = ChannelName::parse("").unwrap();
        channel::create(
            &self.handle,
            self.main.id,
            name,
            settings,
            SettingsAuthor::Operator,
        )
        .await
        .unwrap()
        .uuid
        .to_string()
    }

    async fn done(&self, command: Command) {
        self.handle.call(command).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn probable_mistakes_give_a_warning_and_are_stored() {
    let server = TestServer::start().await;
    let settings = json!({ "url": "https://contoso.webhook.office.com/webhookb2/a" });
    let answer = server
        .extension_api(
            "POST",
            "/channels",
            &json!({ "kind": "msteamsw", "name": "teams", "settings": settings }).to_string(),
        )
        .await;
    let channel = answer.json();
    assert_eq!(answer.status, 201, "{answer:?}");
    let warning = "url is the URL of an old Office 365 connector, which Microsoft is shutting \
                   down; create a workflow and give its URL";
    assert_eq!(channel["warnings"], json!([warning]));
    let address = format!("/channels/{}", text(&channel, "id"));
    let changed = server
        .extension_api(
            "PUT",
            &address,
            r#"{"settings": {"url": "https://example.org/workflows/abc"}}"#,
        )
        .await
        .json();
    assert_eq!(changed["warnings"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn a_channel_is_created_shown_changed_and_deleted() {
    let server = TestServer::start().await;
    let settings = json!({ "url": "https://ntfy.example", "topic": "a", "token": "tk_1" });
    let answer = server
        .extension_api(
            "POST",
            "/channels",
            &json!({ "kind": "ntfy", "name": "Žofie", "settings": settings }).to_string(),
        )
        .await;
    let channel = answer.json();
    let id = text(&channel, "id").to_owned();
    let mut shown = json!({
        "id": id, "name": "Žofie", "kind": "ntfy",
        "settings": {
            "priority": "3", "priority-up": "3", "token": "***", "topic": "a",
            "url": "https://ntfy.example",
        },
        "warnings": [], "unsubscribed": [], "refused": [], "status": "untested", "last_error": null,
        "failing_since": null, "last_delivered": null, "waiting": 0, "operator": false,
    });
    assert_eq!((answer.status, &channel), (201, &shown));
    let address = format!("/channels/{id}");
    assert_eq!(
        server.extension_api("GET", &address, "").await.json(),
        shown
    );
    assert_eq!(
        server.extension_api("GET", "/channels", "").await.json(),
        json!({ "channels": [shown] })
    );
    // The list of Healthchecks keeps its three members.
    assert_eq!(
        server.api("GET", "/channels/", "").await.json(),
        json!({ "channels": [{ "id": id, "name": "Žofie", "kind": "ntfy" }] })
    );
    shown["name"] = json!("");
    assert_eq!(
        server
            .extension_api("PUT", &address, r#"{"name": ""}"#)
            .await
            .json(),
        shown,
        "fields that are not named stay"
    );
    let answer = server
        .extension_api(
            "PUT",
            &address,
            r#"{"kind": "ntfy", "settings": {"topic": "b", "priority": "0"}}"#,
        )
        .await;
    shown["settings"] =
        json!({ "priority": "0", "priority-up": "3", "topic": "b", "url": "https://ntfy.sh" });
    assert_eq!(
        (answer.status, answer.json()),
        (200, shown.clone()),
        "settings take the place of all"
    );
    let check = server.create_check(json!({ "channels": "*" })).await;
    assert_eq!(check["channels"], id);
    let answer = server.extension_api("DELETE", &address, "").await;
    assert_eq!((answer.status, answer.json()), (200, shown));
    assert_eq!(
        server.extension_api("DELETE", &address, "").await.status,
        404
    );
    assert_eq!(
        (
            &server.now(&check).await["channels"],
            server.extension_api("GET", "/channels", "").await.json()
        ),
        (&json!(""), json!({ "channels": [] }))
    );
    server.stop().await;
}

#[tokio::test]
async fn an_invalid_request_gets_an_error_and_changes_nothing() {
    let server = TestServer::start().await;
    let id = server
        .create_channel(json!({
            "kind": "webhook",
            "settings": { "down-url": "https://a.example/", "header.key": "secret" },
        }))
        .await;
    let address = format!("/channels/{id}");
    let before = server.changes();
    let long = "x".repeat(201);
    let invalid = "json validation error: ";
    for (body, message) in [
        ("", format!("{invalid}kind is missing")),
        ("[]", format!("{invalid}value is not an object")),
        ("{", "could not parse request body".into()),
        (
            r#"{"kind": "pigeon"}"#,
            format!("{invalid}kind has unexpected value"),
        ),
        (
            r#"{"kind": 1}"#,
            format!("{invalid}kind has unexpected value"),
        ),
        (
            r#"{"kind": "ntfy", "name": 1}"#,
            format!("{invalid}name is not a string"),
        ),
        (
            &json!({ "kind": "ntfy", "name": "x".repeat(101) }).to_string(),
            "a channel's name has at most 100 characters".into(),
        ),
        (
            r#"{"kind": "ntfy", "name": "a\nb"}"#,
            "a channel's name has no control characters".into(),
        ),
        (
            r#"{"kind": "ntfy", "settings": []}"#,
            format!("{invalid}settings is not an object"),
        ),
        (
            r#"{"kind": "ntfy", "settings": null}"#,
            format!("{invalid}settings is not an object"),
        ),
        (
            r#"{"kind": "ntfy", "settings": {"topic": 1}}"#,
            format!("{invalid}settings has a value that is not a string"),
        ),
        (
            r#"{"kind": "ntfy", "settings": {"topic": "\ud800"}}"#,
            "could not parse request body".into(),
        ),
        (
            r#"{"kind": "ntfy", "settings": {"\ud800": ""}}"#,
            "could not parse request body".into(),
        ),
        (
            &json!({ "kind": "ntfy", "settings": { &*long: "" } }).to_string(),
            format!("{invalid}settings has a name that is too long"),
        ),
        (
            r#"{"kind": "ntfy"}"#,
            "settings of kind ntfy: topic is missing; give topic=TEXT".into(),
        ),
        (
            r#"{"kind": "ntfy", "settings": {"topic": "a\nb"}}"#,
            "settings of kind ntfy: topic has a control character; remove line breaks and tabs"
                .into(),
        ),
        (
            r#"{"kind": "gotify", "settings": {"url": "file:///etc/passwd", "token": "s3cret"}}"#,
            "settings of kind gotify: url is not an http:// or https:// URL; give one like \
             https://example.org/hook"
                .into(),
        ),
        (
            r#"{"kind": "webhook", "settings": {"down-url": "http://a/", "header.X\r\nY": "z"}}"#,
            "settings of kind webhook: \"header.X\\r\\nY\" does not name a header; use letters, \
             digits and hyphens"
                .into(),
        ),
        (
            concat!(
                r#"{"kind": "webhook", "settings": {"down-url": "http://a/", "#,
                r#""header.Key": "1", "header.key": "2"}}"#,
            ),
            "settings of kind webhook: \"header.key\" is given twice, since case is ignored; give \
             it once"
                .into(),
        ),
        (
            r#"{"kind": "ntfy", "settings": {"topic": "a", "token": "***"}}"#,
            "settings of kind ntfy: \"token\" is ***, which stands for a stored value, but none is \
             stored; give the value"
                .into(),
        ),
        // Settings that only the operator of the server may change.
        (
            r#"{"kind": "shell", "settings": {"down-command": "id"}}"#,
            "settings of kind shell: only the operator of the server may create such a channel; \
             use overdue channel create"
                .into(),
        ),
        (
            r#"{"kind": "ntfy", "settings": {"topic": "a", "token-file": "/etc/shadow"}}"#,
            "settings of kind ntfy: token-file may be set only by the operator of the server; \
             leave it out, or use overdue channel set"
                .into(),
        ),
    ] {
        refused(
            &server.extension_api("POST", "/channels", body).await,
            400,
            &message,
        );
    }
    let pin = json!({
        "settings": {
            "down-url": "https://a.example/", "tls-pin": format!("sha256:{}", "0".repeat(64)),
        },
    })
    .to_string();
    for (body, message) in [
        (
            r#"{"kind": "ntfy"}"#,
            "the kind of the channel is webhook and cannot be changed; create another channel",
        ),
        (
            r#"{"settings": {}}"#,
            "settings of kind webhook: there is no URL; give down-url=URL, up-url=URL or both",
        ),
        (
            &*pin,
            "settings of kind webhook: tls-pin may be set only by the operator of the server; \
             leave it out, or use overdue channel set",
        ),
        (
            r#"{"settings": {"down-url": "https://b.example/", "header.key": "***"}}"#,
            "settings of kind webhook: down-url names another server, which must not receive \
             stored secrets; give the value of \"header.key\" instead of ***",
        ),
        (
            concat!(
                r#"{"name": "x", "settings": {"down-url": "https://a.example/", "#,
                r#""up-url": "https://b.example/", "header.key": "***"}}"#,
            ),
            "settings of kind webhook: up-url names another server, which must not receive stored \
             secrets; give the value of \"header.key\" instead of ***",
        ),
    ] {
        refused(
            &server.extension_api("PUT", &address, body).await,
            400,
            message,
        );
    }
    assert_eq!(server.changes(), before);
    server.stop().await;
}

#[tokio::test]
async fn a_mask_keeps_a_secret_and_another_server_needs_it_again() {
    let server = TestServer::start().await;
    let id = server
        .create_channel(json!({
            "kind": "webhook",
            "settings": { "down-url": "https://a.example/x", "header.Key": "first" },
        }))
        .await;
    let address = format!("/channels/{id}");
    let mut shown = server.extension_api("GET", &address, "").await.json()["settings"].clone();
    assert_eq!(shown["header.key"], "***");
    shown["down-url"] = json!("https://a.example/y");
    let answer = server
        .extension_api("PUT", &address, &json!({ "settings": shown }).to_string())
        .await;
    assert_eq!((answer.status, &answer.json()["settings"]), (200, &shown));
    let value = |key: &str| {
        server
            .stored(&id)
            .settings
            .into_iter()
            .find(|(own, _)| own == key)
            .unwrap()
            .1
    };
    assert_eq!(
        (value("header.key"), value("down-url")),
        ("first".to_owned(), "https://a.example/y".to_owned())
    );
    let body = json!({ "settings": { "down-url": "https://b.example/", "header.key": "second" } })
        .to_string();
    assert_eq!(
        server.extension_api("PUT", &address, &body).await.status,
        200
    );
    assert_eq!(value("header.key"), "second");
    server.stop().await;
}

#[tokio::test]
async fn settings_through_the_api_end_operator_privileges() {
    let server = TestServer::start().await;
    let hook = server
        .create_operator_channel(
            "webhook",
            &[("down-url", "http://127.0.0.1/"), ("header.key", "secret")],
        )
        .await;
    let file = server
        .create_operator_channel("ntfy", &[("topic", "a"), ("token-file", "/run/token")])
        .await;
    let shell = server
        .create_operator_channel("shell", &[("down-command", "true")])
        .await;
    for id in [&hook, &file, &shell] {
        let address = format!("/channels/{id}");
        let shown = server.extension_api("GET", &address, "").await.json();
        // A name is no setting, and unchanged settings do not count as a change.
        let body = json!({ "name": "new", "kind": shown["kind"], "settings": shown["settings"] })
            .to_string();
        let answer = server.extension_api("PUT", &address, &body).await;
        assert_eq!(
            (
                answer.status,
                &answer.json()["name"],
                server.stored(id).operator
            ),
            (200, &json!("new"), true),
            "{answer:?}"
        );
    }
    let put = async |id: &str, settings: Value| {
        server
            .extension_api(
                "PUT",
                &format!("/channels/{id}"),
                &json!({ "settings": settings }).to_string(),
            )
            .await
    };
    assert_eq!(
        put(&shell, json!({ "down-command": "false" })).await.status,
        400
    );
    assert_eq!(
        put(&file, json!({ "topic": "b", "token-file": "/run/token" }))
            .await
            .status,
        400
    );
    assert!(server.stored(&shell).operator && server.stored(&file).operator);
    assert_eq!(
        put(&file, json!({ "topic": "b" })).await.json()["operator"],
        false
    );
    let answer = put(
        &hook,
        json!({ "down-url": "http://127.0.0.1/admin", "header.key": "***" }),
    )
    .await;
    assert_eq!(
        (
            answer.json()["operator"].clone(),
            server.stored(&hook).operator
        ),
        (json!(false), false)
    );
    let update = SettingsUpdate::replace_all(vec![(
        "down-url".to_owned(),
        "http://127.0.0.1/".to_owned(),
    )]);
    channel::update(
        &server.handle,
        server.stored(&hook).id,
        None,
        Some(update),
        SettingsAuthor::Operator,
    )
    .await
    .unwrap();
    assert!(
        server.stored(&hook).operator,
        "the last one to set the settings"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_channel_shows_its_status() {
    let server = TestServer::start().await;
    let id = server
        .create_channel(
            json!({ "kind": "webhook", "settings": { "down-url": "https://a.example/" } }),
        )
        .await;
    let address = format!("/channels/{id}");
    let channel = server.stored(&id).id;
    let check = server.create_check(json!({ "channels": "*" })).await;
    let health = async || {
        let shown = server.extension_api("GET", &address, "").await.json();
        [
            "status",
            "last_error",
            "failing_since",
            "last_delivered",
            "waiting",
        ]
        .map(|name| shown[name].clone())
    };
    server.ping(&check, "/fail").await;
    let row = server
        .handle
        .with_state(|state| state.outbox.rows().next().unwrap().number);
    server
        .done(Command::StartAttempts {
            rows: vec![row],
            last_row: None,
        })
        .await;
    let report = |sent| {
        Command::RecordDeliveryReports(vec![DeliveryReport {
            recipients: Default::default(),
            channel,
            sent_to: None,
            rows: vec![row],
            merged_into: None,
            result: sent,
            status: 503,
        }])
    };
    server
        .done(report(SendOutcome::Retry {
            reason: "it answered 503".into(),
            may_have_arrived: false,
        }))
        .await;
    let since = "2026-11-20T10:00:00+00:00";
    assert_eq!(
        health().await,
        [
            json!("failing"),
            json!("it answered 503"),
            json!(since),
            Value::Null,
            json!(1)
        ]
    );
    server.clock.advance_secs(60);
    server
        .done(Command::StartAttempts {
            rows: vec![row],
            last_row: None,
        })
        .await;
    server.done(report(SendOutcome::Delivered)).await;
    let delivered = "2026-11-20T10:01:00+00:00";
    assert_eq!(
        health().await,
        [
            json!("ok"),
            Value::Null,
            Value::Null,
            json!(delivered),
            json!(0)
        ]
    );
    let disable = || Command::DisableChannel {
        channel,
        reason: "it answered 410".into(),
    };
    server.done(disable()).await;
    assert_eq!(
        health().await[..2],
        [json!("disabled"), json!("it answered 410")]
    );
    assert_eq!(
        server
            .extension_api("PUT", &address, r#"{"name": "x"}"#)
            .await
            .json()["status"],
        "disabled"
    );
    let enabled = server
        .extension_api("POST", &format!("{address}/enable"), "")
        .await;
    assert_eq!(
        (
            enabled.status,
            &enabled.json()["status"],
            &enabled.json()["last_delivered"]
        ),
        (200, &json!("ok"), &json!(delivered))
    );
    // For the notifier, a channel with other settings is a new one.
    server.done(disable()).await;
    let changed = server
        .extension_api(
            "PUT",
            &address,
            r#"{"settings": {"down-url": "https://b.example/"}}"#,
        )
        .await
        .json();
    assert_eq!(
        (&changed["status"], &changed["last_error"]),
        (&json!("untested"), &Value::Null),
        "nothing was sent with these"
    );
    server
        .done(Command::RecordChannelTest(DeliveryReport::of_test(
            channel,
            SendOutcome::Failed("it answered 404".into()),
            404,
        )))
        .await;
    assert_eq!(
        health().await[..2],
        [json!("test failed"), json!("it answered 404")]
    );
    server
        .done(Command::RecordChannelTest(DeliveryReport::of_test(
            channel,
            SendOutcome::Delivered,
            200,
        )))
        .await;
    assert_eq!(health().await[..2], [json!("ok"), Value::Null]);
    server.stop().await;
}

#[tokio::test]
async fn a_test_is_answered_when_its_result_is_known() {
    let server = TestServer::start().await;
    let id = server
        .create_channel(json!({ "kind": "ntfy", "settings": { "topic": "a" } }))
        .await;
    let group = server
        .create_channel(json!({ "kind": "group", "settings": { "channels": id } }))
        .await;
    let address = format!("/channels/{id}/test");
    // The project already has as many pending tests as it may have.
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            server
                .handle
                .request_channel_test(server.stored(&id).id, false)
                .unwrap()
        })
        .collect();
    assert_eq!(server.extension_api("POST", &address, "").await.status, 503);
    drop(waiting);
    while server.handle.next_channel_test().is_some() {}
    let ask = async |body: &str| {
        let asked = server.extension_api("POST", &address, body);
        let answered = async {
            // The notifier may have been woken for an earlier message.
            let trial = loop {
                match server.handle.next_channel_test() {
                    Some(trial) => break trial,
                    None => server.handle.wait_for_outgoing().await,
                }
            };
            let failed = trial.is_up_message.then(|| "it answered 503".to_owned());
            trial
                .reply
                .send(ChannelTestResult {
                    duration: Duration::from_millis(212),
                    status: if trial.is_up_message { 503 } else { 0 },
                    error: failed,
                    missed: None,
                })
                .unwrap();
        };
        tokio::join!(asked, answered).0
    };
    let delivered = json!({ "delivered": true, "millis": 212, "status": null, "error": null });
    for body in ["", "null", "[]", "{}", r#"{"event": "down"}"#] {
        let answer = ask(body).await;
        assert_eq!(
            (answer.status, answer.json()),
            (200, delivered.clone()),
            "{body}"
        );
    }
    let failed =
        json!({ "delivered": false, "millis": 212, "status": 503, "error": "it answered 503" });
    assert_eq!(ask(r#"{"event": "up"}"#).await.json(), failed);
    for body in [r#"{"event": "closed"}"#, r#"{"event": true}"#] {
        refused(
            &server.extension_api("POST", &address, body).await,
            400,
            "json validation error: event has unexpected value",
        );
    }
    let answer = server
        .extension_api("POST", &format!("/channels/{group}/test"), "")
        .await;
    refused(
        &answer,
        400,
        "a group itself cannot be tested; test its channels",
    );
    assert_eq!(
        server
            .extension_api("POST", &format!("/channels/{UNKNOWN}/test"), "")
            .await
            .status,
        404
    );
    server.stop().await;
}

#[tokio::test]
async fn channels_of_the_api_do_not_reach_the_server_itself() {
    let server = TestServer::start().await;
    let (_stop, stopped) = watch::channel(false);
    let config = notifier::NotifierConfig {
        outbound: Outbound::new(OutboundConfig::default(), &Clock::System, Random::System).unwrap(),
        zone: Timezone::utc(),
        host: "overdue.test".into(),
        render_check: Box::new(|_| String::new()),
        pages_url: None,
        unsubscribe_links: None,
        heartbeat: None,
        last_round: Default::default(),
    };
    notifier::start(server.handle.clone(), config, stopped).unwrap();
    let receiver = Receiver::start([ResponseAction::status(202)]).await;
    let url = format!("http://{}/hook", receiver.address);
    let operators = server
        .create_operator_channel("webhook", &[("down-url", &url)])
        .await;
    let answer = server
        .extension_api("POST", &format!("/channels/{operators}/test"), "")
        .await
        .json();
    assert_eq!(
        (&answer["delivered"], &answer["status"], &answer["error"]),
        (&json!(true), &json!(202), &Value::Null),
        "{answer}"
    );
    let ours = server
        .create_channel(json!({ "kind": "webhook", "settings": { "down-url": url } }))
        .await;
    let answer = server
        .extension_api("POST", &format!("/channels/{ours}/test"), "")
        .await
        .json();
    assert_eq!(
        (&answer["delivered"], &answer["status"]),
        (&json!(false), &Value::Null),
        "{answer}"
    );
    assert!(
        text(&answer, "error").contains("a loopback address"),
        "{answer}"
    );
    // A change to an operator's channel takes away its access to internal addresses.
    let body = json!({ "settings": { "down-url": format!("{url}/admin") } }).to_string();
    assert_eq!(
        server
            .extension_api("PUT", &format!("/channels/{operators}"), &body)
            .await
            .status,
        200
    );
    assert_eq!(
        server
            .extension_api("POST", &format!("/channels/{operators}/test"), "")
            .await
            .json()["delivered"],
        false
    );
    assert_eq!(receiver.requests().len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn the_api_creates_at_most_a_thousand_channels() {
    let server = TestServer::start().await;
    let settings =
        ChannelSettings::parse(channels::find_kind("ntfy").unwrap(), [("topic", "a")]).unwrap();
    let new = |operator| {
        let uuid = server.handle.random().uuid();
        let name = ChannelName::parse("").unwrap();
        let channel = NewChannel {
            uuid,
            project: server.main.id,
            name,
            settings: settings.clone(),
            set_by_operator: operator,
        };
        server
            .handle
            .call(Command::CreateChannel(Box::new(channel)))
    };
    for call in (0..999).map(|_| new(false)).collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    let body = r#"{"kind": "ntfy", "settings": {"topic": "a"}}"#;
    assert_eq!(
        server.extension_api("POST", "/channels", body).await.status,
        201
    );
    refused(
        &server.extension_api("POST", "/channels", body).await,
        403,
        "the project has too many channels, remove some",
    );
    new(true).await.unwrap().unwrap();
    server.stop().await;
}

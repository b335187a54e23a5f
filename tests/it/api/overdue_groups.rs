//! Groups over the API: members are found by name, stored by UUID and shown by name, and a check
//! without a working channel shows that.

use std::sync::Arc;

use overdue::domain::project::Channel;
use overdue::engine::command::Command;
use overdue::engine::state::State;
use serde_json::{Value, json};

use crate::support::server::TestServer;

impl TestServer {
    /// Creates a channel with this name. Returns its address.
    async fn named(&self, name: &str, kind: &str, settings: Value) -> String {
        let answer = self
            .extension_api(
                "POST",
                "/channels",
                &json!({ "name": name, "kind": kind, "settings": settings }).to_string(),
            )
            .await;
        assert_eq!(answer.status, 201, "{answer:?}");
        format!("/channels/{}", answer.json()["id"].as_str().unwrap())
    }

    fn channel_named(&self, name: &str) -> Arc<Channel> {
        let named = |state: &State| {
            let channels = state.project(self.main.id).unwrap().channels.values();
            channels
                .clone()
                .find(|channel| channel.name.as_str() == name)
                .unwrap()
                .clone()
        };
        self.handle.with_state(named)
    }

    async fn shown(&self, address: &str) -> Value {
        self.extension_api("GET", address, "").await.json()
    }
}

fn uuid_in(address: &str) -> &str {
    address.rsplit('/').next().unwrap()
}

#[tokio::test]
async fn members_are_stored_by_uuid_and_shown_by_name() {
    let server = TestServer::start().await;
    let ops = server
        .named("ops mail", "ntfy", json!({ "topic": "a" }))
        .await;
    let phone = server.named("phone", "ntfy", json!({ "topic": "b" })).await;
    for (members, message) in [
        (
            "typo",
            "but the project has no such channel; create it first, or leave it out",
        ),
        (
            "phone,11111111-2222-4333-8444-555555555555",
            r#""11111111-2222-4333-8444-555555555555", but the project has no such channel"#,
        ),
    ] {
        let answer = server
            .extension_api(
                "POST",
                "/channels",
                &json!({ "kind": "group", "settings": { "channels": members } }).to_string(),
            )
            .await;
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert_eq!(
            (answer.status, error.contains(message)),
            (400, true),
            "{error}"
        );
    }
    let members = format!("ops mail, {}", uuid_in(&phone));
    let group = server
        .named("both", "group", json!({ "channels": members }))
        .await;
    assert_eq!(
        server.shown(&group).await["settings"],
        json!({ "channels": "ops mail,phone" })
    );
    let stored = || {
        server
            .channel_named("both")
            .settings
            .pairs()
            .map(|(_, value)| value.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(stored(), [format!("{},{}", uuid_in(&ops), uuid_in(&phone))]);
    // Renaming a member does not change the group, and the shown settings can be sent back.
    server
        .extension_api("PUT", &phone, r#"{"name": "pager"}"#)
        .await;
    let shown = server.shown(&group).await["settings"].clone();
    assert_eq!(shown, json!({ "channels": "ops mail,pager" }));
    assert_eq!(
        server
            .extension_api("PUT", &group, &json!({ "settings": shown }).to_string())
            .await
            .status,
        200
    );
    let refused = server
        .extension_api("PUT", &group, r#"{"settings": {"channels": "phone"}}"#)
        .await;
    assert_eq!((refused.status, stored().len()), (400, 1), "{refused:?}");
    let nested = server
        .extension_api("PUT", &group, r#"{"settings": {"channels": "both"}}"#)
        .await;
    assert_eq!(
        (
            nested.status,
            nested.text().contains("which is a group itself")
        ),
        (400, true),
        "{nested:?}"
    );
    // A name that two channels share is refused.
    let twin = server.named("pager", "ntfy", json!({ "topic": "c" })).await;
    let refused = server
        .extension_api("PUT", &group, r#"{"settings": {"channels": "pager"}}"#)
        .await;
    assert!(
        refused.status == 400 && refused.text().contains(uuid_in(&twin)),
        "{refused:?}"
    );
    assert_eq!(
        server.shown(&group).await["settings"],
        json!({ "channels": format!("ops mail,{}", uuid_in(&phone)) })
    );
    let check = server
        .create_check(json!({ "channels": uuid_in(&group) }))
        .await;
    server.ping(&check, "/fail").await;
    assert_eq!(
        server
            .handle
            .with_state(|state| state.outbox.rows().count()),
        2,
        "both members are notified"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_group_that_loses_its_channels_cannot_deliver() {
    let server = TestServer::start().await;
    let ops = server.named("ops", "ntfy", json!({ "topic": "a" })).await;
    let phone = server.named("phone", "ntfy", json!({ "topic": "b" })).await;
    let group = server
        .named("both", "group", json!({ "channels": "ops,phone" }))
        .await;
    let state = async || {
        let shown = server.shown(&group).await;
        [
            shown["status"].clone(),
            shown["last_error"].clone(),
            shown["settings"]["channels"].clone(),
        ]
    };
    assert_eq!(
        state().await,
        [json!("untested"), Value::Null, json!("ops,phone")]
    );
    assert_eq!(server.extension_api("DELETE", &ops, "").await.status, 200);
    assert_eq!(
        state().await,
        [json!("untested"), Value::Null, json!("phone")]
    );
    let channel = server.channel_named("phone").id;
    server
        .handle
        .call(Command::DisableChannel {
            channel,
            reason: "it answered 410".into(),
        })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        state().await[..2],
        [
            json!("cannot deliver"),
            json!("none of its channels can deliver: it answered 410")
        ]
    );
    assert_eq!(server.extension_api("DELETE", &phone, "").await.status, 200);
    assert_eq!(
        state().await,
        [
            json!("cannot deliver"),
            json!("it has no channel"),
            Value::Null
        ]
    );
    server.stop().await;
}

#[tokio::test]
async fn an_alert_that_reaches_no_channel_is_logged_as_skipped() {
    let server = TestServer::start().await;
    let hook = server.named("hook", "ntfy", json!({ "topic": "a" })).await;
    let group = server
        .named("group", "group", json!({ "channels": "hook" }))
        .await;
    let up_only = server
        .named("up", "ntfy", json!({ "topic": "b", "send": "up" }))
        .await;
    let skipped = async |check: &Value| {
        let uuid = check["uuid"].as_str().unwrap();
        let alerting = server
            .extension_api("GET", &format!("/checks/{uuid}/alerting"), "")
            .await
            .json();
        let listed = server
            .extension_api("GET", &format!("/checks/{uuid}/deliveries"), "")
            .await
            .json();
        let rows = listed["deliveries"].as_array().unwrap().iter();
        (
            alerting,
            rows.map(|row| [row["outcome"].clone(), row["error"].clone()])
                .collect::<Vec<_>>(),
        )
    };
    let none = server.create_check(json!({ "name": "none" })).await;
    let empty = server
        .create_check(json!({ "name": "empty", "channels": uuid_in(&group) }))
        .await;
    let unwilling = server
        .create_check(json!({ "name": "unwilling", "channels": uuid_in(&up_only) }))
        .await;
    let disabled = server
        .create_check(json!({ "name": "disabled", "channels": uuid_in(&hook) }))
        .await;
    assert_eq!(skipped(&empty).await.0["unnotified"], Value::Null);
    let id = server.channel_named("hook").id;
    server
        .handle
        .call(Command::DisableChannel {
            channel: id,
            reason: "it answered 410".into(),
        })
        .await
        .unwrap()
        .unwrap();
    server.ping(&disabled, "/fail").await;
    let (alerting, rows) = skipped(&disabled).await;
    assert_eq!(
        alerting["unnotified"],
        "its channels cannot deliver: they are disabled"
    );
    assert_eq!(
        (&alerting["telling"], rows),
        (
            &json!("unheard"),
            vec![[json!("skipped"), json!("the channel is disabled")]]
        )
    );
    server.extension_api("DELETE", &hook, "").await;
    for (check, reason) in [
        (&none, "it has no channel"),
        (
            &empty,
            "its channels cannot deliver: the group has no channel",
        ),
        (&unwilling, "its channels do not send alerts for downtimes"),
    ] {
        server.ping(check, "/fail").await;
        let (alerting, rows) = skipped(check).await;
        assert_eq!(
            (&alerting["telling"], &alerting["unnotified"]),
            (&json!("unheard"), &json!(reason))
        );
        assert_eq!(
            rows,
            [[
                json!("skipped"),
                json!(format!("nobody is notified: {reason}"))
            ]]
        );
    }
    server.stop().await;
}

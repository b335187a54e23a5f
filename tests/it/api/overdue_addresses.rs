//! Addresses below `/api/overdue/v1`: access, methods, the kinds of channel, and the alert settings
//! of a check.
use overdue::channels;
use serde_json::{Value, json};

use super::{UNKNOWN, path, refused, text};
use crate::support::server::{TestServer, new_project};

const EXTENSION_PREFIX: &str = "/api/overdue/v1";

#[tokio::test]
async fn only_a_read_write_key_of_the_project_gives_access() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    let ours = server.channel(&server.main, "ours").await;
    let theirs = server.channel(&other, "theirs").await;
    let check = server.create_check(json!({})).await;
    let foreign = server
        .keyed(&other.read_write_key, "POST", "/api/v3/checks/", "")
        .await
        .json();
    for (method, path, status) in [
        ("GET", "/kinds".to_owned(), 200),
        ("GET", "/channels".to_owned(), 200),
        ("HEAD", "/channels".to_owned(), 200),
        ("POST", "/channels".to_owned(), 400),
        ("GET", format!("/channels/{ours}"), 200),
        ("PUT", format!("/channels/{ours}"), 200),
        ("POST", format!("/channels/{ours}/enable"), 200),
        ("GET", format!("/channels/{ours}/deliveries"), 200),
        ("GET", path(&check, "/deliveries"), 200),
        ("GET", path(&check, "/alerting"), 200),
        ("PUT", path(&check, "/alerting"), 200),
        ("GET", "/deliveries".to_owned(), 200),
        ("GET", "/windows".to_owned(), 200),
        ("POST", "/windows".to_owned(), 400),
        ("GET", format!("/windows/{UNKNOWN}"), 404),
        ("DELETE", format!("/windows/{UNKNOWN}"), 404),
        // A channel of another project is unknown, a check of another project is denied.
        ("GET", format!("/channels/{theirs}"), 404),
        ("PUT", format!("/channels/{theirs}"), 404),
        ("DELETE", format!("/channels/{theirs}"), 404),
        ("POST", format!("/channels/{theirs}/test"), 404),
        ("POST", format!("/channels/{theirs}/enable"), 404),
        ("GET", format!("/channels/{theirs}/deliveries"), 404),
        ("GET", format!("/channels/{UNKNOWN}"), 404),
        ("GET", path(&foreign, "/deliveries"), 403),
        ("GET", path(&foreign, "/alerting"), 403),
        ("PUT", path(&foreign, "/alerting"), 403),
        ("GET", format!("/checks/{UNKNOWN}/alerting"), 404),
        ("DELETE", format!("/channels/{ours}"), 200),
    ] {
        let path = format!("{EXTENSION_PREFIX}{path}");
        for (key, error) in [
            ("", "missing api key"),
            (&*server.main.read_only_key, "wrong api key"),
            (&*"X".repeat(32), "wrong api key"),
        ] {
            let answer = server.keyed(key, method, &path, "").await;
            assert_eq!(answer.status, 401, "{method} {path}");
            assert!(
                method == "HEAD" || answer.json() == json!({ "error": error }),
                "{method} {path}: {answer:?}"
            );
        }
        let answer = server
            .keyed(&server.main.read_write_key, method, &path, "")
            .await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    assert!(
        server
            .handle
            .with_state(|state| state.project(other.id).unwrap().channels.len())
            == 1
    );
    // Without the header, the key is in the body, for PUT as for POST.
    let body = json!({ "api_key": server.main.read_write_key, "after": 2 }).to_string();
    assert_eq!(
        server
            .send(
                "PUT",
                &format!("{EXTENSION_PREFIX}{}", path(&check, "/alerting")),
                &[],
                body.as_bytes()
            )
            .await
            .status,
        200
    );
    server.stop().await;
}

#[tokio::test]
async fn addresses_of_healthchecks_accept_no_more_methods() {
    let server = TestServer::start().await;
    for path in ["/channels/".to_owned(), format!("/checks/{UNKNOWN}")] {
        assert_eq!(server.api("PUT", &path, "{}").await.status, 405, "{path}");
    }
    refused(
        &server.api("POST", "/channels/", "{}").await,
        405,
        "method not allowed",
    );
    for path in [
        "/",
        "/channels/",
        "/kinds/ntfy",
        "/channels/x",
        "/deliveries/1/retry",
    ] {
        assert_eq!(
            server.extension_api("GET", path, "").await.status,
            404,
            "{path}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn kinds_are_shown_with_their_settings() {
    let server = TestServer::start().await;
    let answer = server.extension_api("GET", "/kinds", "").await;
    let kinds = answer.json();
    let shown = kinds["kinds"].as_array().unwrap();
    assert_eq!(shown.len(), channels::all_kinds().len());
    for (shown, kind) in shown.iter().zip(channels::all_kinds()) {
        assert_eq!(
            (text(shown, "name"), text(shown, "title")),
            (kind.name, kind.title)
        );
        let keys: Vec<_> = shown["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| text(field, "key"))
            .collect();
        let all: Vec<_> = kind
            .fields
            .iter()
            .chain(kind.common_fields())
            .map(|field| field.key)
            .collect();
        assert_eq!(
            (keys, &shown["operators_only"]),
            (all, &json!(kind.operator_only)),
            "{}",
            kind.name
        );
    }
    let field = |kind: &str, key: &str| -> Value {
        let kind = shown.iter().find(|one| one["name"] == kind).unwrap();
        kind["fields"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["key"] == key)
            .unwrap()
            .clone()
    };
    let token = json!({
        "key": "token", "form": "secret", "least": 1, "most": 200, "need": "optional",
        "default": null, "help": "access token (tk_...)", "secret": true, "operators_only": false,
    });
    assert_eq!(field("ntfy", "token"), token);
    let priority = json!({
        "key": "priority", "form": "number", "least": 0, "most": 5, "need": "default",
        "default": "3", "help": "priority for down, 1 to 5; 0: do not send", "secret": false,
        "operators_only": false,
    });
    assert_eq!(field("ntfy", "priority"), priority);
    assert_eq!(
        field("ntfy", "send")["choices"],
        json!(["down", "up", "late", "limits"])
    );
    assert_eq!(
        (
            &field("ntfy", "topic")["need"],
            &field("sms", "account")["need"]
        ),
        (&json!("required"), &json!("required"))
    );
    assert_eq!(field("webhook", "method")["need"], "derived");
    assert_eq!(
        (
            &field("ntfy", "tls-pin")["operators_only"],
            &field("webhook", "header.NAME")["secret"]
        ),
        (&json!(true), &json!(true))
    );
    server.stop().await;
}

#[tokio::test]
async fn the_alert_settings_of_a_check_are_shown_and_changed() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({ "timeout": 60, "grace": 60 }))
        .await;
    let address = path(&check, "/alerting");
    let quiet = |after: u8| {
        json!({
            "after": after, "paused_until": null, "parents": [], "telling": "quiet",
            "until": null, "why": null, "unnotified": "it has no channel",
        })
    };
    assert_eq!(
        server.extension_api("GET", &address, "").await.json(),
        quiet(1)
    );
    for (body, after) in [
        (r#"{"after": 100}"#, 100),
        ("", 100),
        (r#"{"after": 2, "parents": []}"#, 2),
    ] {
        let answer = server.extension_api("PUT", &address, body).await;
        assert_eq!(
            (answer.status, answer.json()),
            (200, quiet(after)),
            "{body}"
        );
    }
    let number = "json validation error: after is not a number";
    for (body, message) in [
        (
            r#"{"after": 0}"#,
            "after is wrong: give a number of failures from 1 to 100",
        ),
        (
            r#"{"after": 101}"#,
            "after is wrong: give a number of failures from 1 to 100",
        ),
        (
            r#"{"after": 99999999999999999999}"#,
            "json validation error: after is too large",
        ),
        (r#"{"after": -1}"#, number),
        (r#"{"after": 1.0}"#, number),
        (r#"{"after": "1"}"#, number),
        (r#"{"after": null}"#, number),
        (r#"{"after": "#, "could not parse request body"),
        ("[]", "json validation error: value is not an object"),
    ] {
        refused(
            &server.extension_api("PUT", &address, body).await,
            400,
            message,
        );
    }
    server.ping(&check, "").await;
    server.ping(&check, "/fail").await;
    let due = server.extension_api("GET", &address, "").await.json();
    // The next ping is expected a minute from now and may be a minute late.
    assert_eq!(
        due,
        json!({
            "after": 2, "paused_until": null, "parents": [], "telling": "due",
            "until": "2026-11-20T10:02:00+00:00", "why": "failures", "unnotified": "it has no channel",
        })
    );
    server.ping(&check, "/fail").await;
    assert_eq!(
        server.extension_api("GET", &address, "").await.json()["telling"],
        "unheard"
    );
    server.ping(&check, "").await;
    assert_eq!(
        server.extension_api("GET", &address, "").await.json(),
        quiet(2)
    );

    let router = server.create_check(json!({})).await;
    let foreign = new_project(&server.handle, "other").await;
    let foreign = server
        .keyed(&foreign.read_write_key, "POST", "/api/v3/checks/", "")
        .await
        .json();
    let body = |uuids: &[&Value]| json!({ "parents": uuids }).to_string();
    let uuid = |check: &Value| check["uuid"].clone();
    let [own, above, theirs] = [&check, &router, &foreign].map(uuid);
    let set = server
        .extension_api("PUT", &address, &body(&[&above, &above]))
        .await;
    assert_eq!(
        (set.status, set.json()["parents"].clone()),
        (200, json!([above])),
        "{set:?}"
    );
    for (of, body, message) in [
        (
            &check,
            r#"{"parents": "x"}"#.to_owned(),
            "json validation error: parents is not an array",
        ),
        (
            &check,
            r#"{"parents": [1]}"#.to_owned(),
            "json validation error: an item in 'parents' has unexpected value",
        ),
        (
            &check,
            body(&[&json!("x")]),
            "parents is wrong: a parent is not a check of the same project",
        ),
        (
            &check,
            body(&[&theirs]),
            "a parent is not a check of the same project",
        ),
        (
            &check,
            body(&vec![&above; 101]),
            "parents is wrong: a check has at most 8 parents",
        ),
        (
            &router,
            body(&[&own]),
            "the check would be a parent of itself",
        ),
    ] {
        refused(
            &server
                .extension_api("PUT", &path(of, "/alerting"), &body)
                .await,
            400,
            message,
        );
    }
    assert_eq!(
        server
            .extension_api("PUT", &address, &body(&[]))
            .await
            .json(),
        quiet(2)
    );
    server.stop().await;
}

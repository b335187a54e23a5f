//! The unsubscribe link in mails: it is signed, and only POST changes anything.

use overdue::http::unsubscribe_links;
use overdue::notifier::UnsubscribeTarget;

use crate::support::server::TestServer;

#[tokio::test]
async fn a_recipient_unsubscribes_by_the_link_in_a_mail() {
    let server = TestServer::start().await;
    let uuid =
        |kind: &str, settings: &str| format!(r#"{{"kind": "{kind}", "settings": {settings}}}"#);
    let mail = server
        .extension_api(
            "POST",
            "/channels",
            &uuid("email", r#"{"to": "a@example.org,b@example.org"}"#),
        )
        .await
        .json();
    let hook = server
        .extension_api(
            "POST",
            "/channels",
            &uuid("webhook", r#"{"down-url": "http://example.org/"}"#),
        )
        .await
        .json();
    let base: overdue::http::BaseUrl = server.base.parse().unwrap();
    let links = unsubscribe_links(base.clone(), server.handle.clone());
    let state = || {
        server.handle.with_state(|state| {
            state
                .project(server.main.id)
                .unwrap()
                .channels
                .values()
                .cloned()
                .collect::<Vec<_>>()
        })
    };
    let [path, other] = [&mail, &hook].map(|channel| {
        let channel = state()
            .into_iter()
            .find(|one| channel["id"] == one.uuid.to_string())
            .unwrap();
        links(UnsubscribeTarget::Channel(channel.uuid), "a@example.org")
            .unwrap()
            .strip_prefix(base.as_str())
            .unwrap()
            .to_owned()
    });
    let silent = || {
        state()
            .iter()
            .flat_map(|channel| channel.health.unsubscribed.clone())
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let is_disabled = || {
        !silent().is_empty()
            || state()
                .iter()
                .any(|channel| channel.health.disabled.is_some())
    };
    for method in ["GET", "HEAD", "OPTIONS"] {
        let answer = server.send(method, &path, &[], b"").await;
        assert_eq!(
            (answer.status, is_disabled()),
            (if method == "OPTIONS" { 204 } else { 200 }, false),
            "{method}: {answer:?}"
        );
    }
    let page = server.send("GET", &path, &[], b"").await;
    assert!(
        page.text()
            .contains(r#"<form method="post"><button>Unsubscribe</button></form>"#),
        "{page:?}"
    );
    assert_eq!(
        page.header("content-security-policy"),
        Some("default-src 'none'; form-action 'self'; frame-ancestors 'none'")
    );
    let forged = format!(
        "{}{}",
        &path[..path.len() - 1],
        if path.ends_with('A') { 'B' } else { 'A' }
    );
    for (method, path, status) in [
        ("POST", forged.as_str(), 404),
        ("POST", &other, 404),
        ("POST", &path[..path.len() - 1], 404),
        ("POST", &path.replace("unsubscribe", "unsubscribed"), 404),
        ("PUT", &path, 405),
        ("DELETE", &path, 405),
    ] {
        let answer = server
            .send(method, path, &[], b"List-Unsubscribe=One-Click")
            .await;
        assert_eq!(
            (answer.status, is_disabled()),
            (status, false),
            "{method} {path}: {answer:?}"
        );
    }
    // From any page or program, and any number of times.
    let form = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Origin", "null"),
    ];
    for _ in 0..2 {
        let answer = server
            .send("POST", &path, &form, b"List-Unsubscribe=One-Click")
            .await;
        assert_eq!(answer.status, 200);
        assert!(
            answer.text().contains("Other recipients still receive it."),
            "{answer:?}"
        );
    }
    assert_eq!(silent(), ["a@example.org"]);
    let shown = server
        .extension_api(
            "GET",
            &format!("/channels/{}", mail["id"].as_str().unwrap()),
            "",
        )
        .await
        .json();
    assert_eq!(
        (&shown["status"], &shown["unsubscribed"]),
        (&"untested".into(), &serde_json::json!(["a@example.org"]))
    );
    assert!(
        !server
            .send("GET", &path, &[], b"")
            .await
            .text()
            .contains("<form")
    );
    // Without recipients the channel is disabled.
    let channel = state()
        .into_iter()
        .find(|one| mail["id"] == one.uuid.to_string())
        .unwrap();
    let path = links(UnsubscribeTarget::Channel(channel.uuid), "b@example.org")
        .unwrap()
        .strip_prefix(base.as_str())
        .unwrap()
        .to_owned();
    let answer = server
        .send("POST", &path, &form, b"List-Unsubscribe=One-Click")
        .await;
    assert!(
        answer.text().contains("It has no other recipient."),
        "{answer:?}"
    );
    let shown = server
        .extension_api(
            "GET",
            &format!("/channels/{}", mail["id"].as_str().unwrap()),
            "",
        )
        .await
        .json();
    assert_eq!(
        (&shown["status"], &shown["last_error"]),
        (
            &"disabled".into(),
            &"every recipient has unsubscribed".into()
        )
    );
    server.stop().await;
}

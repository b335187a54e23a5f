//! Undoing of actions on checks, and pauses for a time.

use serde_json::json;

use super::{browse, channel, post, project_uuid, visible_text};
use crate::support::server::{TestResponse, TestServer};

/// Server with checks that are up, down and new.
async fn server_with_checks() -> TestServer {
    let server = TestServer::start().await;
    for (name, signal) in [("up", Some("")), ("down", Some("/fail")), ("new", None)] {
        let check = server
            .create_check(json!({ "name": name, "tags": "nas", "timeout": 600, "grace": 60 }))
            .await;
        if let Some(signal) = signal {
            ping(&server, &check, signal).await;
        }
    }
    server
}

async fn ping(server: &TestServer, check: &serde_json::Value, signal: &str) {
    let url = check["ping_url"].as_str().unwrap();
    let path = &url[url.find("/ping/").unwrap()..];
    assert_eq!(server.get(&format!("{path}{signal}")).await.status, 200);
}

async fn act(server: &TestServer, action: &str, fields: &[(&str, &str)]) -> TestResponse {
    let path = format!("/projects/{}/checks/bulk/", project_uuid(server));
    let all = [("action", action), ("all", "1")];
    let fields: Vec<_> = all.iter().chain(fields).copied().collect();
    post(server, &path, &fields).await
}

/// Statuses of the checks by name, tags and numbers of channels.
async fn checks(server: &TestServer) -> Vec<(String, String, String, bool)> {
    let list = server.api("GET", "/checks/", "").await.json();
    let text = |check: &serde_json::Value, field: &str| check[field].as_str().unwrap().to_owned();
    let mut checks: Vec<_> = list["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| {
            let has_channel = !text(check, "channels").is_empty();
            (
                text(check, "name"),
                text(check, "status"),
                text(check, "tags"),
                has_channel,
            )
        })
        .collect();
    checks.sort();
    checks
}

/// URL that undoes the action, from the page that shows its result.
async fn undo_url(server: &TestServer, answer: &TestResponse) -> Option<String> {
    let page = browse(server, "GET", answer.header("Location").unwrap(), &[]).await;
    let form = page.text().split_once("\" data-undo")?.0;
    Some(form.rsplit_once('"')?.1.to_owned())
}

/// Presses the button, and returns the text of the page after it.
async fn undo(server: &TestServer, answer: &TestResponse) -> String {
    let url = undo_url(server, answer).await.expect("a button");
    let undone = post(server, &url, &[]).await;
    assert_eq!(undone.status, 303, "{undone:?}");
    let page = browse(server, "GET", undone.header("Location").unwrap(), &[]).await;
    visible_text(page.text())
}

#[tokio::test]
async fn every_action_but_deletion_is_undone() {
    let server = server_with_checks().await;
    let channel = channel(&server).await;
    let before = checks(&server).await;
    for (action, fields) in [
        ("pause", &[][..]),
        ("pause", &[("for", "2h")]),
        ("add-tag", &[("new_tag", "more")]),
        ("remove-tag", &[("new_tag", "nas")]),
        ("assign", &[("channel", channel.as_str())]),
    ] {
        let done = act(&server, action, fields).await;
        assert_ne!(checks(&server).await, before, "{action}");
        let text = undo(&server, &done).await;
        assert!(text.contains("Undone for 3 checks."), "{action}: {text}");
        assert_eq!(checks(&server).await, before, "{action}");
    }
    act(&server, "pause", &[]).await;
    let paused = checks(&server).await;
    let resumed = act(&server, "resume", &[]).await;
    undo(&server, &resumed).await;
    assert_eq!(checks(&server).await, paused);
    let deleted = act(&server, "delete", &[("confirm", "delete 3")]).await;
    assert_eq!(undo_url(&server, &deleted).await, None);
    server.stop().await;
}

#[tokio::test]
async fn a_check_that_was_pinged_since_stays_as_it_is() {
    let server = server_with_checks().await;
    let paused = act(&server, "pause", &[]).await;
    let list = server.api("GET", "/checks/", "").await.json();
    let down = list["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "down")
        .unwrap();
    ping(&server, down, "").await;
    let text = undo(&server, &paused).await;
    assert!(
        text.contains("Undone for 2 checks, 1 not, because they have changed since."),
        "{text}"
    );
    let statuses: Vec<_> = checks(&server)
        .await
        .into_iter()
        .map(|(name, status, ..)| (name, status))
        .collect();
    let expected = [("down", "up"), ("new", "new"), ("up", "up")];
    assert_eq!(
        statuses,
        expected.map(|(name, status)| (name.to_owned(), status.to_owned()))
    );
    server.stop().await;
}

#[tokio::test]
async fn an_action_is_undone_once_within_30_seconds_by_its_user() {
    let server = server_with_checks().await;
    let paused = act(&server, "pause", &[]).await;
    let url = undo_url(&server, &paused).await.unwrap();
    let other = url.replace("/1/", "/2/");
    assert_eq!(post(&server, &other, &[]).await.status, 400);
    server.clock.advance_secs(30);
    assert_eq!(undo_url(&server, &paused).await, None);
    let late = post(&server, &url, &[]).await;
    assert_eq!(late.status, 400);
    assert!(
        visible_text(late.text()).contains("n action can be undone once, within 30 seconds"),
        "{late:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_pause_for_a_time_ends_with_the_former_status() {
    let server = server_with_checks().await;
    act(&server, "pause", &[("for", "1h")]).await;
    server.clock.advance_secs(3599);
    let statuses = |checks: Vec<(String, String, String, bool)>| {
        checks
            .into_iter()
            .map(|(_, status, ..)| status)
            .collect::<Vec<_>>()
    };
    assert_eq!(statuses(checks(&server).await), ["paused"; 3]);
    server.clock.advance_secs(1);
    assert_eq!(statuses(checks(&server).await), ["down", "new", "up"]);
    server.clock.advance_secs(600);
    assert_eq!(statuses(checks(&server).await), ["down", "new", "grace"]);
    server.stop().await;
}

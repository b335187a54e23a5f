//! The list of checks: its rows, its filters, and its links.

use serde_json::json;

use super::{browse, project_uuid, visible_text};
use crate::support::server::TestServer;

/// Names in the rows of a list, in order.
fn names(page: &str) -> Vec<String> {
    let rows = page.split("class=\"name\"").skip(1);
    rows.map(|row| {
        row.split("<bdi>")
            .nth(1)
            .unwrap()
            .split("</bdi>")
            .next()
            .unwrap()
            .to_owned()
    })
    .collect()
}

async fn list(server: &TestServer, query: &str) -> String {
    let answer = browse(
        server,
        "GET",
        &format!("/projects/{}/checks/{query}", project_uuid(server)),
        &[],
    )
    .await;
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    answer.text().to_owned()
}

async fn make(server: &TestServer, name: &str, tags: &str, ends: &[&str]) {
    let check = server
        .create_check(json!({ "name": name, "tags": tags, "timeout": 3600, "grace": 600 }))
        .await;
    let url = check["ping_url"]
        .as_str()
        .unwrap()
        .replace(&server.base, "");
    for end in ends {
        assert_eq!(server.get(&format!("{url}{end}")).await.status, 200);
    }
}

#[tokio::test]
async fn the_most_urgent_come_first_and_tiles_count_them() {
    let server = TestServer::start().await;
    for (name, tags, ends) in [
        ("up", "", &[""][..]),
        ("new", "", &[]),
        ("failed 10", "nas", &["/fail"]),
        ("failed 9", "nas prod", &["/fail"]),
        ("runs", "", &["", "/start"]),
    ] {
        make(&server, name, tags, ends).await;
    }
    let page = list(&server, "").await;
    assert_eq!(names(&page), ["failed 9", "failed 10", "runs", "up", "new"]);
    assert!(
        page.contains("<title>2 down – Checks – main – overdue</title>")
            && page.contains("favicon-down.svg"),
        "{page}"
    );
    for (query, found) in [
        ("?status=down", &["failed 9", "failed 10"][..]),
        ("?status=down&tag=prod", &["failed 9"]),
        ("?status=up", &["up"]),
        ("?status=running", &["runs"]),
        ("?q=FAIL+prod", &["failed 9"]),
        (
            "?sort=-name",
            &["up", "runs", "new", "failed 10", "failed 9"],
        ),
        (
            "?sort=created",
            &["up", "new", "failed 10", "failed 9", "runs"],
        ),
        ("?q=nothing", &[]),
    ] {
        assert_eq!(names(&list(&server, query).await), found, "{query}");
    }
    // Each check is counted once.
    let counts = page.split("data-count=\"").skip(1);
    let counts = counts.map(|tile| tile.split('"').next().unwrap().parse::<usize>().unwrap());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 0, 1, 1, 1, 0]);
    assert!(
        list(&server, "?q=nothing")
            .await
            .contains("No checks match.")
    );
    // An hour later, a check that was up is late, then down.
    server.clock.advance_secs(3601);
    assert!(
        list(&server, "?q=up")
            .await
            .contains(r#"data-status="late"><span class="word">Late"#)
    );
    server.stop().await;
}

#[tokio::test]
async fn long_lists_have_pages_and_scripts_get_rows_alone() {
    let server = TestServer::start().await;
    for number in 0..101 {
        make(&server, &format!("job {number}"), "", &[]).await;
    }
    let first = list(&server, "?rows=100").await;
    assert!(
        first.contains("1–100 of 101") && first.contains("?rows=100&#38;page=2"),
        "{first}"
    );
    // A page number beyond the end shows the last page.
    for page in [2, 3] {
        assert_eq!(
            names(&list(&server, &format!("?rows=100&page={page}")).await),
            ["job 100"]
        );
    }
    let path = format!("/projects/{}/checks/?q=job+7", project_uuid(&server));
    let rows = browse(&server, "GET", &path, &[("X-Fragment", "list")]).await;
    assert!(rows.header("Vary").unwrap().contains("X-Fragment"));
    assert!(
        !rows.text().contains("<html") && names(rows.text()).len() == 19,
        "{rows:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn an_empty_list_shows_how_to_create_a_check() {
    let server = TestServer::start().await;
    let page = list(&server, "").await;
    let url = page
        .split('"')
        .find(|part| part.contains("create=1"))
        .unwrap()
        .replace(&server.base, "");
    assert_eq!(server.get(&url).await.status, 201, "{url}");
    assert_eq!(names(&list(&server, "").await), ["my-first-check"]);
    server.stop().await;
}

#[tokio::test]
async fn a_row_says_why_its_check_is_not_up_and_since_when() {
    let server = TestServer::start().await;
    for (name, ends) in [
        ("up", &[""][..]),
        ("exit", &["", "/3"]),
        ("fail", &["/fail"]),
        ("runs", &["", "/start"]),
        ("new", &[]),
    ] {
        make(&server, name, "", ends).await;
    }
    let reasons = |page: &str| -> Vec<String> {
        let rows = page.split("<small class=\"why\">").skip(1);
        rows.map(|row| visible_text(&format!("<small>{}", row.split("</small>").next().unwrap())))
            .collect()
    };
    server.clock.advance_secs(300);
    let page = list(&server, "?sort=created").await;
    assert_eq!(
        reasons(&page),
        [
            "exit status 3, 5 min",
            "reported a failure, 5 min",
            "running, 5 min",
            "no ping yet"
        ]
    );
    server.clock.advance_secs(3_400);
    let page = list(&server, "?q=up").await;
    assert_eq!(reasons(&page), ["late, 1 min ; down in 8 min"]);
    server.clock.advance_secs(7_200);
    let page = list(&server, "?q=up").await;
    assert_eq!(reasons(&page), ["no ping, 1 h"]);
    server.stop().await;
}

#[tokio::test]
async fn a_name_that_cannot_be_seen_is_replaced() {
    let server = TestServer::start().await;
    for (name, slug) in [("   ", ""), ("\u{200b}", "night"), ("seen", "")] {
        server
            .create_check(json!({ "name": name, "slug": slug }))
            .await;
    }
    assert_eq!(
        names(&list(&server, "?sort=created").await),
        ["unnamed", "night", "seen"]
    );
    server.stop().await;
}

#[tokio::test]
async fn a_channel_for_every_check_counts_as_recipient_of_all() {
    let server = TestServer::start().await;
    let settings = r#"{ "kind": "webhook", "name": "hook", "settings":
        { "down-url": "http://a", "every": "on" } }"#;
    let made = server.extension_api("POST", "/channels", settings).await;
    assert_eq!(made.status, 201, "{made:?}");
    let check = server.create_check(json!({ "name": "one" })).await;
    let page = list(&server, "").await;
    assert!(
        !page.contains("No one is notified") && !page.contains("no alerts"),
        "{page}"
    );
    assert!(names(&list(&server, "?alerts=none").await).is_empty());
    // The box of the channel is ticked, and cannot be unticked.
    let uuid = check["uuid"].as_str().unwrap();
    for rest in ["details/", "edit/"] {
        let page = browse(&server, "GET", &format!("/checks/{uuid}/{rest}"), &[]).await;
        assert!(
            page.text().contains("checked disabled") && page.text().contains("every check"),
            "{rest}: {page:?}"
        );
    }
    // A channel that does not send alerts is no recipient.
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let settings = r#"{ "settings": { "up-url": "http://a", "every": "on" } }"#;
    let changed = server
        .extension_api("PUT", &format!("/channels/{id}"), settings)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let page = list(&server, "").await;
    let reason = "No one is notified: its channels do not send alerts for downtimes";
    assert!(
        page.contains("No one is notified about 1 check.") && page.contains(reason),
        "{page}"
    );
    let page = browse(&server, "GET", &format!("/checks/{uuid}/details/"), &[]).await;
    assert!(
        page.text()
            .contains("No one is notified about this check: its channels do not send"),
        "{page:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn the_list_warns_of_checks_without_channels() {
    let server = TestServer::start().await;
    server.create_check(json!({ "name": "one" })).await;
    assert!(list(&server, "").await.contains("No alerts are sent."));
    let channel = server
        .extension_api(
            "POST",
            "/channels",
            r#"{ "kind": "webhook", "name": "hook", "settings": { "down-url": "http://a" } }"#,
        )
        .await;
    assert_eq!(channel.status, 201, "{channel:?}");
    server
        .create_check(json!({ "name": "two", "channels": "*" }))
        .await;
    let page = list(&server, "").await;
    assert!(
        page.contains("No one is notified about 1 check.") && page.contains("alerts=none"),
        "{page}"
    );
    assert_eq!(names(&list(&server, "?alerts=none").await), ["one"]);
    server.stop().await;
}

//! Public status pages, and the pages on which they are set.

use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use serde_json::{Value, json};

use super::browser::{make, server, signed_in};
use super::{browse, post, project_uuid, visible_text};
use crate::support::server::TestServer;

async fn page(server: &TestServer, path: &str) -> String {
    let answer = browse(server, "GET", path, &[]).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.text().to_owned()
}

async fn text(server: &TestServer, path: &str) -> String {
    visible_text(&page(server, path).await)
}

/// Server with one check that failed, one that is late, one that is up, one that is new and one
/// that is paused, each with a tag.
async fn server_with_checks() -> (TestServer, Vec<Value>) {
    let server = TestServer::start().await;
    let mut checks = Vec::new();
    for (name, tags) in [
        ("Backup", "db nightly"),
        ("Report", "db"),
        ("Mail", "web"),
        ("Unused", "web"),
        ("Stopped", "web"),
    ] {
        let check = server
            .create_check(json!({
                "name": name, "tags": tags, "timeout": 3600, "grace": 600, "desc": "a secret",
                "unique": ["name"],
            }))
            .await;
        checks.push(check);
    }
    server.ping(&checks[0], "").await;
    server.ping(&checks[1], "").await;
    server.ping(&checks[4], "").await;
    let pause = format!("/checks/{}/pause", checks[4]["uuid"].as_str().unwrap());
    assert_eq!(server.api("POST", &pause, "").await.status, 200);
    server.clock.advance_secs(3_700);
    server.ping(&checks[2], "").await;
    server.ping(&checks[0], "/fail").await;
    server.clock.advance_secs(5);
    (server, checks)
}

#[tokio::test]
async fn a_status_page_shows_names_and_statuses_and_nothing_else() {
    let (server, checks) = server_with_checks().await;
    let list = format!("/projects/{}/status-pages/", project_uuid(&server));
    assert!(
        text(&server, &list)
            .await
            .contains("Nothing of this project is public.")
    );
    assert_eq!(
        browse(&server, "GET", "/status/jobs/", &[]).await.status,
        404
    );
    let all = [("title", "Our <jobs>"), ("address", "jobs")];
    assert_eq!(post(&server, &list, &all).await.status, 303);
    let listed = page(&server, &list).await;
    assert!(
        !listed.contains("<jobs>") && listed.contains("all checks (5)"),
        "{listed}"
    );
    let html = page(&server, "/status/jobs/").await;
    let shown = visible_text(&html);
    for words in [
        "1 of 3 checks is down.",
        "Backup down",
        "Report late",
        "Mail up",
        "Unused not monitored",
        "Stopped not monitored",
        "Backup has been down for 5 seconds",
        "As of 11:01 (UTC).",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    for check in &checks {
        for field in ["uuid", "unique_key", "desc"] {
            let value = check[field].as_str().unwrap_or("a secret");
            assert!(!html.contains(value), "{field}: {html}");
        }
    }
    assert!(!html.contains("nightly"), "{html}");
    // Only checks with the tag.
    let tagged = [("title", "Databases"), ("address", "db"), ("tags", "db")];
    assert_eq!(post(&server, &list, &tagged).await.status, 303);
    let shown = text(&server, "/status/db/").await;
    assert!(
        shown.contains("Report late") && !shown.contains("Mail"),
        "{shown}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_status_page_is_rendered_every_few_seconds_and_has_a_tag() {
    let (server, checks) = server_with_checks().await;
    let list = format!("/projects/{}/status-pages/", project_uuid(&server));
    let form = [("title", "Jobs"), ("address", "jobs")];
    assert_eq!(post(&server, &list, &form).await.status, 303);
    let first = browse(&server, "GET", "/status/jobs/", &[]).await;
    let tag = first.header("ETag").unwrap().to_owned();
    assert_eq!(first.header("Cache-Control"), Some("public, max-age=5"));
    for known in [tag.clone(), format!("\"x\", W/{tag}")] {
        let headers = [("If-None-Match", known.as_str())];
        let again = browse(&server, "GET", "/status/jobs/", &headers).await;
        assert_eq!((again.status, again.text()), (304, ""), "{known}");
    }
    // A ping is seen once the page is rendered again.
    server.clock.advance_secs(3);
    server.ping(&checks[0], "").await;
    assert_eq!(
        browse(&server, "GET", "/status/jobs/", &[]).await.text(),
        first.text()
    );
    server.clock.advance_secs(2);
    let headers = [("If-None-Match", tag.as_str())];
    let later = browse(&server, "GET", "/status/jobs/", &headers).await;
    assert_eq!(later.status, 200);
    let shown = visible_text(later.text());
    assert!(shown.contains("1 of 3 checks is late."), "{shown}");
    assert!(shown.contains("Backup was down for 8 seconds"), "{shown}");
    // New settings are seen at once.
    let edit = page(&server, &list).await;
    let edit = edit
        .split("href=\"")
        .find(|rest| rest.contains("status-pages/") && rest.contains("Edit<"));
    let edit = edit.unwrap().split('"').next().unwrap().to_owned();
    let renamed = [("title", "Renamed"), ("address", "jobs")];
    assert_eq!(post(&server, &edit, &renamed).await.status, 303);
    assert!(
        text(&server, "/status/jobs/")
            .await
            .contains("Renamed Renamed")
    );
    assert_eq!(
        post(&server, &format!("{edit}remove/"), &[]).await.status,
        303
    );
    assert_eq!(
        browse(&server, "GET", "/status/jobs/", &[]).await.status,
        404
    );
    assert_eq!(
        post(&server, &format!("{edit}remove/"), &[]).await.status,
        404
    );
    server.stop().await;
}

#[tokio::test]
async fn an_address_is_random_unless_chosen_and_occurs_once() {
    let (server, _) = server_with_checks().await;
    let list = format!("/projects/{}/status-pages/", project_uuid(&server));
    assert_eq!(
        post(&server, &list, &[("title", "Hidden")]).await.status,
        303
    );
    let html = page(&server, &list).await;
    let address = html
        .split("/status/")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    assert_eq!(address.len(), 22, "{address}");
    assert!(
        text(&server, &format!("/status/{address}/"))
            .await
            .contains("Hidden")
    );
    for (field, value, reason) in [
        ("address", address, "another status page has this address"),
        ("address", "a/b", "an address has 1 to 64 characters"),
        ("title", "", "a title has 1 to 100 characters"),
        ("domain", "localhost", "a domain is a host name"),
    ] {
        let mut form = vec![("title", "Other"), ("address", "other"), ("domain", "")];
        form.retain(|(name, _)| *name != field);
        form.push((field, value));
        let answer = post(&server, &list, &form).await;
        assert_eq!(answer.status, 422, "{field}");
        let shown = visible_text(answer.text());
        assert!(shown.contains(reason), "{field}: {shown}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_first_page_of_a_domain_is_its_status_page() {
    let server = server().await;
    make(&server, "ana", Grant::Owner).await;
    server.create_check(json!({ "name": "Backup" })).await;
    let list = format!("/projects/{}/status-pages/", project_uuid(&server));
    let mut owner = signed_in(&server, "ana").await;
    let form = [
        ("title", "Jobs"),
        ("address", "jobs"),
        ("domain", "Status.example.org"),
    ];
    assert_eq!(owner.send("POST", &list, &form).await.status, 303);
    for (host, path, status) in [
        ("status.example.org", "/", 200),
        ("STATUS.example.org:8443", "/", 200),
        ("status.example.org", "/status/jobs/", 200),
        ("other.example.org", "/", 303),
        ("localhost", "/", 303),
        ("status.example.org", "/users/", 303),
    ] {
        let answer = browse(&server, "GET", path, &[("Host", host)]).await;
        assert_eq!(answer.status, status, "{host}{path}: {answer:?}");
        assert_eq!(
            answer.text().contains("<bdi>Jobs</bdi>"),
            status == 200,
            "{host}{path}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn only_owners_set_domains_and_only_members_see_addresses() {
    let server = server().await;
    let main = server.main.id;
    let grant = |membership| Grant::Projects(ProjectMemberships::new([(main, membership)]));
    make(&server, "member", grant(Membership::Member)).await;
    make(&server, "reader", grant(Membership::ReadOnly)).await;
    let list = format!("/projects/{}/status-pages/", project_uuid(&server));
    let mut member = signed_in(&server, "member").await;
    let form = [
        ("title", "Jobs"),
        ("address", "jobs"),
        ("domain", "status.example.org"),
    ];
    assert_eq!(member.send("POST", &list, &form).await.status, 303);
    let shown = member.get(&list).await.text().to_owned();
    assert!(
        shown.contains("/status/jobs/") && !shown.contains("status.example.org"),
        "{shown}"
    );
    let mut reader = signed_in(&server, "reader").await;
    assert_eq!(reader.get(&list).await.status, 403);
    assert_eq!(reader.send("POST", &list, &form).await.status, 403);
    server.stop().await;
}

//! `unique`: an existing check is updated in place of a creation.

use overdue::domain::check_edit::CheckEdit;
use overdue::domain::text::{Description, Slug, Tags};
use overdue::engine::command::{CheckUuids, Command, CreateCheckRequest};
use serde_json::json;

use super::{refused, text};
use crate::support::server::{TestServer, new_project};

#[tokio::test]
async fn all_listed_fields_have_to_agree() {
    let server = TestServer::start().await;
    let first = server
        .create_check(
            json!({ "name": "a", "slug": "s", "tags": "x y", "timeout": 60, "grace": 61 }),
        )
        .await;
    let second = server
        .create_check(json!({ "name": "a", "slug": "other", "desc": "kept" }))
        .await;
    for (body, found) in [
        (json!({ "name": "a", "unique": ["name"] }), Some(&first)),
        (
            json!({ "name": "a", "unique": ["name", "name"] }),
            Some(&first),
        ),
        (
            json!({ "name": "a", "slug": "other", "unique": ["slug", "name"] }),
            Some(&second),
        ),
        (
            json!({
                "name": "a", "slug": "s", "tags": "x y", "timeout": 60, "grace": 61,
                "unique": ["name", "slug", "tags", "timeout", "grace"],
            }),
            Some(&first),
        ),
        (json!({ "name": "A", "unique": ["name"] }), None),
        (json!({ "tags": "y x", "unique": ["tags"] }), None),
        // Neither an absent field nor a default matches.
        (json!({ "name": "a", "unique": ["name", "slug"] }), None),
        (json!({ "unique": ["grace"] }), None),
        (json!({ "name": "a", "unique": [] }), None),
        (json!({ "name": "a" }), None),
    ] {
        let answer = server.api("POST", "/checks/", &body.to_string()).await;
        let check = answer.json();
        assert_eq!(
            (answer.status, found.map(|check| text(check, "uuid"))),
            if found.is_some() {
                (200, Some(text(&check, "uuid")))
            } else {
                (201, None)
            },
            "{body}"
        );
        if found.is_none() {
            server.api("DELETE", &super::path(&check, ""), "").await;
        }
    }
    assert_eq!(server.now(&second).await["desc"], "kept");
    server.stop().await;
}

#[tokio::test]
async fn unique_matches_no_checks_of_other_projects() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    let body = r#"{"name": "a", "unique": ["name"]}"#;
    for (key, status) in [
        (&other.read_write_key, 201),
        (&server.main.read_write_key, 201),
        (&other.read_write_key, 200),
        (&server.main.read_write_key, 200),
    ] {
        assert_eq!(
            server
                .keyed(key, "POST", "/api/v3/checks/", body)
                .await
                .status,
            status
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn concurrent_requests_create_one_check() {
    let server = std::sync::Arc::new(TestServer::start().await);
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let server = std::sync::Arc::clone(&server);
            tokio::spawn(async move {
                server
                    .api("POST", "/checks/", r#"{"name": "a", "unique": ["name"]}"#)
                    .await
                    .status
            })
        })
        .collect();
    let mut created = 0;
    for request in requests {
        created += usize::from(request.await.unwrap() == 201);
    }
    assert_eq!(
        (
            created,
            server.handle.with_state(|state| state.checks().count())
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn stored_values_over_the_limits_may_be_sent_again() {
    let server = TestServer::start().await;
    let tags = "t ".repeat(300);
    let desc = "d".repeat(20_000);
    let edit = CheckEdit {
        slug: Slug::parse("s").ok(),
        tags: Some(Tags::from_stored(&tags)),
        desc: Some(Description::from_stored(&desc)),
        ..CheckEdit::default()
    };
    let names = CheckUuids {
        uuid: server.handle.random().uuid(),
        badge: server.handle.random().uuid(),
    };
    let create = CreateCheckRequest {
        project: server.main.id,
        edit,
        unique: Vec::new(),
        uuids: names,
    };
    server
        .handle
        .call(Command::CreateCheck(Box::new(create)))
        .await
        .unwrap()
        .unwrap();
    let long = |field: &str| Some(format!("json validation error: {field} is too long"));
    for (body, refusal) in [
        (
            json!({ "slug": "s", "desc": desc, "tags": tags, "name": "a", "unique": ["slug"] }),
            None,
        ),
        (
            json!({ "tags": tags, "desc": desc, "name": "b", "unique": ["tags"] }),
            None,
        ),
        // Other values give other checks, or none; and without `unique`.
        (
            json!({ "slug": "s", "desc": format!("{desc}d"), "unique": ["slug"] }),
            long("desc"),
        ),
        (
            json!({ "slug": "s", "desc": desc, "tags": format!("{tags}t"), "unique": ["slug"] }),
            long("tags"),
        ),
        (
            json!({ "slug": "t", "desc": desc, "unique": ["slug"] }),
            long("desc"),
        ),
        (
            json!({ "tags": format!("{tags}t"), "unique": ["tags"] }),
            long("tags"),
        ),
        (json!({ "slug": "s", "desc": desc }), long("desc")),
        (
            json!({ "slug": "s", "desc": desc, "unique": [] }),
            long("desc"),
        ),
        // The error names the first field in order.
        (
            json!({ "slug": "s", "desc": desc, "timeout": 1, "unique": ["slug"] }),
            long("desc"),
        ),
    ] {
        let answer = server.api("POST", "/checks/", &body.to_string()).await;
        match refusal {
            Some(message) => refused(&answer, 400, &message),
            None => assert_eq!(
                (answer.status, &answer.json()["name"]),
                (200, &body["name"])
            ),
        }
    }
    let checks = server.api("GET", "/checks/", "").await.json();
    let check = &checks["checks"][0];
    assert_eq!(
        (
            checks["checks"].as_array().unwrap().len(),
            text(check, "tags"),
            text(check, "desc")
        ),
        (1, &*tags, &*desc)
    );
    server.stop().await;
}

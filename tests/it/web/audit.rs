//! Pages of the audit logs.

use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use serde_json::json;

use super::browser::{PASSWORD, make, owner, server, signed_in};
use super::{project_uuid, visible_text};

#[tokio::test]
async fn owners_see_who_signed_in_and_members_who_changed_a_check() {
    let server = server().await;
    owner(&server, "ann").await;
    for (name, membership) in [("bob", Membership::Member), ("eve", Membership::ReadOnly)] {
        let memberships = ProjectMemberships::new(vec![(server.main.id, membership)]);
        make(&server, name, Grant::Projects(memberships)).await;
    }
    let check = server.create_check(json!({ "name": "<Backup>" })).await;
    let uuid = check["uuid"].as_str().unwrap();
    let mut ann = signed_in(&server, "ann").await;
    let paused = ann
        .send("POST", &format!("/checks/{uuid}/pause/"), &[("for", "")])
        .await;
    assert_eq!(paused.status, 303, "{paused:?}");
    let of_project = format!("/projects/{}/audit/", project_uuid(&server));
    let mut bob = signed_in(&server, "bob").await;
    let page = bob.get(&of_project).await;
    let text = visible_text(page.text());
    assert!(
        text.contains("user ann paused check &#60;Backup&#62;"),
        "{text}"
    );
    assert!(text.contains("127.0.0.1"), "{text}");
    assert!(text.contains("created check &#60;Backup&#62;"), "{text}");
    assert!(!text.contains("signed in"), "{text}");
    assert_eq!(bob.get("/system/audit/").await.status, 403);
    let mut eve = signed_in(&server, "eve").await;
    assert_eq!(eve.get(&of_project).await.status, 403);
    let text = visible_text(ann.get("/system/audit/").await.text());
    for name in ["ann", "bob", "eve"] {
        assert!(text.contains(&format!("user {name} signed in")), "{text}");
    }
    assert!(!text.contains("Backup"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_sign_in_is_logged_even_if_the_browser_has_a_session() {
    let server = server().await;
    owner(&server, "ann").await;
    owner(&server, "bob").await;
    let mut browser = signed_in(&server, "ann").await;
    assert_eq!(browser.sign_in("bob", PASSWORD).await.status, 303);
    let text = visible_text(browser.get("/system/audit/").await.text());
    for name in ["ann", "bob"] {
        assert!(text.contains(&format!("user {name} signed in")), "{text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn long_logs_have_pages() {
    let server = server().await;
    owner(&server, "ann").await;
    for n in 0..101 {
        server
            .create_check(json!({ "name": format!("check {n}.") }))
            .await;
        server.clock.advance_secs(60);
    }
    let mut ann = signed_in(&server, "ann").await;
    let of_project = format!("/projects/{}/audit/", project_uuid(&server));
    let newest = ann.get(&of_project).await;
    assert!(newest.text().contains("check 100."));
    assert!(!newest.text().contains("check 0."));
    assert!(!newest.text().contains(">Newest<"));
    let older = ann.get(&format!("{of_project}?before=2")).await;
    assert!(newest.text().contains("?before=2\""));
    assert!(older.text().contains("check 0."));
    assert!(!older.text().contains("check 1."));
    assert!(older.text().contains(">Newest<"));
    server.stop().await;
}

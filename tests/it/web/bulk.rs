//! Bulk actions on the list of checks.

use overdue::domain::status::Status;
use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use serde_json::json;

use super::{browse, browser, channel, post, project_uuid, visible_text};
use crate::support::server::{TestResponse, TestServer, new_project};

/// A list of checks.
struct ListFixture {
    server: TestServer,
    project: String,
    ids: Vec<String>,
}

impl ListFixture {
    async fn of(count: usize) -> Self {
        let server = TestServer::start().await;
        for number in 0..count {
            server
                .create_check(json!({
                    "name": format!("job {number}"),
                    "tags": if number % 2 == 0 { "even" } else { "odd" },
                }))
                .await;
        }
        let project = project_uuid(&server);
        let ids = server.handle.with_state(|state| {
            state
                .checks_of(server.main.id)
                .map(|check| check.id.0.to_string())
                .collect()
        });
        Self {
            server,
            project,
            ids,
        }
    }

    /// Presses a button for some of the checks.
    async fn act(
        &self,
        action: &str,
        checks: std::ops::Range<usize>,
        more: &[(&str, &str)],
    ) -> TestResponse {
        let mut fields = vec![("action", action)];
        fields.extend(self.ids[checks].iter().map(|id| ("check", id.as_str())));
        fields.extend(more);
        post(
            &self.server,
            &format!("/projects/{}/checks/bulk/", self.project),
            &fields,
        )
        .await
    }

    /// Returns the message that the list shows afterwards.
    async fn flash_message(&self, answer: &TestResponse) -> String {
        assert_eq!(answer.status, 303, "{answer:?}");
        let list = browse(&self.server, "GET", answer.header("Location").unwrap(), &[]).await;
        visible_text(list.text())
    }

    async fn checks(&self) -> Vec<serde_json::Value> {
        self.server.api("GET", "/checks/", "").await.json()["checks"]
            .as_array()
            .unwrap()
            .clone()
    }
}

#[tokio::test]
async fn one_button_changes_many_checks() {
    let list = ListFixture::of(12).await;
    let count = |checks: &[serde_json::Value], field: &str, value: &str| {
        checks
            .iter()
            .filter(|check| {
                check[field]
                    .as_str()
                    .is_some_and(|own| own.split([' ', ',']).any(|one| one == value))
            })
            .count()
    };
    assert!(
        list.flash_message(&list.act("pause", 0..11, &[]).await)
            .await
            .contains("Paused 11 checks.")
    );
    assert_eq!(count(&list.checks().await, "status", "paused"), 11);
    assert!(
        list.flash_message(&list.act("pause", 8..12, &[]).await)
            .await
            .contains("Paused 1 check, 3 unchanged.")
    );
    assert!(
        list.flash_message(&list.act("resume", 0..12, &[]).await)
            .await
            .contains("Resumed 12 checks.")
    );
    assert!(
        list.flash_message(&list.act("resume", 0..1, &[]).await)
            .await
            .contains("Resumed 0 checks, 1 unchanged.")
    );
    assert!(
        list.flash_message(&list.act("add-tag", 0..3, &[("new_tag", "nas")]).await)
            .await
            .contains("Added the tag to 3 checks.")
    );
    assert_eq!(count(&list.checks().await, "tags", "nas"), 3);
    assert!(
        list.flash_message(&list.act("remove-tag", 0..12, &[("new_tag", "nas")]).await)
            .await
            .contains("Removed the tag from 3 checks, 9 unchanged.")
    );
    assert_eq!(
        (
            count(&list.checks().await, "tags", "nas"),
            count(&list.checks().await, "tags", "even")
        ),
        (0, 6)
    );
    let channel = channel(&list.server).await;
    assert!(
        list.flash_message(&list.act("assign", 0..5, &[("channel", &channel)]).await)
            .await
            .contains("Assigned 5 checks to the channel.")
    );
    assert_eq!(count(&list.checks().await, "channels", &channel), 5);
    // All checks that match are changed, and the filter stays.
    let filtered = list
        .act("pause", 0..0, &[("all", "1"), ("tag", "odd")])
        .await;
    assert!(
        filtered
            .header("Location")
            .unwrap()
            .contains("?tag=odd&m=pause&changed=6"),
        "{filtered:?}"
    );
    list.server.stop().await;
}

#[tokio::test]
async fn an_incomplete_form_keeps_the_selection_and_the_input() {
    let list = ListFixture::of(6).await;
    let channel = channel(&list.server).await;
    let cases = [
        ("fly", &[][..], "Press one of the buttons"),
        (
            "add-tag",
            &[("new_tag", "two words"), ("channel", &channel)],
            "Enter one tag",
        ),
        ("assign", &[("channel", "none")], "Choose a channel"),
    ];
    for (action, more, expected) in cases {
        let answer = list
            .act(action, 1..3, &[more, &[("tag", "odd")]].concat())
            .await;
        assert_eq!(answer.status, 422, "{action}: {answer:?}");
        let page = answer.text();
        assert!(visible_text(page).contains(expected), "{action}: {page}");
        let ticked = |nth: usize| {
            page.contains(&format!(r#"value="{}" form="bulk" checked"#, list.ids[nth]))
        };
        assert_eq!(
            (ticked(1), ticked(3), page.contains("job 2")),
            (true, false, false),
            "{action}: {page}"
        );
        let address = page
            .split("data-at=\"")
            .nth(1)
            .and_then(|after| after.split('"').next());
        assert!(
            address
                .is_some_and(|address| address
                    .ends_with(&format!("/projects/{}/checks/?tag=odd", list.project))),
            "{address:?}"
        );
    }
    let typed = list.act("add-tag", 1..3, cases[1].1).await;
    assert!(
        typed.text().contains(r#"name="new_tag" value="two words""#),
        "{typed:?}"
    );
    assert!(
        typed
            .text()
            .contains(&format!(r#"<option value="{channel}" selected>"#)),
        "{typed:?}"
    );
    let none = list.act("pause", 0..0, &[]).await;
    assert_eq!(
        (
            none.status,
            visible_text(none.text()).contains("Select checks first")
        ),
        (422, true),
        "{none:?}"
    );
    let usual = browse(
        &list.server,
        "GET",
        &format!("/projects/{}/checks/", list.project),
        &[],
    )
    .await;
    assert!(
        !usual.text().contains("data-at") && !usual.text().contains(r#"form="bulk" checked"#),
        "{usual:?}"
    );
    list.server.stop().await;
}

#[tokio::test]
async fn bulk_deletion_requires_entering_the_number_of_checks() {
    let list = ListFixture::of(4).await;
    let confirmation = list.act("delete", 0..3, &[]).await;
    assert_eq!(confirmation.status, 200, "{confirmation:?}");
    assert!(
        visible_text(confirmation.text()).contains("Delete 3 checks?")
            && confirmation.text().contains("<bdi>job 2</bdi>"),
        "{}",
        confirmation.text()
    );
    assert_eq!(
        list.act("delete", 0..3, &[("confirm", "delete 4")])
            .await
            .status,
        422
    );
    assert_eq!(list.checks().await.len(), 4);
    let done = list.act("delete", 0..3, &[("confirm", "delete 3")]).await;
    assert!(
        list.flash_message(&done)
            .await
            .contains("Deleted 3 checks.")
    );
    assert_eq!(list.checks().await.len(), 1);
    assert!(
        list.flash_message(&list.act("pause", 0..4, &[]).await)
            .await
            .contains("Paused 1 check, 3 already deleted.")
    );
    list.server.stop().await;
}

#[tokio::test]
async fn an_action_on_more_than_a_page_of_checks_requires_confirmation() {
    let list = ListFixture::of(105).await;
    let all = [("all", "1"), ("new_tag", "nas"), ("rows", "100")];
    let paused = || async {
        let checks = list.checks().await;
        let is_paused = |check: &&serde_json::Value| check["status"] == "paused";
        checks.iter().filter(is_paused).count()
    };
    let confirmation = list.act("pause", 0..0, &all).await;
    assert_eq!(confirmation.status, 200, "{confirmation:?}");
    let page = confirmation.text();
    assert!(
        visible_text(page).contains("Pause 105 checks?") && visible_text(page).contains("55 more"),
        "{page}"
    );
    assert_eq!(paused().await, 0);
    // The number of checks has changed since.
    let outdated = [&all[..], &[("confirm", "pause 104")]].concat();
    assert_eq!(list.act("pause", 0..0, &outdated).await.status, 200);
    assert_eq!(paused().await, 0);
    // The form of the page.
    let inputs: Vec<_> = page
        .split("<input type=\"hidden\" name=\"")
        .skip(1)
        .filter_map(|rest| {
            let (name, rest) = rest.split_once("\" value=\"")?;
            Some((name, rest.split_once('"')?.0))
        })
        .collect();
    let path = format!("/projects/{}/checks/bulk/", list.project);
    let done = post(&list.server, &path, &inputs).await;
    assert!(
        list.flash_message(&done)
            .await
            .contains("Paused 105 checks.")
    );
    assert_eq!(paused().await, 105);
    let filtered = [("all", "1"), ("tag", "odd"), ("rows", "100")];
    assert_eq!(list.act("resume", 0..0, &filtered).await.status, 303);
    list.server.stop().await;
}

#[tokio::test]
async fn checks_of_another_project_are_left_alone() {
    let list = ListFixture::of(1).await;
    let other = crate::support::server::new_project(&list.server.handle, "other").await;
    let made = list
        .server
        .send(
            "POST",
            "/api/v3/checks/",
            &[("X-Api-Key", &other.read_write_key)],
            b"{}",
        )
        .await;
    assert_eq!(made.status, 201);
    let foreign = list.server.handle.with_state(|state| {
        state
            .checks_of(other.id)
            .map(|check| check.id.0.to_string())
            .next()
            .unwrap()
    });
    let answer = list.act("pause", 0..0, &[("check", &foreign)]).await;
    assert!(
        list.flash_message(&answer)
            .await
            .contains("Paused 0 checks, 1 already deleted.")
    );
    let after = list
        .server
        .send(
            "GET",
            "/api/v3/checks/",
            &[("X-Api-Key", &other.read_write_key)],
            b"",
        )
        .await
        .json();
    assert_eq!(after["checks"][0]["status"], "new");
    list.server.stop().await;
}

#[tokio::test]
async fn the_list_of_all_projects_changes_checks_that_the_user_may_change() {
    let server = browser::server().await;
    let mine = new_project(&server.handle, "mine").await;
    let foreign = new_project(&server.handle, "foreign").await;
    let mut ids = Vec::new();
    for project in [&server.main, &mine, &foreign] {
        for name in ["a", "b"] {
            let body = json!({ "name": format!("{name} {}", project.id.0) }).to_string();
            let key = [("X-Api-Key", project.read_write_key.as_str())];
            let made = server.send("POST", "/api/v3/checks/", &key, body.as_bytes());
            assert_eq!(made.await.status, 201);
        }
        ids.extend(server.handle.with_state(|state| {
            let checks = state.checks_of(project.id);
            checks.map(|check| check.id).collect::<Vec<_>>()
        }));
    }
    let memberships = ProjectMemberships::new(vec![
        (server.main.id, Membership::Member),
        (mine.id, Membership::Member),
        (foreign.id, Membership::ReadOnly),
    ]);
    browser::make(&server, "bob", Grant::Projects(memberships)).await;
    let mut bob = browser::signed_in(&server, "bob").await;
    let page = bob.get("/checks/").await;
    let boxes = page.text().matches("name=\"check\"").count();
    assert_eq!((boxes, page.text().matches("data-id=").count()), (4, 6));
    assert!(!page.text().contains("value=\"assign\""));
    let statuses = || {
        server.handle.with_state(|state| {
            let checks = ids.iter().map(|id| state.check(*id).unwrap());
            checks
                .map(|check| check.state.status == Status::Paused)
                .collect::<Vec<_>>()
        })
    };
    // All that match, in the projects that the user may change.
    let form = [("action", "pause"), ("all", "1"), ("q", "a ")];
    let done = bob.send("POST", "/checks/bulk/", &form).await;
    let location = done.header("Location").unwrap().to_owned();
    assert!(location.starts_with("/checks/?"), "{location}");
    assert_eq!(statuses(), [true, false, true, false, false, false]);
    let shown = bob.get(&location).await;
    assert!(visible_text(shown.text()).contains("Paused 2 checks."));
    let undo = shown.text().split("action=\"").find_map(|part| {
        let target = part.split('"').next()?;
        target
            .starts_with("/checks/undo/")
            .then(|| target.to_owned())
    });
    let undone = bob.send("POST", &undo.unwrap(), &[]).await;
    assert_eq!(undone.status, 303, "{undone:?}");
    assert_eq!(statuses(), [false; 6]);
    // A check in a project that the user may only read is left alone.
    let foreign = ids[4].0.to_string();
    let form = [("action", "pause"), ("check", foreign.as_str())];
    bob.send("POST", "/checks/bulk/", &form).await;
    assert_eq!(statuses(), [false; 6]);
    let only_reads = ProjectMemberships::new(vec![(server.main.id, Membership::ReadOnly)]);
    browser::make(&server, "eve", Grant::Projects(only_reads)).await;
    let mut eve = browser::signed_in(&server, "eve").await;
    assert!(!eve.get("/checks/").await.text().contains("id=\"bulk\""));
    let form = [("action", "delete"), ("all", "1")];
    assert_eq!(eve.send("POST", "/checks/bulk/", &form).await.status, 403);
    server.stop().await;
}

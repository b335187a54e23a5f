//! Input is preserved: the list that a page was opened from, a form of an expired session, fields
//! beside an invalid one.

use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use overdue::operations::user;
use serde_json::json;

use super::browser::{self, Browser, PASSWORD, make, owner, signed_in};
use super::{browse, post, project_uuid, visible_text};
use crate::support::server::TestServer;

#[tokio::test]
async fn every_action_on_a_check_returns_to_the_same_list() {
    let server = TestServer::start().await;
    let uuid = server
        .create_check(json!({ "name": "one", "tags": "nas" }))
        .await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let list = format!("/projects/{}/checks/", project_uuid(&server));
    let filtered = browse(&server, "GET", &format!("{list}?tag=nas&sort=-name"), &[]).await;
    let check =
        format!("/checks/{uuid}/details/?back=tag%3Dnas%26sort%3D%2Dname").replace("%2D", "-");
    assert!(
        filtered.text().contains(&format!("<a href=\"{check}\"")),
        "{filtered:?}"
    );
    let plain = browse(&server, "GET", &list, &[]).await;
    assert!(
        plain
            .text()
            .contains(&format!("<a href=\"/checks/{uuid}/details/\"")),
        "an unfiltered list adds no parameter"
    );

    let page = browse(&server, "GET", &check, &[]).await;
    let back = format!("href=\"{list}?tag=nas&#38;sort=-name\"");
    assert!(page.text().contains(&back), "{page:?}");
    let query = check.split_once('?').unwrap().1;
    let form = |action: &str| format!("/checks/{uuid}/{action}/?{query}");
    for (action, notice) in [("pause", "paused"), ("resume", "resumed")] {
        assert!(page.text().contains(&format!("\"{}\"", form("pause"))));
        let done = post(&server, &form(action), &[]).await;
        let target = done.header("Location").unwrap();
        assert!(
            target.starts_with(&format!("{check}&m={notice}&undo=")),
            "{target}"
        );
    }
    for page in ["edit", "remove", "log"] {
        let shown = browse(&server, "GET", &form(page), &[]).await;
        assert!(
            shown.status == 200 && shown.text().contains(&back),
            "{page}: {shown:?}"
        );
    }
    // An invalid list query leads to the plain list.
    let strange = browse(
        &server,
        "GET",
        &format!("/checks/{uuid}/details/?back=https%3A%2F%2Fevil.example%2F"),
        &[],
    )
    .await;
    assert!(
        strange.text().contains(&format!("href=\"{list}\"")) && !strange.text().contains("evil"),
        "{strange:?}"
    );
    let removed = post(&server, &form("remove"), &[]).await;
    assert_eq!(
        removed.header("Location"),
        Some(format!("{list}?tag=nas&sort=-name&m=deleted").as_str())
    );
    server.stop().await;
}

#[tokio::test]
async fn a_shortened_list_shows_its_last_page() {
    let server = TestServer::start().await;
    for number in 0..3 {
        server
            .create_check(json!({ "name": format!("job {number}") }))
            .await;
    }
    let last = browse(
        &server,
        "GET",
        &format!("/projects/{}/checks/?page=7", project_uuid(&server)),
        &[],
    )
    .await;
    assert!(visible_text(last.text()).contains("1–3 of 3"), "{last:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_form_of_an_expired_session_is_kept_until_the_user_signs_in_again() {
    let server = browser::server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    browser.cookie = None;
    let add = format!("/projects/{}/checks/add/", project_uuid(&server));
    let fields = [
        ("name", "<b>one</b>"),
        ("desc", "first\r\nsecond"),
        ("password", PASSWORD),
        ("new", PASSWORD),
    ];
    let answer = browser.send("POST", &add, &fields).await;
    assert!(
        answer.status == 401
            && answer
                .header("Cache-Control")
                .unwrap()
                .starts_with("no-store"),
        "{answer:?}"
    );
    for part in [
        r#"name="name" value="&#60;b&#62;one&#60;/b&#62;""#,
        "name=\"desc\" value=\"first\r\nsecond\"",
        &format!("action=\"{add}\""),
        "href=\"/login/\" target=\"_blank\"",
    ] {
        assert!(answer.text().contains(part), "{part}: {}", answer.text());
    }
    assert!(!answer.text().contains(PASSWORD));
    assert_eq!(server.handle.with_state(|state| state.check_count()), 0);
    // A form from another origin is refused before any of it is read.
    let elsewhere = browse(&server, "POST", &add, &[("Sec-Fetch-Site", "cross-site")]).await;
    assert_eq!(elsewhere.status, 403);
    assert_eq!(
        browser
            .send("POST", "/logout/", &[])
            .await
            .header("Location"),
        Some("/login/")
    );
    server.stop().await;
}

#[tokio::test]
async fn an_error_is_shown_beside_a_taken_name_and_the_other_input_is_kept() {
    let server = browser::server().await;
    owner(&server, "ann").await;
    make(
        &server,
        "bob",
        Grant::Projects(ProjectMemberships::default()),
    )
    .await;
    let mut ann = signed_in(&server, "ann").await;
    let taken = "a user of that name already exists";
    let account = [
        ("zone", "Europe/Ryga"),
        ("theme", "dark"),
        ("rows", "1000"),
        ("sort", "name"),
    ];
    let refused = ann.send("POST", "/account/", &account).await;
    assert_eq!(refused.status, 422);
    for part in [
        "aria-describedby=\"zone-wrong\"",
        "value=\"Europe/Ryga\"",
        "<option selected>1000",
        "value=\"dark\" selected",
    ] {
        assert!(refused.text().contains(part), "{part}: {}", refused.text());
    }
    assert!(!refused.text().contains("name=\"shortcuts\" checked"));
    // A user, with permissions.
    let bob = user::find(&server.handle, "bob").unwrap();
    let project = project_uuid(&server);
    let path = format!("/users/{}/", bob.uuid);
    let fields = [
        ("do", "save"),
        ("name", "ANN"),
        ("role", "projects"),
        (project.as_str(), "member"),
    ];
    let refused = ann.send("POST", &path, &fields).await;
    assert!(
        refused.status == 422
            && refused.text().contains(taken)
            && refused.text().contains("value=\"ANN\""),
        "{refused:?}"
    );
    assert!(
        refused.text().contains("value=\"member\" selected"),
        "{}",
        refused.text()
    );
    assert_eq!(
        user::find(&server.handle, "bob")
            .unwrap()
            .grant
            .membership_in(server.main.id),
        None::<Membership>
    );
    // A channel, with its checks.
    let add = format!("/projects/{project}/integrations/add/ntfy/");
    let refused = ann
        .send(
            "POST",
            &add,
            &[
                ("name", "phone"),
                ("topic", "alerts"),
                ("url", "nowhere"),
                ("checks", "none"),
            ],
        )
        .await;
    assert_eq!(refused.status, 422);
    for part in [
        "href=\"#f-",
        "aria-invalid=\"true\"",
        "value=\"phone\"",
        "value=\"nowhere\"",
        "value=\"none\" checked",
    ] {
        assert!(refused.text().contains(part), "{part}: {}", refused.text());
    }
    // A label that is too long is kept in its form.
    let keys = format!("/projects/{project}/settings/keys/");
    let long = "x".repeat(101);
    let refused = ann
        .send("POST", &keys, &[("access", "ping"), ("label", &long)])
        .await;
    assert!(
        refused.status == 422
            && refused.text().contains("id=\"ping-label-wrong\"")
            && !refused.text().contains("id=\"label-wrong\"")
    );
    let key = server
        .handle
        .with_state(|state| state.keys().next().unwrap().id.0);
    let refused = ann
        .send("POST", &format!("{keys}{key}/"), &[("label", &long)])
        .await;
    assert!(
        refused.status == 422 && refused.text().contains("id=\"label-wrong\""),
        "{refused:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn users_who_may_change_a_project_export_it_without_secrets() {
    let server = browser::server().await;
    let of_project =
        |membership| Grant::Projects(ProjectMemberships::new([(server.main.id, membership)]));
    make(&server, "bob", of_project(Membership::Member)).await;
    make(&server, "carol", of_project(Membership::ReadOnly)).await;
    super::channel(&server).await;
    server
        .create_check(json!({ "name": "Nightly backup", "slug": "nightly" }))
        .await;
    let path = format!("/projects/{}/export.toml", project_uuid(&server));
    let mut bob = signed_in(&server, "bob").await;
    let settings = bob.get(&path.replace("export.toml", "settings/")).await;
    assert!(
        settings.text().contains(&format!("href=\"{path}\"")),
        "{settings:?}"
    );
    let file = bob.get(&path).await;
    let objects = overdue::config::export_config(&server.handle, Some(server.main.id), false);
    assert_eq!(
        (file.status, file.text()),
        (
            200,
            overdue::config::to_toml(&objects, overdue::config::HEADER_COMMENTS).as_str()
        )
    );
    assert!(
        file.text().contains("Nightly backup") && !file.text().contains("abc-hidden"),
        "{file:?}"
    );
    assert_eq!(
        file.header("Content-Disposition"),
        Some(r#"attachment; filename="overdue-main.toml""#)
    );
    let mut carol = signed_in(&server, "carol").await;
    let settings = carol.get(&path.replace("export.toml", "settings/")).await;
    assert!(settings.status == 200 && !settings.text().contains("export.toml"));
    assert_eq!(
        (
            carol.get(&path).await.status,
            Browser::new(&server).get(&path).await.status
        ),
        (403, 303)
    );
    server.stop().await;
}

//! The search over everything, and the list of the checks of all projects.

use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use serde_json::json;

use super::browser::{make, owner, server, signed_in};
use super::{browse, visible_text};
use crate::support::server::{TestServer, new_project};

/// Server with a check in each of two projects.
async fn server_with_projects(server: TestServer) -> TestServer {
    server
        .create_check(json!({ "name": "Backup of photos", "tags": "nas weekly" }))
        .await;
    server
        .create_check(json!({ "name": "Old backup", "tags": "nas" }))
        .await;
    let other = new_project(&server.handle, "other <b>").await;
    let answer = server
        .send(
            "POST",
            "/api/v3/checks/",
            &[("X-Api-Key", other.read_write_key.as_str())],
            br#"{"name": "Secret backup", "tags": "vault"}"#,
        )
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    server
}

#[tokio::test]
async fn a_search_finds_checks_projects_pages_and_actions() {
    let server = server_with_projects(TestServer::start().await).await;
    let found = async |search: &str| {
        let path = format!(
            "/search/?q={search}&project={}",
            super::project_uuid(&server)
        );
        let page = browse(&server, "GET", &path, &[("X-Fragment", "results")]).await;
        assert!(page.text().starts_with("<ul id=\"found\""), "{page:?}");
        visible_text(page.text())
    };
    // The best match is first.
    let backups = found("backup").await;
    let places: Vec<_> = [
        "Backup of photos main",
        "Old backup main",
        "Secret backup other",
    ]
    .iter()
    .map(|title| backups.find(title).expect(title))
    .collect();
    assert!(places.is_sorted(), "{backups}");
    assert!(backups.contains("Backups Page"), "{backups}");
    assert!(found("photos%20WEEKLY").await.contains("Backup of photos"));
    assert!(!found("photos%20vault").await.contains("Backup of photos"));
    let other = found("other").await;
    assert!(
        other.contains("other &#60;b&#62;") && other.contains("Project"),
        "{other}"
    );
    assert!(found("add").await.contains("Add check main Action"));
    assert!(found("zzz").await.contains("Nothing matches"));
    let page = browse(&server, "GET", "/search/?q=%3Cscript%3E", &[]).await;
    assert!(
        page.status == 200 && !page.text().contains("<script>"),
        "{page:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn the_list_of_all_projects_is_filtered_grouped_and_leads_to_each() {
    let server = server_with_projects(TestServer::start().await).await;
    let list = async |query: &str| {
        let page = browse(&server, "GET", &format!("/checks/{query}"), &[]).await;
        assert_eq!(page.status, 200, "{page:?}");
        page.text().to_owned()
    };
    let all = list("").await;
    for name in ["Backup of photos", "Old backup", "Secret backup"] {
        assert!(all.contains(&format!("<bdi>{name}</bdi>")), "{name}");
    }
    assert!(all.contains("<bdi>other &#60;b&#62;</bdi>"));
    assert!(all.contains("action=\"/checks/bulk/\""), "{all}");
    let window = server.extension_api("POST", "/windows", r#"{"minutes": 10}"#);
    assert_eq!(window.await.status, 201);
    let muted = visible_text(&list("").await);
    assert!(muted.contains("no check of main sends alerts."), "{muted}");
    let tagged = list("?tag=vault").await;
    assert!(tagged.contains("Secret backup") && !tagged.contains("Old backup"));
    let headings = |page: &str| {
        page.split("class=\"row group\"")
            .skip(1)
            .filter_map(|part| {
                Some(
                    part.split_once("<bdi>")?
                        .1
                        .split_once("</bdi>")?
                        .0
                        .to_owned(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        headings(&list("?group=project").await),
        ["main", "other &#60;b&#62;"]
    );
    assert_eq!(headings(&list("?group=tag").await), ["nas", "vault"]);
    assert_eq!(headings(&all), [""; 0]);
    server.stop().await;
}

#[tokio::test]
async fn users_find_only_what_they_may_see() {
    let server = server_with_projects(server().await).await;
    let memberships = ProjectMemberships::new([(server.main.id, Membership::ReadOnly)]);
    make(&server, "eve", Grant::Projects(memberships)).await;
    let mut eve = signed_in(&server, "eve").await;
    for path in [
        "/search/?q=backup",
        "/search/?q=other",
        "/checks/",
        "/checks/?group=project",
    ] {
        let page = eve.get(path).await;
        assert_eq!(page.status, 200, "{page:?}");
        let text = page.text();
        assert!(
            !text.contains("Secret") && !text.contains("other &#60;b"),
            "{path}: {text}"
        );
    }
    let users = eve.get("/search/?q=users").await;
    assert!(!users.text().contains("/users/"), "{users:?}");
    for path in ["/search/?q=backup", "/checks/"] {
        let page = browse(&server, "GET", path, &[]).await;
        assert_eq!(page.status, 303, "signed out: {page:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn pinned_checks_come_first_and_filters_are_saved() {
    let server = server_with_projects(server().await).await;
    owner(&server, "ann").await;
    let mut ann = signed_in(&server, "ann").await;
    let uuid = server.api("GET", "/checks/?tag=weekly", "").await.json()["checks"][0]["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let names = |page: &str| {
        page.split("class=\"title\">")
            .skip(1)
            .filter_map(|part| {
                Some(
                    part.split_once("<bdi>")?
                        .1
                        .split_once("</bdi>")?
                        .0
                        .to_owned(),
                )
            })
            .collect::<Vec<_>>()
    };
    let last = "/checks/?sort=-name";
    let before = ann.get(last).await;
    assert_eq!(
        names(before.text()),
        ["Secret backup", "Old backup", "Backup of photos"]
    );
    let fields = [("uuid", uuid.as_str()), ("pinned", "1")];
    let pinned = ann.send("POST", "/account/pins/", &fields).await;
    assert_eq!(
        pinned.header("Location"),
        Some(format!("/checks/{uuid}/details/").as_str())
    );
    let after = ann.get(last).await;
    assert_eq!(
        names(after.text()),
        ["Backup of photos", "Secret backup", "Old backup"]
    );
    assert!(after.text().contains("title=\"Pinned\""));
    let check = ann.get(&format!("/checks/{uuid}/details/")).await;
    assert!(check.text().contains("aria-label=\"Unpin\""));
    ann.send("POST", "/account/pins/", &fields[..1]).await;
    assert_eq!(names(ann.get(last).await.text()), names(before.text()));

    let save = [
        ("list", "/checks/"),
        ("query", "?tag=nas&sort=-name"),
        ("name", "<NAS>"),
    ];
    let saved = ann.send("POST", "/account/filters/", &save).await;
    assert_eq!(
        saved.header("Location"),
        Some("/checks/?tag=nas&sort=-name")
    );
    let list = ann.get("/checks/").await;
    assert!(
        list.text()
            .contains("href=\"/checks/?tag=nas&#38;sort=-name\"><bdi>&#60;NAS&#62;</bdi>"),
        "{list:?}"
    );
    for (fields, reason) in [
        (
            [("list", "/checks/"), ("query", ""), ("name", "all")],
            "no filter",
        ),
        (
            [
                ("list", "//evil.example/"),
                ("query", "?q=a"),
                ("name", "a"),
            ],
            "not the URL of a list",
        ),
    ] {
        let refused = ann.send("POST", "/account/filters/", &fields).await;
        assert!(
            refused.status == 400 && refused.text().contains(reason),
            "{refused:?}"
        );
    }
    ann.send(
        "POST",
        "/account/filters/",
        &[("list", "/checks/"), ("delete", "<NAS>")],
    )
    .await;
    assert!(!ann.get("/checks/").await.text().contains("&#60;NAS&#62;"));
    // A user pins only what the user may see.
    make(
        &server,
        "eve",
        Grant::Projects(ProjectMemberships::default()),
    )
    .await;
    let mut eve = signed_in(&server, "eve").await;
    assert_eq!(
        eve.send("POST", "/account/pins/", &fields).await.status,
        404
    );
    server.stop().await;
}

#[tokio::test]
async fn the_theme_is_switched_from_every_page() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut ann = signed_in(&server, "ann").await;
    for (next, target) in [
        ("/users/", "/users/"),
        ("//evil.example/", "/account/?m=saved"),
    ] {
        let fields = [("theme", "dark"), ("next", next)];
        let switched = ann.send("POST", "/account/list/", &fields).await;
        assert_eq!(switched.header("Location"), Some(target), "{switched:?}");
    }
    let users = ann.get("/users/").await;
    assert!(users.text().contains("data-theme=\"dark\""), "{users:?}");
    assert!(
        users
            .text()
            .contains("value=\"dark\" aria-pressed=\"true\"")
    );
    server.stop().await;
}

//! Keys, users and accounts: what their pages show once, change and refuse.

use overdue::domain::project::KeyAccess;
use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use overdue::operations::user;

use super::browser::{Browser, PASSWORD, make, owner, server, signed_in};
use super::visible_text;
use crate::support::server::TestServer;

fn settings(server: &TestServer) -> String {
    format!(
        "/projects/{}/settings/",
        server
            .handle
            .with_state(|state| state.project(server.main.id).unwrap().project.uuid)
    )
}

/// Returns the value of the field with this name.
fn field(text: &str, name: &str) -> String {
    let at = text
        .find(&format!("aria-label=\"{name}\""))
        .unwrap_or_else(|| panic!("no {name:?} in {text}"));
    text[..at]
        .rsplit("value=\"")
        .next()
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .replace("&#x2f;", "/")
}

#[tokio::test]
async fn a_key_is_shown_once_works_and_is_revoked() {
    let server = server().await;
    owner(&server, "ann").await;
    let settings = settings(&server);
    let mut browser = signed_in(&server, "ann").await;
    let answer = browser
        .send(
            "POST",
            &format!("{settings}keys/"),
            &[("access", "read-only"), ("label", "<b>hi</b>")],
        )
        .await;
    assert_eq!(
        (answer.status, answer.header("Location")),
        (303, Some(settings.as_str()))
    );
    // Another browser does not see it.
    let mut other = signed_in(&server, "ann").await;
    assert!(!other.get(&settings).await.text().contains("shown only now"));
    let page = browser.get(&settings).await;
    let key = field(page.text(), "New key");
    assert_eq!(key.len(), 32);
    assert!(
        page.header("Cache-Control")
            .unwrap()
            .starts_with("no-store")
    );
    assert!(page.text().contains("&#60;b&#62;hi") && !page.text().contains("<b>hi"));
    let again = browser.get(&settings).await;
    assert!(!again.text().contains(&key) && again.text().contains(&key[..4]));
    let api = async || {
        server
            .send("GET", "/api/v3/checks/", &[("X-Api-Key", &key)], b"")
            .await
            .status
    };
    assert_eq!(api().await, 200);
    // Keys open no page, and cookies nothing of the API.
    let cookie = browser.cookie.clone().unwrap();
    assert_eq!(
        server
            .send("GET", "/api/v3/checks/", &[("Cookie", &cookie)], b"")
            .await
            .status,
        401
    );
    assert_eq!(
        server
            .send(
                "GET",
                &settings,
                &[("X-Api-Key", &key), ("Accept", "text/html")],
                b""
            )
            .await
            .status,
        303
    );

    let id = server
        .handle
        .with_state(|state| state.keys().last().unwrap().id.0);
    let ask = format!("{settings}keys/{id}/");
    assert!(
        browser
            .get(&ask)
            .await
            .text()
            .contains("stop working at once")
    );
    assert_eq!(api().await, 200, "asking changes nothing");
    let revoked = browser.send("POST", &ask, &[]).await;
    assert_eq!(
        revoked.header("Location"),
        Some(format!("{settings}?m=key-revoked").as_str())
    );
    assert_eq!((api().await, browser.get(&ask).await.status), (401, 404));

    let keys = || {
        server.handle.with_state(|state| {
            state
                .keys()
                .filter(|key| key.secret.access() == KeyAccess::Ping)
                .count()
        })
    };
    let before = keys();
    browser
        .send("POST", &format!("{settings}keys/"), &[("access", "ping")])
        .await;
    assert_eq!(keys(), before + 1);
    for (fields, status) in [
        (&[("access", "all")][..], 404),
        (&[("access", "read-only"), ("label", "a\nb")], 422),
    ] {
        assert_eq!(
            browser
                .send("POST", &format!("{settings}keys/"), fields)
                .await
                .status,
            status,
            "{fields:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_project_is_renamed_limited_and_deleted_with_its_name_and_a_password() {
    let server = server().await;
    owner(&server, "ann").await;
    let settings = settings(&server);
    let mut browser = signed_in(&server, "ann").await;
    let post = async |browser: &mut Browser<'_>, at: &str, fields: &[(&str, &str)]| {
        browser
            .send("POST", &format!("{settings}{at}"), fields)
            .await
    };
    assert_eq!(
        post(&mut browser, "name/", &[("name", "")]).await.status,
        422
    );
    assert_eq!(
        post(&mut browser, "name/", &[("name", "Haus")])
            .await
            .status,
        303
    );
    // The error is about the field that is wrong.
    for (pings, checks, status, part) in [
        ("many", "", 422, "enter the number of pings"),
        ("", "", 422, "enter the number of pings"),
        ("5", "-1", 422, "enter a number of checks"),
        ("5", "7", 303, ""),
        ("6", "", 303, ""),
    ] {
        let fields = [
            ("pings", pings),
            ("checks", checks),
            ("ping-settings", "on"),
        ];
        let reply = post(&mut browser, "limits/", &fields).await;
        assert!(
            reply.status == status && reply.text().contains(part),
            "{pings} {checks}: {reply:?}"
        );
        // A refused form keeps its box.
        let is_ticked = reply.text().contains("name=\"ping-settings\" checked");
        assert_eq!(is_ticked, status == 422, "{reply:?}");
    }
    let project = || {
        server.handle.with_state(|state| {
            state
                .project(server.main.id)
                .map(|found| found.project.clone())
        })
    };
    let found = project().unwrap();
    assert_eq!(
        (
            found.name.as_str(),
            found.ping_log_limit,
            found.check_limit,
            found.allows_ping_settings
        ),
        ("Haus", 6, None, true)
    );
    // The password was entered a while ago.
    server.clock.advance_secs(901);
    let remove = settings.replace("settings", "remove");
    for (name, password, part) in [
        ("haus", PASSWORD, "enter the exact name"),
        ("Haus", "", "enter your password"),
        ("Haus", "wrong one!", "enter your password"),
    ] {
        let refused = browser
            .send("POST", &remove, &[("name", name), ("password", password)])
            .await;
        assert!(
            refused.status == 422 && refused.text().contains(part),
            "{name} {password}"
        );
    }
    assert!(project().is_some());
    let removed = browser
        .send("POST", &remove, &[("name", "Haus"), ("password", PASSWORD)])
        .await;
    assert_eq!(
        (removed.header("Location"), project()),
        (Some("/?m=project-deleted"), None)
    );
    let answer = browser
        .send("POST", "/projects/add/", &[("name", "Neu")])
        .await;
    assert!(
        answer.header("Location").unwrap().ends_with("/checks/"),
        "{answer:?}"
    );
    assert_eq!(
        browser
            .send("POST", "/projects/add/", &[("name", "Neu")])
            .await
            .status,
        422
    );
    server.stop().await;
}

#[tokio::test]
async fn owners_invite_users_and_set_their_permissions() {
    let server = server().await;
    let ann = owner(&server, "ann").await;
    let uuid = server.handle.with_state(|state| {
        state
            .project(server.main.id)
            .unwrap()
            .project
            .uuid
            .to_string()
    });
    let mut browser = signed_in(&server, "ann").await;
    for (name, status) in [("", 422), ("ANN", 422), ("bob", 303)] {
        let invited = browser
            .send(
                "POST",
                "/users/",
                &[("name", name), ("role", "projects"), (&uuid, "read-only")],
            )
            .await;
        assert_eq!(invited.status, status, "{name}");
    }
    let page = browser.get("/users/").await;
    let link = field(page.text(), "Invite link");
    assert!(
        !browser
            .get("/users/")
            .await
            .text()
            .contains("Invite link, shown")
    );
    let path = link.strip_prefix(server.base.as_str()).unwrap();
    let mut invited = Browser::new(&server);
    assert!(
        invited
            .get(path)
            .await
            .text()
            .contains("You were invited as")
    );
    assert_eq!(
        invited
            .send("POST", path, &[("password", "another horse")])
            .await
            .status,
        303
    );
    let text = |answer: crate::support::server::TestResponse| answer.text().to_owned();
    let seen = text(invited.get(&settings(&server)).await);
    assert!(
        !seen.contains(r#"<form method="post" action="/projects"#)
            && seen.contains("bob")
            && seen.contains("read-only"),
        "{seen}"
    );

    let bob = user::find(&server.handle, "bob").unwrap();
    let bob_path = format!("/users/{}/", bob.uuid);
    assert_eq!(browser.get(&bob_path).await.status, 200);
    browser
        .send(
            "POST",
            &bob_path,
            &[
                ("do", "save"),
                ("name", "Rob"),
                ("role", "projects"),
                (&uuid, "member"),
            ],
        )
        .await;
    let rob = user::find(&server.handle, "rob").unwrap();
    assert_eq!(
        rob.grant,
        Grant::Projects(ProjectMemberships::new([(
            server.main.id,
            Membership::Member
        )]))
    );
    assert!(
        text(invited.get(&settings(&server)).await).contains("Create key"),
        "a new permission counts at once"
    );
    browser.send("POST", &bob_path, &[("do", "sign-out")]).await;
    assert_eq!(invited.get(&settings(&server)).await.status, 303);
    browser.send("POST", &bob_path, &[("do", "link")]).await;
    assert!(field(browser.get(&bob_path).await.text(), "Link").contains("/reset/"));
    // The last owner remains an owner.
    let ann = format!("/users/{}/", ann.uuid);
    for fields in [
        &[("do", "save"), ("name", "ann"), ("role", "projects")][..],
        &[("do", "disable")],
        &[("do", "delete")],
    ] {
        let refused = browser.send("POST", &ann, fields).await;
        assert!(
            refused.status == 422 && refused.text().contains("last owner"),
            "{fields:?}"
        );
    }
    server.clock.advance_secs(901);
    assert_eq!(
        browser
            .send("POST", &bob_path, &[("do", "delete")])
            .await
            .status,
        422
    );
    assert_eq!(
        browser
            .send(
                "POST",
                &bob_path,
                &[("do", "delete"), ("password", PASSWORD)]
            )
            .await
            .status,
        303
    );
    assert!(user::find(&server.handle, "rob").is_err());
    server.stop().await;
}

#[tokio::test]
async fn an_account_is_changed_only_by_its_user() {
    let server = server().await;
    owner(&server, "ann").await;
    make(
        &server,
        "bob",
        Grant::Projects(ProjectMemberships::default()),
    )
    .await;
    let mut browser = signed_in(&server, "bob").await;
    let mut other = signed_in(&server, "bob").await;
    assert!(
        browser
            .get("/account/")
            .await
            .text()
            .contains("this browser")
    );
    for (zone, status) in [("", 422), ("Mars", 422), ("Europe/Riga", 303)] {
        let saved = browser
            .send("POST", "/account/", &[("zone", zone), ("theme", "dark")])
            .await;
        assert_eq!(saved.status, status, "{zone}");
    }
    let page = browser.get("/account/").await;
    assert!(
        page.text().contains("data-theme=\"dark\"") && page.text().contains("Europe/Riga"),
        "{}",
        page.text()
    );
    server.clock.advance_secs(901);
    for (now, new, status) in [
        ("", "another horse", 422),
        ("wrong one!", "another horse", 422),
        (PASSWORD, "short", 422),
        (PASSWORD, "another horse", 303),
    ] {
        let set = browser
            .send(
                "POST",
                "/account/password/",
                &[("password", now), ("new", new)],
            )
            .await;
        assert_eq!(set.status, status, "{now} {new}");
    }
    assert_eq!(
        (
            browser.get("/account/").await.status,
            other.get("/account/").await.status
        ),
        (200, 303)
    );
    assert_eq!(other.sign_in("bob", "another horse").await.status, 303);
    browser
        .send("POST", "/account/sessions/", &[("session", "others")])
        .await;
    assert_eq!(
        (
            browser.get("/account/").await.status,
            other.get("/account/").await.status
        ),
        (200, 303)
    );
    // A user without projects sees a message.
    assert!(
        browser
            .get("/")
            .await
            .text()
            .contains("You have no access to a project yet")
    );
    server.stop().await;
}

#[tokio::test]
async fn badges_are_previewed() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let check = server
        .create_check(serde_json::json!({ "name": "<b>one</b>", "tags": "nas a/b" }))
        .await;
    let badge = check["badge_url"].as_str().unwrap().to_owned();
    let uuid = badge.rsplit('/').next().unwrap().trim_end_matches(".svg");
    let page = settings(&server).replace("settings", "badges");
    for (of, part) in [
        ("all", "main"),
        ("tag:nas", "nas"),
        ("tag:a/b", "a/b"),
        (&format!("check:{uuid}"), "&#60;b&#62;one"),
    ] {
        for (states, format) in [("2", "svg"), ("3", "svg"), ("3", "json"), ("2", "shields")] {
            let encoded = of.replace('/', "%2f").replace(':', "%3a");
            let answer = browser
                .get(&format!(
                    "{page}?of={encoded}&states={states}&format={format}"
                ))
                .await;
            assert!(
                answer.status == 200 && answer.text().contains(part),
                "{of}: {answer:?}"
            );
            let at = answer.text().find("id=\"url\"").unwrap();
            let url = answer.text()[at..]
                .split("value=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap();
            let shown = server
                .send("GET", url.strip_prefix(&server.base).unwrap(), &[], b"")
                .await;
            assert_eq!(shown.status, 200, "{url}");
        }
    }
    for wrong in ["check:x", "check:00000000-0000-0000-0000-000000000000"] {
        assert_eq!(
            browser
                .get(&format!("{page}?of={}", wrong.replace(':', "%3a")))
                .await
                .status,
            404
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn projects_are_listed_with_the_most_urgent_first() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let check = server
        .create_check(serde_json::json!({ "name": "Nightly <backup>" }))
        .await;
    let uuid = check["uuid"].as_str().unwrap();
    crate::support::server::new_project(&server.handle, "another").await;
    let page = browser.get("/").await;
    assert!(
        page.text().find("<bdi>another") < page.text().find("<bdi>main"),
        "{}",
        page.text()
    );
    server
        .send("GET", &format!("/ping/{uuid}/fail"), &[], b"")
        .await;
    let page = browser.get("/").await;
    let text = page.text();
    assert!(
        text.contains("down: <bdi>Nightly &#60;backup&#62;")
            && text.contains("1 Down")
            && text.contains("<title>1 down"),
        "{text}"
    );
    assert!(text.find("<bdi>main") < text.find("<bdi>another"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn the_menu_of_projects_counts_their_checks_when_it_is_opened() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    server.create_check(serde_json::json!({})).await;
    browser.headers = vec![("X-Fragment".into(), "switcher".into())];
    for name in ["", "<b>another</b>"] {
        if !name.is_empty() {
            crate::support::server::new_project(&server.handle, name).await;
        }
        let menu = browser.get("/").await;
        assert!(
            menu.status == 200 && menu.text().starts_with("<ul id=\"switcher\">"),
            "{menu:?}"
        );
        assert!(
            visible_text(menu.text()).contains("main 1 New") && !menu.text().contains("<b>another"),
            "{menu:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn the_last_sort_order_of_a_list_is_stored_in_the_account() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    for name in ["b", "a", "c"] {
        server
            .create_check(serde_json::json!({ "name": name }))
            .await;
    }
    let list = settings(&server).replace("settings", "checks");
    let names = |page: &str| {
        page.split("<bdi>")
            .filter_map(|part| part.split_once("</bdi>"))
            .map(|(name, _)| name.to_owned())
            .collect::<String>()
    };
    let page = browser.get(&list).await;
    assert!(
        page.text().contains("data-account=\"/account/list/\"")
            && page.text().contains("?sort=-status&#38;rows=250"),
        "{}",
        page.text()
    );
    for (fields, order) in [
        (&[("sort", "-name"), ("rows", "100")][..], "cba"),
        (&[("sort", "created")], "bac"),
        (&[("sort", "x"), ("rows", "7")], "bac"),
    ] {
        assert_eq!(
            browser.send("POST", "/account/list/", fields).await.status,
            303
        );
        let shown = names(browser.get(&list).await.text());
        assert!(shown.contains(order), "{fields:?}: {shown}");
    }
    assert!(
        names(browser.get(&format!("{list}?sort=name")).await.text()).contains("abc"),
        "a URL takes precedence"
    );
    let ann = user::find(&server.handle, "ann").unwrap();
    assert_eq!(
        (
            ann.preferences.list.order.name().as_str(),
            ann.preferences.list.page_size
        ),
        ("created", 100)
    );
    // The form of the account shows and stores the setting.
    let account = browser.get("/account/").await;
    assert!(
        account
            .text()
            .contains(r#"<option value="created" selected>creation, oldest first"#),
        "{}",
        account.text()
    );
    browser
        .send(
            "POST",
            "/account/",
            &[("zone", "UTC"), ("sort", "next"), ("rows", "1000")],
        )
        .await;
    let ann = user::find(&server.handle, "ann").unwrap();
    assert_eq!(
        (
            ann.preferences.list.order.name().as_str(),
            ann.preferences.list.page_size
        ),
        ("next", 1000)
    );
    server.stop().await;
}

#[tokio::test]
async fn read_only_users_see_no_forms() {
    let server = server().await;
    owner(&server, "ann").await;
    make(
        &server,
        "eve",
        Grant::Projects(ProjectMemberships::new([(
            server.main.id,
            Membership::ReadOnly,
        )])),
    )
    .await;
    let check = server
        .create_check(serde_json::json!({ "name": "job", "schedule": "30 3 * * *" }))
        .await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    server
        .send("POST", &format!("/ping/{check}"), &[], b"output")
        .await;
    let channel = super::channel(&server).await;
    let mut writer = signed_in(&server, "ann").await;
    let mut reader = signed_in(&server, "eve").await;
    let of_project = |page: &str| settings(&server).replace("settings", page);
    for path in [
        of_project("checks"),
        of_project("integrations"),
        of_project("badges"),
        of_project("settings"),
        format!("/checks/{check}/details/"),
        format!("/checks/{check}/log/"),
        format!("/checks/{check}/pings/1/"),
    ] {
        let seen = reader.get(&path).await;
        let all = writer.get(&path).await;
        assert!(seen.status == 200 && all.status == 200, "{path}");
        let forms = |page: &str| {
            let own = page.matches("method=\"post\" action=\"/account/").count();
            page.matches("method=\"post\"").count() - own
        };
        // Besides the forms of the own account, every user has the one for signing out.
        assert_eq!(forms(seen.text()), 1, "{path}: {}", seen.text());
        let changes = [
            "/edit/",
            "/remove/",
            "/add/",
            "name=\"check\"",
            "Duplicate",
            "Ping now",
        ];
        assert_eq!(
            changes.iter().find(|part| seen.text().contains(**part)),
            None,
            "{path}"
        );
    }
    let pages = ["edit/", "remove/"]
        .map(|page| format!("/checks/{check}/{page}"))
        .into_iter();
    for path in pages.chain([
        format!("/integrations/{channel}/edit/"),
        format!("{}add/", of_project("checks")),
    ]) {
        assert_eq!(
            (
                reader.get(&path).await.status,
                writer.get(&path).await.status
            ),
            (403, 200),
            "{path}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn owners_see_the_addresses_of_the_server() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    browser.headers = [("Host", "nas:8000"), ("X-Forwarded-For", "192.0.2.7")]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    let page = browser.get("/system/").await;
    for part in [
        r#"a trusted proxy, for <span class="mono">192.0.2.7"#,
        "nas:8000",
        "1 project ",
        "1 user",
    ] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    // State of automatic backups.
    let metrics = server.handle.metrics();
    let now = server.handle.now();
    assert!(
        visible_text(page.text()).contains("Automatic off start with --backup-to DIR"),
        "{}",
        visible_text(page.text())
    );
    metrics.enable_backups(Some(now));
    metrics.record_backup_failure(now, "Read-only <file> system".into());
    let page = browser.get("/system/").await;
    let text = visible_text(page.text());
    assert!(
        text.contains("No backup since")
            && page.text().contains("Read-only &#60;file&#62; system")
            && text.contains("the newest began"),
        "{text}"
    );
    metrics.record_backup(now);
    let text = visible_text(browser.get("/system/").await.text());
    assert!(
        text.contains("Automatic on the newest began") && !text.contains("No backup"),
        "{text}"
    );
    server.stop().await;
}

#[tokio::test]
async fn owners_download_a_backup_of_everything() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    server
        .create_check(serde_json::json!({ "name": "Nightly backup" }))
        .await;
    let page = browser.get("/system/").await;
    assert!(
        visible_text(page.text()).contains("1 project · 1 check · 0 pings · 1 user")
            && page.text().contains("Back up now"),
        "{}",
        page.text()
    );
    server.clock.advance_secs(901);
    for (password, status) in [("", 422), ("wrong one!", 422), (PASSWORD, 200)] {
        let answer = browser
            .send("POST", "/system/backup/", &[("password", password)])
            .await;
        assert_eq!(answer.status, status, "{password}");
        if status == 200 {
            let name = answer.header("Content-Disposition").unwrap();
            assert!(
                name.starts_with("attachment; filename=\"overdue-2026")
                    && name.ends_with("Z.backup.zst\""),
                "{name}"
            );
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("x");
            std::fs::write(&file, &answer.body).unwrap();
            let (_, findings) = overdue::backup::inspect(
                overdue::backup::open_backup(&file, &Default::default()).unwrap(),
            )
            .unwrap();
            assert_eq!(
                (
                    findings.problem_count,
                    findings.tables["checks"].rows,
                    findings.tables["users"].rows
                ),
                (0, 1, 1)
            );
        }
    }
    // A finished download frees its slot.
    assert_eq!(
        browser.send("POST", "/system/backup/", &[]).await.status,
        200
    );
    server.stop().await;
}

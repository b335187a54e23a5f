//! Import of a file from the browser.

use std::time::Duration;

use overdue::channels::find_kind;
use overdue::domain::channel::ChannelSettings;
use overdue::domain::project::ChannelName;
use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use overdue::engine::command::{Command, CommandOutcome, NewChannel};
use overdue::import::export_format::write_export;
use serde_json::json;

use super::browser::{Browser, make, owner, server, signed_in};
use super::visible_text;
use crate::support::server::{TestResponse, TestServer};

const FORM: &str = "/system/import/";

/// Dump of a Healthchecks server with a project of two checks.
fn dump() -> String {
    let uuid = |end: u32| format!("6f3a0f6e-0c9b-4f0e-9b1b-{end:012}");
    let check = |id: u32, name: &str| {
        json!({
            "model": "api.check", "pk": id,
            "fields": {
                "code": uuid(id), "project": 1, "name": name, "slug": "",
                "created": "2026-01-01T00:00:00Z", "kind": "simple", "timeout": "01:00:00",
                "grace": "01:00:00", "tz": "UTC", "status": "new", "n_pings": 0,
            },
        })
    };
    json!([
        {
            "model": "auth.user", "pk": 1,
            "fields": { "email": "old@example.org", "username": "a" },
        },
        {
            "model": "accounts.project", "pk": 1,
            "fields": { "code": uuid(99), "name": "Homelab", "owner": 1, "badge_key": "bk" },
        },
        check(1, "Backup"), check(2, "<b>Report</b>"),
    ])
    .to_string()
}

/// Returns the path that a reply redirects to.
fn target(reply: &TestResponse) -> String {
    assert_eq!(reply.status, 303, "{reply:?}");
    let location = reply.header("Location").unwrap();
    location[location.find("/system/").unwrap()..].to_owned()
}

/// Returns the text of the page of an import once no work is being done.
async fn settled(browser: &mut Browser<'_>, page: &str) -> String {
    loop {
        let answer = browser.get(page).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        if !answer.text().contains("http-equiv=\"refresh\"") {
            return visible_text(answer.text());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn project_names(server: &TestServer) -> Vec<String> {
    server.handle.with_state(|state| {
        let projects = state.projects();
        projects
            .map(|found| found.project.name.as_str().to_owned())
            .collect()
    })
}

#[tokio::test]
async fn an_owner_imports_a_file_after_seeing_the_report() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut ann = signed_in(&server, "ann").await;
    let fields = [("logs", "all"), ("secret", "")];
    let sent = ann.upload(FORM, &fields, ("C:\\hc.json", &dump())).await;
    let page = target(&sent);
    let text = settled(&mut ann, &page).await;
    assert!(text.contains("hc.json"), "{text}");
    assert!(text.contains("checks in the file 2 imported 2"), "{text}");
    assert!(text.contains("it would replace nothing"), "{text}");
    assert_eq!(project_names(&server), ["main"]);
    // One import at a time.
    let second = ann.upload(FORM, &[], ("hc.json", &dump())).await;
    let text = visible_text(second.text());
    assert!(text.contains("another import is open"), "{text}");
    let unknown = ann.send("POST", &page, &[("action", "later")]).await;
    assert_eq!(unknown.status, 400);
    target(&ann.send("POST", &page, &[("action", "trial")]).await);
    let text = settled(&mut ann, &page).await;
    assert!(
        text.contains("1 project imported. They are on trial"),
        "{text}"
    );
    assert_eq!(project_names(&server), ["main", "Homelab"]);
    let log = visible_text(ann.get("/system/audit/").await.text());
    assert!(log.contains("user ann imported project Homelab"), "{log}");
    // Another decision comes too late.
    let late = ann.send("POST", &page, &[("action", "live")]).await;
    assert_eq!(late.status, 400);
    server.stop().await;
}

#[tokio::test]
async fn local_changes_are_lost_only_if_the_owner_confirms() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut ann = signed_in(&server, "ann").await;
    for round in 0..2 {
        let page = target(&ann.upload(FORM, &[], ("hc.json", &dump())).await);
        let text = settled(&mut ann, &page).await;
        if round > 0 {
            assert!(text.contains("These changes would be lost"), "{text}");
            let refused = ann.send("POST", &page, &[("action", "live")]).await;
            assert_eq!(refused.status, 400);
        }
        let form = [("action", "live"), ("replace", "1")];
        target(&ann.send("POST", &page, &form).await);
        let text = settled(&mut ann, &page).await;
        assert!(text.contains("Alerts are sent from now on"), "{text}");
        server.clock.advance_secs(60);
        let ping = "/ping/6f3a0f6e-0c9b-4f0e-9b1b-000000000001";
        assert_eq!(server.get(ping).await.status, 200);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_imported_changes_nothing() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut ann = signed_in(&server, "ann").await;
    for (file, reason) in [
        ("", "it is empty"),
        ("hello", "it is neither a SQLite file nor output of pg_dump"),
        ("{\"a\": 1}\n", "it is not an export of overdue"),
        ("SQLite format 3\0garbage", "hc.sqlite"),
    ] {
        let page = target(&ann.upload(FORM, &[], ("hc.sqlite", file)).await);
        let text = settled(&mut ann, &page).await;
        assert!(text.contains("Nothing was imported:"), "{text}");
        assert!(text.contains(reason), "{text}");
    }
    let none = ann.upload(FORM, &[], ("", "")).await;
    assert!(visible_text(none.text()).contains("choose a file"));
    let page = target(&ann.upload(FORM, &[], ("hc.json", &dump())).await);
    settled(&mut ann, &page).await;
    target(&ann.send("POST", &page, &[("action", "discard")]).await);
    let text = settled(&mut ann, &page).await;
    assert!(text.contains("The file was discarded"), "{text}");
    assert_eq!(project_names(&server), ["main"]);
    let plain = ann.send("POST", FORM, &[("logs", "all")]).await;
    assert_eq!(plain.status, 400);
    server.stop().await;
}

#[tokio::test]
async fn an_uploaded_export_gets_no_rights_of_the_operator() {
    let from = server().await;
    for (kind, pairs) in [
        ("webhook", [("down-url", "http://127.0.0.1:9/")].as_slice()),
        ("shell", &[("down-command", "touch /tmp/x")]),
    ] {
        let settings = ChannelSettings::parse(find_kind(kind).unwrap(), pairs.iter().copied());
        let channel = NewChannel {
            uuid: from.handle.random().uuid(),
            project: from.main.id,
            name: ChannelName::parse(kind).unwrap(),
            settings: settings.unwrap(),
            set_by_operator: true,
        };
        let made = from.handle.call(Command::CreateChannel(Box::new(channel)));
        let made = made.await.unwrap().unwrap();
        assert!(matches!(made, CommandOutcome::Channel(_)));
    }
    from.create_check(json!({ "name": "Backup", "channels": "*" }))
        .await;
    let mut lines = Vec::new();
    write_export(&from.handle, None, true, &mut lines).unwrap();
    let export = String::from_utf8(lines).unwrap();
    from.stop().await;

    let server = server().await;
    owner(&server, "ann").await;
    // Both servers have drawn the same UUIDs.
    let delete = Command::DeleteProject(server.main.id);
    server.handle.call(delete).await.unwrap().unwrap();
    let mut ann = signed_in(&server, "ann").await;
    let page = target(&ann.upload(FORM, &[], ("all.jsonl", &export)).await);
    let text = settled(&mut ann, &page).await;
    assert!(text.contains("only the operator may create them"), "{text}");
    assert!(text.contains("shell &#34;shell&#34; of project"), "{text}");
    target(&ann.send("POST", &page, &[("action", "trial")]).await);
    let text = settled(&mut ann, &page).await;
    assert!(text.contains("1 project imported"), "{text}");
    server.handle.with_state(|state| {
        let imported = state.projects().last().unwrap();
        let channels: Vec<_> = imported.channels.values().collect();
        assert_eq!(channels.len(), 1);
        assert_eq!(channels[0].settings.kind().name, "webhook");
        assert!(!channels[0].set_by_operator);
        let check = state.checks_of(imported.project.id).next().unwrap();
        assert_eq!(*check.settings.channels, [channels[0].id]);
    });
    server.stop().await;
}

#[tokio::test]
async fn only_owners_import() {
    let server = server().await;
    owner(&server, "ann").await;
    let memberships = ProjectMemberships::new(vec![(server.main.id, Membership::Member)]);
    make(&server, "bob", Grant::Projects(memberships)).await;
    let mut bob = signed_in(&server, "bob").await;
    assert_eq!(bob.get(FORM).await.status, 403);
    let sent = bob.upload(FORM, &[], ("hc.json", &dump())).await;
    assert_eq!(sent.status, 403);
    let mut anonymous = Browser::new(&server);
    let sent = anonymous.upload(FORM, &[], ("hc.json", &dump())).await;
    assert_eq!(sent.status, 401);
    let mut ann = signed_in(&server, "ann").await;
    let page = target(&ann.upload(FORM, &[], ("hc.json", &dump())).await);
    assert_eq!(bob.get(&page).await.status, 403);
    server.stop().await;
}

//! Audit logs: entries with their authors, at the API and the admin socket; their limits.

use overdue::admin::audit::{AuditRow, ListAudit};
use overdue::admin::keys::{CreateKey, RevokeKey};
use overdue::admin::projects::{CheckLimit, CreateProject, DeleteProject};
use overdue::admin::{AdminContext, AdminRequest as _};
use overdue::config::apply_config;
use overdue::domain::audit::{Actor, AuditScope, MAX_AUDIT_ENTRIES};
use overdue::domain::project::{KeyAccess, KeyLabel, ProjectName};
use overdue::engine::command::Command;
use serde_json::{Value, json};

use crate::config::{ALLOW_ALL, ConfigTestEngine, parse_document};
use crate::support::server::TestServer;

async fn entries(server: &TestServer, query: &str) -> Vec<Value> {
    let answer = server
        .extension_api("GET", &format!("/audit{query}"), "")
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["entries"].as_array().unwrap().clone()
}

async fn descriptions(server: &TestServer) -> Vec<String> {
    let entries = entries(server, "").await;
    entries
        .iter()
        .map(|entry| entry["description"].as_str().unwrap().to_owned())
        .collect()
}

async fn list(server: &TestServer, project: Option<&str>) -> Vec<AuditRow> {
    let context = AdminContext::new(&server.handle, None);
    let request = ListAudit {
        project: project.map(str::to_owned),
        limit: 50,
    };
    request.run(&context).await.unwrap()
}

#[tokio::test]
async fn a_key_that_changes_a_check_is_its_actor() {
    let server = TestServer::start().await;
    let body = json!({ "name": "Backup", "unique": ["name"] });
    let check = server.create_check(body.clone()).await;
    let uuid = check["uuid"].as_str().unwrap();
    let [entry] = entries(&server, "").await.try_into().unwrap();
    assert_eq!(
        entry,
        json!({
            "number": 1, "time": "2026-11-20T10:00:00.000000+00:00",
            "actor": { "kind": "api_key", "name": "", "address": "127.0.0.1" },
            "action": "created", "object": "check", "names": ["Backup"], "count": 1,
            "description": "created check Backup",
        })
    );
    // Clients that set what is set already are not logged.
    let unchanged = server.api("POST", "/checks/", &body.to_string()).await;
    assert_eq!(unchanged.status, 200);
    let path = format!("/checks/{uuid}");
    server.api("POST", &path, r#"{"name": "Backup"}"#).await;
    server.ping(&check, "").await;
    assert_eq!(descriptions(&server).await, ["created check Backup"]);
    // A refused command is not logged either.
    let resumed = server.api("POST", &format!("{path}/resume"), "").await;
    assert_eq!(resumed.status, 409);
    server.api("POST", &path, r#"{"name": "Dump"}"#).await;
    server.api("POST", &format!("{path}/pause"), "").await;
    server.api("POST", &format!("{path}/pause"), "").await;
    server.clock.advance_secs(60);
    server.api("POST", &format!("{path}/pause"), "").await;
    server.api("POST", &format!("{path}/resume"), "").await;
    server.api("DELETE", &path, "").await;
    assert_eq!(
        descriptions(&server).await,
        [
            "deleted check Dump",
            "resumed check Dump",
            "paused check Dump",
            "paused check Dump, 2 times",
            "changed check Dump",
            "created check Backup",
        ]
    );
    let page = entries(&server, "?limit=2&before=4").await;
    let numbers: Vec<_> = page.iter().map(|entry| &entry["number"]).collect();
    assert_eq!(numbers, [3, 2]);
    for (query, status) in [("?limit=0", 400), ("?limit=5001", 400), ("?before=x", 400)] {
        let path = format!("/audit{query}");
        let answer = server.extension_api("GET", &path, "").await;
        assert_eq!(answer.status, status, "{query}");
    }
    let read_only = [("X-Api-Key", server.main.read_only_key.as_str())];
    let answer = server.send("GET", "/api/overdue/v1/audit", &read_only, b"");
    assert_eq!(answer.await.status, 401);
    server.stop().await;
}

#[tokio::test]
async fn the_command_line_sees_all_logs_and_that_of_a_deleted_project_is_gone() {
    let server = TestServer::start().await;
    let context = AdminContext::new(&server.handle, None);
    let create = CreateProject {
        name: ProjectName::parse("Second").unwrap(),
        check_limit: CheckLimit::default(),
        ping_log_limit: 100,
    };
    create.run(&context).await.unwrap();
    server.clock.advance_secs(1);
    let key = CreateKey {
        project: Some("Second".into()),
        label: KeyLabel::parse("deploy").unwrap(),
        access: KeyAccess::ReadWrite,
    };
    let id = key.run(&context).await.unwrap().id;
    let rows = list(&server, None).await;
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.project.as_deref(),
                row.actor.description.as_str(),
                row.description.as_str(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (Some("Second"), "command line", "created key deploy"),
            (None, "command line", "created project Second"),
        ]
    );
    RevokeKey { id }.run(&context).await.unwrap();
    let rows = list(&server, Some("Second")).await;
    assert_eq!(
        (rows.len(), &*rows[0].description),
        (2, "deleted key deploy")
    );
    let scope = server.handle.with_state(|state| {
        let mut projects = state.projects();
        let second = projects.find(|found| found.project.name.as_str() == "Second");
        AuditScope::Project(second.unwrap().project.id)
    });
    let delete = DeleteProject {
        project: "Second".into(),
    };
    delete.run(&context).await.unwrap();
    let left = server.handle.audit_entries(scope, u64::MAX, 10).unwrap();
    assert!(left.is_empty(), "{left:?}");
    let rows = list(&server, None).await;
    assert_eq!(rows[0].description, "deleted project Second");
    server.stop().await;
}

#[test]
fn an_applied_file_has_an_entry_for_each_kind_of_change() {
    let engine = ConfigTestEngine::new();
    let actor = engine.handle.with_actor(Actor::server());
    let file = |grace: &str| {
        format!(
            "version = 1\nsource = \"s\"\n[project.Home]\n[project.Home.check.backup]\nevery = \
             \"5m\"\ngrace = \"{grace}\"\n[project.Home.check.router]\nevery = \"5m\"\n"
        )
    };
    let apply = |grace| {
        let document = parse_document(&file(grace));
        engine
            .run(apply_config(&actor, document, ALLOW_ALL))
            .map_err(|error| format!("{error:?}"))
            .unwrap();
    };
    let described = |project: Option<&str>| {
        let project = project.map(|_| {
            engine
                .handle
                .with_state(|state| state.projects().next().unwrap().project.id)
        });
        let scope = project.map_or(AuditScope::Server, AuditScope::Project);
        let entries = engine.handle.audit_entries(scope, u64::MAX, 10).unwrap();
        entries
            .iter()
            .map(|entry| format!("{} {}", entry.actor, entry.description()))
            .collect::<Vec<_>>()
    };
    apply("2m");
    assert_eq!(described(None), ["server created project Home"]);
    let created = "server created 2 checks: backup, router";
    assert_eq!(described(Some("Home")), [created]);
    // Nothing changes.
    apply("2m");
    assert_eq!(described(Some("Home")), [created]);
    apply("3m");
    let changed = "server changed check backup";
    assert_eq!(described(Some("Home")), [changed, created]);
}

#[tokio::test]
async fn a_log_keeps_its_newest_entries() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    let id = server.handle.with_state(|state| {
        let uuid = check["uuid"].as_str().unwrap().parse().unwrap();
        state.check_by_uuid(uuid).unwrap().id
    });
    let handle = server.handle.with_actor(Actor::command_line());
    let mut replies = Vec::new();
    for _ in 0..MAX_AUDIT_ENTRIES / 2 {
        for command in [Command::PauseCheck(id, None), Command::ResumeCheck(id)] {
            replies.push(handle.submit(command).unwrap());
        }
        if replies.len() > 2_000 {
            for reply in replies.drain(..) {
                reply.await.unwrap().unwrap().unwrap();
            }
        }
    }
    for reply in replies {
        reply.await.unwrap().unwrap().unwrap();
    }
    let scope = AuditScope::Project(server.main.id);
    let all = handle.audit_entries(scope, u64::MAX, usize::MAX).unwrap();
    assert_eq!(all.len() as u64, MAX_AUDIT_ENTRIES);
    assert_eq!(all.last().unwrap().number, 2);
    assert_eq!(all[0].number, MAX_AUDIT_ENTRIES + 1);
    server.stop().await;
}

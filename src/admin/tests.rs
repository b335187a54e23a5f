//! Requests without a socket: their replies as JSON, their errors, and their form as HTTP messages.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::encoding::{self, EncodedRequest};
use super::routes::{self, AdminSource, RouteMatch};
use super::*;
use crate::channels::find_kind;
use crate::domain::channel::ChannelSettings;
use crate::domain::project::{ChannelName, KeyAccess, KeyLabel, ProjectName};
use crate::operations::channel::CheckSelection;
use crate::operations::tests::EngineFixture;
use channels::{
    AssignChecks, CreateChannel, DeleteChannel, DisableChannel, EnableChannel, ListChannels,
    UpdateChannel,
};
use checks::UpdateAlerting;
use keys::{CreateKey, ListKeys, RevokeKey};
use projects::{CheckLimit, CreateProject, DeleteProject, ListProjects, UpdateProject};

fn run<R: AdminRequest>(service: &EngineFixture, request: R) -> Result<R::Output, AdminError> {
    let context = AdminContext::new(&service.handle, None);
    service.run(request.run(&context))
}

/// Returns the reply, or the error with its status, as JSON.
fn json<R>(service: &EngineFixture, request: R) -> Value
where
    R: AdminRequest<Output: serde::Serialize>,
{
    match run(service, request) {
        Ok(reply) => serde_json::to_value(reply).unwrap(),
        Err(error) => json!([error.status().as_u16(), error]),
    }
}

/// Returns the reason of a refusal that must have this status.
fn refusal<R: AdminRequest>(service: &EngineFixture, request: R, status: u16) -> String {
    let Err(error) = run(service, request) else {
        panic!("the request is accepted")
    };
    assert_eq!(error.status().as_u16(), status, "{error}");
    error.to_string()
}

fn create_project(service: &EngineFixture, name: &str) -> String {
    let request = CreateProject {
        name: ProjectName::parse(name).unwrap(),
        check_limit: CheckLimit::At(3),
        ping_log_limit: 7,
    };
    run(service, request).unwrap().uuid.to_string()
}

#[test]
fn projects_become_rows() {
    let service = EngineFixture::new();
    let uuid = create_project(&service, "one");
    let update = |project: &str, name: &str| UpdateProject {
        project: project.into(),
        name: Some(ProjectName::parse(name).unwrap()),
        check_limit: Some(CheckLimit::None),
        ping_log_limit: None,
        ping_settings: Some(true),
    };
    let row = |name: &str, limit: Option<u32>, ping_settings: bool| {
        json!([{
            "uuid": uuid, "name": name, "checks": 0, "check_limit": limit, "ping_log_limit": 7,
            "ping_settings": ping_settings, "trial": false
        }])
    };
    assert_eq!(json(&service, ListProjects {}), row("one", Some(3), false));
    run(&service, update(&uuid, "uno")).unwrap();
    assert_eq!(json(&service, ListProjects {}), row("uno", None, true));
    assert_eq!(
        refusal(&service, update("one", "x"), 404),
        r#"there is no project "one"; existing projects: uno"#
    );
    let project = "uno".to_owned();
    run(&service, DeleteProject { project }).unwrap();
    assert_eq!(json(&service, ListProjects {}), json!([]));
}

#[test]
fn lists_show_ping_keys_on_request_and_never_api_keys() {
    let service = EngineFixture::new();
    create_project(&service, "one");
    create_project(&service, "two");
    let create = |project: &str, access| {
        let request = CreateKey {
            project: Some(project.into()),
            access,
            label: KeyLabel::parse("CI").unwrap(),
        };
        run(&service, request).unwrap().key
    };
    let write = create("one", KeyAccess::ReadWrite);
    let read = create("one", KeyAccess::ReadOnly);
    let ping = create("two", KeyAccess::Ping);
    let request = |project: Option<&str>, show_ping_keys| ListKeys {
        project: project.map(Into::into),
        show_ping_keys,
    };
    let list = |project, show_ping_keys| json(&service, request(project, show_ping_keys));
    let all = list(None, false).to_string();
    assert_eq!(
        all.matches(r#""created":"2026-09-21T14:13:20+00:00""#)
            .count(),
        3
    );
    assert!(
        ![&write, &read, &ping]
            .into_iter()
            .any(|key| all.contains(key.as_str()))
    );
    let shown = list(None, true).to_string();
    assert!(shown.contains(&ping) && !shown.contains(&write) && !shown.contains(&read));
    assert_eq!(
        list(Some("two"), false),
        json!([{
            "id": 5, "project": "two", "access": "ping", "label": "CI", "hint": &ping[..4],
            "created": "2026-09-21T14:13:20+00:00", "used": null, "used_from": null
        }])
    );
    assert!(refusal(&service, request(Some("three"), false), 404).contains("there is no project"));
    run(&service, RevokeKey { id: 3 }).unwrap();
    assert!(refusal(&service, RevokeKey { id: 3 }, 404).starts_with("there is no key 3"));
}

#[test]
fn lists_mask_the_secrets_of_channels() {
    let service = EngineFixture::new();
    create_project(&service, "one");
    let pairs = [("up-url", "http://a/"), ("header.k", "hidden")]
        .map(|(key, value)| (key.into(), value.into()));
    let request = CreateChannel {
        project: Some("one".into()),
        name: ChannelName::parse("n").unwrap(),
        kind: find_kind("webhook").unwrap(),
        settings: SettingPairs(pairs.into()),
    };
    let uuid = run(&service, request).unwrap().uuid;
    let list = |show_settings| {
        json(
            &service,
            ListChannels {
                project: None,
                show_settings,
            },
        )
    };
    let mut row = json!({
        "uuid": uuid, "project": "one", "kind": "webhook", "name": "n", "status": "untested",
        "since": null, "waiting": 0, "last_error": null
    });
    assert_eq!(list(false), json!([row]));
    row["settings"] = json!({ "header.k": "***", "method": "GET", "up-url": "http://a/" });
    assert_eq!(list(true), json!([row]));

    let update = |pairs: &[(&str, &str)]| UpdateChannel {
        project: Some("one".into()),
        channel: "n".into(),
        name: None,
        settings: Some(SettingPairs(
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
        )),
        keep: false,
    };
    assert_eq!(
        json(&service, update(&[("down-url", "http://a/")])),
        json!({ "warnings": [] })
    );
    row["settings"] = json!({ "down-url": "http://a/", "method": "GET" });
    assert_eq!(list(true), json!([row]));
    // Invalid requests are distinguished from requests that conflict with the current state.
    assert!(
        refusal(&service, update(&[("url", "x")]), 400).starts_with("settings of kind webhook")
    );
    let delete = || DeleteChannel {
        project: None,
        channel: uuid.to_string(),
    };
    run(&service, delete()).unwrap();
    assert!(refusal(&service, delete(), 404).starts_with("there is no channel"));
}

#[test]
fn lists_show_why_channels_do_not_work() {
    use crate::domain::ids::ChannelId;
    use crate::engine::command::{Command, DeliveryReport, NewChannel, SendOutcome};

    let service = EngineFixture::new();
    create_project(&service, "one");
    let id = crate::operations::project::find(&service.handle, "one")
        .unwrap()
        .id;
    // A channel from before its kind required more settings.
    let settings =
        ChannelSettings::from_stored(find_kind("sms").unwrap(), [("to", "+37120000000")]).unwrap();
    let uuid = service.handle.random().uuid();
    let name = ChannelName::parse("old").unwrap();
    let call = |command| service.run(service.handle.call(command)).unwrap().unwrap();
    call(Command::CreateChannel(Box::new(NewChannel {
        uuid,
        project: id,
        name,
        settings,
        set_by_operator: true,
    })));
    let list = || {
        let request = ListChannels {
            project: None,
            show_settings: false,
        };
        serde_json::to_string(&run(&service, request).unwrap()).unwrap()
    };
    let lacking = list();
    assert!(
        lacking.contains(concat!(
            r#""status":"cannot deliver","since":null,"waiting":0,"#,
            r#""last_error":"account is missing; give account="#
        )),
        "{lacking}"
    );

    let request = json!({
        "project": "one", "name": "new", "kind": "email", "settings": {"to": "a@example.org"}
    });
    let request: CreateChannel = serde_json::from_value(request).unwrap();
    run(&service, request).unwrap();
    let channel: ChannelId = crate::operations::channel::find(&service.handle, None, "new")
        .unwrap()
        .id;
    let sent = SendOutcome::Retry {
        reason: "no route to it".into(),
        may_have_arrived: false,
    };
    call(Command::RecordDeliveryReports(vec![DeliveryReport {
        recipients: Default::default(),
        channel,
        sent_to: None,
        rows: Vec::new(),
        merged_into: None,
        result: sent,
        status: 0,
    }]));
    let failing = concat!(
        r#""status":"failing","since":"2026-09-21T14:13:20+00:00","waiting":0,"#,
        r#""last_error":"no route to it""#
    );
    assert!(list().contains(failing), "{}", list());
    let project = || Some("one".to_owned());
    let channel = || "new".to_owned();
    let disable = DisableChannel {
        project: project(),
        channel: channel(),
    };
    run(&service, disable).unwrap();
    let disabled = concat!(
        r#""status":"disabled","since":"2026-09-21T14:13:20+00:00","waiting":0,"#,
        r#""last_error":"it was disabled by the operator""#
    );
    assert!(list().contains(disabled), "{}", list());
    let enable = EnableChannel {
        project: project(),
        channel: channel(),
    };
    run(&service, enable).unwrap();
    assert!(list().contains(r#""status":"untested""#));
    let assign = AssignChecks {
        project: project(),
        channel: channel(),
        checks: CheckSelection::All,
    };
    assert_eq!(json(&service, assign), json!({ "checks": 0 }));
}

/// Returns the fields of a request by the OpenAPI description.
fn described_fields<R: AdminRequest>() -> BTreeSet<String> {
    let paths: Value = serde_json::from_str(openapi::PATHS).unwrap();
    let operation = &paths[format!("/admin{}", R::PATH)][R::METHOD.as_str().to_lowercase()];
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters
        .map(|parameter| parameter["name"].as_str().unwrap())
        .chain(
            schema["properties"]
                .as_object()
                .into_iter()
                .flat_map(|fields| fields.keys().map(String::as_str)),
        )
        .map(str::to_owned)
        .collect()
}

/// Encodes a request and reads it again. Returns its endpoint.
fn round_trip<R: AdminRequest>(fields: &Value) -> (&'static str, &'static str) {
    let about = format!("{} {} {fields}", R::METHOD, R::PATH);
    let request: R =
        serde_json::from_value(fields.clone()).unwrap_or_else(|error| panic!("{about}: {error}"));
    let before = serde_json::to_value(&request).unwrap();
    let (target, body) = encoding::encode(request).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let below = path.strip_prefix(BASE_PATH).unwrap_or_default();
    let RouteMatch::Found(_, parameters) = routes::find(AdminSource::Socket, &R::METHOD, below)
    else {
        panic!("{about}: no endpoint has the path {path}")
    };
    let encoded = EncodedRequest {
        parameters,
        query: query.into(),
        body: body.into(),
    };
    let decoded: R = encoding::decode(encoded).unwrap_or_else(|error| panic!("{about}: {error}"));
    assert_eq!(serde_json::to_value(&decoded).unwrap(), before, "{about}");
    assert_eq!(
        described_fields::<R>(),
        before.as_object().unwrap().keys().cloned().collect(),
        "the description has other fields than {about}"
    );
    endpoints()
        .find(|(method, path)| R::METHOD == *method && R::PATH == *path)
        .unwrap()
}

#[test]
fn every_request_is_read_back_unchanged() {
    let ping = json!({
        "check": 1, "n": 1, "at": 5, "kind": "success", "scheme": "http", "method": "GET",
        "addr": null, "ua": "a & b", "rid": null, "exit": null, "body": ""
    });
    let counts = json!({
        "projects": 1, "keys": 0, "channels": 0, "windows": 0, "checks": 0, "users": 0,
        "pings": 0, "flips": 0
    });
    let password = crate::util::password::hash(
        &crate::domain::user::Password::parse(
            "long enough a password",
            &crate::domain::user::UserName::parse("a").unwrap(),
        )
        .unwrap(),
        [7; 16],
    )
    .unwrap();
    let password = password.as_str();
    let tried = BTreeSet::from([
        round_trip::<projects::ListProjects>(&json!({})),
        round_trip::<projects::CreateProject>(
            &json!({ "name": "ä /?%", "check_limit": 3, "ping_log_limit": 5 }),
        ),
        round_trip::<projects::CreateProject>(&json!({ "name": "a" })),
        round_trip::<projects::UpdateProject>(
            &json!({ "project": "a/b c+d%2Fe?", "name": "b", "check_limit": "none" }),
        ),
        round_trip::<projects::DeleteProject>(&json!({ "project": "Žofie ☎" })),
        round_trip::<projects::ReleaseProject>(&json!({ "project": "." })),
        round_trip::<keys::ListKeys>(&json!({})),
        round_trip::<keys::ListKeys>(&json!({ "project": "a&b=c", "show_ping_keys": true })),
        round_trip::<keys::CreateKey>(&json!({ "access": "ping", "label": "x" })),
        round_trip::<keys::RevokeKey>(&json!({ "id": "18446744073709551615" })),
        round_trip::<channels::ListChannels>(&json!({ "show_settings": true })),
        round_trip::<channels::CreateChannel>(
            &json!({ "name": "", "kind": "ntfy", "settings": { "topic": "x" } }),
        ),
        round_trip::<channels::UpdateChannel>(
            &json!({ "channel": "", "settings": { "topic": "x" }, "keep": true }),
        ),
        round_trip::<channels::DeleteChannel>(&json!({ "channel": "", "project": "a" })),
        round_trip::<channels::TestChannel>(&json!({ "channel": "a", "up": true })),
        round_trip::<channels::EnableChannel>(&json!({ "channel": "a" })),
        round_trip::<channels::DisableChannel>(&json!({ "channel": "a" })),
        round_trip::<channels::AssignChecks>(
            &json!({ "channel": "a", "checks": { "tagged": ["x"] } }),
        ),
        round_trip::<channels::AssignChecks>(&json!({ "channel": "a", "checks": "all" })),
        round_trip::<channels::UnassignChecks>(
            &json!({ "channel": "a", "checks": { "named": ["x", "y"] } }),
        ),
        round_trip::<checks::ListChecks>(&json!({})),
        round_trip::<checks::ListChecks>(
            &json!({ "tag": ["a"], "status": ["up", "down"], "project": "x" }),
        ),
        round_trip::<checks::CreateCheck>(
            &json!({ "edit": { "name": "a", "timeout": 60 }, "unique": ["name"] }),
        ),
        round_trip::<checks::ShowCheck>(&json!({ "check": "a" })),
        round_trip::<checks::UpdateCheck>(
            &json!({ "check": "a", "project": "b", "edit": { "tags": "x y" } }),
        ),
        round_trip::<checks::DeleteCheck>(&json!({ "check": "a" })),
        round_trip::<checks::PauseCheck>(&json!({ "check": "a", "project": "b" })),
        round_trip::<checks::ResumeCheck>(&json!({ "check": "a" })),
        round_trip::<checks::ListPings>(&json!({ "check": "a" })),
        round_trip::<checks::ListFlips>(&json!({ "check": "a", "project": "b" })),
        round_trip::<checks::ShowAlerting>(&json!({ "check": "a" })),
        round_trip::<checks::UpdateAlerting>(&json!({ "check": "a", "after": 100, "parents": [] })),
        round_trip::<deliveries::ListDeliveries>(&json!({})),
        round_trip::<deliveries::ListDeliveries>(
            &json!({ "channel": "a", "check": "b", "failed": true, "limit": 5 }),
        ),
        round_trip::<deliveries::RetryDelivery>(&json!({ "number": "7" })),
        round_trip::<audit::ListAudit>(&json!({ "project": "a", "limit": 5 })),
        round_trip::<windows::ListWindows>(&json!({ "project": "a" })),
        round_trip::<windows::CreateWindow>(
            &json!({ "name": "a", "tags": "x", "times": { "minutes": 5 } }),
        ),
        round_trip::<windows::DeleteWindow>(&json!({ "window": "a b" })),
        round_trip::<users::ListUsers>(&json!({})),
        round_trip::<users::CreateUser>(&json!({ "name": "a", "grant": "owner" })),
        round_trip::<users::CreateUser>(&json!({
            "name": "a", "grant": { "projects": [{ "project": "a", "access": "member" }] }
        })),
        round_trip::<users::UpdateUser>(&json!({ "user": "a", "disabled": true })),
        round_trip::<users::UpdateUser>(&json!({
            "user": "a", "summary": "weekly", "summary_to": "a@example.org"
        })),
        round_trip::<users::DeleteUser>(&json!({ "user": "a" })),
        round_trip::<users::SetPassword>(&json!({ "user": "a", "password": password })),
        round_trip::<status::ShowStatus>(&json!({ "project": "a" })),
        round_trip::<users::RemoveSecondFactor>(&json!({ "user": "a" })),
        round_trip::<users::RemovePasskeys>(&json!({ "user": "a" })),
        round_trip::<users::RemoveIdentity>(&json!({ "user": "a" })),
        round_trip::<users::EndSessions>(&json!({ "user": "a" })),
        round_trip::<users::CreateLink>(&json!({ "user": "a" })),
        round_trip::<users::CreateSetupLink>(&json!({})),
        round_trip::<config::ExportConfig>(&json!({ "secrets": true })),
        round_trip::<config::ApplyConfig>(&json!({ "prune": 10, "adopt": true, "dry": true })),
        round_trip::<config::ApplyConfig>(&json!({})),
        round_trip::<imports::ListImports>(&json!({})),
        round_trip::<imports::BeginImport>(&json!({ "ids": 3, "checks": 1 })),
        round_trip::<imports::AddLogEntries>(
            &json!({ "import": "5", "pings": [ping], "flips": [] }),
        ),
        round_trip::<imports::AddLongPing>(&json!({ "import": "5", "ping": ping.to_string() })),
        round_trip::<imports::AddObjects>(&json!({ "import": "5", "objects": [] })),
        round_trip::<imports::FinishImport>(
            &json!({ "import": "5", "newest": 7, "secrets": ["a"], "expected": counts }),
        ),
        round_trip::<imports::AbandonImport>(&json!({ "import": "5" })),
        round_trip::<backup::Backup>(&json!({})),
        round_trip::<backup::ExportLines>(&json!({ "project": "a", "logs": true })),
    ]);
    assert_eq!(tried, endpoints().collect());
}

/// Reads a request to an endpoint of checks.
fn read<R: AdminRequest>(query: &str, body: &str) -> Result<R, String> {
    let encoded = EncodedRequest {
        parameters: vec![("check", "a".into())],
        query: query.into(),
        body: body.to_owned().into(),
    };
    encoding::decode(encoded).map_err(|error: AdminError| error.to_string())
}

#[test]
fn errors_name_the_field() {
    let update = |body: &str| read::<UpdateAlerting>("", body).err().unwrap();
    assert_eq!(
        update(r#"{"after":101}"#),
        "after: give a number of failures from 1 to 100"
    );
    assert!(update(r#"{"parents":[1]}"#).starts_with("parents[0]: invalid type"));
    assert!(update(r#"{"befor":1}"#).contains("unknown field `befor`"));
    assert!(update("[]").starts_with("the body is not a JSON object"));
    assert_eq!(update(r#"{"check":"b"}"#), "the field check is given twice");
    let show = |query: &str, body: &str| read::<checks::ShowCheck>(query, body).err().unwrap();
    assert!(show("projct=a", "").contains("unknown field `projct`"));
    assert!(show("project=a&project=b", "").contains("project"));
    assert!(show("", "{}").contains("this request takes no body"));
    // The query may name the project of any request.
    let pause = read::<checks::PauseCheck>("project=a%20b", "")
        .ok()
        .unwrap();
    assert_eq!(pause.project.as_deref(), Some("a b"));
}

#[test]
fn fuzz_requests() {
    const EXAMPLES: &[&str] = &[
        "POST /projects\n{\"name\": \"shop\", \"check_limit\": 1, \"ping_log_limit\": 7}",
        "PATCH /projects/one\n{\"check_limit\": null}",
        "POST /checks\n{\"project\": \"one\", \"name\": \"a\", \"schedule\": \"* * * * *\"}",
        "GET /checks?project=one&status=down\n",
        concat!(
            "POST /channels\n{\"project\": \"one\", \"kind\": \"email\", ",
            "\"name\": \"o\", \"settings\": {\"to\": \"a@b\"}}",
        ),
        "POST /users\n{\"name\": \"ann\", \"owner\": true}",
        "POST /keys\n{\"project\": \"one\", \"access\": \"ping\"}",
        "DELETE /windows/6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f\n",
        "POST /imports/1/objects\n{\"name\": []}",
        "GET /audit?limit=5&before=1\n",
    ];
    let service = EngineFixture::new();
    create_project(&service, "one");
    crate::util::fuzzing::fuzz_text(EXAMPLES, |text| {
        let (head, body) = text.split_once('\n').unwrap_or((text, ""));
        let (method, target) = head.split_once(' ').unwrap_or((head, ""));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let Ok(method) = hyper::Method::from_bytes(method.as_bytes()) else {
            return;
        };
        // A backup or an export is a stream, which is not read here.
        let RouteMatch::Found(route, parameters) = routes::find(AdminSource::Socket, &method, path)
        else {
            return;
        };
        let request = EncodedRequest {
            parameters,
            query: query.to_owned(),
            body: body.to_owned().into(),
        };
        let context = AdminContext::new(&service.handle, None);
        if let Err(error) = service.run((route.run)(&context, request)) {
            assert!(error.status().is_client_error(), "{error}");
        }
    });
}

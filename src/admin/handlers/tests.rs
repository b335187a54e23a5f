use super::*;
use crate::admin::request::channel::{ChannelAction, CheckSelectionRow};
use crate::channels;
use crate::domain::channel::ChannelSettings;
use crate::domain::project::{ChannelName, KeyAccess, KeyLabel, ProjectName};
use crate::operations::tests::EngineFixture;

fn made(service: &EngineFixture, request: AdminRequest) -> String {
    match service
        .run(handle_request(&service.handle, request, Vec::new()))
        .0
    {
        AdminReply::Made(uuid) => uuid.to_string(),
        AdminReply::MadeKey(made) => made.key,
        _ => panic!("nothing was made"),
    }
}

/// Returns the reply as it is sent over the socket.
fn json(service: &EngineFixture, request: AdminRequest) -> String {
    serde_json::to_string(
        &service
            .run(handle_request(&service.handle, request, Vec::new()))
            .0,
    )
    .unwrap()
}

fn create_project(service: &EngineFixture, name: &str) -> String {
    made(
        service,
        AdminRequest::CreateProject {
            name: ProjectName::parse(name).unwrap(),
            check_limit: CheckLimit::At(3),
            ping_log_limit: 7,
        },
    )
}

#[test]
fn projects_become_rows() {
    let service = EngineFixture::new();
    let uuid = create_project(&service, "one");
    let set = |project: &str, name: &str| AdminRequest::SetProject {
        project: project.into(),
        name: Some(ProjectName::parse(name).unwrap()),
        check_limit: Some(CheckLimit::None),
        ping_log_limit: None,
    };
    let row = |name: &str, limit: &str| {
        format!(
            concat!(
                r#"{{"projects":[{{"uuid":"{uuid}","name":"{name}","checks":0,"#,
                r#""check_limit":{limit},"ping_log_limit":7,"trial":false}}]}}"#
            ),
            uuid = uuid,
            name = name,
            limit = limit
        )
    };
    assert_eq!(
        json(&service, AdminRequest::ListProjects {}),
        row("one", "3")
    );
    assert_eq!(json(&service, set(&uuid, "uno")), r#""done""#);
    assert_eq!(
        json(&service, AdminRequest::ListProjects {}),
        row("uno", "null")
    );
    assert_eq!(
        json(&service, set("one", "x")),
        r#"{"refused":"there is no project \"one\"; existing projects: uno"}"#
    );
    assert_eq!(
        json(
            &service,
            AdminRequest::DeleteProject {
                project: "uno".into()
            }
        ),
        r#""done""#
    );
    assert_eq!(
        json(&service, AdminRequest::ListProjects {}),
        r#"{"projects":[]}"#
    );
}

#[test]
fn lists_show_ping_keys_on_request_and_never_api_keys() {
    let service = EngineFixture::new();
    create_project(&service, "one");
    create_project(&service, "two");
    let create = |project: &str, access| {
        let label = KeyLabel::parse("CI").unwrap();
        made(
            &service,
            AdminRequest::CreateKey {
                project: Some(project.into()),
                access,
                label,
            },
        )
    };
    let write = create("one", KeyAccess::ReadWrite);
    let read = create("one", KeyAccess::ReadOnly);
    let ping = create("two", KeyAccess::Ping);
    let list = |project: Option<&str>, show_ping_keys| {
        json(
            &service,
            AdminRequest::ListKeys {
                project: project.map(Into::into),
                show_ping_keys,
            },
        )
    };
    let all = list(None, false);
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
    let shown = list(None, true);
    assert!(shown.contains(&ping) && !shown.contains(&write) && !shown.contains(&read));
    let row = concat!(
        r#"{"keys":[{"id":5,"project":"two","access":"ping","label":"CI","hint":"HINT","#,
        r#""created":"2026-09-21T14:13:20+00:00","used":null,"used_from":null}]}"#
    );
    assert_eq!(list(Some("two"), false), row.replace("HINT", &ping[..4]));
    assert!(list(Some("three"), false).contains("there is no project"));
    assert_eq!(
        json(&service, AdminRequest::RevokeKey { id: 3 }),
        r#""done""#
    );
    assert!(
        json(&service, AdminRequest::RevokeKey { id: 3 })
            .starts_with(r#"{"refused":"there is no key 3"#)
    );
}

#[test]
fn lists_mask_the_secrets_of_channels() {
    let service = EngineFixture::new();
    create_project(&service, "one");
    let settings = ChannelSettings::parse(
        channels::find_kind("webhook").unwrap(),
        [("up-url", "http://a/"), ("header.k", "hidden")],
    )
    .unwrap();
    let create = AdminRequest::CreateChannel {
        project: Some("one".into()),
        name: ChannelName::parse("n").unwrap(),
        settings,
    };
    let uuid = made(&service, create);
    let list = |show_settings| {
        json(
            &service,
            AdminRequest::ListChannels {
                project: None,
                show_settings,
            },
        )
    };
    let row = |settings: &str| {
        format!(
            concat!(
                r#"{{"channels":[{{"uuid":"{uuid}","project":"one","kind":"webhook","name":"n","#,
                r#""status":"untested","since":null,"waiting":0,"last_error":null{settings}}}]}}"#
            ),
            uuid = uuid,
            settings = settings
        )
    };
    assert_eq!(list(false), row(""));
    assert_eq!(
        list(true),
        row(r#","settings":{"header.k":"***","method":"GET","up-url":"http://a/"}"#)
    );

    let set = |pairs: &[(&str, &str)]| AdminRequest::SetChannel {
        project: Some("one".into()),
        channel: "n".into(),
        name: None,
        settings: Some(
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
        ),
        keep: false,
    };
    assert_eq!(
        json(&service, set(&[("down-url", "http://a/")])),
        r#""done""#
    );
    assert_eq!(
        list(true),
        row(r#","settings":{"down-url":"http://a/","method":"GET"}"#)
    );
    // Invalid requests are distinguished from requests that conflict with the current state.
    assert!(
        json(&service, set(&[("url", "x")])).starts_with(r#"{"invalid":"settings of kind webhook"#)
    );
    assert_eq!(
        json(
            &service,
            AdminRequest::DeleteChannel {
                project: None,
                channel: uuid.clone()
            }
        ),
        r#""done""#
    );
    assert!(
        json(
            &service,
            AdminRequest::DeleteChannel {
                project: None,
                channel: uuid
            }
        )
        .starts_with(r#"{"refused":"there is no channel"#)
    );
}

#[test]
fn lists_show_why_channels_do_not_work() {
    use crate::domain::ids::ChannelId;
    use crate::engine::command::{Command, DeliveryReport, NewChannel, SendOutcome};

    let service = EngineFixture::new();
    create_project(&service, "one");
    let id = operations::project::find(&service.handle, "one")
        .unwrap()
        .id;
    // A channel from before its kind required more settings.
    let settings = ChannelSettings::from_stored(
        channels::find_kind("sms").unwrap(),
        [("to", "+37120000000")],
    )
    .unwrap();
    let uuid = service.handle.random().uuid();
    let name = ChannelName::parse("old").unwrap();
    let call = |command| service.run(service.handle.call(command)).unwrap().unwrap();
    call(Command::CreateChannel(Box::new(NewChannel {
        uuid,
        project: id,
        name,
        settings,
        is_by_operator: true,
    })));
    let list = || {
        json(
            &service,
            AdminRequest::ListChannels {
                project: None,
                show_settings: false,
            },
        )
    };
    let lacking = list();
    assert!(
        lacking.contains(concat!(
            r#""status":"cannot deliver","since":null,"waiting":0,"#,
            r#""last_error":"account is missing; give account="#
        )),
        "{lacking}"
    );

    let settings = ChannelSettings::parse(
        channels::find_kind("email").unwrap(),
        [("to", "a@example.org")],
    )
    .unwrap();
    made(
        &service,
        AdminRequest::CreateChannel {
            project: Some("one".into()),
            name: ChannelName::parse("new").unwrap(),
            settings,
        },
    );
    let channel: ChannelId = operations::channel::find(&service.handle, None, "new")
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
    let of = |what| AdminRequest::OfChannel {
        project: Some("one".into()),
        channel: "new".into(),
        what,
    };
    assert_eq!(json(&service, of(ChannelAction::Disable)), r#""done""#);
    let disabled = concat!(
        r#""status":"disabled","since":"2026-09-21T14:13:20+00:00","waiting":0,"#,
        r#""last_error":"it was disabled by the operator""#
    );
    assert!(list().contains(disabled), "{}", list());
    assert_eq!(json(&service, of(ChannelAction::Enable)), r#""done""#);
    assert!(list().contains(r#""status":"untested""#));
    assert_eq!(
        json(&service, of(ChannelAction::Assign(CheckSelectionRow::All))),
        r#"{"assigned":0}"#
    );
    // Such a number is refused while the request is parsed.
    let bad = r#"{"of_check":{"project":null,"check":"a","what":{"alerting":{"after":101}}}}"#;
    assert!(
        serde_json::from_str::<AdminRequest>(bad)
            .err()
            .unwrap()
            .to_string()
            .contains("give a number of failures from 1 to 100")
    );
}

use super::*;
use crate::admin::request::channel::{Chosen, OfChannel};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::project::{Access, ChannelName, KeyLabel, ProjectName};
use crate::manage::tests::Service;

fn made(service: &Service, request: Request) -> String {
    match service.run(perform(&service.handle, request, Vec::new())).0 {
        Reply::Made(uuid) => uuid.to_string(),
        Reply::MadeKey(made) => made.key,
        _ => panic!("nothing was made"),
    }
}

/// The reply as it goes over the socket.
fn json(service: &Service, request: Request) -> String {
    serde_json::to_string(&service.run(perform(&service.handle, request, Vec::new())).0).unwrap()
}

fn create_project(service: &Service, name: &str) -> String {
    made(service, Request::CreateProject { name: ProjectName::parse(name).unwrap(), check_limit: CheckLimit::At(3), ping_log_limit: 7 })
}

#[test]
fn projects_become_rows() {
    let service = Service::new();
    let uuid = create_project(&service, "one");
    let set = |project: &str, name: &str| Request::SetProject {
        project: project.into(),
        name: Some(ProjectName::parse(name).unwrap()),
        check_limit: Some(CheckLimit::None),
        ping_log_limit: None,
    };
    let row = |name: &str, limit: &str| {
        format!(r#"{{"projects":[{{"uuid":"{uuid}","name":"{name}","checks":0,"check_limit":{limit},"ping_log_limit":7,"trial":false}}]}}"#)
    };
    assert_eq!(json(&service, Request::ListProjects {}), row("one", "3"));
    assert_eq!(json(&service, set(&uuid, "uno")), r#""done""#);
    assert_eq!(json(&service, Request::ListProjects {}), row("uno", "null"));
    assert_eq!(json(&service, set("one", "x")), r#"{"refused":"there is no project \"one\"; there are: uno"}"#);
    assert_eq!(json(&service, Request::DeleteProject { project: "uno".into() }), r#""done""#);
    assert_eq!(json(&service, Request::ListProjects {}), r#"{"projects":[]}"#);
}

#[test]
fn lists_show_ping_keys_when_asked_and_api_keys_never() {
    let service = Service::new();
    create_project(&service, "one");
    create_project(&service, "two");
    let create = |project: &str, access| {
        let label = KeyLabel::parse("CI").unwrap();
        made(&service, Request::CreateKey { project: Some(project.into()), access, label })
    };
    let (write, read, ping) = (create("one", Access::ReadWrite), create("one", Access::ReadOnly), create("two", Access::Ping));
    let list =
        |project: Option<&str>, show_ping_keys| json(&service, Request::ListKeys { project: project.map(Into::into), show_ping_keys });
    let all = list(None, false);
    assert_eq!(all.matches(r#""created":"2026-09-21T14:13:20+00:00""#).count(), 3);
    assert!(![&write, &read, &ping].into_iter().any(|key| all.contains(key.as_str())));
    let shown = list(None, true);
    assert!(shown.contains(&ping) && !shown.contains(&write) && !shown.contains(&read));
    let row = r#"{"keys":[{"id":5,"project":"two","access":"ping","label":"CI","hint":"HINT","created":"2026-09-21T14:13:20+00:00","used":null,"used_from":null}]}"#;
    assert_eq!(list(Some("two"), false), row.replace("HINT", &ping[..4]));
    assert!(list(Some("three"), false).contains("there is no project"));
    assert_eq!(json(&service, Request::RevokeKey { id: 3 }), r#""done""#);
    assert!(json(&service, Request::RevokeKey { id: 3 }).starts_with(r#"{"refused":"there is no key 3"#));
}

#[test]
fn lists_mask_the_secrets_of_channels() {
    let service = Service::new();
    create_project(&service, "one");
    let settings =
        ChannelSettings::parse(ChannelKind::named("webhook").unwrap(), [("up-url", "http://a/"), ("header.k", "hidden")]).unwrap();
    let create = Request::CreateChannel { project: Some("one".into()), name: ChannelName::parse("n").unwrap(), settings };
    let uuid = made(&service, create);
    let list = |show_settings| json(&service, Request::ListChannels { project: None, show_settings });
    let row = |settings: &str| {
        format!(
            r#"{{"channels":[{{"uuid":"{uuid}","project":"one","kind":"webhook","name":"n","status":"untested","since":null,"waiting":0,"last_error":null{settings}}}]}}"#
        )
    };
    assert_eq!(list(false), row(""));
    assert_eq!(list(true), row(r#","settings":{"header.k":"***","method":"GET","up-url":"http://a/"}"#));

    let set = |pairs: &[(&str, &str)]| Request::SetChannel {
        project: Some("one".into()),
        channel: "n".into(),
        name: None,
        settings: Some(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
        keep: false,
    };
    assert_eq!(json(&service, set(&[("down-url", "http://a/")])), r#""done""#);
    assert_eq!(list(true), row(r#","settings":{"down-url":"http://a/","method":"GET"}"#));
    // What can never be right is told apart from what does not fit what there is.
    assert!(json(&service, set(&[("url", "x")])).starts_with(r#"{"invalid":"settings of kind webhook"#));
    assert_eq!(json(&service, Request::DeleteChannel { project: None, channel: uuid.clone() }), r#""done""#);
    assert!(json(&service, Request::DeleteChannel { project: None, channel: uuid }).starts_with(r#"{"refused":"there is no channel"#));
}

#[test]
fn channels_say_why_they_do_not_work() {
    use crate::domain::ids::ChannelId;
    use crate::engine::command::{Command, NewChannel, Report, SendOutcome};

    let service = Service::new();
    create_project(&service, "one");
    let id = manage::project::find(&service.handle, "one").unwrap().id;
    // Made before more was asked of its kind.
    let settings = ChannelSettings::read(ChannelKind::named("sms").unwrap(), [("to", "+37120000000")]).unwrap();
    let (uuid, name) = (service.handle.random().uuid(), ChannelName::parse("old").unwrap());
    let call = |command| service.run(service.handle.call(command)).unwrap().unwrap();
    call(Command::CreateChannel(Box::new(NewChannel { uuid, project: id, name, settings, operator: true })));
    let list = || json(&service, Request::ListChannels { project: None, show_settings: false });
    let lacking = list();
    assert!(
        lacking.contains(r#""status":"cannot deliver","since":null,"waiting":0,"last_error":"account is missing; give account="#),
        "{lacking}"
    );

    let settings = ChannelSettings::parse(ChannelKind::named("email").unwrap(), [("to", "a@example.org")]).unwrap();
    made(&service, Request::CreateChannel { project: Some("one".into()), name: ChannelName::parse("new").unwrap(), settings });
    let channel: ChannelId = manage::channel::find(&service.handle, None, "new").unwrap().id;
    let sent = SendOutcome::Later { reason: "no route to it".into(), doubtful: false };
    call(Command::ReportDeliveries(vec![Report {
        recipients: Default::default(),
        channel,
        sent_to: None,
        rows: Vec::new(),
        told_with: None,
        sent,
        status: 0,
    }]));
    let failing = r#""status":"failing","since":"2026-09-21T14:13:20+00:00","waiting":0,"last_error":"no route to it""#;
    assert!(list().contains(failing), "{}", list());
    let of = |what| Request::OfChannel { project: Some("one".into()), channel: "new".into(), what };
    assert_eq!(json(&service, of(OfChannel::Disable)), r#""done""#);
    let disabled = r#""status":"disabled","since":"2026-09-21T14:13:20+00:00","waiting":0,"last_error":"it was disabled by the operator""#;
    assert!(list().contains(disabled), "{}", list());
    assert_eq!(json(&service, of(OfChannel::Enable)), r#""done""#);
    assert!(list().contains(r#""status":"untested""#));
    assert_eq!(json(&service, of(OfChannel::Assign(Chosen::All))), r#"{"assigned":0}"#);
    // Such a number is refused while the request is read.
    let bad = r#"{"of_check":{"project":null,"check":"a","what":{"alerting":{"after":101}}}}"#;
    assert!(serde_json::from_str::<Request>(bad).err().unwrap().to_string().contains("give a number of failures from 1 to 100"));
}

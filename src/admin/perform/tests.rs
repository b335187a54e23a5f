use super::*;
use crate::admin::request::ChannelName;
use crate::clock::{Clock, ManualClock};
use crate::engine::{self, Ended};
use crate::store::Medium;

/// An engine of its own, in memory, asked one request after another.
struct Service {
    handle: Handle,
    runtime: tokio::runtime::Runtime,
    writer: Option<std::thread::JoinHandle<Ended>>,
}

impl Service {
    fn new() -> Self {
        let clock = Clock::Manual(ManualClock::at(Moment::from_secs(1_790_000_000)));
        let thresholds = engine::Thresholds::default();
        let config = engine::Config { medium: Medium::memory(), clock, random: Random::seeded(1), ping_body_limit: 0, thresholds };
        let (handle, writer) = engine::open(config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { handle, runtime, writer: Some(std::thread::spawn(|| writer.run())) }
    }

    fn ask(&self, request: Request) -> Reply {
        self.runtime.block_on(perform(&self.handle, request))
    }

    fn made(&self, request: Request) -> String {
        match self.ask(request) {
            Reply::Made(text) => text,
            _ => panic!("nothing was made"),
        }
    }

    fn project(&self, name: &str) -> String {
        let name = ProjectName::parse(name).unwrap();
        self.made(Request::CreateProject { name, check_limit: CheckLimit::None, ping_log_limit: 100 })
    }

    fn channel(&self, project: &str, name: &str) -> String {
        let settings = Settings::parse(Kind::Email, [("to", "secret@example.org")]).unwrap();
        self.made(Request::CreateChannel { project: project.into(), name: ChannelName::parse(name).unwrap(), settings })
    }

    /// The reply as it goes over the socket.
    fn json(&self, request: Request) -> String {
        serde_json::to_string(&self.ask(request)).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.handle.close();
        assert!(self.writer.take().is_some_and(|writer| matches!(writer.join(), Ok(Ended::Closed))));
    }
}

fn set_channel(project: Option<&str>, channel: &str, name: Option<&str>, settings: Option<(&str, &str)>) -> Request {
    Request::SetChannel {
        project: project.map(Into::into),
        channel: channel.into(),
        name: name.map(|name| ChannelName::parse(name).unwrap()),
        settings: settings.map(|(key, value)| vec![(key.into(), value.into())]),
    }
}

#[test]
fn projects_are_made_changed_and_deleted_by_name_or_uuid() {
    let service = Service::new();
    let uuid = service.project("one");
    service.project("two");
    let rename = |project: &str, name: &str| Request::SetProject {
        project: project.into(),
        name: Some(ProjectName::parse(name).unwrap()),
        check_limit: None,
        ping_log_limit: None,
    };
    let limit = |limit| Request::SetProject { project: uuid.clone(), name: None, check_limit: Some(limit), ping_log_limit: Some(7) };
    assert!(matches!(service.ask(rename("one", "two")), Reply::Refused(reason) if reason.contains("of that name already")));
    assert!(matches!(service.ask(rename(&uuid, "uno")), Reply::Done));
    assert!(matches!(service.ask(limit(CheckLimit::At(3))), Reply::Done));
    let row =
        |limit: &str| format!(r#"{{"projects":[{{"uuid":"{uuid}","name":"uno","checks":0,"check_limit":{limit},"ping_log_limit":7}}]}}"#);
    assert!(matches!(service.ask(Request::DeleteProject { project: "two".into() }), Reply::Done));
    assert_eq!(service.json(Request::ListProjects {}), row("3"));
    assert!(matches!(service.ask(limit(CheckLimit::None)), Reply::Done));
    assert_eq!(service.json(Request::ListProjects {}), row("null"));
    assert!(matches!(service.ask(rename("one", "x")), Reply::Refused(reason) if reason == r#"there is no project "one"; there are: uno"#));
}

#[test]
fn keys_are_shown_once_and_stored_hashed() {
    let service = Service::new();
    service.project("one");
    service.project("two");
    let create = |project: &str, access| service.made(Request::CreateKey { project: project.into(), access });
    let (write, read, ping) = (create("one", Access::ReadWrite), create("one", Access::ReadOnly), create("two", Access::Ping));
    assert_eq!((write.len(), read.len(), ping.len()), (32, 32, 22));
    let access = |key: &str| service.handle.state().key_by_hash(&KeyHash::of(key.as_bytes())).map(|key| key.secret.access());
    assert_eq!((access(&write), access(&read), access(&ping)), (Some(Access::ReadWrite), Some(Access::ReadOnly), None));
    let found = service.handle.state().project_by_ping_key(&PingKey::parse(&ping).unwrap());
    assert!(found.is_some());

    let list = |project: Option<&str>, show_ping_keys| service.json(Request::ListKeys { project: project.map(Into::into), show_ping_keys });
    let all = list(None, false);
    assert_eq!(all.matches(r#""created":"2026-09-21T14:13:20+00:00""#).count(), 3);
    assert!(![&write, &read, &ping].into_iter().any(|key| all.contains(key.as_str())));
    let shown = list(None, true);
    assert!(shown.contains(&ping) && !shown.contains(&write) && !shown.contains(&read));
    assert_eq!(list(Some("two"), false), r#"{"keys":[{"id":5,"project":"two","access":"ping","created":"2026-09-21T14:13:20+00:00"}]}"#);

    assert!(matches!(service.ask(Request::RevokeKey { id: 3 }), Reply::Done));
    assert_eq!(access(&write), None);
    assert!(matches!(service.ask(Request::RevokeKey { id: 3 }), Reply::Refused(reason) if reason.contains("no key 3")));
}

#[test]
fn channels_are_named_by_uuid_or_by_a_name_that_only_one_has() {
    let service = Service::new();
    service.project("one");
    service.project("two");
    let first = service.channel("one", "twin");
    let second = service.channel("two", "twin");
    let refused = |request| match service.ask(request) {
        Reply::Refused(reason) => reason,
        _ => panic!("not refused"),
    };
    assert_eq!(
        refused(set_channel(None, "twin", Some("a"), None)),
        format!(r#"2 channels are named "twin"; give the UUID of one: {first}, {second}"#)
    );
    assert!(refused(set_channel(Some("one"), &second, Some("a"), None)).contains("there is no channel"));
    assert!(matches!(service.ask(set_channel(Some("two"), "twin", Some("b"), None)), Reply::Done));
    assert!(matches!(service.ask(set_channel(None, "twin", None, Some(("to", "other@example.org")))), Reply::Done));

    let list = |show_settings| service.json(Request::ListChannels { project: None, show_settings });
    assert_eq!(
        list(true),
        format!(
            r#"{{"channels":[{{"uuid":"{first}","project":"one","kind":"email","name":"twin","settings":{{"to":"other@example.org"}}}},{{"uuid":"{second}","project":"two","kind":"email","name":"b","settings":{{"to":"secret@example.org"}}}}]}}"#
        )
    );
    assert!(!list(false).contains("example.org"));
    let bad = service.ask(set_channel(None, &first, None, Some(("url", "x"))));
    assert!(matches!(bad, Reply::Invalid(reason) if reason.starts_with("settings of kind email")));

    assert!(matches!(service.ask(Request::DeleteChannel { project: None, channel: "twin".into() }), Reply::Done));
    assert!(!list(false).contains(&first) && list(false).contains(&second));
}

#[test]
fn a_service_that_is_stopping_changes_nothing() {
    let service = Service::new();
    service.project("one");
    service.handle.close();
    assert!(matches!(service.ask(Request::DeleteProject { project: "one".into() }), Reply::Refused(reason) if reason.contains("stopping")));
}

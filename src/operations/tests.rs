mod alerts;
mod channel_tests;
mod keys;

use std::future::Future;

use super::*;
use crate::channels;
use crate::domain::channel::{ChannelSettings, SettingsAuthor, SettingsUpdate};
use crate::domain::project::{
    ChannelName, KeyAccess, KeyLabel, PingKey, Project, ProjectName, SecretHash,
};
use crate::domain::timestamp::Timestamp;
use crate::engine::{self, WriterExit};
use crate::store::Medium;
use crate::util::clock::{Clock, ManualClock};
use crate::util::random::Random;

/// An engine in memory for one test.
pub(crate) struct EngineFixture {
    pub(crate) handle: Handle,
    runtime: tokio::runtime::Runtime,
    writer: Option<std::thread::JoinHandle<WriterExit>>,
}

impl EngineFixture {
    pub(crate) fn new() -> Self {
        let clock = Clock::Manual(ManualClock::at(Timestamp::from_secs(1_790_000_000)));
        let config = engine::EngineConfig {
            clock,
            random: Random::seeded(1),
            ..engine::EngineConfig::new(Medium::memory(), 0)
        };
        let (handle, writer) = engine::open(config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        Self {
            handle,
            runtime,
            writer: Some(std::thread::spawn(|| writer.run())),
        }
    }

    /// Runs a future to its end.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn project(&self, name: &str) -> Box<Project> {
        self.run(project::create(
            &self.handle,
            ProjectName::parse(name).unwrap(),
            None,
            100,
        ))
        .unwrap()
    }

    /// Creates a webhook with a secret header and returns its UUID.
    fn channel(&self, project: &Project, name: &str) -> String {
        let settings = ChannelSettings::parse(
            channels::find_kind("webhook").unwrap(),
            [("up-url", "http://a/"), ("header.k", "secret")],
        )
        .unwrap();
        self.run(channel::create(
            &self.handle,
            project.id,
            ChannelName::parse(name).unwrap(),
            settings,
            SettingsAuthor::Operator,
        ))
        .unwrap()
        .uuid
        .to_string()
    }

    /// Finds a channel and changes it.
    fn set(
        &self,
        wanted: &str,
        name: Option<&str>,
        pairs: Option<&[(&str, &str)]>,
    ) -> Result<(), String> {
        let channel =
            channel::find(&self.handle, None, wanted).map_err(|error| error.to_string())?;
        let name = name.map(|name| ChannelName::parse(name).unwrap());
        let pairs = pairs.map(|pairs| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect()
        });
        self.run(channel::update(
            &self.handle,
            channel.id,
            name,
            pairs.map(SettingsUpdate::replace_all),
            SettingsAuthor::Operator,
        ))
        .map(drop)
        .map_err(|error| error.to_string())
    }
}

impl Drop for EngineFixture {
    fn drop(&mut self) {
        self.handle.close();
        assert!(
            self.writer
                .take()
                .is_some_and(|writer| matches!(writer.join(), Ok(WriterExit::Closed)))
        );
    }
}

/// Returns the text of an error.
fn refused<T>(result: Result<T, OperationError>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn projects_are_found_by_uuid_before_name() {
    let service = EngineFixture::new();
    let handle = &service.handle;
    let none = refused(project::find(&service.handle, "one"));
    assert_eq!(
        none,
        r#"there is no project "one" and no other project; `project create` creates one"#
    );
    let one = service.project("one");
    let uuid = one.uuid.to_string();
    let named_like_it = service.project(&uuid);
    for (wanted, found) in [
        ("one", &one),
        (&uuid, &one),
        (&named_like_it.uuid.to_string(), &named_like_it),
    ] {
        assert_eq!(
            project::find(handle, wanted).unwrap().id,
            found.id,
            "{wanted}"
        );
    }
    assert_eq!(
        refused(project::find(handle, "x")),
        format!(r#"there is no project "x"; existing projects: one, {uuid}"#)
    );
    (0..20).for_each(|number| drop(service.project(&number.to_string())));
    assert!(refused(project::find(handle, "x")).ends_with(", 16, 17, ..."));
}

#[test]
fn projects_are_created_changed_and_deleted() {
    let service = EngineFixture::new();
    let handle = &service.handle;
    let one = service.project("one");
    let two = service.project("two");
    assert_ne!((one.uuid, &one.badge_key), (two.uuid, &two.badge_key));
    assert_eq!(one.badge_key.len(), 22);
    let taken = "a project of that name already exists; choose another name";
    let name = |name: &str| Some(ProjectName::parse(name).unwrap());
    for (changes, wanted) in [
        (
            project::ProjectChanges {
                name: name("two"),
                ..Default::default()
            },
            Err(taken),
        ),
        (
            project::ProjectChanges {
                name: name("uno"),
                ..Default::default()
            },
            Ok(("uno", None, 100)),
        ),
        (
            project::ProjectChanges {
                check_limit: Some(Some(3)),
                ping_log_limit: Some(7),
                ..Default::default()
            },
            Ok(("uno", Some(3), 7)),
        ),
        (project::ProjectChanges::default(), Ok(("uno", Some(3), 7))),
        (
            project::ProjectChanges {
                check_limit: Some(None),
                ..Default::default()
            },
            Ok(("uno", None, 7)),
        ),
    ] {
        let done = service
            .run(project::update(handle, one.id, changes))
            .map_err(|error| error.to_string());
        let (now, checks) = project::list(handle).remove(0);
        assert_eq!(
            (done.as_ref().map_err(String::as_str), checks),
            (wanted.map(|_| ()).as_ref().map_err(|error| *error), 0)
        );
        if let Ok(wanted) = wanted {
            assert_eq!(
                (now.name.as_str(), now.check_limit, now.ping_log_limit),
                wanted
            );
        }
    }
    service.run(project::delete(handle, two.id)).unwrap();
    assert_eq!(project::list(handle).len(), 1);
    let gone = "the object has been deleted in the meantime";
    assert_eq!(refused(service.run(project::delete(handle, two.id))), gone);
    assert_eq!(
        refused(service.run(project::update(
            handle,
            two.id,
            project::ProjectChanges::default()
        ))),
        gone
    );
    assert_eq!(
        refused(service.run(key::create(
            handle,
            two.id,
            KeyAccess::Ping,
            KeyLabel::default()
        ))),
        gone
    );
}

#[test]
fn keys_are_shown_once_and_stored_hashed() {
    let service = EngineFixture::new();
    let handle = &service.handle;
    let one = service.project("one");
    let two = service.project("two");
    let create = |project: &Project, access| {
        service
            .run(key::create(handle, project.id, access, KeyLabel::default()))
            .unwrap()
            .1
    };
    let write = create(&one, KeyAccess::ReadWrite);
    let read = create(&one, KeyAccess::ReadOnly);
    let ping = create(&two, KeyAccess::Ping);
    assert_eq!((write.len(), read.len(), ping.len()), (32, 32, 22));
    let access = |key: &str| {
        handle.with_state(|state| {
            state
                .key_by_hash(&SecretHash::of(key.as_bytes()))
                .map(|key| key.secret.access())
        })
    };
    assert_eq!(
        (access(&write), access(&read), access(&ping)),
        (Some(KeyAccess::ReadWrite), Some(KeyAccess::ReadOnly), None)
    );
    assert_eq!(
        handle.with_state(|state| state.project_by_ping_key(&PingKey::parse(&ping).unwrap())),
        Some(two.id)
    );

    let list =
        |project: Option<&Project>| {
            let keys = key::list(handle, project.map(|project| project.id));
            let told = [&write, &read, &ping];
            assert!(keys.iter().all(|(_, key)| key.hint.len() == 4
                && told.iter().any(|told| told.starts_with(&*key.hint))));
            keys.iter()
                .map(|(project, key)| (project.name.as_str().to_owned(), key.secret.access()))
                .collect::<Vec<_>>()
        };
    let of_one = [
        ("one".into(), KeyAccess::ReadWrite),
        ("one".into(), KeyAccess::ReadOnly),
    ];
    let of_two = [("two".into(), KeyAccess::Ping)];
    assert_eq!(
        (list(Some(&one)), list(Some(&two))),
        (of_one.to_vec(), of_two.to_vec())
    );
    assert_eq!(list(None), [&of_one[..], &of_two].concat());

    let id = key::list(handle, None)[0].1.id.0;
    service.run(key::revoke(handle, id)).unwrap();
    assert_eq!(access(&write), None);
    let unknown = format!("there is no key {id}; `key list` lists all keys");
    assert_eq!(refused(service.run(key::revoke(handle, id))), unknown);
}

#[test]
fn channels_are_found_by_uuid_or_by_a_unique_name() {
    let service = EngineFixture::new();
    let handle = &service.handle;
    let one = service.project("one");
    let two = service.project("two");
    let first = service.channel(&one, "twin");
    let second = service.channel(&two, "twin");
    let empty = service.channel(&two, "");
    let ambiguous = format!(
        "2 channels are named \"twin\"; select the project with --project, or give the UUID of \
         one: {first}, {second}"
    );
    let unknown =
        |wanted: &str| format!("there is no channel {wanted:?}; `channel list` lists all channels");
    for (project, wanted, found) in [
        (None, "twin", Err(ambiguous)),
        (Some(&one), "twin", Ok(&first)),
        (Some(&two), "twin", Ok(&second)),
        (None, second.as_str(), Ok(&second)),
        (Some(&one), second.as_str(), Err(unknown(&second))),
        (None, "", Ok(&empty)),
        (None, "Twin", Err(unknown("Twin"))),
    ] {
        let channel = channel::find(handle, project.map(|project| project.id), wanted);
        let channel = channel
            .map(|channel| channel.uuid.to_string())
            .map_err(|error| error.to_string());
        assert_eq!(channel.as_ref(), found.as_ref().copied(), "{wanted}");
    }
    assert_eq!(channel::list(handle, None).len(), 3);
    assert_eq!(channel::list(handle, Some(one.id)).len(), 1);
}

#[test]
fn channels_are_changed_and_deleted() {
    let service = EngineFixture::new();
    let handle = &service.handle;
    let project = service.project("one");
    let uuid = service.channel(&project, "hook");
    let now = || {
        let (_, channel) = channel::list(handle, None).remove(0);
        let pairs: Vec<_> = channel
            .settings
            .pairs()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        format!("{} {}", channel.name.as_str(), pairs.join(" "))
    };
    let url = ("up-url", "http://a/");
    let kept = ("header.k", "***");
    for (name, pairs, wanted) in [
        (
            Some("a"),
            None,
            Ok("a header.k=secret method=GET up-url=http://a/"),
        ),
        (
            None,
            Some(&[url, kept, ("body", "b")][..]),
            Ok("a body=b header.k=secret method=POST up-url=http://a/"),
        ),
        (
            None,
            Some(&[("up-url", "http://b/"), kept]),
            Err("up-url names another server"),
        ),
        (
            Some("x"),
            Some(&[("url", "x")]),
            Err(r#"settings of kind webhook: there is no setting "url""#),
        ),
        (None, Some(&[url]), Ok("a method=GET up-url=http://a/")),
        (Some("hook"), Some(&[url, kept]), Err("none is stored")),
    ] {
        let before = now();
        let done = service.set(&uuid, name, pairs);
        match wanted {
            Ok(wanted) => assert_eq!((done, now().as_str()), (Ok(()), wanted)),
            Err(part) => assert!(
                done.as_ref().is_err_and(|error| error.contains(part)) && now() == before,
                "{part}: {done:?}"
            ),
        }
    }
    let channel = channel::find(handle, None, "a").unwrap();
    service.run(channel::delete(handle, channel.id)).unwrap();
    assert!(channel::list(handle, None).is_empty());
    assert_eq!(
        refused(service.run(channel::delete(handle, channel.id))),
        "the object has been deleted in the meantime"
    );
}

#[test]
fn a_service_that_is_stopping_changes_nothing() {
    let service = EngineFixture::new();
    let project = service.project("one");
    service.handle.close();
    let stopping = refused(service.run(project::delete(&service.handle, project.id)));
    assert_eq!(
        (stopping.as_str(), project::list(&service.handle).len()),
        ("the server is stopping; nothing was changed, try again", 1)
    );
}

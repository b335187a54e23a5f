use uuid::Uuid;

use super::super::fixture::{NOW, add_check, working_state};
use super::super::user::MAX_USERS;
use super::super::window::MAX_WINDOWS;
use super::*;
use crate::channels;
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{SettingsAuthor, SettingsUpdate};
use crate::domain::check::{CheckSettings, CheckState};
use crate::domain::declared::ConfigSource;
use crate::domain::ids::{ChannelId, CheckId, UserId, WindowId};
use crate::domain::import_contents::{
    ImportedChannel, ImportedCheck, ImportedProject, ImportedSettings, ImportedUser, ImportedWindow,
};
use crate::domain::import_item::{ImportItemCounts, ImportMode};
use crate::domain::maintenance_window::WindowTimes;
use crate::domain::project::{BadgeSecret, ChannelName, ProjectName};
use crate::domain::status_page::{
    StatusPage, StatusPageAddress, StatusPageDomain, StatusPageTitle,
};
use crate::domain::text::{Name, Tags};
use crate::domain::user::{Grant, UserName, UserPreferences};
use crate::engine::command::import::ImportFinishOptions;
use crate::engine::command::user::{NewUser, UserCommand};
use crate::engine::command::{Command, NewWindow};

/// UUIDs of the objects that the tests import.
const PROJECT: u128 = 500;
const CHANNEL: u128 = 900;

fn options() -> ImportFinishOptions {
    ImportFinishOptions {
        mode: ImportMode::Trial,
        legacy_secrets: Vec::new(),
        badge_secret: None,
        expected_counts: ImportItemCounts::default(),
        replace: false,
    }
}

fn project(uuid: u128, name: &str, status_pages: Vec<StatusPage>) -> Box<ImportedProject> {
    Box::new(ImportedProject {
        uuid: Uuid::from_u128(uuid),
        name: ProjectName::parse(name).unwrap(),
        badge_key: format!("badge-{uuid}").into(),
        legacy_badge: None,
        check_limit: None,
        ping_log_limit: 5,
        allows_ping_settings: false,
        status_pages,
        keys: Vec::new(),
        channels: Vec::new(),
        windows: Vec::new(),
        checks: Vec::new(),
    })
}

fn check(first: u64, offset: u64) -> ImportItem {
    let number = first + offset;
    ImportItem::Check {
        id: CheckId(number),
        project: ProjectId(first),
        badge: Uuid::from_u128(u128::from(number)),
        check: Box::new(ImportedCheck {
            uuid: Uuid::from_u128(21),
            badge: None,
            created: NOW,
            settings: CheckSettings::default(),
            channels: Box::default(),
            parents: Box::default(),
            state: CheckState::new(NOW),
            down_parent: None,
            managed_by: None,
        }),
    }
}

/// Imports a project, whose number is the first of the import, with other objects.
fn import(
    working: &mut WorkingState,
    project: Box<ImportedProject>,
    others: impl FnOnce(u64) -> Vec<ImportItem>,
    options: ImportFinishOptions,
) -> Result<(), ImportStepError> {
    let first = working.numbers.id;
    let mut objects = vec![ImportItem::Project {
        id: ProjectId(first),
        project,
    }];
    objects.extend(others(first));
    let mut expected_counts = ImportItemCounts::default();
    objects
        .iter()
        .for_each(|object| expected_counts.count(object));
    let import = ImportId(first);
    let steps = [
        ImportStep::Begin {
            object_count: objects.len() as u64,
            check_count: 0,
        },
        ImportStep::Items { import, objects },
        ImportStep::Finish {
            import,
            options: ImportFinishOptions {
                expected_counts,
                ..options
            },
        },
    ];
    for step in steps {
        match working.apply(Command::Import(Box::new(step)), NOW) {
            Ok(_) => {}
            Err(CommandError::Import(refusal)) => {
                let abandon = ImportStep::Abandon { import };
                working
                    .apply(Command::Import(Box::new(abandon)), NOW)
                    .unwrap();
                return Err(refusal);
            }
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
    Ok(())
}

#[test]
fn an_import_has_at_most_a_million_objects() {
    for (object_count, is_refused) in [(MAX_IMPORT_OBJECTS, false), (MAX_IMPORT_OBJECTS + 1, true)]
    {
        let begun = working_state().begin_import(object_count, 0, NOW);
        assert_eq!(begun == Err(ImportStepError::TooLarge), is_refused);
        assert_eq!(begun.is_ok(), !is_refused, "{begun:?}");
    }
}

#[test]
fn an_import_is_idle_from_an_hour_after_its_last_step() {
    let mut working = working_state();
    working.begin_import(1, 0, NOW).unwrap();
    let idle_at = |secs| working.idle_imports(NOW.plus_secs(secs)).len();
    assert_eq!([3_599, 3_600].map(idle_at), [0, 1]);
}

#[test]
fn imported_projects_that_share_a_name_a_uuid_or_a_badge_key_are_refused() {
    let shared_name = project(PROJECT + 1, "Homelab", Vec::new());
    let shared_uuid = Box::new(ImportedProject {
        badge_key: "other".into(),
        ..*project(PROJECT, "Office", Vec::new())
    });
    let shared_badge_key = Box::new(ImportedProject {
        badge_key: format!("badge-{PROJECT}").into(),
        ..*project(PROJECT + 1, "Office", Vec::new())
    });
    for other in [shared_name, shared_uuid, shared_badge_key] {
        let others = |first: u64| {
            let id = ProjectId(first + 1);
            vec![ImportItem::Project { id, project: other }]
        };
        let imported = project(PROJECT, "Homelab", Vec::new());
        let refused = import(&mut working_state(), imported, others, options());
        let Err(ImportStepError::Conflicts(sentences)) = refused else {
            panic!("{refused:?}");
        };
        let expected = "two imported projects share the name, the UUID or the badge key";
        assert!(sentences.iter().any(|text| text.starts_with(expected)));
    }
}

#[test]
fn a_badge_secret_is_adopted_if_only_replaced_projects_have_checks() {
    let mut working = working_state();
    let badge_secret_after_import = |working: &mut WorkingState, byte| {
        let badge_secret = Some(BadgeSecret([byte; 32]));
        let options = ImportFinishOptions {
            badge_secret,
            ..options()
        };
        let imported = project(PROJECT, "Homelab", Vec::new());
        import(working, imported, |first| vec![check(first, 1)], options).unwrap();
        working
            .state
            .badge_secret
            .map(|BadgeSecret(bytes)| bytes[0])
    };
    assert_eq!(badge_secret_after_import(&mut working, 1), Some(1));
    assert_eq!(badge_secret_after_import(&mut working, 2), Some(2));
    add_check(&mut working, 7);
    assert_eq!(badge_secret_after_import(&mut working, 3), Some(2));
}

fn imported_user(id: u64, name: &str, managed_by: Option<&ConfigSource>) -> ImportItem {
    ImportItem::User {
        id: UserId(id),
        uuid: Uuid::from_u128(u128::from(id)),
        user: Box::new(ImportedUser {
            uuid: None,
            name: UserName::parse(name).unwrap(),
            password: None,
            second_factor: None,
            passkeys: Box::default(),
            identity: None,
            owner: true,
            projects: Vec::new(),
            preferences: UserPreferences::default(),
            summary: None,
            disabled: false,
            created: NOW,
            managed_by: managed_by.cloned(),
        }),
    }
}

#[test]
fn an_import_gives_its_source_only_to_users_that_it_creates() {
    let mut working = working_state();
    let name = |name: &str| UserName::parse(name).unwrap();
    let new = NewUser {
        uuid: Uuid::from_u128(1),
        name: name("Ann"),
        password: None,
        grant: Grant::Owner,
    };
    working
        .apply(Command::User(Box::new(UserCommand::Create(new))), NOW)
        .unwrap();
    let source = ConfigSource::parse("file").unwrap();
    let users = |first: u64| {
        vec![
            imported_user(first + 1, "Ann", Some(&source)),
            imported_user(first + 2, "Bob", Some(&source)),
            imported_user(first + 3, "Cid", None),
        ]
    };
    let imported = project(PROJECT, "Homelab", Vec::new());
    import(&mut working, imported, users, options()).unwrap();
    let source_of = |user: &str| {
        let user = working.state.users.by_name(&name(user)).unwrap();
        working.state.managed.source(user.id.0)
    };
    assert_eq!(
        ["Ann", "Bob", "Cid"].map(source_of),
        [None, Some(&source), None]
    );
}

#[test]
fn only_users_that_an_import_creates_count_toward_the_limit() {
    let mut working = working_state();
    let add_user = |working: &mut WorkingState, number: usize| {
        let new = NewUser {
            uuid: Uuid::from_u128(number as u128),
            name: UserName::parse(&format!("user {number}")).unwrap(),
            password: None,
            grant: Grant::Owner,
        };
        let command = UserCommand::Create(new);
        working
            .apply(Command::User(Box::new(command)), NOW)
            .unwrap();
    };
    (1..MAX_USERS).for_each(|number| add_user(&mut working, number));
    let mut import_users = |numbers: [usize; 2]| {
        let users = |first: u64| {
            let names = (first + 1..).zip(numbers);
            let user = |(id, number)| imported_user(id, &format!("user {number}"), None);
            names.map(user).collect()
        };
        let imported = project(PROJECT, "Homelab", Vec::new());
        import(&mut working, imported, users, options())
    };
    let refused = import_users([MAX_USERS, MAX_USERS + 1]);
    assert_eq!(refused, Err(ImportStepError::TooLarge));
    assert_eq!(import_users([1, MAX_USERS]), Ok(()));
}

/// Channel that lacks settings, with these known ones, disabled for a reason.
fn incomplete_channel(kind: &str, settings: &[(&str, &str)], reason: &str) -> Box<ImportedChannel> {
    let settings = settings
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()));
    Box::new(ImportedChannel {
        uuid: Uuid::from_u128(CHANNEL),
        name: ChannelName::parse("phone").unwrap(),
        settings: ImportedSettings::Incomplete {
            kind: channels::find_kind(kind).unwrap(),
            settings: SettingsUpdate::replace_all(settings.collect()),
            missing: Box::new(["token"]),
        },
        set_by_operator: true,
        health: ChannelHealth {
            disabled: Some((NOW, reason.into())),
            ..ChannelHealth::default()
        },
        managed_by: None,
    })
}

/// Imports an [`incomplete_channel`].
fn import_incomplete(
    working: &mut WorkingState,
    kind: &str,
    settings: &[(&str, &str)],
    reason: &str,
) {
    let channel = |first: u64| {
        vec![ImportItem::Channel {
            id: ChannelId(first + 1),
            project: ProjectId(first),
            channel: incomplete_channel(kind, settings, reason),
        }]
    };
    let imported = project(PROJECT, "Homelab", Vec::new());
    import(working, imported, channel, options()).unwrap();
}

#[test]
fn the_size_of_a_channel_that_lacks_settings_includes_the_known_settings() {
    let bytes = |settings: &[(&str, &str)], reason: &str| {
        let channel = ImportItem::Channel {
            id: ChannelId(1),
            project: ProjectId(1),
            channel: incomplete_channel("telegram", settings, reason),
        };
        channel.approximate_bytes()
    };
    let long = "x".repeat(1_000);
    let least = bytes(&[], "");
    assert_eq!(bytes(&[("chat", &long)], ""), least + 1_004);
    assert_eq!(bytes(&[("chat", "")], &long), least + 1_004);
}

/// Number of the imported channel, and its kind, its settings without those with a default and
/// the reason for which it is disabled.
fn imported_channel(working: &WorkingState) -> (ChannelId, String) {
    let mut channels = working
        .state
        .projects()
        .flat_map(|project_state| project_state.channels.values());
    let channel = channels
        .find(|channel| channel.uuid == Uuid::from_u128(CHANNEL))
        .unwrap();
    let pairs: Vec<_> = channel
        .settings
        .pairs()
        .filter(|(key, _)| ["chat", "token", "user"].contains(key))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let disabled = channel.health.disabled.as_ref();
    let reason = disabled.map_or("enabled", |(_, reason)| reason);
    let kind = channel.settings.kind().name;
    (channel.id, format!("{kind} {} {reason}", pairs.join(" ")))
}

#[test]
fn an_incomplete_channel_keeps_settings_only_if_it_was_completed_here_and_has_the_same_kind() {
    const MISSING: &str = "imported without token";
    const INCOMPLETE: &[(&str, &str)] = &[("chat", "12")];
    let later = [("chat", "13")];
    for (settings, reason, is_completed, kind, later, expected) in [
        (
            INCOMPLETE,
            MISSING,
            true,
            "telegram",
            later,
            "telegram chat=12 token=1:a enabled",
        ),
        (
            INCOMPLETE,
            MISSING,
            false,
            "telegram",
            later,
            "telegram chat=13 imported without token",
        ),
        // It lacks a setting that is not required.
        (
            &[("chat", "12"), ("token", "1:a")],
            MISSING,
            false,
            "telegram",
            later,
            "telegram chat=13 imported without token",
        ),
        (
            INCOMPLETE,
            "refused",
            false,
            "telegram",
            later,
            "telegram chat=13 imported without token",
        ),
        (
            INCOMPLETE,
            MISSING,
            true,
            "pushover",
            [("user", "u")],
            "po user=u imported without token",
        ),
    ] {
        let mut working = working_state();
        import_incomplete(&mut working, "telegram", settings, reason);
        if is_completed {
            let update = Command::UpdateChannel {
                channel: imported_channel(&working).0,
                name: None,
                settings: Some(SettingsUpdate::merge(vec![("token".into(), "1:a".into())])),
                author: SettingsAuthor::Operator,
            };
            working.apply(update, NOW).unwrap();
        }
        import_incomplete(&mut working, kind, &later, MISSING);
        let (_, found) = imported_channel(&working);
        assert_eq!(found, expected, "{settings:?} {reason} {is_completed}");
    }
}

fn page(uuid: u128, address: &str, domain: Option<&str>) -> StatusPage {
    StatusPage {
        uuid: Uuid::from_u128(uuid),
        address: StatusPageAddress::parse(address).unwrap(),
        title: StatusPageTitle::parse("Jobs").unwrap(),
        tags: Tags::default(),
        domain: domain.map(|domain| StatusPageDomain::parse(domain).unwrap()),
    }
}

#[test]
fn a_status_page_has_a_uuid_an_address_and_a_domain_of_its_own() {
    let mut working = working_state();
    let mut import_pages = |uuid: u128, name: &str, pages: Vec<StatusPage>| {
        import(
            &mut working,
            project(uuid, name, pages),
            |_| vec![],
            options(),
        )
    };
    let domain = Some("status.example.org");
    let existing = vec![page(1, "jobs", domain), page(2, "dumps", None)];
    assert_eq!(import_pages(PROJECT, "Homelab", existing.clone()), Ok(()));
    let conflict = ImportStepError::Conflicts(vec![
        "another status page has the UUID, the address or the domain of \"Jobs\" in the project \
         \"Other\""
            .into(),
    ]);
    for pages in [
        vec![page(2, "logs", None)],
        vec![page(3, "jobs", None)],
        vec![page(3, "logs", domain)],
        vec![page(3, "logs", None), page(3, "tests", None)],
        vec![page(3, "logs", None), page(4, "logs", None)],
    ] {
        let refused = import_pages(501, "Other", pages.clone());
        assert_eq!(refused.as_ref(), Err(&conflict), "{pages:?}");
    }
    let others = vec![page(3, "logs", None), page(4, "tests", None)];
    assert_eq!(import_pages(501, "Other", others), Ok(()));
    // An import that replaces the project has the same pages.
    assert_eq!(import_pages(PROJECT, "Homelab", existing), Ok(()));
}

#[test]
fn imported_windows_and_those_created_here_count_together() {
    let mut working = working_state();
    let times = WindowTimes::Once {
        from: NOW,
        to: NOW.plus_secs(60),
    };
    let name = Name::parse("move").unwrap();
    let import_windows = |working: &mut WorkingState, count: usize| {
        let windows = |first: u64| {
            let window = |offset| ImportItem::Window {
                id: WindowId(first + offset),
                project: ProjectId(first),
                window: Box::new(ImportedWindow {
                    uuid: Uuid::from_u128(1_000 + u128::from(offset)),
                    name: name.clone(),
                    tags: Tags::default(),
                    times: times.clone(),
                    managed_by: None,
                }),
            };
            (1..=count as u64).map(window).collect()
        };
        let imported = project(PROJECT, "Homelab", Vec::new());
        import(working, imported, windows, options())
    };
    assert_eq!(import_windows(&mut working, MAX_WINDOWS - 1), Ok(()));
    let imported = working.state.projects().map(|state| &state.project);
    let project = imported
        .map(|project| (project.uuid, project.id))
        .find_map(|(uuid, id)| (uuid == Uuid::from_u128(PROJECT)).then_some(id));
    let new = NewWindow {
        uuid: Uuid::from_u128(1),
        project: project.unwrap(),
        name: name.clone(),
        tags: Tags::default(),
        times: times.clone(),
    };
    working
        .apply(Command::CreateWindow(Box::new(new)), NOW)
        .unwrap();
    assert_eq!(import_windows(&mut working, MAX_WINDOWS - 1), Ok(()));
    assert_eq!(
        import_windows(&mut working, MAX_WINDOWS),
        Err(ImportStepError::Invalid(
            "the project \"Homelab\" would have more than 200 maintenance windows".into()
        ))
    );
}

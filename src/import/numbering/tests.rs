use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::channels;
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::SettingsUpdate;
use crate::domain::check::{CheckSettings, CheckState};
use crate::domain::import_contents::{
    ImportedChannel, ImportedCheck, ImportedKey, ImportedKeySecret, ImportedSettings, ImportedUser,
    ImportedWindow,
};
use crate::domain::maintenance_window::WindowTimes;
use crate::domain::project::{ChannelName, KeyLabel, KeySecret, ProjectName, SecretHash};
use crate::domain::text::{Name, Tags};
use crate::domain::timestamp::Timestamp;
use crate::domain::user::{UserName, UserPreferences};

/// Returns a project with these numbers of keys, channels, windows and checks. It has only the
/// fields that numbering needs. All UUIDs derive from that of the project.
fn project(place: usize, [keys, channels, windows, checks]: [usize; 4]) -> ImportedProject {
    let uuid = |kind: u128, number: usize| {
        Uuid::from_u128((place as u128) << 64 | kind << 32 | number as u128)
    };
    let key = |number: usize| {
        let hash = [number as u8; 32];
        let secret = ImportedKeySecret::Native(KeySecret::ReadWrite(SecretHash(hash)));
        let hint = number.to_string().into();
        ImportedKey {
            secret,
            hint,
            label: KeyLabel::default(),
            created: None,
            last_use: None,
            managed_by: None,
        }
    };
    let channel = |number| {
        let kind = channels::find_kind("email").unwrap();
        let settings = ImportedSettings::Incomplete {
            kind,
            settings: SettingsUpdate::replace_all(Vec::new()),
            missing: Box::new(["to"]),
        };
        let name = ChannelName::parse("a").unwrap();
        let health = ChannelHealth::default();
        ImportedChannel {
            uuid: uuid(1, number),
            name,
            settings,
            set_by_operator: true,
            health,
            managed_by: None,
        }
    };
    let window = |number| {
        let times = WindowTimes::Once {
            from: Timestamp::from_secs(1),
            to: Timestamp::from_secs(2),
        };
        ImportedWindow {
            uuid: uuid(3, number),
            name: Name::default(),
            tags: Tags::default(),
            times,
            managed_by: None,
        }
    };
    let check = |number| {
        let created = Timestamp::from_secs(1);
        let settings = CheckSettings::default();
        let state = CheckState::new(created);
        let channels = Box::default();
        let parents = Box::default();
        ImportedCheck {
            uuid: uuid(2, number),
            badge: None,
            created,
            settings,
            channels,
            parents,
            state,
            down_parent: None,
            managed_by: None,
        }
    };
    ImportedProject {
        uuid: uuid(0, 0),
        name: ProjectName::parse(&format!("project {place}")).unwrap(),
        badge_key: "b".into(),
        legacy_badge: None,
        check_limit: None,
        ping_log_limit: 100,
        allows_ping_settings: false,
        status_pages: Vec::new(),
        keys: (0..keys).map(key).collect(),
        channels: (0..channels).map(channel).collect(),
        windows: (0..windows).map(window).collect(),
        checks: (0..checks).map(check).collect(),
    }
}

fn user(place: usize) -> ImportedUser {
    let name = UserName::parse(&format!("user {place}")).unwrap();
    let created = Timestamp::from_secs(1);
    let projects = Vec::new();
    let preferences = UserPreferences::default();
    ImportedUser {
        uuid: None,
        name,
        password: None,
        second_factor: None,
        passkeys: [].into(),
        identity: None,
        owner: true,
        projects,
        preferences,
        summary: None,
        disabled: false,
        created,
        managed_by: None,
    }
}

/// Returns the kind of an item, by its order within a project, and its name.
fn called(staged: &ImportItem) -> (u8, String) {
    match staged {
        ImportItem::Project { project, .. } => (0, project.uuid.to_string()),
        ImportItem::Key { key, .. } => (1, key.hint.to_string()),
        ImportItem::Channel { channel, .. } => (2, channel.uuid.to_string()),
        ImportItem::Window { window, .. } => (3, window.uuid.to_string()),
        ImportItem::Check { check, .. } => (4, check.uuid.to_string()),
        ImportItem::User { user, .. } => (5, user.name.as_str().into()),
    }
}

/// Returns the names of all contents in their own order.
fn names(imported: &ImportContents) -> Vec<(u8, String)> {
    let mut names = Vec::new();
    for project in &imported.projects {
        names.push((0, project.uuid.to_string()));
        names.extend(project.keys.iter().map(|key| (1, key.hint.to_string())));
        names.extend(
            project
                .channels
                .iter()
                .map(|channel| (2, channel.uuid.to_string())),
        );
        names.extend(
            project
                .windows
                .iter()
                .map(|window| (3, window.uuid.to_string())),
        );
        names.extend(
            project
                .checks
                .iter()
                .map(|check| (4, check.uuid.to_string())),
        );
    }
    names.extend(
        imported
            .users
            .iter()
            .map(|user| (5, user.name.as_str().into())),
    );
    names
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Every item gets a number from `first` on, each exactly once, in the order of the contents.
    /// `check_ids` returns the same numbers for checks.
    #[test]
    fn every_item_gets_the_next_number(
        sizes in prop::collection::vec(prop::array::uniform4(0..5_usize), 0..5),
        users in 0..4_usize,
        first in 1..u64::MAX / 2,
    ) {
        let projects = sizes
            .iter()
            .enumerate()
            .map(|(index, sizes)| project(index, *sizes))
            .collect();
        let imported = ImportContents {
            projects,
            users: (0..users).map(user).collect(),
            ..ImportContents::default()
        };
        let count = count_ids(&imported);
        let checks = check_ids(&imported, first);
        let names = names(&imported);
        let staged = number_items(imported, first, &Random::seeded(1));
        let numbers: Vec<_> = staged.iter().map(ImportItem::number).collect();
        prop_assert_eq!(numbers, (first..first + count).collect::<Vec<_>>());
        prop_assert_eq!(staged.iter().map(called).collect::<Vec<_>>(), names);
        let mut found = HashMap::new();
        let mut project = ProjectId(0);
        let mut drawn = BTreeSet::new();
        for thing in &staged {
            match thing {
                ImportItem::Project { id, project: item } => {
                    prop_assert!(item.keys.is_empty() && item.channels.is_empty());
                    prop_assert!(item.windows.is_empty() && item.checks.is_empty());
                    project = *id;
                }
                ImportItem::Key { project: of, .. }
                | ImportItem::Channel { project: of, .. }
                | ImportItem::Window { project: of, .. } => {
                    prop_assert_eq!(*of, project);
                }
                ImportItem::Check { id, project: of, badge, check } => {
                    prop_assert_eq!(*of, project);
                    prop_assert!(drawn.insert(*badge));
                    found.insert(check.uuid, *id);
                }
                ImportItem::User { uuid, .. } => prop_assert!(drawn.insert(*uuid)),
            }
        }
        prop_assert_eq!(found, checks);
    }
}

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{ChannelKind, GivenSettings};
use crate::domain::check::{CheckState, Settings};
use crate::domain::imported::{
    ImportedChannel, ImportedCheck, ImportedKey, ImportedSecret, ImportedSettings, ImportedUser, ImportedWindow,
};
use crate::domain::moment::Moment;
use crate::domain::project::{ChannelName, KeyHash, KeyLabel, ProjectName, Secret};
use crate::domain::text::{Name, Tags};
use crate::domain::user::{Taste, UserName};
use crate::domain::window::WindowTimes;

/// As much as a project of so many keys, channels, windows and checks, whose UUIDs follow from its own, needs to be numbered.
fn project(place: usize, [keys, channels, windows, checks]: [usize; 4]) -> ImportedProject {
    let uuid = |kind: u128, number: usize| Uuid::from_u128((place as u128) << 64 | kind << 32 | number as u128);
    let key = |number: usize| {
        let hash = [number as u8; 32];
        let (secret, hint) = (ImportedSecret::Own(Secret::ReadWrite(KeyHash(hash))), number.to_string().into());
        ImportedKey { secret, hint, label: KeyLabel::default(), created: None, used: None, managed: None }
    };
    let channel = |number| {
        let kind = ChannelKind::named("email").unwrap();
        let settings = ImportedSettings::Incomplete { kind, given: GivenSettings::new(Vec::new()), lacks: Box::new(["to"]) };
        let (name, health) = (ChannelName::parse("a").unwrap(), ChannelHealth::default());
        ImportedChannel { uuid: uuid(1, number), name, settings, operator: true, health, managed: None }
    };
    let window = |number| {
        let times = WindowTimes::Once { from: Moment::from_secs(1), to: Moment::from_secs(2) };
        ImportedWindow { uuid: uuid(3, number), name: Name::default(), tags: Tags::default(), times, managed: None }
    };
    let check = |number| {
        let created = Moment::from_secs(1);
        let (settings, state) = (Settings::default(), CheckState::new(created));
        let (channels, parents) = (Box::default(), Box::default());
        ImportedCheck { uuid: uuid(2, number), badge: None, created, settings, channels, parents, state, behind: None, managed: None }
    };
    ImportedProject {
        uuid: uuid(0, 0),
        name: ProjectName::parse(&format!("project {place}")).unwrap(),
        badge_key: "b".into(),
        old_badge: None,
        check_limit: None,
        ping_log_limit: 100,
        keys: (0..keys).map(key).collect(),
        channels: (0..channels).map(channel).collect(),
        windows: (0..windows).map(window).collect(),
        checks: (0..checks).map(check).collect(),
    }
}

fn user(place: usize) -> ImportedUser {
    let (name, created) = (UserName::parse(&format!("user {place}")).unwrap(), Moment::from_secs(1));
    let (projects, taste) = (Vec::new(), Taste::default());
    ImportedUser { uuid: None, name, password: None, second: None, owner: true, projects, taste, disabled: false, created, managed: None }
}

/// What a thing is, in the order in which things of one project come, and what it is called there.
fn called(staged: &Staged) -> (u8, String) {
    match staged {
        Staged::Project { project, .. } => (0, project.uuid.to_string()),
        Staged::Key { key, .. } => (1, key.hint.to_string()),
        Staged::Channel { channel, .. } => (2, channel.uuid.to_string()),
        Staged::Window { window, .. } => (3, window.uuid.to_string()),
        Staged::Check { check, .. } => (4, check.uuid.to_string()),
        Staged::User { user, .. } => (5, user.name.as_str().into()),
    }
}

/// What all of it is called, in its own order.
fn names(imported: &Imported) -> Vec<(u8, String)> {
    let mut names = Vec::new();
    for project in &imported.projects {
        names.push((0, project.uuid.to_string()));
        names.extend(project.keys.iter().map(|key| (1, key.hint.to_string())));
        names.extend(project.channels.iter().map(|channel| (2, channel.uuid.to_string())));
        names.extend(project.windows.iter().map(|window| (3, window.uuid.to_string())));
        names.extend(project.checks.iter().map(|check| (4, check.uuid.to_string())));
    }
    names.extend(imported.users.iter().map(|user| (5, user.name.as_str().into())));
    names
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The numbers are those from the first on, each once, in the order of what was read; checks have the same ones wherever they are asked for.
    #[test]
    fn everything_gets_the_next_number(
        sizes in prop::collection::vec(prop::array::uniform4(0..5_usize), 0..5), users in 0..4_usize, first in 1..u64::MAX / 2,
    ) {
        let projects = sizes.iter().enumerate().map(|(place, sizes)| project(place, *sizes)).collect();
        let imported = Imported { projects, users: (0..users).map(user).collect(), ..Imported::default() };
        let (count, checks, names) = (count(&imported), checks(&imported, first), names(&imported));
        let staged = staged(imported, first, &Random::seeded(1));
        prop_assert_eq!(staged.iter().map(Staged::number).collect::<Vec<_>>(), (first..first + count).collect::<Vec<_>>());
        prop_assert_eq!(staged.iter().map(called).collect::<Vec<_>>(), names);
        let mut found = HashMap::new();
        let (mut project, mut drawn) = (ProjectId(0), BTreeSet::new());
        for thing in &staged {
            match thing {
                Staged::Project { id, project: own } => {
                    prop_assert!(own.keys.is_empty() && own.channels.is_empty() && own.windows.is_empty() && own.checks.is_empty());
                    project = *id;
                }
                Staged::Key { project: of, .. } | Staged::Channel { project: of, .. } | Staged::Window { project: of, .. } => {
                    prop_assert_eq!(*of, project);
                }
                Staged::Check { id, project: of, badge, check } => {
                    prop_assert_eq!(*of, project);
                    prop_assert!(drawn.insert(*badge));
                    found.insert(check.uuid, *id);
                }
                Staged::User { uuid, .. } => prop_assert!(drawn.insert(*uuid)),
            }
        }
        prop_assert_eq!(found, checks);
    }
}

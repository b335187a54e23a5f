//! Numbers of imported objects. Their order depends only on the contents: for each project the
//! project itself, then its keys, channels, windows and checks, oldest first; then users.

use std::collections::HashMap;

use uuid::Uuid;

use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::import_contents::{ImportContents, ImportedProject};
use crate::domain::import_item::ImportItem;
use crate::util::random::Random;

/// Returns the number of IDs that the contents need.
pub fn count_ids(imported: &ImportContents) -> u64 {
    imported.projects.iter().map(count_project_ids).sum::<u64>() + imported.users.len() as u64
}

fn count_project_ids(project: &ImportedProject) -> u64 {
    count_ids_before_checks(project) + project.checks.len() as u64
}

fn count_ids_before_checks(project: &ImportedProject) -> u64 {
    1 + (project.keys.len() + project.channels.len() + project.windows.len()) as u64
}

/// Returns the numbers of the checks by their UUIDs.
pub fn check_ids(imported: &ImportContents, first: u64) -> HashMap<Uuid, CheckId> {
    let mut numbers = HashMap::with_capacity(
        imported
            .projects
            .iter()
            .map(|project| project.checks.len())
            .sum(),
    );
    let mut next = first;
    for project in &imported.projects {
        let number = next + count_ids_before_checks(project);
        numbers.extend(
            (number..)
                .zip(&project.checks)
                .map(|(number, check)| (check.uuid, CheckId(number))),
        );
        next += count_project_ids(project);
    }
    numbers
}

/// Assigns numbers from `first` on to all contents. Draws UUIDs that the source does not have.
pub fn number_items(imported: ImportContents, first: u64, random: &Random) -> Vec<ImportItem> {
    let mut staged = Vec::new();
    let mut next = first..;
    let mut number = || next.next().unwrap_or(u64::MAX);
    for mut project in imported.projects {
        let keys = std::mem::take(&mut project.keys);
        let channels = std::mem::take(&mut project.channels);
        let windows = std::mem::take(&mut project.windows);
        let checks = std::mem::take(&mut project.checks);
        let id = ProjectId(number());
        staged.push(ImportItem::Project {
            id,
            project: Box::new(project),
        });
        staged.extend(keys.into_iter().map(|key| ImportItem::Key {
            id: KeyId(number()),
            project: id,
            key,
        }));
        staged.extend(channels.into_iter().map(|channel| ImportItem::Channel {
            id: ChannelId(number()),
            project: id,
            channel: channel.into(),
        }));
        let windows = windows
            .into_iter()
            .map(|window| (WindowId(number()), Box::new(window)));
        staged.extend(windows.map(|(window_id, window)| ImportItem::Window {
            id: window_id,
            project: id,
            window,
        }));
        let checks = checks.into_iter().map(|check| (CheckId(number()), check));
        staged.extend(checks.map(|(check_id, check)| ImportItem::Check {
            id: check_id,
            project: id,
            badge: random.uuid(),
            check: check.into(),
        }));
    }
    let users = imported
        .users
        .into_iter()
        .map(|user| (UserId(number()), user));
    staged.extend(users.map(|(id, user)| ImportItem::User {
        id,
        uuid: user.uuid.unwrap_or_else(|| random.uuid()),
        user: user.into(),
    }));
    staged
}

#[cfg(test)]
mod tests;

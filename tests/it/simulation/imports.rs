//! Imports in the mix: what is handed over waits where nobody sees it, is shown all at once, and is
//! forgotten with the engine's memory.

use std::collections::BTreeMap;

use bytes::Bytes;
use overdue::domain::check::{CheckSettings, CheckState};
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::import_contents::{ImportedCheck, ImportedProject};
use overdue::domain::import_item::{
    ImportId, ImportItem, ImportItemCounts, ImportMode, NumberedPing,
};
use overdue::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use overdue::domain::project::ProjectName;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::import::{ImportFinishOptions, ImportStep, ImportStepError};
use overdue::engine::command::{CheckUuids, Command, CommandError};
use uuid::Uuid;

use super::model::{self, ExpectedAnswer, Model, ModelProject};
use super::replay::LoggedPing;
use crate::support::seeded_rng::SeededRng;

/// Long before every simulation.
const CREATED: Timestamp = Timestamp::from_secs(1_400_000_000);
/// Microseconds without news after which one is abandoned.
const IDLE: i64 = 3600 * 1_000_000;
/// Projects that are imported, again and again.
const SOURCE_COUNT: u64 = 3;

/// One under way.
#[derive(Clone)]
pub(crate) struct ModelImport {
    ids: u64,
    last: i64,
    pings: Vec<(NumberedPing, i64)>,
    objects: Vec<ImportItem>,
}

#[derive(Clone, Default)]
pub(crate) struct ModelImports(BTreeMap<u64, ModelImport>);

impl ModelImports {
    /// Those of which nothing has come for an hour end.
    pub(crate) fn abandon_idle(&mut self, now: i64) {
        self.0.retain(|_, staging| staging.last + IDLE > now);
    }
}

/// Some step of an import.
pub(crate) fn random_command(dice: &SeededRng, model: &Model, few: bool) -> Command {
    let under_way: Vec<_> = model.stagings.0.iter().collect();
    let command = match under_way.as_slice() {
        [.., (import, staging)] if !dice.chance(15) => next_step(dice, **import, staging, few),
        // Mostly one that is not there.
        _ if dice.chance(10) => ImportStep::Abandon {
            import: ImportId(dice.below(40)),
        },
        _ => ImportStep::Begin {
            ids: 1 + dice.below(3),
            checks: dice.below(3),
        },
    };
    Command::Import(Box::new(command))
}

fn next_step(dice: &SeededRng, first: u64, staging: &ModelImport, few: bool) -> ImportStep {
    let import = ImportId(first);
    if staging.objects.is_empty() {
        if staging.ids > 1 && dice.chance(60) {
            return ImportStep::Log {
                import,
                pings: pings(dice, first, staging.ids),
                flips: Vec::new(),
            };
        }
        return ImportStep::Items {
            import,
            objects: objects(dice, first, staging),
        };
    }
    let mut expected = ImportItemCounts {
        pings: staging.pings.len() as u64,
        ..ImportItemCounts::default()
    };
    staging
        .objects
        .iter()
        .for_each(|object| expected.count(object));
    let mode = ImportMode::Live { newest: None };
    let ending = ImportFinishOptions {
        mode,
        legacy_secrets: Vec::new(),
        badge_secret: None,
        expected_counts: expected,
        replace: true,
    };
    if few && dice.chance(80) {
        if dice.chance(20) {
            ImportStep::DryRun { import, ending }
        } else {
            ImportStep::Finish { import, ending }
        }
    } else {
        ImportStep::Abandon { import }
    }
}

/// Pings of the checks, which have all numbers but the first.
fn pings(dice: &SeededRng, first: u64, ids: u64) -> Vec<NumberedPing> {
    let check = CheckId(first + 1 + dice.below(ids - 1));
    let origin = PingOrigin {
        scheme: PingScheme::Http,
        method: PingMethod::Put,
        remote_addr: None,
        user_agent: "".into(),
    };
    let body = |n| {
        if dice.chance(50) {
            Vec::new()
        } else {
            vec![n as u8; dice.pick(&[1, 50, 400])]
        }
    };
    let at = |n| Timestamp::from_secs(CREATED.secs() + n as i64);
    let ping = |n| NumberedPing {
        check,
        n,
        at: at(n),
        kind: PingKind::Log,
        origin: origin.clone(),
        rid: None,
        exit_status: None,
        body: body(n).into(),
    };
    if dice.chance(20) {
        // It goes in pieces.
        return vec![NumberedPing {
            body: dice.random().bytes::<7000>().to_vec().into(),
            ..ping(1)
        }];
    }
    // The same again takes their place.
    (1..=1 + dice.below(6)).map(ping).collect()
}

fn objects(dice: &SeededRng, first: u64, staging: &ModelImport) -> Vec<ImportItem> {
    let source = dice.below(SOURCE_COUNT);
    let project = ImportedProject {
        uuid: Uuid::from_u128(1 + u128::from(source)),
        name: ProjectName::parse(&format!("source {source}")).unwrap(),
        badge_key: format!("source-{source}").into(),
        legacy_badge: None,
        check_limit: None,
        ping_log_limit: 1 + dice.below(8) as u32,
        keys: Vec::new(),
        channels: Vec::new(),
        windows: Vec::new(),
        checks: Vec::new(),
    };
    let id = ProjectId(first);
    let check = |number: u64| {
        let n_pings = staging
            .pings
            .iter()
            .filter(|(ping, _)| ping.check.0 == number)
            .map(|(ping, _)| ping.n)
            .max()
            .unwrap_or(0);
        let state = CheckState {
            n_pings,
            ..CheckState::new(CREATED)
        };
        let uuid = dice.random().uuid();
        let badge = dice.random().uuid();
        let settings = CheckSettings::default();
        let badge_here = Some(badge);
        let channels = Box::default();
        let parents = Box::default();
        let behind = None;
        let managed = None;
        let check = ImportedCheck {
            uuid,
            badge: badge_here,
            created: CREATED,
            settings,
            channels,
            parents,
            state,
            down_parent: behind,
            managed_by: managed,
        };
        ImportItem::Check {
            id: CheckId(number),
            project: id,
            badge,
            check: Box::new(check),
        }
    };
    let checks = (first + 1..first + staging.ids).map(check);
    std::iter::once(ImportItem::Project {
        id,
        project: Box::new(project),
    })
    .chain(checks)
    .collect()
}

impl Model {
    pub(crate) fn stage(
        &mut self,
        command: &ImportStep,
        now: i64,
    ) -> Result<ExpectedAnswer, CommandError> {
        let unknown = || CommandError::Import(ImportStepError::UnknownImport);
        match command {
            ImportStep::Begin { .. } if self.stagings.0.len() >= 4 => {
                return Err(CommandError::Import(ImportStepError::TooManyImports));
            }
            ImportStep::Begin { ids, .. } => {
                let staging = ModelImport {
                    ids: *ids,
                    last: now,
                    pings: Vec::new(),
                    objects: Vec::new(),
                };
                self.stagings.0.insert(self.last_number + 1, staging);
                self.last_number += ids;
            }
            ImportStep::Log { import, pings, .. } => {
                let staging = self.stagings.0.get_mut(&import.0).ok_or_else(unknown)?;
                staging.last = now;
                staging
                    .pings
                    .extend(pings.iter().map(|ping| (ping.clone(), now)));
            }
            ImportStep::Items { import, objects } => {
                let staging = self.stagings.0.get_mut(&import.0).ok_or_else(unknown)?;
                staging.last = now;
                staging.objects.extend(objects.iter().cloned());
            }
            ImportStep::Abandon { import } => {
                self.stagings.0.remove(&import.0).ok_or_else(unknown)?;
            }
            ImportStep::DryRun { import, .. } => {
                self.stagings.0.get(&import.0).ok_or_else(unknown)?;
            }
            ImportStep::Finish { import, .. } => {
                let staging = self.stagings.0.remove(&import.0).ok_or_else(unknown)?;
                self.show(&staging);
            }
            ImportStep::EndTrial(_) => {}
        }
        Ok(ExpectedAnswer::Done)
    }

    fn show(&mut self, staging: &ModelImport) {
        let mut target = 0;
        for object in &staging.objects {
            match object {
                ImportItem::Project { id, project } => {
                    let before = self
                        .projects
                        .iter()
                        .find(|(_, own)| own.source == Some(project.uuid))
                        .map(|(id, _)| *id);
                    target = before.unwrap_or(id.0);
                    self.checks.retain(|_, check| check.project != target);
                    let name = project.name.as_str().into();
                    let log_limit = project.ping_log_limit.into();
                    self.projects.insert(
                        target,
                        ModelProject {
                            name,
                            check_limit: None,
                            log_limit,
                            source: Some(project.uuid),
                        },
                    );
                }
                ImportItem::Check { id, check, .. } => {
                    let names = CheckUuids {
                        uuid: check.uuid,
                        badge: check.badge.unwrap(),
                    };
                    let mut log = BTreeMap::new();
                    for (ping, now) in staging.pings.iter().filter(|(ping, _)| ping.check == *id) {
                        let body = Bytes::copy_from_slice(&ping.body);
                        let at = ping.at.micros().min(*now);
                        let n = ping.n;
                        let kind = ping.kind;
                        let method = ping.origin.method;
                        log.insert(
                            n,
                            LoggedPing {
                                n,
                                at,
                                kind,
                                method,
                                rid: None,
                                exit: None,
                                body,
                            },
                        );
                    }
                    let check = model::ModelCheck::imported(
                        names,
                        target,
                        CREATED.micros(),
                        log.into_values().collect(),
                    );
                    self.checks.insert(id.0, check);
                }
                ImportItem::Key { .. }
                | ImportItem::Channel { .. }
                | ImportItem::Window { .. }
                | ImportItem::User { .. } => {}
            }
        }
    }
}

//! Random imports and their model. An import is invisible until it is finished, becomes visible at
//! once, and is lost with the engine's memory.

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

/// A time long before each simulation.
const CREATED: Timestamp = Timestamp::from_secs(1_400_000_000);
/// Idle time in microseconds after which an import is abandoned.
const IDLE: i64 = 3600 * 1_000_000;
/// Number of source projects, each imported several times.
const SOURCE_COUNT: u64 = 3;

/// An open import.
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
    /// Abandons imports that were idle for an hour.
    pub(crate) fn abandon_idle(&mut self, now: i64) {
        self.0
            .retain(|_, import_state| import_state.last + IDLE > now);
    }
}

/// Returns a random step of an import.
pub(crate) fn random_command(rng: &SeededRng, model: &Model, may_finish: bool) -> Command {
    let open_imports: Vec<_> = model.imports.0.iter().collect();
    let command = match open_imports.as_slice() {
        [.., (import, import_state)] if !rng.chance(15) => {
            next_step(rng, **import, import_state, may_finish)
        }
        // Mostly an import that does not exist.
        _ if rng.chance(10) => ImportStep::Abandon {
            import: ImportId(rng.below(40)),
        },
        _ => ImportStep::Begin {
            object_count: 1 + rng.below(3),
            check_count: rng.below(3),
        },
    };
    Command::Import(Box::new(command))
}

fn next_step(
    rng: &SeededRng,
    first: u64,
    import_state: &ModelImport,
    may_finish: bool,
) -> ImportStep {
    let import = ImportId(first);
    if import_state.objects.is_empty() {
        if import_state.ids > 1 && rng.chance(60) {
            return ImportStep::Log {
                import,
                pings: pings(rng, first, import_state.ids),
                flips: Vec::new(),
            };
        }
        return ImportStep::Items {
            import,
            objects: objects(rng, first, import_state),
        };
    }
    let mut expected = ImportItemCounts {
        pings: import_state.pings.len() as u64,
        ..ImportItemCounts::default()
    };
    import_state
        .objects
        .iter()
        .for_each(|object| expected.count(object));
    let mode = ImportMode::Live { newest: None };
    let options = ImportFinishOptions {
        mode,
        legacy_secrets: Vec::new(),
        badge_secret: None,
        expected_counts: expected,
        replace: true,
    };
    if may_finish && rng.chance(80) {
        if rng.chance(20) {
            ImportStep::DryRun { import, options }
        } else {
            ImportStep::Finish { import, options }
        }
    } else {
        ImportStep::Abandon { import }
    }
}

/// Returns pings of a check of the import, whose checks have all of its IDs but the first.
fn pings(rng: &SeededRng, first: u64, ids: u64) -> Vec<NumberedPing> {
    let check = CheckId(first + 1 + rng.below(ids - 1));
    let origin = PingOrigin {
        scheme: PingScheme::Http,
        method: PingMethod::Put,
        remote_addr: None,
        user_agent: "".into(),
    };
    let body = |n| {
        if rng.chance(50) {
            Vec::new()
        } else {
            vec![n as u8; rng.pick(&[1, 50, 400])]
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
    if rng.chance(20) {
        // A body that is stored in several chunks.
        return vec![NumberedPing {
            body: rng.random().bytes::<7000>().to_vec().into(),
            ..ping(1)
        }];
    }
    // Pings with the same number replace these.
    (1..=1 + rng.below(6)).map(ping).collect()
}

fn objects(rng: &SeededRng, first: u64, import_state: &ModelImport) -> Vec<ImportItem> {
    let source = rng.below(SOURCE_COUNT);
    let project = ImportedProject {
        uuid: Uuid::from_u128(1 + u128::from(source)),
        name: ProjectName::parse(&format!("source {source}")).unwrap(),
        badge_key: format!("source-{source}").into(),
        legacy_badge: None,
        check_limit: None,
        ping_log_limit: 1 + rng.below(8) as u32,
        allows_ping_settings: rng.chance(50),
        status_pages: Vec::new(),
        keys: Vec::new(),
        channels: Vec::new(),
        windows: Vec::new(),
        checks: Vec::new(),
    };
    let id = ProjectId(first);
    let check = |number: u64| {
        let n_pings = import_state
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
        let uuid = rng.random().uuid();
        let badge = rng.random().uuid();
        let settings = CheckSettings::default();
        let badge_uuid = Some(badge);
        let channels = Box::default();
        let parents = Box::default();
        let down_parent = None;
        let managed_by = None;
        let check = ImportedCheck {
            uuid,
            badge: badge_uuid,
            created: CREATED,
            settings,
            channels,
            parents,
            state,
            down_parent,
            managed_by,
        };
        ImportItem::Check {
            id: CheckId(number),
            project: id,
            badge,
            check: Box::new(check),
        }
    };
    let checks = (first + 1..first + import_state.ids).map(check);
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
        let unknown_import = || CommandError::Import(ImportStepError::UnknownImport);
        match command {
            ImportStep::Begin { .. } if self.imports.0.len() >= 4 => {
                return Err(CommandError::Import(ImportStepError::TooManyImports));
            }
            ImportStep::Begin {
                object_count: ids, ..
            } => {
                let import_state = ModelImport {
                    ids: *ids,
                    last: now,
                    pings: Vec::new(),
                    objects: Vec::new(),
                };
                self.imports.0.insert(self.last_number + 1, import_state);
                self.last_number += ids;
            }
            ImportStep::Log { import, pings, .. } => {
                let import_state = self
                    .imports
                    .0
                    .get_mut(&import.0)
                    .ok_or_else(unknown_import)?;
                import_state.last = now;
                import_state
                    .pings
                    .extend(pings.iter().map(|ping| (ping.clone(), now)));
            }
            ImportStep::Items { import, objects } => {
                let import_state = self
                    .imports
                    .0
                    .get_mut(&import.0)
                    .ok_or_else(unknown_import)?;
                import_state.last = now;
                import_state.objects.extend(objects.iter().cloned());
            }
            ImportStep::Abandon { import } => {
                self.imports
                    .0
                    .remove(&import.0)
                    .ok_or_else(unknown_import)?;
            }
            ImportStep::DryRun { import, .. } => {
                self.imports.0.get(&import.0).ok_or_else(unknown_import)?;
            }
            ImportStep::Finish { import, .. } => {
                let import_state = self
                    .imports
                    .0
                    .remove(&import.0)
                    .ok_or_else(unknown_import)?;
                self.publish(&import_state);
            }
            ImportStep::EndTrial(_) => {}
        }
        Ok(ExpectedAnswer::Done)
    }

    fn publish(&mut self, import_state: &ModelImport) {
        let mut target = 0;
        for object in &import_state.objects {
            match object {
                ImportItem::Project { id, project } => {
                    let existing_id = self
                        .projects
                        .iter()
                        .find(|(_, existing)| existing.source == Some(project.uuid))
                        .map(|(id, _)| *id);
                    target = existing_id.unwrap_or(id.0);
                    self.checks.retain(|_, check| check.project != target);
                    let name = project.name.as_str().into();
                    let log_limit = project.ping_log_limit.into();
                    self.projects.insert(
                        target,
                        ModelProject {
                            name,
                            check_limit: None,
                            log_limit,
                            allows_ping_settings: project.allows_ping_settings,
                            source: Some(project.uuid),
                            status_pages: Vec::new(),
                        },
                    );
                }
                ImportItem::Check { id, check, .. } => {
                    let uuids = CheckUuids {
                        uuid: check.uuid,
                        badge: check.badge.unwrap(),
                    };
                    let mut log = BTreeMap::new();
                    for (ping, now) in import_state
                        .pings
                        .iter()
                        .filter(|(ping, _)| ping.check == *id)
                    {
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
                        uuids,
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

//! What files declare, in the mix: all of a document is so, or nothing of it.

use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::declared::{
    ApplyOptions, DeclaredCheck, DeclaredConfig, DeclaredProject, ObjectName,
};
use overdue::domain::project::{DEFAULT_PING_LOG_LIMIT, ProjectName};
use overdue::domain::status::Status;
use overdue::domain::text::{FailureThreshold, Seconds, Slug};
use overdue::engine::command::apply_config::ApplyConfigRequest;
use overdue::engine::command::{CheckUuids, Command, CommandError};

use super::commands;
use super::model::{CheckLabels, ExpectedAnswer, Model, ModelCheck, ModelProject};
use super::replay::HistoryEvent;
use crate::support::seeded_rng::SeededRng;

/// Slugs that nothing else gives.
const SLUGS: [&str; 2] = ["x", "y"];

/// A document about some checks of a project.
pub(crate) fn random_document(dice: &SeededRng, model: &Model) -> Command {
    let check = |slug: &str| {
        let slug = Slug::parse(slug).unwrap();
        let edit = commands::random_edit(dice, model);
        let timeout = edit
            .timeout
            .or(Some(Seconds::parse(dice.pick(&[60, 600])).unwrap()));
        let edit = CheckEdit {
            slug: Some(slug.clone()),
            channels: dice.optional(90, |_| ChannelSelection::All),
            timeout,
            ..edit
        };
        let paused = dice.optional(30, |dice| dice.chance(50));
        let id = ObjectName::Text(slug.as_str().into());
        DeclaredCheck {
            id,
            uuid: None,
            previous_slug: None,
            edit,
            failure_threshold: FailureThreshold::ONE,
            parents: Vec::new(),
            paused,
        }
    };
    let project = |name: &str| {
        let few = model.checks.len() < commands::MAX_IMPORTED_CHECKS;
        let checks = SLUGS
            .iter()
            .filter(|slug| dice.chance(70) && (few || model.declared(name, slug).is_some()));
        let checks = checks.map(|slug| check(slug)).collect();
        DeclaredProject {
            check_limit: Some(None),
            checks,
            ..DeclaredProject::new(ProjectName::parse(name).unwrap())
        }
    };
    // Mostly one that others make, too, and fill with channels.
    let projects = vec![project(
        dice.pick(&["declared", "one", "two", "three", "four", "five"]),
    )];
    let wanted = DeclaredConfig {
        source: None,
        projects,
        users: Vec::new(),
    };
    let names = (0..20).map(|_| dice.random().uuid()).collect();
    Command::ApplyConfig(Box::new(ApplyConfigRequest {
        config: wanted,
        options: ApplyOptions {
            prune_limit: None,
            adopt_unmanaged: false,
        },
        uuids: names,
    }))
}

impl Model {
    fn declared(&self, project: &str, slug: &str) -> Option<u64> {
        let is_meant = |check: &ModelCheck| {
            self.projects[&check.project].name == project && check.labels.slug == slug
        };
        self.checks
            .iter()
            .find(|(_, check)| is_meant(check))
            .map(|(id, _)| *id)
    }

    /// Makes it so: projects and their checks get the next numbers and names in the order of the
    /// document, badges after all of a project.
    pub(super) fn declare(
        &mut self,
        asked: &ApplyConfigRequest,
        now: i64,
    ) -> Result<ExpectedAnswer, CommandError> {
        let mut names = asked.uuids.iter().copied();
        let mut name = || names.next().expect("there are names enough");
        for wanted in &asked.config.projects {
            let called = wanted.name.as_str();
            let there = self
                .projects
                .iter_mut()
                .find(|(_, project)| project.name == called);
            let project = match there {
                Some((id, project)) => {
                    project.check_limit = None;
                    *id
                }
                None => {
                    // For its UUID and its badges.
                    let _ = (name(), name());
                    let id = self.next_number();
                    let log_limit = u64::from(DEFAULT_PING_LOG_LIMIT);
                    self.projects.insert(
                        id,
                        ModelProject {
                            name: called.into(),
                            check_limit: None,
                            log_limit,
                            source: None,
                        },
                    );
                    id
                }
            };
            let mut placed = Vec::new();
            for check in &wanted.checks {
                let slug = check.edit.slug.as_ref().map_or("", |slug| slug.as_str());
                let there = self.declared(called, slug);
                placed.push((
                    there.unwrap_or_else(|| self.next_number()),
                    there.is_none().then(&mut name),
                    check,
                ));
            }
            for (id, new, check) in placed {
                match new {
                    Some(uuid) => self.declare_new_check(
                        id,
                        project,
                        CheckUuids {
                            uuid,
                            badge: name(),
                        },
                        check,
                        now,
                    )?,
                    None => self.declare_existing_check(id, check, now)?,
                }
            }
        }
        Ok(ExpectedAnswer::Done)
    }

    fn declare_new_check(
        &mut self,
        id: u64,
        project: u64,
        names: CheckUuids,
        wanted: &DeclaredCheck,
        now: i64,
    ) -> Result<(), CommandError> {
        let mut check = ModelCheck::imported(names, project, now, Vec::new());
        self.edit(&mut check, &wanted.edit)?;
        check.fix_first_rules();
        if wanted.paused == Some(true) {
            check.record_event(now, HistoryEvent::Pause);
        }
        self.checks.insert(id, check);
        Ok(())
    }

    /// What is not said has its default.
    fn declare_existing_check(
        &mut self,
        id: u64,
        wanted: &DeclaredCheck,
        now: i64,
    ) -> Result<(), CommandError> {
        let old = self.checks[&id].clone();
        let mut check = old.clone();
        (check.labels, check.rules) = (CheckLabels::default(), super::model::FIRST_RULES);
        self.edit(&mut check, &wanted.edit)?;
        (check.failure_threshold, check.parents) = (FailureThreshold::ONE, Default::default());
        let fields = |check: &ModelCheck| {
            (
                check.labels.clone(),
                check.timeout,
                check.rules,
                check.failure_threshold,
                check.parents.clone(),
            )
        };
        let is_changed = fields(&check) != fields(&old);
        if !is_changed {
            check = old.clone();
        }
        let mut settled = old;
        settled.settle(now);
        let is_paused = settled.replay().status == Status::Paused;
        match wanted.paused {
            Some(true) if !is_paused => check.record_event(now, HistoryEvent::Pause),
            Some(false) if is_paused => check.record_event(now, HistoryEvent::Resume),
            _ => {}
        }
        if is_changed {
            check.record_event(now, HistoryEvent::NewRules(check.rules));
        }
        self.checks.insert(id, check);
        Ok(())
    }
}

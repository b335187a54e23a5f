//! Random configuration documents and their model: a document is applied completely or not at all.

use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::declared::{
    ApplyOptions, DeclaredCheck, DeclaredConfig, DeclaredProject, ObjectName,
};
use overdue::domain::number::{FailureThreshold, Seconds};
use overdue::domain::project::{DEFAULT_PING_LOG_LIMIT, ProjectName};
use overdue::domain::status::Status;
use overdue::domain::text::Slug;
use overdue::engine::command::apply_config::ApplyConfigRequest;
use overdue::engine::command::{CheckUuids, Command, CommandError};

use super::commands;
use super::model::{CheckLabels, ExpectedAnswer, Model, ModelCheck, ModelProject};
use super::replay::HistoryEvent;
use crate::support::seeded_rng::SeededRng;

/// Slugs that only documents use.
const SLUGS: [&str; 2] = ["x", "y"];

/// Returns a document that declares some checks of one project.
pub(crate) fn random_document(rng: &SeededRng, model: &Model) -> Command {
    let check = |slug: &str| {
        let slug = Slug::parse(slug).unwrap();
        let edit = commands::random_edit(rng, model);
        let timeout = edit
            .timeout
            .or(Some(Seconds::parse(rng.pick(&[60, 600])).unwrap()));
        let edit = CheckEdit {
            slug: Some(slug.clone()),
            channels: rng.optional(90, |_| ChannelSelection::All),
            timeout,
            ..edit
        };
        let paused = rng.optional(30, |rng| rng.chance(50));
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
        let may_create = model.checks.len() < commands::MAX_IMPORTED_CHECKS;
        let checks = SLUGS.iter().filter(|slug| {
            rng.chance(70) && (may_create || model.find_declared(name, slug).is_some())
        });
        let checks = checks.map(|slug| check(slug)).collect();
        DeclaredProject {
            check_limit: Some(None),
            checks,
            ..DeclaredProject::new(ProjectName::parse(name).unwrap())
        }
    };
    // Mostly a project that other commands create, too, and that has channels.
    let projects = vec![project(
        rng.pick(&["declared", "one", "two", "three", "four", "five"]),
    )];
    let config = DeclaredConfig {
        source: None,
        projects,
        users: Vec::new(),
    };
    let uuids = (0..20).map(|_| rng.random().uuid()).collect();
    Command::ApplyConfig(Box::new(ApplyConfigRequest {
        config,
        options: ApplyOptions {
            prune_limit: None,
            adopt_unmanaged: false,
        },
        uuids,
    }))
}

impl Model {
    fn find_declared(&self, project: &str, slug: &str) -> Option<u64> {
        let is_declared = |check: &ModelCheck| {
            self.projects[&check.project].name == project && check.labels.slug == slug
        };
        self.checks
            .iter()
            .find(|(_, check)| is_declared(check))
            .map(|(id, _)| *id)
    }

    /// Applies a document: projects and their checks get the next IDs and UUIDs in the order of the
    /// document. All badges of a project follow.
    pub(super) fn declare(
        &mut self,
        request: &ApplyConfigRequest,
        now: i64,
    ) -> Result<ExpectedAnswer, CommandError> {
        let mut uuids = request.uuids.iter().copied();
        let mut next_uuid = || uuids.next().expect("the request has enough UUIDs");
        for declared in &request.config.projects {
            let project_name = declared.name.as_str();
            let existing = self
                .projects
                .iter_mut()
                .find(|(_, project)| project.name == project_name);
            let project = match existing {
                Some((id, project)) => {
                    project.check_limit = None;
                    *id
                }
                None => {
                    // The UUID of the project and its badge key.
                    let _ = (next_uuid(), next_uuid());
                    let id = self.next_number();
                    let log_limit = u64::from(DEFAULT_PING_LOG_LIMIT);
                    self.projects.insert(
                        id,
                        ModelProject {
                            name: project_name.into(),
                            check_limit: None,
                            log_limit,
                            allows_ping_settings: false,
                            source: None,
                            status_pages: Vec::new(),
                        },
                    );
                    id
                }
            };
            let mut checks = Vec::new();
            for check in &declared.checks {
                let slug = check.edit.slug.as_ref().map_or("", |slug| slug.as_str());
                let existing = self.find_declared(project_name, slug);
                checks.push((
                    existing.unwrap_or_else(|| self.next_number()),
                    existing.is_none().then(&mut next_uuid),
                    check,
                ));
            }
            for (id, new, check) in checks {
                match new {
                    Some(uuid) => self.declare_new_check(
                        id,
                        project,
                        CheckUuids {
                            uuid,
                            badge: next_uuid(),
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
        uuids: CheckUuids,
        declared: &DeclaredCheck,
        now: i64,
    ) -> Result<(), CommandError> {
        let mut check = ModelCheck::imported(uuids, project, now, Vec::new());
        self.edit(&mut check, &declared.edit)?;
        check.fix_first_rules();
        if declared.paused == Some(true) {
            check.record_event(now, HistoryEvent::Pause(None));
        }
        self.checks.insert(id, check);
        Ok(())
    }

    /// Resets settings that the document omits to their defaults.
    fn declare_existing_check(
        &mut self,
        id: u64,
        declared: &DeclaredCheck,
        now: i64,
    ) -> Result<(), CommandError> {
        let old = self.checks[&id].clone();
        let mut check = old.clone();
        (check.labels, check.rules) = (CheckLabels::default(), super::model::FIRST_RULES);
        self.edit(&mut check, &declared.edit)?;
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
        match declared.paused {
            Some(true) if !is_paused => check.record_event(now, HistoryEvent::Pause(None)),
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

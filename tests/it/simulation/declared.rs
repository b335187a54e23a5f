//! What files declare, in the mix: all of a document is so, or nothing of it.

use overdue::domain::edit::{ChannelChoice, Edit};
use overdue::domain::project::{DEFAULT_PING_LOG_LIMIT, ProjectName};
use overdue::domain::status::Status;
use overdue::domain::text::{Failures, Seconds, Slug};
use overdue::domain::wanted::{Manner, ObjectName, Wanted, WantedCheck, WantedProject};
use overdue::engine::command::declare::Declare;
use overdue::engine::command::{CheckNames, Command, Refusal};

use super::commands;
use super::model::{Answered, Check, Labels, Model, Project};
use super::story::Event;
use crate::support::dice::Dice;

/// Slugs that nothing else gives.
const SLUGS: [&str; 2] = ["x", "y"];

/// A document about some checks of a project.
pub(crate) fn some_command(dice: &Dice, model: &Model) -> Command {
    let check = |slug: &str| {
        let slug = Slug::parse(slug).unwrap();
        let edit = commands::edit(dice, model);
        let timeout = edit.timeout.or(Some(Seconds::parse(dice.pick(&[60, 600])).unwrap()));
        let edit = Edit { slug: Some(slug.clone()), channels: dice.maybe(90, |_| ChannelChoice::All), timeout, ..edit };
        let paused = dice.maybe(30, |dice| dice.chance(50));
        let id = ObjectName::Text(slug.as_str().into());
        WantedCheck { id, uuid: None, was: None, edit, after: Failures::ONE, parents: Vec::new(), paused }
    };
    let project = |name: &str| {
        let few = model.checks.len() < commands::SOME_CHECKS;
        let checks = SLUGS.iter().filter(|slug| dice.chance(70) && (few || model.declared(name, slug).is_some()));
        let checks = checks.map(|slug| check(slug)).collect();
        WantedProject { check_limit: Some(None), checks, ..WantedProject::new(ProjectName::parse(name).unwrap()) }
    };
    // Mostly one that others make, too, and fill with channels.
    let projects = vec![project(dice.pick(&["declared", "one", "two", "three", "four", "five"]))];
    let wanted = Wanted { source: None, projects, users: Vec::new() };
    let names = (0..20).map(|_| dice.random().uuid()).collect();
    Command::Declare(Box::new(Declare { wanted, manner: Manner { prune: None, adopts: false }, names }))
}

impl Model {
    fn declared(&self, project: &str, slug: &str) -> Option<u64> {
        let is_meant = |check: &Check| self.projects[&check.project].name == project && check.labels.slug == slug;
        self.checks.iter().find(|(_, check)| is_meant(check)).map(|(id, _)| *id)
    }

    /// Makes it so: projects and their checks get the next numbers and names in the order of the document, badges after all of a project.
    pub(super) fn declare(&mut self, asked: &Declare, now: i64) -> Result<Answered, Refusal> {
        let mut names = asked.names.iter().copied();
        let mut name = || names.next().expect("there are names enough");
        for wanted in &asked.wanted.projects {
            let called = wanted.name.as_str();
            let there = self.projects.iter_mut().find(|(_, project)| project.name == called);
            let project = match there {
                Some((id, project)) => {
                    project.check_limit = None;
                    *id
                }
                None => {
                    // For its UUID and its badges.
                    let _ = (name(), name());
                    let id = self.id();
                    let log_limit = u64::from(DEFAULT_PING_LOG_LIMIT);
                    self.projects.insert(id, Project { name: called.into(), check_limit: None, log_limit, source: None });
                    id
                }
            };
            let mut placed = Vec::new();
            for check in &wanted.checks {
                let slug = check.edit.slug.as_ref().map_or("", |slug| slug.as_str());
                let there = self.declared(called, slug);
                placed.push((there.unwrap_or_else(|| self.id()), there.is_none().then(&mut name), check));
            }
            for (id, new, check) in placed {
                match new {
                    Some(uuid) => self.declare_new(id, project, CheckNames { uuid, badge: name() }, check, now)?,
                    None => self.declare_old(id, check, now)?,
                }
            }
        }
        Ok(Answered::Done)
    }

    fn declare_new(&mut self, id: u64, project: u64, names: CheckNames, wanted: &WantedCheck, now: i64) -> Result<(), Refusal> {
        let mut check = Check::imported(names, project, now, Vec::new());
        self.edit(&mut check, &wanted.edit)?;
        check.begin();
        if wanted.paused == Some(true) {
            check.happened(now, Event::Pause);
        }
        self.checks.insert(id, check);
        Ok(())
    }

    /// What is not said has its default.
    fn declare_old(&mut self, id: u64, wanted: &WantedCheck, now: i64) -> Result<(), Refusal> {
        let old = self.checks[&id].clone();
        let mut check = old.clone();
        (check.labels, check.rules) = (Labels::default(), super::model::FIRST_RULES);
        self.edit(&mut check, &wanted.edit)?;
        (check.after, check.parents) = (Failures::ONE, Default::default());
        let fields = |check: &Check| (check.labels.clone(), check.timeout, check.rules, check.after, check.parents.clone());
        if fields(&check) != fields(&old) {
            check.happened(now, Event::NewRules(check.rules));
        } else {
            check = old.clone();
        }
        match wanted.paused {
            Some(true) if old.story().status != Status::Paused => check.happened(now, Event::Pause),
            Some(false) if old.story().status == Status::Paused => check.happened(now, Event::Resume),
            _ => {}
        }
        self.checks.insert(id, check);
        Ok(())
    }
}

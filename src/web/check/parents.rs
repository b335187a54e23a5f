//! The checks that a check depends on, as its form names them.

use std::collections::BTreeMap;

use super::fields::{PARENTS, Wrong};
use crate::domain::ids::CheckId;
use crate::domain::parents::Parents;
use crate::manage::{self, ManageError};
use crate::web::error::Trouble;
use crate::web::visit::Visit;

/// Checks that a form proposes: see [limits](crate::docs::limits). Others can be typed all the same.
const MOST_PROPOSED: usize = 500;

/// What the checks of a project are called in forms: by name, or by UUID where there is no name or several have it.
pub(super) struct Names(BTreeMap<CheckId, String>);

impl Names {
    /// Those of the project of the page. Looks at all of its checks.
    pub(super) fn of(visit: &Visit) -> Result<Self, Trouble> {
        let (mut found, mut times) = (Vec::new(), BTreeMap::<String, usize>::new());
        visit.handle().each_check(visit.project()?.id, |check| {
            let name = check.settings.name.as_str();
            *times.entry(name.to_owned()).or_default() += 1;
            found.push((check.id, check.uuid, name.to_owned()));
        });
        let called = |(id, uuid, name): (CheckId, uuid::Uuid, String)| {
            let is_alone = !name.trim().is_empty() && times.get(&name) == Some(&1);
            (id, if is_alone { name } else { uuid.to_string() })
        };
        Ok(Self(found.into_iter().map(called).collect()))
    }

    /// What parents are called.
    pub(super) fn called(&self, parents: &Parents) -> Vec<String> {
        parents.ids().iter().filter_map(|id| self.0.get(id)).cloned().collect()
    }

    /// Checks that a check may depend on.
    pub(super) fn proposed(&self, own: Option<CheckId>) -> Vec<String> {
        let others = self.0.iter().filter(|(id, _)| Some(**id) != own).map(|(_, name)| name.clone());
        others.take(MOST_PROPOSED).collect()
    }

    /// The parents that somebody typed, by these names or as the command line takes them.
    pub(super) fn read(&self, visit: &Visit, typed: &[String]) -> Result<Parents, Wrong> {
        let project = visit.project().ok().map(|project| project.id);
        let mut ids = Vec::new();
        for text in typed {
            let named = self.0.iter().find(|(_, name)| *name == text).map(|(id, _)| *id);
            ids.push(match named {
                Some(id) => id,
                None => manage::check::find(visit.handle(), project, text).map_err(|error| unknown(text, &error))?.id,
            });
        }
        Parents::new(ids).map_err(|error| wrong(&error.to_string()))
    }
}

fn unknown(text: &str, error: &ManageError) -> Wrong {
    match error {
        ManageError::AmbiguousCheck { .. } => wrong(&format!("several checks are called “{text}”; give the UUID of one")),
        _ => wrong(&format!("there is no check “{text}” in this project")),
    }
}

/// Something is wrong with what was typed.
pub(super) fn wrong(reason: &str) -> Wrong {
    let mut letters = reason.chars();
    let first: String = letters.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    Wrong { field: PARENTS, label: "Depends on", text: format!("{first}{}.", letters.as_str()) }
}

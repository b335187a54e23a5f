//! Names of parents in the form of a check.

use std::collections::BTreeMap;

use super::form_fields::{CheckFormError, PARENT_FIELD, to_sentence};
use crate::domain::ids::CheckId;
use crate::domain::parents::Parents;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::operations::{self, OperationError};

/// Maximum number of checks that a form suggests: see [limits](crate::docs::limits). Others can
/// still be entered.
const MAX_SUGGESTIONS: usize = 500;

/// Names of the checks of a project in forms: the name, or the UUID if there is no name or if
/// several checks have it.
pub(super) struct ParentNames(BTreeMap<CheckId, String>);

impl ParentNames {
    /// Reads the names of all checks of the project of the page.
    pub(super) fn for_project(request: &PageRequest) -> Result<Self, PageError> {
        let mut found = Vec::new();
        let mut times = BTreeMap::<String, usize>::new();
        request
            .handle()
            .for_each_check(request.project()?.id, |check| {
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

    /// Formats these parents for a form: the reverse of [`parse_parents`](Self::parse_parents).
    pub(super) fn format_parents(&self, parents: &Parents) -> Vec<String> {
        parents
            .ids()
            .iter()
            .filter_map(|id| self.0.get(id))
            .cloned()
            .collect()
    }

    /// Checks that a check may depend on, without itself.
    pub(super) fn suggestions(&self, own: Option<CheckId>) -> Vec<String> {
        let others = self
            .0
            .iter()
            .filter(|(id, _)| Some(**id) != own)
            .map(|(_, name)| name.clone());
        others.take(MAX_SUGGESTIONS).collect()
    }

    /// Parses entered parents: these names, or the forms that the command line accepts.
    pub(super) fn parse_parents(
        &self,
        request: &PageRequest,
        form: &[String],
    ) -> Result<Parents, CheckFormError> {
        let project = request.project().ok().map(|project| project.id);
        let mut ids = Vec::new();
        for text in form {
            let named = self
                .0
                .iter()
                .find(|(_, name)| *name == text)
                .map(|(id, _)| *id);
            ids.push(match named {
                Some(id) => id,
                None => {
                    operations::check::find(request.handle(), project, text)
                        .map_err(|error| unknown_parent_error(text, &error))?
                        .id
                }
            });
        }
        Parents::new(ids).map_err(|error| parent_error(&error.to_string()))
    }
}

fn unknown_parent_error(text: &str, error: &OperationError) -> CheckFormError {
    match error {
        OperationError::AmbiguousCheck { .. } => parent_error(&format!(
            "several checks have the name “{text}”; enter the UUID of one"
        )),
        _ => parent_error(&format!("there is no check “{text}” in this project")),
    }
}

/// Error in the parents of a form.
pub(super) fn parent_error(reason: &str) -> CheckFormError {
    CheckFormError {
        field: PARENT_FIELD,
        label: "Depends on",
        text: to_sentence(reason),
    }
}

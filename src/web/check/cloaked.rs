//! The check that a unique key stands for: messages link to pages by that, since whoever knows a UUID can ping.

use crate::domain::ids::{ProjectId, UniqueKey};
use crate::web::answer::Done;
use crate::web::error::Trouble;
use crate::web::route::{Need, Page};
use crate::web::visit::Visit;

/// Leads to the check, if the viewer may see it. A key is a hash, so the checks of all projects that they see are hashed.
pub(crate) fn find(visit: &Visit, key: UniqueKey) -> Result<Done, Trouble> {
    let projects: Vec<ProjectId> = visit.handle().with_state(|state| state.projects().map(|found| found.project.id).collect());
    let mut found = None;
    for project in projects.into_iter().filter(|project| visit.viewer.may(Need::Read, Some(*project))) {
        visit.handle().each_check(project, |check| {
            if found.is_none() && UniqueKey::of(check.uuid) == key {
                found = Some(check.uuid);
            }
        });
    }
    found.map(|uuid| Done::Go(Page::Check(uuid), None)).ok_or_else(Trouble::nothing_here)
}

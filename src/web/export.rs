//! A project as a file that `overdue apply` reads: what `overdue export` writes of it, secrets left out.

use super::answer::Done;
use super::error::Trouble;
use super::visit::Visit;
use crate::declare;

/// The file.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let project = visit.project()?;
    let objects = declare::export(visit.handle(), Some(project.id), false);
    tracing::info!(user = visit.user_name(), address = %visit.came.client.addr, project = project.name.as_str(), "exported a project");
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = project.name.as_str().chars().map(plain).collect();
    Ok(Done::Download { name: format!("overdue-{name}.toml"), content: declare::toml(&objects, declare::HEAD).into_bytes() })
}

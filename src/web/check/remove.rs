//! Removing a check: a page that asks, and the deed.

use askama::Template;

use super::Top;
use super::actions::carry_out;
use crate::domain::words::count;
use crate::engine::command::Command;
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::frame::Frame;
use crate::web::notice::Notice;
use crate::web::route::Page;
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "remove.html", config = "src/web/askama.toml")]
struct Remove {
    frame: Frame,
    top: Top,
    pings: String,
    path: String,
}

/// The page.
pub(crate) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let check = visit.check()?;
    let page = Remove {
        frame: visit.frame("Delete a check"),
        top: Top::of(visit)?,
        pings: count(usize::try_from(check.state.n_pings).unwrap_or(usize::MAX), "ping"),
        path: visit.onward(&Page::RemoveCheck(check.uuid)),
    };
    Ok(Html::of(&page).into())
}

/// Removes it.
pub(crate) async fn remove(visit: &Visit) -> Result<Done, Trouble> {
    carry_out(visit, Command::DeleteCheck(visit.check()?.id)).await?;
    Ok(Done::Go(Page::Checks(visit.project()?.uuid), Notice::of("deleted")))
}

//! What the buttons of an integration do.

use std::sync::Arc;

use askama::Template;
use tokio::time::timeout;

use super::{notes_of, page};
use crate::domain::ids::ChannelId;
use crate::domain::project::Channel;
use crate::engine::command::Command;
use crate::manage::channel::{self, TEST_TIME};
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::form::Form;
use crate::web::frame::Frame;
use crate::web::notice::Notice;
use crate::web::route::Page;
use crate::web::visit::Visit;
use crate::wire::reply::Fault;

/// Checks that are assigned in one command: pings go in between.
const AT_ONCE: usize = 256;

#[derive(Template)]
#[template(path = "remove_integration.html", config = "src/web/askama.toml")]
struct Remove {
    frame: Frame,
    name: String,
    kind: &'static str,
    path: String,
    list: String,
    /// What it changes for groups.
    warnings: Vec<String>,
}

/// Sends a test and says what has come of it.
pub(crate) async fn test(visit: Visit) -> Result<Done, Trouble> {
    let channel = Arc::clone(visit.channel()?);
    tested(visit, &channel).await
}

pub(super) async fn tested(visit: Visit, channel: &Channel) -> Result<Done, Trouble> {
    let tested = timeout(TEST_TIME, channel::test(visit.handle(), channel, false)).await.map_err(|_| Fault::Unavailable)?;
    let tested = tested.map_err(|error| Trouble::new(Fault::Unavailable, "Not tried", format!("No test was sent: {error}.")))?;
    let site = Arc::clone(&visit.site);
    Ok(site.outgoing.run(move || page(&visit, notes_of(&tested))).await??.into())
}

/// Lets a channel be told again.
pub(crate) async fn enable(visit: &Visit) -> Result<Done, Trouble> {
    visit.handle().call(Command::EnableChannel(visit.channel()?.id)).await??;
    Ok(Done::Go(Page::Integrations(visit.project()?.uuid), Notice::of("integration-enabled")))
}

/// Assigns checks to a channel, in place of those that it has.
pub(crate) async fn assign(visit: &Visit, form: &Form) -> Result<Done, Trouble> {
    assigned(visit, visit.channel()?.id, form).await?;
    Ok(Done::Go(Page::Integrations(visit.project()?.uuid), Notice::of("saved")))
}

/// Assigns the checks that a form chooses, and no others.
pub(super) async fn assigned(visit: &Visit, channel: ChannelId, form: &Form) -> Result<(), Trouble> {
    let (choice, tag) = (form.get("checks"), form.get("tag"));
    if !matches!(choice, "all" | "none" | "tag") {
        return Err(Fault::BadRequest("checks is all, none or tag".into()).into());
    }
    let (handle, project) = (visit.handle().clone(), visit.project()?.id);
    let (is_all, tag) = (choice == "all", (choice == "tag").then(|| tag.to_owned()));
    let looking = visit.site.make(move || {
        let (mut wanted, mut others) = (Vec::new(), Vec::new());
        handle.each_check(project, |check| {
            let is_wanted = is_all || tag.as_ref().is_some_and(|tag| check.settings.tags.contains(tag));
            if is_wanted { &mut wanted } else { &mut others }.push(check.id);
        });
        (wanted, others)
    });
    let (wanted, others) = looking.await?;
    for (checks, assigned) in [(wanted, true), (others, false)] {
        for checks in checks.chunks(AT_ONCE) {
            visit.handle().call(Command::AssignChannel { channel, checks: checks.to_vec(), assigned }).await??;
        }
    }
    Ok(())
}

/// The page that asks.
pub(crate) fn show_remove(visit: &Visit) -> Result<Done, Trouble> {
    let channel = visit.channel()?;
    let page = Remove {
        frame: visit.frame("Delete an integration"),
        name: channel.name.as_str().into(),
        kind: channel.settings.kind().title,
        path: visit.link(&visit.page),
        list: visit.link(&Page::Integrations(visit.project()?.uuid)),
        warnings: visit.handle().with_state(|state| channel::warnings_of_deletion(state, channel)),
    };
    Ok(Html::of(&page).into())
}

/// Removes a channel.
pub(crate) async fn remove(visit: &Visit) -> Result<Done, Trouble> {
    visit.handle().call(Command::DeleteChannel(visit.channel()?.id)).await??;
    Ok(Done::Go(Page::Integrations(visit.project()?.uuid), Notice::of("integration-deleted")))
}

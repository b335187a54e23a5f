//! The pages of integrations: which channels a project has and how they do, and forms to make, change, try, assign and remove them.
//!
//! The forms are made of the tables of the kinds, as the help of the command line is. What only the operator may set has no field here.

mod actions;
mod fields;
mod form;

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::frame::Frame;
use super::notice::Note;
use super::route::{Need, Page};
use super::visit::Visit;
use super::when::When;
use crate::channel::answer::shown as shown_error;
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::ids::ChannelId;
use crate::domain::moment::Moment;
use crate::domain::project::Channel;
use crate::domain::words::count;
use crate::engine::Tried;
use crate::manage::channel::{ChannelStatus, MemberTest, Tested};
use crate::manage::delivery::last_delivered;
use fields::capital;

pub(super) use actions::{assign, enable, remove, show_remove, test};
pub(super) use form::{add, save, show_add, show_edit};

#[derive(Template)]
#[template(path = "integrations.html", config = "src/web/askama.toml")]
struct Integrations {
    frame: Frame,
    may_write: bool,
    rows: Vec<Row>,
    kinds: Vec<Tile>,
}

/// A channel.
struct Row {
    name: String,
    kind: &'static str,
    target: String,
    checks: String,
    shape: &'static str,
    state: &'static str,
    since: Option<When>,
    reason: String,
    /// What of its settings is probably not what was meant.
    warnings: Vec<String>,
    waiting: String,
    is_disabled: bool,
    links: Links,
}

/// Where its buttons lead.
struct Links {
    test: String,
    edit: String,
    enable: String,
    remove: String,
}

/// A kind that can be added.
struct Tile {
    title: &'static str,
    link: String,
}

/// The page.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, Vec::new())?.into())
}

/// The page, with what there is to say above it.
fn page(visit: &Visit, notes: Vec<Note>) -> Result<Html, Trouble> {
    let project = visit.project()?;
    let channels = channels(visit)?;
    let (mut checks, mut assigned) = (0, BTreeMap::<ChannelId, usize>::new());
    visit.handle().each_check(project.id, |check| {
        checks += 1;
        check.settings.channels.iter().for_each(|channel| *assigned.entry(*channel).or_default() += 1);
    });
    let delivered = last_delivered(visit.handle(), &channels)?;
    let row = |channel: &Arc<Channel>| {
        let of = assigned.get(&channel.id).copied().unwrap_or_default();
        row(visit, channel, of, checks, delivered.get(&channel.id).copied())
    };
    let tile = |kind: &'static ChannelKind| Tile { title: kind.title, link: visit.link(&Page::AddIntegration(project.uuid, kind)) };
    let may_write = visit.may(Need::Write);
    let mut kinds: Vec<_> = ChannelKind::ALL.into_iter().filter(|kind| may_write && !kind.operators_only).map(tile).collect();
    kinds.sort_by_key(|kind| kind.title.to_lowercase());
    let rows = channels.iter().map(row).collect();
    let frame = notes.into_iter().fold(visit.frame("Integrations"), |frame, note| frame.noted(Some(note)));
    Ok(Html::of(&Integrations { frame, may_write, rows, kinds }))
}

fn channels(visit: &Visit) -> Result<Vec<Arc<Channel>>, Trouble> {
    let project = visit.project()?.id;
    visit
        .handle()
        .with_state(|state| Ok(state.project(project).into_iter().flat_map(|project| project.channels.values().cloned()).collect()))
}

fn row(visit: &Visit, channel: &Channel, assigned: usize, checks: usize, delivered: Option<Moment>) -> Row {
    let when = |at| Some(When::of(at, &visit.times()));
    let (transports, may_write) = (visit.handle().transports(), visit.may(Need::Write));
    let (status, waiting, shown) = visit.handle().with_state(|state| {
        let shown = state.shown_settings(channel).into_owned();
        (ChannelStatus::of(state, channel, transports), state.outbox.waiting_for(channel.id), shown)
    });
    let (since, reason) = status.reason(may_write);
    let (shape, state, since) = match status {
        ChannelStatus::Disabled(..) => ("paused", "Disabled", since.and_then(when)),
        ChannelStatus::CannotDeliver(_) => ("down", "Cannot deliver", None),
        ChannelStatus::Failing(..) => ("down", "Failing, first", since.and_then(when)),
        ChannelStatus::TestFailed(_) => ("down", "Test failed", None),
        ChannelStatus::Untested => ("new", "Untested", None),
        ChannelStatus::Ok => (
            if channel.health.refused.is_empty() { "up" } else { "late" },
            if delivered.is_some() { "Delivered" } else { "Ok" },
            delivered.and_then(when),
        ),
    };
    let refused = channel.health.refused.iter();
    let refused = refused.map(|refused| format!("Not taken for {}: {}", refused.address, shown_error(&refused.reason, may_write)));
    let unsubscribed = channel.health.unsubscribed.join(", ");
    let unsubscribed = if unsubscribed.is_empty() { String::new() } else { format!("Unsubscribed: {unsubscribed}") };
    let parts = [reason.unwrap_or_default().to_owned()].into_iter().chain(refused).chain([unsubscribed]);
    let reason = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(". ");
    let every = channel.settings.common().every;
    Row {
        name: channel.name.as_str().into(),
        kind: channel.settings.kind().title,
        target: target(&shown, may_write),
        checks: if every { "every check".into() } else { format!("{assigned} of {}", count(checks, "check")) },
        shape,
        state,
        since,
        reason,
        warnings: channel.settings.warnings(),
        waiting: if waiting == 0 { String::new() } else { format!("{waiting} waiting to be sent") },
        is_disabled: channel.health.disabled.is_some() || !channel.health.unsubscribed.is_empty(),
        links: Links {
            test: visit.link(&Page::TestIntegration(channel.uuid)),
            edit: visit.link(&Page::EditIntegration(channel.uuid)),
            enable: visit.link(&Page::EnableIntegration(channel.uuid)),
            remove: visit.link(&Page::RemoveIntegration(channel.uuid)),
        },
    }
}

/// What tells a channel from others of its kind.
fn target(settings: &ChannelSettings, may_write: bool) -> String {
    settings.destination(may_write).map(|value| value.chars().take(80).collect()).unwrap_or_default()
}

/// The result of a test in words; of a group a note for each of its channels.
fn notes_of(tested: &Tested) -> Vec<Note> {
    let of_member = |MemberTest { channel, tried }: &MemberTest| {
        let name = Some(channel.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(channel.settings.kind().title);
        let note = match tried {
            Ok(tried) => note_of(tried),
            Err(error) => Note::down(format!("Not tried: {error}.")),
        };
        Note { text: format!("{name}: {}", note.text), ..note }
    };
    match tested {
        Tested::Channel(tried) => vec![note_of(tried)],
        Tested::Group(tests) => tests.iter().map(of_member).collect(),
    }
}

/// The result of the test of one channel.
fn note_of(tried: &Tried) -> Note {
    match (&tried.failed, &tried.missed) {
        (Some(reason), _) => Note::down(format!("Not delivered: {reason}")),
        (None, Some(missed)) => Note::late(format!("{}.", capital(missed))),
        (None, None) => Note::plain(format!("Delivered in {} ms.", tried.took.as_millis())),
    }
}

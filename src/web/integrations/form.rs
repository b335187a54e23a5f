//! The form of an integration: a new one of some kind, and one that is there.

use std::sync::Arc;

use askama::Template;

use super::actions::{assigned, tested};
use super::fields::{Entry, Input, Wrong, entries, pairs};
use crate::domain::channel::{ChannelKind, ChannelSettings, GivenSettings, Maker};
use crate::domain::project::{Channel, ChannelName};
use crate::engine::command::{Command, NewChannel, Outcome, Refusal};
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::form::Form;
use crate::web::frame::Frame;
use crate::web::notice::Notice;
use crate::web::route::Page;
use crate::web::visit::{Query, Visit};

#[derive(Template)]
#[template(path = "integration.html", config = "src/web/askama.toml")]
struct FormPage {
    frame: Frame,
    title: String,
    guide: &'static str,
    path: String,
    list: String,
    name: String,
    own: Vec<Entry>,
    common: Vec<Entry>,
    /// The reason why this server delivers nothing by this kind, and what of the stored settings is probably not what was meant.
    warnings: Vec<String>,
    /// What is wrong with what was sent.
    wrong: Option<Wrong>,
    /// The source of files that owns it.
    declared_in: Option<String>,
    /// Only the operator changes its settings.
    is_locked: bool,
    /// What assigns checks to it; `None`: it is made first.
    assign: Option<String>,
    tags: Vec<String>,
    /// Which checks were chosen for a new one, and the tag.
    chosen: String,
    tag: String,
}

impl FormPage {
    /// What is wrong with the name.
    fn wrong_name(&self) -> Option<&str> {
        self.wrong.as_ref().filter(|wrong| wrong.key == Some("name")).map(|wrong| wrong.text.as_str())
    }

    /// Whether something is wrong among the fields that all kinds have.
    fn is_wrong_below(&self) -> bool {
        self.common.iter().any(|entry| entry.wrong.is_some())
    }
}

/// Tags that the form offers.
const MOST_TAGS: usize = 200;

/// The form for a new channel.
pub(crate) fn show_add(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, None, None)?.into())
}

/// The form of a channel.
pub(crate) fn show_edit(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, None, None)?.into())
}

/// The form, as it is or as it was filled in.
fn page(visit: &Visit, typed: Option<&Query>, wrong: Option<Wrong>) -> Result<Html, Trouble> {
    let channel = visit.channel().ok();
    let kind = kind(visit)?;
    let shown = channel.map(|channel| visit.handle().with_state(|state| state.shown_settings(channel).into_owned()));
    let stored = shown.as_ref();
    let [mut own, mut common] = entries(kind, stored, typed);
    for entry in own.iter_mut().chain(&mut common) {
        entry.wrong = wrong.as_ref().filter(|wrong| wrong.key == Some(entry.key)).map(|wrong| wrong.text.clone());
    }
    let choice = |name: &str| typed.map(|typed| typed.get(name).to_owned()).unwrap_or_default();
    let name = match (typed, channel) {
        (Some(typed), _) => typed.get("name").to_owned(),
        (None, Some(channel)) => channel.name.as_str().to_owned(),
        (None, None) => String::new(),
    };
    let mut tags = std::collections::BTreeSet::new();
    visit.handle().each_check(visit.project()?.id, |check| {
        if tags.len() < MOST_TAGS {
            tags.extend(check.settings.tags.iter().map(str::to_owned));
        }
    });
    let what = if channel.is_some() { "Edit" } else { "Add" };
    let obstacle = visit.handle().transports().and_then(|transports| kind.obstacle(transports));
    let obstacle = obstacle.map(|obstacle| format!("nothing can be delivered: {obstacle}"));
    let html = Html::of(&FormPage {
        frame: visit.frame(format!("{what} {}", kind.title)),
        title: format!("{what}: {}", kind.title),
        guide: kind.guide,
        path: visit.link(&visit.page),
        list: visit.link(&Page::Integrations(visit.project()?.uuid)),
        name,
        own,
        common,
        warnings: obstacle.into_iter().chain(channel.into_iter().flat_map(|channel| channel.settings.warnings())).collect(),
        wrong,
        declared_in: channel.and_then(|channel| visit.declared_in(channel.id.0)),
        is_locked: stored.is_some_and(|stored| stored.allowed_by(Maker::Api).is_err()),
        assign: channel.map(|channel| visit.link(&Page::ChecksOfIntegration(channel.uuid))),
        tags: tags.into_iter().take(MOST_TAGS).collect(),
        chosen: Some(choice("checks")).filter(|chosen| !chosen.is_empty()).unwrap_or_else(|| "all".into()),
        tag: choice("tag"),
    });
    // The URLs of a channel may be all that it takes to send.
    Ok(if channel.is_some() { html.secret() } else { html })
}

fn kind(visit: &Visit) -> Result<&'static ChannelKind, Trouble> {
    match &visit.page {
        Page::AddIntegration(_, kind) if !kind.operators_only => Ok(kind),
        Page::AddIntegration(..) => Err(Trouble::nothing_here()),
        _ => Ok(visit.channel()?.settings.kind()),
    }
}

/// The name that was typed.
fn name(fields: &Query) -> Result<ChannelName, Wrong> {
    ChannelName::parse(fields.get("name").trim()).map_err(|text| Wrong { key: Some("name"), text: text.to_string() })
}

/// The form once more, with what is wrong.
async fn again(visit: Visit, form: Form, wrong: Wrong) -> Result<Done, Trouble> {
    let site = Arc::clone(&visit.site);
    let html = site.outgoing.run(move || page(&visit, Some(form.fields()), Some(wrong))).await??;
    Ok(html.refused().into())
}

/// Makes a channel, and assigns the checks that were chosen.
pub(crate) async fn add(visit: Visit, form: Form) -> Result<Done, Trouble> {
    let (kind, fields) = (kind(&visit)?, form.fields());
    let read = || {
        let name = name(fields)?;
        let settings = ChannelSettings::parse(kind, pairs(kind, None, fields)?)?;
        settings.allowed_by(Maker::Api)?;
        Ok::<_, Wrong>((name, settings))
    };
    let (name, settings) = match read() {
        Ok(read) => read,
        Err(wrong) => return again(visit, form, wrong).await,
    };
    let (uuid, project) = (visit.handle().random().uuid(), visit.project()?.id);
    let new = NewChannel { uuid, project, name, settings, operator: false };
    let channel = match visit.handle().call(Command::CreateChannel(Box::new(new))).await? {
        Ok(Outcome::Channel(channel)) => channel,
        // That command comes to nothing else.
        Ok(_) => return Err(Trouble::nothing_here()),
        Err(Refusal::Settings(error)) => return again(visit, form, error.into()).await,
        Err(refusal) => return Err(refusal.into()),
    };
    assigned(&visit, channel.id, &form).await?;
    done(visit, Arc::from(channel), &form, "integration-made").await
}

/// Changes a channel. What is as it was is not given anew, so that it stays the operator's.
pub(crate) async fn save(visit: Visit, form: Form) -> Result<Done, Trouble> {
    let channel = Arc::clone(visit.channel()?);
    let (stored, fields) = (&channel.settings, form.fields());
    let read = || {
        let name = name(fields)?;
        if stored.allowed_by(Maker::Api).is_err() {
            return Ok((name, None));
        }
        let given = GivenSettings::new(pairs(stored.kind(), Some(stored), fields)?);
        let applied = given.applied(stored)?;
        Ok::<_, Wrong>((name, (applied != *stored).then_some(given)))
    };
    let (name, settings) = match read() {
        Ok(read) => read,
        Err(wrong) => return again(visit, form, wrong).await,
    };
    let command = Command::SetChannel { channel: channel.id, name: Some(name), settings, maker: Maker::Api };
    match visit.handle().call(command).await? {
        Ok(Outcome::Channel(channel)) => done(visit, Arc::from(channel), &form, "saved").await,
        Ok(_) => Err(Trouble::nothing_here()),
        Err(Refusal::Settings(error)) => again(visit, form, error.into()).await,
        Err(refusal) => Err(refusal.into()),
    }
}

/// Back to the list, after a test if that was asked for.
async fn done(visit: Visit, channel: Arc<Channel>, form: &Form, notice: &str) -> Result<Done, Trouble> {
    if form.has("test") {
        return tested(visit, &channel).await;
    }
    Ok(Done::Go(Page::Integrations(visit.project()?.uuid), Notice::of(notice)))
}

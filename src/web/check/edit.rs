//! The form of a check: a new one, and the settings of one that is there.

use std::sync::Arc;

use askama::Template;

use super::Top;
use super::actions::create;
use super::detail::diagnosed;
use super::fields::{Expects, Fields, PARENTS, UNITS, Wrong};
use super::matches;
use super::parents::{Names, wrong};
use super::preview::Preview;
use crate::domain::check::Settings;
use crate::domain::edit::Edit;
use crate::domain::ids::CheckId;
use crate::domain::parents::Parents;
use crate::domain::text::Failures;
use crate::domain::timezone::Timezone;
use crate::domain::words::Times;
use crate::engine::command::{Command, Refusal};
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::form::Form;
use crate::web::frame::Frame;
use crate::web::notice::Notice;
use crate::web::route::Page;
use crate::web::visit::Visit;
use crate::wire::reply::Fault;

#[derive(Template)]
#[template(path = "edit.html", config = "src/web/askama.toml")]
struct EditPage {
    frame: Frame,
    /// The check, if there is one already.
    top: Option<Top>,
    title: &'static str,
    path: String,
    cancel: String,
    fields: Fields,
    wrong: Vec<Wrong>,
    channels: Vec<Choice>,
    /// Checks that it may depend on.
    others: Vec<String>,
    zones: Vec<&'static str>,
    units: [(&'static str, &'static str, u64); 4],
    preview: Preview,
    /// What the words would have made of the last pings.
    matches: String,
    /// The UUID of the check, if there is one already.
    edited: Option<String>,
    /// That pings come as if the zone were another one.
    diagnosis: Option<String>,
    /// The digest of the settings that the form was made from.
    was: String,
    /// What somebody else has changed meanwhile.
    theirs: Vec<Difference>,
    is_slug_taken: bool,
}

/// A channel of the project.
struct Choice {
    uuid: String,
    name: String,
    kind: &'static str,
    is_chosen: bool,
}

/// A field that is not what it was.
struct Difference {
    label: &'static str,
    stored: String,
    typed: String,
}

/// What a form is made with besides its fields.
#[derive(Default)]
struct Said {
    wrong: Vec<Wrong>,
    theirs: Vec<Difference>,
}

impl EditPage {
    /// The page of this visit, filled with these fields. `was`: the digest of what they were made from.
    fn of(visit: &Visit, fields: Fields, was: String, said: Said) -> Result<Self, Trouble> {
        let top = if matches!(visit.page, Page::EditCheck(_)) { Some(Top::of(visit)?) } else { None };
        let (project, edited) = (visit.project()?, matches::edited(visit));
        let list = visit.back().list(&visit.link(&Page::Checks(project.uuid)));
        let yours = Times { now: visit.now, zone: &visit.viewer.zone };
        Ok(Self {
            title: if top.is_some() { "Edit" } else { "Add a check" },
            frame: visit.frame(if top.is_some() { "Edit a check" } else { "Add a check" }),
            path: visit.onward(&visit.page),
            cancel: top.as_ref().map_or(list, |top| top.here.clone()),
            channels: choices(visit, &fields)?,
            others: Names::of(visit)?.proposed(own(visit)),
            zones: zones(&visit.viewer.zone),
            units: UNITS,
            preview: Preview::of(&fields, &yours),
            matches: edited.as_ref().map_or_else(|| Ok(String::new()), |check| matches::sentence(visit, check, &fields))?,
            diagnosis: edited.as_ref().map(|check| diagnosed(visit, check)).transpose()?.flatten(),
            edited: edited.map(|check| check.uuid.to_string()),
            is_slug_taken: is_slug_taken(visit, &fields)?,
            wrong: said.wrong,
            theirs: said.theirs,
            top,
            fields,
            was,
        })
    }

    /// What is wrong with a field.
    fn wrong(&self, field: &str) -> Option<&str> {
        self.wrong.iter().find(|wrong| wrong.field == field).map(|wrong| wrong.text.as_str())
    }

    /// The inputs for what it depends on: one is empty, as long as there may be more.
    fn parents(&self) -> Vec<&str> {
        let typed = self.fields.parents.iter().map(String::as_str);
        typed.chain(Some("").filter(|_| self.fields.parents.len() < Parents::MOST)).collect()
    }

    fn expects(&self, name: &str) -> bool {
        self.fields.expects.name() == name
    }

    fn has_more(&self) -> bool {
        let fields = &self.fields;
        let words = [&fields.start_kw, &fields.success_kw, &fields.failure_kw];
        let more = ["start_kw", "success_kw", "failure_kw", "after", PARENTS];
        fields.manual_resume
            || fields.post_only
            || fields.after != "1"
            || words.iter().any(|words| !words.is_empty())
            || !fields.parents.is_empty()
            || more.iter().any(|field| self.wrong(field).is_some())
    }
}

/// The form for a new check.
pub(crate) fn show_add(visit: &Visit) -> Result<Done, Trouble> {
    let channels = channels(visit)?.into_iter().map(|(uuid, ..)| uuid).collect();
    let settings = Settings { tz: visit.viewer.zone.clone(), ..Settings::default() };
    let fields = Fields::of(&settings, channels, Vec::new());
    Ok(Html::of(&EditPage::of(visit, fields, String::new(), Said::default())?).into())
}

/// The form of a check.
pub(crate) fn show_edit(visit: &Visit) -> Result<Done, Trouble> {
    let fields = stored(visit)?;
    let was = fields.digest();
    Ok(Html::of(&EditPage::of(visit, fields, was, Said::default())?).into())
}

/// Makes a check.
pub(crate) async fn add(visit: Visit, form: Form) -> Result<Done, Trouble> {
    let (visit, fields) = (Arc::new(visit), Fields::read(form.fields()));
    if form.has("preview") {
        return again(&visit, fields, String::new(), Said::default(), None).await;
    }
    let parents = parents(&visit, &fields).await?;
    let (edit, after, parents) = match all_right(fields.edit(&Settings::default()), parents) {
        Ok(read) => read,
        Err(wrong) => return again(&visit, fields, String::new(), Said { wrong, theirs: Vec::new() }, Some(Fault::Invalid)).await,
    };
    let made = create(&visit, edit).await?;
    if (after, &parents) != (made.settings.after, &made.settings.parents) {
        let alerting = Command::SetAlerting { check: made.id, after: Some(after), parents: Some(parents) };
        if visit.handle().call(alerting).await?.is_err() {
            return Ok(Done::Go(Page::EditCheck(made.uuid), Notice::of("made-alone")));
        }
    }
    Ok(Done::Go(Page::Check(made.uuid), Notice::of("made")))
}

/// Saves the settings of a check, unless they have changed since the form was made.
pub(crate) async fn save(visit: Visit, form: Form) -> Result<Done, Trouble> {
    let (visit, fields) = (Arc::new(visit), Fields::read(form.fields()));
    let was = form.get("was").to_owned();
    if form.has("preview") {
        return again(&visit, fields, was, Said::default(), None).await;
    }
    let asked = Arc::clone(&visit);
    let stored = visit.site.outgoing.run(move || stored(&asked)).await??;
    if was != stored.digest() {
        let theirs = differences(&visit, &stored, &fields)?;
        return again(&visit, fields, stored.digest(), Said { wrong: Vec::new(), theirs }, Some(Fault::Outdated)).await;
    }
    let check = visit.check()?;
    let refused = |fields, was, wrong| again(&visit, fields, was, Said { wrong, theirs: Vec::new() }, Some(Fault::Invalid));
    let parents = parents(&visit, &fields).await?;
    let (edit, after, parents) = match all_right(fields.edit(&check.settings), parents) {
        Ok(read) => read,
        Err(wrong) => return refused(fields, was, wrong).await,
    };
    // What may be refused comes first, so that all of it is saved or nothing.
    if (after, &parents) != (check.settings.after, &check.settings.parents) {
        match visit.handle().call(Command::SetAlerting { check: check.id, after: Some(after), parents: Some(parents) }).await? {
            Err(Refusal::Parents(error)) => return refused(fields, was, vec![wrong(&error.to_string())]).await,
            done => done?,
        };
    }
    match visit.handle().call(Command::UpdateCheck(check.id, Box::new(edit))).await? {
        Err(Refusal::InvalidChannel(_)) => {
            let text = "An integration was deleted meanwhile. Choose again.".into();
            refused(fields, was, vec![Wrong { field: "channel", label: "Alerts", text }]).await
        }
        done => done.map(|_| Done::Go(Page::Check(check.uuid), Notice::of("saved"))).map_err(Trouble::from),
    }
}

/// What was typed, if nothing is wrong with any of it.
fn all_right(edit: Result<(Edit, Failures), Vec<Wrong>>, parents: Result<Parents, Wrong>) -> Result<(Edit, Failures, Parents), Vec<Wrong>> {
    match (edit, parents) {
        (Ok((edit, after)), Ok(parents)) => Ok((edit, after, parents)),
        (edit, parents) => Err(edit.err().into_iter().flatten().chain(parents.err()).collect()),
    }
}

/// The checks that were typed as what it depends on.
async fn parents(visit: &Arc<Visit>, fields: &Fields) -> Result<Result<Parents, Wrong>, Trouble> {
    if fields.parents.is_empty() {
        return Ok(Ok(Parents::default()));
    }
    let (asked, typed) = (Arc::clone(visit), fields.parents.clone());
    visit.site.outgoing.run(move || Ok(Names::of(&asked)?.read(&asked, &typed))).await?
}

/// The form once more, as it was filled in.
async fn again(visit: &Arc<Visit>, fields: Fields, was: String, said: Said, fault: Option<Fault>) -> Result<Done, Trouble> {
    let asked = Arc::clone(visit);
    let html = visit.site.outgoing.run(move || EditPage::of(&asked, fields, was, said).map(|page| Html::of(&page))).await??;
    Ok(match fault {
        Some(fault) => html.with_fault(fault),
        None => html,
    }
    .into())
}

/// The fields of the check as it is.
fn stored(visit: &Visit) -> Result<Fields, Trouble> {
    let check = visit.check()?;
    let parents = &check.settings.parents;
    let parents = if parents.ids().is_empty() { Vec::new() } else { Names::of(visit)?.called(parents) };
    visit.handle().with_state(|state| {
        let channels = state.channels_of(check).map(|channel| channel.uuid.to_string()).collect();
        Ok(Fields::of(&check.settings, channels, parents))
    })
}

/// The check of the page, if there is one already.
fn own(visit: &Visit) -> Option<CheckId> {
    matches!(visit.page, Page::EditCheck(_)).then(|| visit.check().ok().map(|check| check.id)).flatten()
}

/// The channels of the project: UUID, name, kind.
fn channels(visit: &Visit) -> Result<Vec<(String, String, &'static str)>, Trouble> {
    let project = visit.project()?.id;
    visit.handle().with_state(|state| {
        let channels = state.project(project).into_iter().flat_map(|project| project.channels.values());
        Ok(channels.map(|channel| (channel.uuid.to_string(), channel.name.as_str().into(), channel.settings.kind().title)).collect())
    })
}

fn choices(visit: &Visit, fields: &Fields) -> Result<Vec<Choice>, Trouble> {
    let choice = |(uuid, name, kind): (String, String, _)| Choice { is_chosen: fields.channels.contains(&uuid), uuid, name, kind };
    Ok(channels(visit)?.into_iter().map(choice).collect())
}

/// The names of zones, the viewer's first.
fn zones(own: &Timezone) -> Vec<&'static str> {
    let mut zones: Vec<_> = Timezone::names().collect();
    zones.sort_by_key(|name| (*name != own.name(), *name));
    zones
}

/// Whether another check of the project has the slug, so that neither can be pinged by it.
fn is_slug_taken(visit: &Visit, fields: &Fields) -> Result<bool, Trouble> {
    let own = own(visit);
    let slug = crate::domain::text::Slug::parse(&fields.slug).ok().filter(|slug| !slug.is_empty());
    let project = visit.project()?.id;
    visit.handle().with_state(|state| Ok(slug.is_some_and(|slug| state.checks_by_slug(project, &slug).iter().any(|id| Some(*id) != own))))
}

/// The fields in which two forms differ.
fn differences(visit: &Visit, stored: &Fields, typed: &Fields) -> Result<Vec<Difference>, Trouble> {
    let names = channels(visit)?;
    let named = |fields: &Fields| {
        let named = names.iter().filter(|(uuid, ..)| fields.channels.contains(uuid)).map(|(_, name, kind)| match name.as_str() {
            "" => (*kind).to_owned(),
            name => name.to_owned(),
        });
        named.collect::<Vec<_>>().join(", ")
    };
    let pairs = stored.labelled(named(stored)).into_iter().zip(typed.labelled(named(typed)));
    let differ = pairs.filter(|((_, stored), (_, typed))| stored != typed);
    Ok(differ.map(|((label, stored), (_, typed))| Difference { label, stored, typed }).collect())
}

impl Fields {
    /// Every field with what people call it.
    fn labelled(&self, channels: String) -> Vec<(&'static str, String)> {
        let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
        let expected = match self.expects {
            Expects::Period => format!("every {} {}", self.period.number, self.period.unit),
            Expects::Cron => self.cron.clone(),
            Expects::OnCalendar => self.oncalendar.clone(),
        };
        vec![
            ("Name", self.name.clone()),
            ("Slug", self.slug.clone()),
            ("Tags", self.tags.clone()),
            ("Description", self.desc.clone()),
            ("Expected", expected),
            ("Time zone", self.tz.clone()),
            ("Grace", format!("{} {}", self.grace.number, self.grace.unit)),
            ("Alerts", channels),
            ("Failures in a row", self.after.clone()),
            ("Depends on", self.parents.join(", ")),
            ("Stays paused until resumed", yes(self.manual_resume)),
            ("Only POST counts", yes(self.post_only)),
            ("Words that mean a start", self.start_kw.clone()),
            ("Words that mean success", self.success_kw.clone()),
            ("Words that mean failure", self.failure_kw.clone()),
            ("Searched: subjects of mails", yes(self.filter_subject)),
            ("Searched: texts of mails", yes(self.filter_body)),
            ("Searched: bodies of HTTP pings", yes(self.filter_http_body)),
            ("Without any word a failure", yes(self.default_fail)),
        ]
    }
}

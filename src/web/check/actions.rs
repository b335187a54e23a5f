//! What the buttons of a check do.

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::check::Check;
use crate::domain::edit::{ChannelChoice, Edit};
use crate::domain::ping::{Kind, Method, Origin};
use crate::domain::text::{Name, Slug};
use crate::domain::timezone::Timezone;
use crate::engine::command::{CheckNames, Command, CreateCheck, Outcome, PingRequest, Signal, Target};
use crate::web::answer::Done;
use crate::web::error::Trouble;
use crate::web::form::Form;
use crate::web::notice::Notice;
use crate::web::route::Page;
use crate::web::visit::Visit;
use crate::wire::reply::Fault;

/// What pings that are sent from a page are logged as.
const SENDER: &str = "overdue dashboard";

/// Has the writer carry out a command.
pub(super) async fn carry_out(visit: &Visit, command: Command) -> Result<Outcome, Trouble> {
    Ok(visit.handle().call(command).await??)
}

/// Back to the page of the check, which says what was done.
fn done(check: Uuid, notice: &str) -> Done {
    Done::Go(Page::Check(check), Notice::of(notice))
}

/// Pauses the check.
pub(crate) async fn pause(visit: &Visit) -> Result<Done, Trouble> {
    let check = visit.check()?;
    carry_out(visit, Command::Pause(check.id)).await?;
    Ok(done(check.uuid, "paused"))
}

/// Resumes the check.
pub(crate) async fn resume(visit: &Visit) -> Result<Done, Trouble> {
    let check = visit.check()?;
    carry_out(visit, Command::Resume(check.id)).await?;
    Ok(done(check.uuid, "resumed"))
}

/// Sends a ping in the name of the job.
pub(crate) async fn ping(visit: &Visit, form: &Form) -> Result<Done, Trouble> {
    let check = visit.check()?;
    let kind = match form.get("kind") {
        "success" => Kind::Success,
        "fail" => Kind::Fail,
        "start" => Kind::Start,
        _ => return Err(Fault::BadRequest("a ping is success, fail or start".into()).into()),
    };
    let client = &visit.came.client;
    let origin = Origin { scheme: client.scheme, method: Method::Post, remote_addr: Some(client.addr), ua: SENDER.into() };
    let (target, signal) = (Target::Uuid(check.uuid), Signal::Http(kind));
    carry_out(visit, Command::Ping(Box::new(PingRequest { target, signal, origin, rid: None, body: Bytes::new() }))).await?;
    Ok(done(check.uuid, "pinged"))
}

/// Sets the zone of the schedule.
pub(crate) async fn set_zone(visit: &Visit, form: &Form) -> Result<Done, Trouble> {
    let check = visit.check()?;
    let tz = Timezone::parse(form.get("tz")).map_err(|error| Fault::BadRequest(error.to_string().into()))?;
    carry_out(visit, Command::UpdateCheck(check.id, Box::new(Edit { tz: Some(tz), ..Edit::default() }))).await?;
    Ok(done(check.uuid, "saved"))
}

/// Sets who is told of the check.
pub(crate) async fn set_channels(visit: &Visit, form: &Form) -> Result<Done, Trouble> {
    let check = visit.check()?;
    let channels = Some(ChannelChoice::Listed(form.all("channel").map(Box::from).collect()));
    carry_out(visit, Command::UpdateCheck(check.id, Box::new(Edit { channels, ..Edit::default() }))).await?;
    Ok(done(check.uuid, "saved"))
}

/// Makes a check with the settings of this one.
pub(crate) async fn copy(visit: &Visit) -> Result<Done, Trouble> {
    let check = visit.check()?;
    let (after, parents) = (check.settings.after, check.settings.parents.clone());
    let made = create(visit, copied(visit, check)).await?;
    if (after, &parents) != (made.settings.after, &made.settings.parents) {
        carry_out(visit, Command::SetAlerting { check: made.id, after: Some(after), parents: Some(parents) }).await?;
    }
    Ok(done(made.uuid, "copied-check"))
}

/// Makes a check in the project of the page.
pub(super) async fn create(visit: &Visit, edit: Edit) -> Result<Box<Check>, Trouble> {
    let random = visit.handle().random();
    let names = CheckNames { uuid: random.uuid(), badge: random.uuid() };
    let create = CreateCheck { project: visit.project()?.id, edit, unique: Vec::new(), names };
    match carry_out(visit, Command::CreateCheck(Box::new(create))).await? {
        Outcome::Created(check) | Outcome::Check(check) => Ok(check),
        // That command comes to nothing else.
        _ => Err(Trouble::nothing_here()),
    }
}

/// The settings of a check under another name and slug.
fn copied(visit: &Visit, check: &Check) -> Edit {
    let settings = &check.settings;
    let with = |text: &str, suffix: &str, most: usize| text.chars().take(most - suffix.len()).collect::<String>() + suffix;
    let slug = if settings.slug.is_empty() { String::new() } else { with(settings.slug.as_str(), "-copy", Slug::MOST_CHARS) };
    let name = with(settings.name.as_str(), " (copy)", Name::MOST_CHARS);
    visit.handle().with_state(|state| {
        let channels = state.channels_of(check).map(|channel| channel.uuid.to_string().into()).collect();
        let is_simple = settings.schedule.is_none();
        Edit {
            // Neither can be over its limit or have a character that the original had not.
            name: Name::parse(&name).ok(),
            slug: Slug::parse(&slug).ok(),
            tags: Some(settings.tags.clone()),
            desc: Some(settings.desc.clone()),
            timeout: is_simple.then_some(settings.timeout),
            grace: Some(settings.grace),
            schedule: settings.schedule.clone(),
            tz: Some(settings.tz.clone()),
            manual_resume: Some(settings.manual_resume),
            post_only: Some(settings.post_only),
            start_kw: Some(settings.start_kw.clone()),
            success_kw: Some(settings.success_kw.clone()),
            failure_kw: Some(settings.failure_kw.clone()),
            filter_subject: Some(settings.filters.subject),
            filter_body: Some(settings.filters.body),
            filter_http_body: Some(settings.filters.http_body),
            filter_default_fail: Some(settings.filters.default_fail),
            channels: Some(ChannelChoice::Listed(channels)),
            ..Edit::default()
        }
    })
}

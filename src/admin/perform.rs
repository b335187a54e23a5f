//! Carries out a request, for the socket and for a command that has the database to itself alike.

use std::sync::Arc;

use super::request::{ChannelRow, CheckLimit, KeyRow, ProjectRow, Reply, Request};
use crate::channel::{Kind, Settings};
use crate::domain::ids::ProjectId;
use crate::domain::moment::Moment;
use crate::domain::project::{Access, Channel, ChannelSettings, Key, KeyHash, KeyLabel, PingKey, Project, ProjectName, Secret};
use crate::engine::Handle;
use crate::engine::command::{Command, NewChannel, NewKey, NewProject, Refusal, Unavailable};
use crate::engine::state::{ProjectState, State};
use crate::random::Random;

/// Characters of the segment that names a project in badge URLs.
const BADGE_KEY_LENGTH: usize = 22;
/// Names that a message lists.
const FEW_NAMES: usize = 20;

/// Does what is asked and says what came of it.
pub async fn perform(handle: &Handle, request: Request) -> Reply {
    answer(handle, request).await.unwrap_or_else(|refusal| refusal)
}

/// As [`perform`], with the replies that refuse as errors.
async fn answer(handle: &Handle, request: Request) -> Result<Reply, Reply> {
    let in_state = |project: &str| find_project(&handle.state(), project);
    match request {
        Request::CreateProject { name, check_limit, ping_log_limit } => create_project(handle, name, check_limit, ping_log_limit).await,
        Request::SetProject { project, name, check_limit, ping_log_limit } => {
            let (project, check_limit) = (in_state(&project)?.id, check_limit.map(CheckLimit::get));
            submit(handle, Command::SetProject { project, name, check_limit, ping_log_limit }).await
        }
        Request::DeleteProject { project } => submit(handle, Command::DeleteProject(in_state(&project)?.id)).await,
        Request::ListProjects {} => Ok(list_projects(&handle.state())),
        Request::CreateKey { project, access } => {
            let project = in_state(&project)?.id;
            let (secret, shown) = new_key(handle.random(), access)?;
            let hint = shown.chars().take(Key::HINT_LENGTH).collect::<String>().into();
            let key = NewKey { project, secret, label: KeyLabel::default(), hint };
            submit(handle, Command::CreateKey(Box::new(key))).await?;
            Ok(Reply::Made(shown))
        }
        Request::RevokeKey { id } => {
            let found = handle.state().keys().find(|key| key.id.0 == id).map(|key| key.id);
            let unknown = || Reply::Refused(format!("there is no key {id}; `key list` shows those there are"));
            submit(handle, Command::RevokeKey(found.ok_or_else(unknown)?)).await
        }
        Request::ListKeys { project, show_ping_keys } => list_keys(&handle.state(), project.as_deref(), show_ping_keys),
        Request::CreateChannel { project, name, settings } => {
            let project = in_state(&project)?.id;
            let (uuid, kind) = (handle.random().uuid(), settings.kind().name().into());
            let channel = NewChannel { uuid, project, name: String::from(name).into(), kind, settings: settings.pairs() };
            submit(handle, Command::CreateChannel(Box::new(channel))).await?;
            Ok(Reply::Made(uuid.to_string()))
        }
        Request::SetChannel { project, channel, name, settings } => {
            let channel = find_channel(&handle.state(), project.as_deref(), &channel)?;
            let settings = settings.map(|pairs| settings_for(&channel, pairs)).transpose()?;
            let name = name.map(|name| String::from(name).into());
            submit(handle, Command::SetChannel { channel: channel.id, name, settings }).await
        }
        Request::DeleteChannel { project, channel } => {
            let channel = find_channel(&handle.state(), project.as_deref(), &channel)?.id;
            submit(handle, Command::DeleteChannel(channel)).await
        }
        Request::ListChannels { project, show_settings } => list_channels(&handle.state(), project.as_deref(), show_settings),
    }
}

async fn create_project(handle: &Handle, name: ProjectName, check_limit: CheckLimit, ping_log_limit: u32) -> Result<Reply, Reply> {
    let uuid = handle.random().uuid();
    let badge_key = handle.random().url_safe::<BADGE_KEY_LENGTH>().into();
    let project = NewProject { uuid, name, check_limit: check_limit.get(), ping_log_limit, badge_key };
    submit(handle, Command::CreateProject(Box::new(project))).await?;
    Ok(Reply::Made(uuid.to_string()))
}

/// A key as it is stored, and as it is shown once.
fn new_key(random: &Random, access: Access) -> Result<(Secret, String), Reply> {
    let api_key = || random.url_safe::<{ KeyHash::KEY_LENGTH }>();
    match access {
        Access::ReadWrite => Some(api_key()).map(|key| (Secret::ReadWrite(KeyHash::of(key.as_bytes())), key)),
        Access::ReadOnly => Some(api_key()).map(|key| (Secret::ReadOnly(KeyHash::of(key.as_bytes())), key)),
        Access::Ping => {
            let text = random.url_safe::<{ PingKey::LENGTH }>();
            PingKey::parse(&text).map(|key| (Secret::Ping(key), text))
        }
    }
    .ok_or_else(|| Reply::Refused("no key could be made".into()))
}

/// The settings of a channel anew, which its kind has to take.
fn settings_for(channel: &Channel, pairs: Vec<(String, String)>) -> Result<ChannelSettings, Reply> {
    let kind = Kind::parse(&channel.kind);
    let kind =
        kind.ok_or_else(|| Reply::Refused(format!("this release knows no channels of kind {}; delete it and make another", channel.kind)))?;
    Settings::parse(kind, pairs).map(|settings| settings.pairs()).map_err(|error| Reply::Invalid(error.to_string()))
}

/// Has the writer do it, and waits until it is on disk.
async fn submit(handle: &Handle, command: Command) -> Result<Reply, Reply> {
    let refusal = match handle.call(command).await {
        Ok(Ok(_)) => return Ok(Reply::Done),
        Ok(Err(Refusal::ProjectNameTaken)) => "there is a project of that name already; choose another name",
        // What other refusals are about no request here contains.
        Ok(Err(_)) => "what it is about was removed meanwhile",
        Err(Unavailable::Busy) => "the server has too much to do; nothing was changed, try again",
        Err(Unavailable::Stopping) => "the server is stopping; nothing was changed, try again",
        Err(Unavailable::Storage) => {
            "the database cannot be written at the moment, the change may or may not have been made; see the server's log"
        }
    };
    Err(Reply::Refused(refusal.into()))
}

/// The project of this name or, if there is none, of this UUID.
fn find_project(state: &State, wanted: &str) -> Result<Arc<Project>, Reply> {
    let projects = || state.projects().map(|project_state| &project_state.project);
    let by_name = projects().find(|project| project.name.as_str() == wanted);
    by_name.or_else(|| projects().find(|project| project.uuid.to_string() == wanted)).cloned().ok_or_else(|| {
        Reply::Refused(match few(projects().map(|project| project.name.as_str())) {
            None => format!("there is no project {wanted:?}, nor any other; `project create` makes one"),
            Some(names) => format!("there is no project {wanted:?}; there are: {names}"),
        })
    })
}

/// The id of a project, if one is named.
fn find_any(state: &State, project: Option<&str>) -> Result<Option<ProjectId>, Reply> {
    Ok(project.map(|wanted| find_project(state, wanted)).transpose()?.map(|project| project.id))
}

/// The projects of one project or of all.
fn projects<'s>(state: &'s State, project: Option<&str>) -> Result<impl Iterator<Item = &'s ProjectState> + use<'s>, Reply> {
    let one = find_any(state, project)?;
    Ok(state.projects().filter(move |project_state| one.is_none_or(|one| project_state.project.id == one)))
}

/// The one channel of this UUID or name, in one project or in all.
fn find_channel(state: &State, project: Option<&str>, wanted: &str) -> Result<Arc<Channel>, Reply> {
    let channels: Vec<_> = projects(state, project)?.flat_map(|project_state| project_state.channels.values()).collect();
    if let Some(channel) = channels.iter().find(|channel| channel.uuid.to_string() == wanted) {
        return Ok(Arc::clone(channel));
    }
    let fitting: Vec<_> = channels.into_iter().filter(|channel| *channel.name == *wanted).collect();
    match fitting.as_slice() {
        [channel] => Ok(Arc::clone(channel)),
        [] => Err(Reply::Refused(format!("there is no channel {wanted:?}; `channel list` shows those there are"))),
        several => {
            let uuids: Vec<_> = several.iter().map(|channel| channel.uuid.to_string()).collect();
            let uuids = few(uuids.iter().map(String::as_str)).unwrap_or_default();
            Err(Reply::Refused(format!("{} channels are named {wanted:?}; give the UUID of one: {uuids}", several.len())))
        }
    }
}

/// Some of the names, for a message; `None` if there are none.
fn few<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let shown: Vec<_> = names.by_ref().take(FEW_NAMES).collect();
    let more = if names.next().is_some() { ", ..." } else { "" };
    (!shown.is_empty()).then(|| shown.join(", ") + more)
}

fn list_projects(state: &State) -> Reply {
    let row = |project_state: &ProjectState| ProjectRow {
        uuid: project_state.project.uuid,
        name: project_state.project.name.as_str().into(),
        checks: project_state.checks.len(),
        check_limit: project_state.project.check_limit,
        ping_log_limit: project_state.project.ping_log_limit,
    };
    Reply::Projects(state.projects().map(row).collect())
}

fn list_keys(state: &State, project: Option<&str>, show_ping_keys: bool) -> Result<Reply, Reply> {
    let one = find_any(state, project)?;
    let rows = state.keys().filter(|key| one.is_none_or(|one| key.project == one)).filter_map(|key| {
        let project = &state.project(key.project)?.project;
        let shown = match &key.secret {
            Secret::Ping(key) if show_ping_keys => Some(key.as_str().into()),
            _ => None,
        };
        Some(KeyRow {
            id: key.id.0,
            project: project.name.as_str().into(),
            access: key.secret.access().name().into(),
            created: written(key.created),
            key: shown,
        })
    });
    Ok(Reply::Keys(rows.collect()))
}

fn list_channels(state: &State, project: Option<&str>, show_settings: bool) -> Result<Reply, Reply> {
    let of_one = |project_state: &ProjectState| {
        let project = project_state.project.name.as_str().to_owned();
        let row = move |channel: &Arc<Channel>| ChannelRow {
            uuid: channel.uuid,
            project: project.clone(),
            kind: channel.kind.as_ref().into(),
            name: channel.name.as_ref().into(),
            settings: show_settings
                .then(|| channel.settings.iter().map(|(key, value)| (key.as_ref().into(), value.as_ref().into())).collect()),
        };
        project_state.channels.values().map(row).collect::<Vec<_>>()
    };
    Ok(Reply::Channels(projects(state, project)?.flat_map(of_one).collect()))
}

fn written(moment: Moment) -> String {
    let mut text = String::new();
    moment.write_seconds(&mut text);
    text
}

#[cfg(test)]
mod tests;

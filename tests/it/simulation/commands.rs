//! What happens in a simulation: commands of every kind, mostly to what exists, in small worlds in which they meet each other.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use overdue::domain::channel;
use overdue::domain::edit::{ChannelChoice, Edit, UniqueField};
use overdue::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, WindowId};
use overdue::domain::moment::Moment;
use overdue::domain::parents::Parents;
use overdue::domain::ping::{Kind, Method, Origin, Scheme};
use overdue::domain::project::{BadgeSecret, ChannelName, KeyHash, KeyLabel, KeyUse, PingKey, ProjectName, Secret};
use overdue::domain::schedule::Schedule;
use overdue::domain::text::{Description, Failures, Keywords, Name, Seconds, Slug, Tags};
use overdue::domain::timezone::Timezone;
use overdue::domain::window::WindowTimes;
use overdue::engine::Thresholds;
use overdue::engine::command::stage::StageCommand;
use overdue::engine::command::{CheckNames, Command, CreateCheck, NewChannel, NewKey, NewProject, NewWindow, PingRequest, Signal, Target};
use uuid::Uuid;

use super::imports;
use super::model::Model;
use super::users;
use crate::support::dice::Dice;

/// Checks above which none is created any more.
const MANY_CHECKS: usize = 14;
/// Checks above which none is declared or imported any more: few of those have channels.
pub(crate) const SOME_CHECKS: usize = 9;

/// The first two commands of every simulation: a project with a check that nothing but pings ever happens to.
pub(crate) fn witness(dice: &Dice) -> [Command; 2] {
    let project = NewProject {
        uuid: dice.random().uuid(),
        name: ProjectName::parse("witness").unwrap(),
        check_limit: None,
        ping_log_limit: 3,
        badge_key: "w".into(),
    };
    let check = CreateCheck { project: ProjectId(1), edit: Edit::default(), unique: Vec::new(), names: names(dice) };
    [Command::CreateProject(Box::new(project)), Command::CreateCheck(Box::new(check))]
}

/// The number that the witness's check gets.
pub(crate) const WITNESS: u64 = 2;

/// A ping of the witness's check.
pub(crate) fn witness_ping(model: &Model) -> Command {
    let target = Target::Uuid(model.checks[&WITNESS].names.uuid);
    let origin = Origin { scheme: Scheme::Https, method: Method::Head, remote_addr: Some([0, 0, 0, 0].into()), ua: "".into() };
    Command::Ping(Box::new(PingRequest { target, signal: Signal::Http(Kind::Success), origin, rid: None, body: Bytes::new() }))
}

/// Some command. Most are carried out, some are refused.
pub(crate) fn some_command(dice: &Dice, model: &Model) -> Command {
    if dice.chance(6) {
        return imports::some_command(dice, model, model.checks.len() < SOME_CHECKS);
    }
    match dice.below(100) {
        0..60 => Command::Ping(Box::new(ping(dice, model))),
        60..74 => Command::UpdateCheck(check(dice, model), Box::new(edit(dice, model))),
        74..80 => Command::Pause(check(dice, model)),
        80..85 => Command::Resume(check(dice, model)),
        85..91 if model.checks.len() < MANY_CHECKS => Command::CreateCheck(Box::new(CreateCheck {
            project: project(dice, model),
            edit: edit(dice, model),
            unique: (0..dice.below(3)).map(|_| dice.pick(&UNIQUE_FIELDS)).collect(),
            names: names(dice),
        })),
        85..93 => Command::DeleteCheck(check(dice, model)),
        93 => Command::Expire((0..dice.below(5)).map(|_| check(dice, model)).collect()),
        94 => Command::BringBack((0..dice.below(5)).map(|_| check(dice, model)).collect()),
        95 => Command::SetAlerting {
            check: check(dice, model),
            after: Some(Failures::parse(dice.pick(&[1, 1, 1, 2, 4])).unwrap()),
            parents: dice.maybe(70, |dice| Parents::new((0..dice.below(3)).map(|_| check(dice, model)).collect()).unwrap()),
        },
        96 => Command::User(Box::new(users::some_command(dice, &model.users, project(dice, model)))),
        // Many would hold back nearly all that is to be told.
        97 if model.windows.len() < 2 => Command::CreateWindow(Box::new(NewWindow {
            uuid: dice.random().uuid(),
            project: project(dice, model),
            name: Name::default(),
            tags: Tags::parse(dice.pick(&["a", "prod", "a prod"])).unwrap(),
            times: WindowTimes::Recurring {
                schedule: Arc::new(Schedule::parse(dice.pick(&["0 3 * * *", "*/30 * * * *", "2020-01-01 00:00"])).unwrap()),
                tz: Timezone::utc(),
                minutes: dice.pick(&[1, 5, 31]),
            },
        })),
        97 | 98 if !model.windows.is_empty() => {
            let (project, window) = *model.windows.keys().nth(dice.below(model.windows.len() as u64) as usize).unwrap();
            Command::DeleteWindow(ProjectId(project), WindowId(window))
        }
        _ => admin(dice, model),
    }
}

const UNIQUE_FIELDS: [UniqueField; 5] = [UniqueField::Name, UniqueField::Slug, UniqueField::Tags, UniqueField::Timeout, UniqueField::Grace];

fn admin(dice: &Dice, model: &Model) -> Command {
    let limit = |dice: &Dice| dice.maybe(70, |dice| 1 + dice.below(8) as u32);
    let log_limit = |dice: &Dice| 1 + dice.below(12) as u32;
    let project = project(dice, model);
    match dice.below(if project.0 == 1 { 70 } else { 100 }) {
        0..15 => Command::CreateProject(Box::new(NewProject {
            uuid: dice.random().uuid(),
            name: name(dice),
            check_limit: limit(dice),
            ping_log_limit: log_limit(dice),
            badge_key: dice.random().url_safe::<8>().into(),
        })),
        15..32 => {
            let secret = match dice.below(4) {
                0 => Secret::ReadWrite(KeyHash(dice.random().bytes())),
                1 => Secret::ReadOnly(KeyHash(dice.random().bytes())),
                _ => Secret::Ping(ping_key(dice)),
            };
            let label = KeyLabel::parse(dice.pick(&["", "CI", "the other"])).unwrap();
            Command::CreateKey(Box::new(NewKey { project, secret, label, hint: dice.random().url_safe::<4>().into() }))
        }
        32..35 => {
            let from = IpAddr::from([192, 0, 2, dice.below(4) as u8]);
            let key = KeyId(some_of(dice, model.keys.keys()));
            Command::NoteKeyUses(vec![(key, KeyUse { at: Moment::from_secs(dice.below(20_000) as i64), from })])
        }
        35 if dice.chance(50) => Command::RehashKey(KeyId(some_of(dice, model.keys.keys())), KeyHash(dice.random().bytes())),
        35..36 => Command::SetBadgeSecret(BadgeSecret(dice.random().bytes())),
        36..38 => Command::SetKey(KeyId(some_of(dice, model.keys.keys())), KeyLabel::parse(dice.pick(&["", "renamed"])).unwrap()),
        38..42 => Command::RevokeKey(KeyId(some_of(dice, model.keys.keys()))),
        42..57 => Command::CreateChannel(Box::new(NewChannel {
            uuid: dice.random().uuid(),
            project,
            name: channel_name(dice),
            settings: channel_settings(dice),
            operator: true,
        })),
        57..62 => Command::SetChannel {
            channel: ChannelId(some_of(dice, model.channels.keys())),
            name: dice.maybe(50, channel_name),
            settings: dice.maybe(50, given_settings),
            maker: channel::Maker::Operator,
        },
        62..65 => Command::AssignChannel {
            channel: ChannelId(some_of(dice, model.channels.keys())),
            checks: (0..dice.below(5)).map(|_| check(dice, model)).collect(),
            assigned: dice.below(3) > 0,
        },
        65..70 => Command::DeleteChannel(ChannelId(some_of(dice, model.channels.keys()))),
        70..95 => Command::SetProject {
            project,
            name: dice.maybe(20, name),
            check_limit: dice.maybe(50, limit),
            ping_log_limit: dice.maybe(50, log_limit),
        },
        _ => Command::DeleteProject(project),
    }
}

fn ping(dice: &Dice, model: &Model) -> PingRequest {
    let ping_keys = || model.keys.values().filter_map(|key| if let Secret::Ping(key) = &key.secret { Some(key) } else { None });
    let target = match dice.below(100) {
        0..75 => {
            let id = check(dice, model);
            Target::Uuid(model.checks.get(&id.0).map_or_else(|| dice.random().uuid(), |check| check.names.uuid))
        }
        _ => Target::Slug {
            key: ping_keys().nth(dice.below(4) as usize).cloned().unwrap_or_else(|| ping_key(dice)),
            slug: slug(dice),
            create: dice.maybe(if model.checks.len() < MANY_CHECKS { 60 } else { 0 }, names),
        },
    };
    let email = dice.chance(10);
    let signal = if email {
        let subject = dice.pick(&["", "GO", "backup OK", "ERR 3", "OK ERR"]).into();
        Signal::Email { subject, text: dice.pick(&["", "nothing", "it is OK", "ERR"]).into(), said: None }
    } else {
        Signal::Http(dice.pick(&[Kind::Success, Kind::Success, Kind::Success, Kind::Start, Kind::Start, Kind::Fail, Kind::Log]))
    };
    let method = if email { Method::None } else { dice.pick(&[Method::Get, Method::Head, Method::Post]) };
    let body = match dice.below(6) {
        0..3 => Bytes::new(),
        3 => Bytes::from_static(b"exit ERR"),
        4 => Bytes::from_static(b"OK"),
        // Around the limit of what is stored, and larger than a page of the database.
        _ => Bytes::copy_from_slice(&dice.random().bytes::<6000>()[..dice.pick(&[1, 47, 48, 49, 500, 6000])]),
    };
    let scheme = if email { Scheme::Email } else { Scheme::Http };
    let origin = Origin { scheme, method, remote_addr: Some([127, 0, 0, 1].into()), ua: "simulation".into() };
    let rid = dice.maybe(if email { 0 } else { 50 }, |dice| Uuid::from_u128(1 + u128::from(dice.below(2))));
    PingRequest { target, signal, origin, rid, body }
}

/// A mail: one body for all, and its pings are no requests.
pub(crate) fn mail(dice: &Dice, model: &Model) -> Command {
    let body = Bytes::copy_from_slice(&dice.random().bytes::<6000>()[..dice.pick(&[0, 3, 500, 6000, 6000])]);
    let one = |_| {
        let PingRequest { target, mut origin, .. } = ping(dice, model);
        (origin.scheme, origin.method) = (Scheme::Email, Method::None);
        let signal = Signal::Email { subject: "backup OK".into(), text: "".into(), said: None };
        PingRequest { target, signal, origin, rid: None, body: body.clone() }
    };
    Command::Mail((0..1 + dice.below(5)).map(one).collect())
}

/// In how many pieces a command may be written ahead of itself, if it is large: more than 1.
pub(crate) fn pieces(command: &Command, thresholds: &Thresholds) -> usize {
    let (body, pings) = match command {
        Command::Ping(request) => (request.body.len(), 1),
        Command::Mail(pings) => (pings.first().map_or(0, |ping| ping.body.len()), pings.len()),
        // Several pings are in one piece, but a large command is carried out after the small ones.
        Command::Stage(command) => match &**command {
            StageCommand::Log { pings, .. } => (pings.iter().map(|ping| ping.body.len()).sum(), pings.len()),
            StageCommand::Objects { objects, .. } => (400, objects.len()),
            _ => (0, 0),
        },
        Command::Declare(asked) => (asked.weight(), 1),
        _ => (0, 0),
    };
    // A command may be large for what it has beside bodies.
    if (body + 400) * pings > thresholds.large { 2 + body / thresholds.piece } else { 1 }
}

pub(crate) fn edit(dice: &Dice, model: &Model) -> Edit {
    let seconds = |dice: &Dice| Seconds::parse(dice.pick(&[60, 90, 600, 3600, 86_400, 31_536_000])).unwrap();
    let schedule = |dice: &Dice| Arc::new(Schedule::parse(dice.pick(&["*/5 * * * *", "0 3 * * *", "2020-01-01"])).unwrap());
    let keywords = dice.chance(20);
    let keyword = |text: &str| keywords.then(|| Keywords::parse(text).unwrap());
    let switch = |dice: &Dice| dice.chance(40);
    Edit {
        name: dice.maybe(20, |dice| Name::parse(dice.pick(&["", "night", "day"])).unwrap()),
        slug: dice.maybe(20, slug),
        tags: dice.maybe(20, |dice| Tags::stored(dice.pick(&["", "prod", "prod db"]))),
        desc: dice.maybe(10, |dice| Description::stored(dice.pick(&["", "what it is"]))),
        timeout: dice.maybe(30, seconds),
        grace: dice.maybe(30, seconds),
        schedule: dice.maybe(15, schedule),
        tz: None,
        manual_resume: dice.maybe(15, switch),
        post_only: dice.maybe(10, switch),
        start_kw: keyword("GO"),
        success_kw: keyword("never sent, OK"),
        failure_kw: keyword("ERR,"),
        filter_subject: dice.maybe(10, switch),
        filter_body: dice.maybe(10, switch),
        filter_http_body: dice.maybe(10, switch),
        filter_default_fail: dice.maybe(10, switch),
        channels: dice.maybe(30, |dice| channels(dice, model)),
        ..Edit::default()
    }
}

fn channels(dice: &Dice, model: &Model) -> ChannelChoice {
    let uuid = |dice: &Dice| model.channels.get(&some_of(dice, model.channels.keys())).map(|channel| channel.uuid.to_string());
    match dice.below(2) {
        0 => ChannelChoice::All,
        _ => ChannelChoice::Listed(
            (0..dice.below(3))
                .map(|_| uuid(dice).filter(|_| dice.chance(80)).map_or_else(|| dice.pick(&["mail", "hook", ""]).into(), Into::into))
                .collect(),
        ),
    }
}

fn name(dice: &Dice) -> ProjectName {
    ProjectName::parse(dice.pick(&["one", "two", "three", "four", "five"])).unwrap()
}

fn channel_name(dice: &Dice) -> ChannelName {
    ChannelName::parse(dice.pick(&["", "mail", "hook"])).unwrap()
}

fn channel_settings(dice: &Dice) -> channel::ChannelSettings {
    let to = dice.pick(&["root@example.org", "ops@example.org"]);
    channel::ChannelSettings::parse(channel::ChannelKind::named("email").unwrap(), [("to", to)]).unwrap()
}

fn given_settings(dice: &Dice) -> channel::GivenSettings {
    let settings = channel_settings(dice);
    channel::GivenSettings::new(settings.pairs().map(|(key, value)| (key.into(), value.into())).collect())
}

fn slug(dice: &Dice) -> Slug {
    Slug::parse(dice.pick(&["a", "b", "c", "d", "e"])).unwrap()
}

fn ping_key(dice: &Dice) -> PingKey {
    PingKey::parse(&dice.random().url_safe::<22>()).unwrap()
}

fn names(dice: &Dice) -> CheckNames {
    CheckNames { uuid: dice.random().uuid(), badge: dice.random().uuid() }
}

fn project(dice: &Dice, model: &Model) -> ProjectId {
    ProjectId(some_of(dice, model.projects.keys()))
}

/// Mostly one that exists, never the witness.
fn check(dice: &Dice, model: &Model) -> CheckId {
    let id = some_of(dice, model.checks.keys().filter(|id| **id != WITNESS));
    CheckId(if id == WITNESS { 0 } else { id })
}

fn some_of<'a>(dice: &Dice, ids: impl Iterator<Item = &'a u64>) -> u64 {
    let ids: Vec<_> = ids.copied().collect();
    if ids.is_empty() || dice.chance(3) { dice.below(40) } else { dice.pick(&ids) }
}

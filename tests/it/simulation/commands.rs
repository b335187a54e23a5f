//! What happens in a simulation: commands of every kind, mostly to what exists, in small worlds in
//! which they meet each other.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use overdue::channels;
use overdue::domain::channel;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit, UniqueField};
use overdue::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, WindowId};
use overdue::domain::maintenance_window::WindowTimes;
use overdue::domain::parents::Parents;
use overdue::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use overdue::domain::project::{
    BadgeSecret, ChannelName, KeyHash, KeyLabel, KeySecret, KeyUse, PingKey, ProjectName,
};
use overdue::domain::schedule::Schedule;
use overdue::domain::text::{Description, FailureThreshold, Keywords, Name, Seconds, Slug, Tags};
use overdue::domain::timestamp::Timestamp;
use overdue::domain::timezone::Timezone;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::import::ImportStep;
use overdue::engine::command::{
    CheckUuids, Command, CreateCheckRequest, NewChannel, NewKey, NewProject, NewWindow,
    PingRequest, PingSignal, PingTarget,
};
use uuid::Uuid;

use super::imports;
use super::model::Model;
use super::users;
use crate::support::seeded_rng::SeededRng;

/// Checks above which none is created any more.
const MAX_CREATED_CHECKS: usize = 14;
/// Checks above which none is declared or imported any more: few of those have channels.
pub(crate) const MAX_IMPORTED_CHECKS: usize = 9;

/// The first two commands of every simulation: a project with a check that nothing but pings ever
/// happens to.
pub(crate) fn create_witness(dice: &SeededRng) -> [Command; 2] {
    let project = NewProject {
        uuid: dice.random().uuid(),
        name: ProjectName::parse("witness").unwrap(),
        check_limit: None,
        ping_log_limit: 3,
        badge_key: "w".into(),
    };
    let check = CreateCheckRequest {
        project: ProjectId(1),
        edit: CheckEdit::default(),
        unique: Vec::new(),
        uuids: names(dice),
    };
    [
        Command::CreateProject(Box::new(project)),
        Command::CreateCheck(Box::new(check)),
    ]
}

/// The number that the witness's check gets.
pub(crate) const WITNESS_CHECK: u64 = 2;

/// A ping of the witness's check.
pub(crate) fn witness_ping(model: &Model) -> Command {
    let target = PingTarget::Uuid(model.checks[&WITNESS_CHECK].names.uuid);
    let origin = PingOrigin {
        scheme: PingScheme::Https,
        method: PingMethod::Head,
        remote_addr: Some([0, 0, 0, 0].into()),
        user_agent: "".into(),
    };
    Command::Ping(Box::new(PingRequest {
        target,
        signal: PingSignal::Http(PingKind::Success),
        origin,
        rid: None,
        body: Bytes::new(),
    }))
}

/// Some command. Most are carried out, some are refused.
pub(crate) fn random_command(dice: &SeededRng, model: &Model) -> Command {
    if dice.chance(6) {
        return imports::random_command(dice, model, model.checks.len() < MAX_IMPORTED_CHECKS);
    }
    match dice.below(100) {
        0..60 => Command::Ping(Box::new(random_ping(dice, model))),
        60..74 => Command::UpdateCheck(check(dice, model), Box::new(random_edit(dice, model))),
        74..80 => Command::PauseCheck(check(dice, model)),
        80..85 => Command::ResumeCheck(check(dice, model)),
        85..91 if model.checks.len() < MAX_CREATED_CHECKS => {
            Command::CreateCheck(Box::new(CreateCheckRequest {
                project: project(dice, model),
                edit: random_edit(dice, model),
                unique: (0..dice.below(3))
                    .map(|_| dice.pick(&UNIQUE_FIELDS))
                    .collect(),
                uuids: names(dice),
            }))
        }
        85..93 => Command::DeleteCheck(check(dice, model)),
        93 => Command::ExpireChecks((0..dice.below(5)).map(|_| check(dice, model)).collect()),
        94 => Command::RearmChecks((0..dice.below(5)).map(|_| check(dice, model)).collect()),
        95 => Command::SetAlerting {
            check: check(dice, model),
            after: Some(FailureThreshold::parse(dice.pick(&[1, 1, 1, 2, 4])).unwrap()),
            parents: dice.optional(70, |dice| {
                Parents::new((0..dice.below(3)).map(|_| check(dice, model)).collect()).unwrap()
            }),
        },
        96 => Command::User(Box::new(users::random_command(
            dice,
            &model.users,
            project(dice, model),
        ))),
        // Many would hold back nearly all that is to be told.
        97 if model.windows.len() < 2 => Command::CreateWindow(Box::new(NewWindow {
            uuid: dice.random().uuid(),
            project: project(dice, model),
            name: Name::default(),
            tags: Tags::parse(dice.pick(&["a", "prod", "a prod"])).unwrap(),
            times: WindowTimes::Recurring {
                schedule: Arc::new(
                    Schedule::parse(dice.pick(&["0 3 * * *", "*/30 * * * *", "2020-01-01 00:00"]))
                        .unwrap(),
                ),
                tz: Timezone::utc(),
                minutes: dice.pick(&[1, 5, 31]),
            },
        })),
        97 | 98 if !model.windows.is_empty() => {
            let (project, window) = *model
                .windows
                .keys()
                .nth(dice.below(model.windows.len() as u64) as usize)
                .unwrap();
            Command::DeleteWindow(ProjectId(project), WindowId(window))
        }
        _ => random_admin_command(dice, model),
    }
}

const UNIQUE_FIELDS: [UniqueField; 5] = [
    UniqueField::Name,
    UniqueField::Slug,
    UniqueField::Tags,
    UniqueField::Timeout,
    UniqueField::Grace,
];

fn random_admin_command(dice: &SeededRng, model: &Model) -> Command {
    let limit = |dice: &SeededRng| dice.optional(70, |dice| 1 + dice.below(8) as u32);
    let log_limit = |dice: &SeededRng| 1 + dice.below(12) as u32;
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
                0 => KeySecret::ReadWrite(KeyHash(dice.random().bytes())),
                1 => KeySecret::ReadOnly(KeyHash(dice.random().bytes())),
                _ => KeySecret::Ping(ping_key(dice)),
            };
            let label = KeyLabel::parse(dice.pick(&["", "CI", "the other"])).unwrap();
            Command::CreateKey(Box::new(NewKey {
                project,
                secret,
                label,
                hint: dice.random().url_safe::<4>().into(),
            }))
        }
        32..35 => {
            let from = IpAddr::from([192, 0, 2, dice.below(4) as u8]);
            let key = KeyId(random_id(dice, model.keys.keys()));
            Command::RecordKeyUses(vec![(
                key,
                KeyUse {
                    at: Timestamp::from_secs(dice.below(20_000) as i64),
                    from,
                },
            )])
        }
        35 if dice.chance(50) => Command::RehashKey(
            KeyId(random_id(dice, model.keys.keys())),
            KeyHash(dice.random().bytes()),
        ),
        35..36 => Command::SetBadgeSecret(BadgeSecret(dice.random().bytes())),
        36..38 => Command::RenameKey(
            KeyId(random_id(dice, model.keys.keys())),
            KeyLabel::parse(dice.pick(&["", "renamed"])).unwrap(),
        ),
        38..42 => Command::RevokeKey(KeyId(random_id(dice, model.keys.keys()))),
        42..57 => Command::CreateChannel(Box::new(NewChannel {
            uuid: dice.random().uuid(),
            project,
            name: channel_name(dice),
            settings: channel_settings(dice),
            is_by_operator: true,
        })),
        57..62 => Command::UpdateChannel {
            channel: ChannelId(random_id(dice, model.channels.keys())),
            name: dice.optional(50, channel_name),
            settings: dice.optional(50, given_settings),
            maker: channel::SettingsAuthor::Operator,
        },
        62..65 => Command::AssignChannel {
            channel: ChannelId(random_id(dice, model.channels.keys())),
            checks: (0..dice.below(5)).map(|_| check(dice, model)).collect(),
            assigned: dice.below(3) > 0,
        },
        65..70 => Command::DeleteChannel(ChannelId(random_id(dice, model.channels.keys()))),
        70..95 => Command::UpdateProject {
            project,
            name: dice.optional(20, name),
            check_limit: dice.optional(50, limit),
            ping_log_limit: dice.optional(50, log_limit),
        },
        _ => Command::DeleteProject(project),
    }
}

fn random_ping(dice: &SeededRng, model: &Model) -> PingRequest {
    let ping_keys = || {
        model.keys.values().filter_map(|key| {
            if let KeySecret::Ping(key) = &key.secret {
                Some(key)
            } else {
                None
            }
        })
    };
    let target = match dice.below(100) {
        0..75 => {
            let id = check(dice, model);
            PingTarget::Uuid(
                model
                    .checks
                    .get(&id.0)
                    .map_or_else(|| dice.random().uuid(), |check| check.names.uuid),
            )
        }
        _ => PingTarget::Slug {
            key: ping_keys()
                .nth(dice.below(4) as usize)
                .cloned()
                .unwrap_or_else(|| ping_key(dice)),
            slug: slug(dice),
            create: dice.optional(
                if model.checks.len() < MAX_CREATED_CHECKS {
                    60
                } else {
                    0
                },
                names,
            ),
        },
    };
    let email = dice.chance(10);
    let signal = if email {
        let subject = dice
            .pick(&["", "GO", "backup OK", "ERR 3", "OK ERR"])
            .into();
        PingSignal::Email {
            subject,
            text: dice.pick(&["", "nothing", "it is OK", "ERR"]).into(),
            precomputed: None,
        }
    } else {
        PingSignal::Http(dice.pick(&[
            PingKind::Success,
            PingKind::Success,
            PingKind::Success,
            PingKind::Start,
            PingKind::Start,
            PingKind::Fail,
            PingKind::Log,
        ]))
    };
    let method = if email {
        PingMethod::None
    } else {
        dice.pick(&[PingMethod::Get, PingMethod::Head, PingMethod::Post])
    };
    let body = match dice.below(6) {
        0..3 => Bytes::new(),
        3 => Bytes::from_static(b"exit ERR"),
        4 => Bytes::from_static(b"OK"),
        // Around the limit of what is stored, and larger than a page of the database.
        _ => Bytes::copy_from_slice(
            &dice.random().bytes::<6000>()[..dice.pick(&[1, 47, 48, 49, 500, 6000])],
        ),
    };
    let scheme = if email {
        PingScheme::Email
    } else {
        PingScheme::Http
    };
    let origin = PingOrigin {
        scheme,
        method,
        remote_addr: Some([127, 0, 0, 1].into()),
        user_agent: "simulation".into(),
    };
    let rid = dice.optional(if email { 0 } else { 50 }, |dice| {
        Uuid::from_u128(1 + u128::from(dice.below(2)))
    });
    PingRequest {
        target,
        signal,
        origin,
        rid,
        body,
    }
}

/// A mail: one body for all, and its pings are no requests.
pub(crate) fn random_mail(dice: &SeededRng, model: &Model) -> Command {
    let body = Bytes::copy_from_slice(
        &dice.random().bytes::<6000>()[..dice.pick(&[0, 3, 500, 6000, 6000])],
    );
    let one = |_| {
        let PingRequest {
            target, mut origin, ..
        } = random_ping(dice, model);
        (origin.scheme, origin.method) = (PingScheme::Email, PingMethod::None);
        let signal = PingSignal::Email {
            subject: "backup OK".into(),
            text: "".into(),
            precomputed: None,
        };
        PingRequest {
            target,
            signal,
            origin,
            rid: None,
            body: body.clone(),
        }
    };
    Command::Mail((0..1 + dice.below(5)).map(one).collect())
}

/// In how many pieces a command may be written ahead of itself, if it is large: more than 1.
pub(crate) fn max_commits(command: &Command, thresholds: &HousekeepingLimits) -> usize {
    let (body, pings) = match command {
        Command::Ping(request) => (request.body.len(), 1),
        Command::Mail(pings) => (pings.first().map_or(0, |ping| ping.body.len()), pings.len()),
        // Several pings are in one piece, but a large command is carried out after the small ones.
        Command::Import(command) => match &**command {
            ImportStep::Log { pings, .. } => {
                (pings.iter().map(|ping| ping.body.len()).sum(), pings.len())
            }
            ImportStep::Items { objects, .. } => (400, objects.len()),
            _ => (0, 0),
        },
        Command::ApplyConfig(asked) => (asked.approximate_bytes(), 1),
        _ => (0, 0),
    };
    // A command may be large for what it has beside bodies.
    if (body + 400) * pings > thresholds.large_body_bytes {
        2 + body / thresholds.chunk_bytes
    } else {
        1
    }
}

pub(crate) fn random_edit(dice: &SeededRng, model: &Model) -> CheckEdit {
    let seconds = |dice: &SeededRng| {
        Seconds::parse(dice.pick(&[60, 90, 600, 3600, 86_400, 31_536_000])).unwrap()
    };
    let schedule = |dice: &SeededRng| {
        Arc::new(Schedule::parse(dice.pick(&["*/5 * * * *", "0 3 * * *", "2020-01-01"])).unwrap())
    };
    let keywords = dice.chance(20);
    let keyword = |text: &str| keywords.then(|| Keywords::parse(text).unwrap());
    let switch = |dice: &SeededRng| dice.chance(40);
    CheckEdit {
        name: dice.optional(20, |dice| {
            Name::parse(dice.pick(&["", "night", "day"])).unwrap()
        }),
        slug: dice.optional(20, slug),
        tags: dice.optional(20, |dice| {
            Tags::from_stored(dice.pick(&["", "prod", "prod db"]))
        }),
        desc: dice.optional(10, |dice| {
            Description::from_stored(dice.pick(&["", "what it is"]))
        }),
        timeout: dice.optional(30, seconds),
        grace: dice.optional(30, seconds),
        schedule: dice.optional(15, schedule),
        tz: None,
        manual_resume: dice.optional(15, switch),
        post_only: dice.optional(10, switch),
        start_kw: keyword("GO"),
        success_kw: keyword("never sent, OK"),
        failure_kw: keyword("ERR,"),
        filter_subject: dice.optional(10, switch),
        filter_body: dice.optional(10, switch),
        filter_http_body: dice.optional(10, switch),
        filter_default_fail: dice.optional(10, switch),
        channels: dice.optional(30, |dice| random_channel_choice(dice, model)),
        ..CheckEdit::default()
    }
}

fn random_channel_choice(dice: &SeededRng, model: &Model) -> ChannelSelection {
    let uuid = |dice: &SeededRng| {
        model
            .channels
            .get(&random_id(dice, model.channels.keys()))
            .map(|channel| channel.uuid.to_string())
    };
    match dice.below(2) {
        0 => ChannelSelection::All,
        _ => ChannelSelection::Listed(
            (0..dice.below(3))
                .map(|_| {
                    uuid(dice)
                        .filter(|_| dice.chance(80))
                        .map_or_else(|| dice.pick(&["mail", "hook", ""]).into(), Into::into)
                })
                .collect(),
        ),
    }
}

fn name(dice: &SeededRng) -> ProjectName {
    ProjectName::parse(dice.pick(&["one", "two", "three", "four", "five"])).unwrap()
}

fn channel_name(dice: &SeededRng) -> ChannelName {
    ChannelName::parse(dice.pick(&["", "mail", "hook"])).unwrap()
}

fn channel_settings(dice: &SeededRng) -> channel::ChannelSettings {
    let to = dice.pick(&["root@example.org", "ops@example.org"]);
    channel::ChannelSettings::parse(channels::find_kind("email").unwrap(), [("to", to)]).unwrap()
}

fn given_settings(dice: &SeededRng) -> channel::SettingsUpdate {
    let settings = channel_settings(dice);
    channel::SettingsUpdate::replace_all(
        settings
            .pairs()
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
    )
}

fn slug(dice: &SeededRng) -> Slug {
    Slug::parse(dice.pick(&["a", "b", "c", "d", "e"])).unwrap()
}

fn ping_key(dice: &SeededRng) -> PingKey {
    PingKey::parse(&dice.random().url_safe::<22>()).unwrap()
}

fn names(dice: &SeededRng) -> CheckUuids {
    CheckUuids {
        uuid: dice.random().uuid(),
        badge: dice.random().uuid(),
    }
}

fn project(dice: &SeededRng, model: &Model) -> ProjectId {
    ProjectId(random_id(dice, model.projects.keys()))
}

/// Mostly one that exists, never the witness.
fn check(dice: &SeededRng, model: &Model) -> CheckId {
    let id = random_id(dice, model.checks.keys().filter(|id| **id != WITNESS_CHECK));
    CheckId(if id == WITNESS_CHECK { 0 } else { id })
}

fn random_id<'a>(dice: &SeededRng, ids: impl Iterator<Item = &'a u64>) -> u64 {
    let ids: Vec<_> = ids.copied().collect();
    if ids.is_empty() || dice.chance(3) {
        dice.below(40)
    } else {
        dice.pick(&ids)
    }
}

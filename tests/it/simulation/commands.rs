//! Random commands of every kind, mostly for existing objects. The sets of names and objects are
//! small, so that commands interact.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use overdue::channels;
use overdue::domain::channel;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit, UniqueField};
use overdue::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, WindowId};
use overdue::domain::maintenance_window::WindowTimes;
use overdue::domain::number::{FailureThreshold, Seconds};
use overdue::domain::parents::Parents;
use overdue::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use overdue::domain::project::{
    BadgeSecret, ChannelName, KeyLabel, KeySecret, KeyUse, PingKey, ProjectName, SecretHash,
};
use overdue::domain::schedule::Schedule;
use overdue::domain::status_page::{
    StatusPage, StatusPageAddress, StatusPageDomain, StatusPageTitle,
};
use overdue::domain::text::{Description, Keywords, Name, Slug, Tags};
use overdue::domain::timestamp::Timestamp;
use overdue::domain::timezone::Timezone;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::import::ImportStep;
use overdue::engine::command::{
    CheckCreation, CheckUuids, Command, CreateCheckRequest, NewChannel, NewKey, NewProject,
    NewWindow, PingRequest, PingSignal, PingTarget,
};
use uuid::Uuid;

use super::imports;
use super::model::Model;
use super::users;
use crate::support::seeded_rng::SeededRng;

/// Number of checks from which on no command creates another.
const MAX_CREATED_CHECKS: usize = 14;
/// Number of checks from which on no configuration or import adds another: few of these have
/// channels.
pub(crate) const MAX_IMPORTED_CHECKS: usize = 9;

/// Returns the first two commands of each simulation: they create a project with a witness, a check
/// that receives nothing but pings.
pub(crate) fn create_witness(rng: &SeededRng) -> [Command; 2] {
    let project = NewProject {
        uuid: rng.random().uuid(),
        name: ProjectName::parse("witness").unwrap(),
        check_limit: None,
        ping_log_limit: 3,
        badge_key: "w".into(),
    };
    let check = CreateCheckRequest {
        project: ProjectId(1),
        edit: CheckEdit::default(),
        unique: Vec::new(),
        uuids: random_uuids(rng),
    };
    [
        Command::CreateProject(Box::new(project)),
        Command::CreateCheck(Box::new(check)),
    ]
}

/// ID of the witness.
pub(crate) const WITNESS_CHECK: u64 = 2;

/// Returns a ping of the witness.
pub(crate) fn witness_ping(model: &Model) -> Command {
    let target = PingTarget::Uuid(model.checks[&WITNESS_CHECK].uuids.uuid);
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

/// Returns the end of a pause, sometimes in the past.
pub(crate) fn random_pause_end(rng: &SeededRng, now: i64) -> Option<Timestamp> {
    rng.optional(50, |rng| {
        let secs = rng.below(400) as i64 - 10;
        Timestamp::from_micros(now).plus_secs(secs)
    })
}

/// Returns a random command. The engine accepts most of them and rejects some.
pub(crate) fn random_command(rng: &SeededRng, model: &Model, now: i64) -> Command {
    if rng.chance(6) {
        return imports::random_command(rng, model, model.checks.len() < MAX_IMPORTED_CHECKS);
    }
    match rng.below(100) {
        0..60 => Command::Ping(Box::new(random_ping(rng, model))),
        60..74 => Command::UpdateCheck(random_check(rng, model), Box::new(random_edit(rng, model))),
        74..80 => Command::PauseCheck(random_check(rng, model), random_pause_end(rng, now)),
        80..85 => Command::ResumeCheck(random_check(rng, model)),
        85..91 if model.checks.len() < MAX_CREATED_CHECKS => {
            Command::CreateCheck(Box::new(CreateCheckRequest {
                project: random_project(rng, model),
                edit: random_edit(rng, model),
                unique: (0..rng.below(3))
                    .map(|_| rng.pick(&UNIQUE_FIELDS))
                    .collect(),
                uuids: random_uuids(rng),
            }))
        }
        85..93 => Command::DeleteCheck(random_check(rng, model)),
        93 => Command::EvaluateChecks(
            (0..rng.below(5))
                .map(|_| random_check(rng, model))
                .collect(),
        ),
        94 => Command::ClampFutureTimes(
            (0..rng.below(5))
                .map(|_| random_check(rng, model))
                .collect(),
        ),
        95 if rng.below(2) == 0 => random_status_page(rng, model),
        95 => Command::UpdateAlertSettings {
            check: random_check(rng, model),
            failure_threshold: Some(FailureThreshold::parse(rng.pick(&[1, 1, 1, 2, 4])).unwrap()),
            parents: rng.optional(70, |rng| {
                Parents::new(
                    (0..rng.below(3))
                        .map(|_| random_check(rng, model))
                        .collect(),
                )
                .unwrap()
            }),
        },
        96 => Command::User(Box::new(users::random_command(
            rng,
            &model.users,
            random_project(rng, model),
        ))),
        // More windows would hold back nearly all alerts.
        97 if model.windows.len() < 2 => Command::CreateWindow(Box::new(NewWindow {
            uuid: rng.random().uuid(),
            project: random_project(rng, model),
            name: Name::default(),
            tags: Tags::parse(rng.pick(&["a", "prod", "a prod"])).unwrap(),
            times: WindowTimes::Recurring {
                schedule: Arc::new(
                    Schedule::parse(rng.pick(&["0 3 * * *", "*/30 * * * *", "2020-01-01 00:00"]))
                        .unwrap(),
                ),
                tz: Timezone::utc(),
                minutes: rng.pick(&[1, 5, 31]),
            },
        })),
        97 | 98 if !model.windows.is_empty() => {
            let (project, window) = *model
                .windows
                .keys()
                .nth(rng.below(model.windows.len() as u64) as usize)
                .unwrap();
            Command::DeleteWindow(ProjectId(project), WindowId(window))
        }
        _ => random_admin_command(rng, model),
    }
}

const UNIQUE_FIELDS: [UniqueField; 5] = [
    UniqueField::Name,
    UniqueField::Slug,
    UniqueField::Tags,
    UniqueField::Timeout,
    UniqueField::Grace,
];

fn random_admin_command(rng: &SeededRng, model: &Model) -> Command {
    let limit = |rng: &SeededRng| rng.optional(70, |rng| 1 + rng.below(8) as u32);
    let log_limit = |rng: &SeededRng| 1 + rng.below(12) as u32;
    let project = random_project(rng, model);
    match rng.below(if project.0 == 1 { 70 } else { 100 }) {
        0..15 => Command::CreateProject(Box::new(NewProject {
            uuid: rng.random().uuid(),
            name: name(rng),
            check_limit: limit(rng),
            ping_log_limit: log_limit(rng),
            badge_key: rng.random().url_safe::<8>().into(),
        })),
        15..32 => {
            let secret = match rng.below(4) {
                0 => KeySecret::ReadWrite(SecretHash(rng.random().bytes())),
                1 => KeySecret::ReadOnly(SecretHash(rng.random().bytes())),
                _ => KeySecret::Ping(ping_key(rng)),
            };
            let label = KeyLabel::parse(rng.pick(&["", "CI", "the other"])).unwrap();
            Command::CreateKey(Box::new(NewKey {
                project,
                secret,
                label,
                hint: rng.random().url_safe::<4>().into(),
            }))
        }
        32..35 => {
            let from = IpAddr::from([192, 0, 2, rng.below(4) as u8]);
            let key = KeyId(random_id(rng, model.keys.keys()));
            Command::RecordKeyUses(vec![(
                key,
                KeyUse {
                    at: Timestamp::from_secs(rng.below(20_000) as i64),
                    from,
                },
            )])
        }
        35 if rng.chance(50) => Command::RehashKey(
            KeyId(random_id(rng, model.keys.keys())),
            SecretHash(rng.random().bytes()),
        ),
        35..36 => Command::SetBadgeSecret(BadgeSecret(rng.random().bytes())),
        36..38 => Command::RenameKey(
            KeyId(random_id(rng, model.keys.keys())),
            KeyLabel::parse(rng.pick(&["", "renamed"])).unwrap(),
        ),
        38..42 => Command::RevokeKey(KeyId(random_id(rng, model.keys.keys()))),
        42..57 => Command::CreateChannel(Box::new(NewChannel {
            uuid: rng.random().uuid(),
            project,
            name: channel_name(rng),
            settings: channel_settings(rng),
            set_by_operator: true,
        })),
        57..62 => Command::UpdateChannel {
            channel: ChannelId(random_id(rng, model.channels.keys())),
            name: rng.optional(50, channel_name),
            settings: rng.optional(50, given_settings),
            author: channel::SettingsAuthor::Operator,
        },
        62..65 => Command::AssignChannel {
            channel: ChannelId(random_id(rng, model.channels.keys())),
            checks: (0..rng.below(5))
                .map(|_| random_check(rng, model))
                .collect(),
            assigned: rng.below(3) > 0,
        },
        65..70 => Command::DeleteChannel(ChannelId(random_id(rng, model.channels.keys()))),
        70..95 => Command::UpdateProject {
            project,
            name: rng.optional(20, name),
            check_limit: rng.optional(50, limit),
            ping_log_limit: rng.optional(50, log_limit),
            allows_ping_settings: rng.optional(50, |rng| rng.chance(50)),
        },
        _ => Command::DeleteProject(project),
    }
}

/// Few pages, so that addresses, domains and UUIDs meet.
fn random_status_page(rng: &SeededRng, model: &Model) -> Command {
    let project = ProjectId(random_id(rng, model.projects.keys()));
    // A page belongs to one project, as the dashboard makes it.
    let uuid = Uuid::from_u128(u128::from(project.0) << 64 | u128::from(rng.below(25)));
    if rng.below(5) == 0 {
        return Command::DeleteStatusPage(project, uuid);
    }
    let domain = StatusPageDomain::parse(&format!("s{}.example.org", rng.below(60)));
    Command::PutStatusPage(
        project,
        Box::new(StatusPage {
            uuid,
            address: StatusPageAddress::parse(&format!("page-{}", rng.below(60))).unwrap(),
            title: StatusPageTitle::parse(rng.pick(&["Jobs", "ž"])).unwrap(),
            tags: Tags::parse(rng.pick(&["", "a", "a b"])).unwrap(),
            domain: Some(domain.unwrap()).filter(|_| rng.below(2) == 0),
        }),
    )
}

fn random_ping(rng: &SeededRng, model: &Model) -> PingRequest {
    let ping_keys = || {
        model.keys.values().filter_map(|key| {
            if let KeySecret::Ping(key) = &key.secret {
                Some(key)
            } else {
                None
            }
        })
    };
    let target = match rng.below(100) {
        0..75 => {
            let id = random_check(rng, model);
            PingTarget::Uuid(
                model
                    .checks
                    .get(&id.0)
                    .map_or_else(|| rng.random().uuid(), |check| check.uuids.uuid),
            )
        }
        _ => PingTarget::Slug {
            key: ping_keys()
                .nth(rng.below(4) as usize)
                .cloned()
                .unwrap_or_else(|| ping_key(rng)),
            slug: slug(rng),
            create: rng.optional(
                if model.checks.len() < MAX_CREATED_CHECKS {
                    60
                } else {
                    0
                },
                |rng| CheckCreation {
                    uuids: random_uuids(rng),
                    edit: rng.optional(50, |rng| {
                        Box::new(CheckEdit {
                            name: None,
                            slug: None,
                            ..random_edit(rng, model)
                        })
                    }),
                },
            ),
        },
    };
    let email = rng.chance(10);
    let signal = if email {
        let subject = rng.pick(&["", "GO", "backup OK", "ERR 3", "OK ERR"]).into();
        PingSignal::Email {
            subject,
            text: rng.pick(&["", "nothing", "it is OK", "ERR"]).into(),
            precomputed: None,
        }
    } else {
        PingSignal::Http(rng.pick(&[
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
        rng.pick(&[PingMethod::Get, PingMethod::Head, PingMethod::Post])
    };
    let body = match rng.below(6) {
        0..3 => Bytes::new(),
        3 => Bytes::from_static(b"exit ERR"),
        4 => Bytes::from_static(b"OK"),
        // Around the limit of stored bodies, and larger than a page of the database.
        _ => Bytes::copy_from_slice(
            &rng.random().bytes::<6000>()[..rng.pick(&[1, 47, 48, 49, 500, 6000])],
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
    let rid = rng.optional(if email { 0 } else { 50 }, |rng| {
        Uuid::from_u128(1 + u128::from(rng.below(2)))
    });
    PingRequest {
        target,
        signal,
        origin,
        rid,
        body,
    }
}

/// Returns a mail. Its pings share one body and have no HTTP method.
pub(crate) fn random_mail(rng: &SeededRng, model: &Model) -> Command {
    let body =
        Bytes::copy_from_slice(&rng.random().bytes::<6000>()[..rng.pick(&[0, 3, 500, 6000, 6000])]);
    let one = |_| {
        let PingRequest {
            target, mut origin, ..
        } = random_ping(rng, model);
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
    Command::Mail((0..1 + rng.below(5)).map(one).collect())
}

/// Returns an upper bound for the number of commits of a command: more than 1 if it is large.
pub(crate) fn max_commits(command: &Command, thresholds: &HousekeepingLimits) -> usize {
    let (body, pings) = match command {
        Command::Ping(request) => (request.body.len(), 1),
        Command::Mail(pings) => (pings.first().map_or(0, |ping| ping.body.len()), pings.len()),
        // Several pings are one chunk, but a large command is executed after the small ones.
        Command::Import(command) => match &**command {
            ImportStep::Log { pings, .. } => {
                (pings.iter().map(|ping| ping.body.len()).sum(), pings.len())
            }
            ImportStep::Items { objects, .. } => (400, objects.len()),
            _ => (0, 0),
        },
        Command::ApplyConfig(request) => (request.approximate_bytes(), 1),
        _ => (0, 0),
    };
    // A command may be large because of its other fields.
    if (body + 400) * pings > thresholds.upload_threshold_bytes {
        2 + body / thresholds.chunk_bytes
    } else {
        1
    }
}

pub(crate) fn random_edit(rng: &SeededRng, model: &Model) -> CheckEdit {
    let seconds = |rng: &SeededRng| {
        Seconds::parse(rng.pick(&[60, 90, 600, 3600, 86_400, 31_536_000])).unwrap()
    };
    let schedule = |rng: &SeededRng| {
        Arc::new(Schedule::parse(rng.pick(&["*/5 * * * *", "0 3 * * *", "2020-01-01"])).unwrap())
    };
    let keywords = rng.chance(20);
    let keyword = |text: &str| keywords.then(|| Keywords::parse(text).unwrap());
    let switch = |rng: &SeededRng| rng.chance(40);
    CheckEdit {
        name: rng.optional(20, |rng| {
            Name::parse(rng.pick(&["", "night", "day"])).unwrap()
        }),
        slug: rng.optional(20, slug),
        tags: rng.optional(20, |rng| {
            Tags::from_stored(rng.pick(&["", "prod", "prod db"]))
        }),
        desc: rng.optional(10, |rng| {
            Description::from_stored(rng.pick(&["", "what it is"]))
        }),
        timeout: rng.optional(30, seconds),
        grace: rng.optional(30, seconds),
        schedule: rng.optional(15, schedule),
        tz: None,
        manual_resume: rng.optional(15, switch),
        post_only: rng.optional(10, switch),
        start_kw: keyword("GO"),
        success_kw: keyword("never sent, OK"),
        failure_kw: keyword("ERR,"),
        filter_subject: rng.optional(10, switch),
        filter_body: rng.optional(10, switch),
        filter_http_body: rng.optional(10, switch),
        filter_default_fail: rng.optional(10, switch),
        channels: rng.optional(30, |rng| random_channel_choice(rng, model)),
        ..CheckEdit::default()
    }
}

fn random_channel_choice(rng: &SeededRng, model: &Model) -> ChannelSelection {
    let uuid = |rng: &SeededRng| {
        model
            .channels
            .get(&random_id(rng, model.channels.keys()))
            .map(|channel| channel.uuid.to_string())
    };
    match rng.below(2) {
        0 => ChannelSelection::All,
        _ => ChannelSelection::Listed(
            (0..rng.below(3))
                .map(|_| {
                    uuid(rng)
                        .filter(|_| rng.chance(80))
                        .map_or_else(|| rng.pick(&["mail", "hook", ""]).into(), Into::into)
                })
                .collect(),
        ),
    }
}

fn name(rng: &SeededRng) -> ProjectName {
    ProjectName::parse(rng.pick(&["one", "two", "three", "four", "five"])).unwrap()
}

fn channel_name(rng: &SeededRng) -> ChannelName {
    ChannelName::parse(rng.pick(&["", "mail", "hook"])).unwrap()
}

fn channel_settings(rng: &SeededRng) -> channel::ChannelSettings {
    let to = rng.pick(&["root@example.org", "ops@example.org"]);
    channel::ChannelSettings::parse(channels::find_kind("email").unwrap(), [("to", to)]).unwrap()
}

fn given_settings(rng: &SeededRng) -> channel::SettingsUpdate {
    let settings = channel_settings(rng);
    channel::SettingsUpdate::replace_all(
        settings
            .pairs()
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
    )
}

fn slug(rng: &SeededRng) -> Slug {
    Slug::parse(rng.pick(&["a", "b", "c", "d", "e"])).unwrap()
}

fn ping_key(rng: &SeededRng) -> PingKey {
    PingKey::parse(&rng.random().url_safe::<22>()).unwrap()
}

fn random_uuids(rng: &SeededRng) -> CheckUuids {
    CheckUuids {
        uuid: rng.random().uuid(),
        badge: rng.random().uuid(),
    }
}

fn random_project(rng: &SeededRng, model: &Model) -> ProjectId {
    ProjectId(random_id(rng, model.projects.keys()))
}

/// Returns a random check other than the witness. Mostly it exists.
fn random_check(rng: &SeededRng, model: &Model) -> CheckId {
    let id = random_id(rng, model.checks.keys().filter(|id| **id != WITNESS_CHECK));
    CheckId(if id == WITNESS_CHECK { 0 } else { id })
}

fn random_id<'a>(rng: &SeededRng, ids: impl Iterator<Item = &'a u64>) -> u64 {
    let ids: Vec<_> = ids.copied().collect();
    if ids.is_empty() || rng.chance(3) {
        rng.below(40)
    } else {
        rng.pick(&ids)
    }
}

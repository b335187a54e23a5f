//! What happens to checks and channels while time passes, so that the rules about alerts meet each
//! other.

use std::sync::Arc;

use overdue::channels;
use overdue::domain::channel::{ChannelSettings, SettingsAuthor, SettingsUpdate};
use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId, WindowId};
use overdue::domain::maintenance_window::WindowTimes;
use overdue::domain::parents::Parents;
use overdue::domain::ping::PingKind;
use overdue::domain::project::ChannelName;
use overdue::domain::schedule::Schedule;
use overdue::domain::text::{FailureThreshold, Name, Seconds, Tags};
use overdue::domain::timestamp::Timestamp;
use overdue::domain::timezone::Timezone;
use overdue::engine::command::{
    CheckUuids, Command, CreateCheckRequest, DeliveryReport, NewChannel, NewWindow, SendOutcome,
};

use super::super::model::Model;
use super::message_log::{ExpectedMessage, MessageLog};
use super::rules::AlertModel;
use crate::support::commands::{create_project, ping};
use crate::support::seeded_rng::SeededRng;

/// How many there are at first, and about how many later.
pub(crate) const CHECKS: usize = 6;
pub(crate) const CHANNELS: usize = 5;
const MAIN: ProjectId = ProjectId(1);

/// The project.
pub(crate) fn first_command(dice: &SeededRng) -> [Command; 1] {
    [create_project(dice.random(), "main", 100)]
}

/// A check or a channel, whichever is missing.
pub(crate) fn create_missing(dice: &SeededRng, model: &Model) -> Command {
    if model.channels.len() < CHANNELS {
        create_channel(dice, model)
    } else {
        create_check(dice, model)
    }
}

/// What jobs and people do about some checks at the same time.
pub(crate) fn random_reports(dice: &SeededRng, model: &Model) -> Vec<Command> {
    let mut commands: Vec<_> = (0..=dice.below(3))
        .map(|_| random_report(dice, model))
        .collect();
    if dice.chance(40) {
        // Whose deadline passed last reports first.
        commands.reverse();
    }
    commands
}

fn random_report(dice: &SeededRng, model: &Model) -> Command {
    let id = check(dice, model);
    let Some(own) = model.checks.get(&id.0) else {
        return Command::PauseCheck(id);
    };
    let uuid = own.names.uuid.as_u128();
    match dice.below(100) {
        0..55 => ping(uuid, PingKind::Success, ""),
        55..70 => ping(uuid, PingKind::Fail, ""),
        70..76 => ping(uuid, PingKind::Start, ""),
        76..80 => ping(uuid, PingKind::Log, ""),
        80..85 => Command::PauseCheck(id),
        85..87 => Command::ResumeCheck(id),
        _ => Command::UpdateCheck(id, Box::new(edit(dice, model, 30))),
    }
}

/// What people change while nothing falls due.
pub(crate) fn random_change(dice: &SeededRng, alerts: &AlertModel, now: i64) -> Command {
    let model = &alerts.model;
    match dice.below(100) {
        0..6 if model.checks.len() > CHECKS / 2 => Command::DeleteCheck(check(dice, model)),
        0..14 if model.checks.len() <= CHECKS => create_check(dice, model),
        14..20 if model.channels.len() <= CHANNELS => create_channel(dice, model),
        20..23 => Command::DeleteChannel(channel(dice, model)),
        23..32 => set_channel(dice, model),
        32..36 => Command::DisableChannel {
            channel: channel(dice, model),
            reason: "no".into(),
        },
        36..46 => {
            Command::EnableChannel(disabled(dice, alerts).unwrap_or_else(|| channel(dice, model)))
        }
        46..58 => Command::AssignChannel {
            channel: channel(dice, model),
            checks: model
                .checks
                .keys()
                .filter(|_| dice.chance(60))
                .map(|id| CheckId(*id))
                .collect(),
            assigned: dice.chance(60),
        },
        58..78 => set_alerting(dice, model),
        78..85 if model.windows.len() < 3 => create_window(dice, now),
        85..91 if !model.windows.is_empty() => {
            let (project, window) = *model
                .windows
                .keys()
                .nth(dice.below(model.windows.len() as u64) as usize)
                .unwrap();
            Command::DeleteWindow(ProjectId(project), WindowId(window))
        }
        91..97 => Command::QueueReminder(channel(dice, model)),
        _ => Command::UpdateCheck(check(dice, model), Box::new(edit(dice, model, 50))),
    }
}

/// Attempts begin, and those that have begun end.
pub(crate) fn random_sending(dice: &SeededRng, alerts: &AlertModel) -> Vec<Command> {
    let (idle, sending) = alerts.log.to_send();
    let some = |rows: Vec<&ExpectedMessage>| {
        rows.into_iter()
            .filter(|_| dice.chance(60))
            .cloned()
            .collect::<Vec<_>>()
    };
    let reports = some(sending).into_iter().map(|row| {
        let sent = match dice.below(24) {
            0..12 => SendOutcome::Delivered,
            12..18 => SendOutcome::Retry {
                reason: "busy".into(),
                may_have_arrived: dice.chance(30),
            },
            18..20 => SendOutcome::Superseded("a later one".into()),
            20..23 => SendOutcome::Failed("no".into()),
            _ => SendOutcome::ChannelRejected("gone".into()),
        };
        let channel = ChannelId(row.channel);
        let number = DeliveryNumber(MessageLog::number(&row));
        DeliveryReport {
            channel,
            sent_to: None,
            rows: vec![number],
            merged_into: None,
            result: sent,
            status: 200,
            recipients: None,
        }
    });
    let reports = Command::RecordDeliveryReports(reports.collect());
    let begun = some(idle)
        .iter()
        .map(|row| DeliveryNumber(MessageLog::number(row)))
        .collect();
    vec![reports, Command::BeginDeliveries(begun, None)]
}

fn create_check(dice: &SeededRng, model: &Model) -> Command {
    let names = CheckUuids {
        uuid: dice.random().uuid(),
        badge: dice.random().uuid(),
    };
    let edit = CheckEdit {
        channels: Some(ChannelSelection::All),
        ..edit(dice, model, 100)
    };
    Command::CreateCheck(Box::new(CreateCheckRequest {
        project: MAIN,
        edit,
        unique: Vec::new(),
        uuids: names,
    }))
}

fn edit(dice: &SeededRng, model: &Model, chance: u64) -> CheckEdit {
    let seconds = |of: &[i64]| Some(Seconds::parse(dice.pick(of)).unwrap());
    let mut edit = CheckEdit::default();
    if dice.chance(chance) {
        edit.tags = Some(Tags::parse(dice.pick(&["", "", "a", "a b"])).unwrap());
    }
    if dice.chance(chance) {
        edit.timeout = seconds(&[60, 60, 90, 120, 600]);
    } else if dice.chance(chance / 3) {
        edit.schedule = Some(Arc::new(Schedule::parse("*/5 * * * *").unwrap()));
    }
    if dice.chance(chance) {
        edit.grace = seconds(&[60, 60, 75, 300]);
    }
    if dice.chance(chance) {
        let uuids = model
            .channels
            .values()
            .filter(|_| dice.chance(60))
            .map(|channel| channel.uuid.to_string().into());
        edit.channels = Some(ChannelSelection::Listed(uuids.collect()));
    }
    edit
}

fn set_alerting(dice: &SeededRng, model: &Model) -> Command {
    let id = check(dice, model);
    // Parents are older than their children, so that there is no circle.
    let older: Vec<_> = model
        .checks
        .keys()
        .copied()
        .filter(|other| *other < id.0)
        .collect();
    let some = |dice: &SeededRng| {
        (0..dice.below(3))
            .filter(|_| !older.is_empty())
            .map(|_| CheckId(dice.pick(&older)))
            .collect()
    };
    let parents = dice.optional(80, |dice| Parents::new(some(dice)).unwrap());
    Command::SetAlerting {
        check: id,
        after: dice.optional(60, |dice| {
            FailureThreshold::parse(dice.pick(&[1, 1, 1, 2, 3])).unwrap()
        }),
        parents,
    }
}

fn create_window(dice: &SeededRng, now: i64) -> Command {
    let tags = Tags::parse(dice.pick(&["a", "a", "a b", "b"])).unwrap();
    let now = Timestamp::from_micros(now / 1_000_000 * 1_000_000);
    let times = if dice.chance(40) {
        WindowTimes::Once {
            from: now,
            to: now.plus_secs(dice.pick(&[300, 900, 2400])),
        }
    } else {
        let schedule = dice.pick(&["*/7 * * * *", "*/10 * * * *", "*/30 * * * *"]);
        let schedule = Arc::new(Schedule::parse(schedule).unwrap());
        WindowTimes::Recurring {
            schedule,
            tz: Timezone::utc(),
            minutes: dice.pick(&[1, 3, 8]),
        }
    };
    Command::CreateWindow(Box::new(NewWindow {
        uuid: dice.random().uuid(),
        project: MAIN,
        name: Name::default(),
        tags,
        times,
    }))
}

const PD_KEY: &str = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

/// The kind of a channel, and its settings apart from the members of a group.
fn random_channel_kind(dice: &SeededRng) -> (&'static str, Vec<(&'static str, &'static str)>) {
    match dice.below(6) {
        0..2 => (
            "webhook",
            vec![("down-url", "http://a/"), ("up-url", "http://a/")],
        ),
        2 => ("email", vec![("to", "ops@example.org")]),
        3..5 => ("pd", vec![("key", PD_KEY)]),
        _ => ("group", Vec::new()),
    }
}

fn create_channel(dice: &SeededRng, model: &Model) -> Command {
    let (mut kind, mut pairs) = random_channel_kind(dice);
    if kind == "group" && members(dice, model).is_empty() {
        (kind, pairs) = ("email", vec![("to", "ops@example.org")]);
    }
    let settings = ChannelSettings::parse(
        channels::find_kind(kind).unwrap(),
        all_settings(dice, model, kind, &pairs),
    )
    .unwrap();
    let uuid = dice.random().uuid();
    let name = ChannelName::parse("").unwrap();
    Command::CreateChannel(Box::new(NewChannel {
        uuid,
        project: MAIN,
        name,
        settings,
        is_by_operator: true,
    }))
}

fn set_channel(dice: &SeededRng, model: &Model) -> Command {
    let id = channel(dice, model);
    let given = model.channels.get(&id.0).map(|own| {
        let kind = own.settings.kind().name;
        // One that was not told of a downtime because of `send=up` is never asked to tell of it
        // after all: only the log would know.
        let is_kept = |key: &str, value: &str| {
            !["every", "send", "channels"].contains(&key) || (key, value) == ("send", "up")
        };
        let pairs: Vec<_> = own
            .settings
            .pairs()
            .filter(|(key, value)| is_kept(key, value))
            .collect();
        all_settings(dice, model, kind, &pairs)
    });
    let settings = given
        .filter(|given| !given.is_empty())
        .map(SettingsUpdate::replace_all);
    Command::UpdateChannel {
        channel: id,
        name: None,
        settings,
        maker: SettingsAuthor::Operator,
    }
}

/// All settings of a channel.
fn all_settings(
    dice: &SeededRng,
    model: &Model,
    kind: &str,
    pairs: &[(&str, &str)],
) -> Vec<(String, String)> {
    let mut all: Vec<_> = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    if kind == "group" {
        let members = members(dice, model);
        if members.is_empty() {
            return Vec::new();
        }
        all.push(("channels".into(), members.join(",")));
    } else if dice.chance(25) && pairs.iter().all(|(key, _)| *key != "send") {
        all.push(("send".into(), dice.pick(&["down", "up", "down,up"]).into()));
    }
    if dice.chance(20) {
        all.push(("every".into(), "on".into()));
    }
    all
}

/// Some channels that are no groups.
fn members(dice: &SeededRng, model: &Model) -> Vec<String> {
    let single: Vec<_> = model
        .channels
        .values()
        .filter(|channel| channel.settings.kind().name != "group")
        .collect();
    let mut members: Vec<_> = single
        .iter()
        .filter(|_| dice.chance(50))
        .map(|channel| channel.uuid.to_string())
        .collect();
    if members.is_empty() {
        members.extend(single.first().map(|channel| channel.uuid.to_string()));
    }
    members
}

fn check(dice: &SeededRng, model: &Model) -> CheckId {
    CheckId(random_id(dice, model.checks.keys()))
}

fn channel(dice: &SeededRng, model: &Model) -> ChannelId {
    ChannelId(random_id(dice, model.channels.keys()))
}

fn disabled(dice: &SeededRng, alerts: &AlertModel) -> Option<ChannelId> {
    let disabled: Vec<_> = alerts
        .model
        .channels
        .keys()
        .copied()
        .filter(|id| alerts.is_disabled(*id))
        .collect();
    (!disabled.is_empty()).then(|| ChannelId(dice.pick(&disabled)))
}

fn random_id<'a>(dice: &SeededRng, ids: impl Iterator<Item = &'a u64>) -> u64 {
    let ids: Vec<_> = ids.copied().collect();
    if ids.is_empty() { 0 } else { dice.pick(&ids) }
}

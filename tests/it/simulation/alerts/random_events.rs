//! Random events of checks and channels, chosen so that the rules about alerts interact.

use std::sync::Arc;

use overdue::channels;
use overdue::domain::channel::{ChannelSettings, SettingsAuthor, SettingsUpdate};
use overdue::domain::check::RunLimit;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId, WindowId};
use overdue::domain::maintenance_window::WindowTimes;
use overdue::domain::number::{FailureThreshold, Seconds};
use overdue::domain::parents::Parents;
use overdue::domain::ping::PingKind;
use overdue::domain::project::ChannelName;
use overdue::domain::schedule::Schedule;
use overdue::domain::text::{Name, Tags};
use overdue::domain::timestamp::Timestamp;
use overdue::domain::timezone::Timezone;
use overdue::engine::command::{
    CheckUuids, Command, CreateCheckRequest, DeliveryReport, NewChannel, NewWindow, SendOutcome,
};

use super::super::commands::random_pause_end;
use super::super::model::Model;
use super::message_log::{ExpectedMessage, MessageLog};
use super::rules::AlertModel;
use crate::support::commands::{create_project, ping};
use crate::support::seeded_rng::SeededRng;

/// Initial number of objects, and roughly their later number.
pub(crate) const CHECKS: usize = 6;
pub(crate) const CHANNELS: usize = 5;
const MAIN: ProjectId = ProjectId(1);

/// Returns the command that creates the project.
pub(crate) fn first_command(rng: &SeededRng) -> [Command; 1] {
    [create_project(rng.random(), "main", 100)]
}

/// Returns a command that creates a channel or a check, until there are enough of both.
pub(crate) fn create_missing(rng: &SeededRng, model: &Model) -> Command {
    if model.channels.len() < CHANNELS {
        create_channel(rng, model)
    } else {
        create_check(rng, model)
    }
}

/// Returns simultaneous pings and edits of some checks.
pub(crate) fn random_reports(rng: &SeededRng, model: &Model, now: i64) -> Vec<Command> {
    let mut commands: Vec<_> = (0..=rng.below(3))
        .map(|_| random_report(rng, model, now))
        .collect();
    if rng.chance(40) {
        // The check whose deadline passed last reports first.
        commands.reverse();
    }
    commands
}

fn random_report(rng: &SeededRng, model: &Model, now: i64) -> Command {
    let id = random_check(rng, model);
    let Some(model_check) = model.checks.get(&id.0) else {
        return Command::PauseCheck(id, None);
    };
    let uuid = model_check.uuids.uuid.as_u128();
    match rng.below(100) {
        0..50 => ping(uuid, PingKind::Success, ""),
        50..62 => ping(uuid, PingKind::Fail, ""),
        62..76 => ping(uuid, PingKind::Start, ""),
        76..80 => ping(uuid, PingKind::Log, ""),
        80..85 => Command::PauseCheck(id, random_pause_end(rng, now)),
        85..87 => Command::ResumeCheck(id),
        _ => Command::UpdateCheck(id, Box::new(random_edit(rng, model, 30))),
    }
}

/// Returns an administrative change at a time without deadlines.
pub(crate) fn random_change(rng: &SeededRng, alerts: &AlertModel, now: i64) -> Command {
    let model = &alerts.model;
    match rng.below(100) {
        0..6 if model.checks.len() > CHECKS / 2 => Command::DeleteCheck(random_check(rng, model)),
        0..14 if model.checks.len() <= CHECKS => create_check(rng, model),
        14..20 if model.channels.len() <= CHANNELS => create_channel(rng, model),
        20..23 => Command::DeleteChannel(random_channel(rng, model)),
        23..32 => update_channel(rng, model),
        32..36 => Command::DisableChannel {
            channel: random_channel(rng, model),
            reason: "no".into(),
        },
        36..46 => Command::EnableChannel(
            random_disabled_channel(rng, alerts).unwrap_or_else(|| random_channel(rng, model)),
        ),
        46..58 => Command::AssignChannel {
            channel: random_channel(rng, model),
            checks: model
                .checks
                .keys()
                .filter(|_| rng.chance(60))
                .map(|id| CheckId(*id))
                .collect(),
            assigned: rng.chance(60),
        },
        58..78 => update_alert_settings(rng, model),
        78..85 if model.windows.len() < 3 => create_window(rng, now),
        85..91 if !model.windows.is_empty() => {
            let (project, window) = *model
                .windows
                .keys()
                .nth(rng.below(model.windows.len() as u64) as usize)
                .unwrap();
            Command::DeleteWindow(ProjectId(project), WindowId(window))
        }
        91..97 => Command::QueueReminder(random_mail_channel(rng, model)),
        _ => Command::UpdateCheck(
            random_check(rng, model),
            Box::new(random_edit(rng, model, 50)),
        ),
    }
}

/// Begins some attempts and reports some of those that have begun.
pub(crate) fn random_sending(rng: &SeededRng, alerts: &AlertModel) -> Vec<Command> {
    let (idle, sending) = alerts.log.idle_and_sending();
    let random_subset = |rows: Vec<&ExpectedMessage>| {
        rows.into_iter()
            .filter(|_| rng.chance(60))
            .cloned()
            .collect::<Vec<_>>()
    };
    let reports = random_subset(sending).into_iter().map(|row| {
        let sent = match rng.below(24) {
            0..12 => SendOutcome::Delivered,
            12..18 => SendOutcome::Retry {
                reason: "busy".into(),
                may_have_arrived: rng.chance(30),
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
    let begun = random_subset(idle)
        .iter()
        .map(|row| DeliveryNumber(MessageLog::number(row)))
        .collect();
    vec![
        reports,
        Command::StartAttempts {
            rows: begun,
            last_row: None,
        },
    ]
}

fn create_check(rng: &SeededRng, model: &Model) -> Command {
    let uuids = CheckUuids {
        uuid: rng.random().uuid(),
        badge: rng.random().uuid(),
    };
    let edit = CheckEdit {
        channels: Some(ChannelSelection::All),
        ..random_edit(rng, model, 100)
    };
    Command::CreateCheck(Box::new(CreateCheckRequest {
        project: MAIN,
        edit,
        unique: Vec::new(),
        uuids,
    }))
}

fn random_edit(rng: &SeededRng, model: &Model, chance: u64) -> CheckEdit {
    let seconds = |of: &[i64]| Some(Seconds::parse(rng.pick(of)).unwrap());
    let mut edit = CheckEdit::default();
    if rng.chance(chance) {
        edit.tags = Some(Tags::parse(rng.pick(&["", "", "a", "a b"])).unwrap());
    }
    if rng.chance(chance) && rng.chance(80) {
        edit.timeout = seconds(&[60, 60, 90, 120, 600]);
    } else if rng.chance(chance / 3 + 1) {
        edit.schedule = Some(Arc::new(Schedule::parse("*/5 * * * *").unwrap()));
    }
    if rng.chance(chance) {
        edit.grace = seconds(&[60, 60, 75, 90, 300, 1800]);
    }
    if rng.chance(chance) {
        let uuids = model
            .channels
            .values()
            .filter(|_| rng.chance(60))
            .map(|channel| channel.uuid.to_string().into());
        edit.channels = Some(ChannelSelection::Listed(uuids.collect()));
    }
    let limit = |of: &[i64]| Some(RunLimit::parse(rng.pick(of)).unwrap());
    if rng.chance(chance) {
        edit.latest_start = limit(&[0, 20, 60, 90]);
        edit.longest_run = limit(&[0, 20, 60, 90]);
        edit.shortest_run = limit(&[0, 20, 120, 600]);
    }
    edit
}

fn update_alert_settings(rng: &SeededRng, model: &Model) -> Command {
    let id = random_check(rng, model);
    // Parents are older than their children, which excludes cycles.
    let older: Vec<_> = model
        .checks
        .keys()
        .copied()
        .filter(|other| *other < id.0)
        .collect();
    let random_parents = |rng: &SeededRng| {
        (0..rng.below(3))
            .filter(|_| !older.is_empty())
            .map(|_| CheckId(rng.pick(&older)))
            .collect()
    };
    let parents = rng.optional(80, |rng| Parents::new(random_parents(rng)).unwrap());
    Command::UpdateAlertSettings {
        check: id,
        failure_threshold: rng.optional(60, |rng| {
            FailureThreshold::parse(rng.pick(&[1, 1, 1, 2, 3])).unwrap()
        }),
        parents,
    }
}

fn create_window(rng: &SeededRng, now: i64) -> Command {
    let tags = Tags::parse(rng.pick(&["a", "a", "a b", "b"])).unwrap();
    let now = Timestamp::from_micros(now / 1_000_000 * 1_000_000);
    let times = if rng.chance(40) {
        WindowTimes::Once {
            from: now,
            to: now.plus_secs(rng.pick(&[300, 900, 2400])),
        }
    } else {
        let schedule = rng.pick(&["*/7 * * * *", "*/10 * * * *", "*/30 * * * *"]);
        let schedule = Arc::new(Schedule::parse(schedule).unwrap());
        WindowTimes::Recurring {
            schedule,
            tz: Timezone::utc(),
            minutes: rng.pick(&[1, 3, 8]),
        }
    };
    Command::CreateWindow(Box::new(NewWindow {
        uuid: rng.random().uuid(),
        project: MAIN,
        name: Name::default(),
        tags,
        times,
    }))
}

const PD_KEY: &str = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

/// Returns a kind of channel and its settings, without the members of a group.
fn random_channel_kind(rng: &SeededRng) -> (&'static str, Vec<(&'static str, &'static str)>) {
    match rng.below(6) {
        0..2 => (
            "webhook",
            vec![("down-url", "http://a/"), ("up-url", "http://a/")],
        ),
        2 => ("email", vec![("to", "ops@example.org")]),
        3..5 => ("pd", vec![("key", PD_KEY)]),
        _ => ("group", Vec::new()),
    }
}

fn create_channel(rng: &SeededRng, model: &Model) -> Command {
    let (mut kind, mut pairs) = random_channel_kind(rng);
    if kind == "group" && random_members(rng, model).is_empty() {
        (kind, pairs) = ("email", vec![("to", "ops@example.org")]);
    }
    let settings = ChannelSettings::parse(
        channels::find_kind(kind).unwrap(),
        all_settings(rng, model, kind, &pairs),
    )
    .unwrap();
    let uuid = rng.random().uuid();
    let name = ChannelName::parse("").unwrap();
    Command::CreateChannel(Box::new(NewChannel {
        uuid,
        project: MAIN,
        name,
        settings,
        set_by_operator: true,
    }))
}

fn update_channel(rng: &SeededRng, model: &Model) -> Command {
    let id = random_channel(rng, model);
    let new_settings = model.channels.get(&id.0).map(|channel| {
        let kind = channel.settings.kind().name;
        // A channel without `down` in `send` keeps this setting: without it, the expectation about
        // an ongoing downtime would only be found in the log.
        let is_kept = |key: &str, value: &str| match key {
            "every" | "channels" => false,
            "send" => value.split(',').all(|event| event != "down"),
            _ => true,
        };
        let pairs: Vec<_> = channel
            .settings
            .pairs()
            .filter(|(key, value)| is_kept(key, value))
            .collect();
        all_settings(rng, model, kind, &pairs)
    });
    let settings = new_settings
        .filter(|new_settings| !new_settings.is_empty())
        .map(SettingsUpdate::replace_all);
    Command::UpdateChannel {
        channel: id,
        name: None,
        settings,
        author: SettingsAuthor::Operator,
    }
}

/// Returns all settings of a channel.
fn all_settings(
    rng: &SeededRng,
    model: &Model,
    kind: &str,
    pairs: &[(&str, &str)],
) -> Vec<(String, String)> {
    let mut all: Vec<_> = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    if kind == "group" {
        let members = random_members(rng, model);
        if members.is_empty() {
            return Vec::new();
        }
        all.push(("channels".into(), members.join(",")));
    } else if rng.chance(70) && pairs.iter().all(|(key, _)| *key != "send") {
        let of_changes = ["down", "up", "down,up"];
        let with_warnings = [
            "down,up,late,limits",
            "down,up,late,limits",
            "down,limits",
            "up,late",
            "down,up,late",
            "late,limits",
        ];
        let has_warnings = kind != "pd" && rng.chance(70);
        all.push((
            "send".into(),
            if has_warnings {
                rng.pick(&with_warnings).into()
            } else {
                rng.pick(&of_changes).into()
            },
        ));
    }
    if rng.chance(20) {
        all.push(("every".into(), "on".into()));
    }
    all
}

/// Returns some channels other than groups.
fn random_members(rng: &SeededRng, model: &Model) -> Vec<String> {
    let single: Vec<_> = model
        .channels
        .values()
        .filter(|channel| channel.settings.kind().name != "group")
        .collect();
    let mut members: Vec<_> = single
        .iter()
        .filter(|_| rng.chance(50))
        .map(|channel| channel.uuid.to_string())
        .collect();
    if members.is_empty() {
        members.extend(single.first().map(|channel| channel.uuid.to_string()));
    }
    members
}

fn random_check(rng: &SeededRng, model: &Model) -> CheckId {
    CheckId(random_id(rng, model.checks.keys()))
}

fn random_channel(rng: &SeededRng, model: &Model) -> ChannelId {
    ChannelId(random_id(rng, model.channels.keys()))
}

/// Returns a channel that takes reminders, if there is one.
fn random_mail_channel(rng: &SeededRng, model: &Model) -> ChannelId {
    let is_mail = |id: &u64| model.channels[id].settings.kind().name == "email";
    let mail: Vec<_> = model.channels.keys().copied().filter(is_mail).collect();
    if mail.is_empty() || rng.chance(30) {
        random_channel(rng, model)
    } else {
        ChannelId(rng.pick(&mail))
    }
}

fn random_disabled_channel(rng: &SeededRng, alerts: &AlertModel) -> Option<ChannelId> {
    let disabled: Vec<_> = alerts
        .model
        .channels
        .keys()
        .copied()
        .filter(|id| alerts.is_disabled(*id))
        .collect();
    (!disabled.is_empty()).then(|| ChannelId(rng.pick(&disabled)))
}

fn random_id<'a>(rng: &SeededRng, ids: impl Iterator<Item = &'a u64>) -> u64 {
    let ids: Vec<_> = ids.copied().collect();
    if ids.is_empty() { 0 } else { rng.pick(&ids) }
}

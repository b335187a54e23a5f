//! Settings that channels of many kinds share: events, times, and grouping of messages.

use super::settings::ChannelSettings;
use super::{SettingField, SettingFieldType, field_value};
use crate::domain::alert::AlertEvent;
use crate::domain::check::WarningKind;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::timezone::wall_time::{WallTime, WallTimeResolution};

/// Settings of every kind.
pub(super) const ANY_KIND_FIELDS: &[SettingField] = &[SettingField::optional(
    "every",
    SettingFieldType::Flag,
    "on: alerts about every check of the project, assigned to the channel or not; off if left out",
)];

/// Settings of every kind except groups and kinds that keep incidents.
pub(super) const NON_GROUP_FIELDS: &[SettingField] = &[SettingField::optional(
    "send",
    SettingFieldType::Words(&["down", "up", "late", "limits"]),
    "events to send: a check is down, up again, late, or a run passes its limits; the first two if \
     left out",
)];

/// Settings of kinds that keep incidents.
pub(super) const INCIDENT_FIELDS: &[SettingField] = &[SettingField::optional(
    "send",
    SettingFieldType::Words(&["down", "up"]),
    "events to send; both if left out",
)];

/// Settings of kinds for people.
pub(super) const PEOPLE_FIELDS: &[SettingField] = &[
    SettingField::optional(
        "repeat",
        SettingFieldType::Duration(300, 30 * 86_400),
        "interval of reminders that checks are still down; no reminders if left out",
    ),
    SettingField::optional(
        "repeat-most",
        SettingFieldType::Number(1, 1_000),
        "maximum number of reminders for one downtime; no limit if left out",
    ),
    SettingField::optional(
        "quiet",
        SettingFieldType::TimeRange,
        "hours in which nothing is sent; at their end one message for each check gives its current \
         status, or one message for all if there are more than group-after",
    ),
    SettingField::optional(
        "quiet-days",
        SettingFieldType::Weekdays,
        "days on which the quiet hours begin; every day if left out",
    ),
    SettingField::optional(
        "tz",
        SettingFieldType::TimeZone,
        "time zone of the quiet hours and of the times in messages; the server's if left out",
    ),
    SettingField::optional(
        "group-after",
        SettingFieldType::NumberOrOff(1, 1_000),
        "number of checks above which one message covers all of them; 5 if left out",
    ),
    SettingField::optional(
        "notices",
        SettingFieldType::Flag,
        "on: sends notices of problems of the server and of other channels; off if left out",
    ),
];

/// Settings of kinds that send to a configurable URL.
pub(super) const URL_FIELDS: &[SettingField] = &[SettingField::optional(
    "tls-pin",
    SettingFieldType::CertificatePin,
    "certificate that the server must present, instead of one signed by a known authority",
)];

/// Default number of checks above which one message covers all of them.
const DEFAULT_GROUP_AFTER: u16 = 5;

/// Default daily limit of messages for kinds that cost money for each.
const DEFAULT_DAILY_LIMIT: u32 = 50;

/// Settings that channels of many kinds share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommonSettings {
    /// True if the channel is notified when checks go down.
    pub alerts_on_down: bool,
    /// True if the channel is notified when checks come up again.
    pub alerts_on_up: bool,
    /// True if the channel is notified when checks are late.
    pub warns_of_late: bool,
    /// True if the channel is notified when runs pass the limits of their checks.
    pub warns_of_limits: bool,
    /// True if the channel is notified about every check of its project.
    pub all_checks: bool,
    /// Seconds between two reminders that checks are still down.
    pub reminder_interval: Option<i64>,
    /// Maximum number of reminders for one downtime; `None`: no limit.
    pub max_reminders: Option<u32>,
    /// Hours in which nothing is sent.
    pub quiet_hours: Option<QuietHours>,
    /// Time zone; `None`: that of the server.
    pub tz: Option<Timezone>,
    /// Number of checks above which one message covers all of them; `None`: never.
    pub group_after: Option<u16>,
    /// True if the channel is notified about problems of the server.
    pub receives_notices: bool,
    /// SHA-256 of the certificate that the receiving server must present.
    pub tls_pin: Option<[u8; 32]>,
    /// Maximum number of messages in a day; `None`: no limit.
    pub daily_limit: Option<u32>,
}

impl CommonSettings {
    /// Values before any setting is read.
    pub(super) const DEFAULTS: Self = Self {
        alerts_on_down: true,
        alerts_on_up: true,
        warns_of_late: false,
        warns_of_limits: false,
        all_checks: false,
        reminder_interval: None,
        max_reminders: None,
        quiet_hours: None,
        tz: None,
        group_after: Some(DEFAULT_GROUP_AFTER),
        receives_notices: false,
        tls_pin: None,
        daily_limit: None,
    };

    /// Reads settings that were validated. Settings that the kind does not have count as left out.
    pub(super) fn from_settings(settings: &ChannelSettings) -> Self {
        let get = |key| settings.value(key);
        let is_on = |key| get(key) == Some("on");
        let number = |key| get(key).and_then(|text| text.parse::<u32>().ok());
        let sends = |word| {
            let text = get("send").unwrap_or("down,up");
            field_value::split_list(text).any(|item| item == word)
        };
        let quiet = get("quiet").and_then(|text| field_value::parse_time_range(text).ok());
        let days = get("quiet-days")
            .and_then(|text| field_value::parse_weekdays(text).ok())
            .unwrap_or(0x7f);
        Self {
            alerts_on_down: sends("down"),
            alerts_on_up: sends("up"),
            warns_of_late: sends("late"),
            warns_of_limits: sends("limits"),
            all_checks: is_on("every"),
            reminder_interval: get("repeat")
                .and_then(|text| field_value::parse_duration(text, 1, i64::MAX).ok()),
            max_reminders: number("repeat-most"),
            quiet_hours: quiet.map(|(from, to)| QuietHours { from, to, days }),
            tz: get("tz").and_then(|name| Timezone::parse(name).ok()),
            group_after: match get("group-after") {
                Some("off") => None,
                Some(text) => text.parse().ok(),
                None => Some(DEFAULT_GROUP_AFTER),
            },
            receives_notices: is_on("notices"),
            tls_pin: get("tls-pin").and_then(|text| field_value::parse_certificate_pin(text).ok()),
            daily_limit: number("most-a-day").or(settings
                .kind()
                .has_own_field("most-a-day")
                .then_some(DEFAULT_DAILY_LIMIT)),
        }
    }

    /// True if the settings let such an event through.
    pub(super) fn allows(&self, event: AlertEvent) -> bool {
        match event {
            AlertEvent::Down | AlertEvent::StillDown => self.alerts_on_down,
            AlertEvent::Up => self.alerts_on_up,
            AlertEvent::Notice => self.receives_notices,
            AlertEvent::Warning(WarningKind::Late) => self.warns_of_late,
            AlertEvent::Warning(_) => self.warns_of_limits,
            // An open incident is closed regardless of these settings.
            AlertEvent::Closed | AlertEvent::Test => true,
        }
    }
}

/// Hours in which a channel sends nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuietHours {
    /// Minute of the day at which they begin.
    from: u16,
    /// Minute of the day at which they end. On the next day unless it is later than `from`.
    to: u16,
    /// Weekdays on which they begin, one bit each; Monday is the lowest.
    days: u8,
}

impl QuietHours {
    /// End of the quiet hours that include `now`; `None` if no quiet hours do.
    pub fn end_after(self, now: Timestamp, zone: &Timezone) -> Option<Timestamp> {
        let wall = zone.wall_time_at(now)?;
        // 1970-01-01 was a Thursday.
        let weekday = (wall.secs().div_euclid(86_400) + 3).rem_euclid(7);
        let begins = |weekday: i64| self.days >> weekday.rem_euclid(7) & 1 == 1;
        let minute = wall.second_of_day() / 60;
        let from = i64::from(self.from);
        let to = i64::from(self.to);
        let end = |days: i64| wall.midnight().plus_secs(days * 86_400 + to * 60);
        let end = match () {
            () if from < to => (begins(weekday) && (from..to).contains(&minute)).then(|| end(0)),
            () if begins(weekday) && minute >= from => Some(end(1)),
            () => (begins(weekday - 1) && minute < to).then(|| end(0)),
        }?;
        resolve_quiet_end(end, zone).filter(|end| *end > now)
    }
}

/// Time at which a clock in the zone shows `wall`: the second time if it shows it twice. If the
/// clock skips it, the time by the offset before the change.
fn resolve_quiet_end(wall: WallTime, zone: &Timezone) -> Option<Timestamp> {
    match zone.resolve(wall)? {
        WallTimeResolution::Once(at)
        | WallTimeResolution::Twice([_, at], _)
        | WallTimeResolution::Skipped([at, _], _) => Some(at),
    }
}

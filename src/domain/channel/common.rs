//! The settings that channels of many kinds have: what is told, when, and how much at once.

use super::settings::ChannelSettings;
use super::{Field, Form, value};
use crate::domain::alert::Event;
use crate::domain::moment::Moment;
use crate::domain::timezone::Timezone;
use crate::domain::timezone::wall::{Reading, Wall};

/// What every kind has.
pub(super) const EVERY: &[Field] =
    &[Field::optional("every", Form::Flag, "on: it is told about every check of the project, assigned to it or not; off if left out")];

/// What every kind but a group has.
pub(super) const SINGLE: &[Field] = &[Field::optional("send", Form::Choice(&["down", "up", "down,up"]), "what is told; both if left out")];

/// What kinds for people have.
pub(super) const PEOPLE: &[Field] = &[
    Field::optional("repeat", Form::Duration(300, 30 * 86_400), "how often to say that checks are still down; never if left out"),
    Field::optional("repeat-most", Form::Number(1, 1_000), "how often that is said of one downtime; no limit if left out"),
    Field::optional(
        "quiet",
        Form::Hours,
        "hours in which nothing is sent; at their end one message for each check says what is true then, or one for all of more than group-after",
    ),
    Field::optional("quiet-days", Form::Days, "days on which those hours begin; every day if left out"),
    Field::optional("tz", Form::Zone, "time zone of those hours and of the times in messages; the server's if left out"),
    Field::optional("group-after", Form::NumberOrOff(1, 1_000), "from more checks than this on, one message tells of all; 5 if left out"),
    Field::optional("notices", Form::Flag, "on: it is told about trouble of the server and of other channels; off if left out"),
];

/// What kinds that send to a URL of one's own have.
pub(super) const URLS: &[Field] =
    &[Field::optional("tls-pin", Form::Pin, "certificate that the server must show, in place of one that is signed by a known authority")];

/// More checks than this in one go are told in one message, unless the channel says otherwise.
const GROUP_AFTER: u16 = 5;

/// Messages in a day of a kind that costs money for each, unless the channel says otherwise.
const MOST_A_DAY: u32 = 50;

/// What channels of many kinds are set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Common {
    /// Whether it tells that checks went down.
    pub down: bool,
    /// Whether it tells that they are up again.
    pub up: bool,
    /// Whether it is told about every check of its project.
    pub every: bool,
    /// Seconds between two messages that checks are still down.
    pub repeat: Option<i64>,
    /// How many such messages one downtime gets; `None`: no limit.
    pub repeat_most: Option<u32>,
    /// When nothing is sent.
    pub quiet: Option<Quiet>,
    /// Its time zone; `None`: the server's.
    pub tz: Option<Timezone>,
    /// From more checks than this on there is one message for all; `None`: never.
    pub group_after: Option<u16>,
    /// Whether it is told about trouble of the server.
    pub notices: bool,
    /// The SHA-256 of the certificate that its server must show.
    pub tls_pin: Option<[u8; 32]>,
    /// How many messages it may send in a day; `None`: no limit.
    pub most_a_day: Option<u32>,
}

impl Common {
    /// What holds before anything is read.
    pub(super) const NONE: Self = Self {
        down: true,
        up: true,
        every: false,
        repeat: None,
        repeat_most: None,
        quiet: None,
        tz: None,
        group_after: Some(GROUP_AFTER),
        notices: false,
        tls_pin: None,
        most_a_day: None,
    };

    /// Reads values that the table took. What the table does not have is as if it were left out.
    pub(super) fn of(settings: &ChannelSettings) -> Self {
        let get = |key| settings.value(key);
        let is_on = |key| get(key) == Some("on");
        let number = |key| get(key).and_then(|text| text.parse::<u32>().ok());
        let sends = |word| get("send").is_none_or(|text| value::items(text).any(|item| item == word));
        let quiet = get("quiet").and_then(|text| value::hours(text).ok());
        let days = get("quiet-days").and_then(|text| value::days(text).ok()).unwrap_or(0x7f);
        Self {
            down: sends("down"),
            up: sends("up"),
            every: is_on("every"),
            repeat: get("repeat").and_then(|text| value::duration(text, 1, i64::MAX).ok()),
            repeat_most: number("repeat-most"),
            quiet: quiet.map(|(from, to)| Quiet { from, to, days }),
            tz: get("tz").and_then(|name| Timezone::parse(name).ok()),
            group_after: match get("group-after") {
                Some("off") => None,
                Some(text) => text.parse().ok(),
                None => Some(GROUP_AFTER),
            },
            notices: is_on("notices"),
            tls_pin: get("tls-pin").and_then(|text| value::pin(text).ok()),
            most_a_day: number("most-a-day").or(settings.kind().has_own("most-a-day").then_some(MOST_A_DAY)),
        }
    }

    /// Whether its switches let such an event through.
    pub(super) fn sends(&self, event: Event) -> bool {
        match event {
            Event::Down | Event::Still => self.down,
            Event::Up => self.up,
            Event::Notice => self.notices,
            // An incident that was opened is closed whatever the switches say.
            Event::Closed | Event::Test => true,
        }
    }
}

/// Hours in which a channel sends nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quiet {
    /// The minute of the day at which they begin.
    from: u16,
    /// The minute of the day at which they end: of the next day, unless it is later than `from`.
    to: u16,
    /// A bit for each day of the week on which they begin, Monday's the lowest.
    days: u8,
}

impl Quiet {
    /// When the quiet hours that `now` lies in end; `None`: it lies in none.
    pub fn until(self, now: Moment, zone: &Timezone) -> Option<Moment> {
        let wall = zone.wall(now)?;
        // 1970-01-01 was a Thursday.
        let weekday = (wall.secs().div_euclid(86_400) + 3).rem_euclid(7);
        let begins = |weekday: i64| self.days >> weekday.rem_euclid(7) & 1 == 1;
        let minute = wall.second_of_day() / 60;
        let (from, to) = (i64::from(self.from), i64::from(self.to));
        let end = |days: i64| wall.midnight().plus_secs(days * 86_400 + to * 60);
        let end = match () {
            () if from < to => (begins(weekday) && (from..to).contains(&minute)).then(|| end(0)),
            () if begins(weekday) && minute >= from => Some(end(1)),
            () => (begins(weekday - 1) && minute < to).then(|| end(0)),
        }?;
        moment(end, zone).filter(|end| *end > now)
    }
}

/// When the clock shows this: the second time if twice; if never, as long after the change of the clocks as it would have been.
fn moment(wall: Wall, zone: &Timezone) -> Option<Moment> {
    match zone.reading(wall)? {
        Reading::Once(at) | Reading::Twice([_, at], _) | Reading::Skipped([at, _], _) => Some(at),
    }
}

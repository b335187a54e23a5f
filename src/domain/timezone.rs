//! Time zones of checks. All rules come from one database that is part of the program, so they are
//! the same on every host.

mod names;
pub(crate) mod wall_time;

use std::fmt;
use std::sync::LazyLock;

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::check_edit::field_value::{
    CheckFieldType, CheckFieldValue, EditValue, InvalidValue, TextRules, ValueProblem,
};
use super::timestamp::Timestamp;

/// Bundled database. The system's files are never read: they differ from host to host.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Names that are stored and shown, sorted.
static NAMES: LazyLock<Vec<Box<str>>> = LazyLock::new(|| {
    let is_kept = |name: &str| Timezone::parse(name).is_ok_and(|zone| zone.name() == name);
    let kept = DATABASE.available().filter(|name| is_kept(name.as_str()));
    let mut names: Vec<Box<str>> = kept.map(|name| name.as_str().into()).collect();
    names.sort_unstable();
    names
});

/// Time zone with its name in the IANA database, as it is stored and shown. Cloning copies a
/// pointer.
#[derive(Clone, Debug)]
pub struct Timezone(TimeZone);

/// Error for a text that is not a time zone that a check may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownTimezone;

impl fmt::Display for UnknownTimezone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a time zone: give an IANA name in its exact spelling, such as Europe/Riga or UTC",
        )
    }
}

impl std::error::Error for UnknownTimezone {}

impl EditValue for Timezone {
    const FORM: CheckFieldType = CheckFieldType::Text(TextRules::ANY);

    fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        Self::parse(Self::text_of(value)?)
            .map_err(|error| InvalidValue::new(ValueProblem::Timezone, error.to_string()))
    }

    fn value(&self) -> CheckFieldValue<'_> {
        self.name().into()
    }
}

impl Timezone {
    /// Parses the name of a zone in its exact spelling. An old name gives the zone that replaced
    /// it.
    ///
    /// # Errors
    /// If the name, case included, is not one of the 483 accepted and 113 replaced names.
    pub fn parse(name: &str) -> Result<Self, UnknownTimezone> {
        let replaced = names::REPLACED_NAMES
            .binary_search_by_key(&name, |(old, _)| old)
            .ok()
            .and_then(|at| names::REPLACED_NAMES.get(at));
        let name = replaced.map_or(name, |(_, new)| new);
        Self::from_database(name)
            .filter(|_| !names::REJECTED_NAMES.contains(&name))
            .ok_or(UnknownTimezone)
    }

    /// Returns any zone of the database by its exact spelling; old names stay. Used for the zone at
    /// the end of an OnCalendar expression.
    pub(super) fn from_database(name: &str) -> Option<Self> {
        // jiff ignores case and has a name of its own for an unknown zone.
        DATABASE
            .get(name)
            .ok()
            .filter(|zone| zone.iana_name() == Some(name) && !zone.is_unknown())
            .map(Self)
    }

    /// Names that a check may have, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|name| &**name)
    }

    /// Coordinated Universal Time, under the name `UTC`.
    pub const fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Name as it is stored and shown, such as `Europe/Riga`.
    pub fn name(&self) -> &str {
        // Every zone here came from the database by its name.
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Parses a local time, such as `2026-11-20T22:00`. A time that a clock shows twice is the
    /// first of the two; one that it skips moves by the length of the gap.
    pub fn parse_local_time(&self, text: &str) -> Option<Timestamp> {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        let time = local.to_zoned(self.0.clone()).ok()?;
        Some(Timestamp::from_micros(time.timestamp().as_microsecond()))
    }

    /// Time at which clocks of the zone show this hour on the day after `now`, or on the next day
    /// of the week after it. `None` if that is out of range.
    pub fn next_day_at(
        &self,
        now: Timestamp,
        weekday: Option<Weekday>,
        hour: i8,
    ) -> Option<Timestamp> {
        let now = jiff::Timestamp::from_microsecond(now.micros()).ok()?;
        let today = now.to_zoned(self.0.clone()).date();
        let day = match weekday {
            Some(weekday) => today.nth_weekday(1, weekday),
            None => today.tomorrow(),
        };
        let time = day.ok()?.at(hour, 0, 0, 0).to_zoned(self.0.clone()).ok()?;
        Some(Timestamp::from_micros(time.timestamp().as_microsecond()))
    }

    /// Rules of the zone.
    pub const fn rules(&self) -> &TimeZone {
        &self.0
    }
}

impl PartialEq for Timezone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Timezone {}

#[cfg(test)]
mod tests;

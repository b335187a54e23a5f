//! Summaries by mail: the subscription of a user, and the periods that summaries cover.

use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday};
use uuid::Uuid;

use crate::domain::mail_address::MailAddress;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::timezone::wall_time::WallTime;

/// Maximum number of projects that a user selects for summaries: see [limits](crate::docs::limits).
pub const MAX_SUMMARY_PROJECTS: usize = 100;
/// Maximum number of characters of a stored error: see [limits](crate::docs::limits).
pub const MAX_FAILURE_CHARS: usize = 200;
/// Hour of the local clock from which the summary of a period that ended at midnight is sent.
const SENDING_HOUR: i8 = 9;

/// Length of the period of a summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SummaryInterval {
    /// From Monday to Sunday.
    Weekly,
    /// Calendar month.
    Monthly,
}

impl SummaryInterval {
    /// Every interval, the shortest first.
    pub const ALL: [Self; 2] = [Self::Weekly, Self::Monthly];

    /// Word of pages, flags and rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }

    /// Returns the interval with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|interval| interval.name() == text)
    }

    /// Word for a period of this length.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Weekly => "week",
            Self::Monthly => "month",
        }
    }

    /// First day of the period that contains a day.
    fn first_day(self, day: Date) -> Option<Date> {
        match self {
            Self::Weekly if day.weekday() == Weekday::Monday => Some(day),
            Self::Weekly => day.nth_weekday(-1, Weekday::Monday).ok(),
            Self::Monthly => Some(day.first_of_month()),
        }
    }
}

/// Subscription of a user to summaries by mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummarySubscription {
    /// Interval, address and projects.
    pub settings: SummarySettings,
    /// End of the last period for which a summary was sent or given up, or the time of the
    /// subscription.
    pub covered_until: Timestamp,
    /// Time at which the mail server accepted the last summary.
    pub last_sent: Option<Timestamp>,
    /// Error of the last attempt, unless it succeeded.
    pub failure: Option<Box<str>>,
}

/// Settings of a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummarySettings {
    /// Length of the periods.
    pub interval: SummaryInterval,
    /// Address to which summaries are sent.
    pub address: MailAddress,
    /// Projects to cover, at most [`MAX_SUMMARY_PROJECTS`]. Empty for all that the user may see.
    pub projects: Box<[Uuid]>,
}

impl SummarySubscription {
    /// Creates a subscription. Its first summary is of the period that contains `now`.
    pub fn new(settings: SummarySettings, now: Timestamp) -> Self {
        Self {
            settings,
            covered_until: now,
            last_sent: None,
            failure: None,
        }
    }

    /// Returns the period for which a summary must be sent now, by the clock of a zone.
    pub fn due_period(&self, now: Timestamp, zone: &Timezone) -> Option<SummaryPeriod> {
        SummaryPeriod::latest(self.settings.interval, now, zone)
            .filter(|period| period.end > self.covered_until)
    }
}

/// Period of a summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SummaryPeriod {
    /// Length of the period.
    pub interval: SummaryInterval,
    /// Start of the period.
    pub start: Timestamp,
    /// End of the period, not included.
    pub end: Timestamp,
}

impl SummaryPeriod {
    /// Latest period for which summaries may be sent at `now`: one whose end was at least nine
    /// hours ago by the clock of a zone. `None` if that is out of range.
    pub fn latest(interval: SummaryInterval, now: Timestamp, zone: &Timezone) -> Option<Self> {
        let local = zone.wall_time_at(now)?.to_civil()?;
        let shifted = local.checked_sub(i64::from(SENDING_HOUR).hours()).ok()?;
        let end = interval.first_day(shifted.date())?;
        let start = interval.first_day(end.yesterday().ok()?)?;
        let midnight = |day: Date| zone.start_of_day(WallTime::from_civil(day.at(0, 0, 0, 0))?);
        Some(Self {
            interval,
            start: midnight(start)?,
            end: midnight(end)?,
        })
    }

    /// Start of the period before, of the same length, to compare with.
    pub fn start_of_previous(&self) -> Timestamp {
        self.start.plus_micros(self.start.micros_since(self.end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::timestamp::MICROS_PER_SEC;

    fn time(text: &str) -> Timestamp {
        Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
    }

    #[test]
    fn periods_end_at_local_midnight_and_are_sent_from_nine_on() {
        use SummaryInterval::{Monthly, Weekly};
        for (interval, zone, now, start, end) in [
            // Monday 23 November 2026.
            (
                Weekly,
                "UTC",
                "2026-11-23T08:59:59Z",
                "2026-11-09T00:00:00Z",
                "2026-11-16T00:00:00Z",
            ),
            (
                Weekly,
                "UTC",
                "2026-11-23T09:00:00Z",
                "2026-11-16T00:00:00Z",
                "2026-11-23T00:00:00Z",
            ),
            (
                Weekly,
                "UTC",
                "2026-11-29T23:00:00Z",
                "2026-11-16T00:00:00Z",
                "2026-11-23T00:00:00Z",
            ),
            (
                Weekly,
                "Asia/Tokyo",
                "2026-11-23T00:00:00Z",
                "2026-11-15T15:00:00Z",
                "2026-11-22T15:00:00Z",
            ),
            (
                Monthly,
                "UTC",
                "2026-11-01T08:00:00Z",
                "2026-09-01T00:00:00Z",
                "2026-10-01T00:00:00Z",
            ),
            (
                Monthly,
                "UTC",
                "2026-11-01T09:00:00Z",
                "2026-10-01T00:00:00Z",
                "2026-11-01T00:00:00Z",
            ),
            // The clocks of Riga went back on Sunday 25 October, so that week had 169 hours.
            (
                Weekly,
                "Europe/Riga",
                "2026-10-26T07:00:00Z",
                "2026-10-18T21:00:00Z",
                "2026-10-25T22:00:00Z",
            ),
        ] {
            let zone = Timezone::parse(zone).unwrap();
            let period = SummaryPeriod::latest(interval, time(now), &zone).unwrap();
            assert_eq!(
                (period.start, period.end),
                (time(start), time(end)),
                "{now}"
            );
        }
    }

    #[test]
    fn a_new_subscription_begins_with_the_current_period() {
        let settings = SummarySettings {
            interval: SummaryInterval::Weekly,
            address: MailAddress::parse("ann@example.org").unwrap(),
            projects: [].into(),
        };
        let zone = Timezone::utc();
        let mut subscription = SummarySubscription::new(settings, time("2026-11-25T12:00:00Z"));
        for now in ["2026-11-25T12:00:01Z", "2026-11-30T08:59:59Z"] {
            assert_eq!(subscription.due_period(time(now), &zone), None, "{now}");
        }
        let monday = time("2026-11-30T09:00:00Z");
        let due = subscription.due_period(monday, &zone).unwrap();
        assert_eq!(due.start, time("2026-11-23T00:00:00Z"));
        assert_eq!(due.start_of_previous(), time("2026-11-16T00:00:00Z"));
        // After an outage of three weeks only the latest period is due.
        let later = subscription.due_period(time("2026-12-21T10:00:00Z"), &zone);
        assert_eq!(later.unwrap().start, time("2026-12-14T00:00:00Z"));
        subscription.covered_until = due.end;
        assert_eq!(subscription.due_period(monday, &zone), None);
    }

    proptest! {
        #[test]
        fn periods_follow_each_other_without_a_gap(
            zone in prop::sample::select(vec![
                "UTC", "Europe/Riga", "America/Havana", "Asia/Beirut", "Pacific/Apia",
            ]),
            day in 15_000_i64..25_000,
            is_weekly: bool,
        ) {
            let interval = SummaryInterval::ALL[usize::from(!is_weekly)];
            let zone = Timezone::parse(zone).unwrap();
            let now = Timestamp::from_secs(day * 86_400);
            let period = SummaryPeriod::latest(interval, now, &zone).unwrap();
            let days = period.end.micros_since(period.start) / MICROS_PER_SEC / 3_600;
            prop_assert!(period.start < period.end && period.end < now);
            prop_assert!((24 * 6..=24 * 31 + 1).contains(&days));
            let before_sending = period.end.plus_secs(3_600);
            let previous = SummaryPeriod::latest(interval, before_sending, &zone).unwrap();
            prop_assert_eq!(previous.end, period.start);
        }
    }
}

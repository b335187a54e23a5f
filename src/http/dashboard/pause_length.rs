//! Lengths of a pause that forms offer.

use jiff::civil::Weekday;

use crate::domain::check::PauseInput;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::http::common::reply::HttpError;

/// Hour of the day until which checks are paused until another day.
const MORNING: i8 = 8;

/// Length of a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PauseLength {
    /// Until a user or a ping resumes the check.
    Unlimited,
    /// This number of hours.
    Hours(u8),
    /// Until the morning of the next day.
    Tomorrow,
    /// Until the morning of the next Monday.
    Monday,
}

impl PauseLength {
    /// Lengths in the order of menus.
    const ALL: [Self; 7] = [
        Self::Unlimited,
        Self::Hours(1),
        Self::Hours(2),
        Self::Hours(8),
        Self::Hours(24),
        Self::Tomorrow,
        Self::Monday,
    ];

    /// Value and label of each length, for a menu.
    pub(crate) fn options() -> [(String, String); 7] {
        Self::ALL.map(|length| (length.value(), length.label()))
    }

    /// Parses the value of a form. An empty one is a pause without an end.
    ///
    /// # Errors
    /// If no form has this value.
    pub(crate) fn parse(text: &str) -> Result<Self, HttpError> {
        let mut all = Self::ALL.into_iter();
        all.find(|length| length.value() == text).ok_or_else(|| {
            let values = Self::ALL.map(|length| length.value()).join(", ");
            HttpError::BadRequest(format!("for must be empty or one of{values}").into())
        })
    }

    /// Value in forms.
    fn value(self) -> String {
        match self {
            Self::Unlimited => String::new(),
            Self::Hours(hours) => format!("{hours}h"),
            Self::Tomorrow => "tomorrow".into(),
            Self::Monday => "monday".into(),
        }
    }

    /// Words in menus.
    fn label(self) -> String {
        match self {
            Self::Unlimited => "until resumed".into(),
            Self::Hours(1) => "for 1 hour".into(),
            Self::Hours(hours) => format!("for {hours} hours"),
            Self::Tomorrow => format!("until tomorrow {MORNING:02}:00"),
            Self::Monday => format!("until Monday {MORNING:02}:00"),
        }
    }

    /// Input for a pause that begins now, on clocks of this zone.
    pub(crate) fn input(self, now: Timestamp, zone: &Timezone) -> PauseInput {
        let day = match self {
            Self::Unlimited => return PauseInput::default(),
            Self::Hours(hours) => {
                return PauseInput {
                    minutes: Some(u64::from(hours) * 60),
                    until: None,
                };
            }
            Self::Tomorrow => None,
            Self::Monday => Some(Weekday::Monday),
        };
        let until = zone.next_day_at(now, day, MORNING).map(|at| {
            let mut text = String::new();
            at.write_rfc3339_secs(&mut text);
            text
        });
        PauseInput {
            until,
            minutes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_end_as_their_labels_say() {
        let zone = Timezone::parse("Europe/Riga").unwrap();
        let at = |text: &str| {
            let at = text.parse::<jiff::Timestamp>().unwrap();
            Timestamp::from_micros(at.as_microsecond())
        };
        for (length, now, end) in [
            ("", "2026-11-26T12:00:00Z", None),
            ("1h", "2026-11-26T12:00:00Z", Some("2026-11-26T13:00:00Z")),
            ("24h", "2026-11-26T12:00:00Z", Some("2026-11-27T12:00:00Z")),
            // A Thursday; 21:59 UTC is 23:59 in Riga.
            (
                "tomorrow",
                "2026-11-26T21:59:00Z",
                Some("2026-11-27T06:00:00Z"),
            ),
            (
                "tomorrow",
                "2026-11-26T22:00:00Z",
                Some("2026-11-28T06:00:00Z"),
            ),
            (
                "monday",
                "2026-11-26T12:00:00Z",
                Some("2026-11-30T06:00:00Z"),
            ),
            // On a Monday, the next one.
            (
                "monday",
                "2026-11-30T01:00:00Z",
                Some("2026-12-07T06:00:00Z"),
            ),
            // Summer time begins on that Sunday.
            (
                "monday",
                "2026-03-27T12:00:00Z",
                Some("2026-03-30T05:00:00Z"),
            ),
        ] {
            let now = at(now);
            let input = PauseLength::parse(length).unwrap().input(now, &zone);
            assert_eq!(input.parse(now), Ok(end.map(at)), "{length} at {now:?}");
        }
        assert!(PauseLength::parse("3h").is_err());
    }
}

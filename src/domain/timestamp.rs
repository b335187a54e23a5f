//! Points in time, with one unit and one zone for the whole crate.

use std::fmt::Write as _;

/// Microseconds in a second.
pub const MICROS_PER_SEC: i64 = 1_000_000;

/// Minimum size of a clock jump in microseconds. A jump takes effect at once. If the clock is set
/// back by less, the last time is used until the clock has caught up. See
/// [promises](crate::docs::promises).
pub const CLOCK_JUMP_MICROS: i64 = 5 * MICROS_PER_SEC;

/// Time in UTC: microseconds since 1970-01-01T00:00:00Z.
///
/// Arithmetic saturates. A time outside the years 0 to 9999 is written with the nearest date in
/// them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a time from microseconds since 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Creates a time from whole seconds since 1970-01-01T00:00:00Z.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(MICROS_PER_SEC))
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970-01-01T00:00:00Z, rounded towards the past.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(MICROS_PER_SEC)
    }

    /// Adds seconds.
    pub const fn plus_secs(self, secs: i64) -> Self {
        self.plus_micros(secs.saturating_mul(MICROS_PER_SEC))
    }

    /// Adds microseconds.
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Microseconds since `earlier`; negative if `earlier` is later.
    pub const fn micros_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// True if the time is so far after `now` that it comes from a clock that was ahead.
    pub const fn is_ahead_of(self, now: Self) -> bool {
        self.micros_since(now) >= CLOCK_JUMP_MICROS
    }

    /// Returns `last` if this time is slightly earlier, so that times do not decrease.
    pub fn not_before(self, last: Self) -> Self {
        if last.is_ahead_of(self) {
            self
        } else {
            self.max(last)
        }
    }

    /// Start of the month that lies this many months back, in UTC.
    pub fn start_of_month(self, months_back: i64) -> Self {
        let (year, month, _) = civil_from_days(self.secs().div_euclid(86_400));
        let months = year * 12 + month - 1 - months_back;
        Self::from_secs(
            days_from_civil(months.div_euclid(12), months.rem_euclid(12) + 1, 1) * 86_400,
        )
    }

    /// Writes `2026-11-20T10:14:43+00:00`, without fractions (times in the API carry their offset).
    pub fn write_rfc3339_secs(self, out: &mut String) {
        self.write_rfc3339(out, false);
    }

    /// Writes `2026-11-20T10:14:43.000123+00:00` (dates of pings in the API carry microseconds).
    pub fn write_rfc3339_micros(self, out: &mut String) {
        self.write_rfc3339(out, true);
    }

    fn write_rfc3339(self, out: &mut String, fraction: bool) {
        let (year, month, day) = civil_from_days(self.secs().div_euclid(86_400));
        let second = self.secs().rem_euclid(86_400);
        let ([c1, c2], [y1, y2]) = (two_digits(year / 100), two_digits(year % 100));
        let ([m1, m2], [d1, d2]) = (two_digits(month), two_digits(day));
        let ([h1, h2], [s1, s2]) = (two_digits(second / 3600), two_digits(second % 60));
        let [min1, min2] = two_digits(second / 60 % 60);
        let text = [
            c1, c2, y1, y2, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', min1, min2, b':', s1,
            s2,
        ];
        // Always ASCII.
        out.push_str(str::from_utf8(&text).unwrap_or_default());
        if fraction {
            // Writing to a String cannot fail.
            let _ = write!(out, ".{:06}", self.0.rem_euclid(MICROS_PER_SEC));
        }
        out.push_str("+00:00");
    }
}

/// Digits of a number from 0 to 99.
#[inline]
fn two_digits(number: i64) -> [u8; 2] {
    let number = number.clamp(0, 99) as u8;
    [b'0' + number / 10, b'0' + number % 10]
}

/// Converts a day counted from 1970-01-01 to year (0 to 9999, clamped), month and day in the
/// proleptic Gregorian calendar.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Counted from 0000-03-01, so that the leap day ends a year. An era is 400 years of 146,097
    // days.
    let days = days.clamp(-719_528, 2_932_896) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar; the inverse of
/// [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fractions_are_cut_off_not_rounded() {
        let mut text = String::new();
        Timestamp::from_micros(1_763_633_683_999_999).write_rfc3339_secs(&mut text);
        assert_eq!(text, "2025-11-20T10:14:43+00:00");
        text.clear();
        Timestamp::from_micros(-1).write_rfc3339_micros(&mut text);
        assert_eq!(text, "1969-12-31T23:59:59.999999+00:00");
    }

    #[test]
    fn small_steps_back_are_hidden_and_larger_ones_take_effect() {
        let at = |micros| Timestamp::from_micros(1_800_000_000 * MICROS_PER_SEC + micros);
        for (last, now, time) in [
            (0, 0, 0),
            (0, 1, 1),
            (0, 1_000 * MICROS_PER_SEC, 1_000 * MICROS_PER_SEC),
            (0, -1, 0),
            (0, 1 - CLOCK_JUMP_MICROS, 0),
            (0, -CLOCK_JUMP_MICROS, -CLOCK_JUMP_MICROS),
            (0, -1_000 * MICROS_PER_SEC, -1_000 * MICROS_PER_SEC),
        ] {
            assert_eq!(at(now).not_before(at(last)), at(time), "{now} after {last}");
        }
        assert_eq!(
            Timestamp::from_micros(i64::MIN).not_before(Timestamp::from_micros(i64::MAX)),
            Timestamp::from_micros(i64::MIN)
        );
    }

    #[test]
    fn months_begin_on_their_first_day() {
        for (now, back, from) in [
            ("2026-11-20T10:00:00Z", 0, "2026-11-01T00:00:00Z"),
            ("2026-11-20T10:00:00Z", 2, "2026-09-01T00:00:00Z"),
            ("2026-01-31T23:59:59Z", 2, "2025-11-01T00:00:00Z"),
            ("2024-03-01T00:00:00Z", 1, "2024-02-01T00:00:00Z"),
            ("2026-02-28T12:00:00Z", 2, "2025-12-01T00:00:00Z"),
        ] {
            let moment = |text: &str| {
                Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
            };
            assert_eq!(moment(now).start_of_month(back), moment(from), "{now}");
        }
    }

    proptest! {
        #[test]
        fn dates_agree_with_the_calendar_of_jiff(
            micros in -62_167_219_200_000_000_i64..=253_402_207_200_000_000,
        ) {
            let mut text = String::new();
            Timestamp::from_micros(micros).write_rfc3339_micros(&mut text);
            let stamp = jiff::Timestamp::from_microsecond(micros).unwrap();
            prop_assert_eq!(text, stamp.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string());
        }
    }
}

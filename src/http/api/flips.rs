//! `/checks/<uuid>/flips/`: when a check went down and up again.

use std::ops::RangeInclusive;

use hyper::Uri;

use super::view::write_flip;
use super::{Call, CheckRef};
use crate::domain::moment::Moment;
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::request;
use crate::wire::route::Version;

/// UNIX times that a query may name.
const TIMES: RangeInclusive<i64> = 0..=10_000_000_000;
/// Seconds back from now that a query may name: up to 365 days.
const SECONDS: RangeInclusive<i64> = 0..=31_536_000;

pub(super) async fn list(call: &Call<'_>, check: CheckRef) -> Result<Reply, Fault> {
    let check = call.check(check).await?;
    let Window { from, until } = Window::of(&call.head.uri, call.now)?;
    let handle = call.handle().clone();
    let (begin, end) = match call.address.version {
        // As Healthchecks answers: clients of these versions look for the member.
        Version::V1 | Version::V2 => ("{\"flips\":[", "]}"),
        Version::V3 => ("[", "]"),
    };
    let (mut next, mut before) = (check.state.last_flip, begin);
    let write = move |out: &mut String| {
        let (flips, older) = handle.some_flips(&check, next, from)?;
        let shown = flips.iter().filter(|flip| flip.at < until).filter_map(|flip| Some((flip.at, flip.direction()?)));
        for (at, direction) in shown {
            out.push_str(std::mem::replace(&mut before, ","));
            write_flip(out, at, direction);
        }
        if let Some(older) = older {
            next = older;
            return Ok(true);
        }
        if before == begin {
            out.push_str(begin);
        }
        out.push_str(end);
        Ok(false)
    };
    Ok(reply::json(call.door.outgoing.clone().pieces(write).await?))
}

/// The flips that a query asks for.
struct Window {
    /// Not those before this.
    from: Moment,
    /// Nor those from this on.
    until: Moment,
}

impl Window {
    /// Reads the query. All of its limits hold together. One bad value is an error, whatever the others are.
    fn of(uri: &Uri, now: Moment) -> Result<Self, Fault> {
        let (mut start, mut end, mut seconds) = (None, None, None);
        for (name, value) in request::query(uri) {
            let value = value.as_deref();
            match name.as_deref() {
                Some("start") => start = Some(number("start", value, TIMES)?),
                Some("end") => end = Some(number("end", value, TIMES)?),
                Some("seconds") if value != Some("") => seconds = Some(number("seconds", value, SECONDS)?),
                _ => {}
            }
        }
        let starts = [start.map(Moment::from_secs), seconds.map(|seconds| now.plus_secs(-seconds))];
        let from = starts.into_iter().flatten().max().unwrap_or(Moment::from_micros(i64::MIN));
        Ok(Self { from, until: end.map_or(Moment::from_micros(i64::MAX), Moment::from_secs) })
    }
}

/// A whole number within a range, written with digits alone.
pub(super) fn number(name: &str, value: Option<&str>, range: RangeInclusive<i64>) -> Result<i64, Fault> {
    let digits = value.filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| range.contains(number));
    number.ok_or_else(|| Fault::BadRequest(format!("{name} is not a whole number from {} to {}", range.start(), range.end()).into()))
}

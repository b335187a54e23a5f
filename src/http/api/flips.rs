//! `/checks/<uuid>/flips/`: flips of a check between up and down.

use std::ops::RangeInclusive;

use hyper::Uri;

use super::view::write_flip;
use super::{ApiCall, ApiVersion, CheckRef};
use crate::domain::timestamp::Timestamp;
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request;

/// Range of UNIX times in a query.
const TIMESTAMP_RANGE: RangeInclusive<i64> = 0..=10_000_000_000;
/// Range of `seconds` in a query, back from now: up to 365 days.
const SECONDS_RANGE: RangeInclusive<i64> = 0..=31_536_000;

pub(super) async fn list(
    call: &ApiCall<'_>,
    check: impl Into<CheckRef>,
) -> Result<HttpReply, HttpError> {
    let check = call.find_check(check).await?;
    let FlipQuery { from, until } = FlipQuery::from_query(&call.parts.uri, call.now)?;
    let handle = call.handle().clone();
    // The format of Healthchecks: clients of the older versions look for the member.
    let (begin, end) = if call.endpoint.version < ApiVersion::V3 {
        ("{\"flips\":[", "]}")
    } else {
        ("[", "]")
    };
    let mut next = check.state.last_flip;
    let mut before = begin;
    let write = move |out: &mut String| {
        let (flips, older) = handle.flips_page(&check, next, from)?;
        let directions = flips
            .iter()
            .filter(|flip| flip.at < until)
            .filter_map(|flip| Some((flip.at, flip.direction()?)));
        for (at, direction) in directions {
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
    Ok(reply::json(
        call.response_writer().write_chunked(write).await?,
    ))
}

/// Parsed query: the time range of the flips.
struct FlipQuery {
    /// Start of the range, inclusive.
    from: Timestamp,
    /// End of the range, exclusive.
    until: Timestamp,
}

impl FlipQuery {
    /// Parses the query. All of its limits apply together. One invalid value is an error, whatever
    /// the others are.
    fn from_query(uri: &Uri, now: Timestamp) -> Result<Self, HttpError> {
        let mut start = None;
        let mut end = None;
        let mut seconds = None;
        for (name, value) in request::query(uri) {
            let value = value.as_deref();
            match name.as_deref() {
                Some("start") => start = Some(parse_number("start", value, TIMESTAMP_RANGE)?),
                Some("end") => end = Some(parse_number("end", value, TIMESTAMP_RANGE)?),
                Some("seconds") if value != Some("") => {
                    seconds = Some(parse_number("seconds", value, SECONDS_RANGE)?);
                }
                _ => {}
            }
        }
        let starts = [
            start.map(Timestamp::from_secs),
            seconds.map(|seconds| now.plus_secs(-seconds)),
        ];
        let from = starts
            .into_iter()
            .flatten()
            .max()
            .unwrap_or(Timestamp::from_micros(i64::MIN));
        Ok(Self {
            from,
            until: end.map_or(Timestamp::from_micros(i64::MAX), Timestamp::from_secs),
        })
    }
}

/// Parses a whole number within a range, written with digits only.
pub(super) fn parse_number(
    name: &str,
    value: Option<&str>,
    range: RangeInclusive<i64>,
) -> Result<i64, HttpError> {
    let digits = value.filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits
        .and_then(|digits| digits.parse().ok())
        .filter(|number| range.contains(number));
    number.ok_or_else(|| {
        HttpError::BadRequest(
            format!(
                "{name} is not a whole number from {} to {}",
                range.start(),
                range.end()
            )
            .into(),
        )
    })
}

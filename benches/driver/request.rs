//! A request as bytes, written once. Only the digits of a number differ between requests, and are
//! changed in place.

use super::Endpoint;

/// Placeholder in a path or body for the number of the check.
const NUMBER_PLACEHOLDER: &str = "{n}";
/// Digits of the number.
const NUMBER_DIGITS: usize = 7;

/// A request that is sent repeatedly, each time with another number of `0..count` in it.
#[derive(Clone)]
pub(crate) struct Request {
    pub(super) bytes: Vec<u8>,
    /// Offsets of the number.
    number_offsets: Vec<usize>,
    count: u64,
    /// Step from one number to the next. It is coprime to `count`, so that every number is used
    /// once in every round.
    step: u64,
}

impl Request {
    /// Creates a request of this method to a path below the endpoint's. Each `{n}` in path and body
    /// is replaced by a number below `count`.
    pub(crate) fn new(
        endpoint: &Endpoint,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        count: u64,
    ) -> Self {
        let length = body.len()
            + body.matches(NUMBER_PLACEHOLDER).count() * (NUMBER_DIGITS - NUMBER_PLACEHOLDER.len());
        let mut text = format!(
            "{method} {}{path} HTTP/1.1\r\nHost: {}\r\n",
            endpoint.base(),
            endpoint.host()
        );
        headers
            .iter()
            .for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        if method != "GET" {
            text.push_str(&format!("Content-Length: {length}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(body);
        let number_offsets = text
            .match_indices(NUMBER_PLACEHOLDER)
            .enumerate()
            .map(|(nth, (at, _))| at + nth * (NUMBER_DIGITS - NUMBER_PLACEHOLDER.len()))
            .collect();
        let bytes = text
            .replace(NUMBER_PLACEHOLDER, &"0".repeat(NUMBER_DIGITS))
            .into_bytes();
        Self {
            bytes,
            number_offsets,
            count: count.max(1),
            step: coprime_step(count.max(1)),
        }
    }

    /// Creates a ping of 64 bytes to one of `checks` checks by its slug, `load-0000000` and so on;
    /// `create` creates missing ones.
    pub(crate) fn ping(endpoint: &Endpoint, ping_key: &str, checks: u64, create: bool) -> Self {
        let query = if create { "?create=1" } else { "" };
        Self::new(
            endpoint,
            "POST",
            &format!("/ping/{ping_key}/load-{NUMBER_PLACEHOLDER}{query}"),
            &[],
            &"x".repeat(64),
            checks,
        )
    }

    /// Writes the number of the request at this position of the run into its bytes.
    pub(super) fn number(&self, bytes: &mut [u8], position: u64) {
        let number = (position % self.count) * self.step % self.count;
        for offset in &self.number_offsets {
            let mut rest = number;
            for digit in bytes.iter_mut().skip(*offset).take(NUMBER_DIGITS).rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
    }
}

/// Returns a step that is large enough that neighbours in time are not neighbours in the database.
fn coprime_step(count: u64) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = (count as f64 * 0.618) as u64;
    (golden.max(1)..)
        .find(|step| divisor(*step, count) == 1)
        .unwrap_or(1)
}

//! Conversion of pings and flips. For each check, only counters and a few bits for each imported
//! ping are kept.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::flip::{Flip, FlipCause};
use crate::domain::import_contents::{ImportedFlip, ImportedPing};
use crate::domain::ping::{
    MAX_BODY_BYTES, PingKind, PingMethod, PingOrigin, PingScheme, truncate_user_agent,
};
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use crate::import::report::{ImportTally, ReportedKind};
use crate::import::source_row::{RowError, SourceRow};
use crate::import::{ImportOptions, PingLogSelection};

/// Number of months before the current one for which flips are kept.
const FLIP_MONTHS: i64 = 2;

/// Bit sets for 64 consecutive numbers of pings of a check: pings that exist, and properties for
/// the report.
#[derive(Clone, Copy, Default)]
struct PingBlock {
    present: u64,
    future: u64,
    method: u64,
    /// Pings with a scheme, an address, a kind or another value that is changed.
    altered: u64,
    body: u64,
    body_elsewhere: u64,
}

/// The newest flip of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LastFlip {
    pub(super) at: Timestamp,
    /// Status before the flip.
    pub(super) from: Status,
    pub(super) cause: FlipCause,
    /// True if the old server has sent the alerts for the flip.
    pub(super) is_notified: bool,
}

/// State of converting the log of a check.
pub(super) struct CheckLog {
    /// UUID of the check.
    pub(super) uuid: Uuid,
    /// Number of pings ever logged.
    total_pings: u64,
    /// Number of pings that are kept.
    ping_limit: u64,
    /// Blocks of 64 pings by their age: the newest ping is in block 0.
    blocks: BTreeMap<u64, PingBlock>,
    /// Flip that was logged last, with its number.
    last_logged_flip: Option<(LastFlip, i64)>,
    /// Latest time of a flip.
    latest_flip_time: Option<Timestamp>,
}

/// Parses the name of a status.
pub(super) fn parse_status(word: &str) -> Option<Status> {
    [Status::New, Status::Up, Status::Down, Status::Paused]
        .into_iter()
        .find(|status| status.name() == word)
}

impl CheckLog {
    pub(super) fn new(uuid: Uuid, n_pings: u64, limit: u32) -> Self {
        Self {
            uuid,
            total_pings: n_pings,
            ping_limit: limit.into(),
            blocks: BTreeMap::new(),
            last_logged_flip: None,
            latest_flip_time: None,
        }
    }

    /// Returns the newest flip; `None` if there is none. Flips keep the order in which they were
    /// logged. No flip is earlier than its predecessor.
    pub(super) fn last_flip(&self) -> Option<LastFlip> {
        self.last_logged_flip.map(|(flip, _)| LastFlip {
            at: self.latest_flip_time.unwrap_or(flip.at),
            ..flip
        })
    }

    /// Converts a flip. An old one is only counted. The time may be in the future.
    pub(super) fn convert_flip(
        &mut self,
        row: &SourceRow,
        now: Timestamp,
        tally: &mut ImportTally,
    ) -> Option<ImportedFlip> {
        let read = || {
            let created = row.require("created", row.timestamp("created"))?;
            let word = |column| {
                parse_status(row.text(column)?)
                    .ok_or_else(|| row.error(format!("{column} is not a status")))
            };
            let is_notified = row.timestamp("processed")?.is_some();
            Ok((
                created,
                word("old_status")?,
                word("new_status")?,
                is_notified,
                row.id("id")?,
            ))
        };
        let Ok((created, from, to, is_notified, number)) = read().map_err(|_: RowError| ()) else {
            tally.add_dropped(ReportedKind::Flips, 1, "with an invalid time or status");
            return None;
        };
        let at = created.min(now);
        let cause = match row.text("reason").unwrap_or_default() {
            "timeout" => FlipCause::MissedPing,
            "fail" => FlipCause::Fail,
            _ => FlipCause::Unknown,
        };
        if self.last_logged_flip.is_none_or(|(_, last)| last < number) {
            self.last_logged_flip = Some((
                LastFlip {
                    at,
                    from,
                    cause,
                    is_notified,
                },
                number,
            ));
        }
        if created <= now {
            self.latest_flip_time = self.latest_flip_time.max(Some(at));
        }
        if at < now.start_of_month(FLIP_MONTHS) {
            tally.add_dropped(
                ReportedKind::Flips,
                1,
                "older than the current month and the two before it",
            );
            return None;
        }
        tally.add_carried(ReportedKind::Flips, 1);
        if row.boolean("guessed").ok().flatten().unwrap_or(false) {
            tally.add_note(
                ReportedKind::Flips,
                Some(1),
                "treated as pauses and resumes: the API does not distinguish them from downtimes",
            );
        }
        if created > now {
            tally.add_changed(ReportedKind::Flips, 1);
            tally.add_note(
                ReportedKind::Flips,
                Some(1),
                "with times in the future, changed to now",
            );
        }
        Some(ImportedFlip {
            check: self.uuid,
            flip: Flip {
                at: created,
                from,
                to,
                cause,
                awaited_since: None,
            },
        })
    }

    /// Converts a ping, unless it is too old or has no valid number.
    pub(super) fn convert_ping(
        &mut self,
        row: &SourceRow,
        options: &ImportOptions,
        now: Timestamp,
        tally: &mut ImportTally,
    ) -> Option<ImportedPing> {
        let n = row
            .integer("n")
            .ok()
            .flatten()
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| *n > 0);
        let reason = match n {
            None => "without a number",
            _ if options.logs == PingLogSelection::None => "left out with --logs none",
            Some(n) if n > self.total_pings => "logged while the dump was being written",
            Some(n) if self.total_pings - n >= self.ping_limit => "older than the log limit",
            Some(n) => match (
                self.block_and_bit(n),
                row.timestamp("created").ok().flatten(),
            ) {
                ((block, bit), _) if block.present & bit != 0 => "with the number of another ping",
                (_, None) => "with an invalid time",
                (_, Some(created)) => {
                    let mut ping = self.read_ping(n, created, row, options, now);
                    if ping.body.len() > MAX_BODY_BYTES {
                        ping.body.truncate(MAX_BODY_BYTES);
                        tally.add_changed(ReportedKind::Bodies, 1);
                        tally.add_note(
                            ReportedKind::Bodies,
                            Some(1),
                            format!("longer than {MAX_BODY_BYTES} bytes, truncated"),
                        );
                    }
                    return Some(ping);
                }
            },
        };
        tally.add_dropped(ReportedKind::Pings, 1, reason);
        None
    }

    fn block_and_bit(&mut self, n: u64) -> (&mut PingBlock, u64) {
        let age = self.total_pings - n;
        (self.blocks.entry(age / 64).or_default(), 1 << (age % 64))
    }

    /// Converts the values of a ping. An invalid value becomes the nearest valid one, because the
    /// log must have no gap.
    fn read_ping(
        &mut self,
        n: u64,
        created: Timestamp,
        row: &SourceRow,
        options: &ImportOptions,
        now: Timestamp,
    ) -> ImportedPing {
        let is_altered = Cell::new(false);
        // An unreadable value is dropped.
        fn read_or_drop<T>(is_altered: &Cell<bool>, read: Result<T, RowError>) -> Option<T> {
            is_altered.set(is_altered.get() || read.is_err());
            read.ok()
        }
        let text = |column| read_or_drop(&is_altered, row.text(column)).unwrap_or_default();
        let kind = match text("kind") {
            "" => PingKind::Success,
            word => {
                let kinds = [
                    PingKind::Start,
                    PingKind::Fail,
                    PingKind::Log,
                    PingKind::Ignored,
                ];
                let known = kinds.into_iter().find(|kind| kind.name() == word);
                is_altered.set(is_altered.get() || known.is_none());
                known.unwrap_or(PingKind::Log)
            }
        };
        let (scheme, is_exact) = parse_scheme(text("scheme"));
        let word = text("method");
        let method = PingMethod::ALL
            .into_iter()
            .find(|method| method.name() == word);
        let (remote_addr, is_address) = match text("remote_addr") {
            "" => (None, true),
            text => (parse_address(text), text.parse::<IpAddr>().is_ok()),
        };
        let exit = read_or_drop(&is_altered, row.integer("exitstatus")).flatten();
        let exit_status = exit.and_then(|status| u8::try_from(status).ok());
        is_altered.set(
            is_altered.get() || !is_exact || !is_address || exit.is_some() && exit_status.is_none(),
        );
        let stored = read_or_drop(&is_altered, row.bytes("body_raw"))
            .flatten()
            .filter(|body| !body.is_empty());
        let body = stored.unwrap_or_else(|| text("body").as_bytes().to_vec());
        let has_body = !body.is_empty();
        let size = read_or_drop(&is_altered, row.integer("object_size")).flatten();
        let is_elsewhere = body.is_empty() && size.is_some_and(|size| size > 0);
        let origin = PingOrigin {
            scheme,
            method: method.unwrap_or(PingMethod::None),
            remote_addr,
            user_agent: truncate_user_agent(text("ua")),
        };
        let ping = ImportedPing {
            check: self.uuid,
            n,
            at: created.min(now),
            kind,
            origin,
            rid: read_or_drop(&is_altered, row.uuid("rid")).flatten(),
            exit_status,
            body: if options.logs == PingLogSelection::All {
                Bytes::from(body)
            } else {
                Bytes::new()
            },
        };
        let (block, bit) = self.block_and_bit(n);
        let set = |bits: &mut u64, is_set: bool| *bits |= if is_set { bit } else { 0 };
        set(&mut block.present, true);
        set(&mut block.future, created > now);
        set(&mut block.method, method.is_none());
        set(&mut block.altered, is_altered.get());
        set(&mut block.body, has_body);
        set(&mut block.body_elsewhere, is_elsewhere);
        ping
    }

    /// Counts the imported pings: those without a gap up to the newest.
    pub(super) fn tally_pings(&self, logs: PingLogSelection, tally: &mut ImportTally) {
        let mut sum = [0; 7];
        let [pings, changed, future, method, altered, bodies, elsewhere] = &mut sum;
        let mut is_whole = true;
        for (expected, (age, block)) in (0..).zip(&self.blocks) {
            is_whole &= expected == *age;
            // Number of consecutive pings from the newest of the block.
            let run = if is_whole {
                block.present.trailing_ones()
            } else {
                0
            };
            let in_run = u64::MAX.checked_shl(run).map_or(u64::MAX, |beyond| !beyond);
            for (count, bits) in [
                (&mut *pings, block.present),
                (&mut *changed, block.future | block.method | block.altered),
                (&mut *future, block.future),
                (&mut *method, block.method),
                (&mut *altered, block.altered),
                (&mut *bodies, block.body),
                (&mut *elsewhere, block.body_elsewhere),
            ] {
                *count += u64::from((bits & in_run).count_ones());
            }
            tally.add_dropped(
                ReportedKind::Pings,
                u64::from((block.present & !in_run).count_ones()),
                "before a gap in their numbers",
            );
            is_whole &= run == 64;
        }
        tally.add_carried(ReportedKind::Pings, *pings);
        tally.add_changed(ReportedKind::Pings, *changed);
        tally.add_note(
            ReportedKind::Pings,
            Some(*future),
            "with times in the future, changed to now",
        );
        tally.add_note(
            ReportedKind::Pings,
            Some(*method),
            "with a method that overdue does not store",
        );
        tally.add_note(
            ReportedKind::Pings,
            Some(*altered),
            "with an address, scheme or other detail that is only partly valid",
        );
        match logs {
            PingLogSelection::All => tally.add_carried(ReportedKind::Bodies, *bodies),
            PingLogSelection::WithoutBodies | PingLogSelection::None => {
                tally.add_dropped(ReportedKind::Bodies, *bodies, "left out with --logs heads");
            }
        }
        tally.add_dropped(ReportedKind::Bodies, *elsewhere, "in object storage");
    }
}

/// Parses the scheme of a ping. The flag is true if it is a known one. Healthchecks stores what a
/// proxy sends: `HTTPS`, `https,http`, `wss`.
fn parse_scheme(text: &str) -> (PingScheme, bool) {
    let known = [PingScheme::Http, PingScheme::Https, PingScheme::Email];
    if let Some(exact) = known.into_iter().find(|scheme| scheme.name() == text) {
        return (exact, true);
    }
    // The first scheme is that of the client.
    let first = text
        .split(',')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    (
        if matches!(first.as_str(), "https" | "wss") {
            PingScheme::Https
        } else {
            PingScheme::Http
        },
        false,
    )
}

/// Parses an address with or without brackets and port, as proxies write it; `None` if it is not an
/// address, such as `unknown`.
fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text
        .split(',')
        .next()
        .unwrap_or_default()
        .trim()
        .trim_matches('"');
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let parsed = bare.unwrap_or(text).parse().ok();
    parsed.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests;

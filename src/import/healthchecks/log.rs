//! What pings and flips of a Healthchecks are here. Of each check only counters are kept, and a few bits for each ping that comes along.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::flip::{Cause, Flip};
use crate::domain::imported::{ImportedFlip, ImportedPing};
use crate::domain::moment::Moment;
use crate::domain::ping::{Kind, LONGEST_BODY, Method, Origin, Scheme, kept_ua};
use crate::domain::status::Status;
use crate::import::report::{Tally, What};
use crate::import::rows::{Complaint, Row};
use crate::import::{Logs, Options};

/// Months before this one whose flips are kept.
const FLIP_MONTHS: i64 = 2;

/// Where the pings of a check lie whose numbers are 64 in a row: a bit for each that comes, and for what is to be said of it.
#[derive(Clone, Copy, Default)]
struct Block {
    there: u64,
    future: u64,
    method: u64,
    body: u64,
    elsewhere: u64,
}

/// The newest flip of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LastFlip {
    pub(super) at: Moment,
    /// The status before it.
    pub(super) from: Status,
    pub(super) cause: Cause,
    /// The old server has told it.
    pub(super) is_told: bool,
}

/// What has been read of the log of a check.
pub(super) struct CheckLog {
    /// The UUID of the check.
    pub(super) uuid: Uuid,
    /// Pings ever logged.
    n_pings: u64,
    /// How many of them are kept.
    limit: u64,
    /// By how many times 64 numbers they are older than the newest.
    blocks: BTreeMap<u64, Block>,
    /// The newest flip, and its number.
    newest: Option<(LastFlip, i64)>,
}

/// A word for a status.
pub(super) fn status(word: &str) -> Option<Status> {
    [Status::New, Status::Up, Status::Down, Status::Paused].into_iter().find(|status| status.name() == word)
}

impl CheckLog {
    pub(super) fn new(uuid: Uuid, n_pings: u64, limit: u32) -> Self {
        Self { uuid, n_pings, limit: limit.into(), blocks: BTreeMap::new(), newest: None }
    }

    /// Its newest flip; `None`: there was none.
    pub(super) fn last_flip(&self) -> Option<LastFlip> {
        self.newest.map(|(flip, _)| flip)
    }

    /// Takes a flip. Of an old one only that it was is kept.
    pub(super) fn flip(&mut self, row: &Row, now: Moment, tally: &mut Tally) -> Result<Option<ImportedFlip>, Complaint> {
        let created = row.need("created", row.moment("created"))?;
        let word = |column| status(row.text(column)?).ok_or_else(|| row.wrong(format!("{column} is no status")));
        let (from, to) = (word("old_status")?, word("new_status")?);
        let is_told = row.moment("processed")?.is_some();
        let at = created.min(now);
        let cause = match row.text("reason")? {
            "timeout" => Cause::Late,
            "fail" => Cause::Fail,
            _ => Cause::Unknown,
        };
        let number = row.id("id")?;
        if self.newest.is_none_or(|(newest, last)| (newest.at, last) < (at, number)) {
            self.newest = Some((LastFlip { at, from, cause, is_told }, number));
        }
        if at < now.start_of_month(FLIP_MONTHS) {
            tally.dropped(What::Flips, 1, "older than two months and this one");
            return Ok(None);
        }
        tally.carried(What::Flips, 1);
        if created > now {
            tally.changed(What::Flips, 1);
            tally.note(What::Flips, Some(1), "from the future: they become of now");
        }
        Ok(Some(ImportedFlip { check: self.uuid, flip: Flip { at, from, to, cause } }))
    }

    /// Takes a ping, unless it is too old or cannot be counted.
    pub(super) fn ping(&mut self, row: &Row, options: &Options, now: Moment, tally: &mut Tally) -> Result<Option<ImportedPing>, Complaint> {
        let n = row.integer("n")?.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
        let why = match n {
            None => "without a number",
            _ if options.logs == Logs::None => "left out by --logs none",
            Some(n) if n > self.n_pings => "logged while the source was written",
            Some(n) if self.n_pings - n >= self.limit => "older than the log limit",
            Some(n) => match self.block(n) {
                (block, bit) if block.there & bit != 0 => "with the number of another",
                _ => {
                    let mut ping = self.take(n, row, options, now)?;
                    if ping.body.len() > LONGEST_BODY {
                        ping.body.truncate(LONGEST_BODY);
                        tally.changed(What::Bodies, 1);
                        tally.note(What::Bodies, Some(1), format!("of more than {LONGEST_BODY} bytes: they are cut"));
                    }
                    return Ok(Some(ping));
                }
            },
        };
        tally.dropped(What::Pings, 1, why);
        Ok(None)
    }

    fn block(&mut self, n: u64) -> (&mut Block, u64) {
        let age = self.n_pings - n;
        (self.blocks.entry(age / 64).or_default(), 1 << (age % 64))
    }

    fn take(&mut self, n: u64, row: &Row, options: &Options, now: Moment) -> Result<ImportedPing, Complaint> {
        let created = row.need("created", row.moment("created"))?;
        let kind = match row.text("kind")? {
            "" => Kind::Success,
            word => {
                let kinds = [Kind::Start, Kind::Fail, Kind::Log, Kind::Ignored];
                kinds.into_iter().find(|kind| kind.name() == word).ok_or_else(|| row.wrong(format!("kind {word:?} is unknown")))?
            }
        };
        let word = row.text("scheme")?;
        let scheme = [Scheme::Http, Scheme::Https, Scheme::Email].into_iter().find(|scheme| scheme.name() == word);
        let scheme = scheme.ok_or_else(|| row.wrong(format!("scheme {word:?} is unknown")))?;
        let word = row.text("method")?;
        let method = Method::ALL.into_iter().find(|method| method.name() == word);
        let remote_addr = match row.text("remote_addr")? {
            "" => None,
            text => Some(text.parse().map_err(|_| row.wrong("remote_addr is not an address"))?),
        };
        let exit = match row.integer("exitstatus")? {
            None => None,
            Some(status) => Some(u8::try_from(status).map_err(|_| row.wrong("exitstatus is not one from 0 to 255"))?),
        };
        let stored = row.bytes("body_raw")?.filter(|body| !body.is_empty());
        let body = stored.map_or_else(|| row.text("body").map(|text| text.as_bytes().to_vec()), Ok)?;
        let has_body = !body.is_empty();
        let is_elsewhere = body.is_empty() && row.integer("object_size")?.is_some_and(|size| size > 0);
        let origin = Origin { scheme, method: method.unwrap_or(Method::None), remote_addr, ua: kept_ua(row.text("ua")?) };
        let ping = ImportedPing {
            check: self.uuid,
            n,
            at: created.min(now),
            kind,
            origin,
            rid: row.uuid("rid")?,
            exit,
            body: if options.logs == Logs::All { body.into() } else { Bytes::new() },
        };
        let (block, bit) = self.block(n);
        let set = |bits: &mut u64, is_set: bool| *bits |= if is_set { bit } else { 0 };
        set(&mut block.there, true);
        set(&mut block.future, created > now);
        set(&mut block.method, method.is_none());
        set(&mut block.body, has_body);
        set(&mut block.elsewhere, is_elsewhere);
        Ok(ping)
    }

    /// Counts the pings that come: those without a gap up to the newest.
    pub(super) fn count(&self, logs: Logs, tally: &mut Tally) {
        let mut sum = [0; 6];
        let [pings, changed, future, method, bodies, elsewhere] = &mut sum;
        let mut is_whole = true;
        for (expected, (age, block)) in (0..).zip(&self.blocks) {
            is_whole &= expected == *age;
            // Those in a row from the newest of the block on.
            let run = if is_whole { block.there.trailing_ones() } else { 0 };
            let comes = u64::MAX.checked_shl(run).map_or(u64::MAX, |beyond| !beyond);
            for (count, bits) in [
                (&mut *pings, block.there),
                (&mut *changed, block.future | block.method),
                (&mut *future, block.future),
                (&mut *method, block.method),
                (&mut *bodies, block.body),
                (&mut *elsewhere, block.elsewhere),
            ] {
                *count += u64::from((bits & comes).count_ones());
            }
            tally.dropped(What::Pings, u64::from((block.there & !comes).count_ones()), "before a gap in their numbers");
            is_whole &= run == 64;
        }
        tally.carried(What::Pings, *pings);
        tally.changed(What::Pings, *changed);
        tally.note(What::Pings, Some(*future), "from the future: they become of now");
        tally.note(What::Pings, Some(*method), "with a method that is not kept");
        match logs {
            Logs::All => tally.carried(What::Bodies, *bodies),
            Logs::Heads | Logs::None => tally.dropped(What::Bodies, *bodies, "left out by --logs heads"),
        }
        tally.dropped(What::Bodies, *elsewhere, "in object storage");
    }
}

#[cfg(test)]
mod tests;

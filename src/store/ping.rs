//! Log of pings by arrival: appended at one end, swept at the other, with a chain for each check.

mod body_part;
mod chain;
mod kept;
mod row;

use std::collections::{BTreeSet, HashMap};

use redb::{ReadableTable as _, ReadableTableMetadata as _, TableDefinition, WriteTransaction};

use super::batch::BatchTable;
use super::record;
use super::{Batch, Snapshot, StoreError};
use crate::domain::ids::{Arrival, CheckId};
use crate::domain::ping::{Ping, excess_body_bytes_of};
use crate::util::sync::{Mutex, MutexGuard, lock};
pub use body_part::BodyPart;
pub use kept::KeptPutResult;
use row::PingRecord;
pub(super) use row::{LoggedBody, read_ping};

/// `pings`: arrival number -> `PingRecord`. A row names the arrival of the previous ping of its
/// check.
pub(super) const PINGS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("pings");
/// `bodies`: arrival number -> the raw body. An empty body has no row.
pub(super) const BODIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("bodies");
/// `kept_pings`: (check id, n) -> `PingRecord`. The sweep moves pings here that are still within
/// their log limit.
pub(super) const KEPT_PINGS: TableDefinition<'_, (u64, u64), &[u8]> =
    TableDefinition::new("kept_pings");
/// `kept_bodies`: (check id, n) -> the body of a kept ping.
pub(super) const KEPT_BODIES: TableDefinition<'_, (u64, u64), &[u8]> =
    TableDefinition::new("kept_bodies");

/// Size in bytes from which a row has its own pages of redb and is not written together with other
/// rows.
pub(super) const OWN_PAGE_BYTES: usize = 1 << 20;

/// Lock for reading a large body, so that only one is in memory at a time: redb loads the whole
/// page and returns a copy.
static LARGE_READ_LOCK: Mutex<()> = Mutex::new(());

/// Creates the tables so that readers can open them.
pub(super) fn create_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    for table in [PINGS, BODIES] {
        transaction.open_table(table)?;
    }
    for table in [KEPT_PINGS, KEPT_BODIES] {
        transaction.open_table(table)?;
    }
    Ok(())
}

/// Result of one step of the sweep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SweepResult {
    /// Rows removed from the old end of the log.
    pub removed: usize,
    /// Bytes of their bodies beyond the first 1,024 of each.
    pub removed_bytes: u64,
    /// True if the step ended because of the bytes that it removed or moved.
    pub is_byte_limit_reached: bool,
    /// True if an upload became unreferenced.
    pub has_new_unreferenced: bool,
    /// Number of pings that were still within their limit and were moved to the kept pings.
    pub kept: usize,
    /// Bytes of the bodies of moved pings beyond the first 1,024 of each.
    pub kept_bytes: u64,
    /// Removed rows that could not be read.
    pub unreadable_rows: usize,
    /// Checks of the pings that were removed. Their kept pings may be beyond the limit by now.
    pub checks: BTreeSet<CheckId>,
}

/// Position among the kept pings from which the next step continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptPingCursor(u64, u64);

/// Result of one step of pruning the kept pings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptPruneResult {
    /// Number of removed entries.
    pub removed: usize,
    /// Bytes of their bodies beyond the first 1,024 of each.
    pub removed_bytes: u64,
    /// True if an upload became unreferenced.
    pub has_new_unreferenced: bool,
    /// True if the step ended because of the bytes that it removed.
    pub is_byte_limit_reached: bool,
    /// Position from which the next step continues; `None` at the end.
    pub next: Option<KeptPingCursor>,
}

impl Batch {
    /// Appends pings with their bodies to the log. Arrival numbers increase and are greater than
    /// all existing ones. Pings with sharers have the `upload` as their body.
    pub fn append_pings<B: AsRef<[u8]>>(
        &self,
        pings: &[(Arrival, Ping, B)],
        upload: Option<u64>,
    ) -> Result<(), StoreError> {
        let mut table = self.table(PINGS)?;
        let mut end = table.cursor_at_end()?;
        let mut row = Vec::new();
        let mut checksum = None;
        for (arrival, ping, body) in pings {
            record::encode(
                &PingRecord::new(ping, body.as_ref(), upload, &mut checksum),
                &mut row,
            )?;
            end.append(arrival.0, row.as_slice())?;
        }
        end.close()?;
        let sharing = pings
            .iter()
            .filter(|(_, ping, _)| ping.body_sharers > 0)
            .count();
        if let Some(upload) = upload.filter(|_| sharing > 0) {
            self.set_references(upload, sharing as u64)?;
        }
        let has_own = |ping: &Ping, body: &B| ping.body_sharers == 0 && !body.as_ref().is_empty();
        // A lookup of a position in this table may read the body there, of up to 33 MB.
        if !pings.iter().any(|(_, ping, body)| has_own(ping, body)) {
            return Ok(());
        }
        let mut table = self.table(BODIES)?;
        let bodies = pings
            .iter()
            .filter(|(_, ping, body)| has_own(ping, body))
            .map(|(arrival, _, body)| (arrival.0, body.as_ref()));
        append_bodies(&mut table, bodies)
    }

    /// Takes at most `limit` entries off the old end of the log, up to `up_to`, and stops once
    /// their bodies have `max_bytes`. Entries for which `is_live` is true are moved to the kept
    /// pings; the others are removed.
    pub fn sweep_pings(
        &self,
        (from, up_to): (Arrival, Arrival),
        (limit, max_bytes): (usize, u64),
        is_live: impl Fn(CheckId, u64) -> bool,
    ) -> Result<SweepResult, StoreError> {
        let mut pings = self.table(PINGS)?;
        let mut bodies = self.table(BODIES)?;
        let mut last = None;
        let mut swept = SweepResult::default();
        let mut kept_rows = Vec::new();
        let mut removed_uploads = Vec::new();
        let mut had_bodies = false;
        let mut own_bytes = 0;
        for row in pings.range(from.0..=up_to.0)?.take(limit) {
            let (arrival, bytes) = row?;
            last = Some(arrival.value());
            swept.removed += 1;
            let Ok(row) = record::decode::<PingRecord<'_>>(bytes.value()) else {
                swept.unreadable_rows += 1;
                had_bodies = true;
                continue;
            };
            let has_own_body = row.has_own_body();
            let body_bytes = row.excess_bytes();
            had_bodies |= has_own_body;
            if is_live(CheckId(row.check), row.n) {
                swept.kept_bytes += body_bytes;
                kept_rows.push((
                    (row.check, row.n),
                    has_own_body.then_some(arrival.value()),
                    bytes.value().to_vec(),
                ));
            } else {
                swept.checks.insert(CheckId(row.check));
                removed_uploads.extend(row.upload.map(|(upload, _)| upload));
            }
            swept.removed_bytes += body_bytes;
            // A body in chunks stays where it is.
            own_bytes += if has_own_body { body_bytes } else { 0 };
            if own_bytes >= max_bytes {
                swept.is_byte_limit_reached = true;
                break;
            }
        }
        let Some(last) = last else { return Ok(swept) };
        swept.kept = kept_rows.len();
        if !kept_rows.is_empty() {
            let mut kept_pings = self.table(KEPT_PINGS)?;
            let mut kept_bodies = self.table(KEPT_BODIES)?;
            for (key, arrival, bytes) in kept_rows {
                kept_pings.insert(key, bytes.as_slice())?;
                if let Some(arrival) = arrival
                    && let Some(body) = bodies.get(arrival)?
                {
                    kept_bodies.insert(key, body.value())?;
                }
            }
        }
        pings.remove_range(from.0..=last)?;
        if had_bodies {
            bodies.remove_range(from.0..=last)?;
        }
        swept.has_new_unreferenced = self.remove_references(&removed_uploads)?;
        Ok(swept)
    }

    /// Examines at most `limit` kept pings from `from` on and removes those for which `is_live` is
    /// false. Stops once their bodies have `max_bytes`.
    pub fn prune_kept_pings(
        &self,
        from: KeptPingCursor,
        (limit, max_bytes): (usize, u64),
        is_live: impl Fn(CheckId, u64) -> bool,
    ) -> Result<KeptPruneResult, StoreError> {
        let kept_pings = self.table(KEPT_PINGS)?;
        let mut dead = Vec::new();
        let mut pruned = KeptPruneResult::default();
        for (count, row) in kept_pings.range((from.0, from.1)..)?.enumerate() {
            let (check, n) = row?.0.value();
            if count == limit {
                pruned.next = Some(KeptPingCursor(check, n));
                break;
            }
            if !is_live(CheckId(check), n) {
                dead.push((check, n));
            }
        }
        drop(kept_pings);
        if let Some((check, n)) = self.remove_kept(&dead, max_bytes, &mut pruned)? {
            pruned.next = Some(KeptPingCursor(check, n));
        }
        Ok(pruned)
    }

    /// Removes at most `limit` kept pings of one check with numbers below `first_live`. Stops once
    /// their bodies have `max_bytes`.
    pub fn prune_kept_pings_of(
        &self,
        check: CheckId,
        first_live: u64,
        (limit, max_bytes): (usize, u64),
    ) -> Result<KeptPruneResult, StoreError> {
        let kept_pings = self.table(KEPT_PINGS)?;
        let dead = kept_pings
            .range((check.0, 0)..(check.0, first_live))?
            .take(limit);
        let dead = dead
            .map(|row| Ok(row?.0.value()))
            .collect::<Result<Vec<_>, StoreError>>()?;
        drop(kept_pings);
        let mut pruned = KeptPruneResult::default();
        self.remove_kept(&dead, max_bytes, &mut pruned)?;
        Ok(pruned)
    }

    /// Recounts the pings that have each upload as their body. This is necessary after an
    /// unreadable row was removed, whose upload is unknown. Reads every ping. Returns true if a
    /// number changed.
    pub fn recount_uploads(&self) -> Result<bool, StoreError> {
        let mut counts = HashMap::new();
        count_uploads(self.table(PINGS)?.iter()?, &mut counts)?;
        count_uploads(self.table(KEPT_PINGS)?.iter()?, &mut counts)?;
        self.set_reference_counts(&counts)
    }

    /// Removes kept pings and returns the first one that is left because of `max_bytes`.
    fn remove_kept(
        &self,
        dead: &[(u64, u64)],
        max_bytes: u64,
        pruned: &mut KeptPruneResult,
    ) -> Result<Option<(u64, u64)>, StoreError> {
        if dead.is_empty() {
            return Ok(None);
        }
        let mut removed_uploads = Vec::new();
        let mut own_bytes = 0;
        let mut first_left = None;
        let mut kept_pings = self.table(KEPT_PINGS)?;
        let mut kept_bodies = self.table(KEPT_BODIES)?;
        for key in dead {
            if own_bytes >= max_bytes {
                (first_left, pruned.is_byte_limit_reached) = (Some(*key), true);
                break;
            }
            let Some(bytes) = kept_pings.remove(key)? else {
                continue;
            };
            pruned.removed += 1;
            let row = record::decode::<PingRecord<'_>>(bytes.value()).ok();
            if let Some((upload, _)) = row.as_ref().and_then(|row| row.upload) {
                removed_uploads.push(upload);
                pruned.removed_bytes += row.map_or(0, |row| row.excess_bytes());
            } else if row.is_none_or(|row| row.has_own_body())
                && let Some(body) = kept_bodies.remove(key)?
            {
                own_bytes += excess_body_bytes_of(body.value().len() as u64, 0);
            }
        }
        pruned.removed_bytes += own_bytes;
        pruned.has_new_unreferenced = self.remove_references(&removed_uploads)?;
        Ok(first_left)
    }
}

/// Adds the number of rows that have each upload as their body to `counts`. An unreadable row
/// counts as none.
fn count_uploads<K: redb::Key + 'static>(
    rows: redb::Range<'_, K, &'static [u8]>,
    counts: &mut HashMap<u64, u64>,
) -> Result<(), StoreError> {
    for row in rows {
        let (_, bytes) = row?;
        if let Some((upload, _)) = record::decode::<PingRecord<'_>>(bytes.value())
            .ok()
            .and_then(|row| row.upload)
        {
            *counts.entry(upload).or_default() += 1;
        }
    }
    Ok(())
}

/// Appends bodies to the table. A cursor collects rows in memory together with the last existing
/// one, and rewrites that one. Large bodies are inserted singly, and so is the body after a large
/// one.
fn append_bodies<'b>(
    table: &mut BatchTable<'_, u64, &'static [u8]>,
    bodies: impl Iterator<Item = (u64, &'b [u8])>,
) -> Result<(), StoreError> {
    let is_large = |body: &[u8]| body.len() > OWN_PAGE_BYTES;
    let mut bodies = bodies.peekable();
    while let Some((arrival, body)) = bodies.next() {
        if is_large(body) {
            table.insert(arrival, body)?;
            continue;
        }
        let mut end = table.cursor_at_end()?;
        if end.last_value()?.is_some_and(|last| is_large(last.value())) {
            end.close()?;
            table.insert(arrival, body)?;
            continue;
        }
        end.append(arrival, body)?;
        while let Some((arrival, body)) = bodies.next_if(|(_, body)| !is_large(body)) {
            end.append(arrival, body)?;
        }
        end.close()?;
    }
    Ok(())
}

/// Bytes of the bodies of these rows beyond the first 1,024 of each. An unreadable row counts as 0.
fn body_bytes<'a, K: redb::Key + 'static>(
    rows: redb::Range<'a, K, &'static [u8]>,
) -> Result<u64, StoreError> {
    let mut rows = rows;
    rows.try_fold(0, |sum, row| {
        Ok(sum
            + record::decode::<PingRecord<'_>>(row?.1.value()).map_or(0, |row| row.excess_bytes()))
    })
}

/// Bytes of the long bodies in the log up to an arrival, and of those among the kept pings, counted
/// row by row.
pub(super) fn count_bytes(
    transaction: &WriteTransaction,
    up_to: Arrival,
) -> Result<(u64, u64), StoreError> {
    let pings = transaction.open_table(PINGS)?;
    let kept_pings = transaction.open_table(KEPT_PINGS)?;
    Ok((
        body_bytes(pings.range(..=up_to.0)?)?,
        body_bytes(kept_pings.iter()?)?,
    ))
}

impl Snapshot {
    /// Number of entries in the log, without kept pings.
    pub fn log_len(&self) -> Result<u64, StoreError> {
        Ok(self.transaction.open_table(PINGS)?.len()?)
    }

    /// Number of kept pings.
    pub fn kept_len(&self) -> Result<u64, StoreError> {
        Ok(self.transaction.open_table(KEPT_PINGS)?.len()?)
    }

    /// Returns the ping that arrived last, if its row can be read.
    pub fn newest_ping(&self) -> Result<Option<Ping>, StoreError> {
        Ok(self
            .transaction
            .open_table(PINGS)?
            .last()?
            .and_then(|(_, bytes)| PingRecord::read(bytes.value()).ok()))
    }

    /// Returns the pings that arrived after a number, oldest first.
    pub fn pings_after(
        &self,
        arrival: Arrival,
    ) -> Result<impl Iterator<Item = Result<(Arrival, Ping), StoreError>> + use<>, StoreError> {
        Ok(self
            .transaction
            .open_table(PINGS)?
            .range(arrival.0.saturating_add(1)..)?
            .map(|row| {
                let (arrival, bytes) = row?;
                Ok((Arrival(arrival.value()), PingRecord::read(bytes.value())?))
            }))
    }
}

fn lock_if_large(row: &PingRecord<'_>) -> Option<MutexGuard<'static, ()>> {
    (row.body_len as usize > OWN_PAGE_BYTES).then(|| lock(&LARGE_READ_LOCK))
}

//! Reads pings, bodies and flips of a check from the file. The snapshot is opened and closed within
//! the call.
//!
//! These calls may wait for the disk. Asynchronous callers run them on a thread that may block.

use super::Handle;
use crate::domain::alert::DeliveryRecord;
use crate::domain::audit::{AuditEntry, AuditScope};
use crate::domain::check::Check;
use crate::domain::flip::{Flip, LoggedFlip};
use crate::domain::ids::{Arrival, DeliveryNumber, FlipNumber};
use crate::domain::ping::Ping;
use crate::domain::timestamp::Timestamp;
use crate::store::{BodyPart, Snapshot, StoreError, TableRows, catch_panic};
use crate::util::sync::atomic::Ordering;
use crate::util::sync::lock;

/// Maximum number of pings in one list: see [limits](crate::docs::limits).
const MAX_LISTED_PINGS: u64 = 1000;
/// Maximum number of damaged checks and tables that are logged.
const MAX_DAMAGE_REPORTS: usize = 1000;

/// Maximum number of flips read from one snapshot. While one is open, freed pages are not reused,
/// so the file grows.
const FLIPS_PER_SNAPSHOT: usize = 1000;
/// Maximum number of deliveries read from one snapshot.
const DELIVERIES_PER_SNAPSHOT: usize = 1000;

impl Handle {
    /// Places of the last record of the log, and of the last one that the synced file contains; 0
    /// while the database is being reopened.
    pub fn log_places(&self) -> (u64, u64) {
        let store = self.0.store.get();
        store.map_or((0, 0), |store| store.log_places())
    }

    /// Newest pings of a check, newest first: up to its log limit, and at most 1000.
    pub fn pings(&self, check: &Check) -> Result<Vec<Ping>, StoreError> {
        self.newest_pings(check, MAX_LISTED_PINGS)
    }

    /// Newest pings of a check, newest first: at most `limit` of those within its log limit.
    pub fn newest_pings(&self, check: &Check, limit: u64) -> Result<Vec<Ping>, StoreError> {
        let state = &check.state;
        let oldest = state
            .n_pings
            .saturating_sub(self.ping_log_limit(check).min(limit))
            + 1;
        self.query_check(check, "pings", |snapshot| {
            snapshot.pings_of(check.id, state.n_pings, state.last_arrival, oldest)
        })
    }

    /// Pings of a check from ping `n` at `arrival` backwards, newest first: at most `limit` of
    /// those within its log limit.
    pub fn pings_from(
        &self,
        check: &Check,
        n: u64,
        arrival: Arrival,
        limit: u64,
    ) -> Result<Vec<Ping>, StoreError> {
        let oldest = self
            .first_live_ping(check)
            .max((n + 1).saturating_sub(limit));
        self.query_check(check, "pings", |snapshot| {
            snapshot.pings_of(check.id, n, arrival, oldest)
        })
    }

    /// Pings of a check from the one at `arrival` backwards, newest first: at most `limit` of those
    /// within its log limit. Empty if it was removed.
    pub fn pings_up_to(
        &self,
        check: &Check,
        arrival: Arrival,
        limit: u64,
    ) -> Result<Vec<Ping>, StoreError> {
        let first = self.first_live_ping(check);
        self.query_check(check, "pings", |snapshot| {
            match snapshot.number_at(check.id, arrival)? {
                Some(n) => snapshot.pings_of(
                    check.id,
                    n,
                    arrival,
                    first.max((n + 1).saturating_sub(limit)),
                ),
                None => Ok(Vec::new()),
            }
        })
    }

    /// Body of ping `n` at `arrival`. `None` if it was removed or has no body.
    pub fn body_at(
        &self,
        check: &Check,
        n: u64,
        arrival: Arrival,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.query_check(check, "bodies", |snapshot| {
            snapshot.body_of(check.id, n, arrival, n)
        })
    }

    /// Ping `n`. `None` if there is no such ping within the log limit.
    pub fn ping(&self, check: &Check, n: u64) -> Result<Option<Ping>, StoreError> {
        let state = &check.state;
        if !self.is_within_log_limit(check, n) {
            return Ok(None);
        }
        self.query_check(check, "pings", |snapshot| {
            snapshot.ping_of(check.id, state.n_pings, state.last_arrival, n)
        })
    }

    /// Body of ping `n`. `None` if there is no such ping within the log limit, or it has no body.
    pub fn body(&self, check: &Check, n: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let state = &check.state;
        if !self.is_within_log_limit(check, n) {
            return Ok(None);
        }
        self.query_check(check, "bodies", |snapshot| {
            snapshot.body_of(check.id, state.n_pings, state.last_arrival, n)
        })
    }

    /// Part of the stored body of ping `n`. `None` if there is no such ping within the log limit,
    /// or it has no body.
    pub fn part_of_body(
        &self,
        check: &Check,
        n: u64,
        part: BodyPart,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let newest = (check.state.n_pings, check.state.last_arrival);
        if !self.is_within_log_limit(check, n) {
            return Ok(None);
        }
        self.query_check(check, "bodies", |snapshot| {
            snapshot.part_of_body(check.id, newest, n, part)
        })
    }

    /// Flips of a check that are not older than `from`, newest first. The order is that of the log,
    /// which differs from that of the times if the clock was set.
    pub fn flips(&self, check: &Check, from: Timestamp) -> Result<Vec<Flip>, StoreError> {
        self.newest_flips(check, from, usize::MAX)
    }

    /// As [`flips`](Self::flips), but at most `limit`.
    pub fn newest_flips(
        &self,
        check: &Check,
        from: Timestamp,
        limit: usize,
    ) -> Result<Vec<Flip>, StoreError> {
        let mut flips = Vec::new();
        let mut next = Some(check.state.last_flip);
        while let Some(last) = next.take()
            && flips.len() < limit
        {
            let (page, older) = self.flips_page(check, last, from)?;
            flips.extend(page);
            next = older;
        }
        flips.truncate(limit);
        Ok(flips)
    }

    /// Number of the oldest ping of a check, in the state of `check`, within its log limit.
    pub fn first_live_ping(&self, check: &Check) -> u64 {
        check
            .state
            .n_pings
            .saturating_sub(self.ping_log_limit(check))
            + 1
    }

    /// One page of flips, from number `last` backwards: as many as are read from one snapshot. Also
    /// returns the number at which the next page begins, if there is one.
    pub fn flips_page(
        &self,
        check: &Check,
        last: FlipNumber,
        from: Timestamp,
    ) -> Result<(Vec<Flip>, Option<FlipNumber>), StoreError> {
        let page = self.query_check(check, "flips", |snapshot| {
            // If the clock was set back, flips before an old one may be new enough.
            let in_order = snapshot.flips_are_in_order()?;
            let is_recent = |logged: &Result<LoggedFlip, StoreError>| {
                !in_order
                    || logged
                        .as_ref()
                        .map_or(true, |logged| logged.flip.at >= from)
            };
            snapshot
                .flips_of(check.id, last)?
                .take(FLIPS_PER_SNAPSHOT)
                .take_while(is_recent)
                .collect::<Result<Vec<_>, _>>()
        })?;
        let older = page
            .get(FLIPS_PER_SNAPSHOT - 1)
            .map(|logged| logged.previous);
        Ok((
            page.into_iter()
                .map(|logged| logged.flip)
                .filter(|flip| flip.at >= from)
                .collect(),
            older,
        ))
    }

    /// Flip with this number. `None` if it was pruned.
    pub fn flip(&self, number: FlipNumber) -> Result<Option<LoggedFlip>, StoreError> {
        self.query(|snapshot| snapshot.flip(number))
    }

    /// Entries of an audit log with numbers below `before`, newest first, at most `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn audit_entries(
        &self,
        scope: AuditScope,
        before: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.query(|snapshot| snapshot.audit_entries(scope, before, limit))
    }

    /// Logged deliveries, newest first: at most `limit` that satisfy `filter`, all with numbers
    /// below `before`.
    pub fn deliveries(
        &self,
        before: DeliveryNumber,
        limit: usize,
        filter: impl Fn(&DeliveryRecord) -> bool,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        self.recent_deliveries(before, limit, usize::MAX, filter)
    }

    /// Returns the same as [`deliveries`](Self::deliveries), but reads at most `max_read` of them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn recent_deliveries(
        &self,
        before: DeliveryNumber,
        limit: usize,
        max_read: usize,
        filter: impl Fn(&DeliveryRecord) -> bool,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let mut found = Vec::new();
        let mut before = Some(before);
        let mut unread = max_read;
        while let Some(next) = before.take()
            && found.len() < limit
            && unread > 0
        {
            let length = unread.min(DELIVERIES_PER_SNAPSHOT);
            let page = self.query(|snapshot| {
                snapshot
                    .deliveries_before(next)?
                    .take(length)
                    .collect::<Result<Vec<_>, _>>()
            })?;
            before = page
                .get(DELIVERIES_PER_SNAPSHOT - 1)
                .map(|delivery| delivery.number);
            unread = unread.saturating_sub(page.len());
            let missing = limit - found.len();
            found.extend(
                page.into_iter()
                    .filter(|delivery| filter(delivery))
                    .take(missing),
            );
        }
        Ok(found)
    }

    /// Calls `visit` with all rows of the file as of now, some at a time, table by table, until it
    /// returns false. Meanwhile every write makes the file grow, since freed pages are not reused.
    ///
    /// # Errors
    /// If the file cannot be read, or must be reopened in the meantime: the writer then waits for
    /// this reader.
    pub fn visit_table_rows(
        &self,
        mut visit: impl FnMut(&TableRows<'_>) -> bool,
    ) -> Result<bool, StoreError> {
        self.query(|snapshot| {
            let mut must_reopen = false;
            let is_complete = snapshot.visit_table_rows(|rows| {
                must_reopen = !self.0.writable.load(Ordering::Relaxed);
                !must_reopen && visit(rows)
            })?;
            if must_reopen {
                Err(StoreError::Reopening)
            } else {
                Ok(is_complete)
            }
        })
    }

    /// Runs a test query of the database.
    pub fn probe(&self) -> Result<(), StoreError> {
        self.query(|snapshot| snapshot.probe())
    }

    /// True if ping `n` is within the log limit.
    fn is_within_log_limit(&self, check: &Check, n: u64) -> bool {
        (self.first_live_ping(check)..=check.state.n_pings).contains(&n)
    }

    fn ping_log_limit(&self, check: &Check) -> u64 {
        self.with_state(|state| state.ping_log_limit(check.project))
    }

    /// Reads rows of a check. An unreadable page fails this call only, and is logged once for each
    /// check and table.
    fn query_check<T>(
        &self,
        check: &Check,
        table: &'static str,
        query: impl FnOnce(&Snapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = self.query(query);
        if let Err(StoreError::Damaged { reason, .. }) = &result {
            let mut reported = lock(&self.0.reported_damage);
            if reported.len() < MAX_DAMAGE_REPORTS && reported.insert((check.id, table)) {
                tracing::error!(
                    "the `{table}` of check {} cannot be read ({reason}): requests for them get \
                    status 503",
                    check.id.0
                );
            }
        }
        result
    }

    fn query<T>(
        &self,
        query: impl FnOnce(&Snapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let store = self.0.store.get()?;
        let result = catch_panic(|| store.snapshot().and_then(|snapshot| query(&snapshot)));
        if let Err(StoreError::Database(_)) = result {
            // A database that failed answers no further queries: the writer must reopen it, even if
            // there is nothing to write.
            self.0.writable.store(false, Ordering::Relaxed);
            self.0.queue.wake();
        }
        result
    }
}

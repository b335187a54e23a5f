//! Engine without a writer: answers reads from the database of a machine that does not lead its
//! cluster, as of a time in the past.

use std::sync::Arc;

use super::load::load_rows;
use super::{Handle, HousekeepingLimits, Shared};
use crate::domain::timestamp::Timestamp;
use crate::store::{Store, StoreError, catch_panic};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Loads the state of a database for reads, at `now`. Every command is refused, and the clock shows
/// the time at which the database last contained every change: `complete_at`, or the time of the
/// last change in it if that is not known.
///
/// # Errors
/// If the database has the layout of another release, or cannot be read.
pub fn open_stale_view(
    store: Arc<Store>,
    (complete_at, now): (Option<Timestamp>, Timestamp),
    ping_body_limit: usize,
    random: Random,
) -> Result<Handle, StoreError> {
    let limits = (ping_body_limit, HousekeepingLimits::default());
    let loaded = catch_panic(|| {
        store.require_current_layout()?;
        load_rows(&store, limits, now)
    })?;
    let published = loaded.working.state;
    let as_of = complete_at
        .or_else(|| loaded.timestamps.last_available(now))
        .unwrap_or_default();
    let shared = Shared {
        as_of: Some(as_of),
        ..Shared::new(
            store,
            published,
            (Clock::Still(as_of), random),
            ping_body_limit,
        )
    };
    shared.queue.close();
    Ok(Handle(Arc::new(shared), None))
}

impl Handle {
    /// Time of the data, if this engine has no writer.
    pub fn as_of(&self) -> Option<Timestamp> {
        self.0.as_of
    }

    /// Releases the database: later reads of pings, bodies and flips fail. Reads that run now keep
    /// it open until they end.
    pub fn release_store(&self) {
        drop(self.0.store.take_failed());
    }
}

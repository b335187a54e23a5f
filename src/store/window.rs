//! Rows of maintenance windows: few, small, read completely at start.

use std::sync::Arc;

use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::ids::{ProjectId, WindowId};
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimes};
use crate::domain::schedule::Schedule;
use crate::domain::text::{Name, Tags};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;

/// `windows`: window id -> `WindowRecord`.
pub(super) const WINDOWS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("windows");

#[derive(Serialize, Deserialize)]
struct WindowRecord<'a> {
    uuid: Uuid,
    project: u64,
    name: &'a str,
    tags: &'a str,
    /// Start and end of a one-time window.
    once: Option<(i64, i64)>,
    /// Schedule, time zone and minutes of a recurring window.
    #[serde(borrow)]
    recurring: Option<(&'a str, &'a str, u32)>,
}

impl<'a> Record<'a> for WindowRecord<'a> {
    const TABLE: &'static str = "windows";
    const VERSION: u8 = 1;
}

impl WindowRecord<'_> {
    fn times(&self) -> Option<WindowTimes> {
        Some(match (self.once, self.recurring) {
            (Some((from, to)), None) => WindowTimes::Once {
                from: Timestamp::from_micros(from),
                to: Timestamp::from_micros(to),
            },
            (None, Some((schedule, tz, minutes))) => {
                let schedule = Arc::new(Schedule::parse(schedule).ok()?);
                let tz = Timezone::parse(tz).ok()?;
                WindowTimes::Recurring {
                    schedule,
                    tz,
                    minutes,
                }
            }
            _ => return None,
        })
    }
}

/// Creates the table so that readers can open it.
pub(super) fn create_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(WINDOWS)?;
    Ok(())
}

/// Reads the window in a row.
pub(super) fn read_window(id: u64, bytes: &[u8]) -> Result<MaintenanceWindow, StoreError> {
    let row: WindowRecord<'_> = record::decode(bytes)?;
    let corrupt_field = |field: &str| {
        record::invalid_row::<WindowRecord<'_>>(&format_args!("`{field}` of window {id}"))
    };
    Ok(MaintenanceWindow {
        id: WindowId(id),
        uuid: row.uuid,
        project: ProjectId(row.project),
        name: Name::parse(row.name).map_err(|_| corrupt_field("name"))?,
        tags: Tags::from_stored(row.tags),
        times: row.times().ok_or_else(|| corrupt_field("times"))?,
    })
}

impl Batch {
    /// Writes the row of a window.
    pub fn put_window(&self, window: &MaintenanceWindow) -> Result<(), StoreError> {
        let (once, recurring) = match &window.times {
            WindowTimes::Once { from, to } => (Some((from.micros(), to.micros())), None),
            WindowTimes::Recurring {
                schedule,
                tz,
                minutes,
            } => (None, Some((schedule.text(), tz.name(), *minutes))),
        };
        let name = window.name.as_str();
        let tags = window.tags.as_str();
        let row = WindowRecord {
            uuid: window.uuid,
            project: window.project.0,
            name,
            tags,
            once,
            recurring,
        };
        let mut bytes = Vec::new();
        record::encode(&row, &mut bytes)?;
        self.table(WINDOWS)?.insert(window.id.0, bytes.as_slice())?;
        Ok(())
    }

    /// Removes the row of a window.
    pub fn remove_window(&self, id: WindowId) -> Result<(), StoreError> {
        self.table(WINDOWS)?.remove(id.0)?;
        Ok(())
    }
}

impl Snapshot {
    /// Returns every window, oldest first.
    pub fn windows(&self) -> Result<Vec<MaintenanceWindow>, StoreError> {
        let table = self.transaction.open_table(WINDOWS)?;
        let rows = table.range::<u64>(..)?.map(|row| {
            let (id, bytes) = row?;
            read_window(id.value(), bytes.value())
        });
        rows.collect()
    }
}

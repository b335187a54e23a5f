//! List of all tables. A backup reads the rows of each, a restore writes them, and an inspection
//! reads them as bytes and as domain types.

use redb::{Key, TableDefinition, TableError, TableHandle as _, Value};

use super::inspection::{Inspection, PingLocation};
use super::log::{RowChange, RowChanges};
use super::{
    Batch, Snapshot, StoreError, TableRows, audit, check, chunks, declared, flip, meta, outbox,
    ping, project, quarantine, table_rows, user, window,
};

/// Size in bytes of rows that are passed on together. A longer row goes with those before it. The
/// size is small because a backup pauses in between.
const ROWS_BYTES: usize = 16 << 10;

/// Returns every table. A table comes after the tables that its rows refer to: projects before
/// checks, pings before bodies.
fn all_tables() -> Vec<Box<dyn AnyTable>> {
    vec![
        table(meta::META, |inspection, name, bytes| {
            inspection.inspect_value(name, bytes)
        }),
        table(project::PROJECTS, |inspection, id, bytes| {
            project::read_project(id, bytes).map(|project| inspection.inspect_project(&project))
        }),
        table(project::KEYS, |_, id, bytes| {
            project::read_key(id, bytes).map(drop)
        }),
        table(project::CHANNELS, |_, id, bytes| {
            project::read_channel(id, bytes).map(drop)
        }),
        table(window::WINDOWS, |_, id, bytes| {
            window::read_window(id, bytes).map(drop)
        }),
        table(user::USERS, |_, id, bytes| {
            user::read_user(id, bytes).map(drop)
        }),
        table(user::SESSIONS, |_, id, bytes| {
            user::read_session(id, bytes).map(drop)
        }),
        table(user::LINKS, |_, id, bytes| {
            user::read_link(id, bytes).map(drop)
        }),
        table(check::CHECKS, |inspection, id, bytes| {
            check::read_check(id, bytes).map(|check| inspection.inspect_check(&check))
        }),
        table(declared::DECLARED, |_, id, bytes| {
            declared::read_source(id, bytes).map(drop)
        }),
        table(flip::FLIPS, |_, _, bytes| flip::read_flip(bytes).map(drop)),
        table(audit::AUDIT, |_, key, bytes| {
            audit::read_entry(key, bytes).map(drop)
        }),
        table(outbox::OUTBOX, |_, number, bytes| {
            outbox::read_outbox_row(number, bytes).map(drop)
        }),
        table(outbox::DELIVERIES, |_, number, bytes| {
            outbox::read_delivery(number, bytes).map(drop)
        }),
        table(ping::PINGS, |inspection, arrival, bytes| {
            inspection.inspect_ping(PingLocation::Log(arrival), bytes)
        }),
        table(ping::BODIES, |inspection, arrival, bytes| {
            inspection.inspect_body(PingLocation::Log(arrival), bytes)
        }),
        table(ping::KEPT_PINGS, |inspection, place, bytes| {
            inspection.inspect_ping(PingLocation::Kept(place), bytes)
        }),
        table(ping::KEPT_BODIES, |inspection, place, bytes| {
            inspection.inspect_body(PingLocation::Kept(place), bytes)
        }),
        table(chunks::UPLOADS, |_, _, _| Ok(())),
        table(chunks::UNREFERENCED, |_, _, ()| Ok(())),
        table(chunks::CHUNKS, |inspection, (upload, _), bytes| {
            inspection.inspect_chunk(upload, bytes);
            Ok(())
        }),
        table(quarantine::QUARANTINE, |inspection, _, _| {
            inspection.count_quarantined();
            Ok(())
        }),
    ]
}

/// Table, independent of the types of its keys and values.
trait AnyTable {
    fn name(&self) -> &str;
    /// Calls `visit` with all rows, some at a time, until it returns false. Returns true if all
    /// rows were visited.
    fn visit_table_rows(
        &self,
        snapshot: &Snapshot,
        visit: &mut dyn FnMut(&TableRows<'_>) -> bool,
    ) -> Result<bool, StoreError>;
    /// Changes rows as a record of the log says.
    fn change(
        &self,
        batch: &Batch,
        change: RowChange,
        rows: &TableRows<'_>,
    ) -> Result<(), StoreError>;
    /// Adds rows after the existing ones.
    fn add(&self, batch: &Batch, rows: &TableRows<'_>) -> Result<(), StoreError>;
    /// Inspects a row.
    fn inspect(
        &self,
        inspection: &mut Inspection,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError>;
}

/// Function that inspects a row.
type RowInspector<K, V> = for<'k, 'v> fn(
    &mut Inspection,
    <K as Value>::SelfType<'k>,
    <V as Value>::SelfType<'v>,
) -> Result<(), StoreError>;

struct TypedTable<K: Key + 'static, V: Value + 'static> {
    definition: TableDefinition<'static, K, V>,
    inspect: RowInspector<K, V>,
}

fn table<K: Key + 'static, V: Value + 'static>(
    definition: TableDefinition<'static, K, V>,
    inspect: RowInspector<K, V>,
) -> Box<dyn AnyTable> {
    Box::new(TypedTable {
        definition,
        inspect,
    })
}

impl<K: Key + 'static, V: Value + 'static> TypedTable<K, V> {
    /// Verifies the lengths of keys and values of fixed width, so that redb can read them.
    fn verify_widths(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let fits =
            |width: Option<usize>, bytes: &[u8]| width.is_none_or(|width| width == bytes.len());
        if fits(K::fixed_width(), key) && fits(V::fixed_width(), value) {
            return Ok(());
        }
        Err(damaged_rows_error(format!(
            "the table `{}` has a row with a key of {} bytes and a value of {}",
            self.name(),
            key.len(),
            value.len()
        )))
    }
}

impl<K: Key + 'static, V: Value + 'static> AnyTable for TypedTable<K, V> {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn visit_table_rows(
        &self,
        snapshot: &Snapshot,
        visit: &mut dyn FnMut(&TableRows<'_>) -> bool,
    ) -> Result<bool, StoreError> {
        let table = match snapshot.transaction.open_table(self.definition) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Vec::new();
        let mut is_any_visited = false;
        for row in table.range::<K::SelfType<'_>>(..)? {
            let (key, value) = row?;
            table_rows::append_row(
                &mut bytes,
                K::as_bytes(&key.value()).as_ref(),
                V::as_bytes(&value.value()).as_ref(),
            );
            if bytes.len() >= ROWS_BYTES {
                if !visit_rows(self.name(), &bytes, visit) {
                    return Ok(false);
                }
                is_any_visited = true;
                bytes.clear();
                bytes.shrink_to(2 * ROWS_BYTES);
            }
        }
        // A table without rows is visited as well, because it must exist.
        Ok(is_any_visited && bytes.is_empty() || visit_rows(self.name(), &bytes, visit))
    }

    fn change(
        &self,
        batch: &Batch,
        change: RowChange,
        rows: &TableRows<'_>,
    ) -> Result<(), StoreError> {
        let mut table = batch.table(self.definition)?;
        let fits = |bytes: &[u8]| K::fixed_width().is_none_or(|width| width == bytes.len());
        for (key, value) in rows.iter() {
            match change {
                RowChange::Put => {
                    self.verify_widths(key, value)?;
                    table.insert(K::from_bytes(key), V::from_bytes(value))?;
                }
                RowChange::Remove if fits(key) => {
                    table.remove(K::from_bytes(key))?;
                }
                RowChange::RemoveRange if fits(key) && fits(value) => {
                    table.remove_range(K::from_bytes(key)..=K::from_bytes(value))?;
                }
                RowChange::Remove | RowChange::RemoveRange => {
                    let name = self.name();
                    return Err(damaged_rows_error(format!(
                        "the key of a removed row of the table `{name}` has a wrong length"
                    )));
                }
            }
        }
        Ok(())
    }

    fn add(&self, batch: &Batch, rows: &TableRows<'_>) -> Result<(), StoreError> {
        let mut table = batch.table(self.definition)?;
        rows.iter()
            .try_for_each(|(key, value)| self.verify_widths(key, value))?;
        let rows: Vec<_> = rows.iter().collect();
        for rows in rows
            .chunk_by(|(_, value), (_, next)| value.len().max(next.len()) <= ping::OWN_PAGE_BYTES)
        {
            if let [(key, value)] = rows {
                table.insert(K::from_bytes(key), V::from_bytes(value))?;
                continue;
            }
            let mut end = table.cursor_at_end()?;
            rows.iter().try_for_each(|(key, value)| {
                end.append(K::from_bytes(key), V::from_bytes(value))
            })?;
            end.close()?;
        }
        Ok(())
    }

    fn inspect(
        &self,
        inspection: &mut Inspection,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        self.verify_widths(key, value)?;
        (self.inspect)(inspection, K::from_bytes(key), V::from_bytes(value))
    }
}

fn table_named(name: &str) -> Result<Box<dyn AnyTable>, StoreError> {
    let unknown = || {
        damaged_rows_error(format!(
            "there are rows of a table `{name}`, which this release does not know"
        ))
    };
    all_tables()
        .into_iter()
        .find(|table| table.name() == name)
        .ok_or_else(unknown)
}

fn damaged_rows_error(reason: String) -> StoreError {
    StoreError::Damaged {
        reason,
        panicked: false,
    }
}

/// Names of all tables.
pub fn table_names() -> Vec<String> {
    all_tables()
        .iter()
        .map(|table| table.name().to_owned())
        .collect()
}

impl Snapshot {
    /// Calls `visit` with all rows of every table, some at a time, until it returns false. Returns
    /// true if all rows were visited. A table that the layout does not have yet has no rows.
    pub fn visit_table_rows(
        &self,
        mut visit: impl FnMut(&TableRows<'_>) -> bool,
    ) -> Result<bool, StoreError> {
        for table in all_tables() {
            if !table.visit_table_rows(self, &mut visit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn visit_rows(table: &str, bytes: &[u8], visit: &mut dyn FnMut(&TableRows<'_>) -> bool) -> bool {
    TableRows::read(table, bytes).is_some_and(|rows| visit(&rows))
}

impl Batch {
    /// Adds rows after the existing ones of their table.
    pub(super) fn add_rows(&self, rows: &TableRows<'_>) -> Result<(), StoreError> {
        table_named(rows.table())?.add(self, rows)
    }

    /// Applies the changes in a record of the log.
    pub(super) fn apply_changes(&self, changes: &[u8]) -> Result<(), StoreError> {
        let runs = RowChanges::decode(changes)
            .ok_or_else(|| damaged_rows_error("a record of the log is malformed".into()))?;
        runs.iter()
            .try_for_each(|(change, rows)| table_named(rows.table())?.change(self, *change, rows))
    }
}

impl Inspection {
    /// Inspects rows of a table. They come in the order of the list of tables and of their keys.
    pub fn inspect_rows(&mut self, rows: &TableRows<'_>) -> Result<(), StoreError> {
        let table = table_named(rows.table())?;
        super::catch_panic(|| {
            self.begin_table(table.name());
            for (key, value) in rows.iter() {
                self.count_row(table.name(), key.len() + value.len());
                if let Err(error) = table.inspect(self, key, value) {
                    self.add_problem(error.to_string());
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Medium, Store};

    #[test]
    fn every_table_of_a_new_file_is_in_the_list() {
        let store = Store::open(&Medium::memory()).unwrap();
        let names = table_names();
        for table in store.snapshot().unwrap().transaction.list_tables().unwrap() {
            assert!(
                names.iter().any(|name| name == table.name()),
                "the table `{}` is not in the list",
                table.name()
            );
        }
    }

    /// Applies one change of a row of the table of channels, whose keys have eight bytes.
    fn apply_change(change: RowChange, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let store = Store::open(&Medium::memory()).unwrap();
        let mut changes = RowChanges::default();
        changes.add(change, project::CHANNELS.name(), key, value);
        store.batch().unwrap().apply_changes(changes.as_bytes())
    }

    #[test]
    fn a_removal_from_the_log_whose_key_has_a_wrong_length_is_refused() {
        let right = [0; 8];
        let wrong = [0; 7];
        for (change, key, value) in [
            (RowChange::Remove, &wrong[..], &[][..]),
            (RowChange::RemoveRange, &wrong, &right),
            (RowChange::RemoveRange, &right, &wrong),
        ] {
            let refused = apply_change(change, key, value);
            let Err(StoreError::Damaged { reason, .. }) = refused else {
                panic!("{change:?} {key:?} {value:?}: {refused:?}");
            };
            assert_eq!(
                reason,
                "the key of a removed row of the table `channels` has a wrong length"
            );
        }
        for change in [RowChange::Put, RowChange::Remove, RowChange::RemoveRange] {
            assert!(apply_change(change, &right, &right).is_ok(), "{change:?}");
        }
    }

    #[test]
    fn a_row_whose_key_or_value_has_a_wrong_length_is_not_written() {
        let store = Store::open(&Medium::memory()).unwrap();
        let uploads = chunks::UPLOADS.name();
        for (key, value) in [(7, 8), (8, 7), (9, 8), (8, 0)] {
            let value = vec![0; value];
            let key = vec![0; key];
            let reason = format!(
                "the table `uploads` has a row with a key of {} bytes and a value of {}",
                key.len(),
                value.len()
            );
            let mut changes = RowChanges::default();
            changes.add(RowChange::Put, uploads, &key, &value);
            let mut bytes = Vec::new();
            table_rows::append_row(&mut bytes, &key, &value);
            let rows = TableRows::read(uploads, &bytes).unwrap();
            let batch = store.batch().unwrap();
            for refused in [
                batch.apply_changes(changes.as_bytes()),
                batch.add_rows(&rows),
            ] {
                assert!(
                    matches!(&refused, Err(StoreError::Damaged { reason: found, .. })
                        if *found == reason),
                    "{refused:?}"
                );
            }
            let mut inspection = Inspection::default();
            inspection.inspect_rows(&rows).unwrap();
            assert_eq!(
                inspection.finish().problems,
                [format!("the database is damaged: {reason}")]
            );
        }
    }
}

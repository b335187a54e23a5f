//! The list of all tables: a backup takes the rows of each, a restore writes them, and an inspection looks at them, as bytes or as what they
//! mean.

use std::ops::Bound;

use redb::{Key, TableDefinition, TableError, TableHandle as _, Value};

use super::inspection::{Inspection, PingPlace};
use super::{Batch, Rows, Snapshot, StoreError, aside, check, flip, managed, meta, outbox, pieces, ping, project, rows, user, window};

/// Bytes of a row that has pages of redb for itself and is not gathered with others.
const LARGE_ROW: usize = 1 << 20;
/// Bytes of rows that are handed over together; a row that is longer goes with those before it. Few, since a backup rests in between.
const TOGETHER: usize = 16 << 10;

/// Every table. What a row refers to comes before it: projects before checks, pings before bodies.
fn all() -> Vec<Box<dyn Table>> {
    vec![
        table(meta::META, |seen, name, bytes| seen.value(name, bytes)),
        table(project::PROJECTS, |seen, id, bytes| project::read_project(id, bytes).map(|project| seen.project(&project))),
        table(project::KEYS, |_, id, bytes| project::read_key(id, bytes).map(drop)),
        table(project::CHANNELS, |_, id, bytes| project::read_channel(id, bytes).map(drop)),
        table(window::WINDOWS, |_, id, bytes| window::read_window(id, bytes).map(drop)),
        table(user::USERS, |_, id, bytes| user::read_user(id, bytes).map(drop)),
        table(user::SESSIONS, |_, id, bytes| user::read_session(id, bytes).map(drop)),
        table(user::LINKS, |_, id, bytes| user::read_link(id, bytes).map(drop)),
        table(check::CHECKS, |seen, id, bytes| check::read(id, bytes).map(|check| seen.check(&check))),
        table(managed::MANAGED, |_, id, bytes| managed::read_managed(id, bytes).map(drop)),
        table(flip::FLIPS, |_, _, bytes| flip::read(bytes).map(drop)),
        table(outbox::OUTBOX, |_, number, bytes| outbox::read_waiting(number, bytes).map(drop)),
        table(outbox::DELIVERIES, |_, number, bytes| outbox::read_delivery(number, bytes).map(drop)),
        table(ping::PINGS, |seen, arrival, bytes| seen.ping(PingPlace::Log(arrival), bytes)),
        table(ping::BODIES, |seen, arrival, bytes| seen.body(PingPlace::Log(arrival), bytes)),
        table(ping::KEPT_PINGS, |seen, place, bytes| seen.ping(PingPlace::Kept(place), bytes)),
        table(ping::KEPT_BODIES, |seen, place, bytes| seen.body(PingPlace::Kept(place), bytes)),
        table(pieces::UPLOADS, |_, _, _| Ok(())),
        table(pieces::UNREFERRED, |_, _, ()| Ok(())),
        table(pieces::PIECES, |seen, (upload, _), bytes| {
            seen.piece(upload, bytes);
            Ok(())
        }),
        table(aside::ASIDE, |seen, _, _| {
            seen.put_aside();
            Ok(())
        }),
    ]
}

/// A table, whatever its keys and values are.
trait Table {
    fn name(&self) -> &str;
    /// Shows all rows, some at a time, until `show` is false; whether it was shown all.
    fn show(&self, snapshot: &Snapshot, show: &mut dyn FnMut(&Rows<'_>) -> bool) -> Result<bool, StoreError>;
    /// Adds rows after those that there are.
    fn add(&self, batch: &Batch, rows: &Rows<'_>) -> Result<(), StoreError>;
    /// Looks at a row.
    fn look(&self, seen: &mut Inspection, key: &[u8], value: &[u8]) -> Result<(), StoreError>;
}

/// How a row is looked at.
type Look<K, V> = for<'k, 'v> fn(&mut Inspection, <K as Value>::SelfType<'k>, <V as Value>::SelfType<'v>) -> Result<(), StoreError>;

struct Typed<K: Key + 'static, V: Value + 'static> {
    definition: TableDefinition<'static, K, V>,
    look: Look<K, V>,
}

fn table<K: Key + 'static, V: Value + 'static>(definition: TableDefinition<'static, K, V>, look: Look<K, V>) -> Box<dyn Table> {
    Box::new(Typed { definition, look })
}

impl<K: Key + 'static, V: Value + 'static> Typed<K, V> {
    /// Keys and values of a fixed width have it, so that the library can read them.
    fn expect_widths(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let fits = |width: Option<usize>, bytes: &[u8]| width.is_none_or(|width| width == bytes.len());
        if fits(K::fixed_width(), key) && fits(V::fixed_width(), value) {
            return Ok(());
        }
        Err(damaged(format!("the table `{}` has a row with a key of {} bytes and a value of {}", self.name(), key.len(), value.len())))
    }
}

impl<K: Key + 'static, V: Value + 'static> Table for Typed<K, V> {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn show(&self, snapshot: &Snapshot, show: &mut dyn FnMut(&Rows<'_>) -> bool) -> Result<bool, StoreError> {
        let table = match snapshot.transaction.open_table(self.definition) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let (mut bytes, mut some) = (Vec::new(), false);
        for row in table.range::<K::SelfType<'_>>(..)? {
            let (key, value) = row?;
            rows::put(&mut bytes, K::as_bytes(&key.value()).as_ref(), V::as_bytes(&value.value()).as_ref());
            if bytes.len() >= TOGETHER {
                if !shown(self.name(), &bytes, show) {
                    return Ok(false);
                }
                some = true;
                bytes.clear();
                bytes.shrink_to(2 * TOGETHER);
            }
        }
        // A table without rows is shown as well: it has to be there.
        Ok(some && bytes.is_empty() || shown(self.name(), &bytes, show))
    }

    fn add(&self, batch: &Batch, rows: &Rows<'_>) -> Result<(), StoreError> {
        let mut table = batch.transaction.open_table(self.definition)?;
        rows.iter().try_for_each(|(key, value)| self.expect_widths(key, value))?;
        let rows: Vec<_> = rows.iter().collect();
        for rows in rows.chunk_by(|(_, value), (_, next)| value.len().max(next.len()) <= LARGE_ROW) {
            if let [(key, value)] = rows {
                table.insert(K::from_bytes(key), V::from_bytes(value))?;
                continue;
            }
            // A cursor takes a run of rising keys many times faster than as many insertions.
            let mut end = table.upper_bound_mut(Bound::<K::SelfType<'_>>::Unbounded)?;
            rows.iter().try_for_each(|(key, value)| end.insert_before(K::from_bytes(key), V::from_bytes(value)))?;
            end.close()?;
        }
        Ok(())
    }

    fn look(&self, seen: &mut Inspection, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.expect_widths(key, value)?;
        (self.look)(seen, K::from_bytes(key), V::from_bytes(value))
    }
}

fn named(name: &str) -> Result<Box<dyn Table>, StoreError> {
    let unknown = || damaged(format!("there are rows of a table `{name}`, which this release does not know"));
    all().into_iter().find(|table| table.name() == name).ok_or_else(unknown)
}

fn damaged(reason: String) -> StoreError {
    StoreError::Damaged { reason, panicked: false }
}

/// The names of all tables.
pub fn table_names() -> Vec<String> {
    all().iter().map(|table| table.name().to_owned()).collect()
}

impl Snapshot {
    /// Shows the rows of every table, some at a time, until `show` is false; whether it was shown all. A table that the layout does not have
    /// yet has no rows.
    pub fn each_rows(&self, mut show: impl FnMut(&Rows<'_>) -> bool) -> Result<bool, StoreError> {
        for table in all() {
            if !table.show(self, &mut show)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn shown(table: &str, bytes: &[u8], show: &mut dyn FnMut(&Rows<'_>) -> bool) -> bool {
    Rows::read(table, bytes).is_some_and(|rows| show(&rows))
}

impl Batch {
    /// Adds rows after those that their table has.
    pub(super) fn add_rows(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        named(rows.table())?.add(self, rows)
    }
}

impl Inspection {
    /// Looks at rows of a table, which come in the order of the list of tables and of their keys.
    pub fn look(&mut self, rows: &Rows<'_>) -> Result<(), StoreError> {
        let table = named(rows.table())?;
        super::caught(|| {
            self.begin(table.name());
            for (key, value) in rows.iter() {
                self.count(table.name(), key.len() + value.len());
                if let Err(error) = table.look(self, key, value) {
                    self.tell(error.to_string());
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
            assert!(names.iter().any(|name| name == table.name()), "the table `{}` is not in the list", table.name());
        }
    }
}

//! Rows of the audit logs.

use std::net::IpAddr;

use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::audit::{
    Actor, ActorKind, AuditAction, AuditEntry, AuditObject, AuditScope, MAX_AUDIT_ENTRIES,
};
use crate::domain::ids::ProjectId;
use crate::domain::timestamp::Timestamp;

/// `audit`: scope and number -> `AuditRecord`.
pub(super) const AUDIT: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("audit");

#[derive(Serialize, Deserialize)]
struct AuditRecord<'a> {
    at: i64,
    /// Kind, name and address of the actor.
    #[serde(borrow)]
    actor: (u8, &'a str, Option<IpAddr>),
    action: u8,
    object: u8,
    #[serde(borrow)]
    names: Vec<&'a str>,
    count: u32,
}

impl<'a> Record<'a> for AuditRecord<'a> {
    const TABLE: &'static str = "audit";
    const VERSION: u8 = 1;
}

/// Creates the table so that readers can open it.
pub(super) fn create_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(AUDIT)?;
    Ok(())
}

/// Reads the entry in a row.
pub(super) fn read_entry(
    (scope, number): (u64, u64),
    bytes: &[u8],
) -> Result<AuditEntry, StoreError> {
    let row: AuditRecord<'_> = record::decode(bytes)?;
    let unknown = |what: &str, value: u8| {
        record::invalid_row::<AuditRecord<'_>>(&format_args!("{what} {value} of entry {number}"))
    };
    let (kind, name, address) = row.actor;
    Ok(AuditEntry {
        scope: AuditScope::from_number(scope),
        number,
        at: Timestamp::from_micros(row.at),
        actor: Actor {
            kind: ActorKind::from_number(kind).ok_or_else(|| unknown("actor", kind))?,
            name: name.into(),
            address,
        },
        action: AuditAction::from_number(row.action)
            .ok_or_else(|| unknown("action", row.action))?,
        object: AuditObject::from_number(row.object)
            .ok_or_else(|| unknown("object", row.object))?,
        names: row.names.into_iter().map(Box::from).collect(),
        count: row.count,
    })
}

impl Batch {
    /// Writes an entry, and removes older ones beyond the limit of its log.
    pub fn put_audit_entry(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let actor = &entry.actor;
        let row = AuditRecord {
            at: entry.at.micros(),
            actor: (actor.kind.number(), &actor.name, actor.address),
            action: entry.action.number(),
            object: entry.object.number(),
            names: entry.names.iter().map(|name| &**name).collect(),
            count: entry.count,
        };
        let mut bytes = Vec::new();
        record::encode(&row, &mut bytes)?;
        let scope = entry.scope.number();
        let mut table = self.table(AUDIT)?;
        table.insert((scope, entry.number), bytes.as_slice())?;
        match entry.number.checked_sub(MAX_AUDIT_ENTRIES) {
            // An entry with further actions replaces its row, which has removed older ones.
            Some(last @ 1..) if entry.count == 1 => table.remove_range((scope, 0)..=(scope, last)),
            _ => Ok(()),
        }
    }

    /// Removes the log of a project.
    pub fn remove_audit_log(&self, project: ProjectId) -> Result<(), StoreError> {
        let scope = AuditScope::Project(project).number();
        self.table(AUDIT)?
            .remove_range((scope, 0)..=(scope, u64::MAX))
    }
}

impl Snapshot {
    /// Returns the number of the newest entry of each log.
    pub fn newest_audit_numbers(&self) -> Result<Vec<(AuditScope, u64)>, StoreError> {
        let table = self.transaction.open_table(AUDIT)?;
        let mut newest = Vec::new();
        let mut next_scope = Some(0);
        while let Some(from) = next_scope
            && let Some(first) = table.range((from, 0)..)?.next()
        {
            let (scope, _) = first?.0.value();
            let mut log = table.range((scope, 0)..=(scope, u64::MAX))?;
            if let Some(last) = log.next_back() {
                let (_, number) = last?.0.value();
                newest.push((AuditScope::from_number(scope), number));
            }
            next_scope = scope.checked_add(1);
        }
        Ok(newest)
    }

    /// Returns the entries of a log with numbers below `before`, newest first, at most `limit`.
    /// Rows that this release cannot read are left out.
    pub fn audit_entries(
        &self,
        scope: AuditScope,
        before: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let table = self.transaction.open_table(AUDIT)?;
        let scope = scope.number();
        let rows = table.range((scope, 0)..(scope, before))?.rev();
        let entries = rows.filter_map(|row| match row {
            Ok((key, bytes)) => match read_entry(key.value(), bytes.value()) {
                Err(StoreError::InvalidRow { .. }) => None,
                entry => Some(entry),
            },
            Err(error) => Some(Err(error.into())),
        });
        entries.take(limit).collect()
    }
}

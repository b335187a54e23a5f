//! Tests of the rows of audit logs.

use super::*;
use crate::domain::audit::{
    Actor, ActorKind, AuditAction, AuditEntry, AuditEvent, AuditObject, AuditScope,
    MAX_AUDIT_ENTRIES,
};

fn entry(scope: AuditScope, number: u64) -> AuditEntry {
    let actor = Actor {
        kind: ActorKind::User,
        name: "anna".into(),
        address: Some("2001:db8::1".parse().unwrap()),
    };
    let event = AuditEvent {
        scope,
        action: AuditAction::Paused,
        object: AuditObject::Check,
        name: format!("check {number}").into(),
    };
    AuditEntry::new(
        number,
        actor,
        event,
        Timestamp::from_micros(1_700_000_000_000_001),
    )
}

fn numbers(store: &Store, scope: AuditScope, before: u64) -> Vec<u64> {
    let entries = store.snapshot().unwrap().audit_entries(scope, before, 3);
    let entries = entries.unwrap();
    entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn entries_are_read_as_they_were_written_and_the_oldest_are_removed() {
    let store = Store::open(&Medium::memory()).unwrap();
    let one = AuditScope::Project(ProjectId(1));
    let other = AuditScope::Project(ProjectId(2));
    let mut merged = entry(one, 2);
    (merged.count, merged.names) = (7, vec!["a".into(), "b".into()]);
    write(&store, |batch| {
        for (scope, number) in [(AuditScope::Server, 1), (one, 1), (one, 2), (other, 5)] {
            batch.put_audit_entry(&entry(scope, number))?;
        }
        batch.put_audit_entry(&merged)
    });
    let snapshot = store.snapshot().unwrap();
    assert_eq!(
        snapshot.audit_entries(one, u64::MAX, 10).unwrap(),
        [merged, entry(one, 1)]
    );
    assert_eq!(
        snapshot.newest_audit_numbers().unwrap(),
        [(AuditScope::Server, 1), (one, 2), (other, 5)]
    );
    assert_eq!(numbers(&store, one, 2), [1]);
    write(&store, |batch| {
        batch.put_audit_entry(&entry(one, MAX_AUDIT_ENTRIES + 1))
    });
    assert_eq!(numbers(&store, one, u64::MAX), [MAX_AUDIT_ENTRIES + 1, 2]);
    write(&store, |batch| batch.remove_audit_log(ProjectId(1)));
    assert!(numbers(&store, one, u64::MAX).is_empty());
    assert_eq!(numbers(&store, other, u64::MAX), [5]);
}

#[test]
fn an_unreadable_entry_hides_no_other() {
    let store = Store::open(&Medium::memory()).unwrap();
    write(&store, |batch| {
        (1..=3).try_for_each(|number| batch.put_audit_entry(&entry(AuditScope::Server, number)))
    });
    write(&store, |batch| {
        let mut table = batch.unrecorded().open_table(super::super::audit::AUDIT)?;
        table.insert((0, 2), b"x".as_slice())?;
        Ok(())
    });
    assert_eq!(numbers(&store, AuditScope::Server, u64::MAX), [3, 1]);
    let newest = store.snapshot().unwrap().newest_audit_numbers().unwrap();
    assert_eq!(newest, [(AuditScope::Server, 3)]);
}

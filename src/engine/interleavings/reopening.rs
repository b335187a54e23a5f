//! The database is replaced while readers use it.

use std::sync::Arc;

use crate::engine::store_slot::StoreSlot;
use crate::store::{Medium, Store};
use crate::util::interleavings::check;
use crate::util::sync::atomic::{AtomicUsize, Ordering};
use crate::util::sync::thread;

fn new_store() -> Store {
    Store::open(&Medium::memory()).unwrap()
}

#[test]
fn a_reader_waits_for_the_end_of_a_reopening_and_never_has_a_database_that_is_taken() {
    check(|| {
        let slot = Arc::new(StoreSlot::new(new_store().into()));
        let readers_inside = Arc::new(AtomicUsize::new(0));
        let readers = [(), ()].map(|()| {
            let slot = Arc::clone(&slot);
            let inside = Arc::clone(&readers_inside);
            thread::spawn(move || {
                for _ in 0..2 {
                    let store = slot.get().expect("each reopening succeeds");
                    inside.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::Relaxed);
                    drop(store);
                }
            })
        });
        for _ in 0..2 {
            if let Some(store) = slot.try_take() {
                assert_eq!(readers_inside.load(Ordering::Relaxed), 0);
                thread::yield_now();
                slot.put(Some(store));
            }
        }
        for reader in readers {
            reader.join().unwrap();
        }
        assert!(slot.try_take().is_some(), "no reader is left");
    });
}

#[test]
fn a_failed_database_is_not_seen_once_it_was_taken_and_its_successor_is() {
    check(|| {
        let slot = Arc::new(StoreSlot::new(new_store().into()));
        // 0: the first database, 1: it was taken out, 2: another one is there.
        let stage = Arc::new(AtomicUsize::new(0));
        let first = slot.get().unwrap();
        let readers = [(), ()].map(|()| {
            let slot = Arc::clone(&slot);
            let stage = Arc::clone(&stage);
            let first = Arc::clone(&first);
            thread::spawn(move || {
                let before = stage.load(Ordering::Relaxed);
                let store = slot.get().ok();
                let is_first = store
                    .as_ref()
                    .is_some_and(|store| Arc::ptr_eq(store, &first));
                assert!(before == 0 || !is_first);
                assert!(before < 2 || store.is_some());
            })
        });
        let failed = slot.take_failed().unwrap();
        stage.store(1, Ordering::Relaxed);
        assert!(Arc::ptr_eq(&failed, &first));
        slot.put(None);
        assert!(slot.get().is_err());
        slot.put(Some(new_store()));
        stage.store(2, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
        drop(first);
        assert!(Arc::try_unwrap(failed).is_ok(), "no reader is left");
    });
}

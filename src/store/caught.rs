//! redb panics on some damaged pages. Here that becomes an error like any other.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;

use super::StoreError;
use super::storage::Storage;

thread_local! {
    /// Panics of the library on this thread are caught and told as errors.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
    /// The last of them was one of the library, not one of ours.
    static OF_LIBRARY: Cell<bool> = const { Cell::new(false) };
}

/// Does what reads or writes the database. A panic of the library is an error: the database is damaged.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let tell = take_hook();
        set_hook(Box::new(move |panic| {
            OF_LIBRARY.set(CAUGHT.get() && panic.location().is_some_and(|place| place.file().contains("redb")));
            if !OF_LIBRARY.get() {
                tell(panic);
            }
        }));
    });
    Storage::forget_place();
    let outer = CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(outer);
    match done {
        Ok(Err(StoreError::Damaged { reason, panicked })) => {
            Err(StoreError::Damaged { reason: Storage::take_place().unwrap_or(reason), panicked })
        }
        Ok(done) => done,
        Err(panic) if OF_LIBRARY.get() => {
            Err(StoreError::Damaged { reason: Storage::take_place().unwrap_or_else(|| words(&*panic)), panicked: true })
        }
        Err(panic) => resume_unwind(panic),
    }
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a page makes no sense ({})", text.unwrap_or("no reason given"))
}

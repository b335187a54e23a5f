//! Turns panics of redb into errors. redb panics on some damaged pages.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;

use super::StoreError;
use super::storage::Storage;

thread_local! {
    /// True while panics of redb on this thread are caught and returned as errors.
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
    /// True if the last caught panic came from redb and not from our code.
    static IS_LIBRARY_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which reads or writes the database. A panic of redb becomes an error: the database
/// is damaged.
pub(crate) fn catch_panic<T>(
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    static INSTALL_HOOK: Once = Once::new();
    INSTALL_HOOK.call_once(|| {
        let previous_hook = take_hook();
        set_hook(Box::new(move |panic| {
            IS_LIBRARY_PANIC.set(
                IS_CATCHING.get()
                    && panic
                        .location()
                        .is_some_and(|place| place.file().contains("redb")),
            );
            if !IS_LIBRARY_PANIC.get() {
                previous_hook(panic);
            }
        }));
    });
    Storage::clear_failed_read();
    let outer = IS_CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_CATCHING.set(outer);
    match result {
        Ok(Err(StoreError::Damaged { reason, panicked })) => Err(StoreError::Damaged {
            reason: Storage::take_failed_read().unwrap_or(reason),
            panicked,
        }),
        Ok(result) => result,
        Err(panic) if IS_LIBRARY_PANIC.get() => Err(StoreError::Damaged {
            reason: Storage::take_failed_read().unwrap_or_else(|| panic_message(&*panic)),
            panicked: true,
        }),
        Err(panic) => resume_unwind(panic),
    }
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!(
        "a page is malformed ({})",
        text.unwrap_or("no reason given")
    )
}

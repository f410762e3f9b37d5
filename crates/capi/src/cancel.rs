//! The wish to end a migration.

use nodeward::Cancel;

use crate::pointers;

/// The wish to end migrations. Name it in struct nodeward_migration; it must outlive the call.
#[derive(Debug)]
pub struct NodewardCancel(pub Cancel);

/// A wish that nobody has yet. It ends with nodeward_cancel_free().
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_cancel_new() -> *mut NodewardCancel {
    pointers::hand_over(NodewardCancel(Cancel::new()))
}

/// Says the wish, for good: migrations that name it, now or later, end after the batches in flight.
/// Any thread may say it, and a signal handler too. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_cancel_set(cancel: *const NodewardCancel) {
    // SAFETY: C keeps it alive.
    if let Some(cancel) = unsafe { cancel.as_ref() } {
        cancel.0.cancel();
    }
}

/// Ends it; no migration may use it any more. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_cancel_free(cancel: *mut NodewardCancel) {
    // SAFETY: it comes from `nodeward_cancel_new`, and C does not use it again.
    unsafe { pointers::end(cancel) };
}

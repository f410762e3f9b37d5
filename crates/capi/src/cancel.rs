//! The wish to end a migration.

use nodeward::Cancel;

use crate::pointers;

/// A request to end migrations. Pass it in struct nodeward_migration; it must outlive the call.
#[derive(Debug)]
pub struct NodewardCancel(pub Cancel);

/// Makes a request that is not set yet. Free it with nodeward_cancel_free().
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_cancel_new() -> *mut NodewardCancel {
    pointers::into_c(NodewardCancel(Cancel::new()))
}

/// Sets the request. It stays set: migrations that it is passed to, now or later, end after the
/// batches in flight. Any thread and any signal handler may call this. Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_cancel_set(cancel: *const NodewardCancel) {
    // SAFETY: C keeps it alive.
    if let Some(cancel) = unsafe { cancel.as_ref() } {
        cancel.0.cancel();
    }
}

/// Frees it; no migration may use it any more. Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_cancel_free(cancel: *mut NodewardCancel) {
    // SAFETY: it comes from `nodeward_cancel_new`, and C does not use it again.
    unsafe { pointers::free_box(cancel) };
}

//! Checks and follows the pointers that C passes.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::status::CallFailure;

/// A pointer that must not be NULL is.
pub fn null_argument(name: &str) -> CallFailure {
    CallFailure::Argument(format!("{name} is NULL; pass a pointer"))
}

/// Returns the value that a pointer leads to.
///
/// # Safety
/// It is NULL, or leads to a live value that nobody changes for as long as the caller uses it.
pub unsafe fn deref<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, CallFailure> {
    // SAFETY: the caller vouches for all that is not NULL.
    let value = unsafe { pointer.as_ref() };
    value.ok_or_else(|| null_argument(name))
}

/// A text; `None` for NULL and for what is no UTF-8.
///
/// # Safety
/// It is NULL, or leads to a text with a NUL behind it, which nobody changes for as long as the
/// caller uses it.
pub unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for all that is not NULL.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Writes to where a pointer leads, whatever is there.
///
/// # Safety
/// It is NULL, or may be written.
pub unsafe fn write<T>(pointer: *mut T, name: &str, value: T) -> Result<(), CallFailure> {
    if pointer.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: the caller vouches for all that is not NULL.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Returns the `count` values that begin at a pointer.
///
/// # Safety
/// `count` is 0, or the pointer is NULL, or it leads to `count` values that nobody changes for as
/// long as the caller uses them.
pub unsafe fn slice<'a, T>(
    first: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], CallFailure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(null_argument(name));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(CallFailure::Argument(format!("{count} is no number of {name}; count them")));
    }
    // SAFETY: the caller vouches for so many values, and they fit into an address space.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Writes a list to an array of C, as much of it as has room, and to `count` its whole length.
///
/// # Safety
/// `to` is NULL or has room for `capacity` values, `count` is NULL or may be written.
pub unsafe fn write_list<T: Copy>(
    from: &[T],
    to: *mut T,
    capacity: usize,
    count: *mut usize,
) -> Result<(), CallFailure> {
    // SAFETY: the caller vouches for `count`.
    unsafe { write(count, "count", from.len()) }?;
    let shown = from.len().min(capacity);
    if shown > 0 && to.is_null() {
        return Err(null_argument("the array"));
    }
    // SAFETY: the caller vouches for the room; `from` is ours.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, shown) };
    Ok(())
}

/// Hands a value over to C, which gives it back to [`free_box`].
pub fn into_c<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Ends what [`into_c`] made; nothing for NULL.
///
/// # Safety
/// It is NULL, or comes from [`into_c`] and is not used again.
pub unsafe fn free_box<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller vouches that this is a box that nobody else has.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

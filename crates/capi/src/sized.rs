//! Structs that begin with their size, so that they can grow: a program that was compiled against
//! an older header hands over less than we know, one against a newer header more.
//!
//! What is missing reads as zero, which is every field's default. What is more must be zero,
//! because a setting that is not known must not be ignored. clone3(2) and openat2(2) do the same.

use std::mem::MaybeUninit;
use std::ptr;

use crate::pointers::slice;
use crate::status::CallFailure;

/// No struct of any version will be larger; anything else is a `size` that was never set.
const SIZE_MAX: usize = 4096;

/// A struct of the header that begins with `size_t size`.
///
/// # Safety
/// All bytes zero are a valid value, all values of all other bytes too, there is no padding, and
/// the first field is `size: usize`.
pub unsafe trait Versioned: Copy {
    /// The name of the struct in C.
    const NAME: &'static str;
    /// The size of the struct's first version, in bytes; a smaller size is a mistake of the caller.
    const FIRST_SIZE: usize;
}

fn wrong_size<T: Versioned>(size: usize) -> CallFailure {
    CallFailure::Argument(format!(
        "size of struct {name} is {size}; set it to sizeof(struct {name})",
        name = T::NAME
    ))
}

/// The size that C wrote into the struct.
///
/// # Safety
/// The pointer leads to as many bytes as its first field says.
unsafe fn declared_size<T: Versioned>(from: *const T) -> Result<usize, CallFailure> {
    // SAFETY: the first field of each is its size.
    let size = unsafe { from.cast::<usize>().read() };
    if (T::FIRST_SIZE..=SIZE_MAX).contains(&size) { Ok(size) } else { Err(wrong_size::<T>(size)) }
}

/// The struct, or nothing but defaults for NULL.
///
/// # Safety
/// The pointer is NULL, or leads to as many bytes as its first field says.
pub unsafe fn read<T: Versioned>(from: *const T) -> Result<T, CallFailure> {
    let mut ours = MaybeUninit::<T>::zeroed();
    if !from.is_null() {
        // SAFETY: the caller vouches for what is not NULL.
        let theirs_size = unsafe { declared_size(from) }?;
        let known = theirs_size.min(size_of::<T>());
        let theirs = from.cast::<u8>();
        // SAFETY: both have at least so many bytes, and ours is a local variable.
        unsafe { ptr::copy_nonoverlapping(theirs, ours.as_mut_ptr().cast::<u8>(), known) };
        // SAFETY: `known` is not beyond their size.
        let rest = unsafe { theirs.add(known) };
        // SAFETY: so many bytes are left.
        let rest = unsafe { slice(rest, theirs_size - known, T::NAME) }?;
        if rest.iter().any(|&byte| byte != 0) {
            return Err(CallFailure::Argument(format!(
                "struct {} asks for what this library does not know; install a newer one",
                T::NAME
            )));
        }
    }
    // SAFETY: zeros and any other bytes are valid, says the trait.
    Ok(unsafe { ours.assume_init() })
}

/// Writes a struct to where C wants it, as much of it as C knows; nowhere for NULL. The field
/// `size` stays what C wrote.
///
/// # Safety
/// The pointer is NULL, or leads to as many bytes as its first field says, which may be written.
pub unsafe fn write<T: Versioned>(to: *mut T, ours: &T) -> Result<(), CallFailure> {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches for what is not NULL.
    let theirs_size = unsafe { declared_size(to) }?;
    let known = theirs_size.min(size_of::<T>());
    let bytes = to.cast::<u8>();
    // SAFETY: they have so many bytes, says their size.
    unsafe { ptr::write_bytes(bytes, 0, theirs_size) };
    // SAFETY: both have at least so many bytes, and ours is not theirs.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(ours).cast::<u8>(), bytes, known) };
    // SAFETY: the first field of each is its size.
    unsafe { to.cast::<usize>().write(theirs_size) };
    Ok(())
}

/// Refuses a struct that could not be written later.
///
/// # Safety
/// As for [`write`].
pub unsafe fn check<T: Versioned>(to: *mut T) -> Result<(), CallFailure> {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches for what is not NULL.
    unsafe { declared_size(to) }.map(drop)
}

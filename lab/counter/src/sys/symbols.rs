//! Functions of the program that loaded this plugin, by name.
//!
//! They are looked up instead of linked: their presence depends on the emulator's version, and in
//! tests there are none.

use std::ffi::CStr;
use std::mem;

/// Returns whether a function of this name exists.
pub fn exists(name: &CStr) -> bool {
    address(name) != 0
}

fn address(name: &CStr) -> usize {
    // SAFETY: the name ends with a zero; the search has no side effect.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.expose_provenance()
}

/// Returns the function of this name, or its name if it is missing.
///
/// # Safety
/// `F` must be the type of a pointer to a C function, and match the function of that name.
pub unsafe fn function<F: Copy>(name: &'static CStr) -> Result<F, &'static CStr> {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    let address = address(name);
    if address == 0 {
        return Err(name);
    }
    let pointer = std::ptr::with_exposed_provenance::<()>(address);
    // SAFETY: it has the size of a pointer; the caller guarantees that it matches.
    Ok(unsafe { mem::transmute_copy::<*const (), F>(&pointer) })
}

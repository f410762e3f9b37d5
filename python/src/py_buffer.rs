//! Fills the view that Python asks an object of ours for.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Memory as the buffer protocol describes it. Shape and strides belong to the object whose memory
/// it is, and stay where they are as long as that lives.
pub struct Layout<'a> {
    /// The first byte.
    pub start: *mut c_void,
    /// Bytes of an element.
    pub item_bytes: usize,
    /// Its type.
    pub format: &'static CStr,
    /// Elements in each dimension.
    pub shape: &'a [ffi::Py_ssize_t],
    /// Bytes from one to the next in each dimension; without gaps, the last dimension in a row.
    pub strides: &'a [ffi::Py_ssize_t],
}

/// Fills a view of writable memory, which keeps `owner` alive.
///
/// # Safety
/// `view` is one that Python asks to be filled.
pub unsafe fn fill(
    view: *mut ffi::Py_buffer,
    flags: c_int,
    owner: Bound<'_, PyAny>,
    layout: &Layout<'_>,
) -> PyResult<()> {
    let wants = |flag: c_int| flags & flag == flag;
    // Elements in rows are also in columns if all but one dimension have one of them.
    let in_columns = layout.shape.iter().filter(|&&length| length != 1).count() <= 1;
    if wants(ffi::PyBUF_F_CONTIGUOUS) && !wants(ffi::PyBUF_ANY_CONTIGUOUS) && !in_columns {
        // SAFETY: the caller vouches for it.
        unsafe { refuse(view) };
        return Err(PyBufferError::new_err("the elements are in rows; ask for those"));
    }
    let list = |numbers: &[ffi::Py_ssize_t], flag| match wants(flag) {
        true => numbers.as_ptr().cast_mut(),
        false => ptr::null_mut(),
    };
    let elements: ffi::Py_ssize_t = layout.shape.iter().product();
    let item_bytes = layout.item_bytes.cast_signed();
    let filled = ffi::Py_buffer {
        obj: owner.into_ptr(),
        buf: layout.start,
        len: elements * item_bytes,
        itemsize: item_bytes,
        readonly: 0,
        // Without a shape it is a row of bytes.
        ndim: if wants(ffi::PyBUF_ND) { layout.shape.len() as c_int } else { 1 },
        format: match wants(ffi::PyBUF_FORMAT) {
            true => layout.format.as_ptr().cast_mut(),
            false => ptr::null_mut(),
        },
        shape: list(layout.shape, ffi::PyBUF_ND),
        strides: list(layout.strides, ffi::PyBUF_STRIDES),
        ..ffi::Py_buffer::new()
    };
    // SAFETY: the caller vouches for it.
    unsafe { view.write(filled) };
    Ok(())
}

/// Leaves a view without an owner, which an error must.
///
/// # Safety
/// `view` is one that Python asks to be filled.
pub unsafe fn refuse(view: *mut ffi::Py_buffer) {
    // SAFETY: the caller vouches for it.
    unsafe { (*view).obj = ptr::null_mut() };
}

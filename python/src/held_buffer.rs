//! The buffer of a Python object, held: as long as it is, nobody frees or resizes it.

use std::ffi::c_char;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The buffer of an object.
pub struct HeldBuffer(Box<ffi::Py_buffer>);

// SAFETY: the view is read by all threads alike, and released under the GIL.
unsafe impl Send for HeldBuffer {}

impl HeldBuffer {
    /// Holds the buffer of an object; `None` if it has none.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        // SAFETY: the object lives.
        let has_buffer = unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) };
        if has_buffer == 0 {
            return Ok(None);
        }
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object lives, and `view` is released by `drop` only after this succeeded.
        let end =
            unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_FULL_RO) };
        match end {
            0 => Ok(Some(Self(view))),
            _ => Err(PyErr::take(object.py())
                .unwrap_or_else(|| PyBufferError::new_err("the object gave no buffer"))),
        }
    }

    /// Returns its first byte.
    pub fn address(&self) -> usize {
        self.0.buf.addr()
    }

    /// Returns its length.
    pub fn bytes(&self) -> usize {
        usize::try_from(self.0.len).unwrap_or(0)
    }

    /// Returns whether its elements follow each other without gaps, in rows or in columns.
    pub fn is_contiguous(&self) -> bool {
        // SAFETY: the view is held.
        unsafe { ffi::PyBuffer_IsContiguous(&raw const *self.0, b'A' as c_char) != 0 }
    }
}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        // While Python ends nobody frees what it holds.
        let release = |_: Python<'_>| {
            // SAFETY: it is held, and released once.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
        };
        Python::try_attach(release);
    }
}

//! A run of pages of a pool, as bytes.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use nodeward::{PagePool, PoolError};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::{Failure, invalid};
use crate::py_buffer::{self, Layout};

/// The address of a run that was freed.
const FREED: usize = 0;

/// A run of pages: memoryview() and numpy.frombuffer() give views of its bytes. It goes back to its
/// pool when it is freed, or nobody has it any more.
#[pyclass(frozen, name = "PageRun", module = "nodeward")]
pub struct PyPageRun {
    pool: PagePool,
    order: u32,
    shape: [isize; 1],
    /// Changed under the GIL.
    address: AtomicUsize,
    /// Views that somebody has. Likewise.
    views: AtomicUsize,
}

/// Bytes from one to the next.
const STRIDES: [isize; 1] = [1];

impl PyPageRun {
    /// Takes over a run.
    pub fn new(pool: PagePool, address: usize, order: u32) -> Self {
        let shape = [(pool.page_bytes() << order).cast_signed()];
        Self { pool, order, shape, address: address.into(), views: AtomicUsize::new(0) }
    }

    fn free_now(&self) -> Result<(), PoolError> {
        let start = std::ptr::with_exposed_provenance_mut(self.address.load(Relaxed));
        let Some(start) = NonNull::new(start) else { return Ok(()) };
        self.pool.free(start, self.order)?;
        self.address.store(FREED, Relaxed);
        Ok(())
    }
}

#[pymethods]
impl PyPageRun {
    /// Bytes of the run.
    #[getter]
    fn nbytes(&self) -> usize {
        self.shape[0].cast_unsigned()
    }

    /// Gives the run back to its pool. Nothing happens to one that was given back before.
    fn free(&self) -> PyResult<()> {
        if self.views.load(Relaxed) > 0 {
            return Err(PyBufferError::new_err("somebody has a view of the run; release it first"));
        }
        Ok(self.free_now().map_err(Failure::from)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyAny>) -> PyResult<()> {
        self.free()
    }

    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let run = slf.get();
        let start = run.address.load(Relaxed);
        if start == FREED {
            // SAFETY: Python asks for it to be filled.
            unsafe { py_buffer::refuse(view) };
            return Err(invalid("the run was freed; allocate another one".to_owned()));
        }
        let layout = Layout {
            start: std::ptr::with_exposed_provenance_mut(start),
            item_bytes: 1,
            format: c"B",
            shape: &run.shape,
            strides: &STRIDES,
        };
        // SAFETY: Python asks for it to be filled.
        unsafe { py_buffer::fill(view, flags, slf.clone().into_any(), &layout) }?;
        run.views.fetch_add(1, Relaxed);
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.views.fetch_sub(1, Relaxed);
    }
}

impl Drop for PyPageRun {
    fn drop(&mut self) {
        // In a child of fork(2) the run is the parent's.
        let _ = self.free_now();
    }
}

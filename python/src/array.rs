//! Arrays in regions of the pager.

use std::ffi::c_int;
use std::sync::Arc;

use nodeward::{Error, PageSize, Pager, Placement, Region, RegionOptions, managed_regions};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack;
use crate::element::ElementType;
use crate::errors::{Failure, invalid};
use crate::options;
use crate::process_state;
use crate::py_buffer::{self, Layout};

/// Smaller arrays have base pages: of a huge page they would use a part.
const HUGE_FROM_BYTES: usize = 2 << 20;

/// An array whose pages move while it is used. numpy.asarray(), torch.from_dlpack() and
/// memoryview() give views of it, which keep it.
#[pyclass(frozen, module = "nodeward")]
pub struct Array {
    region: Arc<Region>,
    placement: Placement,
    element: ElementType,
    bytes: usize,
    shape: Vec<isize>,
    strides: Vec<isize>,
}

impl Array {
    /// Returns its memory.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Returns the bytes of its elements.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[pymethods]
impl Array {
    /// Elements in each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The type of the elements, such as "float64".
    #[getter]
    fn dtype(&self) -> &'static str {
        self.element.name
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of a page: what moves as one.
    #[getter]
    fn page_bytes(&self) -> usize {
        self.region.page_bytes()
    }

    /// The first address.
    #[getter]
    fn address(&self) -> usize {
        self.region.as_ptr().addr()
    }

    /// Brings all of it into memory that is not there yet, as zeros, where it was made for.
    /// Touching each page for the first time takes longer, in base pages by far.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let end = self.bytes.next_multiple_of(self.region.page_bytes());
        let done = py.detach(|| self.region.commit(0..end, &self.placement));
        Ok(done.map_err(Failure::from)?)
    }

    /// What numpy takes arrays by.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", self.element.typestr())?;
        interface.set_item("data", (self.address(), false))?;
        Ok(interface)
    }

    /// What torch, numpy and others take arrays by. The memory is the machine's, so there is no
    /// stream to wait for.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream;
        if copy == Some(true) {
            return Err(PyBufferError::new_err("it is handed over without a copy; copy it first"));
        }
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) {
            return Err(PyBufferError::new_err("it is in the machine's memory, on no device"));
        }
        let Self { region, element, shape, strides, .. } = self;
        let given = dlpack::GivenArray { region, element: *element, shape, strides };
        given.capsule(py, max_version.is_some_and(|(major, _)| major >= 1))
    }

    /// Where it is for DLPack: in the machine's memory.
    #[expect(clippy::unused_self, reason = "DLPack asks an array")]
    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.shape.first().ok_or_else(|| {
            pyo3::exceptions::PyTypeError::new_err("len() of an array without dimensions")
        })?;
        Ok(first.cast_unsigned())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape(py)?.repr()?;
        Ok(format!("<nodeward.Array of {shape} {} at {:#x}>", self.element.name, self.address()))
    }

    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let array = slf.get();
        let layout = Layout {
            start: array.region.as_ptr().cast(),
            item_bytes: array.element.bytes,
            format: array.element.format,
            shape: &array.shape,
            strides: &array.strides,
        };
        // SAFETY: Python asks for it to be filled.
        unsafe { py_buffer::fill(view, flags, slf.clone().into_any(), &layout) }
    }
}

/// Makes an array, without memory yet: it reads as zero.
#[pyfunction]
pub fn empty(
    py: Python<'_>,
    shape: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
    node: Option<&Bound<'_, PyAny>>,
    huge: bool,
) -> PyResult<Array> {
    let element = ElementType::of(dtype)?;
    let shape = dimensions(shape)?;
    let (strides, bytes) = rows(&shape, element.bytes)?;
    let pager = process_state::pager(py).map_err(Failure::from)?;
    let placement = options::placement(node)?;
    let page = if huge && bytes >= HUGE_FROM_BYTES { PageSize::Huge } else { PageSize::Base };
    let wanted = RegionOptions { page, placement: placement.clone(), ..RegionOptions::default() };
    let region = py.detach(|| reserve(&pager, bytes, wanted)).map_err(Failure::from)?;
    Ok(Array { region, placement, element, bytes, shape, strides })
}

/// Reserves memory, of huge pages as far as this machine has them.
fn reserve(
    pager: &Pager,
    bytes: usize,
    mut wanted: RegionOptions,
) -> nodeward::Result<Arc<Region>> {
    // No region is without a page.
    let bytes = bytes.max(1);
    let mut reserved = pager.reserve(bytes, &wanted);
    if let Err(Error::NoHugePages { .. }) = reserved {
        wanted.page = PageSize::Base;
        reserved = pager.reserve(bytes, &wanted);
    }
    let region = Arc::new(reserved?);
    managed_regions::enter(&region);
    Ok(region)
}

/// Parses a shape: a length, or one for each dimension.
fn dimensions(shape: &Bound<'_, PyAny>) -> PyResult<Vec<isize>> {
    let one = shape.extract::<isize>().map(|length| vec![length]);
    let all = one.or_else(|_| shape.extract::<Vec<isize>>()).map_err(|_| {
        invalid("the shape is neither a length nor a list of lengths; give numbers".to_owned())
    })?;
    match all.iter().find(|&&length| length < 0) {
        Some(length) => Err(invalid(format!("a dimension of {length} elements; give 0 or more"))),
        None => Ok(all),
    }
}

/// Returns the bytes from one element to the next in each dimension, and of all.
fn rows(shape: &[isize], item_bytes: usize) -> PyResult<(Vec<isize>, usize)> {
    let too_large = || invalid("no address space has so many elements; give fewer".to_owned());
    let mut strides = Vec::with_capacity(shape.len());
    let mut bytes = item_bytes.cast_signed();
    for length in shape.iter().rev() {
        strides.push(bytes);
        bytes = bytes.checked_mul(*length).ok_or_else(too_large)?;
    }
    strides.reverse();
    Ok((strides, bytes.cast_unsigned()))
}

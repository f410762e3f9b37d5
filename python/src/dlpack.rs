//! DLPack, by which torch, numpy and others hand arrays to each other: what we give, and where the
//! memory is of what others give. The structs are those of dlpack.h: of version 1, and of the time
//! before there were versions, in which an array cannot be told to be writable.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use nodeward::Region;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::element::ElementType;
use crate::errors::{invalid, not_contiguous};

/// The names of capsules that nobody has taken yet.
const FRESH: &CStr = c"dltensor";
const FRESH_VERSIONED: &CStr = c"dltensor_versioned";
/// Memory of the machine, and the part of it that a graphics processor has pinned.
pub const CPU: i32 = 1;
const PINNED_BY_CUDA: i32 = 3;
const PINNED_BY_ROCM: i32 = 11;

#[repr(C)]
struct DlDevice {
    kind: i32,
    number: i32,
}

#[repr(C)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    dimensions: i32,
    element: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

#[repr(C)]
struct DlVersion {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct DlManagedTensorVersioned {
    version: DlVersion,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// What a tensor of ours keeps: its memory, and the lists that it points to.
struct Kept {
    _region: Arc<Region>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Memory that a tensor of others has.
pub struct TensorMemory {
    /// The first byte.
    pub address: usize,
    /// Its length.
    pub bytes: usize,
}

/// An array that is given away, with its elements in rows.
pub struct GivenArray<'a> {
    /// Its memory.
    pub region: &'a Arc<Region>,
    /// The type of its elements.
    pub element: ElementType,
    /// Elements in each dimension.
    pub shape: &'a [isize],
    /// Bytes from one to the next.
    pub strides: &'a [isize],
}

impl GivenArray<'_> {
    /// Returns a capsule for somebody who knows DLPack with versions, or without.
    pub fn capsule<'py>(&self, py: Python<'py>, versioned: bool) -> PyResult<Bound<'py, PyAny>> {
        let (tensor, context) = self.tensor();
        if versioned {
            let version = DlVersion { major: 1, minor: 0 };
            let deleter = Some(delete::<DlManagedTensorVersioned> as _);
            let flags = 0; // writable, and no copy
            let managed = DlManagedTensorVersioned { version, context, deleter, flags, tensor };
            new_capsule(py, managed)
        } else {
            let deleter = Some(delete::<DlManagedTensor> as _);
            new_capsule(py, DlManagedTensor { tensor, context, deleter })
        }
    }

    fn tensor(&self) -> (DlTensor, *mut c_void) {
        let Self { region, element, shape, strides } = self;
        // DLPack counts strides in elements.
        let strides = strides.iter().map(|&bytes| (bytes / element.bytes.cast_signed()) as i64);
        let mut kept = Box::new(Kept {
            _region: Arc::clone(region),
            shape: shape.iter().map(|&length| length as i64).collect(),
            strides: strides.collect(),
        });
        let tensor = DlTensor {
            data: region.as_ptr().cast(),
            device: DlDevice { kind: CPU, number: 0 },
            dimensions: shape.len() as i32,
            element: DlType { code: element.dlpack_code, bits: element.bytes as u8 * 8, lanes: 1 },
            shape: kept.shape.as_mut_ptr(),
            strides: kept.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        (tensor, Box::into_raw(kept).cast())
    }
}

/// A tensor with who frees it, of either form.
trait Managed: Sized {
    /// The name of its capsule.
    const NAME: &CStr;

    fn context(&self) -> *mut c_void;
}

impl Managed for DlManagedTensor {
    const NAME: &CStr = FRESH;

    fn context(&self) -> *mut c_void {
        self.context
    }
}

impl Managed for DlManagedTensorVersioned {
    const NAME: &CStr = FRESH_VERSIONED;

    fn context(&self) -> *mut c_void {
        self.context
    }
}

fn new_capsule<M: Managed>(py: Python<'_>, managed: M) -> PyResult<Bound<'_, PyAny>> {
    let managed = Box::into_raw(Box::new(managed));
    let name = M::NAME.as_ptr();
    // SAFETY: the pointer is not NULL, and the name lives for ever.
    let made = unsafe { ffi::PyCapsule_New(managed.cast(), name, Some(drop_capsule::<M>)) };
    // SAFETY: it is a new reference, or NULL with an exception.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) };
    if made.is_err() {
        // SAFETY: nobody else has it.
        unsafe { delete(managed) };
    }
    made
}

/// Frees a tensor of ours, on any thread, when who took it needs it no more.
unsafe extern "C" fn delete<M: Managed>(managed: *mut M) {
    // SAFETY: it was made by `new_capsule`, and is freed once.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: its context was made by `tensor`.
    drop(unsafe { Box::from_raw(managed.context().cast::<Kept>()) });
}

/// Frees a tensor that nobody took. Who takes one gives the capsule another name.
unsafe extern "C" fn drop_capsule<M: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python hands over a capsule that ends.
    let is_fresh = unsafe { ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) } != 0;
    if is_fresh {
        // SAFETY: it is valid.
        let managed = unsafe { ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()) };
        // SAFETY: it was made by `new_capsule`, and nobody took it.
        unsafe { delete(managed.cast::<M>()) };
    }
}

/// Returns where the memory of a tensor is, which lives as long as the capsule.
pub fn memory(capsule: &Bound<'_, PyAny>) -> PyResult<TensorMemory> {
    // SAFETY: any object may be asked.
    let managed = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), FRESH.as_ptr()) };
    if managed.is_null() {
        return Err(PyErr::take(capsule.py())
            .unwrap_or_else(|| invalid("__dlpack__ gave no tensor".to_owned())));
    }
    // SAFETY: a capsule of this name has one.
    let tensor = unsafe { &(*managed.cast::<DlManagedTensor>()).tensor };
    if ![CPU, PINNED_BY_CUDA, PINNED_BY_ROCM].contains(&tensor.device.kind) {
        return Err(invalid(
            "the tensor is in the memory of a device; pass one that is in the machine's".to_owned(),
        ));
    }
    let dimensions = usize::try_from(tensor.dimensions).unwrap_or(0);
    let list = |numbers: *mut i64| match numbers.is_null() || dimensions == 0 {
        true => None,
        // SAFETY: a tensor has a number for each dimension.
        false => Some(unsafe { std::slice::from_raw_parts(numbers, dimensions) }),
    };
    let shape = list(tensor.shape).unwrap_or_default();
    let elements: i64 = shape.iter().product();
    if list(tensor.strides).is_some_and(|strides| elements > 0 && !are_rows(shape, strides)) {
        return Err(not_contiguous());
    }
    let element_bits = u64::from(tensor.element.bits) * u64::from(tensor.element.lanes);
    let bytes = u64::try_from(elements).unwrap_or(0) * element_bits.div_ceil(8);
    let start = tensor.data.addr() + tensor.byte_offset as usize;
    Ok(TensorMemory { address: start, bytes: bytes as usize })
}

/// Returns whether elements follow each other without gaps, the last dimension in a row.
fn are_rows(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(&length, &stride)| {
        let fits = length == 1 || stride == expected;
        expected *= length;
        fits
    })
}

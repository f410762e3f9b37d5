//! The memory of a Python object, of whatever library.

use std::ops::Range;
use std::sync::Arc;

use nodeward::{Region, managed_regions};
use pyo3::prelude::*;

use crate::array::Array;
use crate::dlpack;
use crate::errors::{invalid, not_contiguous};
use crate::held_buffer::HeldBuffer;

/// Memory of an object, which nobody frees while this is held.
pub struct Memory {
    /// The first byte.
    pub address: usize,
    /// Its length.
    pub bytes: usize,
    holder: Holder,
}

/// What keeps memory.
enum Holder {
    Array(Arc<Region>),
    Buffer(#[expect(dead_code, reason = "held, never read")] HeldBuffer),
    Tensor(#[expect(dead_code, reason = "held, never read")] Py<PyAny>),
}

impl Memory {
    /// Finds the memory of an array of ours, or by the buffer protocol or DLPack of anything else.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.cast::<Array>() {
            let (array, region) = (array.get(), array.get().region());
            let (address, bytes) = (region.as_ptr().addr(), array.bytes());
            return Ok(Self { address, bytes, holder: Holder::Array(Arc::clone(region)) });
        }
        if let Some(buffer) = HeldBuffer::of(object)? {
            if !buffer.is_contiguous() {
                return Err(not_contiguous());
            }
            let (address, bytes) = (buffer.address(), buffer.bytes());
            return Ok(Self { address, bytes, holder: Holder::Buffer(buffer) });
        }
        if object.hasattr("__dlpack__")? {
            let capsule = object.call_method0("__dlpack__")?;
            let dlpack::TensorMemory { address, bytes } = dlpack::memory(&capsule)?;
            return Ok(Self { address, bytes, holder: Holder::Tensor(capsule.unbind()) });
        }
        Err(invalid(format!(
            "an object of type {} has no memory that can be found: it has neither the buffer \
             protocol nor __dlpack__; pass an array, a tensor, a memoryview or an mmap",
            object.get_type().name()?
        )))
    }

    /// Returns the addresses, by whole pages.
    pub fn pages(&self) -> Range<u64> {
        let page_bytes = nodeward::page_bytes() as u64;
        let (start, end) = (self.address as u64, (self.address + self.bytes) as u64);
        match self.bytes {
            0 => start..start,
            _ => start / page_bytes * page_bytes..end.next_multiple_of(page_bytes),
        }
    }

    /// Returns the region of the pager that has all of it, and the pages there.
    pub fn region(&self) -> Option<(Arc<Region>, Range<usize>)> {
        match &self.holder {
            Holder::Array(region) => {
                let end = self.bytes.next_multiple_of(region.page_bytes());
                Some((Arc::clone(region), 0..end))
            }
            _ => managed_regions::holding(self.address, self.bytes),
        }
    }

    /// Counts the pages, of one region or of the process, that it fills in part: what else is on
    /// them moves along. An array of ours has its pages for itself.
    pub fn edge_pages(&self, page_bytes: usize) -> usize {
        if matches!(self.holder, Holder::Array(_)) || self.bytes == 0 {
            return 0;
        }
        let (start, end) = (self.address, self.address + self.bytes);
        let (first, last) = (start / page_bytes, (end - 1) / page_bytes);
        let (begins_within, ends_within) = (start % page_bytes != 0, end % page_bytes != 0);
        match first == last {
            true => usize::from(begins_within || ends_within),
            false => usize::from(begins_within) + usize::from(ends_within),
        }
    }
}

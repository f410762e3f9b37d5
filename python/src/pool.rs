//! Runs of pages that do not move: the page pool.

use nodeward::{NodeId, PagePool, PageSize, PoolOptions, RunRequest};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Failure, invalid};
use crate::options;
use crate::page_run::PyPageRun;

/// A page pool.
#[pyclass(frozen, name = "Pool", module = "nodeward._native")]
pub struct PyPool(PagePool);

#[pymethods]
impl PyPool {
    #[new]
    fn new(
        py: Python<'_>,
        zone_bytes: Option<&Bound<'_, PyAny>>,
        keep_bytes: &Bound<'_, PyAny>,
        huge: bool,
    ) -> PyResult<Self> {
        let wanted = PoolOptions {
            zone_bytes: zone_bytes.map(options::bytes).transpose()?,
            keep_bytes: options::bytes(keep_bytes)?,
            page: if huge { PageSize::Huge } else { PageSize::Base },
            ..PoolOptions::default()
        };
        let opened = py.detach(|| PagePool::open(&wanted)).map_err(Failure::from)?;
        Ok(Self(opened))
    }

    /// Allocates a run of at least so many bytes.
    fn run(
        &self,
        py: Python<'_>,
        size: &Bound<'_, PyAny>,
        node: Option<&Bound<'_, PyAny>>,
        zeroed: bool,
    ) -> PyResult<PyPageRun> {
        let order = self.order(options::bytes(size)?)?;
        let node: Option<NodeId> = node.map(options::one_node).transpose()?;
        let wanted = RunRequest { order, zeroed, node };
        let start =
            py.detach(|| self.0.allocate(&wanted).map(|start| start.as_ptr().expose_provenance()));
        Ok(PyPageRun::new(self.0.clone(), start.map_err(Failure::from)?, order))
    }

    /// Gives free memory back to the kernel; returns how many bytes.
    fn give_back(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.give_back())
    }

    /// Refuses further allocations.
    fn close(&self) {
        self.0.close();
    }

    /// Returns the fields of nodeward.PoolStats.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.0.stats());
        let page_bytes = self.0.page_bytes() as u64;
        let fields = PyDict::new(py);
        for (name, pages) in [
            ("held", stats.held_pages),
            ("in_use", stats.in_use_pages),
            ("listed", stats.listed_pages),
            ("free", stats.zone_free_pages),
            ("peak_held", stats.peak_held_pages),
            ("allocated", stats.allocated_pages),
            ("freed", stats.freed_pages),
        ] {
            fields.set_item(name, pages * page_bytes)?;
        }
        Ok(fields)
    }
}

impl PyPool {
    fn order(&self, bytes: u64) -> PyResult<u32> {
        let longest = (self.0.page_bytes() as u64) << self.0.order_max();
        if bytes == 0 || bytes > longest {
            return Err(invalid(format!("a run of {bytes} bytes; give 1 to {longest}")));
        }
        Ok(bytes.div_ceil(self.0.page_bytes() as u64).next_power_of_two().ilog2())
    }
}

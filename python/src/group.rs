//! Groups of threads and memory that the agent places as one.

use std::process;

use nodeward::{GroupAgent, GroupFailure, GroupHome};
use pyo3::prelude::*;

use crate::errors::Failure;
use crate::memory::Memory;
use crate::options;

/// A group at the agent. Python has its number, not a handle: each call asks the agent anew.
#[pyclass(frozen, name = "Group", module = "nodeward._native")]
pub struct PyGroup {
    id: u32,
    /// The process that made it.
    owner: u32,
}

impl PyGroup {
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&nodeward::Group) -> Result<T, GroupFailure> + Send,
    ) -> PyResult<T> {
        let id = self.id;
        let done = py.detach(|| act(&GroupAgent::default().open(id)));
        Ok(done.map_err(Failure::from)?)
    }
}

#[pymethods]
impl PyGroup {
    #[new]
    fn new(py: Python<'_>, name: &str, home: &str) -> PyResult<Self> {
        let home = parsed(home)?;
        let made = py.detach(|| GroupAgent::default().make(name, &home)).map_err(Failure::from)?;
        Ok(Self { id: made.leave(), owner: process::id() })
    }

    /// Its number.
    #[getter]
    fn id(&self) -> u32 {
        self.id
    }

    /// Puts the memory of an object into it.
    fn add(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let memory = Memory::of(buffer)?;
        let (address, bytes) = (memory.address, memory.bytes);
        self.call(py, |group| group.add_memory(std::ptr::without_provenance(address), bytes))
    }

    /// Puts a thread into it; the calling one if none is named.
    fn add_thread(&self, py: Python<'_>, tid: Option<u32>) -> PyResult<()> {
        self.call(py, |group| match tid {
            Some(tid) => group.add_thread(tid),
            None => group.add_current_thread(),
        })
    }

    /// Puts all threads of this process into it.
    fn add_all_threads(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, nodeward::Group::add_all_threads)
    }

    /// Says where it is to be.
    fn set_home(&self, py: Python<'_>, home: &str) -> PyResult<()> {
        let home = parsed(home)?;
        self.call(py, |group| group.set_home(&home))
    }

    /// Returns where its threads belong.
    fn nodes(&self, py: Python<'_>) -> PyResult<Option<Vec<u32>>> {
        let nodes = self.call(py, nodeward::Group::nodes)?;
        Ok(nodes.map(|nodes| nodes.iter().map(|node| node.0).collect()))
    }

    /// Deletes it. A child of fork(2) has a copy of this, but the group is its parent's: there it
    /// does nothing.
    fn delete(&self, py: Python<'_>) -> PyResult<()> {
        if self.owner != process::id() {
            return Ok(());
        }
        let id = self.id;
        let done = py.detach(|| GroupAgent::default().open(id).delete());
        Ok(done.map_err(Failure::from)?)
    }
}

/// Parses a home: `auto`, nodes, `spread:` and nodes, or `near:` and a device.
fn parsed(home: &str) -> PyResult<GroupHome> {
    let near = home.strip_prefix("near:").map(options::near).transpose()?;
    let words = near.map_or_else(|| home.to_owned(), |node| node.to_string());
    Ok(words.parse().map_err(|error| Failure::from(GroupFailure::Invalid(error)))?)
}

//! The exceptions of the package, in the library's words.

use std::error::Error as _;

use nodeward::{DeviceFailure, Error, GroupFailure, OwnMoveFailure, PoolError, UnitError};
use pyo3::prelude::*;

mod exceptions {
    //! Classes of python/nodeward/_errors.py.

    pyo3::import_exception!(nodeward._errors, AgentError);
    pyo3::import_exception!(nodeward._errors, DeniedError);
    pyo3::import_exception!(nodeward._errors, DeviceError);
    pyo3::import_exception!(nodeward._errors, ForkedError);
    pyo3::import_exception!(nodeward._errors, InvalidError);
    pyo3::import_exception!(nodeward._errors, NoAgentError);
    pyo3::import_exception!(nodeward._errors, NodewardError);
    pyo3::import_exception!(nodeward._errors, NoRoomError);
    pyo3::import_exception!(nodeward._errors, SystemCallError);
    pyo3::import_exception!(nodeward._errors, UnknownNodeError);
    pyo3::import_exception!(nodeward._errors, UnsupportedError);
}

/// Why a call does nothing.
#[derive(Debug)]
pub enum Failure {
    /// The pager's reason, or that of the memory of this process.
    Memory(Error),
    /// The pool's.
    Pool(PoolError),
    /// The agent's, or why it was not asked.
    Agent(GroupFailure),
    /// Of a device.
    Device(DeviceFailure),
    /// A size, a rate or a time that is none.
    Unit(UnitError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Memory(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<GroupFailure> for Failure {
    fn from(failure: GroupFailure) -> Self {
        Self::Agent(failure)
    }
}

impl From<DeviceFailure> for Failure {
    fn from(failure: DeviceFailure) -> Self {
        Self::Device(failure)
    }
}

impl From<UnitError> for Failure {
    fn from(error: UnitError) -> Self {
        Self::Unit(error)
    }
}

impl From<OwnMoveFailure> for Failure {
    fn from(failure: OwnMoveFailure) -> Self {
        match failure {
            OwnMoveFailure::Own(error) => Self::Memory(error),
            OwnMoveFailure::Agent(failure) => Self::Agent(failure),
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Memory(error) => of_memory(&error),
            Failure::Pool(error) => of_pool(error),
            Failure::Agent(failure) => of_agent(&failure),
            Failure::Device(DeviceFailure::Machine(error)) => of_memory(&error),
            Failure::Device(DeviceFailure::Device(error)) => {
                exceptions::DeviceError::new_err(error.to_string())
            }
            Failure::Unit(error) => invalid(error.to_string()),
        }
    }
}

/// An argument that has no meaning; the words end with what to do.
pub fn invalid(words: String) -> PyErr {
    exceptions::InvalidError::new_err(words)
}

/// Memory whose elements do not follow each other.
pub fn not_contiguous() -> PyErr {
    let words = "the elements have gaps between them; pass the array that this is a view of, or a \
                 copy";
    invalid(words.to_owned())
}

/// A node that is none.
pub fn unknown_node(words: String) -> PyErr {
    exceptions::UnknownNodeError::new_err(words)
}

/// What does not work with this memory, or here.
pub fn unsupported(words: String) -> PyErr {
    exceptions::UnsupportedError::new_err(words)
}

fn of_memory(error: &Error) -> PyErr {
    let words = error.to_string();
    match error {
        Error::UnknownNode { .. } => unknown_node(words),
        Error::Unaligned { .. } | Error::OutOfRegion { .. } | Error::BadOption { .. } => {
            invalid(words)
        }
        Error::NoHugePages { .. } | Error::NeedsUserfaultfd { .. } => unsupported(words),
        Error::Forked => exceptions::ForkedError::new_err(words),
        Error::WithinPager | Error::Closing => exceptions::NodewardError::new_err(words),
        Error::NoRoom { .. } => exceptions::NoRoomError::new_err(words),
        Error::NoDescriptor { .. } | Error::System { .. } => {
            exceptions::SystemCallError::new_err(words)
        }
        Error::Machine(error) if error.is_permission() => exceptions::DeniedError::new_err(words),
        Error::Machine(error) => {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            exceptions::SystemCallError::new_err(words + &cause)
        }
    }
}

fn of_pool(error: PoolError) -> PyErr {
    let words = error.to_string();
    match error {
        PoolError::UnknownNode { .. } => unknown_node(words),
        PoolError::NoMemory { .. } => exceptions::NoRoomError::new_err(words),
        PoolError::Forked => exceptions::ForkedError::new_err(words),
        PoolError::Closed => exceptions::NodewardError::new_err(words),
        _ => invalid(words),
    }
}

fn of_agent(failure: &GroupFailure) -> PyErr {
    let words = failure.to_string();
    match failure {
        GroupFailure::Invalid(_) | GroupFailure::NoMemory { .. } => invalid(words),
        GroupFailure::NoAgent { .. } | GroupFailure::NoAccess { .. } => {
            exceptions::NoAgentError::new_err(words)
        }
        GroupFailure::NotAllowed(_) => exceptions::DeniedError::new_err(words),
        _ => exceptions::AgentError::new_err(words),
    }
}

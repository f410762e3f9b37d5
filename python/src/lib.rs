//! `nodeward._native`, the part of the Python package that is not Python. Each function checks its
//! arguments, calls the method of `nodeward` with that name without the GIL, and turns the result
//! into what the package `nodeward` makes its dataclasses and exceptions of.
//!
//! The documentation for users stands in python/nodeward, whose functions call these.

#![allow(unsafe_code, reason = "buffers and DLPack are pointers")]

mod array;
mod dlpack;
mod element;
mod errors;
mod group;
mod held_buffer;
mod machine;
mod memory;
mod moves;
mod options;
mod page_run;
mod pool;
mod process_state;
mod py_buffer;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The number that Python gives to the interpreter of the main program.
const MAIN_INTERPRETER: i64 = 0;

/// What of nodeward is not Python.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    refuse_subinterpreters(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::Array>()?;
    module.add_class::<group::PyGroup>()?;
    module.add_class::<page_run::PyPageRun>()?;
    module.add_class::<pool::PyPool>()?;
    module.add_function(wrap_pyfunction!(array::empty, module)?)?;
    module.add_function(wrap_pyfunction!(machine::near, module)?)?;
    module.add_function(wrap_pyfunction!(machine::nodes, module)?)?;
    module.add_function(wrap_pyfunction!(machine::pager, module)?)?;
    module.add_function(wrap_pyfunction!(machine::topology, module)?)?;
    module.add_function(wrap_pyfunction!(moves::advice, module)?)?;
    module.add_function(wrap_pyfunction!(moves::migrate, module)?)?;
    module.add_function(wrap_pyfunction!(moves::rehome, module)?)?;
    module.add_function(wrap_pyfunction!(moves::residency, module)?)
}

/// Classes and the pager are there once in a process, and objects of one interpreter must not get
/// into another.
fn refuse_subinterpreters(_gil: Python<'_>) -> PyResult<()> {
    // SAFETY: the thread has the GIL.
    let interpreter = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: it is the present interpreter.
    match unsafe { ffi::PyInterpreterState_GetID(interpreter) } {
        MAIN_INTERPRETER => Ok(()),
        _ => Err(PyImportError::new_err(
            "nodeward does not work in a subinterpreter; import it in the main one, or use a \
             process",
        )),
    }
}

//! Types of the elements of an array, by the names that numpy, struct(3py) and DLPack have for
//! them.

use std::ffi::CStr;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::invalid;

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementType {
    /// As numpy and torch call it.
    pub name: &'static str,
    /// In `__array_interface__` and `numpy.dtype.str`, without the order of bytes.
    code: &'static str,
    /// In the buffer protocol.
    pub format: &'static CStr,
    /// In DLPack.
    pub dlpack_code: u8,
    /// Bytes of an element.
    pub bytes: usize,
}

const fn element(
    name: &'static str,
    code: &'static str,
    format: &'static CStr,
    dlpack_code: u8,
    bytes: usize,
) -> ElementType {
    ElementType { name, code, format, dlpack_code, bytes }
}

const SIGNED: u8 = 0;
const UNSIGNED: u8 = 1;
const FLOAT: u8 = 2;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;

const ELEMENTS: [ElementType; 14] = [
    element("bool", "b1", c"?", BOOL, 1),
    element("int8", "i1", c"b", SIGNED, 1),
    element("int16", "i2", c"h", SIGNED, 2),
    element("int32", "i4", c"i", SIGNED, 4),
    element("int64", "i8", c"l", SIGNED, 8),
    element("uint8", "u1", c"B", UNSIGNED, 1),
    element("uint16", "u2", c"H", UNSIGNED, 2),
    element("uint32", "u4", c"I", UNSIGNED, 4),
    element("uint64", "u8", c"L", UNSIGNED, 8),
    element("float16", "f2", c"e", FLOAT, 2),
    element("float32", "f4", c"f", FLOAT, 4),
    element("float64", "f8", c"d", FLOAT, 8),
    element("complex64", "c8", c"Zf", COMPLEX, 8),
    element("complex128", "c16", c"Zd", COMPLEX, 16),
];

impl ElementType {
    /// Returns the type that a name, a class of Python or numpy, or a dtype of numpy or torch
    /// stands for.
    pub fn of(dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = name_of(dtype)?;
        // Machines that we run on store the lowest byte first.
        let code = name.trim_start_matches(['<', '=', '|']);
        let plain = match code.strip_prefix("torch.").unwrap_or(code) {
            "int" => "int64",
            "float" => "float64",
            "complex" => "complex128",
            plain => plain,
        };
        let found = ELEMENTS.into_iter().find(|one| one.name == plain || one.code == plain);
        found.ok_or_else(|| {
            let known = ELEMENTS.map(|one| one.name).join(", ");
            invalid(format!("{name:?} is no type of elements here; name one of {known}"))
        })
    }

    /// Returns its name in `__array_interface__`.
    pub fn typestr(self) -> String {
        let order = if self.bytes == 1 { '|' } else { '<' };
        format!("{order}{}", self.code)
    }
}

fn name_of(dtype: &Bound<'_, PyAny>) -> PyResult<String> {
    if dtype.is_instance_of::<PyString>() {
        return dtype.extract();
    }
    // A dtype of numpy, a class, a dtype of torch.
    for attribute in ["str", "__name__"] {
        if let Ok(name) = dtype.getattr(attribute).and_then(|name| name.extract()) {
            return Ok(name);
        }
    }
    dtype.str()?.extract()
}

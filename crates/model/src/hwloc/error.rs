//! Errors in machines that lstopo saved.

/// The reason why a text does not describe a machine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HwlocError {
    /// Not XML, or cut short.
    #[error("this is not whole XML: {0}; save the machine again with lstopo FILE.xml")]
    NotXml(roxmltree::Error),
    /// The XML describes something else.
    #[error("found <{root}>, wanted the <topology> of hwloc; save a machine with lstopo FILE.xml")]
    NotHwloc {
        /// The outermost element.
        root: String,
    },
    /// An object lacks a required attribute.
    #[error(
        "line {line}: {object} has no {attribute}; save the machine again with lstopo FILE.xml"
    )]
    MissingAttribute {
        /// The line of the object.
        line: u32,
        /// The type of the object.
        object: String,
        /// The attribute that is missing.
        attribute: &'static str,
    },
    /// A value is not valid.
    #[error(
        "line {line}: {name} is '{found}', wanted {expected}; correct it or save the machine again"
    )]
    InvalidValue {
        /// The line of the value.
        line: u32,
        /// The name of the value.
        name: &'static str,
        /// The value found.
        found: String,
        /// The values that are valid.
        expected: String,
    },
    /// The machine has no CPU.
    #[error("no CPU (object of type PU) in this machine; save it again without filters")]
    NoCpus,
}

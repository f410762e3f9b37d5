//! The module where unsafe code is allowed: memory written by others, and the marks.

mod mapped;
#[cfg(target_arch = "x86_64")]
mod marks;
#[cfg(not(target_arch = "x86_64"))]
mod no_marks;

pub use mapped::MappedWords;
#[cfg(all(test, target_arch = "x86_64"))]
pub use marks::bytes;
#[cfg(target_arch = "x86_64")]
pub use marks::execute;
#[cfg(not(target_arch = "x86_64"))]
pub use no_marks::execute;

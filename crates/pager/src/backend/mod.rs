//! The backends: the kernel's own migration, and the pager's by userfaultfd.

pub mod kernel;
mod methods;
pub mod probe;

pub use kernel::KernelBackend;
pub use methods::Backend;
pub use probe::{Shortfall, UffdCapabilities, VisibleFaults};

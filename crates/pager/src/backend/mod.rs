//! The backends, which move the pages of a region: the pager's own by userfaultfd, and the kernel's
//! by move_pages(2). The probe finds out which one works here.

mod kernel;
mod methods;
mod on_caller;
mod probe;
mod uffd;

pub use kernel::{KernelBackend, commit};
pub use methods::Backend;
pub use probe::{Shortfall, UffdCapabilities, VisibleFaults, probe};
pub use uffd::UffdBackend;

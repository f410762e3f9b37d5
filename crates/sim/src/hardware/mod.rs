//! The machine as hardware: where CPUs and nodes are, and how busy memory and links are.

mod cpu_index_set;
mod machine_layout;
mod traffic;

pub use cpu_index_set::CpuIndexSet;
pub use machine_layout::MachineLayout;
pub use traffic::{ActiveFlow, EPOCH_NS, Flow, NO_COMPLEX, Traffic};

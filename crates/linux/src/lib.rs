//! The machine contract on a stock Linux kernel.

#[allow(unsafe_code, reason = "the one room that speaks to the kernel")]
mod sys;

pub mod access;
pub mod access_queue;
mod affinity;
pub mod cgroup;
pub mod confinement;
pub mod device_nodes;
pub mod file_cache;
mod file_error;
mod frames;
mod held_pid;
pub mod hot;
pub mod interference;
mod kernel_file;
pub mod load;
mod machine;
mod mapping_pages;
mod memory_policies;
pub mod mempolicy;
pub mod migration_counters;
mod move_pages;
pub mod nodes;
mod nudge;
mod numa_balancing;
pub mod other_balancers;
pub mod own_process;
pub mod page_lists;
mod page_tables;
mod pagemap;
pub mod peer;
pub mod pid_namespace;
mod pidfd;
mod populated;
pub mod pressure;
pub mod probes;
mod process;
pub mod process_lookup;
pub mod procfs;
mod routes;
pub mod sched_ext;
pub mod segments;
pub mod sysctl;
pub mod sysfs;
pub mod test_wait;
mod thread_ids;
pub mod thread_records;
mod traits;
pub mod used_files;
pub mod users;
mod watch;

pub use held_pid::{Credentials, HeldPid, NamespaceId, own_credentials};
pub use machine::Linux;
pub use nudge::journal::RestoredThread;
pub use sys::signal_mask;

//! The machine contract on a stock Linux kernel.

#[allow(unsafe_code, reason = "the one room that speaks to the kernel")]
mod sys;

pub mod advice;
mod affinity;
mod bound;
pub mod cgroup;
pub mod file_cache;
mod frames;
pub mod heard;
pub mod hot;
pub mod load;
mod machine;
mod moving;
pub mod nodes;
pub mod own;
mod pagemap;
pub mod patience;
mod placing;
pub mod policy;
mod populated;
pub mod pressure;
pub mod probes;
mod process;
pub mod procfs;
pub mod rivals;
pub mod segments;
pub mod select;
pub mod sysfs;
pub mod trouble;
pub mod users;
mod watch;

pub use machine::Linux;
pub use placing::notes::Undone;

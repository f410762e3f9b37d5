//! The machine contract on a stock Linux kernel.

#[allow(unsafe_code, reason = "the one room that speaks to the kernel")]
mod sys;

pub mod advice;
pub mod cgroup;
pub mod file_cache;
mod frames;
pub mod hot;
pub mod load;
mod machine;
mod moving;
pub mod nodes;
pub mod own;
mod pagemap;
pub mod policy;
mod populated;
pub mod pressure;
pub mod probes;
mod process;
pub mod procfs;
pub mod select;
pub mod sysfs;
pub mod trouble;
pub mod users;

pub use machine::Linux;

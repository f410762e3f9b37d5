//! The machine contract on a stock Linux kernel.

#[allow(unsafe_code, reason = "the one room that speaks to the kernel")]
mod sys;

mod frames;
mod machine;
mod moving;
mod pagemap;
mod process;
pub mod own;
pub mod policy;
pub mod procfs;

pub use machine::Linux;

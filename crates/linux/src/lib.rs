//! The machine contract on a stock Linux kernel.

pub mod sysfs;

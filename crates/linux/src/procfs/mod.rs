//! Readers of /proc. Each takes the root under which `proc` lies, so that captured trees can be
//! read.

pub mod cpu_time;
pub mod identity;
pub mod maps;
pub mod numa_maps;
pub mod privileges;
pub mod smaps;
pub mod stat;
pub mod status;
pub mod swaps;
pub mod zoneinfo;

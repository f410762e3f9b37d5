//! Runs a stock Linux kernel on an emulated machine with several memory nodes, on any host: kernels
//! from Debian's archive, in QEMU without hardware acceleration, restored from snapshots in a
//! fraction of a second.
//!
//! ```no_run
//! use nodeward_lab::{Lab, Run, Scenario};
//!
//! let lab = Lab::open()?;
//! let run = Run::new(Scenario::find("four-nodes-hole")?, ["numactl", "--hardware"]);
//! let finished = lab.run(&run)?;
//! assert_eq!(finished.code, 0);
//! # Ok::<(), anyhow::Error>(())
//! ```

#![forbid(unsafe_code)]

mod agent;
mod apt;
mod cache;
mod count;
mod cpio;
mod drivers;
mod initramfs;
mod kernel;
mod lab;
mod layout;
mod libraries;
mod monitor;
mod payload;
pub mod qemu;
mod ram;
mod run;
pub mod scenario;
pub mod shell;
mod snapshot;
mod store;
mod unpack;
mod vm;

pub use cache::Cache;
pub use count::Count;
pub use kernel::Kernel;
pub use lab::{Lab, for_counting_test, for_test, scenario};
pub use payload::GuestFile;
pub use run::{Ended, Finished, Run, Sinks, TIMED_OUT};
pub use scenario::Scenario;

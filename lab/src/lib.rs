//! Runs a stock Linux kernel on an emulated machine with several memory nodes, on any host: kernels
//! from Debian's archive, in QEMU without hardware acceleration, restored from snapshots in a
//! fraction of a second.
//!
//! ```no_run
//! use nodeward_lab::{GuestRun, Lab, LabMachine};
//!
//! let lab = Lab::open()?;
//! let run = GuestRun::new(LabMachine::find("four-nodes-hole")?, ["numactl", "--hardware"]);
//! let finished = lab.run(&run)?;
//! assert_eq!(finished.code, 0);
//! # Ok::<(), anyhow::Error>(())
//! ```

#![forbid(unsafe_code)]

mod apt;
mod artifacts;
mod boot_image;
mod cache;
mod console;
mod count;
mod cpio;
mod initramfs;
mod kernel;
mod kernel_modules;
mod lab;
mod layout;
mod libraries;
mod memory_files;
mod monitor;
mod payload;
pub mod qemu;
mod run;
pub mod scenario;
pub mod shell;
mod snapshot;
mod store;
mod test_kernels;
mod vm;

pub use cache::LabCache;
pub use console::unless_emulator_crashes;
pub use count::{CountOptions, OLD_MISS};
pub use kernel::GuestKernel;
pub use lab::{Lab, open_for_counting_test, open_for_test, scenario};
pub use payload::GuestFile;
pub use run::{GuestRun, RunExit, RunOutput, Sinks, TIMED_OUT};
pub use scenario::LabMachine;
pub use test_kernels::{is_every_case_wanted, is_every_kernel_wanted};

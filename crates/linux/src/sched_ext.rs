//! Schedulers of sched_ext, as the kernel tells of them in /sys/kernel/sched_ext.

use std::path::Path;

use crate::kernel_file;

/// The name of nodeward's own, as the kernel tells it.
pub const OWN_SCHEDULER: &str = "nodeward_homes";

/// What sched_ext does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedExtState {
    /// The kernel does not have it.
    Absent,
    /// No scheduler is loaded.
    Disabled,
    /// A scheduler is loaded, or on its way.
    Loaded {
        /// The kernel's word for that.
        state: Vec<u8>,
        /// Its name, which others chose; empty while it comes or goes.
        name: Vec<u8>,
    },
}

impl SchedExtState {
    /// Reads it from the files below `root`.
    pub fn read(root: &Path) -> Self {
        let directory = root.join("sys/kernel/sched_ext");
        let read = |file: &str| {
            let text = kernel_file::read(directory.join(file)).ok()?;
            Some(text.trim_ascii().to_owned())
        };
        match read("state") {
            None => Self::Absent,
            Some(state) if state == b"disabled" => Self::Disabled,
            Some(state) => Self::Loaded { state, name: read("root/ops").unwrap_or_default() },
        }
    }
}

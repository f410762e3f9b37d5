//! What is compared, and how much of it.

use nodeward_lab::Kernel;

use crate::balancers::Contender;
use crate::workloads::Workload;

/// A comparison.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What runs.
    pub workloads: Vec<Workload>,
    /// What balances it.
    pub contenders: Vec<Contender>,
    /// How often each runs under each.
    pub repeats: u32,
    /// How much memory a process has, in bytes.
    pub size_bytes: u64,
    /// How often it is gone through.
    pub passes: u64,
    /// What the guest runs.
    pub kernel: Kernel,
    /// The size of each node's last-level cache, in bytes.
    pub llc_bytes: u64,
    /// What a miss takes at home on the machine that is meant, in nanoseconds. One in memory of
    /// another node takes longer by the distance, and that is waited for.
    pub price_ns: u64,
}

//! The settings of a comparison.

use std::time::Duration;

use anyhow::Result;
use nodeward_lab::{CountOptions, GuestFile, GuestKernel, GuestRun, LabMachine};

use crate::balancers::BalancerSetup;
use crate::workloads::LabWorkload;

/// A comparison.
#[derive(Clone, Debug)]
pub struct CompareSettings {
    /// The workloads.
    pub workloads: Vec<LabWorkload>,
    /// The balancers.
    pub balancers: Vec<BalancerSetup>,
    /// Number of runs of each workload under each balancer.
    pub repeats: u32,
    /// Maximum time that daemons run before tasks begin, in nanoseconds.
    pub lead_ns: u64,
    /// Memory per process, in bytes.
    pub size_bytes: u64,
    /// Number of passes over the memory.
    pub passes: u64,
    /// The guest's kernel.
    pub kernel: GuestKernel,
    /// Size of each node's last-level cache, in bytes.
    pub llc_bytes: u64,
    /// Local latency of a miss on the modelled machine, in nanoseconds. A remote miss takes longer
    /// by the distance, and the CPU is delayed by the difference.
    pub miss_delay_ns: u64,
    /// True if the host gives the guest all of its memory before the run, so that no access waits
    /// for it. That takes seconds, and is for runs whose times are compared.
    pub populate: bool,
}

impl CompareSettings {
    /// Returns a run in a guest that is counted as the settings say.
    ///
    /// # Errors
    /// If the lab has no such machine.
    pub fn guest_run(
        &self,
        workload: &LabWorkload,
        files: Vec<GuestFile>,
        timeout: Duration,
        command: [String; 2],
    ) -> Result<GuestRun> {
        let count = CountOptions {
            llc_bytes: self.llc_bytes,
            miss_delay_ns: self.miss_delay_ns,
            ..CountOptions::default()
        };
        Ok(GuestRun {
            kernel: self.kernel.clone(),
            files,
            timeout,
            populate: self.populate,
            count: Some(count),
            ..GuestRun::new(LabMachine::of(workload.scenario.clone())?, command)
        })
    }

    /// Returns the time that a daemon runs before the tasks of a repeat begin, in milliseconds. A
    /// daemon samples periodically, and tasks may begin at any time: the repeats are spread evenly
    /// over the whole time.
    pub fn lead_ms(&self, contender: &BalancerSetup, repeat: u32) -> u64 {
        if !contender.is_daemon {
            return 0;
        }
        let (halves, all) = (2 * u64::from(repeat) + 1, 2 * u64::from(self.repeats));
        self.lead_ns * halves / all / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::sample;

    /// Goal: tasks begin at any time between two samples of a daemon, and without a daemon there is
    /// no wait.
    #[test]
    fn leads_are_spread_over_the_time() {
        let settings = CompareSettings { lead_ns: 15_000_000_000, repeats: 5, ..sample().0 };
        let leads = |name: &str| {
            let of_name = |one: &&BalancerSetup| one.balancer.name == name;
            let contender = settings.balancers.iter().find(of_name).unwrap();
            [0, 1, 4].map(|repeat| settings.lead_ms(contender, repeat))
        };
        // Fifths of 15 s, from the middle of each: 1.5, 4.5, ... 13.5 s.
        assert_eq!(leads("numad"), [1500, 4500, 13_500]);
        assert_eq!(leads("nodeward"), leads("numad"));
        assert_eq!(leads("kernel"), [0; 3]);
    }
}

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
    /// Daemons run for up to so long before tasks begin, in nanoseconds.
    pub lead_ns: u64,
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

impl Settings {
    /// How long a daemon runs before the tasks of a repeat begin, in milliseconds. It looks now and
    /// then, and tasks begin whenever they do: the repeats are spread evenly over the whole time.
    pub fn lead_ms(&self, contender: &Contender, repeat: u32) -> u64 {
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

    /// Goal: tasks come at any time between two looks of a daemon, and nobody else waits.
    #[test]
    fn leads_are_spread_over_the_time() {
        let settings = Settings { lead_ns: 15_000_000_000, repeats: 5, ..sample().0 };
        let leads = |name: &str| {
            let of_name = |one: &&Contender| one.balancer.name == name;
            let contender = settings.contenders.iter().find(of_name).unwrap();
            [0, 1, 4].map(|repeat| settings.lead_ms(contender, repeat))
        };
        // Fifths of 15 s, from the middle of each: 1.5, 4.5, ... 13.5 s.
        assert_eq!(leads("numad"), [1500, 4500, 13_500]);
        assert_eq!(leads("nodeward"), leads("numad"));
        assert_eq!(leads("kernel"), [0; 3]);
    }
}

//! Reads /proc/stat: the busy and idle time of each CPU.

use std::collections::BTreeMap;
use std::path::Path;

use nodeward_machine::{Error, Result};
use nodeward_model::CpuId;

use crate::kernel_file;

/// Time of a CPU since the boot, in clock ticks (usually of 10 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time in which it worked, or in which the host ran another guest on it.
    pub busy_ticks: u64,
    /// Time in which it was idle.
    pub idle_ticks: u64,
}

/// Returns the times of every online CPU. Cost: one file, which grows with the number of CPUs and
/// of interrupts.
pub fn read(root: &Path) -> Result<BTreeMap<CpuId, CpuTime>> {
    let path = root.join("proc/stat");
    match kernel_file::read_to_string(&path) {
        Ok(text) => Ok(parse(&text)),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// Parses lines `cpuN user nice system idle iowait irq softirq steal ...`; other lines are ignored.
fn parse(text: &str) -> BTreeMap<CpuId, CpuTime> {
    text.lines().filter_map(cpu_line).collect()
}

fn cpu_line(line: &str) -> Option<(CpuId, CpuTime)> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = CpuId(words.next()?.parse().ok()?); // nothing, in the line of all CPUs together
    // The time of this machine's guests (the fields after these) is included in the first two.
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let idle_ticks = ticks.get(3..5)?.iter().sum();
    let busy_ticks = ticks.iter().sum::<u64>() - idle_ticks;
    Some((cpu, CpuTime { busy_ticks, idle_ticks }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: busy and idle time are told apart, and the line of all CPUs together is not a CPU.
    #[test]
    fn every_cpu_has_its_line() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 20 4 5 6 7 8\ncpu12 1 0 0 5 0\nintr 5\n";
        let first = CpuTime { busy_ticks: 1 + 2 + 3 + 4 + 5 + 6, idle_ticks: 120 };
        let second = CpuTime { busy_ticks: 1, idle_ticks: 5 };
        assert_eq!(parse(text), [(CpuId(0), first), (CpuId(12), second)].into());
        assert!(parse("cpu0\ncpu1 1 2\ncpux 1 2 3 4 5\n").is_empty());
    }

    #[test]
    fn the_real_file_has_the_cpu_that_we_run_on() {
        let times = read(Path::new("/")).unwrap();
        assert!(times.contains_key(&crate::own_process::current_cpu()));
    }
}

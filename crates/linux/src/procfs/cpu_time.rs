//! Reads the busy and idle time of each CPU (/proc/stat), and the idle time of all (/proc/uptime).

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

/// Returns the time for which CPUs were idle since the boot, all together; `None` if it cannot be
/// read. Cost: one file of a line.
pub fn idle_ns(root: &Path) -> Option<u64> {
    parse_uptime(&kernel_file::read_to_string(root.join("proc/uptime")).ok()?)
}

/// Parses `UPTIME IDLE`, both in seconds with two decimals.
fn parse_uptime(text: &str) -> Option<u64> {
    let (seconds, hundredths) = text.split_ascii_whitespace().nth(1)?.split_once('.')?;
    let hundredths = hundredths.parse::<u64>().ok().filter(|_| hundredths.len() == 2)?;
    let whole_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    whole_ns.checked_add(hundredths * 10_000_000)
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

    /// Goal: the second number is read to the hundredth; anything else is no idle time.
    #[test]
    fn idle_time_is_the_second_number() {
        assert_eq!(parse_uptime("350735.47 234388.90\n"), Some(234_388_900_000_000));
        for odd in ["", "1.00\n", "1.00 2\n", "1.00 2.5\n", "1.00 -2.50\n", "1.00 2.x0\n"] {
            assert_eq!(parse_uptime(odd), None, "{odd}");
        }
        assert_eq!(parse_uptime(&format!("1.00 {}.00\n", u64::MAX)), None);
    }

    /// Goal: no CPU is idle for longer than time passes.
    #[test]
    fn real_idle_time_fits_the_time() {
        let started = std::time::Instant::now();
        let before = idle_ns(Path::new("/")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let idle_ns = idle_ns(Path::new("/")).unwrap() - before;
        let cpus = read(Path::new("/")).unwrap().len() as u64;
        let most_ns = (started.elapsed().as_nanos() as u64 + 20_000_000) * cpus; // rounded twice
        assert!(idle_ns <= most_ns, "{idle_ns} of {most_ns}");
    }

    #[test]
    fn the_real_file_has_the_cpu_that_we_run_on() {
        let times = read(Path::new("/")).unwrap();
        assert!(times.contains_key(&crate::own_process::current_cpu()));
    }
}

//! /proc/PID/task/TID/stat: CPU time of a thread and the CPU it ran on last.

use nodeward_model::CpuId;

/// What is read of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// CPU time in user and kernel mode, in clock ticks.
    pub cpu_time_ticks: u64,
    /// The CPU it ran on last.
    pub cpu: CpuId,
}

/// Reads the text of a stat file; `None` if it does not look like one.
pub fn parse(text: &str) -> Option<Stat> {
    // The name in brackets may hold anything, so fields are counted from its last bracket on; the
    // first one behind it is field 3 of proc_pid_stat(5).
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let cpu = u32::try_from(field(39)?).ok()?;
    Some(Stat { cpu_time_ticks: field(14)? + field(15)?, cpu: CpuId(cpu) })
}

/// CPU time in nanoseconds from the text of a schedstat file, which kernels without scheduler
/// statistics do not have.
pub fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_moves_no_field() {
        // Fields 3 to 39 are numbered by themselves, so that what is read names its place.
        let fields: Vec<String> = (4..=39).map(|n| n.to_string()).collect();
        let text = format!("77 (a) R (b) S {}\n", fields.join(" "));
        assert_eq!(parse(&text), Some(Stat { cpu_time_ticks: 14 + 15, cpu: CpuId(39) }));
        assert_eq!(parse("77 (a) S 1 2"), None);
    }

    #[test]
    fn schedstat_begins_with_nanoseconds_on_cpu() {
        assert_eq!(parse_schedstat("12345 678 9\n"), Some(12345));
        assert_eq!(parse_schedstat(""), None);
    }
}

//! /proc/PID/stat and /proc/PID/task/TID/stat: what the kernel notes about a thread, its CPU time
//! and the CPU it ran on last.

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
    let cpu = u32::try_from(field(text, 39)?).ok()?;
    Some(Stat { cpu_time_ticks: field(text, 14)? + field(text, 15)?, cpu: CpuId(cpu) })
}

/// CPU time in user mode and in kernel mode, in clock ticks; `None` if the text does not look like
/// a stat file. That of a process has the time of all its threads.
pub fn parse_modes(text: &str) -> Option<(u64, u64)> {
    Some((field(text, 14)?, field(text, 15)?))
}

/// The same of the children that ended and were waited for.
pub fn parse_modes_of_ended_children(text: &str) -> Option<(u64, u64)> {
    Some((field(text, 16)?, field(text, 17)?))
}

/// The kernel's flags of a thread (`PF_*` in include/linux/sched.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u64);

impl Flags {
    /// From the text of a stat file; `None` if it does not look like one.
    pub fn parse(text: &str) -> Option<Self> {
        field(text, 9).map(Self)
    }

    /// It belongs to the kernel and has no memory of its own.
    pub fn is_kernel_thread(self) -> bool {
        self.0 & 0x0020_0000 != 0
    }

    /// It is on its way out, and may have let go of its memory already.
    pub fn is_exiting(self) -> bool {
        self.0 & 0x4 != 0
    }
}

/// When a process began, in clock ticks after the boot, from the text of its stat file.
pub fn parse_start(text: &str) -> Option<u64> {
    field(text, 22)
}

/// A field by its number in proc_pid_stat(5). The name in brackets may hold anything, so fields are
/// counted from its last bracket on; the first one behind it is field 3.
fn field(text: &str, number: usize) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
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
        assert_eq!(parse_start(&text), Some(22));
        assert_eq!(parse_modes(&text), Some((14, 15)));
        assert_eq!(parse_modes_of_ended_children(&text), Some((16, 17)));
        assert_eq!(parse("77 (a) S 1 2"), None);
    }

    #[test]
    fn flags_are_those_of_the_kernel() {
        let flags = |number: u64| Flags::parse(&format!("2 (a ) b) S 0 0 0 0 -1 {number} 0 0"));
        assert!(flags(0x0020_8040).unwrap().is_kernel_thread());
        assert!(flags(0x0040_0004).unwrap().is_exiting());
        let plain = flags(0x0040_0100).unwrap();
        assert!(!plain.is_kernel_thread() && !plain.is_exiting());
        for odd in ["", "2 (x)", "2 (x) S 0", "2 x S 0 0 0 0 -1 4", "2 (x) S 0 0 0 0 -1 four"] {
            assert_eq!(Flags::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn schedstat_begins_with_nanoseconds_on_cpu() {
        assert_eq!(parse_schedstat("12345 678 9\n"), Some(12345));
        assert_eq!(parse_schedstat(""), None);
    }
}

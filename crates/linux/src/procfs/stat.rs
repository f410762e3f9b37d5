//! Reads /proc/PID/stat and /proc/PID/task/TID/stat: the state of a thread, its CPU time and the
//! CPU it ran on last.

use bstr::ByteSlice as _;
use nodeward_model::CpuId;
use nodeward_model::mask::Id;

use super::parse_trimmed;

/// The fields of the file that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskStat {
    /// The state: `R` runs or waits for a CPU, `S` and `D` sleep, `Z` has exited.
    pub state: char,
    /// The kernel's flags.
    pub flags: TaskFlags,
    /// CPU time in user and kernel mode, in clock ticks.
    pub cpu_time_ticks: u64,
    /// CPU time of the children that exited and were waited for, in clock ticks.
    pub children_cpu_time_ticks: u64,
    /// The number of threads of its process.
    pub threads: usize,
    /// The start time, in clock ticks after the boot.
    pub started_ticks: u64,
    /// True if it has an address space: kernel threads and exited processes do not.
    pub has_memory: bool,
    /// Pages of its process in RAM.
    pub resident_pages: u64,
    /// The CPU it ran on last.
    pub cpu: CpuId,
}

/// Parses the bytes of a stat file; names need not be UTF-8. `None` if it is invalid.
pub fn parse(bytes: &[u8]) -> Option<TaskStat> {
    let end = bytes.iter().rposition(|&byte| byte == b')')?;
    let mut words = bytes[end + 1..].split(|&byte| byte == b' ').skip(1);
    let state = char::from(*words.next()?.first()?);
    // Fields 4 to 39, by their numbers in proc_pid_stat(5).
    let mut fields = [0; 40];
    for (number, word) in (4..40).zip(words) {
        fields[number] = digits(word);
        if number == 39 {
            return Some(TaskStat {
                state,
                flags: TaskFlags(fields[9]),
                cpu_time_ticks: fields[14].saturating_add(fields[15]),
                children_cpu_time_ticks: fields[16].saturating_add(fields[17]),
                threads: usize::try_from(fields[20]).unwrap_or(usize::MAX),
                started_ticks: fields[22],
                has_memory: fields[23] > 0,
                resident_pages: fields[24],
                cpu: CpuId(u32::try_from(fields[39]).ok().filter(|&cpu| cpu < CpuId::LIMIT)?),
            });
        }
    }
    None
}

/// Parses the number at the start of a word; 0 for a negative one, of which none is used.
fn digits(word: &[u8]) -> u64 {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u64, byte| sum.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')))
}

/// Returns the name in a stat file: at most 15 bytes, more for a kernel thread.
pub fn name(bytes: &[u8]) -> Option<&[u8]> {
    let start = bytes.iter().position(|&byte| byte == b'(')? + 1;
    let end = bytes.iter().rposition(|&byte| byte == b')')?;
    bytes.get(start..end)
}

/// Parses the CPU time in user mode and in kernel mode, in clock ticks; `None` if the text is not a
/// stat file. The file of a process has the time of all its threads.
pub fn parse_cpu_times(text: &[u8]) -> Option<(u64, u64)> {
    Some((field(text, 14)?, field(text, 15)?))
}

/// Parses the same times of the children that exited and were waited for.
pub fn parse_children_cpu_times(text: &[u8]) -> Option<(u64, u64)> {
    Some((field(text, 16)?, field(text, 17)?))
}

/// The kernel's flags of a thread (`PF_*` in include/linux/sched.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskFlags(u64);

impl TaskFlags {
    /// Parses the flags of a stat file; `None` if it is invalid.
    pub fn parse(text: &[u8]) -> Option<Self> {
        field(text, 9).map(Self)
    }

    /// Returns true for a kernel thread, which has no memory of its own.
    pub fn is_kernel_thread(self) -> bool {
        self.0 & 0x0020_0000 != 0
    }

    /// Returns true if it is exiting; it may already have released its memory.
    pub fn is_exiting(self) -> bool {
        self.0 & 0x4 != 0
    }
}

/// Parses the start time of a process, in clock ticks after the boot, from its stat file.
pub fn parse_start(text: &[u8]) -> Option<u64> {
    field(text, 22)
}

/// Parses a field by its number in proc_pid_stat(5). The name in brackets may hold any byte, so
/// fields are counted from the last bracket; the first one after it is field 3.
fn field(text: &[u8], number: usize) -> Option<u64> {
    let (_, rest) = text.rsplit_once_str(")")?;
    parse_trimmed(rest.fields_with(char::is_whitespace).nth(number - 3)?)
}

/// Parses the CPU time and the time waiting for a CPU, both in nanoseconds, from the text of a
/// schedstat file, which kernels without scheduler statistics do not have.
pub fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: fields are counted from the last bracket, and each has the right number.
    #[test]
    fn a_name_with_brackets_and_spaces_moves_no_field() {
        // Fields 4 to 39 hold their own numbers, so that each value that is read gives its
        // position.
        let fields: Vec<String> = (4..=39).map(|n| n.to_string()).collect();
        let text = format!("77 (a) R (b) S {}\n", fields.join(" "));
        let text = text.as_bytes();
        let stat = TaskStat {
            state: 'S',
            flags: TaskFlags(9),
            cpu_time_ticks: 14 + 15,
            children_cpu_time_ticks: 16 + 17,
            threads: 20,
            started_ticks: 22,
            has_memory: true,
            resident_pages: 24,
            cpu: CpuId(39),
        };
        assert_eq!(parse(text), Some(stat));
        assert_eq!(name(text), Some(&b"a) R (b"[..]));
        assert_eq!(parse_start(text), Some(22));
        assert_eq!(parse_cpu_times(text), Some((14, 15)));
        assert_eq!(parse_children_cpu_times(text), Some((16, 17)));
        assert_eq!(parse(b"77 (a) S 1 2"), None);
    }

    proptest! {
        /// Goal: any bytes are parsed or refused; a name that is not UTF-8 shifts no field.
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            comm in proptest::collection::vec(any::<u8>(), 0..15),
        ) {
            parse(&bytes);
            name(&bytes);
            let zeros = ["0"; 36].join(" ");
            let text = [b"1 (", &comm[..], b") Z ", zeros.as_bytes()].concat();
            prop_assert_eq!(parse(&text).map(|stat| stat.state), Some('Z'));
            prop_assert_eq!(name(&text), Some(&comm[..]));
        }
    }

    #[test]
    fn flags_are_those_of_the_kernel() {
        let flags = |number: u64| {
            TaskFlags::parse(format!("2 (a ) b) S 0 0 0 0 -1 {number} 0 0").as_bytes())
        };
        assert!(flags(0x0020_8040).unwrap().is_kernel_thread());
        assert!(flags(0x0040_0004).unwrap().is_exiting());
        let plain = flags(0x0040_0100).unwrap();
        assert!(!plain.is_kernel_thread() && !plain.is_exiting());
        for odd in ["", "2 (x)", "2 (x) S 0", "2 x S 0 0 0 0 -1 4", "2 (x) S 0 0 0 0 -1 four"] {
            assert_eq!(TaskFlags::parse(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn schedstat_begins_with_nanoseconds_on_cpu_and_in_line() {
        assert_eq!(parse_schedstat("12345 678 9\n"), Some((12345, 678)));
        for odd in ["", "12345", "12345 many", "- 678 9"] {
            assert_eq!(parse_schedstat(odd), None, "{odd}");
        }
    }
}

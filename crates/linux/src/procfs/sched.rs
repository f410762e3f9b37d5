//! Reads /proc/PID/task/TID/sched: what the kernel's NUMA balancing has done for a thread.
//!
//! The lines are `NAME : NUMBER` with blanks around the colon (sched_show_numa in the kernel). The
//! file needs `CONFIG_SCHED_DEBUG` before Linux 6.15, the lines need `CONFIG_NUMA_BALANCING`.

use std::str::FromStr;

use bstr::ByteSlice as _;
use nodeward_model::mask::Id as _;
use nodeward_model::{NodeId, NumaActivity};

use super::{lines, parse_trimmed};

/// Parses the bytes of the file; `None` if the lines are not there or invalid. The count is of
/// hint faults of this thread, in base pages; move_pages(2) does not change it.
pub fn numa_activity(bytes: &[u8]) -> Option<NumaActivity> {
    let preferred: i64 = field(bytes, "numa_preferred_nid")?;
    let node = u32::try_from(preferred).ok().filter(|&node| node < NodeId::LIMIT);
    Some(NumaActivity {
        migrated_pages: field(bytes, "numa_pages_migrated")?,
        preferred_node: node.map(NodeId),
    })
}

/// Returns the number of the line of that name. The file begins with the thread's name, which may
/// have any bytes, but at most 15: too few for the names that are looked for.
fn field<T: FromStr>(bytes: &[u8], name: &str) -> Option<T> {
    lines(bytes).find_map(|line| {
        let (found, number) = line.split_once_str(":")?;
        (found.trim_ascii() == name.as_bytes()).then(|| parse_trimmed(number))?
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// As Linux 6.18 writes it, with the lines in between left out.
    fn text(name: &str, migrated: &str, preferred: &str) -> String {
        format!(
            "{name} (29240, #threads: 1)\n\
             -------------------------------------------------------------------\n\
             se.exec_start                                :       1179551.605912\n\
             clock-delta                                  :                   60\n\
             mm->numa_scan_seq                            :                    4\n\
             numa_pages_migrated                          :{migrated:>21}\n\
             numa_preferred_nid                           :{preferred:>21}\n\
             total_numa_faults                            :                  512\n\
             current_node=0, numa_group_id=0\n\
             numa_faults node=0 task_private=9 task_shared=0 group_private=9 group_shared=0\n"
        )
    }

    fn read(text: &str) -> Option<(u64, Option<u32>)> {
        let found = numa_activity(text.as_bytes())?;
        Some((found.migrated_pages, found.preferred_node.map(|node| node.0)))
    }

    /// Goal: count and node are read; -1 is no node.
    #[test]
    fn a_thread_is_told() {
        assert_eq!(read(&text("cat", "65537", "1")), Some((65_537, Some(1))));
        assert_eq!(read(&text("cat", "0", "-1")), Some((0, None)));
        assert_eq!(read(&text("cat", "0", "4294967296")), Some((0, None)), "no node has it");
    }

    /// Goal: a kernel without the balancing, an empty file of a thread that is exiting and damaged
    /// numbers tell nothing.
    #[test]
    fn nothing_is_made_up() {
        let without = "cat (7, #threads: 1)\n---\nclock-delta  :  60\n";
        for text in
            ["", without, &text("cat", "x", "1"), &text("cat", "1", ""), &text("", "-1", "0")]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// Goal: a thread whose name looks like a line of the file changes nothing.
    #[test]
    fn names_are_no_lines() {
        for name in ["numa_pages_migr", "\nnuma_preferred", ": 9\n: 9\n: 9\n:"] {
            assert_eq!(read(&text(name, "3", "0")), Some((3, Some(0))), "{name:?}");
        }
    }

    proptest! {
        /// Goal: any bytes are parsed or refused.
        #[test]
        fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..200)) {
            numa_activity(&bytes);
        }
    }
}

//! Reads /proc/PID/status: name, user and memory of a process.

use bstr::ByteSlice as _;
use nodeward_model::{Name, Nodemask};

use super::{lines, parse_trimmed};

/// The fields of the file that are used; a field that the kernel does not write is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The name, as the kernel keeps it.
    pub name: Name,
    /// The effective user id.
    pub user: Option<u32>,
    /// The nodes that its cpuset allows; missing on kernels without cpusets.
    pub memory_nodes: Option<Nodemask>,
    /// All memory in use, in bytes; missing for kernel threads and for zombies.
    pub rss_bytes: Option<u64>,
    /// Anonymous memory, in bytes.
    pub rss_anon_bytes: Option<u64>,
    /// Shared memory, in bytes.
    pub rss_shmem_bytes: Option<u64>,
    /// Huge pages of hugetlb pools, in bytes; not part of `rss_bytes`.
    pub hugetlb_bytes: Option<u64>,
    /// Anonymous memory in swap, in bytes.
    pub swap_bytes: Option<u64>,
    /// Memory that devices have pinned for long (RDMA, io_uring), in bytes. vfio counts its own as
    /// locked instead.
    pub pinned_bytes: Option<u64>,
}

impl Status {
    /// Returns the bytes of memory that is not a mapped file; all memory on kernels that do not
    /// tell the kinds apart (before 4.5).
    pub fn non_file_bytes(&self) -> u64 {
        let own = self.rss_anon_bytes.map(|anon| anon + self.rss_shmem_bytes.unwrap_or(0));
        own.or(self.rss_bytes).unwrap_or(0) + self.hugetlb_bytes.unwrap_or(0)
    }

    /// Returns true if it has memory of its own: kernel threads and zombies have none.
    pub fn has_memory(&self) -> bool {
        self.rss_bytes.is_some()
    }
}

/// Parses the bytes of a status file; unknown lines are ignored.
pub fn parse(bytes: &[u8]) -> Status {
    let mut status = Status::default();
    for (key, value) in lines(bytes).filter_map(|line| line.split_once_str(":")) {
        match key {
            b"Name" => status.name = unescape_name(value.strip_prefix(b"\t").unwrap_or(value)),
            b"Uid" => {
                status.user = value.fields_with(char::is_whitespace).nth(1).and_then(parse_trimmed);
            }
            b"Mems_allowed_list" => status.memory_nodes = parse_trimmed(value),
            b"VmRSS" => status.rss_bytes = kibibytes(value),
            b"RssAnon" => status.rss_anon_bytes = kibibytes(value),
            b"RssShmem" => status.rss_shmem_bytes = kibibytes(value),
            b"VmSwap" => status.swap_bytes = kibibytes(value),
            b"VmPin" => status.pinned_bytes = kibibytes(value),
            b"HugetlbPages" => status.hugetlb_bytes = kibibytes(value),
            _ => {}
        }
    }
    status
}

/// Parses `  100 kB` to bytes.
pub(crate) fn kibibytes(value: &[u8]) -> Option<u64> {
    parse_trimmed::<u64>(value.trim_ascii().strip_suffix(b"kB")?)?.checked_mul(1024)
}

/// Decodes a name: in this file, and in no other, the kernel writes a line feed as `\n` and a
/// backslash as two.
fn unescape_name(escaped: &[u8]) -> Name {
    let mut name = Vec::with_capacity(escaped.len());
    let mut rest = escaped.iter();
    while let Some(&byte) = rest.next() {
        name.push(match byte {
            b'\\' => match rest.next() {
                Some(b'n') => b'\n',
                Some(&other) => other,
                None => byte, // the kernel had no room for the other half
            },
            byte => byte,
        });
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn own_memory_leaves_mapped_files_out() {
        let text = "Name:\ta:b c\nUid:\t1\t2\t3\t4\nMems_allowed_list:\t0-1,3\n\
                    VmRSS:\t     100 kB\nRssAnon:\t      60 kB\nRssFile:\t  30 kB\n\
                    RssShmem:\t      10 kB\nVmPin:\t   8 kB\nHugetlbPages:\t    2048 kB\n";
        let status = parse(text.as_bytes());
        assert_eq!(status.name, "a:b c");
        assert_eq!(status.user, Some(2), "the second of four is the effective one");
        assert_eq!(status.memory_nodes.as_ref().unwrap().to_string(), "0-1,3");
        assert_eq!(status.non_file_bytes(), (60 + 10 + 2048) * 1024);
        assert_eq!(status.pinned_bytes, Some(8192));
        assert!(status.has_memory());
    }

    proptest! {
        /// Goal: any name is decoded to the bytes that the kernel holds, and shifts no line after
        /// it.
        #[test]
        fn any_name_is_read(comm in proptest::collection::vec(1..=u8::MAX, 0..15)) {
            // The format of proc_task_name in fs/proc/array.c.
            let escaped = comm.replace("\\", "\\\\").replace("\n", "\\n");
            let text = [b"Name:\t", &escaped[..], b"\nVmRSS:\t  4 kB\n"].concat();
            let status = parse(&text);
            prop_assert_eq!(status.name.as_bytes(), comm);
            prop_assert_eq!(status.rss_bytes, Some(4096));
        }

        /// Goal: any bytes are parsed or ignored.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }
    }

    #[test]
    fn a_kernel_thread_has_no_memory() {
        let status = parse(b"Name:\tkswapd0\nState:\tS (sleeping)\nThreads:\t1\n");
        assert!(!status.has_memory() && status.non_file_bytes() == 0);
    }
}

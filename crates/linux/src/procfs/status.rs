//! /proc/PID/status: name, user and memory of a process.

use nodeward_model::Nodemask;

/// What is read of the file; a field that the kernel does not write is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The name, as the kernel keeps it.
    pub name: String,
    /// The user that it runs as (effective).
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
}

impl Status {
    /// Memory that is not a mapped file, in bytes; all of it on kernels that do not tell (before
    /// 4.5).
    pub fn own_bytes(&self) -> u64 {
        let own = self.rss_anon_bytes.map(|anon| anon + self.rss_shmem_bytes.unwrap_or(0));
        own.or(self.rss_bytes).unwrap_or(0) + self.hugetlb_bytes.unwrap_or(0)
    }

    /// Whether it has memory of its own at all: kernel threads and zombies have none.
    pub fn has_memory(&self) -> bool {
        self.rss_bytes.is_some()
    }
}

/// Reads the text of a status file; lines that are not known are passed over.
pub fn parse(text: &str) -> Status {
    let mut status = Status::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        match key {
            "Name" => status.name = value.trim().to_owned(),
            "Uid" => {
                let mut users = value.split_ascii_whitespace().skip(1);
                status.user = users.next().and_then(|user| user.parse().ok());
            }
            "Mems_allowed_list" => status.memory_nodes = value.trim().parse().ok(),
            "VmRSS" => status.rss_bytes = kibibytes(value),
            "RssAnon" => status.rss_anon_bytes = kibibytes(value),
            "RssShmem" => status.rss_shmem_bytes = kibibytes(value),
            "HugetlbPages" => status.hugetlb_bytes = kibibytes(value),
            _ => {}
        }
    }
    status
}

fn kibibytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_leaves_mapped_files_out() {
        let text = "Name:\ta:b c\nUid:\t1\t2\t3\t4\nMems_allowed_list:\t0-1,3\n\
                    VmRSS:\t     100 kB\nRssAnon:\t      60 kB\nRssFile:\t  30 kB\n\
                    RssShmem:\t      10 kB\nHugetlbPages:\t    2048 kB\n";
        let status = parse(text);
        assert_eq!(status.name, "a:b c");
        assert_eq!(status.user, Some(2), "the second of four is the effective one");
        assert_eq!(status.memory_nodes.as_ref().unwrap().to_string(), "0-1,3");
        assert_eq!(status.own_bytes(), (60 + 10 + 2048) * 1024);
        assert!(status.has_memory());
    }

    #[test]
    fn a_kernel_thread_has_no_memory() {
        let status = parse("Name:\tkswapd0\nState:\tS (sleeping)\nThreads:\t1\n");
        assert!(!status.has_memory() && status.own_bytes() == 0);
    }
}

//! The kernel's memory policies of a thread and of a mapping, which choose the node of new memory.

use std::io;
use std::ops::Range;

use nodeward_model::{NodeId, Nodemask};

use crate::sys::mempolicy;

/// Nodes that a kernel can have (MAX_NUMNODES).
const NODES_MAX: usize = 1024;

/// Restricts memory that the calling thread (and threads that it starts later) touches first to
/// these nodes. Existing pages stay where they are.
///
/// # Errors
/// `InvalidInput` if a node does not exist or the cpuset forbids all of them.
pub fn bind_memory(nodes: &Nodemask) -> io::Result<()> {
    mempolicy::set_mempolicy(mempolicy::BIND, &words(nodes))
}

/// Prefers a node, while it has free memory, for memory that the calling thread touches first.
/// Allocates nothing.
///
/// # Errors
/// `InvalidInput` if the node does not exist or the cpuset forbids it.
pub fn prefer_memory(node: NodeId) -> io::Result<()> {
    let mut words = [0; NODES_MAX / 64];
    let last = node.0 as usize / 64;
    let word = words.get_mut(last).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (node.0 % 64);
    mempolicy::set_mempolicy(mempolicy::PREFERRED, &words[..=last])
}

/// Takes memory that the calling thread touches first from the node of its CPU, as the kernel does
/// by default. But it is a policy, and the kernel's NUMA balancing leaves threads with a policy
/// alone: neither their pages are unmapped to see who uses them, nor do they move. Threads and
/// programs that the thread starts inherit it.
///
/// # Errors
/// `Unsupported` where the kernel has no NUMA support (CONFIG_NUMA).
pub fn local_memory() -> io::Result<()> {
    mempolicy::set_mempolicy(mempolicy::LOCAL, &[])
}

/// Restores the kernel's default: new memory comes from the node of the CPU that touches it first.
pub fn default_memory() -> io::Result<()> {
    mempolicy::set_mempolicy(mempolicy::DEFAULT, &[])
}

/// Returns whether the calling thread has the kernel's default policy; `false` if it cannot be
/// read. Cost: one system call. Allocates nothing.
pub fn is_default() -> bool {
    mempolicy::thread_mode().is_ok_and(|mode| mode == mempolicy::DEFAULT)
}

/// Prefers a node, while it has free memory, for memory of this range that any thread of this
/// process touches first. The range begins at a page boundary.
///
/// # Errors
/// `InvalidInput` if the node does not exist or the cpuset forbids it; EFAULT if a part of the
/// range is not mapped; `Unsupported` where the kernel has no NUMA support (CONFIG_NUMA).
pub fn prefer_memory_at(range: Range<u64>, node: NodeId) -> io::Result<()> {
    mempolicy::mbind(range, mempolicy::PREFERRED, &words(&Nodemask::from_iter([node])))
}

fn words(nodes: &Nodemask) -> Vec<u64> {
    let length = nodes.last().map_or(0, |node| node.0 as usize / 64 + 1);
    let mut words = vec![0; length];
    for node in nodes.iter() {
        words[node.0 as usize / 64] |= 1 << (node.0 % 64);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bit n stands for node n, also beyond the first word.
    #[test]
    fn masks_become_words() {
        assert_eq!(words(&"0,63-64,130".parse().unwrap()), [1 | 1 << 63, 1, 1 << 2]);
        assert!(words(&Nodemask::new()).is_empty());
    }

    /// Goal: the kernel accepts the mask, and refuses a node that does not exist.
    #[test]
    fn the_kernel_understands_the_mask() {
        assert!(is_default());
        bind_memory(&"0".parse().unwrap()).unwrap();
        assert!(!is_default());
        default_memory().unwrap();
        assert!(is_default());
        let missing = bind_memory(&"1023".parse().unwrap()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::InvalidInput);
    }

    /// Goal: the policy of local memory is one that the kernel shows, and is taken back.
    #[test]
    fn local_memory_is_a_policy() {
        let Ok(before) = std::fs::read_to_string("/proc/thread-self/numa_maps") else {
            return eprintln!("skipped: this kernel knows no nodes");
        };
        assert!(before.lines().all(|line| line.contains(" default")), "{before}");
        local_memory().unwrap();
        let during = std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap();
        default_memory().unwrap();
        assert!(during.lines().all(|line| line.contains(" local")), "{during}");
    }

    /// Goal: a range that begins inside a page or is not mapped is refused.
    #[test]
    fn odd_ranges_are_refused() {
        let odd = prefer_memory_at(1..4096, NodeId(0)).unwrap_err();
        assert_eq!(odd.kind(), io::ErrorKind::InvalidInput);
        let nothing = prefer_memory_at(4096..8192, NodeId(0)).unwrap_err();
        assert_eq!(nothing.raw_os_error(), Some(libc::EFAULT));
    }
}

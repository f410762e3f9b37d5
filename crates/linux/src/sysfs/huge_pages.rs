//! The pools of huge pages.

use std::path::Path;

use nodeward_model::NodeId;

use crate::kernel_file;

/// Returns the pages of `bytes` bytes that a node's pool could give to a move: its free pages,
/// limited by the unreserved ones, which the kernel counts for all nodes together. `None` if there
/// is no such pool.
pub fn available(root: &Path, node: NodeId, bytes: u64) -> Option<u64> {
    let pool = format!("hugepages/hugepages-{}kB", bytes / 1024);
    let of_node = root.join(format!("sys/devices/system/node/node{node}")).join(&pool);
    let of_all = root.join("sys/kernel/mm").join(&pool);
    let count = |folder: &Path, name| -> Option<u64> {
        kernel_file::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
    };
    let free = count(&of_node, "free_hugepages")?;
    let reserved = count(&of_all, "resv_hugepages").unwrap_or(0);
    let unreserved = count(&of_all, "free_hugepages").map(|all| all.saturating_sub(reserved));
    Some(unreserved.unwrap_or(free).min(free))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Goal: reserved pages are not available to a move, and a pool that does not exist gives
    /// `None`.
    #[test]
    fn what_is_reserved_is_not_free() {
        let root = tempfile::tempdir().unwrap();
        let put = |file: &str, count: u64| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{count}\n")).unwrap();
        };
        let free = |node, bytes| available(root.path(), NodeId(node), bytes);
        put("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", 3);
        put("sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", 40);
        put("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", 43);
        put("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", 35);
        assert_eq!((free(0, 2 << 20), free(1, 2 << 20)), (Some(3), Some(43 - 35)));
        assert_eq!((free(2, 2 << 20), free(0, 1 << 30)), (None, None));
    }
}

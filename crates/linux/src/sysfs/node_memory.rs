//! Reads what the memory of a node is used for.

use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::NodeId;

use super::NODE_DIR;
use super::files::{Dir, ReadBuffer};
use super::nodes::{huge_pools, memory_field};

/// The use of a node's memory, in bytes. The kernel counts some of it in batches for each CPU, so
/// each value may be off by a few hundred KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMemoryUse {
    /// All memory.
    pub total_bytes: u64,
    /// Memory that is not free.
    pub used_bytes: u64,
    /// Anonymous memory of processes.
    pub anonymous_bytes: u64,
    /// Shared memory and files of tmpfs.
    pub shared_bytes: u64,
    /// The page cache of files on disks.
    pub file_bytes: u64,
    /// Pools of huge pages, free ones included.
    pub huge_pages_bytes: u64,
    /// Objects of the kernel (slab).
    pub slab_bytes: u64,
    /// Page tables.
    pub page_tables_bytes: u64,
    /// Stacks of threads in the kernel.
    pub stacks_bytes: u64,
}

impl NodeMemoryUse {
    /// Returns the bytes in use for which the kernel has no count: drivers, data of CPUs, loaded
    /// modules, free pages that CPUs keep.
    pub fn uncounted_bytes(&self) -> u64 {
        let processes = self.anonymous_bytes + self.shared_bytes + self.file_bytes;
        let kernel = self.slab_bytes + self.page_tables_bytes + self.stacks_bytes;
        self.used_bytes.saturating_sub(processes + self.huge_pages_bytes + kernel)
    }
}

/// Returns the use of a node's memory. Fields that a kernel lacks are 0.
///
/// # Errors
/// If the node has no file with these numbers.
pub fn node_memory(root: &Path, node: NodeId) -> Result<NodeMemoryUse> {
    let dir = Dir::open(root.join(NODE_DIR))?;
    let (mut buffer, name) = (ReadBuffer::default(), format!("node{node}/meminfo"));
    let file = dir.require(&name, &mut buffer)?;
    // With the space, because the names of some fields end with those of others.
    let field = |name: &str| Ok(memory_field(&file, &format!(" {name}:"))?.unwrap_or(0));
    let (total_bytes, free_bytes) = (field("MemTotal")?, field("MemFree")?);
    let shared_bytes = field("Shmem")?;
    let mut memory = NodeMemoryUse {
        total_bytes,
        used_bytes: total_bytes.saturating_sub(free_bytes),
        anonymous_bytes: field("AnonPages")?,
        shared_bytes,
        file_bytes: field("FilePages")?.saturating_sub(shared_bytes),
        huge_pages_bytes: 0,
        slab_bytes: field("Slab")?,
        page_tables_bytes: field("PageTables")?.saturating_add(field("SecPageTables")?),
        stacks_bytes: field("KernelStack")?,
    };
    let pools = huge_pools(&dir, node, &mut ReadBuffer::default())?;
    let bytes = pools.iter().map(|pool| pool.page_bytes.saturating_mul(pool.total_pages));
    memory.huge_pages_bytes = bytes.fold(0, u64::saturating_add);
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(meminfo: &str) -> Result<NodeMemoryUse> {
        let root = tempfile::tempdir().unwrap();
        let node = root.path().join(NODE_DIR).join("node1");
        let pool = node.join("hugepages/hugepages-2048kB");
        fs::create_dir_all(&pool).unwrap();
        fs::write(pool.join("nr_hugepages"), "3\n").unwrap();
        fs::write(node.join("meminfo"), meminfo).unwrap();
        node_memory(root.path(), NodeId(1))
    }

    /// Goal: each field is read by its whole name, shared memory is no file, and what is left is
    /// not counted: of 100 MiB in use 20 + 5 + 15 MiB are of processes, 6 MiB in huge pages,
    /// 7 + 3 + 1 MiB of the kernel, so that 43 MiB remain.
    #[test]
    fn the_use_of_a_node() {
        let line = |(name, mib): (&str, u64)| format!("Node 1 {name}: {:>12} kB\n", mib << 10);
        let fields = [
            ("MemTotal", 1000),
            ("MemFree", 900),
            ("SwapCached", 9),
            ("FilePages", 20),
            ("AnonPages", 20),
            ("ShmemHugePages", 4),
            ("Shmem", 5),
            ("KernelStack", 1),
            ("SecPageTables", 1),
            ("PageTables", 2),
            ("Slab", 7),
        ];
        let memory = read(&fields.map(line).concat()).unwrap();
        assert_eq!((memory.used_bytes, memory.file_bytes), (100 << 20, 15 << 20));
        assert_eq!((memory.page_tables_bytes, memory.huge_pages_bytes), (3 << 20, 6 << 20));
        assert_eq!(memory.uncounted_bytes(), 43 << 20);
    }

    /// Goal: nonsense is an error or saturates, and never panics.
    #[test]
    fn nonsense_does_no_harm() {
        assert!(read("Node 1 MemTotal: many kB\n").is_err());
        let memory = read("Node 1 MemTotal: 4 kB\nNode 1 MemFree: 8 kB\n").unwrap();
        assert_eq!((memory.used_bytes, memory.uncounted_bytes()), (0, 0));
        assert!(node_memory(Path::new("/nowhere"), NodeId(0)).is_err());
    }
}

//! Pages: the address spaces that use them, and the zones and lists that hold the free ones.
//!
//! A lock is always taken at the world's present time. A fault, or freeing, continues until a lock
//! is needed again; the next step then begins with that lock.

mod access_counters;
mod address_space;
mod free;
mod kernel_buffers;
mod list_view;
mod lru;
mod migration_pages;
mod pcp_list;
mod physical_memory;
mod slab;
#[cfg(test)]
mod tests;
mod zone;

pub use access_counters::{PageAccesses, PageKey};
pub use address_space::{AddressSpace, CHUNK_BYTES, MemoryRegion, PageByte, SpaceId};
pub use kernel_buffers::BufferProgress;
pub use list_view::ListView;
pub use physical_memory::{PageProgress, PhysicalMemory, STEP_NS};
pub use zone::{Zone, ZoneTransfer, huge_pages};

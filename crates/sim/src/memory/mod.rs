//! Pages: the address spaces that use them, and the zones and lists that hold the free ones.
//!
//! The rules about free pages are methods of the [`MemoryManager`], by subject. A lock is always
//! taken at the world's present time. A fault, or freeing, continues until a lock is needed again;
//! the next step then begins with that lock.

mod access_counters;
mod address_space;
mod cached_residency;
mod folio;
mod fork_relations;
mod free;
mod freed_in_flight;
mod interleaving;
mod kernel_buffers;
mod list_drain;
mod list_transfer;
mod list_view;
mod lru_batches;
mod lru_lock;
mod memory_manager;
mod migration_pages;
mod page_byte;
mod pcp_list;
mod physical_memory;
mod region;
mod region_bits;
mod segment_mapping;
mod slab;
#[cfg(test)]
mod tests;
mod zone;
mod zone_visits;

pub use access_counters::{PageAccesses, PageKey};
pub use address_space::AddressSpace;
pub use cached_residency::CachedResidency;
pub use folio::Folio;
pub use fork_relations::ForkRelations;
pub use interleaving::Interleaving;
pub use kernel_buffers::BufferProgress;
pub use list_view::ListView;
pub use memory_manager::MemoryManager;
pub use page_byte::PageByte;
pub use physical_memory::{PageProgress, PhysicalMemory, STEP_NS};
pub use region::{CHUNK_BYTES, GranuleRange, MemoryRegion};
pub use region_bits::RegionBits;
pub use segment_mapping::SegmentMapping;
pub use zone::{Zone, ZoneTransfer, huge_pages};

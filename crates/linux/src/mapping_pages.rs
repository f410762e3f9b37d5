//! The pages of each mapping of a process by node, from one walk inside the kernel.

use std::io::{self, ErrorKind};
use std::path::Path;

use nodeward_machine::PagesByMapping;
use nodeward_model::{Mapping, MappingKind};

use crate::kernel_file;
use crate::procfs::{numa_maps, status};

/// Returns the pages of the mappings that the kernel lists now, from the files in a folder of
/// /proc; `None` on a kernel without NUMA support.
///
/// # Errors
/// Those of reading numa_maps.
pub fn read(
    folder: &Path,
    mappings: Vec<Mapping>,
    page_bytes: u64,
) -> io::Result<Option<PagesByMapping>> {
    let text = match kernel_file::read(folder.join("numa_maps")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let mut pages = numa_maps::pages(&text, page_bytes);
    let listed = |mapping: Mapping| Some((mapping.range, pages.remove(&mapping.range.start)?));
    Ok(Some(mappings.into_iter().filter_map(listed).collect()))
}

/// Returns those mappings of which no page can be in swap, on a machine that has some; numa_maps
/// does not count such pages. Of private memory the kernel tells whether there are any.
pub fn without_swapped(folder: &Path, mut mappings: Vec<Mapping>) -> Vec<Mapping> {
    let status = kernel_file::read(folder.join("status")).unwrap_or_default();
    let has_swapped = status::parse(&status).swap_bytes.is_none_or(|bytes| bytes > 0);
    mappings.retain(|mapping| match mapping.shared {
        true => mapping.kind == MappingKind::File,
        false => !has_swapped,
    });
    mappings
}

//! The parts of a region that userfaultfd can watch, and those whose pages must not be taken out.

use std::ops::Range;

use nodeward_linux::own_process::{self, OwnMapping};

use crate::context::PagerContext;
use crate::error::{Result, system};
use crate::sys::AnonMapping;

/// Registers a region with userfaultfd. Returns the parts, in bytes from its start, whose pages
/// must not be taken out: those that cannot be registered and, for mremap(2), which ignores
/// protection, those that are not writable. UFFDIO_MOVE refuses the latter by itself.
///
/// # Errors
/// If no part of it can be registered.
pub fn register_and_find_unmovable(
    context: &PagerContext,
    region: &AnonMapping,
) -> Result<Vec<Range<usize>>> {
    let (start, bytes) = (region.start(), region.bytes() as u64);
    let watched = context.uffd.register(start, bytes);
    if watched.is_ok() && context.transfer_method.can_map_slot_pages() {
        return Ok(Vec::new());
    }
    let parts =
        own_process::mappings_within(start..start + bytes).map_err(system("/proc/self/maps"))?;
    let is_watched = |part: &OwnMapping| {
        let Range { start, end } = part.range;
        watched.is_ok() || context.uffd.register(start, end - start).is_ok()
    };
    let can_leave =
        |part: &OwnMapping| part.is_writable || context.transfer_method.can_map_slot_pages();
    let bytes =
        |part: &OwnMapping| (part.range.start - start) as usize..(part.range.end - start) as usize;
    let unwatched: Vec<_> = parts.iter().filter(|part| !is_watched(part)).map(bytes).collect();
    if let Err(errno) = watched
        && unwatched.len() == parts.len()
    {
        return Err(system("UFFDIO_REGISTER")(errno.into()));
    }
    let protected = parts.iter().filter(|part| !can_leave(part)).map(bytes);
    Ok(unwatched.into_iter().chain(protected).collect())
}

//! Cost of finding pages by their physical addresses. The patch of 2004 walks all page table
//! entries of a process and compares each with each address of a list, on an Itanium 2.
//!
//! Both orders of the two loops make the same number of comparisons. They differ in what streams:
//! the list of 16 KiB stays in the first-level cache, the entries of a gibibyte (half a MiB) only
//! in the third-level cache.

/// Picoseconds per cycle: 1.3 GHz, as the mail states.
const CYCLE_PS: u64 = 769;
/// Bytes of an entry, and of an address.
const WORD: u64 = 8;
/// Addresses in a list: a page of 16 KiB.
pub const LIST_MAX: u64 = 2048;
/// Address of the entries: beyond the list.
const ENTRIES_AT: u64 = 1 << 30;
/// Address of the bitmap of frames: beyond both.
const FRAMES_AT: u64 = 1 << 40;
/// Frames of the machine: 8 GiB in pages of 16 KiB, a bitmap of 64 KiB.
const FRAMES: u64 = 1 << 19;
/// Cycles per access to memory: 200 ns.
const MEMORY_CYCLES: u64 = 260;
/// Rounds of the outer loop that are simulated: from the second on they are all alike.
const ROUNDS: u64 = 32;

/// The inner loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopOrder {
    /// For each entry, all addresses: the patch as it was posted.
    ListInside,
    /// For each address, all entries.
    EntriesInside,
}

/// A set-associative cache with LRU replacement.
struct CacheLevel {
    line: u64,
    ways: usize,
    cycles: u64,
    sets: Vec<Vec<u64>>,
}

impl CacheLevel {
    fn new(bytes: u64, line: u64, ways: usize, cycles: u64) -> Self {
        let sets = bytes / line / ways as u64;
        Self { line, ways, cycles, sets: vec![Vec::new(); sets as usize] }
    }

    /// Returns whether a line is cached, and caches it.
    fn access(&mut self, address: u64) -> bool {
        let line = address / self.line;
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(line % count) as usize];
        let at = set.iter().position(|&other| other == line);
        match at {
            Some(at) => drop(set.remove(at)),
            None if set.len() == self.ways => drop(set.remove(0)),
            None => {}
        }
        set.push(line);
        at.is_some()
    }
}

/// The caches of an Itanium 2 with 3 MiB: bytes, lines, ways and cycles of its reference manual.
fn caches() -> [CacheLevel; 3] {
    [
        CacheLevel::new(16 << 10, 64, 4, 1),
        CacheLevel::new(256 << 10, 128, 8, 5),
        CacheLevel::new(3 << 20, 128, 12, 14),
    ]
}

/// Returns the stall of a load beyond its own cycle, in cycles.
fn load_stall_cycles(caches: &mut [CacheLevel], address: u64) -> u64 {
    let first = caches.iter_mut().find_map(|cache| cache.access(address).then_some(cache.cycles));
    first.unwrap_or(MEMORY_CYCLES) - 1
}

/// Returns the search time per address of a full list, in picoseconds.
pub fn list_search_ps(order: LoopOrder, entries: u64) -> u64 {
    comparison_ps(order, entries) * entries
}

/// Returns the same with a set of frames instead of a list, as in nodeward (`move --physical`):
/// each entry is visited once for all addresses of a call, and its frame's bit is looked up.
pub fn set_search_ps(entries: u64) -> u64 {
    let mut caches = caches();
    let bit = |frame: u64| FRAMES_AT + frame / 64 * WORD;
    // Neighbouring pages have scattered frames: a stride that is coprime to their number meets all.
    let frame = |index: u64| index.wrapping_mul(0x9e37_79b9) % FRAMES;
    let look = |index: u64| {
        // A load, a test, a shift; then the load of the bit, and its test.
        5 + load_stall_cycles(&mut caches, ENTRIES_AT + index * WORD)
            + load_stall_cycles(&mut caches, bit(frame(index)))
    };
    (0..entries).map(look).sum::<u64>() * CYCLE_PS / LIST_MAX
}

/// Returns the mean time of a comparison with `entries` entries, in picoseconds.
fn comparison_ps(order: LoopOrder, entries: u64) -> u64 {
    let mut caches = caches();
    // Compare and branch issue with the load of the next address. An entry is first tested for
    // presence, and then reduced to its address: a load, a test and a comparison, one after the
    // other.
    let (inner_at, inner, outer_at, issue) = match order {
        LoopOrder::ListInside => (0, LIST_MAX, ENTRIES_AT, 1),
        LoopOrder::EntriesInside => (ENTRIES_AT, entries, 0, 3),
    };
    let mut cycles = 0;
    for round in 0..=ROUNDS {
        let outer = load_stall_cycles(&mut caches, outer_at + round * WORD);
        let inner_cycles: u64 = (0..inner)
            .map(|index| issue + load_stall_cycles(&mut caches, inner_at + index * WORD))
            .sum();
        if round > 0 {
            cycles += outer + inner_cycles;
        }
    }
    cycles * CYCLE_PS / (ROUNDS * inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of 1 GB in pages of 16 KiB.
    const ENTRIES: u64 = 61_036;

    /// Goal: a list that fits the first-level cache costs a cycle per address, and a little more
    /// for the line of entries that takes a way of one of its 64 sets: there all 5 lines miss, 5 of
    /// 256.
    #[test]
    fn a_list_inside_costs_a_cycle() {
        // (2048 + 5 * 4) / 2048 = 1.01 cycles of 769 ps.
        let ps = comparison_ps(LoopOrder::ListInside, ENTRIES);
        assert!((769..=785).contains(&ps), "{ps}");
    }

    /// Goal: entries that stream from the third-level cache cost the cycles of its lines.
    #[test]
    fn entries_inside_cost_the_third_cache() {
        // Three cycles each; of 16 in a line one waits 13 cycles for the third level, and one 4 for
        // the second: 3 + 17 / 16 = 4.06 cycles of 769 ps.
        let ps = comparison_ps(LoopOrder::EntriesInside, ENTRIES);
        assert!((3_100..=3_150).contains(&ps), "{ps}");
        // As many as the first level holds: three cycles.
        let few = comparison_ps(LoopOrder::EntriesInside, 1024);
        assert!((2_307..=2_340).contains(&few), "{few}");
    }

    /// Goal: with a set the entries are visited once per list, and not 2048 times.
    #[test]
    fn a_set_is_looked_up_once_for_each_entry() {
        // Each of 61036 entries takes 5 cycles and two waits. Entries come from memory, 16 in a
        // line of the second level and 8 in one of the first: (259 + 4) / 16 = 16.4. The bitmap of
        // 64 KiB is loaded once, 512 lines of 259 cycles, and later found in the second level by
        // three of four: 61036 * 3 / 4 * 4 + 512 * 259 = 315716, 5.2 each. 26.6 cycles, 20.5 ns.
        let ps = set_search_ps(ENTRIES) * LIST_MAX / ENTRIES;
        assert!((18_000..=23_000).contains(&ps), "{ps}");
        assert!(list_search_ps(LoopOrder::ListInside, ENTRIES) > 50 * set_search_ps(ENTRIES));
    }
}

//! Counts as values.

use std::ops::{Add, AddAssign, Sub};

use serde::Serialize;

/// A count before and after the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccessCount {
    /// Loads and stores.
    pub accesses: u64,
    /// Those whose line was not in the cache of the CPU's node.
    pub misses: u64,
}

impl Add for AccessCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let accesses = self.accesses + other.accesses;
        Self { accesses, misses: self.misses + other.misses }
    }
}

impl AddAssign for AccessCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Returns the difference; 0 where the earlier count is larger, as after zeroing.
impl Sub for AccessCount {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let accesses = self.accesses.saturating_sub(earlier.accesses);
        Self { accesses, misses: self.misses.saturating_sub(earlier.misses) }
    }
}

/// All counts at one moment, except those of frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterSnapshot {
    /// Whether accesses were being counted.
    pub counting: bool,
    /// The node of each CPU.
    pub cpu_nodes: Vec<u32>,
    /// Time that each CPU was delayed by misses, in nanoseconds.
    pub held_ns: Vec<u64>,
    /// The slots that have an address space or a count, ascending.
    pub slots: Vec<SlotCounts>,
}

/// The counts of one address space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotCounts {
    /// The slot: one that a program chose, or a higher one that was assigned; 0 is shared by all
    /// address spaces without a slot.
    pub slot: usize,
    /// The root of its page tables, as in CR3; `None` if it has ended, and for slot 0.
    pub space: Option<u64>,
    /// `cells[cpu][node]`, by node ids; the last column is for memory that belongs to no node.
    pub cells: Vec<Vec<AccessCount>>,
}

/// Local and remote accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Locality {
    /// By CPUs of the memory's node.
    pub local: AccessCount,
    /// By other CPUs.
    pub remote: AccessCount,
}

impl Locality {
    /// Returns the local misses per 1000; `None` without misses.
    pub fn misses_permille(&self) -> Option<u64> {
        let all = self.local.misses + self.remote.misses;
        (self.local.misses * 1000).checked_div(all)
    }
}

impl Add for Locality {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { local: self.local + other.local, remote: self.remote + other.remote }
    }
}

impl CounterSnapshot {
    /// Returns the counts of a slot, if it has any.
    pub fn slot(&self, slot: usize) -> Option<&SlotCounts> {
        self.slots.iter().find(|counts| counts.slot == slot)
    }

    /// Returns the counts since an earlier moment of the same machine.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut now = self.clone();
        for slot in &mut now.slots {
            let Some(before) = earlier.slot(slot.slot) else { continue };
            let cells = slot.cells.iter_mut().flatten();
            for (cell, before) in cells.zip(before.cells.iter().flatten()) {
                *cell = *cell - *before;
            }
        }
        for (held, before) in now.held_ns.iter_mut().zip(&earlier.held_ns) {
            *held = held.saturating_sub(*before);
        }
        now
    }

    /// Returns `matrix[from][to]` of a slot: counts of CPUs of node `from` on memory of node `to`.
    pub fn node_matrix(&self, slot: &SlotCounts) -> Vec<Vec<AccessCount>> {
        let columns = slot.cells.first().map_or(0, Vec::len);
        let mut matrix = vec![vec![AccessCount::default(); columns.saturating_sub(1)]; columns];
        matrix.truncate(columns.saturating_sub(1));
        for (&from, row) in self.cpu_nodes.iter().zip(&slot.cells) {
            for (sum, &cell) in matrix[from as usize].iter_mut().zip(row) {
                *sum += cell;
            }
        }
        matrix
    }

    /// Returns the locality of a slot's accesses to memory of nodes.
    pub fn locality(&self, slot: &SlotCounts) -> Locality {
        let mut sum = Locality::default();
        for (from, row) in self.node_matrix(slot).iter().enumerate() {
            for (to, &cell) in row.iter().enumerate() {
                *(if from == to { &mut sum.local } else { &mut sum.remote }) += cell;
            }
        }
        sum
    }
}

/// The counts of one accessed frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameCount {
    /// The frame number, as in /proc/PID/pagemap.
    pub frame: u64,
    /// The node of the frame.
    pub home: u32,
    /// Counts by the node of the accessing CPU.
    pub by: Vec<AccessCount>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(accesses: u64, misses: u64) -> AccessCount {
        AccessCount { accesses, misses }
    }

    /// Three CPUs on nodes 0, 1 and 1.
    fn counts(cells: [[(u64, u64); 3]; 3]) -> CounterSnapshot {
        let cells = cells.map(|row| row.map(|(a, m)| cell(a, m)).to_vec()).to_vec();
        let slots = vec![SlotCounts { slot: 7, space: None, cells }];
        CounterSnapshot { counting: true, cpu_nodes: vec![0, 1, 1], held_ns: vec![5, 6, 7], slots }
    }

    /// Goal: CPUs of a node are added up; memory that belongs to no node is neither local nor
    /// remote.
    #[test]
    fn locality_is_by_nodes() {
        let counts = counts([
            [(1, 1), (2, 2), (9, 9)],
            [(4, 0), (8, 1), (9, 9)],
            [(16, 5), (32, 7), (9, 9)],
        ]);
        let slot = counts.slot(7).unwrap();
        let expected = vec![vec![cell(1, 1), cell(2, 2)], vec![cell(20, 5), cell(40, 8)]];
        assert_eq!(counts.node_matrix(slot), expected);
        let locality = counts.locality(slot);
        assert_eq!(locality, Locality { local: cell(41, 9), remote: cell(22, 7) });
        assert_eq!(locality.misses_permille(), Some(562)); // 9 of 16
        assert_eq!(Locality::default().misses_permille(), None);
    }

    /// Goal: the difference of two moments gives the counts in between.
    #[test]
    fn what_came_since() {
        let zero = [(0, 0); 3];
        let before = counts([[(1, 1), (0, 0), (0, 0)], zero, zero]);
        let after = counts([[(5, 2), (3, 0), (0, 0)], zero, zero]);
        let since = after.since(&before);
        assert_eq!(since.slots[0].cells[0], [cell(4, 1), cell(3, 0), cell(0, 0)]);
        assert_eq!(since.held_ns, [0, 0, 0]);
    }
}

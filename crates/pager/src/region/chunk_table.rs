//! The table of a region's chunks. There may be many millions of chunks, most of them never
//! touched; those take no memory. The thread behind page faults also adds entries, so only a new
//! table takes memory from the program's allocator, a new entry never does.

use crate::sys::MmapSlice;

/// Chunks that are allocated together: 1 GiB of address space, or the rest of the region.
const CHUNKS_PER_ROW: usize = 512;

/// A table in which every entry has the default value until it is first requested.
pub struct ChunkTable<T> {
    rows: Vec<Option<MmapSlice<T>>>,
    chunks: usize,
}

impl<T: Default> ChunkTable<T> {
    /// A table of `chunks` chunks.
    pub fn new(chunks: usize) -> Self {
        Self { rows: (0..chunks.div_ceil(CHUNKS_PER_ROW)).map(|_| None).collect(), chunks }
    }

    /// Returns the entry of a chunk, if its row is allocated.
    pub fn get(&self, chunk: usize) -> Option<&T> {
        self.rows[chunk / CHUNKS_PER_ROW].as_ref()?.get(chunk % CHUNKS_PER_ROW)
    }

    /// Returns the entry of a chunk, allocating its row if needed.
    pub fn entry(&mut self, chunk: usize) -> &mut T {
        let row = chunk / CHUNKS_PER_ROW;
        let together = || MmapSlice::of(CHUNKS_PER_ROW.min(self.chunks - row * CHUNKS_PER_ROW));
        &mut self.rows[row].get_or_insert_with(together)[chunk % CHUNKS_PER_ROW]
    }

    /// Returns the entries of all allocated rows: those requested so far and their neighbours.
    pub fn allocated(&self) -> impl Iterator<Item = (usize, &T)> {
        let firsts = (0..).step_by(CHUNKS_PER_ROW);
        let known =
            firsts.zip(&self.rows).filter_map(|(first, known)| Some((first, known.as_ref()?)));
        known.flat_map(|(first, known)| (first..).zip(known.iter()))
    }

    /// As [`ChunkTable::allocated`], mutable and without the chunk numbers.
    pub fn allocated_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut().flatten().flat_map(|known| known.iter_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: entries keep what is written to them, at either end, and only rows that were touched
    /// take memory.
    #[test]
    fn entries_are_made_when_they_are_asked_for() {
        let mut table = ChunkTable::<u8>::new(3 * CHUNKS_PER_ROW - 1);
        assert_eq!(table.allocated().count(), 0);
        *table.entry(3 * CHUNKS_PER_ROW - 2) = 2;
        *table.entry(0) = 1;
        assert_eq!(
            (*table.entry(0), *table.entry(1), *table.entry(3 * CHUNKS_PER_ROW - 2)),
            (1, 0, 2)
        );
        let known: Vec<usize> =
            table.allocated().filter(|(_, entry)| **entry > 0).map(|e| e.0).collect();
        assert_eq!(known, [0, 3 * CHUNKS_PER_ROW - 2]);
        let (all, last) = (CHUNKS_PER_ROW, CHUNKS_PER_ROW - 1);
        assert_eq!(
            table.allocated().count(),
            all + last,
            "not the row between, nor beyond the end"
        );
        assert_eq!((table.get(0), table.get(all)), (Some(&1), None), "looking allocates nothing");
        table.allocated_mut().for_each(|entry| *entry += 1);
        assert_eq!((*table.entry(0), *table.entry(1), *table.entry(CHUNKS_PER_ROW)), (2, 1, 0));
    }
}

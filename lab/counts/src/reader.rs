//! Reads counts, live or afterwards.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::layout::{CONTROL, CountsLayout, SLOTS, WORD_BYTES};
use crate::snapshot::{AccessCount, CounterSnapshot, FrameCount, SlotCounts};

/// Number of words of frames read at once.
const PIECE: usize = 1 << 16;

/// A file of counts, or its equivalent inside the machine.
pub trait WordSource {
    /// Returns a range of words.
    ///
    /// # Errors
    /// If it cannot be read, or is shorter.
    fn words(&self, range: Range<usize>) -> Result<Vec<u64>>;
}

/// A file on the host.
#[derive(Debug)]
pub struct FileWords(File);

impl WordSource for FileWords {
    fn words(&self, range: Range<usize>) -> Result<Vec<u64>> {
        let mut bytes = vec![0; range.len() * WORD_BYTES];
        self.0.read_exact_at(&mut bytes, (range.start * WORD_BYTES) as u64)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().copied().map(u64::from_le_bytes).collect())
    }
}

/// Reads counts of one machine.
#[derive(Debug)]
pub struct CountsReader<W> {
    words: W,
    shape: CountsLayout,
}

impl CountsReader<FileWords> {
    /// Opens a file of counts.
    ///
    /// # Errors
    /// If it does not exist, or is not a file of counts.
    pub fn open(path: &Path) -> Result<Self> {
        Self::new(FileWords(File::open(path)?))
    }
}

impl<W: WordSource> CountsReader<W> {
    /// Creates a reader of these words.
    ///
    /// # Errors
    /// If they are not counts.
    pub fn new(words: W) -> Result<Self> {
        let shape = CountsLayout::decode_header(|range| words.words(range))?;
        Ok(Self { words, shape })
    }

    /// Returns the shape of the machine.
    pub fn layout(&self) -> &CountsLayout {
        &self.shape
    }

    /// Returns whether a counter has begun to write.
    ///
    /// # Errors
    /// If the words cannot be read.
    pub fn has_writer(&self) -> Result<bool> {
        Ok(self.word(CONTROL.writer)? != 0)
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// If the words cannot be read.
    pub fn snapshot(&self) -> Result<CounterSnapshot> {
        let shape = &self.shape;
        let cpu_nodes = shape.cpu_nodes();
        let epoch = self.word(CONTROL.epoch)?;
        let areas: Result<Vec<_>> =
            (0..cpu_nodes.len()).map(|cpu| self.cpu_counts(cpu, epoch)).collect();
        let areas = areas?;
        let spaces = self.words.words(shape.space_word(0)..shape.space_word(SLOTS))?;
        let slot = |slot: usize| SlotCounts {
            slot,
            space: Some(spaces[slot]).filter(|&space| space != 0),
            cells: areas.iter().map(|area| area.row(slot, shape.columns())).collect(),
        };
        let is_used = |counts: &SlotCounts| {
            let mut cells = counts.cells.iter().flatten();
            counts.space.is_some() || cells.any(|cell| cell.accesses > 0)
        };
        Ok(CounterSnapshot {
            counting: self.word(CONTROL.counting)? == 1,
            cpu_nodes,
            held_ns: areas.iter().map(|area| area.held_ns).collect(),
            slots: (0..SLOTS).map(slot).filter(is_used).collect(),
        })
    }

    /// Returns the frames that were accessed, ascending.
    ///
    /// # Errors
    /// If the words cannot be read, or single frames are not counted on this machine.
    pub fn frames(&self) -> Result<Vec<FrameCount>> {
        if !self.shape.per_frame {
            return Err(Error::new(ErrorKind::Unsupported, "single frames are not counted here"));
        }
        let each = self.shape.nodes() * 2;
        let mut found = Vec::new();
        let mut row = 0;
        for part in &self.shape.memory {
            let mut frame = part.first_frame;
            while frame < part.first_frame + part.frame_count {
                let count =
                    ((PIECE / each) as u64).min(part.first_frame + part.frame_count - frame);
                let start = self.shape.frame_cell(row, 0);
                let words = self.words.words(start..start + count as usize * each)?;
                for (frame, words) in (frame..).zip(words.chunks_exact(each)) {
                    if words.iter().any(|&word| word > 0) {
                        found.push(FrameCount { frame, home: part.node, by: cells(words) });
                    }
                }
                (frame, row) = (frame + count, row + count);
            }
        }
        Ok(found)
    }

    fn word(&self, at: usize) -> Result<u64> {
        Ok(self.words.words(at..at + 1)?[0])
    }

    fn cpu_counts(&self, cpu: usize, epoch: u64) -> Result<CpuCounts> {
        let area = self.shape.area(cpu);
        if self.word(area.start)? != epoch {
            return Ok(CpuCounts { held_ns: 0, cells: Vec::new() });
        }
        let words = self.words.words(area.cell(0, 0)..area.cell(SLOTS, 0))?;
        Ok(CpuCounts { held_ns: self.word(area.held_ns())?, cells: cells(&words) })
    }
}

/// The counts of one CPU; no cells if it has not counted in this epoch yet.
struct CpuCounts {
    held_ns: u64,
    cells: Vec<AccessCount>,
}

impl CpuCounts {
    fn row(&self, slot: usize, columns: usize) -> Vec<AccessCount> {
        let row = self.cells.get(slot * columns..(slot + 1) * columns);
        row.map_or_else(|| vec![AccessCount::default(); columns], <[AccessCount]>::to_vec)
    }
}

fn cells(words: &[u64]) -> Vec<AccessCount> {
    let (pairs, _) = words.as_chunks();
    pairs.iter().map(|&[accesses, misses]| AccessCount { accesses, misses }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CacheGeometry, FrameRange};

    fn shape() -> CountsLayout {
        CountsLayout {
            cpu_slots: vec![Some(0), None, Some(1)],
            memory: vec![
                FrameRange { first_frame: 0, frame_count: 40_000, node: 0 },
                FrameRange { first_frame: 50_000, frame_count: 40_000, node: 1 },
            ],
            llc: CacheGeometry { bytes: 1 << 20, ways: 8 },
            miss_delay_ns: vec![vec![0; 2]; 2],
            per_frame: true,
        }
    }

    fn file(words: &[(usize, u64)]) -> CountsReader<FileWords> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&shape().encode_header(), 0).unwrap();
        file.as_file().set_len(shape().file_bytes()).unwrap();
        for (at, word) in words {
            file.as_file().write_all_at(&word.to_le_bytes(), (at * WORD_BYTES) as u64).unwrap();
        }
        CountsReader::open(file.path()).unwrap()
    }

    /// Goal: counts are read as written, slot by slot; empty slots are left out.
    #[test]
    fn counts_are_read_back() {
        let (shape, area) = (shape(), shape().area(1));
        let reader = file(&[
            (area.cell(3, 0), 10),
            (area.cell(3, 0) + 1, 4),
            (area.held_ns(), 77),
            (shape.space_word(3), 0x1000),
            (shape.space_word(9), 0x2000),
            (CONTROL.writer, 1),
        ]);
        assert!(reader.has_writer().unwrap());
        assert_eq!(*reader.layout(), shape);
        let counts = reader.snapshot().unwrap();
        assert_eq!((counts.cpu_nodes.as_slice(), counts.counting), (&[0, 1][..], true));
        assert_eq!(counts.held_ns, [0, 77]);
        let slots: Vec<_> = counts.slots.iter().map(|slot| (slot.slot, slot.space)).collect();
        assert_eq!(slots, [(3, Some(0x1000)), (9, Some(0x2000))]);
        let expected = AccessCount { accesses: 10, misses: 4 };
        assert_eq!(
            counts.slots[0].cells[1],
            [expected, AccessCount::default(), AccessCount::default()]
        );
    }

    /// Goal: after zeroing, the counts of a CPU that has not counted since are zero.
    #[test]
    fn counts_of_an_older_epoch_are_zero() {
        let area = shape().area(0);
        let words = [(area.cell(0, 0), 10), (area.held_ns(), 7), (CONTROL.epoch, 1)];
        let counts = file(&words).snapshot().unwrap();
        assert_eq!((counts.slots.len(), counts.held_ns.as_slice()), (0, &[0, 0][..]));
    }

    /// Goal: frames have their numbers, across holes and beyond one read.
    #[test]
    fn frames_are_found() {
        let shape = shape();
        let at = |frame, node| shape.frame_cell(shape.row(frame).unwrap().0, node);
        let reader = file(&[(at(39_999, 1), 5), (at(50_000, 0) + 1, 6), (at(89_999, 1), 7)]);
        let cell = |accesses, misses| AccessCount { accesses, misses };
        let expected = [
            FrameCount { frame: 39_999, home: 0, by: vec![cell(0, 0), cell(5, 0)] },
            FrameCount { frame: 50_000, home: 1, by: vec![cell(0, 6), cell(0, 0)] },
            FrameCount { frame: 89_999, home: 1, by: vec![cell(0, 0), cell(7, 0)] },
        ];
        assert_eq!(reader.frames().unwrap(), expected);
    }
}

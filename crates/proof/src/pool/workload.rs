//! Sources of pages: each contender hands out runs, which are all used in the same way.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};

use crate::Error;
use crate::measured_region::system;

/// The word written to each page: not zero, so that a page that is not zeroed shows.
const MARK: [u8; 8] = [0xa5; 8];

/// Size of a huge page; memory for huge pages has to begin at a multiple of it.
const HUGE: usize = 2 << 20;

/// The memory that a thread takes, touches and frees in each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassLoad {
    /// Bytes of a pass, a multiple of a run.
    pub bytes: usize,
    /// Order: runs have 2^order base pages.
    pub order: u32,
    /// Runs must read as zero.
    pub zeroed: bool,
    /// Size of a base page in bytes.
    pub page_bytes: usize,
}

impl PassLoad {
    /// Returns the size of a run in bytes.
    pub fn run_bytes(&self) -> usize {
        self.page_bytes << self.order
    }
}

/// A run of pages, freed when it is dropped.
pub trait AllocatedRun: Send {
    /// Returns all its bytes.
    fn content(&mut self) -> &mut [u8];
}

/// A contender that hands out the runs of a load.
pub trait RunAllocator: Send + Sync {
    /// The type of its runs.
    type Run<'a>: AllocatedRun
    where
        Self: 'a;

    /// Returns the load.
    fn load(&self) -> PassLoad;

    /// Returns how often [`RunAllocator::allocate`] is called in a pass.
    fn runs_per_pass(&self) -> usize {
        self.load().bytes / self.load().run_bytes()
    }

    /// Takes a run.
    fn allocate(&self) -> Result<Self::Run<'_>, Error>;
}

/// The work of a thread in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassResult {
    /// Bytes that were taken, touched and freed.
    pub bytes: u64,
    /// The time of it.
    pub took: Duration,
}

impl PassResult {
    /// Returns bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// The operations of threads on any source.
pub trait AllocatorWorkload: Send + Sync {
    /// Runs passes until `time` is over, at least one.
    fn pass(&self, time: Duration) -> Result<PassResult, Error>;

    /// Runs one pass, and records for each run the time until its first word was written, in
    /// nanoseconds.
    fn time_runs(&self, times: &mut Histogram<u64>) -> Result<(), Error>;

    /// Runs two passes; returns how many bytes of the second were not zero. The first one dirties
    /// them.
    fn count_dirty_bytes(&self) -> Result<u64, Error>;

    /// Takes and touches `runs` runs; they are freed when the value is dropped.
    fn touched_runs(&self, runs: usize) -> Result<Box<dyn Send + '_>, Error>;
}

impl<S: RunAllocator> AllocatorWorkload for S {
    fn pass(&self, time: Duration) -> Result<PassResult, Error> {
        let (takes, page_bytes) = (self.runs_per_pass(), self.load().page_bytes);
        let mut runs = Vec::with_capacity(takes);
        let mut work = PassResult::default();
        let began = Instant::now();
        loop {
            for _ in 0..takes {
                let mut run = self.allocate()?;
                touch(run.content(), page_bytes);
                runs.push(run);
            }
            runs.clear();
            work.bytes += self.load().bytes as u64;
            work.took = began.elapsed();
            if work.took >= time {
                return Ok(work);
            }
        }
    }

    fn time_runs(&self, times: &mut Histogram<u64>) -> Result<(), Error> {
        let (load, takes) = (self.load(), self.runs_per_pass());
        let mut runs = Vec::with_capacity(takes);
        for _ in 0..takes {
            let mut began = Instant::now();
            let mut run = self.allocate()?;
            // A mapping counts as handed out run by run, as the runs are touched.
            for part in run.content().chunks_mut(load.run_bytes()) {
                touch(part, load.run_bytes());
                let now = Instant::now();
                times.saturating_record(u64::try_from((now - began).as_nanos()).unwrap_or(0));
                touch(part, load.page_bytes);
                began = Instant::now();
            }
            runs.push(run);
        }
        Ok(())
    }

    fn count_dirty_bytes(&self) -> Result<u64, Error> {
        let mut dirt = 0;
        for pass in 0..2 {
            let mut runs = Vec::with_capacity(self.runs_per_pass());
            for _ in 0..self.runs_per_pass() {
                let mut run = self.allocate()?;
                let dirty = run.content().iter().filter(|&&byte| byte != 0).count();
                dirt += if pass == 1 { dirty as u64 } else { 0 };
                run.content().fill(MARK[0]);
                runs.push(run);
            }
        }
        Ok(dirt)
    }

    fn touched_runs(&self, runs: usize) -> Result<Box<dyn Send + '_>, Error> {
        let mut taken = Vec::with_capacity(runs);
        for _ in 0..runs {
            let mut run = self.allocate()?;
            touch(run.content(), self.load().page_bytes);
            taken.push(run);
        }
        Ok(Box::new(taken))
    }
}

/// Writes one word to each page.
fn touch(content: &mut [u8], page_bytes: usize) {
    for page in content.chunks_mut(page_bytes) {
        if let Some(word) = page.first_chunk_mut() {
            *word = MARK;
        }
    }
    black_box(content);
}

/// The kernel alone: mmap(2), touch, munmap(2), as page_fault1 of will-it-scale does it.
pub struct MmapAllocator(pub PassLoad);

impl MmapAllocator {
    fn map(&self) -> io::Result<MmapRun> {
        // A mapping of its own for each pass, with room to begin at a huge page.
        let spare = if self.0.order > 0 { HUGE } else { 0 };
        let area = MappedArea::map(self.0.bytes + spare, AreaBacking::Anonymous)?;
        let usage = if self.0.order > 0 { AreaAdvice::HugePages } else { AreaAdvice::BasePages };
        match area.advise(usage) {
            // A kernel without transparent huge pages has base pages only.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
            _ => {}
        }
        let first = match spare {
            0 => 0,
            huge => area.address().next_multiple_of(huge as u64) - area.address(),
        };
        Ok(MmapRun { area, first: first as usize, bytes: self.0.bytes })
    }
}

impl RunAllocator for MmapAllocator {
    type Run<'a> = MmapRun;

    fn load(&self) -> PassLoad {
        self.0
    }

    /// One: all of a pass at once.
    fn runs_per_pass(&self) -> usize {
        1
    }

    fn allocate(&self) -> Result<MmapRun, Error> {
        self.map().map_err(system("memory for a pass of mmap, touch and munmap"))
    }
}

/// A mapping of the kernel.
pub struct MmapRun {
    area: MappedArea,
    first: usize,
    bytes: usize,
}

impl AllocatedRun for MmapRun {
    fn content(&mut self) -> &mut [u8] {
        let content = self.area.content_mut().unwrap_or_default();
        &mut content[self.first..self.first + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall_times::empty_histogram;

    const PAGE: usize = 4096;

    fn load(order: u32, zeroed: bool) -> PassLoad {
        PassLoad { bytes: 4 << 20, order, zeroed, page_bytes: PAGE }
    }

    /// Hands out memory of the program's own allocator, and does not zero it.
    struct UnzeroedAllocator(PassLoad);

    impl RunAllocator for UnzeroedAllocator {
        type Run<'a> = Vec<u8>;

        fn load(&self) -> PassLoad {
            self.0
        }

        fn allocate(&self) -> Result<Vec<u8>, Error> {
            Ok(vec![1; self.0.run_bytes()])
        }
    }

    impl AllocatedRun for Vec<u8> {
        fn content(&mut self) -> &mut [u8] {
            self
        }
    }

    /// Goal: a pass takes the whole load: 4 MiB, in 1024 pages or two huge ones.
    #[test]
    fn a_pass_takes_all_of_the_load() {
        for order in [0, 9] {
            let work = MmapAllocator(load(order, false)).pass(Duration::ZERO).unwrap();
            assert_eq!(work.bytes, 4 << 20);
            assert_eq!(UnzeroedAllocator(load(order, false)).runs_per_pass(), 1024 >> order);
        }
    }

    /// Goal: each run is timed once, also where the kernel maps all of them together.
    #[test]
    fn each_run_is_timed() {
        for order in [0, 9] {
            let mut times = empty_histogram();
            MmapAllocator(load(order, false)).time_runs(&mut times).unwrap();
            UnzeroedAllocator(load(order, false)).time_runs(&mut times).unwrap();
            assert_eq!(times.len(), 2048 >> order);
        }
    }

    /// Goal: memory that should be zero and is not is counted: here every byte of the second pass.
    #[test]
    fn dirt_is_seen() {
        assert_eq!(MmapAllocator(load(0, true)).count_dirty_bytes().unwrap(), 0);
        assert_eq!(UnzeroedAllocator(load(0, true)).count_dirty_bytes().unwrap(), 4 << 20);
    }

    #[test]
    fn one_word_of_each_page_is_written() {
        let mut content = vec![0; 3 * PAGE];
        touch(&mut content, PAGE);
        assert_eq!(content.iter().filter(|&&byte| byte != 0).count(), 3 * MARK.len());
        assert!((0..3).all(|page| content[page * PAGE] != 0));
    }
}

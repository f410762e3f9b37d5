//! The speed of memcpy: the reference for everything that moves memory.

use std::io;
use std::ops::Range;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
use nodeward_linux::{Linux, mempolicy};
use nodeward_machine::Machine;
use nodeward_model::{CpuId, NodeId};
use nodeward_pager::{Copier, PageSize};

use crate::NodeRoute;

/// Bytes copied at a time, as in a batch of the pager.
const BATCH_BYTES: usize = 2 << 20;

/// Two buffers of ordinary memory, each as large as the region, copied to and fro.
pub struct CopyBuffers {
    areas: [BufferArea; 2],
    /// CPUs of the threads; empty for any.
    cpus: Vec<CpuId>,
    machine: Linux,
    is_reversed: bool,
}

/// A mapping, and the part of it that begins at a huge page.
struct BufferArea {
    area: MappedArea,
    part: Range<usize>,
}

impl CopyBuffers {
    /// Maps and populates one buffer on `nodes.from` and the other on `nodes.to`, with pages of
    /// this size. Copying threads run on `cpus` in turn, anywhere if it is empty.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(
        bytes: usize,
        page: PageSize,
        nodes: NodeRoute,
        cpus: Vec<CpuId>,
    ) -> io::Result<Self> {
        let areas =
            [BufferArea::on(nodes.from, bytes, page)?, BufferArea::on(nodes.to, bytes, page)?];
        Ok(Self { areas, cpus, machine: Linux::open(), is_reversed: false })
    }

    /// Copies one buffer to the other with `threads` threads; the next call copies back. Returns
    /// the time without that for starting the threads.
    ///
    /// # Errors
    /// None in practice: the buffers are private memory.
    pub fn copy(&mut self, copier: &dyn Copier, threads: usize) -> io::Result<Duration> {
        let [one, other] = &mut self.areas;
        let (from, to) = if self.is_reversed { (other, one) } else { (one, other) };
        self.is_reversed = !self.is_reversed;
        let (from, to) = (from.content()?, to.content()?);
        let share = from.len().div_ceil(threads).next_multiple_of(BATCH_BYTES);
        let shares: Vec<_> = to.chunks_mut(share).zip(from.chunks(share)).collect();
        let start = Barrier::new(shares.len());
        let (start, cpus, machine) = (&start, &self.cpus, &self.machine);
        thread::scope(|scope| {
            let copy = |(number, (to, from)): (usize, (&'_ mut [u8], &'_ [u8]))| {
                if let Some(cpu) = cpus.get(number % cpus.len().max(1)) {
                    machine.pin_current_thread(*cpu);
                }
                start.wait();
                let began = Instant::now();
                for (to, from) in to.chunks_mut(BATCH_BYTES).zip(from.chunks(BATCH_BYTES)) {
                    copier.copy(to, from);
                }
                (began, Instant::now())
            };
            let threads: Vec<_> =
                shares.into_iter().enumerate().map(|s| scope.spawn(move || copy(s))).collect();
            let times: Vec<_> = threads.into_iter().filter_map(|t| t.join().ok()).collect();
            let began = times.iter().map(|time| time.0).min();
            let ended = times.iter().map(|time| time.1).max();
            began.zip(ended).map(|(began, ended)| ended - began).ok_or(io::ErrorKind::Other.into())
        })
    }
}

impl BufferArea {
    fn on(node: NodeId, bytes: usize, page: PageSize) -> io::Result<Self> {
        let area = MappedArea::map(bytes + BATCH_BYTES, AreaBacking::Anonymous)?;
        area.advise(match page {
            PageSize::Base => AreaAdvice::BasePages,
            PageSize::Huge => AreaAdvice::HugePages,
        })?;
        let first = area.address().next_multiple_of(BATCH_BYTES as u64) - area.address();
        let first = first as usize;
        let mut memory = Self { area, part: first..first + bytes };
        // A thread of its own, so that its memory policy ends with it.
        thread::scope(|scope| {
            let populated = scope.spawn(|| -> io::Result<()> {
                mempolicy::bind_memory(&[node].into_iter().collect())?;
                memory.content()?.fill(0x5a);
                Ok(())
            });
            populated.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok(memory)
    }

    fn content(&mut self) -> io::Result<&mut [u8]> {
        let content = self.area.content_mut().ok_or(io::ErrorKind::Unsupported)?;
        Ok(&mut content[self.part.clone()])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    /// Copies like memcpy and counts what it copied.
    struct Counting(AtomicUsize);

    impl Copier for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn copy(&self, to: &mut [u8], from: &[u8]) {
            self.0.fetch_add(from.len(), Relaxed);
            to.copy_from_slice(from);
        }
    }

    /// Goal: every byte is copied exactly once, for any number of threads, in both directions.
    #[test]
    fn all_of_it_is_copied() {
        let bytes = 3 * BATCH_BYTES;
        let nodes = NodeRoute { from: NodeId(0), to: NodeId(0) };
        let mut buffers = CopyBuffers::new(bytes, PageSize::Base, nodes, Vec::new()).unwrap();
        buffers.areas[0].content().unwrap().fill(7);
        for threads in 1..=4 {
            let copied = Counting(AtomicUsize::new(0));
            buffers.copy(&copied, threads).unwrap();
            assert_eq!(copied.0.into_inner(), bytes, "{threads} threads");
            let ended = if buffers.is_reversed { 1 } else { 0 };
            assert!(buffers.areas[ended].content().unwrap().iter().all(|&byte| byte == 7));
        }
    }
}

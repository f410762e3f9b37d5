//! Sampled accesses to pages, buffered until they are taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodeward_machine::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, Error, Result,
};
use nodeward_model::{Access, AccessKind, AccessSample, Pid};

/// Limit on the buffered accesses, 8 MB; further accesses are dropped until the buffer is taken. At
/// one take a second that is enough for 1,000 samples a second on each of 256 CPUs.
const ACCESSES_MAX: usize = 1 << 18;

/// The buffered accesses as a source: what another program samples, with `perf` for example.
#[derive(Debug)]
pub struct QueuedAccesses {
    queue: Arc<AccessQueue>,
    pids: Vec<Pid>,
}

impl QueuedAccesses {
    /// Takes what is entered in this buffer.
    pub fn new(queue: Arc<AccessQueue>) -> Self {
        Self { queue, pids: Vec::new() }
    }
}

impl AccessSource for QueuedAccesses {
    fn kind(&self) -> AccessSourceKind {
        AccessSourceKind::Perf
    }

    fn observe(&mut self, sampling: &AccessSampling) -> Result<()> {
        self.pids.clone_from(&sampling.pids);
        Ok(())
    }

    fn take(&mut self) -> Result<AccessBatch> {
        let (queued, lost) = self.queue.drain().ok_or_else(|| Error::Unsupported {
            action: "observing accesses",
            reason: "the samples have ended".to_owned(),
        })?;
        let is_wanted = |pid: &Pid| self.pids.binary_search(pid).is_ok();
        let wanted = queued.into_iter().filter(|(pid, _)| is_wanted(pid));
        let sample =
            |(pid, access)| AccessSample { pid, tid: None, kind: AccessKind::Unknown, access };
        Ok(AccessBatch { samples: wanted.map(sample).collect(), lost, ..AccessBatch::default() })
    }
}

/// The accesses since the last take; no more once the source has ended.
#[derive(Debug)]
pub struct AccessQueue {
    accesses: Mutex<Option<Buffered>>,
}

/// Accesses, and how many more did not fit.
#[derive(Debug, Default)]
struct Buffered {
    accesses: Vec<(Pid, Access)>,
    lost: u64,
}

impl Default for AccessQueue {
    fn default() -> Self {
        Self { accesses: Mutex::new(Some(Buffered::default())) }
    }
}

impl AccessQueue {
    /// Buffers an access to memory of a process, if there is room.
    pub fn push(&self, pid: Pid, access: Access) {
        if let Some(buffered) = self.lock().as_mut() {
            match buffered.accesses.len() < ACCESSES_MAX {
                true => buffered.accesses.push((pid, access)),
                false => buffered.lost += 1,
            }
        }
    }

    /// Marks the end of the source: no more accesses will come.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// Takes the accesses since the last call, and the number of those that were lost; `None` after
    /// the end.
    fn drain(&self) -> Option<(Vec<(Pid, Access)>, u64)> {
        let buffered = self.lock().as_mut().map(std::mem::take)?;
        Some((buffered.accesses, buffered.lost))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Buffered>> {
        self.accesses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::{Accessor, CpuId};

    use super::*;

    fn access(address: u64) -> Access {
        Access { address, accessor: Accessor::Cpu(CpuId(1)), count: 1 }
    }

    /// Goal: each access of an observed process is taken once, the buffer stops at its limit and
    /// counts the rest, and nothing is kept after the end.
    #[test]
    fn what_was_pushed_is_taken_once() {
        let (queue, pid) = (Arc::new(AccessQueue::default()), Pid::new(7).unwrap());
        let mut source = QueuedAccesses::new(Arc::clone(&queue));
        source.observe(&AccessSampling { pids: vec![pid], rate_hz: 100 }).unwrap();
        let taken = |source: &mut QueuedAccesses| {
            source.take().map(|batch| (batch.samples.len(), batch.lost)).ok()
        };
        queue.push(pid, access(0x1000));
        queue.push(Pid::new(8).unwrap(), access(0x1000));
        assert_eq!(source.take().unwrap().samples[0].access, access(0x1000));
        assert_eq!(taken(&mut source), Some((0, 0)));
        (0..ACCESSES_MAX as u64 + 5).for_each(|address| queue.push(pid, access(address)));
        assert_eq!(taken(&mut source), Some((ACCESSES_MAX, 5)));
        queue.push(pid, access(0x1000));
        queue.close();
        queue.push(pid, access(0x2000));
        assert_eq!(taken(&mut source), None);
    }
}

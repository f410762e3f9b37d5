//! Sampled accesses to pages, buffered until they are taken.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nodeward_model::{Access, Pid};

/// Limit on the buffered accesses, 8 MB; further accesses are dropped until the buffer is taken. At
/// one take a second that is enough for 1,000 samples a second on each of 256 CPUs.
const ACCESSES_MAX: usize = 1 << 18;

/// The accesses since the last take; no more once the source has ended.
#[derive(Debug)]
pub struct AccessQueue {
    accesses: Mutex<Option<Vec<(Pid, Access)>>>,
}

impl Default for AccessQueue {
    fn default() -> Self {
        Self { accesses: Mutex::new(Some(Vec::new())) }
    }
}

impl AccessQueue {
    /// Buffers an access to memory of a process, if there is room.
    pub fn push(&self, pid: Pid, access: Access) {
        if let Some(accesses) = self.lock().as_mut().filter(|all| all.len() < ACCESSES_MAX) {
            accesses.push((pid, access));
        }
    }

    /// Marks the end of the source: no more accesses will come.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// Takes the accesses since the last call; `None` after the end.
    pub(crate) fn drain(&self) -> Option<Vec<(Pid, Access)>> {
        self.lock().as_mut().map(std::mem::take)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<(Pid, Access)>>> {
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

    /// Goal: each access is taken once, the buffer stops at its limit, and nothing is kept after
    /// the end.
    #[test]
    fn what_was_pushed_is_taken_once() {
        let (heard, pid) = (AccessQueue::default(), Pid::new(7).unwrap());
        heard.push(pid, access(0x1000));
        assert_eq!(heard.drain(), Some(vec![(pid, access(0x1000))]));
        assert_eq!(heard.drain(), Some(vec![]));
        (0..ACCESSES_MAX as u64 + 5).for_each(|address| heard.push(pid, access(address)));
        assert_eq!(heard.drain().map(|all| all.len()), Some(ACCESSES_MAX));
        heard.push(pid, access(0x1000));
        heard.close();
        heard.push(pid, access(0x2000));
        assert_eq!(heard.drain(), None);
    }
}

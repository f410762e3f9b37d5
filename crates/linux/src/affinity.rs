//! The affinity of threads, as CPU sets.

use std::io;

use nodeward_model::mask::Id;
use nodeward_model::{CpuId, Cpumask};

use crate::sys;

/// Words of a set that can hold every CPU id.
const WORDS: usize = CpuId::LIMIT as usize / 64;

/// A buffer for the kernel's answer, which is only as long as the kernel's CPU set.
#[derive(Debug)]
pub struct AffinityBuffer(Box<[u64]>);

impl Default for AffinityBuffer {
    fn default() -> Self {
        Self(vec![0; WORDS].into())
    }
}

impl AffinityBuffer {
    /// Reads the affinity of a thread; bit n % 64 of word n / 64 stands for CPU n. Cost: one system
    /// call, less than 1 us.
    ///
    /// # Errors
    /// ESRCH if the thread has exited.
    pub fn read(&mut self, tid: u32) -> io::Result<&[u64]> {
        let length = sys::affinity(tid, &mut self.0)?;
        Ok(&self.0[..length])
    }

    /// Sets the words in a test.
    #[cfg(test)]
    pub fn fill<const N: usize>(&mut self, words: [u64; N]) -> &[u64] {
        self.0[..N].copy_from_slice(&words);
        &self.0[..N]
    }
}

/// Returns the affinity of a thread.
///
/// # Errors
/// ESRCH if the thread has exited.
pub fn get(tid: u32) -> io::Result<Cpumask> {
    Ok(from_words(AffinityBuffer::default().read(tid)?))
}

/// Sets the affinity of a thread to those of these CPUs that its cpuset allows.
///
/// # Errors
/// `InvalidInput` if the cpuset allows none; ESRCH if the thread has exited; EPERM if it belongs to
/// another user.
pub fn set(tid: u32, cpus: &Cpumask) -> io::Result<()> {
    let length = cpus.last().map_or(1, |cpu| cpu.0 as usize / 64 + 1);
    let mut words = vec![0; length];
    for cpu in cpus.iter() {
        words[cpu.0 as usize / 64] |= 1 << (cpu.0 % 64);
    }
    sys::set_affinity(tid, &words)
}

/// Sets the affinity of a thread to all CPUs, so that a cpuset that grows later takes effect too.
///
/// # Errors
/// Those of [`set`].
pub fn set_unrestricted(tid: u32) -> io::Result<()> {
    sys::set_affinity(tid, &[u64::MAX; WORDS])
}

/// Converts words to a set.
pub fn from_words(words: &[u64]) -> Cpumask {
    let bits = |(index, &word): (usize, &u64)| {
        let first = index as u32 * 64;
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| CpuId(first + bit))
    };
    words.iter().enumerate().flat_map(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bit n is CPU n, also beyond the first word and for the highest possible CPU.
    #[test]
    fn words_are_sets() {
        let mut words = vec![0; WORDS];
        (words[0], words[1], words[WORDS - 1]) = (1 | 1 << 63, 1, 1 << 63);
        assert_eq!(from_words(&words).to_string(), "0,63-64,65535");
        assert!(from_words(&[]).is_empty() && from_words(&[0, 0]).is_empty());
    }

    /// Goal: a thread set to all CPUs keeps its affinity, and one set to a single CPU has only that
    /// one.
    #[test]
    fn threads_are_told_where_to_run() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            let before = get(tid).unwrap();
            let one = Cpumask::from_iter(before.last());
            set(tid, &one).unwrap();
            assert_eq!(get(tid).unwrap(), one);
            set_unrestricted(tid).unwrap();
            assert!(before.is_subset(&get(tid).unwrap()));
        })
        .join()
        .unwrap();
        assert_eq!(get(0x3f_ffff).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}

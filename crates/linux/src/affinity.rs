//! The CPUs that a thread may run on, as sets.

use std::io;

use nodeward_model::mask::Id;
use nodeward_model::{CpuId, Cpumask};

use crate::sys;

/// Words for as many CPUs as there are ids.
const WORDS: usize = CpuId::LIMIT as usize / 64;

/// Room for the kernel's answer; it is only as long as the kernel has CPUs.
#[derive(Debug)]
pub struct Words(Box<[u64]>);

impl Default for Words {
    fn default() -> Self {
        Self(vec![0; WORDS].into())
    }
}

impl Words {
    /// The CPUs that a thread may run on, bit n of word n / 64 standing for CPU n. Cost: one system
    /// call, less than 1 us.
    ///
    /// # Errors
    /// ESRCH if the thread ended.
    pub fn read(&mut self, tid: u32) -> io::Result<&[u64]> {
        let length = sys::affinity(tid, &mut self.0)?;
        Ok(&self.0[..length])
    }

    /// Words that a test makes up.
    #[cfg(test)]
    pub fn of<const N: usize>(&mut self, words: [u64; N]) -> &[u64] {
        self.0[..N].copy_from_slice(&words);
        &self.0[..N]
    }
}

/// The CPUs that a thread may run on.
///
/// # Errors
/// ESRCH if it ended.
pub fn of(tid: u32) -> io::Result<Cpumask> {
    Ok(mask(Words::default().read(tid)?))
}

/// Lets a thread run on these CPUs only, as far as its cpuset allows them.
///
/// # Errors
/// `InvalidInput` if it allows none; ESRCH if the thread ended; EPERM if it belongs to somebody
/// else.
pub fn set(tid: u32, cpus: &Cpumask) -> io::Result<()> {
    let length = cpus.last().map_or(1, |cpu| cpu.0 as usize / 64 + 1);
    let mut words = vec![0; length];
    for cpu in cpus.iter() {
        words[cpu.0 as usize / 64] |= 1 << (cpu.0 % 64);
    }
    sys::set_affinity(tid, &words)
}

/// Lets a thread run wherever its cpuset allows, also where that will allow more one day.
///
/// # Errors
/// As [`set`] has them.
pub fn set_all(tid: u32) -> io::Result<()> {
    sys::set_affinity(tid, &[u64::MAX; WORDS])
}

/// The set that words stand for.
pub fn mask(words: &[u64]) -> Cpumask {
    let bits = |(index, &word): (usize, &u64)| {
        let first = index as u32 * 64;
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| CpuId(first + bit))
    };
    words.iter().enumerate().flat_map(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bit n is CPU n, also beyond the first word and in the highest that there can be.
    #[test]
    fn words_are_sets() {
        let mut words = vec![0; WORDS];
        (words[0], words[1], words[WORDS - 1]) = (1 | 1 << 63, 1, 1 << 63);
        assert_eq!(mask(&words).to_string(), "0,63-64,65535");
        assert!(mask(&[]).is_empty() && mask(&[0, 0]).is_empty());
    }

    /// Goal: a thread that is told all CPUs may run where it could before, and one that is told a
    /// single one only there.
    #[test]
    fn threads_are_told_where_to_run() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            let before = of(tid).unwrap();
            let one = Cpumask::from_iter(before.last());
            set(tid, &one).unwrap();
            assert_eq!(of(tid).unwrap(), one);
            set_all(tid).unwrap();
            assert!(before.is_subset(&of(tid).unwrap()));
        })
        .join()
        .unwrap();
        assert_eq!(of(0x3f_ffff).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}

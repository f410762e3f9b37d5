//! Affinity of threads and CPU time of processes: sched_getaffinity(2), sched_setaffinity(2),
//! clock_gettime(2) with the clock of a process. The safe wrappers stop at 1024 CPUs, or do not
//! know that clock.

use std::io;
use std::mem::MaybeUninit;

/// Reads the affinity of a thread into `words`; bit n stands for CPU n. Returns the number of words
/// written; the words after those are unchanged.
///
/// # Errors
/// `InvalidInput` if the kernel may have more CPUs than there are bits; ESRCH if the thread has
/// exited.
pub fn affinity(tid: u32, words: &mut [u64]) -> io::Result<usize> {
    let (call, bytes) = (libc::SYS_sched_getaffinity, size_of_val(words));
    // SAFETY: the kernel writes at most `bytes` into the slice, which is that long; every bit
    // pattern is a u64.
    let written = unsafe { libc::syscall(call, tid, bytes, words.as_mut_ptr()) };
    let written = usize::try_from(written).map_err(|_| io::Error::last_os_error())?;
    Ok(written / size_of::<u64>())
}

/// Sets the affinity of a thread to those of these CPUs that its cpuset allows.
///
/// # Errors
/// `InvalidInput` if the cpuset allows none; ESRCH if the thread has exited; EPERM if it belongs to
/// another user.
pub fn set_affinity(tid: u32, words: &[u64]) -> io::Result<()> {
    let (call, bytes) = (libc::SYS_sched_setaffinity, size_of_val(words));
    // SAFETY: the kernel reads at most `bytes` from the slice, which is that long.
    let result = unsafe { libc::syscall(call, tid, bytes, words.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the CPU time of all threads of a process so far, exited ones included, in nanoseconds.
///
/// # Errors
/// `InvalidInput` if there is no such process.
pub fn process_time_ns(pid: u32) -> io::Result<u64> {
    /// `CPUCLOCK_SCHED` of include/linux/posix-timers.h: counted by the scheduler, to the
    /// nanosecond.
    const SCHED: libc::clockid_t = 2;
    let clock = (!pid.cast_signed() << 3) | SCHED;
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel writes one timespec into the local variable.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: its fields are integers, and it was zeroed before the kernel filled it in.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the clock of a process is the one that it reads itself, and a process that does not
    /// exist has none.
    #[test]
    fn a_process_has_a_clock() {
        let burn: u64 = (0..1_000_000).fold(1, |sum, n| std::hint::black_box(sum ^ n));
        assert!(std::hint::black_box(burn) < u64::MAX);
        let before = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seen = process_time_ns(std::process::id()).unwrap();
        let after = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let ns = |time: rustix::time::Timespec| (time.tv_sec * 1_000_000_000 + time.tv_nsec) as u64;
        assert!((ns(before)..=ns(after)).contains(&seen), "{before:?} {seen} {after:?}");
        assert!(process_time_ns(0x3f_ffff).is_err());
    }

    /// Goal: an affinity is read back as it was set, in words with the same bits.
    #[test]
    fn affinity_is_read_and_set() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            let mut all = [0; 1024];
            let length = affinity(tid, &mut all).unwrap();
            let first = all.iter().position(|&word| word != 0).unwrap();
            let mut one = vec![0; first + 1];
            one[first] = 1 << all[first].trailing_zeros();
            set_affinity(tid, &one).unwrap();
            let mut now = [0; 1024];
            affinity(tid, &mut now).unwrap();
            let (told, rest) = now[..length].split_at(first + 1);
            assert!(told == one && rest.iter().all(|&word| word == 0), "{now:?}");
            assert_eq!(set_affinity(tid, &[0]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        })
        .join()
        .unwrap();
    }
}

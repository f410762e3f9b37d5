//! What the kernel knows of the calling thread and process: getrusage(2), fork(2), prctl(2).

use std::io;
use std::mem::MaybeUninit;

/// The resource usage of the calling thread so far.
pub fn thread_usage() -> io::Result<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage into the place we own.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all its fields are integers, and it was zeroed before the kernel filled it in.
    Ok(unsafe { usage.assume_init() })
}

/// Starts a child that shares our memory copy-on-write, lives for so many seconds at most, ends
/// when the calling thread does, and runs none of our code meanwhile. Returns its pid.
pub fn fork_idle(seconds: u32) -> io::Result<u32> {
    // SAFETY: the child calls only functions that are safe after a fork of many threads (system
    // calls without locks) and never returns from here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        idle(seconds)
    }
    u32::try_from(pid).map_err(|_| io::Error::last_os_error())
}

fn idle(seconds: u32) -> ! {
    // SAFETY: prctl with integers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    let ms = i32::try_from(seconds.saturating_mul(1000)).unwrap_or(i32::MAX);
    // SAFETY: poll with no descriptors is a sleep.
    unsafe { libc::poll(std::ptr::null_mut(), 0, ms) };
    // SAFETY: ends the child without running destructors or exit handlers of the parent.
    unsafe { libc::_exit(0) }
}

/// A long turn on a CPU, in nanoseconds: longer than the usual 3 ms. A thread that has had more
/// than its share of the CPU waits for the end of such a turn, so it is not longer than needed:
/// with 100 ms, the most that the scheduler grants, such threads waited for up to 30 ms.
const SLICE_NS: u64 = 8_000_000;

/// Asks the scheduler to give the calling thread long turns on its CPU. Threads with shorter turns,
/// which is all others, then may interrupt it when they wake up (Linux 6.12; without effect
/// before). Its share of the CPU stays the same.
pub fn ask_for_long_slices() -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: rustix::process::getpriority_process(None)?,
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads one sched_attr of the size that it tells.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Switches transparent huge pages off for the calling process, and for programs that it starts.
pub fn disable_huge_pages() -> io::Result<()> {
    // SAFETY: prctl with integers only.
    let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether that was done.
pub fn huge_pages_are_disabled() -> bool {
    // SAFETY: prctl with integers only.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1 }
}

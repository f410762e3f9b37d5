//! Calls about the calling thread and process: getrusage(2), fork(2), prctl(2), sigaction(2).

use std::io;
use std::mem::MaybeUninit;

/// Returns the resource usage of the calling thread so far.
pub fn thread_usage() -> io::Result<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage into the local variable.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all its fields are integers, and it was zeroed before the kernel filled it in.
    Ok(unsafe { usage.assume_init() })
}

/// Forks a child that shares this process's memory copy-on-write, lives for at most `seconds`,
/// exits when the calling thread does, and runs no other code. Returns its pid.
pub fn fork_idle(seconds: u32) -> io::Result<u32> {
    // SAFETY: the child calls only functions that are safe after a fork of many threads (system
    // calls without locks) and never returns from here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        idle(seconds)
    }
    u32::try_from(pid).map_err(|_| io::Error::last_os_error())
}

/// Forks a child that runs `child` on a copy of this process's memory and exits with the code that
/// it returns, or 101 if it panics. It has only the calling thread: locks that other threads held
/// stay locked, except those of malloc(3) and the like, which fork(3) releases. Returns its pid.
pub fn fork_and_run(child: impl FnOnce() -> u8) -> io::Result<u32> {
    // SAFETY: the child runs with a copy of all memory, so what `child` borrows is there; it never
    // returns from here, so no destructor and no exit handler of the parent runs twice.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
        // SAFETY: ends the child and nothing else.
        unsafe { libc::_exit(i32::from(code)) }
    }
    u32::try_from(pid).map_err(|_| io::Error::last_os_error())
}

/// Sets the handler of a signal for all threads; interrupted system calls are restarted. The
/// handler may only do what is safe in one (signal-safety(7)): access atomics, for example.
pub fn on_signal(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let function = handler as *const () as libc::sighandler_t;
    // SAFETY: a sigaction of zeros is valid: no flags, no signals blocked.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = function;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the kernel reads one sigaction; the function lives as long as the program.
    let result = unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a signal to one thread of this process.
pub fn send_signal(tid: i32, signal: i32) -> io::Result<()> {
    let pid = rustix::process::getpid().as_raw_pid();
    // SAFETY: tgkill with integers only.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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

/// A long time slice, in nanoseconds: longer than the usual 3 ms. A thread that has used more than
/// its share of the CPU waits for the end of such a slice, so it is not longer than needed: with
/// 100 ms, the maximum of the scheduler, such threads waited for up to 30 ms.
const SLICE_NS: u64 = 8_000_000;

/// Asks the scheduler to give the calling thread long time slices. Threads with shorter slices,
/// which is all others, may then preempt it when they wake up (Linux 6.12; without effect before).
/// Its share of the CPU stays the same.
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
    // SAFETY: the kernel reads one sched_attr of the size in its first field.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Disables transparent huge pages for the calling process, and for programs that it starts.
pub fn disable_huge_pages() -> io::Result<()> {
    // SAFETY: prctl with integers only.
    let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes back [`disable_huge_pages`].
pub fn allow_huge_pages() -> io::Result<()> {
    // SAFETY: prctl with integers only.
    let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 0, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns true if [`disable_huge_pages`] has been called, here or by a parent.
pub fn huge_pages_are_disabled() -> bool {
    // SAFETY: prctl with integers only.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1 }
}

//! Tries whether events of perf may be opened, and says why not.

use std::io;
use std::path::Path;

use nodeward_machine::{Error, Result};
use rustix::process::{Resource, getrlimit};

use super::ring::{Ring, RingError};
use crate::confinement::{Confinement, PrivilegedAction};
use crate::kernel_file;
use crate::sys::{PerfEvent, PerfScope};

/// What events are for, as errors put it.
#[derive(Clone, Copy, Debug)]
pub struct PerfUse {
    /// What was tried.
    pub action: &'static str,
    /// What the kernel lacks that knows no such event.
    pub lacking: &'static str,
    /// The privilege that it takes.
    pub attempt: PrivilegedAction,
}

/// Samples of accesses.
pub const ACCESSES: PerfUse = PerfUse {
    action: "observing accesses with perf",
    lacking: "this kernel gives no user registers (CONFIG_HAVE_PERF_REGS)",
    attempt: PrivilegedAction::PerfEvent,
};

/// Opens an event on the calling thread, with the smallest ring, and closes it.
///
/// # Errors
/// `Denied` or `Unsupported`.
pub fn try_event(event: PerfEvent) -> Result<()> {
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let bytes = rustix::param::page_size();
    let ring = Ring::open(event.attributes(), PerfScope::Thread(tid), bytes);
    ring.map(drop).map_err(|cause| error(cause, &ACCESSES))
}

/// Returns true if an event is possible but not permitted, or too much for this user.
pub fn is_refusal(error: &RingError) -> bool {
    let (RingError::Event(source) | RingError::Memory(source)) = error;
    matches!(source.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Returns the error of an event that could not be opened, with the remedy.
pub fn error(error: RingError, of: &PerfUse) -> Error {
    error_in(error, of, &Confinement::detect(Path::new("/")))
}

fn error_in(error: RingError, of: &PerfUse, situation: &Confinement) -> Error {
    let denied = |remedy: String| Error::Denied { action: of.action.to_owned(), remedy };
    let unsupported =
        |reason: &str| Error::Unsupported { action: of.action, reason: reason.to_owned() };
    let errno = |source: &io::Error| source.raw_os_error();
    match &error {
        RingError::Memory(source) if errno(source) == Some(libc::EPERM) => denied(
            "its rings have all the memory that this user may lock for them; raise \
             kernel.perf_event_mlock_kb, or run as root"
                .to_owned(),
        ),
        RingError::Event(source) if errno(source) == Some(libc::EMFILE) => {
            denied("too many files are open; raise the limit (ulimit -n)".to_owned())
        }
        RingError::Event(source) if errno(source) == Some(libc::ENOSYS) => {
            match situation.perf_event_open_filtered {
                true => denied(situation.remedy(of.attempt)),
                false => unsupported("boot a kernel with CONFIG_PERF_EVENTS"),
            }
        }
        RingError::Event(source)
            if matches!(errno(source), Some(libc::EOPNOTSUPP | libc::EINVAL)) =>
        {
            unsupported(of.lacking)
        }
        _ if is_refusal(&error) => denied(situation.remedy(of.attempt)),
        _ => Error::Syscall { call: "perf_event_open", source: error.into() },
    }
}

/// Returns the bytes that rings of a user without privileges may have: `perf_event_mlock_kb` for
/// each CPU, and beyond that what the process may lock (RLIMIT_MEMLOCK).
pub fn locked_bytes_max() -> u64 {
    let text =
        kernel_file::read_to_string("/proc/sys/kernel/perf_event_mlock_kb").unwrap_or_default();
    let kib: u64 = text.trim().parse().unwrap_or(0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let of_user = (kib << 10).saturating_mul(cpus as u64);
    of_user.saturating_add(getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(error: RingError, situation: &Confinement) -> String {
        error_in(error, &ACCESSES, situation).to_string()
    }

    /// Goal: each answer of the kernel gives the remedy that helps against it, and a filter that
    /// returns ENOSYS is not taken for a kernel without perf.
    #[test]
    fn answers_of_the_kernel_are_told_apart() {
        let event = |errno| RingError::Event(io::Error::from_raw_os_error(errno));
        let memory = |errno| RingError::Memory(io::Error::from_raw_os_error(errno));
        let plain = Confinement { perf_event_paranoid: Some(3), ..Confinement::default() };
        let filtered = Confinement { perf_event_open_filtered: true, ..Confinement::default() };
        for (error, situation, words) in [
            (event(libc::EACCES), &plain, "CAP_PERFMON, or set kernel.perf_event_paranoid to 2"),
            (event(libc::EPERM), &filtered, "a seccomp filter refuses perf_event_open"),
            (event(libc::ENOSYS), &filtered, "a seccomp filter refuses perf_event_open"),
            (event(libc::ENOSYS), &plain, "CONFIG_PERF_EVENTS"),
            (event(libc::EOPNOTSUPP), &plain, "CONFIG_HAVE_PERF_REGS"),
            (event(libc::EMFILE), &plain, "ulimit -n"),
            (memory(libc::EPERM), &plain, "kernel.perf_event_mlock_kb"),
            (memory(libc::ENOMEM), &plain, "perf_event_open failed"),
        ] {
            let text = text(error, situation);
            assert!(text.contains(words), "{text}");
        }
    }
}

//! Events of perf that fill a ring with samples or records: perf_event_open(2).

use std::io;
use std::mem::offset_of;
use std::os::fd::{FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as perf;
use perf_event_open_sys::perf_event_open;

/// The word of a ring's first page that counts the bytes that the kernel has written.
pub const RING_HEAD_WORD: usize = offset_of!(perf::perf_event_mmap_page, data_head) / 8;
/// The word of a ring's first page that counts the bytes that the reader has taken.
pub const RING_TAIL_WORD: usize = offset_of!(perf::perf_event_mmap_page, data_tail) / 8;

/// What an event counts. No hardware counts for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfCounter {
    /// Time on a CPU, with a sample each `period_ns` nanoseconds.
    CpuClock {
        /// The time between two samples, in nanoseconds; the kernel takes no less than 10,000.
        period_ns: u64,
    },
    /// Page faults, each with a sample.
    PageFaults,
}

/// Where an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfScope {
    /// One thread, on any CPU.
    Thread(u32),
    /// All threads of all processes, on one CPU.
    Cpu(u32),
}

/// An event and the content of its samples: instruction pointer, process and thread, address, CPU
/// and, if any are wanted, user registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfEvent {
    /// What it counts, in user mode only.
    pub counter: PerfCounter,
    /// The wanted registers, by the bits of the kernel's asm/perf_regs.h; 0 for none.
    pub registers: u64,
}

/// An event as the kernel takes it.
#[derive(Clone, Copy, Debug)]
pub struct PerfAttributes(perf::perf_event_attr);

impl PerfAttributes {
    /// Returns the event that counts nothing and records each process and thread that starts or
    /// ends, with the time of CLOCK_MONOTONIC.
    pub fn of_tasks() -> Self {
        let mut attributes = perf::perf_event_attr {
            type_: perf::PERF_TYPE_SOFTWARE,
            size: size_of::<perf::perf_event_attr>() as u32,
            config: perf::PERF_COUNT_SW_DUMMY.into(),
            clockid: libc::CLOCK_MONOTONIC,
            ..perf::perf_event_attr::default()
        };
        attributes.set_task(1);
        attributes.set_use_clockid(1);
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        Self(attributes)
    }
}

impl PerfEvent {
    /// Returns it as the kernel takes it.
    pub fn attributes(self) -> PerfAttributes {
        let (config, period) = match self.counter {
            PerfCounter::CpuClock { period_ns } => (perf::PERF_COUNT_SW_CPU_CLOCK, period_ns),
            PerfCounter::PageFaults => (perf::PERF_COUNT_SW_PAGE_FAULTS, 1),
        };
        let registers = if self.registers == 0 { 0 } else { perf::PERF_SAMPLE_REGS_USER };
        let fields = perf::PERF_SAMPLE_IP
            | perf::PERF_SAMPLE_TID
            | perf::PERF_SAMPLE_ADDR
            | perf::PERF_SAMPLE_CPU
            | registers;
        let mut attributes = perf::perf_event_attr {
            type_: perf::PERF_TYPE_SOFTWARE,
            size: size_of::<perf::perf_event_attr>() as u32,
            config: config.into(),
            sample_type: fields.into(),
            sample_regs_user: self.registers,
            ..perf::perf_event_attr::default()
        };
        attributes.__bindgen_anon_1.sample_period = period;
        // Without these two, users without privileges would be refused.
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        PerfAttributes(attributes)
    }
}

/// Opens an event, which counts from now on. Its samples and records are dropped until its ring is
/// mapped.
///
/// # Errors
/// EACCES or EPERM where it is forbidden, ENOSYS without perf, ESRCH if the thread has exited,
/// ENODEV if the CPU is offline.
pub fn open_perf_event(event: PerfAttributes, scope: PerfScope) -> io::Result<OwnedFd> {
    let PerfAttributes(mut attributes) = event;
    let number = |id: u32| i32::try_from(id).map_err(|_| io::ErrorKind::InvalidInput);
    let (pid, cpu) = match scope {
        PerfScope::Thread(tid) => (number(tid)?, -1),
        PerfScope::Cpu(cpu) => (-1, number(cpu)?),
    };
    let flags = perf::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the kernel reads the attributes, which are as long as their field says, and may
    // write that field.
    let fd = unsafe { perf_event_open(&raw mut attributes, pid, cpu, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for this call, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls perf_event_open(2) with a flag that no kernel knows. A kernel that receives the call
/// returns EINVAL before it checks anything else.
pub fn perf_event_with_unknown_flag() -> io::Error {
    let unknown: libc::c_ulong = 1 << 30;
    // SAFETY: the kernel refuses the flag before it reads the attributes; from a null pointer it
    // would read none.
    unsafe { perf_event_open(std::ptr::null_mut(), 0, -1, -1, unknown) };
    io::Error::last_os_error()
}

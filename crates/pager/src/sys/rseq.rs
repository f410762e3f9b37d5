//! Reads the CPU that the calling thread runs on, in a few nanoseconds.
//!
//! `nodeward_linux::own::current_cpu` returns it too, by a call into the vDSO, which is several
//! times as slow: too slow for the short path of an allocation. Here it is read from the area that
//! the C library registers for each thread with rseq(2) (glibc 2.35). The kernel updates the area
//! whenever the thread changes its CPU.

use std::ffi::CStr;
use std::sync::atomic::{AtomicIsize, Ordering};

use nodeward_linux::own_process;

/// Offset of a thread's area from its thread pointer: the same for all threads. The two special
/// values below are never offsets, because the area is aligned and lies beside what the thread
/// pointer points to.
static OFFSET: AtomicIsize = AtomicIsize::new(NOT_LOOKED_UP);
const NOT_LOOKED_UP: isize = 0;
const NO_AREA: isize = 1;

/// The area begins with `cpu_id_start` and `cpu_id`, four bytes each.
const CPU_ID: isize = 4;
const BYTES_NEEDED: u32 = 8;

/// Returns the CPU that the calling thread runs on. The thread may run on another one already when
/// this returns.
#[inline]
pub fn current_cpu() -> u32 {
    cpu_by_rseq().unwrap_or_else(cpu_by_syscall)
}

/// Returns the CPU in the thread's area. `None` without an area: another or an old C library,
/// `GLIBC_TUNABLES=glibc.pthread.rseq=0`, or a kernel that refused.
#[inline]
fn cpu_by_rseq() -> Option<u32> {
    let mut offset = OFFSET.load(Ordering::Relaxed);
    if offset == NOT_LOOKED_UP {
        offset = look_up();
    }
    if offset == NO_AREA {
        return None;
    }
    // Negative while this thread is not registered.
    u32::try_from(cpu_id(offset)).ok()
}

/// Returns the CPU by a system call or the vDSO.
#[cold]
fn cpu_by_syscall() -> u32 {
    own_process::current_cpu().0
}

/// Looks up the offset. Threads that race here find the same value.
#[cold]
fn look_up() -> isize {
    let offset = offset_in_c_library().unwrap_or(NO_AREA);
    OFFSET.store(offset, Ordering::Relaxed);
    offset
}

/// Returns `__rseq_offset`, if the C library has it and `__rseq_size` says that threads are
/// registered.
fn offset_in_c_library() -> Option<isize> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return None; // the thread pointer is not known here
    }
    let (size, offset) = (symbol(c"__rseq_size")?, symbol(c"__rseq_offset")?);
    // SAFETY: the C library defines it as a constant `unsigned int`, and stays loaded.
    let size = unsafe { size.cast::<u32>().read() };
    // SAFETY: likewise a constant `ptrdiff_t`.
    let offset = unsafe { offset.cast::<isize>().read() };
    (size >= BYTES_NEEDED).then_some(offset)
}

fn symbol(name: &CStr) -> Option<*const u8> {
    // SAFETY: the name ends with a zero; the call only looks among what is loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found.cast_const().cast())
}

/// Reads the field `cpu_id` of the calling thread's area.
#[cfg(target_arch = "x86_64")]
#[inline]
fn cpu_id(offset: isize) -> i32 {
    let found: i32;
    // SAFETY: reads four bytes of the area, which the C library gives every thread at this offset
    // for as long as it lives. Not `pure`: the kernel changes it between two reads.
    unsafe {
        std::arch::asm!(
            "mov {found:e}, dword ptr fs:[{offset} + {CPU_ID}]",
            found = out(reg) found,
            offset = in(reg) offset,
            CPU_ID = const CPU_ID,
            options(nostack, preserves_flags, readonly),
        );
    }
    found
}

/// Reads the field `cpu_id` of the calling thread's area.
#[cfg(target_arch = "aarch64")]
#[inline]
fn cpu_id(offset: isize) -> i32 {
    let found: i32;
    // SAFETY: reads four bytes of the area, which the C library gives every thread at this offset
    // for as long as it lives. Not `pure`: the kernel changes it between two reads.
    unsafe {
        std::arch::asm!(
            "mrs {at}, tpidr_el0",
            "add {at}, {at}, {offset}",
            "ldr {found:w}, [{at}, #{CPU_ID}]",
            at = out(reg) _,
            found = lateout(reg) found,
            offset = in(reg) offset,
            CPU_ID = const CPU_ID,
            options(nostack, preserves_flags, readonly),
        );
    }
    found
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cpu_id(_offset: isize) -> i32 {
    -1
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Runs `check` on each CPU that this process may use, pinned to it.
    fn on_each_cpu(check: fn(u32)) {
        let usable = sched_getaffinity(None).unwrap();
        let cpus = (0..CpuSet::MAX_CPU).filter(move |&cpu| usable.is_set(cpu));
        let pinned = std::thread::spawn(move || {
            for cpu in cpus {
                let mut only = CpuSet::new();
                only.set(cpu);
                sched_setaffinity(None, &only).unwrap();
                check(cpu as u32);
            }
        });
        pinned.join().unwrap();
    }

    /// Returns whether the calling thread has an area, by rseq(2): the kernel accepts only one.
    fn kernel_has_an_area() -> bool {
        #[repr(C, align(32))]
        struct RseqArea([u32; 8]);
        const UNREGISTER: u32 = 1;
        const SIGNATURE: u32 = 0x5305_3053;
        let mut area = RseqArea([0; 8]);
        let mut rseq = |flags: u32| {
            let area = &raw mut area;
            // SAFETY: the area has the size that is passed, and lives until it is unregistered.
            unsafe { libc::syscall(libc::SYS_rseq, area, size_of::<RseqArea>(), flags, SIGNATURE) }
        };
        if rseq(0) != 0 {
            return std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS);
        }
        assert_eq!(rseq(UNREGISTER), 0);
        false
    }

    /// Goal: on each CPU both ways return that CPU, and the fast one works wherever the kernel
    /// knows an area of the thread (glibc 2.35, this architecture).
    #[test]
    fn each_cpu_is_told() {
        on_each_cpu(|cpu| {
            assert_eq!((current_cpu(), cpu_by_syscall()), (cpu, cpu));
            assert_eq!(cpu_by_rseq(), kernel_has_an_area().then_some(cpu));
        });
    }

    /// Goal: if the C library is told to register no thread, the CPU is right all the same. Runs in
    /// a process of its own, because the C library reads the setting at startup.
    #[test]
    fn without_an_area_the_kernel_is_asked() {
        const HERE: &str = "NODEWARD_NO_RSEQ";
        if std::env::var_os(HERE).is_some() {
            return on_each_cpu(|cpu| assert_eq!((cpu_by_rseq(), current_cpu()), (None, cpu)));
        }
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = again
            .args(["without_an_area_the_kernel_is_asked", "--nocapture"])
            .env(HERE, "1")
            .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    }
}

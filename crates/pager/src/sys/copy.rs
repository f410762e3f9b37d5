//! Copy routines of x86-64 that Rust cannot express. Other processors copy by memcpy(3).

/// A copy routine that this CPU supports.
#[derive(Clone, Copy, Debug)]
pub struct CopyRoutine {
    name: &'static str,
    run: unsafe fn(&mut [u8], &[u8]),
}

impl CopyRoutine {
    /// Returns its name in reports.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Copies `from` to `to`, which must have equal lengths. The whole copy is visible to other
    /// CPUs when this returns. Fast for whole pages.
    pub fn copy(&self, to: &mut [u8], from: &[u8]) {
        assert_eq!(to.len(), from.len(), "a copy is as long as what it is of");
        // SAFETY: only `routines` makes values of this type. The one precondition of their
        // functions is a feature of the CPU, which it has checked.
        unsafe { (self.run)(to, from) };
    }
}

/// Returns the routines that this CPU supports, the ones expected to be fastest first.
#[cfg(not(target_arch = "x86_64"))]
pub fn routines() -> Vec<CopyRoutine> {
    Vec::new()
}

/// Evicts memory from the caches, as far as programs can.
#[cfg(not(target_arch = "x86_64"))]
pub fn evict(_memory: &[u8]) {}

#[cfg(target_arch = "x86_64")]
pub use x86_64::{evict, routines};

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64 as cpu;

    use super::CopyRoutine;

    /// Returns the routines that this CPU supports, the ones expected to be fastest first.
    pub fn routines() -> Vec<CopyRoutine> {
        let mut routines = Vec::new();
        if is_x86_feature_detected!("avx512f") {
            routines.push(CopyRoutine { name: "stream-512", run: stream_512 });
        }
        if is_x86_feature_detected!("avx2") {
            routines.push(CopyRoutine { name: "stream-256", run: stream_256 });
        }
        // Every x86-64 has the others.
        routines.push(CopyRoutine { name: "stream-128", run: stream_128 });
        routines.push(CopyRoutine { name: "rep-movsb", run: rep_movsb });
        routines
    }

    /// Evicts memory from all caches.
    pub fn evict(memory: &[u8]) {
        for line in memory.chunks(size_of::<CacheLine>()) {
            // SAFETY: the address is in `memory`. Content does not change.
            unsafe { cpu::_mm_clflush(line.as_ptr()) };
        }
        // SAFETY: every x86-64 has it.
        unsafe { cpu::_mm_mfence() };
    }

    /// A cache line, which streaming stores fill as a whole.
    #[repr(C, align(64))]
    struct CacheLine([u8; 64]);

    const LINES_PER_PAGE: usize = 64;
    /// Pages that are copied in parallel. The prefetcher follows each, but none across its end.
    /// Four pages gave 11.7 GB/s, one after the other 8.9 (Sapphire Rapids, 4 KiB pages not in the
    /// caches); eight were no better.
    const SIDE_BY_SIDE: usize = 4;
    const GROUP: usize = SIDE_BY_SIDE * LINES_PER_PAGE;

    /// A copy whose stores bypass the caches: this CPU does not read the pages soon, and lines that
    /// are overwritten need not be fetched.
    macro_rules! streaming {
        ($name:ident, $feature:literal, $vector:ty, $load:ident, $store:ident) => {
            #[target_feature(enable = $feature)]
            fn $name(to: &mut [u8], from: &[u8]) {
                // SAFETY: any bytes are a CacheLine.
                let (head, lines, tail) = unsafe { to.align_to_mut::<CacheLine>() };
                let (from_head, from) = from.split_at(head.len());
                head.copy_from_slice(from_head);
                let (from_lines, from_tail) = from.as_chunks();
                tail.copy_from_slice(from_tail);
                let (groups, lines) = lines.as_chunks_mut::<GROUP>();
                let (from_groups, from_lines) = from_lines.as_chunks::<GROUP>();
                for (to, from) in groups.iter_mut().zip(from_groups) {
                    for line in 0..LINES_PER_PAGE {
                        for page in 0..SIDE_BY_SIDE {
                            let at = page * LINES_PER_PAGE + line;
                            copy_line(&mut to[at], &from[at]);
                        }
                    }
                }
                lines.iter_mut().zip(from_lines).for_each(|(to, from)| copy_line(to, from));
                // Streaming stores are not ordered with later operations, a wake-up for example.
                cpu::_mm_sfence();

                #[target_feature(enable = $feature)]
                #[inline]
                fn copy_line(CacheLine(to): &mut CacheLine, from: &[u8; 64]) {
                    let (to, _) = to.as_chunks_mut::<{ size_of::<$vector>() }>();
                    let (from, _) = from.as_chunks::<{ size_of::<$vector>() }>();
                    for (to, from) in to.iter_mut().zip(from) {
                        // SAFETY: the load takes any alignment, and reads one vector.
                        let vector = unsafe { cpu::$load(from.as_ptr().cast()) };
                        // SAFETY: parts of a CacheLine are aligned to their size; the store writes
                        // one vector. The caller fences before anybody looks.
                        unsafe { cpu::$store(to.as_mut_ptr().cast(), vector) };
                    }
                }
            }
        };
    }

    streaming!(stream_512, "avx512f", cpu::__m512i, _mm512_loadu_si512, _mm512_stream_si512);
    streaming!(stream_256, "avx2", cpu::__m256i, _mm256_loadu_si256, _mm256_stream_si256);
    streaming!(stream_128, "sse2", cpu::__m128i, _mm_loadu_si128, _mm_stream_si128);

    /// The copy that the CPU implements in microcode (`rep movsb`).
    fn rep_movsb(to: &mut [u8], from: &[u8]) {
        let bytes = to.len().min(from.len());
        // SAFETY: reads `bytes` bytes from `from` and writes as many to `to`; both are that long.
        // The direction flag is clear wherever Rust code runs. The fence below orders its stores.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rdi") to.as_mut_ptr() => _,
                inout("rsi") from.as_ptr() => _,
                options(nostack, preserves_flags),
            );
        }
    }
}

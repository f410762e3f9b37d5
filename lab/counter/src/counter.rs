//! The counter: its reaction to memory accesses, and to the few other events.
//!
//! The state of a CPU is changed by its own thread alone; it consists of atomic numbers only
//! because the compiler cannot know that. The exceptions are the CPU's `state`, which a mark on any
//! CPU invalidates, and the data under the lock.

use std::fs::File;
use std::io::{Error, Result};
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

use nodeward_lab_counts::mark::Mark;
use nodeward_lab_counts::{
    CONTROL, CountsLayout, CountsReader, CpuArea, MappedWords, SLOTS, WORD_BYTES,
};
use rustix::fs::{FallocateFlags, fallocate};

use crate::address_spaces::AddressSpaceTable;
use crate::cache_model::CacheModel;
use crate::memory_map::{FrameLocation, PhysicalAddressKind, PhysicalMemoryMap, is_node_row};
use crate::miss_delay::PendingDelay;
use crate::translations::TranslationCache;

/// Addresses of programs are below this.
const USER_ADDRESS_END: u64 = 1 << 47;
/// Mask of the page table root in CR3.
const CR3_ROOT_MASK: u64 = 0x000f_ffff_ffff_f000;
const LINE_BITS: u32 = 6;
const LINES_IN_FRAME: u64 = 64;

/// A CPU's state is the slot of its address space, optionally with this bit, or one of the values
/// below.
const BY_FRAME: u32 = 1 << 8;
/// The CPU has to determine its state before it counts again.
const UNRESOLVED: u32 = 1 << 16;
/// The CPU is determining its state.
const RESOLVING: u32 = 2 << 16;
/// The CPU does not count.
const NOT_COUNTING: u32 = 3 << 16;

/// The state of a running machine.
#[derive(Debug)]
pub struct AccessCounter {
    file: File,
    words: MappedWords,
    layout: CountsLayout,
    frames_start: usize,
    memory_map: PhysicalMemoryMap,
    cpus: Vec<Option<VcpuState>>,
    /// Caches by node.
    caches: Vec<CacheModel>,
    /// Protects changes of the table of address spaces and of the control words.
    table_lock: Mutex<()>,
}

/// The state of a CPU, on cache lines of its own, two at a time as CPUs fetch them: threads that
/// shared one slowed each other down.
#[derive(Debug)]
#[repr(align(128))]
struct VcpuState {
    node: usize,
    area: CpuArea,
    state: AtomicU32,
    /// CR3, or 0 if it is not known yet.
    address_space: AtomicU64,
    /// Whether CR3 changed since it was read.
    cr3_written: AtomicBool,
    translations: TranslationCache,
    /// The last line accessed. An immediate repetition needs no lookup: the CPU still has the line.
    last_line: AtomicU64,
    /// Cost of a miss, by column.
    miss_delay_ns: Vec<u64>,
    pending_delay: PendingDelay,
}

impl VcpuState {
    fn new(shape: &CountsLayout, number: usize, node: u32) -> Self {
        let node = node as usize;
        let mut delay_ns = shape.miss_delay_ns.get(node).cloned().unwrap_or_default();
        delay_ns.resize(shape.columns(), 0);
        Self {
            node,
            area: shape.area(number),
            state: AtomicU32::new(UNRESOLVED),
            address_space: AtomicU64::new(0),
            cr3_written: AtomicBool::new(true),
            translations: TranslationCache::new(),
            last_line: AtomicU64::new(u64::MAX),
            miss_delay_ns: delay_ns,
            pending_delay: PendingDelay::default(),
        }
    }
}

impl AccessCounter {
    /// Opens a prepared file; `interface` is the version of the emulator's interface.
    ///
    /// # Errors
    /// If it is not a file of counts.
    pub fn open(path: &Path, telling: PhysicalAddressKind, interface: u64) -> Result<Self> {
        let shape = CountsReader::open(path)?.layout().clone();
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = shape.file_bytes();
        if file.metadata()?.len() < bytes {
            return Err(Error::other("the file of counts is too short"));
        }
        let words = MappedWords::map(&file, usize::try_from(bytes).map_err(Error::other)?, true)?;
        let mut number = 0..;
        let mut cpu = |node: &Option<u32>| {
            let node = (*node)?;
            Some(VcpuState::new(&shape, number.next()?, node))
        };
        let cpus = shape.cpu_slots.iter().map(&mut cpu).collect();
        let counter = Self {
            file,
            frames_start: shape.frames_start(),
            memory_map: PhysicalMemoryMap::new(&shape, telling),
            cpus,
            caches: (0..shape.nodes()).map(|_| CacheModel::new(shape.llc)).collect(),
            table_lock: Mutex::new(()),
            words,
            layout: shape,
        };
        counter.word(CONTROL.writer).store(interface, Release);
        Ok(counter)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words.all()[at]
    }

    /// Adds to a word that no other thread changes.
    fn add(&self, at: usize, count: u64) {
        let word = self.word(at);
        word.store(word.load(Relaxed) + count, Relaxed);
    }

    fn address_spaces(&self) -> AddressSpaceTable<'_> {
        AddressSpaceTable(
            &self.words.all()[self.layout.space_word(0)..self.layout.space_word(SLOTS)],
        )
    }

    fn cpu(&self, place: usize) -> Option<&VcpuState> {
        self.cpus.get(place)?.as_ref()
    }

    /// Handles a program's memory access; `ask` asks the emulator for the physical address.
    pub fn access(&self, place: usize, address: u64, ask: impl FnOnce() -> Option<u64>) {
        let Some(cpu) = self.cpu(place) else { return };
        let mut state = cpu.state.load(Acquire);
        if state == UNRESOLVED {
            state = self.resolve_state(cpu);
        }
        if state >= UNRESOLVED || address >= USER_ADDRESS_END {
            return;
        }
        let asked = || {
            self.add(cpu.area.lookups(), 1);
            ask().map(|physical| self.memory_map.locate(physical))
        };
        let Some(place) = cpu.translations.lookup(address, asked) else { return };
        let cell = cpu.area.cell((state % BY_FRAME) as usize, place.column);
        self.add(cell, 1);
        let missed = self.is_miss(cpu, place, address);
        if missed {
            self.add(cell + 1, 1);
        }
        if state & BY_FRAME != 0 && is_node_row(place.row) {
            self.count_frame(cpu.node, place.row, missed);
        }
    }

    /// Looks up a line in the cache and charges for a miss. Returns whether it missed.
    fn is_miss(&self, cpu: &VcpuState, place: FrameLocation, address: u64) -> bool {
        let line = place.row * LINES_IN_FRAME + (address >> LINE_BITS) % LINES_IN_FRAME;
        if cpu.last_line.load(Relaxed) == line {
            return false;
        }
        cpu.last_line.store(line, Relaxed);
        if self.caches[cpu.node].access(line) {
            return false;
        }
        let delay_ns = cpu.miss_delay_ns[place.column];
        if delay_ns > 0
            && let Some(held_ns) = cpu.pending_delay.add_miss(delay_ns)
        {
            self.add(cpu.area.held_ns(), held_ns);
        }
        true
    }

    /// Counts an access by frame, atomically: several CPUs of a node may count the same frame.
    fn count_frame(&self, node: usize, row: u64, missed: bool) {
        let at = self.frames_start + (row as usize * self.caches.len() + node) * 2;
        self.word(at).fetch_add(1, Relaxed);
        if missed {
            self.word(at + 1).fetch_add(1, Relaxed);
        }
    }

    /// Determines a CPU's state. Another CPU may invalidate it again meanwhile.
    #[cold]
    fn resolve_state(&self, cpu: &VcpuState) -> u32 {
        loop {
            cpu.state.store(RESOLVING, Release);
            let state = {
                let _changes = self.table_lock.lock().unwrap_or_else(PoisonError::into_inner);
                self.reset_if_stale(cpu);
                self.state_of(cpu)
            };
            if cpu.state.compare_exchange(RESOLVING, state, AcqRel, Acquire).is_ok() {
                return state;
            }
        }
    }

    fn state_of(&self, cpu: &VcpuState) -> u32 {
        if self.word(CONTROL.counting).load(Relaxed) == 0 {
            return NOT_COUNTING;
        }
        let slot = self.address_spaces().slot_of(cpu.address_space.load(Relaxed));
        let by_frame =
            self.layout.per_frame && self.word(self.layout.by_frame_word(slot)).load(Relaxed) == 1;
        slot as u32 | if by_frame { BY_FRAME } else { 0 }
    }

    /// Clears a CPU's counts if they are from before the last zeroing.
    fn reset_if_stale(&self, cpu: &VcpuState) {
        let epoch = self.word(CONTROL.epoch).load(Relaxed);
        if self.word(cpu.area.start).load(Relaxed) != epoch {
            self.words.all()[cpu.area.counts()].iter().for_each(|word| word.store(0, Relaxed));
            self.word(cpu.area.start).store(epoch, Release);
        }
    }

    /// Handles a CPU's flush of translations.
    pub fn on_tlb_flush(&self, place: usize) {
        if let Some(cpu) = self.cpu(place) {
            cpu.translations.flush();
        }
    }

    /// Handles a CPU's change of CR3.
    pub fn on_cr3_write(&self, place: usize) {
        if let Some(cpu) = self.cpu(place) {
            cpu.translations.flush();
            cpu.cr3_written.store(true, Relaxed);
        }
    }

    /// Handles a CPU's return from the kernel, perhaps to another address space; `cr3` reads that
    /// register.
    pub fn on_kernel_exit(&self, place: usize, cr3: impl FnOnce() -> Option<u64>) {
        let Some(cpu) = self.cpu(place) else { return };
        if cpu.cr3_written.load(Relaxed)
            && let Some(cr3) = cr3()
        {
            cpu.cr3_written.store(false, Relaxed);
            if cpu.address_space.swap(cr3 & CR3_ROOT_MASK, Relaxed) != cr3 & CR3_ROOT_MASK {
                cpu.state.store(UNRESOLVED, Release);
            }
        }
    }

    /// Handles a mark of a program; `cr3` reads the CPU's register.
    pub fn on_mark(&self, place: usize, mark: Mark, cr3: impl FnOnce() -> Option<u64>) {
        let Some(cpu) = self.cpu(place) else { return };
        let changes = self.table_lock.lock().unwrap_or_else(PoisonError::into_inner);
        match mark {
            Mark::Start => self.word(CONTROL.counting).store(1, Relaxed),
            Mark::Stop => self.word(CONTROL.counting).store(0, Relaxed),
            Mark::Zero => self.zero(),
            Mark::Attach(slot) => {
                let Some(cr3) = cr3() else { return };
                cpu.address_space.store(cr3 & CR3_ROOT_MASK, Relaxed);
                self.address_spaces().attach(cr3 & CR3_ROOT_MASK, slot.into());
            }
            Mark::Detach(slot) => self.address_spaces().detach(slot.into()),
            Mark::ByFrame(slot) => {
                self.word(self.layout.by_frame_word(slot.into())).store(1, Relaxed);
            }
        }
        drop(changes);
        for cpu in self.cpus.iter().flatten() {
            cpu.state.store(UNRESOLVED, Release);
        }
    }

    /// Zeroes all counts. Each CPU zeroes its own before it counts again; until then they are read
    /// as zero.
    fn zero(&self) {
        self.word(CONTROL.epoch).fetch_add(1, Relaxed);
        let start = (self.frames_start * WORD_BYTES) as u64;
        let bytes = self.layout.file_bytes() - start;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.file, flags, start, bytes).is_err() {
            self.words.all()[self.frames_start..].iter().for_each(|word| word.store(0, Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use nodeward_lab_counts::{
        AccessCount, CacheGeometry as Size, CounterSnapshot, FileWords, FrameCount, FrameRange,
    };
    use tempfile::NamedTempFile;

    use super::*;

    const PAGE: u64 = 4096;

    /// Returns a shape with CPUs on nodes 0 and 1 with 1000 frames each, and an empty place between
    /// them.
    fn shape() -> CountsLayout {
        let frames = |first, node| FrameRange { first_frame: first, frame_count: 1000, node };
        CountsLayout {
            cpu_slots: vec![Some(0), None, Some(1)],
            memory: vec![frames(0, 0), frames(1000, 1)],
            llc: Size { bytes: 64 * 64, ways: 4 },
            miss_delay_ns: vec![vec![0, 100], vec![200, 0]],
            per_frame: true,
        }
    }

    struct CounterFixture {
        counter: AccessCounter,
        reader: CountsReader<FileWords>,
        _file: NamedTempFile,
    }

    fn bench() -> CounterFixture {
        let file = NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&shape().encode_header(), 0).unwrap();
        file.as_file().set_len(shape().file_bytes()).unwrap();
        let counter =
            AccessCounter::open(file.path(), PhysicalAddressKind::GuestPhysical, 3).unwrap();
        CounterFixture { counter, reader: CountsReader::open(file.path()).unwrap(), _file: file }
    }

    impl CounterFixture {
        /// Runs a program on the CPU of a place in an address space.
        fn run(&self, place: usize, space: u64) {
            self.counter.on_cr3_write(place);
            self.counter.on_kernel_exit(place, || Some(space | 0x7)); // low bits are not the root
        }

        /// Reads a line of each page of a range; physical and virtual addresses are equal.
        fn read(&self, place: usize, pages: std::ops::Range<u64>) {
            for page in pages {
                self.counter.access(place, page * PAGE, || Some(page * PAGE));
            }
        }

        fn mark(&self, mark: Mark, space: u64) {
            self.counter.on_mark(0, mark, || Some(space));
        }

        fn snapshot(&self) -> CounterSnapshot {
            self.reader.snapshot().unwrap()
        }

        /// Returns the accesses of a slot by CPU and column.
        fn accesses(&self, slot: usize) -> Vec<[u64; 3]> {
            let counts = self.snapshot();
            let Some(slot) = counts.slot(slot) else { return vec![[0; 3]; 2] };
            let row = |row: &Vec<AccessCount>| [0, 1, 2].map(|column| row[column].accesses);
            slot.cells.iter().map(row).collect()
        }
    }

    /// Goal: every access is counted for the CPU, the node and the address space that made it,
    /// without effect on other CPUs.
    #[test]
    fn accesses_are_told_apart() {
        let bench = bench();
        assert!(bench.reader.has_writer().unwrap());
        bench.run(0, 0x10000);
        bench.run(2, 0x20000);
        bench.read(0, 990..1010);
        bench.read(2, 990..1020);
        bench.run(0, 0x20000);
        bench.read(0, 5..6);
        bench.read(0, 3000..3002); // no memory of a node
        bench.read(1, 0..9); // no CPU
        bench.counter.access(0, 1 << 47, || Some(0)); // no program's
        bench.counter.access(0, 77 * PAGE, || None); // nobody knows where
        assert_eq!(bench.accesses(64), [[10, 10, 0], [0, 0, 0]]);
        assert_eq!(bench.accesses(65), [[1, 0, 2], [10, 20, 0]]);
        assert_eq!(bench.accesses(0), [[0; 3]; 2]);
        assert_eq!(bench.snapshot().slot(65).unwrap().space, Some(0x20000));
    }

    /// Goal: marks take effect at once and on every CPU: attach, detach, stop, start, zero.
    #[test]
    fn marks_work_at_once() {
        let bench = bench();
        bench.run(0, 0x10000);
        bench.run(2, 0x10000);
        bench.read(2, 0..1);
        bench.mark(Mark::Attach(7), 0x10000);
        bench.read(0, 0..2);
        bench.read(2, 0..4);
        bench.mark(Mark::Stop, 0x10000);
        assert!(!bench.snapshot().counting);
        bench.read(2, 0..100);
        bench.mark(Mark::Start, 0x10000);
        bench.read(2, 0..8);
        assert_eq!(bench.accesses(7), [[2, 0, 0], [12, 0, 0]]);
        assert_eq!(bench.accesses(64), [[0, 0, 0], [1, 0, 0]]);
        bench.mark(Mark::Zero, 0x10000);
        assert_eq!(bench.accesses(7), [[0; 3]; 2]);
        bench.read(2, 0..16);
        assert_eq!(bench.accesses(7), [[0, 0, 0], [16, 0, 0]]);
        bench.mark(Mark::Detach(7), 0x10000);
        bench.read(2, 0..32);
        assert_eq!(bench.accesses(7), [[0, 0, 0], [16, 0, 0]]);
    }

    /// Goal: a translation is asked for once and dropped when the guest flushes it.
    #[test]
    fn translations_are_dropped_with_the_guests() {
        let bench = bench();
        bench.run(0, 0x10000);
        let on = |frame: u64| move || Some(frame * PAGE);
        bench.counter.access(0, 5 * PAGE, on(1));
        bench.counter.access(0, 5 * PAGE, || panic!("it is known"));
        bench.counter.on_tlb_flush(2);
        bench.counter.access(0, 5 * PAGE, || panic!("another CPU dropped it"));
        bench.counter.on_tlb_flush(0);
        bench.counter.access(0, 5 * PAGE, on(1001));
        assert_eq!(bench.accesses(64), [[3, 1, 0], [0, 0, 0]]);
    }

    /// Goal: misses are those of the node's cache, and only remote ones are charged.
    #[test]
    fn misses_are_paid_for() {
        let bench = bench();
        bench.run(0, 0x10000);
        // The cache holds 64 lines in 16 sets of four; one line of each page is in set 0. So each
        // of 100 pages misses, also the second time.
        for _ in 0..2 {
            bench.read(0, 900..1000);
            bench.read(0, 1000..1100);
        }
        let counts = bench.snapshot();
        let cells = &counts.slot(64).unwrap().cells[0];
        assert_eq!(cells[..2], [AccessCount { accesses: 200, misses: 200 }; 2]);
        // 200 remote misses at 100 ns; charged in pieces of 20, which is 2 us.
        assert_eq!(counts.held_ns, [20_000, 0]);
        bench.counter.access(0, 1099 * PAGE + 8, || None);
        let counts = bench.snapshot();
        let cell = counts.slot(64).unwrap().cells[0][1];
        assert_eq!(cell, AccessCount { accesses: 201, misses: 200 }); // the same line again
    }

    /// Goal: frames are counted for the chosen slots, by node, until zeroed.
    #[test]
    fn frames_are_counted_where_asked() {
        let bench = bench();
        bench.run(0, 0x10000);
        bench.run(2, 0x20000);
        bench.mark(Mark::Attach(7), 0x10000);
        bench.mark(Mark::ByFrame(7), 0x10000);
        bench.read(0, 998..1002);
        bench.read(2, 998..1002);
        bench.run(2, 0x10000);
        bench.read(2, 1001..1002);
        bench.read(2, 3000..3001); // no frame
        let cell = |accesses, misses| AccessCount { accesses, misses };
        let count = |frame, home, by: [AccessCount; 2]| FrameCount { frame, home, by: by.to_vec() };
        let one = [cell(1, 1), cell(0, 0)];
        let expected = [
            count(998, 0, one),
            count(999, 0, one),
            count(1000, 1, one),
            count(1001, 1, [cell(1, 1), cell(1, 0)]), // node 1 had just read it
        ];
        assert_eq!(bench.reader.frames().unwrap(), expected);
        bench.mark(Mark::Zero, 0x10000);
        assert_eq!(bench.reader.frames().unwrap(), []);
    }

    /// Goal: a file that is not a file of counts, or is too short, is refused.
    #[test]
    fn other_files_are_refused() {
        let file = NamedTempFile::new().unwrap();
        assert!(AccessCounter::open(file.path(), PhysicalAddressKind::GuestPhysical, 3).is_err());
        file.as_file().write_all_at(&shape().encode_header(), 0).unwrap();
        assert!(AccessCounter::open(file.path(), PhysicalAddressKind::GuestPhysical, 3).is_err());
    }

    /// Goal: CPUs that count concurrently, while marks arrive, lose nothing.
    #[test]
    fn threads_do_not_lose_counts() {
        let bench = bench();
        std::thread::scope(|scope| {
            for place in [0, 2] {
                let bench = &bench;
                scope.spawn(move || {
                    bench.run(place, 0x10000);
                    (0..2000).for_each(|_| bench.read(place, 0..10));
                });
            }
            (0..200).for_each(|_| bench.mark(Mark::ByFrame(9), 0x30000));
        });
        assert_eq!(bench.accesses(64), [[20_000, 0, 0], [20_000, 0, 0]]);
    }
}

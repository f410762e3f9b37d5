//! Model check of runs that move between the lists of CPUs, the zone and the kernel: the real files
//! of the pool with the locks and atomics of loom, which tries every interleaving of the threads
//! (with at most [`PREEMPTIONS`] preemptions). Counters, which order nothing, are std's.
//!
//! The machine is a model: one node with two CPUs, and memory that records which pages are present
//! and in use. It panics where the pool frees or hands out a page in use.

#![allow(dead_code, reason = "no model uses all of the real files")]
#![allow(clippy::forget_non_drop, reason = "a slot of the model is only a number")]

#[path = "../src/pool/buddy_zone.rs"]
mod buddy_zone;
#[path = "../src/pool/cpu_lists.rs"]
mod cpu_lists;
#[path = "../src/pool/error.rs"]
mod error;
#[path = "../src/pool/growth.rs"]
mod growth;
#[path = "../src/pool/options.rs"]
mod options;
#[path = "../src/page_bits.rs"]
mod page_bits;
#[path = "../src/pool/page_list.rs"]
mod page_list;
#[path = "../src/pool/page_states.rs"]
mod page_states;
#[path = "../src/pool/pool.rs"]
mod pool;
#[allow(unsafe_code, reason = "the real file, from the room where it is allowed")]
#[path = "../src/sys/try_lock.rs"]
mod try_lock;

/// A stand-in: no process forks in the model.
mod fork_detection {
    pub fn fork_depth() -> u32 {
        0
    }
}

/// An arena of one block.
mod arena {
    use std::ops::Range;
    use std::ptr::NonNull;
    use std::sync::Mutex;

    use nodeward_model::NodeId;

    use super::buddy_zone::ChunkNo;
    use super::error::PoolError;
    use super::page_states::{PageState, PageStates};
    use crate::chunk::PageSize;
    use crate::sys::{AnonMapping, Slot};
    use crate::{CHUNK_PAGES, CHUNKS, PAGE};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BlockKind {
        pub size: PageSize,
        pub origin: PageOrigin,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(dead_code, reason = "no model migrates")]
    pub enum PageOrigin {
        Node(Option<NodeId>),
        Regions,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PageNo(usize);

    pub struct Arena {
        pub mapping: AnonMapping,
        states: PageStates,
        empty: Mutex<Vec<Slot>>,
    }

    impl Arena {
        pub fn new() -> Self {
            Self {
                mapping: AnonMapping::default(),
                states: PageStates::all_absent(CHUNKS * CHUNK_PAGES),
                empty: Mutex::new((0..CHUNKS).map(Slot).collect()),
            }
        }

        pub fn page_bytes(&self) -> usize {
            PAGE
        }

        pub fn chunk_pages(&self) -> usize {
            CHUNK_PAGES
        }

        pub fn take_empty(&self, _kind: BlockKind, _lane: usize) -> crate::Result<(ChunkNo, Slot)> {
            let slot = self.empty.lock().unwrap().pop().ok_or(())?;
            Ok((slot.0 as ChunkNo, slot))
        }

        pub fn give_empty(&self, _kind: BlockKind, slot: Slot) {
            self.empty.lock().unwrap().push(slot);
        }

        pub fn chunk_of(&self, slot: &Slot) -> ChunkNo {
            slot.0 as ChunkNo
        }

        pub fn is_in_section_of(&self, _chunk: ChunkNo, _lane: usize) -> bool {
            true
        }

        pub fn page(&self, chunk: ChunkNo, page: usize) -> PageNo {
            PageNo(chunk as usize * CHUNK_PAGES + page)
        }

        pub fn chunk_of_page(&self, page: PageNo) -> (ChunkNo, usize) {
            ((page.0 / CHUNK_PAGES) as ChunkNo, page.0 % CHUNK_PAGES)
        }

        /// Never zero.
        pub fn address(&self, page: PageNo) -> NonNull<u8> {
            NonNull::without_provenance(((page.0 + 1) * PAGE).try_into().unwrap())
        }

        pub fn page_at(&self, start: NonNull<u8>) -> Result<PageNo, PoolError> {
            Ok(PageNo(start.addr().get() / PAGE - 1))
        }

        pub fn bytes_of_pages(&self, first: PageNo, pages: usize) -> (&AnonMapping, Range<usize>) {
            (&self.mapping, first.0 * PAGE..(first.0 + pages) * PAGE)
        }

        pub fn zone_of(&self, _page: PageNo) -> usize {
            0
        }

        pub fn set_zone(&self, _chunk: ChunkNo, zone: usize) {
            assert_eq!(zone, 0);
        }

        pub fn set(&self, page: PageNo, state: PageState) {
            self.states.set(page.0, state);
        }

        pub fn has_state(&self, page: PageNo, state: PageState) -> bool {
            self.states.has_state(page.0, state)
        }

        pub fn set_all(&self, first: PageNo, pages: usize, state: PageState) {
            self.states.set_all(first.0..first.0 + pages, state);
        }

        pub fn begin_free(&self, page: PageNo, order: u32) -> Result<(), PoolError> {
            self.states.begin_free(page.0, order, || self.address(page).addr().get() as u64)
        }
    }
}

/// The locks and atomics of the real files.
mod sync {
    use std::cell::Cell;

    pub use loom::cell::UnsafeCell;
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::Ordering;
    pub use loom::sync::{Mutex, MutexGuard};
    pub use loom::thread::yield_now;

    thread_local! {
        /// Makes a comparison and the store after it two steps. A thread-local, because loom runs
        /// the threads of a model on one thread.
        pub static TORN: Cell<bool> = const { Cell::new(false) };
    }

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    /// Always false: the model reports errors by a panic, which must not abort.
    pub fn panicking() -> bool {
        false
    }

    /// loom's atomic. A swap is done as a comparison, for the reason given in `try_lock_model.rs`.
    pub struct AtomicBool(loom::sync::atomic::AtomicBool);

    impl AtomicBool {
        pub fn new(value: bool) -> Self {
            Self(loom::sync::atomic::AtomicBool::new(value))
        }

        pub fn swap(&self, value: bool, order: Ordering) -> bool {
            let found = self.0.compare_exchange(!value, value, order, Ordering::Relaxed);
            found.unwrap_or_else(|found| found)
        }

        pub fn load(&self, order: Ordering) -> bool {
            self.0.load(order)
        }

        pub fn store(&self, value: bool, order: Ordering) {
            self.0.store(value, order);
        }
    }

    /// loom's atomic, which can be torn.
    pub struct AtomicU8(loom::sync::atomic::AtomicU8);

    impl AtomicU8 {
        pub fn new(value: u8) -> Self {
            Self(loom::sync::atomic::AtomicU8::new(value))
        }

        pub fn load(&self, order: Ordering) -> u8 {
            self.0.load(order)
        }

        pub fn store(&self, value: u8, order: Ordering) {
            self.0.store(value, order);
        }

        pub fn compare_exchange(
            &self,
            current: u8,
            new: u8,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u8, u8> {
            if !TORN.get() {
                return self.0.compare_exchange(current, new, success, failure);
            }
            let found = self.load(Ordering::Acquire);
            if found != current {
                return Err(found);
            }
            self.store(new, Ordering::Release);
            Ok(found)
        }
    }
}

/// A small model of the kernel.
mod sys {
    use std::cell::Cell;
    use std::io;
    use std::ops::Range;
    use std::ptr::NonNull;
    use std::sync::{Mutex, MutexGuard};

    use crate::{CHUNK_PAGES, CHUNKS, PAGE};

    pub use crate::try_lock::{TryLock, TryLockGuard};

    loom::thread_local! {
        pub static CPU: Cell<u32> = Cell::new(0);
    }

    pub fn current_cpu() -> u32 {
        CPU.with(Cell::get)
    }

    pub fn prefetch(_address: NonNull<u8>) {}

    pub enum Advice {
        Discard,
    }

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    enum ModelPage {
        #[default]
        Missing,
        /// Holds content of the kernel or of the last owner.
        Dirty,
        Poisoned,
        /// In use.
        Taken,
    }

    /// The memory. Its lock is std's: no thread switch happens while it is held.
    #[derive(Default)]
    pub struct AnonMapping(Mutex<[ModelPage; CHUNKS * CHUNK_PAGES]>);

    impl AnonMapping {
        fn pages(&self) -> MutexGuard<'_, [ModelPage; CHUNKS * CHUNK_PAGES]> {
            self.0.lock().unwrap()
        }

        fn change(&self, bytes: Range<usize>, from: &[ModelPage], to: ModelPage) {
            for page in &mut self.pages()[bytes.start / PAGE..bytes.end / PAGE] {
                assert!(from.contains(page), "a page is {page:?}, and is to become {to:?}");
                *page = to;
            }
        }

        /// Marks pages as in use.
        pub fn take(&self, bytes: Range<usize>) {
            self.change(bytes, &[ModelPage::Poisoned, ModelPage::Dirty], ModelPage::Taken);
        }

        /// Marks pages as not in use any more.
        pub fn leave(&self, bytes: Range<usize>) {
            self.change(bytes, &[ModelPage::Taken], ModelPage::Dirty);
        }

        pub fn start(&self) -> u64 {
            PAGE as u64
        }

        pub fn zero(&self, bytes: Range<usize>) {
            self.change(bytes, &[ModelPage::Poisoned], ModelPage::Dirty);
        }

        pub fn poison(&self, bytes: Range<usize>) {
            self.change(bytes, &[ModelPage::Dirty], ModelPage::Poisoned);
        }

        pub fn written_since_poisoned(&self, bytes: Range<usize>) -> Option<usize> {
            let pages = &self.pages()[bytes.start / PAGE..bytes.end / PAGE];
            pages.iter().position(|page| *page != ModelPage::Poisoned)
        }

        pub fn populate(&self, bytes: Range<usize>) -> io::Result<()> {
            self.change(bytes, &[ModelPage::Missing], ModelPage::Dirty);
            Ok(())
        }

        pub fn advise(&self, bytes: Range<usize>, _discard: Advice) -> io::Result<()> {
            self.change(bytes, &[ModelPage::Poisoned], ModelPage::Missing);
            Ok(())
        }
    }

    pub struct Slot(pub usize);

    impl Slot {
        pub fn discard(&mut self, _all: Range<usize>) -> io::Result<()> {
            Ok(())
        }
    }
}

mod headroom {
    use nodeward_model::NodeId;

    /// Always reports room.
    pub struct Headroom;

    impl Headroom {
        pub fn reserve(&self, _: NodeId, _: usize, _: impl FnOnce()) -> bool {
            true
        }

        pub fn are_on_node(&self, _: NodeId, _: impl Iterator<Item = u64>) -> bool {
            true
        }

        pub fn invalidate(&self, _: NodeId) {}
    }
}

/// Chunks of four pages.
mod chunk {
    use crate::{CHUNK_PAGES, PAGE};

    pub const CHUNK_BYTES: usize = CHUNK_PAGES * PAGE;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum PageSize {
        #[default]
        Base,
        Huge,
    }
}

type Result<T> = std::result::Result<T, ()>;

const PREEMPTIONS: usize = 2;
/// All memory is one chunk of four pages.
const CHUNKS: usize = 1;
const CHUNK_PAGES: usize = 4;
const PAGE: usize = 4096;

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use chunk::PageSize;
use loom::thread;
use nodeward_model::topology::Node;
use nodeward_model::{CpuId, NodeId, Topology};
use nodeward_policy::pcp::{ListLimits, TunerKind};

use arena::Arena;
use error::PoolError;
use options::RunRequest;
use pool::{Pool, PoolParts, ZoneBounds, ZoneParts};
use sync::TORN;
use sys::CPU;

type ModelRun = (NonNull<u8>, u32);

fn new() -> Arc<Pool> {
    let cpus: nodeward_model::Cpumask = [CpuId(0), CpuId(1)].into_iter().collect();
    let node = Node { cpus: cpus.clone(), ..Node::default() };
    let nodes = [(NodeId(0), node)].into();
    let topology = Topology { cpus, nodes, ..Topology::default() };
    let bounds = ZoneBounds { held_pages_max: 4, free_pages_max: 4, keep_pages: 0 };
    let limits = ListLimits { batch: 1, high_default: 2, high_max: 2 };
    let pool = Arc::new(Pool::new(PoolParts {
        arena: Arena::new(),
        zones: vec![ZoneParts { node: NodeId(0), size: PageSize::Base, bounds, limits }],
        size: PageSize::Base,
        topology,
        headroom: Arc::new(headroom::Headroom),
        tuning: TunerKind::Fixed,
        period: Duration::from_secs(1),
    }));
    // std's OnceLock, which loom does not model, creates the lists before other threads exist.
    for cpu in [1, 0] {
        on(cpu, || free(&pool, allocate(&pool, 0).unwrap()).unwrap());
        // A thread that does not get the first list of a CPU uses the second.
        let has_first = pool.lists.with_free_list(cpu as usize, 0, |_| {
            pool.lists.with_free_list(cpu as usize, 0, |_| ())
        });
        assert_eq!(has_first, Some(Some(())));
    }
    pool
}

/// Runs `act` on a CPU.
fn on<T>(cpu: u32, act: impl FnOnce() -> T) -> T {
    CPU.with(|own| own.set(cpu));
    act()
}

fn bytes((start, order): ModelRun) -> std::ops::Range<usize> {
    let first = start.addr().get() - PAGE;
    first..first + (PAGE << order)
}

/// Allocates a run; `None` if there is none.
fn allocate(pool: &Pool, order: u32) -> Option<ModelRun> {
    match pool.allocate(&RunRequest { order, ..RunRequest::default() }) {
        Ok(start) => {
            pool.arena.mapping.take(bytes((start, order)));
            Some((start, order))
        }
        Err(error) => {
            assert_eq!(error, PoolError::NoMemory { order });
            None
        }
    }
}

fn free(pool: &Pool, run: ModelRun) -> std::result::Result<(), PoolError> {
    pool.arena.mapping.leave(bytes(run));
    pool.free(run.0, run.1)
}

fn allocate_and_free(pool: &Pool, order: u32) {
    if let Some(run) = allocate(pool, order) {
        free(pool, run).unwrap();
    }
}

/// Asserts that all pages are present and none is in use.
fn assert_idle(pool: &Pool) {
    let stats = pool.stats();
    assert_eq!((stats.in_use_pages, stats.allocated_pages), (0, stats.freed_pages), "{stats:?}");
    let all = allocate(pool, 2).expect("all pages are free");
    free(pool, all).unwrap();
    pool.give_back();
    assert_eq!(pool.stats().held_pages, 0);
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Starts a thread on a CPU.
fn spawn<T: 'static>(
    pool: &Arc<Pool>,
    cpu: u32,
    act: impl FnOnce(&Pool) -> T + 'static,
) -> thread::JoinHandle<T> {
    let pool = Arc::clone(pool);
    thread::spawn(move || on(cpu, || act(&pool)))
}

/// Goal: runs that another CPU frees, while one thread wants all memory and a third moves free
/// pages from the lists to the kernel, are neither lost nor handed out twice.
#[test]
fn lists_zone_and_kernel_exchange() {
    check(|| {
        let pool = new();
        let run = allocate(&pool, 0).unwrap();
        let frees = spawn(&pool, 1, move |pool| free(pool, run).unwrap());
        let wants_all = spawn(&pool, 0, |pool| allocate_and_free(pool, 2));
        pool.give_back();
        frees.join().unwrap();
        wants_all.join().unwrap();
        assert_idle(&pool);
    });
}

/// Goal: two threads that use the same CPU's list, as happens when they migrate, and one beside it,
/// each get a run of their own.
#[test]
fn threads_of_one_cpu_exclude_each_other() {
    check(|| {
        let pool = new();
        let others = [0, 1].map(|cpu| spawn(&pool, cpu, |pool| allocate_and_free(pool, 0)));
        allocate_and_free(&pool, 1);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_idle(&pool);
    });
}

/// Lets two CPUs free the same run, while free pages go to the kernel.
fn freed_twice() {
    check(|| {
        let pool = new();
        let run = allocate(&pool, 1).unwrap();
        pool.arena.mapping.leave(bytes(run));
        let frees = [0, 1].map(|cpu| spawn(&pool, cpu, move |pool| pool.free(run.0, run.1)));
        pool.give_back();
        let freed = frees.map(|thread| thread.join().unwrap());
        let twice = PoolError::DoubleFree { address: run.0.addr().get() as u64 };
        let others: Vec<_> = freed.iter().filter_map(|freed| freed.err()).collect();
        assert_eq!(others, [twice], "one frees it");
        assert_idle(&pool);
    });
}

/// Goal: one of two threads that free the same run succeeds, and the run is free once.
#[test]
fn a_run_is_freed_once() {
    freed_twice();
}

/// Goal: the model can fail: if reading a state and changing it are two steps, both succeed.
#[test]
#[should_panic(expected = "a page is Poisoned, and is to become Poisoned")]
fn a_torn_comparison_is_found() {
    TORN.set(true);
    freed_twice();
}

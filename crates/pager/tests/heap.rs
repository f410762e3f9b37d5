//! The thread that waits for a page may hold the program's allocator until the page comes: a hook
//! of malloc(3) touches the page, or a signal handler that interrupted malloc. So the thread that
//! serves faults must not use the allocator, and neither may lanes while pages are out.

use std::fs;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::time::{Duration, Instant};

use nodeward_model::NodeId;
use nodeward_pager::{
    Backend, Migration, PageSize, Pager, PagerOptions, Placement, PoolOptions, Region,
    RegionOptions, Supply,
};

#[allow(unsafe_code, reason = "an allocator, from the room where that is allowed")]
#[path = "../src/sys/hooked_allocator.rs"]
mod hooked_allocator;

#[global_allocator]
static HEAP: hooked_allocator::HookedAllocator =
    hooked_allocator::HookedAllocator(before_each_call);

const MIB: usize = 1 << 20;
const CHUNK: usize = 2 * MIB;
const NO_THREAD: i32 = 0;

/// The thread that must not use the heap, and the number of its heap calls.
static FORBIDDEN: AtomicI32 = AtomicI32::new(NO_THREAD);
static CALLS: AtomicU64 = AtomicU64::new(0);
static REPORTED: AtomicBool = AtomicBool::new(false);
/// The thread that has the heap to itself.
static HOLDER: AtomicI32 = AtomicI32::new(NO_THREAD);

/// Tests here affect the heap of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn myself() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

fn before_each_call() {
    let forbidden = FORBIDDEN.load(Relaxed);
    if forbidden != NO_THREAD && forbidden == myself() && !REPORTED.load(Relaxed) {
        CALLS.fetch_add(1, Relaxed);
        REPORTED.store(true, Relaxed); // printing allocates
        eprintln!("used the heap: {}", std::backtrace::Backtrace::force_capture());
        REPORTED.store(CALLS.load(Relaxed) > 3, Relaxed);
    }
    while HOLDER.load(Acquire) != NO_THREAD && HOLDER.load(Acquire) != myself() {
        std::thread::yield_now();
    }
}

/// Runs `act` while no other thread can allocate or free, as with a lock of malloc(3).
fn while_holding_allocator<T>(act: impl FnOnce() -> T) -> T {
    while HOLDER.compare_exchange(NO_THREAD, myself(), AcqRel, Acquire).is_err() {
        std::thread::yield_now();
    }
    let done = act();
    HOLDER.store(NO_THREAD, Release);
    done
}

/// Opens a pager that moves pages itself; `None`, with a message, where there is none.
fn pager() -> Option<Pager> {
    let pool = PoolOptions { housekeeper: false, ..Default::default() };
    let pager = Pager::open(&PagerOptions { pool, ..Default::default() }).unwrap();
    if pager.backend() != Backend::Move {
        eprintln!("skipped: {}", pager.why_not_faster().unwrap_or_default());
        return None;
    }
    Some(pager)
}

fn filled_region(pager: &Pager, bytes: usize, page: PageSize) -> Region {
    let region = pager.reserve(bytes, &RegionOptions { page, ..Default::default() }).unwrap();
    region.commit(0..region.bytes(), &Placement::Local).unwrap();
    region.words().iter().zip(1..).for_each(|(word, value)| word.store(value, Relaxed));
    region
}

/// Reads and checks one word of each page.
fn touch(region: &Region) {
    let words = rustix::param::page_size() / 8;
    let pages = region.words().iter().zip(1..).step_by(words);
    pages.for_each(|(word, value)| assert_eq!(word.load(Relaxed), value));
}

fn even_if_there(supply: Supply) -> Migration<'static> {
    Migration { supply, even_if_there: true, ..Default::default() }
}

/// Returns the only thread of this process with a name, once it has taken it.
fn thread_named(name: &str) -> i32 {
    let named = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    loop {
        let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
        let mut found = tasks.filter(named);
        let Some(task) = found.next() else {
            std::thread::yield_now();
            continue;
        };
        assert!(found.next().is_none(), "one pager at a time");
        return task.file_name().into_string().unwrap().parse().unwrap();
    }
}

/// The standard library allocates in a new thread, also after it took its name. A thread that has
/// served a fault is past that.
fn serve_first_fault(pager: &Pager) {
    let region = filled_region(pager, CHUNK, PageSize::Base);
    region.migrate_lazily(0..CHUNK, &even_if_there(Supply::OneWay)).unwrap();
    touch(&region);
}

/// Goal: the thread behind faults neither allocates nor frees, whatever it serves: pages that were
/// left out and move on, to recycled pages and to fresh ones, or come home to where they were;
/// pages that were never there, also in an untouched part of a region; discarded pages; while pages
/// migrate, and regions come and go.
#[test]
fn faults_are_served_without_the_heap() {
    let _alone = ONE_AT_A_TIME.lock();
    let Some(pager) = pager() else { return };
    serve_first_fault(&pager);
    FORBIDDEN.store(thread_named("nodeward-faults"), Relaxed);
    for page in [PageSize::Base, PageSize::Huge] {
        let region = filled_region(&pager, 4 * CHUNK, page);
        let whole = 0..region.bytes();
        for round in 0..12 {
            let supply = [Supply::OneWay, Supply::Any][round % 2];
            let how = if round % 3 == 2 { Migration::default() } else { even_if_there(supply) };
            let left = region.migrate_lazily(whole.clone(), &how).unwrap();
            assert_eq!(
                left.lazy_pages,
                (4 * CHUNK / rustix::param::page_size()) as u64,
                "{left:?}"
            );
            touch(&region);
            region.migrate(whole.clone(), NodeId(0), &even_if_there(supply)).unwrap();
        }
        region.discard(whole).unwrap();
        assert!(region.words().iter().all(|word| word.load(Relaxed) == 0));
        // Two GiB, whose chunks were never touched.
        let large =
            pager.reserve(2048 * MIB, &RegionOptions { page, ..Default::default() }).unwrap();
        large.words().iter().step_by(512 * MIB / 8).for_each(|word| word.store(1, Relaxed));
    }
    let calls = CALLS.swap(0, Relaxed);
    FORBIDDEN.store(NO_THREAD, Relaxed);
    assert_eq!(calls, 0, "calls of the allocator by the thread behind faults");
}

/// Goal: the queries of the thread behind faults on machines with several nodes, where a thread
/// runs and where new pages come from, take nothing from the heap.
#[test]
fn nodes_are_found_without_the_heap() {
    let _alone = ONE_AT_A_TIME.lock();
    FORBIDDEN.store(myself(), Relaxed);
    let cpu = nodeward_linux::own_process::cpu_of_thread(myself() as u32);
    let nobody = nodeward_linux::own_process::cpu_of_thread(u32::MAX);
    // A kernel without NUMA has no memory policies.
    let preferred = nodeward_linux::mempolicy::prefer_memory(NodeId(0)).is_ok();
    let default = nodeward_linux::mempolicy::default_memory().is_ok();
    let beyond = nodeward_linux::mempolicy::prefer_memory(NodeId(u32::MAX)).is_err();
    FORBIDDEN.store(NO_THREAD, Relaxed);
    assert!(cpu.is_some() && nobody.is_none() && preferred == default && beyond);
    assert_eq!(CALLS.swap(0, Relaxed), 0, "calls of the allocator");
}

/// Records that something has ended, also by a panic.
struct DoneOnDrop<'a>(&'a AtomicBool);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// Aborts the process, with a message, if something does not end in time. Needs no heap.
fn watch(done: &AtomicBool) {
    let began = Instant::now();
    while !done.load(Acquire) {
        std::thread::sleep(Duration::from_millis(50));
        if began.elapsed() > Duration::from_secs(180) {
            let message = b"a thread that has the heap waits for a page for ever: who brings \
                            pages waits for the heap\n";
            std::io::stderr().write_all(message).ok();
            std::process::abort();
        }
    }
}

/// Goal: a thread that has the program's allocator to itself gets every page that it touches,
/// whatever happens to the region at the same time.
#[test]
fn who_has_the_heap_gets_its_pages() {
    let _alone = ONE_AT_A_TIME.lock();
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 4 * CHUNK, PageSize::Base);
    let alone = filled_region(&pager, CHUNK, PageSize::Base);
    let whole = 0..region.bytes();
    let (ended, touched) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&ended));
        let _watchdog = DoneOnDrop(&ended);
        let _toucher = DoneOnDrop(&touched);
        scope.spawn(|| {
            let mut rounds = 0..;
            while !touched.load(Acquire) {
                // Most pages come home to where they were, which needs no request to the allocation
                // thread.
                region.migrate_lazily(whole.clone(), &Migration::default()).unwrap();
                if rounds.next().is_some_and(|round| round % 4 == 0) {
                    drop(region.pin(0..CHUNK).unwrap());
                    region.migrate(whole.clone(), NodeId(0), &even_if_there(Supply::Any)).unwrap();
                }
            }
        });
        // Each may take the second that a fault waits for the allocation thread.
        for _ in 0..4 {
            region.migrate_lazily(whole.clone(), &even_if_there(Supply::Any)).unwrap();
            while_holding_allocator(|| touch(&region));
            alone.migrate_lazily(0..CHUNK, &even_if_there(Supply::Any)).unwrap();
            while_holding_allocator(|| touch(&alone));
        }
    });
}

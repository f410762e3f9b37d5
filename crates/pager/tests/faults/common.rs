//! Helpers that the tests share.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nodeward_model::NodeId;
use nodeward_pager::{
    Backend, Migration, MigrationReport, PageSize, Pager, PagerOptions, Placement, PoolOptions,
    Region, RegionOptions, Supply,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

pub const MIB: usize = 1 << 20;
/// Size of a chunk, the unit that is claimed, and of a huge page.
pub const CHUNK: usize = 2 * MIB;
/// Sleep time, in seconds, of a child that only sleeps: longer than any test. The child ends with
/// the thread that started it.
pub const IDLE_S: u32 = 3600;
/// The only node that every machine has.
pub const HERE: NodeId = NodeId(0);

/// Opens a pager that moves pages itself; `None`, with a message, where there is none.
pub fn pager_with(options: &PagerOptions) -> Option<Pager> {
    let pager = Pager::open(options).unwrap();
    if pager.backend() != Backend::Move {
        eprintln!("skipped: {}", pager.why_not_faster().unwrap_or_default());
        return None;
    }
    Some(pager)
}

/// Default options, except that recycled pages stay even if memory gets short.
pub fn without_housekeeper() -> PagerOptions {
    let pool = PoolOptions { housekeeper: false, ..Default::default() };
    PagerOptions { pool, ..Default::default() }
}

/// Opens a pager with [`without_housekeeper`] options.
pub fn pager() -> Option<Pager> {
    pager_with(&without_housekeeper())
}

/// Makes a region that is in memory.
pub fn region(pager: &Pager, bytes: usize, page: PageSize) -> Region {
    let region = pager.reserve(bytes, &RegionOptions { page, ..Default::default() }).unwrap();
    region.commit(0..region.bytes(), &Placement::Local).unwrap();
    region
}

/// Makes a region in which every word holds its position.
pub fn filled_region(pager: &Pager, bytes: usize, page: PageSize) -> Region {
    let region = region(pager, bytes, page);
    fill(&region, 0..region.bytes());
    region
}

pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Returns the number of base pages in `bytes` bytes.
pub fn pages(bytes: usize) -> u64 {
    (bytes / page_bytes()) as u64
}

/// Returns the words of a byte range.
pub fn words(bytes: std::ops::Range<usize>) -> std::ops::Range<usize> {
    bytes.start / 8..bytes.end / 8
}

/// Writes its position, plus one, into every word, so that the first is not zero either.
pub fn fill(region: &Region, bytes: std::ops::Range<usize>) {
    words(bytes).for_each(|index| region.words()[index].store(index as u64 + 1, Relaxed));
}

/// Returns the first word that is not what [`fill`] wrote.
pub fn first_wrong_word(region: &Region, bytes: std::ops::Range<usize>) -> Option<(usize, u64)> {
    let value = |index: usize| region.words()[index].load(Relaxed);
    let wrong = words(bytes).find(|&index| value(index) != index as u64 + 1);
    wrong.map(|index| (index, value(index)))
}

/// Checks the content that [`fill`] wrote.
pub fn assert_filled(region: &Region, bytes: std::ops::Range<usize>) {
    assert_eq!(first_wrong_word(region, bytes), None, "a word is not what was written");
}

/// Options of a migration that also moves pages that are where they should be.
pub fn even_if_there(supply: Supply) -> Migration<'static> {
    Migration { supply, even_if_there: true, ..Default::default() }
}

/// Moves all of a region once.
pub fn move_all(region: &Region) -> MigrationReport {
    region.migrate(0..region.bytes(), HERE, &even_if_there(Supply::Any)).unwrap()
}

/// Leaves all of a region out.
pub fn unmap_all_lazily(region: &Region) -> MigrationReport {
    region.migrate_lazily(0..region.bytes(), &even_if_there(Supply::Any)).unwrap()
}

/// Runs `act` while the region moves all the time; returns its result and the pages that moved.
pub fn while_moving<T>(region: &Region, act: impl FnOnce() -> T) -> (T, u64) {
    while_doing(|| move_twice(region), act)
}

/// Moves all of a region twice, to any pages and to fresh ones; returns the pages that moved.
pub fn move_twice(region: &Region) -> u64 {
    let how = [Supply::Any, Supply::OneWay].map(even_if_there);
    let reports = how.map(|how| region.migrate(0..region.bytes(), HERE, &how).unwrap());
    reports.iter().map(|report| report.account.moved).sum()
}

/// Runs `act` while another thread runs `again` repeatedly, at least three times. Returns the
/// result and the sum of the others.
pub fn while_doing<T>(again: impl Fn() -> u64 + Send + Sync, act: impl FnOnce() -> T) -> (T, u64) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut sum = (0..3).map(|_| again()).sum::<u64>();
            while !stop.load(Acquire) {
                sum += again();
            }
            sum
        });
        let stopper = Stopper(&stop);
        let result = act();
        drop(stopper);
        (result, other.join().unwrap())
    })
}

/// Stops the other threads of a scope, also when this one panics.
pub struct Stopper<'a>(pub &'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// Makes a system call fail (EINVAL) on this thread and those that it starts, if an argument has a
/// certain value, so that the kernel looks like one that does not know the value.
pub fn refuse_argument(call: i64, argument: u8, value: u64) {
    let length = SeccompCmpArgLen::Dword;
    let is_it = SeccompCondition::new(argument, length, SeccompCmpOp::Eq, value).unwrap();
    let rules = BTreeMap::from([(call, vec![SeccompRule::new(vec![is_it]).unwrap()])]);
    let refusal = SeccompAction::Errno(libc::EINVAL as u32);
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

const SUBPROCESS_VARIABLE: &str = "NODEWARD_AGAIN";

/// Returns whether this process was started by [`run_subprocess`] for this test.
pub fn is_subprocess(test: &str) -> bool {
    std::env::var_os(SUBPROCESS_VARIABLE).is_some_and(|name| name == *test)
}

/// Runs one test of this program in a process of its own.
pub fn run_subprocess(test: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(SUBPROCESS_VARIABLE, test)
        .output()
        .unwrap()
}

/// Runs a test in a process of its own, because it affects the whole process: forks or signals.
pub fn in_subprocess(test: &str, body: impl FnOnce()) {
    if is_subprocess(test) {
        return body();
    }
    let output = run_subprocess(test);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{err}");
    assert!(output.status.success(), "{}: {out} {err}", output.status);
    assert!(out.contains("1 passed"), "{test} is not the name of a test: {out}");
}

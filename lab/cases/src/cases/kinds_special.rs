//! Special kinds of memory: huge pages of the pool, merged, swapped and untouched pages.

use std::fs;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use nodeward_linux::own_process::{self, AreaAdvice, AreaBacking, MappedArea};
use nodeward_linux::{Linux, mempolicy};
use nodeward_machine::Machine;
use nodeward_model::{NodeId, SkipReason};
use rustix::process::Signal;

use super::kinds::there_and_back;
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{
    UNPRIVILEGED_USER, free_huge_pages, huge_pages, kib, load_drivers, read, run, wait_until,
    write, write_optional,
};
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, MoveJson, move_load, move_load_as, nodeward, skip_counts};

pub const CASES: [(&str, CaseFn); 10] = [
    ("hugetlb", hugetlb),
    ("hugetlb_shared", hugetlb_shared),
    ("hugetlb_in_a_pipe", hugetlb_in_a_pipe),
    ("hugetlb_without_a_pool", hugetlb_without_a_pool),
    ("ksm", ksm),
    ("swapped", swapped),
    ("never_touched", never_touched),
    ("zero_pages", zero_pages),
    ("huge_zero_page", huge_zero_page),
    ("split_zero_pages", split_zero_pages),
];

pub const HUGE_PAGES: u64 = 4;
const PAGES: u64 = HUGE_PAGES * 512;

pub fn hugetlb_load() -> Result<LoadProcess, CaseSkipped> {
    let got = huge_pages(0, HUGE_PAGES);
    if got < HUGE_PAGES {
        return Err(CaseSkipped(format!("node 0 yields only {got} huge pages")));
    }
    Ok(LoadProcess::start("--node 0 --size 8MiB --kind hugetlb"))
}

/// Goal: pages of the pool move to the pool of the other node.
fn hugetlb() -> CaseOutcome {
    let load = hugetlb_load()?;
    assert_eq!(huge_pages(1, HUGE_PAGES), HUGE_PAGES);
    there_and_back(&load);
    load.end();
    huge_pages(0, 0);
    huge_pages(1, 0);
    Ok(())
}

/// Goal: a shared mapping moves as a whole by any number of workers. For each of its pages the
/// kernel tries to take the lock of the whole mapping, and refuses the page if another call holds
/// it.
fn hugetlb_shared() -> CaseOutcome {
    for jobs in ["--jobs 1", "", "--jobs 4"] {
        let area = shared_huge_pages()?;
        let report = move_range(&area, jobs).report_after_exit(0);
        assert_eq!(report.account.moved, SHARED * 512, "{jobs}: {report:?}");
        assert_eq!(free_huge_pages(1), SHARED_FREE - SHARED);
    }
    [0, 1].into_iter().for_each(|node| _ = huge_pages(node, 0));
    Ok(())
}

/// Goal: a huge page that a pipe refers to is reported as pinned, while the destination has free
/// ones; the others move.
fn hugetlb_in_a_pipe() -> CaseOutcome {
    let area = shared_huge_pages()?;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let words = area.words().len() / SHARED as usize;
    let held = own_process::hold_in_pipe(writer.as_fd(), &area.words()[5 * words..][..512]);
    assert_eq!(held.expect("vmsplice"), 4096);
    let report = move_range(&area, "").report_after_exit(1);
    assert_eq!(report.account.moved, (SHARED - 1) * 512, "{report:?}");
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::Pinned, 512)]));
    // A page that a pipe holds does not return to its pool.
    drop((area, reader, writer));
    [0, 1].into_iter().for_each(|node| _ = huge_pages(node, 0));
    Ok(())
}

pub const SHARED: u64 = 32;
pub const SHARED_FREE: u64 = 40;

/// Allocates our own shared huge pages on node 0, and free ones on both nodes.
pub fn shared_huge_pages() -> Result<MappedArea, CaseSkipped> {
    for (node, wanted) in [(0, SHARED + SHARED_FREE), (1, SHARED_FREE)] {
        let got = huge_pages(node, wanted);
        if got < wanted {
            return Err(CaseSkipped(format!("node {node} yields only {got} huge pages")));
        }
    }
    let area =
        MappedArea::map(SHARED as usize * (2 << 20), AreaBacking::SharedHuge).expect("huge pages");
    // A memory policy belongs to a thread.
    thread::scope(|scope| {
        scope.spawn(|| {
            mempolicy::prefer_memory(NodeId(0)).expect("a memory policy");
            area.words().iter().step_by(512).for_each(|word| word.store(1, Relaxed));
        });
    });
    assert_eq!(free_huge_pages(0), SHARED_FREE);
    Ok(area)
}

/// Goal: without a free page in the destination's pool the kernel makes one from free memory; the
/// pool of the source node shrinks by it.
fn hugetlb_without_a_pool() -> CaseOutcome {
    let load = hugetlb_load()?;
    assert_eq!(huge_pages(1, 0), 0);
    let report = move_load(&load, "0 1 --only huge").report_after_exit(0);
    println!(
        "hugetlb without a pool: {:?}, free on node 1: {}",
        report.account,
        free_huge_pages(1)
    );
    assert_eq!(report.account.moved, PAGES);
    assert_eq!(load.memory_by_node(), [(1, PAGES)].into());
    load.end();
    huge_pages(0, 0);
    huge_pages(1, 0);
    Ok(())
}

/// Goal: a merged page is shared by all processes that map it: it stays without the privilege, and
/// moves once with it, for all of its addresses.
fn ksm() -> CaseOutcome {
    write_optional("/sys/kernel/mm/ksm/pages_to_scan", "100000")?;
    write("/sys/kernel/mm/ksm/sleep_millisecs", "1");
    write("/sys/kernel/mm/ksm/run", "1");
    let load =
        LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --size 8MiB --kind ksm --threads 0");
    let count = |file| read(&format!("/sys/kernel/mm/ksm/{file}")).trim().parse().unwrap_or(0);
    let merged = || -> u64 { count("pages_shared") + count("pages_sharing") };
    wait_until("equal pages are merged", || merged() == load.ready.pages);
    write("/sys/kernel/mm/ksm/run", "0");
    let range = &load.ready.range;
    let before = load.memory_by_node();
    let report = move_load_as(UNPRIVILEGED_USER, &load, &format!("0 1 --range {range}"))
        .report_after_exit(3);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::Shared, load.ready.pages)]));
    assert_eq!(load.memory_by_node(), before);
    let report = move_load(&load, &format!("0 1 --range {range}")).report_after_exit(0);
    assert_eq!(report.account.moved, load.ready.pages);
    assert_eq!(load.memory_by_node(), [(1, before[&0])].into());
    load.end();
    write("/sys/kernel/mm/ksm/run", "2");
    Ok(())
}

/// Goal: swapped pages are reported and left there; the rest moves.
fn swapped() -> CaseOutcome {
    let swap = ZramSwap::on()?;
    let group = ReclaimableCgroup::new("swapped");
    let load = group.run_inside(|| LoadProcess::start("--node 0 --size 8MiB --threads 0"));
    // By the page tables; VmSwap of older kernels is off by a few pages.
    let swapped_kib = || kib(&format!("/proc/{}/smaps_rollup", load.pid()), "Swap");
    write("/proc/sys/vm/swappiness", "200");
    wait_until("pages are in swap", || {
        group.reclaim(2 << 20);
        swapped_kib() >= 1 << 10
    });
    load.stop();
    let in_swap = swapped_kib() / 4;
    let present: u64 = load.pages_by_node().values().sum();
    let report = move_load(&load, "0 1").report_after_exit(1);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::Swapped, in_swap)]));
    assert_eq!(report.account.selected(), in_swap + present);
    assert_eq!(swapped_kib() / 4, in_swap, "nothing was read back");
    load.signal(Signal::CONT);
    load.end();
    swap.off();
    Ok(())
}

/// A swap device of compressed memory.
pub struct ZramSwap;

impl ZramSwap {
    const DEVICE: &str = "/dev/zram0";

    pub fn on() -> Result<Self, CaseSkipped> {
        load_drivers();
        write_optional("/sys/block/zram0/disksize", "64M")?;
        run("mkswap", &[Self::DEVICE]);
        run("swapon", &[Self::DEVICE]);
        Ok(Self)
    }

    pub fn off(self) {
        run("swapoff", &[Self::DEVICE]);
    }
}

/// A cgroup that can be reclaimed from.
pub struct ReclaimableCgroup(String);

impl ReclaimableCgroup {
    pub fn new(name: &str) -> Self {
        write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
        let folder = format!("/sys/fs/cgroup/{name}");
        fs::create_dir_all(&folder).expect("a control group can be made");
        Self(folder)
    }

    pub fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }

    /// Has the kernel reclaim memory of the group, which may be less than `bytes`.
    pub fn reclaim(&self, bytes: u64) {
        let file = self.file("memory.reclaim");
        if fs::exists(&file).is_ok_and(|exists| exists) {
            fs::write(file, bytes.to_string()).ok(); // EAGAIN where it found less
            return;
        }
        // Linux before 5.19 reclaims when it gets a limit that is exceeded.
        let used = fs::read_to_string(self.file("memory.current")).expect("a control group has it");
        let used: u64 = used.trim().parse().expect("it is a number");
        write(&self.file("memory.high"), &used.saturating_sub(bytes).to_string());
        write(&self.file("memory.high"), "max");
    }

    /// Runs `work` inside the group: memory is charged to the group in which it is touched first.
    pub fn run_inside<R>(&self, work: impl FnOnce() -> R) -> R {
        write(&self.file("cgroup.procs"), "0");
        let result = work();
        write("/sys/fs/cgroup/cgroup.procs", "0");
        result
    }
}

/// Goal: untouched memory costs nothing, however much of it there is. (Kernels that cannot list
/// populated ranges walk all of it.)
fn never_touched() -> CaseOutcome {
    write("/proc/sys/vm/overcommit_memory", "1");
    let bytes = if Linux::open().capabilities().pagemap_scan { 1 << 40 } else { 1 << 32 };
    let area = MappedArea::map(bytes, AreaBacking::Anonymous).expect("address space is free");
    area.advise(AreaAdvice::BasePages).expect("madvise");
    area.words()[0].store(1, Relaxed);
    let report = move_area(&area);
    assert_eq!(report.account.selected(), 1, "{report:?}");
    Ok(())
}

/// Goal: pages that were only read are the kernel's zero page, which is not selected.
fn zero_pages() -> CaseOutcome {
    only_read(AreaAdvice::BasePages)
}

/// Goal: the same holds for the huge zero page.
fn huge_zero_page() -> CaseOutcome {
    only_read(AreaAdvice::HugePages)
}

/// Bytes of a huge page.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// Returns the address from which huge pages may lie in an area, and the words from there on.
pub(super) fn huge_pages_of(area: &MappedArea) -> (u64, &[AtomicU64]) {
    let begin = area.address().next_multiple_of(HUGE_BYTES as u64);
    (begin, &area.words()[((begin - area.address()) / 8) as usize..])
}

/// Goal: of a huge page that is split the pages that were never written may become the zero page
/// (Linux 6.12): they are not there then. One huge page of four is tried whole.
fn split_zero_pages() -> CaseOutcome {
    let area =
        MappedArea::map(5 * HUGE_BYTES, AreaBacking::Anonymous).expect("address space is free");
    area.advise(AreaAdvice::HugePages).expect("madvise");
    mempolicy::bind_memory(&[NodeId(0)].into_iter().collect()).expect("node 0 has memory");
    let words = &huge_pages_of(&area).1[..4 * HUGE_BYTES / 8];
    words.iter().step_by(2 * 4096 / 8).for_each(|word| word.store(1, Relaxed));
    mempolicy::default_memory().expect("the policy is the default again");
    let output = move_range(&area, "--jobs 1 --split-huge --stall 1us");
    let code = output.code;
    let report = output.report_after_exit(code);
    let zeros = report.account.skipped_for(SkipReason::NotPresent);
    assert!([(0, 0), (1, 3 * 256)].contains(&(code, zeros)), "{report:?}");
    assert_eq!(report.account.moved + zeros, 4 * 512, "{report:?}");
    assert!(words.iter().step_by(2 * 4096 / 8).all(|word| word.load(Relaxed) == 1));
    Ok(())
}

fn only_read(usage: AreaAdvice) -> CaseOutcome {
    let area = MappedArea::map(8 << 20, AreaBacking::Anonymous).expect("address space is free");
    area.advise(usage).expect("madvise");
    assert!(area.words().iter().all(|word| word.load(Relaxed) == 0));
    let report = move_area(&area);
    assert_eq!(report.account.selected(), 0, "{report:?}");
    Ok(())
}

/// Moves memory of our own; its present node does not matter here.
fn move_area(area: &MappedArea) -> MoveJson {
    move_range(area, "").report_after_exit(0)
}

fn move_range(area: &MappedArea, words: &str) -> CommandOutput {
    let range = format!("{:x}-{:x}", area.address(), area.address() + area.bytes() as u64);
    let move_us = format!("move --json --quiet {} 0 1 --range {range} {words}", std::process::id());
    nodeward(move_us.trim_end())
}

//! The page pool on several nodes.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::Duration;

use nodeward_model::{CpuId, NodeId};
use nodeward_pager::{PagePool, PageRun, PageSize, PoolError, PoolOptions, PoolStats, RunRequest};

use super::pager::{MIB, NODES, SIZES, StopOnDrop, disable_numa_balancing, on_node};
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{MemoryCgroup, vmstat, wait_until, write, write_optional};
use crate::numa_maps::pages_within;

pub const CASES: [(&str, CaseFn); 5] = [
    ("pool_placement", placement),
    ("pool_foreign_lists", foreign_lists),
    ("pool_cpu_goes", cpu_goes),
    ("pool_full_node", full_node),
    ("pool_under_pressure", under_pressure),
];

/// Creates a pool without a housekeeper; the case does its periodic work.
fn pool(page: PageSize) -> PagePool {
    disable_numa_balancing();
    let options = PoolOptions { page, housekeeper: false, ..PoolOptions::default() };
    PagePool::open(&options).expect("a pool")
}

fn from(node: Option<NodeId>, order: u32) -> RunRequest {
    RunRequest { order, zeroed: false, node }
}

fn range(run: &PageRun<'_>) -> Range<u64> {
    let start = run.as_ptr() as u64;
    start..start + run.len() as u64
}

/// Returns the nodes that have pages of the block of a run.
fn nodes(run: &PageRun<'_>) -> Vec<u32> {
    pages_within(std::process::id(), &range(run)).into_keys().collect()
}

/// Returns the pages in a CPU's list of a node.
fn listed(stats: &PoolStats, cpu: u32, node: NodeId) -> u32 {
    let wanted = |list: &&nodeward_pager::ListStats| (list.cpu, list.node) == (CpuId(cpu), node);
    stats.lists.iter().find(wanted).map_or(0, |list| list.pages)
}

/// Goal: runs are on the requested node, or else on that of the thread, whichever thread uses them
/// first; also after a thread of the other node used and freed them.
fn placement() -> CaseOutcome {
    for page in SIZES {
        let pool = pool(page);
        for order in [0, 4, pool.order_max()] {
            for (here, there) in [(0, 1), (1, 0)] {
                let (here, there) = (NODES[here], NODES[there]);
                on_node(here, || {
                    let run = |node| pool.run(&from(node, order)).expect("the node has room");
                    let runs = [run(None), run(Some(there)), run(Some(here))];
                    let found = runs.each_ref().map(nodes);
                    assert_eq!(
                        found,
                        [here, there, here].map(|node| vec![node.0]),
                        "{page:?}, order {order}, on {here}"
                    );
                    on_node(there, || drop(runs));
                });
            }
        }
        assert_eq!(pool.stats().in_use_pages, 0);
        pool.give_back();
        assert_eq!(pool.stats().held_pages, 0);
    }
    Ok(())
}

/// Goal: a CPU's list of another node's pages is emptied after three periods without use; that of
/// its own node stays.
fn foreign_lists() -> CaseOutcome {
    let pool = pool(PageSize::Base);
    let frees = |node| drop(pool.run(&from(Some(node), 0)).expect("the node has room"));
    on_node(NODES[0], || NODES.into_iter().for_each(frees));
    let lists = || NODES.map(|node| listed(&pool.stats(), 0, node));
    let before = lists();
    assert_eq!(before, [63, 63], "a batch each");
    for period in 0..3 {
        pool.tick();
        assert_eq!(lists(), before, "after the period in which they were used and {period}");
    }
    pool.tick();
    assert_eq!(lists(), [before[0], 0]);
    Ok(())
}

/// Goal: pages in the lists of a CPU that goes offline are available to others after a period. When
/// it is back it works as before.
fn cpu_goes() -> CaseOutcome {
    const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";
    let pool = pool(PageSize::Base);
    let use_it = || on_node(NODES[1], || drop(pool.run(&from(None, 0)).expect("there is room")));
    use_it();
    assert_eq!(listed(&pool.stats(), 1, NODES[1]), 63);
    write_optional(SWITCH, "0")?;
    pool.tick();
    let gone = pool.stats();
    write(SWITCH, "1");
    assert_eq!((listed(&gone, 1, NODES[1]), gone.in_use_pages), (0, 0), "{gone:?}");
    use_it();
    pool.tick();
    assert!(listed(&pool.stats(), 1, NODES[1]) > 0, "one that is online keeps its pages");
    Ok(())
}

/// Goal: a full node refuses requests for this node, and other requests get memory of the nearest
/// one; no process is killed. (Node 1 is small there.)
fn full_node() -> CaseOutcome {
    let killed = vmstat("oom_kill");
    for page in [PageSize::Base, PageSize::Huge] {
        let pool = pool(page);
        let order = 4;
        on_node(NODES[1], || {
            let mut runs = Vec::new();
            let end = loop {
                match pool.run(&from(Some(NODES[1]), order)) {
                    Ok(run) => runs.push(run),
                    Err(error) => break error,
                }
            };
            assert_eq!(end, PoolError::NoMemory { order });
            let first = runs.first().expect("the node had some room");
            println!("{page:?}: {} runs of 64 KiB", runs.len());
            assert_eq!(nodes(first), [1]);
            // The kernel may find some more on node 1 meanwhile.
            loop {
                let run = pool.run(&from(None, order)).expect("node 0 has room");
                match nodes(&run)[..] {
                    [0] => break,
                    [1] => runs.push(run),
                    ref both => panic!("on {both:?}"),
                }
            }
            runs.pop();
            let again = pool.run(&from(None, order)).expect("a run is free");
            assert_eq!(nodes(&again), [1]);
        });
        assert_eq!(pool.stats().in_use_pages, 0);
    }
    assert_eq!(vmstat("oom_kill"), killed);
    Ok(())
}

/// Goal: when memory is short in our cgroup the pool frees its unused pages without a request and
/// long before the end of its period: all but four batches of 63 pages in each list.
fn under_pressure() -> CaseOutcome {
    const BYTES: u64 = 32 * MIB as u64;
    if std::fs::read("/proc/pressure/memory").is_err() {
        return Err(CaseSkipped("this kernel knows no pressure; psi=1 switches it on".to_owned()));
    }
    disable_numa_balancing();
    let group = MemoryCgroup::enter("pool")?;
    let options = PoolOptions {
        keep_bytes: BYTES,
        period: Duration::from_secs(3600),
        ..PoolOptions::default()
    };
    let pool = PagePool::open(&options).expect("a pool");
    let order = pool.order_max();
    let runs: Vec<_> = (0..16).map(|_| pool.run(&from(None, order)).expect("room")).collect();
    drop(runs);
    let kept = pool.stats().held_pages;
    assert!(kept >= BYTES / 4096, "{kept} pages, of 32 MiB");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ending = StopOnDrop(&stop);
        group.throttle_above_usage(4 * MIB as u64);
        scope.spawn(|| {
            let mut taken = Vec::new();
            while taken.len() < 24 && !stop.load(Acquire) {
                taken.push(vec![1_u8; MIB]);
            }
            wait_until("the pool was asked", || stop.load(Acquire));
        });
        wait_until("the pool gives its pages back", || {
            let stats = pool.stats();
            stats.held_pages <= 4 * 63 * stats.lists.len() as u64
        });
    });
    Ok(())
}

//! Tests of the pool in this process: what it hands out, what it refuses, and its memory use.

use std::ptr::NonNull;
use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_linux::own_process::current_cpu;
use nodeward_machine::Machine;
use nodeward_policy::pcp::TunerKind;

use super::PagePool;
use crate::pool::{PoolError, PoolOptions, RunRequest};

/// Options of a pool whose periodic work the test does, with short periods.
fn options(tuning: TunerKind) -> PoolOptions {
    PoolOptions {
        tuning,
        zone_bytes: Some(256 << 20),
        housekeeper: false,
        period: Duration::from_millis(10),
        ..PoolOptions::default()
    }
}

fn pool() -> PagePool {
    PagePool::open(&options(TunerKind::Fixed)).unwrap()
}

fn request(order: u32) -> RunRequest {
    RunRequest { order, ..RunRequest::default() }
}

fn address(start: NonNull<u8>) -> u64 {
    start.as_ptr() as u64
}

/// Goal: runs of all orders are aligned, disjoint, writable, and counted.
#[test]
fn runs_are_aligned_and_apart() {
    let pool = pool();
    let mut runs = Vec::new();
    for order in (0..=pool.order_max()).chain((0..=pool.order_max()).rev()) {
        let mut run = pool.run(&request(order)).unwrap();
        assert_eq!(run.len(), pool.page_bytes() << order);
        assert!(run.as_ptr().addr().is_multiple_of(run.len()));
        run.fill(order as u8 + 1);
        runs.push(run);
    }
    assert!(runs.iter().all(|run| run.iter().all(|&byte| byte == run.order() as u8 + 1)));
    let stats = pool.stats();
    assert_eq!(stats.in_use_pages, 2 * 1023, "2^0 + 2^1 + ... + 2^9 = 2^10 - 1, twice");
    assert_eq!(stats.held_pages, stats.in_use_pages + stats.listed_pages + stats.zone_free_pages);
    drop(runs);
    assert_eq!(pool.stats().in_use_pages, 0);
}

/// Goal: only its guard can free a run with a guard, else two owners would have the same bytes.
#[test]
fn guarded_runs_are_freed_by_their_guards() {
    let pool = pool();
    let mut run = pool.run(&request(1)).unwrap();
    let start = NonNull::from(&mut run[0]);
    assert_eq!(pool.free(start, 1), Err(PoolError::Guarded { address: address(start) }));
    drop(run);
    assert_eq!(pool.free(start, 1), Err(PoolError::DoubleFree { address: address(start) }));
    assert_eq!(pool.stats().in_use_pages, 0);
}

/// Goal: zeroed runs are zero, also in memory that was used before.
#[test]
fn zeroed_runs_are_zero() {
    // A run that was freed on one CPU is in the list of that CPU.
    Linux::open().pin_current_thread(current_cpu());
    let pool = pool();
    let mut run = pool.run(&request(3)).unwrap();
    run.fill(7);
    let before = run.as_ptr();
    drop(run);
    let again = pool.run(&RunRequest { order: 3, zeroed: true, node: None }).unwrap();
    assert_eq!(again.as_ptr(), before, "the last that was freed comes first");
    assert!(again.iter().all(|&byte| byte == 0));
}

/// Goal: each wrong free has an error of its own, and does no harm.
#[test]
fn mistakes_have_names() {
    let pool = pool();
    let run = pool.allocate(&request(2)).unwrap();
    let at =
        |pages: usize| run.map_addr(|start| start.checked_add(pages * pool.page_bytes()).unwrap());
    let word = run.map_addr(|start| start.checked_add(8).unwrap());
    let local = Box::new(0_u8);
    let foreign = NonNull::from(&*local);

    let wrong = PoolError::WrongOrder { address: address(run), allocated: 2, freed: 1 };
    assert_eq!(pool.free(run, 1), Err(wrong));
    assert_eq!(pool.free(at(1), 2), Err(PoolError::NotAStart { address: address(at(1)) }));
    assert_eq!(pool.free(word, 2), Err(PoolError::NotAStart { address: address(word) }));
    assert_eq!(pool.free(foreign, 0), Err(PoolError::NotOurs { address: address(foreign) }));
    assert_eq!(pool.free(run, 77), Err(PoolError::Order { order: 77, order_max: 9 }));
    assert_eq!(pool.stats().in_use_pages, 4, "nothing of that changed anything");

    assert_eq!(pool.free(run, 2), Ok(()));
    assert_eq!(pool.free(run, 2), Err(PoolError::DoubleFree { address: address(run) }));
    assert_eq!(pool.free(at(1), 0), Err(PoolError::NotAStart { address: address(at(1)) }));
    pool.give_back();
    assert_eq!(pool.free(run, 2), Err(PoolError::DoubleFree { address: address(run) }));
    assert_eq!(pool.allocate(&request(10)), Err(PoolError::Order { order: 10, order_max: 9 }));
    let nowhere = RunRequest { node: Some(nodeward_model::NodeId(1000)), ..RunRequest::default() };
    let unknown = PoolError::UnknownNode { node: nodeward_model::NodeId(1000) };
    assert_eq!(pool.allocate(&nowhere), Err(unknown));
    assert_eq!(pool.stats().in_use_pages, 0);
}

/// Goal: a closed pool hands out nothing and takes everything back; a run that outlives the pool
/// stays mapped.
#[test]
fn a_closed_pool_takes_back() {
    let pool = pool();
    let (run, stays) = (pool.allocate(&request(0)).unwrap(), pool.run(&request(0)).unwrap());
    pool.close();
    assert_eq!(pool.allocate(&request(0)), Err(PoolError::Closed));
    assert_eq!(pool.free(run, 0), Ok(()));
    let kept = stays.as_ptr();
    std::mem::forget(stays);
    drop(pool);
    assert!(is_mapped(kept.addr()), "somebody may have a pointer");
}

fn is_mapped(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bounds = maps.lines().map(|line| line.split_once(' ').unwrap().0.split_once('-').unwrap());
    let number = |hex| usize::from_str_radix(hex, 16).unwrap();
    bounds.into_iter().any(|(start, end)| (number(start)..number(end)).contains(&address))
}

/// Goal: the pool stops at its bound, and hands out again when there is room.
#[test]
fn a_full_pool_says_so() {
    let few = PoolOptions { zone_bytes: Some(4 << 20), ..options(TunerKind::Fixed) };
    let pool = PagePool::open(&few).unwrap();
    let mut runs = Vec::new();
    let end = loop {
        match pool.allocate(&request(4)) {
            Ok(run) => runs.push(run),
            Err(error) => break error,
        }
    };
    assert_eq!(end, PoolError::NoMemory { order: 4 });
    let nodes = pool.stats().held_pages / 1024;
    assert_eq!(runs.len() as u64, nodes * 1024 / 16, "4 MiB on each node, all of it handed out");
    pool.free(runs.pop().unwrap(), 4).unwrap();
    runs.push(pool.allocate(&request(4)).unwrap());
    runs.into_iter().for_each(|run| pool.free(run, 4).unwrap());
    pool.give_back();
    assert_eq!(pool.stats().held_pages, 0);
}

/// Goal: after three idle periods the pool holds no more than lists hold by default.
#[test]
fn idle_pools_return_to_the_default() {
    for tuning in TunerKind::ALL {
        let pool = PagePool::open(&options(tuning)).unwrap();
        for _ in 0..4 {
            let runs: Vec<_> = (0..8192).map(|_| pool.allocate(&request(0)).unwrap()).collect();
            runs.into_iter().for_each(|run| pool.free(run, 0).unwrap());
            std::thread::sleep(Duration::from_millis(12));
        }
        assert!(pool.stats().held_pages >= 8192);
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(12));
            pool.tick();
        }
        let stats = pool.stats();
        let most = 252 * stats.lists.len() as u64;
        assert!(stats.held_pages <= most, "{tuning:?}: {} of {most}", stats.held_pages);
        assert!(stats.lists.iter().all(|list| list.high == 252), "{:?}", stats.lists);
    }
}

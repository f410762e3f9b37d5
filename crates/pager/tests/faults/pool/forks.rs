//! fork(2) while a pool is in use.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;

use nodeward_linux::interference::{ChildExit, run_in_child};
use nodeward_linux::own_process::fork_idle;
use nodeward_pager::{PagePool, PoolError, PoolOptions, PoolStats};
use nodeward_policy::pcp::TunerKind;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::{address, assert_idle, options, pool, request, start};
use crate::common::{IDLE_S, Stopper, in_subprocess};

const OK: ChildExit = ChildExit::Code(0);

fn is_mapped(address: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bounds = maps.lines().map(|line| line.split_once(' ').unwrap().0.split_once('-').unwrap());
    let number = |hex| u64::from_str_radix(hex, 16).unwrap();
    bounds.into_iter().any(|(start, end)| (number(start)..number(end)).contains(&address))
}

/// Goal: a child that is made while other threads hold the pool's locks is refused every call,
/// waits for no lock, does not have the memory, and takes nothing from the parent when it ends.
#[test]
fn a_child_has_nothing_of_a_pool() {
    in_subprocess("pool::forks::a_child_has_nothing_of_a_pool", || {
        let (pool, stop) = (pool(), AtomicBool::new(false));
        let mut runs = Some((0..3).map(|order| pool.run(&request(order)).unwrap()).collect());
        let first: &Vec<_> = runs.as_ref().unwrap();
        let first = start(&first[0]);
        let mut other = Some(PagePool::open(&PoolOptions::default()).unwrap());
        other.as_ref().unwrap().run(&request(0)).unwrap();
        let refused = || {
            let error = Some(PoolError::Forked);
            assert_eq!(pool.allocate(&request(0)).err(), error);
            assert_eq!(pool.run(&request(0)).err(), error);
            assert_eq!(pool.free(first, 0).err(), error);
            assert_eq!(pool.stats(), PoolStats::default());
            assert_eq!(pool.give_back(), 0);
            pool.tick();
            pool.close();
        };
        let child = || {
            refused();
            drop(runs.take());
            drop(other.take());
            assert!(!is_mapped(address(first)));
            let own = super::pool();
            own.run(&request(9)).unwrap().fill(1);
            assert_idle(&own);
            0
        };
        let mut child = child;
        std::thread::scope(|scope| {
            let _stopper = Stopper(&stop);
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Acquire) {
                        (0..600).for_each(|_| drop(pool.run(&request(0)).unwrap()));
                        pool.give_back();
                        pool.stats();
                    }
                });
            }
            (0..20).for_each(|_| assert_eq!(run_in_child(&mut child).unwrap(), OK));
        });
        assert_eq!(pool.stats().in_use_pages, 7, "runs of one, two and four pages");
        drop(runs);
        assert_idle(&pool);
    });
}

/// Goal: a pool can end while a child lives that has its file descriptors.
#[test]
fn a_child_outlives_the_pool() {
    in_subprocess("pool::forks::a_child_outlives_the_pool", || {
        let options = PoolOptions { housekeeper: true, ..options(TunerKind::Depth) };
        let pool = PagePool::open(&options).unwrap();
        let child = fork_idle(IDLE_S).unwrap().number().cast_signed();
        let child = Pid::from_raw(child);
        drop(pool);
        let ended = waitpid(child, WaitOptions::NOHANG).unwrap();
        assert!(ended.is_none(), "it lives for an hour: {ended:?}");
        kill_process(child.unwrap(), Signal::KILL).unwrap();
        waitpid(child, WaitOptions::empty()).unwrap();
    });
}

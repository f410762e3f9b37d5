//! Programs that free runs that are not theirs any more, or go on writing to them.

use std::fs::File;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Barrier;

use nodeward_linux::Linux;
use nodeward_linux::own_process::current_cpu;
use nodeward_machine::Machine;
use nodeward_pager::{PagePool, PoolError};
use nodeward_policy::pcp::TunerKind;

use super::{address, assert_idle, options, pool, request, start};

/// Goal: of two threads that free the same run at the same time exactly one succeeds, and the other
/// gets an error; the run is free once.
#[test]
fn one_of_two_frees_succeeds() {
    const ROUNDS: u32 = 2000;
    let pool = pool();
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let runs: Vec<(usize, u32)> = (0..ROUNDS)
        .map(|round| (pool.allocate(&request(round % 4)).unwrap().addr().get(), round % 4))
        .collect();
    let free_all = || {
        let free = |&(run, order): &(usize, u32)| {
            let run = NonNull::with_exposed_provenance(NonZero::new(run).unwrap());
            begin.wait();
            let freed = pool.free(run, order);
            end.wait();
            freed
        };
        runs.iter().map(free).collect::<Vec<_>>()
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(free_all);
        (free_all(), other.join().unwrap())
    });
    let mut first = 0;
    for ((run, _), both) in runs.iter().zip(one.into_iter().zip(other)) {
        let twice = PoolError::DoubleFree { address: *run as u64 };
        first += u32::from(both.0.is_ok());
        assert!(both == (Ok(()), Err(twice)) || both == (Err(twice), Ok(())), "{both:?}");
    }
    eprintln!("{first} of {ROUNDS} by the first thread");
    assert_idle(&pool);
}

/// Goal: a thread that ends leaves nothing behind: runs that it freed are in the lists of CPUs, and
/// runs that it still had can be freed by others.
#[test]
fn threads_end() {
    let pool = pool();
    let left = std::thread::scope(|scope| {
        let works = || {
            let runs: Vec<_> = (0..100).map(|_| pool.run(&request(0)).unwrap()).collect();
            drop(runs);
            pool.run(&request(3)).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(works)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let stats = pool.stats();
    assert_eq!(stats.in_use_pages, 8 * 8, "eight threads, each with a run of 2^3");
    assert!(stats.listed_pages > 0);
    drop(left);
    assert_idle(&pool);
}

/// Goal: a write to a freed run is reported with its address when the run would be handed out
/// again. That run is never handed out; the pool continues with its other memory.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "only debug builds look")]
fn a_write_after_a_free_is_found() {
    Linux::open().pin_current_thread(current_cpu());
    // The write of a program through a pointer that it kept.
    let memory = File::options().write(true).open("/proc/self/mem").unwrap();
    for tuning in TunerKind::ALL {
        let pool = PagePool::open(&options(tuning)).unwrap();
        let (first, at) = (pool.allocate(&request(2)).unwrap(), pool.page_bytes() + 24);
        pool.free(first, 2).unwrap();
        memory.write_all_at(&[1], address(first) + at as u64 + 3).unwrap();
        let written = PoolError::WrittenAfterFree { address: address(first) + at as u64 };
        let again = pool.allocate(&request(2));
        assert_eq!(again, Err(written), "the run that was freed last comes first");

        let ours = address(first)..address(first) + 4 * pool.page_bytes() as u64;
        for order in 0..=pool.order_max() {
            let runs: Vec<_> = (0..20).map(|_| pool.run(&request(order)).unwrap()).collect();
            let ends = |run: &_| (address(start(run)), pool.page_bytes() << order);
            let meets = |(from, bytes)| from < ours.end && ours.start < from + bytes as u64;
            assert!(!runs.iter().map(ends).any(meets), "handed out again");
        }
        assert_eq!(pool.free(first, 2), Err(PoolError::DoubleFree { address: address(first) }));
        pool.give_back();
        assert_eq!(pool.stats().held_pages, 4, "what was written stays where it is");
    }
}

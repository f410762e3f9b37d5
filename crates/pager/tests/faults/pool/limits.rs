//! Limits of the process. Each test runs in one of its own.

use nodeward_pager::{PagePool, PoolError, PoolOptions};
use nodeward_policy::pcp::TunerKind;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{address, assert_idle, options, pool, request, start};
use crate::common::{MIB, in_subprocess};

/// Returns a field in kB, from the first line on that satisfies `head`.
fn kib(path: &str, head: impl Fn(&str) -> bool, field: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().skip_while(|line| !head(line));
    let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap().trim().strip_suffix(" kB").unwrap().trim().parse().unwrap()
}

/// Goal: where the process may have no more address space the pool reports that there is no memory,
/// and loses nothing.
#[test]
fn address_space_ends() {
    const MORE: usize = 160 * MIB;
    in_subprocess("pool::limits::address_space_ends", || {
        let pool = pool();
        let before = kib("/proc/self/status", |_| true, "VmSize") * 1024;
        let limit = Rlimit { current: Some(before + MORE as u64), ..getrlimit(Resource::As) };
        setrlimit(Resource::As, limit).unwrap();
        let order = pool.order_max();
        let mut runs = Vec::new();
        let end = loop {
            match pool.run(&request(order)) {
                Ok(run) => runs.push(run),
                Err(error) => break error,
            }
        };
        assert_eq!(end, PoolError::NoMemory { order });
        let bytes = runs.len() * (pool.page_bytes() << order);
        assert!((1..=MORE).contains(&bytes), "{bytes} bytes");
        drop(runs.pop());
        runs.push(pool.run(&request(order)).unwrap());
        drop(runs);
        assert_idle(&pool);
    });
}

/// Goal: where all memory is locked a pool has no more in memory than it reports, and can free it.
#[test]
fn all_memory_is_locked() {
    in_subprocess("pool::limits::all_memory_is_locked", || {
        if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
            return eprintln!("skipped: mlockall: {error}");
        }
        let few = PoolOptions { zone_bytes: Some(8 << 20), ..options(TunerKind::Fixed) };
        let pool = PagePool::open(&few).unwrap();
        let run = match pool.run(&request(3)) {
            Err(error) => return eprintln!("skipped: RLIMIT_MEMLOCK is too low: {error}"),
            Ok(run) => run,
        };
        let at = address(start(&run));
        let holds_it = |line: &str| {
            let bounds = line.split(' ').next().and_then(|bounds| bounds.split_once('-'));
            let number = |hex| u64::from_str_radix(hex, 16).ok();
            let inside = |(from, to)| Some((number(from)?..number(to)?).contains(&at));
            bounds.and_then(inside).unwrap_or(false)
        };
        let resident = || kib("/proc/self/smaps", holds_it, "Rss");
        let held = || pool.stats().held_pages * pool.page_bytes() as u64 / 1024;
        assert!((8 * 4..=held()).contains(&resident()), "{} KiB of {}", resident(), held());
        drop(run);
        assert_idle(&pool);
        assert_eq!(resident(), 0);
    });
}

/// Goal: memory that was handed out in single pages is handed out again in the longest runs, all of
/// it, whatever lists it is in and however scattered it is.
#[test]
fn all_that_is_free_is_found() {
    let few = PoolOptions { zone_bytes: Some(8 * MIB as u64), ..options(TunerKind::Fixed) };
    let pool = PagePool::open(&few).unwrap();
    let all = |order| std::iter::from_fn(|| pool.run(&request(order)).ok()).collect::<Vec<_>>();
    let pages = all(0);
    let (count, longest) = (pages.len(), pool.order_max());
    drop(pages);
    assert_eq!(all(longest).len() << longest, count);
    let mut pages = all(0);
    // One of each eight stays in use.
    let stays: Vec<_> = (0..count / 8).map(|index| pages.swap_remove(index * 7)).collect();
    drop(pages);
    let room = count - stays.len();
    let runs = all(longest);
    assert_eq!(runs.len(), room >> longest, "{room} of {count} pages are free");
    drop((runs, stays));
    assert_idle(&pool);
}

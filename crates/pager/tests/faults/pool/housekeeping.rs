//! The work of a pool while it is not used.

use std::time::Duration;

use nodeward_linux::test_wait::wait_until;
use nodeward_pager::{PagePool, PoolOptions};
use nodeward_policy::pcp::TunerKind;

use super::{options, request};

/// Goal: an idle pool returns to its default by itself: four batches of 63 pages in each list, and
/// nothing else.
#[test]
fn an_idle_pool_shrinks_by_itself() {
    for tuning in TunerKind::ALL {
        let period = Duration::from_millis(1);
        let kept = PoolOptions { housekeeper: true, period, ..options(tuning) };
        let pool = PagePool::open(&kept).unwrap();
        for _ in 0..4 {
            let runs: Vec<_> = (0..8192).map(|_| pool.run(&request(0)).unwrap()).collect();
            drop(runs);
        }
        let default = 4 * 63 * pool.stats().lists.len() as u64;
        wait_until("an idle pool holds no more than its default", || {
            pool.stats().held_pages <= default
        });
        super::assert_idle(&pool);
    }
}

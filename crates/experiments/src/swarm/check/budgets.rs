//! Checks that rates, stall budgets and the bounds of page lists are kept.

use nodeward_sim::ListView;

use super::{Checker, CheckerResult, ensure};

/// A call that moved pages, as seen from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedCall {
    /// Start, in nanoseconds.
    pub began_ns: u64,
    /// Duration, in nanoseconds.
    pub took_ns: u64,
    /// Minimum number of base pages of the folios that it was to move.
    pub pages_min: u64,
    /// Maximum number of the same: folios may have other sizes by then than was reported.
    pub pages_max: u64,
    /// Base pages of its longest run of base pages that are held together.
    pub longest_run_pages: u64,
}

/// Minimum length of runs in pages, whatever the budget, because shorter ones cost more than they
/// save. As documented in the mover.
const RUN_PAGES_MIN: u64 = 4;

/// Checks that between any two calls there is at least the time that the rate allots to the first
/// and those in between.
///
/// # Errors
/// The two calls that are too close.
pub fn check_rate(calls: &[ObservedCall], rate_bytes_per_s: u64, page_bytes: u64) -> CheckerResult {
    let cost_ns = |call: &ObservedCall| {
        u128::from(call.pages_min * page_bytes) * 1_000_000_000
            / u128::from(rate_bytes_per_s.max(1))
    };
    // The earliest time at which the next call may begin, by all calls before it.
    let mut free_at_ns = 0;
    for (number, call) in calls.iter().enumerate() {
        let began_ns = u128::from(call.began_ns);
        let early = || {
            format!(
                "call {number} began at {began_ns} ns; those before it take until {free_at_ns} ns \
                 at {rate_bytes_per_s} bytes a second"
            )
        };
        ensure(began_ns >= free_at_ns, Checker::Budgets, early)?;
        free_at_ns = free_at_ns.max(began_ns) + cost_ns(call);
    }
    Ok(())
}

/// Checks that no run is longer than the budget, by the time per page of the previous call. Valid
/// for calls of one worker; calls with huge pages, which have no such run, are left out.
///
/// # Errors
/// The call with such a run.
pub fn check_stalls(calls: &[ObservedCall], stall_ns: u64) -> CheckerResult {
    let of_base = calls.iter().filter(|call| call.longest_run_pages > 0);
    for pair in of_base.collect::<Vec<_>>().windows(2) {
        let page_ns = pair[0].took_ns / pair[0].pages_max.max(1);
        let run = pair[1].longest_run_pages;
        let hold_ns = run * page_ns;
        let long = || {
            let at_ns = pair[1].began_ns;
            format!(
                "at {at_ns} ns {run} pages are held together, {page_ns} ns each: {hold_ns} ns of \
                 {stall_ns} ns"
            )
        };
        let is_least = run <= RUN_PAGES_MIN;
        ensure(is_least || hold_ns <= stall_ns, Checker::Budgets, long)?;
    }
    Ok(())
}

/// Checks that the length of a list is within the bounds of its tuner.
///
/// # Errors
/// The first list that violates them.
pub fn check_list_bounds(lists: &[ListView]) -> CheckerResult {
    lists.iter().try_for_each(|list| {
        let ListView { cpu, node, high, bounds: (least, most), .. } = list;
        let what = || {
            format!(
                "the list of CPU {cpu} and node {node} keeps {high} pages, not {least} to {most}"
            )
        };
        ensure((least..=most).contains(&high), Checker::Budgets, what)
    })
}

#[cfg(test)]
mod tests {
    use nodeward_model::{CpuId, NodeId};

    use super::*;

    fn call(began_ns: u64, took_ns: u64, pages: u64, run_pages: u64) -> ObservedCall {
        ObservedCall {
            began_ns,
            took_ns,
            pages_min: pages,
            pages_max: pages,
            longest_run_pages: run_pages,
        }
    }

    /// Goal: 10 pages of 4096 bytes at 4096 bytes a microsecond take 10 us, then the next call may
    /// begin, on whatever thread; unused time does not accumulate.
    #[test]
    fn calls_that_are_too_close_are_found() {
        let rate = |calls: &[ObservedCall]| check_rate(calls, 4_096_000_000, 4096);
        let first = call(5_000, 1, 10, 10);
        assert_eq!(rate(&[first.clone(), call(15_000, 1, 10, 10)]), Ok(()));
        assert!(rate(&[first.clone(), call(14_999, 1, 10, 10)]).is_err());
        let (idle, burst) = (call(90_000, 1, 10, 10), call(99_000, 1, 1, 1));
        assert!(rate(&[first, idle, burst]).is_err());
    }

    /// Goal: after a page took 2 us, runs of 50 keep a budget of 100 us, and runs of 51 do not; 4
    /// is the minimum.
    #[test]
    fn runs_that_are_too_long_are_found() {
        let next = |run| check_stalls(&[call(0, 20_000, 10, 10), call(0, 1, run, run)], 100_000);
        assert_eq!(next(50), Ok(()));
        assert!(next(51).is_err());
        let least = |run| check_stalls(&[call(0, 900_000, 10, 10), call(0, 1, run, run)], 100_000);
        assert_eq!(least(4), Ok(()));
        assert!(least(5).is_err());
    }

    /// Goal: a list that keeps more than its tuner's bounds is detected, and one that keeps less.
    #[test]
    fn lists_out_of_bounds_are_found() {
        let list = |high| {
            let (cpu, node) = (CpuId(0), NodeId(1));
            [ListView { cpu, node, pages: 0, high, bounds: (10, 20) }]
        };
        assert_eq!([10, 20].map(|high| check_list_bounds(&list(high))), [Ok(()), Ok(())]);
        assert!([9, 21].iter().all(|&high| check_list_bounds(&list(high)).is_err()));
    }
}

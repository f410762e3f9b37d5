//! Rates, stall budgets and the bounds of page lists are kept.

use nodeward_sim::ListView;

use super::{Checker, Verdict, ensure};

/// One call that moved pages, as it was seen from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// When it began, in nanoseconds.
    pub began_ns: u64,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// Base pages of the folios that it was to move, at least.
    pub pages: u64,
    /// The same at most: folios may be of other sizes by then than was told.
    pub pages_most: u64,
    /// Base pages of its longest run of base pages that are held together.
    pub run_pages: u64,
}

/// Runs are not cut shorter than this many pages, whatever the budget: shorter ones cost more than
/// they save. As the engine's documentation has it.
const RUN_PAGES_LEAST: u64 = 4;

/// Between any two calls there is the time that the first and those in between may take.
///
/// # Errors
/// The two calls that are too close.
pub fn rate(calls: &[Call], rate_bytes_per_s: u64, page_bytes: u64) -> Verdict {
    let cost_ns = |call: &Call| {
        u128::from(call.pages * page_bytes) * 1_000_000_000 / u128::from(rate_bytes_per_s.max(1))
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

/// No run is longer than the budget, going by what a page took in the call before it. Holds for
/// calls of one worker; those of huge pages, which have no such run, are left out.
///
/// # Errors
/// The call with such a run.
pub fn holds(calls: &[Call], stall_ns: u64) -> Verdict {
    let of_base = calls.iter().filter(|call| call.run_pages > 0);
    for pair in of_base.collect::<Vec<_>>().windows(2) {
        let page_ns = pair[0].took_ns / pair[0].pages_most.max(1);
        let run = pair[1].run_pages;
        let hold_ns = run * page_ns;
        let long = || {
            let at_ns = pair[1].began_ns;
            format!(
                "at {at_ns} ns {run} pages are held together, {page_ns} ns each: {hold_ns} ns of \
                 {stall_ns} ns"
            )
        };
        let is_least = run <= RUN_PAGES_LEAST;
        ensure(is_least || hold_ns <= stall_ns, Checker::Budgets, long)?;
    }
    Ok(())
}

/// What a list keeps is within the bounds of its tuner.
///
/// # Errors
/// The first list of which that is not so.
pub fn lists(lists: &[ListView]) -> Verdict {
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

    fn call(began_ns: u64, took_ns: u64, pages: u64, run_pages: u64) -> Call {
        Call { began_ns, took_ns, pages, pages_most: pages, run_pages }
    }

    /// Goal: 10 pages of 4096 bytes at 4096 bytes a microsecond take 10 us, then the next may
    /// begin, whoever makes it; time that was not used is not saved up.
    #[test]
    fn calls_that_are_too_close_are_found() {
        let rate = |calls: &[Call]| rate(calls, 4_096_000_000, 4096);
        let first = call(5_000, 1, 10, 10);
        assert_eq!(rate(&[first.clone(), call(15_000, 1, 10, 10)]), Ok(()));
        assert!(rate(&[first.clone(), call(14_999, 1, 10, 10)]).is_err());
        let (idle, burst) = (call(90_000, 1, 10, 10), call(99_000, 1, 1, 1));
        assert!(rate(&[first, idle, burst]).is_err());
    }

    /// Goal: after a page took 2 us, 50 of them together keep a budget of 100 us, 51 do not; 4 are
    /// the least.
    #[test]
    fn runs_that_are_too_long_are_found() {
        let next = |run| holds(&[call(0, 20_000, 10, 10), call(0, 1, run, run)], 100_000);
        assert_eq!(next(50), Ok(()));
        assert!(next(51).is_err());
        let least = |run| holds(&[call(0, 900_000, 10, 10), call(0, 1, run, run)], 100_000);
        assert_eq!(least(4), Ok(()));
        assert!(least(5).is_err());
    }

    /// Goal: a list that keeps more than its tuner may choose is found, and one that keeps less.
    #[test]
    fn lists_out_of_bounds_are_found() {
        let list = |high| {
            let (cpu, node) = (CpuId(0), NodeId(1));
            [ListView { cpu, node, pages: 0, high, bounds: (10, 20) }]
        };
        assert_eq!([10, 20].map(|high| lists(&list(high))), [Ok(()), Ok(())]);
        assert!([9, 21].iter().all(|&high| lists(&list(high)).is_err()));
    }
}

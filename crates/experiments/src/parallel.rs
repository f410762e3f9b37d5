//! Runs many items on a bounded number of threads.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// Progress of the runs, for the thread that waits.
#[derive(Debug, Default)]
pub struct ParallelProgress {
    done: AtomicUsize,
    stopped: AtomicBool,
}

impl ParallelProgress {
    /// Returns the number of runs that have ended.
    pub fn completed(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Prevents further runs from starting.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Returns the result of each item, in order. Nothing may stop it.
pub fn parallel_map<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    watch: &ParallelProgress,
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let mut all = Vec::with_capacity(items.len());
    let take = |result| -> Result<(), Infallible> {
        all.push(result);
        Ok(())
    };
    let Ok(()) = for_each_in_order(items, jobs, watch, |item| Some(run(item)), take);
    all
}

/// Passes the result of each item to `take` in order, whichever ends first. The remaining results
/// are dropped when a run returns `None`, when `take` fails, or after a stop.
///
/// # Errors
/// The first error of `take`.
pub fn for_each_in_order<T: Sync, R: Send, E>(
    items: &[T],
    jobs: usize,
    watch: &ParallelProgress,
    run: impl Fn(&T) -> Option<R> + Sync,
    take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (found, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            let (found, next, run) = (found.clone(), &next, &run);
            scope.spawn(move || {
                while !watch.is_stopped() {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(result) = items.get(place).and_then(run) else { return };
                    watch.done.fetch_add(1, Ordering::Relaxed);
                    // After an error no one receives it.
                    let _ = found.send((place, result));
                }
            });
        }
        drop(found);
        let taken = deliver_in_order(&results, take);
        if taken.is_err() {
            watch.stop();
        }
        taken
    })
}

/// Passes results on as soon as all results before them have arrived.
fn deliver_in_order<R, E>(
    results: &Receiver<(usize, R)>,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (place, result) in results {
        early.insert(place, result);
        while let Some(result) = early.remove(&next) {
            take(result)?;
            next += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: results are in the order of the items, however many run at a time.
    #[test]
    fn results_are_in_order() {
        for jobs in [0, 1, 3, 100] {
            let watch = ParallelProgress::default();
            let squares = parallel_map(&[1, 2, 3, 4, 5], jobs, &watch, |number| number * number);
            assert_eq!(squares, [1, 4, 9, 16, 25], "{jobs}");
            assert_eq!(watch.completed(), 5);
        }
    }

    /// Goal: after a stop nothing more begins; what had begun is passed on.
    #[test]
    fn who_is_told_to_stop_begins_nothing_more() {
        let (watch, mut all) = (ParallelProgress::default(), Vec::new());
        let run = |&number: &u32| {
            if number == 2 {
                watch.stop();
            }
            Some(number)
        };
        let Ok(()) = for_each_in_order(&[1, 2, 3, 4], 1, &watch, run, |number| {
            all.push(number);
            Ok::<(), Infallible>(())
        });
        assert_eq!(all, [1, 2]);
    }

    /// Goal: a result that is not taken ends the run with that error, and no result after a run
    /// that gives up is passed on.
    #[test]
    fn errors_and_gaps_end_it() {
        let watch = ParallelProgress::default();
        let taken = |&number: &u32| if number == 3 { Err(number) } else { Ok(()) };
        let ended = for_each_in_order(&[1, 2, 3, 4], 1, &watch, |n| Some(*n), |n| taken(&n));
        assert_eq!((ended, watch.is_stopped()), (Err(3), true));
        let (watch, mut all) = (ParallelProgress::default(), Vec::new());
        let even = |&number: &u32| (number != 2).then_some(number);
        let ended = for_each_in_order(&[1, 2, 3, 4], 2, &watch, even, |number| {
            all.push(number);
            Ok::<(), u32>(())
        });
        assert_eq!((ended, all), (Ok(()), vec![1]));
    }
}

//! Many runs, so many at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// How far they are, for who waits.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicUsize,
    stopped: AtomicBool,
}

impl Watch {
    /// Runs that have ended.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Lets no further run begin.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// What came of each, in their order; none of those that did not begin because it was told to stop.
pub fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    watch: &Watch,
    run: impl Fn(&T) -> R + Sync,
) -> Vec<Option<R>> {
    let next = AtomicUsize::new(0);
    let (found, founds) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            let (found, next, run) = (found.clone(), &next, &run);
            scope.spawn(move || {
                while !watch.stopped.load(Ordering::Relaxed) {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(place) else { return };
                    let result = run(item);
                    watch.done.fetch_add(1, Ordering::Relaxed);
                    // Whoever takes it waits until all have ended.
                    let _ = found.send((place, result));
                }
            });
        }
    });
    drop(found);
    let mut all: Vec<_> = items.iter().map(|_| None).collect();
    founds.into_iter().for_each(|(place, result)| all[place] = Some(result));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: results stand where their items do, however many run at a time.
    #[test]
    fn results_are_in_order() {
        for jobs in [0, 1, 3, 100] {
            let watch = Watch::default();
            let squares = each(&[1, 2, 3, 4, 5], jobs, &watch, |number| number * number);
            assert_eq!(squares, [1, 4, 9, 16, 25].map(Some), "{jobs}");
            assert_eq!(watch.done(), 5);
        }
    }

    /// Goal: what is told to stop begins nothing more, and tells what did not begin.
    #[test]
    fn who_is_told_to_stop_begins_nothing_more() {
        let watch = Watch::default();
        let results = each(&[1, 2, 3, 4], 1, &watch, |&number| {
            if number == 2 {
                watch.stop();
            }
            number
        });
        assert_eq!(results, [Some(1), Some(2), None, None]);
    }
}

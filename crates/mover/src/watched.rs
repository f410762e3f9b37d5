//! Work on a thread of its own, at whose progress the caller looks meanwhile.

use std::io;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Runs `work` on a thread of this name, and calls `look` at once and at intervals until it has
/// ended. The end wakes the caller, whenever it comes. A panic of the work is passed on.
///
/// # Errors
/// If there is no room for another thread.
pub fn run_watched<T: Send>(
    name: &str,
    interval: Duration,
    mut look: impl FnMut(),
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    // Nothing is sent. The work's side is dropped at its end, after a panic, too, and that cannot
    // be missed, unlike an unpark between a look at the thread and a wait.
    let (working, ended) = mpsc::channel::<()>();
    let work = move || {
        let _working = working;
        work()
    };
    thread::scope(|scope| {
        let worker = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work)?;
        look();
        while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            look();
        }
        Ok(worker.join().unwrap_or_else(|cause| panic::resume_unwind(cause)))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;

    use super::*;

    /// No test waits for this.
    const AN_HOUR: Duration = Duration::from_secs(3600);

    /// Goal: work that has ended is not waited for, neither when it ends before the first look nor
    /// during a wait.
    #[test]
    fn the_end_is_never_waited_for() {
        for round in 0..1000 {
            let (tell, told) = mpsc::channel();
            let looks = Cell::new(0);
            let look = || {
                looks.set(looks.get() + 1);
                tell.send(()).ok();
            };
            let work = move || {
                // Every other one waits until the caller has looked.
                let waits = round % 2 == 0;
                waits.then(|| told.recv().expect("the caller looks"));
                round
            };
            assert_eq!(run_watched("test", AN_HOUR, look, work).unwrap(), round);
            assert_eq!(looks.get(), 1);
        }
    }

    /// Goal: the caller looks until the work ends.
    #[test]
    fn looks_go_on_until_the_end() {
        let (tell, told) = mpsc::channel();
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            tell.send(looks.get()).ok();
        };
        let work = move || told.iter().find(|&look| look == 5);
        let seen = run_watched("test", Duration::from_millis(1), look, work).unwrap();
        assert_eq!(seen, Some(5));
        assert!(looks.get() >= 5);
    }

    /// Goal: a panic of the work is the caller's, and it is not waited for either.
    #[test]
    fn a_panic_is_passed_on() {
        let run = || run_watched("test", AN_HOUR, || {}, || panic!("on purpose"));
        let cause = panic::catch_unwind(run).unwrap_err();
        assert_eq!(cause.downcast_ref::<&str>(), Some(&"on purpose"));
    }
}

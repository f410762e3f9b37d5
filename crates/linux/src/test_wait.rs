//! Waits of tests for a state that must come, however slow and loaded the machine is. A test goes
//! on as soon as the state is there; the time limit only turns a hang into a failure with a
//! message.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// Many times the need of a machine that is ten times as slow and loses its CPUs for seconds.
pub const TIMEOUT: Duration = Duration::from_secs(180);

/// The time between two checks.
const PAUSE: Duration = Duration::from_millis(1);

/// The start of a test's wait.
#[derive(Clone, Copy, Debug)]
pub struct TestDeadline(Instant);

impl TestDeadline {
    /// Starts the wait now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns true if the time limit is over.
    pub fn has_passed(&self) -> bool {
        self.0.elapsed() >= TIMEOUT
    }

    /// Fails when the time limit is over.
    ///
    /// # Panics
    /// With `what`, the state that was waited for.
    pub fn check(&self, what: &str) {
        assert!(!self.has_passed(), "waited in vain for {TIMEOUT:?} until {what}");
    }
}

/// Waits until `look` returns a value, and returns it.
///
/// # Panics
/// With `what` at the time limit.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = TestDeadline::start();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        deadline.check(what);
        thread::sleep(PAUSE);
    }
}

/// Waits until a condition holds.
///
/// # Panics
/// With `what` at the time limit.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Returns the numbers from 0 for a loop: at least `least` of them, and more until `enough` returns
/// true.
///
/// # Panics
/// With `what` at the time limit.
pub fn rounds(least: u64, what: &str, enough: impl Fn() -> bool) -> impl Iterator<Item = u64> {
    let deadline = TestDeadline::start();
    (0..).take_while(move |&round| {
        let goes_on = round < least || !enough();
        if goes_on && round >= least {
            deadline.check(what);
        }
        goes_on
    })
}

/// Receives the next message of another thread.
///
/// # Panics
/// With `what` if none comes.
pub fn receive<T>(from: &Receiver<T>, what: &str) -> T {
    from.recv_timeout(TIMEOUT).unwrap_or_else(|why| panic!("waited in vain until {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Goal: a loop has at least the given rounds, and more only until it was enough.
    #[test]
    fn rounds_go_on_until_it_is_enough() {
        let done = Cell::new(0);
        let count = |least, wanted| {
            done.set(0);
            rounds(least, "it is enough", || done.get() >= wanted)
                .inspect(|_| done.set(done.get() + 1))
                .count()
        };
        assert_eq!((count(3, 0), count(3, 3), count(3, 5), count(0, 0)), (3, 3, 5, 0));
    }

    /// Goal: a present value is returned without waiting, one that comes later is returned, and a
    /// closed sender ends the wait.
    #[test]
    fn waiting_ends_with_what_was_waited_for() {
        let (mut looks, (tell, told)) = (0, std::sync::mpsc::channel());
        let third = || {
            looks += 1;
            (looks == 3).then_some(7)
        };
        assert_eq!(wait_for("the third look", third), 7);
        tell.send(1).unwrap();
        assert_eq!(receive(&told, "a number came"), 1);
        drop(tell);
        let gone =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| receive(&told, "more")));
        let why = *gone.unwrap_err().downcast::<String>().unwrap();
        assert!(why.starts_with("waited in vain until more: "), "{why}");
    }
}

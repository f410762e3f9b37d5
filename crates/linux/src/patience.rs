//! Waiting in tests: for what must happen, however slow the machine is and whatever else it does.
//! A test goes on when it has happened; the time is only there so that it fails in words, and does
//! not hang, if it never does.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// Many times what a machine needs that is ten times as slow and has lost its CPUs for seconds.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// When a test began to wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience(Instant);

impl Patience {
    /// It begins now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Whether it has come to its end.
    pub fn is_over(&self) -> bool {
        self.0.elapsed() >= PATIENCE
    }

    /// Fails when it has.
    ///
    /// # Panics
    /// With what was waited for.
    pub fn check(&self, what: &str) {
        assert!(!self.is_over(), "waited in vain for {PATIENCE:?} until {what}");
    }
}

/// Waits until there is something to see; what it is.
///
/// # Panics
/// If there never is, with what was waited for.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let patience = Patience::begin();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        patience.check(what);
        thread::sleep(PAUSE);
    }
}

/// Waits until something is so.
///
/// # Panics
/// If it never is, with what was waited for.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Numbers from 0 on for a loop: so many at least, and on until it was enough.
///
/// # Panics
/// If it never is, with what was waited for.
pub fn rounds(least: u64, what: &str, enough: impl Fn() -> bool) -> impl Iterator<Item = u64> {
    let patience = Patience::begin();
    (0..).take_while(move |&round| {
        let goes_on = round < least || !enough();
        if goes_on && round >= least {
            patience.check(what);
        }
        goes_on
    })
}

/// What comes next from another thread.
///
/// # Panics
/// If nothing does, with what was waited for.
pub fn hear<T>(from: &Receiver<T>, what: &str) -> T {
    from.recv_timeout(PATIENCE).unwrap_or_else(|why| panic!("waited in vain until {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Goal: a loop has so many rounds at least, and more only until it was enough.
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

    /// Goal: what is there is not waited for, what comes is taken, and a sender that has gone is no
    /// reason to wait.
    #[test]
    fn waiting_ends_with_what_was_waited_for() {
        let (mut looks, (tell, told)) = (0, std::sync::mpsc::channel());
        let third = || {
            looks += 1;
            (looks == 3).then_some(7)
        };
        assert_eq!(wait_for("the third look", third), 7);
        tell.send(1).unwrap();
        assert_eq!(hear(&told, "a number came"), 1);
        drop(tell);
        let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hear(&told, "more")));
        let why = *gone.unwrap_err().downcast::<String>().unwrap();
        assert!(why.starts_with("waited in vain until more: "), "{why}");
    }
}

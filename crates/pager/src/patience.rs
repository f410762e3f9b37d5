//! How long pages are tried again that cannot go home.
//!
//! A page that cannot be moved back is copied (see [`crate::sys::Passage::put_back`]), so what is
//! left here is a want of memory, or memory that went bad. Threads stand behind these pages, and
//! whoever would have them run on with zeros would lie to them. A want of memory may end, by
//! reclaim, by the OOM killer, or when somebody raises a limit: that is waited for, as the kernel
//! itself waits where a control group may not kill, and told each minute. What does not end in a
//! minute otherwise never does: then there is what the kernel does, too, where a page fault cannot
//! be served, and the process ends.

use std::time::{Duration, Instant};

use nodeward_model::SkipReason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long it is tried before that is told, or is enough.
const LIMIT: Duration = Duration::from_secs(60);
/// The first pause; each is twice as long as the one before.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// The patience with some pages.
pub struct Patience {
    since: Instant,
    limit: Duration,
    next: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self::with_limit(LIMIT)
    }
}

impl Patience {
    fn with_limit(limit: Duration) -> Self {
        Self { since: Instant::now(), limit, next: SHORTEST }
    }

    /// Lets some time pass before the next try. If there was time enough, it ends the process; but
    /// a want of memory is waited for.
    pub fn pause(&mut self, why: SkipReason) {
        if self.since.elapsed() >= self.limit {
            match why {
                SkipReason::NoMemory => tell(WAITING),
                _ => give_up(),
            }
            self.since = Instant::now();
        }
        std::thread::sleep(self.next);
        self.next = (self.next * 2).min(LONGEST);
    }
}

const WAITING: &str = "nodeward: pages that are out of sight wait for memory to come back to, for \
                       a minute; threads that touch them wait, too; give the process more memory, \
                       or end it\n";
const GIVING_UP: &str = "nodeward: pages that are out of sight cannot be brought back (tried for a \
                         minute); aborting, so that nobody reads zeros instead; look into the \
                         kernel's log\n";

fn give_up() -> ! {
    tell(GIVING_UP);
    std::process::abort()
}

/// Writes to standard error, if there is room for it: without std's lock and without waiting for
/// who reads a pipe, because either may be with a thread that waits for our pages.
fn tell(message: &str) {
    let stderr = rustix::stdio::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut ready, Some(&at_once)).is_ok_and(|ready| ready > 0) {
        rustix::io::write(stderr, message.as_bytes()).ok();
    }
}

#[cfg(test)]
mod tests {
    use nodeward_linux::trouble::{End, in_child};

    use super::*;

    /// Goal: it is tried often, with pauses that grow to a bound, and not without end: then the
    /// process is aborted (SIGABRT is 6), rather than that a page is lost.
    #[test]
    fn it_ends() {
        let mut patience = Patience::with_limit(Duration::from_secs(3600));
        (0..8).for_each(|_| patience.pause(SkipReason::Refused));
        assert_eq!(patience.next, LONGEST, "1, 2, 4 ... 64 ms, and then 100");
        let tries_for_ever = || loop {
            patience.limit = Duration::from_millis(1);
            patience.pause(SkipReason::Refused);
        };
        assert_eq!(in_child(tries_for_ever).unwrap(), End::Signal(6));
    }

    /// Goal: a want of memory, which may end, never ends the process, though nobody reads what is
    /// told of it: a pipe has room for 65,536 bytes, and this is many times more.
    #[test]
    fn memory_is_waited_for() {
        let waits = || {
            let (_read, write) = rustix::pipe::pipe().unwrap();
            rustix::stdio::dup2_stderr(&write).unwrap();
            let mut patience = Patience::with_limit(Duration::ZERO);
            for _ in 0..2000 {
                patience.next = Duration::ZERO;
                patience.pause(SkipReason::NoMemory);
            }
            0
        };
        assert_eq!(in_child(waits).unwrap(), End::Code(0));
    }
}

//! How long pages are tried again that cannot go home.
//!
//! A page that cannot be moved back is copied (see [`crate::sys::Passage::put_back`]), so what is
//! left here is a want of memory, or memory that went bad. It may end, and so it is waited for; but
//! threads stand behind these pages, and whoever would have them run on with zeros would lie to
//! them. So in the end there is what the kernel does, too, where a page fault cannot be served: the
//! process ends.

use std::time::{Duration, Instant};

use nodeward_model::SkipReason;

/// How long it is tried. Who frees memory for us, reclaim or the OOM killer, has long been there.
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

    /// Lets some time pass before the next try. If there was time enough, it ends the process.
    pub fn pause(&mut self, why: SkipReason) {
        if self.since.elapsed() >= self.limit {
            give_up(why);
        }
        std::thread::sleep(self.next);
        self.next = (self.next * 2).min(LONGEST);
    }
}

fn give_up(why: SkipReason) -> ! {
    let cure = match why {
        SkipReason::NoMemory => "give it more memory",
        _ => "look into the kernel's log",
    };
    eprintln!(
        "nodeward: pages that are out of sight cannot be brought back (tried for {} s: {why}); \
         aborting, so that nobody reads zeros instead; {cure}",
        LIMIT.as_secs()
    );
    std::process::abort()
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
        (0..8).for_each(|_| patience.pause(SkipReason::NoMemory));
        assert_eq!(patience.next, LONGEST, "1, 2, 4 ... 64 ms, and then 100");
        let waits_for_ever = || loop {
            patience.limit = Duration::from_millis(1);
            patience.pause(SkipReason::NoMemory);
        };
        assert_eq!(in_child(waits_for_ever).unwrap(), End::Signal(6));
    }
}

//! Retries of pages that cannot be put back where they were.
//!
//! A page that cannot be moved back is copied (see [`crate::sys::TransferMethod::put_back`]). The
//! causes that remain are lack of memory, and memory that went bad. Threads wait for these pages,
//! and letting them run on with zeros would corrupt their data.
//!
//! Lack of memory may end: by reclaim, by the OOM killer, or when a limit is raised. The pager
//! waits for that, as the kernel itself waits where a control group may not kill, and writes a
//! message each minute. Any other cause that lasts for a minute never ends. Then the process is
//! aborted, as the kernel does where a page fault cannot be served.

use std::time::{Duration, Instant};

use nodeward_model::SkipReason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Time of retries until the message, or the abort.
const RETRY_LIMIT: Duration = Duration::from_secs(60);
/// The first pause; each is twice as long as the one before, up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The retries of some pages.
pub struct PutBackRetry {
    since: Instant,
    limit: Duration,
    next_pause: Duration,
}

impl Default for PutBackRetry {
    fn default() -> Self {
        Self::with_limit(RETRY_LIMIT)
    }
}

impl PutBackRetry {
    fn with_limit(limit: Duration) -> Self {
        Self { since: Instant::now(), limit, next_pause: PAUSE_MIN }
    }

    /// Sleeps before the next try. After the limit it aborts the process, or, for lack of memory,
    /// writes a message and waits on.
    pub fn wait_before_retry(&mut self, why: SkipReason) {
        if self.since.elapsed() >= self.limit {
            match why {
                SkipReason::NoMemory => write_to_stderr(WAITING_MESSAGE),
                _ => abort_process(),
            }
            self.since = Instant::now();
        }
        std::thread::sleep(self.next_pause);
        self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
    }
}

const WAITING_MESSAGE: &str = "nodeward: pages that are out of sight wait for memory to come \
                               back to, for a minute; threads that touch them wait, too; give the \
                               process more memory, or end it\n";
const ABORT_MESSAGE: &str = "nodeward: pages that are out of sight cannot be brought back (tried \
                             for a minute); aborting, so that nobody reads zeros instead; look \
                             into the kernel's log\n";

fn abort_process() -> ! {
    write_to_stderr(ABORT_MESSAGE);
    std::process::abort()
}

/// Writes to standard error, if there is room: without std's lock and without waiting for a pipe's
/// reader, because a thread that waits for our pages may have the lock or be the reader.
fn write_to_stderr(message: &str) {
    let stderr = rustix::stdio::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut ready, Some(&at_once)).is_ok_and(|ready| ready > 0) {
        rustix::io::write(stderr, message.as_bytes()).ok();
    }
}

#[cfg(test)]
mod tests {
    use nodeward_linux::interference::{ChildExit, run_in_child};

    use super::*;

    /// Goal: retries have pauses that grow to a bound, and end: then the process is aborted
    /// (SIGABRT is 6), rather than that a page is lost.
    #[test]
    fn it_ends() {
        let mut retry = PutBackRetry::with_limit(Duration::from_secs(3600));
        (0..8).for_each(|_| retry.wait_before_retry(SkipReason::Refused));
        assert_eq!(retry.next_pause, PAUSE_MAX, "1, 2, 4 ... 64 ms, and then 100");
        let tries_for_ever = || loop {
            retry.limit = Duration::from_millis(1);
            retry.wait_before_retry(SkipReason::Refused);
        };
        assert_eq!(run_in_child(tries_for_ever).unwrap(), ChildExit::Signal(6));
    }

    /// Goal: lack of memory, which may end, never ends the process, even if nobody reads the
    /// messages: a pipe has room for 65,536 bytes, and this is many times more.
    #[test]
    fn memory_is_waited_for() {
        let waits = || {
            let (_read, write) = rustix::pipe::pipe().unwrap();
            rustix::stdio::dup2_stderr(&write).unwrap();
            let mut retry = PutBackRetry::with_limit(Duration::ZERO);
            for _ in 0..2000 {
                retry.next_pause = Duration::ZERO;
                retry.wait_before_retry(SkipReason::NoMemory);
            }
            0
        };
        assert_eq!(run_in_child(waits).unwrap(), ChildExit::Code(0));
    }
}

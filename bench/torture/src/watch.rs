//! The watchdog: measures how long each thread has made no progress, in time that the machine
//! really provided.
//!
//! An emulated machine may stop as a whole, or be much slower than others. So time counts only as
//! far as a control thread made progress as well; it alternates between a little work and a rest of
//! a hundredth of a second, and its rests are what counts. The time between two looks counts as a
//! quarter of a second at most.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use crate::post::Post;

/// The time between two looks.
pub const LOOK: Duration = Duration::from_millis(50);
const LOOK_MOST: Duration = Duration::from_millis(250);
/// The rest of the control thread, and its work in between.
const REST: Duration = Duration::from_millis(10);
const WORK: u64 = 10_000;

/// The watchdog's state of a thread.
#[derive(Debug)]
struct Watched {
    post: Arc<Post>,
    signs: u64,
    still: Duration,
}

/// The longest time without progress, and its thread.
#[derive(Clone, Debug, Default)]
pub struct Standstill {
    pub time: Duration,
    pub who: String,
    /// Its last actions.
    pub story: String,
}

#[derive(Debug)]
pub struct Watchdog {
    all: Vec<Watched>,
    control: Arc<AtomicU64>,
    seen: u64,
    looked: Instant,
    longest: Standstill,
}

impl Watchdog {
    /// Starts the watchdog and its control thread, which ends with the process.
    pub fn start(posts: &[Arc<Post>]) -> Self {
        let control = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&control);
        thread::spawn(move || work_and_rest(&count));
        Self::of(posts, control)
    }

    fn of(posts: &[Arc<Post>], control: Arc<AtomicU64>) -> Self {
        let watched =
            |post: &Arc<Post>| Watched { post: Arc::clone(post), signs: 0, still: Duration::ZERO };
        let all = posts.iter().map(watched).collect();
        Self { all, control, seen: 0, looked: Instant::now(), longest: Standstill::default() }
    }

    /// Examines all threads; returns one that has made no progress for `patience`.
    pub fn look(&mut self, patience: Duration) -> Option<Arc<Post>> {
        let passed = self.looked.elapsed();
        self.looked = Instant::now();
        self.count(passed).filter(|&(_, still)| still >= patience).map(|(post, _)| post)
    }

    /// Counts time that has passed. Returns the thread without progress for the longest, and how
    /// long.
    fn count(&mut self, passed: Duration) -> Option<(Arc<Post>, Duration)> {
        let control = self.control.load(Relaxed);
        let turns = u32::try_from(control - self.seen).unwrap_or(u32::MAX);
        let passed = passed.min(REST.saturating_mul(turns)).min(LOOK_MOST);
        self.seen = control;
        for watched in &mut self.all {
            let signs = watched.post.signs();
            let goes_on = signs != watched.signs || watched.post.has_ended();
            watched.still = if goes_on { Duration::ZERO } else { watched.still + passed };
            watched.signs = signs;
        }
        let worst = self.all.iter().max_by_key(|watched| watched.still)?;
        if worst.still > self.longest.time {
            let (who, story) = (worst.post.name.clone(), worst.post.story());
            self.longest = Standstill { time: worst.still, who, story };
        }
        Some((Arc::clone(&worst.post), worst.still))
    }

    /// Returns the longest standstill so far.
    pub fn longest(&self) -> &Standstill {
        &self.longest
    }
}

fn work_and_rest(count: &AtomicU64) {
    loop {
        (0..WORK).for_each(|number| {
            std::hint::black_box(number);
        });
        count.fetch_add(1, Relaxed);
        thread::sleep(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    fn watchdog() -> (Vec<Arc<Post>>, Arc<AtomicU64>, Watchdog) {
        let posts = ["one", "two"].map(|name| Arc::new(Post::new(name.to_owned()))).to_vec();
        let control = Arc::new(AtomicU64::new(0));
        let watchdog = Watchdog::of(&posts, Arc::clone(&control));
        (posts, control, watchdog)
    }

    /// Goal: a thread without progress is found, by name, and no other; an ended one is ignored.
    #[test]
    fn who_stands_still_is_found() {
        let (posts, control, mut watchdog) = watchdog();
        let mut still = Duration::ZERO;
        for _ in 0..10 {
            posts[0].goes_on();
            control.fetch_add(5, Relaxed);
            let (who, time) = watchdog.count(TICK).unwrap();
            still = time;
            assert_eq!(who.name, "two");
        }
        assert_eq!(still, TICK * 10);
        assert_eq!((watchdog.longest().time, &*watchdog.longest().who), (TICK * 10, "two"));
        posts[1].end();
        posts[0].goes_on();
        control.fetch_add(1, Relaxed);
        assert_eq!(watchdog.count(TICK).unwrap().1, Duration::ZERO);
    }

    /// Goal: a machine that stops as a whole, or nearly so, is no thread's fault: time counts only
    /// while the control thread makes progress, and a long sleep of the watchdog itself counts
    /// little.
    #[test]
    fn a_machine_that_stands_still_is_not_blamed() {
        let (_, control, mut watchdog) = watchdog();
        assert_eq!(watchdog.count(TICK * 1000).unwrap().1, Duration::ZERO);
        control.fetch_add(1, Relaxed);
        assert_eq!(watchdog.count(TICK * 1000).unwrap().1, REST);
        control.fetch_add(1000, Relaxed);
        assert_eq!(watchdog.count(TICK * 1000).unwrap().1, REST + LOOK_MOST);
    }
}

//! The times at which a follower brings a range to the home of its group: each time that the home
//! changes, and again after a wait if pages stayed behind.

use std::time::Duration;

use nodeward_model::Nodemask;

/// Waits before a range is brought again of which pages stayed: the first and the longest. The wait
/// doubles each time, because what holds the pages may last.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(64)];

/// The last attempt to bring one range home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowPlan {
    /// The home to which the range was brought last.
    at: Option<Nodemask>,
    /// The last wait and the time when it ends, if pages of the range stayed.
    retry: Option<(Duration, Duration)>,
}

impl FollowPlan {
    /// Returns whether the range is to be brought to `home` now. `now` comes from a clock that
    /// never goes back.
    pub fn is_due(&self, home: &Nodemask, now: Duration) -> bool {
        self.at.as_ref() != Some(home) || self.retry.is_some_and(|(_, due)| now >= due)
    }

    /// Records that the range was brought to `home` at `now`; `is_whole` if no page stayed.
    pub fn brought(&mut self, home: &Nodemask, is_whole: bool, now: Duration) {
        let is_same = self.at.as_ref() == Some(home);
        let last = self.retry.filter(|_| is_same).map(|(wait, _)| wait);
        let wait = last.map_or(RETRY[0], |wait| (wait * 2).min(RETRY[1]));
        self.retry = (!is_whole).then(|| (wait, now.saturating_add(wait)));
        self.at = Some(home.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Nodemask {
        text.parse().unwrap()
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Goal: a range is brought once for each home, at once, also back to one where it was before.
    #[test]
    fn each_home_is_followed_once() {
        let mut plan = FollowPlan::default();
        for home in ["0", "1", "0", "0-1"].map(nodes) {
            assert!(plan.is_due(&home, s(0)));
            plan.brought(&home, true, s(0));
            assert!(!plan.is_due(&home, s(1_000_000)));
        }
    }

    /// Goal: what stayed is tried again after 1, 2, 4 s and so on, but 64 s at most, until all is
    /// there; the waits of another home begin at 1 s.
    #[test]
    fn what_stayed_is_tried_again() {
        let (mut plan, mut now) = (FollowPlan::default(), s(0));
        let (one, zero) = (nodes("1"), nodes("0"));
        plan.brought(&one, false, now);
        for wait in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
            assert!(!plan.is_due(&one, now + s(wait) - Duration::from_nanos(1)), "{wait}");
            now += s(wait);
            assert!(plan.is_due(&one, now), "{wait}");
            plan.brought(&one, false, now);
        }
        plan.brought(&zero, false, now);
        assert!(plan.is_due(&zero, now + s(1)));
        plan.brought(&zero, true, now + s(1));
        assert!(!plan.is_due(&zero, now + s(1000)));
    }
}

//! Limits the lines about decisions to one for each process or segment and minute. The last line
//! is never lost: it is held back until the minute is over, or the balancer ends.

use std::collections::BTreeMap;

use nodeward_model::SegmentId;
use nodeward_policy::placement::EntityId;

/// From one line about a subject to the next, in nanoseconds: a log is for people.
const PAUSE_NS: u64 = 60_000_000_000;

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineSubject {
    /// A process or a group.
    Process(EntityId),
    /// A segment.
    Segment(SegmentId),
}

/// The subjects that had a line in the last minute.
#[derive(Debug, Default)]
pub struct LineLimiter {
    recent: BTreeMap<LineSubject, RecentLine>,
}

/// The last line about a subject, and the lines held back since.
#[derive(Debug, Default)]
struct RecentLine {
    at_ns: u64,
    held: Option<String>,
    left_out: u32,
}

impl LineLimiter {
    /// Takes the lines of a round at a time of the machine's clock, each with its subject. Returns
    /// those to be written now, with those that were held back for long enough.
    pub fn take(
        &mut self,
        now_ns: u64,
        lines: impl IntoIterator<Item = (LineSubject, String)>,
    ) -> Vec<String> {
        let mut due = self.release(|recent| !recent.is_within(now_ns));
        for (subject, line) in lines {
            match self.recent.get_mut(&subject) {
                Some(recent) => recent.hold(line),
                None => {
                    due.push(line);
                    let recent = RecentLine { at_ns: now_ns, ..RecentLine::default() };
                    self.recent.insert(subject, recent);
                }
            }
        }
        due
    }

    /// Returns all that is held back.
    pub fn take_rest(&mut self) -> Vec<String> {
        self.release(|_| true)
    }

    /// Returns the lines held back of some subjects, which may have another one at once.
    fn release(&mut self, is_over: impl Fn(&RecentLine) -> bool) -> Vec<String> {
        let over = self.recent.extract_if(.., |_, recent| is_over(recent));
        over.filter_map(|(_, recent)| recent.released()).collect()
    }
}

impl RecentLine {
    /// A clock that went back ends the pause.
    fn is_within(&self, now_ns: u64) -> bool {
        (self.at_ns..self.at_ns.saturating_add(PAUSE_NS)).contains(&now_ns)
    }

    fn hold(&mut self, line: String) {
        self.left_out += u32::from(self.held.replace(line).is_some());
    }

    fn released(self) -> Option<String> {
        let line = self.held?;
        Some(match self.left_out {
            0 => line,
            1 => format!("{line} (a line before this was left out)"),
            more => format!("{line} ({more} lines before this were left out)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(limiter: &mut LineLimiter, second: u64, lines: &[(u64, &str)]) -> Vec<String> {
        let process = |entity| LineSubject::Process(EntityId(entity));
        let lines = lines.iter().map(|&(entity, line)| (process(entity), line.to_owned()));
        limiter.take(second * S, lines)
    }

    /// Goal: a process has a line at once, and the next one a minute later: the last of those that
    /// came meanwhile, with how many came before it. Another process has its own minute.
    #[test]
    fn a_line_a_minute() {
        let mut limiter = LineLimiter::default();
        assert_eq!(at(&mut limiter, 1, &[(7, "a"), (8, "b")]), ["a", "b"]);
        assert_eq!(at(&mut limiter, 2, &[(7, "c")]), [""; 0]);
        assert_eq!(at(&mut limiter, 30, &[(7, "d"), (9, "e")]), ["e"]);
        assert_eq!(at(&mut limiter, 60, &[(7, "f")]), [""; 0]);
        let told = at(&mut limiter, 61, &[]);
        assert_eq!(told, ["f (2 lines before this were left out)"]);
        assert_eq!(at(&mut limiter, 62, &[(8, "g"), (7, "h")]), ["g", "h"]);
    }

    /// Goal: what is held back is told at the end; who had nothing to tell for a minute is
    /// forgotten, and a clock that goes back holds nothing back for ever.
    #[test]
    fn nothing_is_lost() {
        let mut limiter = LineLimiter::default();
        at(&mut limiter, 100, &[(7, "a"), (8, "b")]);
        at(&mut limiter, 101, &[(7, "c"), (7, "d"), (8, "e")]);
        assert_eq!(limiter.take_rest(), ["d (a line before this was left out)", "e"]);
        assert_eq!(limiter.take_rest(), [""; 0]);
        at(&mut limiter, 200, &[(9, "f")]);
        assert_eq!(at(&mut limiter, 10, &[(9, "g")]), ["g"]);
        at(&mut limiter, 70, &[]);
        assert!(limiter.recent.is_empty());
    }
}

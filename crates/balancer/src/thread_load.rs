//! The load of a thread between two snapshots.

use nodeward_model::ThreadSnapshot;
use nodeward_policy::placement::wanted_ppm;

/// The load of a thread, and the counters from which the next one is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadLoad {
    pub tid: u32,
    /// Share of one CPU that the thread had, in millionths.
    pub load_ppm: u32,
    /// Part of the time in which the thread waited for a CPU, in millionths.
    pub wait_ppm: u32,
    /// CPU time since the thread began, in nanoseconds.
    cpu_time_ns: u64,
    /// Time spent waiting for a CPU since the thread began, in nanoseconds.
    waited_ns: u64,
}

/// The time over which a load is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Too little time passed: loads stay as they are.
    TooShort,
    /// The nanoseconds since the last snapshot; `None` if there was none.
    Since(Option<u64>),
}

impl ThreadLoad {
    /// Returns the load of a thread. Thread and process may be new. If no time passed, or the clock
    /// went back, the old load stays.
    pub fn measure(
        thread: &ThreadSnapshot,
        before: Option<Self>,
        is_first: bool,
        window: Window,
    ) -> Self {
        let elapsed_ns = match (window, before) {
            (Window::TooShort, Some(before)) => return before,
            (Window::TooShort, None) => None,
            (Window::Since(elapsed_ns), _) => elapsed_ns,
        };
        let earlier = before.unwrap_or_default();
        let since = |now_ns: u64, before_ns: u64| match before {
            Some(_) => now_ns.saturating_sub(before_ns),
            // When a process ran that is older than this balancer is unknown.
            None if is_first => now_ns.min(elapsed_ns.unwrap_or(0)),
            None => now_ns,
        };
        let part = |ns: u64, known_ppm: u32| match elapsed_ns {
            None | Some(0) => known_ppm,
            Some(elapsed_ns) => {
                let ppm = u128::from(ns) * 1_000_000 / u128::from(elapsed_ns);
                u32::try_from(ppm.min(1_000_000)).unwrap_or(0)
            }
        };
        Self {
            tid: thread.tid,
            load_ppm: part(since(thread.cpu_time_ns, earlier.cpu_time_ns), earlier.load_ppm),
            wait_ppm: part(since(thread.waited_ns, earlier.waited_ns), earlier.wait_ppm),
            cpu_time_ns: thread.cpu_time_ns,
            waited_ns: thread.waited_ns,
        }
    }

    /// Returns the CPU time that the thread had or waited for, in millionths of a CPU.
    pub fn wanted_ppm(&self) -> u64 {
        wanted_ppm(self.load_ppm, self.wait_ppm)
    }
}

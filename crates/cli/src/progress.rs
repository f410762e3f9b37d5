//! The progress bar of a move or a measurement, and Ctrl-C.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use nodeward_agent::wire::WireProgress;
use nodeward_experiments::parallel::ParallelProgress;
use nodeward_model::units::format_bytes;
use nodeward_mover::{MoveControl, StopReason, run_watched};

use crate::stop_signals::{Grace, StopSignals};

/// Interval between updates of the bar, and of checks for signals.
const REDRAW: Duration = Duration::from_millis(100);

/// The cases in which progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// Show progress also without a terminal, line by line
    Always,
    /// Show progress on a terminal
    Auto,
    /// Show no progress
    Never,
}

/// Work whose progress can be shown.
pub trait ProgressSource: Sync {
    /// Returns the completed and the total work, in the same unit.
    fn done_of_total(&self) -> (u64, u64);

    /// Returns further information, after an elapsed time.
    fn message(&self, elapsed: Duration) -> String;
}

/// Progress of simulations in series: how many of all have ended.
pub struct SeriesProgress {
    /// Counts those that have ended.
    pub watch: ParallelProgress,
    /// All of them.
    pub total: u64,
}

impl SeriesProgress {
    /// Returns the progress of so many simulations, none of which has ended.
    pub fn new(total: u64) -> Self {
        Self { watch: ParallelProgress::default(), total }
    }
}

impl ProgressSource for SeriesProgress {
    fn done_of_total(&self) -> (u64, u64) {
        (self.watch.completed() as u64, self.total)
    }

    fn message(&self, _elapsed: Duration) -> String {
        format!("{} of {} simulations", self.watch.completed(), self.total)
    }
}

/// Work that can be stopped, and then tells what it did.
pub trait StoppableWork: ProgressSource {
    /// The time that the work may take to end after a stop.
    const GRACE: Grace;

    /// Asks it to end early.
    fn stop(&self);
}

impl ProgressSource for MoveControl {
    fn done_of_total(&self) -> (u64, u64) {
        (self.examined_bytes(), self.total_bytes())
    }

    fn message(&self, elapsed: Duration) -> String {
        moving(self.moved_bytes(), self.workers(), elapsed)
    }
}

impl StoppableWork for MoveControl {
    const GRACE: Grace = Grace::Account;

    fn stop(&self) {
        Self::stop(self);
    }
}

impl ProgressSource for nodeward_proof::BenchProgress {
    fn done_of_total(&self) -> (u64, u64) {
        (self.done(), self.total())
    }

    fn message(&self, elapsed: Duration) -> String {
        amount(self.moved_bytes(), "moved", elapsed)
    }
}

impl StoppableWork for nodeward_proof::BenchProgress {
    const GRACE: Grace = Grace::Second;

    fn stop(&self) {
        self.cancel().cancel();
    }
}

/// A move that the agent makes.
#[derive(Default)]
pub struct AgentProgress {
    now: Mutex<WireProgress>,
    /// The request to end the work; the rest is unused.
    stop: MoveControl,
}

impl AgentProgress {
    /// Creates the progress of a move that this control stops.
    pub fn new(stop: MoveControl) -> Self {
        Self { now: Mutex::default(), stop }
    }

    /// Takes over what the agent tells; returns whether the move goes on.
    pub fn update(&self, now: WireProgress) -> bool {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
        now.running
    }

    /// Returns whether the end was requested, or the deadline demands it.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Returns why it is to end.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop.stop_reason()
    }

    /// Returns the bytes moved.
    pub fn moved_bytes(&self) -> u64 {
        self.now().moved_bytes
    }

    fn now(&self) -> WireProgress {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgressSource for AgentProgress {
    fn done_of_total(&self) -> (u64, u64) {
        (self.now().examined_bytes, self.now().total_bytes)
    }

    fn message(&self, elapsed: Duration) -> String {
        moving(self.now().moved_bytes, self.now().workers, elapsed)
    }
}

impl StoppableWork for AgentProgress {
    const GRACE: Grace = Grace::Account;

    fn stop(&self) {
        self.stop.stop();
    }
}

/// A measurement that takes memory and moves none.
pub struct AllocationProgress<'a>(pub &'a nodeward_proof::BenchProgress);

impl ProgressSource for AllocationProgress<'_> {
    fn done_of_total(&self) -> (u64, u64) {
        self.0.done_of_total()
    }

    fn message(&self, elapsed: Duration) -> String {
        amount(self.0.moved_bytes(), "taken", elapsed)
    }
}

impl StoppableWork for AllocationProgress<'_> {
    const GRACE: Grace = nodeward_proof::BenchProgress::GRACE;

    fn stop(&self) {
        self.0.stop();
    }
}

/// Runs `work` and shows its progress on stderr. The first Ctrl-C asks the work to end soon, the
/// second ends the program at once ([`crate::stop_signals`]).
pub fn run_with_progress<W: StoppableWork, T: Send>(
    live: &W,
    when: ProgressMode,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    let signals = StopSignals::catch(W::GRACE, || {})?;
    let pass_on = || {
        if signals.is_stopped() {
            live.stop();
        }
    };
    let done = watched(live, when, pass_on, work)?;
    // Work of which this is a part goes on no more, if the signal came at its end.
    pass_on();
    Ok(done)
}

/// Runs `work` and shows its progress on stderr. Nothing catches a signal: it has no result before
/// its end.
pub fn show_progress<T: Send>(
    live: &impl ProgressSource,
    when: ProgressMode,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    watched(live, when, || {}, work)
}

fn watched<T: Send>(
    live: &impl ProgressSource,
    when: ProgressMode,
    look: impl Fn(),
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    let mut display = ProgressDisplay::new(when, io::stderr().is_terminal());
    let look = || {
        look();
        display.draw(live);
    };
    let done = run_watched("nodeward-work", REDRAW, look, work).context("cannot start a thread")?;
    display.finish(live);
    Ok(done)
}

/// Returns whether progress is shown, so that finding the total amount of work is worthwhile.
pub fn is_shown(when: ProgressMode) -> bool {
    !matches!(ProgressDisplay::new(when, io::stderr().is_terminal()), ProgressDisplay::Nothing)
}

/// The form of progress display.
enum ProgressDisplay {
    Nothing,
    /// A bar that is redrawn in place.
    Bar(ProgressBar),
    /// A line for each tenth of the work, where nothing can be redrawn.
    Lines {
        tenths: u64,
        began: Instant,
    },
}

impl ProgressDisplay {
    fn new(when: ProgressMode, on_terminal: bool) -> Self {
        match (when, on_terminal) {
            (ProgressMode::Never, _) | (ProgressMode::Auto, false) => Self::Nothing,
            (_, true) => Self::Bar(bar()),
            (ProgressMode::Always, false) => Self::Lines { tenths: 0, began: Instant::now() },
        }
    }

    fn draw(&mut self, live: &impl ProgressSource) {
        let (now, total) = live.done_of_total();
        match self {
            Self::Nothing => {}
            Self::Bar(bar) => {
                bar.set_length(total);
                bar.set_position(now);
                let words = live.message(bar.elapsed());
                bar.set_message(words + &time_left(bar.elapsed(), now, total));
            }
            Self::Lines { tenths, began } => {
                let done = now.saturating_mul(10) / total.max(1);
                if done > *tenths {
                    *tenths = done;
                    say!("{}", line(done, &live.message(began.elapsed())));
                }
            }
        }
    }

    fn finish(&mut self, live: &impl ProgressSource) {
        match self {
            Self::Bar(bar) => bar.finish_and_clear(),
            Self::Nothing | Self::Lines { .. } => self.draw(live),
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar:.cyan/dim} {percent:>3}% {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Tells how long the rest takes at the speed so far, once there is one.
fn time_left(elapsed: Duration, now: u64, total: u64) -> String {
    if now == 0 {
        return String::new();
    }
    let rest = total.saturating_sub(now) as f64 / now as f64;
    // A first step of a long way may be days; more is no time that anybody waits for.
    let left = elapsed.as_secs_f64() * rest;
    format!(", {:#} left", HumanDuration(Duration::from_secs(left.min(1e9) as u64)))
}

/// The bar as plain text.
fn line(tenths: u64, words: &str) -> String {
    let done = usize::try_from(tenths.min(10)).unwrap_or(10);
    format!("[{:-<20}] {:>3}% {words}", "#".repeat(done * 2), done * 10)
}

fn moving(moved_bytes: u64, workers: u32, elapsed: Duration) -> String {
    let plural = if workers == 1 { "" } else { "s" };
    format!("{}, {workers} worker{plural}", amount(moved_bytes, "moved", elapsed))
}

fn amount(bytes: u64, what_was_done: &str, elapsed: Duration) -> String {
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = format_bytes(bytes.saturating_mul(1000) / ms);
    format!("{} {what_was_done}, {rate}/s", format_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the rest takes as long for each byte as what is done: 3 of 4 parts in 30 s leave 10 s.
    #[test]
    fn time_left_is_at_the_speed_so_far() {
        assert_eq!(time_left(Duration::from_secs(30), 3, 4), ", 10s left");
        assert_eq!(time_left(Duration::from_secs(30), 0, 4), "");
        assert_eq!(time_left(Duration::from_secs(1), 4, 4), ", 0s left");
        assert!(time_left(Duration::from_secs(9), 1, u64::MAX).ends_with(" left"));
    }

    /// Goal: progress that was requested is shown without a terminal too; otherwise it is not.
    #[test]
    fn progress_is_shown_where_it_is_wanted() {
        assert!(matches!(
            ProgressDisplay::new(ProgressMode::Always, false),
            ProgressDisplay::Lines { .. }
        ));
        assert!(matches!(ProgressDisplay::new(ProgressMode::Auto, true), ProgressDisplay::Bar(_)));
        assert!(matches!(
            ProgressDisplay::new(ProgressMode::Auto, false),
            ProgressDisplay::Nothing
        ));
        assert!(matches!(
            ProgressDisplay::new(ProgressMode::Never, true),
            ProgressDisplay::Nothing
        ));
    }

    #[test]
    fn a_line_is_a_bar() {
        assert_eq!(line(3, "so far"), "[######--------------]  30% so far");
        assert_eq!(line(10, "all"), "[####################] 100% all");
    }
}

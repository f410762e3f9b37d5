//! The progress bar of a move, and Ctrl-C.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use nodeward_engine::Live;
use nodeward_model::units::show_bytes;
use signal_hook::consts::{SIGINT, SIGTERM};

/// How often the bar is drawn anew.
const REDRAW: Duration = Duration::from_millis(100);

/// Runs `work` with a progress bar on stderr, unless `quiet`. The first Ctrl-C asks the work to
/// stop between batches, the second ends the program at once.
pub fn watch<T: Send>(live: &Live, quiet: bool, work: impl FnOnce() -> T + Send) -> Result<T> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&interrupted))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupted)))
            .context("cannot catch Ctrl-C")?;
    }
    let bar = if quiet || !io::stderr().is_terminal() { ProgressBar::hidden() } else { bar() };
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            draw(&bar, live);
            if interrupted.load(Ordering::Relaxed) {
                live.stop();
            }
            std::thread::park_timeout(if bar.is_hidden() { REDRAW / 10 } else { REDRAW });
        }
        bar.finish_and_clear();
        worker.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar:.cyan/dim} {percent:>3}% {msg} {eta}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn draw(bar: &ProgressBar, live: &Live) {
    bar.set_length(live.total_bytes());
    bar.set_position(live.examined_bytes());
    let moved = live.moved_bytes();
    let ms = u64::try_from(bar.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = show_bytes(moved.saturating_mul(1000) / ms);
    let workers = live.workers();
    bar.set_message(format!("{} moved, {rate}/s, {workers} workers, left", show_bytes(moved)));
}

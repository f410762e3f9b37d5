//! The signals of a daemon: SIGTERM and SIGINT end it, SIGHUP makes it read its settings again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use nodeward_mover::MoveControl;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;
use signal_hook::low_level::emulate_default_handler;

/// Requests by signals so far.
#[derive(Clone, Debug)]
pub struct SignalFlags {
    reload: Arc<AtomicBool>,
    interrupt: Arc<AtomicBool>,
}

impl SignalFlags {
    /// Catches the signals from now on. The first one that ends the program lets it reach its next
    /// pause, the second ends it at once.
    ///
    /// # Errors
    /// If they cannot be caught.
    pub fn install(live: &Arc<MoveControl>) -> Result<Self> {
        let caught = iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]);
        let mut caught = caught.context("cannot catch signals")?;
        let live = Arc::clone(live);
        let signals = Self { reload: Arc::default(), interrupt: Arc::default() };
        let told = signals.clone();
        // Ends with the program.
        std::thread::spawn(move || {
            for signal in caught.forever() {
                if signal == SIGHUP {
                    told.reload.store(true, Ordering::Relaxed);
                    continue;
                }
                if live.is_stopped() {
                    let _ = emulate_default_handler(signal);
                }
                told.interrupt.store(signal == SIGINT, Ordering::Relaxed);
                live.stop();
            }
        });
        Ok(signals)
    }

    /// Returns whether the settings have to be read again, and resets that.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Returns whether Ctrl-C ended the program.
    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }
}

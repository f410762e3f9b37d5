//! The signals of a daemon: SIGTERM and SIGINT end it, SIGHUP makes it read its settings again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use nodeward_mover::MoveControl;
use signal_hook::consts::SIGHUP;
use signal_hook::flag;

use crate::stop_signals::{Grace, StopSignals, register};

/// Requests by signals so far.
pub struct SignalFlags {
    reload: Arc<AtomicBool>,
    stop: StopSignals,
}

impl SignalFlags {
    /// Catches the signals from now on. The first one that ends the program lets it reach its next
    /// pause, the second ends it at once.
    ///
    /// # Errors
    /// If they cannot be caught.
    pub fn install(live: &Arc<MoveControl>) -> Result<Self> {
        let reload = Arc::<AtomicBool>::default();
        register(|| flag::register(SIGHUP, Arc::clone(&reload))).context("cannot catch SIGHUP")?;
        let live = Arc::clone(live);
        let stop = StopSignals::catch(Grace::Account, move || live.stop())?;
        Ok(Self { reload, stop })
    }

    /// Returns whether the settings have to be read again, and resets that.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Returns whether Ctrl-C ended the program.
    pub fn interrupted(&self) -> bool {
        self.stop.is_stopped_by_user()
    }
}

//! The tuner beside a balancer: on a thread of its own.

use std::io::{self, PipeReader, PipeWriter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result};
use nodeward_linux::page_lists::{PageListState, SelfTuning};
use nodeward_policy::pcp::FractionBounds;

use super::setting::restore_left;
use super::tuning::{RestoredAtEnd, Tuning, TuningOptions, restore_held};
use crate::output::pcp;
use crate::results::TuningRound;
use crate::settings::PageListsChoice;
use crate::stop_signals::do_before_end;

/// Those of `pcp tune`.
const OPTIONS: TuningOptions = TuningOptions {
    bounds: FractionBounds::USUAL,
    interval_ns: 1_000_000_000,
    dry_run: false,
    anyway: false,
};

/// A tuner that runs until this is dropped. What ends it earlier is said.
pub struct BesideTuner {
    is_over: Arc<AtomicBool>,
    /// Closed to wake the tuner.
    wake: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl BesideTuner {
    /// Starts a tuner, if one was chosen and the kernel does not tune its lists itself. Otherwise
    /// what one that was killed left is restored.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(choice: PageListsChoice) -> Result<Option<Self>> {
        let root = Path::new("/");
        if choice == PageListsChoice::Off {
            // Who holds the setting now restores it.
            let left = restore_left(root).ok().flatten();
            left.into_iter().for_each(|ended| say!("nodeward: {}", pcp::setting_end(ended)));
            return Ok(None);
        }
        let state = PageListState::read(root)?;
        if state.self_tuning != SelfTuning::Absent {
            say!("nodeward: {} Nothing is set.", pcp::tuning_line(&state));
            return Ok(None);
        }
        let (waker, wake) = io::pipe().context("cannot make a pipe")?;
        let is_over = Arc::<AtomicBool>::default();
        let told = Arc::clone(&is_over);
        let tune = move || {
            if let Err(error) = tune(&told, waker) {
                say!("nodeward: page lists are not tuned: {error:#}");
            }
        };
        do_before_end(|| drop(RestoredAtEnd));
        let thread = thread::Builder::new().name("nodeward-pcp".to_owned()).spawn(tune)?;
        Ok(Some(Self { is_over, wake: Some(wake), thread: Some(thread) }))
    }
}

impl Drop for BesideTuner {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.wake.take());
        let ended = self.thread.take().map(JoinHandle::join);
        debug_assert!(ended.is_none_or(|ended| ended.is_ok()), "a tuner does not panic");
    }
}

fn tune(is_over: &AtomicBool, waker: PipeReader) -> Result<()> {
    let _restored = RestoredAtEnd;
    let mut tuning = Tuning::begin(OPTIONS, waker)?;
    let page_bytes = tuning.page_bytes();
    let tell = |round: &TuningRound| {
        if round.before_fraction != round.chosen_fraction {
            say!("nodeward: {}", pcp::round_line(round, page_bytes).trim_end());
        }
        Ok(())
    };
    let done = tuning.run(&|| is_over.load(Ordering::Relaxed), None, &tell);
    restore_held()?.into_iter().for_each(|ended| say!("nodeward: {}", pcp::setting_end(ended)));
    done
}

//! `nodeward pcp tune`.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nodeward_policy::pcp::FractionBounds;

use super::tuning::{RestoredAtEnd, Tuning, TuningOptions, restore_held};
use crate::args::{PcpTuneArgs, TuningBoundsArgs};
use crate::message::exit::Exit;
use crate::output::{pcp, print};
use crate::results::TuningRound;
use crate::stop_signals::{Grace, StopSignals, do_before_end};

/// Tunes until it is ended.
pub fn run(args: &PcpTuneArgs) -> Result<Exit> {
    let options = TuningOptions {
        bounds: fraction_bounds(&args.bounds)?,
        interval_ns: args.interval,
        dry_run: args.dry_run,
        anyway: args.anyway,
    };
    let (waker, wake) = io::pipe().context("cannot make a pipe")?;
    let _restored = RestoredAtEnd;
    let mut tuning = Tuning::begin(options, waker)?;
    // Behind it, so that the thread of signals has no capabilities of loading either.
    let signals = StopSignals::catch(Grace::Account, move || drop(wake))?;
    signals.catch_hangup()?;
    // A command that its output blocks is ended by a signal, without another word.
    do_before_end(|| drop(RestoredAtEnd));
    let end = args.for_ns.map(|ns| Instant::now() + Duration::from_nanos(ns));
    let page_bytes = tuning.page_bytes();
    let tell = |round: &TuningRound| tell(round, page_bytes, args.output.json);
    let done = tuning.run(&|| signals.is_stopped(), end, &tell);
    restore_held()?.into_iter().for_each(|ended| say!("nodeward: {}", pcp::setting_end(ended)));
    done?;
    let is_early = end.is_some_and(|end| Instant::now() < end) && signals.is_stopped_by_user();
    Ok(if is_early { Exit::Interrupted } else { Exit::Done })
}

fn tell(round: &TuningRound, page_bytes: u64, json: bool) -> Result<()> {
    match (json, round.before_fraction == round.chosen_fraction) {
        (true, _) => print(&format!("{}\n", pcp::round_json(round, page_bytes))),
        (false, true) => Ok(()),
        (false, false) => print(&pcp::round_line(round, page_bytes)),
    }
}

/// Returns the bounds that were typed.
///
/// # Errors
/// If nothing is between them.
pub fn fraction_bounds(args: &TuningBoundsArgs) -> Result<FractionBounds> {
    let (min, max) = (args.min_fraction, args.max_fraction);
    anyhow::ensure!(
        min <= max,
        "--min-fraction {min} is more than --max-fraction {max}; give a smaller one"
    );
    Ok(FractionBounds { min, max })
}

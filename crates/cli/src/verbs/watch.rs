//! `nodeward watch`: counts who moves pages, round by round.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Result;
use nodeward_linux::HeldPid;

use crate::args::WatchArgs;
use crate::machines::page_movers::MoverCounter;
use crate::message::exit::Exit;
use crate::output::watch_trace::WatchTrace;
use crate::output::{print, watch};
use crate::results::observation::WatchEnd;
use crate::results::page_movers::WatchRound;
use crate::settings::state_dir::now_unix_ms;
use crate::stop_signals::{Grace, StopSignals};

/// Watches until its time is over, Ctrl-C, or the end of all watched processes.
pub fn run(args: &WatchArgs) -> Result<Exit> {
    let held = args.pids.iter().map(|pid| HeldPid::open(*pid)).collect::<Result<Vec<_>, _>>()?;
    let trace = args.perfetto.as_deref().map(WatchTrace::create).transpose()?;
    let counter = MoverCounter::start(Path::new("/"), &args.pids)?;
    counter.not_told().iter().for_each(|not_told| say!("nodeward: not told: {}", not_told.why));
    let (sender, stop) = mpsc::channel();
    let _signals = StopSignals::catch(Grace::Account, move || drop(sender))?;
    let began = Instant::now();
    let end = MoverWatch { args, held, counter, trace, stop, began }.rounds()?;
    Ok(if end == WatchEnd::Stopped { Exit::Interrupted } else { Exit::Done })
}

struct MoverWatch<'a> {
    args: &'a WatchArgs,
    held: Vec<HeldPid>,
    counter: MoverCounter,
    trace: Option<WatchTrace>,
    /// It is closed by a signal.
    stop: Receiver<()>,
    began: Instant,
}

impl MoverWatch<'_> {
    fn rounds(mut self) -> Result<WatchEnd> {
        if !self.args.json {
            print(&watch::header())?;
        }
        let mut number = 0;
        loop {
            number += 1;
            let is_stopped = self.wait_for_end();
            // Before the counts are read: what a process does until its end is in them.
            let end = self.end(number, is_stopped);
            let (interval, total) = self.counter.read()?;
            let time_unix_ms = now_unix_ms();
            let round = WatchRound { number, time_unix_ms, interval, total, end };
            print(&match self.args.json {
                true => format!("{}\n", watch::json(&round, &self.counter_facts())),
                false => watch::text(&round),
            })?;
            self.trace.iter_mut().try_for_each(|trace| trace.add(&round))?;
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Waits until the end of a round; returns whether a signal came before. Rounds that are over
    /// already, because this program was stopped or its output was blocked, are left out.
    fn wait_for_end(&self) -> bool {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let due = (now / self.args.interval + 1).saturating_mul(self.args.interval);
        let due = due.min(self.args.for_ns.unwrap_or(u64::MAX));
        let wait = Duration::from_nanos(due.saturating_sub(now));
        self.stop.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected)
    }

    fn end(&self, number: u64, is_stopped: bool) -> Option<WatchEnd> {
        let time = self.args.for_ns.map(Duration::from_nanos);
        let is_over = time.is_some_and(|time| self.began.elapsed() >= time)
            || self.args.rounds.is_some_and(|rounds| number >= rounds);
        let is_gone =
            !self.held.is_empty() && self.held.iter().all(|pid| pid.check_alive().is_err());
        let stopped = is_stopped.then_some(WatchEnd::Stopped);
        let over = is_over.then_some(WatchEnd::Time);
        stopped.or(over).or(is_gone.then_some(WatchEnd::Gone))
    }

    fn counter_facts(&self) -> watch::WatchFacts<'_> {
        watch::WatchFacts {
            source: self.counter.source(),
            pids: &self.args.pids,
            not_told: self.counter.not_told(),
        }
    }
}

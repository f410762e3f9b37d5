//! Rounds until the daemon is told to stop, and its messages meanwhile.

use std::sync::Arc;

use anyhow::Result;
use nodeward_engine::Live;
use nodeward_engine::balance::{Balancer, Event, Host, RoundReport};
use nodeward_machine::Machine;

use super::signals::Signals;
use super::{Asked, check};
use crate::exit::Exit;
use crate::notify::Notify;
use crate::output::balance as words;

/// The environment of a running balancer.
pub struct Daemon<'a> {
    asked: &'a Asked<'a>,
    machine: &'a Arc<dyn Machine>,
    signals: &'a Signals,
    notify: Notify,
    /// End time by the machine's clock, in nanoseconds.
    end_ns: Option<u64>,
    live: Arc<Live>,
    trouble: Option<anyhow::Error>,
}

impl<'a> Daemon<'a> {
    /// Creates the daemon. It ends after `for_ns` of the machine's time, if that is given.
    pub fn new(
        asked: &'a Asked<'a>,
        machine: &'a Arc<dyn Machine>,
        signals: &'a Signals,
        for_ns: Option<u64>,
    ) -> Self {
        Self {
            asked,
            machine,
            signals,
            notify: Notify::find(),
            end_ns: for_ns.map(|ns| machine.now_ns().saturating_add(ns)),
            live: Arc::default(),
            trouble: None,
        }
    }

    /// Balances until the end.
    pub fn run(mut self, balancer: &mut Balancer, live: &Arc<Live>) -> Result<Exit> {
        self.live = Arc::clone(live);
        self.notify.ready();
        let ended = balancer.run(&mut self, live);
        self.notify.stopping();
        ended?;
        if let Some(error) = self.trouble {
            return Err(error);
        }
        // Ctrl-C is the normal end of a daemon without a time limit.
        let early = self.end_ns.is_some() && self.signals.interrupted();
        Ok(if early { Exit::Interrupted } else { Exit::Done })
    }

    /// Reads the settings again. Invalid ones are reported, and nothing changes.
    fn reload(&self) -> Option<Event> {
        self.notify.reloading();
        let read = self.asked.read().and_then(|(wanted, settings)| {
            check(&**self.machine, &wanted, &settings)?;
            Ok(Event::Reload(Box::new(wanted), Box::new(settings)))
        });
        self.notify.ready();
        read.inspect(|_| say!("nodeward: the settings were read again"))
            .inspect_err(|error| say!("nodeward: the settings stay as they were: {error:#}"))
            .ok()
    }

    fn tell(&self, report: &RoundReport) -> Result<()> {
        self.asked.tell_news(report);
        let args = self.asked.args;
        // A fast round between two full rounds decides nothing, but it acts.
        if args.json || args.dry_run && !report.fast {
            return self.asked.show(report);
        }
        if !args.quiet && !args.dry_run {
            let new = report.processes.iter().filter_map(|row| words::changed(row, report));
            for line in new {
                say!("{line}");
            }
        }
        Ok(())
    }
}

impl Host for Daemon<'_> {
    fn wish(&mut self) -> Option<Event> {
        self.notify.alive();
        let is_over = self.end_ns.is_some_and(|end_ns| self.machine.now_ns() >= end_ns);
        if is_over || self.live.is_stopped() || self.trouble.is_some() {
            return Some(Event::Stop);
        }
        self.signals.take_reload().then(|| self.reload()).flatten()
    }

    fn round(&mut self, report: &RoundReport) {
        if !report.fast {
            self.notify.status(&words::status(report));
        }
        if let Err(error) = self.tell(report) {
            self.trouble = Some(error);
        }
    }
}

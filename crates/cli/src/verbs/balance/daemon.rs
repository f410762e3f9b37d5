//! Rounds until the daemon is told to stop, and its messages meanwhile.

use std::sync::Arc;

use anyhow::Result;
use nodeward_agent::metrics;
use nodeward_balancer::{Balancer, Event, GroupRow, Host, ProcessRow, RoundReport, SegmentRow};
use nodeward_machine::Machine;
use nodeward_mover::MoveControl;

use super::agent::BalancerAgent;
use super::kernel_takeover::KernelTakeover;
use super::request::{BalanceRequest, check};
use super::sd_notify::SystemdNotifier;
use super::signals::SignalFlags;
use super::textfile::MetricsTextfile;
use crate::message::exit::Exit;
use crate::output::balance as words;

/// The environment of a running balancer.
pub struct Daemon<'a> {
    request: &'a BalanceRequest<'a>,
    machine: &'a Arc<dyn Machine>,
    signals: &'a SignalFlags,
    takeover: KernelTakeover,
    agent: BalancerAgent,
    textfile: Option<MetricsTextfile>,
    limiter: words::LineLimiter,
    notify: SystemdNotifier,
    /// End time by the machine's clock, in nanoseconds.
    end_ns: Option<u64>,
    live: Arc<MoveControl>,
    error: Option<anyhow::Error>,
}

impl<'a> Daemon<'a> {
    /// Creates the daemon. It ends after `for_ns` of the machine's time, if that is given.
    pub fn new(
        asked: &'a BalanceRequest<'a>,
        machine: &'a Arc<dyn Machine>,
        signals: &'a SignalFlags,
        takeover: KernelTakeover,
        (agent, textfile): (BalancerAgent, Option<MetricsTextfile>),
        for_ns: Option<u64>,
    ) -> Self {
        Self {
            request: asked,
            machine,
            signals,
            takeover,
            agent,
            textfile,
            limiter: words::LineLimiter::default(),
            notify: SystemdNotifier::from_environment(),
            end_ns: for_ns.map(|ns| machine.now_ns().saturating_add(ns)),
            live: Arc::default(),
            error: None,
        }
    }

    /// Balances until the end.
    pub fn run(mut self, balancer: &mut Balancer, live: &Arc<MoveControl>) -> Result<Exit> {
        self.live = Arc::clone(live);
        self.notify.ready();
        let ended = balancer.run(&mut self, live);
        self.notify.stopping();
        self.limiter.take_rest().iter().for_each(|line| say!("{line}"));
        self.takeover.end();
        ended?;
        if let Some(error) = self.error {
            return Err(error);
        }
        // Ctrl-C is the normal end of a daemon without a time limit.
        let early = self.end_ns.is_some() && self.signals.interrupted();
        Ok(if early { Exit::Interrupted } else { Exit::Done })
    }

    /// Reads the settings again. Invalid ones are reported, and nothing changes.
    fn reload(&mut self) -> Option<Event> {
        self.notify.reloading();
        let read = self.request.read().and_then(|(wanted, settings)| {
            check(&**self.machine, &wanted, &settings)?;
            self.takeover.apply(&settings)?;
            Ok(Event::Reload(Box::new(wanted), Box::new(settings)))
        });
        self.notify.ready();
        read.inspect(|_| say!("nodeward: the settings were read again"))
            .inspect_err(|error| say!("nodeward: the settings stay as they were: {error:#}"))
            .ok()
    }

    fn write_metrics(&mut self, report: &RoundReport) {
        let Some(textfile) = self.textfile.as_mut().filter(|_| !report.fast) else { return };
        let (machine, processes) = (&**self.machine, textfile.processes);
        textfile.write_if_due(machine.now_ns(), || {
            let rows = metrics::most_misplaced(report, processes).into_iter();
            let named: Vec<_> = rows.map(|row| (row.pid, row)).collect();
            metrics::text(report, self.agent.totals().as_ref(), machine, &named)
        });
    }

    fn tell(&mut self, report: &RoundReport) -> Result<()> {
        self.request.print_notices(report);
        let args = self.request.args;
        // A fast round between two full rounds decides nothing, but it acts.
        if args.json || args.dry_run && !report.fast {
            return self.request.show(report);
        }
        if !args.quiet && !args.dry_run {
            self.tell_changes(report);
        }
        Ok(())
    }

    fn tell_changes(&mut self, report: &RoundReport) {
        let new = changes(report);
        let due = match self.request.args.verbose {
            true => new.into_iter().map(|(_, line)| line).collect(),
            false => self.limiter.take(report.at_ns, new),
        };
        due.iter().for_each(|line| say!("{line}"));
    }
}

/// The lines about what changed in a round.
fn changes(report: &RoundReport) -> Vec<(words::LineSubject, String)> {
    let process = |row: &ProcessRow| {
        let subject = words::LineSubject::Process(row.decision.entity);
        Some((subject, words::change_line(row, report)?))
    };
    let segment = |row: &SegmentRow| {
        let subject = words::LineSubject::Segment(row.decision.segment);
        Some((subject, words::segment_change_line(row, report)?))
    };
    let group = |row: &GroupRow| {
        let subject = words::LineSubject::Process(row.decision.entity);
        Some((subject, words::group_change_line(row, report)?))
    };
    let groups = report.groups.iter().filter_map(group);
    let segments = report.segments.iter().filter_map(segment);
    report.processes.iter().filter_map(process).chain(groups).chain(segments).collect()
}

impl Host for Daemon<'_> {
    fn wish(&mut self) -> Option<Event> {
        self.notify.ping_watchdog();
        let is_over = self.end_ns.is_some_and(|end_ns| self.machine.now_ns() >= end_ns);
        if is_over || self.live.is_stopped() || self.error.is_some() {
            return Some(Event::Stop);
        }
        self.signals.take_reload().then(|| self.reload()).flatten()
    }

    fn round(&mut self, report: &RoundReport) {
        self.agent.publish(report);
        self.write_metrics(report);
        if !report.fast {
            self.notify.status(&words::status(report));
        }
        if let Err(error) = self.tell(report) {
            self.error = Some(error);
        }
    }
}

//! One round, printed in full. It takes two samples, because loads are differences between them.

use anyhow::Result;
use nodeward_balancer::{Balancer, Event, Host, RoundReport};
use nodeward_mover::MoveControl;

use super::request::BalanceRequest;
use crate::message::exit::Exit;

/// Rounds needed for one with decisions.
const ROUNDS: u64 = 2;

/// Ends after the first round that can decide.
pub struct Once<'a> {
    request: &'a BalanceRequest<'a>,
    live: &'a MoveControl,
    last_report: Option<RoundReport>,
}

impl<'a> Once<'a> {
    /// Creates it; the round is printed as requested by the arguments.
    pub fn new(asked: &'a BalanceRequest<'a>, live: &'a MoveControl) -> Self {
        Self { request: asked, live, last_report: None }
    }

    /// Runs the round and prints it.
    pub fn run(mut self, balancer: &mut Balancer) -> Result<Exit> {
        let live = self.live;
        balancer.run(&mut self, live)?;
        if let Some(report) = &self.last_report {
            self.request.show(report)?;
        }
        Ok(if self.live.is_stopped() { Exit::Interrupted } else { Exit::Done })
    }

    fn is_over(&self) -> bool {
        let rounds = self.last_report.as_ref().map_or(0, |report| report.round);
        rounds >= ROUNDS || self.live.is_stopped()
    }
}

impl Host for Once<'_> {
    fn wish(&mut self) -> Option<Event> {
        self.is_over().then_some(Event::Stop)
    }

    fn round(&mut self, report: &RoundReport) {
        self.request.print_notices(report);
        if !report.fast {
            self.last_report = Some(report.clone());
        }
    }
}

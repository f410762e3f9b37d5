//! Runs a simulated machine with nodeward at work on it.

use std::sync::Arc;

use anyhow::Result;
use nodeward_balancer::{Balancer, Event, Host, RoundReport};
use nodeward_experiments::compare::NodewardSetup;
use nodeward_machine::Machine;
use nodeward_mover::MoveControl;
use nodeward_sim::{SimMachine, SimReport, World};

use crate::results::simulation::{EndReason, NodewardRun};

/// Runs a world until a virtual time (ns), or until another condition ends it, which is checked
/// several times in a virtual second.
pub fn run(
    world: World,
    setup: &NodewardSetup,
    until_ns: u64,
    other: impl Fn(&World) -> Option<EndReason>,
) -> Result<(SimReport, EndReason, NodewardRun)> {
    let machine = Arc::new(SimMachine::from_world(world));
    let shared: Arc<dyn Machine> = Arc::<SimMachine>::clone(&machine);
    let mut balancer = Balancer::new(shared, &setup.processes, setup.settings.clone(), None)?;
    let balanced = NodewardRun::default();
    let mut host = SimulationHost { machine: &machine, until_ns, other, ended: None, balanced };
    balancer.run(&mut host, &MoveControl::default())?;
    let ended = host.ended.unwrap_or(EndReason::VirtualTime);
    let balanced = host.balanced;
    if ended == EndReason::VirtualTime {
        machine.run_until_done(until_ns);
    }
    Ok((machine.report(), ended, balanced))
}

/// Ends the balancer when its machine has run for long enough.
struct SimulationHost<'a, F> {
    machine: &'a SimMachine,
    until_ns: u64,
    other: F,
    ended: Option<EndReason>,
    balanced: NodewardRun,
}

impl<F: Fn(&World) -> Option<EndReason>> Host for SimulationHost<'_, F> {
    fn wish(&mut self) -> Option<Event> {
        self.ended = match self.machine.now_ns() >= self.until_ns {
            true => Some(EndReason::VirtualTime),
            false => self.machine.with_world(|world| (self.other)(world)),
        };
        self.ended.map(|_| Event::Stop)
    }

    fn round(&mut self, report: &RoundReport) {
        self.balanced.rounds += 1;
        self.balanced.moved_pages += report.moved_pages;
        // A fast round tells of no process.
        if !report.fast {
            self.balanced.last = Some(report.clone());
        }
    }
}

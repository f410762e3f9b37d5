//! The machine that a verb works on: this one, or a simulated one.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{GroupSpec, Topology};
use nodeward_mover::{MoveControl, MoveDeadline};
use nodeward_scenario::Scenario;
use nodeward_sim::SimMachine;

use super::NodeNames;
use crate::args::MachineArgs;

/// Maximum virtual time for the programs of a simulated machine to populate their memory, in
/// nanoseconds.
const POPULATED_NS_MAX: u64 = 1_000_000_000;

/// The selected machine.
pub enum SelectedMachine {
    /// This one.
    Local(Linux),
    /// A simulated one, at the requested time.
    Simulated(SimMachine),
}

impl SelectedMachine {
    /// Opens the named machine, or this one if none was named.
    ///
    /// # Errors
    /// If there is no such scenario, or it is invalid.
    pub fn open(args: &MachineArgs, seed: Option<u64>) -> Result<Self> {
        let Some(scenario) = &args.machine else { return Ok(Self::Local(Linux::open())) };
        let scenario = Scenario::find_with(scenario, &args.set)?;
        let machine = SimMachine::new(&scenario, seed.unwrap_or(0));
        match args.at {
            Some(at_ns) => machine.run_until(at_ns),
            None => machine.run_until_populated(POPULATED_NS_MAX),
        }
        Ok(Self::Simulated(machine))
    }

    /// Returns the interface that all machines share.
    pub fn machine(&self) -> &dyn Machine {
        match self {
            Self::Local(machine) => machine,
            Self::Simulated(machine) => machine,
        }
    }

    /// Creates the control of a move that begins now and is to end within `time_ns` nanoseconds of
    /// the machine's time.
    pub fn control(&self, time_ns: Option<u64>) -> MoveControl {
        MoveControl::until(time_ns.map(|ns| match self {
            Self::Local(_) => MoveDeadline::in_real_time(ns),
            Self::Simulated(machine) => {
                let machine = machine.clone();
                MoveDeadline::after(ns, move || machine.now_ns())
            }
        }))
    }

    /// Returns a further handle of it, for another thread.
    pub fn another(&self) -> Arc<dyn Machine> {
        match self {
            Self::Local(_) => Arc::new(Linux::open()),
            Self::Simulated(machine) => Arc::new(machine.clone()),
        }
    }

    /// Returns the same, owned.
    pub fn into_shared(self) -> Arc<dyn Machine> {
        match self {
            Self::Local(machine) => Arc::new(machine),
            Self::Simulated(machine) => Arc::new(machine),
        }
    }

    /// Returns the groups of its programs, if it is simulated from a scenario that has some.
    pub fn groups(&self) -> Vec<GroupSpec> {
        match self {
            Self::Local(_) => Vec::new(),
            Self::Simulated(machine) => machine.with_world(|world| world.scenario().groups.clone()),
        }
    }

    /// Returns this machine, for operations that need a kernel.
    ///
    /// # Errors
    /// On a simulated one.
    pub fn local(&self, what: &str) -> Result<&Linux> {
        match self {
            Self::Local(machine) => Ok(machine),
            Self::Simulated(_) => bail!("a simulated machine has no {what}; leave out --machine"),
        }
    }

    /// Returns the names of its nodes.
    ///
    /// # Errors
    /// If this machine does not provide it.
    pub fn node_names<'a>(&self, topology: &'a Topology) -> Result<NodeNames<'a>> {
        match self {
            Self::Local(_) => NodeNames::below(Path::new("/"), topology),
            Self::Simulated(_) => Ok(NodeNames::without_devices(topology)),
        }
    }
}

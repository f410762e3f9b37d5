//! The machine that a verb works on: this one, or a simulated one.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_linux::{Linux, nodes};
use nodeward_machine::Machine;
use nodeward_model::nodestring::Context;
use nodeward_model::{NodeId, Topology};
use nodeward_scenario::Scenario;
use nodeward_sim::SimMachine;

use crate::args::MachineArgs;

/// How long a simulated machine may take, in virtual nanoseconds, until its programs have their
/// memory.
const POPULATED_NS_MAX: u64 = 1_000_000_000;

/// A machine.
pub enum Chosen {
    /// This one.
    Here(Linux),
    /// A simulated one, at the time at which it is looked at.
    Simulated(SimMachine),
}

impl Chosen {
    /// The machine that was named, this one if none was.
    ///
    /// # Errors
    /// If there is no such scenario, or something is wrong in it.
    pub fn open(args: &MachineArgs, seed: Option<u64>) -> Result<Self> {
        let Some(scenario) = &args.machine else { return Ok(Self::Here(Linux::open())) };
        let scenario = Scenario::find_with(scenario, &args.set)?;
        let machine = SimMachine::new(&scenario, seed.unwrap_or(0));
        match args.at {
            Some(at_ns) => machine.run_until(at_ns),
            None => machine.run_until_populated(POPULATED_NS_MAX),
        }
        Ok(Self::Simulated(machine))
    }

    /// What all machines have in common.
    pub fn machine(&self) -> &dyn Machine {
        match self {
            Self::Here(machine) => machine,
            Self::Simulated(machine) => machine,
        }
    }

    /// The same, for whoever keeps it.
    pub fn shared(self) -> Arc<dyn Machine> {
        match self {
            Self::Here(machine) => Arc::new(machine),
            Self::Simulated(machine) => Arc::new(machine),
        }
    }

    /// This machine, for what only a kernel can do.
    ///
    /// # Errors
    /// On a simulated one.
    pub fn here(&self, what: &str) -> Result<&Linux> {
        match self {
            Self::Here(machine) => Ok(machine),
            Self::Simulated(_) => bail!("a simulated machine has no {what}; leave out --machine"),
        }
    }

    /// What node strings are read against.
    ///
    /// # Errors
    /// If this machine does not tell.
    pub fn node_names(&self, topology: &Topology) -> Result<Context> {
        if let Self::Here(_) = self {
            return Ok(nodes::context(Path::new("/"), topology)?);
        }
        let existing = topology.node_ids();
        Ok(Context {
            allowed: existing.clone(),
            highest_possible: existing.last().unwrap_or(NodeId(0)),
            existing,
        })
    }
}

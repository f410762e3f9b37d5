//! The balancers that are compared.

use std::sync::Arc;

use anyhow::Result;
use nodeward_balancer::{BalanceSettings, Event, Host, ProcessRow, RivalMode, RoundReport};
use nodeward_machine::Machine;
use nodeward_model::ProcessFilter;
use nodeward_mover::MoveControl;
use nodeward_scenario::{Scenario, SchedulerKind};
use nodeward_sim::SimMachine;
use serde::Serialize;

use crate::compare::manual_placement;

/// What nodeward is told before it balances a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodewardSetup {
    /// Its settings.
    pub settings: BalanceSettings,
    /// The processes that it balances; all if the filter is empty.
    pub processes: ProcessFilter,
}

/// A balancer, which brings threads and memory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalancerKind {
    /// None: a kernel whose NUMA balancing is off.
    Nothing,
    /// The kernel with the patches of 2012.
    Patches,
    /// The kernel's NUMA balancing by hint faults.
    Kernel,
    /// A person who knows the load and places it once, at its beginning.
    Hand,
    /// `nodeward balance`.
    Nodeward,
    /// The same beside the kernel's NUMA balancing (`--rivals cooperate`). It is no column of the
    /// table.
    Cooperating,
}

impl BalancerKind {
    /// The balancers of the table, in their order.
    pub const ALL: [Self; 5] =
        [Self::Nothing, Self::Patches, Self::Kernel, Self::Hand, Self::Nodeward];

    /// Returns its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Patches => "patches of 2012",
            Self::Kernel => "kernel",
            Self::Hand => "by hand",
            Self::Nodeward => "nodeward",
            Self::Cooperating => "kernel and nodeward",
        }
    }

    /// All of them by the words that choose them, beside [`BalancerKind::ALL`] the cooperating one.
    pub const WORDS: [(&'static str, Self); 6] = [
        ("nothing", Self::Nothing),
        ("patches", Self::Patches),
        ("kernel", Self::Kernel),
        ("hand", Self::Hand),
        ("nodeward", Self::Nodeward),
        ("cooperate", Self::Cooperating),
    ];

    /// Returns the scenario keys that select it.
    pub fn scenario_overrides(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Patches => &[("scheduler", "numad")],
            Self::Kernel | Self::Cooperating => &[("numa-balancing", "true")],
            Self::Nothing | Self::Hand | Self::Nodeward => &[],
        }
    }

    /// Selects it in a scenario, as its keys do.
    pub(crate) fn select_in(self, scenario: &mut Scenario) {
        match self {
            Self::Patches => scenario.scheduler = SchedulerKind::SchedNuma2012,
            Self::Kernel | Self::Cooperating => scenario.numa_balancing = true,
            Self::Nothing | Self::Hand | Self::Nodeward => {}
        }
    }

    /// Begins to balance a machine that is about to start; nodeward as it is set up.
    pub(crate) fn start<'a>(
        self,
        machine: &'a Arc<SimMachine>,
        scenario: &Scenario,
        setup: &NodewardSetup,
    ) -> Result<BalancedRun<'a>> {
        if self == Self::Hand {
            manual_placement::place_manually(machine, scenario)?;
        }
        let mode = match self {
            Self::Nodeward => Some(setup.settings.rivals),
            Self::Cooperating => Some(RivalMode::Cooperate),
            _ => None,
        };
        let balancer = mode.map(|rivals| {
            let shared: Arc<dyn Machine> = Arc::<SimMachine>::clone(machine);
            let groups = [&scenario.groups[..], &setup.settings.groups].concat();
            let settings = BalanceSettings { rivals, groups, ..setup.settings.clone() };
            nodeward_balancer::Balancer::new(shared, &setup.processes, settings, None)
        });
        Ok(BalancedRun { machine, balancer: balancer.transpose()?, moving: false })
    }
}

/// A machine with its balancer.
pub(crate) struct BalancedRun<'a> {
    machine: &'a SimMachine,
    balancer: Option<nodeward_balancer::Balancer>,
    moving: bool,
}

impl BalancedRun<'_> {
    /// Runs it until a virtual time (ns), or until all work is done, and until the end of a round
    /// that began before.
    pub(crate) fn run_until(&mut self, until_ns: u64) -> Result<()> {
        if let Some(balancer) = &mut self.balancer {
            let moving = &mut self.moving;
            balancer.run(
                &mut RoundObserver { machine: self.machine, until_ns, moving },
                &MoveControl::default(),
            )?;
        }
        self.machine.run_until_done(until_ns);
        Ok(())
    }

    /// Returns whether the last round moved pages, or left some for the next one.
    pub(crate) fn is_moving(&self) -> bool {
        self.moving
    }
}

/// Ends rounds at a time.
struct RoundObserver<'a> {
    machine: &'a SimMachine,
    until_ns: u64,
    moving: &'a mut bool,
}

impl Host for RoundObserver<'_> {
    fn wish(&mut self) -> Option<Event> {
        let is_done = self.machine.work_ends().last_ns.is_some();
        (is_done || self.machine.now_ns() >= self.until_ns).then_some(Event::Stop)
    }

    fn round(&mut self, report: &RoundReport) {
        let has_more = |row: &ProcessRow| row.done.pages_pending > 0;
        *self.moving = report.moved_pages > 0 || report.processes.iter().any(has_more);
    }
}

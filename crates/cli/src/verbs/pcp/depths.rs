//! The depths of all CPUs, counted in the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use nodeward_bpf::drop_capabilities;
use nodeward_bpf::page_lists::{DepthCounter, ListOrders};
use nodeward_linux::Linux;
use nodeward_linux::page_lists::{HIGH_FRACTION, PageListState, list_orders};
use nodeward_machine::{Error, Machine as _};
use nodeward_model::{CpuId, NodeId, ZoneLists};

use crate::results::{CpuListUse, PageDemands};

/// What cannot be done without the two programs of depths.
const COUNTING: &str = "counting the depths of page lists";

/// What was found in a period.
pub struct PeriodDemands {
    /// What each CPU did and could use.
    pub cpus: Vec<CpuListUse>,
    /// Events since the start that were not counted.
    pub missed_events: u64,
}

/// Counts while it lives.
pub struct DepthWatch {
    machine: Linux,
    counter: DepthCounter,
    demands: PageDemands,
    nodes: BTreeMap<CpuId, NodeId>,
}

impl DepthWatch {
    /// Starts to count. The lengths of the lists as they are then count as the default, which is
    /// said if somebody has chosen them.
    ///
    /// # Errors
    /// If the kernel counts no depths for us, with what is missing.
    pub fn start(state: &PageListState) -> Result<Self> {
        let (machine, root) = (Linux::open(), Path::new("/"));
        let (largest, huge) = list_orders(root, machine.page_bytes())?;
        let counter = DepthCounter::start(root, ListOrders { largest, huge });
        let counter = counter.context("the depths of page lists cannot be counted")?;
        if let Some(absent) = counter.missing() {
            let reason = absent.to_string();
            return Err(Error::Unsupported { action: COUNTING, reason }.into());
        }
        for absent in counter.absent() {
            say!("nodeward: not told: {absent}");
        }
        if let Some(chosen @ 1..) = state.high_fraction {
            let name = HIGH_FRACTION.name;
            say!("nodeward: {name} is {chosen}: the lengths that it gives count as the default");
        }
        let demands = PageDemands::new(&state.zones);
        Ok(Self { machine, counter, demands, nodes: BTreeMap::new() })
    }

    /// Gives up the capabilities that loading took.
    ///
    /// # Errors
    /// If the kernel refuses that.
    pub fn drop_capabilities(&mut self) -> Result<()> {
        let dropped = drop_capabilities(|| self.counter.is_usable());
        dropped.context("cannot give up the capabilities of loading")?;
        self.resume()
    }

    /// Counts nothing until [`DepthWatch::resume`].
    ///
    /// # Errors
    /// If the kernel refuses that.
    pub fn rest(&mut self) -> Result<()> {
        self.counter.rest().context("the programs that count depths cannot be detached")
    }

    /// Counts again, from now on.
    ///
    /// # Errors
    /// If the kernel refuses that.
    pub fn resume(&mut self) -> Result<()> {
        self.counter.resume().context("the depths of page lists cannot be counted any more")
    }

    /// Ends the period; `zones` are the lists as they are now.
    ///
    /// # Errors
    /// If the counts or the CPUs cannot be read.
    pub fn end_period(&mut self, zones: &[ZoneLists]) -> Result<PeriodDemands> {
        let counted = self.counter.end_period().context("the depths cannot be read")?;
        self.follow_cpus(zones)?;
        let cpus = self.demands.take(&counted, zones, &self.nodes);
        Ok(PeriodDemands { cpus, missed_events: counted.missed })
    }

    /// Returns how many pages more than by default all lists may hold with a fraction.
    pub fn stranded_pages(&self, fraction: u32, zones: &[ZoneLists]) -> u64 {
        self.demands.stranded_pages(fraction, zones, &self.nodes)
    }

    /// Looks up the nodes of CPUs when CPUs came or went.
    fn follow_cpus(&mut self, zones: &[ZoneLists]) -> Result<()> {
        let lists = zones.iter().flat_map(|zone| &zone.lists);
        let online: BTreeSet<CpuId> = lists.map(|list| list.cpu).collect();
        if !self.nodes.keys().eq(&online) {
            let topology = self.machine.topology()?;
            let node = |cpu: &CpuId| topology.node_of_cpu(*cpu).unwrap_or(NodeId(0));
            self.nodes = online.iter().map(|cpu| (*cpu, node(cpu))).collect();
        }
        Ok(())
    }
}

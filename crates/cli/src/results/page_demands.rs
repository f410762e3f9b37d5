//! What CPUs could use of their page lists, by the depths of their allocations and frees.

use std::collections::BTreeMap;

use nodeward_bpf::page_lists::{CountedPeriod, PeriodCounts};
use nodeward_model::{CpuId, NodeId, ZoneLists};
use nodeward_policy::pcp::{
    DepthAverages, KERNEL_FRACTION_MIN, ListDemand, ListLimits, SplitZone, saved_visits,
};
use serde::Serialize;

/// What a CPU did in a period, and what follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CpuListUse {
    /// The CPU.
    pub cpu: CpuId,
    /// Base pages that it allocated by way of its lists in the period.
    pub allocated_pages: u64,
    /// Those that it freed.
    pub freed_pages: u64,
    /// The largest rise of what it had allocated and not freed.
    pub alloc_depth_pages: i64,
    /// The largest fall.
    pub free_depth_pages: i64,
    /// The smaller of both as averages over periods.
    pub depth_pages: u32,
    /// Its visits of zones to fill a list.
    pub refills: u64,
    /// Its visits to give pages back.
    pub drains: u64,
    /// The length that the tuner of 2023 would give its list.
    pub wanted_high_pages: u64,
    /// The length that the list has by default.
    pub default_high_pages: u64,
    /// The zone from which it takes most.
    #[serde(skip)]
    pub zone: SplitZone,
}

impl CpuListUse {
    /// Returns what the choice of a setting needs of it.
    pub fn demand(&self) -> ListDemand {
        ListDemand {
            wanted_pages: self.wanted_high_pages,
            default_pages: self.default_high_pages,
            zone: self.zone,
        }
    }

    /// Adds a later period: what it did adds up, of depths and lengths the largest stay.
    pub fn add(&mut self, later: &Self) {
        let sum = u64::saturating_add;
        *self = Self {
            allocated_pages: sum(self.allocated_pages, later.allocated_pages),
            freed_pages: sum(self.freed_pages, later.freed_pages),
            refills: sum(self.refills, later.refills),
            drains: sum(self.drains, later.drains),
            alloc_depth_pages: self.alloc_depth_pages.max(later.alloc_depth_pages),
            free_depth_pages: self.free_depth_pages.max(later.free_depth_pages),
            depth_pages: self.depth_pages.max(later.depth_pages),
            wanted_high_pages: self.wanted_high_pages.max(later.wanted_high_pages),
            ..*later
        };
    }

    /// Returns its visits of zones.
    pub fn visits(&self) -> u64 {
        self.refills.saturating_add(self.drains)
    }

    /// Estimates how many of its visits a list of this length would have saved.
    pub fn saved_visits(&self, high: u64) -> u64 {
        saved_visits(self.visits(), u64::from(self.depth_pages), self.default_high_pages, high)
    }
}

/// Lengths and averages that outlive a period.
#[derive(Clone, Debug)]
pub struct PageDemands {
    default_high: BTreeMap<(NodeId, String), u64>,
    averages: BTreeMap<CpuId, DepthAverages>,
}

impl PageDemands {
    /// Begins with the lists as they are while nobody has chosen a length.
    pub fn new(zones: &[ZoneLists]) -> Self {
        let default = |zone: &ZoneLists| ((zone.node, zone.zone.clone()), default_high(zone));
        Self { default_high: zones.iter().map(default).collect(), averages: BTreeMap::new() }
    }

    /// Takes what was counted in a period. `nodes` are the nodes of the CPUs that are online.
    pub fn take(
        &mut self,
        counted: &CountedPeriod,
        zones: &[ZoneLists],
        nodes: &BTreeMap<CpuId, NodeId>,
    ) -> Vec<CpuListUse> {
        self.averages.retain(|cpu, _| nodes.contains_key(cpu));
        let demand = |(&cpu, &node): (&CpuId, &NodeId)| {
            let counts = counted.cpus.get(cpu.0 as usize).copied().unwrap_or_default();
            let averages = self.averages.entry(cpu).or_default();
            add(averages, &counts);
            let zone = main_zone(zones, node)?;
            let default = *self.default_high.get(&(zone.node, zone.zone.clone()))?;
            Some(cpu_demand(cpu, &counts, averages, split(zone, nodes), default))
        };
        nodes.iter().filter_map(demand).collect()
    }

    /// Returns how many pages more than by default all lists together may hold with a fraction.
    pub fn stranded_pages(
        &self,
        fraction: u32,
        zones: &[ZoneLists],
        nodes: &BTreeMap<CpuId, NodeId>,
    ) -> u64 {
        let more = |zone: &ZoneLists| {
            let default = self.default_high.get(&(zone.node, zone.zone.clone()));
            let high = split(zone, nodes).high(fraction);
            high.saturating_sub(*default.unwrap_or(&high)).saturating_mul(zone.lists.len() as u64)
        };
        zones.iter().map(more).fold(0, u64::saturating_add)
    }
}

/// Adds a period to the averages of a CPU. One without a page makes old depths meaningless.
fn add(averages: &mut DepthAverages, counts: &PeriodCounts) {
    match counts.is_idle() {
        true => *averages = DepthAverages::default(),
        false => averages.add(counts.alloc_depth, counts.free_depth),
    }
}

fn cpu_demand(
    cpu: CpuId,
    counts: &PeriodCounts,
    averages: &DepthAverages,
    zone: SplitZone,
    default_high: u64,
) -> CpuListUse {
    let small = |pages: u64| u32::try_from(pages).unwrap_or(u32::MAX);
    let limits = ListLimits {
        batch: small(zone.batch_pages),
        high_default: small(default_high),
        high_max: small(zone.high(KERNEL_FRACTION_MIN)),
    };
    CpuListUse {
        cpu,
        allocated_pages: counts.allocated,
        freed_pages: counts.freed,
        alloc_depth_pages: counts.alloc_depth,
        free_depth_pages: counts.free_depth,
        depth_pages: averages.depth(),
        refills: counts.refills,
        drains: counts.drains,
        wanted_high_pages: u64::from(averages.high(&limits)),
        default_high_pages: default_high,
        zone,
    }
}

/// Returns the length of a zone's lists: the lower bound of a kernel that tunes them, else the
/// smallest. A list that was never used may have length 0.
fn default_high(zone: &ZoneLists) -> u64 {
    let high = zone.lists.iter().map(|list| list.high_min_pages.unwrap_or(list.high_pages));
    high.filter(|&pages| pages > 0).min().unwrap_or(0)
}

/// Returns the largest zone of a node, or of all if the node has none.
fn main_zone(zones: &[ZoneLists], node: NodeId) -> Option<&ZoneLists> {
    let is_here = |zone: &&ZoneLists| zone.node == node;
    let here = zones.iter().filter(is_here).max_by_key(|zone| zone.managed_pages);
    here.or_else(|| zones.iter().max_by_key(|zone| zone.managed_pages))
}

fn split(zone: &ZoneLists, nodes: &BTreeMap<CpuId, NodeId>) -> SplitZone {
    let here = nodes.values().filter(|&&node| node == zone.node).count();
    let cpus = if here == 0 { nodes.len() } else { here };
    SplitZone {
        managed_pages: zone.managed_pages,
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        batch_pages: zone.lists.iter().map(|list| list.batch_pages).max().unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::test_lists::{list, zone};

    /// Two nodes with two zones, whose lists have 378 pages by default; a CPU on each.
    fn zones() -> Vec<ZoneLists> {
        let lists = || vec![list(0, 0, 378), list(1, 0, 378)];
        let small = ZoneLists { managed_pages: 1000, ..zone(0, "DMA", lists()) };
        vec![small, zone(0, "Normal", lists()), zone(1, "Normal", lists())]
    }

    fn nodes() -> BTreeMap<CpuId, NodeId> {
        [(CpuId(0), NodeId(0)), (CpuId(1), NodeId(1))].into()
    }

    fn swings(depth: u64) -> PeriodCounts {
        let signed = depth.cast_signed();
        PeriodCounts {
            alloc_depth: signed,
            free_depth: signed,
            allocated: depth * 3,
            freed: depth * 3,
            refills: 60,
            drains: 40,
            ..PeriodCounts::default()
        }
    }

    fn counted(cpus: &[PeriodCounts]) -> CountedPeriod {
        CountedPeriod { cpus: cpus.to_vec(), missed: 0 }
    }

    /// Goal: a CPU wants its depth as an average, of the largest zone of its node; one that does
    /// nothing wants the default. A CPU that the kernel does not count is one that does nothing.
    #[test]
    fn depths_become_lengths() {
        let mut demands = PageDemands::new(&zones());
        let busy = counted(&[swings(16_000)]);
        let of = |demands: &mut PageDemands| demands.take(&busy, &zones(), &nodes());
        let first = of(&mut demands);
        let wanted =
            |all: &[CpuListUse]| all.iter().map(|c| c.wanted_high_pages).collect::<Vec<_>>();
        assert_eq!(wanted(&first), [8_000, 378]); // (0 + 16000) / 2
        assert_eq!(first[0].zone.managed_pages, 262_144);
        assert_eq!(wanted(&of(&mut demands)), [12_000, 378]); // (8000 + 16000) / 2
        let idle = demands.take(&counted(&[]), &zones(), &nodes());
        assert_eq!(wanted(&idle), [378, 378], "a period without a page ends the history");
    }

    /// Goal: over periods visits add up, and the deepest period decides about the length.
    #[test]
    fn periods_add_up() {
        let mut demands = PageDemands::new(&zones());
        let mut of = |depth| demands.take(&counted(&[swings(depth)]), &zones(), &nodes())[0];
        let mut sum = of(16_000); // an average of 8000
        sum.add(&of(1_000)); // of 4500
        assert_eq!((sum.visits(), sum.depth_pages, sum.wanted_high_pages), (200, 8_000, 8_000));
        assert_eq!((sum.allocated_pages, sum.alloc_depth_pages), (51_000, 16_000));
        assert_eq!(sum.saved_visits(8_000), 200);
        assert_eq!(sum.saved_visits(4_189), 100); // 3811 of 7622 pages more than 378
    }

    /// Goal: no list is asked to be longer than the kernel would make it: 262144 / 8 pages.
    #[test]
    fn lengths_have_an_end() {
        let mut demands = PageDemands::new(&zones());
        let cpus = demands.take(&counted(&[swings(1 << 30)]), &zones(), &nodes());
        assert_eq!(cpus[0].wanted_high_pages, 32_768);
    }

    /// Goal: what may be stranded is what all lists hold more than by default, those of remote
    /// CPUs, too: with 1/16 two zones have lists of 262144 / 16 = 16384 pages for each of two CPUs.
    #[test]
    fn stranded_pages_are_those_of_all_lists() {
        let demands = PageDemands::new(&zones());
        assert_eq!(demands.stranded_pages(16, &zones(), &nodes()), 4 * (16_384 - 378));
        assert_eq!(demands.stranded_pages(100_000, &zones(), &nodes()), 0, "never fewer");
    }

    /// Goal: CPUs that go offline take their history with them; those that come begin without.
    #[test]
    fn cpus_come_and_go() {
        let mut demands = PageDemands::new(&zones());
        let busy = counted(&[swings(16_000), swings(16_000)]);
        demands.take(&busy, &zones(), &nodes());
        let one = [(CpuId(0), NodeId(0))].into();
        assert_eq!(demands.take(&busy, &zones(), &one).len(), 1);
        let back = demands.take(&busy, &zones(), &nodes());
        assert_eq!([back[0].depth_pages, back[1].depth_pages], [14_000, 8_000]);
    }

    /// Goal: bounds that a kernel tells are the default, not what its tuner made of it.
    #[test]
    fn the_default_is_the_lower_bound() {
        let tuned = |high| nodeward_model::PageList {
            high_min_pages: Some(378),
            high_max_pages: Some(30_000),
            ..list(0, 0, high)
        };
        assert_eq!(default_high(&zone(0, "Normal", vec![tuned(20_000)])), 378);
        assert_eq!(default_high(&zone(0, "Normal", vec![list(0, 0, 0), list(1, 0, 400)])), 400);
    }
}

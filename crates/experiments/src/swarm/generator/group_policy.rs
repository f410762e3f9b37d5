//! Draws groups of threads and memory, and when the balancer that places them is killed.

use std::fmt;

use nodeward_model::units::format_ns;
use nodeward_model::{GroupHome, GroupSpec, MappingKind, MemorySelector, NodeId, Nodemask};
use nodeward_scenario::{Scenario, Workload};

use crate::swarm::SeededRng;

/// Rounds in the time of a scenario.
const ROUNDS: u64 = 24;

/// Parameters of a balancer with groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPolicy {
    /// Rounds of each balancer; it is then killed, and the next one goes on from what it saved.
    pub lives: Vec<u64>,
    /// Time between two rounds, in nanoseconds.
    pub interval_ns: u64,
}

impl GroupPolicy {
    /// Puts threads and memory of most programs of a scenario into groups, and draws the rest.
    pub(super) fn generate(chance: &mut SeededRng, scenario: &mut Scenario) -> Self {
        let nodes: Vec<NodeId> = scenario.machine.nodes.iter().map(|node| node.id).collect();
        for load in &mut scenario.workloads {
            let pools = if load.threads.is_multiple_of(2) { chance.pick(&[1, 1, 2]) } else { 1 };
            load.pools = pools;
            let home = |chance: &mut SeededRng| group_home(chance, &nodes);
            match pools {
                2 => scenario.groups.extend(group_pools(chance, load, home)),
                _ if chance.one_in(4) => {} // a process beside groups
                _ => {
                    let (home, memory) = (home(chance), !chance.one_in(4));
                    let member = format!("command:{}", load.name);
                    scenario.groups.push(group(&load.name, &member, home, memory));
                }
            }
        }
        let mut left = ROUNDS;
        let mut lives = Vec::new();
        while left > 0 {
            let life = (1 + chance.below(ROUNDS)).min(left);
            lives.push(life);
            left -= life;
        }
        Self { lives, interval_ns: (scenario.time_ns / ROUNDS).max(1) }
    }
}

impl fmt::Display for GroupPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lives: Vec<String> = self.lives.iter().map(ToString::to_string).collect();
        let every = format_ns(self.interval_ns);
        write!(f, "balanced in groups, {} rounds until a kill, every {every}", lives.join(", "))
    }
}

/// Draws where a group is to be.
pub fn group_home(chance: &mut SeededRng, nodes: &[NodeId]) -> GroupHome {
    let nodes: Nodemask = chance.subset(nodes).into_iter().collect();
    match chance.below(4) {
        0 if !nodes.is_empty() => GroupHome::Nodes(nodes),
        1 if !nodes.is_empty() => GroupHome::Spread(nodes),
        _ => GroupHome::Auto,
    }
}

/// Draws the groups of two pools of threads. Memory of the processes may be of either.
pub fn group_pools(
    chance: &mut SeededRng,
    load: &Workload,
    mut home: impl FnMut(&mut SeededRng) -> GroupHome,
) -> Vec<GroupSpec> {
    let homes = [0, 1].map(|_| home(chance));
    let memory = [chance.one_in(2), chance.one_in(4)];
    let pools = homes.into_iter().zip(memory).enumerate();
    let of_pool = |(pool, (home, memory)): (usize, (GroupHome, bool))| {
        let name = format!("{}-{pool}", load.name);
        group(&name, &format!("thread:{name}"), home, memory)
    };
    pools.map(of_pool).collect()
}

fn group(name: &str, member: &str, home: GroupHome, has_memory: bool) -> GroupSpec {
    let memory = has_memory.then_some(MemorySelector::Kind(MappingKind::Anonymous));
    GroupSpec {
        name: name.parse().expect("a name of a program is one of a group"),
        home,
        members: vec![member.parse().expect("names of programs are patterns")],
        memory: memory.into_iter().collect(),
    }
}

//! Scenarios that nobody would write, as far as they are accepted.

use nodeward_model::{CpuId, NodeId, Nodemask};
use nodeward_policy::sampling::Stream;
use nodeward_scenario::{
    Access, Action, ActionKind, BUILT_IN, Home, Kind, Link, Machine, Node, ParamInfo, Params,
    Placement, Scenario, Scheduler, Unit, Workload, limits,
};

use crate::common;

/// Choices of one case.
pub struct Chance(Stream);

impl Chance {
    pub fn new(case: u64) -> Self {
        Self(Stream::new(case))
    }

    pub fn below(&mut self, count: u64) -> u64 {
        self.0.next_value() % count.max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// At a bound, next to one, or anything between by its number of bits.
    fn within(&mut self, (least, most): (u64, u64)) -> u64 {
        let bits = self.below(u64::from(u64::BITS - (most - least).leading_zeros()) + 1);
        let any = least + self.below(1 << bits.min(63)).min(most - least);
        let near = [least, (least + 1).min(most), most, most.saturating_sub(1).max(least)];
        if self.one_in(3) { self.of(&near) } else { any }
    }

    /// One of several, or none of them.
    fn some<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        all.iter().filter(|_| self.one_in(2)).cloned().collect()
    }
}

/// A scenario that is accepted.
pub fn scenario(chance: &mut Chance) -> Scenario {
    loop {
        let mut scenario = match chance.one_in(10) {
            true => built_in(chance),
            false => new(chance),
        };
        scenario.actions.sort_by_key(|action| action.at_ns);
        if scenario.check().is_ok() {
            return scenario;
        }
    }
}

fn built_in(chance: &mut Chance) -> Scenario {
    let small = BUILT_IN.iter().filter(|(name, _)| *name != "sixteen-nodes");
    let names: Vec<_> = small.map(|(name, _)| *name).collect();
    let mut scenario = Scenario::find(chance.of(&names)).unwrap();
    scenario.machine.params = params(chance, scenario.machine.params.clone());
    scenario
}

fn new(chance: &mut Chance) -> Scenario {
    let machine = machine(chance);
    let time_ns = chance.within((limits::PERIOD_NS_MIN, limits::TIME_NS_MAX));
    let time_ns = if chance.one_in(2) { 50_000_000 } else { time_ns };
    let workloads: Vec<_> = (0..1 + chance.below(4))
        .map(|number| workload(chance, &machine, time_ns, number))
        .collect();
    let mut actions = Vec::new();
    for _ in 0..chance.below(8) {
        actions.push(action(chance, &machine, &workloads, time_ns));
    }
    let least = limits::PERIOD_NS_MIN.max(time_ns / limits::SAMPLES_MAX);
    Scenario {
        workloads,
        actions,
        scheduler: chance.of(&[Scheduler::Blind, Scheduler::Home, Scheduler::Numad]),
        time_ns,
        sample_ns: chance.within((least, time_ns)),
        ..common::scenario(machine, common::triad(1, 1))
    }
}

/// Few parameters, or many, at and near their bounds.
fn params(chance: &mut Chance, mut params: Params) -> Params {
    let each_of = chance.of(&[1, 4, 20, 100]);
    // The longest times and slowest rates of everything leave nothing to happen.
    let is_quick = !chance.one_in(4);
    for info in Params::TABLE {
        if chance.one_in(each_of) {
            let (least, most) = info.range().into_inner();
            let (least, most) = match info.unit {
                Unit::Time | Unit::Picoseconds if is_quick => (least, 10_000.max(least)),
                Unit::Rate if is_quick => (1_000_000_000, most),
                _ => (least, most),
            };
            let value = match info.name {
                "page" | "line" => 1 << chance.within((least.ilog2().into(), most.ilog2().into())),
                _ => chance.within((least, most)),
            };
            set(&mut params, info, value);
        }
    }
    params
}

fn set(params: &mut Params, info: &ParamInfo, value: u64) {
    let text = match info.unit {
        Unit::Word(words) => words[value as usize].to_owned(),
        _ => info.written(value),
    };
    params.set(info.name, &text, None).unwrap();
}

fn machine(chance: &mut Chance) -> Machine {
    let params = params(chance, Params::default());
    let count = 1 + chance.below(8);
    let (mut id, mut cpu) = (0, 0);
    let mut nodes = Vec::new();
    for _ in 0..count {
        id += chance.below(3) as u32;
        let threads = chance.of(&[1, 1, 1, 2, 2, 3, 4, 8]);
        let cpus = threads * chance.of(&[0, 1, 1, 2, 2, 3, 8]);
        let page = params.page_bytes;
        let pages = chance.of(&[0, 1, 64, 512, 1023, 4096, 1 << 13, 1 << 18, 1 << 26]);
        let cost = (1, limits::COST_NS_MAX);
        let rate = limits::RATE.into_inner();
        nodes.push(Node {
            id: NodeId(id),
            cpus: (cpu..cpu + cpus).map(CpuId).collect(),
            threads_per_core: threads,
            memory_bytes: pages * page,
            latency_ns: chance.one_in(9).then(|| chance.within(cost)),
            bandwidth_bytes_per_s: chance.one_in(9).then(|| chance.within(rate)),
        });
        id += 1;
        cpu += cpus;
    }
    let row = |from: u64| (0..count).map(|to| if from == to { 10 } else { 0 }).collect();
    let mut distances: Vec<Vec<u32>> = (0..count).map(row).collect();
    for distance in distances.iter_mut().flatten().filter(|distance| **distance == 0) {
        *distance = chance.of(&[11, 20, 21, 254]);
    }
    let mut links = Vec::new();
    for (from, to) in nodes.iter().zip(nodes.iter().skip(1)) {
        if !chance.one_in(5) {
            continue;
        }
        links.push(Link {
            from: from.id,
            to: to.id,
            latency_ns: Some(chance.within((1, limits::COST_NS_MAX))),
            bandwidth_bytes_per_s: Some(chance.within(limits::RATE.into_inner())),
        });
    }
    Machine { nodes, distances, links, params }
}

/// Nodes of a machine that have something.
fn ids(machine: &Machine, has: impl Fn(&Node) -> bool) -> Vec<NodeId> {
    machine.nodes.iter().filter(|node| has(node)).map(|node| node.id).collect()
}

fn with_cpus(machine: &Machine) -> Vec<NodeId> {
    ids(machine, |node| !node.cpus.is_empty())
}

fn workload(chance: &mut Chance, machine: &Machine, time_ns: u64, number: u64) -> Workload {
    let page = machine.params.page_bytes;
    let (processes, threads) = (chance.of(&[1, 1, 2, 5, 40]), chance.of(&[1, 1, 2, 4, 16]));
    let pages = u64::from(threads) * chance.of(&[1, 2, 9, 100, 512, 513, 1025, 1 << 13, 1 << 20]);
    let memory_bytes = (pages * page).saturating_sub(chance.below(page).min(chance.below(2)));
    let ids_with_memory = ids(machine, |node| node.memory_bytes > 0);
    let nodes: Nodemask = chance.some(&ids_with_memory).into_iter().collect();
    let placement = match chance.below(3) {
        _ if nodes.is_empty() => Placement::FirstTouch,
        0 => Placement::FirstTouch,
        1 => Placement::Bind(nodes),
        _ => Placement::Interleave(nodes),
    };
    let allowed: Nodemask = chance.some(&with_cpus(machine)).into_iter().collect();
    Workload {
        name: format!("w{number}"),
        kind: kind(chance, memory_bytes, machine.params.line_bytes),
        processes,
        threads,
        memory_bytes,
        huge: chance.one_in(3),
        folio_bytes: machine.params.page_bytes * [0, 2, 16][number as usize % 3],
        placement,
        nodes: (chance.one_in(3) && !allowed.is_empty()).then_some(allowed),
        home: chance.of(&[Home::None, Home::Spread]),
        start_ns: chance.below(time_ns.min(500_000)) * chance.below(2),
        own_groups: chance.one_in(2),
        populated: chance.one_in(2),
    }
}

fn kind(chance: &mut Chance, memory: u64, line: u64) -> Kind {
    let access = Access {
        parallel_milli: chance.within(limits::PARALLEL_MILLI.into_inner()) as u32,
        compute_ps: if chance.one_in(3) { chance.within((0, limits::COST_NS_MAX)) } else { 500 },
        writes_milli: chance.within((0, 1000)) as u32,
    };
    let part = |chance: &mut Chance| chance.within((line.min(memory), memory));
    let period = |chance: &mut Chance| chance.within((limits::PERIOD_NS_MIN, limits::TIME_NS_MAX));
    match chance.below(8) {
        0 => Kind::Triad { access },
        1 => {
            let [hot_touches_milli, hot_bytes_milli] =
                chance.of(&[[0, 0], [1, 1], [1000, 1], [1000, 1000], [900, 100]]);
            Kind::Random { access, hot_touches_milli, hot_bytes_milli }
        }
        2 => Kind::PageFault,
        3 => Kind::Compile {
            compute_ns: period(chance),
            access,
            lives: chance.within((0, 3)) as u32,
            varies_milli: chance.within((0, 1000)) as u32,
        },
        4 if chance.one_in(2) => Kind::Stream {
            message_bytes: part(chance),
            buffer_bytes: chance.within((1, 8 * 4096)),
            window: chance.within((1, 40)),
            together: chance.one_in(2),
            compute_ns: chance.within((0, limits::TIME_NS_MAX)),
        },
        4 => Kind::PingPong {
            message_bytes: part(chance),
            compute_ns: chance.within((0, limits::TIME_NS_MAX)),
        },
        5 => Kind::Phases {
            access,
            phase_bytes: part(chance),
            shared_milli: chance.within((0, 1000)) as u32,
        },
        6 => Kind::MovingSet { access, window_bytes: part(chance), stays_ns: period(chance) },
        _ => Kind::Hog,
    }
}

/// Close to others, so that they meet.
fn action(chance: &mut Chance, machine: &Machine, of: &[Workload], time_ns: u64) -> Action {
    let memory = ids(machine, |node| node.memory_bytes > 0);
    let memory = if memory.is_empty() { vec![NodeId(0)] } else { memory };
    let cpus = with_cpus(machine);
    let cpus = if cpus.is_empty() { vec![NodeId(0)] } else { cpus };
    let kind = match chance.below(8) {
        0..=3 => ActionKind::Migrate {
            from: chance.of(&memory),
            to: chance.of(&memory),
            times: chance.of(&[1, 1, 2, 100, 50_000]),
        },
        4..=5 => ActionKind::MigrateOnFault,
        6 => ActionKind::Home { to: chance.of(&cpus) },
        _ => ActionKind::Kill,
    };
    let at_ns = chance.below(6) * chance.of(&[0, 1, 1000, 300_000]);
    let workload = of[chance.below(of.len() as u64) as usize].name.clone();
    Action { at_ns: at_ns.min(time_ns - 1), workload, kind }
}

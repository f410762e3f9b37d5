//! Draws scenarios that no person would write, as far as they are valid.

use nodeward_model::{CpuId, Cpumask, NodeId, Nodemask};
use nodeward_scenario::{
    Access, Action, ActionKind, BUILT_IN, Home, Kind, Link, Machine, Node, ParamInfo, Params,
    Placement, Scenario, Workload, limits,
};

use super::Style;
use crate::{Chance, text};

/// Draws a valid scenario.
pub fn scenario(chance: &mut Chance, style: &Style) -> Scenario {
    loop {
        let mut scenario = match style.with_built_in && chance.one_in(10) {
            true => built_in(chance, style),
            false => new(chance, style),
        };
        scenario.actions.sort_by_key(|action| action.at_ns);
        if scenario.check().is_ok() {
            return scenario;
        }
    }
}

fn built_in(chance: &mut Chance, style: &Style) -> Scenario {
    let small = BUILT_IN.iter().filter(|(name, _)| *name != "sixteen-nodes");
    let all: Vec<_> = small.collect();
    let (name, text) = chance.of(&all);
    let mut scenario = Scenario::parse(name, text).expect("a built-in scenario is accepted");
    scenario.machine.params = params(chance, style, scenario.machine.params.clone());
    scenario
}

fn new(chance: &mut Chance, style: &Style) -> Scenario {
    let machine = machine(chance, style);
    let time_ns = chance.within(style.time_ns);
    let time_ns = if chance.one_in(2) { style.usual_time_ns } else { time_ns };
    let workloads: Vec<_> = (0..1 + chance.below(4))
        .map(|number| workload(chance, style, &machine, time_ns, number))
        .collect();
    let mut actions = Vec::new();
    for _ in 0..chance.below(8) {
        actions.push(action(chance, style, &machine, &workloads, time_ns));
    }
    let least = limits::PERIOD_NS_MIN.max(time_ns / limits::SAMPLES_MAX);
    Scenario {
        name: "swarm".to_owned(),
        about: String::new(),
        machine,
        workloads,
        scheduler: chance.of(style.schedulers),
        numa_balancing: false,
        actions,
        faults: style.faults(chance, time_ns),
        time_ns,
        sample_ns: chance.within((least, time_ns)),
        report: Vec::new(),
    }
}

/// Sets few parameters, or many, at and near their bounds.
fn params(chance: &mut Chance, style: &Style, mut params: Params) -> Params {
    let each_of = chance.of(style.params_each_of);
    for info in Params::TABLE {
        if chance.one_in(each_of) {
            let bounds = style.bounds(chance, info);
            let value = match info.name {
                "page" | "line" => {
                    1 << chance.within((bounds.0.ilog2().into(), bounds.1.ilog2().into()))
                }
                _ => chance.within(bounds),
            };
            set(&mut params, info, value);
        }
    }
    params
}

fn set(params: &mut Params, info: &ParamInfo, value: u64) {
    let text = text::written(info, value);
    params.set(info.name, &text, None).expect("a value within the bounds is accepted");
}

fn machine(chance: &mut Chance, style: &Style) -> Machine {
    let params = params(chance, style, Params::default());
    let count = 1 + chance.below(8);
    let (mut id, mut cpu) = (0, 0);
    let mut nodes = Vec::new();
    for _ in 0..count {
        id += chance.below(3) as u32;
        let threads = chance.of(&[1, 1, 1, 2, 2, 3, 4, 8]);
        let cpus = threads * chance.of(style.cores);
        let pages = chance.of(style.node_pages);
        nodes.push(Node {
            id: NodeId(id),
            cpus: (cpu..cpu + cpus).map(CpuId).collect(),
            threads_per_core: threads,
            memory_bytes: pages * params.page_bytes,
            latency_ns: chance.one_in(9).then(|| chance.within(style.latency_ns)),
            bandwidth_bytes_per_s: chance.one_in(9).then(|| chance.within(style.rate)),
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
            latency_ns: Some(chance.within(style.latency_ns)),
            bandwidth_bytes_per_s: Some(chance.within(style.rate)),
        });
    }
    Machine { nodes, distances, links, params }
}

/// Returns the nodes of a machine that have a resource.
fn ids(machine: &Machine, has: impl Fn(&Node) -> bool) -> Vec<NodeId> {
    machine.nodes.iter().filter(|node| has(node)).map(|node| node.id).collect()
}

/// Returns the nodes that have memory.
pub(super) fn with_memory(machine: &Machine) -> Vec<NodeId> {
    ids(machine, |node| node.memory_bytes > 0)
}

fn with_cpus(machine: &Machine) -> Vec<NodeId> {
    ids(machine, |node| !node.cpus.is_empty())
}

fn workload(
    chance: &mut Chance,
    style: &Style,
    machine: &Machine,
    time_ns: u64,
    number: u64,
) -> Workload {
    let page = machine.params.page_bytes;
    let (processes, threads) = (chance.of(style.processes), chance.of(style.threads));
    let pages = u64::from(threads) * chance.of(style.thread_pages);
    let memory_bytes = (pages * page).saturating_sub(chance.below(page).min(chance.below(2)));
    let nodes: Nodemask = chance.some(&with_memory(machine)).into_iter().collect();
    let placement = match chance.below(3) {
        _ if nodes.is_empty() => Placement::FirstTouch,
        0 => Placement::FirstTouch,
        1 => Placement::Bind(nodes),
        _ => Placement::Interleave(nodes),
    };
    let allowed: Nodemask = chance.some(&with_cpus(machine)).into_iter().collect();
    let kind = kind(chance, style, memory_bytes, machine.params.line_bytes);
    let can_be_populated = matches!(
        kind,
        Kind::Triad { .. } | Kind::Random { .. } | Kind::Phases { .. } | Kind::MovingSet { .. }
    );
    let huge = chance.one_in(3);
    Workload {
        name: format!("w{number}"),
        kind,
        processes,
        threads,
        memory_bytes,
        huge,
        folio_bytes: if huge { 0 } else { page * chance.of(&[0, 2, 16]) },
        placement,
        nodes: (chance.one_in(3) && !allowed.is_empty()).then_some(allowed),
        home: chance.of(&[Home::None, Home::Spread]),
        start_ns: chance.below(time_ns.min(500_000)) * chance.below(2),
        own_groups: chance.one_in(2),
        populated: chance.one_in(2) && can_be_populated,
        cpuset: None,
        shifts: None,
    }
}

fn kind(chance: &mut Chance, style: &Style, memory: u64, line: u64) -> Kind {
    let access = Access {
        parallel_milli: chance.within(limits::PARALLEL_MILLI.into_inner()) as u32,
        compute_ps: if chance.one_in(3) { chance.within((0, style.compute_ps)) } else { 500 },
        writes_milli: chance.within((0, 1000)) as u32,
    };
    let part = |chance: &mut Chance| chance.within((line.min(memory), memory));
    let period = |chance: &mut Chance| chance.within(style.period_ns);
    match chance.below(9) {
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
        4 => Kind::PingPong {
            message_bytes: part(chance),
            compute_ns: chance.within((0, style.period_ns.1)),
        },
        5 => Kind::Phases {
            access,
            phase_bytes: part(chance).max(style.phase_bytes.min(memory)),
            shared_milli: chance.within((0, 1000)) as u32,
        },
        6 => Kind::MovingSet { access, window_bytes: part(chance), stays_ns: period(chance) },
        7 => Kind::Stream {
            message_bytes: part(chance),
            buffer_bytes: chance.within((1, 8 * 4096)),
            window: chance.within((1, 40)),
            together: chance.one_in(2),
            compute_ns: chance.within((0, style.period_ns.1)),
        },
        _ => Kind::Hog,
    }
}

/// Draws an action; actions are close in time, so that they overlap.
fn action(
    chance: &mut Chance,
    style: &Style,
    machine: &Machine,
    of: &[Workload],
    time_ns: u64,
) -> Action {
    let some_node = |nodes: Vec<NodeId>| if nodes.is_empty() { vec![NodeId(0)] } else { nodes };
    let (memory, cpus) = (some_node(with_memory(machine)), some_node(with_cpus(machine)));
    let kind = match chance.below(14) {
        0..=3 => ActionKind::Migrate {
            from: chance.of(&memory),
            to: chance.of(&memory),
            times: chance.of(style.times),
        },
        4..=5 => ActionKind::MigrateOnFault,
        6 => ActionKind::Home { to: chance.of(&cpus) },
        7 => ActionKind::Kill,
        8 => ActionKind::Fork { for_ns: chance.within(style.period_ns) },
        9..=10 => ActionKind::CpusOff { cpus: some_cpus(chance, machine) },
        11 => ActionKind::CpusOn { cpus: some_cpus(chance, machine) },
        12 => ActionKind::MemoryOff { node: chance.of(&memory) },
        _ => ActionKind::MemoryOn { node: chance.of(&memory) },
    };
    let at_ns = chance.below(6) * chance.of(style.action_steps_ns);
    let workload = match kind.is_of_machine() {
        true => String::new(),
        false => of[chance.below(of.len() as u64) as usize].name.clone(),
    };
    Action { at_ns: at_ns.min(time_ns - 1), workload, kind }
}

fn some_cpus(chance: &mut Chance, machine: &Machine) -> Cpumask {
    let cpus: Vec<_> = machine.cpus().iter().collect();
    chance.some(&cpus).into_iter().collect()
}

//! Draws scenarios that no person would write, as far as they are valid.

use nodeward_model::{CpuId, Cpumask, NodeId, Nodemask};
use nodeward_scenario::{
    AccessPattern, Action, ActionKind, BUILT_IN, InitialHome, LinkSpec, MachineSpec,
    MemoryPlacement, NodeSpec, ParamInfo, Params, Scenario, SharedLines, Workload, WorkloadKind,
    limits,
};

use super::GeneratorProfile;
use crate::swarm::{SeededRng, scenario_toml};

/// One scenario in this number has a segment of shared memory.
const SEGMENTS_ONE_IN: u64 = 6;
/// What segments are drawn by. It is so chosen that the seeds with earlier findings, which tests
/// repeat, have none.
const SEGMENTS: u64 = 29;

/// Draws a valid scenario.
pub fn generate_scenario(chance: &mut SeededRng, style: &GeneratorProfile) -> Scenario {
    loop {
        let mut scenario = match style.with_built_in && chance.one_in(10) {
            true => built_in(chance, style),
            false => fresh_scenario(chance, style),
        };
        scenario.actions.sort_by_key(|action| action.at_ns);
        if scenario.check().is_ok() {
            return scenario;
        }
    }
}

fn built_in(chance: &mut SeededRng, style: &GeneratorProfile) -> Scenario {
    let small = BUILT_IN.iter().filter(|(name, _)| *name != "sixteen-nodes");
    let all: Vec<_> = small.collect();
    let (name, text) = chance.pick(&all);
    let mut scenario = Scenario::parse(name, text).expect("a built-in scenario is accepted");
    scenario.machine.params = vary_params(chance, style, scenario.machine.params.clone());
    scenario
}

fn fresh_scenario(chance: &mut SeededRng, style: &GeneratorProfile) -> Scenario {
    let machine = generate_machine(chance, style);
    let time_ns = chance.near_bounds(style.time_ns);
    let time_ns = if chance.one_in(2) { style.usual_time_ns } else { time_ns };
    let workloads: Vec<_> = (0..1 + chance.below(4))
        .map(|number| generate_workload(chance, style, &machine, time_ns, number))
        .collect();
    let mut actions = Vec::new();
    for _ in 0..chance.below(8) {
        actions.push(generate_action(chance, style, &machine, &workloads, time_ns));
    }
    let least = limits::PERIOD_NS_MIN.max(time_ns / limits::SAMPLES_MAX);
    let mut scenario = Scenario {
        name: "swarm".to_owned(),
        about: String::new(),
        machine,
        workloads,
        scheduler: chance.pick(style.schedulers),
        numa_balancing: false,
        actions,
        faults: style.faults(chance, time_ns),
        time_ns,
        until_done: false,
        groups: Vec::new(),
        sample_ns: chance.near_bounds((least, time_ns)),
        report: Vec::new(),
    };
    let mut chance = chance.clone().apart(SEGMENTS);
    if style.with_segments && chance.one_in(SEGMENTS_ONE_IN) {
        share_segment(&mut chance, style, &mut scenario);
    }
    scenario
}

/// Lets the processes of a workload share a segment. It is drawn apart from all else, which stays
/// as it would be without.
fn share_segment(chance: &mut SeededRng, style: &GeneratorProfile, scenario: &mut Scenario) {
    let page = scenario.machine.params.page_bytes;
    let at = chance.below(scenario.workloads.len() as u64) as usize;
    let workload = &mut scenario.workloads[at];
    let access = access_pattern(chance, style);
    workload.processes = workload.processes.max(chance.pick(style.processes));
    let threads = u64::from(workload.processes) * u64::from(workload.threads);
    workload.kind = WorkloadKind::Database {
        access,
        segment_bytes: threads * chance.pick(style.thread_pages) * page,
        segment_placement: workload.placement.clone(),
        segment_milli: chance.near_bounds((0, 1000)) as u32,
        own_part_milli: chance.near_bounds((0, 1000)) as u32,
    };
    workload.populated &= chance.one_in(2);
}

/// Sets few parameters, or many, at and near their bounds.
fn vary_params(chance: &mut SeededRng, style: &GeneratorProfile, mut params: Params) -> Params {
    let each_of = chance.pick(style.changed_param_one_in);
    for info in Params::TABLE {
        if chance.one_in(each_of) {
            let bounds = style.bounds(chance, info);
            let value = match info.name {
                "page" | "line" => {
                    1 << chance.near_bounds((bounds.0.ilog2().into(), bounds.1.ilog2().into()))
                }
                _ => chance.near_bounds(bounds),
            };
            set(&mut params, info, value);
        }
    }
    params
}

fn set(params: &mut Params, info: &ParamInfo, value: u64) {
    let text = scenario_toml::param_text(info, value);
    params.set(info.name, &text, None).expect("a value within the bounds is accepted");
}

fn generate_machine(chance: &mut SeededRng, style: &GeneratorProfile) -> MachineSpec {
    let params = vary_params(chance, style, Params::default());
    let count = 1 + chance.below(8);
    let (mut id, mut cpu) = (0, 0);
    let mut nodes = Vec::new();
    for _ in 0..count {
        id += chance.below(3) as u32;
        let threads = chance.pick(&[1, 1, 1, 2, 2, 3, 4, 8]);
        let cpus = threads * chance.pick(style.cores);
        let pages = chance.pick(style.node_pages);
        nodes.push(NodeSpec {
            id: NodeId(id),
            cpus: (cpu..cpu + cpus).map(CpuId).collect(),
            threads_per_core: threads,
            memory_bytes: pages * params.page_bytes,
            latency_ns: chance.one_in(9).then(|| chance.near_bounds(style.latency_ns)),
            bandwidth_bytes_per_s: chance.one_in(9).then(|| chance.near_bounds(style.rate)),
        });
        id += 1;
        cpu += cpus;
    }
    let row = |from: u64| (0..count).map(|to| if from == to { 10 } else { 0 }).collect();
    let mut distances: Vec<Vec<u32>> = (0..count).map(row).collect();
    for distance in distances.iter_mut().flatten().filter(|distance| **distance == 0) {
        *distance = chance.pick(&[11, 20, 21, 254]);
    }
    let mut links = Vec::new();
    for (from, to) in nodes.iter().zip(nodes.iter().skip(1)) {
        if !chance.one_in(5) {
            continue;
        }
        links.push(LinkSpec {
            from: from.id,
            to: to.id,
            latency_ns: Some(chance.near_bounds(style.latency_ns)),
            bandwidth_bytes_per_s: Some(chance.near_bounds(style.rate)),
        });
    }
    MachineSpec { nodes, distances, links, params }
}

/// Returns the nodes of a machine that have a resource.
fn ids(machine: &MachineSpec, has: impl Fn(&NodeSpec) -> bool) -> Vec<NodeId> {
    machine.nodes.iter().filter(|node| has(node)).map(|node| node.id).collect()
}

/// Returns the nodes that have memory.
pub(super) fn with_memory(machine: &MachineSpec) -> Vec<NodeId> {
    ids(machine, |node| node.memory_bytes > 0)
}

fn with_cpus(machine: &MachineSpec) -> Vec<NodeId> {
    ids(machine, |node| !node.cpus.is_empty())
}

fn generate_workload(
    chance: &mut SeededRng,
    style: &GeneratorProfile,
    machine: &MachineSpec,
    time_ns: u64,
    number: u64,
) -> Workload {
    let page = machine.params.page_bytes;
    let (processes, threads) = (chance.pick(style.processes), chance.pick(style.threads));
    let pages = u64::from(threads) * chance.pick(style.thread_pages);
    let memory_bytes = (pages * page).saturating_sub(chance.below(page).min(chance.below(2)));
    let nodes: Nodemask = chance.subset(&with_memory(machine)).into_iter().collect();
    let placement = match chance.below(3) {
        _ if nodes.is_empty() => MemoryPlacement::FirstTouch,
        0 => MemoryPlacement::FirstTouch,
        1 => MemoryPlacement::Bind(nodes),
        _ => MemoryPlacement::Interleave(nodes),
    };
    let allowed: Nodemask = chance.subset(&with_cpus(machine)).into_iter().collect();
    let kind = generate_kind(chance, style, memory_bytes, machine.params.line_bytes);
    let can_be_populated = matches!(
        kind,
        WorkloadKind::Triad { .. }
            | WorkloadKind::Random { .. }
            | WorkloadKind::Phases { .. }
            | WorkloadKind::MovingSet { .. }
    );
    let huge = chance.one_in(3);
    Workload {
        name: format!("w{number}"),
        kind,
        processes,
        threads,
        memory_bytes,
        huge,
        folio_bytes: if huge { 0 } else { page * chance.pick(&[0, 2, 16]) },
        placement,
        nodes: (chance.one_in(3) && !allowed.is_empty()).then_some(allowed),
        home: chance.pick(&[InitialHome::None, InitialHome::Spread]),
        start_ns: chance.below(time_ns.min(500_000)) * chance.below(2),
        own_memcgs: chance.one_in(2),
        populated: chance.one_in(2) && can_be_populated,
        cpuset: None,
        duty_cycle: None,
        bound: false,
        scattered: false,
        one_segment: false,
        begins: None,
        pools: 1,
    }
}

fn generate_kind(
    chance: &mut SeededRng,
    style: &GeneratorProfile,
    memory: u64,
    line: u64,
) -> WorkloadKind {
    let access = access_pattern(chance, style);
    let part = |chance: &mut SeededRng| chance.near_bounds((line.min(memory), memory));
    let period = |chance: &mut SeededRng| chance.near_bounds(style.period_ns);
    match chance.below(9) {
        0 => WorkloadKind::Triad { access, shared: SharedLines::default(), passes: 0 },
        1 => {
            let [hot_touches_milli, hot_bytes_milli] =
                chance.pick(&[[0, 0], [1, 1], [1000, 1], [1000, 1000], [900, 100]]);
            WorkloadKind::Random { access, hot_touches_milli, hot_bytes_milli }
        }
        2 => WorkloadKind::PageFault,
        3 => WorkloadKind::Compile {
            compute_ns: period(chance),
            access,
            lives: chance.near_bounds((0, 3)) as u32,
            varies_milli: chance.near_bounds((0, 1000)) as u32,
        },
        4 => WorkloadKind::PingPong {
            message_bytes: part(chance),
            compute_ns: chance.near_bounds((0, style.period_ns.1)),
        },
        5 => WorkloadKind::Phases {
            access,
            phase_bytes: part(chance).max(style.phase_bytes.min(memory)),
            shared_milli: chance.near_bounds((0, 1000)) as u32,
        },
        6 => {
            WorkloadKind::MovingSet { access, window_bytes: part(chance), stays_ns: period(chance) }
        }
        7 => WorkloadKind::Stream {
            message_bytes: part(chance),
            buffer_bytes: chance.near_bounds((1, 8 * 4096)),
            window: chance.near_bounds((1, 40)),
            on_one_cpu: chance.one_in(2),
            compute_ns: chance.near_bounds((0, style.period_ns.1)),
        },
        _ => WorkloadKind::Hog,
    }
}

fn access_pattern(chance: &mut SeededRng, style: &GeneratorProfile) -> AccessPattern {
    AccessPattern {
        parallel_milli: chance.near_bounds(limits::PARALLEL_MILLI.into_inner()) as u32,
        compute_ps: if chance.one_in(3) { chance.near_bounds((0, style.compute_ps)) } else { 500 },
        writes_milli: chance.near_bounds((0, 1000)) as u32,
    }
}

/// Draws an action; actions are close in time, so that they overlap.
fn generate_action(
    chance: &mut SeededRng,
    style: &GeneratorProfile,
    machine: &MachineSpec,
    of: &[Workload],
    time_ns: u64,
) -> Action {
    let some_node = |nodes: Vec<NodeId>| if nodes.is_empty() { vec![NodeId(0)] } else { nodes };
    let (memory, cpus) = (some_node(with_memory(machine)), some_node(with_cpus(machine)));
    let kind = match chance.below(14) {
        0..=3 => ActionKind::Migrate {
            from: chance.pick(&memory),
            to: chance.pick(&memory),
            times: chance.pick(style.migrations_per_action),
        },
        4..=5 => ActionKind::MigrateOnFault,
        6 => ActionKind::Home { to: chance.pick(&cpus) },
        7 => ActionKind::Kill,
        8 => ActionKind::Fork { for_ns: chance.near_bounds(style.period_ns) },
        9..=10 => ActionKind::CpusOff { cpus: some_cpus(chance, machine) },
        11 => ActionKind::CpusOn { cpus: some_cpus(chance, machine) },
        12 => ActionKind::MemoryOff { node: chance.pick(&memory) },
        _ => ActionKind::MemoryOn { node: chance.pick(&memory) },
    };
    let at_ns = chance.below(6) * chance.pick(style.action_steps_ns);
    let workload = match kind.targets_machine() {
        true => String::new(),
        false => of[chance.below(of.len() as u64) as usize].name.clone(),
    };
    Action { at_ns: at_ns.min(time_ns - 1), workload, kind }
}

fn some_cpus(chance: &mut SeededRng, machine: &MachineSpec) -> Cpumask {
    let cpus: Vec<_> = machine.cpus().iter().collect();
    chance.subset(&cpus).into_iter().collect()
}

//! Writes a scenario as the text of its file, so that a drawn one can be shown, kept, and run by
//! hand.

use std::fmt::Write;

use nodeward_model::GroupSpec;
use nodeward_scenario::{
    AccessPattern, Action, ActionKind, Bug, DutyCycle, FaultInjection, InitialHome, LinkSpec,
    MemoryPlacement, NodeSpec, ParamInfo, ParamUnit, Params, Scenario, SchedulerKind, Workload,
    WorkloadKind,
};

/// Returns the exact text of a scenario. Reading it gives the same scenario, except for its name,
/// which is that of the file.
pub fn to_toml(scenario: &Scenario) -> String {
    let Scenario {
        name: _,
        about,
        machine,
        workloads,
        scheduler,
        numa_balancing,
        groups,
        actions,
        faults,
        time_ns,
        until_done,
        sample_ns,
        report,
    } = scenario;
    let mut text = TomlWriter::default();
    if !about.is_empty() {
        text.word("about", about);
    }
    text.key_value("distances", &format!("{:?}", machine.distances));
    text.key_value("symmetric", "false");
    let word = match scheduler {
        SchedulerKind::NumaUnaware => "blind",
        SchedulerKind::HomeAware => "home",
        SchedulerKind::SchedNuma2012 => "numad",
    };
    text.word("scheduler", word);
    if *numa_balancing {
        text.key_value("numa-balancing", "true");
    }
    if !until_done {
        text.time("time", *time_ns);
    }
    text.time("sample", *sample_ns);
    if !report.is_empty() {
        text.key_value("report", &format!("{report:?}"));
    }
    machine.nodes.iter().for_each(|node| text.node(node));
    machine.links.iter().for_each(|link| text.link(link));
    text.params(&machine.params);
    workloads.iter().for_each(|workload| text.workload(workload));
    groups.iter().for_each(|group| text.group(group));
    actions.iter().for_each(|action| text.action(action));
    faults.iter().for_each(|faults| text.faults(faults));
    text.0
}

/// A text under construction, line by line.
#[derive(Default)]
struct TomlWriter(String);

impl TomlWriter {
    fn key_value(&mut self, key: &str, value: &str) {
        writeln!(self.0, "{key} = {value}").expect("a text takes every line");
    }

    fn word(&mut self, key: &str, value: &str) {
        self.key_value(key, &quoted(value));
    }

    fn number(&mut self, key: &str, value: impl Into<u64>) {
        self.key_value(key, &value.into().to_string());
    }

    fn bytes(&mut self, key: &str, bytes: u64) {
        self.word(key, &format!("{bytes}B"));
    }

    /// Zero has no unit.
    fn time(&mut self, key: &str, ns: u64) {
        self.word(key, &if ns == 0 { "0".to_owned() } else { format!("{ns}ns") });
    }

    fn table_header(&mut self, table: &str) {
        write!(self.0, "\n{table}\n").expect("a text takes every line");
    }

    fn latency_and_bandwidth(&mut self, latency_ns: Option<u64>, bandwidth: Option<u64>) {
        if let Some(ns) = latency_ns {
            self.time("latency", ns);
        }
        if let Some(rate) = bandwidth {
            self.word("bandwidth", &format!("{rate}B/s"));
        }
    }

    fn group(&mut self, group: &GroupSpec) {
        let GroupSpec { name, home, members, memory } = group;
        self.table_header("[[group]]");
        self.word("name", name.as_str());
        self.word("home", &home.to_string());
        let list = |words: Vec<String>| format!("{words:?}");
        self.key_value("match", &list(members.iter().map(ToString::to_string).collect()));
        self.key_value("memory", &list(memory.iter().map(ToString::to_string).collect()));
    }

    fn node(&mut self, node: &NodeSpec) {
        let NodeSpec {
            id,
            cpus,
            threads_per_core,
            memory_bytes,
            latency_ns,
            bandwidth_bytes_per_s,
        } = node;
        self.table_header("[[node]]");
        self.number("id", id.0);
        match cpus.is_empty() {
            true => self.number("cpus", 0_u64),
            false => self.word("cpus", &cpus.to_string()),
        }
        self.number("threads-per-core", *threads_per_core);
        self.bytes("memory", *memory_bytes);
        self.latency_and_bandwidth(*latency_ns, *bandwidth_bytes_per_s);
    }

    fn link(&mut self, link: &LinkSpec) {
        let LinkSpec { from, to, latency_ns, bandwidth_bytes_per_s } = link;
        self.table_header("[[link]]");
        self.number("from", from.0);
        self.number("to", to.0);
        self.latency_and_bandwidth(*latency_ns, *bandwidth_bytes_per_s);
    }

    fn params(&mut self, params: &Params) {
        self.table_header("[machine]");
        for info in Params::TABLE {
            let value = params.get(info.name).unwrap_or(info.default);
            let written = quoted(&param_text(info, value));
            match params.sources.get(info.name) {
                Some(source) => {
                    let source = quoted(source);
                    self.key_value(
                        info.name,
                        &format!("{{ value = {written}, source = {source} }}"),
                    );
                }
                None if value != info.default => self.key_value(info.name, &written),
                None => {}
            }
        }
    }

    fn workload(&mut self, workload: &Workload) {
        let Workload {
            name,
            kind,
            processes,
            threads,
            pools,
            memory_bytes,
            huge,
            folio_bytes,
            placement,
            nodes,
            begins,
            home,
            start_ns,
            own_memcgs: own_groups,
            populated,
            cpuset,
            duty_cycle: shifts,
            bound,
            scattered,
            one_segment,
        } = workload;
        self.table_header("[[workload]]");
        self.word("name", name);
        self.kind(kind);
        self.number("processes", *processes);
        self.number("threads", *threads);
        self.number("pools", *pools);
        self.bytes("memory", *memory_bytes);
        match (huge, folio_bytes) {
            (true, _) => self.word("pages", "huge"),
            (false, 0) => self.word("pages", "base"),
            (false, &bytes) => self.bytes("pages", bytes),
        }
        self.place("place", placement);
        if let Some(nodes) = nodes {
            self.word("nodes", &nodes.to_string());
        }
        if let Some(nodes) = begins {
            self.word("begins", &nodes.to_string());
        }
        match home {
            InitialHome::None => self.word("home", "none"),
            InitialHome::Spread => self.word("home", "spread"),
            InitialHome::On(node) => self.number("home", node.0),
        }
        self.time("start", *start_ns);
        self.word("groups", if *own_groups { "own" } else { "one" });
        let flags = [
            ("populated", populated),
            ("bound", bound),
            ("scattered", scattered),
            ("one-segment", one_segment),
        ];
        for (key, _) in flags.into_iter().filter(|(_, is_on)| **is_on) {
            self.key_value(key, "true");
        }
        if let Some(cpuset) = cpuset {
            self.word("cpuset", &cpuset.to_string());
        }
        if let Some(DutyCycle { busy_ns: works_ns, idle_ns: rests_ns }) = shifts {
            self.time("works", *works_ns);
            self.time("rests", *rests_ns);
        }
    }

    fn place(&mut self, key: &str, placement: &MemoryPlacement) {
        match placement {
            MemoryPlacement::FirstTouch => self.word(key, "first-touch"),
            MemoryPlacement::Bind(nodes) => self.word(key, &format!("bind:{nodes}")),
            MemoryPlacement::Interleave(nodes) => self.word(key, &format!("interleave:{nodes}")),
            MemoryPlacement::PopulatedOn(nodes) => self.word(key, &format!("left:{nodes}")),
            MemoryPlacement::PopulatedFarthest => self.word(key, "away"),
        }
    }

    fn kind(&mut self, kind: &WorkloadKind) {
        self.word("kind", kind_name(kind));
        match kind {
            WorkloadKind::Triad { access, shared, passes } => {
                self.access(access);
                self.number("shared", shared.random_milli);
                self.number("shared-in-order", shared.in_order_milli);
                if *passes > 0 {
                    self.number("passes", *passes);
                }
            }
            WorkloadKind::Random { access, hot_touches_milli, hot_bytes_milli } => {
                self.access(access);
                self.number("hot-touches", *hot_touches_milli);
                self.number("hot-bytes", *hot_bytes_milli);
            }
            WorkloadKind::PageFault | WorkloadKind::Hog => {}
            WorkloadKind::Compile { compute_ns, access, lives, varies_milli } => {
                self.access(access);
                self.time("cpu-time", *compute_ns);
                self.number("lives", *lives);
                self.number("varies", *varies_milli);
            }
            WorkloadKind::PingPong { message_bytes, compute_ns } => {
                self.bytes("message", *message_bytes);
                self.time("cpu-time", *compute_ns);
            }
            WorkloadKind::Stream {
                message_bytes,
                buffer_bytes,
                window,
                compute_ns,
                on_one_cpu: together,
            } => {
                self.bytes("message", *message_bytes);
                self.bytes("buffer", *buffer_bytes);
                self.number("under-way", *window);
                self.time("cpu-time", *compute_ns);
                self.key_value("together", if *together { "true" } else { "false" });
            }
            WorkloadKind::Phases { access, phase_bytes, shared_milli } => {
                self.access(access);
                self.bytes("phase", *phase_bytes);
                self.number("shared", *shared_milli);
            }
            WorkloadKind::MovingSet { access, window_bytes, stays_ns } => {
                self.access(access);
                self.bytes("window", *window_bytes);
                self.time("stays", *stays_ns);
            }
            WorkloadKind::Database {
                access,
                segment_bytes,
                segment_placement,
                segment_milli,
                own_part_milli,
            } => {
                self.access(access);
                self.bytes("segment", *segment_bytes);
                self.place("segment-place", segment_placement);
                self.number("segment-touches", *segment_milli);
                self.number("own-part", *own_part_milli);
            }
        }
    }

    fn access(&mut self, access: &AccessPattern) {
        let AccessPattern { parallel_milli, compute_ps, writes_milli } = access;
        let parallel = format!("{}.{:03}", parallel_milli / 1000, parallel_milli % 1000);
        self.word("parallel", &parallel);
        self.word("compute", &format!("{compute_ps}ps"));
        self.number("writes", *writes_milli);
    }

    fn action(&mut self, action: &Action) {
        let Action { at_ns, workload, kind } = action;
        self.table_header("[[action]]");
        self.time("at", *at_ns);
        if !kind.targets_machine() {
            self.word("workload", workload);
        }
        match kind {
            ActionKind::Migrate { from, to, times } => {
                self.word("do", "migrate");
                self.number("from", from.0);
                self.number("to", to.0);
                self.number("times", *times);
            }
            ActionKind::MigrateOnFault => self.word("do", "migrate-on-fault"),
            ActionKind::Home { to } => {
                self.word("do", "home");
                self.number("to", to.0);
            }
            ActionKind::Kill => self.word("do", "kill"),
            ActionKind::Fork { for_ns } => {
                self.word("do", "fork");
                self.time("for", *for_ns);
            }
            ActionKind::Freeze { for_ns } => {
                self.word("do", "freeze");
                self.time("for", *for_ns);
            }
            ActionKind::CpusOff { cpus } => {
                self.word("do", "cpus-off");
                self.word("cpus", &cpus.to_string());
            }
            ActionKind::CpusOn { cpus } => {
                self.word("do", "cpus-on");
                self.word("cpus", &cpus.to_string());
            }
            ActionKind::MemoryOff { node } => {
                self.word("do", "memory-off");
                self.number("node", node.0);
            }
            ActionKind::MemoryOn { node } => {
                self.word("do", "memory-on");
                self.number("node", node.0);
            }
        }
    }

    fn faults(&mut self, faults: &FaultInjection) {
        let FaultInjection { ipi_delay_ns: late_ipi_by_ns, start_ns, until_ns, bug, .. } = faults;
        self.table_header("[faults]");
        faults.rates().into_iter().for_each(|(key, milli)| self.number(key, milli));
        self.time("late-ipi-by", *late_ipi_by_ns);
        self.time("start", *start_ns);
        if let Some(ns) = until_ns {
            self.time("until", *ns);
        }
        let name = Bug::ALL.into_iter().find(|(_, other)| Some(*other) == *bug);
        if let Some((name, _)) = name {
            self.word("bug", name);
        }
    }
}

/// Returns a parameter's value as in scenarios.
pub fn param_text(info: &ParamInfo, value: u64) -> String {
    match info.unit {
        ParamUnit::Word(words) => words.get(value as usize).copied().unwrap_or_default().to_owned(),
        _ => info.format_exact(value),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the name of a kind of workload.
fn kind_name(kind: &WorkloadKind) -> &'static str {
    match kind {
        WorkloadKind::Triad { .. } => "triad",
        WorkloadKind::Random { .. } => "random",
        WorkloadKind::PageFault => "page-fault",
        WorkloadKind::Compile { .. } => "compile",
        WorkloadKind::PingPong { .. } => "ping-pong",
        WorkloadKind::Stream { .. } => "stream",
        WorkloadKind::Phases { .. } => "phases",
        WorkloadKind::MovingSet { .. } => "moving-set",
        WorkloadKind::Database { .. } => "database",
        WorkloadKind::Hog => "hog",
    }
}

#[cfg(test)]
mod tests {
    use nodeward_scenario::BUILT_IN;

    use super::*;
    use crate::swarm::SeededRng;
    use crate::swarm::generator::{ANY_ACCEPTED, REALISTIC, generate_scenario};

    fn read_again(scenario: &Scenario) -> Scenario {
        let text = to_toml(scenario);
        let read = Scenario::parse(&scenario.name, &text);
        read.unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// Goal: the text of a built-in scenario loses nothing.
    #[test]
    fn built_in_scenarios_are_what_their_text_says() {
        for (name, text) in BUILT_IN {
            let scenario = Scenario::parse(name, text).unwrap();
            assert_eq!(read_again(&scenario), scenario, "{name}");
        }
    }

    /// Goal: the text of a drawn scenario loses nothing.
    #[test]
    fn drawn_scenarios_are_what_their_text_says() {
        for seed in 0..300 {
            let style = if seed % 2 == 0 { &ANY_ACCEPTED } else { &REALISTIC };
            let scenario = generate_scenario(&mut SeededRng::new(seed), style);
            assert_eq!(read_again(&scenario), scenario, "seed {seed}");
        }
    }
}

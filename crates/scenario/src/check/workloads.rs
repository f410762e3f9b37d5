//! Checks that the machine has room for the workloads, and that actions name existing ones.

use nodeward_model::{NodeId, Nodemask};

use super::invalid_value::{InvalidValue, ValuePath, ensure};
use crate::limits::{COST_NS_MAX, NAME_LETTERS_MAX, PARALLEL_MILLI, PERIOD_NS_MIN, TIME_NS_MAX};
use crate::{
    AccessPattern, Action, ActionKind, DutyCycle, InitialHome, MachineSpec, MemoryPlacement,
    NodeSpec, Scenario, Workload, WorkloadKind, exact,
};

/// Bytes of a huge page.
const HUGE_BYTES: u64 = 2 << 20;

pub(super) fn check(scenario: &Scenario) -> Result<(), InvalidValue> {
    for (index, each) in scenario.workloads.iter().enumerate() {
        let checked = WorkloadCheck { scenario, index, workload: each };
        checked.name()?;
        checked.size()?;
        checked.placement()?;
        checked.kind()?;
    }
    for (index, workload) in scenario.workloads.iter().enumerate() {
        WorkloadCheck { scenario, index, workload }.memory_fits()?;
    }
    scenario.actions.iter().enumerate().try_for_each(|(index, each)| action(scenario, index, each))
}

/// A workload, with its scenario.
#[derive(Clone, Copy)]
struct WorkloadCheck<'a> {
    scenario: &'a Scenario,
    index: usize,
    workload: &'a Workload,
}

impl WorkloadCheck<'_> {
    fn ensure(
        &self,
        holds: bool,
        key: &'static str,
        what: impl FnOnce() -> String,
        expected: impl Into<String>,
    ) -> Result<(), InvalidValue> {
        let name = &self.workload.name;
        let what = || format!("workload '{name}': {}", what());
        ensure(holds, ValuePath::of("workload", self.index, key), what, expected)
    }

    fn machine(&self) -> &MachineSpec {
        &self.scenario.machine
    }

    fn name(&self) -> Result<(), InvalidValue> {
        let name = &self.workload.name;
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let simple = (1..=NAME_LETTERS_MAX).contains(&name.len()) && name.bytes().all(letter);
        let expected = format!("1 to {NAME_LETTERS_MAX} letters, digits, hyphens and underscores");
        self.ensure(simple, "name", || "it cannot be called that".to_owned(), expected)?;
        let others = &self.scenario.workloads[..self.index];
        let fresh = others.iter().all(|other| other.name != *name);
        self.ensure(fresh, "name", || "there are two of that name".to_owned(), "another name")
    }

    fn size(&self) -> Result<(), InvalidValue> {
        let Workload { processes, threads, pools, memory_bytes, start_ns, .. } = *self.workload;
        let (none, some) = (|| "there is nothing to run".to_owned(), "1 at least");
        self.ensure(processes > 0, "processes", none, some)?;
        self.ensure(threads > 0, "threads", none, some)?;
        self.ensure(
            pools > 0 && threads % pools == 0,
            "pools",
            || format!("{pools} pools of {threads} threads"),
            "1, or a number that divides the threads",
        )?;
        let page = self.machine().params.page_bytes;
        let is_shared = self.workload.one_segment;
        let users = if is_shared { self.workload.tasks() } else { threads.into() };
        self.page_for_each("memory", memory_bytes, users)?;
        self.folio(page)?;
        self.ensure(
            !self.scenario.until_done || self.workload.ends(),
            "kind",
            || "it does not end, and the passes of another one would end the run".to_owned(),
            "`passes`, or a compiler's `lives`, for each workload",
        )?;
        let time = self.scenario.time_ns;
        self.ensure(
            start_ns < time,
            "start",
            || format!("it starts at {}, when the run is over", exact::ns(start_ns)),
            format!("a time before {}", exact::ns(time)),
        )
    }

    /// Checks that folios have a power of two of base pages and are smaller than huge pages.
    fn folio(&self, page: u64) -> Result<(), InvalidValue> {
        let bytes = self.workload.folio_bytes;
        let fits = bytes.is_power_of_two() && bytes > page && bytes < HUGE_BYTES;
        self.ensure(
            bytes == 0 || fits,
            "pages",
            || format!("folios of {}", exact::bytes(bytes)),
            format!(
                "a power of two between a page of {} and {}",
                exact::bytes(page),
                exact::bytes(HUGE_BYTES)
            ),
        )
    }

    fn placement(&self) -> Result<(), InvalidValue> {
        let has_cpus = |node: &NodeSpec| !node.cpus.is_empty();
        let has_memory = |node: &NodeSpec| node.memory_bytes > 0;
        if let Some(nodes) = &self.workload.nodes {
            self.nodes("nodes", nodes, has_cpus, "CPUs")?;
        }
        if let Some(nodes) = &self.workload.begins {
            self.nodes("begins", nodes, has_cpus, "CPUs")?;
            self.may_run("begins", nodes)?;
        }
        if let Some(nodes) = &self.workload.cpuset {
            self.nodes("cpuset", nodes, |node| has_cpus(node) && has_memory(node), "both")?;
        }
        self.place("place", &self.workload.placement)?;
        self.ensure(
            !self.workload.scattered || !self.workload.huge,
            "scattered",
            || "huge pages of several threads".to_owned(),
            "`pages = \"base\"` or the size of a folio beside it",
        )?;
        self.ensure(
            !self.workload.scattered || !self.workload.one_segment,
            "scattered",
            || "parts of one segment".to_owned(),
            "one of `scattered` and `one-segment`",
        )?;
        if let Some(nodes) = &self.workload.nodes {
            self.within_cpuset("nodes", nodes)?;
        }
        match self.workload.home {
            InitialHome::On(node) => self.home("home", node),
            InitialHome::None | InitialHome::Spread => Ok(()),
        }
    }

    /// Checks the source of pages that a key names.
    fn place(&self, key: &'static str, placement: &MemoryPlacement) -> Result<(), InvalidValue> {
        if let MemoryPlacement::Bind(nodes)
        | MemoryPlacement::Interleave(nodes)
        | MemoryPlacement::PopulatedOn(nodes) = placement
        {
            self.nodes(key, nodes, |node| node.memory_bytes > 0, "memory")?;
            self.within_cpuset(key, nodes)?;
        }
        let is_left = matches!(
            placement,
            MemoryPlacement::PopulatedOn(_) | MemoryPlacement::PopulatedFarthest
        );
        self.ensure(
            !is_left || self.workload.populated,
            key,
            || "memory that lies somewhere from the beginning".to_owned(),
            "`populated = true` beside it",
        )
    }

    /// Checks that nodes are in the cpuset.
    fn within_cpuset(&self, key: &'static str, nodes: &Nodemask) -> Result<(), InvalidValue> {
        let Some(cpuset) = &self.workload.cpuset else { return Ok(()) };
        let what = || format!("nodes {nodes}, which its cpuset has not");
        self.ensure(nodes.is_subset(cpuset), key, what, format!("some of nodes {cpuset}"))
    }

    /// Checks that its threads may run on these nodes.
    fn may_run(&self, key: &'static str, on: &Nodemask) -> Result<(), InvalidValue> {
        let Workload { nodes, cpuset, .. } = self.workload;
        let forbidden = [nodes, cpuset].into_iter().flatten().find(|only| !on.is_subset(only));
        let what = || format!("it may not run on all of nodes {on}");
        let expected = forbidden.map_or_else(String::new, |only| format!("some of nodes {only}"));
        self.ensure(forbidden.is_none(), key, what, expected)
    }

    fn home(&self, key: &'static str, home: NodeId) -> Result<(), InvalidValue> {
        let one: Nodemask = [home].into_iter().collect();
        self.nodes(key, &one, |node| !node.cpus.is_empty(), "CPUs")?;
        let allowed = self.workload.nodes.as_ref();
        let what = || format!("it may not run at home, on node {home}");
        self.ensure(allowed.is_none_or(|nodes| nodes.contains(home)), key, what, "one of `nodes`")
    }

    /// Checks that nodes exist and have the named resource.
    fn nodes(
        &self,
        key: &'static str,
        nodes: &Nodemask,
        has: impl Fn(&NodeSpec) -> bool,
        something: &str,
    ) -> Result<(), InvalidValue> {
        self.ensure(!nodes.is_empty(), key, || "no node is named".to_owned(), "a node at least")?;
        let fit = self.machine().nodes.iter().filter(|node| has(node));
        let fit: Nodemask = fit.map(|node| node.id).collect();
        let odd = nodes.without(&fit).first();
        let what = || match odd {
            Some(id) if self.machine().index_of(id).is_some() => {
                format!("node {id} has no {something}")
            }
            odd => format!("there is no node {}", odd.unwrap_or(NodeId(0))),
        };
        self.ensure(odd.is_none(), key, what, format!("nodes with {something}: {fit}"))
    }

    fn kind(&self) -> Result<(), InvalidValue> {
        if let Some(DutyCycle { busy_ns: works_ns, idle_ns: rests_ns }) = self.workload.duty_cycle {
            self.period("works", works_ns)?;
            self.period("rests", rests_ns)?;
        }
        match &self.workload.kind {
            &WorkloadKind::Triad { access, shared, .. } => {
                self.access(access)?;
                let milli = shared.all_milli();
                let what = || format!("{milli} thousandths of lines are not its own");
                self.ensure(milli < 1000, "shared", what, "0 to 999 thousandths")
            }
            &WorkloadKind::Random { access, hot_touches_milli, hot_bytes_milli } => {
                self.access(access)?;
                self.hot(hot_touches_milli, hot_bytes_milli)
            }
            WorkloadKind::PageFault | WorkloadKind::Hog => Ok(()),
            &WorkloadKind::Compile { compute_ns, access, varies_milli, .. } => {
                self.access(access)?;
                self.thousandths("varies", varies_milli)?;
                self.period("cpu-time", compute_ns)
            }
            &WorkloadKind::PingPong { message_bytes, compute_ns } => {
                self.message_pairs(message_bytes, compute_ns)
            }
            &WorkloadKind::Stream { message_bytes, buffer_bytes, window, compute_ns, .. } => {
                self.message_pairs(message_bytes, compute_ns)?;
                self.stream(buffer_bytes, window)
            }
            &WorkloadKind::Phases { access, phase_bytes, shared_milli } => {
                self.access(access)?;
                self.thousandths("shared", shared_milli)?;
                self.part_of_memory("phase", phase_bytes)
            }
            &WorkloadKind::MovingSet { access, window_bytes, stays_ns } => {
                self.access(access)?;
                self.part_of_memory("window", window_bytes)?;
                self.period("stays", stays_ns)
            }
            WorkloadKind::Database {
                access,
                segment_bytes,
                segment_placement,
                segment_milli,
                own_part_milli,
            } => {
                self.access(*access)?;
                self.page_for_each("segment", *segment_bytes, self.workload.tasks())?;
                self.place("segment-place", segment_placement)?;
                self.thousandths("segment-touches", *segment_milli)?;
                self.thousandths("own-part", *own_part_milli)
            }
        }
    }

    fn access(&self, access: AccessPattern) -> Result<(), InvalidValue> {
        let parallel = access.parallel_milli;
        self.ensure(
            PARALLEL_MILLI.contains(&u64::from(parallel)),
            "parallel",
            || format!("{parallel} thousandths of a miss are under way"),
            "1 to 128 misses",
        )?;
        self.ensure(
            access.compute_ps <= COST_NS_MAX,
            "compute",
            || format!("{} ps for each line", access.compute_ps),
            "60ms at most",
        )?;
        self.thousandths("writes", access.writes_milli)
    }

    fn hot(&self, touches: u32, bytes: u32) -> Result<(), InvalidValue> {
        self.thousandths("hot-touches", touches)?;
        self.thousandths("hot-bytes", bytes)?;
        let what = || format!("{touches} thousandths of touches to {bytes} thousandths of bytes");
        let both = (touches == 0) == (bytes == 0);
        self.ensure(both, "hot-touches", what, "`hot-touches` and `hot-bytes`, or neither")
    }

    /// Checks that each of `threads` threads has a page of `bytes` bytes.
    fn page_for_each(
        &self,
        key: &'static str,
        bytes: u64,
        threads: u64,
    ) -> Result<(), InvalidValue> {
        let page = self.machine().params.page_bytes;
        self.ensure(
            bytes / page >= threads,
            key,
            || format!("{} for {threads} threads", exact::bytes(bytes)),
            format!("a page of {} for each thread at least", exact::bytes(page)),
        )
    }

    fn message_pairs(&self, message_bytes: u64, compute_ns: u64) -> Result<(), InvalidValue> {
        let threads = self.workload.threads;
        let what = || format!("{threads} threads cannot be paired");
        self.ensure(threads.is_multiple_of(2), "threads", what, "an even number of threads")?;
        self.part_of_memory("message", message_bytes)?;
        let long = || format!("{} for each message", exact::ns(compute_ns));
        self.ensure(compute_ns <= TIME_NS_MAX, "cpu-time", long, "a day at most")
    }

    /// Checks the buffers of a stream: lists hold no buffers of more than eight pages.
    fn stream(&self, buffer_bytes: u64, window: u64) -> Result<(), InvalidValue> {
        let most = 8 * self.machine().params.page_bytes;
        let long = || format!("buffers of {}", exact::bytes(buffer_bytes));
        let expected = format!("1 to {}, eight pages", exact::bytes(most));
        self.ensure((1..=most).contains(&buffer_bytes), "buffer", long, expected)?;
        let what = || format!("{window} messages may be under way");
        self.ensure((1..=1 << 16).contains(&window), "under-way", what, "1 to 65536")
    }

    fn thousandths(&self, key: &'static str, milli: u32) -> Result<(), InvalidValue> {
        let what = || format!("`{key}` is {milli} thousandths");
        self.ensure(milli <= 1000, key, what, "a number of thousandths, 0 to 1000")
    }

    /// Checks the size of a part of the memory.
    fn part_of_memory(&self, key: &'static str, bytes: u64) -> Result<(), InvalidValue> {
        let memory = self.workload.memory_bytes;
        let line = self.machine().params.line_bytes;
        self.ensure(
            (line..=memory).contains(&bytes),
            key,
            || format!("`{key}` is {}", exact::bytes(bytes)),
            format!("{} to {}, its memory", exact::bytes(line), exact::bytes(memory)),
        )
    }

    fn period(&self, key: &'static str, ns: u64) -> Result<(), InvalidValue> {
        let what = || format!("`{key}` is {}", exact::ns(ns));
        let fine = (PERIOD_NS_MIN..=TIME_NS_MAX).contains(&ns);
        self.ensure(fine, key, what, "a time from 1us to a day")
    }

    /// Checks that there is memory for the workload beside those before it: on all nodes together,
    /// and on those that it is bound to.
    fn memory_fits(&self) -> Result<(), InvalidValue> {
        let machine = self.machine();
        let all: Nodemask = machine.nodes.iter().map(|node| node.id).collect();
        let nodes = memory_nodes(self.workload).unwrap_or(&all);
        for nodes in [nodes, &all] {
            let (wanted, there) = (self.mapped_bytes(nodes), memory_bytes_of(machine, nodes));
            self.ensure(
                wanted <= there,
                "memory",
                || format!("with it, workloads map {} on nodes {nodes}", exact::bytes(wanted)),
                format!("{} at most, which these nodes have", exact::bytes(there)),
            )?;
        }
        Ok(())
    }

    /// Returns the bytes mapped by this workload and those before it that can use only these nodes.
    fn mapped_bytes(&self, nodes: &Nodemask) -> u64 {
        let (machine, page) = (self.machine(), self.machine().params.page_bytes);
        let everywhere = machine.nodes.iter().all(|node| nodes.contains(node.id));
        let is_meant = |workload: &&Workload| {
            memory_nodes(workload).map_or(everywhere, |only| only.is_subset(nodes))
        };
        let workloads = self.scenario.workloads[..=self.index].iter().filter(is_meant);
        let add = |sum: u64, each: &Workload| {
            sum.saturating_add(each.mapped_bytes(page).unwrap_or(u64::MAX))
        };
        workloads.fold(0, add)
    }
}

/// Returns the only nodes that a workload may have memory on, or `None` for all.
fn memory_nodes(workload: &Workload) -> Option<&Nodemask> {
    match &workload.placement {
        MemoryPlacement::Bind(nodes) => Some(nodes),
        _ => workload.cpuset.as_ref(),
    }
}

fn memory_bytes_of(machine: &MachineSpec, nodes: &Nodemask) -> u64 {
    let nodes = machine.nodes.iter().filter(|node| nodes.contains(node.id));
    nodes.map(|node| node.memory_bytes).sum()
}

fn action(scenario: &Scenario, index: usize, action: &Action) -> Result<(), InvalidValue> {
    let spot = |key| ValuePath::of("action", index, key);
    let time = scenario.time_ns;
    ensure(
        action.at_ns < time,
        spot("at"),
        || format!("an action at {}, when the run is over", exact::ns(action.at_ns)),
        format!("a time before {}", exact::ns(time)),
    )?;
    if action.kind.targets_machine() {
        return super::hotplug::check(&scenario.machine, spot, &action.kind);
    }
    let names: Vec<_> = scenario.workloads.iter().map(|each| each.name.as_str()).collect();
    let Some(at) = names.iter().position(|name| *name == action.workload) else {
        let expected = match names.is_empty() {
            true => "a scenario with workloads".to_owned(),
            false => crate::suggest::expected_one_of(&action.workload, &names),
        };
        let what = format!("there is no workload '{}'", action.workload);
        return Err(InvalidValue { path: spot("workload"), problem: what, expected });
    };
    let of = WorkloadCheck { scenario, index: at, workload: &scenario.workloads[at] };
    match action.kind {
        ActionKind::Migrate { from, to, times } => {
            migrate(&scenario.machine, spot, (from, to), times)
        }
        ActionKind::Home { to } => {
            of.home("home", to).map_err(|flaw| InvalidValue { path: spot("to"), ..flaw })
        }
        ActionKind::Fork { for_ns } | ActionKind::Freeze { for_ns } => ensure(
            (PERIOD_NS_MIN..=TIME_NS_MAX).contains(&for_ns),
            spot("for"),
            || format!("it lasts for {}", exact::ns(for_ns)),
            "a time from 1us to a day",
        ),
        _ => Ok(()),
    }
}

fn migrate(
    machine: &MachineSpec,
    spot: impl Fn(&'static str) -> ValuePath,
    (from, to): (NodeId, NodeId),
    times: u32,
) -> Result<(), InvalidValue> {
    for (key, id) in [("from", from), ("to", to)] {
        super::hotplug::node_with_memory(machine, spot(key), id)?;
    }
    let same = || format!("a migration from node {from} to itself");
    ensure(from != to, spot("to"), same, "two nodes")?;
    ensure(times > 0, spot("times"), || "no migration at all".to_owned(), "1 at least")
}

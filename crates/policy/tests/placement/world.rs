//! A model of a machine that carries out plans wholly, in part, or not at all, under a scheduler
//! that leaves threads where they are or scatters them.

use std::collections::BTreeMap;

use nodeward_model::topology::Distances;
use nodeward_model::{NodeId, Nodemask};

use nodeward_policy::placement::*;

pub const SECOND: u64 = 1_000_000_000;
pub const CPU: u64 = 1_000_000;

/// How plans are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveLimit {
    /// Every page and thread.
    All,
    /// So many per cent of the pages of each move, and of the threads.
    Some(u64),
}

/// How the scheduler places threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// They stay where they are.
    Still,
    /// Each to any node it may run on, with a probability in per cent in each second.
    Scatters(u64),
}

#[derive(Clone, Debug)]
pub struct Node {
    pub cpus: u32,
    pub pages: u64,
    /// Pages used by other processes.
    pub used: u64,
    pub keep_empty: bool,
}

#[derive(Clone, Debug)]
pub struct Task {
    /// CPU time that it would use with a CPU of its own, in millionths.
    pub wants: u64,
    pub node: usize,
    /// Its own affinity, if that is not its process's.
    pub affinity: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Process {
    pub tasks: Vec<Task>,
    pub pages: Vec<u64>,
    pub affinity: usize,
    pub run_ns: u64,
    pub children_ns: u64,
    pub measured_ns: u64,
    pub exclusion: Option<Exclusion>,
    pub target: Target,
    /// Its pages that were moved.
    pub moved: u64,
}

pub struct World {
    pub nodes: Vec<Node>,
    pub far: u32,
    pub affinities: Vec<Affinity>,
    pub processes: Vec<Process>,
    /// Whether threads report how long they waited for a CPU.
    pub tells_waits: bool,
    pub scheduler: Scheduler,
    pub move_limit: MoveLimit,
    pub at_ns: u64,
    pub homes: Homes,
    pub moved: u64,
    seed: u64,
}

impl World {
    /// Creates a machine with nodes of (CPUs, pages), all of which every process may use.
    pub fn new(nodes: &[(u32, u64)]) -> Self {
        let ids = || (0..).map(NodeId);
        let all = ids().zip(nodes).filter(|(_, node)| node.0 > 0).map(|(id, node)| (id, node.0));
        let node =
            |&(cpus, pages): &(u32, u64)| Node { cpus, pages, used: pages / 50, keep_empty: false };
        Self {
            nodes: nodes.iter().map(node).collect(),
            far: 16,
            affinities: vec![Affinity(all.collect())],
            processes: Vec::new(),
            tells_waits: true,
            scheduler: Scheduler::Still,
            move_limit: MoveLimit::All,
            at_ns: 0,
            homes: Homes::default(),
            moved: 0,
            seed: 1,
        }
    }

    /// Creates the machine of 2012: two nodes of 12 CPUs and 12 GiB.
    pub fn of_2012() -> Self {
        Self::new(&[(12, 3 << 20), (12, 3 << 20)])
    }

    /// Starts a process with tasks on nodes that each want so much of a CPU, and pages by node.
    pub fn start(&mut self, wants: u64, tasks: &[usize], pages: &[u64]) -> EntityId {
        let tasks = tasks.iter().map(|&node| Task { wants, node, affinity: None }).collect();
        let (run_ns, measured_ns, moved) = (10 * SECOND, 0, 0);
        let pages = pages.to_vec();
        self.processes.push(Process {
            tasks,
            pages,
            affinity: 0,
            run_ns,
            children_ns: 0,
            measured_ns,
            exclusion: None,
            target: Target::Anywhere,
            moved,
        });
        EntityId(self.processes.len() as u64 - 1)
    }

    /// Seeds all random choices.
    pub fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    pub fn chance(&mut self, below: u64) -> u64 {
        // Knuth's multiplier; the upper bits are the good ones.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) % below.max(1)
    }

    /// Returns the number of pages that a node can take.
    pub fn room(&self, node: usize) -> u64 {
        let used: u64 = self.processes.iter().map(|process| process.pages[node]).sum();
        self.nodes[node].pages.saturating_sub(self.nodes[node].used + used)
    }

    fn wanted(&self, node: usize) -> u64 {
        let tasks = self.processes.iter().flat_map(|process| &process.tasks);
        tasks.filter(|task| task.node == node).map(|task| task.wants).sum()
    }

    pub fn threads_on(&self, node: usize) -> usize {
        let tasks = self.processes.iter().flat_map(|process| &process.tasks);
        tasks.filter(|task| task.node == node).count()
    }

    pub fn snapshot(&self) -> Snapshot {
        let ids = || (0..self.nodes.len() as u32).map(NodeId);
        let state = |index: usize| NodeState {
            cpus: self.nodes[index].cpus,
            pages: self.nodes[index].pages,
            room_pages: self.room(index),
            keep_empty: self.nodes[index].keep_empty,
            ..NodeState::default()
        };
        let rule = |from, to| if from == to { 10 } else { self.far };
        let wanted: Vec<u64> = (0..self.nodes.len()).map(|node| self.wanted(node)).collect();
        let entity = |(number, process): (usize, &Process)| self.entity(number, process, &wanted);
        Snapshot {
            others_ppm: 0,
            at_ns: self.at_ns,
            page_bytes: 4096,
            nodes: ids().map(|id| (id, state(id.0 as usize))).collect(),
            stalled_ppm: None,
            kernel_balances: false,
            distances: Some(Distances::from_rule(ids(), rule)),
            affinities: self.affinities.clone(),
            entities: self.processes.iter().enumerate().map(entity).collect(),
            segments: Vec::new(),
        }
    }

    fn entity(&self, number: usize, process: &Process, wanted: &[u64]) -> Entity {
        let thread = |(tid, task): (usize, &Task)| {
            let cpus = u64::from(self.nodes[task.node].cpus) * CPU;
            let ran = (task.wants * cpus / wanted[task.node].max(1)).min(task.wants);
            let waited = if self.tells_waits { task.wants - ran } else { 0 };
            Thread {
                tid: (1000 * number + tid) as u32,
                node: NodeId(task.node as u32),
                load_ppm: ran as u32,
                near: None,
                kernel_prefers: KernelPreference::Anywhere,
                wait_ppm: waited as u32,
                affinity: task.affinity.unwrap_or(process.affinity),
            }
        };
        let pages = (0..).map(NodeId).zip(process.pages.iter().copied());
        Entity {
            id: EntityId(number as u64),
            run_ns: process.run_ns,
            children_ns: process.children_ns,
            threads: process.tasks.iter().enumerate().map(thread).collect(),
            pages: pages.filter(|&(_, pages)| pages > 0).collect(),
            pages_at_ns: process.measured_ns,
            may_hold: (0..self.nodes.len() as u32).map(NodeId).collect(),
            exclusion: process.exclusion,
            target: process.target.clone(),
            ..Entity::default()
        }
    }

    /// Simulates a second: a decision, its effect, and the scheduler.
    pub fn round(&mut self, rules: &Rules) -> Plan {
        let snapshot = self.snapshot();
        let plan = self.homes.decide(&snapshot, rules);
        check(&snapshot, &plan);
        self.carry_out(&plan);
        self.schedule();
        self.at_ns += SECOND;
        plan
    }

    fn carry_out(&mut self, plan: &Plan) {
        for nudge in &plan.nudges {
            let to = nudge.to.first().unwrap().0 as usize;
            if self.does() {
                let process = &mut self.processes[nudge.entity.0 as usize];
                process.tasks[nudge.tid as usize % 1000].node = to;
            }
        }
        for one in &plan.moves {
            let (to, number) = (one.to.0 as usize, one.entity.0 as usize);
            let most = match self.move_limit {
                MoveLimit::All => one.pages_max,
                MoveLimit::Some(percent) => one.pages_max * percent / 100,
            };
            let mut left = most.min(self.room(to));
            for from in one.from.iter() {
                let pages = &mut self.processes[number].pages;
                let part = pages[from.0 as usize].min(left);
                pages[from.0 as usize] -= part;
                pages[to] += part;
                left -= part;
                self.moved += part;
                self.processes[number].moved += part;
            }
            self.processes[number].measured_ns = self.at_ns + 1;
        }
    }

    fn does(&mut self) -> bool {
        match self.move_limit {
            MoveLimit::All => true,
            MoveLimit::Some(percent) => self.chance(100) < percent,
        }
    }

    fn schedule(&mut self) {
        let Scheduler::Scatters(percent) = self.scheduler else { return };
        for number in 0..self.processes.len() {
            for task in 0..self.processes[number].tasks.len() {
                if self.chance(100) < percent {
                    let process = &self.processes[number];
                    let affinity = process.tasks[task].affinity.unwrap_or(process.affinity);
                    let nodes: Vec<NodeId> = self.affinities[affinity].0.keys().copied().collect();
                    let node = nodes[self.chance(nodes.len() as u64) as usize].0;
                    self.processes[number].tasks[task].node = node as usize;
                }
            }
        }
    }

    /// Makes rounds until so many in a row moved no memory; returns the number of rounds before
    /// these.
    pub fn settle(&mut self, rules: &Rules, quiet: u64, most: u64) -> Option<u64> {
        let mut last = 0;
        for round in 1..=most {
            if !self.round(rules).moves.is_empty() {
                last = round;
            }
            if round >= last + quiet {
                return Some(last);
            }
        }
        None
    }

    /// Returns how many per cent of the threads' demand find memory of their process on their node,
    /// page for page.
    pub fn local_percent(&self) -> u64 {
        let (mut near, mut all) = (0, 0);
        for process in &self.processes {
            let pages: u64 = process.pages.iter().sum::<u64>().max(1);
            for task in &process.tasks {
                near += task.wants * process.pages[task.node] * 1000 / pages;
                all += task.wants * 1000;
            }
        }
        near * 100 / all.max(1)
    }
}

/// Checks what holds for every plan.
pub fn check(snapshot: &Snapshot, plan: &Plan) {
    let ids: Vec<_> = plan.decisions.iter().map(|decision| decision.entity).collect();
    let mut expected: Vec<_> = snapshot.entities.iter().map(|entity| entity.id).collect();
    expected.sort();
    assert_eq!(ids, expected, "one decision for each");
    let entity = |id| snapshot.entities.iter().find(|entity| entity.id == id).unwrap();
    for nudge in &plan.nudges {
        let thread = entity(nudge.entity).threads.iter().find(|one| one.tid == nudge.tid).unwrap();
        let affinity = &snapshot.affinities[thread.affinity];
        assert!(!nudge.to.is_empty() && nudge.to.iter().all(|node| affinity.cpus(node) > 0));
        assert!(!nudge.to.contains(thread.node), "it is there");
    }
    let mut arriving: BTreeMap<NodeId, u64> = BTreeMap::new();
    for one in &plan.moves {
        let entity = entity(one.entity);
        assert!(entity.exclusion.is_none() && entity.may_hold.contains(one.to), "it may not");
        let is_ordered = [Reason::GroupHome, Reason::KeptEmpty].contains(&one.reason);
        assert!(is_ordered || one.gain_ns > one.cost_ns);
        assert!(!one.from.contains(one.to));
        let on = |node: NodeId| entity.pages.get(&node).copied().unwrap_or(0);
        assert!(one.pages_max > 0 && one.pages_max <= one.from.iter().map(on).sum());
        *arriving.entry(one.to).or_default() += one.pages_max;
    }
    for (node, pages) in arriving {
        assert!(pages <= snapshot.nodes[&node].room_pages, "more than there is room for");
        assert!(!snapshot.nodes[&node].is_short(&Rules::default()));
    }
    check_decisions(plan);
    check_kept_empty(snapshot, plan);
}

/// Checks that nothing goes to a node that is kept empty.
fn check_kept_empty(snapshot: &Snapshot, plan: &Plan) {
    let kept = snapshot.nodes.iter().filter(|(_, node)| node.keep_empty);
    let kept: Nodemask = kept.map(|(&id, _)| id).collect();
    for home in plan.homes.values() {
        assert!(home.thread_nodes().and(&kept).is_empty(), "{home:?} is to be empty");
        if let Home::Interleave { memory, .. } = home {
            assert!(memory.and(&kept).is_empty(), "{home:?} is to be empty");
        }
    }
    assert!(plan.nudges.iter().all(|one| one.to.and(&kept).is_empty()));
    assert!(plan.moves.iter().all(|one| !kept.contains(one.to)));
    assert!(plan.segment_moves.iter().all(|one| !kept.contains(one.to)));
    let rooms = plan.decisions.iter().flat_map(|decision| decision.rooms.keys());
    assert!(rooms.into_iter().all(|node| !kept.contains(*node)));
}

fn check_decisions(plan: &Plan) {
    for decision in &plan.decisions {
        let has_home = plan.homes.contains_key(&decision.entity);
        assert_eq!(has_home, decision.verdict != Verdict::Left, "{decision:?}");
        let of_it = plan.moves.iter().filter(|one| one.entity == decision.entity);
        let planned: u64 = of_it.map(|one| one.pages_max).sum();
        assert_eq!(planned, decision.numbers.pages_planned);
        let nudged = plan.nudges.iter().filter(|one| one.entity == decision.entity).count();
        assert_eq!(nudged, decision.numbers.threads_nudged as usize);
        assert!(planned <= decision.numbers.pages_away);
    }
}

pub fn on(node: u32) -> Home {
    Home::Node(NodeId(node))
}

pub fn mask(text: &str) -> Nodemask {
    text.parse().unwrap()
}

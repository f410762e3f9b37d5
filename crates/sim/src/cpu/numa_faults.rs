//! Statistics of hint faults, by thread and by group of threads.

/// A node is active if its faults times this factor exceed those of the node with most.
pub const ACTIVE_NODE_FRACTION: u64 = 3;

/// A hint fault.
#[derive(Clone, Copy, Debug)]
pub struct HintFault {
    /// The node of the page, after its move if it moved.
    pub memory_node: usize,
    /// The node of the thread.
    pub cpu_node: usize,
    /// Whether the same thread touched the page last.
    pub is_private: bool,
    /// Whether the page was on the node of the thread.
    pub is_local: bool,
    /// Whether it was moved to the node of the thread.
    pub moved: bool,
    /// Whether its move failed.
    pub failed: bool,
}

/// Fault statistics of a thread, by node, for shared and private pages.
#[derive(Clone, Debug)]
pub struct TaskNumaFaults {
    memory: Vec<[u64; 2]>,
    cpu: Vec<[u64; 2]>,
    new_memory: Vec<[u64; 2]>,
    new_cpu: Vec<[u64; 2]>,
    /// Faults on pages of other nodes since the last scan.
    pub remote: u64,
    /// Faults on pages of its own node since the last scan.
    pub local: u64,
    /// Pages whose move failed since the last scan.
    pub failed: u64,
    /// Pages that moved at its faults since it started.
    pub migrated: u64,
    /// Whether it shares pages with other threads of its process.
    pub in_group: bool,
    /// The node that it prefers.
    pub preferred: Option<usize>,
    /// The scan of its process after which it was last placed.
    pub seq: u32,
    /// The time of its next attempt to move to that node.
    pub retry_ns: u64,
    /// The time of its last placement, and its run time by then.
    pub placed_ns: Option<(u64, u64)>,
}

impl TaskNumaFaults {
    /// Creates empty statistics for a machine of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        let none = vec![[0; 2]; nodes];
        Self {
            memory: none.clone(),
            cpu: none.clone(),
            new_memory: none.clone(),
            new_cpu: none,
            remote: 0,
            local: 0,
            failed: 0,
            migrated: 0,
            in_group: false,
            preferred: None,
            seq: 0,
            retry_ns: 0,
            placed_ns: None,
        }
    }

    /// Returns whether the thread prefers no node yet, or was only placed in its first scans.
    pub fn is_new(&self, scans: u32) -> bool {
        self.preferred.is_none() || self.seq <= scans
    }

    /// Returns the faults on memory of a node.
    pub fn memory_faults(&self, node: usize) -> u64 {
        self.memory[node].iter().sum()
    }

    /// Returns the faults per 1000 on memory of a node.
    pub fn memory_share_milli(&self, node: usize) -> i64 {
        share_milli(&self.memory, node)
    }

    /// Records a fault of a number of pages.
    pub fn record(&mut self, touch: &HintFault, pages: u64) {
        let kind = usize::from(touch.is_private);
        self.new_memory[touch.memory_node][kind] += pages;
        self.new_cpu[touch.cpu_node][kind] += pages;
        self.failed += if touch.failed { pages } else { 0 };
        self.migrated += if touch.moved { pages } else { 0 };
        *if touch.is_local { &mut self.local } else { &mut self.remote } += pages;
    }

    /// Halves old faults and adds those since. Of `period_ns`, the thread ran `ran_ns`. Returns the
    /// new shared and private faults.
    pub fn decay(&mut self, ran_ns: u64, period_ns: u64) -> [u64; 2] {
        let total = u128::from(self.remote + self.local) + 1;
        let share = (u128::from(ran_ns) << 16) / (u128::from(period_ns) + 1);
        let mut sums = [0; 2];
        for (node, kind) in (0..self.memory.len()).flat_map(|node| [(node, 0), (node, 1)]) {
            let new = std::mem::take(&mut self.new_memory[node][kind]);
            sums[kind] += new;
            let memory = &mut self.memory[node][kind];
            *memory = *memory - *memory / 2 + new;
            let new = u128::from(std::mem::take(&mut self.new_cpu[node][kind]));
            let cpu = &mut self.cpu[node][kind];
            *cpu = *cpu - *cpu / 2 + u64::try_from(share * new / total).unwrap_or(u64::MAX >> 8);
        }
        sums
    }
}

/// Returns the faults per 1000 of a node.
fn share_milli(faults: &[[u64; 2]], node: usize) -> i64 {
    let of = |faults: &[u64; 2]| faults[0] + faults[1];
    let all: u64 = faults.iter().map(of).sum();
    i64::try_from(of(&faults[node]) * 1000 / all.max(1)).unwrap_or(1000)
}

/// Threads of a process that touch the same pages.
#[derive(Clone, Debug)]
pub struct NumaGroup {
    memory: Vec<[u64; 2]>,
    cpu: Vec<[u64; 2]>,
    tasks: u64,
}

impl NumaGroup {
    /// Creates a group without threads for a machine of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        let none = vec![[0; 2]; nodes];
        Self { memory: none.clone(), cpu: none, tasks: 0 }
    }

    /// Adds a thread.
    pub fn join(&mut self, faults: &TaskNumaFaults) {
        self.add_or_subtract(faults, true);
        self.tasks += 1;
    }

    /// Returns the faults on a node's memory.
    pub fn memory_faults(&self, node: usize) -> u64 {
        self.memory[node].iter().sum()
    }

    /// Returns the faults of threads on a node.
    pub fn cpu_faults(&self, node: usize) -> u64 {
        self.cpu[node].iter().sum()
    }

    /// Returns the faults per 1000 on memory of a node.
    pub fn memory_share_milli(&self, node: usize) -> i64 {
        share_milli(&self.memory, node)
    }

    /// Returns whether the group uses a node.
    pub fn is_active(&self, node: usize) -> bool {
        let most = (0..self.cpu.len()).map(|node| self.cpu_faults(node)).max().unwrap_or(0);
        self.cpu_faults(node) * ACTIVE_NODE_FRACTION > most
    }

    /// Stretches a scan period for a group: by the number of its threads and the share of their
    /// shared faults.
    pub fn shared_period_ns(&self, ns: u64) -> u64 {
        let sum = |kind: usize| self.memory.iter().map(|faults| faults[kind]).sum::<u64>();
        let (shared, private) = (sum(0), sum(1));
        let slowed = u128::from(ns) * u128::from(self.tasks) * u128::from(shared + 1);
        u64::try_from(slowed / u128::from(private + shared + 1)).unwrap_or(u64::MAX)
    }

    /// Adds the faults of a thread to the sums, or takes them away.
    pub fn add_or_subtract(&mut self, faults: &TaskNumaFaults, add: bool) {
        let pairs = [(&mut self.memory, &faults.memory), (&mut self.cpu, &faults.cpu)];
        for (sums, faults) in pairs {
            let kinds = sums.iter_mut().flatten().zip(faults.iter().flatten());
            kinds.for_each(|(sum, &count)| {
                *sum = if add { *sum + count } else { sum.saturating_sub(count) };
            });
        }
    }

    /// Removes a thread.
    pub fn leave(&mut self, faults: &TaskNumaFaults) {
        if faults.in_group {
            self.add_or_subtract(faults, false);
            self.tasks = self.tasks.saturating_sub(1);
        }
    }
}

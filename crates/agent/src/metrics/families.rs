//! Every metric: its name, its type, its labels, and what it tells.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It grows from 0 at each start.
    Counter,
    /// It is as it was in the last round, or is now.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// A metric with all its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

macro_rules! families {
    ($($constant:ident = $kind:ident $name:literal $labels:tt $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Family =
                Family { name: $name, kind: MetricKind::$kind, labels: &$labels, help: $help };
        )*

        /// Every metric, in the order in which they are written.
        pub const FAMILIES: &[Family] = &[$($constant,)*];
    };
}

families! {
    UP = Gauge "nodeward_up" []
        "Whether the balancer answered the exporter.";
    BUILD_INFO = Gauge "nodeward_build_info" ["version"]
        "The version, as a label of a constant 1.";

    ROUNDS = Counter "nodeward_rounds_total" ["kind"]
        "Rounds: full ones, and fast ones between them that only bring threads home.";
    ROUND_SECONDS = Counter "nodeward_round_seconds_total" []
        "Time that rounds took.";
    LAST_ROUND = Gauge "nodeward_last_round_timestamp_seconds" []
        "When the last full round began, in seconds since 1970.";
    SAMPLES = Counter "nodeward_samples_total" []
        "Samples of where the memory of a process is.";
    SAMPLES_DUE = Gauge "nodeward_samples_due" []
        "Processes whose sample is due, and was left to a later round.";
    NOTICES = Counter "nodeward_notices_total" ["kind"]
        "Notices of the balancer, each given once.";
    STANDS_BACK = Gauge "nodeward_stands_back" []
        "Whether the balancer does nothing because another one is active.";
    RIVALS = Gauge "nodeward_rivals" ["kind"]
        "Other balancers that are active.";

    ENTITIES = Gauge "nodeward_entities" ["kind"]
        "Processes, groups and segments about which the last full round decided.";
    THREADS = Gauge "nodeward_threads" []
        "Threads of all processes that are balanced.";
    HOMES = Gauge "nodeward_homes" ["node"]
        "Processes and groups whose threads belong on the node; a home of several nodes counts \
         on each.";
    MEMORY = Gauge "nodeward_memory_bytes" ["node"]
        "Memory of processes, groups and segments, where their last samples saw it.";
    MISPLACED = Gauge "nodeward_misplaced_bytes" ["node", "home"]
        "Memory that is on a node and belongs on another; home is several if it belongs on any \
         of several; other is the sum of smaller pairs.";
    DECISIONS = Gauge "nodeward_decisions" ["about", "reason"]
        "Decisions of the last full round about homes, threads that are away, memory, and \
         segments, by reason.";
    DECISION_CHANGES = Counter "nodeward_decision_changes_total" ["verdict"]
        "Decisions about processes and groups that differ from those of the round before.";
    NUDGES = Counter "nodeward_nudges_total" ["outcome"]
        "Threads that were to be brought to a node, by what came of it.";

    PID_HOME = Gauge "nodeward_pid_home" ["pid", "name", "home"]
        "A process that has a home, with the nodes where its threads belong as a label of a \
         constant 1.";
    PID_MEMORY = Gauge "nodeward_pid_memory_bytes" ["pid", "name", "node"]
        "Memory of a process, where its last sample saw it.";
    PID_MISPLACED = Gauge "nodeward_pid_misplaced_bytes" ["pid", "name"]
        "Memory of a process that is on other nodes than it belongs.";

    MOVES = Counter "nodeward_moves_total" ["mover"]
        "Moves of memory that have ended: of the balancer by what was moved, and of users by \
         the agent.";
    MOVED = Counter "nodeward_moved_bytes_total" ["mover"]
        "Memory that arrived on the node where it was moved to, by mover.";
    FLOW = Counter "nodeward_flow_bytes_total" ["from", "to"]
        "Memory that arrived on the node where it was moved to, by nodes; from is any once there \
         are more than 12 pairs.";
    STAYED = Counter "nodeward_stayed_bytes_total" ["reason"]
        "Memory that was to move and stayed; what is tried again counts again.";
    MOVES_SHORT = Counter "nodeward_moves_short_total" ["why"]
        "Moves of the balancer that ended with less memory moved than planned.";
    HOLD = Histogram "nodeward_hold_seconds" []
        "Time for which the kernel held pages that moved, by runs of pages: the mean of each \
         call under a stall budget.";
    OTHERS_MIGRATED = Counter "nodeward_others_migrated_bytes_total" []
        "Memory that the kernel counts as migrated since the first round and the balancer did \
         not move: compaction within nodes, other programs, users at the agent.";

    PAGE_LIST = Gauge "nodeward_page_list_bytes" ["node", "zone"]
        "Free memory in the page lists of all CPUs.";
    PAGE_LIST_HIGH = Gauge "nodeward_page_list_high_bytes" ["node", "zone"]
        "Free memory above which these lists give pages back to the zone.";

    CPU = Counter "nodeward_cpu_seconds_total" ["activity"]
        "CPU time of rounds, by what it was for.";
    PROCESS_CPU = Counter "nodeward_process_cpu_seconds_total" []
        "CPU time of the whole process, agent and moves of users included.";
    PROCESS_MEMORY = Gauge "nodeward_process_resident_memory_bytes" []
        "Memory of the process itself that is in RAM.";
    REQUESTS = Counter "nodeward_agent_requests_total" ["interface"]
        "Requests at the socket of the agent.";
    REFUSALS = Counter "nodeward_agent_refusals_total" []
        "Requests among these that were answered with an error.";
}

//! The loads that balancers are compared on.

use crate::compare::BalancerKind;

/// The goals for nodeward. Wherever there are goals, one is that no work is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Memory becomes local, as soon as under the kernel's NUMA balancing and with no more pages
    /// moved.
    LocalMemory,
    /// The same with half the pages: threads can move to the memory.
    LocalByMovingThreads,
    /// Memory becomes local.
    PagesPlaced,
    /// Memory becomes as local as if somebody had placed it by hand, within 2 points.
    PlacedAsByHand,
    /// No other goal: no balancer gains much there, and each may lose something.
    WorkOnly,
    /// No goal at all, that of work included: somebody wants to know.
    FiguresOnly,
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct CompareCase<'a> {
    /// Its name on the command line.
    pub name: &'a str,
    /// Its description.
    pub about: &'a str,
    /// Name of the built-in scenario, or the path of a file.
    pub scenario: &'a str,
    /// Values of scenario keys.
    pub overrides: &'a [(&'a str, &'a str)],
    /// The goals.
    pub requirement: Requirement,
    /// Whether the patches of 2012 can take part: they place fresh pages, and move none that
    /// existed before a process got its home.
    pub with_patches: bool,
}

/// One counter for each page of a node.
const COUNTERS: (&str, &str) = ("machine.counter-entries", "2097152");
const SPLIT: (&str, &str) = ("workload.stream.place", "left:0-1");

/// All cases.
pub const CASES: [CompareCase<'static>; 20] = [
    CompareCase {
        name: "2012-first-touch",
        about: "48 programs that stream, two for each CPU; each touches its memory first where it \
            begins",
        scenario: "home-2012",
        overrides: &[("time", "60s"), ("sample", "100ms")],
        requirement: Requirement::LocalByMovingThreads,
        with_patches: true,
    },
    CompareCase {
        name: "2012-wrong",
        about: "48 programs that stream, two for each CPU; the memory of each lies on the node \
            where it does not begin",
        scenario: "balance-2012",
        overrides: &[],
        requirement: Requirement::LocalByMovingThreads,
        with_patches: false,
    },
    CompareCase {
        name: "2012-split",
        about: "48 programs that stream, two for each CPU; one half of the memory of each lies on \
            either node",
        scenario: "balance-2012",
        overrides: &[SPLIT],
        requirement: Requirement::LocalMemory,
        with_patches: false,
    },
    CompareCase {
        name: "2012-calm",
        about: "as 2012-split, with a scheduler that seldom takes a thread away without need",
        scenario: "balance-2012",
        overrides: &[SPLIT, ("machine.stray", "20")],
        requirement: Requirement::LocalMemory,
        with_patches: false,
    },
    CompareCase {
        name: "wide",
        about: "one program with more memory than a node has, a thread for each CPU, each with its \
            part of memory that lies anywhere",
        scenario: "balance-wide",
        overrides: &[],
        requirement: Requirement::PagesPlaced,
        with_patches: false,
    },
    CompareCase {
        name: "counted",
        about: "the same program on a machine that counts who uses which page",
        scenario: "balance-wide",
        overrides: &[COUNTERS],
        requirement: Requirement::PagesPlaced,
        with_patches: false,
    },
    CompareCase {
        name: "grouped",
        about: "one program that is wider than a node, with two pools of threads that each fit \
            one: rules tell the pools apart, accesses tell their memory",
        scenario: "balance-grouped",
        overrides: &[],
        requirement: Requirement::PagesPlaced,
        with_patches: false,
    },
    CompareCase {
        name: "grouped-ranges",
        about: "the same program, which says which threads and which memory belong together",
        scenario: "balance-grouped-ranges",
        overrides: &[],
        requirement: Requirement::PagesPlaced,
        with_patches: false,
    },
    CompareCase {
        name: "grouped-shared",
        about: "four processes that share all their memory, each with threads of two pools; each \
            pool, of all processes together, fits a node and works on its half",
        scenario: "balance-grouped-shared",
        overrides: &[],
        requirement: Requirement::PlacedAsByHand,
        with_patches: false,
    },
    CompareCase {
        name: "parts",
        about: "one program whose threads are bound to CPUs of both nodes, each with its part of \
            memory, all of which lies on one node",
        scenario: "balance-parts",
        overrides: &[],
        requirement: Requirement::PlacedAsByHand,
        with_patches: false,
    },
    CompareCase {
        name: "bound",
        about: "the same with pages of each thread scattered all over memory and over both nodes, \
            and one of eight accesses to any page",
        scenario: "balance-bound",
        overrides: &[COUNTERS],
        requirement: Requirement::PlacedAsByHand,
        with_patches: false,
    },
    CompareCase {
        name: "bound-written",
        about: "the same with an eighth of the memory, on a machine that counts nothing: samples \
            tell that threads wait, and write faults for which pages",
        scenario: "balance-bound",
        overrides: &[("workload.bound.memory", "512MiB")],
        requirement: Requirement::PlacedAsByHand,
        with_patches: false,
    },
    CompareCase {
        name: "shared",
        about: "one program whose threads on all CPUs share all its memory, which lies on one node",
        scenario: "balance-shared",
        overrides: &[],
        requirement: Requirement::WorkOnly,
        with_patches: false,
    },
    CompareCase {
        name: "counted-alike",
        about: "the same program on a machine that counts who uses which page: all use it alike",
        scenario: "balance-shared",
        overrides: &[COUNTERS],
        requirement: Requirement::WorkOnly,
        with_patches: false,
    },
    CompareCase {
        name: "sides",
        about: "load that changes sides every two seconds",
        scenario: "balance-sides",
        overrides: &[],
        requirement: Requirement::WorkOnly,
        with_patches: false,
    },
    CompareCase {
        name: "crowded",
        about: "programs that may run on one node only, which has too little memory for them",
        scenario: "balance-crowded",
        overrides: &[],
        requirement: Requirement::WorkOnly,
        with_patches: false,
    },
    CompareCase {
        name: "short",
        about: "10,000 programs of short life beside eight that stay",
        scenario: "balance-short",
        overrides: &[],
        requirement: Requirement::WorkOnly,
        with_patches: false,
    },
    CompareCase {
        name: "database",
        about: "40 backends of a database that share a segment with more memory than a node has",
        scenario: "database",
        overrides: &[],
        requirement: Requirement::WorkOnly,
        with_patches: false,
    },
    CompareCase {
        name: "database-fits",
        about: "the same with a segment that fits a node and lies on one, which delivers less than \
            the backends ask of it",
        scenario: "database",
        overrides: &[
            ("workload.backend.segment", "2GiB"),
            ("workload.backend.segment-place", "left:0"),
            ("machine.bandwidth", "4GB/s"),
        ],
        requirement: Requirement::WorkOnly,
        with_patches: false,
    },
    CompareCase {
        name: "ranks",
        about: "16 processes that share a segment, each of which works on its part of it; all of \
            it lies on one node",
        scenario: "ranks",
        overrides: &[],
        requirement: Requirement::PlacedAsByHand,
        with_patches: false,
    },
];

impl<'a> CompareCase<'a> {
    /// Returns the balancers that are compared.
    pub fn balancers(&self) -> impl Iterator<Item = BalancerKind> {
        let with_patches = self.with_patches;
        BalancerKind::ALL.into_iter().filter(move |by| *by != BalancerKind::Patches || with_patches)
    }

    /// Returns the values of scenario keys, those of the balancer included.
    pub fn overrides_under(&self, by: BalancerKind) -> Vec<(&'a str, &'a str)> {
        [self.overrides, by.scenario_overrides()].concat()
    }

    /// Returns the command that runs the same load, without a balancer that acts from outside.
    pub fn command(&self, by: BalancerKind) -> String {
        let sets = self
            .overrides_under(by)
            .into_iter()
            .map(|(key, value)| format!(" --set {key}={value}"));
        format!("nodeward sim {}{}", self.scenario, sets.collect::<String>())
    }
}

//! The loads that balancers are compared on.

use crate::Balancer;

/// The goals for nodeward, beside that no work is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Memory becomes local, as soon as under the kernel's NUMA balancing and with no more pages
    /// moved.
    Local,
    /// The same with half the pages: threads can move to the memory.
    Threads,
    /// Memory becomes local.
    Placed,
    /// No other goal: no balancer gains much there, and each may lose something.
    Work,
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Name of the built-in scenario.
    pub scenario: &'static str,
    /// Values of scenario keys.
    pub set: &'static [(&'static str, &'static str)],
    /// The goals.
    pub asked: Asked,
    /// Whether the patches of 2012 can take part: they place fresh pages, and move none that
    /// existed before a process got its home.
    pub with_patches: bool,
}

/// One counter for each page of a node.
const COUNTERS: (&str, &str) = ("machine.counter-entries", "2097152");
const SPLIT: (&str, &str) = ("workload.stream.place", "left:0-1");

/// All cases.
pub const CASES: [Case; 11] = [
    Case {
        name: "2012-first-touch",
        about: "48 programs that stream, two for each CPU; each touches its memory first where it \
            begins",
        scenario: "home-2012",
        set: &[("time", "60s"), ("sample", "100ms")],
        asked: Asked::Threads,
        with_patches: true,
    },
    Case {
        name: "2012-wrong",
        about: "48 programs that stream, two for each CPU; the memory of each lies on the node \
            where it does not begin",
        scenario: "balance-2012",
        set: &[],
        asked: Asked::Threads,
        with_patches: false,
    },
    Case {
        name: "2012-split",
        about: "48 programs that stream, two for each CPU; one half of the memory of each lies on \
            either node",
        scenario: "balance-2012",
        set: &[SPLIT],
        asked: Asked::Local,
        with_patches: false,
    },
    Case {
        name: "2012-calm",
        about: "as 2012-split, with a scheduler that seldom takes a thread away without need",
        scenario: "balance-2012",
        set: &[SPLIT, ("machine.stray", "20")],
        asked: Asked::Local,
        with_patches: false,
    },
    Case {
        name: "wide",
        about: "one program with more memory than a node has, a thread for each CPU, each with its \
            part of memory that lies anywhere",
        scenario: "balance-wide",
        set: &[],
        asked: Asked::Work,
        with_patches: false,
    },
    Case {
        name: "counted",
        about: "the same program on a machine that counts who uses which page",
        scenario: "balance-wide",
        set: &[COUNTERS],
        asked: Asked::Placed,
        with_patches: false,
    },
    Case {
        name: "shared",
        about: "one program whose threads on all CPUs share all its memory, which lies on one node",
        scenario: "balance-shared",
        set: &[],
        asked: Asked::Work,
        with_patches: false,
    },
    Case {
        name: "counted-alike",
        about: "the same program on a machine that counts who uses which page: all use it alike",
        scenario: "balance-shared",
        set: &[COUNTERS],
        asked: Asked::Work,
        with_patches: false,
    },
    Case {
        name: "sides",
        about: "load that changes sides every two seconds",
        scenario: "balance-sides",
        set: &[],
        asked: Asked::Work,
        with_patches: false,
    },
    Case {
        name: "crowded",
        about: "programs that may run on one node only, which has too little memory for them",
        scenario: "balance-crowded",
        set: &[],
        asked: Asked::Work,
        with_patches: false,
    },
    Case {
        name: "short",
        about: "10,000 programs of short life beside eight that stay",
        scenario: "balance-short",
        set: &[],
        asked: Asked::Work,
        with_patches: false,
    },
];

impl Case {
    /// Returns the balancers that are compared.
    pub fn balancers(&self) -> impl Iterator<Item = Balancer> {
        let with_patches = self.with_patches;
        Balancer::ALL.into_iter().filter(move |by| *by != Balancer::Patches || with_patches)
    }

    /// Returns the values of scenario keys, those of the balancer included.
    pub fn sets(&self, by: Balancer) -> Vec<(&'static str, &'static str)> {
        [self.set, by.keys()].concat()
    }

    /// Returns the command that runs the same load, without a balancer that acts from outside.
    pub fn command(&self, by: Balancer) -> String {
        let sets = self.sets(by).into_iter().map(|(key, value)| format!(" --set {key}={value}"));
        format!("nodeward sim {}{}", self.scenario, sets.collect::<String>())
    }
}

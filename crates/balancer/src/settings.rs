//! Settings of a balancer.

use nodeward_machine::AccessSourceKind;
use nodeward_model::{GroupSpec, Nodemask, ProcessFilter};
use nodeward_policy::placement::Rules;
use serde::{Deserialize, Serialize};

/// The balancer's action while rivals, that is other balancers, move memory or threads between
/// nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RivalMode {
    /// The balancer only looks. Decisions have the reason `rival`.
    #[default]
    StandBack,
    /// Beside the kernel the balancer does what the kernel has not decided. Beside others it only
    /// looks.
    Cooperate,
    /// The balancer only looks. But it keeps the kernel's balancing off while it runs
    /// ([`Takeover`]).
    ///
    /// [`Takeover`]: super::Takeover
    TakeOver,
    /// The balancer acts as if there was no other.
    Ignore,
}

/// The source that tells which thread uses which page of a process that is wider than a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessChoice {
    /// The first source of the machine that works.
    #[default]
    Auto,
    /// Only the source of this kind.
    Only(AccessSourceKind),
    /// No source: pages of such processes stay where they are.
    Off,
}

impl AccessChoice {
    /// Returns whether a source may be used. DAMON knows no threads, so it places nothing here.
    pub fn allows(self, kind: AccessSourceKind) -> bool {
        match self {
            Self::Auto => kind != AccessSourceKind::Damon,
            Self::Only(only) => kind == only,
            Self::Off => false,
        }
    }

    /// Returns the reason for which a machine without any such source has none.
    pub(super) fn why_none(self) -> &'static str {
        match self {
            Self::Auto => "this machine has no source of accesses",
            Self::Only(_) => "this machine does not have the chosen source of accesses",
            Self::Off => "sources of accesses are switched off",
        }
    }
}

/// Settings of a balancer. They may change between two rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceSettings {
    /// Time from one round to the next, in nanoseconds.
    pub interval_ns: u64,
    /// Maximum number of bytes moved per second, for all processes together.
    pub budget_bytes_per_s: u64,
    /// Maximum number of bytes moved per second, for each process.
    pub process_budget_bytes_per_s: u64,
    /// Maximum number of bytes moved per second for the groups that a user other than root made by
    /// calls.
    pub user_budget_bytes_per_s: u64,
    /// Maximum time for which the kernel holds pages while it moves them, in nanoseconds; unlimited
    /// if `None`.
    pub stall_ns: Option<u64>,
    /// The nice value of the threads that move memory, while they do; their own if `None`.
    pub nice: Option<i8>,
    /// True if threads are pinned to their home until another program changes their affinity.
    /// Otherwise they are nudged, and nothing is left to undo.
    pub pin: bool,
    /// True if the balancer acts; otherwise it only reports what it would do.
    pub act: bool,
    /// The balancer's action while other balancers are active.
    pub rivals: RivalMode,
    /// The source of accesses that observes processes that are wider than a node.
    pub access: AccessChoice,
    /// Nodes that are kept empty: nothing gets a home there, and what is there leaves.
    pub keep_empty: Nodemask,
    /// Wanted processes that are left alone all the same; none if the filter is empty.
    pub except: ProcessFilter,
    /// The groups of threads and memory, those that come first in the order of the settings first.
    pub groups: Vec<GroupSpec>,
    /// True if groups alone are placed. What is in none stays where it is.
    pub groups_only: bool,
    /// The rules of decisions.
    pub rules: Rules,
    /// A process is sampled again when its own memory has grown or shrunk by this part, in ppm.
    pub grown_ppm: u32,
    /// CPU time for looks while nothing changes, in ppm of a CPU for 1,000 threads.
    pub steady_ppm: u32,
    /// CPU time for looks while processes are brought home, in the same unit.
    pub converging_ppm: u32,
    /// Maximum half-width of the 95 % interval of a share of memory, in ppm.
    pub reach_ppm: u64,
}

impl Default for BalanceSettings {
    fn default() -> Self {
        Self {
            interval_ns: 1_000_000_000,
            budget_bytes_per_s: 4 << 30,
            process_budget_bytes_per_s: 2 << 30,
            user_budget_bytes_per_s: 1 << 30,
            stall_ns: Some(1_000_000),
            nice: None,
            pin: false,
            act: true,
            rivals: RivalMode::StandBack,
            access: AccessChoice::Auto,
            keep_empty: Nodemask::new(),
            except: ProcessFilter::default(),
            groups: Vec::new(),
            groups_only: false,
            rules: Rules::default(),
            grown_ppm: 100_000,
            steady_ppm: 3_000,
            converging_ppm: 20_000,
            reach_ppm: 50_000,
        }
    }
}

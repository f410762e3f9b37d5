//! What a balancer may do, and how hard it tries.

use nodeward_machine::AccessSourceKind;
use nodeward_model::ProcessFilter;
use nodeward_policy::placement::Rules;
use serde::{Deserialize, Serialize};

/// What is done while somebody else moves memory or threads between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRivals {
    /// Only look: what would have been done is told with the reason `rival`.
    #[default]
    StandBack,
    /// Act as if nobody else did.
    Ignore,
}

/// Which source tells which thread uses which page of a process that is wider than a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessChoice {
    /// The first of the machine's that works.
    #[default]
    Auto,
    /// This one only.
    Only(AccessSourceKind),
    /// None: pages of such processes stay where they are.
    Off,
}

impl AccessChoice {
    /// Whether a source may be used. DAMON knows no threads, so it places nothing here.
    pub fn allows(self, kind: AccessSourceKind) -> bool {
        match self {
            Self::Auto => kind != AccessSourceKind::Damon,
            Self::Only(only) => kind == only,
            Self::Off => false,
        }
    }

    /// Why a machine without any such source has none.
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
    /// From one round to the next, in nanoseconds.
    pub interval_ns: u64,
    /// Memory moved in a second at most, in bytes; of all processes together.
    pub budget_bytes_per_s: u64,
    /// Memory of one process moved in a second at most, in bytes.
    pub process_budget_bytes_per_s: u64,
    /// Pages are held for no longer than this at a time while they move, in nanoseconds.
    pub stall_ns: Option<u64>,
    /// Whether threads are kept at home by their affinity, until somebody changes it; else they are
    /// nudged there, and nothing is left to undo.
    pub pin: bool,
    /// Whether anything is done; else it is only told what would be.
    pub act: bool,
    /// What is done about other balancers.
    pub rivals: OnRivals,
    /// What observes processes that are wider than a node.
    pub access: AccessChoice,
    /// Processes to leave alone, though they are wanted; none if it names nothing.
    pub except: ProcessFilter,
    /// What decisions go by.
    pub rules: Rules,
    /// When its own memory grew or shrank by this part, a process is looked into again.
    pub grown_ppm: u32,
    /// What looking may cost while nothing changes, in ppm of a CPU for 1,000 threads.
    pub steady_ppm: u32,
    /// What it may cost while processes are being brought home.
    pub converging_ppm: u32,
    /// How far the interval of a share of memory may reach, in ppm.
    pub reach_ppm: u64,
}

impl Default for BalanceSettings {
    fn default() -> Self {
        Self {
            interval_ns: 1_000_000_000,
            budget_bytes_per_s: 4 << 30,
            process_budget_bytes_per_s: 2 << 30,
            stall_ns: Some(1_000_000),
            pin: false,
            act: true,
            rivals: OnRivals::StandBack,
            access: AccessChoice::Auto,
            except: ProcessFilter::default(),
            rules: Rules::default(),
            grown_ppm: 100_000,
            steady_ppm: 3_000,
            converging_ppm: 20_000,
            reach_ppm: 50_000,
        }
    }
}

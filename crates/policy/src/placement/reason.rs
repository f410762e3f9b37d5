//! Reasons: for the home of an entity, and for its threads and its memory to move or to stay.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $advice:literal;)*) => {
        /// The reason for which something is done or not. The set of reasons is documented and
        /// closed.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name in output and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// One line for people: what it means, and what would change it.
            pub fn advice(self) -> &'static str {
                match self {
                    $(Self::$name => $advice,)*
                }
            }
        }
    };
}

reasons! {
    // Left without a home.

    /// The process had too little CPU time yet.
    TooYoung = "too-young", "it ran too short a time; it is looked at again when it ran longer";
    /// A memory policy of the process says where its memory goes.
    ExplicitPolicy = "explicit-policy", "it has a memory policy of its own, which stands";
    /// The control group of the process is frozen.
    Frozen = "frozen", "its control group is frozen; it is looked at again when it runs";
    /// We may not act on the process.
    Denied = "denied", "we may not move it; run as its user or with CAP_SYS_NICE";
    /// The kernel is moving pages of the process now.
    KernelMoves =
        "kernel-moves", "the kernel is moving its pages; it is looked at again when that has ended";
    /// Another balancer acts on the process.
    Rival = "rival", "another balancer moves it; switch that off, or tell us to ignore it";
    /// All threads of the process belong to groups.
    Grouped = "grouped", "all its threads belong to groups, which have homes of their own";
    /// The user excluded the process.
    Excluded = "excluded", "the settings leave it out";
    /// The process is the balancer itself.
    Ourselves = "ourselves", "it is nodeward itself, which moves nothing of its own";
    /// The machine has one node with CPUs.
    OneNode = "one-node", "the machine has one node with CPUs; nothing to choose";
    /// Affinity and cpuset have no node in common.
    NoNodeAllowed = "no-node-allowed", "a busy thread may use no node's CPUs and memory";

    /// The process has no threads.
    NoThreads = "no-threads", "it has no threads to be near to";
    /// An affinity leaves the process too few CPUs on any one node.
    NarrowAffinity = "narrow-affinity", "its affinity leaves too few CPUs on any one node";
    /// The process mostly starts others.
    Launcher = "launcher", "what it starts runs more than itself, and begins beside it";

    // A home, and why there.

    /// Most of the memory is there.
    MemoryThere = "memory-there", "its memory is there, and the node's CPUs have time for it";
    /// The threads are there, and there is next to no memory.
    RunsThere = "runs-there", "it runs there, and the node's CPUs have time for it";
    /// The node of the memory has too much to do.
    Idlest = "idlest", "the node of its memory has too much to do; this one has least";
    /// Affinity and cpuset leave no other node.
    OnlyThere = "only-there", "its affinity and its cpuset leave no other node";
    /// That home was set for the group.
    GroupHome = "group-home", "that home was set for its group; its memory goes there";
    /// The threads are at home with their groups.
    WithGroups = "with-groups", "its threads are at home with their groups, on these nodes";
    /// The entity is too large for one node.
    LargerThanNode = "larger-than-node", "no node is large enough for it; spread over several";
    /// No node has time for all threads.
    FitsNoNode = "fits-no-node", "no node has time for all its threads; spread over several";
    /// Affinities leave the threads no node in common.
    BoundApart = "bound-apart", "its threads are bound to different nodes; spread over these";
    /// The home moves because the old one was the busiest node.
    Busiest = "busiest", "its node had more to do than its share, and this one less";
    /// The home moves because the old one had no time for its threads while they worked.
    CrowdedOut =
        "crowded-out", "its threads had no time on their node when they worked; they run here";
    /// The home moves because the old one had no room for memory.
    MemoryShort = "memory-short", "its node had no room for its memory, and this one has";
    /// The home moves because it may no longer be where it was.
    Displaced = "displaced", "its old home went offline, or it may not be there any more";
    /// The memory goes to several nodes because one memory controller delivers all it can.
    Bottleneck = "bottleneck", "the memory controller of its node delivers all that it can";
    /// The memory comes back from several nodes because one memory controller is enough again.
    Eased = "eased", "one memory controller is enough for it again; its memory comes home";

    // Why threads that are away stay there.

    /// The home node would have too much to do.
    HomeBusy = "home-busy", "its home has no time for them now; they stay where CPUs are idle";
    /// An affinity does not let the threads run at home.
    OutOfReach = "out-of-reach", "their affinity does not let them run at home";

    /// The kernel's balancing wants threads of the process elsewhere, or may still do so.
    KernelPrefers =
        "kernel-prefers", "the kernel prefers another node for its threads, or may still do so";

    // Why memory moves or stays.

    /// The memory moves, because that pays.
    Pays = "pays", "remote accesses cost more than the move within the horizon";
    /// No memory is away from home.
    AllHome = "all-home", "all its memory that can be moved is where it belongs";
    /// The move would cost more than it saves.
    DoesNotPay = "does-not-pay", "moving it would cost more than it saves within the horizon";
    /// The home is full.
    NoRoom = "no-room", "its home has no room; free memory there";
    /// The home is short of memory.
    Pressed = "pressed", "memory is short on its home; it moves when that has ended";
    /// Tasks stand still for want of memory, wherever.
    Stalled = "stalled", "tasks stand still for want of memory; it moves when that has ended";
    /// Moves before this one were for nothing, or memory was moved a moment ago.
    Waits = "waits", "the last move brought little; the next one waits";
    /// Several moves were for nothing.
    GivenUp = "given-up", "several moves brought little; tried again when its memory changes";
    /// No residency sample was taken since the last move.
    NotMeasured = "not-measured", "where its memory is was not looked at since the last move";
    /// Memory is not moved at all.
    ThreadsOnly = "threads-only", "the settings say that memory stays";
    /// The memory is placed page by page.
    ByPage = "by-page", "its memory is on its nodes; accesses say which page goes where";
    /// The kernel places the pages of what belongs to several nodes or processes.
    ByKernel = "by-kernel", "it belongs to several nodes or processes, and the kernel places it";

    // Why a segment that several processes map moves or stays, beside those of memory.

    /// We may not move memory that other processes map.
    SharedMemory = "shared-memory", "several processes map it; moving it needs CAP_SYS_NICE";
    /// Nobody uses the segment.
    Unused = "unused", "no process that maps it runs to speak of";
    /// A process that uses the segment has no home.
    UsersUnsettled = "users-unsettled", "a process that uses it has no home, so it has none either";
    /// The users of the segment are at home on several nodes. Accesses tell which range goes where.
    UsersApart = "users-apart", "its users are at home on several nodes, and it is on these";

    // What is kept empty.

    /// The entity may only be on nodes that are kept empty, or memory leaves such a node.
    KeptEmpty = "kept-empty", "the settings keep the node empty; what is bound there stays";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

//! Explanations of the balancer's reasons: meaning, cause and remedy.

use nodeward_policy::placement::Reason;

/// The explanation of a reason.
pub struct ReasonText {
    /// Its meaning.
    pub meaning: &'static str,
    /// Its cause.
    pub cause: &'static str,
    /// Its remedy.
    pub remedy: &'static str,
}

const NOTHING: &str = "nothing: this is as it should be";
const LEFT_ALONE: &str = "the user placed it, and knows more about it than the balancer";

/// Returns the explanation of a reason.
pub fn reason_text(reason: Reason) -> ReasonText {
    let groups = [left_by_choice, left_by_need, home, new_home, threads, memory, segments];
    let words = groups.into_iter().find_map(|group| group(reason));
    let (means, why, what_to_do) =
        words.unwrap_or((reason.advice(), "the rule of placement decides so", NOTHING));
    ReasonText { meaning: means, cause: why, remedy: what_to_do }
}

type ReasonParts = (&'static str, &'static str, &'static str);

fn left_by_choice(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::TooYoung => (
            "the process had less CPU time than balance.run-time-min",
            "most processes end soon, and moving them costs more than it saves",
            "wait, or lower balance.run-time-min",
        ),
        Reason::ExplicitPolicy => (
            "the process told the kernel where all its memory goes (set_mempolicy, numactl, \
             nodeward run)",
            LEFT_ALONE,
            "start it without numactl --membind, --preferred or --interleave",
        ),
        Reason::KeptEmpty => (
            "balance.keep-empty names the only node where the process may be, by its affinity, its \
             cpuset or the home of its group; or its memory leaves such a node",
            "the user wants the node empty, and what is bound there cannot leave",
            "let it go elsewhere (taskset, cpuset), or take the node out of balance.keep-empty",
        ),
        Reason::Frozen => (
            "the control group of the process is frozen",
            "a frozen process uses no memory, and its threads cannot be moved",
            "nothing; the balancer looks at it again when it runs",
        ),
        Reason::Denied => (
            "nodeward may not move the memory or the threads of the process",
            "it belongs to another user, or a privilege is missing",
            "run as root, or with CAP_SYS_NICE and CAP_SYS_PTRACE (nodeward doctor)",
        ),
        Reason::Rival => (
            "another balancer is active on this machine, and nodeward balance stands back",
            "two balancers that move the same pages undo each other's work",
            "switch the other off (nodeward balance names it); beside the kernel, set \
             balance.rivals to cooperate or take-over",
        ),
        Reason::KernelMoves => (
            "the kernel's NUMA balancing moves pages of the process now, or did a moment ago, or \
             it is not known whether it does (balance.rivals = cooperate)",
            "two balancers that move the same pages undo each other's work; the kernel tells by \
             the numa_pages_migrated of each thread (/proc/PID/task/TID/sched)",
            "nothing; 4 s after the kernel is done, and longer each time, it gets a home",
        ),
        Reason::Excluded => (
            "the settings leave the process out (balance.except-names and the like)",
            LEFT_ALONE,
            "nodeward config print shows which file sets this",
        ),
        Reason::Grouped => (
            "all threads of the process belong to groups, and none of these takes what its threads \
             access",
            "groups have homes of their own, with their threads and their memory",
            "nodeward group list shows the groups and their homes",
        ),
        Reason::Ourselves => (
            "the process is the balancer itself",
            "it has little memory and runs seldom, so moving it would cost more than it saves",
            "nothing",
        ),
        _ => return None,
    })
}

fn left_by_need(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::OneNode => (
            "the machine has one node with CPUs",
            "there is nothing to choose",
            "nothing; memory on nodes without CPUs is not balanced",
        ),
        Reason::NoNodeAllowed => (
            "some busy thread of the process has no node with both CPUs and memory that it may use",
            "its affinity and its cpuset have no node in common",
            "widen cpuset.cpus or cpuset.mems of its control group, or its affinity (taskset)",
        ),
        Reason::NoThreads => (
            "the balancer saw no thread of the process",
            "memory moves to threads, and there are none",
            "nothing; such a process ends",
        ),
        Reason::NarrowAffinity => (
            "the affinity of the process leaves it too few CPUs on any one node",
            "on one node its threads would wait for each other, and the user chose these CPUs",
            "widen its affinity (taskset -p)",
        ),
        Reason::Launcher => (
            "the processes that it started and saw end had more CPU time than itself",
            "children begin where their parent runs, so all of them would begin on its home",
            "nothing; its children get homes of their own when they have run long enough",
        ),
        _ => return None,
    })
}

fn home(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::MemoryThere => (
            "most of its memory is on that node, and the node's CPUs have time for it",
            "moving threads takes microseconds, moving memory seconds",
            NOTHING,
        ),
        Reason::RunsThere => (
            "its threads run there, and it has hardly any memory on other nodes",
            "a home where it already runs needs no move",
            NOTHING,
        ),
        Reason::Idlest => (
            "the node of its memory has too much to do, and this one has least",
            "threads lose more time by waiting for a CPU than by waiting for remote memory",
            NOTHING,
        ),
        Reason::OnlyThere => (
            "its affinity and its cpuset leave no other node",
            "nodeward changes neither affinities nor cpusets for good",
            "widen cpuset.cpus and cpuset.mems of its control group, or its affinity (taskset -p)",
        ),
        Reason::GroupHome => (
            "that home was set for its group, by a rule of the settings or by a call",
            "who sets a home knows more of the program than its load and its memory tell",
            "set another home, or auto: nodeward group set-home, or home of the rule",
        ),
        Reason::WithGroups => (
            "its threads are at home on these nodes with their groups, and its pages go to those \
             who access them",
            "no rule says whose memory it is, so accesses decide",
            "a source of accesses places its pages: nodeward doctor lists those of this machine",
        ),
        Reason::LargerThanNode => (
            "its memory, or what its threads want while they work, is more than any node has, so \
             its home is the fewest nodes that suffice",
            "what does not fit on one node is on another in any case; threads that wait at home \
             would lose more than by remote memory",
            "a source of accesses places its pages: nodeward doctor lists those of this machine",
        ),
        Reason::FitsNoNode => (
            "no node has CPU time for all its threads, so its home is several nodes",
            "threads lose more time by waiting for a CPU than by waiting for remote memory",
            "a source of accesses places its pages: nodeward doctor lists those of this machine",
        ),
        Reason::BoundApart => (
            "its busy threads are bound to CPUs of different nodes, so its home is all of these",
            "threads stay where they must; what is left to choose is which page goes to which node",
            "a source of accesses places its pages: nodeward doctor lists those of this machine",
        ),
        _ => return None,
    })
}

fn new_home(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::Busiest => (
            "its node had more load than its share for some time, and this one less",
            "homes leave the busiest node, light ones first, until load or memory is balanced",
            "nothing; a home that moves again stays twice as long each time",
        ),
        Reason::CrowdedOut => (
            "its node had no time for its threads whenever they worked, and this one had",
            "a mean load says what a node has to do, not when: what works at the same time as the \
             others there runs elsewhere, far from its memory",
            "nothing; its memory follows if that pays",
        ),
        Reason::MemoryShort => (
            "its node had no room for its memory, and this one has",
            "memory that does not fit would stay on other nodes for ever",
            "nothing, or free memory on its old node (nodeward show)",
        ),
        Reason::Displaced => (
            "its old home went offline, or it may no longer use it",
            "the machine, its affinity or its cpuset was changed",
            NOTHING,
        ),
        Reason::Bottleneck => (
            "the memory controller of its node delivers all that it can, so that its memory is \
             spread over several nodes",
            "remote memory with free bandwidth is faster than local memory without",
            "nothing, or run fewer such programs on that node",
        ),
        Reason::Eased => (
            "its memory comes home from several nodes, as one memory controller is enough for it \
             again",
            "all of them together deliver less than half of what saturates one",
            NOTHING,
        ),
        _ => return None,
    })
}

fn threads(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::HomeBusy => (
            "its home has no CPU time for the threads that are away",
            "a thread is never brought to a node where it would wait, while CPUs are idle \
             elsewhere",
            "nothing; they come home when CPUs there have time",
        ),
        Reason::OutOfReach => (
            "the affinity of the threads that are away does not let them run at home",
            LEFT_ALONE,
            "widen their affinity (taskset -p)",
        ),
        Reason::KernelPrefers => (
            "the kernel's NUMA balancing prefers another node than home for its threads, or may \
             still: its memory waits while they had less than 5 s of CPU time",
            "the kernel would bring threads and pages back, so its decision stands \
             (balance.rivals = cooperate)",
            "nothing, or start it with nodeward run --no-kernel-balancing",
        ),
        _ => return None,
    })
}

fn memory(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::Pays => (
            "its memory moves home, because its remote accesses cost more than the move",
            "the cost of a page is measured; the gain is computed from run time and distances",
            NOTHING,
        ),
        Reason::AllHome => (
            "all its memory that can be moved is at home",
            "it was brought there, \
             or it was allocated there",
            NOTHING,
        ),
        Reason::DoesNotPay => (
            "moving its memory would cost more than it saves within balance.horizon, or save next \
             to nothing",
            "a process that seldom runs, or has little memory there, seldom waits for it",
            "lengthen balance.horizon, or move it by hand (nodeward move)",
        ),
        Reason::NoRoom => (
            "its home has no room for its memory",
            "nodeward never fills a node, because the kernel would have to reclaim memory there",
            "free memory there (nodeward show), or move other memory away",
        ),
        Reason::Pressed => (
            "memory is short on its home",
            "a move would take more memory there",
            "nothing; the move continues when that has ended",
        ),
        Reason::Stalled => (
            "tasks stall for want of memory for more than a tenth of the time \
             (/proc/pressure/memory)",
            "a move takes memory before it gives any back, so stalled tasks would wait longer",
            "nothing; the move continues when that has ended (nodeward explain PID has the number)",
        ),
        Reason::Waits => (
            "the last move brought little, or was just made, and the next one waits",
            "each wait is twice as long as the one before, so that no page moves to and fro",
            "nothing (nodeward explain PID has the time)",
        ),
        Reason::GivenUp => (
            "several moves in a row brought little, so there are no more",
            "the memory is pinned, or another program moves it back",
            "nodeward doctor names who moves pages here; moves begin again when its memory changes",
        ),
        Reason::NotMeasured => (
            "its memory was not sampled since the last move",
            "samples cost CPU time, so a round takes only some",
            "nothing; its turn comes",
        ),
        Reason::ThreadsOnly => (
            "the settings forbid memory moves (balance.move-memory)",
            "balance.move-memory is false",
            "nodeward config print shows which file sets this",
        ),
        Reason::ByPage => (
            "its memory is on its nodes; accesses of its threads say which page belongs on which",
            "pages follow the threads that use them, as far as a source of accesses shows that",
            "nodeward doctor lists the sources here; once, nodeward move PID --hot SOURCE",
        ),
        Reason::ByKernel => (
            "it is at home on several nodes, or most of what it uses are segments, and the \
             kernel's NUMA balancing places its pages",
            "the kernel sees by its faults which thread uses which page, and would bring back \
             what is placed otherwise (balance.rivals = cooperate)",
            NOTHING,
        ),
        _ => return None,
    })
}

fn segments(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::SharedMemory => (
            "several processes map the segment, and we may not move what others map",
            "moving it changes the memory of all who map it, for which the kernel asks for \
             CAP_SYS_NICE",
            "run as root or with CAP_SYS_NICE",
        ),
        Reason::Unused => (
            "no process that maps the segment runs to speak of",
            "a segment belongs where those who use it run, and nobody does",
            NOTHING,
        ),
        Reason::UsersUnsettled => (
            "a process that uses the segment has no home",
            "whoever is left without a home may run anywhere, and the segment would follow nobody",
            "nodeward explain PID tells why the process has no home",
        ),
        Reason::UsersApart => (
            "those who use the segment are at home on several nodes, and it is on these nodes",
            "nearer to one of them is farther from another; a range that one node uses alone, as \
             far as accesses are known, goes to that node",
            "nothing, or keep all who use it on one node (cpuset, taskset -p)",
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every reason has a text of its own.
    #[test]
    fn every_reason_has_words_of_its_own() {
        for &reason in Reason::ALL {
            assert_ne!(reason_text(reason).cause, "the rule of placement decides so", "{reason}");
        }
    }
}

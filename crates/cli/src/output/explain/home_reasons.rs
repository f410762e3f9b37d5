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
const LEFT_ALONE: &str = "whoever placed it knows more about it than the balancer does";

/// Returns the explanation of a reason.
pub fn reason_text(reason: Reason) -> ReasonText {
    let groups = [left_by_choice, left_by_need, home, new_home, threads, memory];
    let words = groups.into_iter().find_map(|group| group(reason));
    let (means, why, what_to_do) = words.unwrap_or((reason.advice(), "it is decided so", NOTHING));
    ReasonText { meaning: means, cause: why, remedy: what_to_do }
}

type ReasonParts = (&'static str, &'static str, &'static str);

fn left_by_choice(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::TooYoung => (
            "the process had less CPU time than balance.run-time-min",
            "most processes end soon, and moving those costs more than it brings",
            "wait, or lower balance.run-time-min",
        ),
        Reason::ExplicitPolicy => (
            "the process told the kernel where all its memory goes (set_mempolicy, numactl, \
             nodeward run)",
            LEFT_ALONE,
            "start it without numactl --membind, --preferred or --interleave",
        ),
        Reason::Frozen => (
            "the control group of the process is frozen",
            "a process that does not run uses no memory, and threads cannot be brought anywhere",
            "nothing; it is looked at again when it runs",
        ),
        Reason::Denied => (
            "we may not move the memory or the threads of the process",
            "it belongs to another user, or a privilege is missing",
            "run as root, or with CAP_SYS_NICE and CAP_SYS_PTRACE (nodeward doctor)",
        ),
        Reason::Rival => (
            "somebody else balances on this machine, and nodeward balance stands back",
            "two that move the same pages undo each other's work",
            "switch the other off (nodeward balance names it), or set balance.rivals to ignore",
        ),
        Reason::Excluded => (
            "the settings leave the process out (balance.except-names and the like)",
            LEFT_ALONE,
            "nodeward config print tells which file says so",
        ),
        Reason::Ourselves => (
            "the process is the nodeward that balances",
            "it has little memory, runs seldom, and would move what it moves with",
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
            "no node has both CPUs and memory that the process may use",
            "its affinity and its cpuset have no node in common",
            "widen cpuset.cpus or cpuset.mems of its control group, or its affinity (taskset)",
        ),
        Reason::NoThreads => (
            "the process has no threads that are seen",
            "memory is brought to threads, and there are none",
            "nothing; such a process ends",
        ),
        Reason::NarrowAffinity => (
            "the affinity of the process leaves it too few CPUs on any one node",
            "on one node its threads would wait for each other, and somebody chose these CPUs",
            "widen its affinity (taskset -p)",
        ),
        Reason::Launcher => (
            "the processes that it started and saw end had more CPU time than itself",
            "what is started begins where its starter runs: all of it would begin on one node",
            "nothing; what it starts gets homes of its own when it has run long enough",
        ),
        _ => return None,
    })
}

fn home(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::MemoryThere => (
            "most of its memory is on that node, and the node's CPUs have time for it",
            "threads are moved in microseconds, memory in seconds",
            NOTHING,
        ),
        Reason::RunsThere => (
            "its threads run there, and it has no memory to speak of elsewhere",
            "who is left where it is costs nothing",
            NOTHING,
        ),
        Reason::Idlest => (
            "the node of its memory has too much to do, and this one has least",
            "a CPU that waits for another CPU loses more than one that waits for memory",
            NOTHING,
        ),
        Reason::OnlyThere => (
            "its affinity and its cpuset leave no other node",
            "where it may run and where it may have memory is not for us to change",
            "widen cpuset.cpus and cpuset.mems of its control group, or its affinity (taskset -p)",
        ),
        Reason::LargerThanNode => (
            "its memory is larger than any node, so it is at home on the fewest that are enough",
            "what does not fit is elsewhere in any case",
            "counts of who uses which page place it better: nodeward balance --samples FILE",
        ),
        Reason::FitsNoNode => (
            "no node has time for all its threads, so it is at home on several",
            "threads in line for a CPU lose more than memory in the wrong place costs",
            "counts of who uses which page place it better: nodeward balance --samples FILE",
        ),
        _ => return None,
    })
}

fn new_home(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::Busiest => (
            "its node had more to do than its share for some time, and this one less",
            "homes leave the busiest node, light ones first, until the smaller imbalance is gone",
            "nothing; if homes go to and fro, each stays twice as long as the one before",
        ),
        Reason::MemoryShort => (
            "its node had no room for its memory, and this one has",
            "memory that does not fit would stay elsewhere for ever",
            "nothing, or free memory on its old node (nodeward show)",
        ),
        Reason::Displaced => (
            "its old home went offline, or it may no longer use it",
            "somebody changed the machine, its affinity or its cpuset",
            NOTHING,
        ),
        Reason::Bottleneck => (
            "the memory controller of its node delivers all that it can, so that its memory is \
             spread over several nodes",
            "remote memory that comes is better than memory near by that does not",
            "nothing, or run fewer such programs on that node",
        ),
        Reason::Eased => (
            "its memory comes home from several nodes, as one memory controller is enough for it \
             again",
            "what all of them deliver is less than half of what would make one a bottleneck",
            NOTHING,
        ),
        _ => return None,
    })
}

fn threads(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::HomeBusy => (
            "its home has no time for the threads that are away",
            "a thread is never brought to a node where it would wait, while CPUs are idle \
             elsewhere",
            "nothing; they come home when there is time for them",
        ),
        Reason::OutOfReach => (
            "the affinity of the threads that are away does not let them run at home",
            LEFT_ALONE,
            "widen their affinity (taskset -p)",
        ),
        _ => return None,
    })
}

fn memory(reason: Reason) -> Option<ReasonParts> {
    Some(match reason {
        Reason::Pays => (
            "memory is brought home: its remote accesses cost more than the move",
            "what a move costs is known by the page, what it saves by run time and distance",
            NOTHING,
        ),
        Reason::AllHome => (
            "all its memory that can be moved is at home",
            "it was brought there, \
             or it was allocated there",
            NOTHING,
        ),
        Reason::DoesNotPay => (
            "moving its memory would cost more than it saves within balance.horizon",
            "a process that seldom runs, or has little there, seldom waits for it",
            "lengthen balance.horizon, or move it by hand (nodeward move)",
        ),
        Reason::NoRoom => (
            "its home has no room for its memory",
            "a node is never filled up: the kernel would have to throw out what is there",
            "free memory there (nodeward show), or move something away",
        ),
        Reason::Pressed => (
            "memory is short on its home",
            "moves at such a time make it shorter",
            "nothing; it goes on when that has ended",
        ),
        Reason::Stalled => (
            "tasks stand still for want of memory for more than a tenth of the time \
             (/proc/pressure/memory)",
            "a move takes memory before it gives any back, and whoever waits would wait longer",
            "nothing; it goes on when that has ended (nodeward explain PID tells how much it is)",
        ),
        Reason::Waits => (
            "the last move brought little, or was a moment ago, and the next one waits",
            "each wait is twice as long as the one before, so that nothing goes to and fro",
            "nothing (nodeward explain PID tells for how long)",
        ),
        Reason::GivenUp => (
            "several moves brought little, and there are no more",
            "the memory is pinned, or somebody else brings it back",
            "nodeward doctor tells who moves pages here; it is tried again when its memory changes",
        ),
        Reason::NotMeasured => (
            "where its memory is was not looked at since the last move",
            "looking costs, so there is only so much of it in a round",
            "nothing; its turn comes",
        ),
        Reason::ThreadsOnly => (
            "the settings say that memory stays (balance.move-memory)",
            "somebody wants it so",
            "nodeward config print tells which file says so",
        ),
        Reason::ByPage => (
            "its memory is on its nodes, and which page should be on which is not known",
            "that only counts of accesses tell",
            "nodeward balance --samples FILE; once and for all, nodeward move PID --hot SOURCE",
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
            assert_ne!(reason_text(reason).cause, "it is decided so", "{reason}");
        }
    }
}

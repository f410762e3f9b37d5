//! What each skip reason means, why the kernel leaves such pages, and what to do.

use nodeward_model::SkipReason;
use serde_json::{Value, json};

/// Three answers.
struct Explanation {
    means: &'static str,
    why: &'static str,
    what_to_do: &'static str,
}

/// The reasons as paragraphs for people.
pub fn text(reasons: &[SkipReason]) -> String {
    let paragraph = |&reason: &SkipReason| {
        let Explanation { means, why, what_to_do } = explain(reason);
        format!(
            "{reason}\n  means:      {means}\n  why:        {why}\n  what to do: {what_to_do}\n"
        )
    };
    reasons.iter().map(paragraph).collect::<Vec<_>>().join("\n")
}

/// The reasons for programs.
pub fn json(reasons: &[SkipReason]) -> Value {
    let one = |&reason: &SkipReason| {
        let Explanation { means, why, what_to_do } = explain(reason);
        json!({ "reason": reason, "means": means, "why": why, "what_to_do": what_to_do })
    };
    let reasons: Vec<_> = reasons.iter().map(one).collect();
    json!({ "schema": "nodeward.explain/1", "reasons": reasons })
}

fn explain(reason: SkipReason) -> Explanation {
    match reason {
        SkipReason::Pinned | SkipReason::Shared | SkipReason::Unmovable => of_the_page(reason),
        SkipReason::NotPresent | SkipReason::Swapped | SkipReason::Gone => of_absence(reason),
        SkipReason::NoMemory | SkipReason::NoHugePage | SkipReason::NotAllowed => of_room(reason),
        SkipReason::WrongNode
        | SkipReason::StallBudget
        | SkipReason::Interrupted
        | SkipReason::Refused => of_the_move(reason),
    }
}

/// The page itself cannot be taken from where it is.
fn of_the_page(reason: SkipReason) -> Explanation {
    match reason {
        SkipReason::Pinned => Explanation {
            means: "somebody beside the process holds the page, and did so for all attempts",
            why: "a device or a system call may write to the page's present place at any time, so \
                  the kernel moves no page with more references than it can account for",
            what_to_do: "repeat the move when direct I/O has ended; memory registered with RDMA, \
                         vfio, io_uring or a GPU stays until its owner lets go of it",
        },
        SkipReason::Shared => Explanation {
            means: "other processes map the page as well",
            why: "moving it changes their memory too, for which the kernel asks for CAP_SYS_NICE",
            what_to_do: "run as root or with CAP_SYS_NICE; name all processes that share it, and \
                         it is moved once",
        },
        _ => Explanation {
            means: "the page is of a kind that never moves",
            why: "the shared page of zeros has no node of its own to leave; pages of devices and \
                  of the kernel have addresses that others rely on",
            what_to_do: "nothing: the page of zeros costs no memory, and is replaced by a page on \
                         the right node at the first write",
        },
    }
}

/// There was no page to move.
fn of_absence(reason: SkipReason) -> Explanation {
    match reason {
        SkipReason::NotPresent => Explanation {
            means: "the page went away between looking and moving",
            why: "the process freed, unmapped or truncated it meanwhile",
            what_to_do: "nothing; memory that the process maps again is placed afresh, so give it \
                         a memory policy if it must not come back on the old node",
        },
        SkipReason::Swapped => Explanation {
            means: "the page is in swap, on no node",
            why: "it gets its node when it is read back, from the thread that touches it first",
            what_to_do: "run the threads on the new node; move again when the pages are back",
        },
        _ => Explanation {
            means: "the process ended, or called exec, before the page's turn or in its middle",
            why: "its memory is gone; nobody can tell any more where the page was",
            what_to_do: "nothing; name the new process if the program was started again",
        },
    }
}

/// The destination did not take it.
fn of_room(reason: SkipReason) -> Explanation {
    match reason {
        SkipReason::NoMemory => Explanation {
            means: "the destination had no free memory left",
            why: "the kernel asks for memory on exactly that node, and neither swaps nor waits \
                  for it",
            what_to_do: "free memory there (nodeward show), choose another node, or move less \
                         with --only or --range",
        },
        SkipReason::NoHugePage => Explanation {
            means: "the destination had no free huge page of that size",
            why: "a page of the hugetlb pool moves only into a free page of the same pool",
            what_to_do: "raise /sys/devices/system/node/nodeN/hugepages/hugepages-*/nr_hugepages \
                         of the destination",
        },
        _ => Explanation {
            means: "the process may not have memory on the destination",
            why: "its cpuset does not contain that node, and the kernel refuses the whole call",
            what_to_do: "widen cpuset.mems of its control group, or choose a node inside it",
        },
    }
}

/// It came about by how the move was made.
fn of_the_move(reason: SkipReason) -> Explanation {
    match reason {
        SkipReason::WrongNode => Explanation {
            means: "the page moved, but to another node than the one asked for",
            why: "a hugetlb page may come from another node's pool; or somebody else (automatic \
                  NUMA balancing, another tool) moved it at the same time",
            what_to_do: "look with nodeward show PID; nodeward doctor tells who moves pages here",
        },
        SkipReason::StallBudget => Explanation {
            means: "the page belongs to a folio that cannot be moved within --stall",
            why: "a folio is moved as a whole, and its threads wait for as long as that takes",
            what_to_do: "raise --stall, or move this memory at a time when a wait does no harm",
        },
        SkipReason::Interrupted => Explanation {
            means: "the move was asked to stop before the page's turn",
            why: "Ctrl-C, or an error that ended the work; what was moved stays moved",
            what_to_do: "run the same command again: it goes on with what is left",
        },
        _ => Explanation {
            means: "the kernel refused with an error that is none of the others",
            why: "unknown to nodeward",
            what_to_do: "run with RUST_LOG=debug to see the error, and tell us",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every reason has its own words, and all of them are said.
    #[test]
    fn every_reason_is_explained() {
        insta::assert_snapshot!(text(&SkipReason::ALL));
    }

    #[test]
    fn the_json_names_its_schema() {
        let one = json(&[SkipReason::Pinned]);
        assert_eq!(one["schema"], "nodeward.explain/1");
        assert_eq!(one["reasons"][0]["reason"], "pinned");
        assert!(one["reasons"][0]["what_to_do"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

//! Explanations of reasons, both of pages that stay and of the balancer's decisions: meaning, cause
//! and remedy.

mod home_reasons;

use nodeward_agent::Explained;
use nodeward_model::SkipReason;
use nodeward_policy::placement::Reason;
use serde_json::{Value, json};

use super::balance::explanation;
use super::paragraph::labelled;
use crate::results::ProcessExplanation;
use home_reasons::ReasonText;

/// Formats the requested explanations, as paragraphs for people.
pub fn text(skipped: &[SkipReason], homes: &[Reason], processes: &[Explained]) -> String {
    let skipped = skipped
        .iter()
        .map(|&reason| paragraph(reason.name(), meaning(reason), cause(reason), remedy(reason)));
    let homes = homes.iter().map(|&reason| {
        let ReasonText { meaning: means, cause: why, remedy: what_to_do } =
            home_reasons::reason_text(reason);
        paragraph(reason.name(), means, why, what_to_do)
    });
    let processes = processes.iter().map(|explained| explained.text.clone());
    processes.chain(skipped).chain(homes).collect::<Vec<_>>().join("\n")
}

/// Formats the decision about a process, for programs and for people.
pub fn process(would: &ProcessExplanation) -> Explained {
    Explained { document: json!(explanation::document(would)), text: explanation::text(would) }
}

/// Appends the same, as the agent replies it.
pub fn append_process(would: &ProcessExplanation, json: &mut Vec<u8>) {
    let document = explanation::document(would);
    let explained = Explained { document, text: explanation::text(would) };
    serde_json::to_writer(json, &explained).expect("keys are text or numbers");
}

fn paragraph(name: &str, means: &str, why: &str, what_to_do: &str) -> String {
    let parts =
        [("  means:      ", means), ("  why:        ", why), ("  what to do: ", what_to_do)];
    let parts: String = parts.iter().map(|(label, text)| labelled(label, text)).collect();
    format!("{name}\n{parts}")
}

/// Formats the same for programs.
pub fn json(skipped: &[SkipReason], homes: &[Reason], processes: &[Explained]) -> Value {
    let skipped = skipped.iter().map(|&reason| {
        reason_json("page", reason.name(), meaning(reason), cause(reason), remedy(reason))
    });
    let homes = homes.iter().map(|&reason| {
        let ReasonText { meaning: means, cause: why, remedy: what_to_do } =
            home_reasons::reason_text(reason);
        reason_json("process", reason.name(), means, why, what_to_do)
    });
    let reasons: Vec<_> = skipped.chain(homes).collect();
    let mut value = json!({ "schema": "nodeward.explain/1", "reasons": reasons });
    if !processes.is_empty() {
        value["processes"] = processes.iter().map(|explained| explained.document.clone()).collect();
    }
    value
}

fn reason_json(of: &str, name: &str, means: &str, why: &str, what_to_do: &str) -> Value {
    json!({ "reason": name, "of": of, "means": means, "why": why, "what_to_do": what_to_do })
}

/// Returns the meaning of a reason in an account.
fn meaning(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Pinned => {
            "somebody beside the process held the page at every attempt, the last of them when \
             all else was done"
        }
        SkipReason::Shared => "other processes map the page as well",
        SkipReason::SharedAfterFork => {
            "a child that fork(2) made still shares the page, or KSM merged it with equal ones"
        }
        SkipReason::NotPresent => "there is no page at that address, or not any more",
        SkipReason::Swapped => "the page is in swap, on no node",
        SkipReason::NoMemory => "the destination had no free memory left",
        SkipReason::NoHugePage => {
            "the destination had no free huge page of that size, nor room to make one"
        }
        SkipReason::NotAllowed => "the process may not have memory on the destination",
        SkipReason::Unmovable => "the page is of a kind that never moves",
        SkipReason::WrongNode => "the page moved, but to another node than the one asked for",
        SkipReason::StallBudget => {
            "the page is part of a larger one, which cannot be moved within --stall"
        }
        SkipReason::Interrupted => "the move was stopped before the page's turn",
        SkipReason::Gone => {
            "the process ended, or called exec, before the page's turn or in its middle"
        }
        SkipReason::Refused => "the kernel refused with an error that is none of the others",
        SkipReason::SharedAbove => {
            "the page is in a shared mapping or segment that is larger than --skip-shared-above"
        }
        SkipReason::PinnedUntried => {
            "other pages of the mapping were pinned, and --skip-pinned leaves the rest untried"
        }
    }
}

/// Returns why the kernel, or nodeward, leaves such pages.
fn cause(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Pinned => {
            "a device, a pipe or a system call may use the page's present place at any time, so \
             the kernel moves no page with a holder that it cannot account for; it holds pages \
             itself, too, for moments: when it looks for pages to free or to merge, for one"
        }
        SkipReason::SharedAfterFork => {
            "a page that two processes share cannot change its place in one of them; only memory \
             that a program manages with the nodeward library has this reason"
        }
        SkipReason::Shared => {
            "moving it changes their memory too, for which the kernel asks for CAP_SYS_NICE"
        }
        SkipReason::NotPresent => {
            "it was named (in a list, as hot) and never touched; or the process freed, unmapped or \
             truncated it meanwhile"
        }
        SkipReason::Swapped => {
            "it gets its node when it is read back, from the thread that touches it first"
        }
        SkipReason::NoMemory => {
            "the kernel asks for memory on exactly that node, and neither swaps nor waits for it"
        }
        SkipReason::NoHugePage => {
            "a page of the hugetlb pool moves only into a free page of the same pool"
        }
        SkipReason::NotAllowed => {
            "its cpuset does not contain that node, and the kernel refuses the whole call"
        }
        SkipReason::Unmovable => {
            "the shared page of zeros has no node of its own to leave; pages of devices and of \
             the kernel have addresses that others rely on"
        }
        SkipReason::WrongNode => {
            "a hugetlb page may come from another node's pool; or somebody else (automatic NUMA \
             balancing, another tool) moved it at the same time"
        }
        SkipReason::StallBudget => {
            "a huge page, or another larger one, is moved as a whole, and threads that touch it \
             wait for as long as that takes"
        }
        SkipReason::Interrupted => {
            "Ctrl-C, --deadline, or an error that ended the work; what was moved stays moved"
        }
        SkipReason::Gone => "its memory is gone; nobody can tell any more where the page was",
        SkipReason::Refused => "unknown to nodeward",
        SkipReason::SharedAbove => {
            "the command asked for it: large segments are often placed on purpose"
        }
        SkipReason::PinnedUntried => {
            "buffers of devices mostly fill their mappings; that this page is pinned is not certain"
        }
    }
}

/// Returns how to get such pages moved, if possible.
fn remedy(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Pinned => {
            "repeat the move: what was held for a moment moves then, and what direct I/O or a \
             pipe used, when that has ended; memory registered with RDMA, vfio, io_uring or a GPU \
             stays until its owner lets go of it"
        }
        SkipReason::SharedAfterFork => {
            "migrate again when the child has ended or called exec, or reserve the region so that \
             children do not get it (DontFork); keep KSM away by madvise(MADV_UNMERGEABLE)"
        }
        SkipReason::Shared => {
            "run as root or with CAP_SYS_NICE; name all processes that share it, and it is \
             moved once"
        }
        SkipReason::NotPresent => {
            "nothing; memory that the process maps again is placed afresh, so give it a memory \
             policy if it must not come back on the old node"
        }
        SkipReason::Swapped => {
            "run the threads on the new node; move again when the pages are back"
        }
        SkipReason::NoMemory => {
            "free memory there (nodeward show), choose another node, or move less with --only \
             or --range"
        }
        SkipReason::NoHugePage => {
            "raise /sys/devices/system/node/nodeN/hugepages/hugepages-*/nr_hugepages of the \
             destination"
        }
        SkipReason::NotAllowed => {
            "widen cpuset.mems of its control group, or choose a node inside it"
        }
        SkipReason::Unmovable => {
            "nothing: the page of zeros costs no memory, and is replaced by a page on the right \
             node at the first write"
        }
        SkipReason::WrongNode => {
            "look with nodeward show PID; nodeward doctor tells who moves pages here"
        }
        SkipReason::StallBudget => {
            "raise --stall (the move tells which budget would have been enough), or move this \
             memory at a time when a wait does no harm"
        }
        SkipReason::Interrupted => "run the same command again: it goes on with what is left",
        SkipReason::Gone => "nothing; name the new process if the program was started again",
        SkipReason::Refused => "run with RUST_LOG=debug to see the error, and tell us",
        SkipReason::SharedAbove => "raise the limit, or leave it out",
        SkipReason::PinnedUntried => {
            "repeat the move without --skip-pinned: what nobody holds moves then"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every reason has its own text, and all are printed.
    #[test]
    fn every_reason_is_explained() {
        insta::assert_snapshot!(text(&SkipReason::ALL, &[], &[]));
    }

    /// Goal: the same holds for every reason of the balancer.
    #[test]
    fn every_reason_of_the_balancer_is_explained() {
        insta::assert_snapshot!(text(&[], Reason::ALL, &[]));
    }

    #[test]
    fn the_json_names_its_schema() {
        let one = json(&[SkipReason::Pinned], &[Reason::Pays], &[]);
        assert_eq!(one["reasons"][1]["of"], "process");
        assert_eq!(one["schema"], "nodeward.explain/1");
        assert_eq!(one["reasons"][0]["reason"], "pinned");
        assert!(one["reasons"][0]["what_to_do"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

//! Saves the CPUs and nodes of threads, and brings threads there again.

use nodeward_machine::{Process, Result};
use nodeward_model::{AffinityOutcome, Cpumask, NodeId, ProcessSnapshot, ThreadSnapshot, Topology};
use nodeward_records::placement::{EscapedName, SavedThread};
use serde::Serialize;

use super::matching::{Unmatched, pair};

/// A thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentThread {
    /// The kernel's id.
    pub tid: u32,
    /// As it would be saved.
    pub thread: SavedThread,
}

/// Returns the threads of a process in ascending order of their ids, from a sample of it. A thread
/// that ended since is left out.
///
/// # Errors
/// If the process is gone.
pub fn present_threads(
    process: &dyn Process,
    sample: &ProcessSnapshot,
    topology: &Topology,
) -> Result<Vec<PresentThread>> {
    let names = process.traits()?.threads;
    let present = |sampled: &ThreadSnapshot| {
        let named = names.binary_search_by_key(&sampled.tid, |(tid, _)| *tid).ok()?;
        let cpus = Some(&*sampled.cpus).filter(|cpus| !topology.cpus.is_subset(cpus));
        let thread = SavedThread {
            name: EscapedName::from(&names[named].1),
            node: topology.node_of_cpu(sampled.cpu),
            cpus: cpus.cloned(),
        };
        Some(PresentThread { tid: sampled.tid, thread })
    };
    Ok(sample.threads.iter().filter_map(present).collect())
}

/// The choice between placing threads and only saying what would be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadMode {
    /// They are placed.
    Place,
    /// Only what would be tried is returned.
    Plan,
}

/// The result for a saved thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadOutcome {
    /// It is on the node where it ran; it may leave again.
    OnItsNode,
    /// It may run on the CPUs again on which it might, and on no others.
    Bound,
    /// No present thread has its name.
    NoneAlike,
    /// More or fewer threads have its name than had.
    Ambiguous,
    /// It was bound to CPUs, and the present thread is bound to some already: that stands.
    OwnAffinity,
    /// Its node or CPUs are not here, or it may not run there.
    NotAllowed,
    /// It sleeps, and would wake up where it was.
    Asleep,
    /// Another process changed its affinity meanwhile.
    Changed,
    /// It ended meanwhile.
    Gone,
}

impl ThreadOutcome {
    /// Returns true if it is where it was.
    pub fn is_placed(self) -> bool {
        matches!(self, Self::OnItsNode | Self::Bound)
    }

    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnItsNode => "on-its-node",
            Self::Bound => "bound",
            Self::NoneAlike => "none-alike",
            Self::Ambiguous => "ambiguous",
            Self::OwnAffinity => "own-affinity",
            Self::NotAllowed => "not-allowed",
            Self::Asleep => "asleep",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}

/// Brings the threads of a process to where they were, and returns what became of each.
///
/// # Errors
/// If the caller may not place them; then nothing was done.
pub fn restore_threads(
    process: &dyn Process,
    saved: &[SavedThread],
    present: &[PresentThread],
    topology: &Topology,
    action: ThreadMode,
) -> Result<Vec<ThreadOutcome>> {
    let then: Vec<_> = saved.iter().map(|thread| &thread.name).collect();
    let now: Vec<_> = present.iter().map(|it| &it.thread.name).collect();
    let paired = saved.iter().zip(pair(&then, &now));
    let outcomes = paired.map(|(thread, paired)| match paired {
        Ok(index) => place(process, thread, &present[index], (topology, action)),
        Err(Unmatched::NoneAlike) => Ok(ThreadOutcome::NoneAlike),
        Err(Unmatched::Ambiguous) => Ok(ThreadOutcome::Ambiguous),
    });
    outcomes.collect()
}

fn place(
    process: &dyn Process,
    saved: &SavedThread,
    present: &PresentThread,
    (topology, action): (&Topology, ThreadMode),
) -> Result<ThreadOutcome> {
    let done = match saved.cpus {
        Some(_) => ThreadOutcome::Bound,
        None => ThreadOutcome::OnItsNode,
    };
    let of_node = |node: NodeId| topology.nodes.get(&node).map(|node| node.cpus.clone());
    let cpus = saved.cpus.clone().or_else(|| of_node(saved.node?)).unwrap_or_default();
    let cpus: Cpumask = cpus.and(&topology.cpus);
    match (&saved.cpus, &present.thread.cpus) {
        _ if cpus.is_empty() => return Ok(ThreadOutcome::NotAllowed),
        (Some(_), Some(own)) if *own == cpus => return Ok(done),
        (Some(_), Some(_)) => return Ok(ThreadOutcome::OwnAffinity),
        _ if action == ThreadMode::Plan => return Ok(done),
        _ => {}
    }
    let placed = match saved.cpus {
        Some(_) => process.pin(present.tid, &cpus),
        None => process.nudge(present.tid, &cpus),
    };
    match placed {
        Ok(AffinityOutcome::Done) => Ok(done),
        Ok(AffinityOutcome::NotAllowed) => Ok(ThreadOutcome::NotAllowed),
        Ok(AffinityOutcome::Asleep) => Ok(ThreadOutcome::Asleep),
        Ok(AffinityOutcome::Changed) => Ok(ThreadOutcome::Changed),
        Ok(AffinityOutcome::Gone) => Ok(ThreadOutcome::Gone),
        Err(error) if error.is_gone() => Ok(ThreadOutcome::Gone),
        Err(error) => Err(error),
    }
}

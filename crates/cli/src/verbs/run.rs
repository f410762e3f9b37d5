//! `nodeward run`: starts a program at its home.

mod auto;

use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use nodeward_linux::confinement::{Confinement, PrivilegedAction};
use nodeward_linux::{Linux, device_nodes, mempolicy};
use nodeward_machine::Machine;
use nodeward_model::{AffinityOutcome, Cpumask, Escape as _, NodeId, Pid, Topology};

use crate::args::{HomeChoice, RunArgs};
use crate::message::exit::Exit;

/// Replaces this process with the program. Returns only on failure.
pub fn run(args: &RunArgs, flag: Option<&Path>) -> Result<Exit> {
    // The exit codes of the program must not be confused with ours.
    let placed = match args.home() {
        Some(home) => place_self(home, args.pin, flag),
        None => keep_kernel_away(),
    };
    if let Err(error) = placed {
        say!("nodeward: {error:#}");
        return Ok(Exit::HomeRefused);
    }
    let (program, words) = args.command.split_first().context("COMMAND is missing")?;
    let error = Command::new(program).args(words).exec();
    say!("nodeward: cannot start {}: {error}", program.escaped());
    Ok(match error.kind() {
        ErrorKind::NotFound => Exit::CommandNotFound,
        _ => Exit::CannotExecute,
    })
}

/// Moves this process home: this thread, which the program continues on, and the memory that it
/// will touch first. The policy for that keeps the kernel's NUMA balancing away from it, too.
fn place_self(home: HomeChoice, pin: bool, flag: Option<&Path>) -> Result<()> {
    let machine = Linux::open();
    let topology = machine.topology()?;
    let usable = machine.usable_cpus()?;
    let home = match home {
        HomeChoice::Node(node) => node,
        HomeChoice::Near(device) => device_nodes::near(Path::new("/"), &device, &topology)?,
        HomeChoice::Auto => auto::pick_home(&machine, &topology, &usable, flag)?,
    };
    let cpus = cpus(&topology, home, &usable)?;
    set_affinity(&machine, home, &cpus, pin)?;
    prefer_memory(&topology, home)
}

/// Returns the CPUs of a home that we may run on.
fn cpus(topology: &Topology, home: NodeId, usable: &Cpumask) -> Result<Cpumask> {
    let Some(node) = topology.nodes.get(&home) else {
        bail!("there is no node {home}; nodes here are {}", topology.node_ids());
    };
    let with_memory = topology.nodes_with_memory();
    if node.cpus.is_empty() {
        bail!(
            "node {home} has memory but no CPUs, so no program is at home there; choose one with \
             CPUs, or give only the memory by numactl --preferred={home}"
        );
    }
    if !with_memory.contains(home) {
        bail!("node {home} has no memory; nodes with memory are {with_memory}");
    }
    let cpus = node.cpus.and(usable);
    if cpus.is_empty() {
        bail!(
            "node {home} has CPUs {}, and this process may run on {usable} only (taskset, \
             cpuset); choose another node, or widen that",
            node.cpus
        );
    }
    Ok(cpus)
}

/// Moves this thread to its CPUs. It is the only thread of this process.
fn set_affinity(machine: &Linux, home: NodeId, cpus: &Cpumask, pin: bool) -> Result<()> {
    let us = std::process::id();
    let process = machine.open_process(Pid::new(us)?)?;
    let placed = if pin { process.pin(us, cpus)? } else { process.nudge(us, cpus)? };
    match placed {
        AffinityOutcome::Done => Ok(()),
        // Another program decides where we run; the kernel would refuse us in the same way.
        _ if pin => bail!("the threads cannot be kept on node {home}: their CPUs were changed"),
        _ => Ok(()),
    }
}

fn prefer_memory(topology: &Topology, home: NodeId) -> Result<()> {
    let set = mempolicy::prefer_memory(home);
    check_policy(set, topology, &format!("memory cannot be wanted on node {home}"))
}

/// Sets the one memory policy that changes nothing but that the kernel's NUMA balancing leaves the
/// program alone.
fn keep_kernel_away() -> Result<()> {
    let topology = Linux::open().topology()?;
    let set = mempolicy::local_memory();
    check_policy(set, &topology, "the kernel's NUMA balancing cannot be kept away")
}

/// Explains why a memory policy could not be set. A kernel without NUMA (CONFIG_NUMA) needs none:
/// it has only one place for memory.
fn check_policy(set: io::Result<()>, topology: &Topology, consequence: &str) -> Result<()> {
    match set {
        Err(error) if error.kind() == ErrorKind::Unsupported && topology.node_ids().len() == 1 => {
            Ok(())
        }
        Err(error) => {
            let need = Confinement::detect(Path::new("/")).remedy(PrivilegedAction::Policy);
            Err(anyhow::Error::new(error).context(format!("{consequence}; {need}")))
        }
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(node: u32, usable: &str) -> String {
        let machine: nodeward_model::Synthetic = "2n 2c 1t 1GiB + 1n 1GiB".parse().unwrap();
        let mut topology = machine.topology();
        topology.nodes.get_mut(&NodeId(1)).unwrap().memory_bytes = Some(0);
        cpus(&topology, NodeId(node), &usable.parse().unwrap()).unwrap_err().to_string()
    }

    /// Goal: a node that cannot be a home is refused, with the reason and the remedy.
    #[test]
    fn homes_that_are_none() {
        assert!(refusal(7, "0-3").contains("no node 7; nodes here are 0-2"), "{}", refusal(7, "0"));
        let no_cpus = refusal(2, "0-3");
        assert!(no_cpus.contains("no CPUs") && no_cpus.contains("--preferred=2"), "{no_cpus}");
        assert!(refusal(1, "0-3").contains("node 1 has no memory; nodes with memory are 0,2"));
        let reach = refusal(0, "2-3");
        assert!(reach.contains("has CPUs 0-1") && reach.contains("run on 2-3 only"), "{reach}");
    }
}

//! The workloads: scenarios, the same as the simulator's. Those of the lab are built in as
//! `lab-NAME`; any other scenario file will do if the lab has what it asks for.
//!
//! The lab's own have two to six threads on two CPUs, in processes that use one CPU each and have
//! or share at least 400 MB: numad ignores smaller ones.

use anyhow::{Context, Result};
use nodeward_lab::LabMachine;
use nodeward_model::GroupSpec;
use nodeward_runner::TaskSpec;
use nodeward_scenario::{BUILT_IN, Scenario, Workload, WorkloadKind};

use crate::stream_tasks::tasks_of;

/// The prefix of the names of the lab's own scenarios.
const PREFIX: &str = "lab-";
/// Memory of a process in those, unless it must be larger than a node, and the passes of those that
/// are like most.
const BYTES: u64 = 512 << 20;
const PASSES: u64 = 24;

/// A workload.
#[derive(Clone, Debug)]
pub struct LabWorkload {
    /// Its name on the command line.
    pub name: String,
    /// The machine and its programs.
    pub scenario: Scenario,
}

/// Returns the names of the lab's own workloads.
pub fn workload_names() -> Vec<&'static str> {
    BUILT_IN.iter().filter_map(|(name, _)| name.strip_prefix(PREFIX)).collect()
}

impl LabWorkload {
    /// Finds a workload of the lab by its name, or else a scenario by its name or path.
    ///
    /// # Errors
    /// If there is none, or it asks for what the lab does not have.
    pub fn find(name: &str) -> Result<Self> {
        let is_own = workload_names().contains(&name);
        let scenario = match is_own {
            true => Scenario::find(&format!("{PREFIX}{name}")),
            false => Scenario::find(name),
        };
        let scenario = scenario.with_context(|| {
            format!("no workload '{name}'; there are {}", workload_names().join(", "))
        })?;
        let workload = Self { name: name.to_owned(), scenario };
        workload.tasks()?;
        LabMachine::of(workload.scenario.clone())?;
        Ok(workload)
    }

    /// Returns the same with `bytes` of memory in place of 512 MiB and `passes` in place of 24, all
    /// others in proportion. What is larger than a node stays so, and makes more or fewer passes.
    #[must_use]
    pub fn scaled(mut self, bytes: u64, passes: u64) -> Self {
        let nodes = self.scenario.machine.nodes.iter();
        let node_bytes = nodes.map(|node| node.memory_bytes).max().unwrap_or(0);
        for workload in &mut self.scenario.workloads {
            scale(workload, node_bytes, (bytes, passes));
        }
        self
    }

    /// Returns the memory of all its processes, in base pages.
    pub fn memory_pages(&self) -> u64 {
        let page_bytes = self.scenario.machine.params.page_bytes;
        let bytes = |it: &Workload| it.mapped_bytes(page_bytes).unwrap_or(u64::MAX);
        self.scenario.workloads.iter().map(|it| bytes(it) / page_bytes).sum()
    }

    /// Returns its groups as a settings file of nodeward; an empty text if it has none.
    pub fn settings(&self) -> String {
        self.scenario.groups.iter().map(settings_of).collect()
    }

    /// Returns its tasks, each counted in a slot of its own.
    ///
    /// # Errors
    /// If it asks for what the lab does not have.
    pub fn tasks(&self) -> Result<Vec<TaskSpec>> {
        let mut tasks = Vec::new();
        for workload in &self.scenario.workloads {
            let of_it = tasks_of(&self.scenario, workload);
            tasks.extend(of_it.with_context(|| format!("workload '{}'", workload.name))?);
        }
        for (slot, task) in (1..).zip(&mut tasks) {
            task.command.extend(["--slot".to_owned(), slot.to_string()]);
        }
        Ok(tasks)
    }
}

fn settings_of(group: &GroupSpec) -> String {
    let GroupSpec { name, home, members, memory } = group;
    let list = |words: Vec<String>| format!("{words:?}");
    let members = list(members.iter().map(ToString::to_string).collect());
    let memory = list(memory.iter().map(ToString::to_string).collect());
    format!("[group.\"{name}\"]\nmatch = {members}\nmemory = {memory}\nhome = \"{home}\"\n")
}

fn scale(workload: &mut Workload, node_bytes: u64, (bytes, passes): (u64, u64)) {
    let mut all = (passes, PASSES);
    match &mut workload.kind {
        WorkloadKind::Compile { lives, .. } => {
            let scaled = (u64::from(*lives) * passes).div_ceil(PASSES);
            *lives = u32::try_from(scaled).unwrap_or(u32::MAX);
        }
        WorkloadKind::Triad { passes: own, .. } => {
            match workload.memory_bytes > node_bytes {
                true => all = (all.0 * bytes, all.1 * BYTES),
                false => workload.memory_bytes = workload.memory_bytes * bytes / BYTES,
            }
            *own = (*own * all.0).div_ceil(all.1).max(1);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(task: &TaskSpec, option: &str) -> u64 {
        let at = task.command.iter().position(|word| word == option).unwrap();
        task.command[at + 1].parse().unwrap()
    }

    /// Goal: every workload has two to six threads, and a number of passes over its memory that
    /// gives the same amount of work.
    #[test]
    fn workloads_are_alike_in_size() {
        assert_eq!(workload_names().len(), 14);
        for name in workload_names().into_iter().filter(|name| *name != "short") {
            let tasks = LabWorkload::find(name).unwrap().scaled(512 << 20, 16).tasks().unwrap();
            let threads: u64 = tasks.iter().map(|task| value(task, "--threads")).sum();
            assert!((2..=6).contains(&threads), "{name}");
            let work = tasks.iter().map(|task| value(task, "--size") * value(task, "--passes"));
            let times = if name == "shared" { 4 } else { 1 };
            // Two processes of 512 MiB, 16 passes: 16 GiB. Passes are whole, so it may be more: by
            // one over 2304 MiB (7.3 are 8, of which a pass more is less than that), or by two
            // thirds of one (5.3 are 6) over six times 512 MiB.
            let (whole, pass) = (16_u64 << 30, 2304_u64 << 20);
            let work = work.sum::<u64>() * times;
            assert!((whole..whole + pass).contains(&work), "{name}: {work}");
        }
    }

    /// Goal: what the lab cannot do is refused with the name of the workload and of the key.
    #[test]
    fn what_only_the_simulator_can_do_is_refused() {
        for (name, told) in [("ping-pong", "kind"), ("balance-2012", "passes"), ("ranks", "pages")]
        {
            let why = format!("{:#}", LabWorkload::find(name).unwrap_err());
            assert!(why.contains("workload '") && why.contains(told), "{name}: {why}");
        }
        let why = format!("{:#}", LabWorkload::find("nowhere").unwrap_err());
        assert!(why.contains("there are crossed, grouped, grouped-shared"), "{why}");
    }
}

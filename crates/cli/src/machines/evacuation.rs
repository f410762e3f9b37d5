//! An evacuation: the nodes that take the memory of others, and the processes with memory there.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use nodeward_machine::{Error, Machine, Process};
use nodeward_model::{NodeId, NodePairs, Nodemask, Pid, ProcessFilter, ProcessIdentity, Topology};
use nodeward_mover::{MoveControl, MoveRequest, PlanReport, plan};
use nodeward_policy::evacuation;

/// The nodes to empty, and where their pages go.
#[derive(Debug)]
pub struct EvacuationRoute {
    /// The nodes to empty.
    pub sources: Nodemask,
    /// The pairs of each pass, the nearest destinations first.
    pub passes: Vec<NodePairs>,
    /// Free pages of each destination; a node that is missing has no limit.
    pub free_pages: BTreeMap<NodeId, u64>,
}

impl EvacuationRoute {
    /// Chooses the destinations: those of `to`, or all others with memory and room.
    ///
    /// # Errors
    /// If no destination is left, or the machine does not tell the room of its nodes.
    pub fn choose(
        machine: &dyn Machine,
        topology: &Topology,
        sources: Nodemask,
        to: Option<Nodemask>,
    ) -> Result<Self, Error> {
        let rooms = machine.headroom()?;
        let free_pages: BTreeMap<_, _> =
            rooms.iter().map(|(&node, room)| (node, room.free_pages)).collect();
        let has_room = |node: &NodeId| free_pages.get(node).is_none_or(|&pages| pages > 0);
        let others = || topology.nodes_with_memory().iter().filter(has_room).collect();
        let passes = evacuation::passes(topology, &sources, &to.unwrap_or_else(others));
        if passes.is_empty() {
            let reason = "no other node has free memory; free some, or name nodes as TO".to_owned();
            return Err(Error::Unsupported { action: "an evacuation", reason });
        }
        Ok(Self { sources, passes, free_pages })
    }
}

/// The processes of a machine, as far as an evacuation is concerned.
#[derive(Default)]
pub struct EvacuatedProcesses {
    /// Those that could be opened, whether they have memory on the nodes or not.
    pub opened: Vec<Arc<dyn Process>>,
    /// Those with memory on the nodes.
    pub residents: Vec<Arc<dyn Process>>,
    /// The identities of `residents`.
    pub identities: Vec<ProcessIdentity>,
    /// The plan for `residents` in the first pass.
    pub plan: PlanReport,
    /// Those of `residents` that may have memory on the nodes only (cpuset).
    pub confined: Vec<Pid>,
    /// Processes that this one may not touch.
    pub denied: u64,
    /// The remedy for the first of `denied`.
    pub remedy: Option<String>,
    /// Processes that ended meanwhile.
    pub ended: u64,
}

impl EvacuatedProcesses {
    /// Returns whether there are processes, and none of them may be touched.
    pub fn are_all_denied(&self) -> bool {
        self.denied > 0 && self.opened.is_empty()
    }

    /// Finds them. Kernel threads and this process are left out. `first_pass` is the request of the
    /// first pass for one process.
    ///
    /// # Errors
    /// If processes cannot be listed, or not be read for another reason than their end or a missing
    /// privilege.
    pub fn find(
        machine: &dyn Machine,
        sources: &Nodemask,
        first_pass: &MoveRequest,
        live: &MoveControl,
    ) -> Result<Self, Error> {
        let snapshot = machine.watch(&ProcessFilter::default())?.snapshot()?;
        let mut found = Self::default();
        for (_, need) in snapshot.denied {
            found.deny(need);
        }
        let others = snapshot.processes.iter().filter(|it| Some(it.pid) != machine.own_pid());
        for process in others.take_while(|_| !live.is_stopped()) {
            let is_confined = process.memory_nodes.without(sources).is_empty();
            match found.examine(machine, process.pid, (sources, first_pass), live) {
                Ok(true) if is_confined => found.confined.push(process.pid),
                Ok(_) => {}
                Err(Error::KernelThread(_)) => {}
                Err(Error::Denied { remedy, .. }) => found.deny(remedy),
                Err(error) if error.is_gone() => found.ended += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Returns those of the processes that set memory policies themselves, of those that still run;
    /// after a stop only those that it has found by then.
    pub fn with_policies(&self, live: &MoveControl) -> Vec<Pid> {
        let has_policy = |process: &&Arc<dyn Process>| {
            let policies = process.memory_policies().unwrap_or_default();
            policies.has_task_policy || !policies.policy_ranges.is_empty()
        };
        let residents = self.residents.iter().take_while(|_| !live.is_stopped());
        residents.filter(has_policy).map(|process| process.pid()).collect()
    }

    /// Opens a process and looks where its memory is. Returns true if some is on the nodes.
    fn examine(
        &mut self,
        machine: &dyn Machine,
        pid: Pid,
        (sources, first_pass): (&Nodemask, &MoveRequest),
        live: &MoveControl,
    ) -> Result<bool, Error> {
        let process = machine.open_process(pid)?;
        let one = [Arc::clone(&process)];
        let look = plan(machine, &one, first_pass, &MoveControl::stopped_with(live))?;
        let is_resident = look.processes.iter().any(|(_, plan)| {
            plan.in_flight > 0 || plan.residency.keys().any(|node| sources.contains(*node))
        });
        if is_resident {
            self.identities.push(process.identity()?);
            self.residents.push(Arc::clone(&process));
            self.plan.processes.extend(look.processes);
        }
        self.opened.push(process);
        Ok(is_resident)
    }

    fn deny(&mut self, remedy: String) {
        self.denied += 1;
        self.remedy.get_or_insert(remedy);
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Liveness;
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{MemoryPolicies, Page};
    use nodeward_mover::Selection;

    use super::*;
    use crate::settings::{MoveLayer, MoveSettings};

    fn pid(number: u32) -> Pid {
        Pid::new(number).unwrap()
    }

    fn on(node: u32) -> FakeProcess {
        FakeProcess::with_pages(&[Page::on(NodeId(node)); 100])
    }

    fn nodes(text: &str) -> Nodemask {
        text.parse().unwrap()
    }

    fn find(machine: &FakeMachine) -> EvacuatedProcesses {
        let topology = machine.topology().unwrap();
        let route = EvacuationRoute::choose(machine, &topology, nodes("1"), None).unwrap();
        let order = nodeward_mover::MoveOrder { pairs: route.passes[0].clone(), pages: None };
        let request = MoveSettings::resolve(MoveLayer::default())
            .request(machine, &topology, vec![[order].into()], Selection::default())
            .unwrap();
        EvacuatedProcesses::find(machine, &nodes("1"), &request, &MoveControl::default()).unwrap()
    }

    /// Goal: a process with memory on the node is found; others are opened only, those that may not
    /// be touched are counted with the remedy, and this process is left out.
    #[test]
    fn processes_are_told_apart() {
        let machine = FakeMachine::new(true).with_own_pid(pid(9));
        machine.spawn(pid(1), on(1));
        machine.spawn(pid(2), on(0));
        machine.spawn(pid(3), FakeProcess { denied: Some("be root".to_owned()), ..on(1) });
        machine.spawn(pid(9), on(1));
        let found = find(&machine);
        let pids = |of: &[Arc<dyn Process>]| of.iter().map(|it| it.pid()).collect::<Vec<_>>();
        assert_eq!(
            (pids(&found.residents), pids(&found.opened)),
            (vec![pid(1)], vec![pid(1), pid(2)])
        );
        assert_eq!((found.denied, found.remedy.as_deref()), (1, Some("be root")));
        assert_eq!(found.identities.len(), 1);
        assert_eq!(found.plan.processes[0].1.pages(), 100);
    }

    /// Goal: a process whose cpuset has no other node, and one with memory policies, are named.
    #[test]
    fn bound_processes_are_named() {
        let machine = FakeMachine::new(true);
        machine.spawn(pid(1), FakeProcess { forbidden_nodes: [NodeId(0)].into(), ..on(1) });
        let memory_policies = MemoryPolicies { has_task_policy: true, ..MemoryPolicies::default() };
        machine.spawn(pid(2), FakeProcess { memory_policies, ..on(1) });
        machine.spawn(pid(3), on(1));
        let found = find(&machine);
        assert_eq!(
            (found.confined.as_slice(), found.with_policies(&MoveControl::default())),
            (&[pid(1)][..], vec![pid(2)])
        );
    }

    /// Goal: a process that has ended is not missed, and no error.
    #[test]
    fn an_ended_process_is_no_error() {
        let machine = FakeMachine::new(true);
        machine.spawn(pid(1), on(1));
        machine.spawn(pid(2), FakeProcess { end_at_call: Some((0, Liveness::Exited)), ..on(1) });
        assert_eq!(find(&machine).residents.len(), 1);
    }

    /// Goal: a full node is no destination unless it is named, and without any the evacuation is
    /// refused.
    #[test]
    fn full_nodes_take_nothing() {
        let machine = FakeMachine::with_topology(true, "3n 1c 1t 1GiB");
        let free_pages = [(NodeId(0), 0), (NodeId(2), 7)].into();
        machine.spawn(pid(1), FakeProcess { free_pages, ..on(1) });
        let topology = machine.topology().unwrap();
        let choose = |from: &str, to: Option<&str>| {
            EvacuationRoute::choose(&machine, &topology, nodes(from), to.map(nodes))
        };
        let route = choose("1", None).unwrap();
        assert_eq!(route.passes.len(), 1);
        assert_eq!(route.passes[0].destination(NodeId(1)), Some(NodeId(2)));
        assert_eq!(choose("1", Some("0,2")).unwrap().passes.len(), 2);
        assert!(matches!(choose("1-2", None), Err(Error::Unsupported { .. })));
    }
}

//! The conformance tests that every machine must pass, on the simulated one.

use crate::common::{bound, machine, scenario, triad, workload};
use nodeward_machine::Machine;
use nodeward_machine::conformance::conditions::{
    CannotPrepare, Condition, PreparedProcess, ProcessPreparer,
};
use nodeward_machine::conformance::thread_records::{self, ThreadRecordFixture};
use nodeward_machine::conformance::{ALL, MoveFixture, conditions, segments, watch};
use nodeward_model::{NodeId, Pid, Range};
use nodeward_scenario::{AccessPattern, MemoryPlacement, Workload, WorkloadKind};
use nodeward_sim::SimMachine;

/// A process of 4 MiB on node 0 of two, fully populated.
struct Simulated {
    machine: SimMachine,
    pid: Pid,
    range: Range,
    held: Vec<u64>,
}

fn simulated() -> Simulated {
    let scenario = scenario(machine(2, 2, 1), bound(triad(1, 4), "0"));
    let machine = SimMachine::new(&scenario, 1);
    machine.run_until_populated(1_000_000_000);
    let pid = machine.processes()[0].pid;
    let range = machine.open_process(pid).unwrap().mappings().unwrap()[0].range;
    Simulated { machine, pid, range, held: Vec::new() }
}

impl PreparedProcess for Simulated {
    fn fixture(&self) -> MoveFixture<'_> {
        let (home, away) = (NodeId(0), NodeId(1));
        MoveFixture {
            machine: &self.machine,
            pid: self.pid,
            range: self.range,
            source: home,
            destination: away,
        }
    }

    fn pinned_addresses(&self) -> Vec<u64> {
        self.held.clone()
    }

    /// In the middle of the third move: 1024 pages take more than 100 us, and 60 us a call.
    fn exit_soon(&self) {
        let began_ns = self.machine.now_ns();
        assert!(self.machine.kill_at(self.pid, began_ns + 2_500_000));
    }
}

struct SimScenes;

impl ProcessPreparer for SimScenes {
    fn prepare(&self, state: Condition) -> Result<Box<dyn PreparedProcess + '_>, CannotPrepare> {
        let mut scene = simulated();
        let (machine, pid) = (&scene.machine, scene.pid);
        match state {
            Condition::Pinned => {
                scene.held = [3, 500, 501, 1000].map(|page| scene.range.start + page * 4096).into();
                assert!(scene.held.iter().all(|&address| machine.pin(pid, address)));
            }
            Condition::Shared => assert!(machine.mark_shared(pid)),
            Condition::Huge => assert_eq!(machine.make_huge(pid), 2), // 4 MiB
            Condition::NodeNearlyFull => machine.limit_free_pages(NodeId(1), 1000), // of 1024
            Condition::Exiting => {}
        }
        Ok(Box::new(scene))
    }
}

/// Goal: the simulated machine behaves like the kernel.
#[test]
fn the_simulated_machine_conforms() {
    let scene = simulated();
    for (name, body) in ALL {
        println!("{name}");
        body(&scene.fixture());
    }
}

/// Goal: processes can be watched, and threads nudged and pinned, as on the kernel.
#[test]
fn it_is_watched_as_the_kernel_is() {
    let busy = SimMachine::new(&scenario(machine(2, 2, 1), triad(6, 4)), 1);
    busy.run_until_populated(1_000_000_000);
    let process = &busy.processes()[0];
    let (pid, name) = (process.pid, process.name.as_str().into());
    let sets = watch::two_cpu_sets(&busy).unwrap();
    let stage = watch::WatchFixture {
        machine: &busy,
        pid,
        name,
        busy_tid: pid.number(),
        cpu_sets: sets,
        non_file_bytes_min: 4 << 20,
    };
    for (name, body) in watch::ALL {
        println!("{name}");
        body(&stage);
    }
}

/// Goal: two processes that share a segment see one and the same, and what one moves moves for
/// both, as on the kernel.
#[test]
fn segments_are_those_of_the_kernel() {
    let kind = WorkloadKind::Database {
        access: AccessPattern { parallel_milli: 4000, compute_ps: 2000, writes_milli: 300 },
        segment_bytes: 4 << 20,
        segment_placement: MemoryPlacement::PopulatedOn("0".parse().unwrap()),
        segment_milli: 800,
        own_part_milli: 0,
    };
    let backends = Workload { processes: 2, populated: true, ..workload(kind, 1, 4) };
    let machine = SimMachine::new(&scenario(machine(2, 2, 1), backends), 1);
    let pids = [0, 1].map(|number| machine.processes()[number].pid);
    for (name, body) in segments::ALL {
        println!("{name}");
        body(&segments::SegmentFixture {
            machine: &machine,
            pids,
            source: NodeId(0),
            destination: Some(NodeId(1)),
        });
    }
    assert_eq!(machine.inspect(nodeward_sim::World::check_pages), Ok(()));
}

/// Goal: it conforms in every state of pages, nodes and processes.
#[test]
fn it_conforms_in_every_state() {
    for (name, body) in conditions::ALL {
        println!("{name}");
        assert_eq!(body(&SimScenes), Ok(()));
    }
}

/// Goal: who starts which thread is told as on the kernel.
#[test]
fn records_of_threads_conform() {
    let scene = simulated();
    let (machine, starter) = (&scene.machine, scene.pid.number());
    let fixture = ThreadRecordFixture {
        machine,
        pid: scene.pid,
        starter,
        start_chain: &|| {
            let one = machine.start_thread(scene.pid, starter, 1_000_000).unwrap();
            let two = machine.start_thread(scene.pid, one, 1_000_000).unwrap();
            [one, two]
        },
    };
    for (name, body) in thread_records::ALL {
        println!("{name}");
        body(&fixture);
    }
}

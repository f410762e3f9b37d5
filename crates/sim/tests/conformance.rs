//! The conformance tests that every machine must pass, on the simulated one.

mod common;

use common::{bound, machine, scenario, triad};
use nodeward_machine::Machine;
use nodeward_machine::conformance::scenes::{Cannot, Scene, Scenes, State};
use nodeward_machine::conformance::{ALL, Stage, scenes, watching};
use nodeward_model::{NodeId, Pid, Range};
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
    let range = machine.hold(pid).unwrap().mappings().unwrap()[0].range;
    Simulated { machine, pid, range, held: Vec::new() }
}

impl Scene for Simulated {
    fn stage(&self) -> Stage<'_> {
        let (home, away) = (NodeId(0), NodeId(1));
        Stage { machine: &self.machine, pid: self.pid, range: self.range, home, away }
    }

    fn held(&self) -> Vec<u64> {
        self.held.clone()
    }

    /// In the middle of the third move: 1024 pages take more than 100 us, and 60 us a call.
    fn end_soon(&self) {
        let began_ns = self.machine.now_ns();
        assert!(self.machine.end_at(self.pid, began_ns + 2_500_000));
    }
}

struct SimScenes;

impl Scenes for SimScenes {
    fn set(&self, state: State) -> Result<Box<dyn Scene + '_>, Cannot> {
        let mut scene = simulated();
        let (machine, pid) = (&scene.machine, scene.pid);
        match state {
            State::Pinned => {
                scene.held = [3, 500, 501, 1000].map(|page| scene.range.start + page * 4096).into();
                assert!(scene.held.iter().all(|&address| machine.pin(pid, address)));
            }
            State::Shared => assert!(machine.share(pid)),
            State::Huge => assert_eq!(machine.make_huge(pid), 2), // 4 MiB
            State::Crowded => machine.leave_free(NodeId(1), 1000), // of 1024
            State::Mortal => {}
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
        body(&scene.stage());
    }
}

/// Goal: processes can be watched, and threads nudged and pinned, as on the kernel.
#[test]
fn it_is_watched_as_the_kernel_is() {
    let busy = SimMachine::new(&scenario(machine(2, 2, 1), triad(6, 4)), 1);
    busy.run_until_populated(1_000_000_000);
    let process = &busy.processes()[0];
    let (pid, name) = (process.pid, process.name.as_str().into());
    let sets = watching::two_sets(&busy).unwrap();
    let stage = watching::Stage {
        machine: &busy,
        pid,
        name,
        busy: pid.number(),
        sets,
        own_bytes_min: 4 << 20,
    };
    for (name, body) in watching::ALL {
        println!("{name}");
        body(&stage);
    }
}

/// Goal: it conforms in every state of pages, nodes and processes.
#[test]
fn it_conforms_in_every_state() {
    for (name, body) in scenes::ALL {
        println!("{name}");
        assert_eq!(body(&SimScenes), Ok(()));
    }
}
